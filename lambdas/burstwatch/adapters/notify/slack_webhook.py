"""A Slack incoming webhook: one message per second, and an explanation of each response.

Source of the rate and of ``Retry-After``: Slack's API documentation, "Rate limits".
"""

import json
import re
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from socket import gaierror
from typing import Any, Final, Protocol
from urllib.error import URLError
from urllib.request import OpenerDirector, ProxyHandler, Request

from burstwatch.adapters.aws.http_deadline import TimedHttpHandler, TimedHttpsHandler
from burstwatch.adapters.notify.channel import ChannelError
from burstwatch.core.errors import BurstwatchError, Problem
from burstwatch.core.text import sanitise

MIN_INTERVAL_S: Final = 1.0
"""Slack accepts one message per second from a webhook; short bursts are tolerated."""
MAX_WAIT_S: Final = 30.0
"""The longest wait for a turn in the notify function, which nothing else waits for."""

_TIMEOUT_S: Final = 5.0
"""The limit of one exchange: connecting, TLS and every byte of the response."""

_MAX_REASON_CHARS: Final = 150  # an error of the network in one line

_ADDRESS_PATTERN: Final = re.compile(
    r"(https://([A-Za-z0-9-]{1,63}\.)*[A-Za-z0-9-]{1,63}|http://(127\.[0-9.]{5,11}|localhost|\[::1\]))"
    r"(:[0-9]{1,5})?/[A-Za-z0-9._~/%-]{0,500}"
)
"""https:// to any host; http:// only to this machine, for the lab."""
_CODE_PATTERN: Final = re.compile(r"[a-z_]{1,60}")

_NEW_WEBHOOK_STEP: Final = (
    "make a new incoming webhook in Slack and store its address in place of the old one"
)
_REPORT_STEP: Final = "this is a fault in burstwatch: report it with the alert's id"
_CONTACT_ADMIN_STEP: Final = (
    "ask an administrator of the workspace to let this webhook post there, or choose another channel"
)
_NEXT_STEPS: Final = {
    "action_prohibited": _CONTACT_ADMIN_STEP,
    "channel_is_archived": "unarchive the channel, or make a webhook for another one",
    "channel_not_found": "the channel is gone: make a webhook for another one and store its address",
    "invalid_blocks": _REPORT_STEP,
    "invalid_blocks_format": _REPORT_STEP,
    "invalid_payload": _REPORT_STEP,
    "invalid_token": _NEW_WEBHOOK_STEP,
    "missing_text_or_fallback_or_attachments": _REPORT_STEP,
    "msg_blocks_too_long": _REPORT_STEP,
    "no_active_hooks": _NEW_WEBHOOK_STEP,
    "no_service": _NEW_WEBHOOK_STEP,
    "no_service_id": _NEW_WEBHOOK_STEP,
    "no_team": _NEW_WEBHOOK_STEP,
    "no_text": _REPORT_STEP,
    "posting_to_general_channel_denied": _CONTACT_ADMIN_STEP,
    "team_disabled": "the workspace is disabled: make a webhook in another one and store its address",
    "user_not_found": _NEW_WEBHOOK_STEP,
}


