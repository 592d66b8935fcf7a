"""The policy: its source, its faults, its size, and whether IAM uses the same opt-in tag."""

from collections.abc import Iterator
from typing import Final

from burstctl.context.active_policy import FilePolicySource
from burstctl.context.stack_policy import StackPolicy
from burstctl.doctor.context import DoctorContext
from burstctl.doctor.finding import CheckFailure, Finding, LookupFailedError, broken, ok, warning
from burstwatch.adapters.policy.yaml_file import MAX_BYTES
from burstwatch.core.policy.policy import Policy, PolicyError
from burstwatch.core.text import format_instant

_REJECTED_PAGE: Final = "runbooks/PolicyRejected.md"
_REFUSED_PAGE: Final = "runbooks/FlipRefused.md"
_MAX_FAULTS: Final = 10  # more are usually one mistake; `burstctl policy check` lists all
_NEARLY_FULL: Final = 0.9  # a policy that grows further would be refused at the next push


def check_policy(context: DoctorContext) -> Iterator[Finding]:
    """Which policy counts here, and whether it is right."""
    source = context.policy_source
    try:
        policy = context.policy()
    except LookupFailedError as error:
        if not isinstance(error.error, PolicyError):
            raise
        check_command = context.burstctl_command("policy", "check")
        if isinstance(source, FilePolicySource):
            check_command = source.check_command
        yield from judge_faults(source.location, error.error, check_command)
        return
    if isinstance(source, FilePolicySource):
        size = source.path.stat().st_size if source.path else 0
        yield ok(f"{source}{_describe_size(size)}; {describe_mode(policy)}")
        return
    yield from judge_stack_policy(context, context.stack_policy(), policy)


def judge_faults(location: str, error: PolicyError, check_command: str) -> Iterator[Finding]:
    """Each fault; any fault disables everything except the kill switch."""
    fix = "correct it; until then a deployed watchdog keeps the last valid one"
    faults = [str(fault) for fault in error.faults]
    for fault in faults[:_MAX_FAULTS]:
        yield broken(
            fault,
            subject=location,
            fix=fix,
            commands=(check_command,),
            page=_REJECTED_PAGE,
            trouble=CheckFailure.MISUSED,
        )
    if len(faults) > _MAX_FAULTS:
        summary = f"and {len(faults) - _MAX_FAULTS} more faults"
        yield broken(
            summary,
            subject=location,
            fix=fix,
            commands=(check_command,),
            page=_REJECTED_PAGE,
            trouble=CheckFailure.MISUSED,
        )


def judge_stack_policy(
    context: DoctorContext, stack_policy: StackPolicy, policy: Policy
) -> Iterator[Finding]:
    """The stack's policy: deployed, or pushed over that."""
    in_force = stack_policy.in_force
    size = len(in_force.text.encode())
    origin = "as deployed"
    if stack_policy.pushed is not None:
        pushed_by = f" by {stack_policy.pushed.pushed_by}" if stack_policy.pushed.pushed_by else ""
        origin = f"pushed{pushed_by} at {format_instant(stack_policy.pushed.modified_at.timestamp())}"
    summary = f"{in_force.parameter}, {origin}{_describe_size(size)}; {describe_mode(policy)}"
    if stack_policy.is_outdated:
        withdraw = context.burstctl_command("policy", "push", "--withdraw")
        fix = "push it again over the new one, or withdraw it so that the deployed one counts"
        yield warning(f"{summary}; another was deployed since", fix=fix, commands=(withdraw,))
    elif size > _NEARLY_FULL * MAX_BYTES:
        yield warning(f"{summary}; it is nearly full", fix="shorten it: leave out what has its default")
    else:
        yield ok(summary)
    if stack_policy.stack.flips and stack_policy.stack.opt_in_tag != policy.mode.opt_in_tag:
        yield broken(
            f"the stack may modify only volumes tagged {'='.join(stack_policy.stack.opt_in_tag)}, and the"
            f" policy's mode.opt_in_tag is {'='.join(policy.mode.opt_in_tag)}: nothing can be flipped",
            subject="mode.opt_in_tag",
            fix="write the stack's tag into the policy, or deploy with this one: IAM's condition is it",
            commands=("cdk deploy",),
            page=_REFUSED_PAGE,
        )


def describe_mode(policy: Policy) -> str:
    """What it lets the watchdog do."""
    mode = policy.mode
    return f"untagged volumes {mode.default}, tags may ask for {mode.highest}"


def _describe_size(size: int) -> str:
    return f", {size:,} of {MAX_BYTES:,} bytes" if size else ""
