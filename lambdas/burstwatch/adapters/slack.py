"""Alerts to a Slack channel, by an incoming webhook.

What comes from outside (names, tags, error messages) is shown in plain text elements or in code, where Slack
parses nothing, and what could be a mention, a link or an emoji is broken up besides.
"""

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from itertools import accumulate
from typing import Any, Final
from urllib.error import URLError
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request

from burstwatch.adapters.channel import ChannelError, body_lines, readable
from burstwatch.core.alerts import Alert, title, urgency
from burstwatch.core.levels import Level
from burstwatch.core.words import format_instant, printable

_TIMEOUT_S: Final = 5.0
_SPACING_S: Final = 1.0
"""Slack takes one message a second from a webhook."""
_LONGEST_WAIT_S: Final = 30.0

_LONGEST_HEADER: Final = 150
_LONGEST_BODY: Final = 2700
_LONGEST_LINE: Final = 600
_LONGEST_FIELD: Final = 150
_LONGEST_ACTION: Final = 500
_BAR_CELLS: Final = 20

_EMOJI: Final = {
    Level.UNKNOWN: "⚪",
    Level.OK: "🟢",
    Level.WATCH: "🔵",
    Level.WARNING: "🟡",
    Level.CRITICAL: "🟠",
    Level.EXHAUSTED: "🔴",
}
_ESCAPES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "`": "'", "@": "\uff20"}
_LIVE_COLON: Final = re.compile(r":(?=//|(?!\d\d:\d\d)[\w+'-]+:)")
"""The colon that makes an address or an emoji of what follows; in the time of day 12:30:00 there is none."""
_LOOKS_LIKE_A_COLON: Final = "\u2236"
_LINK: Final = re.compile(r"https://[A-Za-z0-9][A-Za-z0-9._~/%:@?#=&,+-]{0,400}")
_WEBHOOK: Final = re.compile(
    r"(https://([A-Za-z0-9-]{1,63}\.)*[A-Za-z0-9-]{1,63}|http://(127\.[0-9.]{5,11}|localhost|\[::1\]))"
    r"(:[0-9]{1,5})?/[A-Za-z0-9._~/%-]{0,500}"
)
"""https:// anywhere; http:// only to this machine, for the lab."""
_CODE: Final = re.compile(r"[a-z_]{1,60}")

