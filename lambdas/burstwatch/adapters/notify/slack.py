"""Messages to a Slack channel, by an incoming webhook.

What comes from outside (names, tags, error messages) is shown in plain text elements or in code, where Slack
parses nothing, and what could be a mention, a link or an emoji is broken up besides.
"""

import time
from collections.abc import Callable
from typing import Any, Final

from burstwatch.adapters.notify.channel import ChannelError
from burstwatch.adapters.notify.message import Notice, fitting, inert, is_link, notice_of
from burstwatch.adapters.notify.slack_secret import WebhookSecret
from burstwatch.adapters.notify.slack_webhook import Webhook
from burstwatch.core.alerts.alert import Alert

_LONGEST_HEADER: Final = 150
_LONGEST_BODY: Final = 2700
_LONGEST_LINE: Final = 600
_LONGEST_FIELD: Final = 150
_LONGEST_ACTION: Final = 500
_LONGEST_MADE: Final = 250
_BAR_CELLS: Final = 20
_LONGEST_WAIT_S: Final = 5.0
"""A pass waits no longer for a turn: the alert stays in the ledger, and the next pass sends it."""

_ESCAPES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "`": "'", "@": "\uff20"}


class SlackChannel:
    """Posts each alert as one message."""

    name: Final = "slack"

    def __init__(
        self,
        webhook_url: str,
        *,
        open_url: Callable[..., Any] | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Check the address, which is a secret.

        Raises:
            ChannelError: it is neither https:// nor, for the lab, http:// to this machine.
        """
        self._webhook = Webhook(webhook_url, open_url=open_url, sleep=sleep, clock=clock)

    def send(self, alert: Alert) -> None:
        self._webhook.post(render(alert), longest_wait_s=_LONGEST_WAIT_S)


class SlackTeller:
    """Posts each notice as one message, to the webhook whose address a secret holds."""

    name: Final = "slack"

    def __init__(self, secret: WebhookSecret, open_webhook: Callable[[str], Webhook]) -> None:
        self._secret = secret
        self._open_webhook = open_webhook

    def tell(self, notice: Notice, *, late: str | None, longest_wait_s: float) -> None:
        """Post it; where Slack does not know the address any more, the secret may hold a new one already.

        Raises:
            ChannelError: Slack did not take it, or there is no address.
        """
        payload = render_notice(notice, late=late)
        address = self._secret.read()
        try:
            self._open_webhook(address).post(payload, longest_wait_s=longest_wait_s)
        except ChannelError as error:
            if not error.is_permanent or (changed := self._secret.read(afresh=True)) == address:
                raise
        else:
            return
        self._open_webhook(changed).post(payload, longest_wait_s=longest_wait_s)


def render(alert: Alert) -> dict[str, Any]:
    """The message about an alert."""
    return render_notice(notice_of(alert))


def render_notice(notice: Notice, *, late: str | None = None) -> dict[str, Any]:
    """The message for an incoming webhook: Block Kit, and a line of text for notifications.

    ``late`` says how long after its time it comes, where that matters.
    """
    header = _inert(f"{notice.mark} {notice.title}", _LONGEST_HEADER)
    blocks: list[dict[str, Any]] = [{"type": "header", "text": _plain(header)}]
    if body := _body(notice):
        blocks.append({"type": "section", "text": _plain(body)})
    blocks += [{"type": "section", "text": _markup(_command(*step))} for step in _steps(notice)]
    blocks.append({"type": "section", "fields": [_field(*fact) for fact in notice.facts]})
    if notice.links:
        links = "   ".join(_link(*link) for link in notice.links)
        blocks.append({"type": "section", "text": _markup(links)})
    made = _inert(f"{notice.made} · {late}" if late else notice.made, _LONGEST_MADE)
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


def _body(notice: Notice) -> str:
    lines = [_inert(line, _LONGEST_LINE) for line in notice.lines]
    if notice.balance_pct is not None:
        lines.insert(0, f"{_bar(notice.balance_pct)} {notice.balance_pct:.1f} %")
    return "\n".join(fitting(lines, _LONGEST_BODY))


def _bar(balance_pct: float) -> str:
    """Never fuller than the bucket is."""
    filled = max(0, min(_BAR_CELLS, int(balance_pct * _BAR_CELLS / 100)))
    return "▓" * filled + "░" * (_BAR_CELLS - filled)


def _steps(notice: Notice) -> list[tuple[str, str]]:
    return [*([(notice.action_label, notice.action)] if notice.action else []), *notice.further]


def _command(label: str, command: str) -> str:
    """In code, where a tap or three clicks take all of it."""
    return f"*{label}*\n```{_inert(command, _LONGEST_ACTION)}```"


def _field(label: str, text: str) -> dict[str, Any]:
    return _markup(f"*{label}*\n`{_inert(text, _LONGEST_FIELD)}`")


def _link(label: str, address: str) -> str:
    """A link where the address is plain https, the bare text of a page's path otherwise."""
    if is_link(address):
        return f"<{address.replace('&', '&amp;')}|{label}>"
    return f"{label}: `{_inert(address, _LONGEST_FIELD)}`"


def _inert(text: str, limit: int) -> str:
    """Printable text with nothing in it that Slack acts on, within ``limit`` as Slack counts."""
    return inert(text, limit, _ESCAPES)