class RateLimitedError(BurstwatchError):
    """The next turn is farther off than the caller may wait."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__(f"the next turn is {retry_after_s:.0f} s off")
        self.retry_after_s = retry_after_s


class RateLimiter(Protocol):
    """Delays messages so that all senders to one webhook stay within its rate."""

    def acquire(self, max_wait_s: float) -> float:
        """Take the next turn; return the seconds until it.

        Raises:
            RateLimitedError: it is more than ``max_wait_s`` off; it was not taken.
        """
        ...

    def back_off(self, seconds: float) -> None:
        """Let there be no turn for ``seconds``."""
        ...


class LocalRateLimiter:
    """A rate limit for this process alone."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._free_at_s = clock()

    def acquire(self, max_wait_s: float) -> float:
        now_s = self._clock()
        slot_s = max(now_s, self._free_at_s)
        if slot_s - now_s > max_wait_s:
            raise RateLimitedError(slot_s - now_s)
        self._free_at_s = slot_s + MIN_INTERVAL_S
        return slot_s - now_s

    def back_off(self, seconds: float) -> None:
        self._free_at_s = max(self._free_at_s, self._clock() + seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Response:
    """The response of Slack: its status, and the short code in its body."""

    status: int
    body: str
    retry_after_s: float

    @property
    def code(self) -> str | None:
        return self.body if _CODE_PATTERN.fullmatch(self.body) else None


class SlackWebhook:
    """Posts messages; the address is a secret, and no error contains it."""

    def __init__(
        self,
        url: str,
        *,
        rate_limiter: RateLimiter | None = None,
        open_url: Callable[..., Any] | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Check the address; without a ``rate_limiter``, this process is assumed to be the only sender.

        Raises:
            ChannelError: it is neither https:// nor (for the lab) http:// to this machine.
        """
        if not _ADDRESS_PATTERN.fullmatch(url):
            problem = Problem(
                "the Slack webhook's address (a secret, so not shown) is not an https:// one",
                "copy it again; http:// is for this machine only",
            )
            raise ChannelError(problem, is_permanent=True)
        self._url = url
        self._rate_limiter = rate_limiter or LocalRateLimiter(clock)
        self._open_url = open_url or _make_opener(is_local=url.startswith("http://")).open
        self._sleep = sleep
        self._clock = clock

    def post(self, payload: Mapping[str, Any], *, max_wait_s: float = MAX_WAIT_S) -> None:
        """Post one message; wait for its turn, and as long as Slack's ``Retry-After`` says.

        Raises:
            ChannelError: Slack did not take it, or not in time.
        """
        body = json.dumps(payload).encode()
        deadline_s = self._clock() + max_wait_s
        while True:
            self._wait_for_slot(deadline_s, max_wait_s)
            response = self._send(body)
            if response.status != 429:  # noqa: PLR2004 - too many requests
                break
            self._rate_limiter.back_off(response.retry_after_s)
        if (channel_error := _to_channel_error(response)) is not None:
            raise channel_error

    def _wait_for_slot(self, deadline_s: float, max_wait_s: float) -> None:
        try:
            wait_s = self._rate_limiter.acquire(deadline_s - self._clock())
        except RateLimitedError as limited:
            message = (
                f"Slack takes the next message in {limited.retry_after_s:.0f} s, and this one may wait"
                f" {max(0.0, max_wait_s):.0f} s; it is tried again later"
            )
            raise ChannelError(message, is_permanent=False) from None
        if wait_s > 0:
            self._sleep(wait_s)

    def _send(self, body: bytes) -> _Response:
        request = Request(  # noqa: S310 - the scheme was checked
            self._url,
            data=body,
            headers={"Content-Type": "application/json; charset=utf-8", "User-Agent": "burstwatch"},
            method="POST",
        )
        try:
            with self._open_url(request, timeout=_TIMEOUT_S) as response:
                return _parse_response(response)
        except (OSError, HTTPException) as error:
            problem = Problem(
                f"Slack could not be reached ({_reason(error)}); it is tried again", _next_step(error)
            )
            raise ChannelError(problem, is_permanent=False) from None


def _make_opener(*, is_local: bool) -> OpenerDirector:
    """An opener without handlers for redirects and errors: it follows none and raises none."""
    opener = OpenerDirector()
    for handler in (ProxyHandler({} if is_local else None), TimedHttpHandler(), TimedHttpsHandler()):
        opener.add_handler(handler)
    return opener


def _parse_response(response: Any) -> _Response:
    retry_after = response.headers.get("Retry-After", "")
    pause_s = float(retry_after) if re.fullmatch(r"\d{1,6}", retry_after) else 0.0
    body = response.read(200).decode("utf-8", "replace").strip()
    return _Response(status=response.status, body=body, retry_after_s=max(MIN_INTERVAL_S, pause_s))


def _reason(error: OSError | HTTPException) -> str:
    """The reason of a failure, without anything that the other side could have echoed."""
    if not isinstance(error, OSError):
        return "the answer was not HTTP"
    return sanitise(str(error.reason if isinstance(error, URLError) else error), _MAX_REASON_CHARS)


def _next_step(error: OSError | HTTPException) -> str:
    """What to check, by where the exchange ended: at the name, the port, the certificate, or no answer."""
    reason = error.reason if isinstance(error, URLError) else error
    match reason:
        case gaierror():
            return "check the host of the webhook's address, and the DNS or the proxy of this machine"
        case ssl.SSLError():
            return "check the host of the webhook's address, and whether a proxy replaces its certificate"
        case ConnectionRefusedError():
            return (
                "nothing listens there: check the host and the port of the webhook's address, and any proxy"
            )
        case TimeoutError():
            return "a firewall or a proxy may block it: allow HTTPS to the host of the webhook's address"
        case _:
            return "check the network, any proxy, and what is at the webhook's address"


def _to_channel_error(response: _Response) -> ChannelError | None:
    """The meaning of a response other than 429; its body is a code such as ``invalid_payload``."""
    status_text = f"HTTP {response.status}" + (f", {response.code}" if response.code else "")
    if response.code in _NEXT_STEPS:
        problem = Problem(f"Slack refused the alert ({status_text})", _NEXT_STEPS[response.code])
        return ChannelError(problem, is_permanent=True)
    match response.status // 100:
        case 2 if response.body == "ok":
            return None
        case 2:
            problem = Problem(
                f"the answer ({status_text}) is not Slack's ok", "check what is at the webhook's address"
            )
            return ChannelError(problem, is_permanent=False)
        case 3:
            problem = Problem(
                f"the webhook's address redirects ({status_text}), which is not followed",
                "copy it again from Slack",
            )
            return ChannelError(problem, is_permanent=True)
        case 4:
            problem = Problem(
                f"Slack refused the alert ({status_text})", "check the webhook in Slack's settings"
            )
            return ChannelError(problem, is_permanent=True)
        case _:
            problem = Problem(
                f"Slack failed ({status_text}); it is tried again", "if it lasts, see Slack's status page"
            )
            return ChannelError(problem, is_permanent=False)
