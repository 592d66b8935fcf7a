import subprocess
import tempfile
from pathlib import Path

import pytest

from burstwatch.adapters.ledger.sqlite import SqliteLedger
from support.ledger.old_ledger import an_old_ledger


@pytest.fixture
def ledger(path):
    with SqliteLedger.open(path) as opened:
        yield opened


@pytest.fixture
def second_ledger(ledger, path):
    """The same ledger as another process would have it open."""
    with SqliteLedger.open(path, lock_timeout_s=0.05) as opened:
        yield opened


@pytest.fixture
def public_directory():
    """One that every user can enter; the directories pytest makes are for their owner."""
    with tempfile.TemporaryDirectory() as created:
        directory = Path(created)
        directory.chmod(0o755)
        yield directory


@pytest.fixture
def tiny_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("only root can mount a tiny disk here")
    yield disk
    subprocess.run(["umount", disk], check=True)


@pytest.fixture
def old_path(tmp_path):
    return an_old_ledger(tmp_path / "ledger.db")
