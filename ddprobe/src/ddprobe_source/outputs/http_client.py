"""HTTP, with modules that are imported at the start."""

from __future__ import annotations

import errno
import time
from typing import Any

from ddprobe_source.judgement.record import UsageError
from ddprobe_source.judgement.text import is_port, sanitise


class HttpClient:
    """HTTP with modules imported at the start: later they might have to come from the sick disk."""

    def __init__(self, *, secure: bool) -> None:
        import hashlib
        import hmac
        import json
        import socket

        self.hashlib, self.hmac, self.json, self._socket = hashlib, hmac, json, socket
        self._tls: ssl.SSLContext | None = None
        if secure:
            import ssl

            self._tls = ssl.create_default_context()

    def request(
        self, method: str, url: str, headers: dict[str, str], body: bytes = b"", within_s: float = 5.0
    ) -> tuple[int, bytes]:
        """Send one request; give the status and the body."""
        scheme, name, port, path = split_url(url)
        host: Any = name.encode()  # as bytes, or the codec for international names is read now
        until_s = time.monotonic() + within_s
        with self._socket.create_connection((host, port), within_s) as plain_socket:
            connection = plain_socket
            if scheme == "https":
                assert self._tls is not None
                connection = self._tls.wrap_socket(plain_socket, server_hostname=host)
            lines = [f"{method} {path} HTTP/1.1", f"host: {host_header(url)}", "connection: close"]
            lines += [f"{name}: {value}" for name, value in headers.items() if name != "host"]
            lines += [f"content-length: {len(body)}", "", ""]
            connection.sendall("\r\n".join(lines).encode() + body)
            raw = b""
            while len(raw) < 262144:  # noqa: PLR2004 - no answer of theirs is longer
                connection.settimeout(max(0.01, until_s - time.monotonic()))
                chunk = connection.recv(65536)
                if not chunk:
                    break
                raw += chunk
        return parse_answer(raw)


def split_url(url: str) -> tuple[str, str, int, str]:
    """Take an address apart; raises UsageError for what is none."""
    scheme, _, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    host, colon, port = place.rpartition(":") if is_port(place.rpartition(":")[2]) else (place, "", "")
    if scheme not in ("http", "https") or not host.strip("[]"):
        raise UsageError(
            f"{sanitise(url, 120)} is not a valid address; write http://HOST:PORT or https://HOST"
        )
    default = 443 if scheme == "https" else 80
    return scheme, host.strip("[]"), int(port) if colon else default, slash + path or "/"


def host_header(url: str) -> str:
    """Host as it is sent, and signed."""
    return url.partition("://")[2].partition("/")[0]


def parse_answer(raw: bytes) -> tuple[int, bytes]:
    """Status and body of an HTTP/1.1 answer that was read to its end."""
    head, _, body = raw.partition(b"\r\n\r\n")
    fields = head.split(b" ", 2)
    if len(fields) < 2 or not fields[1].isdigit() or len(fields[1]) > 3:  # noqa: PLR2004 - version and status
        raise OSError(errno.EPROTO, "the answer is not HTTP")
    if b"transfer-encoding: chunked" in head.lower():
        body = _dechunk(body)
    return int(fields[1]), body


def _dechunk(raw: bytes) -> bytes:
    body, at = bytearray(), 0
    while at < len(raw):
        end = raw.find(b"\r\n", at)
        end = len(raw) if end < 0 else end
        digits = raw[at:end].split(b";")[0].strip() or b"0"
        if digits.strip(b"0123456789abcdefABCDEF") or len(digits) > 16:  # noqa: PLR2004 - 64 bits
            raise OSError(errno.EPROTO, "the answer's chunks have no length")
        length = int(digits, 16)
        if not length:
            break
        body += raw[end + 2 : end + 2 + length]
        at = end + 2 + length + 2
    return bytes(body)
