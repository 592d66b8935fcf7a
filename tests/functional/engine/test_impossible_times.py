"""Times in the ledger that no clock shows stop no flip: the ledger may be damaged, or written by others."""

from dataclasses import replace

import pytest

from burstlab.model.volume import LabVolume
from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.ledger.flip_state import WATCHDOG, ModificationUse
from burstwatch.core.ledger.ledger import Change
from burstwatch.core.ledger.resource_state import ModificationHistory, ResourceState
from support.lab.lab_start import START
from support.watch_pass_setup import tick, warm_up

YEAR_9999_S = 253_402_000_000
SIX_HOURS_ON_S = int(START.timestamp()) + 6 * 3600


def remember(ledger, volume_id, history):
    state = ResourceState(volume_id=volume_id, revision=5, modifications=history)
    ledger.commit([Change(volume_id=volume_id, expected_revision=None, state=state)], channels=())


@pytest.mark.parametrize(
    ("history", "times"),
    [
        (ModificationHistory(failure_count=1, retry_at_s=YEAR_9999_S), "9999-12-28T12:26:40Z"),
        # Our own pauses are an hour at most, and without a modification AWS's quota refuses nothing.
        (ModificationHistory(failure_count=1, retry_at_s=SIX_HOURS_ON_S), "2026-11-21T00:00:00Z"),
        (
            ModificationHistory(
                used=tuple(ModificationUse(at_s=YEAR_9999_S + k, by=WATCHDOG) for k in (0, 60, 120))
            ),
            "9999-12-28T12:26:40Z, 9999-12-28T12:27:40Z, 9999-12-28T12:28:40Z",
        ),
    ],
    ids=["the next attempt", "the next attempt tonight", "modifications"],
)
def test_a_time_that_cannot_be_stops_no_flip_and_is_reported_once(
    lab, acting, ledger, recorder, drained, history, times
):
    remember(ledger, drained, history)
    report = tick(acting, lab)
    assert len(lab.fleet.modifications(drained)) == 1
    assert [alert.kind for alert in recorder.alerts] == [AlertKind.DRAINING, AlertKind.FLIPPED]
    assert report.failures == [
        f"{drained}: the ledger has times of modifications that are too far ahead and do not count: {times}"
    ]
    assert tick(acting, lab, 1).failures == []


def test_such_a_time_is_reported_once_of_an_idle_volume_too(lab, acting, ledger):
    lab.fleet.settings = replace(lab.fleet.settings, idle_publishes=False)
    warm_up(lab)
    idle = lab.fleet.add(LabVolume(size_gib=100))
    lab.fleet.set_load(idle, "idle")
    lab.clock.advance(3600)
    for _ in range(10):
        tick(acting, lab, 5)
    state = ledger.states()[idle]
    history = ModificationHistory(failure_count=1, retry_at_s=int(lab.fleet.now_s()) + 20 * 3600)
    damaged = replace(state, revision=state.revision + 1, modifications=history)
    ledger.commit([Change(volume_id=idle, expected_revision=state.revision, state=damaged)], channels=())
    reports = [tick(acting, lab, 5) for _ in range(24)]
    assert sum(bool(report.failures) for report in reports) == 1
    assert ledger.states()[idle].modifications.retry_at_s is None
