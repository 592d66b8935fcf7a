"""Whether a modification that changes nothing counts toward the quota."""

from typing import Final

from burstctl.aws_check.fact import Cost, Fact
from burstctl.aws_check.fact_context import GP3, MODIFICATION_ACTIONS, FactContext, FactRefused
from burstctl.aws_check.result import Measurement, NotMeasuredError, Steps

_MAX_MODIFICATIONS: Final = 5
"""One more than the four that AWS documents; Source: EC2 API reference, ModifyVolume."""

_TARGETS: Final = (GP3, {"VolumeType": "gp2"})
_ANSWER_BY_ACCEPTED: Final = {3: "counts", 0: "counts", 4: "does not count", 1: "does not count"}
"""By how many more were accepted, of four in 24 hours or of one in six."""

_RECORD_AFTER_S: Final = 120  # EC2 is eventually consistent: a new record may come later


def judge(no_op: FactRefused | None, accepted: int) -> Measurement:
    """By what AWS said to the request that changes nothing, and how many real ones it accepted after it.

    Raises:
        NotMeasuredError: their number fits no rule that is known.
    """
    evidence = {"accepted_after_it": accepted, "no_op": no_op and no_op.to_document()}
    answer = _ANSWER_BY_ACCEPTED.get(accepted)
    if no_op is not None:
        return Measurement(answer=f"refused, {no_op.code}", values={"code": no_op.code}, evidence=evidence)
    if answer is None:
        raise NotMeasuredError(
            f"{accepted} real modifications were accepted after it, which fits no known rule"
        )
    return Measurement(answer=answer, evidence=evidence)


def measure(context: FactContext) -> Steps:
    """Ask for the type that a volume has, then modify it until AWS refuses."""
    volume_id = yield from context.create_volume(1)
    no_op = context.modify_volume(volume_id, VolumeType="gp2")
    if no_op is not None:
        return judge(no_op, 0)
    yield _RECORD_AFTER_S
    record = context.read_modification(volume_id)
    if record is not None:
        record = yield from context.wait_until_completed(volume_id, None)
    for accepted in range(_MAX_MODIFICATIONS):
        if (refusal := context.modify_volume(volume_id, **_TARGETS[accepted % 2])) is not None:
            if refusal.code == "IncorrectModificationState":
                raise NotMeasuredError(f"refused for another reason ({refusal.code}): {refusal.message}")
            return judge(None, accepted)
        record = yield from context.wait_until_completed(volume_id, record)
    return judge(None, _MAX_MODIFICATIONS)


FACT: Final = Fact(
    name="no-op-counts",
    question="Does a ModifyVolume that changes nothing use up one of the allowed modifications?",
    why="burstwatch reads back before it repeats a request whose answer was lost; if a repeat is free, less"
    " caution would do.",
    minutes=240,
    actions=MODIFICATION_ACTIONS,
    measure=measure,
    cost=Cost(gp2_gib=1),
)
