from collections.abc import Iterator

import pytest

from support.aws.in_process_http import call_lab_in_process
from support.builders.functions import deploy_functions
from support.cli.cli_session import CliSession, start_lab
from support.delivery.fake_slack import start_fake_slack
from support.marks import lab_settings, policy_file


@pytest.fixture(scope="module", autouse=True)
def lab_without_sockets() -> Iterator[None]:
    """A third of the processor time of these tests was the socket between two threads of one process."""
    with pytest.MonkeyPatch.context() as patch:
        call_lab_in_process(patch)
        yield


@pytest.fixture
def cli(request, tmp_path, monkeypatch, capsys):
    """``burstctl``, as anna runs it; the mark ``policy_file`` gives her a policy."""
    session = CliSession(tmp_path, monkeypatch, capsys)
    session.set(LOGNAME="anna")
    if text := policy_file(request):
        (session.directory / "policy.yaml").write_text(text)
    return session


@pytest.fixture
def lab(request, cli):
    """What ``cli`` takes for AWS; the mark ``lab_settings`` changes how it behaves."""
    with start_lab(cli, **lab_settings(request)) as endpoint:
        yield endpoint


@pytest.fixture
def functions(request, monkeypatch):
    """The deployed functions, which repeat a failed call at once; ``policy_file`` gives them a policy."""
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0)
    text = policy_file(request)
    with deploy_functions(monkeypatch, **({"policy": text} if text else {})) as deployed:
        yield deployed


@pytest.fixture
def slack():
    with start_fake_slack() as fake:
        yield fake
