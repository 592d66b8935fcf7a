from dataclasses import replace
from datetime import timedelta

import pytest

from burstwatch.core.alerts.alert import AlertKind, action_label, format_sentences, further_commands
from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.assessment.severity import Level
from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.flips.reconciliation.observed_state import ObservedState
from burstwatch.core.flips.volume_context import VolumeContext
from burstwatch.core.ledger.flip_state import (
    EXTERNAL,
    WATCHDOG,
    Direction,
    FlipCause,
    FlipStatus,
    Hold,
    ModificationUse,
)
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.policy import AlertPolicy, FlipPolicy, Mode, Policy
from burstwatch.core.policy.volume_tags import VolumeSettings
from burstwatch.core.watch.decide import Action, TickContext, decide
from burstwatch.core.watch.missing_volume import drop_state, mark_missing
from support.builders.core_values import (
    GAP,
    GP2,
    GP3,
    TrackedVolume,
    a_decision,
    a_flip,
    a_modification,
    a_state,
    a_tick_context,
    a_volume,
    a_volume_as,
    a_window_state,
    an_assessment,
    at,
    balances,
    calm,
    critical,
    draining_to,
    steady,
    warning,
)
from support.builders.states import with_fields

# Balances of 100 GiB whose newest minute starts as given; the levels are worked out in test_levels.
# Full burst costs 3 % a minute, so 18 % last 6 min; 50 % at 0.9 % a minute last 55 min.


def exhausted(newest: str = "11:58") -> Series:
    return draining_to(0, 3, count=20, newest_starts_at=newest)


AT_LEVEL = {Level.WARNING: warning, Level.CRITICAL: critical, Level.EXHAUSTED: exhausted}
KIND = {
    Level.WARNING: AlertKind.DRAINING,
    Level.CRITICAL: AlertKind.DRAINING,
    Level.EXHAUSTED: AlertKind.EXHAUSTED,
}


# which change of level is alerted


@pytest.mark.parametrize("level", AT_LEVEL)
def test_entering_a_level_from_warning_up_is_reported_at_once(level):
    decision = a_decision(an_assessment(AT_LEVEL[level]()))
    [alert] = decision.alerts
    assert decision.action is Action.ALERT
    assert (alert.kind, alert.level, alert.previous_level) == (KIND[level], level, Level.OK)
    assert not alert.is_reminder
    assert decision.reason == f"ok before, now {level}"


@pytest.mark.parametrize(("balance", "level"), [(calm(), Level.OK), (steady(), Level.WATCH)])
def test_levels_below_warning_alert_no_one(balance, level):
    decision = a_decision(an_assessment(balance))
    assert (decision.level, decision.action, decision.alerts) == (level, Action.NONE, ())
    assert (decision.previous_level, decision.reason) == (Level.OK, level)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (Level.WARNING, Level.CRITICAL),
        (Level.CRITICAL, Level.EXHAUSTED),
        (Level.WARNING, Level.EXHAUSTED),
    ],
)
def test_a_volume_that_gets_worse_is_reported_again(first, then):
    tracked = TrackedVolume()
    tracked.evaluate("12:00", AT_LEVEL[first]())
    [alert] = tracked.evaluate("12:01", AT_LEVEL[then]("11:59")).alerts
    assert (alert.level, alert.previous_level, alert.is_reminder) == (then, first, False)


def test_a_volume_that_gets_better_but_not_well_is_reported():
    # 72 % at 1.3 % a minute: 55 min, beyond the 30 min at which critical is left.
    tracked = TrackedVolume()
    tracked.evaluate("12:00", critical())
    [alert] = tracked.evaluate("13:00", draining_to(72, 1.3, count=20, newest_starts_at="12:58")).alerts
    assert (alert.kind, alert.level) == (AlertKind.DRAINING, Level.WARNING)
    assert (alert.previous_level, alert.is_reminder) == (Level.CRITICAL, False)


@pytest.mark.parametrize("level", AT_LEVEL)
@pytest.mark.parametrize(("balance", "now_at"), [(calm, Level.OK), (steady, Level.WATCH)])
def test_a_volume_that_is_well_again_is_reported_as_recovered(level, balance, now_at):
    tracked = TrackedVolume()
    tracked.evaluate("12:00", AT_LEVEL[level]())
    decision = tracked.evaluate("15:00", balance("14:58"))
    [alert] = decision.alerts
    assert (alert.kind, alert.level, alert.previous_level) == (AlertKind.RECOVERED, now_at, level)
    assert decision.reason == f"{level} before, now {now_at}"
    assert tracked.evaluate("15:05", balance("15:03")).alerts == ()


@pytest.mark.parametrize("level", AT_LEVEL)
def test_a_level_that_lasts_is_reported_once_until_a_reminder_is_due(level):
    tracked = TrackedVolume()
    tracked.evaluate("12:00", AT_LEVEL[level]())
    decision = tracked.evaluate("13:59", AT_LEVEL[level]("13:57"))
    assert decision.alerts == ()
    assert decision.reason == f"{level}, alerted 119 min ago"
    decision = tracked.evaluate("14:00", AT_LEVEL[level]("13:58"))
    [alert] = decision.alerts
    assert (alert.kind, alert.level, alert.is_reminder) == (KIND[level], level, True)
    assert decision.reason == f"still {level}"
    assert tracked.evaluate("15:59", AT_LEVEL[level]("15:57")).alerts == ()
    assert tracked.evaluate("16:00", AT_LEVEL[level]("15:58")).alerts[0].is_reminder


def test_reminders_come_as_often_as_the_policy_requires():
    tracked = TrackedVolume(policy=Policy(alerts=AlertPolicy(remind_every=timedelta(minutes=5))))
    tracked.evaluate("12:00", critical())
    assert tracked.evaluate("12:04", critical("12:02")).alerts == ()
    assert tracked.evaluate("12:05", critical("12:03")).alerts[0].is_reminder


@pytest.mark.parametrize(
    ("newest", "is_reported"), [((5.0, 5.0), True), ((4.9, 5.0), False), ((5.0, 4.9), False)]
)
def test_leaving_exhausted_is_reported_at_the_second_reading_of_five_percent(newest, is_reported):
    tracked = TrackedVolume()
    tracked.evaluate("12:00", exhausted())
    rising = draining_to(4.5, -0.1, count=20).values
    alerts = tracked.evaluate("12:30", balances(*rising, *newest, newest_starts_at="12:28")).alerts
    assert bool(alerts) is is_reported


