"""What the tests of ddprobe stand on: the probe as a process, memory of its own, a disk to slow down."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import box as boxes
import ddprobe
import pytest

PROGRAM = Path(ddprobe.__file__).resolve()


def pythons() -> list[str]:
    """Interpreters of this machine that ddprobe must run on: the oldest and the newest, and ours."""
    places = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep)]
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    places += sorted(root.glob("versions/*/bin"))
    found = {}
    for minor in range(9, 20):
        for place in places:
            candidate = place / f"python3.{minor}"
            if "shims" not in place.parts and os.access(candidate, os.X_OK):
                found[minor] = str(candidate)
    known = [found[minor] for minor in sorted(found)]
    return list(dict.fromkeys([*known[:1], *known[-1:], sys.executable]))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let ddprobe fork in a worker of pytest, which has threads, and keep each kind of disk test in one."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning"))
        if kind := kind_of_disk_test(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.xdist_group(f"ddprobe: {kind}"))
            item.add_marker(pytest.mark.measures_a_disk)


class Probe:
    """Runs ddprobe as a process, with memory of its own."""

    def __init__(self, memory: Path, python: str = sys.executable) -> None:
        self.memory, self.python = memory, python

    def command(self, *words: object) -> list[str]:
        options = [] if words[:1] in [("explain",), ("--help",)] else ["--run-dir", self.memory]
        return [self.python, "-IS", str(PROGRAM), *(str(word) for word in (*words[:1], *options, *words[1:]))]

    def run(self, *words: object, within_s: float = 60, **more: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words), capture_output=True, text=True, timeout=within_s, check=False, **more
        )

    def start(self, *words: object, **more: object) -> subprocess.Popen[str]:
        """Run it beside the test; it does not outlive us, also when we are killed."""
        return start(self.command(*words), text=True, **more)

    def read(self, *words: object, **more: object) -> dict[str, object]:
        """Run, and take the reading it prints."""
        done = self.run(*words, "--json", "-", **more)
        assert done.stdout, done.stderr
        return json.loads(done.stdout)


def start(words: list[object], **more: object) -> subprocess.Popen:
    """Start a process that the kernel ends when we are gone."""
    return subprocess.Popen([str(word) for word in words], preexec_fn=boxes.die_with_parent, **more)  # noqa: PLW1509 - one libc call


@pytest.fixture(scope="session", autouse=True)
def no_leavings_of_runs_that_were_killed() -> None:
    for folder in Path("/dev/shm").glob("ddprobe-test-*"):
        if not Path("/proc", folder.name.rpartition("-")[2]).exists():
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def memory() -> Iterator[Path]:
    folder = Path(f"/dev/shm/ddprobe-test-{os.getpid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


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


def kind_of_disk_test(fixtures: Sequence[str]) -> str | None:
    """Those with a limit measure how fast a disk is; the others let one stand still, which slows no other."""
    if "box" not in fixtures:
        return None
    return "limits" if "limit" in fixtures else "stalls"


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
