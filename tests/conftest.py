import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from burstwatch.core.policy.policy import Policy
from support.aws.fast_botocore import quicken_botocore

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
"""In the background they may be ignored, and then would be in every process that a test starts."""

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
"""How long an example takes depends on what else the machine does."""


@pytest.fixture(scope="session", autouse=True)
def cached_api_models() -> Iterator[None]:
    """What botocore works out anew for each client and call is worked out once: half of the tests' time."""
    with pytest.MonkeyPatch.context() as patch:
        quicken_botocore(patch)
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="write transcripts, pictures and the output on pages anew"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """burstlab's tests of real disks would slow each other: they have one worker of pytest-xdist."""
    for item in items:
        if item.path.name in ("test_disk.py", "test_incident.py", "test_real_disk_commands.py"):
            item.add_marker(pytest.mark.xdist_group("burstlab's disk"))


@pytest.fixture
def policy() -> Policy:
    return Policy()


@pytest.fixture
def memory() -> Iterator[Path]:
    folder = Path(f"/dev/shm/ddprobe-test-{os.getpid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def no_leavings_of_runs_that_were_killed() -> None:
    for folder in Path("/dev/shm").glob("ddprobe-test-*"):
        if not Path("/proc", folder.name.rpartition("-")[2]).exists():
            shutil.rmtree(folder, ignore_errors=True)
