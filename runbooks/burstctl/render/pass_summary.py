"""The summary of a pass next to its table: totals, cost, failures, and what to run next."""

import shlex
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from burstctl.cli.options import ALL_REGIONS, Options
from burstctl.cli.output import (
    Unread,
    group_by_cause,
    list_first,
    print_failures,
    print_first_lines,
    print_info,
    print_next,
)
from burstctl.render.datapoint_spacing import describe_spacing
from burstctl.render.guard_override import runbook_hints
from burstctl.render.resource_rows import CHANGING_LABEL, FIXED_LABEL, UNWATCHED_LABEL, level_label
from burstctl.render.volume import count_resources, display_name_of, format_id_and_name
from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.errors import Problem
from burstwatch.core.flips.outcome import OutcomeStatus
from burstwatch.core.instances.instance import Instance
from burstwatch.core.instances.instance_buckets import INSTANCE_IO, INSTANCE_THROUGHPUT
from burstwatch.core.ledger.flip_state import NO_END_S, Hold
from burstwatch.core.rds.rds_buckets import RDS_CLASS_IO, RDS_CLASS_THROUGHPUT
from burstwatch.core.resource_type import ResourceType, type_of_id
from burstwatch.core.text import (
    format_clock,
    format_count,
    format_duration,
    format_instant,
    format_until,
    format_usd,
)
from burstwatch.core.watch.api_cost import USD_PER_METRIC, usd_per_month_now
from burstwatch.core.watch.decision import Decision
from burstwatch.core.watch.pass_report import PassReport, remembered_level, urgency_of

_OUTCOME_LABELS: Final = {
    OutcomeStatus.FLIPPED: "flipped",
    OutcomeStatus.FLIPPED_BACK: "flipped back",
    OutcomeStatus.REFUSED: "refused",
    OutcomeStatus.FAILED: "failed",
    OutcomeStatus.IN_FLIGHT: "in flight",
}
_LEVELS_BY_URGENCY: Final = (
    Level.EXHAUSTED, Level.CRITICAL, Level.WARNING, CHANGING_LABEL, Level.WATCH, Level.OK, FIXED_LABEL,
    UNWATCHED_LABEL, Level.UNKNOWN,
)  # fmt: skip

_UNREAD_PARTS: Final = {
    RDS_CLASS_IO: "class buckets",
    RDS_CLASS_THROUGHPUT: "class buckets",
    INSTANCE_IO: "EBS credits",
    INSTANCE_THROUGHPUT: "EBS credits",
}
"""What could not be read if it was a bucket of this kind: the resource was, and perhaps its other buckets."""

_MAX_NAMED: Final = 3  # keeps a line about many volumes short


def print_summary(*reports: PassReport) -> None:
    """Print the summary of a pass over each Region: what a person should know and the table does not show."""
    decisions = [decision for report in reports for decision in report.decisions]
    if decisions and sys.stdout.isatty() and sys.stderr.isatty():
        print_info("")
    if decisions:
        print_info(_format_totals(reports))
        print_info(_format_effort(reports), style="dim")
    for report in reports:
        print_holds(report.holds, report.now_s, region=report.region if len(reports) > 1 else "")
        if report.ignored:
            print_info(f"ignored by tag: {list_first(sorted(report.ignored))}")
        _print_outcomes(report)
    print_first_lines(
        "tag",
        (
            _volume_line(decision, fault)
            for decision in decisions
            for fault in decision.volume_settings.faults
        ),
    )
    faults = group_by_cause(
        Unread(
            decision.assessment.resource.resource_id,
            format_id_and_name(decision.assessment.resource),
            _unknown_reason(decision),
        )
        for decision in decisions
        if decision.assessment.is_fault
        and decision.assessment.unknown_reason is not UnknownReason.READ_FAILED
    )
    print_first_lines(
        "fault",
        (f"{list_first([*labels.values()], _MAX_NAMED)}: {cause}" for cause, (_, labels) in faults.items()),
    )


def print_report_failures(*reports: PassReport) -> None:
    """Print why something could not be read, each cause once."""
    print_failures(
        [failure for report in reports for failure in report.failures],
        unread=_unread_of([decision for report in reports for decision in report.unread]),
    )
    for report in reports:
        print_failures([], missing=report.missing, region=report.region)


def describe_excused_kinds(*reports: PassReport) -> str | None:
    """Which kinds were left out because the caller may not read them, and by which AWS action."""
    actions = {kind: action for report in reports for kind, action in report.excused_kinds.items()}
    if not actions:
        return None
    listed = ", ".join(f"{kind.noun}s ({actions[kind]})" for kind in ResourceType if kind in actions)
    return f"left out, because you lack the permission: {listed}"


def print_excused_kinds(*reports: PassReport) -> None:
    """Say which kinds the caller may not read, if any."""
    if excused := describe_excused_kinds(*reports):
        print_info(excused)


