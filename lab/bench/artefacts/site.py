"""What the documentation site costs: the time to build it, and how much its pages make a browser load.

    .venv/bin/python lab/bench/artefacts/site.py

The weight of a page is that of its HTML and of each script, style sheet and picture that it refers to. It is
given for the files as they are, and as gzip makes them for a server.
"""

import gzip
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[3]
LOADED = re.compile(r'<(?:script|img)\b[^>]*? src="([^"]+)"|<link\b[^>]*? href="([^"]+\.(?:css|svg)[^"]*)"')


def build(folder: str) -> None:
    """The site, as ``make docs`` builds it; prints the time that it took."""
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--jobs", "auto"]
    folders = ["--doctree-dir", f"{folder}/cache", "--conf-dir", "documents/site", ".", f"{folder}/site"]
    started_at_s = time.perf_counter()
    subprocess.run([*command, *folders], cwd=ROOT, check=True)
    elapsed_s = time.perf_counter() - started_at_s
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"build: {elapsed_s:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of processor time")


def loaded_files(page: Path) -> set[Path]:
    """A page and the files that it refers to."""
    names = [script or sheet for script, sheet in LOADED.findall(page.read_text())]
    return {page, *((page.parent / name.partition("?")[0]).resolve() for name in names)}


def total_size(files: Iterable[Path]) -> str:
    """Their size in kB, plain and compressed."""
    contents = [file.read_bytes() for file in files]
    plain, compressed = (sum(map(len, texts)) for texts in (contents, map(gzip.compress, contents)))
    return f"{plain / 1000:,.0f} kB, {compressed / 1000:,.0f} kB compressed"


def main() -> None:
    """Build and total_size."""
    with TemporaryDirectory() as folder:
        build(folder)
        site = Path(folder).resolve() / "site"
        pages = sorted(site.rglob("*.html"), key=lambda page: page.stat().st_size)
        print(
            f"{len(pages)} pages, all files: {total_size(file for file in site.rglob('*') if file.is_file())}"
        )
        heaviest = max(pages, key=lambda page: sum(file.stat().st_size for file in loaded_files(page)))
        for name, page in (
            ("start page", site / "docs" / "README.html"),
            ("largest page", pages[-1]),
            ("heaviest page", heaviest),
        ):
            print(f"{name} ({page.relative_to(site)}): {total_size(loaded_files(page))}")
        print(f"search index: {total_size([site / 'searchindex.js'])}")


if __name__ == "__main__":
    main()
