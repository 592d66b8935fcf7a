"""Whether a volume can be attached while a modification of it is in the state ``modifying``."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from botocore.exceptions import ClientError

from burstctl.aws_check.bench import Bench, Refusal, says_nothing
from burstctl.aws_check.fact import Cost, Fact
from burstctl.aws_check.host import SPARES
from burstctl.aws_check.result import Measured, NotMeasured, Steps
from burstctl.aws_check.wording import template_of


class Attempt(NamedTuple):
    """AttachVolume, and the state of the modification right before and right after it."""

    before: str
    refusal: Refusal | None
    after: str


def judge(attempts: Sequence[Attempt]) -> Measured:
    """By the newest attempt, which must have met the state.

    Raises:
        NotMeasured: no attempt was made while it was modifying.
    """
    last = attempts[-1]
    if not met_the_state(last):
        raise NotMeasured(f"in {len(attempts)} attempts the modification was past modifying: run it again")
    if last.refusal is None:
        return Measured(answer="allowed", evidence={"attempts": len(attempts)})
    code, message = last.refusal.code, template_of(last.refusal.message)
    return Measured(
        answer=f"refused, {code}",
        values={"code": code, "message": message},
        evidence={"attempts": len(attempts), **last.refusal.to_document()},
    )


def met_the_state(attempt: Attempt) -> bool:
    """Whether it was tried in the state; a refusal proves it even if the state was over a moment later."""
    return attempt.before == "modifying" and (attempt.refusal is not None or attempt.after == "modifying")


def measure(bench: Bench) -> Steps:
    """Try to attach volumes whose modification was accepted a moment ago."""
    host = yield from bench.host()
    attempts: list[Attempt] = []
    for device in SPARES:
        volume_id = yield from bench.volume(1, zone=host.zone)
        if (refusal := bench.modify(volume_id, VolumeType="gp3", Iops=3000, Throughput=125)) is not None:
            raise NotMeasured(f"ModifyVolume was refused ({refusal.code}): {refusal.message}")
        before = _state(bench, volume_id)
        refusal = _attach(bench, volume_id, host.instance_id, device)
        attempts.append(Attempt(before, refusal, _state(bench, volume_id)))
        if met_the_state(attempts[-1]):
            break
    return judge(attempts)


def _attach(bench: Bench, volume_id: str, instance_id: str, device: str) -> Refusal | None:
    bench.check_ours("volume", volume_id)
    bench.check_ours("instance", instance_id)
    try:
        bench.ec2.attach_volume(VolumeId=volume_id, InstanceId=instance_id, Device=device)
    except ClientError as error:
        if says_nothing(error):
            raise
        return Refusal.of(error)
    return None


def _state(bench: Bench, volume_id: str) -> str:
    record = bench.modification(volume_id)
    return str(record["ModificationState"]) if record else "none"


FACT: Final = Fact(
    name="attach-while-modifying",
    question="Is AttachVolume refused while a modification of the volume is modifying, and in which words?",
    why="Users report it. A flip of a detached volume would then keep its instance from starting.",
    minutes=40,
    actions=(
        "ec2:DescribeAvailabilityZones",
        "ec2:CreateVolume",
        "ec2:CreateTags",
        "ec2:DescribeVolumes",
        "ec2:ModifyVolume",
        "ec2:DescribeVolumesModifications",
        "ec2:AttachVolume",
        "ec2:DeleteVolume",
    ),
    measure=measure,
    cost=Cost(gp3_gib=len(SPARES)),
    needs_host=True,
)
