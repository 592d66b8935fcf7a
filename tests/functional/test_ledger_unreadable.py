"""One item of a ledger that cannot be read: it is named and kept, never believed, and hides no other."""

import json
from dataclasses import replace

import pytest
from some_changes import MAIL, A, B, a_change, a_digest, a_state, an_alert, an_entry, sent_ids
from some_flips import a_flip

from burstwatch.core.assessment import host_stall
from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.errors import LedgerError
from burstwatch.core.flips.outcome import Done
from burstwatch.core.flips.planning import Order
from burstwatch.core.ledger import flip_state
from burstwatch.core.ledger import ledger as core_ledger
from burstwatch.core.ledger.flip_state import WATCHDOG, Cause, Direction, Hold, WindowMark
from burstwatch.core.ledger.ledger import Begun, Caps, Change, EntryKind, ItemKind, TickKind, VolumeState
from burstwatch.engine.flip_executor import carry_out
from burstwatch.engine.watch_pass import look_at_everything, run_tick
from conftest import a_volume
from ledgers import KINDS, a_home
from telling_aws import CALM, DRAINING, NOW_S, SILENT, Telling, a_shell

REAL = "vol-0123456789abcdef0"
LATER_S = int(NOW_S) + 3600
BODIES = {
    "truncated": "{",
    "null": "null",
    "a list": "[]",
    "two documents": '{"volume_id":"vol-0a","revision":100},{"volume_id":"vol-0a","revision":100}',
    "an unknown level": '{"volume_id":"vol-0a","revision":100,"level":"doomed"}',
    "a level that is no text": '{"volume_id":"vol-0a","revision":100,"level":3}',
    "a negative time": '{"volume_id":"vol-0a","revision":100,"next_look_at_s":-5}',
    "a time that is text": '{"volume_id":"vol-0a","revision":100,"next_look_at_s":"soon"}',
    "a balance of 250 %": '{"volume_id":"vol-0a","revision":100,"balance_pct":250}',
    "no number": '{"volume_id":"vol-0a","revision":100,"balance_pct":NaN}',
    "another volume": '{"volume_id":"vol-0c","revision":100}',
    "another revision": '{"volume_id":"vol-0a","revision":101}',
    "nested too deep": "[" * 100_000,
}


@pytest.fixture(params=KINDS)
def home(request, tmp_path):
    with a_home(request.param, tmp_path) as place:
        place.kind = request.param
        yield place


@pytest.fixture
def ledger(home):
    return home.open()


_TABLES = {
    "states": "states",
    "history": "entries",
    "waiting": "deliveries",
    "holds": "holds",
    "windows": "window_marks",
}
_KEYS = {"states": "volume_id", "entries": "kind", "deliveries": "alert_id", "holds": "subject"}


def spoil(home, what, key=None, **changes):
    """Change fields of the items of one kind, or of one of them, behind the ledger's back."""
    if home.kind == "sqlite":
        table = _TABLES[what]
        sets = ", ".join(f"{name} = ?" for name in changes)
        where = "" if key is None else f" WHERE {_KEYS.get(table, 'name')} = ?"
        values = [*changes.values(), *([] if key is None else [key])]
        assert home._connection.execute(f"UPDATE {table} SET {sets}{where}", values).rowcount
        return
    spoiled = 0
    for pk, items in home.table.items.items():
        for sk, item in items.items():
            if pk.startswith(what) and key in (None, sk, item.get("kind", {}).get("S")):
                typed = {n: {"S": v} if isinstance(v, str) else {"N": repr(v)} for n, v in changes.items()}
                items[sk] = item | typed
                spoiled += 1
    assert spoiled


def noted(ledger, kind):
    found = ledger.take_unreadable()
    assert all(len(str(one)) < 1_000 and str(one).isprintable() for one in found)
    return [one for one in found if one.kind is kind]


# States


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_state_that_cannot_be_read_is_named_and_hides_no_other(home, ledger, body):
    ledger.commit([a_change(A), a_change(B)], channels=[])
    spoil(home, "states", A, body=body)

    found = ledger.states()

    assert (found.keys(), found.unread.keys()) == ({B}, {A})
    assert ledger.states_of({A}).unread.keys() == {A}
    (one,) = noted(ledger, ItemKind.STATE)
    assert (one.subject, one.revision) == (A, 100)
    assert f"the state of {A} in the ledger (" in str(one)
    assert f"{'table states, ' if home.kind == 'sqlite' else 'sk '}" in str(one)
    assert f"burstctl release {A}" in str(one)
    assert ledger.take_unreadable() == []


