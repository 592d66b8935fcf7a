"""What a replay comes to, volume by volume: alerts, flips, stalled minutes, dollars, lead."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from burstctl.backtest.recorded_volume import Move
from burstctl.backtest.replay import Lived, Setting
from burstwatch.core.alerts.alert import Alert, AlertKind
from burstwatch.core.buckets.series import PERIOD_S
from burstwatch.core.ebs.pricing import LEAST_BILLED, usd_per_hour
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.ledger.flip_state import Direction
from burstwatch.core.ledger.ledger import EntryKind, LedgerEntry
from burstwatch.core.policy.policy import LevelPolicy
from burstwatch.core.watch.api_cost import USD_PER_METRIC

_HOUR_S: Final = 3600
_DAY_S: Final = 24 * _HOUR_S
_OF_A_DRAIN: Final = (AlertKind.DRAINING, AlertKind.EXHAUSTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """An alert, when it went out."""

    at_s: int
    kind: AlertKind
    level: str
    is_reminder: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Depletion:
    """A time at which the recorded bucket ran dry; ``alerted_at_s`` is when people had heard of it first.

    It is ``prevented`` where the volume would have been on its target by then.
    """

    dry_at_s: int
    alerted_at_s: int | None
    prevented: bool

    @property
    def lead_s(self) -> int | None:
        return None if self.alerted_at_s is None else self.dry_at_s - self.alerted_at_s

    @property
    def is_surprise(self) -> bool:
        """Whether it ran dry, and nobody had heard of it."""
        return self.alerted_at_s is None and not self.prevented


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalls:
    """Minutes in which a volume was held back.

    ``seen`` in the recording; of these ``avoided`` on the target, ``eased`` while AWS was changing it.
    ``added`` are those after a return for which the balance would not have been enough.
    """

    seen: int = 0
    avoided: int = 0
    eased: int = 0
    added: int = 0

    @property
    def left(self) -> int:
        """All that would have been there nevertheless; an eased one counts in full."""
        return self.seen - self.avoided + self.added

    def __add__(self, other: "Stalls") -> "Stalls":
        return Stalls(
            seen=self.seen + other.seen,
            avoided=self.avoided + other.avoided,
            eased=self.eased + other.eased,
            added=self.added + other.added,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What would have become of one volume.

    ``refused`` counts wanted modifications by the guard that said no, each as often as people were told.
    """

    volume: Volume
    known_s: int
    cut_because: str | None = None
    alerts: Sequence[Told] = ()
    moves: Sequence[Move] = ()
    refused: Mapping[str, int] = field(default_factory=dict)
    depletions: Sequence[Depletion] = ()
    stalls: Stalls = Stalls()
    usd_over_gp2: float = 0.0
    usd_watching: float = 0.0
    entries: Sequence[LedgerEntry] = ()

    @property
    def flips(self) -> int:
        return sum(move.is_out for move in self.moves)

    @property
    def returns(self) -> int:
        return sum(not move.is_out for move in self.moves)

    @property
    def is_away(self) -> bool:
        """Whether it is not gp2 at the end."""
        return bool(self.moves) and self.moves[-1].is_out

    @property
    def by_kind(self) -> Mapping[str, int]:
        """How many alerts of each kind, reminders included."""
        return Counter(str(alert.kind) for alert in self.alerts)

    @property
    def least_lead_s(self) -> int | None:
        """How long before it ran dry people had heard of it, at the worst time, 0 for a surprise.

        None where it never ran dry, or only while it would have been on its target for long.
        """
        leads = [each.lead_s or 0 for each in self.depletions if each.lead_s is not None or each.is_surprise]
        return min(leads, default=None)

    @property
    def is_quiet(self) -> bool:
        """Whether nobody would have heard of it, and nothing would have been done or suffered."""
        return not (self.alerts or self.moves or self.refused or self.stalls.seen)

    @property
    def urgency(self) -> tuple[int, int, int, str]:
        """Sorts those with most to tell first."""
        return (-self.stalls.seen, -len(self.moves), -len(self.alerts), self.volume.volume_id)


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
    away: int


def tally(lived: Lived, setting: Setting) -> Tally:
    """What became of one volume, counted."""
    recording, span = lived.recording, (setting.start_s, setting.end_s)
    alerts = told_in(lived.entries)
    return Tally(
        volume=recording.volume,
        cut_because=recording.cut_because,
        known_s=recording.known_minutes(*span) * PERIOD_S,
        alerts=alerts,
        moves=lived.moves,
        refused=Counter(str(e.body["guard"]) for e in lived.entries if e.kind is EntryKind.REFUSED),
        depletions=_depletions(lived, alerts, setting),
        stalls=_stalls(lived, recording.stalls(*span)),
        usd_over_gp2=_usd_over_gp2(lived.entries, setting.end_s),
        usd_watching=lived.metrics * USD_PER_METRIC,
        entries=lived.entries,
    )


