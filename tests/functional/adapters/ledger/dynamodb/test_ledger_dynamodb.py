"""The DynamoDB ledger's table: what it costs, how much it holds, and what is said when it cannot be used."""

from dataclasses import replace

import pytest
from botocore.exceptions import EndpointConnectionError, NoCredentialsError

from burstlab.fake_aws.dynamodb import Fault, item_size_bytes
from burstwatch.core.errors import LedgerError, PartialCommitError
from burstwatch.core.ledger.caps import Caps, IntentStatus
from burstwatch.core.ledger.ledger import Change, Delivery, TickKind
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.ledger.resource_state import ResourceState
from support.builders.changes import (
    MAIL,
    SLACK,
    A,
    B,
    C,
    a_change,
    a_digest,
    a_ledger_alert,
    a_state,
    an_entry,
    sent_ids,
)
from support.builders.flips import an_intent
from support.ledger.ledger_stores import TABLE

pytestmark = pytest.mark.usefixtures("no_retry_delay")


LOCATION = f"dynamodb:{TABLE}"


def error_message(fails):
    with pytest.raises(LedgerError) as exc_info:
        fails()
    message = str(exc_info.value)
    assert "\n" not in message
    return message


def consumed_capacity(table, action):
    """The read and write units that AWS would bill for it."""
    before = replace(table.units)
    action()
    return table.units.read - before.read, table.units.write - before.write


def a_bare_change(volume_id=A, *, expected=None, revision=1):
    """A look that changes nothing but the state."""
    state = ResourceState(volume_id=volume_id, revision=revision)
    return Change(volume_id=volume_id, expected_revision=expected, state=state)


def flood(ledger, count, **channels):
    """This many alerts that wait, by volume id."""
    alerts = [a_ledger_alert(f"vol-{number:04}") for number in range(count)]
    changes = [a_change(str(alert.volume_id), alerts=(alert,)) for alert in alerts]
    ledger.commit(changes, channels=[MAIL])
    return alerts


# What it costs


def a_quiet_tick(ledger, *, tick_s, sweeps=False, fleet=frozenset()):
    """What a pass asks of the ledger when nothing goes on, one channel served."""
    assert ledger.claim_tick(TickKind.FOCUS, tick_s, now_s=tick_s, lease_s=50)
    assert ledger.states() == {}
    assert ledger.manual_overrides() == {}
    assert ledger.holds(tick_s) == []
    ledger.fleet_snapshot()
    if sweeps:
        assert ledger.claim_tick(TickKind.SWEEP, tick_s, now_s=tick_s, lease_s=50)
    for _ in range(2):
        assert ledger.pending_deliveries(channels=[MAIL]) == []
    if sweeps:
        ledger.complete_tick(TickKind.SWEEP, tick_s, fleet_fingerprints=fleet)
    ledger.complete_tick(TickKind.FOCUS, tick_s)


@pytest.mark.parametrize("volumes", [0, 1_000, 100_000])
def test_a_quiet_tick_costs_the_same_however_large_the_fleet(table, ledger, volumes):
    """8 states, 2 for the tick, windows, holds, roster, 2 waiting: 15 reads. A sweep is another tick."""
    fleet = frozenset(range(2**63, 2**63 + volumes))
    a_quiet_tick(ledger, tick_s=300, sweeps=True, fleet=fleet)
    ledger.fleet_snapshot()
    assert consumed_capacity(table, lambda: a_quiet_tick(ledger, tick_s=360)) == (15, 4)
    assert consumed_capacity(table, lambda: a_quiet_tick(ledger, tick_s=600, sweeps=True, fleet=fleet)) == (
        17,
        8,
    )


def test_a_process_that_starts_reads_the_roster_once(table, ledger, second_ledger):
    """800,000 bytes are 196 units of 4 KB, in three items on one page, with the tick that names them."""
    ledger.complete_tick(TickKind.SWEEP, 300, fleet_fingerprints=frozenset(range(100_000)))
    assert consumed_capacity(table, second_ledger.fleet_snapshot) == (197, 0)
    assert consumed_capacity(table, second_ledger.fleet_snapshot) == (1, 0)


