"""``burstlab month``: does the watchdog drift, grow or leak in a month of minutes?"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Final

import click

from burstlab.harness.world import temporary_directory
from burstlab.main import HELP
from burstlab.output import make_table, output_console, print_json, show_progress
from burstlab.soak.runner import Day, run
from burstlab.soak.scenario import DAY_MIN, VOLUMES
from burstwatch.core.errors import BurstwatchError

SCHEMA: Final = "burstwatch.lab.month/v1"
_WEEK_DAYS: Final = 7
_LAB_RETENTION_DAYS: Final = 15  # until then the lab's own history grows, as CloudWatch's would
# an empty schema; indexes, and pages that are partly empty, on top of the history's text
_BASE_LEDGER_KIB: Final = 256.0
_STORAGE_FACTOR: Final = 3.0
_MAX_LOG_KIB: Final = 8_192.0
"""SQLite writes it back into the ledger at 1,000 pages of 4 KiB."""
# the watchdog holds a few objects for each volume, and volumes come and go
_MAX_EXTRA_OBJECTS: Final = 100
# timing varies on a shared machine: short ticks may differ by a fifth of a millisecond
_MAX_SLOWDOWN_FACTOR: Final = 1.5
_MAX_SLOWDOWN_MS: Final = 0.2
_MAX_EXTRA_MIB: Final = 8.0
"""An allocator's fragments; a leak of a KiB per tick exceeds it within six days."""


@click.command(context_settings=HELP, epilog="Example: burstlab month --days 7")
@click.option("--days", type=click.IntRange(1, 366), default=30, show_default=True)
@click.option(
    "--keep",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Keep the ledger in this file, which must be new. Default: a temporary file.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def month(*, days: int, keep: Path | None, as_json: bool) -> None:
    """Run a pass at every minute of a month, and measure the watchdog at the end of each day.

    The fleet is small and never quiet for long. It has nightly batches that are flipped and return, builds,
    two windows with time zones, holds, gaps, attachments, others' changes, and volumes that come and go. The
    passes are the real ones, with an SQLite file as ledger; the lab runs in the same process. Exits 1 if
    anything drifts, grows beyond its history, or leaks.
    """
    if keep is not None and keep.exists():
        raise click.ClickException(f"{keep} exists: name a new file, or move it away")
    with temporary_directory("burstlab-month-") as directory:
        try:
            measured_days = list(_run_days(days, keep or directory / "ledger.db"))
        except BurstwatchError as error:
            raise click.ClickException(str(error)) from error
    violations = find_violations(measured_days)
    if as_json:
        document = {
            "schema": SCHEMA,
            "days": [day.to_document() for day in measured_days],
            "broken": violations,
        }
        print_json(document)
    else:
        _print_table(measured_days, violations)
    if violations:
        sys.exit(1)


def _run_days(days: int, path: Path) -> Iterator[Day]:
    with show_progress("days", days) as advance:
        yield from run(days, path.absolute(), report_progress=advance)


def find_violations(days: Sequence[Day]) -> list[str]:
    """The violations of each day, and those over all days."""
    return [f"day {day.number}: {violation}" for day in days for violation in _check_day(day)] + list(
        _check_trend(days)
    )


def _check_day(day: Day) -> Iterator[str]:
    """What must hold at the end of every day."""
    zero_counts = {
        "ticks missed": day.missed_ticks,
        "seconds between the watermark and the last sweep": day.watermark_lag_s,
        "intents unknown to AWS": day.open_intents,
        "alerts waiting": day.undelivered,
        "alerts sent twice": day.doubled_alerts,
        "failures reported": day.failures,
    }
    yield from (f"{count} {description}" for description, count in zero_counts.items() if count)
    row_limits = {"states": day.volumes + 1, "reservations": day.volumes, "deliveries": 0, "channels": 1}
    row_limits |= {"claimed_ticks": 4, "completed_ticks": 2, "holds": day.volumes}
    yield from (
        f"{day.rows[table]} rows of {table}, at most {max_rows} are explained"
        for table, max_rows in row_limits.items()
        if day.rows[table] > max_rows
    )
    max_ledger_kib = _BASE_LEDGER_KIB + _STORAGE_FACTOR * day.history_kib
    if day.ledger_kib > max_ledger_kib:
        yield f"the ledger has {day.ledger_kib:,.0f} KiB, its history explains {max_ledger_kib:,.0f}"
    if day.log_kib > _MAX_LOG_KIB:
        yield f"the log beside the ledger has {day.log_kib:,.0f} KiB, at most {_MAX_LOG_KIB:,.0f} are due"


def _check_trend(days: Sequence[Day]) -> Iterator[str]:
    """What must not rise from the first day, or week, to the last."""
    first, last = days[0], days[-1]
    if last.objects > first.objects + _MAX_EXTRA_OBJECTS:
        yield f"{last.objects:,} objects of the watchdog are alive, {first.objects:,} were on day 1"
    if len(days) >= 2 * _WEEK_DAYS:
        first_week_ms, last_week_ms = (
            median(day.idle_ms for day in week) for week in (days[:_WEEK_DAYS], days[-_WEEK_DAYS:])
        )
        if last_week_ms > first_week_ms * _MAX_SLOWDOWN_FACTOR + _MAX_SLOWDOWN_MS:
            yield (
                f"a tick with nothing due takes {last_week_ms:g} ms in the last week, {first_week_ms:g} ms in"
                " the first"
            )
    if len(days) > _LAB_RETENTION_DAYS:
        reference_day = days[_LAB_RETENTION_DAYS]
        if last.memory_mib > reference_day.memory_mib + _MAX_EXTRA_MIB:
            yield f"{last.memory_mib:,.0f} MiB, {reference_day.memory_mib:,.0f} on day {reference_day.number}"


def _print_table(days: Sequence[Day], violations: Sequence[str]) -> None:
    console = output_console()
    counts = ("day", "flips", "back", "alerts", "states", "entries", "KiB")
    table = make_table(
        f"{len(VOLUMES)} volumes, {len(days)} days, {len(days) * DAY_MIN:,} ticks",
        dict.fromkeys((*counts, "idle ms", "busy ms", "objects", "MiB"), "right"),
    )
    for day in days:
        table.add_row(
            f"{day.number}",
            f"{day.flips:,}",
            f"{day.returns:,}",
            f"{day.delivered_alerts:,}",
            f"{day.rows['states']:,}",
            f"{day.rows['entries']:,}",
            f"{day.ledger_kib:,.0f}",
            f"{day.idle_ms:.2f}",
            f"{day.busy_ms:.2f}",
            f"{day.objects:,}",
            f"{day.memory_mib:,.0f}",
        )
    console.print(table)
    last = days[-1]
    console.print(
        f"At the end of every day: {sum(day.missed_ticks for day in days):,} ticks missed, at most"
        f" {max(day.undelivered for day in days):,} alerts waiting,\n"
        f"{max(day.open_intents for day in days):,} intents open. The watermark was"
        f" {max(day.watermark_lag_s for day in days):,} s behind the last sweep;"
        f" {last.doubled_alerts:,} of {last.delivered_alerts:,} alerts came twice.\n"
        "KiB: the ledger's file; ms: CPU time of a tick with nothing due, or with work.\n"
        "Objects: of burstwatch; MiB: of this process with the lab, which keeps 15 days."
    )
    for violation in violations:
        console.print(f"[red]broken[/red]: {violation}", soft_wrap=True)
