from dataclasses import replace
from datetime import timedelta
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.assessment.severity import Level
from burstwatch.core.flips.reconcile import Sighting, Step, accepted_event, backed_off, follow, given_up
from burstwatch.core.ledger.flip_state import (
    OTHERS,
    WATCHDOG,
    Cause,
    Direction,
    Phase,
    Spent,
    configuration_document,
)
from burstwatch.core.ledger.ledger import EntryKind
from burstwatch.core.policy.policy import Policy
from burstwatch.core.policy.windows import LeadPolicy
from conftest import (
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

OUT, BACK = Direction.OUT, Direction.BACK
ASKED, CHANGING, ON_TARGET = Phase
ASKED_S = int(at("12:00"))
FROM = {OUT: GP2, BACK: GP3}
TO = {OUT: GP3, BACK: GP2}

# Asked for at noon, taken by AWS twenty seconds later: ten minutes long where it is over.
OURS_BEGAN = "12:00:20"
RECORDS = {
    "none": lambda _: None,
    # the modification before ours: the way back of last night, or the way out of this morning
    "older": lambda d: a_modification(TO[d], FROM[d], started="10:00"),
    "ours in progress": lambda d: a_modification(FROM[d], TO[d], started=OURS_BEGAN, state="optimizing"),
    "ours completed": lambda d: a_modification(FROM[d], TO[d], started=OURS_BEGAN),
    "ours failed": lambda d: a_modification(FROM[d], TO[d], started=OURS_BEGAN, state="failed"),
    # somebody's that undoes ours, or that was made where ours was not
    "undone in progress": lambda d: a_modification(TO[d], FROM[d], started="12:00:50", state="modifying"),
    "undone": lambda d: a_modification(TO[d], FROM[d], started="12:00:50"),
    "undoing failed": lambda d: a_modification(TO[d], FROM[d], started="12:00:50", state="failed"),
    "other in progress": lambda d: a_modification(FROM[d], IO2, started="12:00:50", state="modifying"),
    "other": lambda d: a_modification(FROM[d], IO2, started="12:00:50"),
    "other failed": lambda d: a_modification(FROM[d], IO2, started="12:00:50", state="failed"),
}
SHOWS = ("before", "asked", "else")


def an_asked_flip(direction=OUT, **changes):
    """Asked for at noon, and whether AWS took it is not known."""
    reached_at_s = None if direction is OUT else int(at("10:30"))
    facts = {"phase": ASKED, "direction": direction, "asked_at_s": ASKED_S, "started_at_s": None}
    return a_flip(**(facts | {"reached_at_s": reached_at_s} | changes))


def a_changing_flip(direction=OUT, began=OURS_BEGAN, **changes):
    return an_asked_flip(direction, phase=CHANGING, started_at_s=int(at(began)), **changes)


def shown(what, direction=OUT, **changes):
    """The volume as DescribeVolumes shows it."""
    return a_volume_as({"before": FROM[direction], "asked": TO[direction], "else": IO2}[what], **changes)


def step(flip, shows, record=None, *, now="12:01", policy=None, **state):
    seen = Sighting(volume=shows, record=record)
    return follow(a_state(flip=flip, **state), seen, policy=policy or Policy(), now_s=at(now))


def outcome(found):
    """What a step comes to, in words: the phase it ends in, and what happened on the way."""
    flip, told = found.state.flip, [str(event.kind) for event in found.events]
    where = "no flip" if flip is None else str(flip.phase)
    if found.state.contested_at_s is not None:
        where += ", contested"
    return ": ".join([where, *filter(None, [", ".join(told)])])


WAITS = {ASKED: "asked", CHANGING: "changing", ON_TARGET: "on_target"}
TAKEN_OVER = "no flip, contested: changed_by_others"
KEPT = "on_target, contested: changed_by_others"
LOST = "no flip, contested: accepted, changed_by_others"
LOST_BUT_KEPT = "on_target, contested: accepted, changed_by_others"

# the intent has no outcome yet: the first read, a minute after it

ALWAYS_ASKED = dict.fromkeys(SHOWS, "asked")
ALWAYS_TAKEN = dict.fromkeys(SHOWS, "changing: accepted")
FIRST_READ = {
    (OUT, "none"): ALWAYS_ASKED,
    (OUT, "older"): ALWAYS_ASKED,
    (OUT, "ours in progress"): ALWAYS_TAKEN,
    # completed, and DescribeVolumes is a little behind
    (OUT, "ours completed"): ALWAYS_TAKEN | {"asked": "on_target: accepted, reached"},
    (OUT, "ours failed"): dict.fromkeys(SHOWS, "no flip: accepted, failed"),
    # it is somebody's turn: what that comes to counts when it is over
    (OUT, "undone in progress"): ALWAYS_TAKEN,
    (OUT, "undone"): dict.fromkeys(SHOWS, LOST),
    (OUT, "undoing failed"): ALWAYS_TAKEN | {"asked": "on_target: accepted, reached"},
    (OUT, "other in progress"): ALWAYS_ASKED,
    (OUT, "other"): ALWAYS_ASKED,
    (OUT, "other failed"): ALWAYS_ASKED,
    (BACK, "none"): ALWAYS_ASKED,
    (BACK, "older"): ALWAYS_ASKED,
    (BACK, "ours in progress"): ALWAYS_TAKEN,
    (BACK, "ours completed"): ALWAYS_TAKEN | {"asked": "no flip: accepted, restored"},
    (BACK, "ours failed"): dict.fromkeys(SHOWS, "on_target: accepted, failed"),
    (BACK, "undone in progress"): ALWAYS_TAKEN,
    # somebody sends it to our target again: it stays known what it was
    (BACK, "undone"): dict.fromkeys(SHOWS, LOST_BUT_KEPT),
    (BACK, "undoing failed"): ALWAYS_TAKEN | {"asked": "no flip: accepted, restored"},
    (BACK, "other in progress"): ALWAYS_ASKED,
    (BACK, "other"): ALWAYS_ASKED,
    (BACK, "other failed"): ALWAYS_ASKED,
}
"""Where AWS knows nothing of ours it is asked again; what it knows counts, whatever the volume shows yet."""


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("record", RECORDS)
@pytest.mark.parametrize("shows", SHOWS)
def test_an_intent_without_an_outcome_is_settled_by_what_aws_shows(direction, record, shows):
    found = step(an_asked_flip(direction), shown(shows, direction), RECORDS[record](direction))
    assert outcome(found) == FIRST_READ[direction, record][shows]


# the second read, two minutes after it

SECOND_READ = {
    (OUT, "before"): "no flip: not_done",
    (OUT, "else"): "no flip: not_done",
    (BACK, "before"): "on_target: not_done",
    (BACK, "else"): "on_target: not_done",
    # It became what was asked for, and AWS has no record of it (any more): then it was ours.
    (OUT, "asked"): "changing: accepted",
    (BACK, "asked"): "changing: accepted",
}


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize(
    ("record", "shows"),
    [
        *product(("none", "older"), SHOWS),
        *product(("other", "other in progress", "other failed"), ("before", "else")),
    ],
)
def test_after_two_minutes_and_two_reads_what_aws_knows_nothing_of_was_never_sent(direction, record, shows):
    flip = an_asked_flip(direction, unseen_since_s=int(at("12:01")))
    found = step(flip, shown(shows, direction), RECORDS[record](direction), now="12:02")
    assert outcome(found) == SECOND_READ[direction, shows]


def test_a_read_while_the_request_may_be_under_way_is_no_sign_that_it_was_not_sent():
    # It is begun within half a minute of the intent, and may take another to arrive.
    flip = an_asked_flip()
    assert step(flip, shown("before"), now="12:00:59").state == a_state(flip=flip)
    assert step(flip, shown("before"), now="12:01").state.flip == replace(
        flip, unseen_since_s=int(at("12:01"))
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
    flip = an_asked_flip(unseen_since_s=first and int(at(first)))
    found = step(flip, shown("before"), now=now)
    assert (found.state.flip is None) is is_over
    assert bool(found.events) is is_over
    if not is_over:
        assert found.state.flip == replace(flip, unseen_since_s=int(at(first or now)))


def test_nothing_counts_as_never_sent_before_two_minutes_are_over():
    flip = an_asked_flip(unseen_since_s=int(at("12:00:30")))
    assert outcome(step(flip, shown("before"), now="12:01:59")) == "asked"
    assert outcome(step(flip, shown("before"), now="12:02")) == "no flip: not_done"


def test_what_was_never_sent_is_told_with_its_intent_and_tried_again_after_a_while():
    found = step(an_asked_flip(unseen_since_s=int(at("12:01"))), shown("before"), now="12:02")
    [event] = found.events
    assert (event.kind, event.alert) == (EntryKind.NOT_DONE, AlertKind.FLIP_FAILED)
    assert "gp3" in event.summary
    assert event.facts["to"] == configuration_document(GP3)
    assert event.facts["intent_id"] == "0123456789abcdef"
    # a minute later, and it used nothing up
    assert (found.state.failures, found.state.retry_at_s) == (1, at("12:03"))
    assert found.state.spent == ()


def test_a_return_that_was_never_sent_leaves_the_volume_as_it_stood():
    flip = an_asked_flip(BACK, unseen_since_s=int(at("12:01")))
    stands = step(flip, shown("before", BACK), now="12:02").state.flip
    assert (stands.phase, stands.direction, stands.target) == (ON_TARGET, OUT, GP3)
    assert (stands.original, stands.reached_at_s) == (GP2, at("10:30"))


# answers that were lost


@pytest.mark.parametrize("direction", Direction)
def test_a_lost_answer_is_made_up_for_by_awss_record(direction):
    record = RECORDS["ours in progress"](direction)
    flip = an_asked_flip(direction, unseen_since_s=int(at("12:00:30")))
    found = step(flip, shown("before", direction), record)
    [event] = found.events
    assert event.alert is (AlertKind.FLIPPED if direction is OUT else AlertKind.FLIPPED_BACK)
    assert event.facts["to"] == configuration_document(TO[direction])
    flip = found.state.flip
    assert (flip.phase, flip.started_at_s, flip.unseen_since_s) == (CHANGING, at(OURS_BEGAN), None)
    assert found.state.spent == (Spent(at_s=int(at(OURS_BEGAN)), by=WATCHDOG, direction=direction),)
    assert "answer" in event.details[-1]


@pytest.mark.parametrize(
    ("began", "is_ours"), [("11:57:59", False), ("11:58", True), ("12:00", True), ("12:30", True)]
)
def test_a_record_is_ours_though_the_clocks_differ_by_two_minutes(began, is_ours):
    record = a_modification(started=began, state="modifying")
    found = step(an_asked_flip(), shown("before"), record, now="12:31")
    assert found.state.flip.phase is (CHANGING if is_ours else ASKED)


@pytest.mark.parametrize(
    ("began", "is_known"),
    [("11:58:54", False), ("11:58:55", True), ("11:59", True), ("11:59:05", True), ("11:59:06", False)],
)
def test_a_record_that_was_settled_before_is_not_ours_a_second_time(began, is_known):
    # The way back failed and is asked for again at noon; of that AWS shows nothing yet.
    known = Spent(at_s=int(at("11:59")), by=WATCHDOG, direction=BACK)
    record = a_modification(GP3, GP2, started=began, state="failed")
    found = step(an_asked_flip(BACK), shown("before", BACK), record, spent=(known,))
    assert outcome(found) == ("asked" if is_known else "on_target: accepted, failed")


def test_a_way_out_right_after_a_way_back_is_not_taken_for_undone():
    # Back at 11:58:30, done; out again by hand at noon: the record still shows the way back, gp3 to gp2.
    known = Spent(at_s=int(at("11:58:30")), by=WATCHDOG, direction=BACK)
    record = a_modification(GP3, GP2, started="11:58:30")
    assert outcome(step(an_asked_flip(), shown("before"), record, spent=(known,))) == "asked"


def test_ours_that_was_undone_before_it_was_known_is_used_up_as_well():
    found = step(an_asked_flip(), shown("before"), RECORDS["undone"](OUT))
    assert [one.by for one in found.state.spent] == [WATCHDOG, OTHERS]
    assert [one.at_s for one in found.state.spent] == [ASKED_S, at("12:00:50")]


# sent after all: the process slept between its intent and the call


def given_up_on(direction=OUT):
    """Two minutes after its intent it counted as never sent."""
    asked = an_asked_flip(direction, unseen_since_s=int(at("12:01")))
    return step(asked, shown("before", direction), now="12:02").state


def seen_later(state, shows, record, now="13:01"):
    return follow(state, Sighting(volume=shows, record=record), policy=Policy(), now_s=at(now))


@pytest.mark.parametrize("direction", Direction)
def test_what_counts_as_never_sent_is_remembered_beside_how_the_volume_stands(direction):
    state = given_up_on(direction)
    assert (state.lost.direction, state.lost.asked_at_s) == (direction, ASKED_S)
    assert (state.flip and state.flip.phase) == (None if direction is OUT else ON_TARGET)


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize(
    ("state_of_it", "expected"),
    [
        ("modifying", {OUT: "changing: accepted", BACK: "changing: accepted"}),
        ("completed", {OUT: "on_target: accepted, reached", BACK: "no flip: accepted, restored"}),
        ("failed", {OUT: "no flip: accepted, failed", BACK: "on_target: accepted, failed"}),
    ],
)
def test_what_was_sent_after_all_is_ours_as_soon_as_aws_shows_it(direction, state_of_it, expected):
    record = a_modification(FROM[direction], TO[direction], started="12:15", state=state_of_it)
    shows = shown("asked" if state_of_it == "completed" else "before", direction)
    found = seen_later(given_up_on(direction), shows, record)
    assert outcome(found) == expected[direction]
    assert found.events[0].alert is (AlertKind.FLIPPED if direction is OUT else AlertKind.FLIPPED_BACK)
    assert found.state.lost is None
    assert found.state.spent == (Spent(at_s=int(at("12:15")), by=WATCHDOG, direction=direction),)


@pytest.mark.parametrize("direction", Direction)
def test_what_was_sent_after_all_still_knows_what_the_volume_was(direction):
    record = a_modification(FROM[direction], TO[direction], started="12:15", state="modifying")
    flip = seen_later(given_up_on(direction), shown("before", direction), record).state.flip
    assert (flip.original, flip.target, flip.direction) == (GP2, GP3, direction)


@pytest.mark.parametrize(("began", "is_ours"), [("12:14:59", True), ("12:15", True), ("12:15:01", False)])
def test_a_return_that_begins_a_quarter_of_an_hour_after_its_intent_is_somebody_elses(began, is_ours):
    # Terraform, the console and a driver make gp2 of a volume as well; nobody but us sends it to our target.
    record = a_modification(GP3, GP2, started=began, state="modifying")
    found = seen_later(given_up_on(BACK), shown("before", BACK), record)
    assert outcome(found) == ("changing: accepted" if is_ours else "on_target")
    done = seen_later(given_up_on(BACK), shown("asked", BACK), replace(record, state="completed"))
    assert outcome(done) == ("no flip: accepted, restored" if is_ours else TAKEN_OVER)


def test_a_way_out_that_begins_hours_after_its_intent_is_ours():
    record = a_modification(GP2, GP3, started="23:00", state="modifying")
    assert outcome(seen_later(given_up_on(), shown("before"), record, "23:01")) == "changing: accepted"


@pytest.mark.parametrize(
    ("record", "spent"),
    [
        (None, ()),
        # somebody's that leads elsewhere, one from before the intent, one that is counted already
        (a_modification(GP2, IO2, started="12:50"), ()),
        (a_modification(GP2, GP3, started="11:57:59"), ()),
        (a_modification(GP2, GP3, started="12:50"), (Spent(at_s=int(at("12:50")), by="ann"),)),
    ],
)
def test_what_others_made_is_not_taken_for_what_was_never_sent(record, spent):
    state = replace(given_up_on(), spent=spent)
    assert seen_later(state, shown("before"), record) == Step(state=state)


def test_an_intent_that_is_open_is_settled_before_an_older_one_is_thought_of():
    second = an_asked_flip(asked_at_s=int(at("12:10")), intent_id="fedcba9876543210")
    record = a_modification(GP2, GP3, started="12:10:20", state="modifying")
    found = seen_later(replace(given_up_on(), flip=second), shown("before"), record, now="12:11")
    assert found.state.flip.intent_id == second.intent_id
    assert found.state.lost is None, "it cannot be that one any more: the record is known"


# AWS took it: half an hour later

ALWAYS_CHANGING = dict.fromkeys(SHOWS, "changing")
ALWAYS_KEPT = dict.fromkeys(SHOWS, KEPT)
HALF_AN_HOUR_LATER = {
    # There is no record any more, and it is what was asked for.
    (OUT, "none"): ALWAYS_CHANGING | {"asked": "on_target: reached"},
    (OUT, "older"): ALWAYS_CHANGING | {"asked": "on_target: reached"},
    (OUT, "ours in progress"): ALWAYS_CHANGING,
    # DescribeVolumes is behind, however long: AWS has no newer record
    (OUT, "ours completed"): ALWAYS_CHANGING | {"asked": "on_target: reached"},
    (OUT, "ours failed"): dict.fromkeys(SHOWS, "no flip: failed"),
    # What others have in progress may fail yet.
    (OUT, "undone in progress"): ALWAYS_CHANGING,
    # What others made something else than it was still knows what that is; their record tells, not a look.
    (OUT, "undone"): dict.fromkeys(SHOWS, TAKEN_OVER),
    # Theirs began from what was asked for: ours had come to that.
    (OUT, "undoing failed"): ALWAYS_CHANGING | {"asked": "on_target: reached"},
    (OUT, "other in progress"): ALWAYS_CHANGING,
    (OUT, "other"): ALWAYS_KEPT,
    # Theirs began from what it was before: ours had come to nothing.
    (OUT, "other failed"): ALWAYS_CHANGING | {"before": "no flip: failed", "asked": "on_target: reached"},
    (BACK, "none"): ALWAYS_CHANGING | {"asked": "no flip: restored"},
    (BACK, "older"): ALWAYS_CHANGING | {"asked": "no flip: restored"},
    (BACK, "ours in progress"): ALWAYS_CHANGING,
    (BACK, "ours completed"): ALWAYS_CHANGING | {"asked": "no flip: restored"},
    (BACK, "ours failed"): dict.fromkeys(SHOWS, "on_target: failed"),
    (BACK, "undone in progress"): ALWAYS_CHANGING,
    (BACK, "undone"): ALWAYS_KEPT,
    (BACK, "undoing failed"): ALWAYS_CHANGING | {"asked": "no flip: restored"},
    (BACK, "other in progress"): ALWAYS_CHANGING,
    (BACK, "other"): ALWAYS_KEPT,
    (BACK, "other failed"): ALWAYS_CHANGING | {"before": "on_target: failed", "asked": "no flip: restored"},
}


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("record", RECORDS)
@pytest.mark.parametrize("shows", SHOWS)
def test_a_modification_that_aws_took_is_followed_to_its_end(direction, record, shows):
    found = step(a_changing_flip(direction), shown(shows, direction), RECORDS[record](direction), now="12:30")
    assert outcome(found) == HALF_AN_HOUR_LATER[direction, record][shows]


@pytest.mark.parametrize(
    "record", ["none", "older", "ours in progress", "ours completed", "undone in progress", "undoing failed"]
)
@pytest.mark.parametrize("shows", ["before", "else"])
def test_while_nothing_is_new_nothing_changes(record, shows):
    flip = a_changing_flip()
    found = step(flip, shown(shows), RECORDS[record](OUT), now="12:30")
    assert found.state == a_state(flip=flip)


@pytest.mark.parametrize(("now", "is_over"), [("12:01", False), ("12:10:20", False), ("12:10:21", True)])
def test_without_a_record_the_volume_is_believed_after_ten_minutes(now, is_over):
    found = step(a_changing_flip(), shown("asked"), now=now)
    assert outcome(found) == ("on_target: reached" if is_over else "changing")


@pytest.mark.parametrize(("now", "is_over"), [("12:11", False), ("12:15:19", False), ("12:15:20", True)])
def test_awss_two_answers_may_differ_for_five_minutes(now, is_over):
    # Somebody's io2, begun with ours: its record says completed at 12:10:20.
    theirs = a_modification(GP2, IO2, started=OURS_BEGAN)
    for shows in ("before", "else"):
        found = step(a_changing_flip(), shown(shows), theirs, now=now)
        expected = {"before": TAKEN_OVER, "else": KEPT}[shows]
        assert outcome(found) == (expected if is_over else "changing")


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("shows", ["before", "else"])
def test_while_awss_newest_record_led_to_what_was_asked_for_the_volume_shows_old(direction, shows):
    """However late that is looked at, and however often: nobody has changed it since."""
    flip, record = a_changing_flip(direction), RECORDS["ours completed"](direction)
    for now in ("12:16", "12:17", "20:00"):
        found = step(flip, shown(shows, direction), record, now=now)
        assert (found.state, found.events) == (a_state(flip=flip), ())
    arrived = step(flip, shown("asked", direction), record, now="20:01")
    assert outcome(arrived) == ("on_target: reached" if direction is OUT else "no flip: restored")


@pytest.mark.parametrize("direction", Direction)
def test_what_others_begin_on_our_way_is_taken_over_when_it_is_done(direction):
    flip = a_changing_flip(direction)
    for state in ("modifying", "optimizing"):
        theirs = a_modification(TO[direction], IO2, started="12:10", state=state)
        assert step(flip, shown("asked", direction), theirs, now="12:11") == Step(state=a_state(flip=flip))
    theirs = a_modification(TO[direction], IO2, started="12:10")
    assert outcome(step(flip, shown("asked", direction), theirs, now="12:20:01")) == KEPT


def test_two_that_failed_one_after_the_other_leave_it_as_it_was_to_be_tried_again():
    found = step(a_changing_flip(), shown("before"), RECORDS["other failed"](OUT), now="12:12")
    [event] = found.events
    assert (event.kind, event.alert) == (EntryKind.FAILED, AlertKind.FLIP_FAILED)
    assert event.details[0].startswith("A later modification, which failed as well")
    assert (found.state.flip, found.state.failures, found.state.retry_at_s) == (None, 1, at("12:13"))


@pytest.mark.parametrize("direction", Direction)
def test_what_others_made_of_it_before_they_failed_is_theirs(direction):
    # Ours was over, theirs to io2 as well; of the three AWS shows the last, from io2 to gp2, which failed.
    theirs = a_modification(IO2, GP2, started="12:20", state="failed")
    found = step(a_changing_flip(direction), shown("else"), theirs, now="12:25")
    assert outcome(found) == KEPT
    assert (found.state.flip.original, found.state.flip.target) == (GP2, IO2)


@pytest.mark.parametrize(
    ("began", "expected"),
    [
        ("12:00:14", "changing"),
        ("12:00:15", "on_target: reached"),
        ("12:00:25", "on_target: reached"),
        ("12:00:26", KEPT),
    ],
)
def test_a_start_within_five_seconds_is_the_same_modification(began, expected):
    found = step(a_changing_flip(), shown("asked"), a_modification(started=began), now="12:10:20")
    assert outcome(found) == expected


# arriving


def test_a_volume_on_its_target_is_told_to_the_ledger_only():
    found = step(a_changing_flip(), shown("asked"), RECORDS["ours completed"](OUT), now="12:12", failures=2)
    [event] = found.events
    assert (event.kind, event.alert) == (EntryKind.REACHED, None)
    flip = found.state.flip
    assert (flip.phase, flip.reached_at_s, flip.previous) == (ON_TARGET, at("12:12"), None)
    assert (found.state.failures, found.state.retry_at_s) == (0, None)


def test_a_volume_that_stays_is_verified_to_stay():
    flip = a_changing_flip(stays=True, because="stays: gp3 costs no more")
    found = step(flip, shown("asked"), RECORDS["ours completed"](OUT), now="12:12")
    assert outcome(found) == "on_target: reached, stayed"
    assert found.events[1].details == ("stays: gp3 costs no more",)
    assert found.state.flip.is_settled


def test_a_volume_that_is_back_is_as_if_nothing_had_been_but_for_its_balance():
    spent = (Spent(at_s=int(at(OURS_BEGAN)), by=WATCHDOG, direction=BACK),)
    found = step(
        a_changing_flip(BACK), shown("asked", BACK), RECORDS["ours completed"](BACK), now="12:12", spent=spent
    )
    [event] = found.events
    assert (event.kind, event.alert) == (EntryKind.RESTORED, None)
    assert found.state == a_state(
        returned_at_s=int(at(OURS_BEGAN)), arrived_at_s=int(at("12:12")), spent=spent
    )


# failing


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize(
    ("failures", "retry_at"), [(0, "12:13"), (1, "12:14"), (3, "12:20"), (5, "12:44"), (6, "13:12")]
)
def test_a_failed_modification_is_tried_again_after_twice_as_long_each_time(direction, failures, retry_at):
    record = replace(RECORDS["ours failed"](direction), status_message="internal error")
    found = step(
        a_changing_flip(direction), shown("before", direction), record, now="12:12", failures=failures
    )
    [event] = found.events
    is_told = failures in (0, 1, 3)  # the first, second and fourth; then the eighth
    assert (event.kind, event.alert) == (EntryKind.FAILED, AlertKind.FLIP_FAILED if is_told else None)
    assert event.facts["to"] == configuration_document(TO[direction])
    assert event.facts["retry_at"] == f"2026-11-20T{retry_at}:00Z"
    assert event.action == f"burstctl {'flip' if direction is OUT else 'flip-back'} vol-0a1"
    told = " ".join(event.details)
    assert "internal error" in told
    assert f"({retry_at} UTC)" in told
    assert (found.state.failures, found.state.retry_at_s) == (failures + 1, at(retry_at))


@pytest.mark.parametrize(("by", "is_told_when"), [(WATCHDOG, True), ("ann", False)])
def test_only_the_watchdog_tries_again_by_itself(by, is_told_when):
    [event] = step(a_changing_flip(by=by), shown("before"), RECORDS["ours failed"](OUT), now="12:12").events
    told = " ".join(event.details)
    assert ("in 1 min (12:13 UTC)" in told) is is_told_when
    assert is_told_when or by in told


def test_a_failed_modification_without_a_word_of_awss_is_told_all_the_same():
    found = step(a_changing_flip(), shown("before"), RECORDS["ours failed"](OUT), now="12:12")
    assert "None" not in " ".join(found.events[0].details)


@pytest.mark.parametrize(
    ("failures", "wait_min"),
    [(0, 1), (1, 2), (2, 4), (3, 8), (4, 16), (5, 32), (6, 60), (7, 60), (99, 60), (5_000, 60)],
)
def test_the_wait_doubles_up_to_an_hour(failures, wait_min):
    after = backed_off(a_state(failures=failures), at("12:00"))
    assert (after.failures, after.retry_at_s) == (failures + 1, at("12:00") + 60 * wait_min)


def test_a_way_out_that_came_to_nothing_leaves_nothing():
    assert given_up(a_state(flip=an_asked_flip())).flip is None
    assert given_up(a_state()).flip is None


def test_a_volume_that_could_not_be_sent_on_is_where_it_was():
    before = a_flip(stays=False)
    sent_on = an_asked_flip(target=IO2, stays=True, previous=before)
    assert given_up(a_state(flip=sent_on)).flip == before


# taking long

# 100 GiB: 15 min + 6 h x 100 / 1,024 = 900 + 2,109.375 s are usual, twice that 6,018.75 s: 1:40:18.75.
# 8 GiB: 900 + 168.75 s, twice 2,137.5 s: an hour at least. 1 TiB: twice 6.25 h.


@pytest.mark.parametrize(
    ("size_gib", "last_silent_s", "first_told_s"),
    [(100, 6_018, 6_019), (8, 3_599, 3_600), (1_024, 44_999, 45_000)],
)
@pytest.mark.parametrize("direction", Direction)
def test_a_modification_that_takes_twice_as_long_as_usual_is_told_once(
    size_gib, last_silent_s, first_told_s, direction
):
    flip = a_changing_flip(direction, began="12:00", size_gib=size_gib)
    record = a_modification(
        FROM[direction], TO[direction], started="12:00", state="optimizing", progress_pct=93
    )
    seen = shown("before", direction, size_gib=size_gib)
    noon_s = at("12:00")
    assert step(flip, seen, record, now=noon_s + last_silent_s).events == ()
    found = step(flip, seen, record, now=noon_s + first_told_s)
    [event] = found.events
    assert (event.kind, event.alert) == (EntryKind.STUCK, AlertKind.FLIP_STUCK)
    assert "optimizing" in event.summary
    assert "93 %" in event.summary
    assert event.facts["progress_pct"] == 93
    assert found.state.flip == replace(flip, stuck_told=True)
    assert step(found.state.flip, seen, record, now=noon_s + 10 * first_told_s).events == ()


def test_what_is_usual_is_the_policys():
    policy = Policy(lead=LeadPolicy(least=timedelta(hours=2), per_tib=timedelta(0)))
    flip, record = a_changing_flip(began="12:00"), a_modification(started="12:00", state="modifying")
    assert step(flip, shown("before"), record, now="15:59", policy=policy).events == ()
    [event] = step(flip, shown("before"), record, now="16:00", policy=policy).events
    assert "None" not in event.summary


# on its target: is it still what we made it?

ON_ITS_TARGET = {
    # One answer that shows something else proves nothing: it may be stale.
    "none": dict.fromkeys(("target", "original", "else"), "on_target"),
    "ours": dict.fromkeys(("target", "original", "else"), "on_target"),
    # Terraform sets it back, or people to something else: they are told when it is done.
    "theirs in progress": dict.fromkeys(("target", "original", "else"), "on_target"),
    "theirs": {"target": "on_target", "original": TAKEN_OVER, "else": KEPT},
    # and if it fails, it was nothing
    "theirs failed": dict.fromkeys(("target", "original", "else"), "on_target"),
}


@pytest.mark.parametrize("record", ON_ITS_TARGET)
@pytest.mark.parametrize("shows", ["target", "original", "else"])
@pytest.mark.parametrize("stays", [False, True])
def test_a_volume_on_its_target_is_ours_until_it_is_something_else(record, shows, stays):
    became = {"target": GP3, "original": GP2, "else": IO2}[shows]
    records = {
        "none": None,
        "ours": a_modification(),
        "theirs in progress": a_modification(GP3, became, started="11:50", state="modifying"),
        "theirs": a_modification(GP3, became, started="11:40"),
        "theirs failed": a_modification(GP3, became, started="11:40", state="failed"),
    }
    found = step(a_flip(stays=stays), a_volume_as(became), records[record])
    assert outcome(found) == ON_ITS_TARGET[record][shows]


@pytest.mark.parametrize(("became", "expected"), [(GP2, TAKEN_OVER), (IO2, KEPT)])
@pytest.mark.parametrize(("first", "is_theirs"), [("12:00", True), ("12:00:01", False)])
def test_without_a_record_of_it_a_second_read_a_minute_later_shows_a_change_by_others(
    became, expected, first, is_theirs
):
    doubted = a_flip(unseen_since_s=int(at(first)))
    found = step(doubted, a_volume_as(became))
    assert outcome(found) == (expected if is_theirs else "on_target")
    if not is_theirs:
        assert found.state.flip == doubted, "the first read is the one that counts"


@pytest.mark.parametrize(("became", "expected"), [(GP2, TAKEN_OVER), (IO2, KEPT)])
def test_what_others_made_of_it_counts_though_their_next_failed(became, expected):
    """The record of the one that failed says nothing; that the volume is something else twice does."""
    failed = a_modification(became, GP3, started="11:50", state="failed")
    first = step(a_flip(), a_volume_as(became), failed, now="11:59")
    assert outcome(first) == "on_target"
    second = step(first.state.flip, a_volume_as(became), failed, now="12:00")
    assert outcome(second) == expected
    assert str(became) in second.events[0].summary


@pytest.mark.parametrize("became", [GP2, IO2])
def test_while_awss_newest_record_led_to_the_target_what_the_volume_shows_is_old(became):
    doubted = a_flip(unseen_since_s=int(at("09:00")))
    assert outcome(step(doubted, a_volume_as(became), a_modification())) == "on_target"


def test_a_stale_answer_is_forgotten_when_the_next_shows_the_target_again():
    doubted = step(a_flip(), a_volume_as(GP2)).state
    assert doubted == a_state(flip=a_flip(unseen_since_s=int(at("12:01"))))
    seen = Sighting(volume=a_volume_as(GP3), record=a_modification())
    again = follow(doubted, seen, policy=Policy(), now_s=at("12:02"))
    assert (again.state, again.events) == (a_state(flip=a_flip()), ())


def test_terraform_that_sets_it_back_is_respected_and_shown_the_line_to_change():
    reverted = a_modification(GP3, GP2, started="11:40")
    found = step(a_flip(by="ann"), a_volume_as(GP2), reverted)
    [event] = found.events
    assert event.alert is AlertKind.CHANGED_BY_OTHERS
    assert "gp2" in event.summary
    told = " ".join(event.details)
    for words in ('type = "gp3", iops = 3000, throughput = 128', "ann"):
        assert words in told
    assert event.action == "burstctl release vol-0a1"
    documents = {"from": GP3, "to": GP2, "original": GP2}
    assert {name: event.facts[name] for name in documents} == {
        name: configuration_document(one) for name, one in documents.items()
    }
    assert (found.state.flip, found.state.contested_at_s) == (None, at("12:01"))
    assert found.state.spent == (Spent(at_s=int(at("11:40")), by=OTHERS),)


def test_the_line_to_change_has_no_throughput_for_an_io_type():
    [event] = step(a_flip(target=IO2), a_volume_as(GP2), a_modification(IO2, GP2, started="11:40")).events
    told = " ".join(event.details)
    assert 'type = "io2", iops = 4000 ' in told
    assert "throughput" not in told


@pytest.mark.parametrize("made", [replace(GP3, iops=4_000), replace(GP3, throughput_mib_s=125)])
def test_other_numbers_of_the_same_type_are_somebodys_change(made):
    found = step(a_flip(), a_volume_as(made), a_modification(GP3, made, started="11:40"))
    assert outcome(found) == KEPT
    assert str(made) in found.events[0].summary


@pytest.mark.parametrize(
    ("flip", "returns"),
    [(a_flip(), True), (a_flip(cause=Cause.BY_HAND, by="ann"), True), (a_flip(stays=True), False)],
)
def test_what_others_made_something_else_keeps_its_way_back_and_counts_what_it_costs_now(flip, returns):
    # gp2 $10.00; io2 with 4,000 IOPS: 100 x 0.125 + 4,000 x 0.065 = 272.50
    found = step(flip, a_volume_as(IO2), a_modification(GP3, IO2, started="11:40"))
    kept = found.state.flip
    assert (kept.original, kept.target, kept.usd_per_month) == (GP2, IO2, 262.5)
    assert (kept.by, kept.cause, kept.stays, kept.reached_at_s) == (
        flip.by,
        flip.cause,
        flip.stays,
        flip.reached_at_s,
    )
    # told just now: the next reminder comes in a day
    assert kept.left_told_at_s == at("12:01")
    told = " ".join(found.events[0].details)
    assert ("Then it brings it back to gp2 when its load is calm." in told) is returns
    assert "until somebody releases it, the watchdog leaves it as it is" in told.lower()


def test_what_others_changed_on_its_way_is_judged_from_their_modification_on():
    flip = a_changing_flip(previous=a_flip())
    kept = step(flip, shown("else"), RECORDS["other"](OUT), now="12:30").state.flip
    assert (kept.phase, kept.direction, kept.target, kept.previous) == (ON_TARGET, OUT, IO2, None)
    assert (kept.started_at_s, kept.reached_at_s) == (at("12:00:50"), at("12:30"))
    again = step(kept, shown("else"), RECORDS["other"](OUT), now="12:35")
    assert (again.state.flip, again.events) == (kept, ())


def test_of_a_volume_that_was_made_what_it_was_nothing_is_left_to_bring_back():
    found = step(a_flip(), a_volume_as(GP2), a_modification(GP3, GP2, started="11:40"))
    assert found.state.flip is None
    assert "brings it back" not in " ".join(found.events[0].details)


@pytest.mark.parametrize("original", [IO1, IO2, replace(GP3, throughput_mib_s=125)])
def test_what_others_made_gp2_has_no_flip_any_more_whatever_it_was(original):
    """From gp2 it can only be flipped anew; what it was is told."""
    flip = a_flip(original=original, cause=Cause.BY_HAND, by="ann", return_after_s=int(at("18:00")))
    found = step(flip, a_volume_as(GP2), a_modification(GP3, GP2, started="11:40"))
    assert outcome(found) == TAKEN_OVER
    [event] = found.events
    assert event.summary == "was made gp2"
    assert event.details[0].startswith(f"It was {original} until burstwatch made it")
    assert "brings it back" not in " ".join(event.details)


def test_a_type_that_we_never_make_is_named():
    doubted = a_flip(unseen_since_s=int(at("12:00")))
    found = step(doubted, a_volume(volume_type="st1", size_gib=500))
    assert outcome(found) == TAKEN_OVER
    assert "st1" in found.events[0].summary


# resizing


def a_resize(configuration=GP3, state="completed", started="11:40"):
    """From 100 to 200 GiB, by somebody else."""
    record = a_modification(configuration, configuration, state=state, started=started)
    return replace(record, target=a_provision(configuration, 200))


def test_a_volume_resized_on_its_target_is_left_to_people_and_still_knows_what_it_was():
    found = step(a_flip(), a_volume_as(GP3, 200), a_resize())
    assert outcome(found) == KEPT
    assert "100" in found.events[0].summary
    assert "200 GiB" in found.events[0].summary
    flip = found.state.flip
    assert (flip.size_gib, flip.original, flip.target) == (200, GP2, GP3)
    again = step(flip, a_volume_as(GP3, 200), a_resize(), now="12:06")
    assert (again.state.flip, again.events) == (flip, ())


def test_a_resize_under_way_is_told_when_it_is_done():
    assert outcome(step(a_flip(), a_volume_as(GP3, 200), a_resize(state="optimizing"))) == "on_target"


def test_a_resize_found_before_ours_was_seen_to_be_over_is_told_once():
    # Ours was over between two looks, and somebody resizes it by now; the volume does not show that yet.
    flip = a_changing_flip()
    under_way = a_resize(state="modifying", started="12:15")
    assert step(flip, a_volume_as(GP3), under_way, now="12:16") == Step(state=a_state(flip=flip))
    found = step(flip, a_volume_as(GP3), a_resize(started="12:15"), now="12:30")
    assert outcome(found) == KEPT
    kept = found.state.flip
    assert kept.size_gib == 200
    for shows_gib in (100, 200):
        again = step(kept, a_volume_as(GP3, shows_gib), a_resize(started="12:15"), now="12:31")
        assert again.events == ()


def test_a_resize_on_the_way_back_is_told_with_the_volume_left_where_it_is():
    found = step(a_changing_flip(BACK), a_volume_as(GP2, 200), a_resize(GP2, started="12:20"), now="12:35")
    assert outcome(found) == TAKEN_OVER


# what nobody sees


def test_a_volume_that_was_never_flipped_is_nobodys_business():
    state = a_state(level=Level.CRITICAL)
    seen = Sighting(volume=a_volume(), record=a_modification())
    found = follow(state, seen, policy=Policy(), now_s=at("12:00"))
    assert (found.state, found.events) == (state, ())


def test_the_rest_of_the_state_is_left_alone():
    known = {"level": Level.CRITICAL, "balance_pct": 3.0, "critical_told": True, "revision": 7}
    found = step(a_changing_flip(), shown("asked"), RECORDS["ours completed"](OUT), now="12:12", **known)
    assert {name: getattr(found.state, name) for name in known} == known


@pytest.mark.parametrize("cause", Cause)
@pytest.mark.parametrize("by", [WATCHDOG, "ann"])
def test_who_asked_and_why_goes_along_to_the_target(cause, by):
    flip = a_changing_flip(cause=cause, by=by, return_after_s=int(at("18:00")), usd_per_month=7.5)
    arrived = step(flip, shown("asked"), RECORDS["ours completed"](OUT), now="12:12").state.flip
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
    phase, direction = draw(st.sampled_from(Phase)), draw(st.sampled_from(Direction))
    if phase is ON_TARGET:
        return a_flip(stays=draw(st.booleans()))
    began_s = draw(moments) if phase is CHANGING else None
    previous = draw(st.sampled_from([None, a_flip()]))
    return an_asked_flip(direction, phase=phase, started_at_s=began_s, previous=previous)


@settings(max_examples=300)
@given(flips(), volumes, st.none() | records, moments, st.lists(moments, max_size=3))
def test_whatever_aws_shows_a_flip_is_told_of_once_and_nothing_used_up_is_forgotten(
    flip, volume, record, now_s, spent_at
):
    """Seen again and again the same way, it settles: first what was asked for, then what stands."""
    state = a_state(flip=flip, spent=tuple(Spent(at_s=one, by=OTHERS) for one in sorted(spent_at)))
    told = []
    for again_s in (0, 0, 1_000, 1_000):
        seen = Sighting(volume=volume, record=record)
        found = follow(state, seen, policy=Policy(), now_s=now_s + again_s)
        assert set(state.spent) <= set(found.state.spent)
        if found.state.flip is not None:
            assert found.state.flip.original == flip.original
        told += [event.kind for event in found.events]
        state = found.state
    assert len(told) == len(set(told)), "nothing is told twice"
    assert told.count(EntryKind.FAILED) + told.count(EntryKind.NOT_DONE) == (state.failures > 0)


# what it costs, as told when AWS takes it


@pytest.mark.parametrize(
    ("flip", "says"),
    [
        # 100 GiB: gp2 10.00; gp3 8.00 + 3 x 0.04 = 8.12; io2 12.50 + 4,000 x 0.065 = 272.50.
        (an_asked_flip(), "gp2; this costs $1.88 a month less"),
        (an_asked_flip(BACK), "this costs $1.88 a month more"),
        # 262.50 / 730 = 0.35959
        (an_asked_flip(target=IO2), "gp2; this costs $262.50 a month more, $0.3596 an hour"),
        (an_asked_flip(BACK, target=IO2), "this costs $262.50 a month less, $0.3596 an hour"),
        # 272.50 - 8.12
        (an_asked_flip(target=IO2, previous=a_flip()), "128 MiB/s; this costs $264.38 a month more"),
        # 200 GiB: gp3 16.00 + 0.12, gp2 20.00; 7 GiB: 0.56 + 0.12, 0.70
        (an_asked_flip(size_gib=200), "$3.88 a month less"),
        (an_asked_flip(size_gib=7), "$0.02 a month less"),
        (an_asked_flip(BACK, size_gib=7), "$0.02 a month more"),
        # 6 GiB: gp3 0.48 + 0.12, gp2 0.60
        (an_asked_flip(size_gib=6), "costs the same"),
    ],
)
def test_what_it_costs_is_told_with_it(flip, says):
    record = a_modification(FROM[flip.direction], flip.asked_for, started=OURS_BEGAN, state="optimizing")
    [event] = step(flip, shown("before", flip.direction), record).events
    assert says in " ".join(event.details)


# words, and what is on the edge


@pytest.mark.parametrize(
    ("direction", "because", "details"),
    [
        (
            OUT,
            "dry in 5 min",
            (
                "Asked for by watchdog (dry in 5 min).",
                "It was gp2; this costs $1.88 a month less, $0.0026 an hour (us-east-1 list prices).",
                "AWS is expected to take 15 min to 50 min for 100 GiB; empty in about 13 min; reduce load"
                " until then. While it optimizes, the volume performs between the two.",
            ),
        ),
        (
            BACK,
            "",
            (
                "Asked for by watchdog.",
                "It was gp3 with 3,000 IOPS and 128 MiB/s; this costs $1.88 a month more, $0.0026 an hour"
                " (us-east-1 list prices).",
                "Its burst balance is unknown until the first fresh datapoint.",
            ),
        ),
    ],
)
def test_what_aws_took_is_told_with_who_asked_why_and_what_comes_now(direction, because, details):
    # 100 GiB: gp2 $10.00 a month, gp3 with 128 MiB/s $8.12
    flip = an_asked_flip(direction, because=because)
    assert accepted_event(flip, LeadPolicy(), empty_s=13 * 60).details == details
    with_note = accepted_event(flip, LeadPolicy(), empty_s=13 * 60, note="The answer was lost.")
    assert with_note.details == (*details, "The answer was lost.")


def test_a_volume_that_stays_without_a_reason_gives_none():
    found = step(an_asked_flip(phase=CHANGING, started_at_s=ASKED_S, stays=True), shown("asked"), now="12:11")
    [_, stayed] = found.events
    assert (stayed.kind, stayed.details) == (EntryKind.STAYED, ())


@pytest.mark.parametrize(
    ("late_s", "expected"),
    [(24 * 3600, "changing"), (24 * 3600 + 1, "no flip, contested: changed_by_others")],
)
def test_what_aws_forgot_and_the_volume_never_showed_is_somebody_elses_a_day_later(late_s, expected):
    began_s = int(at(OURS_BEGAN))
    assert outcome(step(a_changing_flip(), shown("before"), now=began_s + late_s)) == expected


@pytest.mark.parametrize(("began", "is_theirs"), [("10:00:05", False), ("10:00:06", True)])
def test_a_start_within_five_seconds_is_ours_also_where_it_stands_on_its_target(began, is_theirs):
    found = step(a_flip(), shown("else"), a_modification(GP2, IO2, started=began))
    assert (found.state.contested_at_s is not None) is is_theirs
    assert (found.state.flip.unseen_since_s is not None) is not is_theirs


def test_an_older_record_that_led_elsewhere_explains_nothing():
    older = a_modification(GP3, GP2, started="08:00")
    found = step(a_flip(), shown("else"), older)
    assert found.state.flip.unseen_since_s == at("12:01")


def test_what_others_set_back_was_reverted_and_what_they_made_else_was_made():
    for made, says in [(GP2, "was reverted to gp2"), (IO2, "was made io2 with 4,000 IOPS")]:
        found = step(a_flip(), a_volume_as(made), a_modification(GP3, made, started="11:00"))
        assert [event.summary for event in found.events] == [says]
