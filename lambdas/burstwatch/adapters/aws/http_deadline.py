"""HTTP responses that must be complete by a deadline, however slowly they are sent.

The timeout of a socket starts again with every byte. So a server that sends one byte every few seconds, or
``100 Continue`` again and again, can block its caller without end. Here the remaining time is set as the
timeout before each read, so no thread is needed.
"""

import socket
from contextlib import suppress
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from io import BufferedReader, RawIOBase
from time import monotonic
from typing import Any, cast
from urllib.request import HTTPHandler, HTTPSHandler, Request

from botocore.awsrequest import AWSHTTPConnection, AWSHTTPSConnection


class TimedResponse(HTTPResponse):
    """A response whose status, headers and body must all arrive within the timeout of its socket."""

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        raw = cast("socket.SocketIO", self.fp.detach())
        self.fp = BufferedReader(_TimedReader(raw, sock))


class _TimedReader(RawIOBase):
    """Reads from a socket until its timeout, counted from the creation of the reader, is over."""

    def __init__(self, raw: socket.SocketIO, sock: socket.socket) -> None:
        self._raw = raw
        self._sock = sock
        self._timeout_s = sock.gettimeout()
        self._deadline_s = None if self._timeout_s is None else monotonic() + self._timeout_s

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._raw.fileno()

    def readinto(self, buffer: Any, /) -> int | None:
        if self._deadline_s is not None:
            self._sock.settimeout(_remaining_s(self._deadline_s))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        """Give a connection that is kept alive its original timeout back."""
        if not self.closed:
            with suppress(OSError):
                self._sock.settimeout(self._timeout_s)
            self._raw.close()
        super().close()


def limit_response_time() -> None:
    """Make the read timeout of every client of botocore the limit of the whole response.

    It is set on botocore's own connection classes, because botocore builds clients of its own for credentials
    (STS, SSO, instance metadata), which hooks on our clients do not reach.
    """
    for connection_class in (AWSHTTPConnection, AWSHTTPSConnection):
        connection_class.response_class = TimedResponse  # type: ignore[assignment]


class _TimedConnection(HTTPConnection):
    """A connection for one exchange: connect, proxy, TLS and response share its timeout.

    Only the lookup of the name is not limited by it: the resolver has time limits of its own.
    """

    response_class = TimedResponse

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadline_s = monotonic() + float(cast("float", self.timeout))
        self._create_connection = self._connect_before_deadline

    def connect(self) -> None:
        super().connect()
        self.sock.settimeout(_remaining_s(self._deadline_s))

    def getresponse(self) -> HTTPResponse:
        self.sock.settimeout(_remaining_s(self._deadline_s))
        return super().getresponse()

    def _connect_before_deadline(self, address: tuple[str, int], *_: object) -> socket.socket:
        """Try the addresses in turn; ``socket.create_connection`` would give each of them the whole time."""
        host, port = address
        last_error: OSError = OSError(f"{host} has no address")
        for *_kind, socket_address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            remaining_s = _remaining_s(self._deadline_s)
            try:
                return socket.create_connection((str(socket_address[0]), port), remaining_s)
            except OSError as error:
                last_error = error
        raise last_error


class _TimedTlsConnection(HTTPSConnection, _TimedConnection):
    """The same with TLS; its handshake has the time that remains after connecting."""


class TimedHttpHandler(HTTPHandler):
    """Opens http:// addresses; the timeout of a request limits the whole exchange."""

    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_TimedConnection, req)


class TimedHttpsHandler(HTTPSHandler):
    """The same for https:// addresses."""

    def https_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_TimedTlsConnection, req)


def _remaining_s(deadline_s: float) -> float:
    remaining_s = deadline_s - monotonic()
    if remaining_s <= 0:
        raise TimeoutError("timed out")
    return remaining_s
