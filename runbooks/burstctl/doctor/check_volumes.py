"""The volumes: which cannot be watched and why, how old their data is, and what their tags ask for."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from burstctl.doctor.context import Fleet, Patient
from burstctl.doctor.finding import (
    Finding,
    Trouble,
    UnknownError,
    broken,
    of_failure,
    ok,
    skipped,
    warning,
)
from burstctl.render.volume import id_and_name
from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.buckets.series import PERIOD_S
from burstwatch.core.durations import format_span
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.flips.guards import AUTOMATIC_QUOTA, QUOTA
from burstwatch.core.ledger.flip_state import spent_within
from burstwatch.core.policy.policy import CadencePolicy, Mode, Policy
from burstwatch.core.policy.volume_tags import read_tags
from burstwatch.core.text import format_duration, format_instant
from burstwatch.core.watch.poll_interval import describe_spacing, metric_lag_for
from burstwatch.core.watch.report import Report

_MOST_NAMED: Final = 3
_MOST_FINDINGS: Final = 10
_UNREAD: Final = "runbooks/VolumesUnread.md"
_GAP: Final = "runbooks/TelemetryGap.md"
_REFUSED: Final = "runbooks/FlipRefused.md"

_NOTHING_TO_DO: Final[Mapping[UnknownReason, str]] = {
    UnknownReason.DETACHED: "nothing to do: looked at from the minute it is attached",
    UnknownReason.INSTANCE_STOPPED: "nothing to do: looked at again when its instance runs",
    UnknownReason.NOT_BURSTABLE_TYPE: "nothing to do: it has no bucket",
    UnknownReason.CANNOT_RUN_DRY: "nothing to do: from 1,000 GiB on it earns what it can spend",
    UnknownReason.IDLE: "nothing to do: a full volume that serves nothing need not publish a balance",
    UnknownReason.TOO_NEW: "nothing to do: its first datapoint comes within a quarter of an hour",
}
"""Why a volume is not judged, where that is as it should be."""


def check_telemetry(patient: Patient) -> Iterator[Finding]:
    """How far CloudWatch is behind, by the newest datapoint of all volumes."""
    report = patient.report()
    yield from judge_failures(report)
    yield judge_age(report, patient.policy_or_default().cadence)
    yield from judge_spacing(report, patient.policy_or_default().cadence)


def judge_spacing(report: Report, cadence: CadencePolicy) -> Iterator[Finding]:
    """How far apart datapoints are, and the ``metric_lag`` that covers it, with its price."""
    spacing_s = report.datapoint_spacing_s
    if spacing_s is None:
        return
    spacings = Counter(s for d in report.decisions if (s := d.assessment.spacing_s) is not None)
    apart = ", ".join(
        f"{format_duration(each)}: {_count(count)}" for each, count in sorted(spacings.items())[:_MOST_NAMED]
    )
    lag = metric_lag_for(spacing_s, report.worst_datapoint_age_s or 0.0)
    if spacing_s <= PERIOD_S or cadence.metric_lag >= lag:
        yield ok(f"time between datapoints ({apart})")
        return
    wider = replace(cadence, metric_lag=lag)
    now_usd, then_usd = report.usd_per_month_idle, report.usd_per_month_idle_at(wider)
    if faults := wider.faults():
        fix = f"the policy cannot allow for {format_span(lag)}: {faults[-1].message}"
    else:
        fix = (
            f"write cadence: {{metric_lag: {format_span(lag)}}} into the policy: sweeps then plan for it, and"
            f" watching costs ${then_usd:,.2f} a month while all are calm, not ${now_usd:,.2f}"
        )
    seen = f"{describe_spacing(spacing_s)} ({apart})"
    yield warning(seen, fix=fix, page="runbooks/DatapointsTooOld.md")


def judge_age(report: Report, cadence: CadencePolicy) -> Finding:
    """The guarantee counts on ``metric_lag``: of the oldest datapoint, where volumes must publish one."""
    newest_s, lag_s = report.newest_datapoint_age_s, cadence.metric_lag.total_seconds()
    if newest_s is None:
        return skipped("no volume has a datapoint")
    age_s = max(newest_s, report.worst_datapoint_age_s or 0.0)
    seen = f"the newest datapoint is {format_duration(newest_s)} old"
    if age_s > newest_s:
        seen = f"{seen}, the oldest of a volume that is not full {format_duration(age_s)}"
        if report.oldest_datapoint:
            seen = f"{seen} ({report.oldest_datapoint[1]})"
    if age_s <= lag_s:
        return ok(f"{seen}, cadence.metric_lag allows {format_duration(lag_s)}")
    seen = f"{seen}, and cadence.metric_lag counts on {format_duration(lag_s)}: forecasts lose as much lead"
    fix = "see AWS's health page for CloudWatch here; if it stays so, raise cadence.metric_lag in the policy"
    page = "runbooks/DatapointsTooOld.md"
    if age_s > 2 * lag_s:
        return broken(seen, fix=fix, page=page)
    return warning(seen, fix=fix, page=page)


def judge_failures(report: Report) -> Iterator[Finding]:
    """Calls that failed while looking; what a missing permission does is said at the permissions."""
    failures = [each for each in dict.fromkeys(report.failures) if not _is_refusal(each)]
    for failure in failures[:_MOST_FINDINGS]:
        fix = "run it again; if it lasts, do what the message says"
        yield broken(failure, fix=fix, trouble=Trouble.FAILED)


def check_volumes(patient: Patient) -> Iterator[Finding]:
    """Which volumes are watched, and which cannot be and why."""
    fleet = patient.fleet()
    yield from judge_unreadable(fleet)
    try:
        report = patient.report()
    except UnknownError as error:
        yield skipped(f"which of them tell nothing is not known, because of what is said at {error.owner}")
        return
    yield from judge_watched(patient, report)


def judge_unreadable(fleet: Fleet) -> Iterator[Finding]:
    """Volumes that EC2 describes in a way that cannot be read."""
    for volume_id, failure in list(fleet.failures.items())[:_MOST_FINDINGS]:
        found = of_failure(failure)
        yield Finding(
            verdict=found.verdict, seen=found.seen, about=volume_id, fix=found.fix, trouble=found.trouble
        )


def judge_watched(patient: Patient, report: Report) -> Iterator[Finding]:
    """A finding for each reason why volumes are not judged, the faults first."""
    faults: dict[tuple[UnknownReason, str], list[Volume]] = defaultdict(list)
    by_reason: dict[UnknownReason, list[Volume]] = defaultdict(list)
    for each in report.decisions:
        reason, because = each.assessment.unknown_reason, each.assessment.unknown_because
        if reason is not None and reason.is_fault:
            faults[reason, because or str(reason)].append(each.assessment.volume)
        elif reason is not None:
            by_reason[reason].append(each.assessment.volume)
    for (reason, because), volumes in list(faults.items())[:_MOST_FINDINGS]:
        yield _unwatched(patient, reason, because, volumes)
    watched = len(report.decisions) - sum(map(len, (*faults.values(), *by_reason.values())))
    if report.decisions:
        yield ok(f"{_count(watched)} watched")
    elif not report.failures:
        seen = f"there is no gp2 volume in {report.region}: nothing is watched"
        yield skipped(seen, fix="if there should be some, see --region and --profile")
    for reason, volumes in sorted(by_reason.items()):
        words = str(reason).replace("_", " ")
        yield ok(f"{_count(len(volumes))} {words}: {_some(volumes)}", fix=_NOTHING_TO_DO.get(reason, ""))
    if report.ignored:
        yield ok(f"{_count(len(report.ignored))} ignored by tag")


def _unwatched(patient: Patient, reason: UnknownReason, because: str, volumes: Sequence[Volume]) -> Finding:
    about = f"{_count(len(volumes))} that nobody can judge, {_some(volumes)}"
    first = volumes[0].volume_id
    commands = (patient.burstctl("explain", first),)
    if first in patient.ledger().states_of({first}).unread:
        fix = "use the newest burstwatch that ever wrote to the ledger, or give up what it remembers"
        release = (patient.burstctl("release", first),)
        return broken(because, about=about, fix=fix, commands=release, page=_UNREAD, trouble=Trouble.FAILED)
    if reason is UnknownReason.READ_FAILED:
        fix = "mend what the reason names; the next pass reads it by itself"
        trouble = None if _is_refusal(because) else Trouble.FAILED
        return broken(because, about=about, fix=fix, commands=commands, page=_GAP, trouble=trouble)
    fix = "see whether CloudWatch has it; tag it burstwatch:ignore=true if it never does any I/O"
    return warning(because, about=about, fix=fix, commands=commands, page=_GAP)


def _is_refusal(because: str) -> bool:
    """Whether it is for want of a permission, which is found and told by name elsewhere."""
    return "may not call" in because


def check_tags(patient: Patient) -> Iterator[Finding]:
    """Tags that do not do what somebody thinks they do."""
    policy = patient.policy_or_default()
    windows = {window.name for window in policy.windows}
    with suppress(UnknownError):
        windows |= patient.ledger().window_marks().keys()
    found = [
        (volume, fault)
        for volume in patient.fleet().volumes
        for fault in read_tags(volume.tags, policy.mode, known_windows=windows).faults
    ]
    for volume, fault in found[:_MOST_FINDINGS]:
        yield warning(
            fault, about=id_and_name(volume), fix="correct the tag; README.md has the values that count"
        )
    if len(found) > _MOST_FINDINGS:
        assess = patient.burstctl("assess", "--all", "--json")
        more = f"{len(found) - _MOST_FINDINGS:,} more faults in tags"
        yield warning(more, fix="see tag_faults of each volume", commands=(assess,))
    if not found:
        yield ok("every tag of burstwatch's is one it knows")


def check_opt_in(patient: Patient) -> Iterator[Finding]:
    """Which volumes may be flipped, and what stops those that want to be."""
    policy = patient.policy_or_default()
    flips: bool | None = None
    with suppress(UnknownError):
        flips = None if patient.stack is None else patient.stack.flips
    yield from judge_opt_in(patient.fleet().volumes, policy, flips=flips)


def judge_opt_in(volumes: Iterable[Volume], policy: Policy, *, flips: bool | None) -> Iterator[Finding]:
    """Volumes with the opt-in tag, against the policy and the stack; ``flips`` is None without one."""
    key, value = policy.mode.opt_in_tag
    opted_in = [each for each in volumes if each.tags.get(key) == value]
    seen = f"{_count(len(opted_in))} with the opt-in tag {key}={value}"
    if not opted_in:
        yield ok(f"{seen}: nothing is flipped by itself")
        return
    if policy.mode.highest is not Mode.AUTO:
        fix = "if flips are wanted again, write mode: {highest: auto} into the policy"
        yield warning(
            f"{seen}, and the policy's mode.highest is {policy.mode.highest}", fix=fix, page=_REFUSED
        )
    elif flips is None:
        fix = "a burstctl watch --act flips them, for as long as it runs"
        yield skipped(f"{seen}: no stack is known that would flip them", fix=fix)
    elif not flips:
        fix = "if flips are wanted, write flips: true into the stage file and deploy"
        yield warning(f"{seen}, and the stack was deployed without flips", fix=fix, page="docs/deploying.md")
    else:
        yield ok(f"{seen}: flipped before they run dry")
    barred = [each for each in opted_in if each.managed_by or each.multi_attached]
    if barred:
        seen = f"{_count(len(barred))} opted in and can never be flipped: {_some(barred)}"
        fix = "take the tag away: what a service manages, or several instances share, is left alone"
        yield warning(seen, fix=fix, page=_REFUSED)


def check_modifications(patient: Patient) -> Iterator[Finding]:
    """Volumes that were modified so often today that they cannot be flipped: AWS allows four in 24 hours."""
    now_s = patient.now_s()
    spent = {i: spent_within(state.spent, now_s) for i, state in patient.ledger().states().items()}
    used_up = {i: each for i, each in spent.items() if len(each) >= AUTOMATIC_QUOTA}
    for volume_id, each in list(used_up.items())[:_MOST_FINDINGS]:
        free_at = format_instant(each[len(each) - AUTOMATIC_QUOTA].at_s + 24 * 3600)
        seen = f"{len(each)} of AWS's {QUOTA} modifications in 24 h are used: none by itself before {free_at}"
        fix = "wait, or flip it by hand while one is left; see who used them up"
        history = patient.burstctl("history", volume_id)
        yield warning(seen, about=volume_id, fix=fix, commands=(history,), page=_REFUSED)
    if not used_up:
        yield ok(f"every volume has some left of AWS's {QUOTA} in 24 h, as far as the ledger knows")


def _count(number: int) -> str:
    return f"{number:,} volume" if number == 1 else f"{number:,} volumes"


def _some(volumes: Sequence[Volume]) -> str:
    more = len(volumes) - _MOST_NAMED
    named = ", ".join(id_and_name(each) for each in volumes[:_MOST_NAMED])
    return f"{named} and {more:,} more" if more > 0 else named
