"""burstctl with a deployed stack: the same ledger, the same policy, and it says which ones they are."""

import pytest
from botocore.config import Config

from burstctl.watch import loop
from burstlab.fake_aws.faults import Fault
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.errors import LedgerError
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.core.ledger.ledger import TickKind
from burstwatch.wiring import bootstrap
from support.aws.fake_stack import DEFAULT_POLICY, deploy_stack, push_policy, put_parameter
from support.cli.cli_session import (
    add_calm,
    add_critical,
    add_exhausted,
    count_modify_calls,
    modification_targets,
    start_lab,
)

AUTO = {"burstwatch:mode": "auto"}
TABLE = "dynamodb:burstwatch-ledger"
THIRTY = "version: 1\nlevels:\n  warning_within: 30m\n"


def place_hold(cli, *target):
    return cli.run("hold", *target, "--for", "6h", "--reason", "INC-42")


def single_error(result) -> str:
    assert "Traceback" not in result.err
    (complaint,) = result.error_lines
    return complaint.removeprefix("error: ")


def test_the_stack_ledger_and_policy_are_used_and_reported(cli, lab, stack):
    add_calm(lab)

    result = cli.run("assess", "--json")

    assert result.err.splitlines()[:2] == [
        "policy: /burstwatch/burstwatch/policy (stack burstwatch)",
        f"ledger: {TABLE}",
    ]
    assert result.document["ledger"] == TABLE
    assert not any(call.startswith("dynamodb:") for call in result.document["api_calls"]), (
        "the ledger's are no part"
    )
    assert not cli.ledger_path.parent.exists()


def test_it_costs_one_call_to_find_out_and_one_for_the_policy(cli, lab, stack):
    add_calm(lab)
    lab.faults.reset_calls()

    cli.run("assess")

    calls = lab.faults.call_counts()
    assert (calls["GetParametersByPath"], calls["GetParameters"]) == (1, 1)


def test_no_stack_is_looked_up_when_ledger_and_policy_are_named(cli, lab, stack):
    (cli.directory / "mine.yaml").write_text(DEFAULT_POLICY)
    add_calm(lab)
    lab.faults.reset_calls()

    result = cli.run("assess", "--policy", "mine.yaml", "--ledger", "sqlite:mine")

    assert result.code == 0
    assert not {"GetParametersByPath", "GetParameters"} & lab.faults.call_counts().keys()


def test_a_hold_reaches_the_deployed_watchdog(cli, lab, stack):
    volume_id = add_calm(lab)

    result = place_hold(cli, volume_id)

    assert result.code == 0
    assert "does not see" not in result.err
    [hold] = stack.holds(lab.clock.now_s())
    assert (hold.volume_id, hold.reason, hold.by) == (volume_id, "INC-42", "anna (user/moto)")
    assert cli.run("release", volume_id).code == 0
    assert stack.holds(lab.clock.now_s()) == []


def test_a_flip_is_in_the_deployed_ledger_and_its_hold_counts_here(cli, lab, stack):
    volume_id = add_critical(lab)
    now_s = int(lab.clock.now_s())
    stack.place_hold(
        Hold(volume_id=volume_id, by="ben", reason="restore", placed_at_s=now_s, until_s=now_s + 600)
    )

    assert cli.run("flip", volume_id, "--yes").code == 4
    stack.lift_hold(volume_id, by="ben", at_s=now_s)
    assert cli.run("flip", volume_id, "--yes").code == 0

    assert modification_targets(lab, volume_id) == ["gp3"]
    assert stack.states()[volume_id].flip is not None
    assert "by anna (user/moto)" in " ".join(cli.run("history", volume_id).out.split())


def test_a_window_started_here_runs_there(cli, lab, stack):
    put_parameter(lab.client("ssm"), "/burstwatch/burstwatch/policy", "version: 1\nwindows:\n  release:\n")

    assert cli.run("window", "start", "release", "--yes").code == 0

    assert stack.manual_overrides()["release"].is_start


def test_a_watch_that_acts_shares_the_stacks_ticks_and_flips_nothing_twice(cli, lab, stack, topic):
    volume_id = add_exhausted(lab, tags=AUTO)
    assert cli.run("watch", "--act", "--passes", "1").code == 0

    tick_s = int(lab.clock.now_s()) // 60 * 60
    assert not stack.claim_tick(TickKind.FOCUS, tick_s, now_s=tick_s, lease_s=60)
    second_result = cli.run("watch", "--act", "--passes", "1")

    assert "done already, by another process" in second_result.err
    assert count_modify_calls(lab) == 1
    assert modification_targets(lab, volume_id) == ["gp3"]


