"""The page of a large fleet: how large it is, how long it takes to make, to open and to sort.

    .venv/bin/python lab/bench/report.py 1000 10000

A fake AWS runs in a process of its own and answers each call after 30 ms; the command runs in another.
Opening and sorting are timed by the page's own clock in a headless Chromium, to the frame that shows it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from shutil import which

from assess_pass import serve_idle_fleet

from burstwatch.core.text import format_usd

_COMMAND = "import sys; from burstctl.main import main; sys.exit(main())"
_SORT = """
const done = arguments[arguments.length - 1];
const began = performance.now();
document.querySelector("th[data-sort=volume] button").click();
requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
"""
_FILTER = """
const done = arguments[arguments.length - 1];
const filter = document.getElementById("filter");
const began = performance.now();
filter.value = "web";
filter.dispatchEvent(new Event("input"));
requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
"""


@contextmanager
def open_browser():
    """Debian's Chromium without a screen."""
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = which("chromium")
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1360,1000"):
        options.add_argument(argument)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary_directory:
        service = Service(
            executable_path=which("chromedriver"), env={**os.environ, "TMPDIR": temporary_directory}
        )
        browser = webdriver.Chrome(options=options, service=service)
        try:
            yield browser
        finally:
            browser.quit()


def make_report(volumes: int, path: Path) -> dict:
    """Make the page twice: the first makes the lab simulate its past, the second is measured."""
    with serve_idle_fleet(volumes, past_hours=24) as aws_environment, tempfile.TemporaryDirectory() as home:
        command = [sys.executable, "-c", _COMMAND, "report", "--html", str(path), "--json", "--yes"]
        environment = {
            **aws_environment,
            "HOME": home,
            "PYTHONPATH": os.pathsep.join(("lambdas", "runbooks", "lab")),
        }
        for _ in range(2):
            started_s = time.perf_counter()
            completed = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        wall_s = time.perf_counter() - started_s
        if not completed.stdout:
            sys.exit(completed.stderr)
        return {**json.loads(completed.stdout), "wall_s": wall_s}


def measure_page(path: Path) -> dict[str, float]:
    """Milliseconds to open, sort and filter the page."""
    with open_browser() as browser:
        browser.set_script_timeout(60)
        browser.get(path.as_uri())
        timing = "return performance.getEntriesByType('navigation')[0].loadEventEnd"
        return {
            "open": browser.execute_script(timing),
            "sort": browser.execute_async_script(_SORT),
            "filter": browser.execute_async_script(_FILTER),
        }


def main() -> None:
    """Print a line per fleet size."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sizes", type=int, nargs="*", default=[1_000, 10_000])
    sizes = parser.parse_args().sizes
    titles = ("page", "calls", "reads", "made in", "open", "sort", "filter")
    print(f"{'volumes':>8}" + "".join(f" {title:>9}" for title in titles))
    for size in sizes:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "fleet.html"
            report = make_report(size, path)
            timings_ms = measure_page(path)
            cells = (
                f"{report['bytes'] / 1e6:.2f} MB",
                f"{sum(report['api_calls'].values())}",
                format_usd(report["cost"]["usd"], decimals=4),
                f"{report['wall_s']:.1f} s",
                *(f"{timings_ms[action]:.0f} ms" for action in ("open", "sort", "filter")),
            )
            print(f"{report['volumes']:>8,}" + "".join(f" {cell:>9}" for cell in cells))


if __name__ == "__main__":
    main()