def sum_tallies(tallies: Sequence[Tally], windows: Iterable[Told], metrics_beside: int) -> Totals:
    """The sums; alerts about windows and metrics of instances belong to no volume."""
    told = [*(alert for each in tallies for alert in each.alerts), *windows]
    depletions = [depletion for each in tallies for depletion in each.depletions]
    leads = [each.least_lead_s for each in tallies if each.least_lead_s is not None]
    refused: Counter[str] = Counter()
    for each in tallies:
        refused.update(each.refused)
    return Totals(
        volumes=len(tallies),
        alerts=dict(Counter(str(alert.kind) for alert in told).most_common()),
        reminders=sum(alert.is_reminder for alert in told),
        flips=sum(each.flips for each in tallies),
        returns=sum(each.returns for each in tallies),
        refused=dict(refused.most_common()),
        stalls=sum((each.stalls for each in tallies), Stalls()),
        depletions=len(depletions),
        announced=sum(each.alerted_at_s is not None for each in depletions),
        prevented=sum(each.prevented for each in depletions),
        least_lead_s=min(leads, default=None),
        usd_over_gp2=sum(each.usd_over_gp2 for each in tallies),
        usd_watching=sum(each.usd_watching for each in tallies) + metrics_beside * USD_PER_METRIC,
        away=sum(each.is_away for each in tallies),
    )


def told_in(entries: Iterable[LedgerEntry]) -> list[Told]:
    """The alerts among lines of the ledger."""
    alerts = (Alert.from_document(each.body) for each in entries if each.kind is EntryKind.ALERT)
    return [
        Told(at_s=alert.time_s, kind=alert.kind, level=str(alert.level), is_reminder=alert.is_reminder)
        for alert in alerts
    ]


def _stalls(lived: Lived, seen: Sequence[int]) -> Stalls:
    known = set(seen)
    return Stalls(
        seen=len(seen),
        avoided=sum(_is_on_target(lived.moves, at_s) for at_s in seen),
        eased=sum(_is_changing(lived.moves, at_s) for at_s in seen),
        added=sum(at_s not in known for at_s in lived.stalls),
    )


def _is_on_target(moves: Sequence[Move], at_s: int) -> bool:
    begun = [move for move in moves if move.started_s <= at_s]
    return bool(begun) and begun[-1].is_out and begun[-1].completed_s <= at_s


def _is_changing(moves: Sequence[Move], at_s: int) -> bool:
    return any(move.started_s <= at_s < move.completed_s for move in moves)


def _depletions(lived: Lived, alerts: Sequence[Told], setting: Setting) -> list[Depletion]:
    """Each time the recorded balance ran dry; one that hovers near empty runs dry once."""
    found: list[Depletion] = []
    levels, calm_pct = setting.policy.levels, setting.policy.cadence.watch_below_pct
    drains_from_s, is_armed = setting.start_s, False
    for at_s, pct in lived.recording.balance:
        if not setting.start_s <= at_s < setting.end_s:
            continue
        if pct >= calm_pct:
            drains_from_s = at_s
        if pct >= levels.exhausted_leave_pct:
            is_armed = True
        elif _is_dry(pct, levels) and is_armed:
            alerted_at_s = _heard_first(alerts, lived.moves, drains_from_s, at_s)
            prevented = _is_on_target(lived.moves, at_s)
            found.append(Depletion(dry_at_s=at_s, alerted_at_s=alerted_at_s, prevented=prevented))
            drains_from_s, is_armed = at_s, False
    return found


def _is_dry(pct: float, levels: LevelPolicy) -> bool:
    return pct <= levels.exhausted_pct


def _heard_first(alerts: Iterable[Told], moves: Iterable[Move], since_s: int, until_s: int) -> int | None:
    """When people heard first of what ended in that depletion; what recovered by itself was another drain."""
    first: int | None = None
    out_s = min((move.started_s for move in moves if since_s < move.started_s and move.is_out), default=None)
    for alert in alerts:
        if not since_s < alert.at_s <= until_s:
            continue
        if alert.kind is AlertKind.RECOVERED and (out_s is None or alert.at_s < out_s):
            first = None
        elif alert.kind in _OF_A_DRAIN and first is None:
            first = alert.at_s
    return first


def _usd_over_gp2(entries: Iterable[LedgerEntry], end_s: int) -> float:
    """What all stays away cost more than gp2 would have, at the price that each flip was told at."""
    total, since_s, per_month = 0.0, 0, 0.0
    is_away = False
    for entry in entries:
        if entry.kind is not EntryKind.ACCEPTED:
            continue
        if entry.body["direction"] == Direction.OUT:
            is_away, since_s, per_month = True, entry.at_s, entry.body["usd_per_month_more"]
        elif is_away:
            is_away, total = False, total + _usd(per_month, entry.at_s - since_s)
    return total + _usd(per_month, end_s - since_s) if is_away else total


def _usd(per_month: float, span_s: float) -> float:
    return usd_per_hour(per_month) * max(span_s, LEAST_BILLED.total_seconds()) / _HOUR_S


def days_of(setting: Setting) -> float:
    """How many days were replayed."""
    return (setting.end_s - setting.start_s) / _DAY_S
