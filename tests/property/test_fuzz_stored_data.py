"""What was stored and comes back: the ledger, a deployment's card, the policy, the webhook's secret."""

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from types import SimpleNamespace

from hypothesis import example, given
from hypothesis import strategies as st

from burstctl.context.on_demand_pass import evaluate_fleet
from burstwatch.adapters.aws.errors import AwsError
from burstwatch.adapters.ledger.dynamodb_items import parse_states
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.adapters.notify.channel import ChannelError
from burstwatch.adapters.notify.slack_secret import WebhookSecret
from burstwatch.adapters.notify.slack_webhook import SlackWebhook
from burstwatch.adapters.policy.deployments import (
    DeploymentError,
    DeploymentRecord,
    find_deployments,
    flip_authority,
)
from burstwatch.adapters.policy.parameter_store import PolicyParameter
from burstwatch.core.errors import LedgerError
from burstwatch.core.ledger.decoding import UnreadableItems
from burstwatch.core.ledger.ledger import TickKind
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.policy.policy import Mode, Policy
from support.aws.in_memory_aws import CALM, DRAINING, NOW_S, CannedAws, services_with
from support.hostile_input import (
    NUMBERS,
    any_value,
    assert_message,
    fuzz,
    mangled_bytes,
    mutated,
    scalars,
    texts,
    within,
)

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
LONGEST = 2_000
"""A message about a ledger names its path twice."""


def as_text(value):
    try:
        return json.dumps(value)
    except ValueError:
        return repr(value)


def put(path, content):
    for item in path.parent.glob(f"{path.name}*"):
        item.unlink()
    path.write_bytes(content)


def use(path):
    """Everything that a pass and the operator's commands ask of a ledger."""
    with SqliteLedger.open(path, lock_timeout_s=0.1) as ledger:
        ledger.states()
        ledger.states_of({DRAINING})
        ledger.entries(DRAINING)
        ledger.holds(NOW_S)
        ledger.manual_overrides()
        ledger.fleet_snapshot()
        report = evaluate_fleet(services_with(CannedAws(), ledger), now_s=NOW_S + 60)
        ledger.claim_tick(TickKind.SWEEP, int(NOW_S) + 300, now_s=NOW_S + 300, lease_s=50)
    return report


def check(path):
    try:
        with within(5):
            report = use(path)
    except LedgerError as error:
        assert_message(str(error), most=LONGEST)
        return None
    for failure in report.failures:
        assert_message(failure)
    return report


@fuzz(15)
@given(st.data())
def test_a_damaged_ledger_is_reported_and_not_replaced(stored_ledger, data):
    path, good = stored_ledger
    content = data.draw(
        mangled_bytes(good) | st.binary(max_size=200) | st.integers(0, len(good)).map(lambda n: good[:n])
    )
    put(path, content)
    check(path)
    assert path.exists()


ROWS = {
    "states": ("body", "revision", "volume_id"),
    "entries": ("body", "kind", "at_s", "revision"),
    "deliveries": ("document", "time_s", "attempts", "claimed_until_s"),
    "holds": ("until_s", "reason", "subject"),
    "window_marks": ("starts", "until_s", "name"),
    "completed_ticks": ("tick_s", "fingerprints", "kind"),
    "claimed_ticks": ("tick_s", "claimed_until_s"),
    "channels": ("name",),
    "origin": ("name",),
}
cells = st.one_of(
    st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), texts, st.binary(max_size=20),
    any_value.map(as_text),
)  # fmt: skip


@fuzz(20)
@given(st.sampled_from([(table, column) for table, columns in ROWS.items() for column in columns]), cells)
@example(("states", "body"), "[" * 100_000)
@example(("states", "body"), "null")
@example(("states", "body"), '{"volume_id": 1}')
@example(("completed_ticks", "fingerprints"), b"odd")
@example(("deliveries", "document"), "[]")
@example(("holds", "until_s"), "later")
def test_an_unreadable_row_is_reported_and_nothing_is_deleted(stored_ledger, place, cell):
    path, good = stored_ledger
    table, column = place
    put(path, good)
    with closing(sqlite3.connect(path)) as connection, connection:
        value = cell.encode("utf-8", "replace").decode() if isinstance(cell, str) else cell
        try:
            connection.execute(f"UPDATE {table} SET {column} = ?", (value,))
        except sqlite3.IntegrityError:
            return
        many = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    if check(path) is None:
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == many


@fuzz(10)
@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
@example(2**31 - 1, 0)
def test_a_ledger_of_another_version_or_program_is_not_touched(stored_ledger, version, program):
    path, good = stored_ledger
    put(path, good)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        known = connection.execute("PRAGMA user_version").fetchone()[0]
        connection.execute(f"PRAGMA user_version = {version}")
        if program % 2:
            connection.execute(f"PRAGMA application_id = {program}")
    before = path.read_bytes()
    if version > known or program % 2:
        assert check(path) is None
        assert path.read_bytes() == before


STATE = ResourceState(volume_id=DRAINING, revision=3).to_document()


@fuzz(25)
@given(st.lists(mutated(STATE).map(as_text) | texts | any_value.map(as_text), max_size=3), st.integers(0, 3))
def test_states_of_the_table_are_read_or_noted_and_hide_no_other(bodies, place):
    good = ResourceState(volume_id=CALM, revision=7)
    items = [{"sk": f"{DRAINING}{n}", "revision": 3, "body": body} for n, body in enumerate(bodies)]
    items.insert(place, {"sk": CALM, "revision": 7, "body": json.dumps(good.to_document())})
    unread = UnreadableItems()

    result = parse_states(items, unread)

    assert result == {CALM: good}
    assert len(result.unreadable) == len(bodies)
    for item in unread.take_all():
        assert_message(str(item), most=LONGEST)


