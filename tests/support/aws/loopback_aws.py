"""An AWS of a few lines on the loopback interface, for what only a real connection shows."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import botocore.session
from botocore.config import Config


@dataclass(frozen=True)
class CannedResponse:
    """``date`` takes the place of the server's own Date header."""

    body: bytes
    status: int = 200
    content_type: str = "text/xml"
    date: str | None = None


@dataclass
class LoopbackAws:
    """Answers the n-th request with ``answer(n, body)``, counted from 0."""

    respond: Callable[[int, bytes], CannedResponse]
    url: str = ""
    bodies: list[bytes] = field(default_factory=list)

    def client(self, service, *, attempts=1, session=None, **config):
        return (session or botocore.session.Session()).create_client(
            service,
            region_name="us-east-1",
            endpoint_url=self.url,
            aws_access_key_id="AKIAIOSFODNN7EXAMPLE",
            aws_secret_access_key="wJalrXUtnFEMIsecret",
            config=Config(retries={"mode": "standard", "total_max_attempts": attempts}, **config),
        )


@contextmanager
def loopback_aws(answer: Callable[[int, bytes], CannedResponse]) -> Iterator[LoopbackAws]:
    aws = LoopbackAws(answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            aws.bodies.append(body)
            answer = aws.respond(len(aws.bodies) - 1, body)
            self.send_response_only(answer.status)
            if answer.date or answer.date is None:
                self.send_header("Date", answer.date or self.date_time_string())
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        aws.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield aws
        finally:
            server.shutdown()
            thread.join()


def ec2_error(code: str, message: str, status: int = 400, date: str | None = None) -> CannedResponse:
    body = (
        f"<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors>"
        "<RequestID>r-1</RequestID></Response>"
    )
    return CannedResponse(body.encode(), status=status, date=date)


def no_volumes() -> CannedResponse:
    return CannedResponse(b"<DescribeVolumesResponse><volumeSet/></DescribeVolumesResponse>")


def json_answer(value, status: int = 200) -> CannedResponse:
    """What CloudWatch answers: botocore speaks JSON to it, of the protocols both know."""
    return CannedResponse(
        json.dumps(value).encode(), status=status, content_type="application/x-amz-json-1.0"
    )