def test_a_second_incident_is_reported_like_the_first():
    tracked = TrackedVolume()
    tracked.evaluate("12:00", critical())
    tracked.evaluate("15:00", calm("14:58"))
    [alert] = tracked.evaluate("18:00", critical("17:58")).alerts
    assert (alert.kind, alert.previous_level, alert.is_reminder) == (AlertKind.DRAINING, Level.OK, False)


# what mode observe leaves out


@pytest.mark.parametrize("balance", [warning(), critical(), exhausted(), GAP])
def test_mode_observe_sends_no_alert(balance):
    decision = a_decision(an_assessment(balance), mode=Mode.OBSERVE)
    assert (decision.action, decision.alerts, decision.has_recommendation) == (Action.NONE, (), False)
    assert decision.reason.endswith("; mode observe sends no alert")


def test_mode_observe_still_records_the_level():
    decision = a_decision(an_assessment(critical()), mode=Mode.OBSERVE)
    assert decision.level is Level.CRITICAL
    assert [(entry.kind, dict(entry.body)) for entry in decision.change.entries] == [
        (EntryKind.LEVEL_CHANGED, {"from": "ok", "to": "critical"})
    ]


def test_a_volume_that_leaves_mode_observe_while_critical_is_reported_then():
    tracked = TrackedVolume(mode=Mode.OBSERVE)
    tracked.evaluate("12:00", critical())
    tracked.mode = Mode.PROPOSE
    [alert] = tracked.evaluate("12:01", critical("11:59")).alerts
    assert (alert.level, alert.is_reminder) == (Level.CRITICAL, False)


@pytest.mark.parametrize("mode", [Mode.PROPOSE, Mode.AUTO])
def test_the_other_modes_name_what_to_do(mode):
    decision = a_decision(an_assessment(critical()), mode=mode)
    assert decision.alerts[0].action
    assert decision.has_recommendation


def test_a_recovery_proposes_nothing():
    tracked = TrackedVolume()
    tracked.evaluate("12:00", critical())
    decision = tracked.evaluate("15:00", calm("14:58"))
    assert decision.alerts[0].action is None
    assert not decision.has_recommendation


# missing data


def test_a_telemetry_gap_is_reported_once():
    tracked = TrackedVolume()
    [alert] = tracked.evaluate("12:00", GAP, instance_state="running").alerts
    assert (alert.kind, alert.level, alert.previous_level) == (
        AlertKind.TELEMETRY_GAP,
        Level.UNKNOWN,
        Level.OK,
    )
    assert alert.reading["unknown_reason"] == "telemetry_gap"
    decision = tracked.evaluate("16:00", GAP, instance_state="running")
    assert decision.alerts == ()
    assert decision.reason == "CloudWatch has no datapoint, alerted"


def test_data_that_comes_back_after_a_gap_is_reported_once():
    tracked = TrackedVolume()
    tracked.evaluate("12:00", GAP)
    [alert] = tracked.evaluate("12:15", calm("12:13")).alerts
    assert (alert.kind, alert.level) == (AlertKind.RECOVERED, Level.OK)
    assert tracked.evaluate("12:30", calm("12:28")).alerts == ()


def test_a_volume_found_critical_after_a_gap_is_reported_as_critical():
    tracked = TrackedVolume()
    tracked.evaluate("12:00", GAP)
    [alert] = tracked.evaluate("12:15", critical("12:13")).alerts
    assert (alert.kind, alert.level) == (AlertKind.DRAINING, Level.CRITICAL)


def test_a_second_gap_is_reported_again():
    tracked = TrackedVolume()
    tracked.evaluate("12:00", GAP)
    tracked.evaluate("12:15", calm("12:13"))
    [alert] = tracked.evaluate("13:00", GAP).alerts
    assert alert.kind is AlertKind.TELEMETRY_GAP


def test_a_volume_that_was_critical_keeps_its_level_over_a_gap():
    tracked = TrackedVolume()
    tracked.evaluate("12:00", critical())
    decision = tracked.evaluate("12:40", GAP)
    assert (decision.level, decision.previous_level) == (Level.UNKNOWN, Level.CRITICAL)
    assert (tracked.state.level, tracked.state.alerts.open_level) == (Level.CRITICAL, Level.CRITICAL)
    [alert] = tracked.evaluate("13:00", calm("12:58")).alerts
    assert (alert.kind, alert.previous_level) == (AlertKind.RECOVERED, Level.CRITICAL)


def test_no_reminder_is_sent_while_the_data_is_missing():
    tracked = TrackedVolume()
    tracked.evaluate("12:00", critical())
    tracked.evaluate("12:40", GAP)
    assert tracked.evaluate("14:30", GAP).alerts == ()


@pytest.mark.parametrize("minutes_apart", [1, 5, 10])
def test_a_read_that_fails_is_reported_when_it_has_failed_for_half_an_hour(minutes_apart):
    tracked = TrackedVolume()
    for minute in range(0, 30, minutes_apart):
        decision = tracked.evaluate(f"12:{minute:02}", None, read_error="Throttling")
        assert (decision.alerts, decision.reason) == ((), "reading it failed")
    [alert] = tracked.evaluate("12:30", None, read_error="Throttling").alerts
    assert alert.kind is AlertKind.TELEMETRY_GAP
    assert (alert.reading["unknown_reason"], alert.reading["unknown_because"]) == (
        "read_failed",
        "Throttling",
    )
    assert tracked.evaluate("12:31", None, read_error="Throttling").alerts == ()
    assert tracked.evaluate("12:32", calm("12:30")).alerts[0].kind is AlertKind.RECOVERED


def test_reads_that_fail_now_and_then_are_not_reported():
    tracked = TrackedVolume()
    for hour in range(9, 15):
        tracked.evaluate(f"{hour}:00", None, read_error="Throttling")
        tracked.evaluate(f"{hour}:20", calm(f"{hour}:18"))
    assert tracked.alerts == []


def test_a_failed_read_that_turns_out_to_be_a_gap_is_reported_once():
    tracked = TrackedVolume()
    tracked.evaluate("12:00", None, read_error="Throttling")
    tracked.evaluate("12:30", None, read_error="Throttling")
    tracked.evaluate("12:35", GAP)
    tracked.evaluate("13:30", None, read_error="Throttling")
    assert [alert.kind for alert in tracked.alerts] == [AlertKind.TELEMETRY_GAP]


