import os
import subprocess
import sys

import pytest

from burstlab.fake_aws.dynamodb import FakeDynamoDb
from support.cli.cli_session import start_lab
from support.first_version.old_process import FIRST_VERSION, SUPPORT, TABLE, FirstVersion
from support.ledger.ledger_stores import LEDGER_KINDS, ledger_store
from support.paths import ROOT


@pytest.fixture(params=LEDGER_KINDS)
def home(request, tmp_path):
    with ledger_store(request.param, tmp_path) as place:
        place.kind = request.param
        yield place


@pytest.fixture
def ledger(home):
    return home.open()


@pytest.fixture
def second_ledger(ledger, home):
    """The same ledger as another process would have it open."""
    return home.open()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


POLICY = """\
version: 1
flip: {cooldown: 4m}
flip_back: {dwell: 5m, calm_for: 10m}
windows:
  nightly: {cron: "0 17 * * *", zone: UTC, duration: 3h}
"""


@pytest.fixture(scope="module")
def first_version(tmp_path_factory):
    directory = tmp_path_factory.mktemp("first_version")
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", FIRST_VERSION, "lambdas", "lab", "runbooks"],
        capture_output=True,
        check=False,
    )
    if archive.returncode:
        pytest.skip(
            f"the history of this clone does not reach back to {FIRST_VERSION}: git fetch --unshallow"
        )
    subprocess.run(["tar", "-x", "-C", str(directory)], input=archive.stdout, check=True)
    roots = os.pathsep.join(str(directory / root) for root in ("lambdas", "runbooks", "lab"))
    inherited = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    environment = inherited | {
        "PYTHONPATH": roots,
        "HOME": str(directory),
        "LOGNAME": "anna",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    with subprocess.Popen(
        [sys.executable, str(SUPPORT / "worker.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=directory,
        env=environment,
    ) as process:
        yield FirstVersion(process)
        process.stdin.close()
        process.wait(timeout=60)


@pytest.fixture
def lab(cli):
    with start_lab(cli, modifying_s=3000, modify_spread=0, modify_minutes_per_tib=6000) as endpoint:
        endpoint.tables[TABLE] = FakeDynamoDb(table=TABLE)
        yield endpoint


@pytest.fixture
def policy_path(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    return path


@pytest.fixture(params=LEDGER_KINDS)
def location(request, tmp_path):
    return f"sqlite:{tmp_path}/ledger.sqlite" if request.param == "sqlite" else f"dynamodb:{TABLE}"
