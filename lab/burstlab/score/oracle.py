"""A clairvoyant under the same rules: it knows all demand to come, and how long each modification will take.

Its configurations are those of the watchdog's own rule, so that they differ in *when*, not in what is bought.
Its dollars are those of the best schedule found, which may not be the best there is.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from burstlab.model.aws_error import AwsError
from burstlab.model.bucket import FULL, split
from burstlab.model.fleet import LabSettings
from burstlab.score.cases import Case
from burstlab.score.ground_truth import START_S, Course, fleet_of
from burstlab.score.record import Move, Record, usd_over_gp2
from burstlab.score.replay import BACK, advance_to, live_with, target_for, wanted
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ebs.volume import baseline_iops

_HOUR_S: Final = 3600
_GP2_FOR_S: Final = (2 * _HOUR_S, 6 * _HOUR_S, 12 * _HOUR_S)
"""A return must be good for so long; each is tried, because AWS allows two round trips a day."""

_RETURN_STEP_S: Final = 600
_EARLIER: Final = (0.0, 0.25, 0.5, 0.75, 1.0)
"""How much of a modification's duration it is asked for ahead of need; the least that does is taken."""

_AS_GOOD: Final = 0.005


class _Stood(NamedTuple):
    """How a volume stands when its last modification is over."""

    at_s: int
    credits: float
    stalled_s: float


def foresee(case: Case, course: Course, target: VolumeType, settings: LabSettings) -> Record:
    """The moves of somebody who knows what comes."""
    if course.stalled_s <= 0:
        return Record(stalled_s=0.0)
    at_once = Move(START_S, _bought(case, START_S, START_S + case.seconds, target))
    least_s, kept = live_with(case, [at_once], settings)
    if at_once.configuration.volume_type is VolumeType.GP3:
        return Record(stalled_s=least_s, moves=kept)
    allowed_s = least_s + _AS_GOOD * (course.stalled_s - least_s)
    best = Record(stalled_s=least_s, moves=kept)
    for gp2_for_s in _GP2_FOR_S:
        moves = _there_and_back(case, target, gp2_for_s, settings)
        stalled_s, accepted = live_with(case, moves, settings)
        is_cheaper = usd_over_gp2(case, accepted) < usd_over_gp2(case, best.moves)
        if stalled_s <= allowed_s and is_cheaper:
            best = Record(stalled_s=stalled_s, moves=accepted)
    return best


def _there_and_back(case: Case, target: VolumeType, gp2_for_s: int, settings: LabSettings) -> list[Move]:
    """Out for each depletion and back after it, as far as AWS lets that be done."""
    moves: list[Move] = []
    try:
        for move in _trips(case, moves, target, gp2_for_s, settings):
            moves.append(move)  # noqa: PERF402 - the moves so far are what the next one is planned from
    except AwsError:
        del moves[-1:]
    return moves


def _trips(
    case: Case, moves: Sequence[Move], target: VolumeType, gp2_for_s: int, settings: LabSettings
) -> Iterator[Move]:
    """The next move, planned from where the ``moves`` so far have led; the caller adds it to them."""
    end_s = START_S + case.seconds
    stood = _Stood(START_S, FULL, 0.0)
    while (stall_s := next_stall_s(case, stood.at_s, stood.credits, end_s)) is not None:
        back_s = next(_good_returns(case, stall_s, gp2_for_s, end_s), end_s)
        yield _latest_out(case, moves, stood, stall_s, _bought(case, stall_s, back_s, target), settings)
        if back_s >= end_s:
            break
        yield Move(max(back_s, int(_stand(case, moves, settings).at_s)), BACK)
        stood = _stand(case, moves, settings)
        if stood.at_s >= end_s:
            break


def _latest_out(
    case: Case,
    moves: Sequence[Move],
    stood: _Stood,
    stall_s: float,
    configuration: Configuration,
    settings: LabSettings,
) -> Move:
    """Out as late as does no harm; at once where even that is too late."""
    asked = Move(int(stood.at_s), configuration)
    takes_s = _stand(case, [*moves, asked], settings).at_s - asked.at_s
    for share in _EARLIER:
        out = Move(max(asked.at_s, int(stall_s - share * takes_s) - 60), configuration)
        if _stand(case, [*moves, out], settings).stalled_s <= stood.stalled_s:
            return out
    return asked


def _good_returns(case: Case, since_s: float, gp2_for_s: int, end_s: int) -> Iterator[int]:
    """When an empty bucket would do for long enough, in steps of ten minutes."""
    for at_s in range(int(since_s) + _RETURN_STEP_S, end_s, _RETURN_STEP_S):
        if next_stall_s(case, at_s, 0.0, min(end_s, at_s + gp2_for_s)) is None:
            yield at_s


def _stand(case: Case, moves: Sequence[Move], settings: LabSettings) -> _Stood:
    fleet = fleet_of([case], settings)
    for move in moves:
        advance_to(fleet, move.at_s)
        change = fleet.plan_modification(case.volume_id, wanted(move.configuration))
        fleet.modify(case.volume_id, wanted(move.configuration))
        advance_to(fleet, change.ends_s)
    truth = fleet.truth(case.volume_id)
    return _Stood(fleet.now_s(), truth.credits, truth.stalled_s)


def next_stall_s(case: Case, from_s: float, credits_now: float, until_s: float) -> float | None:
    """When a gp2 volume with these credits first holds its load back; None: not before ``until_s``."""
    baseline, at_s, held = baseline_iops(case.size_gib), int(from_s), credits_now
    while at_s < until_s:
        reads, writes, segment_s = case.load.segment(at_s, START_S)
        end_s = int(min(segment_s, until_s))
        demand = reads + writes
        reached_s = float(at_s)
        for piece in split(baseline=baseline, credits_now=held, demand_iops=demand, seconds=end_s - at_s):
            if piece.credits_before <= 0 and demand > piece.served_iops:
                return reached_s
            reached_s += piece.seconds
            held = piece.credits_after
        at_s = end_s
    return None


def _bought(case: Case, from_s: float, to_s: float, target: VolumeType) -> Configuration:
    """The configuration for the highest demand of a stay."""
    peak, at_s = 0.0, int(from_s)
    while at_s < to_s:
        reads, writes, until_s = case.load.segment(at_s, START_S)
        peak, at_s = max(peak, reads + writes), until_s
    return target_for(case, peak, target)
