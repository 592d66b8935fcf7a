"""The stack as a plain CloudFormation template, for accounts in which the CDK is not bootstrapped.

It is made of the CDK's templates of the stack with everything, and of the stack without each option.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from aws_cdk import App, DefaultStackSynthesizer

from infra.conditional_template import Variant, merge_templates
from infra.config import LOG_RETENTION_DAYS, MAX_BALANCE_PCT, ROOT, Recipients, StageConfig
from infra.dependencies import PLATFORMS
from infra.plain_parameters import KINDS, MAX_EMAILS, parameter_groups, parameters_of
from infra.policy import DeployedPolicy
from infra.watchdog_stack import WatchdogStack

_CONTEXT: Final[Mapping[str, Any]] = {
    **json.loads((ROOT / "cdk.json").read_text())["context"],
    "aws:cdk:disable-asset-staging": True,
}
"""The CDK's settings, as ``cdk deploy`` has them.

The archives are written elsewhere; a copy of what is in them for each stack would take a minute.
"""

# The stack is synthesized with these in place of the values, and they are replaced by references afterwards.
# So none of its code handles values that are known only when the template is deployed.
_PLACEHOLDER: Final = re.compile(r"PARAMETER-(\w+)-VALUE")
_PLACEHOLDER_IN_ID: Final = re.compile(r"PARAMETER(\w+?)VALUE[0-9A-F]{8}$")
"""The same in the CDK's name for a resource, which is followed by a hash."""

_LOG_RETENTION, _LOWEST_BALANCE = LOG_RETENTION_DAYS[-1], MAX_BALANCE_PCT - 1
_ARCHITECTURE: Final = next(iter(PLATFORMS))
_BOUNDARY: Final = "arn:aws:iam::aws:policy/placeholder"
_WHOLE_VALUES: Final[Mapping[Any, str]] = {
    _LOG_RETENTION: "LogRetentionDays",
    _LOWEST_BALANCE: "LowestBurstBalance",
    _ARCHITECTURE: "Architecture",
    _BOUNDARY: "PermissionsBoundary",
}


def _placeholder(parameter: str) -> str:
    return f"PARAMETER-{parameter}-VALUE"


