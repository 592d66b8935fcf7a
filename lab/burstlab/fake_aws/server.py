"""The HTTP server: real AWS clients in front, the simulated fleet behind, moto for everything else."""

import os
import socket
import struct
import sys
import uuid
from collections.abc import Iterable, Mapping
from email.utils import formatdate
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

from werkzeug.serving import BaseWSGIServer, ThreadedWSGIServer, WSGIRequestHandler

from burstlab.fake_aws.background_server import BackgroundServer
from burstlab.fake_aws.cloudwatch.api import CloudWatchApi
from burstlab.fake_aws.control_api import CONTROL_PATH, ControlApi
from burstlab.fake_aws.dynamodb import DynamoDbApi
from burstlab.fake_aws.ec2.api import Ec2Api
from burstlab.fake_aws.efs import EfsApi
from burstlab.fake_aws.event_bus import EventBus
from burstlab.fake_aws.faults import Fault, FaultRegistry
from burstlab.fake_aws.iam_sts import AccountApi
from burstlab.fake_aws.price_list import PriceListApi
from burstlab.fake_aws.protocols import Call, Response, error_response, read_call
from burstlab.fake_aws.rds import RdsApi
from burstlab.fake_aws.request_throttle import RequestThrottle
from burstlab.fake_aws.ssm import ParameterStore
from burstlab.model.aws_error import AwsError
from burstlab.model.fleet import LabFleet
from burstwatch.core.errors import BurstwatchError

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

ACCESS_KEY: Final = "burstlab"
_MAX_HANG_S: Final = 300  # longer than any client's read time-out
_BACKLOG: Final = 128  # a fleet's readers connect all at once
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


class EndpointError(BurstwatchError):
    """The endpoint cannot be started or used; the message says what would do."""


class Endpoint(BackgroundServer[BaseWSGIServer]):
    """An AWS endpoint on the loopback interface; start it with ``with``, or ``start`` and ``stop``.

    ``throttle`` are EC2's request limits, off until they are turned on. ``parameters`` is its SSM Parameter
    Store, ``prices`` its Price List, ``account`` what IAM and Service Quotas say of it, ``tables`` are its
    DynamoDB tables by name. Tables that are not there, and every other
    service, are moto's.
    """

    def __init__(self, fleet: LabFleet, *, host: str = "127.0.0.1", port: int = 0) -> None:
        super().__init__()
        self.fleet = fleet
        self.clock = fleet.clock
        self.faults = FaultRegistry()
        self.throttle = RequestThrottle(fleet.clock.now_s)
        self._address = (host, port)
        self.parameters = ParameterStore(fleet.clock)
        self.prices = PriceListApi()
        self.account = AccountApi(fleet.settings.account_id)
        self._event_bus = EventBus(fleet)
        self._dynamodb = DynamoDbApi()
        self._cloudwatch = CloudWatchApi(fleet)
        self.tables = self._dynamodb.tables
        self._apis: dict[
            str,
            AccountApi
            | Ec2Api
            | EfsApi
            | RdsApi
            | CloudWatchApi
            | DynamoDbApi
            | ParameterStore
            | PriceListApi,
        ] = {
            "ec2": Ec2Api(fleet, self.account.sessions),
            "elasticfilesystem": EfsApi(fleet),
            "rds": RdsApi(fleet),
            "monitoring": self._cloudwatch,
            "dynamodb": self._dynamodb,
            "ssm": self.parameters,
            "pricing": self.prices,
            "iam": self.account,
            "sts": self.account,
            "servicequotas": self.account,
        }
        self._control = ControlApi(fleet, self.faults)

    @property
    def url(self) -> str:
        if self._server is None:
            raise EndpointError("the endpoint is not running: use it in a with statement, or call start")
        return f"http://{self._server.host}:{self._server.port}"

    @property
    def metrics_requested(self) -> int:
        """How many metrics were requested, as AWS bills them."""
        return self._cloudwatch.metrics_requested

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to take this for AWS."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": ACCESS_KEY,
            "AWS_DEFAULT_REGION": self.fleet.settings.region,
            "AWS_REGION": self.fleet.settings.region,
            "BURSTWATCH_CLOCK": "endpoint",
        }

    def client(self, service: str, **options: Any) -> Any:
        """A boto3 client of this endpoint."""
        import boto3  # noqa: PLC0415 - the server itself needs none

        return boto3.client(
            service,  # type: ignore[call-overload]
            endpoint_url=self.url,
            region_name=self.fleet.settings.region,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=ACCESS_KEY,
            **options,
        )

    def _make_server(self) -> BaseWSGIServer:
        return _Server(*self._address, self)

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Answer one request (WSGI)."""
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        if environ["PATH_INFO"].startswith(CONTROL_PATH):
            return self._send(self._control.handle(environ, body), start_response)
        if environ["REQUEST_METHOD"] == "HEAD":
            return self._send(Response(body=b"", content_type="text/plain"), start_response)
        call = read_call(environ, body)
        fault = self.faults.next_fault(call)
        if fault is None and not self.throttle.try_acquire(call):
            fault = Fault(kind="throttle")
        self._stop_requested.wait(self.faults.latency_s(call.action))
        if fault is None:
            return self._handle(call, environ, body, start_response)
        if fault.after_effect:
            b"".join(self._handle(call, environ, body, _discard_response))
        return self._apply_fault(fault, call, environ, start_response)

    def _handle(
        self, call: Call, environ: "WSGIEnvironment", body: bytes, start_response: "StartResponse"
    ) -> Iterable[bytes]:
        response = self._own_response(call)
        if response is None:
            environ["wsgi.input"] = BytesIO(body)
            try:
                moto_response: Iterable[bytes] = _moto_application()(environ, start_response)
            except ImportError:  # moto needs a package of this service that is not installed
                message = f"The lab does not simulate {call.service or 'this service'}."
                response = error_response(call, AwsError("NotImplemented", message, 501))
            else:
                return moto_response
        return self._send(response, start_response)

    def _own_response(self, call: Call) -> Response | None:
        """The lab's own answer, or None if moto is to answer."""
        if call.region and call.region not in _known_regions():
            message = f"Credential should be scoped to a valid Region, not {call.region!r}."
            return error_response(call, AwsError("AuthFailure", message, 401))
        if call.service == "sqs":
            self._event_bus.deliver()
        api = self._apis.get(call.service)
        if api is None or not api.handles(call):
            return None
        try:
            return api.handle(call)
        except AwsError as error:
            return error_response(call, error)

    def _apply_fault(
        self, fault: Fault, call: Call, environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> Iterable[bytes]:
        if fault.kind in ("error", "throttle"):
            return self._send(error_response(call, fault.to_error(call)), start_response)
        if fault.kind == "timeout":
            self._stop_requested.wait(_MAX_HANG_S)
        connection: socket.socket = environ["werkzeug.socket"]
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        raise ConnectionAbortedError(f"{call.action}: connection broken on request")

    def _send(self, response: Response, start_response: "StartResponse") -> list[bytes]:
        headers = {
            "Content-Type": response.content_type,
            "Content-Length": str(len(response.body)),
            "x-amzn-RequestId": str(uuid.uuid4()),
            **response.headers,
        }
        start_response(f"{response.status} {_REASONS.get(response.status, 'Error')}", list(headers.items()))
        return [response.body]


def _discard_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None, /) -> Any:
    """Begin a response that is not received."""


