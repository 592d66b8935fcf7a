"""The result of a replay for each volume: alerts, flips, stalled minutes, dollars and lead."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from burstctl.backtest.recorded_volume import SimulatedModification
from burstctl.backtest.replay import ReplayConfig, ReplayResult
from burstctl.timeline.flip_costs import flip_costs
from burstwatch.core.alerts.alert import Alert, AlertKind
from burstwatch.core.assessment.severity import Level
from burstwatch.core.buckets.series import PERIOD_S
from burstwatch.core.durations import DAY_S
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry
from burstwatch.core.policy.policy import LevelPolicy, Policy
from burstwatch.core.watch.api_cost import USD_PER_METRIC

_DRAIN_KINDS: Final = (AlertKind.DRAINING, AlertKind.EXHAUSTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class SentAlert:
    """An alert, when it went out."""

    at_s: int
    kind: AlertKind
    level: Level
    is_reminder: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Depletion:
    """A time at which the recorded bucket was empty; ``alerted_at_s`` is its first alert, if any.

    It ``is_prevented`` if the volume would have been on its target by then.
    """

    empty_at_s: int
    alerted_at_s: int | None
    is_prevented: bool

    @property
    def lead_s(self) -> int | None:
        return None if self.alerted_at_s is None else self.empty_at_s - self.alerted_at_s

    @property
    def is_surprise(self) -> bool:
        """Whether the bucket was empty without an alert before."""
        return self.alerted_at_s is None and not self.is_prevented


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalls:
    """Minutes in which a volume was throttled.

    ``recorded`` as it was; of these ``avoided`` on the target, ``eased`` while AWS was changing it.
    ``added`` are those after a return for which the balance would not have been enough.
    """

    recorded: int = 0
    avoided: int = 0
    eased: int = 0
    added: int = 0

    @property
    def remaining(self) -> int:
        """All that would have been there nevertheless; an eased one counts in full."""
        return self.recorded - self.avoided + self.added

    def __add__(self, other: "Stalls") -> "Stalls":
        return Stalls(
            recorded=self.recorded + other.recorded,
            avoided=self.avoided + other.avoided,
            eased=self.eased + other.eased,
            added=self.added + other.added,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The result for one volume.

    ``refused`` counts refused modifications by guard, one for each alert about it.
    """

    volume: Volume
    known_s: int
    cut_because: str | None = None
    alerts: Sequence[SentAlert] = ()
    modifications: Sequence[SimulatedModification] = ()
    refused: Mapping[str, int] = field(default_factory=dict)
    depletions: Sequence[Depletion] = ()
    stalls: Stalls = Stalls()
    usd_over_gp2: float = 0.0
    usd_watching: float = 0.0
    entries: Sequence[LedgerEntry] = ()

    @property
    def flips(self) -> int:
        return sum(modification.is_flip for modification in self.modifications)

    @property
    def returns(self) -> int:
        return sum(not modification.is_flip for modification in self.modifications)

    @property
    def ends_on_target(self) -> bool:
        """Whether it is not gp2 at the end."""
        return bool(self.modifications) and self.modifications[-1].is_flip

    @property
    def by_kind(self) -> Mapping[str, int]:
        """How many alerts of each kind, reminders included."""
        return count_by_kind(self.alerts)

    @property
    def least_lead_s(self) -> int | None:
        """The shortest time from an alert to an empty bucket; 0 if there was no alert.

        None if the bucket was never empty, or only while the volume would already have been flipped.
        """
        return find_least_lead_s(self.depletions)

    @property
    def is_quiet(self) -> bool:
        """Whether there was no alert, no modification and no stall."""
        return not (self.alerts or self.modifications or self.refused or self.stalls.recorded)

    @property
    def urgency(self) -> tuple[int, int, int, str]:
        """A key that sorts the most affected volumes first."""
        return (-self.stalls.recorded, -len(self.modifications), -len(self.alerts), self.volume.volume_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The sums over all volumes."""

    volumes: int
    alerts: Mapping[str, int]
    reminders: int
    flips: int
    returns: int
    refused: Mapping[str, int]
    stalls: Stalls
    depletions: int
    announced: int
    prevented: int
    least_lead_s: int | None
    usd_over_gp2: float
    usd_watching: float
    on_target_at_end: int


def tally_volume(result: ReplayResult, config: ReplayConfig) -> Tally:
    """Count what happened to one volume."""
    recording, span = result.recording, (config.start_s, config.end_s)
    alerts = sent_alerts(result.entries)
    return Tally(
        volume=recording.volume,
        cut_because=recording.cut_because,
        known_s=recording.known_minutes(*span) * PERIOD_S,
        alerts=alerts,
        modifications=result.modifications,
        refused=Counter(
            str(entry.body["guard"]) for entry in result.entries if entry.kind is EntryKind.REFUSED
        ),
        depletions=find_depletions(
            ((at_s, pct) for at_s, pct in recording.balance if config.start_s <= at_s < config.end_s),
            alerts,
            result.modifications,
            policy=config.policy,
            start_s=config.start_s,
        ),
        stalls=_count_stalls(result, recording.stalled_minutes(*span)),
        usd_over_gp2=sum(cost.usd_within(0, config.end_s) for cost in flip_costs(result.entries, None)),
        usd_watching=result.metrics_read * USD_PER_METRIC,
        entries=result.entries,
    )


def sum_tallies(tallies: Sequence[Tally], windows: Iterable[SentAlert], other_metrics: int) -> Totals:
    """The sums; alerts about windows and metrics of instances belong to no volume."""
    sent_alerts = [*(alert for item in tallies for alert in item.alerts), *windows]
    depletions = [depletion for item in tallies for depletion in item.depletions]
    leads = [item.least_lead_s for item in tallies if item.least_lead_s is not None]
    refused: Counter[str] = Counter()
    for item in tallies:
        refused.update(item.refused)
    return Totals(
        volumes=len(tallies),
        alerts=dict(Counter(str(alert.kind) for alert in sent_alerts).most_common()),
        reminders=sum(alert.is_reminder for alert in sent_alerts),
        flips=sum(item.flips for item in tallies),
        returns=sum(item.returns for item in tallies),
        refused=dict(refused.most_common()),
        stalls=sum((item.stalls for item in tallies), Stalls()),
        depletions=len(depletions),
        announced=sum(item.alerted_at_s is not None for item in depletions),
        prevented=sum(item.is_prevented for item in depletions),
        least_lead_s=min(leads, default=None),
        usd_over_gp2=sum(item.usd_over_gp2 for item in tallies),
        usd_watching=sum(item.usd_watching for item in tallies) + other_metrics * USD_PER_METRIC,
        on_target_at_end=sum(item.ends_on_target for item in tallies),
    )


def count_by_kind(alerts: Iterable[SentAlert]) -> dict[str, int]:
    """How many alerts of each kind, reminders included."""
    return dict(Counter(str(alert.kind) for alert in alerts))


def find_least_lead_s(depletions: Iterable[Depletion]) -> int | None:
    """The shortest time from an alert to an empty bucket; 0 if there was no alert, None without any."""
    leads = [
        depletion.lead_s or 0
        for depletion in depletions
        if depletion.lead_s is not None or depletion.is_surprise
    ]
    return min(leads, default=None)


def sent_alerts(entries: Iterable[LedgerEntry]) -> list[SentAlert]:
    """The alerts among lines of the ledger."""
    alerts = (Alert.from_document(entry.body) for entry in entries if entry.kind is EntryKind.ALERT)
    return [
        SentAlert(at_s=alert.at_s, kind=alert.kind, level=alert.level, is_reminder=alert.is_reminder)
        for alert in alerts
    ]


def _count_stalls(result: ReplayResult, recorded_stalls: Sequence[int]) -> Stalls:
    recorded_set = set(recorded_stalls)
    return Stalls(
        recorded=len(recorded_stalls),
        avoided=sum(_is_on_target(result.modifications, at_s) for at_s in recorded_stalls),
        eased=sum(_is_in_progress(result.modifications, at_s) for at_s in recorded_stalls),
        added=sum(at_s not in recorded_set for at_s in result.stalls),
    )


def _is_on_target(modifications: Sequence[SimulatedModification], at_s: int) -> bool:
    started = [modification for modification in modifications if modification.started_at_s <= at_s]
    return bool(started) and started[-1].is_flip and started[-1].completed_at_s <= at_s


def _is_in_progress(modifications: Sequence[SimulatedModification], at_s: int) -> bool:
    return any(
        modification.started_at_s <= at_s < modification.completed_at_s for modification in modifications
    )


def find_depletions(
    balance: Iterable[tuple[int, float]],
    alerts: Sequence[SentAlert],
    modifications: Sequence[SimulatedModification],
    *,
    policy: Policy,
    start_s: int,
) -> list[Depletion]:
    """Each time the recorded bucket became empty; a balance that stays near empty counts once."""
    depletions: list[Depletion] = []
    levels, calm_pct = policy.levels, policy.cadence.watch_below_pct
    drains_from_s, is_armed = start_s, False
    for at_s, pct in balance:
        if pct >= calm_pct:
            drains_from_s = at_s
        if pct >= levels.exhausted_leave_pct:
            is_armed = True
        elif _is_exhausted(pct, levels) and is_armed:
            alerted_at_s = _first_alert_at_s(alerts, modifications, drains_from_s, at_s)
            is_prevented = _is_on_target(modifications, at_s)
            depletions.append(
                Depletion(empty_at_s=at_s, alerted_at_s=alerted_at_s, is_prevented=is_prevented)
            )
            drains_from_s, is_armed = at_s, False
    return depletions


def _is_exhausted(pct: float, levels: LevelPolicy) -> bool:
    return pct <= levels.exhausted_pct


def _first_alert_at_s(
    alerts: Iterable[SentAlert], modifications: Iterable[SimulatedModification], since_s: int, until_s: int
) -> int | None:
    """The first alert of the drain that ended in this depletion, not of one that recovered before it."""
    first_at_s: int | None = None
    flip_started_at_s = min(
        (
            modification.started_at_s
            for modification in modifications
            if since_s < modification.started_at_s and modification.is_flip
        ),
        default=None,
    )
    for alert in alerts:
        if not since_s < alert.at_s <= until_s:
            continue
        if alert.kind is AlertKind.RECOVERED and (
            flip_started_at_s is None or alert.at_s < flip_started_at_s
        ):
            first_at_s = None
        elif alert.kind in _DRAIN_KINDS and first_at_s is None:
            first_at_s = alert.at_s
    return first_at_s


def replayed_days(config: ReplayConfig) -> float:
    """How many days were replayed."""
    return (config.end_s - config.start_s) / DAY_S
