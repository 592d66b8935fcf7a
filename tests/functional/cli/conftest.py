import re

import pytest

from burstctl.manpage import make_manpage
from burstlab.fake_aws.faults import Fault
from burstlab.fake_aws.server import Endpoint
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from support.aws.fake_stack import deploy_stack
from support.cli.aws_check_session import AwsCheckSession
from support.cli.cli_session import START, add_calm, add_critical
from support.cli.permissions_page import SECTIONS, allowed_actions, operations
from support.cli.shell_typing import SHELLS, TypingShell, is_installed


@pytest.fixture
def checks(tmp_path, monkeypatch, capsys):
    return AwsCheckSession(tmp_path, monkeypatch, capsys)


@pytest.fixture
def colours(cli):
    """Say that the terminal has colours."""
    cli.set(TERM="xterm-256color")


@pytest.fixture(params=SHELLS)
def shell(request, cli):
    if not is_installed(request.param):
        pytest.skip(f"{request.param}, or setsid, is not installed")
    script = cli.run("completion", request.param).out
    return TypingShell(request.param, cli.directory, script, {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"})


@pytest.fixture
def stack(lab):
    """The ledger of a deployed stack, as its functions see it."""
    return deploy_stack(lab)


@pytest.fixture
def topic(lab):
    """The topic of the stack."""
    return lab.client("sns").create_topic(Name="burstwatch")["TopicArn"]


@pytest.fixture
def observed(lab):
    """The ledgers of an older stack that cannot flip, and of a younger one that does."""
    observer = deploy_stack(lab, "bw-observe", flips=False)
    lab.clock.advance(60)
    return observer, deploy_stack(lab, "bw-act")


@pytest.fixture
def critical_lab(lab):
    """With a volume that drains."""
    add_critical(lab)
    return lab


@pytest.fixture(scope="module")
def manpage():
    return make_manpage()


@pytest.fixture(scope="module")
def plain_text(manpage):
    """The text of the page without its macros."""
    return (
        re.sub(r"\\f[BRI]|\\&", "", manpage).replace(r"\-", "-").replace(r"\(aq", "'").replace(r"\(ti", "~")
    )


class Account(Endpoint):
    """An AWS of two regions: the second one's calls go to a lab of its own."""

    def __init__(self, fleet, second):
        super().__init__(fleet)
        self.second = second

    def __call__(self, environ, start_response):
        scope = environ.get("HTTP_AUTHORIZATION", "")
        if f"/{self.second.fleet.settings.region}/" in scope:
            return self.second(environ, start_response)
        return super().__call__(environ, start_response)


def a_fleet(region):
    return LabFleet(LabClock(START, speed=0), LabSettings(lag_s=60, region=region))


@pytest.fixture
def account(cli):
    with Account(a_fleet("us-east-1"), Endpoint(a_fleet("eu-west-1"))) as account:
        cli.set(**account.environment)
        yield account


@pytest.fixture
def two_volumes(lab, monkeypatch):
    """One that drains and one that does not; waiting takes no time."""
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    add_critical(lab)
    add_calm(lab, "web-1")


@pytest.fixture
def least_permissions(lab):
    """Only the actions that the page says are enough for assess and explain."""
    [sentence] = re.findall(r"`assess` and `explain` need only ([^.]+)\.", SECTIONS["To look"])
    enough = set(re.findall(r"`(\w+)`", sentence))
    assert len(enough) == 4
    sections = [name for name in SECTIONS if name.startswith(("To ", "With "))]
    for action in operations(allowed_actions(*sections)) - enough - {"*"}:
        lab.faults.add(Fault(action=action, code="UnauthorizedOperation", status=403))
