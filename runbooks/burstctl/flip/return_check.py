"""Whether anything will return a volume that is flipped for a time, and what to do if nothing will."""

import shlex
from collections.abc import Sequence
from typing import Final

from burstctl.cli.output import list_first
from burstctl.context.context import CommandContext
from burstctl.render.planned_flip import PlannedFlip
from burstctl.watch.presence import PRESENCE_SUBJECT, PRESENCE_TIMEOUT_S, is_watchdog_present
from burstwatch.core.errors import LedgerError
from burstwatch.core.policy.policy import Mode
from burstwatch.core.text import format_relative_time

_MAX_SWEEP_AGE_S: Final = PRESENCE_TIMEOUT_S
_MAX_NAMED: Final = 3  # keeps the warning to one sentence


def return_warning(context: CommandContext, planned: Sequence[PlannedFlip], now_s: float) -> list[str]:
    """The volumes that nothing will return when their time is over, why, and the commands that help.

    None if no duration was given, or if a watchdog that may return the volumes uses this ledger.
    """
    timed = [flip for flip in planned if flip.is_flip and flip.duration is not None]
    if not timed:
        return []
    reason, can_tag_help = _no_return_reason(context, now_s)
    unreturned = {flip.volume_id: flip for flip in timed if not flip.returns_by_itself}
    if reason is not None:
        unreturned |= {flip.volume_id: flip for flip in timed if not (can_tag_help and _is_opted_in(flip))}
    if not unreturned:
        return []
    by_policy = [flip for flip in unreturned.values() if not flip.returns_by_itself]
    reasons = [reason] if reason is not None and len(by_policy) < len(unreturned) else []
    reasons += dict.fromkeys(_stay_reason(flip) for flip in by_policy)
    returns_nothing = (
        f"WARNING: nothing will return {list_first(list(unreturned), _MAX_NAMED)} when the time is over"
    )
    lines = [f"{returns_nothing}: {'; '.join(reasons)}"]
    volume_ids, region = " ".join(unreturned), context.services.location.region
    options = context.options.arguments_in(region)
    if not can_tag_help and len(by_policy) < len(unreturned):
        lines += [
            "  keep a watchdog that may act running:",
            "    " + shlex.join(["burstctl", "watch", "--act", *options]),
        ]
    if can_tag_help and len(by_policy) < len(unreturned):
        key, value = context.services.policy.mode.opt_in_tag
        pair = shlex.quote(f"Key={key},Value={value}")
        lines += ["  let the stack return it, with the opt-in tag:"]
        lines += [f"    aws ec2 create-tags --region {region} --resources {volume_ids} --tags {pair}"]
    return [
        *lines,
        f"  {'or ' if len(lines) > 1 else ''}return it yourself:",
        "    " + shlex.join(["burstctl", "flip-back", *unreturned, *options]),
    ]


def describe_last_pass(context: CommandContext, now_s: float) -> str:
    """When a watchdog last swept with this ledger."""
    try:
        fleet_snapshot = context.services.ledger.fleet_snapshot()
    except LedgerError as error:  # it is asked after a modification too, whose report must not be lost
        return f"its last sweep is not known ({error.problem.cause})"
    return (
        "no sweep so far"
        if fleet_snapshot is None
        else f"last sweep {format_relative_time(fleet_snapshot.tick_at_s, now_s, 'UTC')}"
    )


def _no_return_reason(context: CommandContext, now_s: float) -> tuple[str | None, bool]:
    """Why no watchdog at work on this ledger returns an untagged volume, and whether the tag would help."""
    ledger, stack = context.services.ledger, context.reach.stack
    if is_watchdog_present(ledger.entries(PRESENCE_SUBJECT, since_s=int(now_s - PRESENCE_TIMEOUT_S)), now_s):
        return None, False
    last_pass = describe_last_pass(context, now_s)
    reason = f"no watchdog with --act is at work on this ledger ({last_pass})"
    fleet_snapshot = ledger.fleet_snapshot()
    is_swept = fleet_snapshot is not None and abs(now_s - fleet_snapshot.tick_at_s) <= _MAX_SWEEP_AGE_S
    if stack is None or not is_swept:
        return reason, False
    tag = "=".join(context.services.policy.mode.opt_in_tag)
    return f"{reason}, and the deployed stack {stack} may not modify volumes without the tag {tag}", True


def _is_opted_in(planned: PlannedFlip) -> bool:
    return planned.plan.context.volume_settings.mode is Mode.AUTO


def _stay_reason(planned: PlannedFlip) -> str:
    decision = planned.plan.return_decision
    return decision.reason if decision else "it stays"