def failures_of_calls(report: PassReport) -> list[str]:
    """The failures but for those by which a resource could not be read: they are printed with its name."""
    causes = {Problem.of(_unknown_reason(decision)).cause for decision in report.unread}
    return [failure for failure in report.failures if Problem.of(failure).cause not in causes]


def _unread_of(decisions: Sequence[Decision]) -> Iterable[Unread]:
    """What could not be read, each with its name if no other has the same name."""
    resources = {
        decision.assessment.resource.resource_id: decision.assessment.resource for decision in decisions
    }
    names = {resource_id: display_name_of(resource) for resource_id, resource in resources.items()}
    counts = Counter(names.values())
    for decision in decisions:
        resource = decision.assessment.resource
        name = names[resource.resource_id]
        label = name if name and counts[name] == 1 else format_id_and_name(resource)
        part = _UNREAD_PARTS.get(decision.assessment.kind, "")
        yield Unread(resource.resource_id, label, _unknown_reason(decision), part)


def print_next_for(report_options: Mapping[str, Sequence[str]], *reports: PassReport) -> None:
    """Print what to run next about the most urgent volume; ``report_options`` are those of each Region."""
    decisions = sorted(
        ((decision, report) for report in reports for decision in report.decisions),
        key=lambda pair: urgency_of(pair[0]),
    )
    if not decisions:
        return
    decision, report = decisions[0]
    options = report_options[report.region]
    resource = decision.assessment.resource
    if not isinstance(resource, Volume) and (decision.level.is_alerting or remembered_level(decision)):
        commands = [["which" if isinstance(resource, Instance) else "explain", resource.resource_id]]
    elif decision.level.is_alerting:
        commands = [["explain", decision.volume_id]]
        if decision.flip is None and report.outcome_of(decision).status is not OutcomeStatus.FLIPPED:
            commands.append(["flip", decision.volume_id, "--dry-run"])
    elif decision.assessment.is_fault or report.failures:
        commands = [["doctor"]]
    else:
        commands = [["advise"]]
    print_next(shlex.join(["burstctl", *command, *options]) for command in commands)


def print_next_elsewhere(options: Options) -> None:
    """After a Region without volumes: look into all of them, or into another account."""
    elsewhere = replace(options, region=None, profile=None).repeated
    profile = (
        ["--profile", options.profile or "NAME"] if options.profile or options.has_several_regions else []
    )
    print_next([shlex.join(["burstctl", "assess", "--region", ALL_REGIONS, *profile, *elsewhere])])


def print_pass_line(report: PassReport, tick_at_s: int, *, has_other_stack: bool = False) -> None:
    """Print the result of a pass in one line; ``has_other_stack`` is why a watch that acts only proposes."""
    age_s = report.newest_datapoint_age_s
    newest = (
        ""
        if age_s is None
        else f"; newest datapoint {format_duration(age_s)} old{_format_oldest_datapoint(report)}"
    )
    print_info(
        f"{format_clock(tick_at_s)} UTC: {_describe_scope(report)}{_format_outcome_counts(report)}{newest}"
    )
    print_holds(report.holds, report.now_s)
    _print_outcomes(report, "if no other stack were deployed" if has_other_stack else "with --act")


def _describe_scope(report: PassReport) -> str:
    """How much of the fleet a pass looked at, and the levels of the whole fleet, as far as they are known."""
    resources, fleet = [decision.assessment.resource for decision in report.by_resource], report.fleet
    if fleet is None or fleet.watched is None:
        counts = format_level_counts(report.by_resource)
        return f"looked at {count_resources(resources)}{counts and f': {counts}'}"
    others = [resource for resource in resources if not isinstance(resource, Volume)]
    volume_count = len(resources) - len(others)
    watched = max(fleet.watched, volume_count)
    scope = [f"{volume_count:,} of {format_count(watched, 'volume')}"] if watched or not others else []
    scope += [count_resources(others)] if others else []
    volume_levels, other_levels = map(_format_levels, (fleet.by_level, fleet.other_by_level))
    levels = [f"fleet: {volume_levels or 'empty'}"] if watched or not (others or other_levels) else []
    levels += [f"other buckets: {other_levels}"] if other_levels else []
    return "; ".join([f"looked at {', '.join(scope)}", *levels])


def _format_levels(by_level: Mapping[Level, int]) -> str:
    levels = (level for level in _LEVELS_BY_URGENCY if isinstance(level, Level))
    return ", ".join(f"{by_level[level]:,} {level}" for level in levels if by_level.get(level))


def print_holds(
    holds: Iterable[Hold], now_s: float, volume_ids: Collection[str] | None = None, *, region: str = ""
) -> None:
    """Say which holds are in force: on everything, and on these volumes (None: on any)."""
    matching = [
        candidate
        for candidate in holds
        if candidate.volume_id is None or volume_ids is None or candidate.volume_id in volume_ids
    ]
    label = f"hold in {region}" if region else "hold"
    print_first_lines(label, (describe_hold(hold, now_s) for hold in matching))


