"""Everything that people install: how long it takes to build, how large it is, and whether it is the same twice.

    .venv/bin/python lab/bench/artefacts/dist.py

It needs what ``make dist`` needs. What has been downloaded before is not downloaded again.
"""

import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

ROOT: Final = Path(__file__).parents[3]


def build(folder: Path) -> float:
    """Build into the folder; the seconds that it took."""
    began_at = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "integrations.dist", folder], cwd=ROOT, check=True, stdout=sys.stderr
    )
    return time.monotonic() - began_at


def main() -> int:
    """Build twice and compare; 1 if a file differs."""
    with TemporaryDirectory() as directory:
        first, second = Path(directory, "first"), Path(directory, "second")
        seconds = [build(first), build(second)]
        names = sorted(os.listdir(first))
        differing = [
            name
            for name in sorted({*names, *os.listdir(second)})
            if name not in names
            or not (second / name).exists()
            or (first / name).read_bytes() != (second / name).read_bytes()
        ]
        print("| artefact | size |\n| --- | --- |")
        for name in names:
            print(f"| {name} | {(first / name).stat().st_size / 1e6:.2f} MB |")
    print(f"\nbuilt in {seconds[0]:.0f} s and {seconds[1]:.0f} s; {len(differing)} files differ", *differing)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
