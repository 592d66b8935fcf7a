"""How many modifications a volume may have, and the words in which AWS refuses one more."""

from datetime import datetime
from typing import Final

from burstctl.aws_check.bench import Bench, Refusal
from burstctl.aws_check.fact import Cost, Fact
from burstctl.aws_check.result import Measured, NotMeasured, Steps
from burstctl.aws_check.wording import template_of, time_in

_MOST: Final = 6
_TARGETS: Final = ({"VolumeType": "gp3", "Iops": 3000, "Throughput": 125}, {"VolumeType": "gp2"})


def judge(accepted: int, refusal: Refusal | None, first_s: float) -> Measured:
    """By the modifications accepted one after the other, and the refusal after them.

    Raises:
        NotMeasured: it was refused for another reason than their number.
    """
    if refusal is None:
        return Measured(answer=f"{accepted} accepted and none refused", values={"accepted": accepted})
    if refusal.code == "IncorrectModificationState":
        raise NotMeasured(f"refused for another reason ({refusal.code}): {refusal.message}")
    until = time_in(refusal.message)
    window_s = None if until is None else round(datetime.fromisoformat(until).timestamp() - first_s)
    says = "says no time" if until is None else "says until when"
    return Measured(
        answer=f"{accepted} accepted, then {refusal.code}, which {says}",
        values={
            "accepted": accepted,
            "code": refusal.code,
            "message": template_of(refusal.message),
        },
        evidence={**refusal.to_document(), "from_first_start_to_time_stated_s": window_s},
    )


def measure(bench: Bench) -> Steps:
    """Modify a volume to gp3 and back until AWS refuses."""
    volume_id = yield from bench.volume(1)
    first_s, record = bench.now_s(), None
    for accepted in range(_MOST):
        refusal = bench.modify(volume_id, **_TARGETS[accepted % 2])
        if refusal is not None:
            return judge(accepted, refusal, first_s)
        record = yield from bench.completed(volume_id, record)
        first_s = record["StartTime"].timestamp() if accepted == 0 else first_s
    return judge(_MOST, None, first_s)


FACT: Final = Fact(
    name="modification-quota",
    question="How many modifications of a volume does AWS accept, and how does it refuse the next?",
    why="The rule changed in 2026 from one in six hours to four in 24. The code is on no published list, and"
    " the new wording is known from an emulator only.",
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
