"""The operator's policy: thresholds, cadence and modes, valid by construction.

It is one YAML document. Its scalars arrive here as text, nested in mappings, because YAML 1.1 reads an
unquoted ``22:00`` as the number 1320.

The defaults are judgements. Those of the cadence follow from the rule in ``docs/guarantee.md``; those of the
levels were compared on recorded workloads (``docs/benchmarks.md``).
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from enum import StrEnum
from functools import partial
from math import ceil
from typing import Any, Final, Self

from burstwatch.core.durations import DAY, HOUR, MINUTE, format_duration_literal, parse_duration
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.ebs.sizing import ReturnMode
from burstwatch.core.ebs.volume import (
    BURST_IOPS,
    BURSTABLE_TYPES,
    CREDITS_PER_PCT,
    baseline_iops,
    highest_drain_per_s,
)
from burstwatch.core.ebs.volume_types import TYPE_LIMITS
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.parsing import DocumentReader, Fault
from burstwatch.core.policy.change_hours import ALWAYS, ChangeHours, parse_change_hours
from burstwatch.core.policy.parsing import (
    choice_parser,
    parse_count,
    parse_dollars,
    parse_pct,
    parse_tag,
    parse_url,
    range_faults,
    read_section,
    section_settings,
    setting,
    write_section,
)
from burstwatch.core.policy.resources import ResourcesPolicy
from burstwatch.core.policy.windows import LeadPolicy, Windows, parse_windows
from burstwatch.core.policy.windows import to_mapping as windows_to_mapping
from burstwatch.core.resource_type import ResourceType
from burstwatch.core.tag_keys import MODE

VERSION: Final = "1"
SCHEMA: Final = "burstwatch.policy/v1"
"""The schema of ``policy show --json``; a document may contain it."""

FOCUS_TICK: Final = timedelta(minutes=1)
"""The finest schedule of EventBridge Scheduler, ``rate(1 minute)``.

A focus tick also takes over a sweep tick that was lost. Source: the EventBridge Scheduler user guide,
"Schedule types".
"""

_WINDOWS: Final = "windows"
_RESOURCES: Final = "resources"
_ZERO: Final = timedelta(0)
_MAX_RESERVED_PCT: Final = 90.0
"""Beyond this, windows and critical volumes would have no room in the caps."""


class Mode(StrEnum):
    """What the watchdog may do for a volume, in rising order of permission."""

    OBSERVE = "observe"
    PROPOSE = "propose"
    AUTO = "auto"

    @property
    def rank(self) -> int:
        return _RANKS[self]


_RANKS: Final = {mode: rank for rank, mode in enumerate(Mode)}


class PolicyError(BurstwatchError):
    """A policy was rejected; ``faults`` holds every reason at once."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        super().__init__("; ".join(map(str, faults)))
        self.faults = faults


class ActAt(StrEnum):
    """The level at which an opted-in volume is flipped; ``auto`` decides by what the change costs."""

    AUTO = "auto"
    CRITICAL = "critical"
    WARNING = "warning"


class QuotaRule(StrEnum):
    """How often AWS allows a volume to be modified: four times in any 24 h, or once in 6 h.

    AWS replaced the second rule by the first on 15 January 2026, but some accounts still had the old one
    weeks later. Source: the EBS user guide, "Requirements for EBS volume modifications" and "Document
    history".
    """

    FOUR_PER_DAY = "four_per_day"
    SIX_HOURS = "six_hours"


