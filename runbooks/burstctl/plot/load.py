"""A volume's chronology, read: AWS for what it did, the ledger for what happened to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from burstctl.context.context import CommandContext
from burstctl.context.on_demand_pass import assess_volumes
from burstctl.timeline.timeline import DataGapReason, Timeline, TimelineInput, build_timeline
from burstctl.timeline.window_intervals import WindowInterval, manual_overrides, window_intervals
from burstwatch.adapters.aws.metric_history import HistoryReader
from burstwatch.core.durations import DAY_S, HOUR_S, format_duration_literal
from burstwatch.core.ebs.hdd_bucket import EBS_THROUGHPUT
from burstwatch.core.ebs.metric_history import MetricHistory
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.errors import BurstwatchError, Problem
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.core.ledger.ledger import Ledger
from burstwatch.core.ledger.ledger_entry import FLEET, LedgerEntry
from burstwatch.core.policy.windows import window_names_of
from burstwatch.core.watch.decision import Decision
from burstwatch.core.watch.pass_report import PassReport
from burstwatch.engine.collector import Collector
from burstwatch.wiring.bootstrap import build_client

METRICS: Final = ("balance", "read_ops", "write_ops")

MAX_SPAN: Final = timedelta(days=454)
"""CloudWatch keeps means of an hour for 455 days."""

_PERIOD_LIMITS: Final = ((timedelta(days=14), 60), (timedelta(days=62), 300), (MAX_SPAN, HOUR_S))
"""Up to how far back CloudWatch still has which period, a day less than it says."""

_LEDGER_LOOKBACK_S: Final = 30 * DAY_S
"""How much earlier the ledger is read: no hold lasts longer, and few flips do."""


class NothingToPlotError(BurstwatchError):
    """There is no picture of this volume; the message says why, and what to do instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumePlot:
    """A chronology with what its picture says in words; ``decision`` is None for a volume tagged ignored."""

    timeline: Timeline
    decision: Decision | None
    region: str
    ledger: str
    lookback: timedelta
    holds: Sequence[Hold]
    failures: Sequence[str]
    metrics_requested: int
    api_calls: Mapping[str, int]


def load_plot(context: CommandContext, volume_id: str, lookback: timedelta) -> VolumePlot:
    """Read what is drawn of a volume, and assess it as every pass does.

    Raises:
    NothingToPlotError: it does not exist, could not be read, or has no datapoint.
    """
    context.progress.begin(f"reading {format_duration_literal(lookback)}")
    try:
        return _load(context, volume_id, lookback)
    finally:
        context.progress.end()


def _load(context: CommandContext, volume_id: str, lookback: timedelta) -> VolumePlot:
    services, now_s = context.services, context.services.clock()
    report = assess_volumes(services, [volume_id], now_s=now_s)
    collector = services.build_collector(now_s)
    volume = _find_volume(report, collector, volume_id)
    decision = report.decisions[0] if report.decisions else None
    if decision is not None and decision.assessment.kind is EBS_THROUGHPUT:
        raise NothingToPlotError(
            f"{volume_id} is {volume.volume_type}, and plot shows gp2 volumes only",
            fix=f"burstctl explain {volume_id}, or burstctl which {volume_id}",
        )
    period_s = next(period_s for max_span, period_s in _PERIOD_LIMITS if lookback <= max_span)
    start_s = int(now_s - lookback.total_seconds()) // period_s * period_s
    inputs = TimelineInput(
        volume=volume,
        history=_read_history(context, collector, volume_id, start_s, period_s),
        start_s=start_s,
        now_s=now_s,
        assessment=decision.assessment if decision else None,
        state=services.ledger.states_of({volume_id}).get(volume_id),
        entries=_read_entries(services.ledger, volume_id, start_s - _LEDGER_LOOKBACK_S),
        watch_below_pct=services.policy.cadence.watch_below_pct,
    )
    timeline = _build_timeline(context, collector, inputs)
    if (reason := _no_plot_reason(timeline, lookback)) is not None:
        raise NothingToPlotError(reason)
    return VolumePlot(
        timeline=timeline,
        decision=decision,
        region=services.location.region,
        ledger=context.ledger_location,
        lookback=lookback,
        holds=[hold for hold in report.holds if hold.applies_to(volume_id, now_s)],
        failures=[*report.failures, *collector.failures],
        metrics_requested=services.calls.metrics_requested,
        api_calls=services.calls.calls,
    )


