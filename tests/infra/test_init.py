"""burstctl init: what it writes is a stage that synthesizes, and what it shows is what that stage deploys."""

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from burstctl.init.answers import Answers, parse_kinds, parse_recipients, parse_regions
from burstctl.init.files import POLICY_FILE, make_policy
from burstctl.init.preview import count_resources
from burstctl.init.stack_summary import SUMMARY_FILE, read_summary
from burstwatch.adapters.policy.yaml_file import read_policy
from burstwatch.core.resource_type import ResourceType
from infra.config import Recipients, StageError, read_stage
from infra.permissions import READS_OF_KINDS
from infra.plain_parameters import check_stage, parameters_of
from infra.policy import read_configuration
from support.bench_loader import load_bench
from support.cli.init_files import ALERTS_ONLY, write
from support.stack.synthesized_stacks import default_stack
from support.stack.template_reader import as_list


def test_its_files_are_taken_by_the_plain_template_unless_they_name_several_regions(tmp_path):
    stage, _ = read_configuration(write(tmp_path, ALERTS_ONLY))
    check_stage(stage)
    emails = {parameter.name: parameter.default for parameter in parameters_of(stage)}
    assert (emails["Email1"], emails["Email2"]) == ("oncall@example.com", "storage@example.com")

    several = replace(ALERTS_ONLY, regions=("eu-central-1", "us-east-1"))
    with pytest.raises(StageError, match="regions: a template is deployed into the Region of its bucket"):
        check_stage(read_configuration(write(tmp_path, several))[0])


def summarise(stack):
    """What init shows of a stack, as ``stack.json`` has it."""
    bench = load_bench("cost/stack_cost")
    kinds = [resource["Type"] for resource in stack.template["Resources"].values()]
    billed = bench.count_resources(stack.template)
    statements = [statement for role in stack.statements().values() for statement in role]
    anywhere = {action for s in statements if s["Resource"] == "*" for action in as_list(s["Action"])}
    opted_in = {
        action
        for s in statements
        if any("ec2:ResourceTag/" in key for test in s.get("Condition", {}).values() for key in test)
        for action in as_list(s["Action"])
    }
    every_action = {action for s in statements for action in as_list(s["Action"])}
    return {
        "resource_counts": {kind: kinds.count(kind) for kind in sorted(set(kinds))},
        "billed": {name: getattr(billed, name) for name in billed.__dataclass_fields__},
        "metrics": len(bench.quiet_tick_metrics()),
        "actions_anywhere": sorted(anywhere),
        "actions_on_opted_in_volumes": sorted(opted_in),
        "actions_on_own_resources": sorted(every_action - anywhere - opted_in),
    }


def test_what_init_shows_is_what_the_stacks_consist_of(alerts_only_stack, pytestconfig):
    alerts_only = summarise(alerts_only_stack)
    alerts_only["resource_counts"]["AWS::SNS::Subscription"] -= len(ALERTS_ONLY.emails)
    actions_of_kinds = {
        kind: sorted({action for permission in permissions for action in permission.actions})
        for kind, permissions in READS_OF_KINDS.items()
    }
    summaries = {
        "alerts_only": alerts_only,
        "flips": summarise(default_stack()),
        "actions_of_kinds": actions_of_kinds,
    }
    text = json.dumps(summaries, indent=2) + "\n"
    if pytestconfig.getoption("--rewrite"):
        SUMMARY_FILE.write_text(text)
    assert text == SUMMARY_FILE.read_text(), "the stack has changed: `pytest tests/infra --rewrite`"


def test_every_recipient_is_counted(alerts_only_stack):
    counts = count_resources(ALERTS_ONLY, read_summary(flips=False))
    assert counts == summarise(alerts_only_stack)["resource_counts"]


def test_a_stack_that_only_alerts_may_modify_nothing_and_costs_less():
    alerts_only, flips = read_summary(flips=False), read_summary(flips=True)
    assert alerts_only.actions_on_opted_in_volumes == ()
    assert flips.actions_on_opted_in_volumes == ("ec2:ModifyVolume",)
    assert alerts_only.usd_per_month(100)[0] < flips.usd_per_month(100)[0]
    assert set(alerts_only.actions_anywhere) <= set(flips.actions_anywhere)


def test_every_action_on_all_resources_only_reads():
    for action in read_summary(flips=True).actions_anywhere:
        assert action.split(":")[1].startswith(("Describe", "Get"))


def test_the_bill_is_that_of_the_documents():
    # docs/deploying.md: $13.71 for 100 volumes at list price, $5.65 after the free tier
    assert read_summary(flips=True).usd_per_month(100) == pytest.approx((13.71, 5.65), abs=0.005)


emails = st.from_regex(r"\A[a-z0-9._%+'!#-]{1,20}@[a-z0-9][a-z0-9.-]{0,20}\.[a-z]{2,4}\Z")
secrets = st.from_regex(r"\A[A-Za-z0-9/_+=.@-]{1,20}\Z")
regions = st.sampled_from(["us-east-1", "eu-central-1", "ap-southeast-4", "me-south-1"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(emails, max_size=3, unique=True),
    st.none() | secrets,
    st.lists(regions, max_size=3, unique=True),
    st.lists(st.sampled_from(list(ResourceType)), min_size=1, unique=True),
    st.booleans(),
    st.sampled_from(["0", "200", "99.5"]),
    st.sampled_from(["always", "mon-fri 08:00-18:00 Europe/Berlin", "sat,sun 00:00-24:00 UTC"]),
)
@example(["no@example.com"], "true", ["eu-central-1"], ["ebs"], True, "1", "always")
@example(["1e3@example.com"], "0123", [], ["ebs", "rds"], True, "1", "always")
def test_whatever_init_accepts_is_read_back_as_it_was_meant(
    tmp_path, addresses, secret, names, kinds, flips, spend_cap, change_hours
):
    entries = [*addresses, *([f"slack:{secret}"] if secret else [])]
    if not entries:
        return
    recipients = parse_recipients(", ".join(entries))
    answers = Answers(
        emails=recipients[0],
        slack_secret=recipients[1],
        regions=parse_regions(" ".join(names)),
        kinds=parse_kinds(",".join(kinds)),
        flips=flips,
        spend_cap=spend_cap,
        change_hours=change_hours,
    )
    path = write(tmp_path, answers)
    stage, faults = read_stage(path)
    assert faults == []
    assert stage.recipients == Recipients(emails=tuple(addresses), slack_secret=secret)
    assert (stage.regions, stage.flips, set(stage.resources)) == (tuple(names), flips, set(kinds))
    policy = read_policy(tmp_path / POLICY_FILE)
    assert policy == make_policy(answers)
    assert set(policy.resources.watched) == set(kinds)
    assert policy.mode.highest == ("auto" if flips else "propose")
    assert read_configuration(path)[1].document == (tmp_path / POLICY_FILE).read_text()