_parse_mode: Final = choice_parser("a mode", *Mode)
_parse_iops: Final = partial(parse_count, digits=9)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModePolicy:
    """Which volumes may be modified at all."""

    default: Mode = setting(
        _parse_mode, Mode.PROPOSE, "for volumes without a mode tag; never auto", unit="observe or propose"
    )
    highest: Mode = setting(
        _parse_mode,
        Mode.AUTO,
        "the highest mode a tag may request; propose stops all flips",
        unit="observe, propose or auto",
    )
    opt_in_tag: tuple[str, str] = setting(
        parse_tag,
        ("burstwatch:mode", "auto"),
        "a volume must carry exactly this tag to be flipped automatically",
        unit="KEY=VALUE",
    )

    def faults(self) -> Iterator[Fault]:
        """Settings that contradict each other."""
        key, value = self.opt_in_tag
        if self.default is Mode.AUTO:
            yield Fault(
                "mode.default",
                "'auto' would act on untagged volumes; write observe or propose and opt in by tag",
            )
        elif key == MODE and value != Mode.AUTO:
            yield Fault(
                "mode.opt_in_tag",
                f"'{key}={value}' is not a valid mode, so no one could opt in; write {key}=auto"
                " or another tag",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CadencePolicy:
    """When to poll a volume again, so that no bucket is empty without having been in focus.

    With the defaults, for a volume of up to 33 GiB at 95 %: 5,130,000 credits / (3,000 - 100) = 1,769 s.
    Sweep tick, lag, slack and lead together need 5 + 5 + 1 + 8 min = 1,140 s. So the policy is accepted, and
    such a volume is polled every 15 min. See ``docs/guarantee.md``.
    """

    # At 95 % the smallest volume lasts 29.5 min at worst: less 14 min of reserve, it can be swept every 15
    # min. At 90 % it could be swept only every 10 min, for half as much again.
    watch_below_pct: float = setting(
        parse_pct, 95.0, "below this balance a volume is polled closely (in focus)"
    )
    # Two points higher, so that a volume that stays at about 95 % does not enter and leave focus at every
    # poll.
    calm_from_pct: float = setting(parse_pct, 97.0, "from this balance up it is calm again (sweep)")
    # AWS documents no delay. This covers the measured minute and four more; ``burstctl doctor`` measures it.
    metric_lag: timedelta = setting(
        parse_duration,
        timedelta(minutes=5),
        "CloudWatch shows a minute this long after its start, at the latest",
    )
    # EventBridge Scheduler starts a schedule at any time within its minute.
    tick_slack: timedelta = setting(parse_duration, MINUTE, "the longest delay of a tick")
    # For a person to read the alert and flip. A longer lead means shorter sweep intervals for every volume.
    act_lead: timedelta = setting(
        parse_duration,
        timedelta(minutes=8),
        "time to react between the first poll in focus and an empty bucket",
    )
    sweep_tick: timedelta = setting(
        parse_duration, timedelta(minutes=5), "calm volumes are swept on this grid"
    )
    # An hourly poll costs less than a cent a month (720 metrics at $0.01 for 1,000): longer saves next to
    # nothing.
    sweep_at_most: timedelta = setting(parse_duration, timedelta(hours=1), "the longest a calm volume waits")
    focus_at_most: timedelta = setting(
        parse_duration, timedelta(minutes=5), "the longest a volume in focus waits"
    )

    @property
    def reserve(self) -> timedelta:
        """The time that must remain after a poll interval: lag, slack and lead."""
        return self.metric_lag + self.tick_slack + self.act_lead

    def faults(self) -> Iterator[Fault]:
        """Settings that contradict each other."""
        for name, duration, minimum, minimum_text in (
            ("metric_lag", self.metric_lag, MINUTE, "1m, the minute being measured"),
            ("tick_slack", self.tick_slack, FOCUS_TICK, "1m, the next focus tick takes over a lost one"),
            ("act_lead", self.act_lead, MINUTE, "1m"),
            ("focus_at_most", self.focus_at_most, FOCUS_TICK, "1m, the focus tick"),
        ):
            if duration < minimum:
                duration_text = format_duration_literal(duration)
                yield Fault(f"cadence.{name}", f"{duration_text} is too short; at least {minimum_text}")
        sweep_tick = format_duration_literal(self.sweep_tick)
        if self.sweep_tick < MINUTE or self.sweep_tick % MINUTE or DAY % self.sweep_tick:
            reason = f"{sweep_tick} must be whole minutes that divide a day, such as 5m"
            yield Fault("cadence.sweep_tick", reason)
        if not self.sweep_tick <= self.sweep_at_most <= DAY:
            sweep_text = format_duration_literal(self.sweep_at_most)
            yield Fault("cadence.sweep_at_most", f"{sweep_text} must be from sweep_tick {sweep_tick} to 1d")
        if not self.watch_below_pct < self.calm_from_pct:
            reason = f"{self.calm_from_pct:g} must be above watch_below_pct {self.watch_below_pct:g}"
            yield Fault("cadence.calm_from_pct", reason)

    def poll_interval_faults(self) -> Iterator[Fault]:
        """The rule of the poll interval with its numbers, if these times break it for the smallest gp2."""
        baseline = baseline_iops(1)
        credits_left = self.watch_below_pct * CREDITS_PER_PCT
        time_to_empty_s = credits_left / highest_drain_per_s(baseline)
        required_s = (self.sweep_tick + self.reserve).total_seconds()
        if required_s <= time_to_empty_s:
            return
        needed_pct = ceil(10 * required_s * highest_drain_per_s(baseline) / CREDITS_PER_PCT) / 10
        excess = format_duration_literal(timedelta(seconds=int(required_s - time_to_empty_s) + 1))
        can_raise = needed_pct < self.calm_from_pct
        advice = (
            f"raise watch_below_pct to {needed_pct:.1f}" if can_raise else f"shorten them by {excess} in all"
        )
        yield Fault(
            "cadence",
            f"sweep_tick {format_duration_literal(self.sweep_tick)} + metric_lag"
            f" {format_duration_literal(self.metric_lag)} + tick_slack"
            f" {format_duration_literal(self.tick_slack)} + act_lead {format_duration_literal(self.act_lead)}"
            f" = {required_s:.0f} s. But a volume of up to 33 GiB at {self.watch_below_pct:g} % can be empty"
            f" after {credits_left:.0f} credits / ({BURST_IOPS} - {baseline}) = {time_to_empty_s:.0f} s;"
            f" {advice}",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryPolicy:
    """When missing data is a fault."""

    # A new metric can take up to 15 min to appear. Source: the CloudWatch API reference, ListMetrics.
    too_new: timedelta = setting(
        parse_duration,
        timedelta(minutes=15),
        "created or attached less than this ago: no datapoint yet is normal",
    )
    # A full bucket lasts about half an hour at worst: after a longer gap, the last balance says nothing.
    gap_after: timedelta = setting(
        parse_duration, timedelta(minutes=30), "attached, running and no datapoint for this long: a fault"
    )

    def faults(self) -> Iterator[Fault]:
        """Settings that contradict each other."""
        if not self.too_new <= self.gap_after <= DAY:
            yield Fault(
                "telemetry.gap_after",
                f"{format_duration_literal(self.gap_after)} must be from too_new"
                f" {format_duration_literal(self.too_new)} to 1d",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelPolicy:
    """When a volume enters and leaves each level: the limit to leave is farther, to prevent flapping."""

    # 1 % of the bucket is 54,000 credits, which last less than 20 s at full burst on 33 GiB: as good as
    # empty.
    exhausted_pct: float = setting(parse_pct, 1.0, "exhausted at or below this balance")
    exhausted_leave_pct: float = setting(parse_pct, 5.0, "no longer exhausted at or above this balance")
    # The values of critical and warning were compared on recorded workloads: decision 0015,
    # docs/benchmarks.md. Critical is limited to 30 min, because a drain must have lasted twice as long, and
    # samples reach back an hour.
    critical_within: timedelta = setting(
        parse_duration,
        timedelta(minutes=15),
        "critical when empty within this time, by a drain that has lasted twice the time left; 30m at most",
    )
    critical_leave: timedelta = setting(
        parse_duration, timedelta(minutes=30), "no longer critical when empty later than this"
    )
    warning_within: timedelta = setting(
        parse_duration, timedelta(minutes=60), "warning when empty within this time"
    )
    warning_leave: timedelta = setting(
        parse_duration, timedelta(minutes=90), "no longer warning when empty later than this"
    )
    refilling_for: timedelta = setting(
        parse_duration,
        timedelta(minutes=10),
        "critical and warning also end when the balance has not fallen for this long",
    )

    def faults(self) -> Iterator[Fault]:
        """Settings that contradict each other."""
        for upper, lower in (
            ("exhausted_leave_pct", "exhausted_pct"),
            ("critical_leave", "critical_within"),
            ("warning_leave", "warning_within"),
            ("warning_within", "critical_within"),
        ):
            high, low = getattr(self, upper), getattr(self, lower)
            if high <= low:
                yield Fault(
                    f"levels.{upper}", f"{_format_value(high)} must be above {lower} {_format_value(low)}"
                )
        if not 3 * MINUTE <= self.refilling_for <= timedelta(minutes=30):
            yield Fault(
                "levels.refilling_for",
                f"{format_duration_literal(self.refilling_for)} must be from 3m to 30m, as far as a sweep's"
                " samples reach",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertPolicy:
    """How often alerts are sent."""

    # A judgement: often enough not to be forgotten, seldom enough to be read.
    remind_every: timedelta = setting(
        parse_duration, timedelta(hours=2), "repeat an alert while its level lasts, this often"
    )
    # Slack takes a message a second from a webhook: ten alerts arrive within one tick, and people can read
    # ten.
    digest_above: int = setting(
        parse_count, 10, "more alerts than this in one tick go out as one digest", unit="alerts"
    )
    runbooks_url: str = setting(
        parse_url,
        "runbooks",
        "the address of the pages of runbooks/; without one, messages name burstctl runbook",
        unit="https:// address",
    )

    def faults(self) -> Iterator[Fault]:
        """Settings that contradict each other."""
        if self.remind_every < timedelta(minutes=5):
            interval_text = format_duration_literal(self.remind_every)
            yield Fault("alerts.remind_every", f"{interval_text} is too often; at least 5m")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipPolicy:
    """What opted-in volumes are flipped to, and the limits on that.

    ``io1_iops_limit`` and ``io2_iops_limit`` are the default quotas of an AWS account, per Region. Source:
    the EBS user guide, "Quotas for Amazon EBS".
    """

    target: VolumeType = setting(
        choice_parser("a target", VolumeType.GP3, VolumeType.IO1, VolumeType.IO2),
        VolumeType.GP3,
        "the type to flip to, if no tag names another",
        unit="gp3, io1 or io2",
    )
    # The observed peak is the mean of a minute; within the minute there are higher ones.
    headroom_pct: float = setting(parse_pct, 25.0, "IOPS provisioned above the highest consumption")
    act_at: ActAt = setting(
        choice_parser("a level to act at", *ActAt),
        ActAt.AUTO,
        "flip at this level; auto: at warning if the target stays and costs no more than gp2",
        unit="auto, critical or warning",
    )
    # AWS allows four modifications in 24 h: a volume must not use them up within minutes.
    cooldown: timedelta = setting(
        parse_duration, timedelta(minutes=30), "no flip this soon after a volume's last modification"
    )
    quota_rule: QuotaRule = setting(
        choice_parser("a quota rule", *QuotaRule),
        QuotaRule.FOUR_PER_DAY,
        "how often AWS lets a volume be modified; six_hours if it still refuses sooner",
        unit="four_per_day or six_hours",
    )
    # The caps bound what a mistake can do and cost; a fleet that needs more states its own numbers.
    fleet_cap: int = setting(
        parse_count, 50, "volumes flipped or being flipped at the same time", unit="volumes"
    )
    spend_cap_usd: float = setting(
        parse_dollars,
        1000.0,
        "what all flips under way may add together, at us-east-1 list prices",
        key="spend_cap_usd_per_month",
    )
    draining_reserve_pct: float = setting(
        parse_pct,
        25.0,
        "share of both caps, 90 at most, for automatic flips of draining volumes at critical only",
    )
    # io1 with the 3,000 IOPS of the burst adds $198 a month to 100 GiB: that much a tag may ask for.
    tag_cap_usd: float = setting(
        parse_dollars,
        250.0,
        "what the tags of one volume may add, at us-east-1 list prices",
        key="tag_cap_usd_per_month",
    )
    change_hours: ChangeHours | None = setting(
        parse_change_hours,
        None,
        "automatic changes only then, such as mon-fri 08:00-18:00 Europe/Berlin",
        unit="always, or days, hours and zone",
    )
    io1_iops_limit: int = setting(
        _parse_iops, 300_000, "the account's quota for io1 in this region", unit="IOPS"
    )
    io2_iops_limit: int = setting(
        _parse_iops, 100_000, "the account's quota for io2 in this region", unit="IOPS"
    )

    def refuses_quietly(self, *, is_early: bool) -> bool:
        """Whether the refusal of a flip is not reported: an early one is tried again until it is critical."""
        return is_early and self.act_at is ActAt.AUTO

    def faults(self) -> Iterator[Fault]:
        """Settings that contradict each other."""
        yield from range_faults("flip.cooldown", self.cooldown, _ZERO, DAY)
        limits = {VolumeType.IO1: self.io1_iops_limit, VolumeType.IO2: self.io2_iops_limit}
        limit, minimum = limits.get(self.target), TYPE_LIMITS[self.target].min_iops
        if limit is not None and limit < minimum:
            yield Fault(
                f"flip.{self.target}_iops_limit",
                f"{limit} is below the {minimum} that any {self.target} takes, so nothing could be flipped",
            )
        if self.draining_reserve_pct > _MAX_RESERVED_PCT:
            yield Fault(
                "flip.draining_reserve_pct",
                f"{self.draining_reserve_pct:g} is above {_MAX_RESERVED_PCT:g}, which leaves windows and"
                f" critical volumes no room in the caps; take 0 to {_MAX_RESERVED_PCT:g}",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipBackPolicy:
    """When flipped volumes return to gp2."""

    returns: ReturnMode = setting(
        choice_parser("a way to return", *ReturnMode),
        ReturnMode.AUTO,
        "whether to return; auto leaves a gp3 that costs no more",
        unit="auto, always or never",
        key="return",
    )
    # A judgement: long enough that the pause between two jobs of a busy host does not count as calm.
    calm_for: timedelta = setting(
        parse_duration, timedelta(minutes=30), "demand must have been calm this long"
    )
    # AWS does not document what a return does to the balance. At half the baseline, even an empty bucket is
    # enough.
    calm_below_pct: float = setting(parse_pct, 50.0, "calm is demand below this share of the gp2 baseline")
    # A return needs one of the four modifications of the day, so it must be worth it.
    dwell: timedelta = setting(parse_duration, HOUR, "the least time on the target")

    def faults(self) -> Iterator[Fault]:
        """Settings that contradict each other."""
        yield from range_faults("flip_back.calm_for", self.calm_for, timedelta(minutes=5), DAY)
        if self.calm_below_pct <= 0:
            yield Fault(
                "flip_back.calm_below_pct",
                "0 must be above 0: no demand is below nothing, so no volume would return",
            )
        yield from range_faults("flip_back.dwell", self.dwell, _ZERO, timedelta(days=28))


def page_template(runbooks_url: str) -> str:
    """The address of a runbook page, with ``{page}`` for its name; by default, pages are Markdown files."""
    return runbooks_url if "{page}" in runbooks_url else f"{runbooks_url.rstrip('/')}/{{page}}.md"


def _format_value(value: Any) -> str:
    match value:
        case timedelta():
            return format_duration_literal(value)
        case bool() | frozenset():
            return ", ".join(sorted(value)) if isinstance(value, frozenset) else str(value).lower()
        case (key, tag_value):
            return f"{key}={tag_value}"
        case None:
            return ALWAYS
        case float():
            return f"{value:.4f}".rstrip("0").rstrip(".")
        case _:
            return str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Everything that an operator decides; by default only volumes with the opt-in tag are modified."""

    mode: ModePolicy = field(default_factory=ModePolicy)
    cadence: CadencePolicy = field(default_factory=CadencePolicy)
    telemetry: TelemetryPolicy = field(default_factory=TelemetryPolicy)
    levels: LevelPolicy = field(default_factory=LevelPolicy)
    alerts: AlertPolicy = field(default_factory=AlertPolicy)
    flip: FlipPolicy = field(default_factory=FlipPolicy)
    flip_back: FlipBackPolicy = field(default_factory=FlipBackPolicy)
    lead: LeadPolicy = field(default_factory=LeadPolicy)
    resources: ResourcesPolicy = field(default_factory=ResourcesPolicy)
    windows: Windows = ()

    def __post_init__(self) -> None:
        if faults := self.faults():
            raise PolicyError(faults)

    def faults(self) -> tuple[Fault, ...]:
        """Settings that contradict each other, within and across the sections."""
        return tuple(_collect_faults({name: getattr(self, name) for name in (*_section_types(), _RESOURCES)}))

    @classmethod
    def from_mapping(cls, document: Mapping[str, Any]) -> Self:
        """Read a policy document whose scalars are text.

        Raises:
            PolicyError: the document is invalid; the error holds every fault, each with its path.
        """
        section_types = _section_types()
        reader = DocumentReader(document)
        version = document.get("version")
        if version != VERSION:
            problem = "is missing" if version is None else f"is {version!r}"
            reader.reject("version", f"{problem}; this burstwatch reads version: {VERSION}")
        if (schema := document.get("schema", SCHEMA)) != SCHEMA:
            reader.reject("schema", f"is {schema!r}; write {SCHEMA}, or leave it out")
        reader.reject_unknown(sorted(("schema", "version", *section_types, _RESOURCES, _WINDOWS)))
        faults = reader.faults
        sections = {
            name: read_section(name, section_type, document.get(name), faults)
            for name, section_type in section_types.items()
        }
        sections[_RESOURCES] = _read_resources(document.get(_RESOURCES), faults)
        windows, window_faults = parse_windows(section_settings(_WINDOWS, document.get(_WINDOWS), faults))
        faults += window_faults
        if faults:
            raise PolicyError(tuple(dict.fromkeys(faults + _collect_faults(sections))))
        return cls(**sections, windows=windows)

    def watching(self, kinds: Collection[ResourceType]) -> Self:
        """The policy with these kinds of resources watched and no other; volumes of the types that it has."""
        watches = {
            str(kind): replace(getattr(self.resources, kind), watch=kind in kinds) for kind in ResourceType
        }
        return replace(self, resources=replace(self.resources, **watches))

    def watching_everything(self) -> Self:
        """The policy with every kind of resource watched, and volumes of every type that has credits."""
        everything = self.watching(tuple(ResourceType))
        ebs = replace(everything.resources.ebs, types=frozenset(BURSTABLE_TYPES))
        return replace(everything, resources=replace(everything.resources, ebs=ebs))

    def to_mapping(self) -> dict[str, Any]:
        """The document from which this policy would be read, with every default."""
        sections = {name: write_section(getattr(self, name), _format_value) for name in _section_types()}
        resources = {
            kind.name: write_section(getattr(self.resources, kind.name), _format_value)
            for kind in fields(ResourcesPolicy)
        }
        windows = windows_to_mapping(self.windows)
        return {"version": VERSION, **sections, _RESOURCES: resources, _WINDOWS: windows}


def _read_resources(value: Any, faults: list[Fault]) -> ResourcesPolicy:
    """The section ``resources``, which has a section for each kind."""
    kind_types: dict[str, Any] = {kind.name: kind.default_factory for kind in fields(ResourcesPolicy)}
    reader = DocumentReader(section_settings(_RESOURCES, value, faults), f"{_RESOURCES}.")
    reader.reject_unknown(list(kind_types))
    faults += reader.faults
    kinds = {
        name: read_section(f"{_RESOURCES}.{name}", kind_type, reader.document.get(name), faults)
        for name, kind_type in kind_types.items()
    }
    return ResourcesPolicy(**kinds)


def _section_types() -> dict[str, Any]:
    nested = (_RESOURCES, _WINDOWS)
    return {section.name: section.default_factory for section in fields(Policy) if section.name not in nested}


def _collect_faults(sections: Mapping[str, Any]) -> list[Fault]:
    faults = [fault for section in sections.values() for fault in section.faults()]
    if "gp2" in sections[_RESOURCES].volume_types:
        faults += sections["cadence"].poll_interval_faults()
    return [*faults, *_cross_section_faults(sections["cadence"], sections["telemetry"], sections["levels"])]


def _cross_section_faults(
    cadence: CadencePolicy, telemetry: TelemetryPolicy, levels: LevelPolicy
) -> Iterator[Fault]:
    if telemetry.too_new < cadence.metric_lag:
        yield Fault(
            "telemetry.too_new",
            f"{format_duration_literal(telemetry.too_new)} must be at least cadence.metric_lag"
            f" {format_duration_literal(cadence.metric_lag)}: no datapoint can be there sooner",
        )
    if levels.exhausted_leave_pct > cadence.watch_below_pct:
        yield Fault(
            "levels.exhausted_leave_pct",
            f"{levels.exhausted_leave_pct:g} must not be above cadence.watch_below_pct"
            f" {cadence.watch_below_pct:g}",
        )
