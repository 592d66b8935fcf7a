from shlex import split

import pytest

from support.lab.disk_support import require_throttled_disk
from support.runbooks import moto_stack
from support.runbooks.checkout import Checkout
from support.runbooks.example_page import TEXT
from support.runbooks.fake_aws_cli import FakeAwsCli
from support.runbooks.page_environment import page_environment
from support.runbooks.page_parser import Page


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path / "burstwatch")


@pytest.fixture
def page_env(tmp_path, monkeypatch):
    with page_environment(tmp_path, monkeypatch) as stage:
        stage.add_volume(tags={"role": "ci"})
        stage.modify(VolumeType="gp3", Iops=3000, Throughput=128)
        yield stage


@pytest.fixture
def aws(page_env):
    """Runs a command line; its exit code, stdout and stderr."""
    return lambda line: FakeAwsCli(page_env.client, page_env.lab.clock.now).run(split(line))


@pytest.fixture
def page(tmp_path):
    (tmp_path / "page.md").write_text(TEXT)
    return Page.read(tmp_path / "page.md")


@pytest.fixture(scope="module")
def synthesized_stack() -> None:
    """Synthesize before a page has a home of its own, into which jsii would unpack the CDK."""
    moto_stack.template()


@pytest.fixture
def disk_checkout(tmp_path):
    require_throttled_disk()
    return Checkout(tmp_path / "burstwatch", {"TERM": "xterm"})
