"""burstctl beside a deployed stack: the same ledger, the same policy, and word of which ones they are."""

import pytest
from a_stack import PLAIN, a_stack, push_by_hand, put
from botocore.config import Config
from operators_desk import OperatorsDesk, a_lab, add_calm, add_critical, add_exhausted, asked, modified

from burstctl.watch import loop
from burstlab.fake_aws.faults import Fault
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.core.ledger.ledger import TickKind
from burstwatch.wiring import bootstrap

AUTO = {"burstwatch:mode": "auto"}
TABLE = "dynamodb:burstwatch-ledger"
THIRTY = "version: 1\nlevels:\n  warning_within: 30m\n"


@pytest.fixture
def desk(tmp_path, monkeypatch, capsys):
    made = OperatorsDesk(tmp_path, monkeypatch, capsys)
    made.set(LOGNAME="anna")
    return made


@pytest.fixture
def lab(desk):
    with a_lab(desk) as endpoint:
        yield endpoint


@pytest.fixture
def stack(lab):
    """The ledger of a deployed stack, as its functions see it."""
    return a_stack(lab)


@pytest.fixture
def topic(lab):
    """The topic of the stack."""
    return lab.client("sns").create_topic(Name="burstwatch")["TopicArn"]


def hold(desk, *what):
    return desk.run("hold", *what, "--for", "6h", "--reason", "INC-42")


def the_complaint(ran) -> str:
    assert "Traceback" not in ran.err
    (complaint,) = ran.complaints
    return complaint.removeprefix("burstctl: ")


def test_the_ledger_and_the_policy_are_the_stacks_and_that_is_said(desk, lab, stack):
    add_calm(lab)

    ran = desk.run("assess", "--json")

    assert ran.err.splitlines()[:2] == [
        "policy: /burstwatch/burstwatch/policy (stack burstwatch)",
        f"ledger: {TABLE}",
    ]
    assert ran.document["ledger"] == TABLE
    assert not any(call.startswith("dynamodb:") for call in ran.document["api_calls"]), (
        "the ledger's are no part"
    )
    assert not desk.ledger_path.parent.exists()


def test_it_costs_one_call_to_find_out_and_one_for_the_policy(desk, lab, stack):
    add_calm(lab)
    lab.faults.forget_calls()

    desk.run("assess")

    calls = lab.faults.calls()
    assert (calls["GetParametersByPath"], calls["GetParameters"]) == (1, 1)


def test_nobody_asks_for_a_stack_where_ledger_and_policy_are_named(desk, lab, stack):
    (desk.directory / "mine.yaml").write_text(PLAIN)
    add_calm(lab)
    lab.faults.forget_calls()

    ran = desk.run("assess", "--policy", "mine.yaml", "--ledger", "sqlite:mine")

    assert ran.code == 0
    assert not {"GetParametersByPath", "GetParameters"} & lab.faults.calls().keys()


def test_a_hold_reaches_the_deployed_watchdog(desk, lab, stack):
    volume_id = add_calm(lab)

    ran = hold(desk, volume_id)

    assert ran.code == 0
    assert "does not hear of it" not in ran.err
    [told] = stack.holds(lab.clock.now_s())
    assert (told.volume_id, told.reason, told.by) == (volume_id, "INC-42", "anna (user/moto)")
    assert desk.run("release", volume_id).code == 0
    assert stack.holds(lab.clock.now_s()) == []


def test_a_flip_is_in_the_deployed_ledger_and_its_hold_counts_here(desk, lab, stack):
    volume_id = add_critical(lab)
    now_s = int(lab.clock.now_s())
    stack.place_hold(
        Hold(volume_id=volume_id, by="ben", reason="restore", placed_at_s=now_s, until_s=now_s + 600)
    )

    assert desk.run("flip", volume_id, "--yes").code == 4
    stack.lift_hold(volume_id, by="ben", at_s=now_s)
    assert desk.run("flip", volume_id, "--yes").code == 0

    assert modified(lab, volume_id) == ["gp3"]
    assert stack.states()[volume_id].flip is not None
    assert "by anna (user/moto)" in " ".join(desk.run("history", volume_id).out.split())


