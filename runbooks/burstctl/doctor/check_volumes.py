"""The volumes: which cannot be watched and why, how old their data is, and what their tags ask for."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from burstctl.cli.output import list_first
from burstctl.doctor.context import DoctorContext, Fleet
from burstctl.doctor.finding import (
    CheckFailure,
    Finding,
    LookupFailedError,
    broken,
    from_failure,
    ok,
    skipped,
    warning,
)
from burstctl.render.datapoint_spacing import describe_spacing, recommended_metric_lag
from burstctl.render.volume import count_resources, format_id_and_name
from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.assessment.resource import Resource
from burstwatch.core.buckets.series import PERIOD_S
from burstwatch.core.durations import DAY_S, format_duration_literal
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.errors import Problem
from burstwatch.core.flips.guards import AUTOMATIC_QUOTA, QUOTA
from burstwatch.core.instances.instance import Instance
from burstwatch.core.policy.policy import CadencePolicy, Mode, Policy
from burstwatch.core.policy.volume_tags import read_tags
from burstwatch.core.text import format_count, format_duration, format_instant, format_usd
from burstwatch.core.watch.pass_report import PassReport

# a fault of a whole fleet has one cause: a few volumes show it, assess lists all
_MAX_NAMED: Final = 3
_MAX_FINDINGS: Final = 10
_UNREAD_PAGE: Final = "runbooks/VolumesUnread.md"
_GAP_PAGE: Final = "runbooks/TelemetryGap.md"
_REFUSED_PAGE: Final = "runbooks/FlipRefused.md"

_EXPECTED_UNKNOWN_NOTES: Final[Mapping[UnknownReason, str]] = {
    UnknownReason.DETACHED: "nothing to do: looked at from the minute it is attached",
    UnknownReason.INSTANCE_STOPPED: "nothing to do: looked at again when its instance runs",
    UnknownReason.NOT_BURSTABLE_TYPE: "nothing to do: it has no bucket",
    UnknownReason.NEVER_EMPTY: "nothing to do: it earns credits as fast as it can spend them",
    UnknownReason.IDLE: "nothing to do: a full volume that serves nothing need not publish a balance",
    UnknownReason.TOO_NEW: "nothing to do: its first datapoint comes within a quarter of an hour",
}
"""Why a volume is not assessed, if that is normal."""


def check_telemetry(context: DoctorContext) -> Iterator[Finding]:
    """How far CloudWatch is behind, by the newest datapoint of all volumes."""
    context.fleet()  # if the listing fails, the check of the volumes reports it
    report = context.report()
    yield from judge_failures(report)
    yield judge_age(report, context.policy_or_default().cadence)
    yield from judge_spacing(report, context.policy_or_default().cadence)


def judge_spacing(report: PassReport, cadence: CadencePolicy) -> Iterator[Finding]:
    """How far apart datapoints are, and the ``metric_lag`` that covers it, with its price."""
    spacing_s = report.datapoint_spacing_s
    if spacing_s is None:
        return
    spacings = Counter(
        seconds for decision in report.decisions if (seconds := decision.assessment.spacing_s) is not None
    )
    distribution = ", ".join(
        f"{format_duration(spacing)}: {format_count(count, 'bucket')}"
        for spacing, count in sorted(spacings.items())[:_MAX_NAMED]
    )
    lag = recommended_metric_lag(spacing_s, report.worst_datapoint_age_s or 0.0)
    if spacing_s <= PERIOD_S or cadence.metric_lag >= lag:
        yield ok(f"time between datapoints ({distribution})")
        return
    wider = replace(cadence, metric_lag=lag)
    now_usd, wider_usd = report.usd_per_month_idle, report.usd_per_month_idle_at(wider)
    if faults := list(wider.faults()):
        fix = f"the policy cannot allow for {format_duration_literal(lag)}: {faults[-1].message}"
    else:
        fix = (
            f"write cadence: {{metric_lag: {format_duration_literal(lag)}}} into the policy: sweeps then plan"
            f" for it, and watching costs {format_usd(wider_usd)} a month while all are calm, not"
            f" {format_usd(now_usd)}"
        )
    summary = f"{describe_spacing(spacing_s)} ({distribution})"
    yield warning(summary, fix=fix, page="runbooks/DatapointsTooOld.md")


def judge_age(report: PassReport, cadence: CadencePolicy) -> Finding:
    """The guarantee counts on ``metric_lag``: of the oldest datapoint, where volumes must publish one."""
    newest_s, lag_s = report.newest_datapoint_age_s, cadence.metric_lag.total_seconds()
    if newest_s is None:
        return skipped("no volume has a datapoint")
    age_s = max(newest_s, report.worst_datapoint_age_s or 0.0)
    summary = f"the newest datapoint is {format_duration(newest_s)} old"
    if age_s > newest_s:
        summary = f"{summary}, the oldest of a volume that is not full {format_duration(age_s)}"
        if report.oldest_datapoint:
            summary = f"{summary} ({report.oldest_datapoint[1]})"
    if age_s <= lag_s:
        return ok(f"{summary}, cadence.metric_lag allows {format_duration(lag_s)}")
    summary = (
        f"{summary}, and cadence.metric_lag counts on {format_duration(lag_s)}: forecasts lose that much lead"
    )
    fix = "see AWS's health page for CloudWatch here; if it stays so, raise cadence.metric_lag in the policy"
    page = "runbooks/DatapointsTooOld.md"
    if age_s > 2 * lag_s:
        return broken(summary, fix=fix, page=page)
    return warning(summary, fix=fix, page=page)


def judge_failures(report: PassReport) -> Iterator[Finding]:
    """Calls that failed in the pass; a missing permission is reported with the permissions."""
    failures = [message for message in dict.fromkeys(report.failures) if not _is_refusal(message)]
    for failure in failures[:_MAX_FINDINGS]:
        problem = Problem.of(failure)
        yield broken(
            problem.cause,
            fix=problem.fix or "run it again; if it lasts, report it",
            trouble=CheckFailure.FAILED,
        )


def check_volumes(context: DoctorContext) -> Iterator[Finding]:
    """Which volumes are watched, and which cannot be and why."""
    fleet = context.fleet()
    yield from judge_unreadable(fleet)
    try:
        report = context.report()
    except LookupFailedError as error:
        yield skipped(f"which of them have no data is unknown; see {error.owner}")
        return
    yield from judge_watched(context, report)


def judge_unreadable(fleet: Fleet) -> Iterator[Finding]:
    """Volumes that EC2 describes in a way that cannot be read."""
    for volume_id, failure in list(fleet.failures.items())[:_MAX_FINDINGS]:
        yield replace(from_failure(failure), subject=volume_id)


def judge_watched(context: DoctorContext, report: PassReport) -> Iterator[Finding]:
    """A finding for each reason why resources are not judged, the faults first."""
    faults: dict[tuple[UnknownReason, str], list[Resource]] = defaultdict(list)
    by_reason: dict[UnknownReason, list[Resource]] = defaultdict(list)
    decisions = report.by_resource
    for decision in decisions:
        reason, cause = decision.assessment.unknown_reason, decision.assessment.unknown_because
        if reason is not None and reason.is_fault:
            faults[reason, cause or str(reason)].append(decision.assessment.resource)
        elif reason is not None:
            by_reason[reason].append(decision.assessment.resource)
    for (reason, cause), resources in list(faults.items())[:_MAX_FINDINGS]:
        yield _unwatched_finding(context, reason, cause, resources)
    watched = [
        decision.assessment.resource for decision in decisions if decision.assessment.unknown_reason is None
    ]
    if decisions:
        yield ok(f"{count_resources(watched)} watched")
    elif not report.failures:
        summary = f"there is no gp2 volume in {report.region}: nothing is watched"
        yield skipped(summary, fix="if there should be some, see --region and --profile")
    for reason, resources in sorted(by_reason.items()):
        yield ok(
            f"{reason.label}: {count_resources(resources)}, {_format_first(resources)}",
            fix=_EXPECTED_UNKNOWN_NOTES.get(reason, ""),
        )
    if report.ignored:
        yield ok(f"{format_count(len(report.ignored), 'volume')} ignored by tag")


def _unwatched_finding(
    context: DoctorContext, reason: UnknownReason, cause: str, resources: Sequence[Resource]
) -> Finding:
    subject = f"{count_resources(resources)} that cannot be judged, {_format_first(resources)}"
    first = resources[0].resource_id
    shown_by = "which" if isinstance(resources[0], Instance) else "explain"
    commands = (context.burstctl_command(shown_by, first),)
    if first in context.ledger().states_of({first}).unreadable:
        fix = "use the newest burstwatch that ever wrote to the ledger, or discard its state"
        release = (context.burstctl_command("release", first),)
        return broken(
            cause, subject=subject, fix=fix, commands=release, page=_UNREAD_PAGE, trouble=CheckFailure.FAILED
        )
    if reason is UnknownReason.READ_FAILED:
        fix = "fix the named cause; the next pass reads it again"
        trouble = None if _is_refusal(cause) else CheckFailure.FAILED
        return broken(cause, subject=subject, fix=fix, commands=commands, page=_GAP_PAGE, trouble=trouble)
    fix = "check whether CloudWatch has it; tag it burstwatch:ignore=true if it never does any I/O"
    return warning(cause, subject=subject, fix=fix, commands=commands, page=_GAP_PAGE)


def _is_refusal(cause: str) -> bool:
    """Whether a permission is missing, which another check reports by name."""
    return "may not call" in cause


def check_tags(context: DoctorContext) -> Iterator[Finding]:
    """Tags without the effect that their author probably expects."""
    policy = context.policy_or_default()
    windows = {window.name for window in policy.windows}
    with suppress(LookupFailedError):
        windows |= context.ledger().manual_overrides().keys()
    tag_faults = [
        (volume, fault)
        for volume in context.fleet().volumes
        for fault in read_tags(volume.tags, policy.mode, known_windows=windows).faults
    ]
    for volume, fault in tag_faults[:_MAX_FINDINGS]:
        yield warning(
            fault,
            subject=format_id_and_name(volume),
            fix="correct the tag, as the message says",
        )
    if len(tag_faults) > _MAX_FINDINGS:
        assess_command = context.burstctl_command("assess", "--all", "--json")
        excess = f"{len(tag_faults) - _MAX_FINDINGS:,} more faults in tags"
        yield warning(excess, fix="see tag_faults of each volume", commands=(assess_command,))
    if not tag_faults:
        yield ok("every burstwatch tag is known")


def check_opt_in(context: DoctorContext) -> Iterator[Finding]:
    """Which volumes may be flipped, and what stops those that want to be."""
    policy = context.policy_or_default()
    flips: bool | None = None
    with suppress(LookupFailedError):
        flips = None if context.stack is None else context.stack.flips
    yield from judge_opt_in(context.fleet().volumes, policy, flips=flips)


def judge_opt_in(volumes: Iterable[Volume], policy: Policy, *, flips: bool | None) -> Iterator[Finding]:
    """Volumes with the opt-in tag, against the policy and the stack; ``flips`` is None without one."""
    key, value = policy.mode.opt_in_tag
    opted_in = [volume for volume in volumes if volume.tags.get(key) == value]
    summary = f"{format_count(len(opted_in), 'volume')} with the opt-in tag {key}={value}"
    if not opted_in:
        yield ok(f"{summary}: nothing is flipped by itself")
        return
    if policy.mode.highest is not Mode.AUTO:
        fix = "if flips are wanted again, write mode: {highest: auto} into the policy"
        yield warning(
            f"{summary}, and the policy's mode.highest is {policy.mode.highest}", fix=fix, page=_REFUSED_PAGE
        )
    elif flips is None:
        fix = "a burstctl watch --act flips them, for as long as it runs"
        yield skipped(f"{summary}: no stack is known that would flip them", fix=fix)
    elif not flips:
        fix = "if flips are wanted, write flips: true into the stage file and deploy"
        yield warning(f"{summary}, and the stack was deployed without flips", fix=fix, page=_REFUSED_PAGE)
    else:
        yield ok(f"{summary}: flipped before they are empty")
    unmodifiable = [volume for volume in opted_in if volume.managed_by or volume.multi_attach_enabled]
    if unmodifiable:
        summary = (
            f"{format_count(len(unmodifiable), 'volume')} opted in and can never be flipped:"
            f" {_format_first(unmodifiable)}"
        )
        fix = "take the tag away: what a service manages, or several instances share, is left alone"
        yield warning(summary, fix=fix, page=_REFUSED_PAGE)


def check_modifications(context: DoctorContext) -> Iterator[Finding]:
    """Volumes that were modified so often today that they cannot be flipped: AWS allows four in 24 hours."""
    now_s = context.now_s()
    modifications = {
        key: state.modifications.within_day(now_s) for key, state in context.ledger().states().items()
    }
    exhausted = {key: recent for key, recent in modifications.items() if len(recent) >= AUTOMATIC_QUOTA}
    for volume_id, recent in list(exhausted.items())[:_MAX_FINDINGS]:
        free_at = format_instant(recent[len(recent) - AUTOMATIC_QUOTA].at_s + DAY_S)
        summary = (
            f"{len(recent)} of AWS's {QUOTA} modifications in 24 h are used: none by itself before {free_at}"
        )
        fix = "wait, or flip it by hand while one is left; see who used them up"
        history_command = context.burstctl_command("history", volume_id)
        yield warning(summary, subject=volume_id, fix=fix, commands=(history_command,), page=_REFUSED_PAGE)
    if not exhausted:
        yield ok(f"every volume has some left of AWS's {QUOTA} in 24 h, as far as the ledger knows")


def _format_first(resources: Sequence[Resource]) -> str:
    return list_first([format_id_and_name(resource) for resource in resources], _MAX_NAMED)
