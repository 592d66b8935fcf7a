"""Whether a volume can be attached while a modification of it is in the state ``modifying``."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from botocore.exceptions import ClientError

from burstctl.aws_check.fact import Cost, Fact
from burstctl.aws_check.fact_context import GP3, MODIFICATION_ACTIONS, FactContext, FactRefused, is_unrelated
from burstctl.aws_check.host import SPARE_DEVICES
from burstctl.aws_check.message_template import to_template
from burstctl.aws_check.result import Measurement, NotMeasuredError, Steps


class Attempt(NamedTuple):
    """AttachVolume, and the state of the modification right before and right after it."""

    state_before: str
    refusal: FactRefused | None
    state_after: str


def judge(attempts: Sequence[Attempt]) -> Measurement:
    """By the newest attempt, which must have met the state.

    Raises:
        NotMeasuredError: no attempt was made while it was modifying.
    """
    last = attempts[-1]
    if not was_modifying(last):
        raise NotMeasuredError(
            f"in {len(attempts)} attempts the modification was past modifying: run it again"
        )
    if last.refusal is None:
        return Measurement(answer="allowed", evidence={"attempts": len(attempts)})
    code, message = last.refusal.code, to_template(last.refusal.message)
    return Measurement(
        answer=f"refused, {code}",
        values={"code": code, "message": message},
        evidence={"attempts": len(attempts), **last.refusal.to_document()},
    )


def was_modifying(attempt: Attempt) -> bool:
    """Whether it was tried in the state; a refusal proves it even if the state was over a moment later."""
    return attempt.state_before == "modifying" and (
        attempt.refusal is not None or attempt.state_after == "modifying"
    )


def measure(context: FactContext) -> Steps:
    """Try to attach volumes whose modification was accepted a moment ago."""
    host = yield from context.get_host()
    attempts: list[Attempt] = []
    for device in SPARE_DEVICES:
        volume_id = yield from context.create_volume(1, zone=host.zone)
        context.modify_volume_or_fail(volume_id, **GP3)
        state_before = context.modification_state(volume_id)
        refusal = _attach(context, volume_id, host.instance_id, device)
        attempts.append(Attempt(state_before, refusal, context.modification_state(volume_id)))
        if was_modifying(attempts[-1]):
            break
    return judge(attempts)


def _attach(context: FactContext, volume_id: str, instance_id: str, device: str) -> FactRefused | None:
    context.check_owned("volume", volume_id)
    context.check_owned("instance", instance_id)
    try:
        context.ec2.attach_volume(VolumeId=volume_id, InstanceId=instance_id, Device=device)
    except ClientError as error:
        if is_unrelated(error):
            raise
        return FactRefused.from_error(error)
    return None


FACT: Final = Fact(
    name="attach-while-modifying",
    question="Is AttachVolume refused while a modification of the volume is modifying, and in which words?",
    why="Users report it. A flip of a detached volume would then keep its instance from starting.",
    minutes=40,
    actions=(*MODIFICATION_ACTIONS, "ec2:AttachVolume"),
    measure=measure,
    cost=Cost(gp3_gib=len(SPARE_DEVICES)),
    needs_host=True,
)
