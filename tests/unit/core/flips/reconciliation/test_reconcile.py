from dataclasses import replace
from datetime import timedelta
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.assessment.severity import Level
from burstwatch.core.flips.attempts import roll_back_intent, with_backoff
from burstwatch.core.flips.flip_events import accepted_event
from burstwatch.core.flips.reconciliation.observed_state import ObservedState
from burstwatch.core.flips.reconciliation.reconcile import reconcile
from burstwatch.core.flips.transition import Transition
from burstwatch.core.ledger.flip_state import (
    EXTERNAL,
    WATCHDOG,
    Direction,
    FlipCause,
    FlipStatus,
    ModificationUse,
    configuration_to_document,
)
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.policy.policy import Policy
from burstwatch.core.policy.windows import LeadPolicy
from support.builders.core_values import (
    GP2,
    GP3,
    IO1,
    IO2,
    a_flip,
    a_modification,
    a_provision,
    a_state,
    a_volume,
    a_volume_as,
    at,
)
from support.builders.states import field_of, with_fields

OUT, BACK = Direction.FLIP, Direction.FLIP_BACK
REQUESTED, CHANGING, ON_TARGET = FlipStatus
REQUESTED_S = int(at("12:00"))
ORIGINAL_OF = {OUT: GP2, BACK: GP3}
TARGET_OF = {OUT: GP3, BACK: GP2}

# Asked for at noon, taken by AWS twenty seconds later: ten minutes long where it is over.
OUR_START = "12:00:20"
RECORDS = {
    "none": lambda _: None,
    # the modification before ours: the way back of last night, or the way out of this morning
    "older": lambda d: a_modification(TARGET_OF[d], ORIGINAL_OF[d], started="10:00"),
    "ours in progress": lambda d: a_modification(
        ORIGINAL_OF[d], TARGET_OF[d], started=OUR_START, state="optimizing"
    ),
    "ours completed": lambda d: a_modification(ORIGINAL_OF[d], TARGET_OF[d], started=OUR_START),
    "ours failed": lambda d: a_modification(ORIGINAL_OF[d], TARGET_OF[d], started=OUR_START, state="failed"),
    # somebody's that undoes ours, or that was made where ours was not
    "undone in progress": lambda d: a_modification(
        TARGET_OF[d], ORIGINAL_OF[d], started="12:00:50", state="modifying"
    ),
    "undone": lambda d: a_modification(TARGET_OF[d], ORIGINAL_OF[d], started="12:00:50"),
    "undoing failed": lambda d: a_modification(
        TARGET_OF[d], ORIGINAL_OF[d], started="12:00:50", state="failed"
    ),
    "other in progress": lambda d: a_modification(ORIGINAL_OF[d], IO2, started="12:00:50", state="modifying"),
    "other": lambda d: a_modification(ORIGINAL_OF[d], IO2, started="12:00:50"),
    "other failed": lambda d: a_modification(ORIGINAL_OF[d], IO2, started="12:00:50", state="failed"),
}
OBSERVATIONS = ("before", "asked", "else")


def a_requested_flip(direction=OUT, **changes):
    """Asked for at noon, and whether AWS took it is not known."""
    reached_at_s = None if direction is OUT else int(at("10:30"))
    facts = {"status": REQUESTED, "direction": direction, "requested_at_s": REQUESTED_S, "started_at_s": None}
    return a_flip(**(facts | {"reached_at_s": reached_at_s} | changes))


def a_changing_flip(direction=OUT, began=OUR_START, **changes):
    return a_requested_flip(direction, status=CHANGING, started_at_s=int(at(began)), **changes)


def observed_volume(configuration, direction=OUT, **changes):
    """The volume as DescribeVolumes shows it."""
    return a_volume_as(
        {"before": ORIGINAL_OF[direction], "asked": TARGET_OF[direction], "else": IO2}[configuration],
        **changes,
    )


def reconcile_step(flip, shows, record=None, *, now="12:01", policy=None, **state):
    observed = ObservedState(volume=shows, record=record)
    return reconcile(a_state(flip=flip, **state), observed, policy=policy or Policy(), now_s=at(now))


def transition_summary(result):
    """What a step comes to, in words: the phase it ends in, and what happened on the way."""
    flip, kinds = result.state.flip, [str(event.kind) for event in result.events]
    where = "no flip" if flip is None else str(flip.status)
    if result.state.modifications.contested_at_s is not None:
        where += ", contested"
    return ": ".join([where, *filter(None, [", ".join(kinds)])])


WAIT_CASES = {REQUESTED: "asked", CHANGING: "changing", ON_TARGET: "on_target"}
TAKEN_OVER_CASES = "no flip, contested: changed_by_others"
KEPT_CASES = "on_target, contested: changed_by_others"
NEVER_SENT_CASES = "no flip, contested: accepted, changed_by_others"
LOST_BUT_KEPT = "on_target, contested: accepted, changed_by_others"

# the intent has no outcome yet: the first read, a minute after it

ALWAYS_REQUESTED = dict.fromkeys(OBSERVATIONS, "asked")
ALWAYS_TAKEN = dict.fromkeys(OBSERVATIONS, "changing: accepted")
FIRST_READ = {
    (OUT, "none"): ALWAYS_REQUESTED,
    (OUT, "older"): ALWAYS_REQUESTED,
    (OUT, "ours in progress"): ALWAYS_TAKEN,
    # completed, and DescribeVolumes is a little behind
    (OUT, "ours completed"): ALWAYS_TAKEN | {"asked": "on_target: accepted, reached"},
    (OUT, "ours failed"): dict.fromkeys(OBSERVATIONS, "no flip: accepted, failed"),
    # someone's change is under way: its result counts when it is over
    (OUT, "undone in progress"): ALWAYS_TAKEN,
    (OUT, "undone"): dict.fromkeys(OBSERVATIONS, NEVER_SENT_CASES),
    (OUT, "undoing failed"): ALWAYS_TAKEN | {"asked": "on_target: accepted, reached"},
    (OUT, "other in progress"): ALWAYS_REQUESTED,
    (OUT, "other"): ALWAYS_REQUESTED,
    (OUT, "other failed"): ALWAYS_REQUESTED,
    (BACK, "none"): ALWAYS_REQUESTED,
    (BACK, "older"): ALWAYS_REQUESTED,
    (BACK, "ours in progress"): ALWAYS_TAKEN,
    (BACK, "ours completed"): ALWAYS_TAKEN | {"asked": "no flip: accepted, restored"},
    (BACK, "ours failed"): dict.fromkeys(OBSERVATIONS, "on_target: accepted, failed"),
    (BACK, "undone in progress"): ALWAYS_TAKEN,
    # somebody sends it to our target again: it stays known what it was
    (BACK, "undone"): dict.fromkeys(OBSERVATIONS, LOST_BUT_KEPT),
    (BACK, "undoing failed"): ALWAYS_TAKEN | {"asked": "no flip: accepted, restored"},
    (BACK, "other in progress"): ALWAYS_REQUESTED,
    (BACK, "other"): ALWAYS_REQUESTED,
    (BACK, "other failed"): ALWAYS_REQUESTED,
}
"""Where AWS knows nothing of ours it is asked again; what it knows counts, whatever the volume shows yet."""


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("record", RECORDS)
@pytest.mark.parametrize("shows", OBSERVATIONS)
def test_an_intent_without_an_outcome_is_settled_by_what_aws_shows(direction, record, shows):
    transition = reconcile_step(
        a_requested_flip(direction), observed_volume(shows, direction), RECORDS[record](direction)
    )
    assert transition_summary(transition) == FIRST_READ[direction, record][shows]


