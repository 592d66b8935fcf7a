"""``burstctl explain``: the decision about one volume, and every number behind it."""

from dataclasses import replace
from typing import Any

import click

from burstctl.caps import with_caps
from burstctl.command import Command, Options, VolumeId, common_options
from burstctl.desk import Desk, reading_desk
from burstctl.exits import Exit
from burstctl.explanation import MOST_ENTRIES, SCHEMA, Explanation, explain_in_words, to_document
from burstctl.output import say, show, to_json
from burstctl.paragraphs import lay_out
from burstctl.planned import Planned
from burstctl.telling import tell_failures, tell_holds
from burstctl.volume_words import describe_in_a_line
from burstwatch.core.decide import Decision
from burstwatch.core.flips import Cause, Direction
from burstwatch.core.ledger import ItemKind
from burstwatch.core.orders import Order, Plan
from burstwatch.core.outlook import Outlook
from burstwatch.core.propose import demand_of
from burstwatch.core.report import Report
from burstwatch.core.want import can_burst
from burstwatch.core.windows import windows_of
from burstwatch.flip import plan_orders
from burstwatch.gather import Gathering
from burstwatch.watchdog import assess_volumes


@click.command(
    cls=Command,
    examples=(
        ("burstctl explain vol-0123456789abcdef0", "why it is at its level, and what would change that"),
        ("burstctl explain vol-0123456789abcdef0 --json", "the same numbers for programs"),
    ),
    page="runbooks/BurstBalanceDraining.md",
)
@click.argument("volume", type=VolumeId())
@common_options
def explain(volume: str, options: Options) -> Exit:
    """Show the decision about VOLUME and every number behind it; changes nothing.

    Beside its balance: its flip, the guards that would refuse one now, its windows, holds, and AWS's quota.
    """
    with reading_desk(options) as desk:
        report = assess_volumes(desk.shell, [volume], now_s=desk.shell.clock())
        if volume in report.ignored:
            say(f"{volume} carries the tag burstwatch:ignore=true, so nothing is decided about it")
        gathering = desk.shell.gathering(report.now_s)
        facts = _explain(desk, report, gathering)
        report = replace(report, failures=[*report.failures, *gathering.failures])
        if options.json:
            show(to_json(_document(facts, report)))
        elif facts is not None:
            show(lay_out(describe_in_a_line(facts.assessment.volume), explain_in_words(facts)))
        tell_holds(report.holds, {volume})
        tell_failures(report)
        is_unread = facts is not None and facts.is_unread
        if is_unread:
            _report_once(desk, volume)
        return Exit.FAILED if is_unread or report.has_failed or report.missing else Exit.FINE


def _report_once(desk: Desk, volume_id: str) -> None:
    """Do not repeat at the end that the volume's state cannot be read: it is the reason shown."""
    ledger = desk.shell.ledger
    for one in ledger.take_unreadable():
        if (one.kind, one.subject) != (ItemKind.STATE, volume_id):
            ledger.note_unreadable(one)


def _explain(desk: Desk, report: Report, gathering: Gathering) -> Explanation | None:
    """The explanation of the one decision; None where the volume is ignored, or was not found."""
    if not report.decisions:
        return None
    (decision,) = report.decisions
    volume, shell = decision.assessment.volume, desk.shell
    outlook = Outlook.at(report.now_s, shell.policy, shell.ledger.window_marks().values())
    states = shell.ledger.states_of({volume.volume_id})
    is_unread = volume.volume_id in states.unread
    return Explanation(
        decision=decision,
        policy=shell.policy,
        now_s=report.now_s,
        state=states.get(volume.volume_id),
        is_unread=is_unread,
        entries=shell.ledger.entries(volume.volume_id)[-MOST_ENTRIES:],
        holds=[hold for hold in report.holds if hold.holds(volume.volume_id, report.now_s)],
        planned=None if is_unread else _plan(desk, decision, gathering),
        windows=outlook.of(volume),
        window_names=sorted(windows_of(shell.policy.windows, volume)),
    )


def _cause(decision: Decision) -> Cause:
    """What the watchdog wants to modify it for, or would if it drained."""
    if decision.want is not None:
        return decision.want.cause
    return decision.flip.cause if decision.flip else Cause.DRAINING


def _plan(desk: Desk, decision: Decision, gathering: Gathering) -> Planned | None:
    """What a modification by the watchdog would come to now; None for a volume that it would not touch."""
    volume, shell = decision.assessment.volume, desk.shell
    if decision.flip is None and not can_burst(volume):
        return None
    order = Order(
        volume_id=volume.volume_id,
        direction=Direction.OUT if decision.flip is None else Direction.BACK,
        cause=_cause(decision),
        because=decision.reason,
        demand=demand_of(decision.assessment),
    )
    draft = plan_orders(shell, [order], gathering)[volume.volume_id]
    if not isinstance(draft, Plan):
        return None
    plan = with_caps([draft], shell.ledger.states(), shell.policy.flip)[volume.volume_id]
    return Planned(plan=plan, region=shell.place.region, options=desk.options)


def _document(facts: Explanation | None, report: Report) -> dict[str, Any]:
    shared = {"ignored": report.ignored, "missing": report.missing, "failures": report.failures}
    return (to_document(facts) if facts else {"schema": SCHEMA, "volume": None}) | shared
