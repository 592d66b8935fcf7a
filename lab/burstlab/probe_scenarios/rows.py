"""The register of scenarios: each is a function of the stage that answers whether all was as expected."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from burstlab.probe_scenarios.stage import Stage
from burstlab.probe_scenarios.table import Seen

Play = Callable[[Stage], bool]
LOCKS: Final = ("frozen_or_lock",)
HELD: Final = ("stalled", "frozen_or_lock")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A scenario; ``fs`` and ``mkfs_options`` are of the disk that it is played on."""

    name: str
    scenario: str
    expected: str
    play: Play
    fs: str = "ext4"
    mkfs_options: tuple[str, ...] = ()


ROWS: list[Row] = []


def row(
    name: str,
    expected: str,
    *,
    fs: tuple[str, ...] = ("ext4",),
    mkfs_options: tuple[str, ...] = (),
) -> Callable[[Play], Play]:
    """Register a scenario, once for each file system; its docstring is what the table says of it."""

    def register(play: Play) -> Play:
        scenario = (play.__doc__ or "").rstrip(".")
        for each in fs:
            of_many = len(fs) > 1
            ROWS.append(
                Row(
                    name=f"{name}-{each}" if of_many else name,
                    scenario=f"{scenario}, {each}" if of_many else scenario,
                    expected=expected,
                    play=play,
                    fs=each,
                    mkfs_options=mkfs_options,
                )
            )
        return play

    return register


def is_ok(seen: Seen) -> bool:
    """Healthy, by its reading and by its exit code."""
    return (seen.verdict, seen.code) == ("ok", 0)


def is_alarm(seen: Seen) -> bool:
    """WARN or CRIT about the disk under test."""
    return seen.verdict in ("warn", "crit") and seen.code in (1, 2) and seen.is_about


def is_crit(seen: Seen, *causes: str) -> bool:
    """CRIT about the disk under test, for one of the causes if any are given."""
    return (seen.verdict, seen.code) == ("crit", 2) and seen.is_about and (not causes or seen.cause in causes)


def is_unknown(seen: Seen) -> bool:
    """Not measured, or refused; a refusal leaves no reading."""
    return seen.code == 3 and seen.verdict in ("", "unknown")  # noqa: PLR2004 - Nagios' UNKNOWN


def dd_s(seen: Seen) -> float | None:
    """Seconds of dd that it measured or estimated."""
    found = seen.reading.get("dd_s")
    return float(found) if found is not None else None
