"""``burstlab probe-scenarios``: every way a disk is sick here, and what ddprobe says of it."""

import json
import platform
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from burstlab.disk.command import clean_up, explained
from burstlab.main import HELP

if TYPE_CHECKING:
    from burstlab.probe_scenarios.rows import Row
    from burstlab.probe_scenarios.table import Result

_PROBE: Final = Path(__file__).parents[3] / "ddprobe" / "ddprobe.py"

_EXAMPLES: Final = """\b
Examples:
  burstlab probe-scenarios                        all of them, in 20 minutes
  burstlab probe-scenarios --list                 their names
  burstlab probe-scenarios --only stall-ext4 --only closed
  burstlab probe-scenarios --probe old/ddprobe.py --json > before.json
  burstlab probe-scenarios --write docs/ddprobe-scenarios.md
\b
Each scenario has a disk of its own (a loop device behind the throttle of
qemu-storage-daemon), which is removed after it, also after Ctrl-C.
Exit code: 0 all as expected, 1 if not, 2 bad usage.
Page: docs/ddprobe-scenarios.md
"""


@click.command("probe-scenarios", context_settings=HELP, epilog=_EXAMPLES)
@click.option("--only", "names", multiple=True, metavar="NAME", help="Only this scenario; may be repeated.")
@click.option(
    "--probe",
    type=click.Path(path_type=Path, exists=True, dir_okay=False, resolve_path=True),
    default=_PROBE,
    help="Another ddprobe.py to run, to compare; default the one of this checkout.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the results as one JSON object.")
@click.option(
    "--write",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Replace the table on this Markdown page.",
)
@click.option("--list", "only_list", is_flag=True, help="List the scenarios, run none.")
def probe_scenarios(
    names: tuple[str, ...],
    probe: Path,
    as_json: bool,  # noqa: FBT001
    write: Path | None,
    only_list: bool,  # noqa: FBT001
) -> None:
    """Run ddprobe on real disks that are throttled, stalled, frozen, full or gone, and compare.

    Counts false OK (people wait, and the probe says all is well), false CRIT, and processes left behind.
    Needs root, loop devices and qemu-storage-daemon.
    """
    from burstlab.probe_scenarios.all_scenarios import ROWS  # noqa: PLC0415 - help needs none of this
    from burstlab.probe_scenarios.table import lines, markdown, replaced, summary, summary_line  # noqa: PLC0415

    chosen = _chosen(ROWS, names)
    if only_list:
        for each in chosen:
            click.echo(f"{each.name:26}{each.scenario[:54]}")
        return
    with explained():
        _check()
        clean_up()
        results = [_played(each, probe, place, len(chosen)) for place, each in enumerate(chosen, 1)]
    if write is not None:
        page = write.read_text(encoding="utf-8") if write.exists() else ""
        write.write_text(replaced(page, markdown(results, _about(probe))), encoding="utf-8")
        click.echo(f"written: {write}", err=True)
    if as_json:
        rows = [_as_dict(each) for each in results]
        click.echo(json.dumps({"summary": summary(results), "scenarios": rows}, indent=2))
    else:
        click.echo("\n".join(lines(results)))
        click.echo(summary_line(results))
    if any(each.held is False for each in results):
        raise SystemExit(1)


def _chosen(rows: "list[Row]", names: tuple[str, ...]) -> "list[Row]":
    known = {each.name: each for each in rows}
    if unknown := [name for name in names if name not in known]:
        raise click.UsageError(f"{unknown[0]!r} is not a scenario; --list shows all {len(known)}")
    return [known[name] for name in names] or rows


def _check() -> None:
    """Refuse a machine on which none of it would work.

    Raises:
        DiskError: the message says what is missing.
    """
    from burstlab.disk.block_device import DiskError, why_not  # noqa: PLC0415

    if reason := why_not("qsd"):
        raise DiskError(reason)


def _played(row: "Row", probe: Path, place: int, of: int) -> "Result":
    from burstlab.disk.block_device import DiskError  # noqa: PLC0415
    from burstlab.probe_scenarios.stage import SkipError, Stage  # noqa: PLC0415
    from burstlab.probe_scenarios.table import Result, shown_runs  # noqa: PLC0415

    click.echo(f"[{place}/{of}] {row.name} … ", err=True, nl=False)
    began_s, stage, held, failure = time.monotonic(), None, None, ""
    try:
        with Stage(probe, fs=row.fs, mkfs_options=row.mkfs_options) as stage:
            held = row.play(stage)
    except SkipError as skip:
        failure = str(skip)
    except (DiskError, OSError) as error:
        failure = f"the scenario failed: {error}"
    seen, notes = (stage.seen, stage.notes) if stage else ([], [])
    result = Result(
        name=row.name,
        scenario=row.scenario,
        expected=row.expected,
        got="; ".join(filter(None, [shown_runs(seen, notes), failure])),
        held=held if not failure or held is False else None,
        took_s=time.monotonic() - began_s,
        false_ok=sum(each.is_false_ok for each in seen),
        false_crit=sum(each.is_false_crit for each in seen),
        left=stage.left if stage else 0,
    )
    click.echo(f"{result.word} ({result.took_s:.0f} s)", err=True)
    return result


def _as_dict(result: "Result") -> dict[str, object]:
    return {name: getattr(result, name) for name in result.__slots__}


def _about(probe: Path) -> str:
    version = "unknown"
    with suppress(OSError):
        found = [
            line for line in probe.read_text(encoding="utf-8").splitlines() if line.startswith("VERSION")
        ]
        version = found[0].split('"')[1] if found else version
    machine = f"Linux {platform.release().partition('-')[0]}, Python {platform.python_version()}"
    return f"ddprobe {version}, {machine}, {time.strftime('%B %Y', time.gmtime())}."
