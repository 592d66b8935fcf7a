"""Clients of an AWS in this process; they take long to make, so each is made once for all tests."""

from contextlib import contextmanager
from functools import cache

import botocore.session
from botocore.config import Config
from botocore.exceptions import ClientError

KEYS = {"aws_access_key_id": "AKIA", "aws_secret_access_key": "secret", "region_name": "us-east-1"}
ONCE = Config(retries={"total_max_attempts": 1})


@cache
def stubbed_client(service):
    return botocore.session.Session().create_client(service, config=ONCE, **KEYS)


@contextmanager
def refuse_next_call(client, *operations, code="AccessDeniedException", message="not authorized"):
    """Let AWS refuse these inside the ``with`` block."""

    def refuse(model, **_):
        raise ClientError({"Error": {"Code": code, "Message": message}}, model.name)

    service = client.meta.service_model.service_id.hyphenize()
    names = [f"before-call.{service}.{operation}" for operation in operations]
    for name in names:
        client.meta.events.register(name, refuse)
    try:
        yield
    finally:
        for name in names:
            client.meta.events.unregister(name, refuse)
