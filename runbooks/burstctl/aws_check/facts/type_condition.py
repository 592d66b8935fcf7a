"""Which type the IAM condition ec2:VolumeType sees on ModifyVolume: the current one or the requested one."""

from typing import Final

from burstctl.aws_check.fact import Cost, Fact
from burstctl.aws_check.fact_context import FactContext
from burstctl.aws_check.result import Measurement, Steps
from burstctl.aws_check.session_role import (
    ACTIONS,
    ALLOWED_CODE,
    check_effective,
    create_role,
    dry_run_as,
    make_policy,
    wait_until_allowed,
)


def judge(*, is_effective: bool, as_gp2: bool, as_gp3: bool) -> Measurement:
    """Judge by dry runs from gp2 to gp3 under a condition on each of the two types.

    Raises:
        NotMeasuredError: the role may not even modify without a condition.
    """
    check_effective(is_effective=is_effective)
    answer = {
        (True, False): "current",
        (False, True): "requested",
        (True, True): "ignored",
        (False, False): "absent",
    }[as_gp2, as_gp3]
    return Measurement(answer=answer, evidence={"allowed_as_gp2": as_gp2, "allowed_as_gp3": as_gp3})


def measure(context: FactContext) -> Steps:
    """Assume a role under a condition for each type, and try a change from gp2 to gp3."""
    volume_id = yield from context.create_volume(1)
    role = create_role(context, "type", [volume_id])
    is_effective = yield from wait_until_allowed(context, role, make_policy(), volume_id)
    allowed = {}
    for volume_type in ("gp2", "gp3"):
        condition = {"StringEquals": {"ec2:VolumeType": volume_type}}
        answer = yield from dry_run_as(context, role, make_policy(condition), volume_id)
        allowed[volume_type] = answer.code == ALLOWED_CODE
    return judge(is_effective=is_effective, as_gp2=allowed["gp2"], as_gp3=allowed["gp3"])


FACT: Final = Fact(
    name="type-condition",
    question="Does the condition ec2:VolumeType on ModifyVolume see the current or the requested type?",
    why="It is not documented. If it sees the requested one, it can keep flips from expensive types.",
    minutes=20,
    actions=ACTIONS,
    measure=measure,
    cost=Cost(gp2_gib=1),
)
