"""The configuration after a modification to gp3 that specifies neither IOPS nor throughput."""

from typing import Any, Final

from burstctl.aws_check.fact import Cost, Fact
from burstctl.aws_check.fact_context import MODIFICATION_ACTIONS, FactContext
from burstctl.aws_check.result import Measurement, NotMeasuredError, Steps

_SIZE_GIB: Final = 8  # small and cheap; its gp2 throughput of 128 MiB/s differs from gp3's default of 125
_ANSWERS: Final = {128: "matched", 125: "least"}
"""What a small gp2 has is just above the least of gp3."""
_RECORD_TIMEOUT_S: Final = 120  # EC2 is eventually consistent: a new record may come later


def judge(target: dict[str, Any]) -> Measurement:
    """Judge by the target in the record of the modification.

    Raises:
        NotMeasuredError: it names no throughput, or one that is neither.
    """
    answer = _ANSWERS.get(target["mib_s"])
    if answer is None:
        raise NotMeasuredError(
            f"the target has {target['mib_s']} MiB/s, which is neither the gp2's nor the least"
        )
    return Measurement(answer=answer, evidence=target)


def measure(context: FactContext) -> Steps:
    """Ask for gp3 and nothing else, and read what AWS makes of it."""
    volume_id = yield from context.create_volume(_SIZE_GIB)
    context.modify_volume_or_fail(volume_id, VolumeType="gp3")
    yield from context.wait_until(
        lambda: context.read_modification(volume_id) is not None,
        _RECORD_TIMEOUT_S,
        "the record of the modification",
    )
    record = context.read_modification(volume_id) or {}
    return judge({"iops": record.get("TargetIops"), "mib_s": record.get("TargetThroughput")})


FACT: Final = Fact(
    name="gp3-defaults",
    question="Does a change to gp3 that names no throughput keep the one of the gp2, or get the least?",
    why="AWS's guide and its API reference contradict each other. Somebody who changes a volume by hand may"
    " halve its throughput.",
    minutes=15,
    actions=MODIFICATION_ACTIONS,
    measure=measure,
    cost=Cost(gp2_gib=_SIZE_GIB),
)
