"""``burstctl experiment``: measures undocumented behaviour with one of your volumes."""

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

import click

from burstctl.cli.confirm import confirm, require_terminal_or_yes
from burstctl.cli.exit_codes import ExitCode
from burstctl.cli.options import (
    Command,
    CommandGroup,
    Duration,
    Options,
    ResourceName,
    common_options,
)
from burstctl.cli.output import print_error, print_failures, print_info, print_next, print_output, to_json
from burstctl.cli.signals import StopSignal
from burstctl.cli.text_layout import lay_out
from burstctl.context.context import CommandContext, open_modifying
from burstctl.context.resources import resolve_volume
from burstctl.experiment.credit_reset import MAX_AWAY_S, MIN_AWAY_S
from burstctl.experiment.journal import Journal, JournalStore, format_compact_instant
from burstctl.experiment.plan_json import outline_document
from burstctl.experiment.plan_text import render_outline
from burstctl.experiment.preflight import ExperimentRequest, PreflightResult, run_preflight
from burstctl.experiment.report import ExperimentResult, describe_conclusion, to_document
from burstctl.experiment.runner import ExperimentRunner
from burstctl.experiment.stages import describe_resume, describe_stage
from burstctl.experiment.waiting import MAX_SLEEP_S, Interrupted, Waiter
from burstctl.flip.command import TargetType
from burstwatch.core.durations import format_duration_literal
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.ebs.volume import can_burst
from burstwatch.core.errors import BurstwatchError, Problem
from burstwatch.core.text import format_duration
from burstwatch.wiring.settings import LedgerKind, Settings, SettingsError

PAGE: Final = "runbooks/CreditResetExperiment.md"
EXAMPLES: Final = (
    (
        "burstctl experiment credit-reset vol-0123456789abcdef0 --dry-run",
        "whether it could answer the question, and its price",
    ),
    ("burstctl experiment credit-reset vol-0123456789abcdef0", "asks, then takes an hour or more"),
    (
        "burstctl experiment credit-reset vol-0123456789abcdef0 --to io2 --away 1h",
        "via io2, for an hour; run it again to resume after Ctrl-C",
    ),
    ("burstctl experiment credit-reset vol-0123456789abcdef0 --abandon", "return it, without an answer"),
)
_LABEL_BYTES: Final = 4  # Enough to distinguish two reports of the same second.
_PLAN_VALID_FOR_S: Final = 900
"""A confirmation later than this is refused, because the plan may no longer be valid."""
_AWAY_RANGE: Final = Duration(timedelta(seconds=MIN_AWAY_S), timedelta(seconds=MAX_AWAY_S))


@click.group(cls=CommandGroup, examples=EXAMPLES[:2], page=PAGE)
@click.pass_context
def experiment(context: click.Context) -> None:
    """Measure undocumented behaviour, with a volume that you name.

    An experiment modifies that volume and brings it back, under the guards of every flip.
    """
    if context.invoked_subcommand is None:
        print_output(context.get_help())


@experiment.command(
    name="credit-reset",
    cls=Command,
    examples=EXAMPLES,
    page=PAGE,
    without=(),
    short_help="the burst balance before a flip and after the return",
)
@click.argument("name", metavar="VOLUME", type=ResourceName())
@click.option(
    "--to",
    "target",
    type=TargetType(),
    default="io1",
    metavar="io1|io2|gp3",
    help="The temporary type. Default: io1.",
)
@click.option(
    "--away",
    "min_away",
    type=_AWAY_RANGE,
    metavar="SPAN",
    help="Minimum time away, 15m to 12h; longer if the answer requires it.",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The report file. Default: a file beside the ledger.",
)
@click.option("--tell-id", "includes_volume_id", is_flag=True, help="Write the volume's ID into the report.")
@click.option("--abandon", is_flag=True, help="Return the volume and stop, without an answer.")
@click.option("--dry-run", is_flag=True, help="Show the plan or the progress; do nothing.")
@click.option("--yes", "assumes_yes", is_flag=True, help="Do not ask; required without a terminal.")
@common_options
def credit_reset(options: Options, *, name: str, abandon: bool, **values: Any) -> ExitCode:
    """Measure the burst balance of a volume before and after a modification from gp2 to io1 and back.

    It is not documented whether the balance is kept, refilled, reset or emptied. Use a volume that may lose
    its burst. It is put on hold, modified, left for as long as the answers require, and returned. The
    datapoints after that may show the answer, and a report that can be shared explains why.

    It takes an hour or more. After Ctrl-C or a crash, the same command resumes it.

    Exits 0 with any conclusion, 1 without one, 4 if a condition is not met, 130 if you decline
    or interrupt it.
    """
    with open_modifying(options) as context:
        volume_id = resolve_volume(context, name, prefers=can_burst)
        request = ExperimentRequest(volume_id=volume_id, **values)
        store = JournalStore(_state_directory(context))
        journal = _find_open_journal(context, store, volume_id)
        if journal is not None and request.dry_run:
            return _show_stage(context, journal)
        if journal is not None:
            return _resume(context, store, request, is_abandoned=abandon)
        if abandon:
            print_info(f"{volume_id}: there is no experiment to abandon")
            return ExitCode.OK
        return _start(context, store, request)