@pytest.mark.parametrize("body", ["{", BODIES["an unknown level"]])
def test_a_state_that_cannot_be_read_is_never_overwritten_as_if_it_were_new(home, ledger, body):
    ledger.commit([a_change(A)], channels=[])
    spoil(home, "states", A, body=body)
    before = home.everything()
    new = Change(volume_id=A, expected_revision=None, state=a_state(A, 200, flip=a_flip()))

    begun = ledger.begin(new, Caps(), now_s=200, heeds_holds=True, channels=[])

    assert ledger.commit([new], channels=[]) == set()
    assert begun.begun is Begun.OUTRUN
    assert home.everything() == before


def test_fields_of_a_later_version_are_left_out_so_that_an_upgrade_can_be_rolled_back(home, ledger):
    flip = a_flip()
    known = a_state(A, 100, flip=flip)
    ledger.commit([Change(volume_id=A, expected_revision=None, state=known)], channels=[])
    document = known.to_document() | {"seen_from_orbit_s": 7}
    document["flip"] |= {"colour": "blue"}
    document["flip"]["target"] |= {"warp": 9}
    spoil(home, "states", A, body=json.dumps(document))

    assert ledger.states() == {A: known}
    assert ledger.take_unreadable() == []


@pytest.mark.parametrize(
    "changes",
    [
        {"target": {"volume_type": "io1", "iops": 10**9, "throughput_mib_s": None}},
        {"target": {"volume_type": "io9", "iops": 1000, "throughput_mib_s": None}},
        {"target": {"volume_type": "gp2", "iops": 1000, "throughput_mib_s": None}},
        {"size_gib": 0},
        {"size_gib": "100"},
        {"asked_at_s": -1},
        {"usd_per_month": float("inf")},
        {"stays": "no"},
        {"phase": "lost"},
        {"previous": None},
    ],
    ids=str,
)
def test_a_flip_that_cannot_be_is_not_believed(home, ledger, changes):
    known = a_state(A, 100, flip=a_flip())
    ledger.commit([Change(volume_id=A, expected_revision=None, state=known)], channels=[])
    document = known.to_document()
    document["flip"] |= changes
    spoil(home, "states", A, body=json.dumps(document))

    assert ledger.states().unread.keys() == {A}


# A pass


def drained(ledger, now_s=NOW_S):
    telling = Telling()
    return look_at_everything(a_shell(telling, ledger), now_s=now_s)


def test_a_pass_judges_all_volumes_but_the_one_it_cannot_remember(home, ledger):
    first = drained(ledger)
    assert {d.volume_id for d in first.decisions} >= {DRAINING, CALM}
    spoil(home, "states", DRAINING, body="{")
    before = home.everything()

    report = drained(ledger, NOW_S + 60)

    decisions = {decision.volume_id: decision for decision in report.decisions}
    assert decisions.keys() == {d.volume_id for d in first.decisions}
    lost = decisions[DRAINING]
    assert (lost.assessment.unknown_reason, lost.change, lost.want) == (UnknownReason.READ_FAILED, None, None)
    assert DRAINING in lost.assessment.unknown_because
    assert [d.volume_id for d in report.unread] == [DRAINING]
    assert report.has_failed
    assert decisions[CALM].assessment.unknown_reason is None
    kept = home.everything()
    assert (kept if home.kind == "sqlite" else kept[_shard(before)]) == (
        kept if home.kind == "sqlite" else before[_shard(before)] | kept[_shard(before)]
    )
    assert ledger.states().unread.keys() == {DRAINING}


def _shard(items):
    return next(pk for pk, found in items.items() if pk.startswith("states ") and DRAINING in found)


def test_every_tick_says_again_what_it_cannot_read(home, ledger):
    drained(ledger)
    spoil(home, "states", DRAINING, body="null")
    tick_s = int(NOW_S) // 300 * 300
    shell = a_shell(Telling(), ledger)

    reports = [run_tick(shell, tick_s=tick_s + 60 * n, now_s=NOW_S + 60 * n) for n in range(3)]

    assert [[d.volume_id for d in report.unread] for report in reports] == [[DRAINING]] * 3


