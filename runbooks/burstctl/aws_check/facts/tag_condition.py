"""Whether an IAM condition on a tag of the volume holds for ModifyVolume."""

from typing import Final

from burstctl.aws_check.bench import Bench
from burstctl.aws_check.fact import Cost, Fact
from burstctl.aws_check.result import Measured, NotMeasured, Steps
from burstctl.aws_check.session_role import ACTIONS, ALLOWED, create_role, dry_run_as, policy_of, when_allowed

_KEY: Final = "aws-check-allowed"
_CONDITION: Final = {"StringEquals": {f"ec2:ResourceTag/{_KEY}": "yes"}}


def judge(*, is_effective: bool, with_tag: bool, without_tag: bool) -> Measured:
    """By dry runs on a volume with the tag and on one without it; ``is_effective``: both work unconditioned.

    Raises:
        NotMeasured: the role may not even modify without a condition.
    """
    if not is_effective:
        raise NotMeasured("the role was refused without any condition too: look for an SCP or a boundary")
    answer = {
        (True, False): "enforced",
        (True, True): "ignored",
        (False, False): "always refused",
        (False, True): "reversed",
    }[with_tag, without_tag]
    return Measured(answer=answer, evidence={"with_tag": with_tag, "without_tag": without_tag})


def measure(bench: Bench) -> Steps:
    """Assume a role under the condition, and try a volume with the tag and one without it."""
    tagged = yield from bench.volume(1, **{_KEY: "yes"})
    untagged = yield from bench.volume(1)
    role = create_role(bench, "tag", [tagged, untagged])
    is_effective = True
    for volume_id in (tagged, untagged):
        is_effective = is_effective and (yield from when_allowed(bench, role, policy_of(), volume_id))
    with_tag = yield from dry_run_as(bench, role, policy_of(_CONDITION), tagged)
    without_tag = yield from dry_run_as(bench, role, policy_of(_CONDITION), untagged)
    return judge(
        is_effective=is_effective,
        with_tag=with_tag.code == ALLOWED,
        without_tag=without_tag.code == ALLOWED,
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
