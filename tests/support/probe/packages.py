"""The packages of ddprobe."""

import subprocess
import sys
from pathlib import Path

from support.probe.probe_process import PROGRAM

SOURCES = PROGRAM.parent / "package"


def build(out: Path) -> dict[str, Path]:
    """What the tools of this machine make, by its kind."""
    done = subprocess.run(
        [sys.executable, SOURCES / "build.py", out], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0 or "install Debian's package" in done.stderr, done.stderr
    return {path.suffix: path for path in out.iterdir()}


def run(*arguments: object, **more: object) -> str:
    done = subprocess.run(
        [str(word) for word in arguments], capture_output=True, text=True, check=False, timeout=120, **more
    )
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout
