"""The operator's policy: thresholds, cadence and modes, valid by construction.

One YAML document; its scalars arrive here as text (``22:00`` is a time, not a number), nested in mappings.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from enum import StrEnum
from math import ceil
from typing import Any, Final, Self

from burstwatch.core.errors import BurstwatchError
from burstwatch.core.volume import BURST_IOPS, CREDITS_PER_PCT, baseline_iops, worst_drain_per_s

VERSION: Final = "1"
FOCUS_TICK: Final = timedelta(minutes=1)
"""The finest schedule AWS offers; a focus tick also takes over a sweep tick that was lost."""

_DAY: Final = timedelta(days=1)
_MINUTE: Final = timedelta(minutes=1)
_SPAN_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_SPAN = re.compile(r"([0-9]{1,6})([smhd])")
_NUMBER = re.compile(r"[0-9]{1,3}(\.[0-9]{1,4})?")
_URL = re.compile(
    r"(https://[A-Za-z0-9][A-Za-z0-9._~/%:@-]{0,200}|(?![a-z]+:)[A-Za-z0-9][A-Za-z0-9._~/%@-]{0,200})"
)
_TAG = re.compile(r"[^=\s][^=]{0,127}=[^=]{0,256}")


class Mode(StrEnum):
    """What the watchdog may do for a volume, in rising order of daring."""

    OBSERVE = "observe"
    PROPOSE = "propose"
    AUTO = "auto"

    @property
    def rank(self) -> int:
        return _RANKS[self]


_RANKS: Final = {mode: rank for rank, mode in enumerate(Mode)}


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFault:
    """One thing wrong with a policy document, at ``path`` (``levels.warning_within``)."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class PolicyError(BurstwatchError):
    """A policy was rejected; ``faults`` holds every reason at once."""

    def __init__(self, faults: tuple[PolicyFault, ...]) -> None:
        super().__init__("; ".join(map(str, faults)))
        self.faults = faults


def format_span(span: timedelta) -> str:
    """The shortest text that reads back as the same span: ``90m``, ``2h``, ``45s``."""
    seconds = int(span.total_seconds())
    unit = next(u for u in ("d", "h", "m", "s") if seconds % _SPAN_UNITS[u] == 0)
    return f"{seconds // _SPAN_UNITS[unit]}{unit}"


def parse_span(text: str) -> timedelta:
    """Read ``15m``, ``6h``, ``30s`` or ``2d``.

    Raises:
        ValueError: the text is no span.
    """
    match = _SPAN.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not a span; write a whole number and s, m, h or d, such as 15m")
    return timedelta(seconds=int(match[1]) * _SPAN_UNITS[match[2]])


def _pct(text: str) -> float:
    if not _NUMBER.fullmatch(text) or float(text) > 100:  # noqa: PLR2004 - per cent
        raise ValueError(f"{text!r} is not a percentage; write a number from 0 to 100, without a sign")
    return float(text)


def _count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,6}", text) or int(text) < 1:
        raise ValueError(f"{text!r} is not a count; write a whole number from 1 to 999999")
    return int(text)


