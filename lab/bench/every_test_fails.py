"""Sees every test file fail: a fault is put into what it tests, and a test of it notices, by assertion.

    .venv/bin/python lab/bench/every_test_fails.py                       # all, in a copy of the tree
    .venv/bin/python lab/bench/every_test_fails.py tests/infra           # some files or folders
    .venv/bin/python lab/bench/every_test_fails.py --find tests/infra    # which tests of the file notice

The faults are in `every_test_fails.toml` beside this file: for a test file the product's file, the words that
are replaced, once in it, and by what. For tests of the core `build/mutants.json` has more, which
`lab/bench/mutants.py` leaves. A file that no fault is known for, or that passes with it, ends it with 1.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TABLE = HERE / "every_test_fails.toml"
MUTANTS = ROOT / "build" / "mutants.json"

NOT_COPIED = (".git", ".venv", "node_modules", "build", "demo", ".hypothesis", ".mypy_cache", ".ruff_cache")
ASSERTED = ("AssertionError", "Failed: ", "assert ", "failed: ")
LONGEST_S = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Other words in a file of the product, and the test that is to notice."""

    file: str
    product: str
    old: str
    new: str
    test: str = ""


@dataclass(frozen=True, slots=True)
class Ran:
    """What pytest said of some tests: how many passed, were skipped, and failed by what."""

    passed: int
    skipped: int
    failed: dict[str, str]

    @property
    def asserted(self) -> list[str]:
        return [name for name, why in self.failed.items() if why.startswith(ASSERTED)]


def main() -> int:
    """Try each fault; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("paths", nargs="*", help="test files or folders; all without")
    parser.add_argument("--find", action="store_true", help="run the whole file, and name what fails")
    options = parser.parse_args()
    table = {name: Fault(file=name, **row) for name, row in tomllib.loads(TABLE.read_text()).items()}
    seen_by_mutants = _killers()
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="every-test-") as folder:
        tree = _copy(Path(folder))
        for name in _test_files(options.paths):
            if name in table:
                word, said = _try(tree, table[name], finds=options.find)
            elif name in seen_by_mutants:
                word, said = "fails", seen_by_mutants[name]
            else:
                word, said = "UNKNOWN", f"no fault is known that it notices: give it one in {TABLE.name}"
            counts[word] += 1
            print(f"{word:<8} {name}: {said}", flush=True)
    print(", ".join(f"{count} {word}" for word, count in counts.most_common()))
    return 0 if counts.keys() <= {"fails", "skipped"} else 1


def _test_files(paths: list[str]) -> list[str]:
    found = (path for folder in paths or ["tests"] for path in _within(ROOT / folder))
    return sorted(str(path.relative_to(ROOT)) for path in found)


def _within(path: Path) -> Iterator[Path]:
    return path.rglob("test_*.py") if path.is_dir() else iter([path])


def _killers() -> dict[str, str]:
    """For each test file a fault of the core that one of its tests noticed by assertion."""
    if not MUTANTS.exists():
        return {}
    found = {}
    for entry in json.loads(MUTANTS.read_text()):
        if entry["by"] in {"AssertionError", "Failed"}:
            file, _, test = entry["test"].partition("::")
            module, function, _, change, _ = entry["key"]
            found[file] = f"{test} notices {change} in {function or 'what is imported'} of core/{module}.py"
    return found


def _copy(folder: Path) -> Path:
    """The tree as it is, but for what is large and not read; the environment is shared."""
    tree = folder / ROOT.name
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*NOT_COPIED), symlinks=True)
    for name in (".venv", "infra/cli/node_modules", "build"):
        if (ROOT / name).exists():
            (tree / name).symlink_to(ROOT / name)
    return tree


def _try(tree: Path, fault: Fault, *, finds: bool) -> tuple[str, str]:
    began = time.monotonic()
    count = (tree / fault.product).read_text().count(fault.old)
    if count != 1:
        return "STALE", f"{fault.product} has {count} times: {fault.old}"
    chosen = "" if finds else fault.test
    before = _run(tree, fault.file, chosen)
    if before.failed:
        return "BROKEN", f"fails without a fault: {', '.join(before.failed)}"
    if not before.passed:
        return "skipped", f"what it needs is not here ({before.skipped} skipped)"
    with _planted(tree, fault):
        after = _run(tree, fault.file, chosen)
    took = f"{time.monotonic() - began:.0f} s"
    if after.asserted:
        return "fails", f"{_names(after.asserted)} notices {fault.product}: {_words(fault)} ({took})"
    return "PASSES", f"with {fault.product}: {_words(fault)} ({took}; {after.failed})"


def _names(names: list[str]) -> str:
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def _words(fault: Fault) -> str:
    return f"{' '.join(fault.old.split())} -> {' '.join(fault.new.split()) or 'nothing'}"


@contextmanager
def _planted(tree: Path, fault: Fault) -> Iterator[None]:
    path = tree / fault.product
    text = path.read_text()
    path.write_text(text.replace(fault.old, fault.new))
    try:
        yield
    finally:
        path.write_text(text)


def _run(tree: Path, file: str, test: str) -> Ran:
    """Run a file, or one test of it, in the copy; processes it starts import from there as well."""
    report = tree.parent / "report.xml"
    report.unlink(missing_ok=True)
    roots = [str(tree / name) for name in ("lambdas", "runbooks", "lab", "ddprobe", HERE.relative_to(ROOT))]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(roots), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [
        str(tree / ".venv/bin/python"),
        "-m",
        "pytest",
        "-q",
        "-pno:cacheprovider",
        "-psame_stories",
        f"--junitxml={report}",
        "-ojunit_family=xunit1",  # the other one has no room for what some tests tell
    ]
    chosen = ["-k", test] if test else []
    try:
        done = subprocess.run(
            [*command, file, *chosen],
            cwd=tree,
            env=environment,
            capture_output=True,
            timeout=LONGEST_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Ran(0, 0, {"pytest": f"no end within {LONGEST_S} s"})
    if not report.exists():
        return Ran(0, 0, {"pytest": done.stdout.decode()[-300:]})
    cases = list(ET.parse(report).iter("testcase"))  # noqa: S314 - what pytest just wrote
    failed = {
        case.get("name", "collection"): failure.get("message", "")
        for case in cases
        for failure in [*case.iter("failure"), *case.iter("error")]
    }
    skipped = sum(case.find("skipped") is not None for case in cases)
    return Ran(len(cases) - skipped - len(failed), skipped, failed)


if __name__ == "__main__":
    sys.exit(main())