def test_a_roster_is_written_when_the_fleet_changes_and_only_then(table, ledger):
    """8,000 bytes are 8 units of 1 KB, and the old one costs as much to remove; the tick's item 2."""
    ledger.complete_tick(TickKind.SWEEP, 300, fleet_fingerprints=frozenset(range(1_000)))
    same, changed = frozenset(range(1_000)), frozenset(range(1, 1_001))
    assert consumed_capacity(
        table, lambda: ledger.complete_tick(TickKind.SWEEP, 600, fleet_fingerprints=same)
    ) == (1, 2)
    assert consumed_capacity(
        table, lambda: ledger.complete_tick(TickKind.SWEEP, 900, fleet_fingerprints=changed)
    ) == (1, 2 + 8 + 8)


RESTORED = replace(a_bare_change(expected=100, revision=101), entries=[an_entry(revision=101)])


@pytest.mark.parametrize(
    ("before", "change", "channels", "units"),
    [
        (a_bare_change(), a_bare_change(expected=1, revision=2), [MAIL], (0, 1)),
        (
            a_bare_change(),
            replace(a_bare_change(expected=1, revision=2), entries=[an_entry(revision=2)]),
            [MAIL],
            (0, 4),
        ),
        (a_bare_change(), a_change(expected=1, revision=2), [MAIL], (1, 12)),
        (a_bare_change(), a_change(expected=1, revision=2), [MAIL, SLACK], (1, 16)),
        (a_bare_change(), Change(volume_id=A, expected_revision=1, state=None), [MAIL], (0, 2)),
        (an_intent(A), RESTORED, [MAIL], (1, 4 + 6)),
    ],
    ids=["state", "and entry", "and alert", "and two channels", "dropped", "reserves no more"],
)
def test_a_change_costs_one_unit_for_its_state_or_two_for_each_item(
    table, ledger, before, change, channels, units
):
    """A state alone needs no transaction. That it reserved something is found out by a first try.

    An alert has more than 1 KB, and so costs four: in the history, and for each channel.
    """
    for _ in range(2):
        ledger.commit([before], channels=channels)
    assert consumed_capacity(table, lambda: ledger.commit([change], channels=channels)) == units


def test_an_intent_costs_four_reads_and_two_writes_for_each_item(table, ledger):
    """State, totals and two holds are read; these four and the entry are written or checked."""
    ledger.commit([], channels=[MAIL])
    ledger.commit([], channels=[MAIL])
    caps = Caps(volumes=5, usd_per_month=100.0)

    def begin():
        intent_result = ledger.record_intent(
            an_intent(A), caps, now_s=0, respects_holds=True, channels=[MAIL]
        )
        assert intent_result.status is IntentStatus.RECORDED

    assert consumed_capacity(table, begin) == (4, 10)


def test_a_long_history_of_other_volumes_costs_nothing(table, ledger):
    def work(revision, volume_id=A):
        change = a_change(volume_id, expected=revision - 1 or None, revision=revision)
        assert ledger.commit([change], channels=[MAIL])
        ledger.states_of({volume_id})
        ledger.entries(volume_id)
        for delivery in ledger.pending_deliveries(channels=[MAIL]):
            assert ledger.claim_delivery(delivery, now_s=0, lease_s=60)
            ledger.mark_delivered(delivery, at_s=revision)

    work(1)
    expected = consumed_capacity(table, lambda: work(2))
    for number in range(20):
        entries = [an_entry(f"vol-{number}", revision=i, body={"text": "x" * 100}) for i in range(90)]
        ledger.commit([Change(volume_id=C, expected_revision=None, state=None, entries=entries)], channels=[])
    work(1, B)
    assert consumed_capacity(table, lambda: work(2, B)) == expected


# How much it holds


def test_states_that_fill_many_pages_all_come_back(table, ledger):
    """120 states of 100 KB: each eighth is more than one page of 1 MB."""
    states = {f"vol-{i:017x}": a_state(f"vol-{i:017x}", refusal="x" * 100_000) for i in range(120)}
    changes = [Change(volume_id=v, expected_revision=None, state=state) for v, state in states.items()]
    assert ledger.commit(changes, channels=[]) == set(states)
    table.calls.clear()
    assert ledger.states() == states
    assert table.calls["Query"] >= 16


