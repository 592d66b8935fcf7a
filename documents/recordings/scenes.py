"""What is recorded: burstctl with a fleet of the lab. Its clock stands still: each run is the same."""

import re
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from burstlab.fake_aws.server import Endpoint
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.volume import LabVolume
from documents.recordings.animation import Frame, animate
from documents.recordings.terminal import LINES, start_burstctl

FOLDER: Final = Path(__file__).parents[2] / "docs"

_NOW: Final = datetime(2026, 11, 20, 18, 0, tzinfo=UTC)

# Each volume: its name, size in GiB, load, balance in %, and for how many minutes it has had this load.
_SMALL_FLEET: Final = (
    ("build-3", 100, "steady:3000", 96, 22),
    ("billing-db", 100, "steady:2400", 75, 12),
    ("ci-7", 33, "docker-loop", 75, 55),
    ("etcd-0", 33, "steady:120", 100, 12),
    ("lake", 2000, "idle", 100, 600),
)
_LARGE_FLEET: Final = (
    *_SMALL_FLEET,
    ("etcd-1", 33, "steady:110", 100, 60),
    ("etcd-2", 33, "steady:130", 98, 90),
    ("ci-8", 100, "steady:1200", 90, 50),
    ("ci-9", 100, "ci-day", 100, 180),
    ("queue", 50, "steady:900", 30, 25),
    ("wiki", 20, "idle", 100, 600),
    ("search", 200, "steady:500", 100, 120),
    ("shop-db-1", 500, "steady:1300", 100, 180),
    ("shop-db-2", 500, "steady:1350", 98, 180),
    ("mail", 80, "idle", 100, 600),
    ("git", 150, "steady:420", 100, 180),
    ("registry", 300, "idle", 100, 600),
    ("metrics", 250, "steady:700", 100, 120),
)

_VOLUME: Final = re.compile(r"vol-[0-9a-f]{17}")  # the first one on the screen is the most urgent


def build_recordings() -> dict[str, str]:
    """The text of each picture by the name of its file in docs."""
    return {
        "assess.svg": animate(record_commands(), "burstctl assess, explain and flip --dry-run"),
        "top.svg": animate(record_top(), "burstctl top"),
    }


def record_commands() -> list[Frame]:
    """From the fleet to a volume, and to the plan that saves it."""
    frames: list[Frame] = []
    transcript = ""
    with _serve_fleet(_SMALL_FLEET) as environment, tempfile.TemporaryDirectory() as home:

        def run(*arguments: str, seconds: float) -> str:
            nonlocal transcript
            transcript += f"\x1b[1m$ {shlex.join(['burstctl', *arguments])}\x1b[0m\n"
            frames.append(Frame(_last_lines(transcript), 1.5))
            with start_burstctl(*arguments, environment=environment, home=Path(home)) as terminal:
                output = terminal.wait_for_end()
            transcript += output + "\n\n"
            frames.append(Frame(_last_lines(transcript), seconds))
            return output

        volume = _VOLUME.search(run("assess", seconds=6))
        if volume is None:
            raise RuntimeError(f"assess shows no volume:\n{transcript}")
        run("explain", volume[0], seconds=9)
        run("flip", volume[0], "--dry-run", seconds=9)
    return frames


def record_top() -> list[Frame]:
    """The live view: a volume is selected and explained, the list is narrowed, and a plan is shown."""
    # r reads again, so that the age of the data is the same in every recording
    steps = (
        ("", r"read 0 s ago.*> critical", 3.0),
        ("rj", r"read 0 s ago.*> warning", 1.0),
        ("\r", r"next: .*Press Enter", 6.0),
        ("\rr", r"read 0 s ago.*> warning", 1.5),
        ("r/ci-", r"read 0 s ago.*filter: ci-_", 2.0),
        ("\rr", r"read 0 s ago.*\[/ci-\]", 1.0),
        ("p", r"next: .*Press Enter", 6.0),
        ("\r\x1brg", r"read 0 s ago.*18 resources.*> critical", 4.0),
    )
    with (
        _serve_fleet(_LARGE_FLEET) as environment,
        tempfile.TemporaryDirectory() as home,
        start_burstctl("top", environment=environment, home=Path(home)) as terminal,
    ):
        frames = []
        for keys, pattern, seconds in steps:
            terminal.press(keys)
            frames.append(Frame(terminal.wait_for(pattern), seconds))
    return frames


def _last_lines(text: str) -> str:
    return "\n".join(text.rstrip("\n").split("\n")[-LINES:])


@contextmanager
def _serve_fleet(volumes: tuple[tuple[str, int, str, float, int], ...]) -> Iterator[Mapping[str, str]]:
    """The environment of a command that takes the lab for AWS."""
    fleet = LabFleet(LabClock(_NOW, speed=0), LabSettings(lag_s=60))
    for name, size_gib, load, balance_pct, minutes in volumes:
        fleet.add(
            LabVolume(
                size_gib=size_gib,
                load=load,
                balance_pct=balance_pct,
                starts_at=_NOW - timedelta(minutes=minutes),
                tags={"Name": name},
            )
        )
    with Endpoint(fleet) as endpoint:
        yield endpoint.environment
