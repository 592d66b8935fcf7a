"""Whether anything will return a volume that is flipped for a time, and what to do if nothing will."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from burstctl.context.context import Desk
from burstctl.render.planned_flip import Planned
from burstctl.watch.presence import RECENT_S, SUBJECT, is_at_work
from burstwatch.core.policy.policy import Mode
from burstwatch.core.text import format_when

_SWEPT_WITHIN_S: Final = RECENT_S
_MOST_NAMED: Final = 3


def return_warning(desk: Desk, planned: Sequence[Planned], now_s: float) -> list[str]:
    """The volumes that nothing will return when their time is over, why, and the commands that help.

    Nothing if no time is asked for, or if a watchdog that may return them is at work on this ledger.
    """
    asked = [each for each in planned if each.is_out and each.lasts is not None]
    if not asked:
        return []
    why, tag = _why_not(desk, now_s)
    left = {each.volume_id: each for each in asked if not each.returns_by_itself}
    if why is not None:
        left |= {each.volume_id: each for each in asked if not (tag and _is_opted_in(each))}
    if not left:
        return []
    by_policy = [each for each in left.values() if not each.returns_by_itself]
    reasons = [why] if why is not None and len(by_policy) < len(left) else []
    reasons += dict.fromkeys(_stay_reason(each) for each in by_policy)
    lines = [f"WARNING: nothing will return {_named(left)} when the time is over: {'; '.join(reasons)}"]
    ids, region = " ".join(left), desk.shell.place.region
    if not tag and len(by_policy) < len(left):
        lines += ["  keep a watchdog that may act running:", f"    burstctl watch --act --region {region}"]
    if tag and len(by_policy) < len(left):
        key, value = desk.shell.policy.mode.opt_in_tag
        pair = shlex.quote(f"Key={key},Value={value}")
        lines += ["  let the stack return it, with the opt-in tag:"]
        lines += [f"    aws ec2 create-tags --region {region} --resources {ids} --tags {pair}"]
    return [
        *lines,
        f"  {'or ' if len(lines) > 1 else ''}return it yourself:",
        f"    burstctl flip-back {ids} --region {region}",
    ]


def last_pass_words(desk: Desk, now_s: float) -> str:
    """When a watchdog last swept with this ledger."""
    roster = desk.shell.ledger.roster()
    return "no pass so far" if roster is None else f"last pass {format_when(roster.tick_s, now_s, 'UTC')}"


def _why_not(desk: Desk, now_s: float) -> tuple[str | None, bool]:
    """Why no watchdog at work on this ledger returns an untagged volume, and whether the tag would help."""
    ledger, stack = desk.shell.ledger, desk.reach.stack
    if is_at_work(ledger.entries(SUBJECT, since_s=int(now_s - RECENT_S)), now_s):
        return None, False
    seen = last_pass_words(desk, now_s)
    nobody = f"no watchdog with --act is at work on this ledger ({seen})"
    roster = ledger.roster()
    is_swept = roster is not None and abs(now_s - roster.tick_s) <= _SWEPT_WITHIN_S
    if stack is None or not is_swept:
        return nobody, False
    tag = "=".join(desk.shell.policy.mode.opt_in_tag)
    return f"{nobody}, and the deployed stack {stack} may not modify volumes without the tag {tag}", True


def _is_opted_in(planned: Planned) -> bool:
    return planned.plan.facts.wishes.mode is Mode.AUTO


def _stay_reason(planned: Planned) -> str:
    stay = planned.plan.stay
    return stay.reason if stay else "it stays"


def _named(left: Mapping[str, Planned]) -> str:
    ids = list(left)
    more = len(ids) - _MOST_NAMED
    return ", ".join(ids[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
