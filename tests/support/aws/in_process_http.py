"""Calls to a lab endpoint of the same process without a socket.

Most functional tests run the code under test and the lab's endpoint in one process. To pass each request and
response over a socket between two threads costs a third of their time. botocore still builds every
request and parses every response; only the transport is left out. An endpoint on which a test set a latency,
or a fault that breaks or delays a connection, is called over HTTP, because those are about connections and
time. So is an endpoint in another process, and every server that is not the lab's.
"""

import sys
from email.utils import formatdate
from io import BytesIO
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.httpsession import URLLib3Session

from burstlab.fake_aws.server import Endpoint

CONNECTION_FAULTS = ("reset", "timeout")


def call_lab_in_process(patch: pytest.MonkeyPatch) -> None:
    """Patch botocore's HTTP session and the lab's endpoint, which says where it can be reached."""
    endpoints = dict[str, Endpoint]()
    start, stop, send_over_http = Endpoint.start, Endpoint.stop, URLLib3Session.send

    def start_and_register(endpoint: Endpoint) -> str:
        url = start(endpoint)
        endpoints[urlsplit(url).netloc] = endpoint
        return url

    def unregister_and_stop(endpoint: Endpoint) -> None:
        for netloc in [netloc for netloc, known in endpoints.items() if known is endpoint]:
            del endpoints[netloc]
        stop(endpoint)

    def send(session: URLLib3Session, request: AWSPreparedRequest) -> AWSResponse:
        endpoint = endpoints.get(urlsplit(request.url).netloc)
        if endpoint is None or _needs_connection(endpoint):
            return send_over_http(session, request)
        return _call(endpoint, request)

    patch.setattr(Endpoint, "start", start_and_register)
    patch.setattr(Endpoint, "stop", unregister_and_stop)
    patch.setattr(URLLib3Session, "send", send)


def _needs_connection(endpoint: Endpoint) -> bool:
    faults = endpoint.faults
    return bool(faults._latency_ms) or any(fault.kind in CONNECTION_FAULTS for fault in faults._faults)


def _call(endpoint: Endpoint, request: AWSPreparedRequest) -> AWSResponse:
    answered = dict[str, Any]()

    def start_response(status: str, headers: list[tuple[str, str]], _exc_info: Any = None, /) -> Any:
        answered.update(status=int(status.partition(" ")[0]), headers=dict(headers))

    body = b"".join(endpoint(_environ(request), start_response))
    headers = {**answered["headers"], "Date": formatdate(endpoint.clock.now_s(), usegmt=True)}
    response = AWSResponse(request.url, answered["status"], headers, None)
    response._content = body
    return response


def _environ(request: AWSPreparedRequest) -> dict[str, Any]:
    """The request as WSGI describes it."""
    parts = urlsplit(request.url)
    body = request.body or b""
    if not isinstance(body, bytes):
        body = body.encode() if isinstance(body, str) else body.read()
    environ = {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote(parts.path) or "/",
        "QUERY_STRING": parts.query,
        "REQUEST_URI": parts.path,
        "RAW_URI": parts.path,
        "REMOTE_ADDR": "127.0.0.1",
        "SERVER_NAME": parts.hostname,
        "SERVER_PORT": str(parts.port),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_HOST": parts.netloc,
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for name, value in request.headers.items():
        key = name.upper().replace("-", "_")
        text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
        environ[key if key == "CONTENT_TYPE" else f"HTTP_{key}"] = text
    return environ
