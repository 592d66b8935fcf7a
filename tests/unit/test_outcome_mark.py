from dataclasses import replace

import pytest

from burstwatch.core.flips import WATCHDOG, Phase, Spent
from burstwatch.core.orders import outcome_mark
from conftest import a_flip, a_state

STATE = a_state(next_look_at_s=60, balance_pct=20.0)


def mark(state, *, is_held=False, tick_s=600):
    return outcome_mark(state, is_held=is_held, tick_s=tick_s)


def test_a_mere_look_leaves_the_mark_as_it_is():
    looked = replace(STATE, revision=STATE.revision + 1, next_look_at_s=120, balance_pct=19.0)
    assert mark(looked, tick_s=660) == mark(STATE)


@pytest.mark.parametrize(
    "after",
    [
        replace(STATE, failures=1, retry_at_s=700),
        replace(STATE, refusal_told="cooldown"),
        replace(STATE, spent=(Spent(at_s=1, by=WATCHDOG),)),
        replace(STATE, flip=a_flip(phase=Phase.ASKED)),
        replace(STATE, contested_at_s=1),
    ],
)
def test_every_outcome_changes_the_mark(after):
    assert mark(after) != mark(STATE)


def test_a_hold_that_ends_changes_the_mark():
    assert mark(STATE, is_held=True) != mark(STATE)


def test_after_a_refusal_each_minute_asks_anew_and_a_repeated_tick_does_not():
    refused = replace(STATE, refusal_told="fleet_cap")
    assert mark(refused, tick_s=660) != mark(refused)
    assert mark(refused, tick_s=600) == mark(refused)
    assert mark(refused, tick_s=659) == mark(refused)


def test_a_volume_of_which_the_ledger_knows_nothing_has_a_mark_as_well():
    assert mark(None) != mark(None, is_held=True)
    assert mark(None) == mark(None, tick_s=660)