def describe_hold(hold: Hold, now_s: float) -> str:
    """Who holds what, for how long and why."""
    if hold.volume_id is None:
        effect = "all changes are on hold"
    elif type_of_id(hold.volume_id) is ResourceType.EBS:
        effect = f"{hold.volume_id} is on hold"
    else:
        effect = f"no alert about {hold.volume_id} is sent"
    until = format_until(hold.until_s, now_s) if hold.until_s < NO_END_S else "until it is released"
    return f"{effect} {until}, by {hold.by}: {hold.reason}"


def _format_outcome_counts(*reports: PassReport) -> str:
    counts = {
        label: sum(report.count(status) for report in reports) for status, label in _OUTCOME_LABELS.items()
    }
    listed = ", ".join(f"{count:,} {label}" for label, count in counts.items() if count)
    return f"; {listed}" if listed else ""


def _print_outcomes(report: PassReport, condition: str = "with --act") -> None:
    """Print what was modified or, on this condition, would be; what is in progress; what was refused."""
    for status, label in _OUTCOME_LABELS.items():
        if status is OutcomeStatus.FAILED:
            continue
        outcomes = ((decision, report.outcome_of(decision)) for decision in report.decisions)
        print_first_lines(
            label,
            (
                _volume_line(decision, outcome.reason or decision.reason)
                for decision, outcome in outcomes
                if outcome.status is status
            ),
        )
    proposed = [
        decision
        for decision in report.decisions
        if decision.trigger and report.outcome_of(decision).status is OutcomeStatus.PROPOSED
    ]
    refusals = {d.volume_id: refusal for d in proposed if (refusal := report.outcome_of(d).refusal)}
    print_first_lines(
        f"would flip {condition}",
        (_volume_line(d, d.reason) for d in proposed if d.volume_id not in refusals),
    )
    print_first_lines(
        f"would be refused {condition}",
        (_volume_line(d, str(refusals[d.volume_id])) for d in proposed if d.volume_id in refusals),
    )


def print_runbook_hints(report: PassReport, runbooks_url: str) -> None:
    """Say where each guard that refused something in this pass is explained."""
    outcomes = (report.outcome_of(decision) for decision in report.decisions)
    for hint in runbook_hints(
        {outcome.refusal.guard for outcome in outcomes if outcome.refusal}, runbooks_url
    ):
        print_info(hint)


def format_level_counts(decisions: Iterable[Decision]) -> str:
    """``1 critical, 3 ok``, most urgent first."""
    counts = Counter(map(level_label, decisions))
    return ", ".join(f"{counts[level]:,} {level}" for level in _LEVELS_BY_URGENCY if counts[level])


def _format_totals(reports: Sequence[PassReport]) -> str:
    decisions = [decision for report in reports for decision in report.by_resource]
    place = reports[0].region if len(reports) == 1 else format_count(len(reports), "Region")
    counts = f"{format_level_counts(decisions)}{_format_outcome_counts(*reports)}"
    now = format_instant(max(report.now_s for report in reports))
    resources = count_resources(decision.assessment.resource for decision in decisions)
    return f"{resources} in {place} at {now}: {counts}"


def _format_oldest_datapoint(*reports: PassReport) -> str:
    """The oldest datapoint that matters, if it is older than the policy allows for; else empty."""
    oldest = max((report.oldest_datapoint for report in reports if report.oldest_datapoint), default=None)
    return f", oldest {format_duration(oldest[0])} ({oldest[1]})" if oldest else ""


def _format_effort(reports: Sequence[PassReport]) -> str:
    ages_s = [report.newest_datapoint_age_s for report in reports]
    age_s = min((age_s for age_s in ages_s if age_s is not None), default=None)
    datapoint_age = "no datapoint" if age_s is None else f"newest datapoint {format_duration(age_s)} old"
    datapoint_age += _format_oldest_datapoint(*reports)
    spacing_s = max((report.datapoint_spacing_s or 0 for report in reports), default=0)
    if spacing := describe_spacing(spacing_s):
        datapoint_age = f"{datapoint_age}; {spacing}"
    call_count = sum(sum(report.api_calls.values()) for report in reports)
    metric_count = sum(report.metrics_requested for report in reports)
    effort = (
        f"{datapoint_age}; {format_count(call_count, 'call')} to AWS, {metric_count:,}"
        f" metrics read for {format_usd(metric_count * USD_PER_METRIC, decimals=5)}"
    )
    if any(report.failures or report.unread for report in reports):
        return effort  # a price without what could not be read would be wrong
    idle_usd = sum(report.usd_per_month_idle for report in reports)
    now_usd = sum(usd_per_month_now(report.decisions) for report in reports)
    return (
        f"{effort}; watching costs {format_usd(now_usd)} a month at this activity,"
        f" {format_usd(idle_usd)} while all are calm"
    )


def _unknown_reason(decision: Decision) -> str:
    reason = decision.assessment.unknown_reason
    return decision.assessment.unknown_because or (reason.description if reason else str(decision.level))


def _volume_line(decision: Decision, text: str) -> str:
    return f"{format_id_and_name(decision.assessment.resource)}: {text}"