def _start(context: CommandContext, store: JournalStore, request: ExperimentRequest) -> ExitCode:
    """Show what would be done, ask, and do it."""
    if not request.dry_run:
        require_terminal_or_yes(assumes_yes=request.assumes_yes)
        _check_report_path(request.report)
    context.progress.begin("reading")
    try:
        preflight = run_preflight(context, request)
    finally:
        context.progress.end()
    print_failures(preflight.datapoints.failures)
    is_refused = bool(preflight.preflight_failures)
    is_final = is_refused or request.dry_run
    _show_plan(context, preflight, as_document=is_final, is_confirmation_due=not request.assumes_yes)
    if preflight.datapoints.failures:
        return ExitCode.FAILED
    if is_refused:
        _print_next(context, "explain", request.volume_id)
        return ExitCode.OK if context.options.exit_zero else ExitCode.REFUSED
    if request.dry_run:
        print_info("a dry run: nothing was modified, nothing was recorded")
        _print_next(context, "experiment", "credit-reset", request.volume_id, *_plan_options(request))
        return ExitCode.OK
    question = f"May {request.volume_id} lose its burst for this experiment? Start?"
    if not confirm(question, assumes_yes=request.assumes_yes):
        return ExitCode.INTERRUPTED
    if (age_s := context.services.clock() - preflight.read_at_s) > _PLAN_VALID_FOR_S:
        print_error(
            Problem(
                f"nothing was done: the plan above is {format_duration(age_s)} old, and much may have changed"
                " since",
                "run it again",
            )
        )
        return ExitCode.OK if context.options.exit_zero else ExitCode.REFUSED
    with store.lock(request.volume_id):
        if store.find_open(request.volume_id) is not None:
            raise SettingsError(
                "another process has already started it", fix="run the same command again, which resumes it"
            )
        journal = _new_journal(context, store, request, preflight)
        store.save(journal)
        return _run(context, store, journal)


def _print_next(context: CommandContext, *command: str) -> None:
    if not context.options.json:
        print_next([context.options.command(*command)])


def _plan_options(request: ExperimentRequest) -> list[str]:
    """The options with which a run does what a dry run has shown."""
    values = {
        "--to": request.target if request.target is not VolumeType.IO1 else None,
        "--away": request.min_away and format_duration_literal(request.min_away),
        "--report": request.report,
    }
    options = [word for name, value in values.items() if value for word in (name, str(value))]
    return [*options, *(["--tell-id"] if request.includes_volume_id else [])]


def _resume(
    context: CommandContext, store: JournalStore, request: ExperimentRequest, *, is_abandoned: bool
) -> ExitCode:
    """Continue where the last process stopped, without another confirmation."""
    if request.report is not None:
        _check_report_path(request.report)
    with store.lock(request.volume_id):
        journal = store.find_open(request.volume_id)
        if journal is None:
            print_info(f"{request.volume_id}: it has just ended")
            return ExitCode.OK
        report = str(request.report.absolute()) if request.report else journal.report
        journal = replace(
            journal,
            report=report,
            tells_id=journal.tells_id or request.includes_volume_id,
            is_abandoned=journal.is_abandoned or is_abandoned,
        )
        store.save(journal)
        print_info(f"going on: {describe_stage(journal)}")
        return _run(context, store, journal)