def test_a_watch_that_acts_alerts_through_the_stack_topic(cli, lab, stack, topic):
    volume_id = add_exhausted(lab, tags=AUTO)
    cli.set(BURSTWATCH_TOPIC_ARN="arn:aws:sns:us-east-1:123456789012:my-own")

    result = cli.run("watch", "--act", "--once")

    assert result.code == 0
    assert (
        "alerts: not to arn:aws:sns:us-east-1:123456789012:my-own: what is in the stack's ledger"
        in result.err
    )
    assert "alerts: terminal, sns" in result.err
    delivered = [entry.body for entry in stack.entries(volume_id) if entry.kind == "delivered"]
    assert {"sns", "terminal"} == {body["channel"] for body in delivered}


def test_what_waits_in_the_stacks_ledger_is_not_sent_elsewhere_by_a_flip(cli, lab, stack):
    volume_id = add_critical(lab)
    cli.set(BURSTWATCH_TOPIC_ARN="arn:aws:sns:us-east-1:123456789012:my-own")
    stack.commit([], channels=["sns"])

    result = cli.run("flip", volume_id, "--yes")

    assert result.code == 0
    assert [delivery.alert.kind for delivery in stack.pending_deliveries(channels=["sns"])] == [
        "VolumeFlipped"
    ]


@pytest.mark.parametrize("arguments", [["--once"], ["--passes", "1"]])
def test_a_watch_that_does_not_act_takes_nothing_from_the_stack(cli, lab, stack, arguments):
    add_exhausted(lab, tags=AUTO)

    result = cli.run("watch", *arguments)

    assert (
        "stack: burstwatch is deployed and works independently; this watch does not act, so it keeps a ledger"
        " of its own"
    ) in result.err
    assert "policy: /burstwatch/burstwatch/policy (stack burstwatch)" in result.err
    assert "ledger: " not in result.err, "it is the default"
    assert cli.ledger_path.exists()
    assert (stack.states(), stack.fleet_snapshot()) == ({}, None)
    tick_s = int(lab.clock.now_s()) // 60 * 60
    assert stack.claim_tick(TickKind.FOCUS, tick_s, now_s=tick_s, lease_s=60)


def test_a_watch_on_the_stack_ledger_without_act_is_warned(cli, lab, stack, topic):
    result = cli.run("watch", "--once", "--ledger", TABLE)

    assert (
        "careful: this watch takes ticks from the watchdog of stack burstwatch and flips nothing"
        in result.err
    )


def test_the_fleet_cap_counts_what_the_deployed_watchdog_has_flipped(cli, lab, stack):
    put_parameter(lab.client("ssm"), "/burstwatch/burstwatch/policy", "version: 1\nflip:\n  fleet_cap: 1\n")
    first, second = add_exhausted(lab, "a"), add_exhausted(lab, "b")
    assert cli.run("flip", first, "--yes").code == 0

    result = cli.run("flip", second, "--yes")

    assert result.code == 4
    assert "fleet_cap" in result.out


def test_a_pushed_policy_is_in_force_before_the_deployed_one(cli, lab, stack):
    push_policy(lab, THIRTY)
    add_calm(lab)

    result = cli.run("policy", "show")

    assert (
        result.err
        == "policy: /burstwatch/burstwatch/policy-pushed (stack burstwatch)\nnext: burstctl doctor\n"
    )
    assert "warning_within: 30m" in result.out
    assert "policy: /burstwatch/burstwatch/policy-pushed (stack" in cli.run("assess").err
    assert cli.run("policy", "check").out == "/burstwatch/burstwatch/policy-pushed: OK\n"


def test_a_deploy_under_a_pushed_policy_is_reported(cli, lab, stack):
    push_policy(lab, THIRTY)
    deploy_stack(lab, policy="version: 1\nlevels:\n  warning_within: 50m\n")

    result = cli.run("policy", "show")

    assert "warning_within: 30m" in result.out
    assert "it was pushed over another deployed one than today's" in result.err


def test_a_bad_active_policy_is_reported_with_its_lines_and_a_next_step(cli, lab, stack):
    push_policy(lab, "version: 1\nlevels:\n  warning_within: soon\n")
    (cli.directory / "mine.yaml").write_text(DEFAULT_POLICY)

    checked, result = cli.run("policy", "check"), cli.run("assess")

    assert checked.code == result.code == 2
    fault = "/burstwatch/burstwatch/policy-pushed:4: levels.warning_within: 'soon' is not a valid duration"
    assert fault in checked.out
    assert fault in result.err
    assert cli.run("assess", "--policy", "mine.yaml").code == 0


@pytest.mark.parametrize(
    "arguments", [("hold", "--all", "--for", "1h", "--reason", "x"), ("release", "--all")]
)
def test_the_kill_switch_works_without_a_policy(cli, lab, stack, arguments):
    push_policy(lab, "version: 1\nlevels:\n  warning_within: soon\n")
    result = cli.run(*arguments)
    assert result.code == 0
    assert "cannot be used, and is not needed for this" in result.err


