"""When DescribeVolumes begins to show the target of a modification."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from burstctl.aws_check.bench import Bench
from burstctl.aws_check.fact import Cost, Fact
from burstctl.aws_check.result import Measured, NotMeasured, Steps

_MOMENTS: Final = {"modifying": "accepted", "optimizing": "optimizing", "completed": "completed"}
_LOOK_EVERY_S: Final = 3


class Look(NamedTuple):
    """What DescribeVolumes showed while the modification was in this state."""

    state: str
    volume_type: str


def judge(looks: Sequence[Look], original: str, target: str) -> Measured:
    """By the first state in which the target was shown; the state before must have shown the original.

    Raises:
        NotMeasured: the states before it were too short to be seen, or it changed within ``modifying``.
    """
    shown = [look for look in looks if look.volume_type == target]
    if not shown:
        raise NotMeasured(f"DescribeVolumes never showed {target}, which the volume had become")
    first = shown[0].state
    before = {look.state for look in looks[: looks.index(shown[0])] if look.volume_type == original}
    states = list(_MOMENTS)
    if first in before:
        raise NotMeasured(f"it changed in the middle of {first}, which fits none of the known moments")
    if first != states[0] and states[states.index(first) - 1] not in before:
        raise NotMeasured(f"{target} was shown when first seen, in {first}: the state before was not seen")
    return Measured(answer=_MOMENTS[first], evidence={"looks": [list(look) for look in dict.fromkeys(looks)]})


def measure(bench: Bench) -> Steps:
    """Look at a volume and its modification every few seconds until it is completed."""
    volume_id = yield from bench.volume(1)
    if (refusal := bench.modify(volume_id, VolumeType="gp3", Iops=3000, Throughput=125)) is not None:
        raise NotMeasured(f"ModifyVolume was refused ({refusal.code}): {refusal.message}")
    looks: list[Look] = []
    while True:
        before = _state(bench, volume_id)
        volume_type = str(bench.described(volume_id)["VolumeType"])
        if before == _state(bench, volume_id) and before in _MOMENTS:
            looks.append(Look(before, volume_type))
            if before == "completed" and (volume_type == "gp3" or looks.count(looks[-1]) > 1):
                return judge(looks, "gp2", "gp3")
        elif before == "failed":
            raise NotMeasured("the modification failed: run it again")
        yield _LOOK_EVERY_S


def _state(bench: Bench, volume_id: str) -> str:
    record = bench.modification(volume_id)
    return str(record["ModificationState"]) if record else "none"


FACT: Final = Fact(
    name="shown-while-modifying",
    question="When does DescribeVolumes show the new type: when it is accepted, in optimizing, or when it is"
    " completed?",
    why="burstwatch compares the type that it sees with the one that it asked for. Users have seen both.",
    minutes=60,
    actions=(
        "ec2:DescribeAvailabilityZones",
        "ec2:CreateVolume",
        "ec2:CreateTags",
        "ec2:DescribeVolumes",
        "ec2:ModifyVolume",
        "ec2:DescribeVolumesModifications",
        "ec2:DeleteVolume",
    ),
    measure=measure,
    cost=Cost(gp3_gib=1),
)