@pytest.mark.parametrize(
    ("volume", "evidence", "reason"),
    [
        (a_volume(attached=False, instance_id=None), {}, UnknownReason.DETACHED),
        (a_volume(volume_type="gp3"), {}, UnknownReason.NOT_BURSTABLE_TYPE),
        (a_volume(1_000), {}, UnknownReason.NEVER_EMPTY),
        (a_volume(), {"instance_state": "stopped"}, UnknownReason.INSTANCE_STOPPED),
    ],
)
@pytest.mark.parametrize("before", [critical(), GAP])
def test_a_volume_that_needs_no_watching_any_more_closes_its_alert(volume, evidence, reason, before):
    tracked = TrackedVolume()
    [opened] = tracked.evaluate("12:00", before).alerts
    decision = tracked.evaluate("12:40", GAP, volume=volume, **evidence)
    [alert] = decision.alerts
    assert (alert.kind, alert.level) == (AlertKind.RECOVERED, Level.UNKNOWN)
    assert alert.previous_level is (Level.CRITICAL if opened.level is Level.CRITICAL else Level.OK)
    assert alert.reading["unknown_reason"] == reason
    assert tracked.evaluate("12:55", GAP, volume=volume, **evidence).alerts == ()


def test_a_volume_that_was_detached_is_forgotten_when_its_bucket_has_had_time_to_refill():
    tracked = TrackedVolume()
    known = tracked.evaluate("10:00", critical("09:58")).change.state
    assert known.reading.balance_pct < 50
    decision = tracked.evaluate("10:01", GAP, volume=a_volume(attached=False))
    assert decision.change.state.reading.balance_pct == known.reading.balance_pct
    assert dict(decision.change.entries[0].body) == {"from": "critical", "to": "unknown"}
    assert tracked.evaluate("10:10", GAP, volume=a_volume(attached=False)).change is None, (
        "nothing is written"
    )
    decision = tracked.evaluate("23:59", GAP, volume=a_volume(size_gib=334, attached=False))
    assert decision.change.state is None


def test_an_attached_again_volume_keeps_its_level_while_it_is_too_new():
    tracked = TrackedVolume()
    tracked.evaluate("12:00", critical())
    decision = tracked.evaluate("12:40", GAP, arrived_at_s=int(at("12:35")))
    assert decision.assessment.unknown_reason is UnknownReason.TOO_NEW
    assert decision.alerts == ()
    assert tracked.state.level is Level.CRITICAL


@pytest.mark.parametrize(
    "state", [None, ResourceState(volume_id="vol-0a1", revision=7, level=Level.CRITICAL)]
)
def test_a_volume_without_a_basis_to_judge_is_never_healthy(state):
    assert a_decision(an_assessment(GAP), state).level is Level.UNKNOWN


# what is written


def test_a_calm_volume_writes_nothing():
    assert a_decision(an_assessment(calm())).change is None


@pytest.mark.parametrize(
    "volume", [a_volume(attached=False), a_volume(volume_type="gp3"), a_volume(1_000)], ids=str
)
def test_a_volume_that_is_not_polled_writes_nothing(volume):
    assert a_decision(an_assessment(GAP, volume=volume)).change is None


def test_a_volume_that_is_calm_again_is_forgotten():
    tracked = TrackedVolume()
    tracked.evaluate("12:00", steady())
    assert tracked.state is not None
    decision = tracked.evaluate("15:00", calm("14:58"))
    assert (decision.change.state, decision.change.alerts) == (None, ())


@pytest.mark.parametrize(
    ("balance", "evidence"),
    [
        (steady(), {}),
        (critical(), {}),
        (GAP, {}),
        (GAP, {"instance_state": "stopped"}),
        (GAP, {"arrived_at_s": int(at("11:59"))}),
        (None, {"read_error": "Throttling"}),
    ],
)
def test_a_volume_with_anything_going_on_is_remembered(balance, evidence):
    assert a_decision(an_assessment(balance, **evidence)).change.state is not None


def test_a_change_names_the_revision_it_was_decided_from():
    tracked = TrackedVolume()
    assert tracked.evaluate("12:00", critical()).change.expected_revision is None
    revision = tracked.state.revision
    assert tracked.evaluate("12:01", critical("11:59")).change.expected_revision == revision


def test_a_level_change_and_its_full_alert_are_recorded():
    change = a_decision(an_assessment(critical())).change
    level_changed, alerted = change.entries
    assert (level_changed.kind, dict(level_changed.body)) == (
        EntryKind.LEVEL_CHANGED,
        {"from": "ok", "to": "critical"},
    )
    assert (alerted.kind, alerted.body) == (EntryKind.ALERT, change.alerts[0].to_document())
    assert {entry.at_s for entry in change.entries} == {at("12:00")}
    assert {entry.revision for entry in change.entries} == {change.state.revision}


def test_a_level_that_lasts_adds_nothing_to_the_ledger():
    tracked = TrackedVolume()
    tracked.evaluate("12:00", critical())
    assert tracked.evaluate("12:01", critical("11:59")).change.entries == ()
    assert tracked.state.level_since_s == at("12:00")


def test_what_was_read_is_remembered():
    state = a_decision(an_assessment(steady())).change.state
    assert (state.reading.balance_pct, state.reading.balance_at_s) == (60.0, at("11:59"))


# alert ids and revisions


def test_the_same_look_at_the_same_state_gives_the_same_alert_id():
    first, again = (a_decision(an_assessment(critical())) for _ in range(2))
    assert first.alerts[0].alert_id == again.alerts[0].alert_id
    assert first == again


def test_every_alert_has_an_id_of_its_own():
    tracked = TrackedVolume()
    looks = [
        ("12:00", critical("11:58")),
        ("14:00", critical("13:58")),
        ("15:00", calm("14:58")),
        ("15:01", critical("14:59")),
        ("15:02", exhausted("15:00")),
        ("15:40", GAP),
    ]
    for clock, balance in looks:
        tracked.evaluate(clock, balance)
    assert len(tracked.alerts) == len({alert.alert_id for alert in tracked.alerts}) == len(looks)


