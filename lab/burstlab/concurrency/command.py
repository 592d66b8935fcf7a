"""``burstlab crowd``: runs several watchdogs at once, and compares their result with that of one."""

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Final

import click

from burstlab.concurrency.invariants import SCHEMA, Verdict, check_invariants
from burstlab.concurrency.runner import ClockMode, RunConfig, run
from burstlab.concurrency.scenario import MINUTES, VOLUMES
from burstlab.deployed.local_aws import LocalAws
from burstlab.main import HELP
from burstlab.output import make_table, output_console, print_json, show_progress
from burstwatch.core.errors import BurstwatchError

_RANGE: Final = re.compile(r"([1-9]\d{0,3})(?:-([1-9]\d{0,3}))?")


class _Range(click.ParamType[range]):
    """A whole number, or the first and the last of several."""

    name = "n or n-m"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> range:
        match = _RANGE.fullmatch(str(value))
        if match is None or int(match[2] or match[1]) < int(match[1]):
            self.fail(f"{value!r}: write a number from 1, or two as in 1-40.", param, ctx)
        return range(int(match[1]), int(match[2] or match[1]) + 1)


@click.command(context_settings=HELP, epilog="Example: burstlab crowd --watchdogs 2 --kill-at 1-40")
@click.option("--watchdogs", type=click.IntRange(2, 50), default=10, show_default=True, help="Processes.")
@click.option(
    "--ledger",
    type=click.Choice(["sqlite", "dynamodb"]),
    default="sqlite",
    show_default=True,
    help="One file, or a table of the local AWS (`make setup` installs it).",
)
@click.option(
    "--clocks",
    type=click.Choice([str(mode) for mode in ClockMode]),
    default=str(ClockMode.ACCURATE),
    show_default=True,
    help="All right; up to 90 s apart; the last one an hour wrong; or each jumping.",
)
@click.option(
    "--kill-at",
    type=_Range(),
    metavar="N[-M]",
    help="Kill one of them (kill -9) at its N-th effect, after each restart as well; one run for each N.",
)
@click.option("--minutes", type=click.IntRange(1, MINUTES), default=MINUTES, hidden=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def crowd(
    *, watchdogs: int, ledger: str, clocks: str, kill_at: range | None, minutes: int, as_json: bool
) -> None:
    """Run several watchdogs, each in a process, on one fleet with one ledger.

    Each runs the loop of `burstctl watch --act` and gets the time together with the others. The hour has
    drains, flips, returns, a window, a hold and a change by others. These invariants must hold: one
    modification for each decision, every alert sent, no two ticks in a row missed, no lasting error, and a
    ledger that agrees with AWS. The result must be that of a single watchdog. Exits 1 if an invariant is
    broken.
    """
    setups = [
        RunConfig(
            watchdogs=watchdogs,
            ledger=ledger,
            clock_mode=ClockMode(clocks),
            kill_at_effect=effect_number,
            minutes=minutes,
        )
        for effect_number in (kill_at or [None])
    ]
    try:
        verdicts = list(_run_all(setups))
    except BurstwatchError as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        document = {"schema": SCHEMA, "runs": [verdict.to_document() for verdict in verdicts]}
        print_json(document)
    else:
        _print_table(verdicts, clocks)
    if any(verdict.broken for verdict in verdicts):
        sys.exit(1)


def _run_all(setups: Sequence[RunConfig]) -> Iterator[Verdict]:
    """Run one watchdog alone, and then each group of several to compare with it."""
    with ExitStack() as stack:
        advance = stack.enter_context(show_progress("runs done", len(setups) + 1))
        aws = stack.enter_context(LocalAws()) if setups[0].ledger == "dynamodb" else None
        alone = RunConfig(watchdogs=1, ledger=setups[0].ledger, minutes=setups[0].minutes)
        yield (solo := check_invariants(run(alone, aws=aws)))
        for setup in setups:
            advance()
            yield check_invariants(run(setup, aws=aws), solo=solo)


def _print_table(verdicts: Sequence[Verdict], clocks: str) -> None:
    console = output_console()
    first = verdicts[0]
    counts = ("killed", "late", "twice", "decided", "modified", "alerts", "again", "broken")
    table = make_table(
        f"{len(VOLUMES)} volumes, {first.ticks} minutes, {first.ledger}, clocks {clocks}",
        {"watchdogs": "left", **dict.fromkeys(counts, "right")},
    )
    for verdict in verdicts:
        label = (
            f"{verdict.watchdogs}"
            if verdict.dies_at is None
            else f"{verdict.watchdogs}, at {verdict.dies_at}"
        )
        cells = (
            verdict.deaths,
            verdict.late_ticks,
            verdict.doubled_ticks,
            verdict.decisions,
            verdict.modifications,
            verdict.delivered_alerts,
            verdict.doubled_alerts,
            len(verdict.broken),
        )
        table.add_row(label, *(f"{cell:,}" for cell in cells), style="bold red" if verdict.broken else "")
    console.print(table)
    console.print("late: ticks done by the next one; twice: ticks done by several;")
    console.print("alerts: sent; again: alerts sent twice; broken: invariants\n")
    for verdict in verdicts:
        for violation in verdict.broken:
            console.print(
                f"[red]broken[/red] with {verdict.watchdogs} watchdogs: {violation}", soft_wrap=True
            )
    errors: Counter[str] = Counter()
    for verdict in verdicts:
        errors.update(verdict.errors)
    for error, count in errors.items():
        console.print(f"{count:,} times: {error}", soft_wrap=True)