def test_the_states_of_some_volumes_are_read_a_hundred_at_a_time(table, ledger):
    ledger.commit([a_bare_change(f"vol-{i}") for i in range(130)], channels=[])
    assert set(ledger.states_of({f"vol-{i}" for i in range(250)})) == {f"vol-{i}" for i in range(130)}
    assert table.calls["BatchGetItem"] == 3


def test_a_roster_of_a_hundred_thousand_is_kept_in_items_that_fit(table, home, ledger, second_ledger):
    fleet = frozenset(range(2**63, 2**63 + 100_000))
    ledger.complete_tick(TickKind.SWEEP, 300, fleet_fingerprints=fleet)
    assert second_ledger.fleet_snapshot().fingerprints == fleet
    (chunks,) = [items for pk, items in home.dump().items() if pk.startswith("roster ")]
    sizes = [item_size_bytes(item) for item in chunks.values()]
    assert len(sizes) == 3
    assert max(sizes) < 400_000


def test_the_roster_before_is_gone_when_another_has_taken_its_place(home, ledger, second_ledger):
    for number in range(4):
        ledger.complete_tick(TickKind.SWEEP, 300 * number, fleet_fingerprints=frozenset({number}))
        assert second_ledger.fleet_snapshot().fingerprints == {number}
    assert sum(pk.startswith("roster ") for pk in home.dump()) == 1


def test_a_fleet_of_none_has_a_roster_all_the_same(ledger, second_ledger):
    ledger.complete_tick(TickKind.SWEEP, 300, fleet_fingerprints=frozenset({1}))
    ledger.complete_tick(TickKind.SWEEP, 600, fleet_fingerprints=frozenset())
    assert (second_ledger.fleet_snapshot().tick_at_s, second_ledger.fleet_snapshot().fingerprints) == (
        600,
        frozenset(),
    )


def test_a_reader_who_comes_while_the_roster_changes_reads_the_new_one(monkeypatch, ledger, second_ledger):
    ledger.complete_tick(TickKind.SWEEP, 300, fleet_fingerprints=frozenset({1}))
    query = second_ledger._table.query

    def slow_query(pk, **options):
        monkeypatch.undo()
        ledger.complete_tick(TickKind.SWEEP, 600, fleet_fingerprints=frozenset({1, 2}))
        return query(pk, **options)

    monkeypatch.setattr(
        type(second_ledger._table), "query", lambda _, pk, **options: slow_query(pk, **options)
    )
    assert second_ledger.fleet_snapshot().fingerprints == {1, 2}


def test_a_change_larger_than_a_transaction_is_refused_before_anything_is_written(table, ledger):
    entries = [an_entry(revision=revision) for revision in range(96)]
    large = Change(volume_id=A, expected_revision=None, state=a_state(), entries=entries)
    message = error_message(lambda: ledger.commit([a_bare_change(B), large], channels=[]))
    assert "a change of vol-0a has 96 entries and deliveries" in message
    assert "takes 95 beside its state, nothing was written" in message
    assert table.items == {}
    assert ledger.commit([replace(large, entries=entries[:95])], channels=[]) == {A}


def test_a_digest_takes_the_place_of_more_alerts_than_a_transaction_holds(home, ledger, second_ledger):
    alerts = flood(ledger, 250)
    digest = a_digest(*alerts)
    ledger.replace_with_digest([alert.alert_id for alert in alerts], digest, channels=[MAIL])
    (delivery,) = second_ledger.pending_deliveries(channels=[MAIL])
    assert delivery.alert == digest
    assert second_ledger.claim_delivery(delivery, now_s=0, lease_s=60)
    second_ledger.mark_delivered(delivery, at_s=501)
    assert home.count_undelivered() == 0
    for alert in alerts:
        last = ledger.entries(alert.volume_id)[-1]
        assert (last.kind, last.body["digest_id"]) == (EntryKind.DELIVERED, digest.alert_id)