def test_a_revision_rises_even_after_a_state_was_dropped():
    tracked = TrackedVolume()
    tracked.evaluate("12:00", critical())
    first = tracked.state.revision
    closed = tracked.evaluate("15:00", calm("14:58")).change
    assert closed.state is None
    tracked.evaluate("15:05", critical("15:03"))
    assert first < closed.entries[0].revision < tracked.state.revision


def test_a_revision_increases_even_if_the_clock_does_not():
    tracked = TrackedVolume()
    revisions = []
    for _ in range(3):
        tracked.evaluate("12:00", critical())
        revisions.append(tracked.state.revision)
    assert revisions == sorted(set(revisions))


# when to look again


@pytest.mark.parametrize(
    ("balance", "minutes"),
    [
        # 100 GiB, baseline 300: a calm volume waits for the sweep, every 15 min (see test_cadence).
        (calm(), 15),
        # 60 % is 1,200 s at full burst, less 840 s: 6 min, but 5 min at most; 51 % leaves 3 min, 18 % none.
        (steady(), 5),
        (balances(*[51.0] * 31), 3),
        (critical(), 1),
        # One answer without datapoints is not yet a gap.
        (GAP, 1),
        (None, 1),
    ],
)
def test_the_poll_interval_follows_from_what_was_seen(balance, minutes):
    assert a_decision(an_assessment(balance)).poll_interval_s == minutes * 60


def test_a_gap_that_a_second_look_finds_as_well_waits_for_the_sweep():
    known = a_decision(an_assessment(GAP)).change.state
    repeated = a_decision(an_assessment(GAP, now="12:01"), known, now="12:01")
    assert (repeated.poll_interval_s, repeated.change.state.next_poll_at_s) == (15 * 60, None)


@pytest.mark.parametrize(
    ("balance", "evidence", "minutes"),
    [
        (calm(), {}, None),
        (GAP, {}, 1),
        (GAP, {"instance_state": "stopped"}, None),
        (steady(), {}, 5),
        (critical(), {}, 1),
        (GAP, {"arrived_at_s": int(at("11:59"))}, 1),
        (None, {"read_error": "Throttling"}, 1),
        # Calm, but it has just arrived or been modified: full bucket, five minutes at most.
        (calm(), {"arrived_at_s": int(at("11:59"))}, 5),
        (calm(), {"modified_at_s": int(at("11:59")), "smaller_size_gib": 100}, 5),
    ],
)
def test_only_a_volume_in_focus_has_a_next_poll_of_its_own(balance, evidence, minutes):
    change = a_decision(an_assessment(balance, **evidence)).change
    due_at_s = change and change.state.next_poll_at_s
    assert due_at_s == (minutes and at("12:00") + 60 * minutes)


@pytest.mark.parametrize(
    "volume", [a_volume(attached=False), a_volume(volume_type="io1"), a_volume(1_000)], ids=str
)
def test_a_volume_that_cannot_be_polled_has_no_poll_interval(volume):
    assert a_decision(an_assessment(GAP, volume=volume)).poll_interval_s is None


def test_the_next_poll_counts_from_the_time_of_the_tick_not_from_when_it_ran():
    look = TickContext(
        now_s=at("12:00:50"), tick_at_s=int(at("12:00")), location=AwsLocation(region="us-east-1")
    )
    decision = decide(
        an_assessment(steady(), now="12:00:50"),
        None,
        VolumeSettings(mode=Mode.PROPOSE),
        policy=Policy(),
        context=look,
    )
    assert decision.change.state.next_poll_at_s == at("12:05")


@pytest.mark.parametrize(
    ("newest", "minutes"),
    # 100 GiB: a full bucket lasts for 33 min at worst, 9 of them for slack and acting, 15 for the sweep
    # interval: a datapoint may be 9 min old. An older one calls for a closer look, the sooner the older.
    [("11:54", None), ("11:50", None), ("11:49", 5), ("11:39", 4), ("11:36", 1), ("11:32", 1)],
)
def test_a_calm_volume_whose_data_is_late_is_evaluated_sooner(newest, minutes):
    change = a_decision(an_assessment(calm(newest))).change
    due_at_s = change and change.state.next_poll_at_s
    assert due_at_s == (minutes and at("12:00") + 60 * minutes)


# volumes that are no more


def test_a_deleted_volume_closes_its_alert():
    tracked = TrackedVolume()
    tracked.evaluate("12:00", critical())
    change = drop_state(
        tracked.state, "the volume was deleted", policy=Policy(), context=a_tick_context("12:05")
    )
    [alert] = change.alerts
    assert (alert.kind, alert.level, alert.previous_level) == (
        AlertKind.RECOVERED,
        Level.UNKNOWN,
        Level.CRITICAL,
    )
    assert alert.alert_id not in {reported.alert_id for reported in tracked.alerts}
    assert (change.state, change.expected_revision) == (None, tracked.state.revision)


def test_a_deleted_volume_without_an_alert_is_forgotten_silently():
    tracked = TrackedVolume()
    tracked.evaluate("12:00", steady())
    change = drop_state(
        tracked.state, "the volume was deleted", policy=Policy(), context=a_tick_context("12:05")
    )
    assert (change.state, change.alerts) == (None, ())


@pytest.mark.parametrize("flip", [a_flip(), a_flip(status=FlipStatus.IN_PROGRESS), a_flip(is_permanent=True)])
def test_a_deleted_volume_drops_its_flip(flip):
    change = drop_state(
        a_state(flip=flip), "the volume was deleted", policy=Policy(), context=a_tick_context("12:05")
    )
    assert (change.state, change.alerts) == (None, ())
    assert [dict(entry.body) for entry in change.entries] == [{"from": "ok", "to": "the volume was deleted"}]


# volumes that AWS leaves out of an answer

USED = (ModificationUse(at_s=int(at("11:00")), by=WATCHDOG, direction=Direction.FLIP),)
FLIP_OUTCOMES = {
    "on its target": {"flip": a_flip()},
    "where it stays": {"flip": a_flip(is_permanent=True)},
    "on its way": {"flip": a_flip(status=FlipStatus.IN_PROGRESS)},
    "never sent": {"unsent_intent": a_flip(status=FlipStatus.REQUESTED)},
    "changed by others": {"contested_at_s": int(at("11:00"))},
    "back again": {"used": USED},
}