# ---- parameters


CARD = {
    "schema": "burstwatch.deployment/v1",
    "name": "burstwatch",
    "ledger": "burstwatch-ledger",
    "policy": "/burstwatch/burstwatch/policy",
    "topic_arn": "arn:aws:sns:us-east-1:123456789012:x",
    "flips": True,
    "opt_in_tag": {"key": "burstwatch:mode", "value": "auto"},
}
cards = mutated(CARD, most=3).map(as_text) | any_value.map(as_text) | texts


@fuzz(30)
@given(cards)
@example("[" * 100_000)
@example(as_text(CARD | {"schema": "\x1b[31m" * 1_000}))
def test_a_deployment_record_is_parsed_or_blocks_with_a_reason(text):
    card = DeploymentRecord(name="other", registered_at_s=1.0, text=text)
    try:
        result = card.read()
    except DeploymentError as error:
        assert_message(str(error))
        assert card.may_flip
        return
    assert isinstance(result.flips, bool)
    standing = flip_authority("mine", [card])
    assert standing.may_flip is not result.flips
    assert standing.may_flip or standing.reason


PARAMETERS = {
    "Parameters": [
        {"Name": "/burstwatch/deployments/one", "Value": json.dumps(CARD), "LastModifiedDate": NOON},
        {"Name": "/burstwatch/deployments/one/since", "Value": "x", "LastModifiedDate": NOON},
    ]
}


@fuzz(25)
@given(mutated(PARAMETERS, most=3))
def test_the_list_of_deployments_is_read_or_the_call_has_failed(answer):
    client = SimpleNamespace(get_parameters_by_path=lambda **_: answer)
    try:
        deployments = find_deployments(client)
    except AwsError as error:
        assert_message(str(error))
        return
    for finding in deployments:
        assert isinstance(finding.name, str)
        assert isinstance(finding.text, str)
        assert 0 <= finding.registered_at_s < 1e11


class Notes:
    """What a function remembers beyond a cold start."""

    def __init__(self, body):
        self.body = body

    def read(self, name):
        return self.body

    def write(self, name, body):
        self.body = body


POLICIES = ["version: 1", "version: 1\nmode: {highest: propose}", "version: 2", "[" * 4_000, "", "\x1b[31m"]
parameters = st.lists(
    st.fixed_dictionaries(
        {
            "Name": st.sampled_from(["/p", "/p/pushed"]) | texts,
            "Value": st.sampled_from(POLICIES) | texts,
            "Version": st.integers(1, 9),
            "LastModifiedDate": st.just(NOON),
        },
        optional={"Description": scalars},
    ),
    max_size=3,
)


@fuzz(25)
@given(parameters, st.none() | st.sampled_from(POLICIES) | cards | texts)
def test_a_bad_policy_in_the_cloud_leaves_a_good_one_or_a_cautious_one_in_force(stored_parameters, noted):
    client = SimpleNamespace(get_parameters=lambda **_: {"Parameters": stored_parameters})
    result = PolicyParameter(client, "/p", deployment="burstwatch", store=Notes(noted)).get_active()
    assert isinstance(result.policy, Policy)
    assert result.policy.faults() == ()
    good = [item for item in stored_parameters if item["Value"] in POLICIES[:2]]
    if not good and noted not in POLICIES[:2] and result.problem is not None and not _is_note(noted):
        assert result.policy.mode.highest is Mode.PROPOSE
    if result.problem is not None:
        assert_message(str(result.problem), most=40_000)


def _is_note(text):
    return isinstance(text, str) and "version" in text


# ---- the webhook's address


class Secrets:
    """Powertools' provider."""

    def __init__(self, held):
        self.held = held

    def get(self, _name, **_):
        return self.held


@fuzz(35)
@given(
    st.binary(max_size=40)
    | texts
    | any_value.map(as_text)
    | st.builds(lambda url: json.dumps({"url": url}), scalars.filter(lambda s: s not in NUMBERS))
    | texts.map(lambda text: f"https://hooks.slack.com/services/{text}")
)
@example("{" * 100_000)
@example('{"a":' * 100_000)
@example('{"url": "https://hooks.slack.com/services/T/B/xs3cr3t\\u001b[31m"}')
@example("https://hooks.slack.com/services/T/B/xs3cr3t\nHost: evil.example")
def test_what_the_secret_holds_is_an_address_or_is_refused_without_being_shown(held):
    secret = WebhookSecret(None, "burstwatch/slack")
    secret._provider = Secrets(held)
    try:
        webhook = SlackWebhook(secret.read())
    except ChannelError as error:
        assert_message(str(error))
        assert (error.is_permanent, "xs3cr3t" in str(error)) == (True, False)  # noqa: PT017 - or it is taken
        return
    assert webhook._url.startswith(("https://", "http://"))
    assert webhook._url.isprintable()
    assert webhook._url.isascii()
    assert " " not in webhook._url


def test_the_unmodified_ledger_is_valid(stored_ledger):
    path, good = stored_ledger
    put(path, good)
    report = check(path)
    assert {decision.volume_id for decision in report.decisions} >= {DRAINING, CALM}