def _mode(text: str) -> Mode:
    try:
        return Mode(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a mode; write observe, propose or auto") from None


def _tag(text: str) -> tuple[str, str]:
    if not _TAG.fullmatch(text):
        raise ValueError(f"{text!r} is not a tag; write key=value, such as burstwatch:mode=auto")
    key, _, value = text.partition("=")
    return key, value


def _url(text: str) -> str:
    if not _URL.fullmatch(text):
        raise ValueError(f"{text!r} is not a place for links; write an https:// address or a relative path")
    return text


def _setting(parse: Callable[[str], Any], default: Any, says: str) -> Any:
    return field(default=default, metadata={"parse": parse, "says": says})


@dataclass(frozen=True, slots=True, kw_only=True)
class ModePolicy:
    """Who may be modified at all."""

    default: Mode = _setting(_mode, Mode.PROPOSE, "for volumes without a mode tag; never auto")
    highest: Mode = _setting(_mode, Mode.AUTO, "the most a tag may ask for; propose stops all flips")
    opt_in_tag: tuple[str, str] = _setting(
        _tag, ("burstwatch:mode", "auto"), "a volume must carry exactly this tag to be flipped automatically"
    )

    def faults(self) -> list[PolicyFault]:
        """Settings that contradict each other."""
        if self.default is Mode.AUTO:
            reason = "'auto' would act on untagged volumes; write observe or propose and opt in by tag"
            return [PolicyFault(path="mode.default", message=reason)]
        key, value = self.opt_in_tag
        if key == "burstwatch:mode" and value != Mode.AUTO:
            reason = f"'{key}={value}' is no mode, so nobody could opt in; write {key}=auto or another tag"
            return [PolicyFault(path="mode.opt_in_tag", message=reason)]
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class CadencePolicy:
    """When to look again, so that nothing runs dry unseen (docs/guarantee.md)."""

    watch_below_pct: float = _setting(_pct, 95.0, "below this balance a volume is looked at closely (focus)")
    calm_from_pct: float = _setting(_pct, 97.0, "from this balance up it is calm again (sweep)")
    metric_lag: timedelta = _setting(
        parse_span, timedelta(minutes=5), "CloudWatch shows a minute this long after its start, at the latest"
    )
    tick_slack: timedelta = _setting(parse_span, _MINUTE, "a tick comes at most this much late")
    act_lead: timedelta = _setting(
        parse_span, timedelta(minutes=8), "time kept for acting between the first close look and empty"
    )
    sweep_tick: timedelta = _setting(parse_span, timedelta(minutes=5), "calm volumes are swept on this grid")
    sweep_at_most: timedelta = _setting(parse_span, timedelta(hours=1), "the longest a calm volume waits")
    focus_at_most: timedelta = _setting(
        parse_span, timedelta(minutes=5), "the longest a volume in focus waits"
    )

    @property
    def reserve(self) -> timedelta:
        """What must remain after a look interval: lag, slack and lead."""
        return self.metric_lag + self.tick_slack + self.act_lead

    def faults(self) -> list[PolicyFault]:
        """Settings that contradict each other, the look rule with its arithmetic last."""
        found = [
            PolicyFault(path=f"cadence.{name}", message=f"{format_span(span)} is too short; at least {least}")
            for name, span, shortest, least in (
                ("metric_lag", self.metric_lag, _MINUTE, "1m, the minute being measured"),
                ("tick_slack", self.tick_slack, FOCUS_TICK, "1m, the next focus tick takes over a lost one"),
                ("act_lead", self.act_lead, _MINUTE, "1m"),
                ("focus_at_most", self.focus_at_most, FOCUS_TICK, "1m, the focus tick"),
            )
            if span < shortest
        ]
        if self.sweep_tick < _MINUTE or self.sweep_tick % _MINUTE or _DAY % self.sweep_tick:
            reason = f"{format_span(self.sweep_tick)} must be whole minutes that divide a day, such as 5m"
            found.append(PolicyFault(path="cadence.sweep_tick", message=reason))
        if not self.sweep_tick <= self.sweep_at_most <= _DAY:
            shown = format_span(self.sweep_at_most)
            reason = f"{shown} must be from sweep_tick {format_span(self.sweep_tick)} to 1d"
            found.append(PolicyFault(path="cadence.sweep_at_most", message=reason))
        if not self.watch_below_pct < self.calm_from_pct:
            reason = f"{self.calm_from_pct:g} must be above watch_below_pct {self.watch_below_pct:g}"
            found.append(PolicyFault(path="cadence.calm_from_pct", message=reason))
        return found + self._look_rule_faults()

    def _look_rule_faults(self) -> list[PolicyFault]:
        baseline = baseline_iops(1)
        credits_left = self.watch_below_pct * CREDITS_PER_PCT
        lasts_s = credits_left / worst_drain_per_s(baseline)
        needs_s = (self.sweep_tick + self.reserve).total_seconds()
        if needs_s <= lasts_s:
            return []
        needed_pct = ceil(10 * needs_s * worst_drain_per_s(baseline) / CREDITS_PER_PCT) / 10
        advice = (
            f"raise watch_below_pct to {needed_pct:.1f}"
            if needed_pct < self.calm_from_pct
            else f"shorten them by {format_span(timedelta(seconds=int(needs_s - lasts_s) + 1))} in all"
        )
        arithmetic = (
            f"sweep_tick {format_span(self.sweep_tick)} + metric_lag {format_span(self.metric_lag)}"
            f" + tick_slack {format_span(self.tick_slack)} + act_lead {format_span(self.act_lead)}"
            f" = {needs_s:.0f} s, but a volume of up to 33 GiB at {self.watch_below_pct:g} % can be dry after"
            f" {credits_left:.0f} credits / ({BURST_IOPS} - {baseline}) = {lasts_s:.0f} s; {advice}"
        )
        return [PolicyFault(path="cadence", message=arithmetic)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryPolicy:
    """When missing data is a fault."""

    too_new: timedelta = _setting(
        parse_span,
        timedelta(minutes=15),
        "created or attached less than this ago: no datapoint yet is normal",
    )
    gap_after: timedelta = _setting(
        parse_span, timedelta(minutes=30), "attached, running and no datapoint for this long: a fault"
    )

    def faults(self) -> list[PolicyFault]:
        """Settings that contradict each other."""
        if self.too_new <= self.gap_after <= _DAY:
            return []
        reason = f"{format_span(self.gap_after)} must be from too_new {format_span(self.too_new)} to 1d"
        return [PolicyFault(path="telemetry.gap_after", message=reason)]


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelPolicy:
    """When a volume enters and leaves each level; leaving is farther out, so that levels do not flap."""

    exhausted_pct: float = _setting(_pct, 1.0, "exhausted at or below this balance")
    exhausted_leave_pct: float = _setting(_pct, 5.0, "no longer exhausted at or above this balance")
    critical_within: timedelta = _setting(
        parse_span, timedelta(minutes=15), "critical when dry within this time"
    )
    critical_leave: timedelta = _setting(
        parse_span, timedelta(minutes=30), "no longer critical beyond this time"
    )
    warning_within: timedelta = _setting(
        parse_span, timedelta(minutes=60), "warning when dry within this time"
    )
    warning_leave: timedelta = _setting(
        parse_span, timedelta(minutes=90), "no longer warning beyond this time"
    )
    refilling_for: timedelta = _setting(
        parse_span, timedelta(minutes=10), "or when the balance has not fallen for this long"
    )

    def faults(self) -> list[PolicyFault]:
        """Settings that contradict each other."""
        pairs: tuple[tuple[str, Any, str, Any], ...] = (
            ("exhausted_leave_pct", self.exhausted_leave_pct, "exhausted_pct", self.exhausted_pct),
            ("critical_leave", self.critical_leave, "critical_within", self.critical_within),
            ("warning_leave", self.warning_leave, "warning_within", self.warning_within),
            ("warning_within", self.warning_within, "critical_within", self.critical_within),
        )
        found = [
            PolicyFault(path=f"levels.{upper}", message=f"{_show(high)} must be above {lower} {_show(low)}")
            for upper, high, lower, low in pairs
            if high <= low
        ]
        if not 3 * _MINUTE <= self.refilling_for <= timedelta(minutes=30):
            reason = (
                f"{format_span(self.refilling_for)} must be from 3m to 30m, as far as a sweep's samples reach"
            )
            found.append(PolicyFault(path="levels.refilling_for", message=reason))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertPolicy:
    """How often people hear of it."""

    remind_every: timedelta = _setting(
        parse_span, timedelta(hours=2), "repeat an alert while its level lasts, this often"
    )
    digest_above: int = _setting(_count, 10, "more alerts than this in one tick go out as one digest")
    runbooks_url: str = _setting(_url, "runbooks", "where your people find the pages of runbooks/")

    def faults(self) -> list[PolicyFault]:
        """Settings that contradict each other."""
        if self.remind_every >= timedelta(minutes=5):
            return []
        reason = f"{format_span(self.remind_every)} is too often; at least 5m"
        return [PolicyFault(path="alerts.remind_every", message=reason)]


def _show(value: Any) -> str:
    match value:
        case timedelta():
            return format_span(value)
        case (key, tag_value):
            return f"{key}={tag_value}"
        case float():
            return f"{value:.4f}".rstrip("0").rstrip(".")
        case _:
            return str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Everything an operator decides; the default is safe to run anywhere."""

    mode: ModePolicy = field(default_factory=ModePolicy)
    cadence: CadencePolicy = field(default_factory=CadencePolicy)
    telemetry: TelemetryPolicy = field(default_factory=TelemetryPolicy)
    levels: LevelPolicy = field(default_factory=LevelPolicy)
    alerts: AlertPolicy = field(default_factory=AlertPolicy)

    def __post_init__(self) -> None:
        if faults := self.faults():
            raise PolicyError(faults)

    def faults(self) -> tuple[PolicyFault, ...]:
        """Settings that contradict each other, within and across the sections."""
        found = [fault for f in fields(self) for fault in getattr(self, f.name).faults()]
        found += _faults_across(self.cadence, self.telemetry, self.levels)
        return tuple(found)

    @classmethod
    def from_mapping(cls, document: Mapping[str, Any]) -> Self:
        """Read a policy document whose scalars are text.

        Raises:
            PolicyError: with every fault found, each at its path.
        """
        faults: list[PolicyFault] = []
        version = document.get("version")
        if version != VERSION:
            said = "is missing" if version is None else f"is {version!r}"
            faults.append(
                PolicyFault(path="version", message=f"{said}; this burstwatch reads version: {VERSION}")
            )
        known = {f.name: f.default_factory for f in fields(cls)}
        faults += _unknown_keys("", document, {"version", *known})
        sections = {
            name: _read_section(name, section_type, document.get(name, {}), faults)
            for name, section_type in known.items()
        }
        if faults:
            for section in sections.values():
                faults += section.faults()
            faults += _faults_across(sections["cadence"], sections["telemetry"], sections["levels"])
            raise PolicyError(tuple(dict.fromkeys(faults)))
        return cls(**sections)

    def to_mapping(self) -> dict[str, Any]:
        """The document this policy would be read from, every default spelled out."""
        return {"version": VERSION} | {
            f.name: {
                s.name: _show(getattr(getattr(self, f.name), s.name)) for s in fields(getattr(self, f.name))
            }
            for f in fields(self)
        }


def _faults_across(
    cadence: CadencePolicy, telemetry: TelemetryPolicy, levels: LevelPolicy
) -> list[PolicyFault]:
    found: list[PolicyFault] = []
    if telemetry.too_new < cadence.metric_lag:
        reason = (
            f"{format_span(telemetry.too_new)} must be at least cadence.metric_lag"
            f" {format_span(cadence.metric_lag)}: no datapoint can be there sooner"
        )
        found.append(PolicyFault(path="telemetry.too_new", message=reason))
    if levels.exhausted_leave_pct > cadence.watch_below_pct:
        reason = (
            f"{levels.exhausted_leave_pct:g} must not be above cadence.watch_below_pct"
            f" {cadence.watch_below_pct:g}"
        )
        found.append(PolicyFault(path="levels.exhausted_leave_pct", message=reason))
    return found


def _unknown_keys(path: str, mapping: Mapping[str, Any], known: set[str]) -> list[PolicyFault]:
    return [
        PolicyFault(path=f"{path}{key}", message=f"unknown key; known here: {', '.join(sorted(known))}")
        for key in mapping
        if key not in known
    ]


def _scalar(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{value!r} is no single value; write it on one line after the colon")  # noqa: TRY004
    return str(value)


def _read_section(name: str, section_type: Any, given: Any, faults: list[PolicyFault]) -> Any:
    """Parse one section, adding to ``faults``; a faulty setting falls back to its default meanwhile."""
    if not isinstance(given, Mapping):
        if given not in ("", None):
            faults.append(
                PolicyFault(path=name, message=f"{given!r} is no section; indent its settings below it")
            )
        return section_type()
    settings = {f.name: f.metadata["parse"] for f in fields(section_type)}
    faults += _unknown_keys(f"{name}.", given, set(settings))
    values: dict[str, Any] = {}
    for key, parse in settings.items():
        if key not in given:
            continue
        try:
            values[key] = parse(_scalar(given[key]))
        except ValueError as fault:
            faults.append(PolicyFault(path=f"{name}.{key}", message=str(fault)))
    return section_type(**values)