@pytest.mark.parametrize("known", FLIP_OUTCOMES)
def test_a_volume_that_one_answer_leaves_out_is_doubted_and_looked_for_a_minute_later(known):
    state = a_state(**FLIP_OUTCOMES[known], revision=7)
    change = mark_missing(state, a_tick_context("12:05"))
    doubted = with_fields(
        state,
        revision=int(at("12:05")),
        missing_since_s=int(at("12:05")),
        next_poll_at_s=int(at("12:06")),
    )
    assert (change.expected_revision, change.state) == (7, doubted)
    assert (change.entries, change.alerts) == ((), ())


@pytest.mark.parametrize(
    ("now", "is_gone"), [("12:06", False), ("12:14:59", False), ("12:15", True), ("13:00", True)]
)
def test_a_volume_that_is_missing_for_ten_minutes_is_gone(now, is_gone):
    change = mark_missing(a_state(flip=a_flip(), missing_since_s=int(at("12:05"))), a_tick_context(now))
    assert (change is None) is is_gone
    if change is not None:
        assert change.state.presence.missing_since_s == at("12:05"), "the first answer is the one that counts"


def test_what_may_soon_be_a_warning_is_evaluated_in_a_minute():
    # 60 % at 0.9 % a minute: empty in 66 minutes, and a warning begins at 60.
    decision = a_decision(an_assessment(draining_to(60, 0.9, count=40)))
    assert (decision.level, decision.poll_interval_s) == (Level.WATCH, 60)


@pytest.mark.parametrize(("now", "is_gone"), [("12:05:29", False), ("12:05:30", True)])
def test_a_never_flipped_volume_is_gone_when_two_responses_omit_it(now, is_gone):
    assert (mark_missing(a_state(missing_since_s=int(at("12:05"))), a_tick_context(now)) is None) is is_gone


def test_a_volume_that_is_shown_again_was_never_missing():
    decision = evaluate_flipped(a_flip(), GP3, missing_since_s=int(at("11:58")))
    assert (decision.change.state.flip, decision.change.state.presence.missing_since_s) == (a_flip(), None)


# what is wanted done

A_HOLD = Hold(volume_id=None, by="ann", reason="release day", placed_at_s=0, until_s=int(at("18:00")))
OUT, BACK = Direction.FLIP, Direction.FLIP_BACK


@pytest.mark.parametrize(
    ("mode", "hold", "action", "direction"),
    [
        (Mode.AUTO, None, Action.FLIP, OUT),
        (Mode.AUTO, A_HOLD, Action.HOLD, OUT),
        (Mode.PROPOSE, None, Action.ALERT, None),
        (Mode.PROPOSE, A_HOLD, Action.ALERT, None),
        (Mode.OBSERVE, None, Action.NONE, None),
    ],
)
def test_a_critical_level_is_acted_upon_in_mode_auto_unless_on_hold(mode, hold, action, direction):
    decision = a_decision(an_assessment(critical()), mode=mode, around=VolumeContext(hold=hold))
    assert decision.action is action
    assert (decision.trigger and decision.trigger.direction) is direction
    # The alert is still sent, with its level.
    assert [alert.kind for alert in decision.alerts] == ([] if mode is Mode.OBSERVE else [AlertKind.DRAINING])
    assert ("ann" in decision.reason) is (action is Action.HOLD)


@pytest.mark.parametrize(
    ("volume_id", "subject", "release"),
    [(None, "All automatic changes", "--all"), ("vol-0a1", "Its automatic changes", "vol-0a1")],
)
def test_an_alert_shows_the_hold_and_the_command_that_ends_it(volume_id, subject, release):
    hold = replace(A_HOLD, volume_id=volume_id)
    [alert] = a_decision(an_assessment(critical()), mode=Mode.AUTO, around=VolumeContext(hold=hold)).alerts
    held = f"{subject} are on hold for 6 h (until 18:00 UTC), by ann: release day."
    assert held in format_sentences(alert)
    assert f"burstctl release {release} --region us-east-1" in dict(further_commands(alert)).values()
    assert action_label(alert) == "What to do"


@pytest.mark.parametrize(("mode", "action"), [(Mode.AUTO, Action.FLIP), (Mode.PROPOSE, Action.NONE)])
def test_a_window_flips_a_calm_volume_without_an_alert_about_it(mode, action):
    windows = a_window_state()
    decision = a_decision(an_assessment(calm()), mode=mode, around=VolumeContext(windows=windows))
    assert (decision.action, decision.alerts, decision.level) == (action, (), Level.OK)
    assert "release" in decision.reason
    assert decision.recommendation is not None


def prefers_io1_policy():
    return Policy(flip=FlipPolicy(target=VolumeType.IO1))


def used_up(*clocks):
    return a_state(used=tuple(ModificationUse(at_s=int(at(clock)), by=WATCHDOG) for clock in clocks))


@pytest.mark.parametrize("mode", [Mode.PROPOSE, Mode.AUTO])
def test_the_third_flip_of_a_day_is_proposed_as_the_watchdog_would_make_it(mode):
    state = used_up("06:00", "08:00")
    decision = a_decision(an_assessment(critical()), state, mode=mode, policy=prefers_io1_policy())
    (alert,) = decision.alerts
    assert alert.action == decision.recommendation.action
    assert " --to gp3 " in alert.action
    assert any(
        "not io1, because 2 of AWS's 4 modifications in 24 h" in sentence
        for sentence in format_sentences(alert)
    )


def test_what_began_more_than_a_day_ago_changes_no_proposal():
    a_day_ago = ModificationUse(at_s=int(at("12:00")) - 86_400, by=WATCHDOG)
    state = with_fields(used_up("08:00"), used=(a_day_ago, *used_up("08:00").modifications.used))
    decision = a_decision(an_assessment(critical()), state, policy=prefers_io1_policy())
    assert decision.recommendation.target.volume_type is VolumeType.IO1


def test_what_others_have_in_progress_counts_in_a_proposal():
    around = VolumeContext(
        modification_in_progress=a_modification(GP2, GP2, state="modifying", started="11:50")
    )
    decision = a_decision(
        an_assessment(critical()), used_up("08:00"), policy=prefers_io1_policy(), around=around
    )
    assert decision.recommendation.target.volume_type is VolumeType.GP3


