"""The last hours of one volume as values: all that a picture of it shows, on paper, screen or page.

Nothing is drawn here and nothing is made up: where there is no datapoint there is an absence with its reason,
and what is still to come is the forecast by which the watchdog decides.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import pairwise
from typing import Final

from burstctl.timeline.intervals import (
    HoldRun,
    LevelRun,
    Mark,
    StallRun,
    Stay,
    hold_runs,
    level_runs,
    marks_of,
    stall_runs,
    stays_of,
)
from burstctl.timeline.window_intervals import Opening
from burstwatch.core.assessment.assess import Assessment, UnknownReason
from burstwatch.core.buckets.series import PERIOD_S, Series
from burstwatch.core.ebs.modification import Modification
from burstwatch.core.ebs.usage import History
from burstwatch.core.ebs.volume import BURST_IOPS, Volume, baseline_iops
from burstwatch.core.ledger.ledger import LedgerEntry, VolumeState

FRESH_S: Final = 600
"""CloudWatch is late: a balance that ends so shortly before now does not end in a gap."""

_OWED_S: Final = 120
"""So late may the last minute of a longer period be."""

_SETTLES_S: Final = 900
"""So long after a return the balance may still be absent because of it."""

_SEEN_WITHIN_S: Final = 3600
"""So long after a calm volume began to drain some look sees it: the longest interval of the sweep."""

_LEAST_AHEAD: Final = 0.08
_LEAST_FORECAST: Final = 0.2
_MOST_AHEAD: Final = 0.75
"""Of the span seen, so much is shown of what is to come: more where there is a forecast, and a far one."""


class AbsenceReason(StrEnum):
    """Why there is no balance; ``gap`` is the one that nobody can explain."""

    NOT_CREATED = "not_created"
    FLIPPED = "flipped"
    OTHER_TYPE = "other_type"
    CANNOT_RUN_DRY = "cannot_run_dry"
    DETACHED = "detached"
    INSTANCE_STOPPED = "instance_stopped"
    GAP = "gap"


_REASON_NOW: Final = {
    UnknownReason.DETACHED: AbsenceReason.DETACHED,
    UnknownReason.INSTANCE_STOPPED: AbsenceReason.INSTANCE_STOPPED,
    UnknownReason.NOT_BURSTABLE_TYPE: AbsenceReason.OTHER_TYPE,
    UnknownReason.CANNOT_RUN_DRY: AbsenceReason.CANNOT_RUN_DRY,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """A stretch without any balance; never to be drawn as if there were one."""

    start_s: float
    end_s: float
    reason: AbsenceReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What a volume could serve for a while: for good, and while it has credits.

    Where it ``is_provisioned`` it lives on no credits, and both are what is paid for.
    """

    start_s: float
    end_s: float
    sustained_iops: int
    most_iops: int
    is_provisioned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fan:
    """The forecast from the newest datapoint on, of a volume that is not dry; instants are absolute.

    ``about_s`` is None where the volume is not draining, ``latest_s`` where some horizon saw no drain,
    ``soonest_s`` where it cannot run dry: no load can empty the bucket before that.
    """

    from_s: int
    from_pct: float
    soonest_s: float | None
    earliest_s: float | None = None
    about_s: float | None = None
    latest_s: float | None = None
    is_believed: bool = False
    drain_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What is known of a volume and of what happened to it.

    ``history`` begins at ``start_s``. ``entries`` are the ledger's about the volume and about everything,
    oldest first; they should begin earlier than the history, so that what lasted then is known. ``record``
    is AWS's newest modification. ``watch_below_pct`` is the policy's: above it a volume is ok.
    """

    volume: Volume
    history: History
    start_s: int
    now_s: float
    assessment: Assessment | None = None
    state: VolumeState | None = None
    record: Modification | None = None
    entries: Sequence[LedgerEntry] = ()
    windows: Sequence[Opening] = ()
    watch_below_pct: float = 95.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Chronology:
    """What there is to be drawn between ``start_s`` and ``end_s``; everything after ``now_s`` is forecast.

    ``balance`` is the least of each period in per cent, ``served`` and ``reads`` are its mean operations a
    second. Stretches and marks are in the order of their starts.
    """

    volume: Volume
    start_s: int
    now_s: float
    end_s: float
    period_s: int
    balance: Series
    served: Series
    reads: Series
    absences: Sequence[Absence]
    limits: Sequence[Limit]
    stays: Sequence[Stay]
    levels: Sequence[LevelRun]
    holds: Sequence[HoldRun]
    windows: Sequence[Opening]
    stalls: Sequence[StallRun]
    marks: Sequence[Mark]
    fan: Fan | None

    @property
    def is_blank(self) -> bool:
        """Whether CloudWatch said nothing at all."""
        return not (self.balance or self.served)


def chronicle(sources: Sources) -> Chronology:
    """Put together what happened to a volume, and what is to come."""
    start_s, now_s, history = sources.start_s, sources.now_s, sources.history
    entries = [entry for entry in sources.entries if entry.at_s <= now_s]
    stays = stays_of(entries, sources.state, sources.record)
    fan = _fan(sources.assessment, now_s)
    end_s = _end_s(start_s, now_s, fan)
    return Chronology(
        volume=sources.volume,
        start_s=start_s,
        now_s=now_s,
        end_s=end_s,
        period_s=history.period_s,
        balance=history.balance.since(start_s),
        served=_rates(history, now_s, history.read_ops, history.write_ops).since(start_s),
        reads=_rates(history, now_s, history.read_ops).since(start_s),
        absences=_absences(sources, stays),
        limits=_limits(sources, stays, end_s),
        stays=[stay for stay in stays if (stay.restored_s or now_s) > start_s],
        levels=level_runs(entries, sources.state, start_s, now_s, partial(_ok_since, sources)),
        holds=hold_runs(entries, start_s, end_s),
        windows=[each for each in sources.windows if each.start_s < end_s],
        stalls=stall_runs(entries, sources.state, start_s),
        marks=[mark for mark in marks_of(entries) if mark.at_s >= start_s],
        fan=fan,
    )


def unbroken(series: Series, period_s: int) -> Iterator[Series]:
    """The series in pieces that have no gap inside."""
    if not series:
        return
    steps = pairwise(series.starts_s)
    cuts = [index for index, (a, b) in enumerate(steps, start=1) if b - a > period_s]
    for first, end in pairwise([0, *cuts, len(series)]):
        yield Series(series.starts_s[first:end], series.values[first:end])


def condense(series: Series, step_s: int, choose: Callable[[Sequence[float]], float]) -> Series:
    """One value for each step that has any: the least, the most or what else is chosen of those in it.

    A step without a sample stays a gap. Steps lie on multiples of ``step_s``.
    """
    steps: dict[int, list[float]] = {}
    for start_s, value in zip(series.starts_s, series.values, strict=True):
        steps.setdefault(start_s // step_s * step_s, []).append(value)
    return Series(tuple(steps), tuple(choose(values) for values in steps.values()))


def _rates(history: History, now_s: float, *sums: Series) -> Series:
    """Operations a second in each period; of one with one half known, that half is the least that was.

    The sum of a period that is not over, or whose last minute may still come, is not that of a whole one:
    it would show a fall that never was.
    """
    complete_s = now_s if history.period_s == PERIOD_S else now_s - _OWED_S
    total: dict[int, float] = {}
    for each in sums:
        for start_s, value in zip(each.starts_s, each.values, strict=True):
            if start_s + history.period_s <= complete_s:
                total[start_s] = total.get(start_s, 0.0) + value
    return Series.of((start_s, value / history.period_s) for start_s, value in total.items())


def _fan(assessment: Assessment | None, now_s: float) -> Fan | None:
    if assessment is None or assessment.sample is None or assessment.forecast is None:
        return None
    if assessment.sample.value <= 0:
        return None  # it is dry: nothing is left to come
    forecast = assessment.forecast

    def at(seconds: float | None) -> float | None:
        return None if seconds is None else now_s + seconds

    return Fan(
        from_s=assessment.sample.end_s,
        from_pct=assessment.sample.value,
        soonest_s=at(forecast.soonest_empty_s),
        earliest_s=at(forecast.earliest_s),
        about_s=at(forecast.time_to_empty_s),
        latest_s=at(forecast.latest_s),
        is_believed=forecast.is_believed,
        drain_per_s=forecast.drain_per_s,
    )


def _end_s(start_s: int, now_s: float, fan: Fan | None) -> float:
    span_s = now_s - start_s
    if fan is None or fan.about_s is None:
        return now_s + _LEAST_AHEAD * span_s
    far_s = max(fan.about_s, fan.latest_s or 0.0) - now_s
    return now_s + min(max(1.15 * far_s, _LEAST_FORECAST * span_s), _MOST_AHEAD * span_s)


def _absences(sources: Sources, stays: Sequence[Stay]) -> list[Absence]:
    period_s, balance = sources.history.period_s, sources.history.balance.since(sources.start_s)
    ends = [sources.start_s, *(start_s + period_s for start_s in balance.starts_s)]
    starts = [*balance.starts_s, sources.now_s]
    found: list[Absence] = []
    for number, (from_s, to_s) in enumerate(zip(ends, starts, strict=True)):
        is_last = number == len(balance)
        if to_s - from_s < period_s or (is_last and balance and to_s - from_s <= FRESH_S):
            continue
        found += _explained(sources, stays, from_s, to_s, is_last=is_last)
    return found


def _explained(
    sources: Sources, stays: Sequence[Stay], from_s: float, to_s: float, *, is_last: bool
) -> Iterator[Absence]:
    """One stretch without balance, in pieces that have a reason each."""
    created_s = sources.volume.created_at.timestamp()
    reason = _reason_now(sources) if is_last else AbsenceReason.GAP
    away = [(-1.0, created_s, AbsenceReason.NOT_CREATED)]
    for stay in stays:
        back_s = sources.now_s if stay.restored_s is None else stay.restored_s + _SETTLES_S
        away.append((stay.asked_s or 0.0, back_s, AbsenceReason.FLIPPED))
    for begins_s, ends_s, why in away:
        if begins_s >= to_s or ends_s <= from_s:
            continue
        if begins_s - from_s >= sources.history.period_s:
            yield Absence(start_s=from_s, end_s=begins_s, reason=AbsenceReason.GAP)
            from_s = begins_s
        if ends_s >= to_s:
            yield Absence(start_s=from_s, end_s=to_s, reason=why)
            return
        yield Absence(start_s=from_s, end_s=ends_s, reason=why)
        from_s = ends_s
    if to_s - from_s >= sources.history.period_s:
        yield Absence(start_s=from_s, end_s=to_s, reason=reason)


def _reason_now(sources: Sources) -> AbsenceReason:
    unknown = sources.assessment.unknown_reason if sources.assessment else None
    return AbsenceReason.GAP if unknown is None else _REASON_NOW.get(unknown, AbsenceReason.GAP)


def _ok_since(sources: Sources, until_s: float) -> float:
    """Since when the balance says that it was ok, up to a moment; that moment where it does not.

    A watchdog that looks sees a fall within the hour: what is low for longer, nobody watched.
    """
    balance, period_s = sources.history.balance, sources.history.period_s
    pairs = zip(balance.starts_s, balance.values, strict=True)
    seen = [(start_s, pct) for start_s, pct in pairs if start_s <= until_s - _SEEN_WITHIN_S]
    if not seen or seen[-1][1] < sources.watch_below_pct:
        return until_s
    return max((at_s + period_s for at_s, pct in seen if pct < sources.watch_below_pct), default=seen[0][0])


def _limits(sources: Sources, stays: Sequence[Stay], end_s: float) -> list[Limit]:
    """What bounded it when: its size on gp2, what was bought for it on a target."""
    volume, assessment, start_s = sources.volume, sources.assessment, float(sources.start_s)
    baseline = assessment.baseline_iops if assessment else baseline_iops(volume.size_gib)
    bought: list[tuple[float, float, int]] = []
    for stay in stays:
        iops = stay.target.iops if stay.target else None
        if iops is not None and (stay.reached_s is not None or stay.asked_s is None):
            bought.append((stay.reached_s or start_s, stay.back_s or stay.restored_s or end_s, iops))
    if not (volume.is_gp2 or stays) and volume.provisioned_iops:
        bought.append((start_s, end_s, volume.provisioned_iops))
    limits: list[Limit] = []
    at_s = start_s
    for from_s, to_s, iops in [*bought, (end_s, end_s, 0)]:
        if from_s > at_s:
            most = max(baseline, BURST_IOPS)
            limits.append(Limit(start_s=at_s, end_s=from_s, sustained_iops=baseline, most_iops=most))
            at_s = from_s
        if to_s > at_s:
            limits.append(
                Limit(start_s=at_s, end_s=to_s, sustained_iops=iops, most_iops=iops, is_provisioned=True)
            )
            at_s = to_s
    return limits
