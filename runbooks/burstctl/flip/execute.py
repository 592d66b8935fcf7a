"""What ``burstctl flip`` and ``flip-back`` do: plan, show, ask, carry out, tell."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from time import monotonic
from typing import Any

from burstctl.cli.confirm import is_confirmed, require_somebody_to_ask
from burstctl.cli.exit_codes import Exit, exit_of_outcomes
from burstctl.cli.output import complain, say, show, to_json
from burstctl.cli.text_layout import COLUMNS, LONGEST_SENTENCE, hang
from burstctl.context.context import Desk
from burstctl.flip.return_check import last_pass_words, return_warning
from burstctl.flip.select import Drawn, Request, draw_up
from burstctl.render.guard_override import override_hint, page_hints, refusing_guards
from burstctl.render.pass_summary import tell_holds
from burstctl.render.plan_json import PLAN_SCHEMA, hold_document, plan_document, totals_document
from burstctl.render.plan_text import plan_in_words, totals_in_words
from burstctl.render.planned_flip import DryAnswer, Planned
from burstctl.render.volume import id_and_name
from burstwatch.adapters.aws.ec2_modify import Accepted, Allowed
from burstwatch.core.ebs.sizing import Wish
from burstwatch.core.flips.outcome import Done, Outcome
from burstwatch.core.flips.planning import Order
from burstwatch.core.ledger.flip_state import Direction
from burstwatch.core.text import format_instant, printable
from burstwatch.engine.alert_delivery import deliver
from burstwatch.engine.flip_executor import WORKERS, carry_out


def modify(desk: Desk, request: Request) -> Exit:
    """Plan, show, and do what a person agrees to.

    Raises:
        SettingsError: there is nobody to ask, or the choice fits no volume.
    """
    if request.dry_run:
        drawn = _with_answers(desk, draw_up(desk, request))
        _show_plans(desk, drawn)
        return _end_dry_run(desk, request, drawn)
    require_somebody_to_ask(assumes_yes=request.assumes_yes)
    drawn = draw_up(desk, request)
    _show_plans(desk, drawn, asks=bool(drawn.wanted) and not request.assumes_yes)
    if drawn.wanted and not is_confirmed(_question(drawn), assumes_yes=request.assumes_yes):
        return Exit.INTERRUPTED
    try:
        outcomes, failures = _do(desk, request, drawn.wanted) if drawn.wanted else ({}, [])
    except KeyboardInterrupt:
        say("interrupted: what AWS was asked for is in the ledger (burstctl history), the rest is not")
        return Exit.INTERRUPTED
    return _end(desk, request, replace(drawn, failures=[*drawn.failures, *failures]), outcomes)


def _show_plans(desk: Desk, drawn: Drawn, *, asks: bool = False) -> None:
    """The plans on stdout; with ``--json`` only where somebody is asked, and then beside it."""
    planned = drawn.planned
    texts = [plan_in_words(each, is_alone=len(planned) == 1) for each in planned]
    text = "\n\n".join([*texts, "\n".join(hang(totals_in_words(planned), COLUMNS))])
    if planned and not desk.options.json:
        show(text)
    elif planned and asks:
        say(text, as_it_is=True)
    now_s = desk.shell.clock()
    for line in return_warning(desk, drawn.wanted, now_s):
        say(line)
    tell_holds(desk.shell.ledger.holds(now_s), now_s, {each.volume_id for each in planned})


def _question(drawn: Drawn) -> str:
    count, total = len(drawn.wanted), len(drawn.planned)
    of_all = "" if count == total else f" of {total}"
    verb = "Keep" if all(each.plan.extends for each in drawn.wanted) else "Modify"
    return f"{verb} {count}{of_all} volume{'' if total == 1 else 's'}?"


def _with_answers(desk: Desk, drawn: Drawn) -> Drawn:
    """The plans with what AWS says to each when it is asked to do nothing."""
    with ThreadPoolExecutor(WORKERS, thread_name_prefix="dry-run") as pool:
        answers = list(pool.map(lambda each: _dry_answer(desk, each), drawn.planned))
    asked = zip(drawn.planned, answers, strict=True)
    return replace(drawn, planned=[replace(planned, answer=answer) for planned, answer in asked])


def _dry_answer(desk: Desk, planned: Planned) -> DryAnswer | None:
    target = planned.plan.target
    if target is None or planned.plan.extends:
        return None
    assert desk.shell.modifier is not None
    answer = desk.shell.modifier.modify(planned.volume_id, target, dry_run=True)
    assert not isinstance(answer, Accepted)
    return answer


def _end_dry_run(desk: Desk, request: Request, drawn: Drawn) -> Exit:
    _complain(desk, drawn)
    if desk.options.json:
        show(to_json(_document(desk, request, drawn, {})))
    else:
        say("a dry run: nothing was modified, nothing was recorded")
    refuses = [each for each in drawn.planned if each.answer and not isinstance(each.answer, Allowed)]
    if drawn.has_failed or refuses:
        return Exit.FAILED
    is_refused = len(drawn.wanted) < len(drawn.planned)
    return Exit.REFUSED if is_refused and not desk.options.exit_zero else Exit.FINE


def _do(desk: Desk, request: Request, wanted: Sequence[Planned]) -> tuple[dict[str, Outcome], list[str]]:
    """Read everything again, ask every guard again, and do exactly what was agreed to, or not at all."""
    with desk.recording() as recording:
        shell = recording.shell
        began, now_s = monotonic(), shell.clock()
        gathering = shell.gathering(now_s)
        desk.progress.begin("asking AWS")
        try:
            outcomes = carry_out(shell, [_agreed(each, request, now_s) for each in wanted], gathering)
        finally:
            desk.progress.end()
        told = deliver(
            shell.ledger,
            shell.channels,
            digest_above=shell.policy.alerts.digest_above,
            place=shell.place,
            runbooks_url=shell.policy.alerts.runbooks_url,
            now_s=now_s,
            clock=lambda: now_s + monotonic() - began,
        )
    shown = {f"{volume_id}: {outcome.because}" for volume_id, outcome in outcomes.items()}
    return outcomes, [each for each in [*gathering.failures, *told.errors] if each not in shown]


def _agreed(planned: Planned, request: Request, now_s: float) -> Order:
    """The order for exactly the configuration that was shown, for a time that counts from now."""
    order, target = planned.plan.order, planned.plan.target
    if request.lasts is not None:
        order = replace(order, return_after_s=int(now_s + request.lasts.total_seconds()))
    if order.direction is Direction.BACK:
        return order
    if planned.plan.extends:
        return replace(order, extends=True)
    assert target is not None
    wish = Wish(volume_type=target.volume_type, iops=target.iops, throughput_mib_s=target.throughput_mib_s)
    return replace(order, wish=wish)


def _end(desk: Desk, request: Request, drawn: Drawn, outcomes: Mapping[str, Outcome]) -> Exit:
    refused = {
        each.volume_id: Outcome(done=Done.REFUSED, because=str(each.plan.refusal), refusal=each.plan.refusal)
        for each in drawn.planned
        if each.plan.refusal is not None
    }
    every = {**refused, **outcomes}
    if desk.options.json:
        show(to_json(_document(desk, request, drawn, every)))
    elif outcomes:
        show("\n".join(line for each in drawn.wanted for line in _result(each, every[each.volume_id])))
    _complain(desk, drawn)
    _say_what_follows(desk, outcomes)
    return exit_of_outcomes(every.values(), has_failed=drawn.has_failed, exit_zero=desk.options.exit_zero)


def _result(planned: Planned, outcome: Outcome) -> list[str]:
    match outcome.done:
        case Done.FLIPPED | Done.FLIPPED_BACK:
            said = f"AWS has begun to make it {planned.plan.target}"
        case Done.NONE:
            said = outcome.because or "nothing to do"
        case Done.REFUSED:
            said = f"refused now: {outcome.because}"
        case Done.IN_FLIGHT:
            history = f"burstctl history {planned.volume_id}"
            said = f"not clear, and not sent again: AWS is asked what became of it ({history})"
        case _:
            said = f"failed: {outcome.because}"
    volume = planned.plan.facts.volume
    return hang(printable(f"{id_and_name(volume)}: {said}", LONGEST_SENTENCE), COLUMNS)


def _complain(desk: Desk, drawn: Drawn) -> None:
    """Say what else would help, and what went wrong."""
    hint = override_hint(drawn.planned)
    if hint is not None:
        say(hint)
    for page in page_hints(refusing_guards(drawn.planned), desk.shell.policy.alerts.runbooks_url):
        say(page)
    for volume_id, outcome in drawn.lost.items():
        complain(f"{volume_id}: {outcome.because}")
    for volume_id in drawn.missing:
        region = desk.shell.place.region
        complain(f"there is no volume {volume_id} in {region}: check the id, the region, the account")
    for failure in drawn.failures:
        complain(printable(failure, LONGEST_SENTENCE))


def _say_what_follows(desk: Desk, outcomes: Mapping[str, Outcome]) -> None:
    """How to see what becomes of it."""
    begun = [i for i, outcome in outcomes.items() if outcome.done in (Done.FLIPPED, Done.FLIPPED_BACK)]
    if not begun:
        return
    which = begun[0] if len(begun) == 1 else "VOLUME"
    say(f"AWS's progress: burstctl history {which}")
    seen = last_pass_words(desk, desk.shell.clock())
    say(f"it is followed by a watchdog that sweeps with this ledger (burstctl watch, or the stack); {seen}")


def _document(desk: Desk, request: Request, drawn: Drawn, outcomes: Mapping[str, Outcome]) -> dict[str, Any]:
    shell = desk.shell
    now_s = shell.clock()
    return {
        "schema": PLAN_SCHEMA,
        "generated_at": format_instant(now_s),
        "region": shell.place.region,
        "ledger": desk.ledger,
        "by": desk.by,
        "dry_run": request.dry_run,
        "plans": [plan_document(each, outcomes.get(each.volume_id)) for each in drawn.planned],
        "totals": totals_document(drawn.planned),
        "lost": {volume_id: outcome.because for volume_id, outcome in drawn.lost.items()},
        "missing": list(drawn.missing),
        "failures": list(drawn.failures),
        "holds": [hold_document(hold) for hold in shell.ledger.holds(now_s)],
        "warnings": return_warning(desk, [each for each in drawn.planned if each.is_wanted], now_s),
        "api_calls": shell.calls.calls,
    }