# the second read, two minutes after it

SECOND_READ = {
    (OUT, "before"): "no flip: not_done",
    (OUT, "else"): "no flip: not_done",
    (BACK, "before"): "on_target: not_done",
    (BACK, "else"): "on_target: not_done",
    # It became what was requested, and AWS has no record of it (any more): then it was ours.
    (OUT, "asked"): "changing: accepted",
    (BACK, "asked"): "changing: accepted",
}


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize(
    ("record", "shows"),
    [
        *product(("none", "older"), OBSERVATIONS),
        *product(("other", "other in progress", "other failed"), ("before", "else")),
    ],
)
def test_after_two_minutes_and_two_reads_an_unseen_request_counts_as_not_sent(direction, record, shows):
    flip = a_requested_flip(direction, unconfirmed_since_s=int(at("12:01")))
    transition = reconcile_step(
        flip, observed_volume(shows, direction), RECORDS[record](direction), now="12:02"
    )
    assert transition_summary(transition) == SECOND_READ[direction, shows]


def test_a_read_while_the_request_may_be_under_way_is_not_a_sign_that_it_was_not_sent():
    # It is begun within half a minute of the intent, and may take another to arrive.
    flip = a_requested_flip()
    assert reconcile_step(flip, observed_volume("before"), now="12:00:59").state == a_state(flip=flip)
    assert reconcile_step(flip, observed_volume("before"), now="12:01").state.flip == replace(
        flip, unconfirmed_since_s=int(at("12:01"))
    )


@pytest.mark.parametrize(
    ("first", "now", "is_over"),
    [
        # however late it is, one read may be stale
        (None, "12:02", False),
        (None, "12:30", False),
        # two at once may come from the same stale answer
        ("12:02", "12:02:59", False),
        ("12:02", "12:03", True),
        ("12:01:30", "12:02", False),
        ("12:01:30", "12:02:30", True),
        ("12:01", "12:02", True),
        ("12:01", "12:30", True),
    ],
)
def test_never_sent_takes_two_reads_a_minute_apart(first, now, is_over):
    flip = a_requested_flip(unconfirmed_since_s=first and int(at(first)))
    transition = reconcile_step(flip, observed_volume("before"), now=now)
    assert (transition.state.flip is None) is is_over
    assert bool(transition.events) is is_over
    if not is_over:
        assert transition.state.flip == replace(flip, unconfirmed_since_s=int(at(first or now)))


def test_nothing_counts_as_never_sent_before_two_minutes_are_over():
    flip = a_requested_flip(unconfirmed_since_s=int(at("12:00:30")))
    assert transition_summary(reconcile_step(flip, observed_volume("before"), now="12:01:59")) == "asked"
    assert (
        transition_summary(reconcile_step(flip, observed_volume("before"), now="12:02"))
        == "no flip: not_done"
    )


def test_an_unsent_request_is_reported_with_its_intent_and_retried_later():
    transition = reconcile_step(
        a_requested_flip(unconfirmed_since_s=int(at("12:01"))), observed_volume("before"), now="12:02"
    )
    [event] = transition.events
    assert (event.kind, event.alert) == (EntryKind.NOT_DONE, AlertKind.FLIP_FAILED)
    assert "gp3" in event.summary
    assert event.facts["to"] == configuration_to_document(GP3)
    assert event.facts["intent_id"] == "0123456789abcdef"
    # a minute later, and it used nothing up
    assert (transition.state.modifications.failure_count, transition.state.modifications.retry_at_s) == (
        1,
        at("12:03"),
    )
    assert transition.state.modifications.used == ()


def test_an_unsent_return_leaves_the_flip_unchanged():
    flip = a_requested_flip(BACK, unconfirmed_since_s=int(at("12:01")))
    on_target_flip = reconcile_step(flip, observed_volume("before", BACK), now="12:02").state.flip
    assert (on_target_flip.status, on_target_flip.direction, on_target_flip.target) == (ON_TARGET, OUT, GP3)
    assert (on_target_flip.original, on_target_flip.reached_at_s) == (GP2, at("10:30"))


# answers that were lost


@pytest.mark.parametrize("direction", Direction)
def test_a_lost_answer_is_made_up_for_by_aws_record(direction):
    record = RECORDS["ours in progress"](direction)
    flip = a_requested_flip(direction, unconfirmed_since_s=int(at("12:00:30")))
    transition = reconcile_step(flip, observed_volume("before", direction), record)
    [event] = transition.events
    assert event.alert is (AlertKind.FLIPPED if direction is OUT else AlertKind.FLIPPED_BACK)
    assert event.facts["to"] == configuration_to_document(TARGET_OF[direction])
    flip = transition.state.flip
    assert (flip.status, flip.started_at_s, flip.unconfirmed_since_s) == (CHANGING, at(OUR_START), None)
    assert transition.state.modifications.used == (
        ModificationUse(at_s=int(at(OUR_START)), by=WATCHDOG, direction=direction),
    )
    assert "response" in event.details[-1]


@pytest.mark.parametrize(
    ("began", "is_own"), [("11:57:59", False), ("11:58", True), ("12:00", True), ("12:30", True)]
)
def test_a_record_is_own_though_the_clocks_differ_by_two_minutes(began, is_own):
    record = a_modification(started=began, state="modifying")
    transition = reconcile_step(a_requested_flip(), observed_volume("before"), record, now="12:31")
    assert transition.state.flip.status is (CHANGING if is_own else REQUESTED)


