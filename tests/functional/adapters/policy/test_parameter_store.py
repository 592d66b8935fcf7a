from hashlib import sha256

import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError
from moto import mock_aws

from burstlab.fake_aws.dynamodb import Fault
from burstwatch.adapters.ledger.dynamodb import DynamoLedger
from burstwatch.adapters.ledger.dynamodb_notes import DynamoKeyValueStore
from burstwatch.adapters.policy.parameter_store import PolicyParameter, PolicyProblemKind
from burstwatch.core.alerts.alert import AlertKind, format_sentences
from burstwatch.core.errors import LedgerError
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.policy import Mode, Policy
from support.aws.stub_clients import stubbed_client
from support.ledger.ledger_stores import TABLE, dynamodb_client
from support.policy_function import NAME, PUSHED, FakeSsm, PolicyReaderFunction, policy

PLACE = AwsLocation(region="us-east-1", account="123456789012")
NOW_S = 1_795_197_635
"""2026-11-20T18:00:35Z"""


def pushed_over(deployed, text):
    return f"# pushed over sha256:{sha256(deployed.encode()).hexdigest()}\n{text}"


BAD = "version: 1\nlevels:\n  warning_within: soon\nmood: good\n"


def access_denied_error():
    text = "User: role/watch is not authorized to perform: ssm:GetParameters on resource: x"
    return ClientError({"Error": {"Code": "AccessDeniedException", "Message": text}}, "GetParameters")


def throttled():
    return ClientError(
        {"Error": {"Code": "ThrottlingException", "Message": "Rate exceeded"}}, "GetParameters"
    )


# Which one is in force


def test_the_deployed_policy_is_in_force(function):
    active = function.read_policy()
    assert (active.policy.levels.warning_within.total_seconds(), active.problem) == (61 * 60, None)
    assert active.source == f"{NAME} as of 2026-11-20T09:00:00Z"


def test_a_pushed_policy_takes_precedence(function):
    function.ssm.put(PUSHED, pushed_over(policy(61), policy(62)))
    assert function.minutes() == 62
    del function.ssm.parameters[PUSHED]
    assert function.minutes() == 61
    assert function.read_policy().problem is None


def test_a_change_is_in_force_half_a_minute_later_and_not_read_every_time(function):
    assert function.minutes() == 61
    function.ssm.put(NAME, policy(63))
    assert function.minutes(after_s=29) == 61
    assert function.ssm.calls == 1
    assert function.minutes(after_s=1) == 63


def test_both_are_read_in_one_call(function):
    function.ssm.put(PUSHED, policy(62))
    function.read_policy()
    assert function.ssm.calls == 1


# What is wrong


def test_a_bad_push_leaves_what_was_in_force_and_names_every_fault(function):
    function.ssm.put(PUSHED, pushed_over(policy(61), policy(62)))
    assert function.minutes() == 62
    function.ssm.put(PUSHED, BAD, hour=10)
    active = function.read_policy()
    assert active.policy.levels.warning_within.total_seconds() == 62 * 60
    assert active.problem.kind is PolicyProblemKind.REJECTED
    wrong, unknown = active.problem.faults
    assert unknown.startswith(f"{PUSHED}:4: mood")
    assert wrong.startswith(f"{PUSHED}:3: levels.warning_within")
    assert active.problem.active_source == f"{PUSHED} as of 2026-11-20T09:00:00Z"
    assert "burstctl policy push --stack prod" in active.problem.action


def test_the_last_good_one_is_remembered_over_a_cold_start(function):
    function.ssm.put(PUSHED, policy(62))
    function.read_policy()
    function.ssm.put(PUSHED, BAD, hour=10)
    function.start()
    assert function.minutes() == 62
    function.ssm.parameters.clear()
    function.start()
    assert function.minutes() == 62


def test_a_bad_push_before_anything_good_leaves_the_deployed_one(function):
    function.ssm.put(PUSHED, BAD)
    active = function.read_policy()
    assert active.policy.levels.warning_within.total_seconds() == 61 * 60
    assert active.problem.kind is PolicyProblemKind.REJECTED