def test_the_third_flip_of_a_critical_volume_is_proposed_as_the_watchdog_would_make_it():
    assessment = an_assessment(calm())
    decision = a_decision(
        assessment, used_up("06:00", "08:00"), policy=prefers_io1_policy(), is_critical=True
    )
    (alert,) = decision.alerts
    assert (alert.kind, alert.evidence["to"]["volume_type"]) == (AlertKind.CRITICAL_ON_BURST, "gp3")
    assert any("not io1, because" in sentence for sentence in format_sentences(alert))


def test_a_window_that_requests_nothing_leaves_a_calm_volume_alone():
    windows = a_window_state(start="14:00", end="15:00", phase=type(a_window_state().phase).OUTSIDE)
    decision = a_decision(an_assessment(calm()), mode=Mode.AUTO, around=VolumeContext(windows=windows))
    assert (decision.action, decision.change, decision.recommendation) == (Action.NONE, None, None)


def test_a_calm_critical_volume_is_reported_once_and_remembered():
    first = a_decision(an_assessment(calm()), is_critical=True)
    [alert] = first.alerts
    assert (alert.kind, first.action) == (AlertKind.CRITICAL_ON_BURST, Action.ALERT)
    assert alert.action.startswith("burstctl flip vol-0a1 --region us-east-1 --to gp3")
    [entry] = first.change.entries
    assert (entry.kind, entry.body) == (EntryKind.ALERT, alert.to_document())
    state = first.change.state
    assert state.next_poll_at_s is None
    later = an_assessment(calm("12:58"), now="13:00")
    repeated = a_decision(later, state, now="13:00", is_critical=True)
    assert repeated.alerts == ()
    assert repeated.change.state.alerts.is_critical_open


def test_a_volume_that_is_critical_no_more_is_forgotten():
    state = a_state(is_critical_open=True)
    assert a_decision(an_assessment(calm()), state).change.state is None


# flipped volumes


def evaluate_flipped(flip, configuration, record=None, *, mode=Mode.AUTO, **state):
    """A look at a flipped volume that is this configuration now; AWS reports this modification."""
    volume = a_volume_as(configuration)
    assessment = an_assessment(GAP, volume=volume, changing_to="something else")
    around = VolumeContext(observed=ObservedState(volume=volume, record=record))
    return a_decision(assessment, a_state(flip=flip, **state), mode=mode, around=around)


def changing(direction=OUT):
    began_s = int(at("11:50"))
    return a_flip(
        status=FlipStatus.IN_PROGRESS,
        direction=direction,
        requested_at_s=began_s,
        started_at_s=began_s,
        reached_at_s=None,
    )


RETURNED = a_modification(GP3, GP2, started="11:50")
ARRIVED = a_modification(GP2, GP3, started="11:50")


@pytest.mark.parametrize(
    ("flip", "record", "minutes", "metrics"),
    [
        # under way: every minute, and AWS is asked, not CloudWatch (but for the balance of a gp2)
        (changing(), a_modification(started="11:50", state="optimizing"), 1, 1),
        # on its target: every five minutes, with reads and writes
        (a_flip(), None, 5, 2),
        # where it stays: twice a day, whether it is that still
        (a_flip(is_permanent=True), None, 12 * 60, 0),
    ],
)
def test_how_often_a_flipped_volume_is_evaluated_and_what_is_read(flip, record, minutes, metrics):
    decision = evaluate_flipped(flip, GP3, record)
    assert decision.poll_interval_s == 60 * minutes
    assert decision.change.state.next_poll_at_s == at("12:00") + 60 * minutes
    assert decision.metric_count == metrics


def test_a_draining_flip_candidate_is_polled_as_its_level_requires():
    assert a_decision(an_assessment(critical()), mode=Mode.AUTO).poll_interval_s == 60


def test_a_calm_volume_for_a_window_is_polled_until_flipped():
    decision = a_decision(
        an_assessment(calm()), mode=Mode.AUTO, around=VolumeContext(windows=a_window_state())
    )
    assert decision.poll_interval_s == 300
    assert decision.change.state.next_poll_at_s == at("12:05")


@pytest.mark.parametrize("direction", Direction)
def test_a_volume_that_aws_could_not_describe_keeps_its_flip(direction):
    flip = changing(direction)
    decision = a_decision(an_assessment(GAP, volume=a_volume_as(GP3)), a_state(flip=flip), mode=Mode.AUTO)
    assert (decision.flip, decision.change.state.flip) == (flip, flip)
    assert (decision.trigger, decision.change.entries) == (None, ())


@pytest.mark.parametrize(
    ("flip", "shows", "record", "kinds", "alerts"),
    [
        (changing(), GP3, ARRIVED, [EntryKind.REACHED], []),
        (changing(BACK), GP2, RETURNED, [EntryKind.RESTORED], []),
        (
            changing(),
            GP2,
            a_modification(started="11:50", state="failed"),
            [EntryKind.FAILED, EntryKind.ALERT],
            [AlertKind.FLIP_FAILED],
        ),
        (
            a_flip(),
            GP2,
            RETURNED,
            [EntryKind.CHANGED_BY_OTHERS, EntryKind.ALERT],
            [AlertKind.CHANGED_BY_OTHERS],
        ),
    ],
)
def test_a_flip_outcome_is_recorded_and_reported_under_one_revision(flip, shows, record, kinds, alerts):
    decision = evaluate_flipped(flip, shows, record)
    change = decision.change
    assert [entry.kind for entry in change.entries] == kinds
    assert [alert.kind for alert in change.alerts] == alerts
    assert {entry.revision for entry in change.entries} == {change.state.revision}
    assert change.expected_revision == 1


def test_a_volume_that_was_critical_when_it_was_flipped_has_recovered_once_it_is_a_gp3():
    reported = {"level": Level.CRITICAL, "open_level": Level.CRITICAL, "level_at_s": int(at("11:40"))}
    decision = evaluate_flipped(changing(), GP3, ARRIVED, **reported)
    assert [alert.kind for alert in decision.alerts] == [AlertKind.RECOVERED]
    assert decision.change.state.level is Level.OK


def test_a_calm_returnable_volume_should_be_flipped_back():
    idle = balances(*[0.0] * 31)
    volume = a_volume_as(GP3)
    assessment = an_assessment(GAP, volume=volume, read_ops=idle, write_ops=idle)
    around = VolumeContext(observed=ObservedState(volume=volume))
    decision = a_decision(assessment, a_state(flip=a_flip()), mode=Mode.AUTO, around=around)
    assert (decision.action, decision.trigger.direction) == (Action.FLIP_BACK, BACK)
    held = a_decision(
        assessment,
        a_state(flip=a_flip()),
        mode=Mode.AUTO,
        around=VolumeContext(observed=around.observed, hold=A_HOLD),
    )
    assert held.action is Action.HOLD


