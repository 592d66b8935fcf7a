"""The steps of ``burstctl flip`` and ``flip-back``: plan, show, confirm, execute, report."""

import shlex
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING

from burstctl.cli.confirm import confirm, require_terminal_or_yes
from burstctl.cli.exit_codes import ExitCode, exit_code_of_outcomes
from burstctl.cli.output import (
    OutputError,
    print_error,
    print_failures,
    print_info,
    print_internal_error,
    print_interruption,
    print_next,
    print_output,
    to_json,
)
from burstctl.cli.text_layout import lay_out
from burstctl.context.context import CommandContext
from burstctl.context.delivery import deliver_after_modification
from burstctl.flip.return_check import describe_last_pass, return_warning
from burstctl.flip.select import FlipSelection, PlannedBatch, plan_request
from burstctl.render.guard_override import command_about, override_hint, refusing_guards, runbook_hints
from burstctl.render.pass_summary import print_holds
from burstctl.render.plan_json import PLAN_SCHEMA, hold_document, plan_document, totals_document
from burstctl.render.plan_text import describe_totals, render_plan
from burstctl.render.planned_flip import DryRunResult, PlannedFlip
from burstctl.render.volume import format_id_and_name
from burstwatch.adapters.aws.ec2_modify import Accepted
from burstwatch.core.durations import format_duration_literal
from burstwatch.core.ebs.sizing import TargetOverride
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.flips.flip_plan import FlipOrder
from burstwatch.core.flips.outcome import Outcome, OutcomeStatus
from burstwatch.core.flips.record_outcome import describe_unavailable_type
from burstwatch.core.flips.refusal import Guard
from burstwatch.core.ledger.flip_state import Direction, Hold
from burstwatch.engine.flip_executor import WORKERS, execute_flips

if TYPE_CHECKING:
    from documents.plan import PlansDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class _Notices:
    """What the plans are shown with, read before anything is modified: its report needs no ledger then."""

    holds: Sequence[Hold]
    warnings: Sequence[str]


def modify(context: CommandContext, request: FlipSelection) -> ExitCode:
    """Plan, show, and do what a person agrees to.

    Raises:
    SettingsError: no person can confirm it, or no volume matches.
    """
    if request.dry_run:
        batch = _with_dry_run_results(context, plan_request(context, request))
        notices = _show_plans(context, batch)
        return _finish_dry_run(context, request, batch, notices)
    batch = plan_request(context, request)
    is_confirmation_due = bool(batch.to_execute) and not request.assumes_yes
    notices = _show_plans(context, batch, is_confirmation_due=is_confirmation_due)
    if batch.to_execute:
        require_terminal_or_yes(assumes_yes=request.assumes_yes)
        if not confirm(_question(batch), assumes_yes=request.assumes_yes):
            return ExitCode.INTERRUPTED
    try:
        outcomes, failures = _execute(context, request, batch.to_execute) if batch.to_execute else ({}, [])
    except KeyboardInterrupt:
        print_interruption(
            "interrupted: requests sent to AWS are in the ledger (burstctl history), the rest is not"
        )
        return ExitCode.INTERRUPTED
    batch = replace(batch, failures=[*batch.failures, *failures])
    return _finish(context, request, batch, outcomes, notices)


def _show_plans(
    context: CommandContext, batch: PlannedBatch, *, is_confirmation_due: bool = False
) -> _Notices:
    """Print the plans to stdout; with ``--json`` only to stderr, and only if a person must confirm them."""
    planned = batch.planned
    texts = [render_plan(flip, is_alone=len(planned) == 1) for flip in planned]
    text = "\n\n".join([*texts, lay_out(describe_totals(planned))])
    if planned and not context.options.json:
        try:
            print_output(text)
        except OutputError as error:
            raise OutputError(
                f"nothing was modified: {error.problem.cause}", fix=error.problem.fix
            ) from error
    elif planned and is_confirmation_due:
        print_info(text, is_preformatted=True)
    now_s = context.services.clock()
    warnings = return_warning(context, batch.to_execute, now_s)
    for line in warnings:
        print_info(line, style="bold yellow" if line.startswith("WARNING") else "")
    holds = context.services.ledger.holds(now_s)
    print_holds(holds, now_s, {flip.volume_id for flip in planned})
    return _Notices(holds=holds, warnings=warnings)


def _question(batch: PlannedBatch) -> str:
    count, total = len(batch.to_execute), len(batch.planned)
    share = "" if count == total else f" of {total}"
    verb = "Keep" if all(flip.plan.is_extension for flip in batch.to_execute) else "Modify"
    return f"{verb} {count}{share} volume{'' if total == 1 else 's'}?"