_NEW_WEBHOOK: Final = "make a new incoming webhook in Slack and store its address in place of the old one"
_OUR_FAULT: Final = "this is a fault in burstwatch: report it with the alert's id"
_ASK_ADMIN: Final = (
    "ask an administrator of the workspace to let this webhook post there, or choose another channel"
)
_NEXT_STEPS: Final = {
    "action_prohibited": _ASK_ADMIN,
    "channel_is_archived": "unarchive the channel, or make a webhook for another one",
    "channel_not_found": "the channel is gone: make a webhook for another one and store its address",
    "invalid_blocks": _OUR_FAULT,
    "invalid_blocks_format": _OUR_FAULT,
    "invalid_payload": _OUR_FAULT,
    "invalid_token": _NEW_WEBHOOK,
    "missing_text_or_fallback_or_attachments": _OUR_FAULT,
    "msg_blocks_too_long": _OUR_FAULT,
    "no_active_hooks": _NEW_WEBHOOK,
    "no_service": _NEW_WEBHOOK,
    "no_service_id": _NEW_WEBHOOK,
    "no_team": _NEW_WEBHOOK,
    "no_text": _OUR_FAULT,
    "posting_to_general_channel_denied": _ASK_ADMIN,
    "team_disabled": "the workspace is disabled: make a webhook in another one and store its address",
    "user_not_found": _NEW_WEBHOOK,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What Slack said, in its own short words."""

    status: int
    body: str
    retry_after_s: float

    @property
    def code(self) -> str | None:
        return self.body if _CODE.fullmatch(self.body) else None


class SlackChannel:
    """Posts each alert as one message; the webhook's address is a secret and stands in no error."""

    name: Final = "slack"

    def __init__(
        self,
        webhook_url: str,
        *,
        open_url: Callable[..., Any] | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Check the address.

        Raises:
            ChannelError: it is neither https:// nor, for the lab, http:// to this machine.
        """
        if not _WEBHOOK.fullmatch(webhook_url):
            message = (
                "the Slack webhook's address (a secret, so not shown) is not an https:// one: copy it again"
            )
            raise ChannelError(message, is_permanent=True)
        self._webhook_url = webhook_url
        self._open_url = open_url or _opener(is_local=webhook_url.startswith("http://")).open
        self._sleep = sleep
        self._clock = clock
        self._free_at_s = clock()

    def send(self, alert: Alert) -> None:
        body = json.dumps(render(alert)).encode()
        until_s = self._clock() + _LONGEST_WAIT_S
        answer = self._post(body, until_s)
        while answer.status == 429:  # noqa: PLR2004 - too many requests
            self._free_at_s = self._clock() + answer.retry_after_s
            answer = self._post(body, until_s)
        if (fault := _fault(answer)) is not None:
            raise fault

    def _post(self, body: bytes, until_s: float) -> _Answer:
        self._wait_for_turn(until_s)
        request = Request(  # noqa: S310 - the scheme was checked
            self._webhook_url,
            data=body,
            headers={"Content-Type": "application/json; charset=utf-8", "User-Agent": "burstwatch"},
            method="POST",
        )
        try:
            with self._open_url(request, timeout=_TIMEOUT_S) as response:
                return _read(response)
        except (OSError, HTTPException) as error:
            message = f"Slack was not reached ({_reason(error)}); the next pass tries again"
            raise ChannelError(message, is_permanent=False) from None
        finally:
            self._free_at_s = self._clock() + _SPACING_S

    def _wait_for_turn(self, until_s: float) -> None:
        now_s = self._clock()
        if self._free_at_s > until_s:
            pause = f"Slack asks for a pause of {self._free_at_s - now_s:.0f} s"
            message = (
                f"{pause}, and no alert waits more than {_LONGEST_WAIT_S:.0f} s; a later pass tries again"
            )
            raise ChannelError(message, is_permanent=False)
        if self._free_at_s > now_s:
            self._sleep(self._free_at_s - now_s)


def _opener(*, is_local: bool) -> OpenerDirector:
    """Takes any answer as an answer: with no handler for redirects and errors none is followed or raised."""
    opener = OpenerDirector()
    for handler in (ProxyHandler({} if is_local else None), HTTPHandler(), HTTPSHandler()):
        opener.add_handler(handler)
    return opener


def _read(response: Any) -> _Answer:
    asked = response.headers.get("Retry-After", "")
    pause_s = float(asked) if re.fullmatch(r"\d{1,6}", asked) else 0.0
    said = response.read(200).decode("utf-8", "replace").strip()
    return _Answer(status=response.status, body=said, retry_after_s=max(_SPACING_S, pause_s))


def _reason(error: OSError | HTTPException) -> str:
    """What went wrong, without anything the other side could have echoed."""
    if not isinstance(error, OSError):
        return "the answer was not HTTP"
    return printable(str(error.reason if isinstance(error, URLError) else error), _LONGEST_FIELD)


def _fault(answer: _Answer) -> ChannelError | None:
    """What an answer other than 429 means; Slack explains itself by a code in the body."""
    said = f"HTTP {answer.status}" + (f", {answer.code}" if answer.code else "")
    if answer.code in _NEXT_STEPS:
        message = f"Slack refused the alert ({said}): {_NEXT_STEPS[answer.code]}"
        return ChannelError(message, is_permanent=True)
    match answer.status // 100:
        case 2 if answer.body == "ok":
            return None
        case 2:
            message = f"the answer ({said}) is not Slack's ok; check what is at the webhook's address"
            return ChannelError(message, is_permanent=False)
        case 3:
            message = (
                f"the webhook's address redirects ({said}), which is not followed; copy it again from Slack"
            )
            return ChannelError(message, is_permanent=True)
        case 4:
            message = f"Slack refused the alert ({said}); check the webhook in Slack's settings"
            return ChannelError(message, is_permanent=True)
        case _:
            return ChannelError(f"Slack failed ({said}); the next pass tries again", is_permanent=False)


def render(alert: Alert) -> dict[str, Any]:
    """The message for an incoming webhook: Block Kit, and a line of text for notifications."""
    shown = readable(alert)
    header = _inert(f"{_EMOJI[urgency(alert)]} {title(shown)}", _LONGEST_HEADER)
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": _plain(header)},
        {"type": "section", "text": _plain(_body(shown))},
        {"type": "section", "fields": _fields(shown)},
    ]
    if shown.action:
        command = _inert(shown.action, _LONGEST_ACTION)
        blocks.append({"type": "section", "text": _markup(f"*What to do*\n```{command}```")})
    if links := _links(shown):
        blocks.append({"type": "section", "text": _markup(links)})
    made = f"{format_instant(alert.time_s)} · alert {_inert(shown.alert_id, _LONGEST_FIELD)}"
    blocks.append({"type": "context", "elements": [_plain(made)]})
    return {
        "text": header,
        "mrkdwn": False,
        "parse": "none",
        "link_names": False,
        "unfurl_links": False,
        "unfurl_media": False,
        "blocks": blocks,
    }


def _plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text, "emoji": False}


def _markup(text: str) -> dict[str, Any]:
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def _body(alert: Alert) -> str:
    lines = [_inert(line, _LONGEST_LINE) for line in body_lines(alert)]
    balance_pct = alert.reading.get("burst_balance_pct")
    if balance_pct is not None:
        lines.insert(0, f"{_bar(balance_pct)} {balance_pct:.1f} %")
    ends = accumulate(_units(line) + 1 for line in lines)
    fitting = sum(end <= _LONGEST_BODY for end in ends)
    dropped = len(lines) - fitting
    return "\n".join(lines if not dropped else [*lines[:fitting], f"… and {dropped} more"])


def _bar(balance_pct: float) -> str:
    """Never fuller than the bucket is."""
    filled = max(0, min(_BAR_CELLS, int(balance_pct * _BAR_CELLS / 100)))
    return "▓" * filled + "░" * (_BAR_CELLS - filled)


def _fields(alert: Alert) -> list[dict[str, Any]]:
    volume = alert.volume
    shown: Sequence[tuple[str, Sequence[str | None]]] = (
        ("Level", [alert.level]),
        ("Volume", [alert.volume_id]),
        ("Name", [volume.get("name")]),
        ("Instance and device", [volume.get("instance_id"), volume.get("device")]),
        ("Region and account", [volume.get("region"), volume.get("account")]),
    )
    filled = ((label, " ".join(filter(None, parts))) for label, parts in shown)
    return [_markup(f"*{label}*\n`{_inert(text, _LONGEST_FIELD)}`") for label, text in filled if text]


def _links(alert: Alert) -> str:
    """Links where the addresses are plain https, the bare text of a page's path otherwise."""
    said = []
    for url, label in ((alert.runbook, "Runbook"), (alert.console_url, "Volume in the AWS console")):
        if url and _LINK.fullmatch(url):
            said.append(f"<{url.replace('&', '&amp;')}|{label}>")
        elif url:
            said.append(f"{label}: `{_inert(url, _LONGEST_FIELD)}`")
    return "   ".join(said)


def _inert(text: str, limit: int) -> str:
    """Printable text with nothing in it that Slack acts on, within ``limit`` as Slack counts."""
    pieces = [_ESCAPES.get(character, character) for character in _LIVE_COLON.sub(_LOOKS_LIKE_A_COLON, text)]
    ends = list(accumulate(map(_units, pieces)))
    if not ends or ends[-1] <= limit:
        return "".join(pieces)
    return "".join(pieces[: sum(end < limit for end in ends)]) + "…"


def _units(text: str) -> int:
    """Length in UTF-16 units, the largest of the ways in which Slack may count characters."""
    return len(text.encode("utf-16-le")) // 2
