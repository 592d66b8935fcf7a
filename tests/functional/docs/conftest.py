import json

import pytest
import yaml

from documents.recordings.scenes import build_recordings
from support.cli.cli_session import add_critical
from support.paths import DASHBOARD, RULES


@pytest.fixture(scope="module")
def rules():
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


@pytest.fixture(scope="module")
def dashboard():
    return json.loads(DASHBOARD.read_text())


@pytest.fixture(scope="module")
def new_pictures():
    return build_recordings()


@pytest.fixture
def reported(cli, lab):
    add_critical(lab, tags={"burstwatch:mode": "auto"})
    cli.run("hold", "--all", "--for", "1h", "--reason", "INC-42", "--ledger", f"sqlite:{cli.ledger_path}")
    return cli.run("assess", "--json").document
