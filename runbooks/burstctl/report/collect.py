"""Collects a report: a pass over the fleet, recent ledger entries, metrics for pictures, and costs."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import IntEnum
from typing import Any, Final

from burstctl.assess.assess_resources import assess_resources
from burstctl.context.context import CommandContext
from burstctl.render.flip_status import is_flip_active
from burstctl.render.resource_rows import has_nothing_to_lose
from burstctl.report.activity import Activity, read_activities
from burstctl.report.costs import (
    CostSummary,
    summarise_costs,
)
from burstctl.report.series import (
    DETAIL_METRIC_COUNT,
    MAX_DETAIL_POINTS,
    MAX_OVERVIEW_POINTS,
    OVERVIEW_METRICS,
    Axis,
    MetricSeries,
    SeriesRequest,
    choose_axis,
    read_metric_series,
)
from burstctl.timeline.drawn_bucket import drawn_bucket, metrics_of
from burstctl.timeline.flip_costs import FLIP_ENTRY_KINDS, FlipCost, begins_mid_interval, flip_costs
from burstctl.timeline.timeline import Timeline, TimelineInput, build_timeline
from burstctl.timeline.window_intervals import WindowInterval, manual_overrides, window_intervals
from burstwatch.core.assessment.resource import Resource
from burstwatch.core.assessment.severity import Level
from burstwatch.core.buckets.bucket import BucketKind
from burstwatch.core.buckets.series import PERIOD_S, Series
from burstwatch.core.ebs.metric_history import MetricHistory
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.ledger.flip_state import ManualWindowOverride
from burstwatch.core.ledger.ledger_entry import FLEET, LedgerEntry
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.policy.policy import Policy
from burstwatch.core.policy.windows import window_names_of
from burstwatch.core.resource_type import ResourceType
from burstwatch.core.text import format_usd
from burstwatch.core.watch.api_cost import USD_PER_METRIC
from burstwatch.core.watch.decision import Decision
from burstwatch.core.watch.pass_report import PassReport, is_urgent, urgency_of
from burstwatch.wiring.bootstrap import WORKERS, build_client
from burstwatch.wiring.settings import SettingsError

MAX_USD: Final = 1.0
"""A report with more expensive reads needs the operator's consent."""

MAX_DETAILED: Final = 300
"""The most resources with details, the most urgent ones; the others have a row and a small picture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceDetail:
    """A resource with details: its picture's data, and its history, oldest first."""

    decision: Decision
    timeline: Timeline
    activities: Sequence[Activity]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetReport:
    """The content of the report.

    ``decisions`` are the most urgent one of each resource, most urgent first; ``other_buckets`` are the
    others by resource ID. ``details`` are for those with details, ``balances`` for the others by resource ID,
    on ``axis``. ``activities`` are those of the whole fleet, newest first; those of deleted ones
    are not included. ``omitted`` resources were looked at, and are not on the page.
    """

    pass_report: PassReport
    since_s: int
    decisions: Sequence[Decision]
    axis: Axis
    details: Mapping[str, ResourceDetail]
    balances: Mapping[str, Series]
    activities: Sequence[Activity]
    costs: CostSummary
    unread: Mapping[str, str]
    failures: Sequence[str]
    metrics_requested: int
    api_calls: Mapping[str, int]
    policy: Policy
    other_buckets: Mapping[str, Sequence[Decision]] = field(default_factory=dict)
    omitted: Sequence[Resource] = ()

    @property
    def noun(self) -> str:
        """What each of them is called: a volume, unless there are other resources as well."""
        return noun_of(self.decisions)

    @property
    def resources(self) -> list[Resource]:
        return [decision.assessment.resource for decision in self.decisions]

    @property
    def is_empty(self) -> bool:
        """Whether the report has no content because reading failed."""
        return bool(self.failures) and not self.decisions

    @property
    def has_failed(self) -> bool:
        return self.pass_report.has_failed or bool(self.failures or self.unread)

    @property
    def usd_read(self) -> float:
        """What the reads for this report cost."""
        return self.metrics_requested * USD_PER_METRIC


