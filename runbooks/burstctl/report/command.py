"""``burstctl report``: the fleet on one page, to look at, to send and to print."""

import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import click

from burstctl.cli.atomic_file import check_writable, shown_path, write_whole
from burstctl.cli.exit_codes import Exit
from burstctl.cli.options import Command, Options, Span, common_options
from burstctl.cli.output import complain, say, show, to_json
from burstctl.cli.text_layout import LONGEST_SENTENCE
from burstctl.context.context import reading_desk
from burstctl.render.pass_summary import tell_failures, tell_holds
from burstctl.report.activity import count_deeds
from burstctl.report.collect import MOST_USD, Reported, make_report
from burstctl.report.page import render_page, require_templates
from burstwatch.core.text import format_instant, printable

SCHEMA: Final = "burstwatch.page/v1"
STDOUT: Final = Path("-")
_DAY: Final = timedelta(hours=24)


@click.command(
    cls=Command,
    examples=(
        ("burstctl report --html report.html", "the fleet as one page that works from disk"),
        ("burstctl report --html week.html --last 7d", "with what happened in a week"),
        ("burstctl report --html - | ssh web 'cat > fleet.html'", "to wherever it is wanted"),
    ),
    page="runbooks/README.md",
)
@click.option(
    "--html",
    "path",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the page to FILE, - for stdout; FILE is replaced as a whole.",
)
@click.option(
    "--last",
    type=Span(timedelta(hours=1), timedelta(days=62)),
    default="24h",
    show_default=True,
    metavar="SPAN",
    help="With what happened in so long, such as 6h or 7d.",
)
@click.option("--yes", is_flag=True, help=f"Make it though reading costs more than ${MOST_USD:g}.")
@common_options
def report(path: Path, options: Options, *, last: timedelta, yes: bool) -> Exit:
    """Write the fleet on one page: the urgent first, a picture of each, what was done and refused, money.

    Looks at every gp2 volume of the region and those that are flipped; changes nothing. The page is one file:
    it loads nothing, works from disk, sorts and filters, and prints.

    Exits 1 if anything could not be read: the page says what.
    """
    if options.json and path == STDOUT:
        raise click.UsageError("--json and --html - both want stdout: give --html a file.")
    require_templates()
    if path != STDOUT:
        check_writable(path, "--html")
    with reading_desk(options) as desk:
        made = make_report(desk, last=last, assumes_yes=yes)
        tell_failures(made.report)
        if made.is_empty:
            complain(f"nothing could be read, so there is no page; {shown_path(path)} is left as it was")
            return Exit.FAILED
        page = render_page(made, last=last, runbooks_url=desk.shell.policy.alerts.runbooks_url)
        if path == STDOUT:
            _write_out(page)
        else:
            write_whole(path, page.encode(errors="replace"))
        if options.json:
            show(to_json(_document(made, path, page)))
        _tell(made, path, page)
        return Exit.FAILED if made.has_failed else Exit.FINE


def _write_out(page: str) -> None:
    """Write the page to stdout as it is: in another encoding its style and script would not be run."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    show(page)


def _tell(made: Reported, path: Path, page: str) -> None:
    """Say what was made and what it cost; what could not be read is said as it is on the page."""
    tell_holds(made.report.holds, made.report.now_s)
    if made.unread:
        first = printable(next(iter(made.unread.values())), LONGEST_SENTENCE)
        complain(f"there is no picture of {len(made.unread):,} volumes, the first because: {first}")
    size = len(page.encode())
    where = "stdout" if path == STDOUT else shown_path(path)
    volumes = f"{len(made.decisions):,} volume{'' if len(made.decisions) == 1 else 's'}"
    say(
        f"{where}: {volumes} on {size / 1e6:,.2f} MB; {sum(made.api_calls.values()):,} calls to AWS,"
        f" {made.metrics_requested:,} metrics read for ${made.usd_read:.5f}"
    )


def _document(made: Reported, path: Path, page: str) -> dict[str, Any]:
    """What programs want to know of a page that was made; the volumes themselves are in assess --json."""
    money = made.money
    return {
        "schema": SCHEMA,
        "generated_at": format_instant(made.report.now_s),
        "since": format_instant(made.since_s),
        "region": made.report.region,
        "ledger": made.report.ledger,
        "file": str(path),
        "bytes": len(page.encode()),
        "volumes": len(made.decisions),
        "by_level": dict(Counter(str(decision.level) for decision in made.decisions)),
        "faults": sum(decision.assessment.is_fault for decision in made.decisions),
        "told_at_length": len(made.told),
        "without_picture": len(made.unread),
        "deeds": count_deeds(made.deeds),
        "money": {
            "flips_usd": round(money.flips_usd, 6),
            "saved_on_cheaper_targets_usd": round(money.cheaper_usd, 6),
            "saved_by_returning_usd": round(money.returned_usd, 6),
            "away": money.away,
            "away_usd_per_month_more": round(money.away_usd_per_month, 6),
            "fleet_cap": money.fleet_cap,
            "spend_cap_usd_per_month": money.spend_cap_usd,
        },
        "cost": {"metrics_requested": made.metrics_requested, "usd": round(made.usd_read, 6)},
        "failures": list(made.failures),
        "api_calls": dict(made.api_calls),
    }