@pytest.mark.parametrize(
    "arguments", [("hold", "--all", "--for", "1h", "--reason", "x"), ("release", "--all")]
)
def test_the_kill_switch_works_when_the_policy_is_gone(cli, lab, stack, arguments):
    lab.client("ssm").delete_parameter(Name="/burstwatch/burstwatch/policy")
    result = cli.run(*arguments)
    assert result.code == 0
    assert "policy: /burstwatch/burstwatch/policy (stack burstwatch) cannot be used, and is not" in result.err
    assert "the policy of stack burstwatch is gone" in result.err
    assert len(stack.holds(lab.clock.now_s())) == (arguments[0] == "hold")


def test_a_deleted_policy_is_a_usage_error_with_a_next_step(cli, lab, stack):
    lab.client("ssm").delete_parameter(Name="/burstwatch/burstwatch/policy")

    result = cli.run("assess")

    assert result.code == 2
    assert single_error(result) == (
        "the policy of stack burstwatch is gone: neither /burstwatch/burstwatch/policy nor"
        " /burstwatch/burstwatch/policy-pushed exists."
    )


def test_a_policy_without_read_permission_is_not_replaced_by_another(cli, lab, stack):
    message = (
        "User: arn:aws:iam::123456789012:user/ann is not authorized to perform: ssm:GetParameters on"
        " resource: arn:aws:ssm:us-east-1:123456789012:parameter/burstwatch/burstwatch/policy because no"
        " identity-based policy allows the ssm:GetParameters action"
    )
    lab.faults.add(Fault(action="GetParameters", code="AccessDeniedException", message=message))

    result = cli.run("assess")

    assert result.code == 1
    assert "user/ann may not call ssm:GetParameters on arn:aws:ssm" in single_error(result)
    assert result.err.endswith("; to go on with another: --policy FILE\n")


def test_what_is_named_comes_before_the_stack(cli, lab, stack):
    (cli.directory / "mine.yaml").write_text(THIRTY)
    add_calm(lab)

    result = cli.run("assess", "--ledger", "sqlite:mine", "--policy", "mine.yaml")
    assert "policy: mine.yaml (--policy)" in result.err
    cli.set(BURSTWATCH_LEDGER=f"sqlite:{cli.directory}/env")
    result = cli.run("assess")

    assert f"ledger: sqlite:{cli.directory}/env (none yet)" in result.err
    assert f"stack: burstwatch is deployed and does not read this ledger; its own: {TABLE}" in result.err


def test_the_policy_here_does_not_count_where_a_stack_is_deployed(cli, lab, stack):
    (cli.directory / "policy.yaml").write_text(THIRTY)

    assert cli.run("policy", "show", "--json").document["levels"]["warning_within"] == "1h"
    assert cli.run("policy", "check", "policy.yaml").out == "policy.yaml: OK\n"


def test_of_several_stacks_the_first_deployed_is_used(cli, lab):
    deploy_stack(lab, "zebra")
    lab.clock.advance(60)
    deploy_stack(lab, "antelope")
    add_calm(lab)

    result = cli.run("assess")

    assert "stacks: zebra may flip; only proposing: antelope" in result.err
    assert "ledger: dynamodb:zebra-ledger" in result.err
    policy = cli.run("policy", "show", "--stack", "antelope")
    assert policy.err == "policy: /burstwatch/antelope/policy (stack antelope)\nnext: burstctl doctor\n"


def test_the_kill_switch_reaches_the_stack_that_flips_and_not_an_older_one_that_cannot(cli, lab, observed):
    result = place_hold(cli, "--all")

    assert result.code == 0
    assert "This reaches stack bw-act in us-east-1" in result.out
    assert [len(ledger.holds(lab.clock.now_s())) for ledger in observed] == [0, 1]
    assert "stacks: bw-act may flip; only proposing: bw-observe" in result.err


def test_the_ledger_and_policy_of_the_stack_that_flips_are_used(cli, lab, observed):
    volume_id = add_exhausted(lab, tags=AUTO)
    lab.client("sns").create_topic(Name="bw-act")

    assert "policy: /burstwatch/bw-act/policy (stack bw-act)" in cli.run("assess").err
    assert cli.run("watch", "--act", "--once").code == 0
    assert [volume_id in ledger.states() for ledger in observed] == [False, True]


def test_an_order_for_a_stack_that_cannot_flip_is_refused_or_prints_what_it_misses(cli, lab, observed):
    named = place_hold(cli, "--all", "--ledger", "dynamodb:bw-observe-ledger")
    cli.set(BURSTWATCH_LEDGER="dynamodb:bw-observe-ledger")
    result = place_hold(cli, "--all")

    assert (result.code, result.out) == (1, "")
    assert "bw-act is deployed in us-east-1 and does not use dynamodb:bw-observe" in single_error(result)
    text = " ".join(named.out.split())
    assert text.startswith("Automatic changes by watchdogs that use this ledger are on hold for 6 h")
    assert "and NOT stack bw-act, which is deployed there." in text