def test_a_window_started_here_runs_there(desk, lab, stack):
    put(lab.client("ssm"), "/burstwatch/burstwatch/policy", "version: 1\nwindows:\n  release:\n")

    assert desk.run("window", "start", "release", "--yes").code == 0

    assert stack.window_marks()["release"].starts


def test_a_watch_that_acts_shares_the_stacks_ticks_and_flips_nothing_twice(desk, lab, stack, topic):
    volume_id = add_exhausted(lab, tags=AUTO)
    assert desk.run("watch", "--act", "--passes", "1").code == 0

    tick_s = int(lab.clock.now_s()) // 60 * 60
    assert not stack.claim_tick(TickKind.FOCUS, tick_s, now_s=tick_s, lease_s=60)
    again = desk.run("watch", "--act", "--passes", "1")

    assert "done already, by another process" in again.err
    assert asked(lab) == 1
    assert modified(lab, volume_id) == ["gp3"]


def test_a_watch_that_acts_tells_the_people_of_the_stack(desk, lab, stack, topic):
    volume_id = add_exhausted(lab, tags=AUTO)
    desk.set(BURSTWATCH_TOPIC_ARN="arn:aws:sns:us-east-1:123456789012:my-own")

    ran = desk.run("watch", "--act", "--once")

    assert ran.code == 0
    assert (
        "alerts: not to arn:aws:sns:us-east-1:123456789012:my-own: what is in the stack's ledger" in ran.err
    )
    assert "alerts: terminal, sns" in ran.err
    delivered = [entry.body for entry in stack.entries(volume_id) if entry.kind == "delivered"]
    assert {"sns", "terminal"} == {body["channel"] for body in delivered}


def test_what_waits_in_the_stacks_ledger_is_not_sent_elsewhere_by_a_flip(desk, lab, stack):
    volume_id = add_critical(lab)
    desk.set(BURSTWATCH_TOPIC_ARN="arn:aws:sns:us-east-1:123456789012:my-own")
    stack.commit([], channels=["sns"])

    ran = desk.run("flip", volume_id, "--yes")

    assert ran.code == 0
    assert [delivery.alert.kind for delivery in stack.waiting(channels=["sns"])] == ["VolumeFlipped"]


@pytest.mark.parametrize("arguments", [["--once"], ["--passes", "1"]])
def test_a_watch_that_does_not_act_takes_nothing_from_the_stack(desk, lab, stack, arguments):
    add_exhausted(lab, tags=AUTO)

    ran = desk.run("watch", *arguments)

    assert (
        "stack: burstwatch is deployed and goes on by itself; this watch does not act, so it keeps a ledger"
        " of its own"
    ) in ran.err
    assert "policy: /burstwatch/burstwatch/policy (stack burstwatch)" in ran.err
    assert f"ledger: sqlite:{desk.ledger_path} (new)" in ran.err
    assert (stack.states(), stack.roster()) == ({}, None)
    tick_s = int(lab.clock.now_s()) // 60 * 60
    assert stack.claim_tick(TickKind.FOCUS, tick_s, now_s=tick_s, lease_s=60)


def test_a_watch_that_is_told_to_use_the_ledger_and_not_to_act_is_warned(desk, lab, stack, topic):
    ran = desk.run("watch", "--once", "--ledger", TABLE)

    assert (
        "careful: this watch takes ticks from the watchdog of stack burstwatch and flips nothing" in ran.err
    )


def test_the_fleet_cap_counts_what_the_deployed_watchdog_has_flipped(desk, lab, stack):
    put(lab.client("ssm"), "/burstwatch/burstwatch/policy", "version: 1\nflip:\n  fleet_cap: 1\n")
    first, second = add_exhausted(lab, "a"), add_exhausted(lab, "b")
    assert desk.run("flip", first, "--yes").code == 0

    ran = desk.run("flip", second, "--yes")

    assert ran.code == 4
    assert "fleet_cap" in ran.out


