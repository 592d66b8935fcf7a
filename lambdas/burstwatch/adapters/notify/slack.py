"""Messages to a Slack channel through an incoming webhook.

Text from outside (names, tags, error messages) is in plain-text elements or in code, which Slack does not
parse. In addition, whatever could be a mention, a link or an emoji is changed.

The limits below are within Slack's: 150 characters in a header, 3,000 in a section, 2,000 in a field, and
50 blocks. Source: Slack's Block Kit reference.
"""

import time
from collections.abc import Callable
from typing import Any, Final

from burstwatch.adapters.notify.channel import ChannelError
from burstwatch.adapters.notify.message import (
    ChatMessage,
    escape,
    is_link,
    message_from_alert,
    truncate_lines,
)
from burstwatch.adapters.notify.slack_secret import WebhookSecret
from burstwatch.adapters.notify.slack_webhook import SlackWebhook
from burstwatch.core.alerts.alert import Alert

# body, action and field leave room for the bar, the label and the markup that are added after the cut
_MAX_HEADER_CHARS: Final = 150
_MAX_BODY_CHARS: Final = 2700
_MAX_LINE_CHARS: Final = 600
_MAX_FIELD_CHARS: Final = 150
_MAX_ACTION_CHARS: Final = 500
_MAX_FOOTER_CHARS: Final = 250
_BAR_CELLS: Final = 20  # one cell for each 5 %
_MAX_WAIT_S: Final = 5.0
"""How long a pass waits for its turn; after that the alert stays in the ledger for the next pass."""

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
            ChannelError: it is neither https:// nor (for the lab) http:// to this machine.
        """
        self._webhook = SlackWebhook(webhook_url, open_url=open_url, sleep=sleep, clock=clock)

    def send(self, alert: Alert) -> None:
        self._webhook.post(render(alert), max_wait_s=_MAX_WAIT_S)


class SlackChatChannel:
    """Posts each message to the webhook whose address is stored in a secret."""

    name: Final = "slack"

    def __init__(self, secret: WebhookSecret, open_webhook: Callable[[str], SlackWebhook]) -> None:
        self._secret = secret
        self._open_webhook = open_webhook

    def post(self, message: ChatMessage, *, delay_note: str | None, max_wait_s: float) -> None:
        """Post the message; if Slack no longer knows the address, read the secret again: it may be rotated.

        Raises:
            ChannelError: Slack did not take it, or there is no address.
        """
        payload = render_message(message, delay_note=delay_note)
        address = self._secret.read()
        try:
            self._open_webhook(address).post(payload, max_wait_s=max_wait_s)
        except ChannelError as error:
            if not error.is_permanent or (new_address := self._secret.read(force_refresh=True)) == address:
                raise
        else:
            return
        self._open_webhook(new_address).post(payload, max_wait_s=max_wait_s)


def render(alert: Alert) -> dict[str, Any]:
    """The Slack message about an alert."""
    return render_message(message_from_alert(alert))


def render_message(message: ChatMessage, *, delay_note: str | None = None) -> dict[str, Any]:
    """The payload for an incoming webhook: Block Kit, and a line of text for notifications.

    ``delay_note`` says how late the message is, if that matters.
    """
    header = _escape(f"{message.emoji} {message.title}", _MAX_HEADER_CHARS)
    blocks: list[dict[str, Any]] = [{"type": "header", "text": _plain(header)}]
    if message.reason:
        blocks.append({"type": "section", "text": _plain(_escape(message.reason, _MAX_LINE_CHARS))})
    if message.action:
        blocks.append({"type": "section", "text": _markup(_command(message.action_label, message.action))})
    if details := _details(message):
        blocks.append({"type": "section", "text": _plain(details)})
    blocks += [{"type": "section", "text": _markup(_command(*step))} for step in message.extra_commands]
    if message.facts:
        blocks.append({"type": "section", "fields": [_field(*fact) for fact in message.facts]})
    if message.links:
        links = "   ".join(_link(*link) for link in message.links)
        blocks.append({"type": "section", "text": _markup(links)})
    footer = _escape(f"{message.footer} · {delay_note}" if delay_note else message.footer, _MAX_FOOTER_CHARS)
    blocks.append({"type": "context", "elements": [_plain(footer)]})
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


def _details(message: ChatMessage) -> str:
    lines = [_escape(line, _MAX_LINE_CHARS) for line in message.lines]
    if message.balance_pct is not None:
        lines.insert(0, f"{_bar(message.balance_pct)} {message.balance_pct:.1f} %")
    return "\n".join(truncate_lines(lines, _MAX_BODY_CHARS))


def _bar(balance_pct: float) -> str:
    """A bar of the balance, rounded down."""
    filled = max(0, min(_BAR_CELLS, int(balance_pct * _BAR_CELLS / 100)))
    return "▓" * filled + "░" * (_BAR_CELLS - filled)


def _command(label: str, command: str) -> str:
    """A command as code, which a tap or a triple click selects as a whole."""
    return f"*{label}*\n```{_escape(command, _MAX_ACTION_CHARS)}```"


def _field(label: str, text: str) -> dict[str, Any]:
    return _markup(f"*{label}*\n`{_escape(text, _MAX_FIELD_CHARS)}`")


def _link(label: str, address: str) -> str:
    """A link if the address is plain https, otherwise the path of the page as text."""
    if is_link(address):
        return f"<{address.replace('&', '&amp;')}|{label}>"
    return f"{label}: `{_escape(address, _MAX_FIELD_CHARS)}`"


def _escape(text: str, limit: int) -> str:
    """Escape a text so that Slack interprets nothing in it, within ``limit`` as Slack counts."""
    return escape(text, limit, _ESCAPES)
