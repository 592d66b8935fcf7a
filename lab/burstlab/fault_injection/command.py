"""``burstlab faults``: everything that can go wrong in a story, each in a run of its own."""

import json
import sys
from collections.abc import Sequence
from typing import Final

import click
from rich.console import Console
from rich.progress import Progress

from burstlab.fault_injection.deployments import HOUSES
from burstlab.fault_injection.effects import SAYS
from burstlab.fault_injection.runs import Campaign, NothingToStrikeError, campaign, chosen, clean_run
from burstlab.fault_injection.text import complaint, document, senseless, sentences, table
from burstlab.main import HELP

_COLUMNS: Final = 80
_MOST_SHOWN: Final = 20
_EPILOG: Final = """\b
Examples:
  burstlab faults
  burstlab faults --on desk --only ec2:ModifyVolume
  burstlab faults --on deployed --only "ec2:ModifyVolume #2" --fault timeout
  burstlab faults --list"""


@click.command(context_settings=HELP, epilog=_EPILOG)
@click.option(
    "--on",
    "houses",
    type=click.Choice(list(HOUSES)),
    multiple=True,
    help="From a desk with its ledger in SQLite, or deployed with DynamoDB. Default: both.",
)
@click.option("--only", help='One effect, such as "ec2:ModifyVolume #2", or all of a name.')
@click.option("--fault", help="One fault, an error code, or a column of the table.")
@click.option(
    "--workers", type=click.IntRange(1), default=1, show_default=True, help="Processes that play runs."
)
@click.option("--list", "lists", is_flag=True, help="Say what is not played and why; play nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def faults(
    *,
    houses: Sequence[str],
    only: str | None,
    fault: str | None,
    workers: int,
    lists: bool,
    as_json: bool,
) -> None:
    """Play a whole story once for everything that can go wrong in it, and judge every run.

    Volumes drain, are moved and return, a person holds one, a host reports a stall. Each read of AWS, each
    write of the ledger, each alert and each ModifyVolume is struck in turn with each fault that makes sense;
    the story then goes on by itself and is judged by its laws. Exits with 1 where a run breaks one.
    """
    told = [_play(house, only, fault, workers=workers, lists=lists) for house in houses or HOUSES]
    found = [each for each in told if each is not None]
    if not found:
        raise click.ClickException(_no_such(only, fault, houses or list(HOUSES)))
    if as_json:
        click.echo(json.dumps(document(found), indent=1))
    else:
        _show(found, lists=lists)
    if any(each.broken for each in found):
        sys.exit(1)


def _play(house: str, only: str | None, fault: str | None, *, workers: int, lists: bool) -> Campaign | None:
    """The runs that are wanted; None where this way to run knows none of them."""
    clean = clean_run(house)
    if lists:
        return Campaign(house=house, clean=clean)
    try:
        wanted = chosen(clean, only, fault)
    except NothingToStrikeError:
        return None
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"{house}: runs played", total=len(wanted))
        return campaign(house, wanted, workers=workers, progress=lambda _: progress.advance(task))


def _no_such(only: str | None, fault: str | None, houses: Sequence[str]) -> str:
    """Why there is nothing to play."""
    reasons = []
    for house in houses:
        try:
            chosen(clean_run(house), only, fault)
        except NothingToStrikeError as error:
            reasons.append(str(error))
    return "\n".join(dict.fromkeys(reasons))


def _show(told: Sequence[Campaign], *, lists: bool) -> None:
    console = Console(width=None if sys.stdout.isatty() else _COLUMNS, highlight=False)
    for each in told:
        if lists:
            console.print(senseless(each))
            continue
        console.print(table(each))
        for said in sentences(each):
            console.print(said)
        for outcome in each.broken[:_MOST_SHOWN]:
            console.print(complaint(each.house, outcome))
        if (more := len(each.broken) - _MOST_SHOWN) > 0:
            console.print(f"and {more} more: see --json")
        console.print()
    if lists:
        for fault, says in SAYS.items():
            console.print(f"{fault}: {says}")
