"""``burstctl backtest``: what the watchdog would have done with what was recorded."""

import os
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from time import time
from typing import Final

import click

from burstctl.backtest.backtest import Backtest, CalmSieve, Question, run_backtest
from burstctl.backtest.csv_input import MOST_GIB, read_recordings
from burstctl.backtest.json import to_document
from burstctl.backtest.load import MOST_DAYS, MOST_USD, Recorded, Request, from_files, read_recorded
from burstctl.backtest.progress import DayBar
from burstctl.backtest.text import fleet_in_words, tell_backtest, volume_in_words
from burstctl.cli.exit_codes import Exit
from burstctl.cli.options import Command, Options, Span, VolumeId, common_options
from burstctl.cli.output import say, show, to_json
from burstctl.context.active_policy import PolicySource, find_policy
from burstctl.context.context import reading_desk
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.location import Place
from burstwatch.core.policy.policy import Policy

_DAYS: Final = 14
_SHORTEST_LAG: Final = timedelta(minutes=1)
_LONGEST_LAG: Final = timedelta(hours=1)
_SOMEWHERE: Final = "us-east-1"


@click.command(
    cls=Command,
    examples=(
        ("burstctl backtest", "two weeks of the whole fleet, as if all had opted in"),
        ("burstctl backtest vol-0123456789abcdef0", "one volume, with its story line by line"),
        ("burstctl backtest --days 60 --target io1 --policy strict.yaml", "another policy, another target"),
        ("burstctl backtest --csv ci-7.csv --size 100", "history from elsewhere; AWS is not asked"),
    ),
    page="runbooks/BeforeAuto.md",
)
@click.argument("volumes", metavar="[VOLUME]...", nargs=-1)
@click.option(
    "--days",
    type=click.IntRange(1, MOST_DAYS),
    metavar="N",
    help=f"So much history, {_DAYS} by default: by the minute up to 14, by five minutes above. Of a FILE, its"
    " last days; all by default.",
)
@click.option(
    "--csv",
    "files",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="A recording in place of AWS, one volume a file; further words are FILEs as well. Columns: time,"
    " burst_balance_pct, read_ops, write_ops for each minute, or each five; size_gib, or --size.",
)
@click.option(
    "--size", type=click.IntRange(1, MOST_GIB), metavar="GIB", help="How large the volume in each FILE is."
)
@click.option(
    "--target",
    type=click.Choice([str(VolumeType.GP3), str(VolumeType.IO1), str(VolumeType.IO2)]),
    help="Flip to this type, in place of the policy's; a volume's own tag still counts.",
)
@click.option(
    "--as-tagged", is_flag=True, help="Each volume in the mode of its tags, in place of all in mode auto."
)
@click.option(
    "--lag",
    type=Span(_SHORTEST_LAG, _LONGEST_LAG),
    metavar="SPAN",
    help="CloudWatch shows a minute this long after its start. Default: the policy's metric_lag.",
)
@click.option("--all", "everything", is_flag=True, help="Show every volume, also those with nothing to tell.")
@click.option("--yes", is_flag=True, help=f"Read it though that costs more than ${MOST_USD:g}.")
@common_options
def backtest(
    volumes: Sequence[str],
    options: Options,
    *,
    days: int | None,
    files: Sequence[Path],
    size: int | None,
    target: str | None,
    as_tagged: bool,
    lag: timedelta | None,
    everything: bool,
    yes: bool,
) -> Exit:
    """Tell what the watchdog would have done, had this policy run: alerts, flips, stalls avoided, dollars.

    Replays the history of the VOLUMEs, or of every gp2 volume of the region, through the watchdog itself, as
    if each had opted in. Only reads: nothing is alerted, modified or written down.

    Exits 1 if anything could not be read, 2 if reading costs too much and nobody agreed.
    """
    asked = partial(_question, lag=lag, as_tagged=as_tagged, target=target)
    if files:
        source = find_policy(options.policy, os.environ)
        place = Place(region=options.region or os.environ.get("AWS_REGION") or _SOMEWHERE)
        sieve = CalmSieve(asked(source.read(), source, place))
        say(f"policy: {source}")
        recorded = from_files(read_recordings([*files, *map(Path, volumes)], size), days, sieve)
        return _answer(_replay(recorded, sieve), options, time(), everything=everything)
    if size is not None:
        raise click.UsageError("--size is about files: add --csv FILE.")
    ids = [VolumeId().convert(each, None, click.get_current_context()) for each in volumes]
    request = Request(volume_ids=list(dict.fromkeys(ids)), days=days or _DAYS, assumes_yes=yes)
    with reading_desk(options) as desk:
        sieve = CalmSieve(asked(desk.shell.policy, desk.policy_source, desk.shell.place))
        recorded = read_recorded(desk, request, sieve)
        return _answer(_replay(recorded, sieve), options, desk.shell.clock(), everything=everything)


def _question(
    policy: Policy,
    source: PolicySource,
    place: Place,
    *,
    lag: timedelta | None,
    as_tagged: bool,
    target: str | None,
) -> Question:
    return Question(
        policy=policy,
        policy_place=source.place,
        place=place,
        lag_s=int((lag or policy.cadence.metric_lag).total_seconds()),
        as_tagged=as_tagged,
        target=VolumeType(target) if target else None,
    )


def _replay(recorded: Recorded, sieve: CalmSieve) -> Backtest:
    bar = DayBar()
    bar.begin("replaying")
    try:
        return run_backtest(recorded, sieve, report_progress=bar.report)
    finally:
        bar.end()


def _answer(found: Backtest, options: Options, now_s: float, *, everything: bool) -> Exit:
    if options.json:
        show(to_json(to_document(found, now_s)))
    elif len(found.tallies) == 1:
        show(volume_in_words(found))
    elif found.tallies:
        show(fleet_in_words(found, everything=everything))
    tell_backtest(found)
    return Exit.FAILED if found.recorded.has_failed else Exit.FINE