def test_a_policy_that_is_too_long_is_refused_with_its_size(function):
    function.ssm.put(PUSHED, "version: 1\n#" + "x" * 8192)
    assert "8204 bytes, at most 8192" in function.read_policy().problem.faults[0]


def test_a_deleted_policy_is_reported_and_the_last_good_one_stays(function):
    function.read_policy()
    function.ssm.parameters.clear()
    active = function.read_policy()
    assert active.policy.levels.warning_within.total_seconds() == 61 * 60
    assert active.problem.kind is PolicyProblemKind.MISSING
    assert NAME in active.problem.faults[0]
    assert not active.problem.is_transient


def test_with_no_policy_ever_the_built_in_one_holds_and_nothing_is_flipped(table, time):
    result = PolicyReaderFunction(FakeSsm(), time).read_policy()
    assert result.policy.mode.highest is Mode.PROPOSE
    assert result.policy.levels == Policy().levels
    assert result.problem.active_source == "the built-in defaults, without flips"


def test_a_bad_deployed_policy_with_nothing_remembered_flips_nothing_either(table, time):
    result = PolicyReaderFunction(FakeSsm(deployed=BAD), time).read_policy()
    assert result.policy.mode.highest is Mode.PROPOSE
    assert "deploy again" in result.problem.action


def test_a_revoked_permission_is_reported_with_the_grant_that_is_missing(function):
    function.read_policy()
    function.ssm.error = access_denied_error()
    active = function.read_policy()
    assert active.policy.levels.warning_within.total_seconds() == 61 * 60
    assert active.problem.kind is PolicyProblemKind.UNREAD
    assert "grant ssm:GetParameters" in active.problem.faults[0]
    assert not active.problem.is_transient


@pytest.mark.parametrize("error", [throttled(), ConnectTimeoutError(endpoint_url="https://ssm")])
def test_a_transient_failure_raises_no_alert(function, error):
    function.read_policy()
    function.ssm.error = error
    active = function.read_policy()
    assert active.problem.is_transient
    assert active.problem.to_change(policy=active.policy, location=PLACE, now_s=NOW_S) is None
    assert function.minutes() == 61
    function.ssm.error = None
    assert function.read_policy().problem is None


def test_a_stored_text_that_cannot_be_parsed_is_skipped(function):
    DynamoKeyValueStore(dynamodb_client(), TABLE).write("policy", "written by somebody else")
    function.ssm.put(PUSHED, BAD)
    assert function.minutes() == 61


@pytest.mark.parametrize("damage", [{}, {"body": {"N": "7"}}], ids=str)
def test_a_stored_item_without_a_text_is_skipped(function, damage):
    dynamodb_client().put_item(TableName=TABLE, Item={"pk": {"S": "notes"}, "sk": {"S": "policy"}, **damage})
    function.ssm.put(PUSHED, BAD)
    assert function.minutes() == 61


def test_a_deployed_policy_that_changes_under_a_pushed_one_is_reported_and_the_pushed_one_stays(function):
    function.ssm.put(PUSHED, pushed_over(policy(61), policy(62)))
    assert function.read_policy().problem is None
    function.ssm.put(NAME, policy(64), hour=12)
    active = function.read_policy()
    assert active.policy.levels.warning_within.total_seconds() == 62 * 60
    assert active.problem.kind is PolicyProblemKind.OUTDATED
    assert "2026-11-20T12:00:00Z" in active.problem.faults[0]
    assert "burstctl policy push --withdraw --stack prod" in active.problem.action
    function.ssm.put(PUSHED, pushed_over(policy(64), policy(62)), hour=13)
    assert function.read_policy().problem is None


def test_a_pushed_policy_that_does_not_name_what_it_replaces_is_taken_as_it_is(function):
    function.ssm.put(PUSHED, policy(62))
    assert function.read_policy().problem is None