def test_a_volume_with_an_unreadable_memory_is_not_flipped_from_a_blank_one(home, ledger):
    drained(ledger)
    spoil(home, "states", DRAINING, body="{")
    shell = replace(a_shell(Telling(), ledger), modifier=_NoModifier())
    order = Order(volume_id=DRAINING, direction=Direction.OUT, cause=Cause.DRAINING, because="x", by=WATCHDOG)
    gathering = shell.gathering(NOW_S)

    outcome = carry_out(shell, [order], gathering)[DRAINING]

    assert (outcome.done, outcome.error_code) == (Done.FAILED, "unread")
    assert any(f"the state of {DRAINING}" in failure for failure in gathering.failures)
    assert ledger.states().unread.keys() == {DRAINING}


class _NoModifier:
    """Nothing may be sent."""

    def modify(self, *_):
        raise AssertionError("ModifyVolume was sent")


# What a zone lacks


def test_a_damaged_entry_of_a_zone_stops_no_pass_and_hides_no_other_zone(ledger):
    for zone, body in (("a", {"volume_type": []}), ("b", {"volume_type": "gp3"})):
        entry = an_entry(f"zone us-east-1{zone}", at_s=int(NOW_S), kind=EntryKind.REFUSED, body=body)
        change = Change(volume_id=entry.volume_id, expected_revision=None, state=None, entries=[entry])
        ledger.commit([change], channels=[])
    volumes = [a_volume(volume_id=f"vol-0{zone}", zone=f"us-east-1{zone}") for zone in "ab"]

    found = a_shell(Telling(), ledger).unavailable_types(volumes, NOW_S)

    assert {volume_id: list(types) for volume_id, types in found.items()} == {
        "vol-0a": [],
        "vol-0b": [VolumeType.GP3],
    }
    assert [one.subject for one in noted(ledger, ItemKind.ENTRY)] == ["zone us-east-1a"]


# Holds and windows


HOLDS = [{"until_s": "noon"}, {"until_s": -1}, {"until_s": 10**15}, {"placed_at_s": "x"}]


@pytest.mark.parametrize("changes", HOLDS, ids=str)
def test_a_hold_that_cannot_be_read_holds_everything_until_it_is_released(home, ledger, changes):
    ledger.place_hold(Hold(volume_id=A, by="ann", reason="x", placed_at_s=1, until_s=LATER_S))
    spoil(home, "holds", A, **changes)

    (hold,) = ledger.holds(NOW_S)

    assert hold.volume_id is None
    assert "burstctl release --all" in hold.reason
    assert len(noted(ledger, ItemKind.HOLD)) == 1
    intent = Change(volume_id=A, expected_revision=None, state=a_state(A, 200, flip=a_flip()))
    assert ledger.begin(intent, Caps(), now_s=NOW_S, heeds_holds=True, channels=[]).begun is Begun.HELD
    assert ledger.lift_hold(None, by="ann", at_s=int(NOW_S)) is not None
    assert ledger.holds(NOW_S) == []


def test_a_hold_that_cannot_be_read_ends_with_the_release_of_its_volume(home, ledger):
    ledger.place_hold(Hold(volume_id=A, by="ann", reason="x", placed_at_s=1, until_s=LATER_S))
    ledger.place_hold(Hold(volume_id=B, by="ann", reason="y", placed_at_s=1, until_s=LATER_S))
    spoil(home, "holds", A, until_s="noon")

    assert ledger.lift_hold(A, by="ann", at_s=int(NOW_S)) is not None

    assert [hold.volume_id for hold in ledger.holds(NOW_S)] == [B]


def test_a_damaged_hold_on_a_volume_outlives_the_end_of_the_hold_on_everything(home, ledger):
    for subject in (None, REAL):
        ledger.place_hold(Hold(volume_id=subject, by="ann", reason="x", placed_at_s=1, until_s=LATER_S))
    spoil(home, "holds", REAL, placed_at_s="x")

    assert ledger.lift_hold(None, by="ann", at_s=int(NOW_S)).by == "ann"
    (left,) = ledger.holds(NOW_S)

    assert (left.volume_id, left.damaged) == (None, REAL)
    assert f"burstctl release {REAL} ends it" in left.reason
    assert str(noted(ledger, ItemKind.HOLD)[0]).endswith(f"everything is held until burstctl release {REAL}")


