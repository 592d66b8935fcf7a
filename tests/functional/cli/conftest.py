import pytest

from support.aws_check_session import (
    AwsCheckSession,
)
from support.cli_session import CliSession, start_lab


@pytest.fixture
def cli(tmp_path, monkeypatch, capsys):
    return CliSession(tmp_path, monkeypatch, capsys)


@pytest.fixture
def lab(cli):
    with start_lab(cli) as endpoint:
        yield endpoint


@pytest.fixture
def checks(tmp_path, monkeypatch, capsys):
    return AwsCheckSession(tmp_path, monkeypatch, capsys)