def test_a_volume_left_on_its_target_is_reported_and_the_day_is_counted_from_there():
    decision = evaluate_flipped(a_flip(usd_per_month=100.0), GP3, mode=Mode.PROPOSE)
    [alert] = decision.alerts
    assert (alert.kind, decision.action) == (AlertKind.LEFT_ON_TARGET, Action.ALERT)
    assert alert.action == "burstctl flip-back vol-0a1 --region us-east-1"
    assert decision.change.state.flip.overdue_alerted_at_s == at("12:00")


# changed by others


@pytest.mark.parametrize(
    ("level", "facts"),
    [
        (Level.OK, {"is_critical": True}),
        (Level.OK, {"around": VolumeContext(windows=a_window_state())}),
        (Level.CRITICAL, {}),
    ],
)
def test_an_externally_changed_volume_is_left_alone_until_released(level, facts):
    for contested_at_s, mode in ((int(at("09:00")), Mode.PROPOSE), (None, Mode.AUTO)):
        decision = a_decision(
            an_assessment(critical() if level is Level.CRITICAL else calm()),
            a_state(contested_at_s=contested_at_s, level=level),
            mode=Mode.AUTO,
            **facts,
        )
        assert decision.volume_settings.mode is mode
        assert (decision.trigger is None) is (mode is Mode.PROPOSE)


@pytest.mark.parametrize("facts", [{"is_critical": True}, {}])
def test_a_volume_found_externally_changed_gets_no_trigger_in_that_evaluation(facts):
    volume = a_volume_as(GP2)
    observed = ObservedState(volume=volume, record=RETURNED)
    decision = a_decision(
        an_assessment(critical(), volume=volume),
        a_state(flip=a_flip()),
        mode=Mode.AUTO,
        around=VolumeContext(observed=observed),
        **facts,
    )
    assert decision.change.state.modifications.contested_at_s == at("12:00")
    assert AlertKind.CHANGED_BY_OTHERS in {alert.kind for alert in decision.alerts}
    assert decision.trigger is None


# what is remembered of a flip that is over


def modification_used_at(clock, by=WATCHDOG):
    return (ModificationUse(at_s=int(at(clock)), by=by),)


@pytest.mark.parametrize(
    ("state", "is_kept"),
    [
        ({"flip": a_flip(is_permanent=True)}, True),
        ({"contested_at_s": int(at("09:00"))}, True),
        # what is used up counts for a day
        ({"used": modification_used_at("11:00", EXTERNAL)}, True),
        ({"used": (ModificationUse(at_s=int(at("12:00")) - 86_400, by=WATCHDOG),)}, False),
        ({"retry_at_s": int(at("12:00:01")), "failure_count": 1}, True),
        ({"retry_at_s": int(at("12:00")), "failure_count": 1}, False),
        # since when a balance says something again, for as long as any is read back
        ({"returned_at_s": int(at("10:00:01"))}, True),
        ({"returned_at_s": int(at("10:00"))}, False),
        # it has no window any more
        ({"missed_window_at_s": int(at("12:30"))}, False),
        ({"refusal": "held"}, False),
    ],
)
def test_what_would_change_a_later_decision_is_remembered(state, is_kept):
    decision = a_decision(an_assessment(calm()), a_state(**state))
    assert (decision.change.state is not None) is is_kept


def test_a_volume_that_is_back_is_in_focus_like_one_that_arrived():
    decision = evaluate_flipped(changing(BACK), GP2, RETURNED)
    state = decision.change.state
    assert (state.flip, state.modifications.returned_at_s, state.presence.arrived_at_s) == (
        None,
        at("11:50"),
        at("12:00"),
    )
    assert (decision.poll_interval_s, state.next_poll_at_s) == (60, at("12:01"))


def test_a_timed_manual_flip_returns_in_mode_propose():
    idle = balances(*[0.0] * 31)
    volume = a_volume_as(GP3)
    flip = a_flip(cause=FlipCause.MANUAL, by="ann", return_after_s=int(at("12:00")))
    decision = a_decision(
        an_assessment(GAP, volume=volume, read_ops=idle, write_ops=idle),
        a_state(flip=flip),
        mode=Mode.PROPOSE,
        around=VolumeContext(observed=ObservedState(volume=volume)),
    )
    assert decision.action is Action.FLIP_BACK


# what AWS does not report while a flip is under way


@pytest.mark.parametrize(
    ("flip", "newest", "level"),
    [
        # nine minutes old it may raise an alarm about a volume that nothing is done about
        (None, "11:50", Level.CRITICAL),
        (a_flip(status=FlipStatus.REQUESTED, started_at_s=None, reached_at_s=None), "11:50", Level.WARNING),
        (changing(), "11:50", Level.WARNING),
        (changing(BACK), "11:50", Level.WARNING),
        # within the lag of five minutes it is news
        (changing(), "11:54", Level.CRITICAL),
    ],
)
def test_an_old_balance_raises_no_alarm_during_a_modification(flip, newest, level):
    state = a_state(flip=flip, level=Level.WARNING, open_level=Level.WARNING, level_at_s=int(at("11:59")))
    decision = a_decision(an_assessment(critical(newest), changing_to=flip and "gp3"), state, mode=Mode.AUTO)
    assert (decision.level, decision.change.state.level) == (level, level)
    assert bool(decision.alerts) is (level is Level.CRITICAL)


def test_an_old_balance_still_ends_an_alarm_during_a_modification():
    reported = {"level": Level.CRITICAL, "open_level": Level.CRITICAL, "level_at_s": int(at("11:40"))}
    decision = a_decision(
        an_assessment(calm("11:50"), changing_to="gp3"), a_state(flip=changing(), **reported), mode=Mode.AUTO
    )
    assert decision.level is Level.OK
    assert [alert.kind for alert in decision.alerts] == [AlertKind.RECOVERED]


def test_a_flip_that_one_answer_did_not_show_is_evaluated_again_a_minute_later():
    decision = evaluate_flipped(a_flip(is_permanent=True), GP2)
    assert decision.change.state.flip.unconfirmed_since_s == at("12:00")
    assert (decision.poll_interval_s, decision.alerts) == (60, ())


