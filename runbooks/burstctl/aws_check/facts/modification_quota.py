"""How many modifications AWS accepts for a volume, and how it refuses the next."""

from datetime import datetime
from typing import Final

from burstctl.aws_check.fact import Cost, Fact
from burstctl.aws_check.fact_context import GP3, MODIFICATION_ACTIONS, FactContext, FactRefused
from burstctl.aws_check.message_template import find_time, to_template
from burstctl.aws_check.result import Measurement, NotMeasuredError, Steps

_MAX_MODIFICATIONS: Final = 6
"""Two more than the four that AWS documents; Source: EC2 API reference, ModifyVolume."""

_TARGETS: Final = (GP3, {"VolumeType": "gp2"})


def judge(accepted: int, refusal: FactRefused | None, first_started_at_s: float) -> Measurement:
    """By the modifications accepted one after the other, and the refusal after them.

    Raises:
        NotMeasuredError: it was refused for another reason than their number.
    """
    if refusal is None:
        return Measurement(answer=f"{accepted} accepted and none refused", values={"accepted": accepted})
    if refusal.code == "IncorrectModificationState":
        raise NotMeasuredError(f"refused for another reason ({refusal.code}): {refusal.message}")
    stated_end = find_time(refusal.message)
    window_s = (
        None
        if stated_end is None
        else round(datetime.fromisoformat(stated_end).timestamp() - first_started_at_s)
    )
    end_note = "says no time" if stated_end is None else "says until when"
    return Measurement(
        answer=f"{accepted} accepted, then {refusal.code}, which {end_note}",
        values={
            "accepted": accepted,
            "code": refusal.code,
            "message": to_template(refusal.message),
        },
        evidence={**refusal.to_document(), "from_first_start_to_time_stated_s": window_s},
    )


def measure(context: FactContext) -> Steps:
    """Modify a volume to gp3 and back until AWS refuses."""
    volume_id = yield from context.create_volume(1)
    first_started_at_s, record = context.now_s(), None
    for accepted in range(_MAX_MODIFICATIONS):
        refusal = context.modify_volume(volume_id, **_TARGETS[accepted % 2])
        if refusal is not None:
            return judge(accepted, refusal, first_started_at_s)
        record = yield from context.wait_until_completed(volume_id, record)
        first_started_at_s = record["StartTime"].timestamp() if accepted == 0 else first_started_at_s
    return judge(_MAX_MODIFICATIONS, None, first_started_at_s)


FACT: Final = Fact(
    name="modification-quota",
    question="How many modifications of a volume does AWS accept, and how does it refuse the next?",
    why="The rule changed in 2026 from one in six hours to four in 24. The code is on no published list, and"
    " the new wording is known from an emulator only.",
    minutes=240,
    actions=MODIFICATION_ACTIONS,
    measure=measure,
    cost=Cost(gp2_gib=1),
)