def _find_volume(report: PassReport, collector: Collector, volume_id: str) -> Volume:
    """The volume; it may have the ignore tag, because the operator named it."""
    if report.decisions:
        return report.decisions[0].assessment.volume
    volumes = collector.volumes_by_id([volume_id])[0] if report.ignored else []
    if volumes:
        return volumes[0]
    if volume_id in report.missing:
        raise NothingToPlotError(
            f"no volume {volume_id} in {report.region}",
            fix="check the ID, the Region and the account; for the events of a deleted volume, run"
            f" burstctl history {volume_id}",
        )
    problem = Problem.of(next(iter([*report.failures, *collector.failures]), "EC2 does not describe it"))
    raise _unread_error(volume_id, problem)


def _read_history(
    context: CommandContext, collector: Collector, volume_id: str, start_s: int, period_s: int
) -> MetricHistory:
    """What CloudWatch has of it up to the last closed period."""
    client = build_client(context.session, "cloudwatch", context.services.calls)
    reader = HistoryReader(client, period_s=period_s, workers=1, metrics=METRICS)
    end_s = int(collector.now_s) // period_s * period_s
    [part] = reader.read([volume_id], start_s, end_s)
    collector.failures += [f"cloudwatch:GetMetricData says: {text}" for text in part.messages]
    if volume_id in part.unread:
        raise _unread_error(f"the history of {volume_id}", part.unread[volume_id].problem)
    return part.histories[volume_id]


def _unread_error(subject: str, problem: Problem) -> NothingToPlotError:
    return NothingToPlotError(f"{subject} could not be read: {problem.cause}", fix=problem.fix)


def _read_entries(ledger: Ledger, volume_id: str, since_s: int) -> list[LedgerEntry]:
    entries = [entry for subject in (volume_id, FLEET) for entry in ledger.entries(subject, since_s=since_s)]
    return sorted(entries, key=lambda ledger_entry: ledger_entry.at_s)


def _build_timeline(context: CommandContext, collector: Collector, inputs: TimelineInput) -> Timeline:
    """The timeline; AWS is asked about modifications only if a balance is missing without a known one."""
    draft = build_timeline(inputs)
    modification = None
    if any(gap.reason in (DataGapReason.GAP, DataGapReason.OTHER_TYPE) for gap in draft.gaps):
        volume_id = inputs.volume.volume_id
        modification = collector.modifications([volume_id])[0].get(volume_id)
    windows = _window_intervals(context, inputs, draft.end_s)
    return build_timeline(replace(inputs, modification=modification, windows=windows))


def _window_intervals(context: CommandContext, inputs: TimelineInput, end_s: float) -> list[WindowInterval]:
    policy, ledger = context.services.policy, context.services.ledger
    names = window_names_of(policy.windows, inputs.volume)
    overrides = {name: manual_overrides(ledger.entries(f"window {name}"), name) for name in names}
    return window_intervals(policy.windows, names, overrides, inputs.start_s, end_s)


def _no_plot_reason(timeline: Timeline, lookback: timedelta) -> str | None:
    """Why there can be no picture of it; None if there can."""
    volume, lookback_text = timeline.volume, format_duration_literal(lookback)
    explain_command = f"burstctl explain {volume.volume_id}"
    if not (volume.is_gp2 or timeline.balance or timeline.target_intervals):
        return (
            f"{volume.volume_id} is {volume.volume_type} and had no other type in the last {lookback_text}:"
            " it has no burst credits, so there is nothing to plot. If it was gp2 before that, give a longer"
            " --last"
        )
    if not timeline.has_no_metrics:
        return None
    text = f"CloudWatch has no datapoint of {volume.volume_id} in the last {lookback_text}"
    if not volume.attached:
        return f"{text}: it is detached; give a longer --last to see when it was in use"
    return f"{text}, though it is attached: {explain_command} says why, and a longer --last may show more"