@pytest.mark.parametrize(
    ("began", "is_known"),
    [("11:58:54", False), ("11:58:55", True), ("11:59", True), ("11:59:05", True), ("11:59:06", False)],
)
def test_a_record_that_was_settled_before_is_not_own_a_second_time(began, is_known):
    # The way back failed and is requested again at noon; of that AWS shows nothing yet.
    known = ModificationUse(at_s=int(at("11:59")), by=WATCHDOG, direction=BACK)
    record = a_modification(GP3, GP2, started=began, state="failed")
    transition = reconcile_step(
        a_requested_flip(BACK), observed_volume("before", BACK), record, used=(known,)
    )
    assert transition_summary(transition) == ("asked" if is_known else "on_target: accepted, failed")


def test_a_flip_right_after_a_flip_back_is_not_taken_for_reverted():
    # Back at 11:58:30, done; out again by hand at noon: the record still shows the way back, gp3 to gp2.
    known = ModificationUse(at_s=int(at("11:58:30")), by=WATCHDOG, direction=BACK)
    record = a_modification(GP3, GP2, started="11:58:30")
    assert (
        transition_summary(
            reconcile_step(a_requested_flip(), observed_volume("before"), record, used=(known,))
        )
        == "asked"
    )


def test_our_modification_reverted_before_it_was_observed_counts_too():
    transition = reconcile_step(a_requested_flip(), observed_volume("before"), RECORDS["undone"](OUT))
    assert [use.by for use in transition.state.modifications.used] == [WATCHDOG, EXTERNAL]
    assert [use.at_s for use in transition.state.modifications.used] == [REQUESTED_S, at("12:00:50")]


# sent after all: the process slept between its intent and the call


def assumed_not_sent(direction=OUT):
    """Two minutes after its intent it counted as never sent."""
    requested = a_requested_flip(direction, unconfirmed_since_s=int(at("12:01")))
    return reconcile_step(requested, observed_volume("before", direction), now="12:02").state


def reconcile_later(state, shows, record, now="13:01"):
    return reconcile(state, ObservedState(volume=shows, record=record), policy=Policy(), now_s=at(now))


@pytest.mark.parametrize("direction", Direction)
def test_what_counts_as_never_sent_is_remembered_beside_the_state_of_the_volume(direction):
    state = assumed_not_sent(direction)
    assert (
        state.modifications.unsent_intent.direction,
        state.modifications.unsent_intent.requested_at_s,
    ) == (direction, REQUESTED_S)
    assert (state.flip and state.flip.status) == (None if direction is OUT else ON_TARGET)


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize(
    ("its_state", "expected"),
    [
        ("modifying", {OUT: "changing: accepted", BACK: "changing: accepted"}),
        ("completed", {OUT: "on_target: accepted, reached", BACK: "no flip: accepted, restored"}),
        ("failed", {OUT: "no flip: accepted, failed", BACK: "on_target: accepted, failed"}),
    ],
)
def test_a_late_modification_is_own_as_soon_as_aws_shows_it(direction, its_state, expected):
    record = a_modification(ORIGINAL_OF[direction], TARGET_OF[direction], started="12:15", state=its_state)
    shows = observed_volume("asked" if its_state == "completed" else "before", direction)
    result = reconcile_later(assumed_not_sent(direction), shows, record)
    assert transition_summary(result) == expected[direction]
    assert result.events[0].alert is (AlertKind.FLIPPED if direction is OUT else AlertKind.FLIPPED_BACK)
    assert result.state.modifications.unsent_intent is None
    assert result.state.modifications.used == (
        ModificationUse(at_s=int(at("12:15")), by=WATCHDOG, direction=direction),
    )


@pytest.mark.parametrize("direction", Direction)
def test_a_late_modification_keeps_the_original_configuration(direction):
    record = a_modification(ORIGINAL_OF[direction], TARGET_OF[direction], started="12:15", state="modifying")
    flip = reconcile_later(
        assumed_not_sent(direction), observed_volume("before", direction), record
    ).state.flip
    assert (flip.original, flip.target, flip.direction) == (GP2, GP3, direction)


@pytest.mark.parametrize(("began", "is_own"), [("12:14:59", True), ("12:15", True), ("12:15:01", False)])
def test_a_return_15_minutes_after_its_intent_is_external(began, is_own):
    # Terraform, the console and a driver make gp2 of a volume as well; only we send it to our target.
    record = a_modification(GP3, GP2, started=began, state="modifying")
    actual = reconcile_later(assumed_not_sent(BACK), observed_volume("before", BACK), record)
    assert transition_summary(actual) == ("changing: accepted" if is_own else "on_target")
    result = reconcile_later(
        assumed_not_sent(BACK), observed_volume("asked", BACK), replace(record, state="completed")
    )
    assert transition_summary(result) == ("no flip: accepted, restored" if is_own else TAKEN_OVER_CASES)


def test_a_flip_that_begins_hours_after_its_intent_is_own():
    record = a_modification(GP2, GP3, started="23:00", state="modifying")
    assert (
        transition_summary(reconcile_later(assumed_not_sent(), observed_volume("before"), record, "23:01"))
        == "changing: accepted"
    )


@pytest.mark.parametrize(
    ("record", "used_before"),
    [
        (None, ()),
        # somebody's that leads elsewhere, one from before the intent, one that is counted already
        (a_modification(GP2, IO2, started="12:50"), ()),
        (a_modification(GP2, GP3, started="11:57:59"), ()),
        (a_modification(GP2, GP3, started="12:50"), (ModificationUse(at_s=int(at("12:50")), by="ann"),)),
    ],
)
def test_an_external_modification_is_not_taken_for_an_unsent_one(record, used_before):
    state = with_fields(assumed_not_sent(), used=used_before)
    assert reconcile_later(state, observed_volume("before"), record) == Transition(state=state)


def test_an_intent_that_is_open_is_settled_before_an_older_one_is_thought_of():
    second = a_requested_flip(requested_at_s=int(at("12:10")), intent_id="fedcba9876543210")
    record = a_modification(GP2, GP3, started="12:10:20", state="modifying")
    result = reconcile_later(
        replace(assumed_not_sent(), flip=second), observed_volume("before"), record, now="12:11"
    )
    assert result.state.flip.intent_id == second.intent_id
    assert result.state.modifications.unsent_intent is None, (
        "it cannot be that one any more: the record is known"
    )


# AWS took it: half an hour later

