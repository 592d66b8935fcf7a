"""When DescribeVolumes begins to show the target of a modification."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from burstctl.aws_check.fact import Cost, Fact
from burstctl.aws_check.fact_context import GP3, MODIFICATION_ACTIONS, FactContext
from burstctl.aws_check.result import Measurement, NotMeasuredError, Steps

_MOMENTS: Final = {"modifying": "accepted", "optimizing": "optimizing", "completed": "completed"}
_POLL_INTERVAL_S: Final = 3  # the first state may last for only a few seconds


class Observation(NamedTuple):
    """What DescribeVolumes showed while the modification was in this state."""

    state: str
    volume_type: str


def judge(observations: Sequence[Observation], original: str, target: str) -> Measurement:
    """Judge by the first state that showed the target; the state before it must have shown the original.

    Raises:
        NotMeasuredError: the states before it were too short to be seen, or it changed within ``modifying``.
    """
    target_observations = [observation for observation in observations if observation.volume_type == target]
    if not target_observations:
        raise NotMeasuredError(f"DescribeVolumes never showed {target}, the new type of the volume")
    first_state = target_observations[0].state
    earlier_states = {
        observation.state
        for observation in observations[: observations.index(target_observations[0])]
        if observation.volume_type == original
    }
    states = list(_MOMENTS)
    if first_state in earlier_states:
        raise NotMeasuredError(
            f"it changed in the middle of {first_state}, which fits none of the known moments"
        )
    if first_state != states[0] and states[states.index(first_state) - 1] not in earlier_states:
        raise NotMeasuredError(
            f"{target} was shown when first seen, in {first_state}: the state before was not seen"
        )
    return Measurement(
        answer=_MOMENTS[first_state],
        evidence={"looks": [list(observation) for observation in dict.fromkeys(observations)]},
    )


def measure(context: FactContext) -> Steps:
    """Look at a volume and its modification every few seconds until it is completed."""
    volume_id = yield from context.create_volume(1)
    context.modify_volume_or_fail(volume_id, **GP3)
    observations: list[Observation] = []
    while True:
        state = context.modification_state(volume_id)
        volume_type = str(context.describe_volume(volume_id)["VolumeType"])
        if state == context.modification_state(volume_id) and state in _MOMENTS:
            observations.append(Observation(state, volume_type))
            if state == "completed" and (volume_type == "gp3" or observations.count(observations[-1]) > 1):
                return judge(observations, "gp2", "gp3")
        elif state == "failed":
            raise NotMeasuredError("the modification failed: run it again")
        yield _POLL_INTERVAL_S


FACT: Final = Fact(
    name="shown-while-modifying",
    question="When does DescribeVolumes show the new type: when it is accepted, in optimizing, or when it is"
    " completed?",
    why="burstwatch compares the type that it sees with the one that it asked for. Users have seen both.",
    minutes=60,
    actions=MODIFICATION_ACTIONS,
    measure=measure,
    cost=Cost(gp3_gib=1),
)