def collect_report(context: CommandContext, *, lookback: timedelta, assumes_yes: bool) -> FleetReport:
    """Look at everything once, and read what happened in ``lookback``; changes nothing.

    Without a policy, everything is what ``burstctl assess`` shows then: every kind that the caller may read.
    Resources that cannot run out of credits, of which there may be many, are then left out.

    Raises:
        SettingsError: the reads would cost more than ``MAX_USD``, without consent.
    """
    context.progress.begin()
    try:
        pass_report = assess_resources((), None, context)
        omitted: list[Resource] = []
        if context.policy_source.is_default:
            pass_report, omitted = _without_calm_kinds(pass_report)
        return _ReportBuilder(
            context=context,
            pass_report=pass_report,
            omitted=omitted,
            lookback=lookback,
            assumes_yes=assumes_yes,
        ).build()
    finally:
        context.progress.end()


def _without_calm_kinds(report: PassReport) -> tuple[PassReport, list[Resource]]:
    """The pass without the resources that have nothing to lose, and those resources."""
    omitted = {resource_id_of(d): d.assessment.resource for d in report.by_resource if has_nothing_to_lose(d)}
    decisions = [decision for decision in report.decisions if resource_id_of(decision) not in omitted]
    return replace(report, decisions=decisions), list(omitted.values())


def resource_id_of(decision: Decision) -> str:
    """The ID of the resource, by which the page knows it."""
    return decision.assessment.resource.resource_id


def noun_of(decisions: Iterable[Decision]) -> str:
    """``volume``, or ``resource`` if there are others as well."""
    kinds = {decision.assessment.resource.resource_type for decision in decisions}
    return ResourceType.EBS.noun if kinds <= {ResourceType.EBS} else "resource"


def _group_by_kind(
    resource_ids: Iterable[str], decisions: Mapping[str, Decision]
) -> dict[BucketKind, list[Resource]]:
    """The resources by the kind of the bucket that the decision about each of them is about."""
    grouped: dict[BucketKind, list[Resource]] = {}
    for resource_id in resource_ids:
        assessment = decisions[resource_id].assessment
        grouped.setdefault(assessment.kind, []).append(assessment.resource)
    return grouped


def _other_buckets(
    decisions: Iterable[Decision], most_urgent: Iterable[Decision]
) -> dict[str, list[Decision]]:
    """The decisions about less urgent buckets, by the ID of their resource."""
    subjects, others = {decision.volume_id for decision in most_urgent}, dict[str, list[Decision]]()
    for decision in decisions:
        if decision.volume_id not in subjects:
            others.setdefault(resource_id_of(decision), []).append(decision)
    return others


class _DetailPriority(IntEnum):
    """Why a resource has details, the most important reason first; ``NONE``: CloudWatch has no data on it."""

    URGENT = 0
    FLIPPING = 1
    ACTIVE = 2
    WATCHED = 3
    POLLED = 4
    NONE = 5