ALWAYS_CHANGING = dict.fromkeys(OBSERVATIONS, "changing")
ALWAYS_KEPT = dict.fromkeys(OBSERVATIONS, KEPT_CASES)
HALF_AN_HOUR_LATER = {
    # There is no record any more, and it is what was requested.
    (OUT, "none"): ALWAYS_CHANGING | {"asked": "on_target: reached"},
    (OUT, "older"): ALWAYS_CHANGING | {"asked": "on_target: reached"},
    (OUT, "ours in progress"): ALWAYS_CHANGING,
    # DescribeVolumes is behind, however long: AWS has no newer record
    (OUT, "ours completed"): ALWAYS_CHANGING | {"asked": "on_target: reached"},
    (OUT, "ours failed"): dict.fromkeys(OBSERVATIONS, "no flip: failed"),
    # What others have in progress may fail yet.
    (OUT, "undone in progress"): ALWAYS_CHANGING,
    # What others made of it still has its original; their record says so, not the volume.
    (OUT, "undone"): dict.fromkeys(OBSERVATIONS, TAKEN_OVER_CASES),
    # Theirs began from what was requested: ours had reached it.
    (OUT, "undoing failed"): ALWAYS_CHANGING | {"asked": "on_target: reached"},
    (OUT, "other in progress"): ALWAYS_CHANGING,
    (OUT, "other"): ALWAYS_KEPT,
    # Theirs began from what it was before: ours had come to nothing.
    (OUT, "other failed"): ALWAYS_CHANGING | {"before": "no flip: failed", "asked": "on_target: reached"},
    (BACK, "none"): ALWAYS_CHANGING | {"asked": "no flip: restored"},
    (BACK, "older"): ALWAYS_CHANGING | {"asked": "no flip: restored"},
    (BACK, "ours in progress"): ALWAYS_CHANGING,
    (BACK, "ours completed"): ALWAYS_CHANGING | {"asked": "no flip: restored"},
    (BACK, "ours failed"): dict.fromkeys(OBSERVATIONS, "on_target: failed"),
    (BACK, "undone in progress"): ALWAYS_CHANGING,
    (BACK, "undone"): ALWAYS_KEPT,
    (BACK, "undoing failed"): ALWAYS_CHANGING | {"asked": "no flip: restored"},
    (BACK, "other in progress"): ALWAYS_CHANGING,
    (BACK, "other"): ALWAYS_KEPT,
    (BACK, "other failed"): ALWAYS_CHANGING | {"before": "on_target: failed", "asked": "no flip: restored"},
}


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("record", RECORDS)
@pytest.mark.parametrize("shows", OBSERVATIONS)
def test_a_modification_that_aws_took_is_followed_to_its_end(direction, record, shows):
    transition = reconcile_step(
        a_changing_flip(direction), observed_volume(shows, direction), RECORDS[record](direction), now="12:30"
    )
    assert transition_summary(transition) == HALF_AN_HOUR_LATER[direction, record][shows]


@pytest.mark.parametrize(
    "record", ["none", "older", "ours in progress", "ours completed", "undone in progress", "undoing failed"]
)
@pytest.mark.parametrize("shows", ["before", "else"])
def test_while_nothing_is_new_nothing_changes(record, shows):
    flip = a_changing_flip()
    transition = reconcile_step(flip, observed_volume(shows), RECORDS[record](OUT), now="12:30")
    assert transition.state == a_state(flip=flip)


@pytest.mark.parametrize(("now", "is_over"), [("12:01", False), ("12:10:20", False), ("12:10:21", True)])
def test_without_a_record_the_volume_is_trusted_after_ten_minutes(now, is_over):
    transition = reconcile_step(a_changing_flip(), observed_volume("asked"), now=now)
    assert transition_summary(transition) == ("on_target: reached" if is_over else "changing")


@pytest.mark.parametrize(("now", "is_over"), [("12:11", False), ("12:15:19", False), ("12:15:20", True)])
def test_two_aws_responses_may_differ_for_five_minutes(now, is_over):
    # Somebody's io2, begun with ours: its record says completed at 12:10:20.
    external_record = a_modification(GP2, IO2, started=OUR_START)
    for shows in ("before", "else"):
        transition = reconcile_step(a_changing_flip(), observed_volume(shows), external_record, now=now)
        expected = {"before": TAKEN_OVER_CASES, "else": KEPT_CASES}[shows]
        assert transition_summary(transition) == (expected if is_over else "changing")


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("shows", ["before", "else"])
def test_while_aws_newest_record_led_to_what_was_requested_the_volume_shows_old(direction, shows):
    """However late that is looked at, and however often: no one has changed it since."""
    flip, record = a_changing_flip(direction), RECORDS["ours completed"](direction)
    for now in ("12:16", "12:17", "20:00"):
        transition = reconcile_step(flip, observed_volume(shows, direction), record, now=now)
        assert (transition.state, transition.events) == (a_state(flip=flip), ())
    arrived = reconcile_step(flip, observed_volume("asked", direction), record, now="20:01")
    assert transition_summary(arrived) == ("on_target: reached" if direction is OUT else "no flip: restored")


@pytest.mark.parametrize("direction", Direction)
def test_an_external_modification_during_an_own_one_is_adopted_when_complete(direction):
    flip = a_changing_flip(direction)
    for state in ("modifying", "optimizing"):
        external_record = a_modification(TARGET_OF[direction], IO2, started="12:10", state=state)
        assert reconcile_step(
            flip, observed_volume("asked", direction), external_record, now="12:11"
        ) == Transition(state=a_state(flip=flip))
    external_record = a_modification(TARGET_OF[direction], IO2, started="12:10")
    assert (
        transition_summary(
            reconcile_step(flip, observed_volume("asked", direction), external_record, now="12:20:01")
        )
        == KEPT_CASES
    )


def test_two_that_failed_one_after_the_other_leave_it_as_it_was_to_be_tried_again():
    transition = reconcile_step(
        a_changing_flip(), observed_volume("before"), RECORDS["other failed"](OUT), now="12:12"
    )
    [event] = transition.events
    assert (event.kind, event.alert) == (EntryKind.FAILED, AlertKind.FLIP_FAILED)
    assert event.details[0].startswith("A later modification, which also failed")
    assert (
        transition.state.flip,
        transition.state.modifications.failure_count,
        transition.state.modifications.retry_at_s,
    ) == (
        None,
        1,
        at("12:13"),
    )


@pytest.mark.parametrize("direction", Direction)
def test_an_external_change_before_a_failure_is_external(direction):
    # Ours was over, theirs to io2 as well; of the three AWS shows the last, from io2 to gp2, which failed.
    external_record = a_modification(IO2, GP2, started="12:20", state="failed")
    transition = reconcile_step(
        a_changing_flip(direction), observed_volume("else"), external_record, now="12:25"
    )
    assert transition_summary(transition) == KEPT_CASES
    assert (transition.state.flip.original, transition.state.flip.target) == (GP2, IO2)


@pytest.mark.parametrize(
    ("began", "expected"),
    [
        ("12:00:14", "changing"),
        ("12:00:15", "on_target: reached"),
        ("12:00:25", "on_target: reached"),
        ("12:00:26", KEPT_CASES),
    ],
)
def test_a_start_within_five_seconds_is_the_same_modification(began, expected):
    transition = reconcile_step(
        a_changing_flip(), observed_volume("asked"), a_modification(started=began), now="12:10:20"
    )
    assert transition_summary(transition) == expected


