import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.probe import throttled_disk as boxes
from support.probe.probe_process import Probe, kind_of_disk_test


@pytest.hookimpl(tryfirst=True)  # before that of the folder above, which gives the others a worker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let ddprobe fork in a worker of pytest, which has threads, and give the tests of a disk one worker."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning"))
        if "box" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group(f"ddprobe: {_disk(item)}"))
            item.add_marker(pytest.mark.measures_a_disk)


def _disk(item: pytest.Item) -> str:
    """The disk whose tests follow each other: there are two of each kind, which take about as long."""
    is_second = item.path.name == "test_probe_disk.py" or item.name.startswith("test_the_estimate_is_dd")
    return f"{kind_of_disk_test(item.fixturenames)} {2 if is_second else 1}"


@pytest.fixture
def probe(memory: Path) -> Probe:
    return Probe(memory)


@pytest.fixture(scope="session")
def shared_box() -> Iterator[boxes.Box]:
    reason = boxes.why_not()
    if reason:
        pytest.skip(f"a real disk to slow down {reason}")
    with boxes.Box() as box:
        yield box


@pytest.fixture
def alone(request: pytest.FixtureRequest) -> Iterator[None]:
    """Hold off the tests of this disk in other runs, and whoever keeps the processors busy."""
    is_exclusive = request.node.get_closest_marker("keeps_processors_busy") is not None
    with (
        _locked("processors", fcntl.LOCK_EX if is_exclusive else fcntl.LOCK_SH),
        _locked(_disk(request.node), fcntl.LOCK_EX),
    ):
        yield


@contextmanager
def _locked(name: str, how: int) -> Iterator[None]:
    with Path(tempfile.gettempdir(), f"ddprobe-{name}.lock").open("w") as lock:
        fcntl.flock(lock, how)
        yield


@pytest.fixture
def box(alone: None, shared_box: boxes.Box) -> Iterator[boxes.Box]:
    """The same disk for the tests of a worker, healthy and idle at the start of each."""
    yield shared_box
    shared_box.thaw()
    shared_box.idle()
    if boxes.why_no_limit() is None:
        shared_box.unlimit()


@pytest.fixture
def limit(box: boxes.Box) -> None:
    """Ask for a box whose operations can be limited."""
    reason = boxes.why_no_limit()
    if reason:
        pytest.skip(f"a disk with a limit {reason}")
