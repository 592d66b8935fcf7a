"""Slack as tests need it: an incoming webhook on loopback, a clock, and what a message says."""

import json
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = "T00000000/B00000000/abcdefghijklmnopqrstuvwx"
NO_RESPONSE = object()
"""An answer that never comes."""


class FakeSlack:
    """Gives the scripted answers in turn, then ``ok``; None breaks the connection."""

    def __init__(self):
        self.posts = []
        self.answers = []
        self.over = threading.Event()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                fake.posts.append((self.path, dict(self.headers), json.loads(body)))
                answer = fake.answers.pop(0) if fake.answers else (200, "ok", {})
                if answer is NO_RESPONSE:
                    fake.over.wait(30)
                if answer in (None, NO_RESPONSE):
                    self.close_connection = True
                    return
                status, text, headers = answer
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

            do_GET = do_POST  # noqa: N815 - the server looks for this name

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.url = f"{self.base}/services/{SECRET}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    @property
    def payloads(self):
        return [payload for _, _, payload in self.posts]

    def stop(self):
        self.over.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@contextmanager
def start_fake_slack():
    fake = FakeSlack()
    try:
        yield fake
    finally:
        fake.stop()


class FakeTime:
    """A clock that only sleeping moves."""

    def __init__(self, now_s=1000.0):
        self.now_s = now_s
        self.slept = []

    def __call__(self):
        return self.now_s

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now_s += seconds


def texts(payload):
    """Every text object of a message, as (type, text)."""
    result = [("text", payload["text"])]
    for block in payload["blocks"]:
        objects = [block.get("text"), *block.get("fields", ()), *block.get("elements", ())]
        result += [(item["type"], item["text"]) for item in objects if item]
    return result


def visible_text(payload):
    return "\n".join(text for _, text in texts(payload))


def utf16_length(text):
    return len(text.encode("utf-16-le")) // 2


def assert_within_slacks_limits(payload):
    assert len(json.dumps(payload, ensure_ascii=False)) < 10_000
    assert len(payload["blocks"]) <= 50
    limits = {"header": 150, "section": 3000}
    for block in payload["blocks"]:
        if "text" in block:
            assert 1 <= utf16_length(block["text"]["text"]) <= limits[block["type"]]
        if "fields" in block:
            assert 1 <= len(block["fields"]) <= 10
            assert all(1 <= utf16_length(item["text"]) <= 2000 for item in block["fields"])
        assert len(block.get("elements", ())) <= 10


LIVE_MARKUP = re.compile(r"<(?!https://(wiki\.example\.com|us-east-1\.console\.aws\.amazon\.com)/)")


def assert_no_active_markup(payload):
    for kind, text in texts(payload):
        assert not LIVE_MARKUP.search(text), text
        assert "<" not in text or kind == "mrkdwn", text
        assert text.replace("\n", "").isprintable()
        bare = re.sub(r"<https://[^|>]*\|[^|>]*>", "", text)
        assert ">" not in bare
        assert "://" not in bare
        assert "@" not in bare
        assert not re.search(r":[a-z_]+:", bare)
        assert re.sub(r"&(amp|lt|gt);", "", bare).count("&") == 0
        if kind == "mrkdwn":
            assert_only_our_markup(bare)


def assert_only_our_markup(text):
    """Outside text stands between our backticks, which it cannot close."""
    outside_code = re.sub(r"```[^`]*```|`[^`\n]*`", "", text)
    assert "`" not in outside_code
    assert re.fullmatch(r"(\*[A-Za-z ;]+\*\n)?[A-Za-z: ]*", outside_code), outside_code
