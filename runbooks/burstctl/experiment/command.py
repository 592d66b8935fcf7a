"""``burstctl experiment``: what nobody has measured, measured with a volume of one's own."""

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from secrets import token_hex
from typing import Final

import click

from burstctl.cli.confirm import is_confirmed, require_somebody_to_ask
from burstctl.cli.exit_codes import Exit
from burstctl.cli.options import Command, Options, Span, VolumeId, common_options, write_examples
from burstctl.cli.output import complain, say, show, to_json
from burstctl.cli.signals import StopSignal
from burstctl.cli.text_layout import COLUMNS, LONGEST_SENTENCE, hang
from burstctl.context.context import Desk, modifying_desk
from burstctl.experiment.credit_reset import LEAST_AWAY_S, MOST_AWAY_S
from burstctl.experiment.journal import Journal, Shelf, compact
from burstctl.experiment.plan_json import outline_document
from burstctl.experiment.plan_text import outline_in_words
from burstctl.experiment.preflight import Examined, Wanted, examine
from burstctl.experiment.report import Finding, conclusion_words, to_document
from burstctl.experiment.runner import Experiment
from burstctl.experiment.stages import go_on_words, stage_words
from burstctl.experiment.waiting import LONGEST_NAP_S, Patience, Stopped
from burstctl.flip.command import Target
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.text import format_duration, printable
from burstwatch.wiring.settings import LedgerKind, Settings, SettingsError

PAGE: Final = "runbooks/CreditResetExperiment.md"
EXAMPLES: Final = (
    (
        "burstctl experiment credit-reset vol-0123456789abcdef0 --dry-run",
        "whether it could tell, for how much",
    ),
    ("burstctl experiment credit-reset vol-0123456789abcdef0", "asks, then takes an hour or more"),
    (
        "burstctl experiment credit-reset vol-0123456789abcdef0 --to io2 --away 1h",
        "by way of io2, and there for an hour; run it again to go on after Ctrl-C",
    ),
    ("burstctl experiment credit-reset vol-0123456789abcdef0 --abandon", "bring it home, and no answer"),
)
_LABEL_BYTES: Final = 4
_FRESH_FOR_S: Final = 900
"""An answer later than this is to a plan that nobody knows still holds."""
_AWAY: Final = Span(timedelta(seconds=LEAST_AWAY_S), timedelta(seconds=MOST_AWAY_S))


class _ExperimentGroup(click.Group):
    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        write_examples(formatter, EXAMPLES[:2], PAGE)


@click.group(cls=_ExperimentGroup, invoke_without_command=True)
@click.pass_context
def experiment(context: click.Context) -> None:
    """Measure what nobody documents, with a volume that you name.

    An experiment modifies that volume and brings it back, under the guards of every flip.
    """
    if context.invoked_subcommand is None:
        show(context.get_help())


@experiment.command(name="credit-reset", cls=Command, examples=EXAMPLES, page=PAGE)
@click.argument("volume_id", metavar="VOLUME", type=VolumeId())
@click.option(
    "--to",
    "target",
    type=Target(),
    default="io1",
    metavar="io1|io2|gp3",
    help="What it becomes. Default: io1.",
)
@click.option(
    "--away",
    type=_AWAY,
    metavar="SPAN",
    help="At least so long, 15m to 12h; longer where it takes that to tell.",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where the report goes. Default: a file beside the ledger.",
)
@click.option("--tell-id", "tells_id", is_flag=True, help="Write the volume's id into the report.")
@click.option("--abandon", is_flag=True, help="Bring the volume home and end it, without an answer.")
@click.option("--dry-run", is_flag=True, help="Show the plan, or how far it has come; do nothing.")
@click.option("--yes", is_flag=True, help="Do not ask; needed where there is no terminal.")
@common_options
def credit_reset(
    volume_id: str,
    options: Options,
    *,
    target: VolumeType,
    away: timedelta | None,
    report: Path | None,
    tells_id: bool,
    abandon: bool,
    dry_run: bool,
    yes: bool,
) -> Exit:
    """Find out what becomes of a burst balance on the way from gp2 to io1 and back.

    Nobody knows whether it is kept, refilled, reset or emptied. For a volume whose burst nobody minds losing:
    it is held against the watchdog, modified, left alone for as long as it takes to tell the answers apart,
    and returned; the datapoints after that tell, or do not, and a report to share says why.

    It takes an hour or more. After Ctrl-C, or whatever ended it, the same command goes on.

    Exits 0 with any conclusion, 1 if there is none, 4 if something speaks against it, 130 if the answer is no
    or it was interrupted.
    """
    wanted = Wanted(
        volume_id=volume_id,
        target=target,
        away=away,
        report=report,
        tells_id=tells_id,
        dry_run=dry_run,
        assumes_yes=yes,
    )
    with modifying_desk(options) as desk:
        shelf = Shelf(_state_directory(desk))
        known = _open_one(desk, shelf, volume_id)
        if known is not None and dry_run:
            return _show_stage(desk, known)
        if known is not None:
            return _go_on(desk, shelf, wanted, abandons=abandon)
        if abandon:
            say(f"{volume_id}: nothing to abandon, there is no experiment with it")
            return Exit.FINE
        return _begin(desk, shelf, wanted)