@dataclass(slots=True, kw_only=True)
class _ReportBuilder:
    """A report in the making.

    ``entries`` are the recent ones of the ledger, and ``activities`` are derived from them, by subject.
    """

    context: CommandContext
    pass_report: PassReport
    omitted: Sequence[Resource]
    lookback: timedelta
    assumes_yes: bool
    states: Mapping[str, ResourceState] = field(default_factory=dict)
    entries: dict[str, list[LedgerEntry]] = field(default_factory=dict)
    activities: dict[str, list[Activity]] = field(default_factory=dict)
    overrides: dict[str, list[ManualWindowOverride]] = field(default_factory=dict)

    @property
    def since_s(self) -> int:
        return int(self.pass_report.now_s - self.lookback.total_seconds())

    def build(self) -> FleetReport:
        decisions = self.pass_report.by_resource
        self._read_ledger()
        detailed_ids, overview_ids = self._select_drawn(decisions)
        self._check_cost(len(detailed_ids), len(overview_ids))
        by_id = {resource_id_of(decision): decision for decision in decisions}
        axis = self._overview_axis(decisions)
        detail_series = self._read_series(
            [
                SeriesRequest(
                    kind=kind, resources=resources, axis=self._detail_axis(kind), metrics=metrics_of(kind)
                )
                for kind, resources in _group_by_kind(detailed_ids, by_id).items()
            ]
        )
        overview_series = self._read_series(
            [
                SeriesRequest(kind=kind, resources=resources, axis=axis, metrics=OVERVIEW_METRICS)
                for kind, resources in _group_by_kind(overview_ids, by_id).items()
            ]
        )
        calls = self.context.services.calls
        return FleetReport(
            pass_report=self.pass_report,
            since_s=self.since_s,
            decisions=decisions,
            axis=axis,
            details={
                candidate_id: self._build_detail(by_id[candidate_id], detail_series)
                for candidate_id in detailed_ids
            },
            balances={
                i: drawn_bucket(by_id[i].assessment).balance_of(history)
                for i, history in overview_series.histories.items()
            },
            activities=self._fleet_activities(),
            costs=self._sum_costs(decisions),
            unread=detail_series.unread | overview_series.unread,
            failures=[
                *self.pass_report.failures,
                *dict.fromkeys((*detail_series.messages, *overview_series.messages)),
            ],
            metrics_requested=calls.metrics_requested,
            api_calls=calls.calls,
            policy=self.context.services.policy,
            other_buckets=_other_buckets(self.pass_report.decisions, decisions),
            omitted=self.omitted,
        )

    def _select_drawn(self, decisions: Sequence[Decision]) -> tuple[list[str], list[str]]:
        """The resources that are drawn in detail, the most important first, and those drawn as a line."""
        by_priority = sorted(
            (self._detail_priority(decision), resource_id_of(decision)) for decision in decisions
        )
        detailed_ids = [
            candidate_id for (rank, _), candidate_id in by_priority if rank is not _DetailPriority.NONE
        ][:MAX_DETAILED]
        overview_ids = [
            candidate_id
            for (rank, _), candidate_id in by_priority
            if rank is _DetailPriority.POLLED and candidate_id not in set(detailed_ids)
        ]
        return detailed_ids, overview_ids

    def _read_ledger(self) -> None:
        """The ledger's entries on the existing resources, on everything, on windows and on the policy."""
        ledger = self.context.services.ledger
        self.states, manual_windows = ledger.states(), ledger.manual_overrides().keys()
        windows = manual_windows | {window.name for window in self.context.services.policy.windows}
        subjects = list(
            dict.fromkeys(
                key
                for decision in self.pass_report.decisions
                for key in (decision.volume_id, resource_id_of(decision))
            )
        )
        subjects += sorted((self.states.keys() | set(self.pass_report.ignored)) - set(subjects))
        subjects += [FLEET, "policy", *(f"window {name}" for name in sorted(windows))]
        self._begin_progress("reading the ledger")
        with ThreadPoolExecutor(WORKERS, thread_name_prefix="ledger") as pool:
            results = pool.map(lambda subject: ledger.entries(subject, since_s=self.since_s), subjects)
            for number, (subject, entries) in enumerate(zip(subjects, results, strict=True), start=1):
                if entries:
                    self.entries[subject] = entries
                    self.activities[subject] = read_activities(entries)
                self.context.progress.report(number, len(subjects))
        self.overrides = {
            name: manual_overrides(ledger.entries(f"window {name}"), name) for name in manual_windows
        }

    def _detail_priority(self, decision: Decision) -> tuple[_DetailPriority, tuple[Any, ...]]:
        """The lower, the more important it is that the resource has details."""
        has_activities = any(not activity.is_secondary for activity in self._activities_of(decision))
        conditions = {
            _DetailPriority.URGENT: is_urgent(decision),
            _DetailPriority.FLIPPING: is_flip_active(decision, self.pass_report),
            _DetailPriority.ACTIVE: has_activities,
            _DetailPriority.WATCHED: decision.level is Level.WATCH or decision.flip is not None,
            _DetailPriority.POLLED: decision.poll_interval_s is not None,
        }
        return next(
            (rank for rank, is_met in conditions.items() if is_met), _DetailPriority.NONE
        ), urgency_of(decision)

    def _activities_of(self, decision: Decision) -> list[Activity]:
        """What happened to the resource, and to this bucket of it, oldest first."""
        subjects = dict.fromkeys((resource_id_of(decision), decision.volume_id))
        activities = [entry for subject in subjects for entry in self.activities.get(subject, ())]
        return activities if len(subjects) == 1 else sorted(activities, key=lambda activity: activity.at_s)

    def _overview_axis(self, decisions: Iterable[Decision]) -> Axis:
        """The axis that all rows share: none is finer than the slowest metric."""
        periods_s = (decision.assessment.kind.period_s for decision in decisions)
        return self._axis(MAX_OVERVIEW_POINTS, max(periods_s, default=PERIOD_S))

    def _detail_axis(self, kind: BucketKind) -> Axis:
        return self._axis(MAX_DETAIL_POINTS, kind.period_s)

    def _axis(self, max_points: int, metric_period_s: int) -> Axis:
        return choose_axis(
            self.since_s, self.pass_report.now_s, max_points=max_points, metric_period_s=metric_period_s
        )

    def _check_cost(self, detailed_count: int, overview_count: int) -> None:
        metrics = detailed_count * DETAIL_METRIC_COUNT + overview_count * len(OVERVIEW_METRICS)
        usd = (self.context.services.calls.metrics_requested + metrics) * USD_PER_METRIC
        if usd > MAX_USD and not self.assumes_yes:
            noun = noun_of(self.pass_report.decisions)
            raise SettingsError(
                f"the pictures of {detailed_count + overview_count:,} {noun}s need {metrics:,} metrics, with"
                f" which this report costs {format_usd(usd)}, more than {format_usd(MAX_USD)}",
                fix="add --yes to make it; a shorter --last costs as much",
            )

    def _begin_progress(self, step: str) -> None:
        self.context.progress.end()
        self.context.progress.begin(step)

    def _read_series(self, requests: Sequence[SeriesRequest]) -> MetricSeries:
        self._begin_progress("reading CloudWatch")
        count = sum(len(request.resources) for request in requests)
        return read_metric_series(
            build_client(self.context.session, "cloudwatch", self.context.services.calls),
            requests,
            workers=WORKERS,
            on_progress=lambda done_count: self.context.progress.report(done_count, count),
        )

    def _build_detail(self, decision: Decision, metric_series: MetricSeries) -> ResourceDetail:
        resource_id, axis = resource_id_of(decision), self._detail_axis(decision.assessment.kind)
        subjects = dict.fromkeys((decision.volume_id, resource_id, FLEET))
        entries = [entry for subject in subjects for entry in self.entries.get(subject, ())]
        inputs = TimelineInput(
            drawn=drawn_bucket(decision.assessment),
            history=metric_series.histories.get(resource_id) or MetricHistory(period_s=axis.period_s),
            start_s=axis.start_s,
            now_s=self.pass_report.now_s,
            assessment=decision.assessment,
            state=self.states.get(decision.volume_id),
            entries=sorted(entries, key=lambda entry: entry.at_s),
            windows=self._window_intervals(decision, axis),
        )
        return ResourceDetail(
            decision=decision, timeline=build_timeline(inputs), activities=self._activities_of(decision)
        )

    def _window_intervals(self, decision: Decision, axis: Axis) -> Sequence[WindowInterval]:
        policy, resource = self.context.services.policy, decision.assessment.resource
        names = window_names_of(policy.windows, resource) if isinstance(resource, Volume) else ()
        if not names:
            return ()
        until_s = self.pass_report.now_s + self.lookback.total_seconds()
        return window_intervals(policy.windows, names, self.overrides, axis.start_s, until_s)

    def _fleet_activities(self) -> list[Activity]:
        activities = [
            activity
            for activities in self.activities.values()
            for activity in activities
            if not activity.is_secondary
        ]
        return sorted(activities, key=lambda activity: -activity.at_s)

    def _sum_costs(self, decisions: Iterable[Decision]) -> CostSummary:
        """Sum up from the recent entries; for a flip that began earlier, from its whole history."""
        flipped_ids = {
            subject
            for subject, entries in self.entries.items()
            if any(entry.kind in FLIP_ENTRY_KINDS for entry in entries)
        }
        flipped_ids |= {volume_id for volume_id, state in self.states.items() if state.flip is not None}
        costs: list[FlipCost] = []
        for volume_id in sorted(flipped_ids):
            entries = self.entries.get(volume_id, [])
            if begins_mid_interval(entries):
                entries = self.context.services.ledger.entries(volume_id)
            costs += flip_costs(entries, self.states.get(volume_id))
        resources = (decision.assessment.resource for decision in decisions)
        volumes = [resource for resource in resources if isinstance(resource, Volume)]
        unavailable = self.context.services.unavailable_types(volumes, self.pass_report.now_s)
        return summarise_costs(
            costs,
            states=self.states,
            volumes=volumes,
            without_gp3={subject for subject, kinds in unavailable.items() if VolumeType.GP3 in kinds},
            policy=self.context.services.policy.flip,
            start_s=self.since_s,
            end_s=self.pass_report.now_s,
        )
