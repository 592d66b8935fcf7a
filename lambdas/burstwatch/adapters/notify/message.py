"""What people are told by chat, in words: our alerts, and CloudWatch's alarms about the watchdog itself."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from itertools import accumulate
from math import isfinite
from typing import Any, Final, Protocol
from urllib.parse import quote

from burstwatch.adapters.notify.channel import body_lines, readable
from burstwatch.core.alerts.alert import SCHEMA, Alert, action_label, called, further_commands, title, urgency
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ebs.display_name import place_words
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.location import Place
from burstwatch.core.text import format_duration, format_instant, printable

ALARM: Final = "CloudWatchAlarm"
"""The kind of a notice that is no alert of ours."""

_LATE_S: Final = 300
_LONGEST_NAME: Final = 120
_LONGEST_TEXT: Final = 600
_LONGEST_ADDRESS: Final = 500
_LONGEST_DESCRIPTION: Final = 1_100
"""A little more than CloudWatch allows."""
_MOST_CONTRIBUTORS: Final = 3

_EMOJI: Final = {
    Level.UNKNOWN: "⚪",
    Level.OK: "🟢",
    Level.WATCH: "🔵",
    Level.WARNING: "🟡",
    Level.CRITICAL: "🟠",
    Level.EXHAUSTED: "🔴",
}
_STATES: Final = {
    "ALARM": ("🔴", "alarm"),
    "OK": ("🟢", "alarm over"),
    "INSUFFICIENT_DATA": ("⚪", "alarm without data"),
}
_RUNBOOK: Final = re.compile(r"\s*\bRunbook:\s*(\S+)")
_PAGE: Final = re.compile(r"([A-Za-z]+)\.md$")
_ARN: Final = re.compile(r"arn:[a-z-]+:cloudwatch:(?P<region>[a-z0-9-]+):(?P<account>[0-9]{12}):alarm:.+")

_LIVE_COLON: Final = re.compile(r":(?=//|(?!\d\d:\d\d)[\w+'-]+:)")
"""The colon that makes an address or an emoji of what follows; in the time of day 12:30:00 there is none."""
_LOOKS_LIKE_A_COLON: Final = "\u2236"
_LINK: Final = re.compile(r"https://[A-Za-z0-9][A-Za-z0-9._~/%:@?#=&,+-]{0,400}")


class NoticeError(BurstwatchError):
    """A message that is neither an alert nor an alarm; says what it is instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A message to people, in printable and short words that are not yet safe for any one channel.

    ``notice_id`` is the same whenever the same is told again. ``subject`` is what it is about: a volume, an
    alarm. ``made`` tells when it was made, by its time, and what it is known by. ``balance_pct`` is there
    where no line tells how the balance went. ``further`` are commands after the ``action``, ``links`` are
    labels with addresses, which may be no more than the path of a page.
    """

    notice_id: str
    kind: str
    subject: str
    mark: str
    title: str
    lines: Sequence[str]
    facts: Sequence[tuple[str, str]]
    made: str
    balance_pct: float | None = None
    action: str | None = None
    action_label: str = "What to do"
    further: Sequence[tuple[str, str]] = ()
    links: Sequence[tuple[str, str]] = ()

    def __post_init__(self) -> None:
        named = (part for pair in (*self.facts, *self.further, *self.links) for part in pair)
        said = (self.notice_id, self.title, self.subject, self.made, self.action or "", *self.lines, *named)
        if not all(isinstance(text, str) for text in said):
            raise TypeError("what is no text cannot be told")
        if self.balance_pct is not None and not isfinite(self.balance_pct):
            raise ValueError(f"a balance of {self.balance_pct} cannot be")


class Teller(Protocol):
    """A way to people for notices."""

    @property
    def name(self) -> str:
        """What its marks of what was sent are filed under."""
        ...

    def tell(self, notice: Notice, *, late: str | None, longest_wait_s: float) -> None:
        """Hand the notice over, waiting so long at most; ``late`` says how long after its time it comes.

        Raises:
            ChannelError: it was not taken.
        """
        ...


def read_notice(message: str) -> Notice:
    """What a message of the alerts topic tells, as a function gets it.

    Raises:
        NoticeError: it is neither an alert of ours nor an alarm of CloudWatch's.
    """
    try:
        document = json.loads(message)
    except (ValueError, RecursionError) as error:
        raise NoticeError(
            f"the message is no JSON ({error}): {printable(message, _LONGEST_NAME)!r}"
        ) from None
    match document:
        case {"schema": str() as schema} if schema == SCHEMA:
            return _read_alert(document)
        case {"AlarmName": str(), "NewStateValue": str()}:
            return notice_of_alarm(document)
        case {"schema": schema}:
            raise NoticeError(f"the message has the schema {printable(str(schema), 40)!r}, not {SCHEMA!r}")
        case _:
            shown = printable(message, _LONGEST_NAME)
            raise NoticeError(f"the message is neither an alert nor a CloudWatch alarm: {shown!r}")


def _read_alert(document: Mapping[str, Any]) -> Notice:
    try:
        return notice_of(Alert.from_document(document))
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        known_by = printable(str(document.get("alert_id")), _LONGEST_NAME)
        said = f"{type(error).__name__}: {printable(str(error), _LONGEST_NAME)}"
        raise NoticeError(
            f"the alert {known_by!r} cannot be read ({said}); were watch and notify deployed together?"
        ) from error


def notice_of(alert: Alert) -> Notice:
    """An alert as people are told of it."""
    shown = readable(alert)
    balance_pct = None if shown.evidence.get("course") else shown.reading.get("burst_balance_pct")
    return Notice(
        notice_id=shown.alert_id,
        kind=str(alert.kind),
        subject=shown.volume_id or str(alert.kind),
        mark=_EMOJI[urgency(alert)],
        title=title(shown),
        lines=tuple(body_lines(shown)),
        facts=_facts(shown),
        made=f"{format_instant(alert.time_s)} · alert {shown.alert_id}",
        balance_pct=None if balance_pct is None else float(balance_pct),
        action=shown.action or None,
        action_label=action_label(shown),
        further=tuple(further_commands(shown)),
        links=tuple(
            (label, address)
            for label, address in (
                ("Runbook", shown.runbook),
                ("Volume in the AWS console", shown.console_url),
            )
            if address
        ),
    )


def _facts(alert: Alert) -> tuple[tuple[str, str], ...]:
    volume = alert.volume
    where = place_words(volume.get("device"), volume.get("instance_id"), volume.get("instance_name"))
    shown: Sequence[tuple[str, Sequence[str | None]]] = (
        ("Level", [alert.level]),
        ("Volume", [alert.volume_id]),
        ("Name", [called(volume)]),
        ("Kubernetes", _kubernetes(volume)),
        ("Attached as", [where]),
        ("Region and account", [volume.get("region"), volume.get("account")]),
    )
    filled = ((label, " ".join(filter(None, parts))) for label, parts in shown)
    return tuple((label, text) for label, text in filled if text)


def _kubernetes(volume: Mapping[str, Any]) -> list[str]:
    """The claim, its namespace and the cluster, as far as they are known."""
    named = ((what, volume.get(what)) for what in ("claim", "namespace", "cluster"))
    return [f"{what} {name}" for what, name in named if name]


def notice_of_alarm(alarm: Mapping[str, Any]) -> Notice:
    """An alarm as CloudWatch publishes it; all that it needs is its name and state."""
    name, state = printable(alarm["AlarmName"], _LONGEST_NAME), printable(alarm["NewStateValue"], 40)
    mark, lead = _STATES.get(state, ("⚪", f"alarm in state {state}"))
    description = printable(_text(alarm, "AlarmDescription"), _LONGEST_DESCRIPTION)
    runbook = found[1].rstrip(".,;)") if (found := _RUNBOOK.search(description)) else None
    page = found[1] if runbook and (found := _PAGE.search(runbook)) else None
    arn = _ARN.fullmatch(_text(alarm, "AlarmArn"))
    region, account = (arn["region"], arn["account"]) if arn else ("", _text(alarm, "AWSAccountId"))
    changed_at = _text(alarm, "StateChangeTime")
    known_by = [_text(alarm, key) for key in ("AlarmArn", "AlarmName", "AlarmContributorId")]
    reason = printable(_text(alarm, "NewStateReason"), _LONGEST_TEXT)
    was = printable(_text(alarm, "OldStateValue"), 40)
    links = [("Runbook", runbook)] if runbook else []
    if region:
        console = f"https://{Place(region=region).console}/cloudwatch/home?region={region}"
        links.append(("Alarm in the AWS console", f"{console}#alarmsV2:alarm/{_quoted(alarm['AlarmName'])}"))
    facts = (
        ("Alarm", name),
        ("State", f"{state}, was {was}" if was else state),
        ("Region and account", printable(f"{region} {account}".strip(), _LONGEST_NAME)),
        *_contributor(alarm),
    )
    return Notice(
        notice_id=sha256("\n".join([*known_by, state, changed_at]).encode("utf-8", "replace")).hexdigest()[
            :32
        ],
        kind=ALARM,
        subject=name,
        mark=mark,
        title=f"{lead}: {page or name}",
        lines=tuple(filter(None, (_RUNBOOK.sub("", description), reason))),
        facts=tuple((label, text) for label, text in facts if text),
        made=f"{_instant(changed_at)} · alarm {name}",
        links=tuple((label, printable(address, _LONGEST_ADDRESS)) for label, address in links),
    )


def _contributor(alarm: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Which of many an alarm on a query is about, such as a volume."""
    attributes = alarm.get("AlarmContributorAttributes")
    if not isinstance(attributes, Mapping):
        return []
    named = list(attributes.items())[:_MOST_CONTRIBUTORS]
    return [("About", " ".join(printable(str(value), 60) for _, value in named))] if named else []