# arriving


def test_a_volume_on_its_target_is_reported_to_the_ledger_only():
    transition = reconcile_step(
        a_changing_flip(),
        observed_volume("asked"),
        RECORDS["ours completed"](OUT),
        now="12:12",
        failure_count=2,
    )
    [event] = transition.events
    assert (event.kind, event.alert) == (EntryKind.REACHED, None)
    flip = transition.state.flip
    assert (flip.status, flip.reached_at_s, flip.previous) == (ON_TARGET, at("12:12"), None)
    assert (transition.state.modifications.failure_count, transition.state.modifications.retry_at_s) == (
        0,
        None,
    )


def test_a_permanent_flip_is_verified():
    flip = a_changing_flip(is_permanent=True, reason="stays: gp3 costs no more")
    transition = reconcile_step(flip, observed_volume("asked"), RECORDS["ours completed"](OUT), now="12:12")
    assert transition_summary(transition) == "on_target: reached, stayed"
    assert transition.events[1].details == ("stays: gp3 costs no more",)
    assert transition.state.flip.is_settled


def test_a_returned_volume_is_as_before_except_for_its_balance():
    used_before = (ModificationUse(at_s=int(at(OUR_START)), by=WATCHDOG, direction=BACK),)
    transition = reconcile_step(
        a_changing_flip(BACK),
        observed_volume("asked", BACK),
        RECORDS["ours completed"](BACK),
        now="12:12",
        used=used_before,
    )
    [event] = transition.events
    assert (event.kind, event.alert) == (EntryKind.RESTORED, None)
    assert transition.state == a_state(
        returned_at_s=int(at(OUR_START)), arrived_at_s=int(at("12:12")), used=used_before
    )


# failing


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize(
    ("failures", "retry_at"), [(0, "12:13"), (1, "12:14"), (3, "12:20"), (5, "12:44"), (6, "13:12")]
)
def test_a_failed_modification_is_tried_again_after_twice_as_long_each_time(direction, failures, retry_at):
    record = replace(RECORDS["ours failed"](direction), status_message="internal error")
    transition = reconcile_step(
        a_changing_flip(direction),
        observed_volume("before", direction),
        record,
        now="12:12",
        failure_count=failures,
    )
    [event] = transition.events
    is_alerted = failures in (0, 1, 3)  # the first, second and fourth; then the eighth
    assert (event.kind, event.alert) == (EntryKind.FAILED, AlertKind.FLIP_FAILED if is_alerted else None)
    assert event.facts["to"] == configuration_to_document(TARGET_OF[direction])
    assert event.facts["retry_at"] == f"2026-11-20T{retry_at}:00Z"
    assert event.action == f"burstctl {'flip' if direction is OUT else 'flip-back'} vol-0a1"
    details = " ".join(event.details)
    assert "internal error" in details
    assert f"({retry_at} UTC)" in details
    assert (transition.state.modifications.failure_count, transition.state.modifications.retry_at_s) == (
        failures + 1,
        at(retry_at),
    )


@pytest.mark.parametrize(("by", "is_scheduled"), [(WATCHDOG, True), ("ann", False)])
def test_only_the_watchdog_tries_again_by_itself(by, is_scheduled):
    [event] = reconcile_step(
        a_changing_flip(by=by), observed_volume("before"), RECORDS["ours failed"](OUT), now="12:12"
    ).events
    details = " ".join(event.details)
    assert ("in 1 min (12:13 UTC)" in details) is is_scheduled
    assert is_scheduled or by in details


def test_a_failed_modification_without_a_message_is_reported():
    transition = reconcile_step(
        a_changing_flip(), observed_volume("before"), RECORDS["ours failed"](OUT), now="12:12"
    )
    assert "None" not in " ".join(transition.events[0].details)


@pytest.mark.parametrize(
    ("failures", "wait_min"),
    [(0, 1), (1, 2), (2, 4), (3, 8), (4, 16), (5, 32), (6, 60), (7, 60), (99, 60), (5_000, 60)],
)
def test_the_wait_doubles_up_to_an_hour(failures, wait_min):
    after = with_backoff(a_state(failure_count=failures), at("12:00"))
    assert (after.modifications.failure_count, after.modifications.retry_at_s) == (
        failures + 1,
        at("12:00") + 60 * wait_min,
    )


def test_a_failed_flip_leaves_nothing():
    assert roll_back_intent(a_state(flip=a_requested_flip())).flip is None
    assert roll_back_intent(a_state()).flip is None


def test_a_failed_redirect_leaves_the_volume_where_it_was():
    before = a_flip(is_permanent=False)
    sent_on = a_requested_flip(target=IO2, is_permanent=True, previous=before)
    assert roll_back_intent(a_state(flip=sent_on)).flip == before


# taking long

# 100 GiB: 15 min + 6 h x 100 / 1,024 = 900 + 2,109.375 s are usual, twice that 6,018.75 s: 1:40:18.75.
# 8 GiB: 900 + 168.75 s, twice 2,137.5 s: an hour at least. 1 TiB: twice 6.25 h.


@pytest.mark.parametrize(
    ("size_gib", "last_silent_s", "first_reported_s"),
    [(100, 6_018, 6_019), (8, 3_599, 3_600), (1_024, 44_999, 45_000)],
)
@pytest.mark.parametrize("direction", Direction)
def test_a_modification_that_takes_twice_as_long_as_usual_is_reported_once(
    size_gib, last_silent_s, first_reported_s, direction
):
    flip = a_changing_flip(direction, began="12:00", size_gib=size_gib)
    record = a_modification(
        ORIGINAL_OF[direction], TARGET_OF[direction], started="12:00", state="optimizing", progress_pct=93
    )
    observed = observed_volume("before", direction, size_gib=size_gib)
    noon_s = at("12:00")
    assert reconcile_step(flip, observed, record, now=noon_s + last_silent_s).events == ()
    transition = reconcile_step(flip, observed, record, now=noon_s + first_reported_s)
    [event] = transition.events
    assert (event.kind, event.alert) == (EntryKind.STUCK, AlertKind.FLIP_STUCK)
    assert "optimizing" in event.summary
    assert "93 %" in event.summary
    assert event.facts["progress_pct"] == 93
    assert transition.state.flip == replace(flip, is_stuck_alerted=True)
    assert (
        reconcile_step(transition.state.flip, observed, record, now=noon_s + 10 * first_reported_s).events
        == ()
    )