_EMAILS: Final = tuple(_placeholder(f"Email{number}") for number in range(1, MAX_EMAILS + 1))
_EVERYTHING: Final = StageConfig(
    name=_placeholder("Name"),
    resources=("ebs", *KINDS),
    recipients=Recipients(emails=_EMAILS, slack_secret=_placeholder("SlackSecret"), chat=True),
    lowest_burst_balance_pct=_LOWEST_BALANCE,
    log_retention_days=_LOG_RETENTION,
    tracing=True,
    architecture=_ARCHITECTURE,
    permissions_boundary=_BOUNDARY,
)
"""The stage that has everything which a parameter can switch off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Option:
    """Something that a parameter switches off; ``without`` is the stage that lacks it."""

    name: str
    without: StageConfig
    condition: Mapping[str, Any]
    members: frozenset[str] = frozenset()


def _options() -> Iterator[_Option]:
    def is_true(name: str) -> dict[str, Any]:
        return {"Fn::Equals": [{"Ref": name}, "true"]}

    def is_given(name: str, *, none: str = "") -> dict[str, Any]:
        return {"Fn::Not": [{"Fn::Equals": [{"Ref": name}, none]}]}

    def without(**changes: Any) -> StageConfig:
        return replace(_EVERYTHING, **changes)

    def without_recipient(**changes: Any) -> StageConfig:
        return without(recipients=replace(_EVERYTHING.recipients, **changes))

    def without_kinds(*kinds: str) -> StageConfig:
        return without(resources=tuple(kind for kind in _EVERYTHING.resources if kind not in kinds))

    def any_of(name: str, *kinds: str) -> _Option:
        members = [_has(KINDS[kind][0]) for kind in kinds]
        return _Option(
            name=name,
            without=without_kinds(*kinds),
            condition={"Fn::Or": [{"Condition": member} for member in members]},
            members=frozenset(members),
        )

    for kind, (name, _) in KINDS.items():
        yield _Option(name=_has(name), without=without_kinds(kind), condition=is_true(name))
    types, others = any_of("ReadsInstanceTypes", "instance", "rds"), any_of("WatchesOtherResources", *KINDS)
    yield types
    yield replace(others, members=others.members | {types.name})
    for name in ("Flips", "Schedule", "Dashboard", "Tracing"):
        yield _Option(name=_has(name), without=without(**{name.lower(): False}), condition=is_true(name))
    for email in _EMAILS:
        name = _PLACEHOLDER.sub(r"\1", email)
        rest = tuple(other for other in _EMAILS if other != email)
        yield _Option(name=_has(name), without=without_recipient(emails=rest), condition=is_given(name))
    yield _Option(
        name=_has("SlackSecret"),
        without=without_recipient(slack_secret=None),
        condition=is_given("SlackSecret"),
    )
    yield _Option(
        name=_has("ChatTopic"), without=without_recipient(chat=False), condition=is_true("ChatTopic")
    )
    yield _Option(
        name=_has("LowestBurstBalance"),
        without=without(lowest_burst_balance_pct=None),
        condition=is_given("LowestBurstBalance", none="0"),
    )
    yield _Option(
        name=_has("PermissionsBoundary"),
        without=without(permissions_boundary=None),
        condition=is_given("PermissionsBoundary"),
    )
    yield _Option(
        name="MakesLedger",
        without=without(ledger=_placeholder("ExistingLedger")),
        condition={"Fn::Equals": [{"Ref": "ExistingLedger"}, ""]},
    )


def _has(parameter: str) -> str:
    return f"Has{parameter}"


def make_template(stage: StageConfig, policy: DeployedPolicy, archives: Mapping[str, str]) -> dict[str, Any]:
    """The template; ``archives`` are the file names of ``functions`` and ``layer``."""
    options = list(_options())
    base = _synthesize(_EVERYTHING, policy)
    variants = [
        Variant(condition=option.name, value=_synthesize(option.without, policy), members=option.members)
        for option in options
    ]
    merged = merge_templates(base, variants)
    parameters = parameters_of(stage)
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": base["Description"],
        "Metadata": {"AWS::CloudFormation::Interface": parameter_groups(parameters)},
        "Parameters": {parameter.name: parameter.as_template() for parameter in parameters},
        "Conditions": {option.name: option.condition for option in options} | merged["Conditions"],
        "Resources": _with_references(_with_archives(_with_names(merged["Resources"]), archives)),
        "Outputs": _with_references(merged["Outputs"]),
    }


def _synthesize(stage: StageConfig, policy: DeployedPolicy) -> dict[str, Any]:
    """The template of a stage as the CDK has it, without what only the CDK's own command needs."""
    with TemporaryDirectory() as folder:
        app = App(outdir=folder, context=dict(_CONTEXT))
        synthesizer = DefaultStackSynthesizer(generate_bootstrap_version_rule=False)
        stack = WatchdogStack(app, "burstwatch", stage=stage, policy=policy, synthesizer=synthesizer)
        app.synth()
        template: dict[str, Any] = json.loads(Path(folder, stack.template_file).read_text())
    for resource in template["Resources"].values():
        resource.pop("Metadata", None)
    return template


def _with_names(resources: dict[str, Any]) -> dict[str, Any]:
    """Names a resource after the parameter that it is made of; nothing refers to those."""
    return {_PLACEHOLDER_IN_ID.sub(r"\1", name): body for name, body in resources.items()}


def _with_archives(resources: dict[str, Any], archives: Mapping[str, str]) -> dict[str, Any]:
    """The functions and the layer are made of the archives in the user's bucket."""
    places = {
        "AWS::Lambda::Function": ("Code", "functions"),
        "AWS::Lambda::LayerVersion": ("Content", "layer"),
    }
    for resource in resources.values():
        if resource["Type"] in places:
            key, archive = places[resource["Type"]]
            resource["Properties"][key] = {
                "S3Bucket": {"Ref": "AssetsBucket"},
                "S3Key": {"Fn::Join": ["", [{"Ref": "AssetsPrefix"}, archives[archive]]]},
            }
    return resources


def _with_references(value: Any) -> Any:
    """Replaces the placeholders by references to the parameters."""
    if isinstance(value, dict):
        if value.keys() == {"Fn::Join"} and value["Fn::Join"][0] == "":
            pieces = [part for piece in value["Fn::Join"][1] for part in _parts(_with_references(piece))]
            return {"Fn::Join": ["", pieces]}
        return {key: _with_references(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_references(item) for item in value]
    if value in _WHOLE_VALUES:
        return {"Ref": _WHOLE_VALUES[value]}
    if isinstance(value, str):
        names = enumerate(_PLACEHOLDER.split(value))
        pieces = [{"Ref": piece} if index % 2 else piece for index, piece in names if piece]
        return pieces[0] if len(pieces) == 1 else {"Fn::Join": ["", pieces]} if pieces else ""
    return value


def _parts(piece: Any) -> list[Any]:
    """What a join in a join consists of."""
    is_join = isinstance(piece, dict) and piece.keys() == {"Fn::Join"} and piece["Fn::Join"][0] == ""
    return list(piece["Fn::Join"][1]) if is_join else [piece]