def test_a_pushed_policy_is_in_force_before_the_deployed_one(desk, lab, stack):
    push_by_hand(lab, THIRTY)
    add_calm(lab)

    ran = desk.run("policy", "show")

    assert ran.err == "policy: /burstwatch/burstwatch/policy-pushed (stack burstwatch)\n"
    assert "warning_within: 30m" in ran.out
    assert "policy: /burstwatch/burstwatch/policy-pushed (stack" in desk.run("assess").err
    assert desk.run("policy", "check").out == "/burstwatch/burstwatch/policy-pushed: OK\n"


def test_a_deploy_under_a_pushed_policy_is_said(desk, lab, stack):
    push_by_hand(lab, THIRTY)
    a_stack(lab, policy="version: 1\nlevels:\n  warning_within: 50m\n")

    ran = desk.run("policy", "show")

    assert "warning_within: 30m" in ran.out
    assert "it was pushed over another deployed one than today's" in ran.err


def test_a_bad_policy_in_force_is_told_with_its_lines_and_a_way_on(desk, lab, stack):
    push_by_hand(lab, "version: 1\nlevels:\n  warning_within: soon\n")
    (desk.directory / "mine.yaml").write_text(PLAIN)

    checked, ran = desk.run("policy", "check"), desk.run("assess")

    assert checked.code == ran.code == 2
    fault = "/burstwatch/burstwatch/policy-pushed:4: levels.warning_within: 'soon' is not a span"
    assert fault in checked.out
    assert fault in ran.err
    assert desk.run("assess", "--policy", "mine.yaml").code == 0


@pytest.mark.parametrize("words", [("hold", "--all", "--for", "1h", "--reason", "x"), ("release", "--all")])
def test_the_kill_switch_needs_no_policy_to_work(desk, lab, stack, words):
    push_by_hand(lab, "version: 1\nlevels:\n  warning_within: soon\n")
    ran = desk.run(*words)
    assert ran.code == 0
    assert "cannot be used, and is not needed for this" in ran.err


def test_a_policy_that_is_gone_is_misuse_with_a_way_on(desk, lab, stack):
    lab.client("ssm").delete_parameter(Name="/burstwatch/burstwatch/policy")

    ran = desk.run("assess")

    assert ran.code == 2
    assert the_complaint(ran) == (
        "the policy of stack burstwatch is gone: neither /burstwatch/burstwatch/policy nor"
        " /burstwatch/burstwatch/policy-pushed is there; put one in force with burstctl policy push FILE;"
        " to go on with another: --policy FILE"
    )


def test_a_policy_that_may_not_be_read_is_no_other_policy(desk, lab, stack):
    message = (
        "User: arn:aws:iam::123456789012:user/ann is not authorized to perform: ssm:GetParameters on"
        " resource: arn:aws:ssm:us-east-1:123456789012:parameter/burstwatch/burstwatch/policy because no"
        " identity-based policy allows the ssm:GetParameters action"
    )
    lab.faults.add(Fault(action="GetParameters", code="AccessDeniedException", message=message))

    ran = desk.run("assess")

    assert ran.code == 1
    assert "user/ann may not call ssm:GetParameters on arn:aws:ssm" in the_complaint(ran)
    assert the_complaint(ran).endswith("to go on with another: --policy FILE.")


def test_what_is_named_comes_before_the_stack(desk, lab, stack):
    (desk.directory / "mine.yaml").write_text(THIRTY)
    add_calm(lab)

    ran = desk.run("assess", "--ledger", "sqlite:mine", "--policy", "mine.yaml")
    assert "policy: mine.yaml (--policy)" in ran.err
    desk.set(BURSTWATCH_LEDGER=f"sqlite:{desk.directory}/env")
    ran = desk.run("assess")

    assert f"ledger: sqlite:{desk.directory}/env (none yet)" in ran.err
    assert (
        f"stack: burstwatch is deployed and does not hear of what is in this ledger; its own: {TABLE}"
        in ran.err
    )


