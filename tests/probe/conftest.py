import fcntl
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.probe import throttled_disk as boxes
from support.probe.probe_process import Probe, kind_of_disk_test


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let ddprobe fork in a worker of pytest, which has threads, and keep each kind of disk test in one."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning"))
        if kind := kind_of_disk_test(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.xdist_group(f"ddprobe: {kind}"))
            item.add_marker(pytest.mark.measures_a_disk)


@pytest.fixture
def probe(memory: Path) -> Probe:
    return Probe(memory)


@pytest.fixture(scope="module")
def shared_box() -> Iterator[boxes.Box]:
    reason = boxes.why_not()
    if reason:
        pytest.skip(f"a real disk to slow down {reason}")
    with boxes.Box() as box:
        yield box


@pytest.fixture
def alone(request: pytest.FixtureRequest) -> Iterator[None]:
    """Hold off the disk tests of this kind in other workers: they would measure each other."""
    name = f"ddprobe-{kind_of_disk_test(request.fixturenames)}.lock"
    with Path(tempfile.gettempdir(), name).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def box(alone: None, shared_box: boxes.Box) -> Iterator[boxes.Box]:
    """The same disk for the tests of a module, healthy and idle at the start of each."""
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