@pytest.mark.parametrize("subject", [None, REAL])
@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_damaged_hold_that_was_released_or_replaced_is_not_reported(home, ledger, subject, is_replaced):
    hold = Hold(volume_id=subject, by="ann", reason="x", placed_at_s=1, until_s=LATER_S)
    ledger.place_hold(hold)
    spoil(home, "holds", placed_at_s="x")
    assert ledger.holds(NOW_S) != [hold]

    if is_replaced:
        ledger.place_hold(hold)
    else:
        assert ledger.lift_hold(subject, by="ann", at_s=int(NOW_S)) is not None

    assert ledger.take_unreadable() == []
    assert ledger.holds(NOW_S) == ([hold] if is_replaced else [])


def test_the_end_of_the_hold_on_everything_leaves_those_on_volumes(home, ledger):
    for subject in (None, A):
        ledger.place_hold(Hold(volume_id=subject, by="ann", reason="x", placed_at_s=1, until_s=LATER_S))

    lifted = ledger.lift_hold(None, by="ann", at_s=int(NOW_S))

    assert lifted.volume_id is None
    assert [hold.volume_id for hold in ledger.holds(NOW_S)] == [A]


@pytest.mark.parametrize("changes", [{"until_s": "later"}, {"until_s": -62135596801}, {"starts": 7}], ids=str)
def test_a_window_mark_that_cannot_be_read_is_there_and_not_known(home, ledger, changes):
    ledger.mark_window(WindowMark(name="w", starts=True, by="ann", at_s=1))
    ledger.mark_window(WindowMark(name="v", starts=True, by="ann", at_s=1))
    spoil(home, "windows", "w", **changes)

    marks = ledger.window_marks()

    assert {name: mark.is_known for name, mark in marks.items()} == {"w": False, "v": True}
    assert [one.subject for one in noted(ledger, ItemKind.WINDOW)] == ["w"]
    ledger.mark_window(WindowMark(name="w", starts=False, by="ann", at_s=2))
    assert ledger.window_marks()["w"].is_known


# The outbox


@pytest.mark.parametrize(
    "changes",
    [
        {"document": "{"},
        {"document": "null"},
        {"document": json.dumps(an_alert(A).to_document() | {"kind": "SomethingLater"})},
        {"document": json.dumps(an_alert(A).to_document() | {"forecast": {"time_to_empty_s": "soon"}})},
        {"document": json.dumps(an_alert(A).to_document() | {"evidence": "none"})},
        {"attempts": -1},
    ],
    ids=str,
)
def test_an_alert_that_cannot_be_read_is_parked_and_the_others_go_out(home, ledger, changes):
    ledger.commit([a_change(A), a_change(B)], channels=[MAIL])
    parked = an_alert(A).alert_id
    spoil(home, "waiting", parked, **changes)

    (waits,) = ledger.waiting(channels=[MAIL])

    assert waits.alert.volume_id == B
    assert len(noted(ledger, ItemKind.ALERT)) == 1
    assert ledger.claim(waits, now_s=200, lease_s=60)
    ledger.delivered(waits, at_s=200)
    assert home.count_undelivered() == 1
    assert EntryKind.DELIVERED in [entry.kind for entry in ledger.entries(B)]


def test_the_alerts_of_a_digest_that_cannot_be_read_go_out_by_themselves(home, ledger):
    ledger.commit([a_change(A), a_change(B)], channels=[MAIL])
    alerts = [an_alert(A), an_alert(B)]
    digest = a_digest(*alerts)
    ledger.bundle([alert.alert_id for alert in alerts], digest, channels=[MAIL])
    assert sent_ids(ledger, MAIL) == [digest.alert_id]
    spoil(home, "waiting", digest.alert_id, document="{")

    found = ledger.waiting(channels=[MAIL])

    assert {delivery.alert.alert_id for delivery in found} == {alert.alert_id for alert in alerts}
    for delivery in found:
        assert ledger.claim(delivery, now_s=300, lease_s=60)
        ledger.delivered(delivery, at_s=300)
    assert ledger.waiting(channels=[MAIL]) == []


