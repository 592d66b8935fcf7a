"""One item of a ledger that cannot be read: it is named and kept, never believed, and hides no other."""

import json
from dataclasses import replace

import pytest

from burstctl.context.on_demand_pass import evaluate_fleet
from burstwatch.core.assessment import host_stall
from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.errors import LedgerError
from burstwatch.core.flips.flip_plan import FlipOrder
from burstwatch.core.flips.guards import hold_refusal
from burstwatch.core.flips.outcome import OutcomeStatus
from burstwatch.core.ledger import flip_state, resource_state
from burstwatch.core.ledger.caps import Caps, IntentStatus
from burstwatch.core.ledger.flip_state import WATCHDOG, Direction, FlipCause, Hold, ManualWindowOverride
from burstwatch.core.ledger.ledger import Change, TickKind
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.ledger.unreadable_item import ItemKind
from burstwatch.engine.flip_executor import execute_flips
from burstwatch.engine.tick_pass import run_tick
from support.aws.in_memory_aws import CALM, DRAINING, NOW_S, SILENT, CannedAws, services_with
from support.builders.changes import (
    MAIL,
    A,
    B,
    a_change,
    a_digest,
    a_ledger_alert,
    a_state,
    an_entry,
    sent_ids,
)
from support.builders.core_values import a_volume
from support.builders.flips import a_flip
from support.builders.states import GROUP_OF_FIELD, GROUPS
from support.ledger.ledger_stores import ledger_store