def _text(alarm: Mapping[str, Any], key: str) -> str:
    value = alarm.get(key)
    return value if isinstance(value, str) else ""


def _quoted(name: str) -> str:
    """For an address; a surrogate in it hides no alarm."""
    return quote(name, safe="", errors="replace")


def _instant(text: str) -> str:
    try:
        return format_instant(datetime.fromisoformat(text).timestamp())
    except (ValueError, OverflowError):
        return printable(text, 40) or "at a time not told"


def late_words(late_s: float) -> str | None:
    """What to say of a message that comes so long after it was published; None where it is in time."""
    return f"delivered {format_duration(late_s)} late" if late_s >= _LATE_S else None


def inert(text: str, limit: int, escapes: Mapping[str, str]) -> str:
    """Text in which nothing makes an address or an emoji, with these characters replaced.

    Args:
        text: Printable text.
        limit: At most so long, in UTF-16 units: the largest of the ways in which characters are counted.
        escapes: What a channel acts on, and what stands for it instead; never cut in the middle.
    """
    pieces = [escapes.get(character, character) for character in _LIVE_COLON.sub(_LOOKS_LIKE_A_COLON, text)]
    ends = list(accumulate(map(units, pieces)))
    if not ends or ends[-1] <= limit:
        return "".join(pieces)
    return "".join(pieces[: sum(end < limit for end in ends)]) + "…"


def units(text: str) -> int:
    """Length in UTF-16 units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def fitting(lines: Sequence[str], limit: int) -> list[str]:
    """As many lines as fit, and the number of the others."""
    ends = accumulate(units(line) + 1 for line in lines)
    kept = sum(end <= limit for end in ends)
    dropped = len(lines) - kept
    return list(lines) if not dropped else [*lines[:kept], f"… and {dropped} more"]


def is_link(address: str) -> bool:
    """Whether it is plain enough to be made a link of."""
    return _LINK.fullmatch(address) is not None
