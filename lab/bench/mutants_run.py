"""Puts faults into the modules of this process's children, and runs the tests that could notice.

Two ways, both in memory: a fault within a function is put into the function as it stands in a warm process
(its code is exchanged in a fork), a fault in what runs at import is put where the module is first imported.
"""

import gc
import importlib.machinery
import json
import os
import resource
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType

import coverage
import pytest
from _pytest.runner import runtestprotocol
from mutants_ast import Faults, Mutant
from same_stories import tell_the_same_stories

QUICK_S = 0.05
MEMORY = 4 << 30

QUIET = "ignore:Module already imported:pytest.PytestAssertRewriteWarning"  # hypothesis, before the forks
OPTIONS = [
    "-q",
    "--capture=sys",
    "-pno:cacheprovider",
    "-pno:xdist",
    "--no-header",
    "--no-summary",
    "-W",
    QUIET,
]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Which test noticed, and by what kind of exception; nothing where none did."""

    test: str = ""
    by: str = ""
    tests: int = 0

    @property
    def is_killed(self) -> bool:
        return bool(self.by)


@dataclass(frozen=True, slots=True)
class _Child:
    """A process with a fault, and where it says what noticed; not final for what also runs at import."""

    mutant: Mutant
    output: int
    is_final: bool


@dataclass
class Session:
    """A pytest session that runs everything once, and then again what could notice each fault.

    ``budget_s`` are so many seconds of tests for each, as measured without it: the nearest are run first, and
    a test that takes longer is run against none.
    """

    mutants: Sequence[tuple[Faults, Mutant]]
    tell: Callable[[Mutant, Verdict], None]
    jobs: int = 1
    budget_s: float = 1.0
    items: dict[str, pytest.Item] = field(default_factory=dict)
    took_s: dict[str, float] = field(default_factory=dict)
    failed_by: str = ""
    verdicts: dict[Mutant, Verdict] = field(default_factory=dict)
    reached: dict[str, dict[int, list[str]]] = field(default_factory=dict)
    noticed: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    children: dict[int, _Child] = field(default_factory=dict)
    measured: coverage.Coverage = field(init=False)

    def __post_init__(self) -> None:
        paths = {str(faults.path) for faults, _ in self.mutants}
        self.measured = coverage.Coverage(data_file=None, config_file=False, include=sorted(paths))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call):
        if call.excinfo is not None:
            self.failed_by = call.excinfo.typename
        return (yield)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Once without a fault, under coverage; then a child for each fault."""
        self.items = {item.nodeid: item for item in session.items}
        self._run_once()
        self._forget_what_is_cached()
        functions = _functions_by_place()
        gc.collect()
        gc.freeze()
        for faults, mutant in self.mutants:
            lines = mutant.lines
            if mutant.constant:
                lines, plant = faults.lines_with(mutant.constant), _plant_constant(faults, mutant)
            elif found := functions.get((str(faults.path), mutant.first_line, mutant.function)):
                plant = _plant_function(found, faults.compile_function(mutant))
            else:
                continue
            by = {nodeid for line in lines for nodeid in self.reached[mutant.module].get(line, ())}
            while len(self.children) >= self.jobs:
                self._reap()
            self._fork(mutant, self._choose(mutant, by), plant, is_final="" not in by)
        while self.children:
            self._reap()
        return True

    def _run_once(self) -> None:
        """Learn which tests run which lines; a suite that fails without a fault can tell nothing of one."""
        for nodeid, item in self.items.items():
            self.measured.switch_context(nodeid)
            began = time.process_time()
            reports = runtestprotocol(item, log=False, nextitem=None)
            self.took_s[nodeid] = time.process_time() - began
            if any(report.failed for report in reports):
                pytest.exit(f"{nodeid} fails without any fault: {self.failed_by}", returncode=2)
        self.measured.stop()
        data = self.measured.get_data()
        for faults, _ in self.mutants:
            if faults.module not in self.reached:
                self.reached[faults.module] = data.contexts_by_lineno(str(faults.path))

    def _choose(self, mutant: Mutant, found: set[str]) -> list[pytest.Item]:
        """The tests that run its lines: what noticed others near it, then quick ones, first of its own."""
        order = {nodeid: -place for place, nodeid in enumerate(self.noticed[_around(mutant)], 1)}

        def distance(nodeid: str) -> tuple[int, bool, bool, float]:
            took_s = self.took_s[nodeid]
            return order.get(nodeid, 0), took_s > QUICK_S, not _is_of(nodeid, mutant.module), took_s

        chosen, spent_s = [], 0.0
        for nodeid in sorted(found & self.items.keys(), key=distance):
            if self.took_s[nodeid] <= self.budget_s:
                spent_s += self.took_s[nodeid]
                chosen.append(self.items[nodeid])
            if spent_s > self.budget_s:
                break
        return chosen

    def _fork(
        self, mutant: Mutant, tests: list[pytest.Item], plant: Callable[[], None], *, is_final: bool
    ) -> None:
        reading, writing = os.pipe()
        if child := os.fork():
            os.close(writing)
            self.children[child] = _Child(mutant, reading, is_final)
            return
        status = 3
        try:
            os.close(reading)
            _limit(5 + 10 * sum(self.took_s[item.nodeid] for item in tests))
            plant()
            os.write(writing, json.dumps(self._try(tests)).encode())
            status = 0
        finally:
            os._exit(status)

    def _try(self, tests: list[pytest.Item]) -> list[object]:
        for number, item in enumerate(tests, 1):
            following = tests[number] if number < len(tests) else None
            if any(report.failed for report in runtestprotocol(item, log=False, nextitem=following)):
                return [item.nodeid, self.failed_by, number]
        return ["", "", len(tests)]

    def _reap(self) -> None:
        number, status = os.wait()
        child = self.children.pop(number)
        verdict = _verdict_of(child.output, status)
        if verdict.test:
            known = self.noticed[_around(child.mutant)]
            if verdict.test in known:
                known.remove(verdict.test)
            known.append(verdict.test)
        if verdict.is_killed or child.is_final:
            self.verdicts[child.mutant] = verdict
            self.tell(child.mutant, verdict)

    @staticmethod
    def _forget_what_is_cached() -> None:
        for thing in gc.get_objects():
            if type(thing).__name__ == "_lru_cache_wrapper" and str(thing.__module__).startswith("burst"):
                thing.cache_clear()