REAL_ENTRY = "vol-0123456789abcdef0"
LATER_S = int(NOW_S) + 3600
UNREADABLE_BODIES = {
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


_TABLES = {
    "states": "states",
    "history": "entries",
    "waiting": "deliveries",
    "holds": "holds",
    "windows": "window_marks",
}
_KEYS = {"states": "volume_id", "entries": "kind", "deliveries": "alert_id", "holds": "subject"}


def corrupt(home, kind, key=None, /, **changes):
    """Change fields of the items of one kind, or of one of them, behind the ledger's back."""
    if home.kind == "sqlite":
        table = _TABLES[kind]
        sets = ", ".join(f"{name} = ?" for name in changes)
        where = "" if key is None else f" WHERE {_KEYS.get(table, 'name')} = ?"
        values = [*changes.values(), *([] if key is None else [key])]
        assert home._connection.execute(f"UPDATE {table} SET {sets}{where}", values).rowcount
        return
    spoiled = 0
    for pk, items in home.table.items.items():
        for sk, item in items.items():
            if pk.startswith(kind) and key in (None, sk, item.get("kind", {}).get("S")):
                typed = {n: {"S": v} if isinstance(v, str) else {"N": repr(v)} for n, v in changes.items()}
                items[sk] = item | typed
                spoiled += 1
    assert spoiled


def unreadable_entries(ledger, kind):
    result = ledger.take_unreadable()
    assert all(len(str(finding)) < 1_000 and str(finding).isprintable() for finding in result)
    return [finding for finding in result if finding.kind is kind]


# States


@pytest.mark.parametrize("body", UNREADABLE_BODIES.values(), ids=UNREADABLE_BODIES)
def test_an_unreadable_state_is_named_and_hides_no_other(home, ledger, body):
    ledger.commit([a_change(A), a_change(B)], channels=[])
    corrupt(home, "states", A, body=body)

    result = ledger.states()

    assert (result.keys(), result.unreadable.keys()) == ({B}, {A})
    assert ledger.states_of({A}).unreadable.keys() == {A}
    (item,) = unreadable_entries(ledger, ItemKind.STATE)
    assert (item.subject, item.revision) == (A, 100)
    assert f"the state of {A} in the ledger (" in str(item)
    assert f"{'table states, ' if home.kind == 'sqlite' else 'sk '}" in str(item)
    assert f"burstctl release {A}" in str(item)
    assert ledger.take_unreadable() == []


@pytest.mark.parametrize("body", ["{", UNREADABLE_BODIES["an unknown level"]])
def test_an_unreadable_state_is_never_overwritten_as_if_it_were_new(home, ledger, body):
    ledger.commit([a_change(A)], channels=[])
    corrupt(home, "states", A, body=body)
    before = home.dump()
    new = Change(volume_id=A, expected_revision=None, state=a_state(A, 200, flip=a_flip()))

    intent_result = ledger.record_intent(new, Caps(), now_s=200, respects_holds=True, channels=[])

    assert ledger.commit([new], channels=[]) == set()
    assert intent_result.status is IntentStatus.CONFLICT
    assert home.dump() == before


def test_fields_of_a_later_version_are_left_out_so_that_an_upgrade_can_be_rolled_back(home, ledger):
    flip = a_flip()
    known = a_state(A, 100, flip=flip)
    ledger.commit([Change(volume_id=A, expected_revision=None, state=known)], channels=[])
    document = known.to_document() | {"seen_from_orbit_s": 7}
    document["flip"] |= {"colour": "blue"}
    document["flip"]["target"] |= {"warp": 9}
    corrupt(home, "states", A, body=json.dumps(document))

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
def test_an_impossible_flip_is_rejected(home, ledger, changes):
    known = a_state(A, 100, flip=a_flip())
    ledger.commit([Change(volume_id=A, expected_revision=None, state=known)], channels=[])
    document = known.to_document()
    document["flip"] |= changes
    corrupt(home, "states", A, body=json.dumps(document))

    assert ledger.states().unreadable.keys() == {A}


# A pass


def deliver_all(ledger, now_s=NOW_S):
    aws = CannedAws()
    return evaluate_fleet(services_with(aws, ledger), now_s=now_s)


def test_a_pass_evaluates_all_volumes_but_the_one_with_an_unreadable_state(home, ledger):
    first = deliver_all(ledger)
    assert {d.volume_id for d in first.decisions} >= {DRAINING, CALM}
    corrupt(home, "states", DRAINING, body="{")
    before = home.dump()

    report = deliver_all(ledger, NOW_S + 60)

    decisions = {decision.volume_id: decision for decision in report.decisions}
    assert decisions.keys() == {d.volume_id for d in first.decisions}
    decision = decisions[DRAINING]
    assert (decision.assessment.unknown_reason, decision.change, decision.trigger) == (
        UnknownReason.READ_FAILED,
        None,
        None,
    )
    assert DRAINING in decision.assessment.unknown_because
    assert [d.volume_id for d in report.unread] == [DRAINING]
    assert report.has_failed
    assert decisions[CALM].assessment.unknown_reason is None
    after = home.dump()
    assert (after if home.kind == "sqlite" else after[_shard(before)]) == (
        after if home.kind == "sqlite" else before[_shard(before)] | after[_shard(before)]
    )
    assert ledger.states().unreadable.keys() == {DRAINING}


def _shard(items):
    return next(pk for pk, result in items.items() if pk.startswith("states ") and DRAINING in result)


def test_every_tick_reports_unreadable_items_again(home, ledger):
    deliver_all(ledger)
    corrupt(home, "states", DRAINING, body="null")
    tick_s = int(NOW_S) // 300 * 300
    shell = services_with(CannedAws(), ledger)

    reports = [run_tick(shell, tick_at_s=tick_s + 60 * n, now_s=NOW_S + 60 * n) for n in range(3)]

    assert [[d.volume_id for d in report.unread] for report in reports] == [[DRAINING]] * 3


def test_a_volume_with_an_unreadable_state_is_not_flipped(home, ledger):
    deliver_all(ledger)
    corrupt(home, "states", DRAINING, body="{")
    shell = replace(services_with(CannedAws(), ledger), modifier=_NoModifier())
    order = FlipOrder(
        volume_id=DRAINING, direction=Direction.FLIP, cause=FlipCause.DRAINING, reason="x", by=WATCHDOG
    )
    collector = shell.build_collector(NOW_S)

    outcome = execute_flips(shell, [order], collector)[DRAINING]

    assert (outcome.status, outcome.error_code) == (OutcomeStatus.FAILED, "unread")
    assert any(f"the state of {DRAINING}" in failure for failure in collector.failures)
    assert ledger.states().unreadable.keys() == {DRAINING}


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

    result = services_with(CannedAws(), ledger).unavailable_types(volumes, NOW_S)

    assert {volume_id: list(types) for volume_id, types in result.items()} == {
        "vol-0a": [],
        "vol-0b": [VolumeType.GP3],
    }
    assert [item.subject for item in unreadable_entries(ledger, ItemKind.ENTRY)] == ["zone us-east-1a"]


# Holds and windows


HOLDS = [{"until_s": "noon"}, {"until_s": -1}, {"until_s": 10**15}, {"placed_at_s": "x"}]


@pytest.mark.parametrize("changes", HOLDS, ids=str)
def test_an_unreadable_hold_holds_everything_until_it_is_released(home, ledger, changes):
    ledger.place_hold(Hold(volume_id=A, by="ann", reason="x", placed_at_s=1, until_s=LATER_S))
    corrupt(home, "holds", A, **changes)

    (hold,) = ledger.holds(NOW_S)

    assert hold.volume_id is None
    assert "burstctl release --all" in hold.reason
    assert hold_refusal(hold).ends_at_s in (None, LATER_S), "no time of the year 9999"
    assert len(unreadable_entries(ledger, ItemKind.HOLD)) == 1
    intent = Change(volume_id=A, expected_revision=None, state=a_state(A, 200, flip=a_flip()))
    assert (
        ledger.record_intent(intent, Caps(), now_s=NOW_S, respects_holds=True, channels=[]).status
        is IntentStatus.HELD
    )
    assert ledger.lift_hold(None, by="ann", at_s=int(NOW_S)) is not None
    assert ledger.holds(NOW_S) == []


def test_an_unreadable_hold_ends_with_the_release_of_its_volume(home, ledger):
    ledger.place_hold(Hold(volume_id=A, by="ann", reason="x", placed_at_s=1, until_s=LATER_S))
    ledger.place_hold(Hold(volume_id=B, by="ann", reason="y", placed_at_s=1, until_s=LATER_S))
    corrupt(home, "holds", A, until_s="noon")

    assert ledger.lift_hold(A, by="ann", at_s=int(NOW_S)) is not None

    assert [hold.volume_id for hold in ledger.holds(NOW_S)] == [B]


@pytest.mark.parametrize("real_id", [REAL_ENTRY, "fs-0123456789abcdef0", "db:orders"])
def test_a_damaged_hold_on_a_resource_outlives_the_end_of_the_hold_on_everything(home, ledger, real_id):
    for subject in (None, real_id):
        ledger.place_hold(Hold(volume_id=subject, by="ann", reason="x", placed_at_s=1, until_s=LATER_S))
    corrupt(home, "holds", real_id, placed_at_s="x")

    assert ledger.lift_hold(None, by="ann", at_s=int(NOW_S)).by == "ann"
    (hold,) = ledger.holds(NOW_S)

    assert (hold.volume_id, hold.damaged_volume_id) == (None, real_id)
    assert f"burstctl release {real_id} ends it" in hold.reason
    assert str(unreadable_entries(ledger, ItemKind.HOLD)[0]).endswith(
        f"everything is held until burstctl release {real_id}"
    )


@pytest.mark.parametrize("subject", [None, REAL_ENTRY])
@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_damaged_hold_that_was_released_or_replaced_is_not_reported(home, ledger, subject, is_replaced):
    hold = Hold(volume_id=subject, by="ann", reason="x", placed_at_s=1, until_s=LATER_S)
    ledger.place_hold(hold)
    corrupt(home, "holds", placed_at_s="x")
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
def test_an_unreadable_window_override_is_known_to_exist(home, ledger, changes):
    ledger.record_manual_override(ManualWindowOverride(name="w", is_start=True, by="ann", at_s=1))
    ledger.record_manual_override(ManualWindowOverride(name="v", is_start=True, by="ann", at_s=1))
    corrupt(home, "windows", "w", **changes)

    marks = ledger.manual_overrides()

    assert {name: mark.is_readable for name, mark in marks.items()} == {"w": False, "v": True}
    assert [item.subject for item in unreadable_entries(ledger, ItemKind.WINDOW)] == ["w"]
    ledger.record_manual_override(ManualWindowOverride(name="w", is_start=False, by="ann", at_s=2))
    assert ledger.manual_overrides()["w"].is_readable


# The outbox


@pytest.mark.parametrize(
    "changes",
    [
        {"document": "{"},
        {"document": "null"},
        {"document": json.dumps(a_ledger_alert(A).to_document() | {"kind": "SomethingLater"})},
        {"document": json.dumps(a_ledger_alert(A).to_document() | {"forecast": {"time_to_empty_s": "soon"}})},
        {"document": json.dumps(a_ledger_alert(A).to_document() | {"evidence": "none"})},
        {"attempts": -1},
    ],
    ids=str,
)
def test_an_unreadable_alert_is_parked_and_the_others_go_out(home, ledger, changes):
    ledger.commit([a_change(A), a_change(B)], channels=[MAIL])
    parked = a_ledger_alert(A).alert_id
    corrupt(home, "waiting", parked, **changes)

    (waits,) = ledger.pending_deliveries(channels=[MAIL])

    assert waits.alert.volume_id == B
    assert len(unreadable_entries(ledger, ItemKind.ALERT)) == 1
    assert ledger.claim_delivery(waits, now_s=200, lease_s=60)
    ledger.mark_delivered(waits, at_s=200)
    assert home.count_undelivered() == 1
    assert EntryKind.DELIVERED in [entry.kind for entry in ledger.entries(B)]


def test_the_alerts_of_a_digest_that_cannot_be_read_go_out_by_themselves(home, ledger):
    ledger.commit([a_change(A), a_change(B)], channels=[MAIL])
    alerts = [a_ledger_alert(A), a_ledger_alert(B)]
    digest = a_digest(*alerts)
    ledger.replace_with_digest([alert.alert_id for alert in alerts], digest, channels=[MAIL])
    assert sent_ids(ledger, MAIL) == [digest.alert_id]
    corrupt(home, "waiting", digest.alert_id, document="{")

    result = ledger.pending_deliveries(channels=[MAIL])

    assert {delivery.alert.alert_id for delivery in result} == {alert.alert_id for alert in alerts}
    for delivery in result:
        assert ledger.claim_delivery(delivery, now_s=300, lease_s=60)
        ledger.mark_delivered(delivery, at_s=300)
    assert ledger.pending_deliveries(channels=[MAIL]) == []


def test_a_pass_counts_the_alerts_that_it_cannot_read_and_sends_the_rest(home, ledger):
    ledger.commit([a_change(A)], channels=["people"])
    corrupt(home, "waiting", a_ledger_alert(A).alert_id, document="{")
    channel = _RecordingChannel()

    report = evaluate_fleet(replace(services_with(CannedAws(), ledger), channels=[channel]), now_s=NOW_S)

    assert {alert.volume_id for alert in channel.got} == {DRAINING, SILENT}
    assert (report.sent, report.undelivered) == (2, 1)
    assert any("it is kept and not sent" in failure for failure in report.failures)


class _RecordingChannel:
    name = "people"

    def __init__(self):
        self.got = []

    def send(self, alert):
        self.got.append(alert)


# History, ticks and the roster


@pytest.mark.parametrize(
    "changes", [{"kind": "teleported"}, {"body": "{"}, {"body": "7"}, {"at_s": 10**15}], ids=str
)
def test_an_unreadable_entry_is_left_out_and_counted(home, ledger, changes):
    ledger.commit([a_change(A)], channels=[])
    ledger.place_hold(Hold(volume_id=A, by="ann", reason="x", placed_at_s=200, until_s=LATER_S))
    corrupt(home, "history", "level_changed", **changes)

    assert {entry.kind for entry in ledger.entries(A)} == {EntryKind.ALERT, EntryKind.HELD}
    assert len(unreadable_entries(ledger, ItemKind.ENTRY)) == 1


def test_an_alert_of_a_later_kind_in_a_history_is_left_out(home, ledger):
    later = a_ledger_alert(A).to_document() | {"kind": "SomethingLater"}
    entries = [an_entry(A, kind=EntryKind.ALERT, body=later), an_entry(A)]
    ledger.commit(
        [Change(volume_id=A, expected_revision=None, state=a_state(A), entries=entries)], channels=[]
    )

    assert [entry.kind for entry in ledger.entries(A)] == [EntryKind.LEVEL_CHANGED]
    assert len(unreadable_entries(ledger, ItemKind.ENTRY)) == 1


def test_a_tick_and_a_roster_that_cannot_be_read_stop_no_sweep_and_are_written_again(home, ledger):
    ledger.complete_tick(TickKind.SWEEP, 300, fleet_fingerprints=frozenset({1, 2}))
    if home.kind == "sqlite":
        home._connection.execute("UPDATE completed_ticks SET fingerprints = x'00'")
    else:
        home.table.items["ledger"]["sweep tick"] |= {"claims": {"S": "{"}, "roster_bytes": {"S": "x"}}
    fresh = home.open()

    assert fresh.fleet_snapshot() is None
    assert unreadable_entries(fresh, ItemKind.TICK)
    assert fresh.claim_tick(TickKind.SWEEP, 600, now_s=601, lease_s=50)
    fresh.complete_tick(TickKind.SWEEP, 600, fleet_fingerprints=frozenset({1, 2}))

    assert home.open().fleet_snapshot().fingerprints == {1, 2}


def test_every_field_of_a_state_is_read_back():
    """One without a reader would be forgotten at every poll."""
    for kind, readers, field_names in (
        (flip_state.Flip, flip_state._FLIP_READERS, flip_state._FLIP_FIELD_NAMES),
        (flip_state.ModificationUse, flip_state._MODIFICATION_USE_READERS, {}),
        (host_stall.Stall, host_stall._STALL_READERS, host_stall._STALL_FIELD_NAMES),
        (host_stall.StuckTask, host_stall._TASK_READERS, {}),
    ):
        assert {field_names.get(key, key) for key in readers} == kind.__dataclass_fields__.keys()
    paths = {resource_state.FIELD_PATHS.get(key, key) for key in resource_state._FIELD_READERS}
    grouped_paths = {f"{group}.{name}" for name, group in GROUP_OF_FIELD.items()}
    assert paths == (ResourceState.__dataclass_fields__.keys() - GROUPS.keys()) | grouped_paths


# Channels and totals


def corrupt_item(home, sk, **typed):
    home.table.items["ledger"][sk] = {"pk": {"S": "ledger"}, "sk": {"S": sk}, **typed}


@pytest.mark.parametrize("damage", [{"S": "mail"}, {"N": "7"}], ids=str)
def test_an_unreadable_list_of_channels_counts_as_empty_and_is_written_again(tmp_path, damage):
    with ledger_store("dynamodb", tmp_path) as home:
        home.open().commit([a_change(A)], channels=[MAIL])
        corrupt_item(home, "channels", channels=damage)
        ledger = home.open()

        assert ledger.commit([a_change(B)], channels=[MAIL]) == {B}

        assert len(unreadable_entries(ledger, ItemKind.CHANNELS)) == 1
        assert len(sent_ids(ledger, MAIL)) == 2
        assert home.table.items["ledger"]["channels"]["channels"] == {"SS": [MAIL]}


def test_an_unreadable_layout_is_reported_and_stops_nothing(tmp_path):
    with ledger_store("dynamodb", tmp_path) as home:
        home.open().bind("account 1 in us-east-1")
        home.table.items["ledger"]["origin"] |= {"layout": {"S": "abc"}}
        ledger = home.open()

        ledger.bind("account 1 in us-east-1")

        (item,) = unreadable_entries(ledger, ItemKind.LAYOUT)
        assert "the ledger is used as one of this version" in str(item)
        with pytest.raises(LedgerError, match="is that of account 1"):
            ledger.bind("account 2 in us-east-1")


@pytest.mark.parametrize("damage", [{"N": "7"}, {"S": ""}, None], ids=str)
def test_an_origin_that_cannot_be_read_is_reported_and_rejected(tmp_path, damage):
    with ledger_store("dynamodb", tmp_path) as home:
        home.open().bind("account 1 in us-east-1")
        item = home.table.items["ledger"]["origin"]
        del item["origin"]
        item |= {"origin": damage} if damage else {}
        with pytest.raises(LedgerError, match=r"the origin of ledger .* cannot be read"):
            home.open().bind("account 1 in us-east-1")


DAMAGED = [
    {"volumes": {"S": "abc"}, "micro_usd": {"N": "0"}},
    {"volumes": {"N": "-1000"}, "micro_usd": {"N": "-1000000000000"}},
    {"volumes": {"N": "1000000"}, "micro_usd": {"N": "0"}},
    {"volumes": {"N": "1"}, "micro_usd": {"SS": ["x"]}},
]


def an_outgoing_flip(volume_id, revision=100, **fields):
    state = a_state(volume_id, revision, flip=a_flip(**fields))
    return Change(volume_id=volume_id, expected_revision=None, state=state)


@pytest.mark.parametrize("damage", DAMAGED, ids=str)
def test_impossible_totals_are_recounted_and_the_caps_hold(tmp_path, damage):
    with ledger_store("dynamodb", tmp_path) as home:
        ledger = home.open(sleep=lambda _: None)
        ledger.commit([an_outgoing_flip(A)], channels=[])
        corrupt_item(home, "away", **damage)

        def begin(volumes):
            caps = Caps(volumes=volumes)
            return ledger.record_intent(
                an_outgoing_flip(B), caps, now_s=NOW_S, respects_holds=True, channels=[]
            ).status

        assert begin(volumes=1) is IntentStatus.FLEET_CAP
        assert begin(volumes=2) is IntentStatus.RECORDED
        assert len(unreadable_entries(ledger, ItemKind.TOTALS)) == 1
        assert home.reserved()[0] == 2


@pytest.mark.parametrize("damage", [DAMAGED[0], DAMAGED[3]], ids=str)
def test_a_flip_that_ends_is_recorded_although_the_totals_are_damaged(tmp_path, damage):
    with ledger_store("dynamodb", tmp_path) as home:
        ledger = home.open()
        ledger.commit([an_outgoing_flip(A), an_outgoing_flip(B)], channels=[])
        corrupt_item(home, "away", **damage)

        ended = Change(volume_id=A, expected_revision=100, state=a_state(A, 101))
        assert ledger.commit([ended], channels=[]) == {A}

        assert home.reserved()[0] == 1


def test_damaged_totals_and_a_damaged_reservation_refuse_with_the_next_step(tmp_path):
    with ledger_store("dynamodb", tmp_path) as home:
        ledger = home.open()
        ledger.commit([an_outgoing_flip(A)], channels=[])
        items = next(
            result for pk, result in home.table.items.items() if pk.startswith("states ") and A in result
        )
        items[A] = items[A] | {"away": {"S": "lots"}}
        corrupt_item(home, "away", **DAMAGED[0])

        with pytest.raises(LedgerError, match=r"so nothing is flipped; run burstctl doctor"):
            ledger.record_intent(an_outgoing_flip(B), Caps(), now_s=NOW_S, respects_holds=True, channels=[])


@pytest.mark.parametrize("usd", ["lots", -500.0, float("inf")])
@pytest.mark.parametrize("body", [None, "{"])
def test_an_unreadable_reservation_never_counts_as_no_dollars(tmp_path, usd, body):
    """It is counted again from the state; where that cannot be read either, it takes all of the cap."""
    with ledger_store("sqlite", tmp_path) as home:
        ledger = home.open()
        ledger.commit([an_outgoing_flip(A, usd_per_month=30.0)], channels=[])
        home._connection.execute("UPDATE reservations SET usd_per_month = ?", [usd])
        if body:
            home._connection.execute("UPDATE states SET body = ?", [body])

        intent = an_outgoing_flip(B, usd_per_month=0.0 if body else 15.0)
        caps = Caps(usd_per_month=40.0)
        beginning = ledger.record_intent(intent, caps, now_s=NOW_S, respects_holds=True, channels=[])

        assert beginning.status is IntentStatus.SPEND_CAP
        assert beginning.usd_per_month == pytest.approx(40.0 if body else 30.0)
        assert [item.subject for item in unreadable_entries(ledger, ItemKind.TOTALS)] == [A]


def test_a_reservation_without_a_state_is_dropped_when_it_cannot_be_read(tmp_path):
    with ledger_store("sqlite", tmp_path) as home:
        ledger = home.open()
        home._connection.execute("INSERT INTO reservations VALUES ('vol-0c', 'lots')")

        caps = Caps(volumes=1, usd_per_month=40.0)
        intent_result = ledger.record_intent(
            an_outgoing_flip(B), caps, now_s=NOW_S, respects_holds=True, channels=[]
        ).status

        assert intent_result is IntentStatus.RECORDED