def test_a_stack_that_cannot_be_read_may_flip_so_it_comes_before_one_that_cannot_flip(cli, lab):
    deploy_stack(lab, "bw-observe", flips=False)
    lab.clock.advance(60)
    deploy_stack(lab, "bw-act", schema="burstwatch.deployment/v9")

    result = place_hold(cli, "--all")

    assert (result.code, result.out) == (1, "")


def test_of_stacks_that_cannot_flip_the_first_is_used(cli, lab):
    for name in ("zebra", "antelope"):
        deploy_stack(lab, name, flips=False)
        lab.clock.advance(60)

    result = cli.run("assess")

    assert "stacks: none flips; zebra was deployed first and is used here, not antelope" in result.err


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Fault(action="GetParametersByPath", code="AccessDeniedException", status=400), "may not call"),
        (Fault(action="GetParametersByPath", kind="throttle"), "AWS limits how often this may be called"),
        (Fault(action="GetParametersByPath", kind="reset"), "closed the connection before it answered"),
        (
            Fault(action="GetParametersByPath", code="InternalServerError", status=500),
            "AWS had an internal error",
        ),
    ],
)
def test_when_stacks_cannot_be_listed_the_file_is_used_and_that_is_reported(
    cli, lab, stack, monkeypatch, fault, message
):
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    lab.faults.add(fault)

    add_calm(lab)

    result = cli.run("assess")

    assert result.code == 0
    [warning] = (line for line in result.err.splitlines() if line.startswith("warning: "))
    assert warning.startswith(
        "warning: cannot find out whether a stack is deployed here, so its ledger and its policy are not"
        " used: "
    )
    assert message in warning
    assert "or name its ledger: --ledger dynamodb:TABLE" in result.err
    assert f"ledger: sqlite:{cli.ledger_path}" in cli.run("assess", "-v").err


@pytest.mark.parametrize("target", ["--all", "a volume"])
@pytest.mark.parametrize("episode", ["denied", "a card that cannot be read"])
def test_a_hold_that_might_not_reach_the_stack_is_not_placed(cli, lab, stack, target, episode):
    volume_id = add_calm(lab)
    if episode == "denied":
        lab.faults.add(Fault(action="GetParametersByPath", code="AccessDeniedException", status=400))
    else:
        deploy_stack(lab, schema="burstwatch.deployment/v9")

    result = place_hold(cli, "--all" if target == "--all" else volume_id)

    assert (result.code, result.out) == (1, "")
    text = " ".join(result.err.split())
    assert text.count("error: nothing was held: cannot find out whether a watchdog is deployed in") == 1
    assert text.count("so this hold might not reach it: ") == 1
    assert "; or name the ledger: --ledger dynamodb:TABLE (a stack's), --ledger sqlite:/" in text
    assert "warning: " not in text
    assert stack.holds(lab.clock.now_s()) == []
    assert not cli.ledger_path.exists()


@pytest.mark.parametrize("command", ["hold", "release"])
@pytest.mark.parametrize("episode", ["none", "denied"])
def test_an_environment_variable_does_not_hide_the_stack(cli, lab, stack, command, episode):
    cli.set(BURSTWATCH_LEDGER="sqlite:mine.sqlite")
    if episode == "denied":
        lab.faults.add(Fault(action="GetParametersByPath", code="AccessDeniedException", status=400))

    result = place_hold(cli, "--all") if command == "hold" else cli.run("release", "--all")

    text = " ".join(result.err.split())
    assert (result.code, result.out) == (1, "")
    expected = (
        "cannot find out whether a watchdog" if episode == "denied" else "stack burstwatch is deployed in"
    )
    assert expected in single_error(result)
    assert episode == "denied" or "fix: unset BURSTWATCH_LEDGER; or, for a watch that uses" in text
    assert not (cli.directory / "mine.sqlite").exists()


MODIFYING = [("flip", "etcd-1", "--yes"), ("watch", "--once", "--act")]
UNLISTED = [
    Fault(action="GetParametersByPath", code="AccessDeniedException", status=400),
    Fault(action="GetParametersByPath", code="ThrottlingException", status=400, times=50),
]


def hold_everything(lab, ledger):
    now_s = int(lab.clock.now_s())
    ledger.place_hold(Hold(volume_id=None, by="ben", reason="x", placed_at_s=now_s, until_s=now_s + 600))


@pytest.mark.parametrize("arguments", MODIFYING, ids=["flip", "watch"])
@pytest.mark.parametrize("fault", UNLISTED, ids=["denied", "throttled"])
def test_nothing_is_modified_while_the_stacks_cannot_be_listed(
    cli, lab, stack, monkeypatch, arguments, fault
):
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    volume_id = add_exhausted(lab, tags=AUTO)
    hold_everything(lab, stack)
    lab.faults.add(fault)

    result = cli.run(*arguments)

    assert result.code == 1
    assert single_error(result).startswith(
        "nothing was modified: cannot find out whether a watchdog is deployed in us-east-1, so its holds and"
        " caps might not count here: "
    )
    assert f"--ledger sqlite:{cli.ledger_path}" in " ".join(result.err.split())
    assert modification_targets(lab, volume_id) == []
    assert not cli.ledger_path.exists()
    assert cli.run("watch", "--once").code == 3, "it only looks"
    assert cli.run(*arguments, "--ledger", f"sqlite:{cli.ledger_path}").code == 0
    assert modification_targets(lab, volume_id) == ["gp3"]


