"""``burstctl advise``: what each volume should be for good."""

from collections.abc import Sequence
from typing import Final

import click

from burstctl.advise.collect import MOST_USD, Advised, Request, give_advice
from burstctl.advise.iac import IacKind, definition
from burstctl.advise.json import to_csv, to_document
from burstctl.advise.text import advice_in_words, fleet_in_words, tell_advice
from burstctl.cli.exit_codes import Exit
from burstctl.cli.options import Command, Options, VolumeId, common_options
from burstctl.cli.output import show, to_json
from burstctl.context.context import reading_desk
from burstctl.context.multi_region import show_heading, visit
from burstctl.context.multi_region import to_document as to_regions_document

MOST_DAYS: Final = 62
"""CloudWatch keeps means of five minutes for 63 days."""

MOST_PARAGRAPHS: Final = 5
"""So many volumes named are told at length, more as a table."""


@click.command(
    cls=Command,
    examples=(
        ("burstctl advise", "the whole fleet: what to make of each volume, and what that saves"),
        ("burstctl advise vol-0123456789abcdef0", "one volume, with every reason and risk"),
        ("burstctl advise vol-0123456789abcdef0 --iac terraform", "the lines of its definition to change"),
        ("burstctl advise --days 60 --csv > advice.csv", "two months, for a spreadsheet"),
        ("burstctl advise --region all --csv > advice.csv", "every region that is enabled"),
    ),
    page="runbooks/MovingToGp3.md",
    takes_regions=True,
)
@click.argument("volumes", metavar="[VOLUME]...", nargs=-1, type=VolumeId())
@click.option(
    "--days",
    type=click.IntRange(1, MOST_DAYS),
    default=14,
    show_default=True,
    help="So much history: by the minute up to 14, by five minutes above.",
)
@click.option(
    "--percentile",
    type=click.FloatRange(50, 100),
    default=99.9,
    show_default=True,
    help="Serve what was served in so many per cent of it; 100 is the busiest minute.",
)
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, safe to open in a spreadsheet.")
@click.option(
    "--iac",
    type=click.Choice([str(kind) for kind in IacKind]),
    help="Print what the definitions of the VOLUMEs have to say.",
)
@click.option("--all", "everything", is_flag=True, help="Show every volume, however many there are.")
@click.option("--yes", is_flag=True, help=f"Read it though that costs more than ${MOST_USD:g}.")
@common_options
def advise(
    volumes: Sequence[str],
    options: Options,
    *,
    days: int,
    percentile: float,
    as_csv: bool,
    iac: str | None,
    everything: bool,
    yes: bool,
) -> Exit:
    """Show what each volume should be for good, from its own history.

    Looks at the VOLUMEs given, or at every gp2 volume of the region and those that are flipped; changes
    nothing. It buys what was served, with headroom, at the prices of the region.

    Exits 1 if anything could not be read, 2 if reading costs too much and nobody agreed.
    """
    if sum((as_csv, options.json, iac is not None)) > 1:
        raise click.UsageError("--csv, --json and --iac exclude each other: give one.")
    if iac is not None and not volumes:
        raise click.UsageError("--iac is about volumes that you name: add their ids.")
    request = Request(
        volume_ids=list(dict.fromkeys(volumes)), days=days, percentile=percentile, assumes_yes=yes
    )
    if options.is_for_several:
        if volumes:
            raise click.UsageError("VOLUMEs are in one region: give --region once, with its name.")
        return _advise_regions(options, request, as_csv=as_csv, everything=everything)
    with reading_desk(options) as desk:
        advised = give_advice(desk, request)
        if options.json:
            show(to_json(to_document(advised)))
        elif as_csv:
            show(to_csv(advised))
        elif advised.advice:
            show(_for_people(advised, iac, everything=everything))
        tell_advice(advised)
        return Exit.FAILED if advised.has_failed else Exit.FINE


def _advise_regions(options: Options, request: Request, *, as_csv: bool, everything: bool) -> Exit:
    every: list[Advised] = []

    def look(here: Options) -> Exit:
        with reading_desk(here) as desk:
            advised = give_advice(desk, request)
        if not (options.json or as_csv) and advised.advice:
            show_heading(advised.region, is_first=not any(each.advice for each in every))
            show(_for_people(advised, None, everything=everything))
        every.append(advised)
        tell_advice(advised)
        return Exit.FAILED if advised.has_failed else Exit.FINE

    visited = visit(options, look)
    if options.json:
        show(to_json(to_regions_document([to_document(each) for each in every], visited)))
    elif as_csv:
        show(to_csv(*every))
    return visited.exit


def _for_people(advised: Advised, iac: str | None, *, everything: bool) -> str:
    if iac is not None:
        return "\n\n".join(definition(each, IacKind(iac)) for each in advised.advice)
    if not advised.request.is_for_all and len(advised.advice) <= MOST_PARAGRAPHS:
        return "\n\n".join(advice_in_words(each, advised) for each in advised.advice)
    return fleet_in_words(advised, everything=everything or not advised.request.is_for_all)
