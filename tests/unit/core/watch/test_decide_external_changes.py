"""What a decision makes of facts other than the balance: what its host reports, and what drained it."""

from dataclasses import replace

import pytest

from burstwatch.core.alerts.alert import AlertKind, make_alert_id
from burstwatch.core.alerts.drain_message import describe_drain, describe_drain_cause
from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.assessment.drain_cause import DrainMetrics, find_drain
from burstwatch.core.assessment.host_stall import Stall
from burstwatch.core.assessment.severity import Level
from burstwatch.core.flips.volume_context import VolumeContext
from burstwatch.core.ledger.flip_state import FlipStatus
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.policy.policy import Mode, Policy
from burstwatch.core.watch.decide import NO_CONTEXT, conclude, evaluate_volume
from burstwatch.core.watch.decision import Action, Decision
from burstwatch.core.watch.missing_volume import drop_state, mark_missing
from support.builders.core_values import (
    a_decision,
    a_flip,
    a_state,
    a_tick_context,
    a_volume,
    a_window_state,
    an_assessment,
    at,
    balances,
    calm,
    critical,
    steady,
    volume_settings,
    warning,
)

STALL = Stall(
    instance_id="i-0a1",
    volume_id="vol-0a1",
    verdict="crit",
    cause="exhausted",
    total_s=8.25,
    started_at_s=int(at("11:59")),
    received_at_s=int(at("11:59:30")),
)


def evaluate_with_stall(balance, state=None, *, stall=STALL, mode=Mode.PROPOSE):
    return a_decision(an_assessment(balance), state, mode=mode, around=VolumeContext(stall=stall))


# what its host reports


def test_a_stall_of_a_calm_volume_is_reported_remembered_and_entered():
    decision = evaluate_with_stall(calm())
    [alert] = decision.alerts
    assert (alert.kind, alert.level) == (AlertKind.HOST_STALL, Level.OK)
    assert alert.evidence["summary"] == "stalled for 8.2 s, according to its host"
    assert alert.evidence["details"] == ["CloudWatch shows no reason yet; the host sees it minutes earlier."]
    assert alert.action == "burstctl explain vol-0a1 --region us-east-1"
    assert (decision.change.state.stall, decision.change.state.alerts.stall_at_s) == (STALL, at("12:00"))
    [entry] = [entry for entry in decision.change.entries if entry.kind is EntryKind.STALL]
    assert (entry.body["summary"], entry.body["total_s"]) == (alert.evidence["summary"], 8.25)


def test_a_stall_without_an_end_has_no_length():
    [alert] = evaluate_with_stall(calm(), stall=replace(STALL, total_s=None)).alerts
    assert alert.evidence["summary"] == "stalled, according to its host"


def test_a_stall_is_no_second_alert_beside_a_recovery():
    state = a_state(level=Level.CRITICAL, open_level=Level.CRITICAL, level_at_s=int(at("09:00")))
    decision = evaluate_with_stall(calm(), state)
    assert [alert.kind for alert in decision.alerts] == [AlertKind.RECOVERED]
    assert decision.change.state.stall == STALL


@pytest.mark.parametrize(
    ("reported_at", "is_reported"), [("11:00", True), ("11:00:01", False), ("11:59", False)]
)
def test_a_stall_is_reported_once_an_hour(reported_at, is_reported):
    decision = evaluate_with_stall(calm(), a_state(stall_at_s=int(at(reported_at))))
    assert [alert.kind for alert in decision.alerts] == [AlertKind.HOST_STALL] * is_reported
    assert decision.change.state.alerts.stall_at_s == at("12:00" if is_reported else reported_at)
    [entry] = [entry for entry in decision.change.entries if entry.kind is EntryKind.STALL]
    assert bool(entry.body["details"]) is is_reported, "who is told nothing need not be told why"


def test_when_the_evaluation_has_an_alert_it_carries_the_stall():
    decision = evaluate_with_stall(critical())
    [alert] = decision.alerts
    assert alert.kind is AlertKind.DRAINING
    assert alert.evidence["host"]["total_s"] == 8.25
    assert decision.change.state.alerts.stall_at_s is None


def test_a_volume_with_an_open_drain_alert_gets_no_stall_alert():
    known = a_state(level=Level.WARNING, open_level=Level.WARNING, level_at_s=int(at("11:50")))
    decision = evaluate_with_stall(warning(), known)
    assert (decision.alerts, decision.change.state.stall) == ((), STALL)


def test_in_mode_observe_a_stall_is_recorded_and_not_alerted():
    decision = evaluate_with_stall(calm(), mode=Mode.OBSERVE)
    assert (decision.alerts, decision.change.state.stall) == ((), STALL)
    assert decision.action is Action.NONE


def test_in_mode_observe_a_recovery_is_not_reported_and_nothing_stays_open():
    known = a_state(
        level=Level.WARNING, open_level=Level.WARNING, level_at_s=int(at("09:00")), is_gap_open=True
    )
    decision = a_decision(an_assessment(calm()), known, mode=Mode.OBSERVE)
    assert (decision.alerts, decision.change.state) == ((), None), "forgotten: nothing is open with anybody"
    assert decision.reason == "warning before, now ok; mode observe sends no alert"


def test_in_mode_observe_a_recovery_closes_what_was_reported_also_of_a_volume_that_is_watched_on():
    known = a_state(level=Level.WARNING, open_level=Level.WARNING, level_at_s=int(at("09:00")))
    state = a_decision(an_assessment(steady()), known, mode=Mode.OBSERVE).change.state
    assert (state.level, state.alerts.open_level, state.alerts.level_at_s) == (Level.WATCH, None, None)


