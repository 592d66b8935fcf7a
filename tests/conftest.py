import gc
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path

import pytest
from _pytest.nodeid import NodeId
from hypothesis import settings

from burstlab.disk.cleanup import clean
from burstwatch.adapters.aws.cloudwatch import CloudWatchReader
from burstwatch.core.policy.policy import Policy
from support.aws.fast_botocore import quicken_botocore
from support.paths import ROOT

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
"""In the background they may be ignored, and then would be in every process that a test starts."""

settings.register_profile("same", deadline=None, derandomize=True, database=None)
settings.register_profile("random", deadline=None)
settings.load_profile("same")
"""The same examples every time, so that a change that passed does not fail later; ``make fuzz`` tries others.

How long an example takes depends on what else the machine does.
"""


@pytest.fixture(scope="session", autouse=True)
def cached_api_models() -> Iterator[None]:
    """What botocore computes again for each client and call is computed once: half of the tests' time."""
    with pytest.MonkeyPatch.context() as patch:
        quicken_botocore(patch)
        yield


@pytest.fixture(scope="session", autouse=True)
def unlimited_metric_reads() -> Iterator[None]:
    """A simulated hour takes a second, and CloudWatch's limit of calls in a second would hold it up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(CloudWatchReader.__init__.__kwdefaults__, "sleep", lambda _: None)
        yield


@pytest.fixture(scope="module", autouse=True)
def empty_moto() -> Iterator[None]:
    """moto has one state for the process: a topic of one file would be in the account of the next."""
    yield
    if backends := sys.modules.get("moto.core.base_backend"):
        backends.BackendDict.reset()


TESTS = Path(__file__).parent


def pytest_sessionstart(session: pytest.Session) -> None:
    """Take down the disks of a run that was killed: mkfs.btrfs refuses while one of them is mounted."""
    if os.geteuid() == 0 and not hasattr(session.config, "workerinput"):
        clean(lambda _: None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="write transcripts, pictures and the output on pages again"
    )


REAL_DISKS = ("test_disk.py", "test_incident.py", "test_real_disk_commands.py")
"""Tests of burstlab's disks, which would slow each other."""

LONG = (
    "e2e/test_deployed.py",
    "lab/disk",
    "runbooks/test_pages.py",
    "lab/test_concurrency_runs.py",
    "infra",
    "e2e/test_plain_deployed.py",
    "e2e/test_demo_deployed.py",
    "install/test_container_image.py",
    "install/test_install.py",
    "browser/test_report_page.py",
    "lab/test_fault_campaign.py",
    "lab/test_local_aws.py",
    "property",
    "functional/concurrency",
    "functional/cli/commands",
    "lab",
    "functional/handlers",
    "functional",
)
"""What begins first, so that no worker is the last by far at the end; below ``tests``, longest first."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage until all is collected: nearly nothing is, and each search takes longer."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # xdist reads the marks in this hook too
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep what shares something slow in one worker of pytest-xdist, and begin with what takes long.

    The tests of a file share its fixtures and caches, which every worker would otherwise make. And xdist
    hands out files in less time than thousands of tests.
    """
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(_group(item.path)))
    items.sort(key=lambda item: _rank(item.path))


@cache
def _group(path: Path) -> str:
    if path.name in REAL_DISKS:
        return "burstlab's disk"
    below = path.relative_to(TESTS)
    return "synthesized stacks" if below.parts[0] == "infra" else below.as_posix()


@cache
def _rank(path: Path) -> int:
    """The place in ``LONG``."""
    below = path.relative_to(TESTS).as_posix()
    return next((rank for rank, long in enumerate(LONG) if below.startswith(long)), len(LONG))


@pytest.hookimpl(tryfirst=True)  # before xdist sends the identifiers
def pytest_collection_finish(session: pytest.Session) -> None:
    """Let xdist see the groups, and look for garbage seldom: it cost a sixth of the tests' time.

    xdist 3.8 appends the group to ``_nodeid``, which pytest 9.2 does not read: without this, each test is a
    group of its own. What was imported and collected stays, and is hundreds of MiB.
    """
    for item in session.items:
        if grouped := getattr(item, "_nodeid", None):
            item._id = NodeId.parse(grouped)
            assert item.nodeid == grouped, "each test would be a group of its own"
    gc.freeze()
    gc.set_threshold(200_000, 20, 20)


@pytest.fixture(scope="session")
def plain_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder for CloudFormation, written by the command; the tests that use it are in one worker."""
    folder = tmp_path_factory.mktemp("plain") / "cloudformation"
    command = [sys.executable, "-m", "infra.plain_files", folder]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def policy() -> Policy:
    return Policy()


@pytest.fixture
def shm_dir() -> Iterator[Path]:
    folder = Path(f"/dev/shm/ddprobe-test-{os.getpid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def remove_folders_of_killed_runs() -> None:
    for folder in Path("/dev/shm").glob("ddprobe-test-*"):
        if not Path("/proc", folder.name.rpartition("-")[2]).exists():
            shutil.rmtree(folder, ignore_errors=True)
