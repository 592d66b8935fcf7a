"""The modules that the forkserver of the worker processes imports in advance; nothing else imports this.

To import it is to read AWS's models and what a watch imports late: most of the time that a start takes.
"""

from typing import Final

import botocore.session
from botocore.loaders import Loader

from burstlab.concurrency import worker
from burstwatch.adapters.ledger import dynamodb, sqlite
from burstwatch.adapters.policy import yaml_file

__all__ = ["dynamodb", "sqlite", "worker", "yaml_file"]

_SERVICES: Final = ("ec2", "cloudwatch", "dynamodb", "sts")

_loader: Final = Loader()
_session: Final = botocore.session.Session()
_session.register_component("data_loader", _loader)
for _service in _SERVICES:
    _session.create_client(
        _service,
        region_name="us-east-1",
        aws_access_key_id="none",
        aws_secret_access_key="none",  # noqa: S106
    )
setattr(botocore.session, "create_loader", lambda _path=None: _loader)  # noqa: B010 - of each session to come