@pytest.mark.parametrize("arguments", MODIFYING, ids=["flip", "watch"])
@pytest.mark.parametrize("has_policy", [False, True])
def test_nothing_is_modified_beside_the_stack_because_of_an_environment_variable(
    cli, lab, stack, arguments, has_policy
):
    volume_id = add_exhausted(lab, tags=AUTO)
    hold_everything(lab, stack)
    cli.set(BURSTWATCH_LEDGER="sqlite:mine.sqlite")
    if has_policy:
        (cli.directory / "mine.yaml").write_text(DEFAULT_POLICY)
        cli.set(BURSTWATCH_POLICY="mine.yaml")

    result = cli.run(*arguments)

    assert result.code == 1
    assert single_error(result) == (
        "nothing was modified: stack burstwatch is deployed in us-east-1 and does not use"
        f" sqlite:{cli.directory}/mine.sqlite, so its holds and caps would not count here."
    )
    assert modification_targets(lab, volume_id) == []
    assert not (cli.directory / "mine.sqlite").exists()
    assert cli.run(*arguments, "--ledger", "sqlite:mine.sqlite").code == 0


@pytest.mark.parametrize("order", [["start", "release", "--yes"], ["stop", "release"]])
def test_a_window_that_the_stack_would_not_see_is_neither_started_nor_stopped(cli, lab, stack, order):
    add_exhausted(lab, tags={"burstwatch:window": "release"})
    cli.set(BURSTWATCH_LEDGER="sqlite:mine.sqlite")

    result = cli.run("window", *order)

    assert result.code == 1
    assert "stack burstwatch is deployed in us-east-1 and does not use" in single_error(result)
    assert not (cli.directory / "mine.sqlite").exists()


def test_a_watch_that_acts_needs_no_stack_for_a_ledger_and_policy_of_its_own(cli, lab):
    """As in the container."""
    volume_id = add_exhausted(lab, tags=AUTO)
    (cli.directory / "mine.yaml").write_text(DEFAULT_POLICY)
    cli.set(BURSTWATCH_LEDGER="sqlite:mine.sqlite", BURSTWATCH_POLICY="mine.yaml")

    result = cli.run("watch", "--once", "--act")

    assert result.code == 0
    assert "ledger: sqlite:" in result.err
    assert modification_targets(lab, volume_id) == ["gp3"]


def test_an_environment_variable_may_name_the_stack_ledger(cli, lab, stack):
    cli.set(BURSTWATCH_LEDGER=TABLE)

    assert place_hold(cli, "--all").code == 0
    assert len(stack.holds(lab.clock.now_s())) == 1


def test_a_hold_names_the_account_region_and_stack_that_it_reaches(cli, lab, stack):
    result = place_hold(cli, "--all")
    other = place_hold(cli, "--all", "--ledger", f"sqlite:{cli.ledger_path}", "--policy", "none.yaml")
    document = cli.run("hold", "--all", "--for", "6h", "--reason", "x", "--json").document

    text, elsewhere = " ".join(result.out.split()), " ".join(other.out.split())
    assert "This reaches stack burstwatch in us-east-1 (account 123456789012)." in text
    assert "Other regions are not affected." in text
    assert "and NOT stack burstwatch, which is deployed there." in elsewhere
    assert elsewhere.startswith("Automatic changes by watchdogs that use this ledger are on hold for 6 h")
    assert [document[key] for key in ("region", "account", "stack", "ledger")] == [
        "us-east-1", "123456789012", "burstwatch", TABLE,
    ]  # fmt: skip


def test_a_parameter_store_that_does_not_answer_delays_no_command_for_long(cli, lab, monkeypatch):
    client_config = bootstrap._SHORT_CONFIG
    attempts = client_config.retries["total_max_attempts"]
    assert (client_config.connect_timeout + client_config.read_timeout) * attempts <= 16
    monkeypatch.setattr(bootstrap, "_SHORT_CONFIG", client_config.merge(Config(read_timeout=0.1)))
    lab.faults.set_latency(60_000, "GetParametersByPath")
    add_calm(lab)

    result = cli.run("assess")

    assert result.code == 0
    assert "took the request but did not answer in time" in result.err


def test_the_ledger_of_a_stack_can_be_named(cli, lab, stack):
    add_calm(lab)
    lab.faults.add(Fault(action="GetParametersByPath", code="AccessDeniedException"))

    result = place_hold(cli, "--all", "--ledger", TABLE)

    assert result.code == 0
    assert "cannot find out whether a stack is deployed here, so its policy is not used: " in result.err
    assert "or name its policy: --policy FILE" in result.err
    assert len(stack.holds(lab.clock.now_s())) == 1


