"""The stack and the functions meet by name: each side is read as text, as neither imports the other."""

import ast
import re

import pytest

from burstwatch.core.assessment import host_stall
from support.paths import ROOT
from support.stack.synthesized_stacks import default_stack, full_stack
from support.stack.template_reader import as_text

BURSTWATCH = ROOT / "lambdas" / "burstwatch"
RESERVED_VARIABLES = {"AWS_REGION"}
EXPECTED = {
    "watch": {"LEDGER", "CLOCK", "TOPIC_ARN", "POLICY", "DEPLOYMENT", "FLIP_QUEUE_URL"},
    "settle": {"LEDGER", "CLOCK", "TOPIC_ARN", "POLICY", "DEPLOYMENT", "FLIP_QUEUE_URL"},
    "probe": {"LEDGER", "CLOCK", "TOPIC_ARN", "POLICY", "DEPLOYMENT"},
    "flip": {"LEDGER", "CLOCK", "TOPIC_ARN", "POLICY", "DEPLOYMENT", "FLIP_QUEUE_URL"},
    "notify": {"LEDGER", "CLOCK", "TOPIC_ARN", "POLICY", "DEPLOYMENT", "SLACK_SECRET", "CHAT_TOPIC_ARN"},
}


def constants_of(path):
    """The texts that a module gives names to, by name."""
    return {
        node.target.id: node.value.value
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }


def variables_read():
    """Every variable of ours that the functions know."""
    sources = (
        BURSTWATCH / "wiring" / "settings.py",
        BURSTWATCH / "wiring" / "function_settings.py",
        BURSTWATCH / "wiring" / "observability.py",
    )
    return {
        value
        for path in sources
        for value in constants_of(path).values()
        if re.match(r"(BURSTWATCH|POWERTOOLS)_", value)
    }


@pytest.mark.parametrize("verb", EXPECTED)
def test_each_function_gets_the_settings_it_needs(verb):
    reported = {name for name in full_stack().environment(verb) if name.startswith("BURSTWATCH_")}
    assert reported == {f"BURSTWATCH_{name}" for name in EXPECTED[verb]}


def test_every_variable_that_the_stack_sets_is_one_that_the_functions_read():
    reported = {name for verb in EXPECTED for name in full_stack().environment(verb)}
    assert reported <= variables_read()


def test_metrics_use_the_namespace_and_dimension_of_alarms_and_dashboard():
    for verb in EXPECTED:
        environment = full_stack().environment(verb)
        assert environment["POWERTOOLS_METRICS_NAMESPACE"] == "Burstwatch"
        assert environment["POWERTOOLS_SERVICE_NAME"] == environment["BURSTWATCH_DEPLOYMENT"] == "watch-all"


def emitted_metric_names():
    """The metrics of the functions, from the enumeration that names them."""
    tree = ast.parse((BURSTWATCH / "wiring" / "observability.py").read_text())
    [names] = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Metric"]
    return {node.value.value for node in names.body if isinstance(node, ast.Assign)}


def test_every_metric_of_alarms_and_dashboard_is_emitted():
    looked_at = {
        alarm["MetricName"]
        for alarm in full_stack().of_type("AWS::CloudWatch::Alarm").values()
        if alarm.get("Namespace") == "Burstwatch"
    }
    body = as_text(full_stack().only("AWS::CloudWatch::Dashboard")["DashboardBody"])
    looked_at |= set(re.findall(r'\["Burstwatch","(\w+)","service","watch-all"', body))
    assert len(looked_at) > 10
    assert looked_at <= emitted_metric_names()


def test_every_handler_that_the_stack_names_is_there():
    for function in full_stack().of_type("AWS::Lambda::Function").values():
        *module, name = function["Handler"].split(".")
        source = (ROOT / "lambdas").joinpath(*module).with_suffix(".py").read_text()
        assert re.search(rf"^(def {name}\(|{name}\b.*=)", source, re.MULTILINE), function["Handler"]


def test_the_part_of_the_table_that_notify_may_use_is_the_one_that_it_uses():
    sent = constants_of(BURSTWATCH / "adapters" / "notify" / "idempotency.py")
    assert sent["PARTITION"] == "sent"
    [statement] = [s for s in default_stack().statements()["NotifyRole"] if s["Sid"] == "RememberWhatWasSent"]
    assert statement["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"] == ["sent*"]
    expiry = default_stack().only("AWS::DynamoDB::GlobalTable")["TimeToLiveSpecification"]
    assert expiry == {"AttributeName": sent["EXPIRY_ATTRIBUTE"], "Enabled": True}


def test_the_deployment_list_is_where_functions_read_it():
    deployments = constants_of(BURSTWATCH / "adapters" / "policy" / "deployments.py")
    names = {p["Name"] for p in default_stack().of_type("AWS::SSM::Parameter").values()}
    assert f"{deployments['DEPLOYMENTS_PATH']}/burstwatch" in names
    [card] = [
        p["Value"]
        for p in default_stack().of_type("AWS::SSM::Parameter").values()
        if "deployments" in p["Name"] and not p["Name"].endswith("/since")
    ]
    assert f'"schema":"{deployments["SCHEMA"]}"' in as_text(card)


def test_probe_events_match_the_settle_handler():
    from infra import event_rules  # noqa: PLC0415 - it imports the CDK, which takes seconds

    handler_names = constants_of(BURSTWATCH / "handlers" / "settle.py")
    source = handler_names["PROBE_SOURCE"]
    assert handler_names["LOW_CREDITS_EVENT"] == event_rules.LOW_CREDITS_EVENT
    patterns = [
        rule["EventPattern"]["source"] for rule in default_stack().of_type("AWS::Events::Rule").values()
    ]
    assert [source] in patterns
    for infra_name, handler_name in (
        ("PROBE_SCHEMA", "SCHEMA"),
        ("VERDICTS", "VERDICTS"),
        ("CAUSES", "CAUSES"),
    ):
        assert getattr(event_rules, infra_name) == getattr(host_stall, handler_name)


def test_a_pushed_policy_may_be_read_where_burstctl_puts_it():
    suffix = constants_of(BURSTWATCH / "adapters" / "policy" / "parameter_name.py")["_PUSHED_SUFFIX"]
    [statement] = [s for s in default_stack().statements()["WatchRole"] if s["Sid"] == "ReadPolicy"]
    policy = default_stack().environment("watch")["BURSTWATCH_POLICY"]
    assert [as_text(r).partition(":parameter")[2] for r in statement["Resource"]] == [
        policy,
        f"{policy}{suffix}",
    ]
