"""What people install: how long it takes to build, how large it is, and whether it is the same twice.

    .venv/bin/python lab/bench/artefacts/dist.py

It needs what ``make dist`` needs. What has been downloaded before is not downloaded again.
"""

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
    command = [sys.executable, "-m", "integrations.dist", folder]
    subprocess.run(command, cwd=ROOT, check=True, stdout=sys.stderr)
    return time.monotonic() - began_at


def main() -> int:
    """Build twice and compare; 1 if a file differs."""
    with TemporaryDirectory() as directory:
        first, second = Path(directory, "first"), Path(directory, "second")
        seconds = [build(first), build(second)]
        contents = [{path.name: path.read_bytes() for path in folder.iterdir()} for folder in (first, second)]
        names = sorted(contents[0].keys() | contents[1].keys())
        differing = [name for name in names if contents[0].get(name) != contents[1].get(name)]
        print("| artefact | kB |\n| --- | --- |")
        for name in names:
            print(f"| {name} | {len(contents[0].get(name, b'')) / 1e3:,.1f} |")
        print(
            f"\nbuilt in {seconds[0]:.0f} s and {seconds[1]:.0f} s; {len(differing)} files differ", *differing
        )
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
