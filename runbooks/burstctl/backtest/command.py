"""``burstctl backtest``: what the watchdog would have done with what was recorded."""

import os
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from time import time
from typing import Final

import click

from burstctl.backtest.backtest import Backtest, BacktestRequest, CalmVolumeFilter, run_backtest
from burstctl.backtest.csv_input import MAX_GIB, read_recordings
from burstctl.backtest.json import to_document
from burstctl.backtest.load import (
    MAX_DAYS,
    MAX_USD,
    BacktestInput,
    InputRequest,
    load_from_cloudwatch,
    load_from_files,
)
from burstctl.backtest.progress import DayProgressBar
from burstctl.backtest.text import print_notes, render_buckets, render_fleet, render_volume
from burstctl.cli.exit_codes import ExitCode
from burstctl.cli.options import Command, Duration, Options, ResourceName, common_options, last_option
from burstctl.cli.output import print_info, print_next, print_output, to_json
from burstctl.context.active_policy import PolicySource, find_policy_source
from burstctl.context.context import open_readonly
from burstctl.render.pass_summary import print_next_elsewhere
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.errors import Problem
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.policy import Policy
from burstwatch.core.watch.advice import is_flippable

_DEFAULT_DAYS: Final = 14  # the longest past that CloudWatch still has by the minute, within a day
_MIN_LAG: Final = timedelta(minutes=1)
_MAX_LAG: Final = timedelta(hours=1)
_DEFAULT_REGION: Final = "us-east-1"


@click.command(
    cls=Command,
    examples=(
        ("burstctl backtest", "two weeks of the whole fleet, as if all had opted in"),
        ("burstctl backtest ci-7", "one volume, with its history line by line"),
        ("burstctl backtest i-0123456789abcdef0", "the EBS credits of an instance, and its volumes"),
        ("burstctl backtest --last 60d --target io1 --policy strict.yaml", "another policy, another target"),
        ("burstctl backtest --csv ci-7.csv --size 100", "history from a file, without calls to AWS"),
    ),
    page="runbooks/BeforeAuto.md",
)
@click.argument("volumes", metavar="[VOLUME]...", nargs=-1)
@last_option(
    Duration(timedelta(days=1), timedelta(days=MAX_DAYS), in_days=True),
    older="--days",
    text=(
        f"Length of history, {_DEFAULT_DAYS}d by default: by the minute up to 14d, by five minutes above."
        " Of a FILE, its last days; all by default."
    ),
)
@click.option(
    "--csv",
    "files",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help=(
        "A recording in place of AWS, one volume a file; further words are FILEs as well. Columns: time,"
        " burst_balance_pct, read_ops, write_ops for each minute, or each five; size_gib, or --size."
    ),
)
@click.option(
    "--size", type=click.IntRange(1, MAX_GIB), metavar="GIB", help="The size of the volume in each FILE."
)
@click.option(
    "--target",
    type=click.Choice([str(VolumeType.GP3), str(VolumeType.IO1), str(VolumeType.IO2)]),
    help="Flip to this type, instead of the policy's; a volume's own tag still counts.",
)
@click.option(
    "--as-tagged", is_flag=True, help="Each volume in the mode of its tags, in place of all in mode auto."
)
@click.option(
    "--lag",
    type=Duration(_MIN_LAG, _MAX_LAG),
    metavar="SPAN",
    help="CloudWatch shows a minute this long after its start. Default: the policy's metric_lag.",
)
@click.option("--all", "everything", is_flag=True, help="Show every volume, even if nothing happened.")
@click.option("--yes", is_flag=True, help=f"Read the history even if that costs more than ${MAX_USD:g}.")
@common_options
def backtest(
    volumes: Sequence[str],
    options: Options,
    *,
    last: timedelta | None,
    files: Sequence[Path],
    size: int | None,
    target: str | None,
    as_tagged: bool,
    lag: timedelta | None,
    everything: bool,
    yes: bool,
) -> ExitCode:
    """Show what the watchdog would have done under this policy: alerts, flips, avoided stalls, cost.

    Replays the history of the VOLUMEs, or of every watched volume of the region, through the watchdog itself,
    as if each had opted in. It only reads: it sends, modifies and records nothing. What is never flipped has
    only its alerts shown: st1 and sc1 volumes; and instances, file systems and databases, if the policy
    watches them or you give their IDs.

    Exits 1 if anything could not be read, 2 if reading costs too much and --yes is missing.
    """
    days = None if last is None else last.days
    make_request = partial(_backtest_request, lag=lag, as_tagged=as_tagged, target=target)
    if files:
        source = find_policy_source(options.policy, os.environ)
        location = AwsLocation(region=options.region or os.environ.get("AWS_REGION") or _DEFAULT_REGION)
        calm_filter = CalmVolumeFilter(make_request(source.read(), source, location))
        print_info(f"policy: {source}")
        backtest_input = load_from_files(
            read_recordings([*files, *map(Path, volumes)], size), days, calm_filter
        )
        return _report(_replay(backtest_input, calm_filter), options, time(), shows_all=everything)
    if size is not None:
        raise click.UsageError(Problem("--size is about files", "add --csv FILE"))
    names = [ResourceName().convert(word, None, click.get_current_context()) for word in volumes]
    input_request = InputRequest(
        names=list(dict.fromkeys(names)), days=days or _DEFAULT_DAYS, assumes_yes=yes
    )
    with open_readonly(options) as context:
        calm_filter = CalmVolumeFilter(
            make_request(context.services.policy, context.policy_source, context.services.location)
        )
        backtest_input = load_from_cloudwatch(context, input_request, calm_filter)
        return _report(
            _replay(backtest_input, calm_filter), options, context.services.clock(), shows_all=everything
        )


def _backtest_request(
    policy: Policy,
    source: PolicySource,
    location: AwsLocation,
    *,
    lag: timedelta | None,
    as_tagged: bool,
    target: str | None,
) -> BacktestRequest:
    return BacktestRequest(
        policy=policy,
        policy_location=source.location,
        location=location,
        lag_s=int((lag or policy.cadence.metric_lag).total_seconds()),
        as_tagged=as_tagged,
        target=VolumeType(target) if target else None,
    )


def _replay(backtest_input: BacktestInput, calm_filter: CalmVolumeFilter) -> Backtest:
    bar = DayProgressBar()
    bar.begin("replaying")
    try:
        return run_backtest(backtest_input, calm_filter, report_progress=bar.report)
    finally:
        bar.end()


def _report(result: Backtest, options: Options, now_s: float, *, shows_all: bool) -> ExitCode:
    if options.json:
        print_output(to_json(to_document(result, now_s)))
    elif len(result.tallies) == 1:
        print_output(render_volume(result))
    elif result.tallies:
        print_output(render_fleet(result, shows_all=shows_all))
    elif result.bucket_tallies:
        print_output(render_buckets(result))
    print_notes(result)
    if not options.json and result.tallies and result.source.selection.metrics_requested:
        names = [result.tallies[0].volume.volume_id] if len(result.tallies) == 1 else []
        has_advice = any(is_flippable(tally.volume) for tally in result.tallies)
        command = "advise" if has_advice else "explain" if names else "assess"
        print_next([options.command(command, *names)])
    elif not (options.json or result.tallies or result.source.selection.has_failed):
        print_next_elsewhere(options)
    return ExitCode.FAILED if result.source.selection.has_failed else ExitCode.OK