def test_what_is_usual_is_the_policys():
    policy = Policy(lead=LeadPolicy(least=timedelta(hours=2), per_tib=timedelta(0)))
    flip, record = a_changing_flip(began="12:00"), a_modification(started="12:00", state="modifying")
    assert reconcile_step(flip, observed_volume("before"), record, now="15:59", policy=policy).events == ()
    [event] = reconcile_step(flip, observed_volume("before"), record, now="16:00", policy=policy).events
    assert "None" not in event.summary


# on its target: is it still what we made it?

ON_ITS_TARGET = {
    # One answer that shows something else proves nothing: it may be stale.
    "none": dict.fromkeys(("target", "original", "else"), "on_target"),
    "ours": dict.fromkeys(("target", "original", "else"), "on_target"),
    # Terraform sets it back, or people to something else: they are notified when it is done.
    "theirs in progress": dict.fromkeys(("target", "original", "else"), "on_target"),
    "theirs": {"target": "on_target", "original": TAKEN_OVER_CASES, "else": KEPT_CASES},
    # and if it fails, it was nothing
    "theirs failed": dict.fromkeys(("target", "original", "else"), "on_target"),
}


@pytest.mark.parametrize("record", ON_ITS_TARGET)
@pytest.mark.parametrize("shows", ["target", "original", "else"])
@pytest.mark.parametrize("stays", [False, True])
def test_a_volume_on_target_is_own_until_it_differs(record, shows, stays):
    new_configuration = {"target": GP3, "original": GP2, "else": IO2}[shows]
    records = {
        "none": None,
        "ours": a_modification(),
        "theirs in progress": a_modification(GP3, new_configuration, started="11:50", state="modifying"),
        "theirs": a_modification(GP3, new_configuration, started="11:40"),
        "theirs failed": a_modification(GP3, new_configuration, started="11:40", state="failed"),
    }
    transition = reconcile_step(a_flip(is_permanent=stays), a_volume_as(new_configuration), records[record])
    assert transition_summary(transition) == ON_ITS_TARGET[record][shows]


@pytest.mark.parametrize(("new_configuration", "expected"), [(GP2, TAKEN_OVER_CASES), (IO2, KEPT_CASES)])
@pytest.mark.parametrize(("first", "is_theirs"), [("12:00", True), ("12:00:01", False)])
def test_without_a_record_of_it_a_second_read_a_minute_later_shows_a_change_by_others(
    new_configuration, expected, first, is_theirs
):
    doubted = a_flip(unconfirmed_since_s=int(at(first)))
    transition = reconcile_step(doubted, a_volume_as(new_configuration))
    assert transition_summary(transition) == (expected if is_theirs else "on_target")
    if not is_theirs:
        assert transition.state.flip == doubted, "the first read is the one that counts"


@pytest.mark.parametrize(("new_configuration", "expected"), [(GP2, TAKEN_OVER_CASES), (IO2, KEPT_CASES)])
def test_an_external_change_counts_though_a_later_one_failed(new_configuration, expected):
    """The record of the one that failed says nothing; that the volume is something else twice does."""
    failed = a_modification(new_configuration, GP3, started="11:50", state="failed")
    first = reconcile_step(a_flip(), a_volume_as(new_configuration), failed, now="11:59")
    assert transition_summary(first) == "on_target"
    second = reconcile_step(first.state.flip, a_volume_as(new_configuration), failed, now="12:00")
    assert transition_summary(second) == expected
    assert str(new_configuration) in second.events[0].summary


@pytest.mark.parametrize("new_configuration", [GP2, IO2])
def test_while_aws_newest_record_led_to_the_target_what_the_volume_shows_is_old(new_configuration):
    doubted = a_flip(unconfirmed_since_s=int(at("09:00")))
    assert (
        transition_summary(reconcile_step(doubted, a_volume_as(new_configuration), a_modification()))
        == "on_target"
    )


def test_a_stale_answer_is_forgotten_when_the_next_shows_the_target_again():
    doubted = reconcile_step(a_flip(), a_volume_as(GP2)).state
    assert doubted == a_state(flip=a_flip(unconfirmed_since_s=int(at("12:01"))))
    observed = ObservedState(volume=a_volume_as(GP3), record=a_modification())
    repeated = reconcile(doubted, observed, policy=Policy(), now_s=at("12:02"))
    assert (repeated.state, repeated.events) == (a_state(flip=a_flip()), ())


def test_a_terraform_revert_is_respected_and_the_line_to_change_is_shown():
    reverted = a_modification(GP3, GP2, started="11:40")
    transition = reconcile_step(a_flip(by="ann"), a_volume_as(GP2), reverted)
    [event] = transition.events
    assert event.alert is AlertKind.CHANGED_BY_OTHERS
    assert "gp2" in event.summary
    details = " ".join(event.details)
    for phrase in ('type = "gp3", iops = 3000, throughput = 128', "ann"):
        assert phrase in details
    assert event.action == "burstctl release vol-0a1"
    documents = {"from": GP3, "to": GP2, "original": GP2}
    assert {name: event.facts[name] for name in documents} == {
        name: configuration_to_document(item) for name, item in documents.items()
    }
    assert (transition.state.flip, transition.state.modifications.contested_at_s) == (None, at("12:01"))
    assert transition.state.modifications.used == (ModificationUse(at_s=int(at("11:40")), by=EXTERNAL),)


def test_the_line_to_change_has_no_throughput_for_an_io_type():
    [event] = reconcile_step(
        a_flip(target=IO2), a_volume_as(GP2), a_modification(IO2, GP2, started="11:40")
    ).events
    details = " ".join(event.details)
    assert 'type = "io2", iops = 4000 ' in details
    assert "throughput" not in details


@pytest.mark.parametrize("configuration", [replace(GP3, iops=4_000), replace(GP3, throughput_mib_s=125)])
def test_different_iops_or_throughput_of_the_same_type_are_external(configuration):
    transition = reconcile_step(
        a_flip(), a_volume_as(configuration), a_modification(GP3, configuration, started="11:40")
    )
    assert transition_summary(transition) == KEPT_CASES
    assert str(configuration) in transition.events[0].summary


@pytest.mark.parametrize(
    ("flip", "returns"),
    [(a_flip(), True), (a_flip(cause=FlipCause.MANUAL, by="ann"), True), (a_flip(is_permanent=True), False)],
)
def test_an_external_change_keeps_the_original_and_counts_its_current_cost(flip, returns):
    # gp2 $10.00; io2 with 4,000 IOPS: 100 x 0.125 + 4,000 x 0.065 = 272.50
    transition = reconcile_step(flip, a_volume_as(IO2), a_modification(GP3, IO2, started="11:40"))
    adopted = transition.state.flip
    assert (adopted.original, adopted.target, adopted.usd_per_month) == (GP2, IO2, 262.5)
    assert (adopted.by, adopted.cause, adopted.is_permanent, adopted.reached_at_s) == (
        flip.by,
        flip.cause,
        flip.is_permanent,
        flip.reached_at_s,
    )
    # alerted just now: the next reminder comes in a day
    assert adopted.overdue_alerted_at_s == at("12:01")
    details = " ".join(transition.events[0].details)
    assert ("Then the watchdog flips it back to gp2 when its load is calm." in details) is returns
    assert "the watchdog does not change it until it is released" in details.lower()