def test_the_policy_here_does_not_count_where_a_stack_is_deployed(desk, lab, stack):
    (desk.directory / "policy.yaml").write_text(THIRTY)

    assert desk.run("policy", "show", "--json").document["levels"]["warning_within"] == "1h"
    assert desk.run("policy", "check", "policy.yaml").out == "policy.yaml: OK\n"


def test_of_several_stacks_the_first_stands(desk, lab):
    a_stack(lab, "zebra")
    lab.clock.advance(60)
    a_stack(lab, "antelope")
    add_calm(lab)

    ran = desk.run("assess")

    assert "stacks: zebra was deployed first and may flip; only proposing: antelope" in ran.err
    assert "ledger: dynamodb:zebra-ledger" in ran.err
    shown = desk.run("policy", "show", "--stack", "antelope")
    assert shown.err == "policy: /burstwatch/antelope/policy (stack antelope)\n"


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault(action="GetParametersByPath", code="AccessDeniedException", status=400), "may not call"),
        (Fault(action="GetParametersByPath", kind="throttle"), "AWS limits how often this may be called"),
        (Fault(action="GetParametersByPath", kind="reset"), "closed the connection before it answered"),
        (Fault(action="GetParametersByPath", code="InternalServerError", status=500), "a fault of its own"),
    ],
)
def test_where_nobody_tells_of_stacks_the_file_is_used_and_that_is_said(
    desk, lab, stack, monkeypatch, fault, said
):
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    lab.faults.add(fault)

    add_calm(lab)

    ran = desk.run("assess")

    assert ran.code == 0
    assert ran.err.startswith(
        "stack: whether one is deployed is not known; if one is, it does not hear of what is done here"
        " (--ledger dynamodb:TABLE names the ledger of one): ssm:GetParametersByPath failed"
    )
    assert said in ran.err
    assert f"ledger: sqlite:{desk.ledger_path}" in ran.err


@pytest.mark.parametrize("what", ["--all", "a volume"])
@pytest.mark.parametrize("trouble", ["denied", "a card that cannot be read"])
def test_a_hold_that_might_not_reach_the_stack_is_not_placed(desk, lab, stack, what, trouble):
    volume_id = add_calm(lab)
    if trouble == "denied":
        lab.faults.add(Fault(action="GetParametersByPath", code="AccessDeniedException", status=400))
    else:
        a_stack(lab, schema="burstwatch.deployment/v9")

    ran = hold(desk, "--all" if what == "--all" else volume_id)

    assert (ran.code, ran.out) == (1, "")
    said = " ".join(ran.err.split())
    assert said.count("so this hold might not reach it. Nothing was held.") == 1
    assert "cause: " in said
    assert "fix: remove the cause; or name the ledger, --ledger dynamodb:TABLE" in said
    assert "does not hear" not in said
    refusal = ran.err[ran.err.index("burstctl: ") :].splitlines()
    assert max(map(len, refusal)) <= 80
    assert stack.holds(lab.clock.now_s()) == []
    assert not desk.ledger_path.exists()


@pytest.mark.parametrize("command", ["hold", "release"])
@pytest.mark.parametrize("trouble", ["none", "denied"])
def test_a_variable_is_no_reason_to_miss_the_stack(desk, lab, stack, command, trouble):
    desk.set(BURSTWATCH_LEDGER="sqlite:mine.sqlite")
    if trouble == "denied":
        lab.faults.add(Fault(action="GetParametersByPath", code="AccessDeniedException", status=400))

    ran = hold(desk, "--all") if command == "hold" else desk.run("release", "--all")

    said = " ".join(ran.err.split())
    assert (ran.code, ran.out) == (1, "")
    expected = (
        "cannot determine whether a watchdog" if trouble == "denied" else "stack burstwatch is deployed in"
    )
    assert expected in the_complaint(ran)
    assert trouble == "denied" or "fix: unset BURSTWATCH_LEDGER; or, for a watch that uses" in said
    assert not (desk.directory / "mine.sqlite").exists()


