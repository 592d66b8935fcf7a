"""What CloudFormation and Lambda say of a deployed stack, on loopback; the rest of it is the lab's.

moto's CloudFormation and Lambda need what is not installed here, so their answers are written out.
"""

import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

VERBS = ("Watch", "Flip", "Settle", "Probe", "Notify")


@dataclass
class FakeCloudFormation:
    """The stack ``name``: its status and outputs, its functions by name, and who may not ask for what."""

    name: str = "burstwatch"
    status: str = "UPDATE_COMPLETE"
    outputs: dict = field(default_factory=dict)
    functions: dict = field(default_factory=dict)
    concurrency: dict = field(default_factory=dict)
    sources: list = field(default_factory=lambda: [{"UUID": "u-1", "State": "Enabled"}])
    denied: set = field(default_factory=set)
    url: str = ""

    def __post_init__(self):
        for verb in VERBS:
            self.outputs[f"{verb}Function"] = f"{self.name}-{verb}"
            self.functions[f"{self.name}-{verb}"] = {"State": "Active", "LastUpdateStatus": "Successful"}

    def function(self, verb):
        return self.functions[f"{self.name}-{verb}"]

    def respond(self, path, body):
        """Status, content type and body."""
        if "Action=DescribeStacks" in body:
            return self._stacks(parse_qs(body)["StackName"][0])
        parts = path.partition("?")[0].strip("/").split("/")
        if parts[1] == "event-source-mappings":
            return self._json_response("ListEventSourceMappings", {"EventSourceMappings": self.sources})
        if parts[-1] == "configuration":
            return self._json_response("GetFunctionConfiguration", self.functions[parts[2]])
        reserved = self.concurrency.get(parts[2])
        reported = {} if reserved is None else {"ReservedConcurrentExecutions": reserved}
        return self._json_response("GetFunctionConcurrency", reported)

    def _json_response(self, action, reported):
        if action in self.denied:
            text = f"User: arn:aws:iam::1:user/a is not authorized to perform: lambda:{action}"
            return 403, "application/json", json.dumps({"__type": "AccessDeniedException", "Message": text})
        return 200, "application/json", json.dumps(reported)

    def _stacks(self, name):
        if "DescribeStacks" in self.denied:
            text = "User: arn:aws:iam::1:user/a is not authorized to perform: cloudformation:DescribeStacks"
            return 403, "text/xml", _error("AccessDenied", text)
        if not self.outputs or name != self.name:
            return 400, "text/xml", _error("ValidationError", f"Stack with id {name} does not exist")
        members = "".join(
            f"<member><OutputKey>{key}</OutputKey><OutputValue>{escape(value)}</OutputValue></member>"
            for key, value in self.outputs.items()
        )
        stack = (
            f"<member><StackName>{self.name}</StackName><StackStatus>{self.status}</StackStatus>"
            f"<CreationTime>2026-11-01T00:00:00Z</CreationTime><Outputs>{members}</Outputs></member>"
        )
        inside = f"<DescribeStacksResult><Stacks>{stack}</Stacks></DescribeStacksResult>"
        return 200, "text/xml", f"<DescribeStacksResponse>{inside}</DescribeStacksResponse>"


@contextmanager
def fake_cloudformation(**fields):
    fake = FakeCloudFormation(**fields)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            status, content_type, text = fake.respond(self.path, body)
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        do_POST = do_GET  # noqa: N815 - the server's name for it

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        fake.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield fake
        finally:
            server.shutdown()
            thread.join()


def _error(code, message):
    return (
        f"<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>{escape(message)}</Message>"
        "</Error><RequestId>r-1</RequestId></ErrorResponse>"
    )
