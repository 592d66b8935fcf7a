"""Whether a modification that changes nothing counts toward the quota."""

from typing import Final

from burstctl.aws_check.bench import Bench, Refusal
from burstctl.aws_check.fact import Cost, Fact
from burstctl.aws_check.result import Measured, NotMeasured, Steps

_MOST: Final = 5
_TARGETS: Final = ({"VolumeType": "gp3", "Iops": 3000, "Throughput": 125}, {"VolumeType": "gp2"})
_COUNTED: Final = {3: "counts", 0: "counts", 4: "does not count", 1: "does not count"}
"""By how many more were accepted, of four in 24 hours or of one in six."""

_RECORD_AFTER_S: Final = 120


def judge(no_op: Refusal | None, accepted: int) -> Measured:
    """By what AWS said to the request that changes nothing, and how many real ones it accepted after it.

    Raises:
        NotMeasured: their number fits no rule that is known.
    """
    evidence = {"accepted_after_it": accepted, "no_op": no_op and no_op.to_document()}
    counted = _COUNTED.get(accepted)
    if no_op is not None:
        return Measured(answer=f"refused, {no_op.code}", values={"code": no_op.code}, evidence=evidence)
    if counted is None:
        raise NotMeasured(f"{accepted} real modifications were accepted after it, which fits no known rule")
    return Measured(answer=counted, evidence=evidence)


def measure(bench: Bench) -> Steps:
    """Ask for the type that a volume has, then modify it until AWS refuses."""
    volume_id = yield from bench.volume(1)
    no_op = bench.modify(volume_id, VolumeType="gp2")
    if no_op is not None:
        return judge(no_op, 0)
    yield _RECORD_AFTER_S
    record = bench.modification(volume_id)
    if record is not None:
        record = yield from bench.completed(volume_id, None)
    for accepted in range(_MOST):
        if (refusal := bench.modify(volume_id, **_TARGETS[accepted % 2])) is not None:
            if refusal.code == "IncorrectModificationState":
                raise NotMeasured(f"refused for another reason ({refusal.code}): {refusal.message}")
            return judge(None, accepted)
        record = yield from bench.completed(volume_id, record)
    return judge(None, _MOST)


FACT: Final = Fact(
    name="no-op-counts",
    question="Does a ModifyVolume that changes nothing use up one of the allowed modifications?",
    why="burstwatch reads back before it repeats a request whose answer was lost; if a repeat is free, less"
    " caution would do.",
    minutes=240,
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
    cost=Cost(gp2_gib=1),
)