# Digests in the making


def stop_during_digest(table, ledger, alerts):
    """Its process ends when every part is bound and the digest is not published yet."""
    calls = -(-len(alerts) // 100)
    table.faults = [Fault("TransactWriteItems", "AccessDeniedException", skipped_calls=calls, times=2)]
    with pytest.raises(LedgerError):
        ledger.replace_with_digest([alert.alert_id for alert in alerts], a_digest(*alerts), channels=[MAIL])
    table.faults = []


@pytest.mark.parametrize("count", [2, 150])
def test_alerts_of_a_digest_in_progress_wait_at_most_a_minute(table, home, clock, count):
    ledger, other = (home.open(clock=clock) for _ in range(2))
    alerts = flood(ledger, count)
    item = other.pending_deliveries(channels=[MAIL])
    stop_during_digest(table, ledger, alerts)
    clock.now_s = 59.9
    assert other.pending_deliveries(channels=[MAIL]) == []
    assert not other.claim_delivery(item[0], now_s=0, lease_s=60)
    draft = Delivery(alert=a_digest(*alerts), channel=MAIL, attempts=0)
    assert not other.claim_delivery(draft, now_s=0, lease_s=60)
    clock.now_s = 60.0
    assert not other.claim_delivery(draft, now_s=0, lease_s=60)
    assert other.pending_deliveries(channels=[MAIL]) == item
    assert [other.claim_delivery(delivery, now_s=0, lease_s=60) for delivery in item[:2]] == [True, True]


def test_a_bundle_that_was_given_up_is_never_published(table, home, clock):
    """Its maker slept for a minute right before the last step; one part has gone out in that time."""
    ledger, other = (home.open(clock=clock) for _ in range(2))
    alerts = flood(ledger, 2)
    first, second = other.pending_deliveries(channels=[MAIL])
    write = ledger._table.write

    def write_late(actions):
        if "REMOVE draft_until_s" in str(actions):
            clock.now_s += 61
            assert other.claim_delivery(first, now_s=0, lease_s=60)
            other.mark_delivered(first, at_s=1)
        return write(actions)

    ledger._outbox._table.write = write_late
    ledger.replace_with_digest([alert.alert_id for alert in alerts], a_digest(*alerts), channels=[MAIL])
    assert ledger.pending_deliveries(channels=[MAIL]) == [second]
    assert other.claim_delivery(second, now_s=0, lease_s=60)


def test_a_digest_that_was_left_half_made_can_be_made_again(table, home, clock):
    ledger, other = (home.open(clock=clock) for _ in range(2))
    alerts = flood(ledger, 2)
    stop_during_digest(table, ledger, alerts)
    ids, digest = [alert.alert_id for alert in alerts], a_digest(*alerts)
    other.replace_with_digest(ids, digest, channels=[MAIL])
    assert sent_ids(other, MAIL) == []
    clock.now_s = 60.0
    other.replace_with_digest(ids, digest, channels=[MAIL])
    assert sent_ids(other, MAIL) == [digest.alert_id]


def test_another_digest_may_take_the_alerts_of_one_that_was_left(table, home, clock):
    ledger, other = (home.open(clock=clock) for _ in range(2))
    alerts = flood(ledger, 3)
    stop_during_digest(table, ledger, alerts[:2])
    clock.now_s = 60.0
    digest = a_digest(*alerts)
    other.replace_with_digest([alert.alert_id for alert in alerts], digest, channels=[MAIL])
    assert sent_ids(other, MAIL) == [digest.alert_id]
    (delivery,) = other.pending_deliveries(channels=[MAIL])
    assert other.claim_delivery(delivery, now_s=0, lease_s=60)
    other.mark_delivered(delivery, at_s=1)
    assert home.count_undelivered() == 0


def test_an_abandoned_draft_is_removed_by_the_next_digest(table, home, clock):
    """Its maker died before it bound a part, and the parts went out one by one."""
    ledger, other = (home.open(clock=clock) for _ in range(2))
    alerts = flood(ledger, 4)
    table.faults = [Fault("TransactWriteItems", "AccessDeniedException", times=2)]
    with pytest.raises(LedgerError):
        ledger.replace_with_digest(
            [alert.alert_id for alert in alerts[:3]], a_digest(*alerts[:3]), channels=[MAIL]
        )
    table.faults = []
    clock.now_s = 60.0
    for delivery in other.pending_deliveries(channels=[MAIL])[:3]:
        assert other.claim_delivery(delivery, now_s=0, lease_s=60)
        other.mark_delivered(delivery, at_s=1)
    assert home.count_undelivered() == 2
    other.replace_with_digest([alerts[3].alert_id], a_digest(alerts[3]), channels=[MAIL])
    (delivery,) = other.pending_deliveries(channels=[MAIL])
    assert other.claim_delivery(delivery, now_s=0, lease_s=60)
    other.mark_delivered(delivery, at_s=1)
    assert home.count_undelivered() == 0


# When others are in the way


@pytest.mark.parametrize("code", ["TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"])
def test_a_transaction_that_met_another_is_tried_again(table, home, code):
    waits = []
    ledger = home.open(sleep=waits.append)
    table.faults = [
        Fault("TransactWriteItems", cancellation_codes=("None", code, "None"), times=5, skipped_calls=1)
    ]
    assert ledger.commit([a_change()], channels=[MAIL]) == {A}
    assert len(waits) == 5
    assert all(0 <= wait <= 0.02 * 2**number for number, wait in enumerate(waits))


def test_a_state_alone_that_met_a_transaction_is_tried_again(table, ledger):
    table.faults = [Fault("PutItem", "TransactionConflictException", times=5)]
    assert ledger.commit([a_bare_change()], channels=[]) == {A}
    assert table.calls["PutItem"] == 6


def test_a_ledger_that_is_busy_for_too_long_is_reported(table, home):
    waits = []
    ledger = home.open(sleep=waits.append)
    table.faults = [
        Fault("TransactWriteItems", cancellation_codes=("TransactionConflict", "None", "None"), times=99)
    ]
    message = error_message(lambda: ledger.commit([a_change()], channels=[]))
    assert f"ledger {LOCATION} was busy in 24 tries (TransactionConflict), nothing was written" in message
    assert "run again; if it lasts, see in CloudWatch" in message
    assert table.calls["TransactWriteItems"] == 24
    assert 1.0 < sum(waits) < 10.0
    assert table.items == {}


def test_unprocessed_keys_are_read_again(table, ledger, monkeypatch):
    ledger.commit([a_bare_change(A), a_bare_change(B), a_bare_change(C)], channels=[])
    results = ledger._table._client.batch_get_item

    def some(RequestItems):  # noqa: N803 - as AWS has it
        keys = RequestItems[TABLE]["Keys"]
        answer = results(RequestItems={TABLE: {"Keys": keys[:1], "ConsistentRead": True}})
        return answer | {"UnprocessedKeys": {TABLE: {"Keys": keys[1:]}} if keys[1:] else {}}

    monkeypatch.setattr(ledger._table._client, "batch_get_item", some)
    assert set(ledger.states_of({A, B, C})) == {A, B, C}
    assert table.calls["BatchGetItem"] == 3


# When it cannot be used


def read_operations(ledger):
    return [
        ledger.states,
        lambda: ledger.states_of({A}),
        lambda: ledger.entries(A),
        ledger.fleet_snapshot,
        lambda: ledger.holds(0),
        ledger.manual_overrides,
        lambda: ledger.pending_deliveries(channels=[MAIL]),
    ]


def test_a_table_that_is_not_there_is_one_clear_sentence(table, ledger):
    table.table = "another"
    writes = [
        lambda: ledger.commit([a_change()], channels=[MAIL]),
        lambda: ledger.commit([a_bare_change()], channels=[]),
        lambda: ledger.record_intent(an_intent(A), Caps(), now_s=0, respects_holds=True, channels=[]),
        lambda: ledger.claim_tick(TickKind.FOCUS, 60, now_s=60, lease_s=50),
        lambda: ledger.bind("account 1 in us-east-1"),
    ]
    for use in [*read_operations(ledger), *writes]:
        message = error_message(use)
        assert message.startswith(
            f"ledger {LOCATION} does not exist in us-east-1; deploy the stack that makes it, or check"
            " --ledger, the region and the account"
        )


@pytest.mark.parametrize(
    ("operation", "use"),
    [
        ("Query", lambda ledger: ledger.states()),
        ("BatchGetItem", lambda ledger: ledger.states_of({A})),
        ("GetItem", lambda ledger: ledger.fleet_snapshot()),
        ("PutItem", lambda ledger: ledger.commit([a_bare_change()], channels=[])),
        ("TransactWriteItems", lambda ledger: ledger.commit([a_change()], channels=[])),
    ],
)
def test_a_missing_permission_is_named_with_who_lacks_it(table, ledger, operation, use):
    message = (
        "User: arn:aws:sts::111122223333:assumed-role/watch/f is not authorized to perform:"
        " dynamodb:ConditionCheckItem on resource: arn:aws:dynamodb:us-east-1:111122223333:table/burstwatch"
    )
    table.faults = [Fault(operation, "AccessDeniedException", message, times=9)]
    error_text = error_message(lambda: use(ledger))
    assert error_text.startswith(f"ledger {LOCATION} cannot be used")
    assert ("nothing was written" in error_text) is (operation in ("PutItem", "TransactWriteItems"))
    assert "role/watch/f may not call dynamodb:ConditionCheckItem on arn:aws:dynamodb:us-east-1" in error_text
    assert "grant dynamodb:ConditionCheckItem to it" in error_text


@pytest.mark.parametrize("operation", ["Query", "PutItem", "TransactWriteItems"])
def test_lasting_throttling_is_reported_after_the_client_has_tried_enough(table, ledger, operation):
    code = "ProvisionedThroughputExceededException"
    table.faults = [Fault(operation, code, times=9)]
    use = {"Query": ledger.manual_overrides, "PutItem": lambda: ledger.commit([a_bare_change()], channels=[])}
    message = error_message(use.get(operation, lambda: ledger.commit([a_change()], channels=[])))
    assert f"ledger {LOCATION} cannot be used" in message
    assert f"dynamodb:{operation} failed ({code}): AWS limits how often this may be called" in message
    assert "try again later" in message
    assert table.calls[operation] == 2


def test_a_single_throttle_goes_unnoticed(table, ledger):
    for operation in ("Query", "PutItem", "TransactWriteItems"):
        table.faults.append(Fault(operation, "ThrottlingException"))
    assert ledger.states() == {}
    assert ledger.commit([a_bare_change(A), a_change(B)], channels=[MAIL]) == {A, B}


def test_a_transaction_that_dynamodb_finds_wrong_is_reported_with_its_reasons(table, ledger):
    table.faults = [
        Fault("TransactWriteItems", cancellation_codes=("None", "ItemCollectionSizeLimitExceeded", "None"))
    ]
    message = error_message(lambda: ledger.commit([a_change()], channels=[]))
    assert "nothing was written: dynamodb:TransactWriteItems failed (TransactionCanceledException)" in message
    assert "DynamoDB's reasons: ItemCollectionSizeLimitExceeded" in message


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (NoCredentialsError(), "no AWS credentials found; run aws sso login"),
        (
            EndpointConnectionError(endpoint_url="http://127.0.0.1:9"),
            "http://127.0.0.1:9 could not be reached",
        ),
    ],
)
def test_no_credentials_and_no_connection_are_reported(home, ledger, error, text):
    def fail(**_):
        raise error

    home.client.meta.events.register_first("before-send.dynamodb", fail)
    try:
        for use in (ledger.states, lambda: ledger.commit([a_bare_change()], channels=[])):
            assert text in error_message(use)
    finally:
        home.client.meta.events.unregister("before-send.dynamodb", fail)