def test_a_table_that_is_not_there(cli, lab):
    result = cli.run("assess", "--ledger", "dynamodb:elsewhere")

    assert result.code == 1
    assert single_error(result) == ("ledger dynamodb:elsewhere does not exist in us-east-1.")


@pytest.mark.parametrize(
    "arguments", [["assess"], ["watch", "--once"], ["hold", "--all", "--for", "1h", "--reason", "x"]]
)
def test_a_table_that_is_not_a_ledger(cli, lab, arguments):
    lab.client("dynamodb").create_table(
        TableName="orders",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "order_id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "order_id", "AttributeType": "S"}],
    )
    try:
        result = cli.run(*arguments, "--ledger", "dynamodb:orders")
    finally:
        lab.client("dynamodb").delete_table(TableName="orders")

    assert result.code == 1
    assert single_error(result).startswith("ledger dynamodb:orders is not a table of burstwatch: its keys")


def test_a_table_that_may_not_be_read(cli, lab, stack):
    message = (
        "User: arn:aws:iam::123456789012:user/ann is not authorized to perform: dynamodb:GetItem on"
        " resource: arn:aws:dynamodb:us-east-1:123456789012:table/burstwatch-ledger because no"
        " identity-based policy allows the dynamodb:GetItem action"
    )
    for action in ("GetItem", "Query", "BatchGetItem"):
        lab.faults.add(Fault(action=action, code="AccessDeniedException", message=message))

    result = cli.run("assess")

    assert result.code == 1
    assert single_error(result).startswith(f"ledger {TABLE} cannot be used: ")
    assert "user/ann may not call dynamodb:GetItem on arn:aws:dynamodb" in single_error(result)
    assert "fix: grant dynamodb:GetItem to it" in result.err


def test_the_ledger_of_another_account_is_refused(cli, lab, stack):
    stack.bind("account 210987654321 in us-east-1")

    result = place_hold(cli, "--all")

    assert result.code == 1
    assert f"ledger {TABLE} is that of account 210987654321 in us-east-1" in single_error(result)


def test_an_invalid_table_name_is_a_usage_error(cli, lab):
    result = cli.run("assess", "--ledger", "dynamodb:my table")

    assert result.code == 2
    assert single_error(result).startswith("'my table' is not a valid name of a DynamoDB table.")


@pytest.mark.parametrize(
    "changes", [{"schema": "burstwatch.deployment/v9"}, {"ledger": "paper"}, {"opt_in_tag": "auto"}]
)
def test_an_unreadable_deployment_record_is_reported_and_the_file_is_used(cli, lab, changes):
    deploy_stack(lab, **changes)
    add_calm(lab)

    result = cli.run("assess")

    assert result.code == 0
    assert "warning: the " in result.err
    assert "  fix: name its ledger: --ledger dynamodb:TABLE" in result.err
    assert f"ledger: sqlite:{cli.ledger_path}" in cli.run("assess", "-v").err


@pytest.mark.parametrize(
    "topic_arn",
    [
        "arn:aws:sns:us-east-1:999999999999:burstwatch",
        "arn:aws:sns:eu-west-1:123456789012:burstwatch",
        "arn:aws-cn:sns:us-east-1:123456789012:burstwatch",
        "arn:aws:sqs:us-east-1:123456789012:burstwatch",
        "alerts",
    ],
)
def test_a_deployment_record_that_names_a_topic_of_another_account_or_region_is_not_trusted(
    cli, lab, topic_arn
):
    deploy_stack(lab, topic_arn=topic_arn)
    add_calm(lab)
    result = cli.run("assess")
    assert "names a topic that is not of this account and region" in result.err
    assert f"ledger: sqlite:{cli.ledger_path}" in cli.run("assess", "-v").err


def test_a_deployment_record_cannot_point_to_a_file_as_the_ledger(cli, lab):
    deploy_stack(lab, ledger="sqlite:/tmp/forged.db")
    add_calm(lab)
    result = cli.run("assess")
    assert "names the ledger sqlite:/tmp/forged.db, and a stack's is a table" in result.err
    assert f"ledger: sqlite:{cli.ledger_path}" in cli.run("assess", "-v").err


def test_a_running_watch_picks_up_a_pushed_policy_and_keeps_it_while_aws_is_unreachable(cli, monkeypatch):
    with start_lab(cli, speed=600) as lab:
        deploy_stack(lab)
        add_calm(lab)
        in_force, real_run_tick = [], loop.run_tick

        def run_tick(shell, **fields):
            in_force.append(str(shell.policy.levels.warning_within))
            if len(in_force) == 1:
                push_policy(lab, THIRTY)
            if len(in_force) == 2:
                lab.faults.add(Fault(action="GetParameters", code="AccessDeniedException", times=2))
            return real_run_tick(shell, **fields)

        monkeypatch.setattr(loop, "run_tick", run_tick)

        result = cli.run("watch", "--passes", "5")

    assert in_force == ["1:00:00", "0:30:00", "0:30:00", "0:30:00", "0:30:00"]
    assert result.code == 0
    assert result.err.count("the policy could not be read, so the last valid one stays in force") == 1
    assert (
        "policy: /burstwatch/burstwatch/policy-pushed (stack burstwatch) is valid and in force" in result.err
    )