def test_an_external_change_during_a_modification_is_evaluated_from_its_record():
    flip = a_changing_flip(previous=a_flip())
    adopted = reconcile_step(flip, observed_volume("else"), RECORDS["other"](OUT), now="12:30").state.flip
    assert (adopted.status, adopted.direction, adopted.target, adopted.previous) == (
        ON_TARGET,
        OUT,
        IO2,
        None,
    )
    assert (adopted.started_at_s, adopted.reached_at_s) == (at("12:00:50"), at("12:30"))
    repeated = reconcile_step(adopted, observed_volume("else"), RECORDS["other"](OUT), now="12:35")
    assert (repeated.state.flip, repeated.events) == (adopted, ())


def test_an_external_revert_to_the_original_leaves_nothing_to_return():
    transition = reconcile_step(a_flip(), a_volume_as(GP2), a_modification(GP3, GP2, started="11:40"))
    assert transition.state.flip is None
    assert "flips it back" not in " ".join(transition.events[0].details)


@pytest.mark.parametrize("original", [IO1, IO2, replace(GP3, throughput_mib_s=125)])
def test_an_external_change_to_gp2_ends_the_flip(original):
    """From gp2 it can only be flipped again; what it was is reported."""
    flip = a_flip(original=original, cause=FlipCause.MANUAL, by="ann", return_after_s=int(at("18:00")))
    transition = reconcile_step(flip, a_volume_as(GP2), a_modification(GP3, GP2, started="11:40"))
    assert transition_summary(transition) == TAKEN_OVER_CASES
    [event] = transition.events
    assert event.summary == "was made gp2"
    assert event.details[0].startswith(f"It was {original} until burstwatch made it")
    assert "flips it back" not in " ".join(event.details)


def test_an_unsupported_type_is_named():
    doubted = a_flip(unconfirmed_since_s=int(at("12:00")))
    transition = reconcile_step(doubted, a_volume(volume_type="st1", size_gib=500))
    assert transition_summary(transition) == TAKEN_OVER_CASES
    assert "st1" in transition.events[0].summary


# resizing


def a_resize(configuration=GP3, state="completed", started="11:40"):
    """From 100 to 200 GiB, by somebody else."""
    record = a_modification(configuration, configuration, state=state, started=started)
    return replace(record, target=a_provision(configuration, 200))


def test_a_volume_resized_on_its_target_is_left_to_people_and_still_knows_what_it_was():
    transition = reconcile_step(a_flip(), a_volume_as(GP3, 200), a_resize())
    assert transition_summary(transition) == KEPT_CASES
    assert "100" in transition.events[0].summary
    assert "200 GiB" in transition.events[0].summary
    flip = transition.state.flip
    assert (flip.size_gib, flip.original, flip.target) == (200, GP2, GP3)
    repeated = reconcile_step(flip, a_volume_as(GP3, 200), a_resize(), now="12:06")
    assert (repeated.state.flip, repeated.events) == (flip, ())


def test_a_resize_under_way_is_reported_when_it_is_done():
    assert (
        transition_summary(reconcile_step(a_flip(), a_volume_as(GP3, 200), a_resize(state="optimizing")))
        == "on_target"
    )


def test_a_resize_found_before_the_own_change_was_seen_to_be_over_is_reported_once():
    # Ours was over between two looks, and somebody resizes it by now; the volume does not show that yet.
    flip = a_changing_flip()
    under_way = a_resize(state="modifying", started="12:15")
    assert reconcile_step(flip, a_volume_as(GP3), under_way, now="12:16") == Transition(
        state=a_state(flip=flip)
    )
    transition = reconcile_step(flip, a_volume_as(GP3), a_resize(started="12:15"), now="12:30")
    assert transition_summary(transition) == KEPT_CASES
    adopted = transition.state.flip
    assert adopted.size_gib == 200
    for shows_gib in (100, 200):
        repeated = reconcile_step(
            adopted, a_volume_as(GP3, shows_gib), a_resize(started="12:15"), now="12:31"
        )
        assert repeated.events == ()


def test_a_resize_on_the_flip_back_is_reported_with_the_volume_left_where_it_is():
    transition = reconcile_step(
        a_changing_flip(BACK), a_volume_as(GP2, 200), a_resize(GP2, started="12:20"), now="12:35"
    )
    assert transition_summary(transition) == TAKEN_OVER_CASES


# what no one sees


def test_a_never_flipped_volume_is_ignored():
    state = a_state(level=Level.CRITICAL)
    observed = ObservedState(volume=a_volume(), record=a_modification())
    result = reconcile(state, observed, policy=Policy(), now_s=at("12:00"))
    assert (result.state, result.events) == (state, ())


def test_the_rest_of_the_state_is_left_alone():
    known = {"level": Level.CRITICAL, "balance_pct": 3.0, "is_critical_open": True, "revision": 7}
    transition = reconcile_step(
        a_changing_flip(), observed_volume("asked"), RECORDS["ours completed"](OUT), now="12:12", **known
    )
    assert {name: field_of(transition.state, name) for name in known} == known


@pytest.mark.parametrize("cause", FlipCause)
@pytest.mark.parametrize("by", [WATCHDOG, "ann"])
def test_requester_and_reason_are_kept_until_on_target(cause, by):
    flip = a_changing_flip(cause=cause, by=by, return_after_s=int(at("18:00")), usd_per_month=7.5)
    arrived = reconcile_step(
        flip, observed_volume("asked"), RECORDS["ours completed"](OUT), now="12:12"
    ).state.flip
    assert (arrived.cause, arrived.by, arrived.usd_per_month) == (cause, by, 7.5)
    assert arrived.return_after_s == at("18:00")


# whatever AWS shows

configurations = st.sampled_from([GP2, GP3, IO2])
moments = st.integers(int(at("11:00")), int(at("13:00")))
records = st.builds(
    a_modification,
    configurations,
    configurations,
    state=st.sampled_from(["modifying", "optimizing", "completed", "failed", "pondering"]),
    started=st.none() | moments,
)
volumes = st.one_of(
    st.builds(a_volume_as, configurations, st.sampled_from([100, 200])),
    st.just(a_volume(volume_type="st1", size_gib=500)),
)