def _with_dry_run_results(context: CommandContext, batch: PlannedBatch) -> PlannedBatch:
    """The plans with AWS's response to a dry run of each."""
    with ThreadPoolExecutor(WORKERS, thread_name_prefix="dry-run") as pool:
        results = list(pool.map(lambda flip: _dry_run(context, flip), batch.planned))
    pairs = zip(batch.planned, results, strict=True)
    return replace(batch, planned=[replace(planned, dry_run_result=result) for planned, result in pairs])


def _dry_run(context: CommandContext, planned: PlannedFlip) -> DryRunResult | None:
    target = planned.plan.target
    if target is None or planned.plan.is_extension:
        return None
    assert context.services.modifier is not None
    result = context.services.modifier.modify(planned.volume_id, target, dry_run=True)
    assert not isinstance(result, Accepted)
    return result


def _finish_dry_run(
    context: CommandContext, request: FlipSelection, batch: PlannedBatch, notices: _Notices
) -> ExitCode:
    _print_problems(context, batch)
    if context.options.json:
        print_output(to_json(_document(context, request, batch, {}, notices)))
    else:
        print_info("a dry run: nothing was modified, nothing was recorded")
        if any(flip.is_allowed for flip in batch.planned):
            print_next([_command(context, request)])
        else:
            _print_next_of_refusal(context, batch)
    if batch.has_failed or any(flip.is_rejected_by_aws for flip in batch.planned):
        return ExitCode.FAILED
    is_refused = len(batch.to_execute) < len(batch.planned)
    return ExitCode.REFUSED if is_refused and not context.options.exit_zero else ExitCode.OK


def _command(context: CommandContext, request: FlipSelection) -> str:
    """The command that does what a dry run shows."""
    override = request.target_override or TargetOverride()
    values = {
        "--to": override.volume_type,
        "--iops": override.iops,
        "--throughput": override.throughput_mib_s,
        "--for": request.duration and format_duration_literal(request.duration),
        "--reason": request.reason,
    }
    name = "flip" if request.direction is Direction.FLIP else "flip-back"
    arguments = [
        name,
        *request.names,
        *(word for term in request.terms for word in ("--where", str(term))),
    ]
    arguments += [word for option, value in values.items() if value for word in (option, str(value))]
    arguments += [word for guard in sorted(request.overridden) for word in ("--override", guard)]
    return context.options.command(*arguments)


def _execute(
    context: CommandContext, request: FlipSelection, wanted: Sequence[PlannedFlip]
) -> tuple[dict[str, Outcome], list[str]]:
    """Read everything again, ask every guard again, and do exactly what was agreed to, or not at all."""
    with context.with_writable_ledger() as writable_context:
        services = writable_context.services
        started, now_s = monotonic(), services.clock()
        collector = services.build_collector(now_s)
        errors: dict[str, Exception] = {}
        context.progress.begin("asking AWS")
        try:
            outcomes = execute_flips(
                services,
                [_confirmed_order(item, request, now_s) for item in wanted],
                collector,
                errors=errors,
            )
        finally:
            context.progress.end()
        for error in errors.values():
            if not isinstance(error, BurstwatchError):
                print_internal_error(error)
        delivery_errors = deliver_after_modification(services, now_s, lambda: now_s + monotonic() - started)
    # The result of a volume that has failed states the reason; that of one in flight does not.
    known_failures = {
        f"{volume_id}: {outcome.reason}"
        for volume_id, outcome in outcomes.items()
        if volume_id not in errors or outcome.status is OutcomeStatus.FAILED
    }
    return outcomes, [item for item in [*collector.failures, *delivery_errors] if item not in known_failures]


def _confirmed_order(planned: PlannedFlip, request: FlipSelection, now_s: float) -> FlipOrder:
    """The order for exactly the configuration that was shown, for a time that counts from now."""
    order, target = planned.plan.order, planned.plan.target
    if request.duration is not None:
        order = replace(order, return_after_s=int(now_s + request.duration.total_seconds()))
    if order.direction is Direction.FLIP_BACK:
        return order
    if planned.plan.is_extension:
        return replace(order, is_extension=True)
    assert target is not None
    target_override = TargetOverride(
        volume_type=target.volume_type, iops=target.iops, throughput_mib_s=target.throughput_mib_s
    )
    return replace(order, override=target_override)


def _finish(
    context: CommandContext,
    request: FlipSelection,
    batch: PlannedBatch,
    outcomes: Mapping[str, Outcome],
    notices: _Notices,
) -> ExitCode:
    refused = {
        flip.volume_id: Outcome(
            status=OutcomeStatus.REFUSED, reason=str(flip.plan.refusal), refusal=flip.plan.refusal
        )
        for flip in batch.planned
        if flip.plan.refusal is not None
    }
    all_outcomes = {**refused, **outcomes}
    text = (
        "\n".join(_describe_result(flip, all_outcomes[flip.volume_id]) for flip in batch.to_execute)
        if outcomes
        else ""
    )
    if context.options.json:
        _print_result(to_json(_document(context, request, batch, all_outcomes, notices)), text)
    elif text:
        _print_result(text, text)
    _print_problems(context, batch)
    _print_next_steps(context, batch, outcomes)
    if not (outcomes or context.options.json):
        _print_next_of_refusal(context, batch)
    return exit_code_of_outcomes(
        all_outcomes.values(), has_failed=batch.has_failed, exit_zero=context.options.exit_zero
    )