def _begin(desk: Desk, shelf: Shelf, wanted: Wanted) -> Exit:
    """Show what would be done, ask, and do it."""
    if not wanted.dry_run:
        require_somebody_to_ask(assumes_yes=wanted.assumes_yes)
        _check_report(wanted.report)
    desk.progress.begin("reading")
    try:
        examined = examine(desk, wanted)
    finally:
        desk.progress.end()
    for failure in examined.datapoints.failures:
        complain(printable(failure, LONGEST_SENTENCE))
    is_refused = bool(examined.objections)
    ends_here = is_refused or wanted.dry_run
    _show_plan(desk, examined, as_document=ends_here, asks=not wanted.assumes_yes)
    if examined.datapoints.failures:
        return Exit.FAILED
    if is_refused:
        return Exit.FINE if desk.options.exit_zero else Exit.REFUSED
    if wanted.dry_run:
        say("a dry run: nothing was modified, nothing was recorded")
        return Exit.FINE
    question = f"May {wanted.volume_id} lose its burst for this, and shall it begin?"
    if not is_confirmed(question, assumes_yes=wanted.assumes_yes):
        return Exit.INTERRUPTED
    if (age_s := desk.shell.clock() - examined.at_s) > _FRESH_FOR_S:
        complain(
            f"nothing was done: the plan above is {format_duration(age_s)} old, and much may have changed"
            " since: run it again"
        )
        return Exit.FINE if desk.options.exit_zero else Exit.REFUSED
    with shelf.kept_for(wanted.volume_id):
        if shelf.open_one(wanted.volume_id) is not None:
            raise SettingsError("another process has begun it meanwhile: the same command goes on with it")
        journal = _journal(desk, shelf, wanted, examined)
        shelf.save(journal)
        return _run(desk, shelf, journal)


def _go_on(desk: Desk, shelf: Shelf, wanted: Wanted, *, abandons: bool) -> Exit:
    """Go on where the last process stopped; nothing is asked again."""
    if wanted.report is not None:
        _check_report(wanted.report)
    with shelf.kept_for(wanted.volume_id):
        journal = shelf.open_one(wanted.volume_id)
        if journal is None:
            say(f"{wanted.volume_id}: it was over a moment ago")
            return Exit.FINE
        report = str(wanted.report.absolute()) if wanted.report else journal.report
        journal = replace(
            journal,
            report=report,
            tells_id=journal.tells_id or wanted.tells_id,
            is_abandoned=journal.is_abandoned or abandons,
        )
        shelf.save(journal)
        say(f"going on: {stage_words(journal)}")
        return _run(desk, shelf, journal)


def _run(desk: Desk, shelf: Shelf, journal: Journal) -> Exit:
    with desk.recording() as recording, StopSignal() as stop:
        patience = Patience(clock=recording.shell.clock, stop=stop, longest_s=LONGEST_NAP_S[recording.clock])
        under_way = Experiment(desk=recording, shelf=shelf, journal=journal, patience=patience)
        try:
            under_way.run()
        except Stopped:
            say(f"interrupted: {stage_words(under_way.journal)}; {go_on_words(under_way.journal)}")
            _show_finding(desk, Finding(journal=under_way.journal, now_s=desk.shell.clock()))
            return Exit.INTERRUPTED
        except BurstwatchError:
            say(f"it stopped here: {stage_words(under_way.journal)}; {go_on_words(under_way.journal)}")
            raise
        finding = under_way.finding()
        _show_finding(desk, finding)
        return _exit_of(desk, finding, was_refused=under_way.was_refused)


