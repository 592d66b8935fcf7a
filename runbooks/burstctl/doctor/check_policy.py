"""The policy: which one is in force, its faults, its size, and whether IAM and people mean the same tag."""

from collections.abc import Iterator
from typing import Final

from burstctl.context.active_policy import FilePolicySource
from burstctl.context.stack_policy import StackPolicy
from burstctl.doctor.context import Patient
from burstctl.doctor.finding import Finding, Trouble, UnknownError, broken, ok, warning
from burstwatch.adapters.policy.yaml_file import MOST_BYTES
from burstwatch.core.policy.policy import Policy, PolicyError
from burstwatch.core.text import format_instant

_PAGE: Final = "runbooks/PolicyRejected.md"
_MOST_FAULTS: Final = 10
_NEARLY_FULL: Final = 0.9


def check_policy(patient: Patient) -> Iterator[Finding]:
    """Which policy counts here, and whether it is right."""
    source = patient.policy_source
    try:
        policy = patient.policy()
    except UnknownError as error:
        if not isinstance(error.error, PolicyError):
            raise
        check = patient.burstctl("policy", "check")
        if isinstance(source, FilePolicySource):
            check = source.check_command
        yield from judge_faults(source.place, error.error, check)
        return
    if isinstance(source, FilePolicySource):
        size = source.path.stat().st_size if source.path else 0
        yield ok(f"{source}{_size_words(size)}; {mode_words(policy)}")
        return
    yield from judge_stack_policy(patient, patient.stack_policy(), policy)


def judge_faults(place: str, error: PolicyError, check: str) -> Iterator[Finding]:
    """Each fault; with one nothing but the kill switch works."""
    fix = "correct it; a deployed watchdog keeps the last good one meanwhile"
    faults = [str(fault) for fault in error.faults]
    for fault in faults[:_MOST_FAULTS]:
        yield broken(fault, about=place, fix=fix, commands=(check,), page=_PAGE, trouble=Trouble.MISUSED)
    if len(faults) > _MOST_FAULTS:
        seen = f"and {len(faults) - _MOST_FAULTS} more faults"
        yield broken(seen, about=place, fix=fix, commands=(check,), page=_PAGE, trouble=Trouble.MISUSED)


def judge_stack_policy(patient: Patient, held: StackPolicy, policy: Policy) -> Iterator[Finding]:
    """The stack's policy: deployed, or pushed over that."""
    in_force = held.in_force
    size = len(in_force.text.encode())
    how = "as deployed"
    if held.pushed is not None:
        by = f" by {held.pushed.by}" if held.pushed.by else ""
        how = f"pushed{by} at {format_instant(held.pushed.modified_at.timestamp())}"
    seen = f"{in_force.parameter}, {how}{_size_words(size)}; {mode_words(policy)}"
    if held.is_outdated:
        withdraw = patient.burstctl("policy", "push", "--withdraw")
        fix = "push it again over the new one, or withdraw it so that the deployed one counts"
        yield warning(f"{seen}; another was deployed since", fix=fix, commands=(withdraw,))
    elif size > _NEARLY_FULL * MOST_BYTES:
        yield warning(f"{seen}; it is nearly full", fix="shorten it: leave out what has its default")
    else:
        yield ok(seen)
    if held.stack.flips and held.stack.opt_in_tag != policy.mode.opt_in_tag:
        yield broken(
            f"the stack may modify only volumes tagged {'='.join(held.stack.opt_in_tag)}, and the policy's"
            f" mode.opt_in_tag is {'='.join(policy.mode.opt_in_tag)}: nothing can be flipped",
            about="mode.opt_in_tag",
            fix="write the stack's tag into the policy, or deploy with this one: IAM's condition is it",
            commands=("cdk deploy",),
            page="docs/deploying.md",
        )


def mode_words(policy: Policy) -> str:
    """What it lets the watchdog do."""
    mode = policy.mode
    return f"untagged volumes {mode.default}, tags may ask for {mode.highest}"


def _size_words(size: int) -> str:
    return f", {size:,} of {MOST_BYTES:,} bytes" if size else ""