def test_a_pass_counts_the_alerts_that_it_cannot_read_and_sends_the_rest(home, ledger):
    ledger.commit([a_change(A)], channels=["people"])
    spoil(home, "waiting", an_alert(A).alert_id, document="{")
    people = _People()

    report = look_at_everything(replace(a_shell(Telling(), ledger), channels=[people]), now_s=NOW_S)

    assert {alert.volume_id for alert in people.got} == {DRAINING, SILENT}
    assert (report.sent, report.undelivered) == (2, 1)
    assert any("it is kept and not sent" in failure for failure in report.failures)


class _People:
    name = "people"

    def __init__(self):
        self.got = []

    def send(self, alert):
        self.got.append(alert)


# History, ticks and the roster


@pytest.mark.parametrize(
    "changes", [{"kind": "teleported"}, {"body": "{"}, {"body": "7"}, {"at_s": 10**15}], ids=str
)
def test_an_entry_that_cannot_be_read_is_left_out_and_counted(home, ledger, changes):
    ledger.commit([a_change(A)], channels=[])
    ledger.place_hold(Hold(volume_id=A, by="ann", reason="x", placed_at_s=200, until_s=LATER_S))
    spoil(home, "history", "level_changed", **changes)

    assert {entry.kind for entry in ledger.entries(A)} == {EntryKind.ALERT, EntryKind.HELD}
    assert len(noted(ledger, ItemKind.ENTRY)) == 1


def test_an_alert_of_a_later_kind_in_a_history_is_left_out(home, ledger):
    later = an_alert(A).to_document() | {"kind": "SomethingLater"}
    entries = [an_entry(A, kind=EntryKind.ALERT, body=later), an_entry(A)]
    ledger.commit(
        [Change(volume_id=A, expected_revision=None, state=a_state(A), entries=entries)], channels=[]
    )

    assert [entry.kind for entry in ledger.entries(A)] == [EntryKind.LEVEL_CHANGED]
    assert len(noted(ledger, ItemKind.ENTRY)) == 1


def test_a_tick_and_a_roster_that_cannot_be_read_stop_no_sweep_and_are_written_anew(home, ledger):
    ledger.complete_tick(TickKind.SWEEP, 300, roster=frozenset({1, 2}))
    if home.kind == "sqlite":
        home._connection.execute("UPDATE completed_ticks SET fingerprints = x'00'")
    else:
        home.table.items["ledger"]["sweep tick"] |= {"claims": {"S": "{"}, "roster_bytes": {"S": "x"}}
    fresh = home.open()

    assert fresh.roster() is None
    assert noted(fresh, ItemKind.TICK)
    assert fresh.claim_tick(TickKind.SWEEP, 600, now_s=601, lease_s=50)
    fresh.complete_tick(TickKind.SWEEP, 600, roster=frozenset({1, 2}))

    assert home.open().roster().fingerprints == {1, 2}


def test_every_field_of_a_state_is_read_back():
    """One without a reader would be forgotten at every look."""
    for kind, readers in (
        (VolumeState, core_ledger._READERS),
        (flip_state.Flip, flip_state._FLIP_READERS),
        (flip_state.Spent, flip_state._SPENT_READERS),
        (host_stall.Stall, host_stall._STALL_READERS),
        (host_stall.StuckTask, host_stall._TASK_READERS),
    ):
        assert readers.keys() == kind.__dataclass_fields__.keys()


# Channels and totals


def spoil_item(home, sk, **typed):
    home.table.items["ledger"][sk] = {"pk": {"S": "ledger"}, "sk": {"S": sk}, **typed}


@pytest.mark.parametrize("damage", [{"S": "mail"}, {"N": "7"}], ids=str)
def test_a_list_of_channels_that_cannot_be_read_counts_as_empty_and_is_written_again(tmp_path, damage):
    with a_home("dynamodb", tmp_path) as home:
        home.open().commit([a_change(A)], channels=[MAIL])
        spoil_item(home, "channels", channels=damage)
        ledger = home.open()

        assert ledger.commit([a_change(B)], channels=[MAIL]) == {B}

        assert len(noted(ledger, ItemKind.CHANNELS)) == 1
        assert len(sent_ids(ledger, MAIL)) == 2
        assert home.table.items["ledger"]["channels"]["channels"] == {"SS": [MAIL]}