def _exit_of(desk: Desk, finding: Finding, *, was_refused: bool) -> Exit:
    if finding.journal.failed is None:
        return Exit.FINE
    if was_refused:
        return Exit.FINE if desk.options.exit_zero else Exit.REFUSED
    return Exit.FAILED


def _show_plan(desk: Desk, examined: Examined, *, as_document: bool, asks: bool) -> None:
    """The plan on stdout; with ``--json`` it is a document where nothing comes after it."""
    text = outline_in_words(examined, desk.shell.policy)
    if not desk.options.json:
        show(text)
    elif as_document:
        show(to_json(outline_document(desk, examined)))
    elif asks:
        say(text, as_it_is=True)


def _show_stage(desk: Desk, journal: Journal) -> Exit:
    finding = Finding(journal=journal, now_s=desk.shell.clock())
    if desk.options.json:
        show(to_json(to_document(finding, ledger=desk.ledger)))
    else:
        said = f"{stage_words(journal)}; {go_on_words(journal)}"
        show("\n".join(hang(printable(said, LONGEST_SENTENCE), COLUMNS)))
    return Exit.FINE


def _show_finding(desk: Desk, finding: Finding) -> None:
    journal = finding.journal
    if desk.options.json:
        show(to_json(to_document(finding, ledger=desk.ledger)))
    elif journal.is_over:
        lines = conclusion_words(finding)
        show("\n".join(line for each in lines for line in hang(printable(each, LONGEST_SENTENCE), COLUMNS)))
    if finding.conclusion is not None:
        say(f"the report, fit to be shared: {journal.report}")


def _open_one(desk: Desk, shelf: Shelf, volume_id: str) -> Journal | None:
    """The experiment with this volume that is not over, if this desk is where it was begun.

    Raises:
        SettingsError: it was begun in another region, or with another ledger.
    """
    journal = shelf.open_one(volume_id)
    if journal is None:
        return None
    here = (desk.shell.place.region, desk.ledger)
    if here != (journal.region, journal.ledger):
        raise SettingsError(
            f"the experiment with {volume_id} was begun in {journal.region} with ledger {journal.ledger},"
            f" this is {here[0]} with {here[1]}: add --region {journal.region} --ledger {journal.ledger}"
        )
    return journal


def _journal(desk: Desk, shelf: Shelf, wanted: Wanted, examined: Examined) -> Journal:
    plan, now_s = examined.planned.plan, int(desk.shell.clock())
    assert plan.target is not None
    assert plan.now is not None
    assert examined.quickest is not None
    assert examined.reckoned is not None
    label = token_hex(_LABEL_BYTES)
    default = shelf.directory / f"credit-reset-{label}-{compact(now_s)}.md"
    return Journal(
        volume_id=wanted.volume_id,
        region=desk.shell.place.region,
        ledger=desk.ledger,
        label=label,
        by=desk.by,
        begun_s=now_s,
        size_gib=examined.volume.size_gib,
        original=plan.now,
        target=plan.target,
        away_s=examined.quickest.away_s,
        lasts_s=examined.reckoned.lasts_s,
        report=str((wanted.report or default).absolute()),
        tells_id=wanted.tells_id,
    )


def _state_directory(desk: Desk) -> Path:
    """Where the journals are: beside the ledger, or where a ledger of this machine would be."""
    address = desk.address
    if address.kind is not LedgerKind.SQLITE:
        named = {name: os.environ[name] for name in ("XDG_STATE_HOME",) if name in os.environ}
        address = Settings.from_env(named, home=Path.home(), place="any").ledger
    return address.path.absolute().parent


def _check_report(path: Path | None) -> None:
    """Refuse a place that cannot be written to before anything is done, not hours later.

    Raises:
        SettingsError: naming it.
    """
    if path is not None and not os.access(path.absolute().parent, os.W_OK):
        raise SettingsError(
            f"no report can be written to {path}: its directory is not there or not yours; name another"
        )