def test_a_variable_that_names_the_stacks_ledger_is_no_obstacle(desk, lab, stack):
    desk.set(BURSTWATCH_LEDGER=TABLE)

    assert hold(desk, "--all").code == 0
    assert len(stack.holds(lab.clock.now_s())) == 1


def test_a_hold_names_the_account_region_and_stack_that_it_reaches(desk, lab, stack):
    ran = hold(desk, "--all")
    other = hold(desk, "--all", "--ledger", f"sqlite:{desk.ledger_path}", "--policy", "none.yaml")
    document = desk.run("hold", "--all", "--for", "6h", "--reason", "x", "--json").document

    said, elsewhere = " ".join(ran.out.split()), " ".join(other.out.split())
    assert "This reaches stack burstwatch in us-east-1 (account 123456789012)." in said
    assert "Other regions are not affected." in said
    assert "and NOT stack burstwatch, which is deployed there." in elsewhere
    assert elsewhere.startswith("Automatic changes by watchdogs that use this ledger are on hold for 6 h")
    assert [document[key] for key in ("region", "account", "stack", "ledger")] == [
        "us-east-1", "123456789012", "burstwatch", TABLE,
    ]  # fmt: skip


def test_a_parameter_store_that_is_silent_holds_nobody_up_for_long(desk, lab, monkeypatch):
    patient = bootstrap._SOON
    attempts = patient.retries["total_max_attempts"]
    assert (patient.connect_timeout + patient.read_timeout) * attempts <= 16
    monkeypatch.setattr(bootstrap, "_SOON", patient.merge(Config(read_timeout=0.1)))
    lab.faults.set_latency(60_000, "GetParametersByPath")
    add_calm(lab)

    ran = desk.run("assess")

    assert ran.code == 0
    assert "took the request but did not answer in time" in ran.err


def test_the_ledger_of_a_stack_can_be_named(desk, lab, stack):
    add_calm(lab)
    lab.faults.add(Fault(action="GetParametersByPath", code="AccessDeniedException"))

    ran = hold(desk, "--all", "--ledger", TABLE)

    assert ran.code == 0
    assert "if one is, its policy is not used (--policy FILE names one)" in ran.err
    assert len(stack.holds(lab.clock.now_s())) == 1


def test_a_table_that_is_not_there(desk, lab):
    ran = desk.run("assess", "--ledger", "dynamodb:elsewhere")

    assert ran.code == 1
    assert the_complaint(ran) == (
        "ledger dynamodb:elsewhere does not exist in us-east-1: deploy the stack that makes it, or check"
        " --ledger, the region and the account"
    )


@pytest.mark.parametrize(
    "arguments", [["assess"], ["watch", "--once"], ["hold", "--all", "--for", "1h", "--reason", "x"]]
)
def test_a_table_that_is_no_ledger(desk, lab, arguments):
    lab.client("dynamodb").create_table(
        TableName="orders",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "order_id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "order_id", "AttributeType": "S"}],
    )
    try:
        ran = desk.run(*arguments, "--ledger", "dynamodb:orders")
    finally:
        lab.client("dynamodb").delete_table(TableName="orders")

    assert ran.code == 1
    assert the_complaint(ran).startswith(
        "ledger dynamodb:orders is a table of something else: it has other keys"
    )


def test_a_table_that_may_not_be_read(desk, lab, stack):
    message = (
        "User: arn:aws:iam::123456789012:user/ann is not authorized to perform: dynamodb:GetItem on"
        " resource: arn:aws:dynamodb:us-east-1:123456789012:table/burstwatch-ledger because no"
        " identity-based policy allows the dynamodb:GetItem action"
    )
    for action in ("GetItem", "Query", "BatchGetItem"):
        lab.faults.add(Fault(action=action, code="AccessDeniedException", message=message))

    ran = desk.run("assess")

    assert ran.code == 1
    assert the_complaint(ran).startswith(f"ledger {TABLE} cannot be used: dynamodb:")
    assert "user/ann may not call dynamodb:GetItem on arn:aws:dynamodb" in the_complaint(ran)
    assert "grant dynamodb:GetItem to it" in the_complaint(ran)


