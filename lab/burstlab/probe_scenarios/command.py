"""``burstlab probe-scenarios``: runs ddprobe on disks with faults, and compares its reports with reality."""

import json
import platform
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from burstlab.disk.command import clean_up, report_errors
from burstlab.main import HELP

if TYPE_CHECKING:
    from burstlab.probe_scenarios.registry import Scenario
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
Exit code: 0 all as expected, 1 if not, 2 usage error.
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
@click.option("--list", "only_list", is_flag=True, help="List the scenarios; run none.")
def probe_scenarios(
    names: tuple[str, ...],
    probe: Path,
    as_json: bool,  # noqa: FBT001
    write: Path | None,
    only_list: bool,  # noqa: FBT001
) -> None:
    """Run ddprobe on real disks that are throttled, stalled, frozen, full or gone, and check it.

    Counts false OK (people wait, and the probe reports OK), false CRIT, and processes left behind.
    Needs root, loop devices and qemu-storage-daemon.
    """
    from burstlab.probe_scenarios.all_scenarios import SCENARIOS  # noqa: PLC0415 - help needs none of this
    from burstlab.probe_scenarios.table import (  # noqa: PLC0415
        count_results,
        format_counts,
        format_lines,
        replace_table,
        to_markdown,
    )

    selected = _select(SCENARIOS, names)
    if only_list:
        for scenario_or_result in selected:
            click.echo(f"{scenario_or_result.name:26}{scenario_or_result.description[:54]}")
        return
    with report_errors():
        _check_machine()
        clean_up()
        results = [
            _run_scenario(scenario_or_result, probe, position, len(selected))
            for position, scenario_or_result in enumerate(selected, 1)
        ]
    if write is not None:
        page = write.read_text(encoding="utf-8") if write.exists() else ""
        write.write_text(
            replace_table(page, to_markdown(results, _describe_environment(probe))), encoding="utf-8"
        )
        click.echo(f"written: {write}", err=True)
    if as_json:
        rows = [_to_document(scenario_or_result) for scenario_or_result in results]
        click.echo(json.dumps({"summary": count_results(results), "scenarios": rows}, indent=2))
    else:
        click.echo("\n".join(format_lines(results)))
        click.echo(format_counts(results))
    if any(scenario_or_result.held is False for scenario_or_result in results):
        raise SystemExit(1)


def _select(scenarios: "list[Scenario]", names: tuple[str, ...]) -> "list[Scenario]":
    scenarios_by_name = {scenario.name: scenario for scenario in scenarios}
    if unknown := [name for name in names if name not in scenarios_by_name]:
        raise click.UsageError(f"{unknown[0]!r} is not a scenario; --list shows all {len(scenarios_by_name)}")
    return [scenarios_by_name[name] for name in names] or scenarios


def _check_machine() -> None:
    """Refuse a machine on which none of it would work.

    Raises:
        DiskError: the message says what is missing.
    """
    from burstlab.disk.block_device import DiskError, unavailable_reason  # noqa: PLC0415

    if reason := unavailable_reason("qsd"):
        raise DiskError(reason)


def _run_scenario(scenario: "Scenario", probe: Path, position: int, total: int) -> "Result":
    from burstlab.disk.block_device import DiskError  # noqa: PLC0415
    from burstlab.probe_scenarios.table import Result, summarise_runs  # noqa: PLC0415
    from burstlab.probe_scenarios.testbed import SkipError, Testbed  # noqa: PLC0415

    click.echo(f"[{position}/{total}] {scenario.name} … ", err=True, nl=False)
    started_at_s, testbed, is_as_expected, failure = time.monotonic(), None, None, ""
    try:
        with Testbed(probe, file_system=scenario.file_system, mkfs_options=scenario.mkfs_options) as testbed:
            is_as_expected = scenario.run(testbed)
    except SkipError as skip:
        failure = str(skip)
    except (DiskError, OSError) as error:
        failure = f"the scenario failed: {error}"
    probe_runs, notes = (testbed.probe_runs, testbed.notes) if testbed else ([], [])
    result = Result(
        name=scenario.name,
        scenario=scenario.description,
        expected=scenario.expected,
        got="; ".join(filter(None, [summarise_runs(probe_runs, notes), failure])),
        held=is_as_expected if not failure or is_as_expected is False else None,
        took_s=time.monotonic() - started_at_s,
        false_ok=sum(probe_run.is_false_ok for probe_run in probe_runs),
        false_crit=sum(probe_run.is_false_crit for probe_run in probe_runs),
        processes_left=testbed.processes_left if testbed else 0,
    )
    click.echo(f"{result.held_text} ({result.took_s:.0f} s)", err=True)
    return result


def _to_document(result: "Result") -> dict[str, object]:
    keys = {"processes_left": "left"}
    return {keys.get(name, name): getattr(result, name) for name in result.__slots__}


def _describe_environment(probe: Path) -> str:
    version = "unknown"
    with suppress(OSError):
        version_lines = [
            line for line in probe.read_text(encoding="utf-8").splitlines() if line.startswith("VERSION")
        ]
        version = version_lines[0].split('"')[1] if version_lines else version
    machine = f"Linux {platform.release().partition('-')[0]}, Python {platform.python_version()}"
    return f"ddprobe {version}, {machine}, {time.strftime('%B %Y', time.gmtime())}."