def test_one_volume_that_cannot_be_written_does_not_keep_the_others_from_it(ledger):
    too_large = a_state(B, refusal="x" * 500_000)
    changes = [
        a_bare_change(A),
        Change(volume_id=B, expected_revision=None, state=too_large),
        a_bare_change(C),
    ]
    with pytest.raises(PartialCommitError) as error:
        ledger.commit(changes, channels=[])
    assert "Item size has exceeded the maximum allowed size" in str(error.value)
    assert "(2 of 3 volumes were written)" in str(error.value)
    assert error.value.written_ids == {A, C}
    assert set(ledger.states()) == {A, C}


def test_a_table_that_cannot_be_written_is_not_tried_for_every_volume(table, ledger):
    """Eight or ten are under way when the third has failed."""
    table.faults = [Fault("PutItem", "AccessDeniedException", times=9999)]
    message = error_message(
        lambda: ledger.commit([a_bare_change(f"vol-{i}") for i in range(1_000)], channels=[])
    )
    assert "(0 of 1000 volumes were written)" in message
    assert table.calls["PutItem"] < 50


def test_a_table_laid_out_by_a_newer_burstwatch_is_left_alone(table, ledger):
    ledger.bind("account 1 in us-east-1")
    table.items["ledger"]["origin"] |= {"layout": {"N": "2"}}
    message = error_message(lambda: ledger.bind("account 1 in us-east-1"))
    assert f"ledger {LOCATION} has layout 2, made by a newer burstwatch" in message
    assert "knows layouts up to 1; update burstwatch" in message


