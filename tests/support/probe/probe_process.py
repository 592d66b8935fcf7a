"""What the tests of ddprobe use: the probe as a process, a run directory of its own, a throttled disk."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import ddprobe

from support.probe import throttled_disk

PROGRAM = Path(ddprobe.__file__).resolve()


def pythons() -> list[str]:
    """Interpreters of this machine that ddprobe must run on: the oldest and the newest, and ours."""
    places = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep)]
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    places += sorted(root.glob("versions/*/bin"))
    paths = {}
    for minor in range(9, 20):
        for place in places:
            candidate = place / f"python3.{minor}"
            if "shims" not in place.parts and os.access(candidate, os.X_OK):
                paths[minor] = str(candidate)
    known = [paths[minor] for minor in sorted(paths)]
    return list(dict.fromkeys([*known[:1], *known[-1:], sys.executable]))


class Probe:
    """Runs ddprobe as a process, with memory of its own."""

    def __init__(self, run_dir: Path, python: str = sys.executable) -> None:
        self.run_dir, self.python = run_dir, python

    def command(self, *arguments: object) -> list[str]:
        options = [] if arguments[:1] in [("explain",), ("--help",)] else ["--run-dir", self.run_dir]
        return [
            self.python,
            "-IS",
            str(PROGRAM),
            *(str(word) for word in (*arguments[:1], *options, *arguments[1:])),
        ]

    def forget(self) -> None:
        """Let the next run be the first."""
        for path in self.run_dir.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def run(
        self, *arguments: object, within_s: float = 60, **more: object
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments), capture_output=True, text=True, timeout=within_s, check=False, **more
        )

    def start(self, *arguments: object, **more: object) -> subprocess.Popen[str]:
        """Run it beside the test; it does not outlive us, also when we are killed."""
        return start(self.command(*arguments), text=True, **more)

    def read(self, *arguments: object, **more: object) -> dict[str, object]:
        """Run, and take the reading it prints."""
        done = self.run(*arguments, "--json", "-", **more)
        assert done.stdout, done.stderr
        return json.loads(done.stdout)


def start(argv: list[object], **more: object) -> subprocess.Popen:
    """Start a process that the kernel ends when we are gone."""
    return subprocess.Popen([str(word) for word in argv], preexec_fn=throttled_disk.die_with_parent, **more)  # noqa: PLW1509 - one libc call


def kind_of_disk_test(fixtures: Sequence[str]) -> str:
    """Those with a limit measure how fast a disk is; the others let one stand still, which slows no other."""
    return "limits" if "limit" in fixtures else "stalls"


def gone(pids: list[str], within_s: float = 10) -> bool:
    until_s = time.monotonic() + within_s
    while any(Path("/proc", pid).exists() for pid in pids) and time.monotonic() < until_s:
        time.sleep(0.05)
    return not any(Path("/proc", pid).exists() for pid in pids)
