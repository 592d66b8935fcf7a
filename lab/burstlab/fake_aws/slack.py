"""Plays Slack's incoming webhook on loopback: checks each message against Slack's limits, and keeps it."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Event, Thread
from types import TracebackType
from typing import Any, Final, Self

_PATH: Final = "/services/T0BURSTLAB/B0BURSTLAB/notASecretOnlyALab"
_MOST_BYTES: Final = 1_000_000
_BURST: Final = 4
"""Slack takes one message a second, and a few more at once."""

_MOST_BLOCKS: Final = 50
_MOST_FIELDS: Final = 10
_MOST_ELEMENTS: Final = 10
_MOST_ACTIONS: Final = 25
_LONGEST_MESSAGE: Final = 40_000
_LONGEST_OF_ALL: Final = 13_000
"""Of the texts of all blocks together: not documented, seen near 13,200."""

_LONGEST_TEXT: Final = 3_000
_LONGEST_FIELD: Final = 2_000
_LONGEST_HEADER: Final = 150
_LONGEST_BUTTON: Final = 75
_LONGEST_ID: Final = 255
_LONGEST_URL: Final = 3_000
_LONGEST_ALT: Final = 2_000


class Drip(StrEnum):
    """How an endpoint holds its caller: nothing at all, or a little at a time that never ends."""

    SILENCE = "silence"
    CONTINUE = "continue"
    HEADERS = "headers"
    BODY = "body"


_DRIPS: Final[Mapping[Drip, tuple[bytes, bytes]]] = {
    Drip.SILENCE: (b"", b""),
    Drip.CONTINUE: (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    Drip.HEADERS: (b"HTTP/1.1 200 OK\r\nX-Drip: ", b"x"),
    Drip.BODY: (b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b" "),
}
"""What is sent first, and what is sent again and again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What was posted, when (seconds of a monotonic clock), and what Slack would have found wrong with it.

    The ``status`` of one that was never answered in full is 0.
    """

    payload: Mapping[str, Any]
    at_s: float
    status: int
    faults: Sequence[str] = ()

    @property
    def text(self) -> str:
        return str(self.payload.get("text", ""))

    @property
    def words(self) -> str:
        """Every text of the message, a line each."""
        return "\n".join([self.text, *_texts(self.payload.get("blocks", []))])


@dataclass(slots=True, kw_only=True)
class _Refusal:
    """An answer that was asked for, so many times."""

    status: int
    body: str
    retry_after_s: int | None
    times: int


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    body: str
    headers: Mapping[str, str] = field(default_factory=dict)


class SlackReceiver:
    """The webhook at ``url``, an address on loopback; start it with ``with``, or ``start`` and ``stop``.

    It answers as Slack does: ``ok``, 400 ``invalid_payload``, ``invalid_blocks`` or ``no_text``, 404
    ``no_service`` at another address, 429 with Retry-After to whoever posts faster than ``per_s`` for long.
    It is stricter in one point: a message without the line of text that notifications show is refused.
    """

    def __init__(self, *, per_s: float | None = 1.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._clock = clock
        self._changed = Condition()
        self._messages: list[Message] = []
        self._refusals: list[_Refusal] = []
        self._credit, self._credited_at_s = float(_BURST), clock()
        self._drip: tuple[Drip, float] | None = None
        self._is_over = Event()
        self._server: ThreadingHTTPServer | None = None
        self._thread: Thread | None = None

    @property
    def url(self) -> str:
        if self._server is None:
            raise RuntimeError("the receiver is not running: use it in a with statement, or call start")
        return f"http://127.0.0.1:{self._server.server_port}{_PATH}"

    @property
    def messages(self) -> list[Message]:
        """What was accepted, in the order of arrival."""
        return [message for message in self.posted if message.status == 200]  # noqa: PLR2004 - OK

    @property
    def posted(self) -> list[Message]:
        """Everything that was posted here, refused or not."""
        with self._changed:
            return list(self._messages)

    def wait_for(self, wanted: Callable[[Message], bool], *, within_s: float) -> Message | None:
        """The first accepted message that is wanted, as soon as it is there; None when it does not come."""

        def find() -> Message | None:
            return next((m for m in self._messages if m.status == 200 and wanted(m)), None)  # noqa: PLR2004

        with self._changed:
            return self._changed.wait_for(find, within_s) or None

    def refuse(self, status: int, body: str, *, times: int = 1, retry_after_s: int | None = None) -> None:
        """Answer the next messages so, whatever they are."""
        with self._changed:
            self._refusals.append(
                _Refusal(status=status, body=body, retry_after_s=retry_after_s, times=times)
            )

    def drip(self, drip: Drip, *, every_s: float = 0.5) -> None:
        """From now on give no answer that ends, but for a little of one every so many seconds."""
        self._drip = (drip, every_s)

    def start(self) -> str:
        """Serve from a thread of its own and answer the webhook's address."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        self._server.daemon_threads = True
        self._thread = Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, name="slack", daemon=True
        )
        self._thread.start()
        return self.url

    def stop(self) -> None:
        self._is_over.set()
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
        self._server = self._thread = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def take(self, path: str, content_type: str, body: bytes) -> _Answer:
        """Answer one POST."""
        if path != _PATH:
            return _Answer(404, "no_service")
        payload = _payload(content_type, body)
        if payload is None:
            return _Answer(400, "invalid_payload")
        faults = faults_of(payload)
        with self._changed:
            answer = self._asked_for() or self._too_fast() or _verdict(payload, faults)
            message = Message(payload=payload, at_s=self._clock(), status=answer.status, faults=faults)
            self._messages.append(message)
            self._changed.notify_all()
        return answer

    def hold(self, body: bytes, send: Callable[[bytes], object]) -> bool:
        """Drip onto one connection until its client leaves; False where nothing drips."""
        if self._drip is None:
            return False
        drip, every_s = self._drip
        payload = _payload("application/json", body) or {}
        with self._changed:
            self._messages.append(Message(payload=payload, at_s=self._clock(), status=0))
            self._changed.notify_all()
        first, again = _DRIPS[drip]
        try:
            send(first)
            while not self._is_over.wait(every_s):
                send(again)
        except OSError:
            pass
        return True

    def _asked_for(self) -> _Answer | None:
        if not self._refusals:
            return None
        refusal = self._refusals[0]
        refusal.times -= 1
        if not refusal.times:
            self._refusals.pop(0)
        after = {} if refusal.retry_after_s is None else {"Retry-After": str(refusal.retry_after_s)}
        return _Answer(refusal.status, refusal.body, after)

    def _too_fast(self) -> _Answer | None:
        if self._per_s is None:
            return None
        now_s = self._clock()
        earned = (now_s - self._credited_at_s) * self._per_s
        self._credit, self._credited_at_s = min(float(_BURST), self._credit + earned), now_s
        if self._credit < 1:
            return _Answer(429, "rate_limited", {"Retry-After": "1"})
        self._credit -= 1
        return None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, receiver: SlackReceiver, *arguments: Any) -> None:
        self._receiver = receiver
        super().__init__(*arguments)

    def do_POST(self) -> None:
        length = min(int(self.headers.get("Content-Length") or 0), _MOST_BYTES)
        content_type = self.headers.get("Content-Type", "")
        posted = self.rfile.read(length)
        if self._receiver.hold(posted, self.wfile.write):
            self.close_connection = True
            return
        answer = self._receiver.take(self.path, content_type, posted)
        body = answer.body.encode()
        self.send_response(answer.status)
        for name, value in {"Content-Type": "text/html", **answer.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def _payload(content_type: str, body: bytes) -> Mapping[str, Any] | None:
    if not content_type.startswith("application/json"):
        return None
    try:
        read = json.loads(body)
    except ValueError:
        return None
    return read if isinstance(read, dict) else None


def _verdict(payload: Mapping[str, Any], faults: Sequence[str]) -> _Answer:
    if not faults:
        return _Answer(200, "ok")
    return _Answer(400, "no_text" if not payload.get("text") else "invalid_blocks")


def faults_of(payload: Mapping[str, Any]) -> list[str]:
    """What Slack would find wrong with a message, each fault with its place."""
    faults: list[str] = []
    text = payload.get("text")
    if not isinstance(text, str) or not text.strip():
        faults.append("text: there is none, and notifications show nothing else")
    else:
        faults += _length_faults(text, _LONGEST_MESSAGE, "text")
    blocks = payload.get("blocks", [])
    if not isinstance(blocks, list):
        return [*faults, "blocks: not a list"]
    if len(blocks) > _MOST_BLOCKS:
        faults.append(f"blocks: {len(blocks)}, more than {_MOST_BLOCKS}")
    ids = [block["block_id"] for block in blocks if isinstance(block, dict) and "block_id" in block]
    if len(set(ids)) < len(ids):
        faults.append("blocks: a block_id stands twice")
    if (length := sum(map(_length, _texts(blocks)))) > _LONGEST_OF_ALL:
        faults.append(f"blocks: {length} characters in all, more than {_LONGEST_OF_ALL}")
    for number, block in enumerate(blocks):
        faults += _block_faults(block, f"blocks[{number}]")
    return faults


def _block_faults(block: Any, at: str) -> list[str]:
    if not isinstance(block, dict):
        return [f"{at}: not an object"]
    kind = block.get("type")
    if not isinstance(kind, str) or kind not in _BLOCKS:
        return [f"{at}: type {kind!r} is none of {', '.join(_BLOCKS)}"]
    known, check = _BLOCKS[kind]
    faults = [f"{at}.{name}: unknown" for name in block if name not in (*known, "type", "block_id")]
    if "block_id" in block:
        faults += _length_faults(block["block_id"], _LONGEST_ID, f"{at}.block_id")
    return faults + check(block, at)


def _header_faults(block: Mapping[str, Any], at: str) -> list[str]:
    return _text_faults(block.get("text"), f"{at}.text", _LONGEST_HEADER, ("plain_text",))


def _section_faults(block: Mapping[str, Any], at: str) -> list[str]:
    if "text" not in block and "fields" not in block:
        return [f"{at}: neither text nor fields"]
    faults = _text_faults(block["text"], f"{at}.text") if "text" in block else []
    if "fields" in block:
        faults += _list_faults(block["fields"], f"{at}.fields", _MOST_FIELDS, _field_faults)
    if "accessory" in block:
        faults += _element_faults(block["accessory"], f"{at}.accessory")
    return faults


def _field_faults(given: Any, at: str) -> list[str]:
    return _text_faults(given, at, _LONGEST_FIELD)


def _context_faults(block: Mapping[str, Any], at: str) -> list[str]:
    return _list_faults(block.get("elements"), f"{at}.elements", _MOST_ELEMENTS, _context_element_faults)


def _context_element_faults(element: Any, at: str) -> list[str]:
    is_image = isinstance(element, dict) and element.get("type") == "image"
    return _image_faults(element, at) if is_image else _text_faults(element, at)


def _actions_faults(block: Mapping[str, Any], at: str) -> list[str]:
    return _list_faults(block.get("elements"), f"{at}.elements", _MOST_ACTIONS, _element_faults)


def _element_faults(element: Any, at: str) -> list[str]:
    if isinstance(element, dict) and element.get("type") == "image":
        return _image_faults(element, at)
    if not isinstance(element, dict) or element.get("type") != "button":
        return [f"{at}: neither button nor image, which is all a webhook needs"]
    faults = _text_faults(element.get("text"), f"{at}.text", _LONGEST_BUTTON, ("plain_text",))
    limits = {"url": _LONGEST_URL, "value": _LONGEST_ALT, "action_id": _LONGEST_ID}
    for name, limit in limits.items():
        faults += _length_faults(element[name], limit, f"{at}.{name}") if name in element else []
    return faults


def _image_faults(block: Mapping[str, Any], at: str) -> list[str]:
    faults = _length_faults(block.get("image_url"), _LONGEST_URL, f"{at}.image_url")
    faults += _length_faults(block.get("alt_text"), _LONGEST_ALT, f"{at}.alt_text")
    if "title" in block:
        faults += _text_faults(block["title"], f"{at}.title", _LONGEST_FIELD, ("plain_text",))
    return faults


def _text_faults(
    text: Any, at: str, longest: int = _LONGEST_TEXT, kinds: Sequence[str] = ("plain_text", "mrkdwn")
) -> list[str]:
    if not isinstance(text, dict):
        return [f"{at}: not a text object"]
    if text.get("type") not in kinds:
        return [f"{at}: type {text.get('type')!r} is not {' or '.join(kinds)}"]
    own = "emoji" if text["type"] == "plain_text" else "verbatim"
    faults = [f"{at}.{name}: unknown" for name in text if name not in ("type", "text", own)]
    if not isinstance(text.get(own, False), bool):
        faults.append(f"{at}.{own}: neither true nor false")
    return faults + _length_faults(text.get("text"), longest, f"{at}.text")


def _length_faults(text: Any, longest: int, at: str) -> list[str]:
    if not isinstance(text, str) or not text:
        return [f"{at}: no text"]
    return [f"{at}: {_length(text)} characters, more than {longest}"] if _length(text) > longest else []


def _length(text: str) -> int:
    """In UTF-16 units, the strictest of the ways in which Slack may count characters."""
    return len(text.encode("utf-16-le")) // 2


def _list_faults(given: Any, at: str, most: int, check: Callable[[Any, str], list[str]]) -> list[str]:
    if not isinstance(given, list) or not given:
        return [f"{at}: no list of at least one"]
    faults = [f"{at}: {len(given)}, more than {most}"] if len(given) > most else []
    for number, one in enumerate(given):
        faults += check(one, f"{at}[{number}]")
    return faults


def _no_faults(_block: Mapping[str, Any], _at: str) -> list[str]:
    return []


_BLOCKS: Final[Mapping[str, tuple[Sequence[str], Callable[[Mapping[str, Any], str], list[str]]]]] = {
    "header": (("text",), _header_faults),
    "section": (("text", "fields", "accessory", "expand"), _section_faults),
    "context": (("elements",), _context_faults),
    "actions": (("elements",), _actions_faults),
    "image": (("image_url", "alt_text", "title"), _image_faults),
    "divider": ((), _no_faults),
}
"""The blocks a webhook's message is made of here, with the fields Slack knows of each."""


def _texts(value: Any) -> list[str]:
    """Every text below, in reading order."""
    match value:
        case {"type": "plain_text" | "mrkdwn", "text": str(text)}:
            return [text]
        case dict():
            return [text for below in value.values() for text in _texts(below)]
        case list():
            return [text for below in value for text in _texts(below)]
        case _:
            return []
