"""The oracle: it follows the same rules, and knows all future demand and the duration of each modification.

Its configurations are those of the watchdog's own rule, so that they differ in *when*, not in what is bought.
Its dollars are those of the best schedule found, which may not be the best there is.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from burstlab.model.aws_error import AwsError
from burstlab.model.bucket import FULL_CREDITS, split_at_changes
from burstlab.model.fleet import LabSettings
from burstlab.score.cases import Case
from burstlab.score.ground_truth import START_S, GroundTruth, make_fleet
from burstlab.score.record import AcceptedModification, CaseRecord, usd_over_gp2
from burstlab.score.replay import GP2, advance_to, choose_configuration, replay, to_modify_request
from burstwatch.core.durations import HOUR_S
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ebs.volume import baseline_iops

_MIN_GP2_DURATIONS_S: Final = (2 * HOUR_S, 6 * HOUR_S, 12 * HOUR_S)
"""The least times for which a return must be safe; each is tried, as AWS allows two round trips a day."""

_RETURN_STEP_S: Final = 600  # each step is checked against all load to come, which takes time
_LEAD_FRACTIONS: Final = (0.0, 0.25, 0.5, 0.75, 1.0)
"""The shares of a modification's duration by which it is requested early; the least that suffices is used."""

_STALL_TOLERANCE: Final = 0.005  # a cheaper plan may give up half a per cent of what can be avoided


class _SettledState(NamedTuple):
    """The state of a volume when its last modification is over."""

    at_s: int
    credits: float
    stalled_s: float


def plan_with_foresight(
    case: Case, ground_truth: GroundTruth, target: VolumeType, settings: LabSettings
) -> CaseRecord:
    """The modifications of a contender that knows the future."""
    if ground_truth.stalled_s <= 0:
        return CaseRecord(stalled_s=0.0)
    immediate_flip = AcceptedModification(
        START_S, _choose_for_peak(case, START_S, START_S + case.duration_s, target)
    )
    min_stalled_s, accepted_flip = replay(case, [immediate_flip], settings)
    if immediate_flip.configuration.volume_type is VolumeType.GP3:
        return CaseRecord(stalled_s=min_stalled_s, modifications=accepted_flip)
    allowed_s = min_stalled_s + _STALL_TOLERANCE * (ground_truth.stalled_s - min_stalled_s)
    best = CaseRecord(stalled_s=min_stalled_s, modifications=accepted_flip)
    for min_gp2_s in _MIN_GP2_DURATIONS_S:
        modifications = _plan_round_trips(case, target, min_gp2_s, settings)
        stalled_s, accepted = replay(case, modifications, settings)
        is_cheaper = usd_over_gp2(case, accepted) < usd_over_gp2(case, best.modifications)
        if stalled_s <= allowed_s and is_cheaper:
            best = CaseRecord(stalled_s=stalled_s, modifications=accepted)
    return best


def _plan_round_trips(
    case: Case, target: VolumeType, min_gp2_s: int, settings: LabSettings
) -> list[AcceptedModification]:
    """Out for each depletion and back after it, as far as AWS lets that be done."""
    modifications: list[AcceptedModification] = []
    try:
        for modification in _next_modifications(case, modifications, target, min_gp2_s, settings):
            modifications.append(modification)  # noqa: PERF402 - the moves so far are what the next one is planned from
    except AwsError:
        del modifications[-1:]
    return modifications


def _next_modifications(
    case: Case,
    modifications: Sequence[AcceptedModification],
    target: VolumeType,
    min_gp2_s: int,
    settings: LabSettings,
) -> Iterator[AcceptedModification]:
    """The next modification after ``modifications``; the caller appends it."""
    end_s = START_S + case.duration_s
    settled = _SettledState(START_S, FULL_CREDITS, 0.0)
    while (stall_at_s := next_stall_at_s(case, settled.at_s, settled.credits, end_s)) is not None:
        return_at_s = next(_possible_returns(case, stall_at_s, min_gp2_s, end_s), end_s)
        yield _latest_flip(
            case,
            modifications,
            settled,
            stall_at_s,
            _choose_for_peak(case, stall_at_s, return_at_s, target),
            settings,
        )
        if return_at_s >= end_s:
            break
        yield AcceptedModification(
            max(return_at_s, int(_settled_after(case, modifications, settings).at_s)), GP2
        )
        settled = _settled_after(case, modifications, settings)
        if settled.at_s >= end_s:
            break


def _latest_flip(
    case: Case,
    modifications: Sequence[AcceptedModification],
    settled: _SettledState,
    stall_at_s: float,
    configuration: Configuration,
    settings: LabSettings,
) -> AcceptedModification:
    """Out as late as does no harm; at once where even that is too late."""
    immediate = AcceptedModification(int(settled.at_s), configuration)
    duration_s = _settled_after(case, [*modifications, immediate], settings).at_s - immediate.at_s
    for fraction in _LEAD_FRACTIONS:
        flip = AcceptedModification(
            max(immediate.at_s, int(stall_at_s - fraction * duration_s) - 60), configuration
        )
        if _settled_after(case, [*modifications, flip], settings).stalled_s <= settled.stalled_s:
            return flip
    return immediate


def _possible_returns(case: Case, after_s: float, min_gp2_s: int, end_s: int) -> Iterator[int]:
    """When an empty bucket would do for long enough, in steps of ten minutes."""
    for at_s in range(int(after_s) + _RETURN_STEP_S, end_s, _RETURN_STEP_S):
        if next_stall_at_s(case, at_s, 0.0, min(end_s, at_s + min_gp2_s)) is None:
            yield at_s


def _settled_after(
    case: Case, modifications: Sequence[AcceptedModification], settings: LabSettings
) -> _SettledState:
    fleet = make_fleet([case], settings)
    for modification in modifications:
        advance_to(fleet, modification.at_s)
        change = fleet.plan_modification(case.volume_id, to_modify_request(modification.configuration))
        fleet.modify(case.volume_id, to_modify_request(modification.configuration))
        advance_to(fleet, change.ends_at_s)
    truth = fleet.truth(case.volume_id)
    return _SettledState(fleet.now_s(), truth.credits, truth.stalled_s)


def next_stall_at_s(case: Case, from_s: float, credits_now: float, until_s: float) -> float | None:
    """When a gp2 volume with these credits first holds its load back; None: not before ``until_s``."""
    baseline, at_s, current_credits = baseline_iops(case.size_gib), int(from_s), credits_now
    while at_s < until_s:
        reads, writes, segment_ends_at_s = case.load.segment(at_s, START_S)
        end_s = int(min(segment_ends_at_s, until_s))
        demand_iops = reads + writes
        reached_at_s = float(at_s)
        for segment in split_at_changes(
            baseline=baseline, credits_now=current_credits, demand_iops=demand_iops, seconds=end_s - at_s
        ):
            if segment.credits_before <= 0 and demand_iops > segment.served_iops:
                return reached_at_s
            reached_at_s += segment.duration_s
            current_credits = segment.credits_after
        at_s = end_s
    return None


def _choose_for_peak(case: Case, from_s: float, to_s: float, target: VolumeType) -> Configuration:
    """The configuration for the highest demand of a stay."""
    peak_iops, at_s = 0.0, int(from_s)
    while at_s < to_s:
        reads, writes, segment_ends_at_s = case.load.segment(at_s, START_S)
        peak_iops, at_s = max(peak_iops, reads + writes), segment_ends_at_s
    return choose_configuration(case, peak_iops, target)