def test_a_running_watch_reports_a_bad_policy_and_how_to_see_it(cli, monkeypatch):
    with start_lab(cli, speed=600) as lab:
        deploy_stack(lab)
        add_calm(lab)
        real_run_tick = loop.run_tick

        def run_tick(shell, **fields):
            push_policy(lab, "version: 1\nlevels:\n  warning_within: soon\n")
            return real_run_tick(shell, **fields)

        monkeypatch.setattr(loop, "run_tick", run_tick)

        result = cli.run("watch", "--passes", "3")

    with cli.open_ledger() as ledger:
        reported = [str(entry.kind) for entry in ledger.entries("policy")]
    assert result.err.count("policy rejected; the last valid one stays in force") == 1
    assert "burstctl policy check" in result.err
    assert reported.count("policy_rejected") == 1


@pytest.mark.parametrize("command", ["flip", "window start", "window stop"])
def test_the_help_of_an_order_names_what_refuses_it(cli, command):
    text = " ".join(cli.run(*command.split(), "--help").out.split())
    assert (
        "Without --ledger it fails if a deployed stack uses another ledger, or if this cannot be checked."
        in text
    )


def watch_while_a_stack_comes_and_goes(cli, lab, monkeypatch, *arguments):
    """Twelve passes, a minute apart: in which of them it could modify, and the result."""
    add_calm(lab)
    could_modify, real_run_tick = [], loop.run_tick

    def run_tick(services, **fields):
        could_modify.append(services.modifier is not None)
        if len(could_modify) == 1:
            deploy_stack(lab)
        if len(could_modify) == 6:
            add_exhausted(lab, tags=AUTO)
        if len(could_modify) == 9:
            lab.client("ssm").delete_parameter(Name="/burstwatch/deployments/burstwatch")
        report = real_run_tick(services, **fields)
        lab.clock.advance(60)
        return report

    monkeypatch.setattr(loop, "run_tick", run_tick)
    result = cli.run("watch", "--act", "--passes", "12", *arguments)
    return could_modify, result


def test_a_watch_that_acts_stops_that_while_a_stack_uses_another_ledger(cli, lab, monkeypatch):
    could_modify, result = watch_while_a_stack_comes_and_goes(cli, lab, monkeypatch)

    assert could_modify == [True] * 5 + [False] * 5 + [True] * 2
    text = " ".join(result.err.split())
    assert text.count("warning: from now on this watch only proposes: stack burstwatch is deployed in") == 1
    assert "fix: start it again, so that it uses the ledger of the stack" in text
    assert text.count("this watch acts again: no stack uses another ledger") == 1
    assert "would flip if no other stack were deployed: vol-" in result.err
    assert "with --act" not in result.err
    assert "first bring back" not in text
    assert count_modify_calls(lab) == 1


def test_a_watch_that_stops_acting_names_what_it_has_flipped_and_how_it_returns(cli, lab, monkeypatch):
    flipped = sorted(add_critical(lab, f"ci-{number}", tags=AUTO) for number in range(5))
    real_run_tick = loop.run_tick

    def run_tick(services, **fields):
        if count_modify_calls(lab) == 0:
            deploy_stack(lab)
        report = real_run_tick(services, **fields)
        lab.clock.advance(3600)
        return report

    monkeypatch.setattr(loop, "run_tick", run_tick)
    result = cli.run("watch", "--act", "--passes", "3")

    options = f"--region us-east-1 --ledger sqlite:{cli.ledger_path}"
    warning = result.err[result.err.index("warning: from now on this watch only proposes") :]
    assert [line.strip() for line in warning.splitlines()[1:7]] == [
        "fix: first bring back what is flipped, 5 volumes, as only this ledger knows of it",
        *(f"burstctl flip-back {volume_id} {options}" for volume_id in flipped[:3]),
        f"and 2 more: burstctl assess --all {options}",
        "then start it again, so that it uses the ledger of the stack",
    ]
    assert result.err.count("first bring back") == 1
    for command in warning.splitlines()[2:5]:
        assert cli.run(*command.split()[1:], "--yes").code == 0
    assert [modification_targets(lab, volume_id) for volume_id in flipped[:3]] == [["gp3", "gp2"]] * 3


