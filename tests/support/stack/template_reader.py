"""CloudFormation templates as tests read them: resources by type, values as text, permissions as a story."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

VERBS = ("Watch", "Flip", "Settle", "Probe", "Notify")


@dataclass(frozen=True, eq=False)
class Synthesized:
    template: dict[str, Any]
    folder: Path
    names: dict[str, str] = field(default_factory=dict)

    def of_type(self, kind: str) -> dict[str, dict[str, Any]]:
        """The properties of each resource of this type, by logical id."""
        return {
            name: resource.get("Properties", {})
            for name, resource in self.template["Resources"].items()
            if resource["Type"] == kind
        }

    def only(self, kind: str) -> dict[str, Any]:
        [properties] = self.of_type(kind).values()
        return properties

    def function(self, verb: str) -> dict[str, Any]:
        """The properties of the function of this verb."""
        [result] = [
            item
            for item in self.of_type("AWS::Lambda::Function").values()
            if item["Handler"] == f"burstwatch.handlers.{verb}.handler"
        ]
        return result

    def environment(self, verb: str) -> dict[str, str]:
        variables = self.function(verb)["Environment"]["Variables"]
        return {name: as_text(value) for name, value in variables.items()}

    def statements(self) -> dict[str, list[dict[str, Any]]]:
        """What each role may do: its statements, by the construct that has the role."""
        statements_by_role: dict[str, list[dict[str, Any]]] = {}
        for policy in self.of_type("AWS::IAM::Policy").values():
            [role] = policy["Roles"]
            statements_by_role.setdefault(without_hash(role["Ref"]), []).extend(
                policy["PolicyDocument"]["Statement"]
            )
        return statements_by_role

    def asset(self, properties: dict[str, Any]) -> Path:
        """The folder that this code is made of."""
        name = properties["S3Key"].removesuffix(".zip")
        return self.folder / f"asset.{name}"


def as_text(value: Any) -> str:  # noqa: PLR0911 - one for each form
    """A value with its references, as one would write it down: ``arn:${AWS::Partition}:…``."""
    match value:
        case {"Ref": name}:
            return f"${{{without_hash(name)}}}"
        case {"Fn::GetAtt": [name, attribute]}:
            return f"${{{without_hash(name)}.{attribute}}}"
        case {"Fn::Join": [glue, parts]}:
            return glue.join(map(as_text, parts))
        case {"Fn::Select": [number, {"Fn::Split": [glue, whole]}]}:
            return f"${{part {number} of {as_text(whole)} split at {glue}}}"
        case list():
            return ", ".join(map(as_text, value))
        case dict():
            return json.dumps({key: as_text(inner) for key, inner in value.items()})
        case _:
            return str(value)


def without_hash(logical_id: str) -> str:
    """A logical id without the hash that the CDK ends it with."""
    return re.sub(r"[0-9A-F]{8}$", "", logical_id)


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def permissions_of(stack: Synthesized) -> str:
    """Every permission in the stack, as text: of roles, and of what lets others in."""
    lines: list[str] = []
    for role, properties in sorted(stack.of_type("AWS::IAM::Role").items()):
        lines += [f"role {without_hash(role)}", *_trust(properties)]
        managed = properties.get("ManagedPolicyArns", [])
        lines += [f"  managed policy {as_text(arn)}" for arn in managed]
        lines += [f"  inline policy {item['PolicyName']}" for item in properties.get("Policies", [])]
        for statement in stack.statements().get(without_hash(role), []):
            lines += _statement(statement)
        lines.append("")
    for kind, document in (
        ("AWS::KMS::Key", "KeyPolicy"),
        ("AWS::SNS::TopicPolicy", "PolicyDocument"),
        ("AWS::SQS::QueuePolicy", "PolicyDocument"),
    ):
        for name, properties in sorted(stack.of_type(kind).items()):
            lines.append(f"{kind.split('::')[1].lower()} {without_hash(name)}")
            for statement in properties[document]["Statement"]:
                lines += _statement(statement)
            lines.append("")
    for name, properties in sorted(stack.of_type("AWS::Lambda::Permission").items()):
        lines += [
            f"lambda {without_hash(name)}",
            f"  allow {properties['Action']} on {as_text(properties['FunctionName'])}",
            f"  to    {properties['Principal']} of {as_text(properties['SourceArn'])}",
            "",
        ]
    return "\n".join(lines)


def _trust(properties: dict[str, Any]) -> list[str]:
    [statement] = properties["AssumeRolePolicyDocument"]["Statement"]
    return [f"  for   {as_text(statement['Principal']['Service'])}", *_conditions(statement)]


def _statement(statement: dict[str, Any]) -> list[str]:
    effect, resources = statement["Effect"].lower(), as_list(statement["Resource"])
    assert not statement.keys() & {"NotAction", "NotResource", "NotPrincipal"}
    actions = ", ".join(as_list(statement["Action"]))
    lines = [f"  {statement.get('Sid', '(no name)')}", f"    {effect:5} {actions}"]
    lines += [f"    on    {as_text(resource)}" for resource in resources]
    if "Principal" in statement:
        lines.append(f"    to    {as_text(statement['Principal'])}")
    return lines + [f"  {line}" for line in _conditions(statement)]


def _conditions(statement: dict[str, Any]) -> list[str]:
    return [
        f"  if    {operator} {key} = {as_text(value)}"
        for operator, tests in sorted(statement.get("Condition", {}).items())
        for key, value in sorted(tests.items())
    ]


SHOWN_PROPERTIES = {
    "AWS::CloudWatch::Alarm": ("Threshold", "Period", "EvaluationPeriods", "TreatMissingData"),
    "AWS::Events::Rule": ("State",),
    "AWS::Lambda::EventInvokeConfig": ("MaximumEventAgeInSeconds", "MaximumRetryAttempts"),
    "AWS::Lambda::EventSourceMapping": ("BatchSize", "MaximumBatchingWindowInSeconds"),
    "AWS::Lambda::Function": ("MemorySize", "Timeout"),
    "AWS::Logs::LogGroup": ("RetentionInDays",),
    "AWS::SQS::Queue": ("VisibilityTimeout", "MessageRetentionPeriod"),
    "AWS::SSM::Parameter": ("Name",),
    "AWS::Scheduler::Schedule": ("ScheduleExpression", "State"),
}
"""What a reviewer wants to see of a resource beside its logical id; by type, in this order."""


def resources_of(stack: Synthesized) -> str:
    """Every resource and output of the stack, a line each: its logical id, its type, and its settings.

    The logical ids stand here as they are: under another one CloudFormation replaces what is deployed.
    """
    lines = []
    for name, resource in sorted(stack.template["Resources"].items()):
        kind, properties = resource["Type"], resource.get("Properties", {})
        settings = [
            f"{key}={as_text(properties[key])}" for key in SHOWN_PROPERTIES.get(kind, ()) if key in properties
        ]
        retention = ["kept"] if resource.get("DeletionPolicy") == "Retain" else []
        lines.append(" ".join([name, kind, *settings, *retention]))
    lines += [f"output {name}" for name in sorted(stack.template["Outputs"])]
    return "\n".join(lines) + "\n"
