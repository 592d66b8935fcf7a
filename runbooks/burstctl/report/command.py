"""``burstctl report``: the fleet on one page, to look at, to send and to print."""

import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from burstctl.cli.atomic_file import check_writable, display_path, write_atomically
from burstctl.cli.exit_codes import ExitCode
from burstctl.cli.options import Command, Duration, Options, common_options
from burstctl.cli.output import (
    print_error,
    print_failures,
    print_info,
    print_next,
    print_output,
    to_json,
)
from burstctl.context.context import open_readonly
from burstctl.render.pass_summary import (
    print_excused_kinds,
    print_holds,
    print_next_elsewhere,
    print_next_for,
)
from burstctl.render.volume import count_resources
from burstctl.report.activity import count_activities
from burstctl.report.collect import MAX_USD, FleetReport, collect_report
from burstctl.report.page import render_page, require_templates
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.errors import Problem
from burstwatch.core.text import format_count, format_instant, format_usd

if TYPE_CHECKING:
    from documents.report import PageDocument

SCHEMA: Final = "burstwatch.page/v1"
STDOUT: Final = Path("-")


@click.command(
    cls=Command,
    examples=(
        ("burstctl report --html report.html", "the fleet as one page that works from disk"),
        ("burstctl report --html week.html --last 7d", "with what happened in a week"),
        ("burstctl report --html - | ssh web 'cat > fleet.html'", "to another machine"),
    ),
    page="runbooks/README.md",
)
@click.option(
    "--html",
    "path",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the page to FILE (-: stdout); an old FILE is replaced.",
)
@click.option(
    "--last",
    type=Duration(timedelta(hours=1), timedelta(days=62)),
    default="24h",
    show_default=True,
    metavar="SPAN",
    help="The period of the page, such as 6h or 7d.",
)
@click.option("--yes", is_flag=True, help=f"Make it even if reading costs more than ${MAX_USD:g}.")
@common_options
def report(path: Path, options: Options, *, last: timedelta, yes: bool) -> ExitCode:
    """Write the fleet on one page: the urgent first, a picture of each, what was done and refused, money.

    Looks at every resource of the region that the policy watches, and at flipped volumes; without a policy,
    at every kind of resource that you may read. Changes nothing.
    The page is one file: it loads nothing, works from disk, sorts and filters, and prints.

    Exits 1 if anything could not be read: the page says what.
    """
    if options.json and path == STDOUT:
        raise click.UsageError(Problem("--json and --html - both want stdout", "give --html a file"))
    require_templates()
    if path != STDOUT:
        check_writable(path, "--html")
    with open_readonly(options) as context:
        fleet_report = collect_report(context, lookback=last, assumes_yes=yes)
        pass_report = fleet_report.pass_report
        print_failures(pass_report.failures, missing=pass_report.missing, region=pass_report.region)
        if fleet_report.is_empty:
            print_info(f"no page was written, and {display_path(path)} is unchanged")
            if not options.json:
                print_next([options.command("doctor")])
            return ExitCode.FAILED
        page = render_page(
            fleet_report, lookback=last, runbooks_url=context.services.policy.alerts.runbooks_url
        )
        if path == STDOUT:
            _write_to_stdout(page)
        else:
            write_atomically(path, page.encode(errors="replace"))
        if options.json:
            print_output(to_json(_document(fleet_report, path, page)))
        _print_result(fleet_report, path, page)
        if not options.json and (pass_report.decisions or fleet_report.has_failed):
            print_next_for({pass_report.region: options.repeated}, pass_report)
        elif not options.json:
            print_next_elsewhere(options)
        return ExitCode.FAILED if fleet_report.has_failed else ExitCode.OK


def _write_to_stdout(page: str) -> None:
    """Write the page to stdout as it is: in another encoding its style and script would not be run."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    print_output(page)


def _print_result(fleet_report: FleetReport, path: Path, page: str) -> None:
    """Say what was made and what it cost; what could not be read is said as it is on the page."""
    print_holds(fleet_report.pass_report.holds, fleet_report.pass_report.now_s)
    print_excused_kinds(fleet_report.pass_report)
    if fleet_report.unread:
        first = Problem.of(next(iter(fleet_report.unread.values())))
        count = format_count(len(fleet_report.unread), fleet_report.noun)
        print_error(Problem(f"cannot draw {count}: {first.cause}", first.fix))
    size = len(page.encode())
    destination = "stdout" if path == STDOUT else display_path(path)
    print_info(
        f"{destination}: {count_resources(fleet_report.resources)} on {size / 1e6:,.2f} MB;"
        f" {sum(fleet_report.api_calls.values()):,} calls to AWS,"
        f" {fleet_report.metrics_requested:,} metrics read for"
        f" {format_usd(fleet_report.usd_read, decimals=5)}"
    )


def _document(fleet_report: FleetReport, path: Path, page: str) -> "PageDocument":
    """The JSON document about a page that was written; the resources are in ``assess --json``."""
    costs = fleet_report.costs
    return {
        "schema": SCHEMA,
        "generated_at": format_instant(fleet_report.pass_report.now_s),
        "since": format_instant(fleet_report.since_s),
        "region": fleet_report.pass_report.region,
        "ledger": fleet_report.pass_report.ledger,
        "file": str(path),
        "bytes": len(page.encode()),
        "volumes": sum(isinstance(resource, Volume) for resource in fleet_report.resources),
        "resources": len(fleet_report.decisions),
        "by_level": dict(Counter(decision.level for decision in fleet_report.decisions)),
        "faults": sum(decision.assessment.is_fault for decision in fleet_report.decisions),
        "told_at_length": len(fleet_report.details),
        "without_picture": len(fleet_report.unread),
        "deeds": count_activities(fleet_report.activities),
        "money": {
            "flips_usd": round(costs.flips_usd, 6),
            "saved_on_cheaper_targets_usd": round(costs.saved_on_cheaper_usd, 6),
            "saved_by_returning_usd": round(costs.saved_by_return_usd, 6),
            "away": costs.on_target,
            "away_usd_per_month_more": round(costs.on_target_usd_per_month, 6),
            "fleet_cap": costs.fleet_cap,
            "spend_cap_usd_per_month": costs.spend_cap_usd,
        },
        "cost": {"metrics_requested": fleet_report.metrics_requested, "usd": round(fleet_report.usd_read, 6)},
        "failures": list(fleet_report.failures),
        "api_calls": dict(fleet_report.api_calls),
    }
