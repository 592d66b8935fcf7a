"""Instance metadata, CloudWatch and EventBridge, as far as ddprobe speaks to them, on loopback."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CREDENTIALS = {
    "AccessKeyId": "ASIAEXAMPLE",
    "SecretAccessKey": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
    "Token": "token/with+signs==",
    "Expiration": "2099-01-01T00:00:00Z",
}


class Cloud:
    """Instance metadata, CloudWatch and EventBridge on one loopback address."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.answers: dict[str, tuple[int, bytes]] = {}
        cloud = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                cloud.requests.append((self.command, self.path, headers, body))
                status, text = cloud.answer_to(self.command, self.path, headers)
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_PUT = do_POST = answer  # noqa: N815 - the names http.server looks for

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def answer_to(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
        if path in self.answers:
            return self.answers[path]
        if (method, path) == ("PUT", "/latest/api/token"):
            has_ttl = "x-aws-ec2-metadata-token-ttl-seconds" in headers
            return (200, b"imds-token") if has_ttl else (400, b"")
        if path.startswith("/latest/") and headers.get("x-aws-ec2-metadata-token") != "imds-token":
            return 401, b""
        return {
            "/latest/meta-data/placement/region": (200, b"eu-central-1"),
            "/latest/meta-data/instance-id": (200, b"i-0123456789abcdef0"),
            "/latest/meta-data/iam/security-credentials/": (200, b"ci-role"),
            "/latest/meta-data/iam/security-credentials/ci-role": (200, json.dumps(CREDENTIALS).encode()),
            "/": (200, b'{"FailedEntryCount": 0, "Entries": [{"EventId": "1"}]}'),
        }.get(path, (404, b"no such page"))

    def posts(self) -> list[tuple[dict[str, str], bytes]]:
        return [(headers, body) for method, _, headers, body in self.requests if method == "POST"]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
