"""How ModifyVolume refuses more IOPS than the size of the volume allows."""

from typing import Final

from burstctl.aws_check.fact import Cost, Fact
from burstctl.aws_check.fact_context import VOLUME_ACTIONS, FactContext, FactRefused
from burstctl.aws_check.result import Measurement, Steps


def judge(refusal: FactRefused | None) -> Measurement:
    """By the answer to 4,000 IOPS on 1 GiB, where 500 per GiB are the limit above 3,000."""
    if refusal is None:
        return Measurement(answer="accepted")
    return Measurement(
        answer=f"refused, {refusal.code}", values={"code": refusal.code}, evidence=refusal.to_document()
    )


def measure(context: FactContext) -> Steps:
    """Ask for too many IOPS."""
    volume_id = yield from context.create_volume(1)
    return judge(context.modify_volume(volume_id, VolumeType="gp3", Iops=4000, Throughput=125))


FACT: Final = Fact(
    name="ratio-refusal",
    question="With which code does ModifyVolume refuse too many IOPS for the size?",
    why="The code is known for CreateVolume only. It decides whether a flip is tried again.",
    minutes=20,
    actions=(*VOLUME_ACTIONS, "ec2:ModifyVolume"),
    measure=measure,
    cost=Cost(gp3_gib=1),
)
