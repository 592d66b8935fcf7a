import pytest
from moto.sns.models import sns_backends
from moto.sqs.models import sqs_backends

from burstctl.cli.signals import StopSignal
from burstctl.experiment import runner, waiting
from burstlab.model.database import LabDatabase
from burstwatch.wiring.settings import Clock
from support.cli.cli_session import ACCOUNT, INSTANCE, START, add_draining_instance


@pytest.fixture
def topics(lab):
    """Topics and queues of this test alone: moto keeps them for as long as the process lives."""
    yield lab.client("sns")
    for backend in (*sns_backends[ACCOUNT].values(), *sqs_backends[ACCOUNT].values()):
        backend.reset()


class FakeSleep:
    """What happens while the command waits: the lab's time goes by, and perhaps something else."""

    def __init__(self, lab):
        self.lab = lab
        self.count = 0
        self.actions = []

    def sleep(self, stop, seconds):
        self.count += 1
        self.lab.clock.advance(seconds)
        for action in list(self.actions):
            action(stop)

    def run_once(self, condition, action):
        """The deed is done after the first nap when the condition holds."""

        def check(stop):
            if condition():
                self.actions.remove(check)
                action(stop)

        self.actions.append(check)


@pytest.fixture
def fake_sleep(lab, monkeypatch):
    """It looks less often than it does in earnest, and no time is slept through."""
    created = FakeSleep(lab)
    monkeypatch.setitem(waiting.MAX_SLEEP_S, Clock.ENDPOINT, 3600.0)
    monkeypatch.setattr(runner, "_POLL_INTERVAL_S", 600)
    monkeypatch.setattr(runner, "_SLOW_POLL_INTERVAL_S", 3600)

    def sleep_and_check(stop, seconds):
        created.sleep(stop, seconds)

    monkeypatch.setattr(StopSignal, "wait", sleep_and_check)
    return created


@pytest.fixture
def draining_instance(lab):
    """An instance whose I/O credits are empty, and a policy that watches it."""
    add_draining_instance(lab, io_pct=20)
    return INSTANCE


@pytest.fixture
def renamed_database(cli, lab):
    """A database that is held as ``orders`` and then named ``orders-old``."""
    (cli.directory / "policy.yaml").write_text("version: 1\nresources: {rds: {watch: true}}\n")
    lab.fleet.databases.add(LabDatabase(identifier="orders", starts_at=START))
    cli.run("watch", "--once")
    held = cli.run("hold", "orders", "--for", "6h", "--reason", "audit")
    assert held.code == 0, held.err
    cli.run("watch", "--once")
    lab.fleet.databases.rename("orders", "orders-old")
    return "db:orders-old"


@pytest.fixture
def stack(stack, lab):
    """The same, with nothing called yet."""
    lab.faults.reset_calls()
    return stack