def test_the_location_is_what_the_command_line_takes(ledger):
    assert ledger.location == LOCATION


# Answers that are lost


def test_a_lost_response_is_retried_without_repeating_the_write(table, ledger):
    """The client sends the same once more: a transaction knows its token, a state the name of its write."""
    for operation in ("PutItem", "TransactWriteItems"):
        table.faults = [Fault(operation, is_response_lost=True)]
        for change in (a_bare_change(f"vol-{operation}"), a_change(f"vol-with-alert-{operation}")):
            assert ledger.commit([change], channels=[MAIL]) == {change.volume_id}
    assert len(sent_ids(ledger, MAIL)) == 2
    begins = [Fault("TransactWriteItems", is_response_lost=True)]
    for table.faults in (begins, []):
        intent_result = ledger.record_intent(
            an_intent(A), Caps(volumes=1), now_s=0, respects_holds=True, channels=[]
        )
    assert (intent_result.status, intent_result.volumes) == (IntentStatus.CONFLICT, 0)


def test_a_claim_with_a_lost_response_is_held_by_its_owner(table, ledger, second_ledger):
    ledger.commit([a_change()], channels=[MAIL])
    (delivery,) = ledger.pending_deliveries(channels=[MAIL])
    table.faults = [Fault("TransactWriteItems", is_response_lost=True)]
    assert ledger.claim_delivery(delivery, now_s=0, lease_s=60)
    assert not second_ledger.claim_delivery(delivery, now_s=0, lease_s=60)
    table.faults = [Fault("TransactWriteItems", is_response_lost=True)]
    assert ledger.claim_tick(TickKind.FOCUS, 60, now_s=60, lease_s=50)
    assert not second_ledger.claim_tick(TickKind.FOCUS, 60, now_s=60, lease_s=50)


@pytest.mark.parametrize(
    ("operation", "change"), [("PutItem", a_bare_change()), ("TransactWriteItems", a_change())]
)
def test_without_a_response_the_error_mentions_a_possible_write(table, ledger, operation, change):
    table.faults = [Fault(operation, is_response_lost=True, times=2)]
    message = error_message(lambda: ledger.commit([change], channels=[]))
    assert f"ledger {LOCATION} cannot be used, and the write may have succeeded" in message
    assert set(ledger.states()) == {A}


def test_a_transaction_that_is_still_in_progress_may_be_written_all_the_same(table, ledger):
    table.faults = [Fault("TransactWriteItems", "TransactionInProgressException", times=2)]
    message = error_message(lambda: ledger.commit([a_change()], channels=[]))
    assert f"ledger {LOCATION} cannot be used, and the write may have succeeded" in message
