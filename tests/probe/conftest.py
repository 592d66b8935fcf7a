import fcntl
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.probe import throttled_disk
from support.probe.probe_process import Probe, kind_of_disk_test

# The tests of one disk follow each other. They mostly wait, so there are more disks than processors.
DISKS_OF_A_KIND = 4
DISK = pytest.StashKey[str]()
MEASUREMENTS = 3
"""How often a test may measure: what else a machine does can spoil one measurement; a fault spoils all."""


@pytest.hookimpl(tryfirst=True)  # before that of the folder above, which gives the others a worker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let ddprobe fork in a worker of pytest, which has threads, and give the tests of a disk one worker."""
    folder = f"{Path(__file__).parent}/"
    tests_by_kind: Counter[str] = Counter()
    for item in items:
        if str(item.path).startswith(folder):
            item.add_marker(pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning"))
        if "loop_disk" in getattr(item, "fixturenames", ()):
            kind = kind_of_disk_test(item.fixturenames)
            item.stash[DISK] = f"{kind} {tests_by_kind[kind] % DISKS_OF_A_KIND}"
            tests_by_kind[kind] += 1
            item.add_marker(pytest.mark.xdist_group(f"ddprobe: {item.stash[DISK]}"))
            item.add_marker(pytest.mark.measures_a_disk)
    items.sort(key=_is_exclusive)  # they wait for all others, and so must no other wait for them


def _is_exclusive(item: pytest.Item) -> bool:
    """Whether it runs when no other test does."""
    return item.get_closest_marker("keeps_processors_busy") is not None


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Repeat a test that measures how fast a disk is, on a healthy disk; --junitxml has what was repeated."""
    if "limit" not in pyfuncitem.fixturenames:
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    for _ in range(MEASUREMENTS - 1):
        try:
            pyfuncitem.obj(**arguments)
        except AssertionError as error:
            pyfuncitem.user_properties.append(("measured again after", str(error)))
            heal(pyfuncitem.funcargs["loop_disk"])
            pyfuncitem.funcargs["probe"].forget()
        else:
            return True
    pyfuncitem.obj(**arguments)
    return True


@pytest.fixture
def probe(shm_dir: Path) -> Probe:
    return Probe(shm_dir)


@pytest.fixture(scope="session")
def shared_loop_disk() -> Iterator[throttled_disk.ThrottledDisk]:
    reason = throttled_disk.why_not()
    if reason:
        pytest.skip(f"a real disk to slow down {reason}")
    with throttled_disk.ThrottledDisk() as disk:
        yield disk


@pytest.fixture
def disk_lock(request: pytest.FixtureRequest) -> Iterator[None]:
    """Hold off the tests of this disk in other runs, and what else keeps the processors busy."""
    with (
        _locked("processors", fcntl.LOCK_EX if _is_exclusive(request.node) else fcntl.LOCK_SH),
        _locked(request.node.stash[DISK], fcntl.LOCK_EX),
    ):
        yield


@contextmanager
def _locked(name: str, how: int) -> Iterator[None]:
    with Path(tempfile.gettempdir(), f"ddprobe-{name}.lock").open("w") as lock:
        fcntl.flock(lock, how)
        yield


@pytest.fixture
def loop_disk(
    disk_lock: None, shared_loop_disk: throttled_disk.ThrottledDisk
) -> Iterator[throttled_disk.ThrottledDisk]:
    """The same disk for the tests of a worker, healthy and idle at the start of each."""
    yield shared_loop_disk
    heal(shared_loop_disk)


def heal(loop_disk: throttled_disk.ThrottledDisk) -> None:
    """Let it do whatever it can, with nothing to do."""
    loop_disk.thaw()
    loop_disk.idle()
    if throttled_disk.why_no_limit() is None:
        loop_disk.unlimit()


@pytest.fixture
def limit(loop_disk: throttled_disk.ThrottledDisk) -> None:
    """Require a disk whose operations can be limited."""
    reason = throttled_disk.why_no_limit()
    if reason:
        pytest.skip(f"a disk with a limit {reason}")