def run_warm(session: Session, tests: Sequence[str]) -> int:
    """The exit status of pytest; the verdicts are in the session."""
    tell_the_same_stories()
    session.measured.start()  # before the core is imported, so that it is known what runs then
    return int(pytest.main([*OPTIONS, *tests], plugins=[session]))


def run_fresh(faults: Faults, mutant: Mutant, stages: Iterable[Sequence[str]]) -> Verdict:
    """Import everything anew with the fault in its module; the stages are files of tests, nearest first."""
    verdict = Verdict()
    for files in stages:
        if files and not (verdict := _run_fresh(faults, mutant, files)).is_killed:
            continue
        break
    return verdict


def _run_fresh(faults: Faults, mutant: Mutant, files: Sequence[str]) -> Verdict:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        status = 3
        try:
            os.close(reading)
            _limit(90)
            with Path(os.devnull).open("w") as nowhere:
                sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = nowhere
                first = _FirstFailure()
                with _imported_as(faults, mutant):
                    tell_the_same_stories()
                    ended = pytest.main(["-x", *OPTIONS, *files], plugins=[first])
            by = first.by or ("" if ended in {0, 5} else "ImportError")
            os.write(writing, json.dumps([first.test, by, 0]).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    _, status = os.waitpid(child, 0)
    return _verdict_of(reading, status)


def _verdict_of(output: int, status: int) -> Verdict:
    """What a process said before it ended, or how it ended."""
    with os.fdopen(output) as stream:
        told = stream.read()
    if told and not status:
        return Verdict(*json.loads(told))
    return Verdict(by=f"signal {status & 127}" if status & 127 else "exit")


@dataclass
class _FirstFailure:
    test: str = ""
    by: str = ""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        if call.excinfo is not None and call.excinfo.typename != "Skipped":
            self.test, self.by = self.test or item.nodeid, self.by or call.excinfo.typename
        return (yield)


@contextmanager
def _imported_as(faults: Faults, mutant: Mutant) -> Iterator[None]:
    code = faults.compile_module(mutant)
    loader = importlib.machinery.SourceFileLoader
    real = loader.get_code

    def get_code(self, fullname):
        return code if Path(self.path) == faults.path else real(self, fullname)

    loader.get_code = get_code
    try:
        yield
    finally:
        loader.get_code = real


def _plant_function(functions: list[FunctionType], code: CodeType) -> Callable[[], None]:
    def plant() -> None:
        for function in functions:
            function.__code__ = code

    return plant


def _plant_constant(faults: Faults, mutant: Mutant) -> Callable[[], None]:
    """A constant, in every module that has it."""
    code = faults.compile_constant(mutant)
    name, home = mutant.constant, f"burstwatch.core.{mutant.module}"

    def plant() -> None:
        old = vars(sys.modules[home])[name]
        new = eval(code, vars(sys.modules[home]))  # noqa: S307 - our own source, but for the fault
        for module in list(sys.modules.values()):
            if vars(module).get(name) is old:
                setattr(module, name, new)

    return plant


def _around(mutant: Mutant) -> str:
    """What faults near each other have in common: the same tests notice them."""
    return f"{mutant.module}.{mutant.function}"


def _functions_by_place() -> dict[tuple[str, int, str], list[FunctionType]]:
    found = defaultdict(list)
    for thing in gc.get_objects():
        if isinstance(thing, FunctionType):
            code = thing.__code__
            found[code.co_filename, code.co_firstlineno, code.co_qualname].append(thing)
    return found


def _limit(seconds: float) -> None:
    """What loops, or eats memory, ends: by processor time, so that a busy machine kills nobody."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(int(10 * seconds) + 60)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _is_of(nodeid: str, module: str) -> bool:
    stem = Path(nodeid.partition("::")[0]).stem
    return f"{stem}_".startswith(f"test_{module.rpartition('.')[2]}_")