def _run(context: CommandContext, store: JournalStore, journal: Journal) -> ExitCode:
    with context.with_writable_ledger() as writable_context, StopSignal() as stop:
        waiter = Waiter(
            clock=writable_context.services.clock, stop=stop, max_sleep_s=MAX_SLEEP_S[writable_context.clock]
        )
        runner = ExperimentRunner(context=writable_context, store=store, journal=journal, waiter=waiter)
        try:
            runner.run()
        except Interrupted:
            print_info(f"interrupted: {describe_stage(runner.journal)}; {describe_resume(runner.journal)}")
            _show_result(context, ExperimentResult(journal=runner.journal, now_s=context.services.clock()))
            return ExitCode.INTERRUPTED
        except BurstwatchError:
            print_info(
                f"it stopped here: {describe_stage(runner.journal)}; {describe_resume(runner.journal)}"
            )
            raise
        result = runner.result()
        _show_result(context, result)
        return _exit_code(context, result, was_refused=runner.was_refused)


def _exit_code(context: CommandContext, result: ExperimentResult, *, was_refused: bool) -> ExitCode:
    if result.journal.failed is None:
        return ExitCode.OK
    if was_refused:
        return ExitCode.OK if context.options.exit_zero else ExitCode.REFUSED
    return ExitCode.FAILED


def _show_plan(
    context: CommandContext, preflight: PreflightResult, *, as_document: bool, is_confirmation_due: bool
) -> None:
    """The plan on stdout; with ``--json`` it is a document where nothing comes after it."""
    text = render_outline(preflight, context.services.policy)
    if not context.options.json:
        print_output(text)
    elif as_document:
        print_output(to_json(outline_document(context, preflight)))
    elif is_confirmation_due:
        print_info(text, is_preformatted=True)


def _show_stage(context: CommandContext, journal: Journal) -> ExitCode:
    result = ExperimentResult(journal=journal, now_s=context.services.clock())
    if context.options.json:
        print_output(to_json(to_document(result, ledger=context.ledger_location)))
    else:
        print_output(lay_out(f"{describe_stage(journal)}; {describe_resume(journal)}"))
    return ExitCode.OK


def _show_result(context: CommandContext, result: ExperimentResult) -> None:
    journal = result.journal
    if context.options.json:
        print_output(to_json(to_document(result, ledger=context.ledger_location)))
    elif journal.is_over:
        print_output(lay_out(*describe_conclusion(result)))
    if result.conclusion is not None:
        print_info(f"the report, safe to share: {journal.report}")
        _print_next(context, "history", journal.volume_id)


def _find_open_journal(context: CommandContext, store: JournalStore, volume_id: str) -> Journal | None:
    """The experiment with this volume that is not concluded, if its journal is on this machine.

    Raises:
        SettingsError: it was begun in another region, or with another ledger.
    """
    journal = store.find_open(volume_id)
    if journal is None:
        return None
    current = (context.services.location.region, context.ledger_location)
    if current != (journal.region, journal.ledger):
        raise SettingsError(
            f"the experiment with {volume_id} was begun in {journal.region} with ledger"
            f" {journal.ledger}, this is {current[0]} with {current[1]}",
            fix=f"add --region {journal.region} --ledger {journal.ledger}",
        )
    return journal


def _new_journal(
    context: CommandContext, store: JournalStore, request: ExperimentRequest, preflight: PreflightResult
) -> Journal:
    plan, now_s = preflight.planned.plan, int(context.services.clock())
    assert plan.target is not None
    assert plan.current is not None
    assert preflight.quickest is not None
    assert preflight.expected is not None
    label = token_hex(_LABEL_BYTES)
    default_path = store.directory / f"credit-reset-{label}-{format_compact_instant(now_s)}.md"
    return Journal(
        volume_id=request.volume_id,
        region=context.services.location.region,
        ledger=context.ledger_location,
        label=label,
        by=context.operator,
        begun_s=now_s,
        size_gib=preflight.volume.size_gib,
        original=plan.current,
        target=plan.target,
        away_s=preflight.quickest.away_s,
        lasts_s=preflight.expected.duration_s,
        report=str((request.report or default_path).absolute()),
        tells_id=request.includes_volume_id,
    )


def _state_directory(context: CommandContext) -> Path:
    """The directory of the journals: that of the ledger's file, or the default one."""
    address = context.ledger_address
    if address.kind is not LedgerKind.SQLITE:
        environment = {name: os.environ[name] for name in ("XDG_STATE_HOME",) if name in os.environ}
        address = Settings.from_env(environment, home=Path.home(), default_ledger_id="any").ledger
    return address.path.absolute().parent


def _check_report_path(path: Path | None) -> None:
    """Refuse a place that cannot be written to before anything is done, not hours later.

    Raises:
        SettingsError: naming it.
    """
    if path is not None and not os.access(path.absolute().parent, os.W_OK):
        raise SettingsError(
            f"no report can be written to {path}: its directory is not there or not yours", fix="name another"
        )