# what others have in progress


EXTERNAL_CONFIGURATION = a_modification(GP2, GP2, started="11:55", state="modifying")


@pytest.mark.parametrize("level", [Level.OK, Level.CRITICAL])
def test_an_external_modification_in_progress_counts_as_used(level):
    """AWS shows the newest only and counts them all: the next one hides it."""
    balance = critical() if level is Level.CRITICAL else calm()
    around = VolumeContext(modification_in_progress=EXTERNAL_CONFIGURATION)
    first = a_decision(an_assessment(balance, smaller_size_gib=100), a_state(), around=around).change.state
    assert first.modifications.used == (ModificationUse(at_s=int(at("11:55")), by=EXTERNAL),)
    repeated = a_decision(an_assessment(balance, smaller_size_gib=100), first, around=around, now="12:01")
    assert repeated.change is None or repeated.change.state.modifications.used == first.modifications.used
    second = VolumeContext(
        modification_in_progress=a_modification(GP2, GP2, started="18:00", state="modifying")
    )
    later = a_decision(
        an_assessment(calm("18:58"), now="19:00", smaller_size_gib=100), first, around=second, now="19:00"
    )
    assert [use.at_s for use in later.change.state.modifications.used] == [at("11:55"), at("18:00")]


def test_our_own_modification_in_progress_is_not_taken_for_an_external_one():
    record = a_modification(started="11:50", state="optimizing")
    around = VolumeContext(
        observed=ObservedState(volume=a_volume(), record=record), modification_in_progress=record
    )
    own_use = modification_used_at("11:50")
    decision = a_decision(
        an_assessment(GAP, changing_to="gp3"), a_state(flip=changing(), used=own_use), around=around
    )
    assert decision.change.state.modifications.used == own_use


def test_a_modification_without_a_start_is_not_counted():
    """It would be unknown when it stops to count."""
    around = VolumeContext(modification_in_progress=a_modification(GP2, GP2, started=None, state="modifying"))
    decision = a_decision(an_assessment(critical()), a_state(), around=around)
    assert decision.change.state.modifications.used == ()


# an intent that counts as never sent


def a_late_intent(requested_at_s):
    return a_flip(
        status=FlipStatus.REQUESTED, requested_at_s=int(requested_at_s), started_at_s=None, reached_at_s=None
    )


@pytest.mark.parametrize(("after_s", "is_kept"), [(86_399, True), (86_400, False)])
def test_an_intent_that_counts_as_never_sent_is_remembered_for_a_day(after_s, is_kept):
    intent = a_late_intent(at("12:00") - after_s)
    state = a_decision(an_assessment(calm()), a_state(unsent_intent=intent)).change.state
    assert (state and state.modifications.unsent_intent) == (intent if is_kept else None)


def test_an_intent_that_was_sent_after_all_is_reported_as_soon_as_aws_shows_it():
    record = a_modification(started="11:59", state="modifying")
    observed = ObservedState(volume=a_volume(), record=record)
    decision = a_decision(
        an_assessment(calm()),
        a_state(unsent_intent=a_late_intent(at("11:00"))),
        mode=Mode.AUTO,
        around=VolumeContext(observed=observed, modification_in_progress=record),
    )
    state = decision.change.state
    assert (state.modifications.unsent_intent, state.flip.status, state.flip.started_at_s) == (
        None,
        FlipStatus.IN_PROGRESS,
        at("11:59"),
    )
    assert state.modifications.used == (ModificationUse(at_s=int(at("11:59")), by=WATCHDOG, direction=OUT),)
    [alert] = decision.alerts
    assert alert.kind is AlertKind.FLIPPED
    assert "treated as not sent" in alert.evidence["details"][-1]


# what it is recommended to become


def evaluate_with_operations(iops, **around):
    balance = draining_to(30, 3, count=20)
    served = Series(balance.starts_at_s, (60.0 * iops,) * 20)
    idle = Series(balance.starts_at_s, (0.0,) * 20)
    return a_decision(an_assessment(balance, read_ops=served, write_ops=idle), mode=Mode.AUTO, **around)


@pytest.mark.parametrize(
    ("iops", "around", "act_at"),
    [
        (1_000, {}, "warning"),  # gp3 stays and costs less
        (3_000, {}, "critical"),  # it needs 3,750 IOPS, which cost more
        (1_000, {"around": VolumeContext(unavailable={VolumeType.GP3: "refused"})}, "critical"),
        # It must leave gp2 at any level.
        (1_000, {"is_critical": True}, None),
        (1_000, {"around": VolumeContext(windows=a_window_state())}, None),
    ],
)
def test_an_alert_names_the_level_at_which_the_volume_is_flipped(iops, around, act_at):
    alert = evaluate_with_operations(iops, **around).alerts[0]
    assert (alert.evidence["act_at"] or {}).get("level") == act_at


def test_a_type_that_is_not_available_is_not_recommended():
    around = VolumeContext(unavailable={VolumeType.GP3: "refused"})
    recommended = evaluate_with_operations(1_000, around=around).recommendation
    assert recommended.target.volume_type is VolumeType.IO1
    assert evaluate_with_operations(1_000).recommendation.target.volume_type is VolumeType.GP3


@pytest.mark.parametrize(
    ("balance", "is_critical", "iops"),
    [(warning, False, 1_250), (warning, True, 3_000), (steady, True, 3_000)],
)
def test_a_demand_that_is_still_to_come_gets_what_the_volume_serves_at_best(balance, is_critical, iops):
    served, idle = (Series(balance().starts_at_s, (value,) * len(balance())) for value in (60_000.0, 0.0))
    decision = a_decision(
        an_assessment(balance(), read_ops=served, write_ops=idle),
        policy=Policy(flip=FlipPolicy(target=VolumeType.IO1)),
        mode=Mode.AUTO,
        is_critical=is_critical,
    )
    assert decision.recommendation.target.iops == iops


@pytest.mark.parametrize(("attached", "is_named"), [(True, False), (False, True)])
def test_a_request_for_a_detached_volume_reports_that_it_waits(attached, is_named):
    volume = a_volume(attached=attached)
    decision = a_decision(an_assessment(calm(), volume=volume), mode=Mode.AUTO, is_critical=True)
    assert ("detached" in decision.reason) is is_named
    assert decision.reason.startswith("it is tagged critical")
