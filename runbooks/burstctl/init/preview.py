"""What ``burstctl init`` shows: what would be deployed, with which permissions, at what price."""

import shlex
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from burstctl.cli.text_layout import Topic, lay_out_topics
from burstctl.init.answers import Answers
from burstctl.init.files import POLICY_FILE, STAGE_FILE, make_policy
from burstctl.init.monthly_cost import max_usd_per_resource
from burstctl.init.stack_summary import StackSummary
from burstwatch.core.text import format_usd

if TYPE_CHECKING:
    from documents.init import InitCostDocument, InitDocument

SCHEMA: Final = "burstwatch.init/v1"
_FLEETS: Final = (100, 1_000)
_SUBSCRIPTION: Final = "AWS::SNS::Subscription"
_NAMED_TYPES: Final = {
    "AWS::Lambda::Function": "Lambda functions",
    "AWS::CloudWatch::Alarm": "CloudWatch alarms",
    "AWS::CloudWatch::Dashboard": "dashboard",
    "AWS::Scheduler::Schedule": "schedules",
    "AWS::SQS::Queue": "SQS queues",
    "AWS::SNS::Topic": "SNS topic",
    "AWS::KMS::Key": "KMS key",
    "AWS::DynamoDB::GlobalTable": "DynamoDB table",
}
"""The resources that people ask about; the others are roles, policies, logs and connections between these."""


def count_resources(answers: Answers, summary: StackSummary) -> dict[str, int]:
    """The resources of each stack by type: an e-mail address is one more subscription."""
    counts = dict(summary.resource_counts)
    counts[_SUBSCRIPTION] = counts.get(_SUBSCRIPTION, 0) + len(answers.emails)
    return counts


def describe_deployment(answers: Answers, summary: StackSummary) -> str:
    """What would be deployed, in words."""
    counts = count_resources(answers, summary)
    named = ", ".join(f"{counts[kind]} {noun}" for kind, noun in _NAMED_TYPES.items() if counts.get(kind))
    topics: list[Topic] = [
        (
            "Creates",
            [f"{sum(counts.values())} resources in {_places(answers)}: {named}, and what connects them"],
        ),
        ("May", _permission_sentences(answers, summary)),
        ("Costs", _cost_sentences(answers, summary)),
    ]
    return lay_out_topics("What a deployment creates, may do and costs:", topics)


def next_commands(answers: Answers, directory: Path) -> list[str]:
    """What to run next, in this order; a relative path may mean the repository's policy in a checkout."""
    commands = [
        f"aws secretsmanager create-secret --region {region} --name {answers.slack_secret} --secret-string"
        " file://webhook.txt"
        for region in (answers.regions if answers.slack_secret else ())
    ]
    stage, policy = (shlex.quote(str((directory / name).absolute())) for name in (STAGE_FILE, POLICY_FILE))
    return [*commands, f"burstctl policy check {policy}", f"cdk deploy --all -c stage={stage}"]


def init_document(
    answers: Answers, summary: StackSummary, directory: Path, overwritten: frozenset[Path]
) -> "InitDocument":
    """All of it for programs."""
    costs: list[InitCostDocument] = []
    for volumes in _FLEETS:
        list_price, after_free_tier = summary.usd_per_month(volumes)
        costs.append(
            {
                "volumes": volumes,
                "usd_per_month": round(list_price, 2),
                "usd_per_month_after_free_tier": round(after_free_tier, 2),
            }
        )
    paths = (directory / POLICY_FILE, directory / STAGE_FILE)
    policy = make_policy(answers)
    return {
        "schema": SCHEMA,
        "files": [{"path": str(path), "overwritten": path in overwritten} for path in paths],
        "emails": list(answers.emails),
        "slack_secret": answers.slack_secret,
        "regions": list(answers.regions),
        "watch": list(map(str, answers.kinds)),
        "flips": answers.flips,
        "spend_cap_usd_per_month": policy.flip.spend_cap_usd if answers.flips else None,
        "change_hours": answers.change_hours if answers.flips else None,
        "resources_by_type": count_resources(answers, summary),
        "actions_anywhere": sorted({*summary.actions_anywhere, *chain(*summary.actions_of_kinds.values())}),
        "actions_on_opted_in_volumes": list(summary.actions_on_opted_in_volumes),
        "actions_on_own_resources": _own_actions(answers, summary),
        "costs_per_region": costs,
        "usd_per_month_per_resource": {
            str(kind): round(usd, 4) for kind, usd in max_usd_per_resource(answers.kinds).items()
        },
        "next_commands": next_commands(answers, directory),
    }


def _own_actions(answers: Answers, summary: StackSummary) -> list[str]:
    """The actions on resources of the stack; a webhook adds one on its secret."""
    read_secret = {"secretsmanager:GetSecretValue"} if answers.slack_secret else set()
    return sorted({*summary.actions_on_own_resources, *read_secret})


def _places(answers: Answers) -> str:
    if not answers.regions:
        return "the Region of your credentials"
    if len(answers.regions) == 1:
        return answers.regions[0]
    return f"each of {', '.join(answers.regions)}"


def _permission_sentences(answers: Answers, summary: StackSummary) -> list[str]:
    key, value = make_policy(answers).mode.opt_in_tag
    own_count = len(_own_actions(answers, summary))
    modify = (
        f"modify only volumes tagged {key}={value}: {', '.join(summary.actions_on_opted_in_volumes)}"
        if summary.actions_on_opted_in_volumes
        else "modify no volume"
    )
    return [
        f"read everywhere: {', '.join(summary.actions_anywhere)}",
        *(
            f"for {kind.noun}s, also: {', '.join(actions)}"
            for kind, actions in summary.actions_of_kinds.items()
            if actions
        ),
        modify,
        f"use its own queues, table, topic, parameters and logs: {own_count} other actions",
    ]


def _cost_sentences(answers: Answers, summary: StackSummary) -> list[str]:
    sentences = []
    for volumes in _FLEETS:
        list_price, after_free_tier = summary.usd_per_month(volumes)
        sentences.append(
            f"{format_usd(list_price)} a month for {volumes:,} calm volumes of up to 100 GiB"
            f" ({format_usd(after_free_tier)} after AWS's free tier)"
        )
    sentences += [
        f"{kind.noun}s: at most {format_usd(usd)} a month for each calm one, and nothing for what provably"
        " cannot drain"
        for kind, usd in max_usd_per_resource(answers.kinds).items()
    ]
    if len(answers.regions) > 1:
        sentences.append("in each Region")
    if answers.slack_secret:
        sentences.append("$0.40 a month for the secret")
    if answers.flips:
        spend_cap = make_policy(answers).flip.spend_cap_usd
        sentences.append(
            f"flips: each plan shows its price; at most {format_usd(spend_cap)} a month together"
        )
    return sentences
