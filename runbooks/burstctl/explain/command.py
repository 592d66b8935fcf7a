"""``burstctl explain``: the decision about one volume, and every number behind it."""

from dataclasses import replace
from typing import Any

import click

from burstctl.cli.exit_codes import Exit
from burstctl.cli.options import Command, Options, VolumeId, common_options
from burstctl.cli.output import say, show, to_json
from burstctl.cli.text_layout import lay_out
from burstctl.context.context import Desk, reading_desk
from burstctl.explain.explanation import (
    MOST_ENTRIES,
    SCHEMA,
    Explanation,
    explain_in_words,
    is_unrecorded,
    to_document,
    urgent_lines,
)
from burstctl.flip.cap_preview import with_caps
from burstctl.render.pass_summary import tell_failures, tell_holds
from burstctl.render.planned_flip import Planned
from burstctl.render.volume import describe_in_a_line
from burstwatch.core.flips.planning import Order, Plan
from burstwatch.core.flips.recommendation import demand_of
from burstwatch.core.flips.triggers import can_burst
from burstwatch.core.ledger.flip_state import Cause, Direction
from burstwatch.core.ledger.ledger import ItemKind
from burstwatch.core.policy.windows import windows_of
from burstwatch.core.watch.decide import Decision
from burstwatch.core.watch.report import Report
from burstwatch.core.watch.window_status import Outlook
from burstwatch.engine.collector import Gathering
from burstwatch.engine.flip_executor import plan_orders
from burstwatch.engine.watch_pass import assess_volumes


@click.command(
    cls=Command,
    examples=(
        ("burstctl explain vol-0123456789abcdef0", "why it is at its level, and what would change that"),
        ("burstctl explain vol-0123456789abcdef0 --json", "the same numbers for programs"),
    ),
    page="runbooks/BurstBalanceDraining.md",
)
@click.argument("volume", type=VolumeId())
@click.option("--verbose", is_flag=True, help="Show also how each number and the next look are worked out.")
@common_options
def explain(volume: str, options: Options, *, verbose: bool) -> Exit:
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
            topics = explain_in_words(facts, verbose=verbose)
            body = lay_out(describe_in_a_line(facts.assessment.volume), topics)
            show("\n".join([*urgent_lines(facts), body]))
        tell_holds(report.holds, report.now_s, {volume})
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
    state, is_unread = states.get(volume.volume_id), volume.volume_id in states.unread
    return Explanation(
        decision=decision,
        policy=shell.policy,
        now_s=report.now_s,
        state=state,
        is_unread=is_unread,
        entries=shell.ledger.entries(volume.volume_id)[-MOST_ENTRIES:],
        holds=[hold for hold in report.holds if hold.holds(volume.volume_id, report.now_s)],
        planned=None if is_unread or is_unrecorded(decision, state) else _plan(desk, decision, gathering),
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
        early=decision.want is not None and decision.want.early,
        empty_s=decision.assessment.empty_s,
    )
    draft = plan_orders(shell, [order], gathering)[volume.volume_id]
    if not isinstance(draft, Plan):
        return None
    plan = with_caps([draft], shell.ledger.states(), shell.policy.flip)[volume.volume_id]
    return Planned(plan=plan, region=shell.place.region, options=desk.options, lead=shell.policy.lead)


def _document(facts: Explanation | None, report: Report) -> dict[str, Any]:
    shared = {"ignored": report.ignored, "missing": report.missing, "failures": report.failures}
    return (to_document(facts) if facts else {"schema": SCHEMA, "volume": None}) | shared