def test_a_ledger_that_cannot_be_used_is_reported(function, table, monkeypatch):
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
    table.faults.append(Fault("GetItem", "AccessDeniedException", "not authorized", times=9))
    with pytest.raises(LedgerError, match="cannot be used"):
        function.read_policy()


# What is alerted


def policy_alerts(result, now_s=NOW_S):
    return result.problem.to_change(policy=result.policy, location=PLACE, now_s=now_s)


def test_a_bad_policy_alerts_once_however_often_it_is_read(function):
    function.ssm.put(PUSHED, BAD)
    ledger = DynamoLedger(dynamodb_client(), TABLE, sleep=lambda _: None)
    for minute in range(3):
        function.start()
        ledger.commit([policy_alerts(function.read_policy(), NOW_S + 60 * minute)], channels=["sns"])
        for waits in ledger.pending_deliveries(channels=["sns"]):
            assert ledger.claim_delivery(waits, now_s=NOW_S, lease_s=60)
            ledger.mark_delivered(waits, at_s=NOW_S)
            assert minute == 0
    (entry,) = [item for item in ledger.entries("policy") if item.kind == "policy_rejected"]
    assert len(entry.body["faults"]) == 2


def test_the_alert_has_the_faults_what_is_in_force_and_the_next_step(function):
    function.ssm.put(PUSHED, BAD)
    (alert,) = policy_alerts(function.read_policy()).alerts
    assert alert.kind is AlertKind.POLICY_REJECTED
    text = "\n".join(format_sentences(alert))
    assert "mood" in text
    assert f"In force: {NAME}" in text
    assert alert.runbook == "runbooks/PolicyRejected.md"
    assert alert.evidence["summary"].startswith("policy rejected")


def test_the_same_bad_text_pushed_again_is_reported_again(function):
    function.ssm.put(PUSHED, BAD, hour=9)
    first = policy_alerts(function.read_policy()).alerts[0].alert_id
    assert policy_alerts(function.read_policy()).alerts[0].alert_id == first
    function.ssm.put(PUSHED, BAD, hour=10)
    assert policy_alerts(function.read_policy()).alerts[0].alert_id != first


def test_a_missing_policy_alerts_daily(function):
    function.read_policy()
    function.ssm.parameters.clear()
    active = function.read_policy()
    ids = [policy_alerts(active, NOW_S + 3600 * hour).alerts[0].alert_id for hour in (0, 5, 7, 29)]
    assert (ids[0] == ids[1], ids[1] == ids[2], ids[2] == ids[3]) == (True, False, True)


# As AWS answers


@mock_aws
def test_it_reads_what_parameter_store_holds():
    ssm = stubbed_client("ssm")
    ssm.put_parameter(Name=NAME, Value=policy(61), Type="String")

    class Memory(dict):
        read, write = dict.get, dict.__setitem__

    parameter = PolicyParameter(ssm, NAME, deployment="prod", store=Memory(), max_age_s=0)
    assert parameter.get_active().policy.levels.warning_within.total_seconds() == 61 * 60
    ssm.put_parameter(Name=PUSHED, Value=policy(62), Type="String")
    assert parameter.get_active().policy.levels.warning_within.total_seconds() == 62 * 60


def test_a_pushed_policy_with_another_opt_in_tag_than_the_deployed_one_does_not_hold(function):
    """The permission to modify was made from the deployed tag."""
    function.ssm.put(PUSHED, pushed_over(policy(61), policy(62)))
    assert function.minutes() == 62
    function.ssm.put(NAME, f"{policy(63)}mode:\n  opt_in_tag: team:burst=yes\n", hour=10)
    active = function.read_policy()
    assert active.policy.mode.opt_in_tag == ("team:burst", "yes")
    assert active.policy.levels.warning_within.total_seconds() == 63 * 60
    assert active.problem.kind is PolicyProblemKind.REJECTED
    [fault] = active.problem.faults
    assert (
        "mode.opt_in_tag is burstwatch:mode=auto, and the permission to modify is for team:burst=yes" in fault
    )
