"""How long DescribeVolumesModifications remembers a modification that is over."""

from typing import Final

from burstctl.aws_check.fact import Cost, Fact
from burstctl.aws_check.fact_context import GP3, MODIFICATION_ACTIONS, FactContext
from burstctl.aws_check.result import Measurement, Steps

_WATCHED_MINUTES: Final = 60  # a run that waited longer would cost more than the answer is worth
_LOOK_EVERY_S: Final = 60  # the answer is in minutes


def judge(gone_after_s: float | None) -> Measurement:
    """By how long after its end the record was not shown any more; None: it was there all the time."""
    if gone_after_s is None:
        return Measurement(
            answer=f"for {_WATCHED_MINUTES} min or longer", values={"minutes": None}, evidence={}
        )
    minutes = round(gone_after_s / 60)
    return Measurement(
        answer=f"for {minutes} min", values={"minutes": minutes}, evidence={"gone_after_s": gone_after_s}
    )


def measure(context: FactContext) -> Steps:
    """Look at the record of a completed modification once a minute."""
    volume_id = yield from context.create_volume(1)
    _, ended_at_s = yield from context.modify_and_wait(volume_id, **GP3)
    gone_after_s: float | None = None
    while (elapsed_s := context.now_s() - ended_at_s) < _WATCHED_MINUTES * 60:
        if context.read_modification(volume_id) is not None:
            gone_after_s = None
        elif gone_after_s is not None:  # a single look without it may be one that AWS answered late
            return judge(gone_after_s)
        else:
            gone_after_s = elapsed_s
        yield _LOOK_EVERY_S
    return judge(None)


FACT: Final = Fact(
    name="record-lifetime",
    question="How long does DescribeVolumesModifications show a completed modification?",
    why="The documents do not say. burstwatch learns from it when a flip was completed; this run can only say"
    f" whether it is gone within {_WATCHED_MINUTES} minutes.",
    minutes=120,
    actions=MODIFICATION_ACTIONS,
    measure=measure,
    cost=Cost(gp3_gib=1),
)