def _print_result(output: str, text: str) -> None:
    """Print the result; on stderr if stdout does not take it: the volumes are modified already.

    Raises:
        OutputError: stdout did not take it.
    """
    try:
        print_output(output)
    except OutputError as error:
        print_info(text or "nothing was modified", is_preformatted=True)
        fix = f"{error.problem.fix}; burstctl history shows what was requested"
        raise OutputError(error.problem.cause, fix=fix if text else error.problem.fix) from error


def _describe_result(planned: PlannedFlip, outcome: Outcome) -> str:
    match outcome.status:
        case OutcomeStatus.FLIPPED | OutcomeStatus.FLIPPED_BACK:
            text = f"AWS has begun to make it {planned.plan.target}"
        case OutcomeStatus.NONE:
            text = outcome.reason or "nothing to do"
        case OutcomeStatus.REFUSED:
            text = f"refused now: {outcome.reason}"
        case OutcomeStatus.IN_FLIGHT:
            history = planned.options.command("history", planned.volume_id)
            text = f"outcome unknown, not sent again; AWS will be queried ({history})"
        case _:
            text = f"failed: {outcome.reason}"
    volume = planned.plan.context.volume
    return lay_out(f"{format_id_and_name(volume)}: {text}")


def _print_problems(context: CommandContext, batch: PlannedBatch) -> None:
    """Say what else would help, and what went wrong."""
    hint = override_hint(batch.planned)
    if hint is not None:
        print_info(hint)
    for page in runbook_hints(refusing_guards(batch.planned), context.services.policy.alerts.runbooks_url):
        print_info(page)
    for volume_id, outcome in batch.unplanned.items():
        print_error(outcome.reason or "it could not be planned", subject=volume_id)
    print_failures(batch.failures, missing=batch.missing, region=context.services.location.region)


def _print_next_steps(context: CommandContext, batch: PlannedBatch, outcomes: Mapping[str, Outcome]) -> None:
    """Print how to follow the modification; if AWS has begun none, what else helps."""
    started_ids = [
        volume_id
        for volume_id, outcome in outcomes.items()
        if outcome.status in (OutcomeStatus.FLIPPED, OutcomeStatus.FLIPPED_BACK)
    ]
    if not started_ids:
        refusing = {i: outcome.refusal.guard for i, outcome in outcomes.items() if outcome.refusal}
        for planned in [flip for flip in batch.to_execute if flip.volume_id in refusing][:1]:
            _print_next_of_guards(context, planned, {refusing[planned.volume_id]})
        return
    last_pass = describe_last_pass(context, context.services.clock())
    print_info(
        "it is followed by a watchdog that sweeps with this ledger (burstctl watch, or the stack);"
        f" {last_pass}"
    )
    volume_argument = started_ids[0] if len(started_ids) == 1 else "VOLUME"
    print_next([context.options.command("history", volume_argument)])


def _print_next_of_refusal(context: CommandContext, batch: PlannedBatch) -> None:
    """Print what to do about the first volume that is refused."""
    for refused in [flip for flip in batch.planned if flip.plan.refusal is not None][:1]:
        _print_next_of_guards(context, refused, {refusal.guard for refusal in refused.shown_refusals})


def _print_next_of_guards(context: CommandContext, flip: PlannedFlip, guards: Collection[Guard]) -> None:
    """Print the type that exists where the volume is, or what explains the refusal."""
    lack = describe_unavailable_type(flip.plan, context.services.clock())
    alternative = lack.command if lack and Guard.TYPE_NOT_AVAILABLE in guards else None
    command = alternative or flip.plan.alternative_command
    if command is not None:
        _, *arguments = shlex.split(command)
    else:
        arguments = list(command_about(flip.plan.context.volume, guards))
    print_next([context.options.command(*arguments)])


def _document(
    context: CommandContext,
    request: FlipSelection,
    batch: PlannedBatch,
    outcomes: Mapping[str, Outcome],
    notices: _Notices,
) -> "PlansDocument":
    return {
        "schema": PLAN_SCHEMA,
        **context.document_header(),
        "by": context.operator,
        "dry_run": request.dry_run,
        "plans": [plan_document(flip, outcomes.get(flip.volume_id)) for flip in batch.planned],
        "totals": totals_document(batch.planned),
        "lost": {volume_id: outcome.reason for volume_id, outcome in batch.unplanned.items()},
        "missing": list(batch.missing),
        "failures": list(batch.failures),
        "holds": [hold_document(hold) for hold in notices.holds],
        "warnings": list(notices.warnings),
        "api_calls": context.services.calls.calls,
    }