_REASONS: Final[Mapping[int, str]] = {
    200: "OK",
    400: "Bad Request",
    202: "Accepted",
    404: "Not Found",
    503: "Service Unavailable",
}


@cache
def _known_regions() -> frozenset[str]:
    from botocore.session import Session  # noqa: PLC0415 - not needed until the first call

    session = Session()
    partitions = session.get_available_partitions()
    return frozenset(r for name in partitions for r in session.get_available_regions("ec2", name))


@cache
def _moto_application() -> Any:
    """Moto's server application, imported when the first call falls through to it.

    All endpoints of a process share one, because moto keeps its state by account for the process anyway.
    """
    os.environ.setdefault("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")  # slow to load, and no volume needs an image
    from moto.moto_server.werkzeug_app import (  # noqa: PLC0415 - half a second, often not needed
        DomainDispatcherApplication,
        create_backend_app,
    )

    application = DomainDispatcherApplication(create_backend_app)
    # moto searches its folders at each request, although the service of a host does not change
    application.get_backend_for_host = cache(application.get_backend_for_host)
    return application


class _RequestHandler(WSGIRequestHandler):
    """Logs no requests, keeps connections open as AWS does, and holds no small answer back."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: "_Server"

    def date_time_string(self, timestamp: float | None = None) -> str:
        """The Date header has the lab's time, as AWS's has the present time."""
        return formatdate(self.server.clock.now_s() if timestamp is None else timestamp, usegmt=True)

    def run_wsgi(self) -> None:
        """Answer one request and leave the connection open, which werkzeug's own method never does."""
        environ = self.make_environ()
        status, headers = "", list[tuple[str, str]]()

        def start_response(
            new_status: str, new_headers: list[tuple[str, str]], _exc_info: Any = None, /
        ) -> Any:
            nonlocal status, headers
            status, headers = new_status, new_headers

        try:
            body = b"".join(self.server.app(environ, start_response))
            code, _, reason = status.partition(" ")
            self.send_response(int(code), reason)
            for name, value in headers:
                if name.lower() != "content-length":
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)
        except (ConnectionError, TimeoutError) as error:
            self.connection_dropped(error, environ)

    def connection_dropped(self, error: BaseException, environ: "WSGIEnvironment | None" = None) -> None:  # noqa: ARG002
        """The client is gone, or is meant to be: read no further."""
        self.close_connection = True

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002 - werkzeug's name for it
        if type == "error":
            super().log(type, message, *args)


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), backlog=_BACKLOG)
    except OSError as error:
        raise EndpointError(
            f"{host}:{port} cannot be listened on ({error.strerror}): choose another port, or 0"
        ) from error


class _Server(ThreadedWSGIServer):
    """Remembers its connections, so that stopping leaves none open."""

    def __init__(self, host: str, port: int, application: Endpoint) -> None:
        self.clock = application.clock
        self._connections: set[socket.socket] = set()
        with _listen(host, port) as listener:
            super().__init__(host, port, application, handler=_RequestHandler, fd=listener.fileno())

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        self._connections.add(connection)
        return connection, address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print errors, but not that a client is gone, or that stopping closed its connection."""
        if request in self._connections and not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        if request.fileno() != -1 and any(request.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8)):
            self.close_request(request)  # closed at once, without the usual farewell, it is reset
        else:
            super().shutdown_request(request)

    def server_close(self) -> None:
        super().server_close()
        for connection in list(self._connections):
            self.shutdown_request(connection)
