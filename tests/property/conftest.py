import sqlite3
from contextlib import closing
from datetime import timedelta
from functools import partial

import pytest

from burstctl.context.on_demand_pass import evaluate_fleet
from burstlab.fake_aws.server import ACCESS_KEY, Endpoint
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.volume import LabVolume
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.ledger.flip_state import Hold, ManualWindowOverride
from burstwatch.core.ledger.ledger import TickKind
from burstwatch.engine.collector import Collector
from burstwatch.wiring.bootstrap import build_client, open_session
from support.aws.in_memory_aws import DRAINING, NOON, NOW_S, CannedAws, services_with
from support.aws.queried_clients import query_clients
from support.cli.cli_session import CliSession
from support.concurrency.flip_state_machine import DelayedExecutor
from support.ledger.stored_ledger import StoredLedger


@pytest.fixture
def one_thing_after_the_other(monkeypatch):
    """Whatever fails must fail again."""
    monkeypatch.setattr("burstwatch.engine.flip_executor.ThreadPoolExecutor", DelayedExecutor)
    monkeypatch.setattr("burstwatch.engine.services.Collector", partial(Collector, monotonic=lambda: 0.0))


@pytest.fixture(scope="module")
def protocol_clients():
    """Clients as the product builds them, and the real bytes of a lab's answers to what they ask."""
    fleet = LabFleet(LabClock.manual(NOON - timedelta(hours=1)), LabSettings(lag_s=60))
    for load in ("docker-loop", "idle"):
        fleet.add(LabVolume(size_gib=100, load=load, tags={"Name": load}))
    fleet.clock.advance(3600)
    responses = {}
    with Endpoint(fleet) as lab, pytest.MonkeyPatch.context() as patch:
        for name, value in lab.environment.items():
            patch.setenv(name, value)
        patch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        patch.setenv("AWS_SECRET_ACCESS_KEY", ACCESS_KEY)
        session = open_session(None, "us-east-1")
        clients = {name: build_client(session, name, CallCounter()) for name in ("ec2", "cloudwatch")}
        for name, client in clients.items():
            client.meta.config.retries = {"total_max_attempts": 1}

            def keep(http_response, model, responses=responses, **_):
                responses.setdefault(model.name, http_response)

            client.meta.events.register(f"after-call.{name}", keep)
        query_clients(clients)
    return clients, responses


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("written")


@pytest.fixture(scope="module")
def stored_ledger(tmp_path_factory):
    """A ledger that has seen a pass, as a file at rest, and the place to damage it in."""
    folder = tmp_path_factory.mktemp("ledger")
    with SqliteLedger.open(folder / "good.sqlite") as ledger:
        evaluate_fleet(services_with(CannedAws(), ledger), now_s=NOW_S)
        ledger.place_hold(
            Hold(volume_id=DRAINING, by="ann", reason="x", placed_at_s=1, until_s=int(NOW_S) + 60)
        )
        ledger.record_manual_override(
            ManualWindowOverride(name="w", is_start=True, by="ann", at_s=1, until_s=None)
        )
        assert ledger.claim_tick(TickKind.SWEEP, int(NOW_S), now_s=NOW_S, lease_s=50)
        ledger.complete_tick(TickKind.SWEEP, int(NOW_S), fleet_fingerprints=frozenset({1, 2}))
    with closing(sqlite3.connect(folder / "good.sqlite", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    return StoredLedger(folder / "bad.sqlite", (folder / "good.sqlite").read_bytes())


@pytest.fixture
def cli(tmp_path, monkeypatch, capsys):
    return CliSession(tmp_path, monkeypatch, capsys)
