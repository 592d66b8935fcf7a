"""The registry of scenarios: each is a function of the testbed that returns whether all was as expected."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from burstlab.probe_scenarios.table import ProbeRun
from burstlab.probe_scenarios.testbed import Testbed

ScenarioFunction = Callable[[Testbed], bool]
HELD_CAUSES: Final = ("stalled", "frozen_or_lock")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A scenario; ``file_system`` and ``mkfs_options`` are of the disk that it is played on."""

    name: str
    description: str
    expected: str
    run: ScenarioFunction
    file_system: str = "ext4"
    mkfs_options: tuple[str, ...] = ()


SCENARIOS: list[Scenario] = []


def scenario(
    name: str,
    expected: str,
    *,
    file_systems: tuple[str, ...] = ("ext4",),
    mkfs_options: tuple[str, ...] = (),
) -> Callable[[ScenarioFunction], ScenarioFunction]:
    """Register a scenario, once for each file system; its docstring is what the table says of it."""

    def register(run: ScenarioFunction) -> ScenarioFunction:
        description = (run.__doc__ or "").rstrip(".")
        for file_system in file_systems:
            has_several = len(file_systems) > 1
            SCENARIOS.append(
                Scenario(
                    name=f"{name}-{file_system}" if has_several else name,
                    description=f"{description}, {file_system}" if has_several else description,
                    expected=expected,
                    run=run,
                    file_system=file_system,
                    mkfs_options=mkfs_options,
                )
            )
        return run

    return register


def is_ok(probe_run: ProbeRun) -> bool:
    """Healthy, by its reading and by its exit code."""
    return (probe_run.verdict, probe_run.code) == ("ok", 0)


def is_alarm(probe_run: ProbeRun) -> bool:
    """WARN or CRIT about the disk under test."""
    return (
        probe_run.verdict in ("warn", "crit") and probe_run.code in (1, 2) and probe_run.is_about_tested_disk
    )


def is_crit(probe_run: ProbeRun, *causes: str) -> bool:
    """CRIT about the disk under test, for one of the causes if any are given."""
    return (
        (probe_run.verdict, probe_run.code) == ("crit", 2)
        and probe_run.is_about_tested_disk
        and (not causes or probe_run.cause in causes)
    )


def is_unknown(probe_run: ProbeRun) -> bool:
    """Not measured, or refused; a refusal leaves no reading."""
    return probe_run.code == 3 and probe_run.verdict in ("", "unknown")  # noqa: PLR2004 - Nagios' UNKNOWN


def get_dd_s(probe_run: ProbeRun) -> float | None:
    """Seconds of dd that it measured or estimated."""
    value = probe_run.reading.get("dd_s")
    return float(value) if value is not None else None
