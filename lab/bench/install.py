"""How large an installation of burstctl is, and how soon ``uvx`` shows its first line from a warm cache.

    .venv/bin/python lab/bench/install.py

It needs the package index that pip and uv are configured for. ``uvx`` runs ``burstctl assess`` from the wheel
and from the checkout, on twelve volumes of a lab in a process of its own.
"""

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from server_process import lab_command, start_server

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
RUNS = 5


def build_wheel(folder: Path) -> Path:
    """The wheel, as ``make wheel`` builds it."""
    subprocess.run(
        [BIN / "hatchling", "build", "--target", "wheel", "--directory", folder],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    return next(folder.glob("*.whl"))


def download(requirement: str, folder: Path) -> tuple[int, int]:
    """How many wheels pip downloads for it, beside ours, and their bytes."""
    subprocess.run([BIN / "pip", "download", "--quiet", "--dest", folder, requirement], check=True)
    sizes = [path.stat().st_size for path in folder.iterdir() if not path.name.startswith("burstwatch-")]
    return len(sizes), sum(sizes)


def install(requirement: str, folder: Path) -> int:
    """Bytes of an environment with it, without compiled modules."""
    subprocess.run(
        [BIN / "uv", "pip", "install", "--quiet", "--target", folder, "--link-mode", "copy", requirement],
        check=True,
    )
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def first_line_ms(command: Sequence[str | Path], environment: Mapping[str, str], folder: str) -> float:
    """Milliseconds from the start of the process to the end of its first line, on either stream."""
    started_at_s = time.perf_counter()
    with subprocess.Popen(
        command, env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        elapsed_ms = 1000 * (time.perf_counter() - started_at_s)
        process.stdout.read()
    if not line:
        raise SystemExit(f"{command[0]} printed nothing")
    return elapsed_ms


def main() -> None:
    """Measure and print."""
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        wheel = build_wheel(folder / "dist")
        print(f"wheel: {wheel.stat().st_size / 1000:,.0f} kB")
        for name, requirement in (("alone", str(wheel)), ("with pictures", f"{wheel}[pictures]")):
            count, size = download(requirement, folder / f"download {name}")
            installed = install(requirement, folder / f"install {name}")
            sizes = f"{size / 1e6:.1f} MB to download, {installed / 1e6:.0f} MB installed"
            print(f"{name}: {count} dependencies, {sizes}")
        with start_server(lab_command("--volumes=12", latency_ms=0)) as variables:
            environment = {**variables, "HOME": scratch, "UV_CACHE_DIR": f"{scratch}/uv"}
            environment.pop("PYTHONDONTWRITEBYTECODE", None)
            for name, source in (("the wheel", wheel), ("the checkout", ROOT)):
                command = (BIN / "uvx", "--from", source, "burstctl", "assess")
                first_line_ms(command, environment, scratch)
                warm_ms = [first_line_ms(command, environment, scratch) for _ in range(RUNS)]
                spread = f"median of {RUNS}, {min(warm_ms):,.0f} to {max(warm_ms):,.0f}"
                print(f"uvx from {name}: first line after {median(warm_ms):,.0f} ms ({spread})")
            installed = (BIN / "burstctl", "assess")
            direct_ms = [first_line_ms(installed, environment, scratch) for _ in range(RUNS)]
            print(f"without uvx: {median(direct_ms):,.0f} ms")


if __name__ == "__main__":
    main()
