"""How the fleet stands after the passes so far, as readings of metrics."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from burstctl.render.volume import name_of
from burstctl.watch import exporter_metrics
from burstctl.watch.exporter_metrics import MOST_VOLUMES, Metric, Reading
from burstctl.watch.loop import PassEnded, PassResult
from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.assessment.severity import Level
from burstwatch.core.flips.outcome import Done
from burstwatch.core.ledger.flip_state import Flip
from burstwatch.core.location import Place
from burstwatch.core.watch.decide import Decision
from burstwatch.core.watch.fleet_summary import Fleet
from burstwatch.core.watch.report import Report, urgency_of

_LEAST_KEPT_S: Final = 300
_SLACK_S: Final = 60
_COUNTED: Final = (Done.FLIPPED, Done.FLIPPED_BACK, Done.REFUSED, Done.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """A volume with metrics of its own; unless it is looked at again by ``until_s`` it has vanished."""

    until_s: float
    urgency: tuple[float, ...]
    readings: tuple[Reading, ...]
    time_to_empty_s: float | None
    is_unread: bool
    is_stuck: bool


class Standing:
    """Takes what becomes of each pass; ``readings`` are always those after a whole one.

    They are replaced at once, so that another thread may read them at any time. A volume has readings of its
    own while it is at ``watch`` or worse, lacks its data, or is flipped and has still to come back.
    """

    def __init__(self, *, version: str) -> None:
        self._always = [Reading(exporter_metrics.BUILD, 1, (version,))]
        self.readings: tuple[Reading, ...] = tuple(self._always)
        self._region = ""
        self._volumes: dict[str, _Shown] = {}
        self._counts: Counter[tuple[Metric, tuple[str, ...]]] = Counter()
        self._heartbeat: tuple[Reading, ...] = ()
        self._fleet: tuple[Reading, ...] = ()
        self._undescribed = 0

    def watch(self, place: Place, *, acts: bool) -> None:
        """From now on it is about this place; every counter starts from zero."""
        self._region = place.region
        labels = (place.region, place.account or "", "true" if acts else "false")
        self._always.append(Reading(exporter_metrics.WATCH, 1, labels))
        for result in PassResult:
            self._count(exporter_metrics.PASSES, 0, str(result))
        for done in _COUNTED:
            self._count(exporter_metrics.OUTCOMES, 0, str(done))
        for metric in (
            exporter_metrics.ALERTS_SENT,
            exporter_metrics.FAILURES,
            exporter_metrics.METRICS_READ,
        ):
            self._count(metric, 0)
        self.readings = tuple(self._all())

    def take(self, ended: PassEnded) -> None:
        """Note what became of a pass."""
        self._count(exporter_metrics.PASSES, 1, str(ended.result))
        if ended.report is not None:
            self._take_report(ended.report, ended)
        elif ended.result is PassResult.FAILED:
            self._count(exporter_metrics.FAILURES, 1)
        self._volumes = {i: shown for i, shown in self._volumes.items() if shown.until_s >= ended.at_s}
        self.readings = tuple(self._all())

    def _take_report(self, report: Report, ended: PassEnded) -> None:
        for decision in report.decisions:
            if _is_worth_it(decision):
                self._volumes[decision.volume_id] = _show(decision, report)
            else:
                self._volumes.pop(decision.volume_id, None)
        for volume_id in report.ignored:
            self._volumes.pop(volume_id, None)
        self._undescribed = report.undescribed
        self._fleet = tuple(self._of_fleet(report, ended))
        for done in _COUNTED:
            self._count(exporter_metrics.OUTCOMES, report.count(done), str(done))
        for call, count in report.api_calls.items():
            self._count(exporter_metrics.CALLS, count, call)
        self._count(exporter_metrics.METRICS_READ, report.metrics_requested)
        self._count(exporter_metrics.ALERTS_SENT, report.sent)
        self._count(exporter_metrics.FAILURES, len(report.failures))
        self._heartbeat = (
            self._one(exporter_metrics.LAST_PASS, ended.at_s),
            self._one(exporter_metrics.LAST_PASS_DURATION, ended.took_s),
        )

    def _of_fleet(self, report: Report, ended: PassEnded) -> Iterator[Reading]:
        if report.fleet is not None and not report.undescribed:
            yield from self._counts_of(report.fleet)
        if report.newest_datapoint_age_s is not None:
            yield self._one(exporter_metrics.DATAPOINT_AGE, report.newest_datapoint_age_s)
        if report.worst_datapoint_age_s is not None:
            yield self._one(exporter_metrics.WORST_DATAPOINT_AGE, report.worst_datapoint_age_s)
        on_all = sum(hold.volume_id is None for hold in report.holds)
        yield self._one(exporter_metrics.HOLDS, on_all, "everything")
        yield self._one(exporter_metrics.HOLDS, len(report.holds) - on_all, "volume")
        yield self._one(exporter_metrics.POLICY_REJECTED, ended.is_policy_rejected)
        yield self._one(exporter_metrics.ALERTS_WAITING, report.undelivered)

    def _counts_of(self, fleet: Fleet) -> Iterator[Reading]:
        for level, count in fleet.by_level.items():
            if level is not Level.OK or fleet.watched is not None:
                yield self._one(exporter_metrics.VOLUMES, count, str(level))
        if fleet.watched is not None:
            yield self._one(exporter_metrics.WATCHED, fleet.watched)
        yield self._one(exporter_metrics.IN_FOCUS, fleet.in_focus)
        yield self._one(exporter_metrics.FLIPPED, fleet.flipped)
        if fleet.lowest_balance_pct is not None:
            yield self._one(exporter_metrics.LOWEST_BALANCE, fleet.lowest_balance_pct / 100)

    def _all(self) -> Iterator[Reading]:
        yield from self._always
        yield from self._heartbeat
        yield from self._fleet
        shown = sorted(self._volumes.values(), key=lambda each: each.urgency)
        if self._heartbeat:
            yield self._one(
                exporter_metrics.UNREAD, sum(each.is_unread for each in shown) + self._undescribed
            )
            yield self._one(exporter_metrics.STUCK, sum(each.is_stuck for each in shown))
            yield self._one(exporter_metrics.LEFT_OUT, max(0, len(shown) - MOST_VOLUMES))
        soonest = [each.time_to_empty_s for each in shown if each.time_to_empty_s is not None]
        if soonest:
            yield self._one(exporter_metrics.SOONEST_EMPTY, min(soonest))
        for (metric, labels), count in self._counts.items():
            yield Reading(metric, count, labels)
        for each in shown[:MOST_VOLUMES]:
            yield from each.readings

    def _one(self, metric: Metric, value: float, *labels: str) -> Reading:
        return Reading(metric, float(value), (self._region, *labels))

    def _count(self, metric: Metric, count: int, *labels: str) -> None:
        self._counts[metric, (self._region, *labels)] += count


def _is_worth_it(decision: Decision) -> bool:
    is_away = decision.flip is not None and not decision.flip.is_settled
    return is_away or decision.assessment.is_fault or decision.level.rank >= Level.WATCH.rank


def _show(decision: Decision, report: Report) -> _Shown:
    kept_s = 2 * max(_LEAST_KEPT_S, decision.look_interval_s or 0) + _SLACK_S
    forecast, flip = decision.assessment.forecast, decision.flip
    return _Shown(
        until_s=report.now_s + kept_s,
        urgency=urgency_of(decision),
        readings=tuple(_read(decision, report)),
        time_to_empty_s=forecast.time_to_empty_s if forecast else None,
        is_unread=decision.assessment.unknown_reason is UnknownReason.READ_FAILED,
        is_stuck=flip is not None and flip.is_under_way and flip.stuck_told,
    )


def _read(decision: Decision, report: Report) -> Iterator[Reading]:
    assessment = decision.assessment
    volume = assessment.volume
    which = (report.region, volume.volume_id)
    told = (name_of(volume), volume.volume_type, volume.instance_id or "", str(decision.wishes.mode))
    yield Reading(exporter_metrics.VOLUME, 1, (*which, *told))
    yield Reading(
        exporter_metrics.VOLUME_LEVEL, 1, (*which, str(decision.level), str(assessment.unknown_reason or ""))
    )
    for metric, value in _values(decision, report.now_s).items():
        if value is not None:
            yield Reading(metric, value, which)
    served = {"read": assessment.consumed_read_iops, "write": assessment.consumed_write_iops}
    for operation, iops in served.items():
        if iops is not None:
            yield Reading(exporter_metrics.VOLUME_SERVED, iops, (*which, operation))
    if decision.flip is not None:
        yield Reading(exporter_metrics.VOLUME_FLIP, 1, (*which, *_flip_labels(decision.flip)))


def _values(decision: Decision, now_s: float) -> Mapping[Metric, float | None]:
    """What is a number of each volume; None is not told."""
    assessment = decision.assessment
    forecast, sample = assessment.forecast, assessment.sample
    return {
        exporter_metrics.VOLUME_BALANCE: None if sample is None else sample.value / 100,
        exporter_metrics.VOLUME_BASELINE: assessment.baseline_iops,
        exporter_metrics.VOLUME_DRAIN: forecast.drain_per_s if forecast else None,
        exporter_metrics.VOLUME_EMPTY: forecast.time_to_empty_s if forecast else None,
        exporter_metrics.VOLUME_BOUND: forecast.soonest_empty_s if forecast else None,
        exporter_metrics.VOLUME_DATAPOINT: None if assessment.age_s is None else now_s - assessment.age_s,
    }


def _flip_labels(flip: Flip) -> Iterable[str]:
    return str(flip.phase), str(flip.direction), str(flip.cause), str(flip.target.volume_type)