DAMAGED = [
    {"volumes": {"S": "abc"}, "micro_usd": {"N": "0"}},
    {"volumes": {"N": "-1000"}, "micro_usd": {"N": "-1000000000000"}},
    {"volumes": {"N": "1000000"}, "micro_usd": {"N": "0"}},
    {"volumes": {"N": "1"}, "micro_usd": {"SS": ["x"]}},
]


def an_outward(volume_id, revision=100, **given):
    state = a_state(volume_id, revision, flip=a_flip(**given))
    return Change(volume_id=volume_id, expected_revision=None, state=state)


@pytest.mark.parametrize("damage", DAMAGED, ids=str)
def test_totals_that_cannot_be_are_counted_again_and_the_caps_hold(tmp_path, damage):
    with a_home("dynamodb", tmp_path) as home:
        ledger = home.open(sleep=lambda _: None)
        ledger.commit([an_outward(A)], channels=[])
        spoil_item(home, "away", **damage)

        def begin(volumes):
            caps = Caps(volumes=volumes)
            return ledger.begin(an_outward(B), caps, now_s=NOW_S, heeds_holds=True, channels=[]).begun

        assert begin(volumes=1) is Begun.FLEET_CAP
        assert begin(volumes=2) is Begun.RECORDED
        assert len(noted(ledger, ItemKind.TOTALS)) == 1
        assert home.reserved()[0] == 2


@pytest.mark.parametrize("damage", [DAMAGED[0], DAMAGED[3]], ids=str)
def test_a_flip_that_ends_is_recorded_although_the_totals_are_damaged(tmp_path, damage):
    with a_home("dynamodb", tmp_path) as home:
        ledger = home.open()
        ledger.commit([an_outward(A), an_outward(B)], channels=[])
        spoil_item(home, "away", **damage)

        ended = Change(volume_id=A, expected_revision=100, state=a_state(A, 101))
        assert ledger.commit([ended], channels=[]) == {A}

        assert home.reserved()[0] == 1


def test_damaged_totals_and_a_damaged_reservation_refuse_with_the_next_step(tmp_path):
    with a_home("dynamodb", tmp_path) as home:
        ledger = home.open()
        ledger.commit([an_outward(A)], channels=[])
        items = next(
            found for pk, found in home.table.items.items() if pk.startswith("states ") and A in found
        )
        items[A] = items[A] | {"away": {"S": "lots"}}
        spoil_item(home, "away", **DAMAGED[0])

        with pytest.raises(LedgerError, match="so nothing is flipped: run burstctl doctor"):
            ledger.begin(an_outward(B), Caps(), now_s=NOW_S, heeds_holds=True, channels=[])


@pytest.mark.parametrize("usd", ["lots", -500.0, float("inf")])
@pytest.mark.parametrize("body", [None, "{"])
def test_a_reservation_that_cannot_be_read_never_counts_as_no_dollars(tmp_path, usd, body):
    """It is counted again from the state; where that cannot be read either, it takes all of the cap."""
    with a_home("sqlite", tmp_path) as home:
        ledger = home.open()
        ledger.commit([an_outward(A, usd_per_month=30.0)], channels=[])
        home._connection.execute("UPDATE reservations SET usd_per_month = ?", [usd])
        if body:
            home._connection.execute("UPDATE states SET body = ?", [body])

        intent = an_outward(B, usd_per_month=0.0 if body else 15.0)
        caps = Caps(usd_per_month=40.0)
        beginning = ledger.begin(intent, caps, now_s=NOW_S, heeds_holds=True, channels=[])

        assert beginning.begun is Begun.SPEND_CAP
        assert beginning.usd_per_month == pytest.approx(40.0 if body else 30.0)
        assert [one.subject for one in noted(ledger, ItemKind.TOTALS)] == [A]


def test_a_reservation_without_a_state_is_dropped_when_it_cannot_be_read(tmp_path):
    with a_home("sqlite", tmp_path) as home:
        ledger = home.open()
        home._connection.execute("INSERT INTO reservations VALUES ('vol-0c', 'lots')")

        caps = Caps(volumes=1, usd_per_month=40.0)
        begun = ledger.begin(an_outward(B), caps, now_s=NOW_S, heeds_holds=True, channels=[]).begun

        assert begun is Begun.RECORDED