@st.composite
def flips(draw):
    phase, direction = draw(st.sampled_from(FlipStatus)), draw(st.sampled_from(Direction))
    if phase is ON_TARGET:
        return a_flip(is_permanent=draw(st.booleans()))
    began_s = draw(moments) if phase is CHANGING else None
    previous = draw(st.sampled_from([None, a_flip()]))
    return a_requested_flip(direction, status=phase, started_at_s=began_s, previous=previous)


@settings(max_examples=300)
@given(flips(), volumes, st.none() | records, moments, st.lists(moments, max_size=3))
def test_whatever_aws_shows_a_flip_is_reported_once_and_nothing_used_up_is_forgotten(
    flip, volume, record, now_s, spent_at
):
    """Seen again and again the same way, it settles: first what was requested, then the result."""
    state = a_state(
        flip=flip, used=tuple(ModificationUse(at_s=item, by=EXTERNAL) for item in sorted(spent_at))
    )
    reported = []
    for again_s in (0, 0, 1_000, 1_000):
        observed = ObservedState(volume=volume, record=record)
        result = reconcile(state, observed, policy=Policy(), now_s=now_s + again_s)
        assert set(state.modifications.used) <= set(result.state.modifications.used)
        if result.state.flip is not None:
            assert result.state.flip.original == flip.original
        reported += [event.kind for event in result.events]
        state = result.state
    assert len(reported) == len(set(reported)), "nothing is told twice"
    assert reported.count(EntryKind.FAILED) + reported.count(EntryKind.NOT_DONE) == (
        state.modifications.failure_count > 0
    )


# what it costs, as reported when AWS accepts it


@pytest.mark.parametrize(
    ("flip", "phrase"),
    [
        # 100 GiB: gp2 10.00; gp3 8.00 + 3 x 0.04 = 8.12; io2 12.50 + 4,000 x 0.065 = 272.50.
        (a_requested_flip(), "gp2; this costs $1.88 a month less"),
        (a_requested_flip(BACK), "this costs $1.88 a month more"),
        # 262.50 / 730 = 0.35959
        (a_requested_flip(target=IO2), "gp2; this costs $262.50 a month more, $0.3596 an hour"),
        (a_requested_flip(BACK, target=IO2), "this costs $262.50 a month less, $0.3596 an hour"),
        # 272.50 - 8.12
        (a_requested_flip(target=IO2, previous=a_flip()), "128 MiB/s; this costs $264.38 a month more"),
        # 200 GiB: gp3 16.00 + 0.12, gp2 20.00; 7 GiB: 0.56 + 0.12, 0.70
        (a_requested_flip(size_gib=200), "$3.88 a month less"),
        (a_requested_flip(size_gib=7), "$0.02 a month less"),
        (a_requested_flip(BACK, size_gib=7), "$0.02 a month more"),
        # 6 GiB: gp3 0.48 + 0.12, gp2 0.60
        (a_requested_flip(size_gib=6), "costs the same"),
    ],
)
def test_what_it_costs_is_reported_with_it(flip, phrase):
    record = a_modification(
        ORIGINAL_OF[flip.direction], flip.requested_config, started=OUR_START, state="optimizing"
    )
    [event] = reconcile_step(flip, observed_volume("before", flip.direction), record).events
    assert phrase in " ".join(event.details)


# words, and what is on the edge


@pytest.mark.parametrize(
    ("direction", "because", "details"),
    [
        (
            OUT,
            "empty in 5 min",
            (
                "Requested by watchdog (empty in 5 min).",
                "It was gp2; this costs $1.88 a month less, $0.0026 an hour (us-east-1 list prices).",
                "AWS is expected to take 15 min to 50 min for 100 GiB; empty in about 13 min; reduce load"
                " until then. While AWS optimizes it, its performance is between the two.",
            ),
        ),
        (
            BACK,
            "",
            (
                "Requested by watchdog.",
                "It was gp3 with 3,000 IOPS and 128 MiB/s; this costs $1.88 a month more, $0.0026 an hour"
                " (us-east-1 list prices).",
                "Its burst balance is unknown until the first fresh datapoint.",
            ),
        ),
    ],
)
def test_an_accepted_modification_is_reported_with_requester_reason_and_next_step(
    direction, because, details
):
    # 100 GiB: gp2 $10.00 a month, gp3 with 128 MiB/s $8.12
    flip = a_requested_flip(direction, reason=because)
    assert accepted_event(flip, LeadPolicy(), time_to_empty_s=13 * 60).details == details
    with_note = accepted_event(flip, LeadPolicy(), time_to_empty_s=13 * 60, note="The answer was lost.")
    assert with_note.details == (*details, "The answer was lost.")


def test_a_volume_that_stays_without_a_reason_gives_none():
    transition = reconcile_step(
        a_requested_flip(status=CHANGING, started_at_s=REQUESTED_S, is_permanent=True),
        observed_volume("asked"),
        now="12:11",
    )
    [_, stayed] = transition.events
    assert (stayed.kind, stayed.details) == (EntryKind.STAYED, ())


@pytest.mark.parametrize(
    ("late_s", "expected"),
    [(24 * 3600, "changing"), (24 * 3600 + 1, "no flip, contested: changed_by_others")],
)
def test_a_flip_without_record_or_effect_is_external_a_day_later(late_s, expected):
    began_s = int(at(OUR_START))
    assert (
        transition_summary(reconcile_step(a_changing_flip(), observed_volume("before"), now=began_s + late_s))
        == expected
    )


@pytest.mark.parametrize(("began", "is_theirs"), [("10:00:05", False), ("10:00:06", True)])
def test_a_start_within_five_seconds_is_own_on_target_too(began, is_theirs):
    transition = reconcile_step(a_flip(), observed_volume("else"), a_modification(GP2, IO2, started=began))
    assert (transition.state.modifications.contested_at_s is not None) is is_theirs
    assert (transition.state.flip.unconfirmed_since_s is not None) is not is_theirs


def test_an_older_record_that_led_elsewhere_explains_nothing():
    older = a_modification(GP3, GP2, started="08:00")
    transition = reconcile_step(a_flip(), observed_volume("else"), older)
    assert transition.state.flip.unconfirmed_since_s == at("12:01")


def test_an_external_revert_and_an_external_change_are_distinguished():
    for configuration, phrase in [(GP2, "was reverted to gp2"), (IO2, "was made io2 with 4,000 IOPS")]:
        transition = reconcile_step(
            a_flip(), a_volume_as(configuration), a_modification(GP3, configuration, started="11:00")
        )
        assert [event.summary for event in transition.events] == [phrase]