def test_in_mode_observe_an_alert_of_a_draining_volume_stays_open():
    known = a_state(level=Level.WARNING, open_level=Level.WARNING, level_at_s=int(at("09:00")))
    decision = a_decision(an_assessment(critical()), known, mode=Mode.OBSERVE)
    state = decision.change.state
    assert (decision.alerts, state.level, state.alerts.open_level) == ((), Level.CRITICAL, Level.WARNING)


# what drained it

DRAIN = balances(*[100.0] * 5, *[100.0 - 3 * minute for minute in range(1, 28)], newest_starts_at="11:58")
"""27 minutes of full burst, from 100 % to 19 %."""


CAUSE = describe_drain_cause(find_drain(DRAIN), DrainMetrics(read_error="no answer"), now_s=int(at("12:00")))


def an_evaluation(balance, state=None, *, around=NO_CONTEXT):
    return evaluate_volume(
        an_assessment(balance),
        state,
        volume_settings(),
        policy=Policy(),
        context=a_tick_context(),
        volume_context=around,
    )


def test_the_drain_cause_is_in_the_alert_and_its_ledger_copy():
    decision = conclude(an_evaluation(DRAIN), CAUSE)
    [alert] = decision.alerts
    assert alert.evidence["drain"]["not_read"] == "no answer"
    entries = {entry.kind: entry for entry in decision.change.entries}
    assert entries[EntryKind.ALERT].body == alert.to_document()
    assert entries[EntryKind.LEVEL_CHANGED].body == {"from": "ok", "to": "critical"}


def test_without_a_cause_the_alert_shows_the_fall_of_the_balance():
    [alert] = conclude(an_evaluation(DRAIN)).alerts
    assert alert.evidence["drain"] == describe_drain(find_drain(DRAIN))


def test_an_alert_about_something_else_does_not_mention_a_drain():
    missed = a_window_state(missed_min=5)
    evaluation = an_evaluation(DRAIN, around=VolumeContext(windows=missed))
    drain, other = conclude(evaluation, CAUSE).alerts
    assert (drain.kind, other.kind) == (AlertKind.DRAINING, AlertKind.WINDOW_MISSED)
    assert drain.evidence["drain"]["not_read"] == "no answer"
    assert "drain" not in other.evidence
    assert other == conclude(evaluation).alerts[1]


def test_only_a_new_alert_about_a_drain_is_to_be_explained():
    assert an_evaluation(DRAIN).unexplained_drain == find_drain(DRAIN)
    assert an_evaluation(calm(), around=VolumeContext(stall=STALL)).unexplained_drain is None
    known = a_state(level=Level.CRITICAL, open_level=Level.CRITICAL, level_at_s=int(at("01:00")))
    reminder = an_evaluation(DRAIN, known)
    assert (reminder.alert.kind, reminder.alert.is_reminder) == (AlertKind.DRAINING, True)
    assert reminder.unexplained_drain is None


def test_a_calm_volume_is_decided_at_once():
    assert isinstance(an_evaluation(calm()), Decision)


# what is written down of a volume that is gone, or doubted

AHEAD_S = int(at("13:00"))
"""The revision of a state that a process wrote whose clock was ahead of ours."""


@pytest.mark.parametrize(("revision", "next_one"), [(7, int(at("12:05"))), (AHEAD_S, AHEAD_S + 1)])
def test_a_revision_rises_also_where_a_volume_is_doubted_or_gone(revision, next_one):
    state = a_state(revision=revision, level=Level.CRITICAL, open_level=Level.WARNING)
    assert mark_missing(state, a_tick_context("12:05")).state.revision == next_one
    change = drop_state(state, "the volume was deleted", policy=Policy(), context=a_tick_context("12:05"))
    [alert] = change.alerts
    assert alert.alert_id == make_alert_id("vol-0a1", AlertKind.RECOVERED, next_one)
    assert alert.previous_level is Level.WARNING, "what people were told last"
    assert [(entry.revision, entry.kind) for entry in change.entries] == [
        (next_one, EntryKind.LEVEL_CHANGED),
        (next_one, EntryKind.ALERT),
    ]
    assert change.entries[1].body == alert.to_document()


def test_a_volume_that_is_not_judged_explains_why():
    assert a_decision(an_assessment(None, volume=a_volume(attached=False))).reason == "it is not attached"


def test_during_a_modification_only_the_balance_is_read():
    leaving = a_flip(status=FlipStatus.IN_PROGRESS, started_at_s=int(at("11:59")), reached_at_s=None)
    decision = a_decision(an_assessment(critical()), a_state(level=Level.CRITICAL, flip=leaving))
    assert (decision.level, decision.metric_count) == (Level.CRITICAL, 1)


@pytest.mark.parametrize(("since", "is_reported"), [("11:58", True), ("11:58:01", False)])
def test_a_failed_read_is_reported_after_two_minutes_if_the_volume_may_be_empty(since, is_reported):
    # 10 % at 11:50 last 200 s at full burst
    known = {"balance_pct": 10.0, "balance_at_s": int(at("11:50"))}
    state = a_state(
        level=Level.WATCH,
        unknown_reason=UnknownReason.READ_FAILED,
        unknown_since_s=int(at(since)),
        **known,
    )
    decision = a_decision(an_assessment(None), state)
    assert [alert.kind for alert in decision.alerts] == [AlertKind.TELEMETRY_GAP] * is_reported
