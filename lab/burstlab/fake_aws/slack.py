"""Plays Slack's incoming webhook on loopback: checks each message against Slack's limits, and keeps it."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition
from typing import Any, Final

from burstlab.fake_aws.background_server import BackgroundServer

_PATH: Final = "/services/T0BURSTLAB/B0BURSTLAB/notASecretOnlyALab"
_MAX_BODY_BYTES: Final = 1_000_000  # far more than any message; a wrong length must not fill the memory
_BURST: Final = 4
"""Slack takes one message a second, and a few more at once."""

# Source: Slack's Block Kit reference, and chat.postMessage for the text of a message
_MAX_BLOCKS: Final = 50
_MAX_FIELDS: Final = 10
_MAX_ELEMENTS: Final = 10
_MAX_ACTIONS: Final = 25
_MAX_MESSAGE_CHARS: Final = 40_000
_MAX_TOTAL_CHARS: Final = 13_000
"""Of the texts of all blocks together: not documented, seen near 13,200."""

# Source: Slack's Block Kit reference
_MAX_TEXT_CHARS: Final = 3_000
_MAX_FIELD_CHARS: Final = 2_000
_MAX_HEADER_CHARS: Final = 150
_MAX_BUTTON_CHARS: Final = 75
_MAX_ID_CHARS: Final = 255
_MAX_URL_CHARS: Final = 3_000
_MAX_ALT_CHARS: Final = 2_000


class SlowResponse(StrEnum):
    """How an endpoint holds its caller: nothing at all, or a little at a time that never ends."""

    SILENCE = "silence"
    CONTINUE = "continue"
    HEADERS = "headers"
    BODY = "body"


_SLOW_BYTES: Final[Mapping[SlowResponse, tuple[bytes, bytes]]] = {
    SlowResponse.SILENCE: (b"", b""),
    SlowResponse.CONTINUE: (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    SlowResponse.HEADERS: (b"HTTP/1.1 200 OK\r\nX-Slow: ", b"x"),
    SlowResponse.BODY: (b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b" "),
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
    problems: Sequence[str] = ()

    @property
    def text(self) -> str:
        return str(self.payload.get("text", ""))

    @property
    def full_text(self) -> str:
        """Every text of the message, a line each."""
        return "\n".join([self.text, *_collect_texts(self.payload.get("blocks", []))])


@dataclass(slots=True, kw_only=True)
class _PlannedResponse:
    """A configured response, and how often it is sent."""

    status: int
    body: str
    retry_after_s: int | None
    times: int


@dataclass(frozen=True, slots=True)
class _Response:
    status: int
    body: str
    headers: Mapping[str, str] = field(default_factory=dict)


class SlackReceiver(BackgroundServer[ThreadingHTTPServer]):
    """The webhook at ``url``, an address on loopback; start it with ``with``, or ``start`` and ``stop``.

    It responds as Slack does: ``ok``; 400 ``invalid_payload``, ``invalid_blocks`` or ``no_text``; 404
    ``no_service`` at another address; 429 with Retry-After if messages arrive faster than ``per_s``. It is
    stricter in one point: it refuses a message without the line of text that notifications show.
    """

    def __init__(self, *, per_s: float | None = 1.0, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._per_s = per_s
        self._clock = clock
        self._changed = Condition()
        self._messages: list[Message] = []
        self._planned_responses: list[_PlannedResponse] = []
        self._tokens, self._refilled_at_s = float(_BURST), clock()
        self._slow_response: tuple[SlowResponse, float] | None = None

    @property
    def url(self) -> str:
        if self._server is None:
            raise RuntimeError("the receiver is not running: use it in a with statement, or call start")
        return f"http://127.0.0.1:{self._server.server_port}{_PATH}"

    @property
    def messages(self) -> list[Message]:
        """What was accepted, in the order of arrival."""
        return [message for message in self.all_messages if message.status == 200]  # noqa: PLR2004 - OK

    @property
    def all_messages(self) -> list[Message]:
        """Everything that was posted here, refused or not."""
        with self._changed:
            return list(self._messages)

    def wait_for(self, predicate: Callable[[Message], bool], *, timeout_s: float) -> Message | None:
        """The first accepted message that matches, as soon as it arrives; None if it does not arrive."""

        def find() -> Message | None:
            accepted = (message for message in self._messages if message.status == HTTPStatus.OK)
            return next(filter(predicate, accepted), None)

        with self._changed:
            return self._changed.wait_for(find, timeout_s) or None

    def respond_with(
        self, status: int, body: str, *, times: int = 1, retry_after_s: int | None = None
    ) -> None:
        """Send this response to the next messages, whatever they are."""
        with self._changed:
            self._planned_responses.append(
                _PlannedResponse(status=status, body=body, retry_after_s=retry_after_s, times=times)
            )

    def start_slow_response(self, response: SlowResponse, *, interval_s: float = 0.5) -> None:
        """From now on, never complete a response, and send only a little of it at intervals."""
        self._slow_response = (response, interval_s)

    def _make_server(self) -> ThreadingHTTPServer:
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        server.daemon_threads = True
        return server

    def handle_post(self, path: str, content_type: str, body: bytes) -> _Response:
        """Answer one POST."""
        if path != _PATH:
            return _Response(404, "no_service")
        payload = _parse_payload(content_type, body)
        if payload is None:
            return _Response(400, "invalid_payload")
        problems = find_problems(payload)
        with self._changed:
            response = self._take_planned_response() or self._check_rate() or _to_response(payload, problems)
            message = Message(payload=payload, at_s=self._clock(), status=response.status, problems=problems)
            self._messages.append(message)
            self._changed.notify_all()
        return response

    def hold_connection(self, body: bytes, send: Callable[[bytes], object]) -> bool:
        """Send the slow response on one connection until its client leaves; False if none was started."""
        if self._slow_response is None:
            return False
        response, interval_s = self._slow_response
        payload = _parse_payload("application/json", body) or {}
        with self._changed:
            self._messages.append(Message(payload=payload, at_s=self._clock(), status=0))
            self._changed.notify_all()
        first, repeated = _SLOW_BYTES[response]
        try:
            send(first)
            while not self._stop_requested.wait(interval_s):
                send(repeated)
        except OSError:
            pass
        return True

    def _take_planned_response(self) -> _Response | None:
        if not self._planned_responses:
            return None
        planned = self._planned_responses[0]
        planned.times -= 1
        if not planned.times:
            self._planned_responses.pop(0)
        headers = {} if planned.retry_after_s is None else {"Retry-After": str(planned.retry_after_s)}
        return _Response(planned.status, planned.body, headers)

    def _check_rate(self) -> _Response | None:
        if self._per_s is None:
            return None
        now_s = self._clock()
        refill = (now_s - self._refilled_at_s) * self._per_s
        self._tokens, self._refilled_at_s = min(float(_BURST), self._tokens + refill), now_s
        if self._tokens < 1:
            return _Response(429, "rate_limited", {"Retry-After": "1"})
        self._tokens -= 1
        return None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, receiver: SlackReceiver, *arguments: Any) -> None:
        self._receiver = receiver
        super().__init__(*arguments)

    def do_POST(self) -> None:
        length = min(int(self.headers.get("Content-Length") or 0), _MAX_BODY_BYTES)
        content_type = self.headers.get("Content-Type", "")
        payload = self.rfile.read(length)
        if self._receiver.hold_connection(payload, self.wfile.write):
            self.close_connection = True
            return
        response = self._receiver.handle_post(self.path, content_type, payload)
        body = response.body.encode()
        self.send_response(response.status)
        for name, value in {"Content-Type": "text/html", **response.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def _parse_payload(content_type: str, body: bytes) -> Mapping[str, Any] | None:
    if not content_type.startswith("application/json"):
        return None
    try:
        document = json.loads(body)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _to_response(payload: Mapping[str, Any], problems: Sequence[str]) -> _Response:
    if not problems:
        return _Response(200, "ok")
    return _Response(400, "no_text" if not payload.get("text") else "invalid_blocks")


def find_problems(payload: Mapping[str, Any]) -> list[str]:
    """What Slack would find wrong with a message, each fault with its place."""
    problems: list[str] = []
    text = payload.get("text")
    if not isinstance(text, str) or not text.strip():
        problems.append("text: it is missing, and notifications show nothing else")
    else:
        problems += _check_length(text, _MAX_MESSAGE_CHARS, "text")
    blocks = payload.get("blocks", [])
    if not isinstance(blocks, list):
        return [*problems, "blocks: not a list"]
    if len(blocks) > _MAX_BLOCKS:
        problems.append(f"blocks: {len(blocks)}, more than {_MAX_BLOCKS}")
    ids = [block["block_id"] for block in blocks if isinstance(block, dict) and "block_id" in block]
    if len(set(ids)) < len(ids):
        problems.append("blocks: a block_id stands twice")
    if (length := sum(map(_count_utf16_units, _collect_texts(blocks)))) > _MAX_TOTAL_CHARS:
        problems.append(f"blocks: {length} characters in all, more than {_MAX_TOTAL_CHARS}")
    for number, block in enumerate(blocks):
        problems += _check_block(block, f"blocks[{number}]")
    return problems


def _check_block(block: Any, path: str) -> list[str]:
    if not isinstance(block, dict):
        return [f"{path}: not an object"]
    block_type = block.get("type")
    if not isinstance(block_type, str) or block_type not in _BLOCK_TYPES:
        return [f"{path}: type {block_type!r} is none of {', '.join(_BLOCK_TYPES)}"]
    known_fields, check = _BLOCK_TYPES[block_type]
    problems = [
        f"{path}.{name}: unknown" for name in block if name not in (*known_fields, "type", "block_id")
    ]
    if "block_id" in block:
        problems += _check_length(block["block_id"], _MAX_ID_CHARS, f"{path}.block_id")
    return problems + check(block, path)


def _check_header(block: Mapping[str, Any], path: str) -> list[str]:
    return _check_text(block.get("text"), f"{path}.text", _MAX_HEADER_CHARS, ("plain_text",))


def _check_section(block: Mapping[str, Any], path: str) -> list[str]:
    if "text" not in block and "fields" not in block:
        return [f"{path}: neither text nor fields"]
    problems = _check_text(block["text"], f"{path}.text") if "text" in block else []
    if "fields" in block:
        problems += _check_list(block["fields"], f"{path}.fields", _MAX_FIELDS, _check_field)
    if "accessory" in block:
        problems += _check_element(block["accessory"], f"{path}.accessory")
    return problems


def _check_field(field: Any, path: str) -> list[str]:
    return _check_text(field, path, _MAX_FIELD_CHARS)


def _check_context(block: Mapping[str, Any], path: str) -> list[str]:
    return _check_list(block.get("elements"), f"{path}.elements", _MAX_ELEMENTS, _check_context_element)


def _check_context_element(element: Any, path: str) -> list[str]:
    is_image = isinstance(element, dict) and element.get("type") == "image"
    return _check_image(element, path) if is_image else _check_text(element, path)


def _check_actions(block: Mapping[str, Any], path: str) -> list[str]:
    return _check_list(block.get("elements"), f"{path}.elements", _MAX_ACTIONS, _check_element)


def _check_element(element: Any, path: str) -> list[str]:
    if isinstance(element, dict) and element.get("type") == "image":
        return _check_image(element, path)
    if not isinstance(element, dict) or element.get("type") != "button":
        return [f"{path}: neither button nor image, which is all a webhook needs"]
    problems = _check_text(element.get("text"), f"{path}.text", _MAX_BUTTON_CHARS, ("plain_text",))
    limits = {"url": _MAX_URL_CHARS, "value": _MAX_ALT_CHARS, "action_id": _MAX_ID_CHARS}
    for name, limit in limits.items():
        problems += _check_length(element[name], limit, f"{path}.{name}") if name in element else []
    return problems


def _check_image(block: Mapping[str, Any], path: str) -> list[str]:
    problems = _check_length(block.get("image_url"), _MAX_URL_CHARS, f"{path}.image_url")
    problems += _check_length(block.get("alt_text"), _MAX_ALT_CHARS, f"{path}.alt_text")
    if "title" in block:
        problems += _check_text(block["title"], f"{path}.title", _MAX_FIELD_CHARS, ("plain_text",))
    return problems


def _check_text(
    text: Any,
    path: str,
    max_chars: int = _MAX_TEXT_CHARS,
    text_types: Sequence[str] = ("plain_text", "mrkdwn"),
) -> list[str]:
    if not isinstance(text, dict):
        return [f"{path}: not a text object"]
    if text.get("type") not in text_types:
        return [f"{path}: type {text.get('type')!r} is not {' or '.join(text_types)}"]
    type_specific_field = "emoji" if text["type"] == "plain_text" else "verbatim"
    problems = [
        f"{path}.{name}: unknown" for name in text if name not in ("type", "text", type_specific_field)
    ]
    if not isinstance(text.get(type_specific_field, False), bool):
        problems.append(f"{path}.{type_specific_field}: neither true nor false")
    return problems + _check_length(text.get("text"), max_chars, f"{path}.text")


def _check_length(text: Any, max_chars: int, path: str) -> list[str]:
    if not isinstance(text, str) or not text:
        return [f"{path}: no text"]
    return (
        [f"{path}: {_count_utf16_units(text)} characters, more than {max_chars}"]
        if _count_utf16_units(text) > max_chars
        else []
    )


def _count_utf16_units(text: str) -> int:
    """The length in UTF-16 units, the strictest of the ways in which Slack may count characters."""
    return len(text.encode("utf-16-le")) // 2


def _check_list(
    elements: Any, path: str, max_elements: int, check: Callable[[Any, str], list[str]]
) -> list[str]:
    if not isinstance(elements, list) or not elements:
        return [f"{path}: no list of at least one"]
    problems = [f"{path}: {len(elements)}, more than {max_elements}"] if len(elements) > max_elements else []
    for number, element in enumerate(elements):
        problems += check(element, f"{path}[{number}]")
    return problems


def _accept(_block: Mapping[str, Any], _at: str) -> list[str]:
    return []


_BLOCK_TYPES: Final[Mapping[str, tuple[Sequence[str], Callable[[Mapping[str, Any], str], list[str]]]]] = {
    "header": (("text",), _check_header),
    "section": (("text", "fields", "accessory", "expand"), _check_section),
    "context": (("elements",), _check_context),
    "actions": (("elements",), _check_actions),
    "image": (("image_url", "alt_text", "title"), _check_image),
    "divider": ((), _accept),
}
"""The blocks that our messages contain, with the fields that Slack knows of each."""


def _collect_texts(value: Any) -> list[str]:
    """Every text below, in reading order."""
    match value:
        case {"type": "plain_text" | "mrkdwn", "text": str(text)}:
            return [text]
        case dict():
            return [text for child in value.values() for text in _collect_texts(child)]
        case list():
            return [text for child in value for text in _collect_texts(child)]
        case _:
            return []
