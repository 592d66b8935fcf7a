"""Which small faults in the core no test would notice.

    .venv/bin/python lab/bench/mutants.py                  # the whole core
    .venv/bin/python lab/bench/mutants.py levels guards    # two modules
    .venv/bin/python lab/bench/mutants.py --again          # what survived the last time

Each fault (a comparison moved by one or turned round, a sign, a number one more or less, a condition that
always holds, nothing returned, a statement left out, a case that never matches) is planted in memory, and the
unit and property tests that run its line are run until one fails. Faults in words are not planted.

`mutants.toml` beside this file names the faults that may survive and says why. Any other survivor ends it
with 1. The last verdicts are in `build/mutants.json`: which test noticed each fault, by what exception.
"""

import argparse
import json
import os
import pickle
import sys
import time
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

from mutants_ast import Faults, Mutant
from mutants_run import Session, Verdict, run_fresh, run_warm

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CORE = ROOT / "lambdas" / "burstwatch" / "core"
EXPLAINED = HERE / "mutants.toml"
LAST = ROOT / "build" / "mutants.json"

TESTS = ("tests/unit", "tests/property", "tests/scenarios")
TOO_LONG = (
    "tests/property/test_flip_laws.py",
    "tests/property/test_fuzz_aws_responses.py",
    "tests/property/test_fuzz_input_files.py",
    "tests/property/test_guarantee.py::test_no_volume_runs_dry_from_the_sweep_without_act_lead_in_focus",
    "tests/property/test_guarantee.py::test_the_law_holds_for_the_whole_watchdog_with_its_ledger",
    "tests/property/test_ledger_laws.py",
    "tests/property/test_window_laws.py::test_the_state_at_any_instant_is_what_the_clocks_say_minute_by_minute",
    "tests/unit/burstctl/advise/test_iac.py::test_the_cdk_makes_of_it_what_cloudformation_was_told",
)
"""They take longer than all others together."""

MOST_FRESH = 8
"""Where everything is imported anew for each fault, only so many of the nearest files are run."""

Key = tuple[str, str, str, str, int]
Place = tuple[str, str, str, str]


def main() -> int:
    """Plant, run, compare; the exit status."""
    options = _options()
    os.chdir(ROOT)
    explained = _explained()
    modules = [Faults(_path_of(name), name) for name in options.modules]
    mutants = [(faults, mutant) for faults in modules for mutant in faults.mutants]
    if options.again:
        survived = {tuple(entry["key"]) for entry in json.loads(LAST.read_text()) if not entry["by"]}
        mutants = [(faults, mutant) for faults, mutant in mutants if mutant.key in survived]
    began = time.monotonic()
    verdicts = _judge(mutants, options)
    _print_figures(verdicts, time.monotonic() - began)
    _keep(verdicts)
    return _compare(verdicts, explained)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    every = sorted(_name_of(path) for path in CORE.rglob("*.py") if path.stem != "__init__")
    parser.add_argument(
        "modules", nargs="*", help="such as flips.guards; the whole core without", metavar="MODULE"
    )
    parser.add_argument("--again", action="store_true", help="only what survived the last time")
    parser.add_argument("--jobs", type=int, default=1, help="so many at once (default 1)")
    parser.add_argument("--budget", type=float, default=1.0, help="seconds of tests for each (default 1)")
    parser.add_argument("--only", choices=["functions", "import"], help="what runs when")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="files or folders of tests")
    options = parser.parse_args()
    if unknown := sorted(set(options.modules) - set(every)):
        parser.error(f"no module of the core: {', '.join(unknown)}; there are {', '.join(every)}")
    options.modules = options.modules or every
    return options


def _judge(mutants: list[tuple[Faults, Mutant]], options: argparse.Namespace) -> dict[Mutant, Verdict]:
    """Faults in functions and constants in one warm process; what runs at import, each in a fresh one."""
    warm = _judge_warm(mutants, options) if options.only != "import" else {}
    verdicts = {mutant: warm[mutant.key] for _, mutant in mutants if mutant.key in warm}
    _keep(verdicts)  # the rest takes a while, and may be interrupted
    for faults, mutant in mutants:
        is_left = mutant.runs_at_import and not mutant.constant if options.only == "import" else True
        if mutant.key not in warm and is_left and options.only != "functions":
            nearest = _nearest(mutant.module)
            verdicts[mutant] = run_fresh(faults, mutant, (nearest[:2], nearest[2:MOST_FRESH]))
            _tell(mutant, verdicts[mutant])
    return verdicts


def _judge_warm(mutants: list[tuple[Faults, Mutant]], options: argparse.Namespace) -> dict[Key, Verdict]:
    """In a child, so that this process has imported nothing of ours when it forks for the fresh ones."""
    reading, writing = os.pipe()
    if not (child := os.fork()):
        os.close(reading)
        session = Session(mutants=mutants, tell=_tell, jobs=options.jobs, budget_s=options.budget)
        ended = run_warm(session, [*options.tests, *(f"--deselect={name}" for name in TOO_LONG)])
        with os.fdopen(writing, "wb") as stream:
            pickle.dump({mutant.key: verdict for mutant, verdict in session.verdicts.items()}, stream)
        sys.stdout.flush()
        os._exit(ended)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        told = stream.read()
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit("the tests fail without a fault; `make unit` says which")
    return pickle.loads(told)  # noqa: S301 - what our own child said


