"""Whether an IAM condition on a tag of the volume holds for ModifyVolume."""

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

_KEY: Final = "aws-check-allowed"
_CONDITION: Final = {"StringEquals": {f"ec2:ResourceTag/{_KEY}": "yes"}}


def judge(*, is_effective: bool, with_tag: bool, without_tag: bool) -> Measurement:
    """Judge by dry runs with and without the tag; ``is_effective``: both are allowed without the condition.

    Raises:
        NotMeasuredError: the role may not even modify without a condition.
    """
    check_effective(is_effective=is_effective)
    answer = {
        (True, False): "enforced",
        (True, True): "ignored",
        (False, False): "always refused",
        (False, True): "reversed",
    }[with_tag, without_tag]
    return Measurement(answer=answer, evidence={"with_tag": with_tag, "without_tag": without_tag})


def measure(context: FactContext) -> Steps:
    """Assume a role under the condition, and try a volume with the tag and one without it."""
    tagged = yield from context.create_volume(1, **{_KEY: "yes"})
    untagged = yield from context.create_volume(1)
    role = create_role(context, "tag", [tagged, untagged])
    is_effective = True
    for volume_id in (tagged, untagged):
        is_effective = is_effective and (
            yield from wait_until_allowed(context, role, make_policy(), volume_id)
        )
    with_tag = yield from dry_run_as(context, role, make_policy(_CONDITION), tagged)
    without_tag = yield from dry_run_as(context, role, make_policy(_CONDITION), untagged)
    return judge(
        is_effective=is_effective,
        with_tag=with_tag.code == ALLOWED_CODE,
        without_tag=without_tag.code == ALLOWED_CODE,
    )


FACT: Final = Fact(
    name="tag-condition",
    question="Does the condition ec2:ResourceTag keep ModifyVolume from volumes without the tag?",
    why="The deployed function may modify only volumes with the opt-in tag, and this condition is the guard.",
    minutes=20,
    actions=ACTIONS,
    measure=measure,
    cost=Cost(gp2_gib=2),
)