def test_the_ledger_of_another_account_is_refused(desk, lab, stack):
    stack.bind("account 210987654321 in us-east-1")

    ran = hold(desk, "--all")

    assert ran.code == 1
    assert f"ledger {TABLE} is that of account 210987654321 in us-east-1" in the_complaint(ran)


def test_a_name_that_no_table_can_have_is_misuse(desk, lab):
    ran = desk.run("assess", "--ledger", "dynamodb:my table")

    assert ran.code == 2
    assert the_complaint(ran).startswith("'my table' is no name of a DynamoDB table: write 3 to 255 of")


@pytest.mark.parametrize(
    "changes", [{"schema": "burstwatch.deployment/v9"}, {"ledger": "paper"}, {"opt_in_tag": "auto"}]
)
def test_a_card_that_cannot_be_read_is_said_and_the_file_is_used(desk, lab, changes):
    a_stack(lab, **changes)
    add_calm(lab)

    ran = desk.run("assess")

    assert ran.code == 0
    assert ran.err.startswith("stack: the ")
    assert "(--ledger dynamodb:TABLE names the ledger of one)" in ran.err
    assert f"ledger: sqlite:{desk.ledger_path}" in ran.err


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
def test_a_card_that_names_a_topic_of_another_account_or_region_is_not_believed(desk, lab, topic_arn):
    a_stack(lab, topic_arn=topic_arn)
    add_calm(lab)
    ran = desk.run("assess")
    assert "names a topic that is not of this account and region" in ran.err
    assert f"ledger: sqlite:{desk.ledger_path}" in ran.err


def test_a_card_cannot_point_to_a_file_as_the_ledger(desk, lab):
    a_stack(lab, ledger="sqlite:/tmp/forged.db")
    add_calm(lab)
    ran = desk.run("assess")
    assert "names the ledger sqlite:/tmp/forged.db, and a stack's is a table" in ran.err
    assert f"ledger: sqlite:{desk.ledger_path}" in ran.err


def test_a_running_watch_takes_up_what_is_pushed_and_keeps_it_while_nobody_answers(desk, monkeypatch):
    with a_lab(desk, speed=600) as lab:
        a_stack(lab)
        add_calm(lab)
        in_force, real_run_tick = [], loop.run_tick

        def run_tick(shell, **given):
            in_force.append(str(shell.policy.levels.warning_within))
            if len(in_force) == 1:
                push_by_hand(lab, THIRTY)
            if len(in_force) == 2:
                lab.faults.add(Fault(action="GetParameters", code="AccessDeniedException", times=2))
            return real_run_tick(shell, **given)

        monkeypatch.setattr(loop, "run_tick", run_tick)

        ran = desk.run("watch", "--passes", "5")

    assert in_force == ["1:00:00", "0:30:00", "0:30:00", "0:30:00", "0:30:00"]
    assert ran.code == 0
    assert ran.err.count("the policy could not be read, the last good one stays in force") == 1
    assert "policy: /burstwatch/burstwatch/policy-pushed (stack burstwatch) is good and in force" in ran.err


def test_a_running_watch_tells_of_a_bad_policy_and_how_to_see_it(desk, monkeypatch):
    with a_lab(desk, speed=600) as lab:
        a_stack(lab)
        add_calm(lab)
        real_run_tick = loop.run_tick

        def run_tick(shell, **given):
            push_by_hand(lab, "version: 1\nlevels:\n  warning_within: soon\n")
            return real_run_tick(shell, **given)

        monkeypatch.setattr(loop, "run_tick", run_tick)

        ran = desk.run("watch", "--passes", "3")

    with desk.open_ledger() as ledger:
        told = [str(entry.kind) for entry in ledger.entries("policy")]
    assert ran.err.count("policy rejected; the last good one stays in force") == 1
    assert "burstctl policy check" in ran.err
    assert told.count("policy_rejected") == 1