def test_a_watch_whose_ledger_cannot_be_read_does_not_act_beside_a_stack(cli, lab, monkeypatch):
    could_modify, real_run_tick, real_states = [], loop.run_tick, SqliteLedger.states
    add_calm(lab)

    def run_tick(services, **fields):
        could_modify.append(services.modifier is not None)
        if len(could_modify) == 1:
            deploy_stack(lab)
        report = real_run_tick(services, **fields)
        lab.clock.advance(360)
        return report

    def refuse(*arguments, real_check=loop.check_reaches_watchdog, **fields):
        monkeypatch.setattr(loop, "check_reaches_watchdog", real_check)
        monkeypatch.setattr(SqliteLedger, "states", fail_once)
        real_check(*arguments, **fields)

    def fail_once(_ledger):
        monkeypatch.setattr(SqliteLedger, "states", real_states)
        lab.clock.advance(60)
        raise LedgerError("the disk is full", fix="free some space")

    monkeypatch.setattr(loop, "run_tick", run_tick)
    monkeypatch.setattr(loop, "check_reaches_watchdog", refuse)
    result = cli.run("watch", "--act", "--passes", "4")

    assert could_modify == [True, False, False]
    assert "failed: the disk is full" in result.err
    assert "only proposes" in result.err


def test_a_watch_that_acts_with_a_ledger_on_the_command_line_goes_on(cli, lab, monkeypatch):
    could_modify, result = watch_while_a_stack_comes_and_goes(
        cli, lab, monkeypatch, "--ledger", f"sqlite:{cli.ledger_path}"
    )

    assert could_modify == [True] * 12
    assert "only proposes" not in result.err


def test_a_watch_that_acts_keeps_what_it_knows_while_the_stacks_cannot_be_listed(cli, lab, monkeypatch):
    could_modify, real_run_tick = [], loop.run_tick

    def run_tick(services, **fields):
        could_modify.append(services.modifier is not None)
        lab.faults.add(Fault(action="GetParametersByPath", code="AccessDeniedException", status=400))
        lab.clock.advance(60)
        return real_run_tick(services, **fields)

    monkeypatch.setattr(loop, "run_tick", run_tick)
    result = cli.run("watch", "--act", "--passes", "7")

    assert could_modify == [True] * 7
    assert result.err.count("warning: the deployed stacks cannot be listed: ") == 1


def test_the_kill_switch_names_the_ledger_on_this_machine_that_it_does_not_hold(cli, lab):
    cli.run("watch", "--once")
    deploy_stack(lab)

    result, single = place_hold(cli, "--all"), place_hold(cli, add_calm(lab))

    text = " ".join(result.err.split())
    assert result.code == 0
    assert f"warning: not held: a watch on this machine that uses sqlite:{cli.ledger_path}" in text
    command = f"burstctl hold --all --for 6h --reason INC-42 --ledger sqlite:{cli.ledger_path}"
    assert f"fix: if one acts: {command}" in text
    assert "not held" not in single.err
    assert "not held" not in cli.run(*command.split()[1:]).err
    with cli.open_ledger() as ledger:
        assert len(ledger.holds(lab.clock.now_s())) == 1


def write_profile(cli, name):
    directory = cli.directory / ".aws"
    directory.mkdir(exist_ok=True)
    with (directory / "credentials").open("a") as file:
        file.write(f"[{name}]\naws_access_key_id = testing\naws_secret_access_key = testing\n")


@pytest.mark.parametrize("target", [["--all"], ["--all", "--region", "us-east-1", "--region", "eu-west-1"]])
def test_the_kill_switch_names_the_ledgers_of_other_profiles(cli, lab, target):
    write_profile(cli, "prod")
    cli.run("watch", "--once")
    cli.run("watch", "--once", "--profile", "prod")

    result = place_hold(cli, *target, "--profile", "prod")

    text = " ".join(result.err.split())
    command = "burstctl hold --all --for 6h --reason INC-42"
    region = " --region us-east-1" if "--region" in target else ""
    other = f"sqlite:{cli.ledger_path}"
    assert f"fix: if one acts: {command}{region} --profile prod --ledger {other}" in text
    assert text.count("not held: a watch on this machine") == 1


def test_the_kill_switch_does_not_name_ledgers_of_other_accounts_or_regions(cli, lab):
    directory = cli.ledger_path.parent
    cli.run("watch", "--once")
    for profile, region, origin in (
        ("other", "us-east-1", "account 999999999999 in us-east-1"),
        ("prod", "eu-west-1", "account 123456789012 in eu-west-1"),
    ):
        with SqliteLedger.open(directory / f"ledger-{profile}-{region}.sqlite") as ledger:
            ledger.bind(origin)

    result = place_hold(cli, "--all")

    assert result.code == 0
    assert "not held" not in result.err


def test_a_region_with_only_the_ledger_of_another_profile_is_not_idle(cli, lab):
    write_profile(cli, "prod")
    cli.run("watch", "--once")

    result = place_hold(cli, "--all", "--profile", "prod", "--region", "all")

    text = " ".join(result.err.split())
    assert result.code == 1
    assert f"not held: a watch on this machine that uses sqlite:{cli.ledger_path}" in text
    assert "nothing was held: no stack and no ledger in us-east-1" in text