@cache
def _nearest(module: str) -> list[str]:
    """The files of unit tests that import a module, its own first, then those that import what does."""
    users = {_name_of(path) for path in CORE.rglob("*.py") if _imports(path, {module})}
    ranks = {
        path: (path.stem != f"test_{module.rpartition('.')[2]}", not _imports(path, {module}), path.name)
        for path in (ROOT / "tests" / "unit").glob("test_*.py")
        if _imports(path, {module, *users})
    }
    return [str(path.relative_to(ROOT)) for path in sorted(ranks, key=lambda path: ranks[path])]


def _name_of(path: Path) -> str:
    """``flips.guards`` for that module of the core."""
    return ".".join(path.relative_to(CORE).with_suffix("").parts)


def _path_of(name: str) -> Path:
    return CORE / f"{name.replace('.', '/')}.py"


def _imports(path: Path, modules: set[str]) -> bool:
    text = path.read_text()
    return any(f"burstwatch.core.{module} import" in text for module in modules)


def _tell(mutant: Mutant, verdict: Verdict) -> None:
    if not verdict.is_killed:
        print(f"survived: {mutant}", file=sys.__stdout__, flush=True)


def _print_figures(verdicts: dict[Mutant, Verdict], took_s: float) -> None:
    planted = Counter(mutant.module for mutant in verdicts)
    survived = Counter(mutant.module for mutant, verdict in verdicts.items() if not verdict.is_killed)
    print(f"\n{'module':<26} {'faults':>7} {'noticed':>8} {'survived':>9}")
    for module, count in planted.items():
        print(f"{module:<26} {count:>7,} {count - survived[module]:>8,} {survived[module]:>9,}")
    total, left = sum(planted.values()), sum(survived.values())
    print(f"{'all':<26} {total:>7,} {total - left:>8,} {left:>9,}")
    how = Counter(_kind(verdict) for verdict in verdicts.values() if verdict.is_killed)
    print(f"{took_s:,.0f} s, {total / took_s:.0f} a second; noticed by", dict(how.most_common()))


def _kind(verdict: Verdict) -> str:
    if verdict.by.startswith("signal"):
        return "no end"
    return "assertion" if verdict.by in {"AssertionError", "Failed"} else "another exception"


def _keep(verdicts: dict[Mutant, Verdict]) -> None:
    """Keep what is known of other modules."""
    known = json.loads(LAST.read_text()) if LAST.exists() else []
    fresh = [
        {"key": list(mutant.key), "line": mutant.lines.start, "test": verdict.test, "by": verdict.by}
        for mutant, verdict in verdicts.items()
    ]
    keys = {tuple(entry["key"]) for entry in fresh}
    LAST.parent.mkdir(exist_ok=True)
    kept = [entry for entry in known if tuple(entry["key"]) not in keys]
    LAST.write_text(json.dumps([*kept, *fresh], indent=0))


def _explained() -> dict[Place, str]:
    """Why a fault may survive; ``*`` stands for every change of its line."""
    document = tomllib.loads(EXPLAINED.read_text())
    return {
        (module, entry["function"], entry["line"], change): entry["why"]
        for module, entries in document.items()
        for entry in entries
        for change in entry["changes"]
    }


def _compare(verdicts: dict[Mutant, Verdict], explained: dict[Place, str]) -> int:
    """Say what is new, and what is no longer so."""
    survived = [mutant for mutant, verdict in verdicts.items() if not verdict.is_killed]
    reasons = {mutant: _reason(mutant, explained) for mutant in survived}
    modules = {mutant.module for mutant in verdicts}
    used = {place for mutant in survived for place in _places(mutant)}
    for place in explained:
        if place[0] in modules and place not in used:
            print(f"explained in {EXPLAINED.name}, but none survives: {' | '.join(place)}")
    new = [mutant for mutant, reason in reasons.items() if reason is None]
    for mutant in new:
        print(f"not explained in {EXPLAINED.name}: {mutant}")
    kinds = Counter(reason.partition(":")[0] for reason in reasons.values() if reason)
    print(
        f"{len(survived)} survived, {len(new)} of them not explained; the others:", dict(kinds.most_common())
    )
    return 1 if new else 0


def _reason(mutant: Mutant, explained: dict[Place, str]) -> str | None:
    return next((explained[place] for place in _places(mutant) if place in explained), None)


def _places(mutant: Mutant) -> tuple[Place, Place]:
    where = (mutant.module, mutant.function, mutant.text)
    return (*where, mutant.change), (*where, "*")


if __name__ == "__main__":
    sys.exit(main())
