"""The parameters of the plain CloudFormation template: what people change in a stage file."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from infra.config import LOG_RETENTION_DAYS, MAX_BALANCE_PCT, Recipients, StageConfig, StageError, StageFault
from infra.dependencies import PLATFORMS

MAX_EMAILS: Final = 3
KINDS: Final = {
    "instance": ("WatchInstances", "EC2 instances"),
    "efs": ("WatchFileSystems", "EFS file systems"),
    "rds": ("WatchDatabases", "RDS databases"),
}
"""The parameters that permit watching the kinds of resources other than volumes, and the kinds in words."""

_FILES, _WATCHING, _RECIPIENTS, _OPERATION = (
    "Files",
    "What it watches and does",
    "Who is notified",
    "Operation",
)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the template; ``constraints`` as CloudFormation names them, its type among them."""

    name: str
    group: str
    default: str | int | None
    description: str
    constraints: Mapping[str, Any]

    def as_template(self) -> dict[str, Any]:
        """As CloudFormation has it."""
        default = {} if self.default is None else {"Default": self._default_value()}
        return {"Description": self.description, **default, **self.constraints}

    def _default_value(self) -> str | int | None:
        if self.constraints["Type"] == "Number":
            return self.default
        return str(self.default).lower() if isinstance(self.default, bool) else str(self.default)


def check_stage(stage: StageConfig) -> None:
    """Refuse a stage with settings that would be lost, because no parameter has them.

    Raises:
        StageError: with each of them.
    """
    boundary, secret = stage.permissions_boundary or "arn:", stage.recipients.slack_secret or ""
    unsupported = {
        "account": (stage.account, "CloudFormation deploys into the account of its caller; leave it out"),
        "regions": (
            len(stage.regions) > 1,
            "a template is deployed into the Region of its bucket; leave them out, and upload it in each",
        ),
        "tags": (stage.tags, "give them to create-stack with --tags"),
        "recipients.emails": (
            len(stage.recipients.emails) > MAX_EMAILS,
            f"the template takes {MAX_EMAILS} addresses; subscribe the others to the topic",
        ),
        "recipients.slack_secret": (secret.startswith("arn:"), "write the name of the secret, not its ARN"),
        "permissions_boundary": (not boundary.startswith("arn:"), "write the ARN of the policy"),
    }
    faults = [
        StageFault(location="", path=key, message=f"{advice}, for a plain template")
        for key, (is_set, advice) in unsupported.items()
        if is_set
    ]
    if faults:
        raise StageError(tuple(faults))


def parameters_of(stage: StageConfig) -> list[Parameter]:
    """Every parameter, in the order in which the console shows them; the defaults are those of the stage."""
    return [
        *_file_parameters(),
        *_watching_parameters(stage),
        *_recipient_parameters(stage.recipients),
        *_operation_parameters(stage),
    ]


def _file_parameters() -> list[Parameter]:
    """Where the archives of the code are."""
    return [
        Parameter(
            "AssetsBucket",
            _FILES,
            None,
            "The bucket, in this Region, to which upload.sh copied the archives.",
            _text(
                r"(?!.*\.\.)(?!([0-9]+\.){3}[0-9]+$)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]",
                "the name of a bucket, such as example-tools",
            ),
        ),
        Parameter(
            "AssetsPrefix",
            _FILES,
            "burstwatch/",
            "What their keys begin with: the prefix that upload.sh was given.",
            _text(
                "([A-Za-z0-9._-]+/)*",
                "empty, or names of letters, digits, '.', '_' and '-', each with a slash after it",
            ),
        ),
    ]


def _watching_parameters(stage: StageConfig) -> list[Parameter]:
    """What the deployment watches, and whether it may modify volumes."""
    return [
        Parameter(
            "Name",
            _WATCHING,
            stage.name,
            "The name of this deployment; a second one in a Region needs another.",
            _text(
                "(?!deployments$)[A-Za-z][A-Za-z0-9-]{0,39}",
                "a letter, then letters, digits and hyphens, 40 in all at most",
            ),
        ),
        *(
            Parameter(
                name,
                _WATCHING,
                kind in stage.resources,
                f"Permit watching {label}; the policy says which kinds are watched.",
                _SWITCH,
            )
            for kind, (name, label) in KINDS.items()
        ),
        Parameter(
            "Flips",
            _WATCHING,
            stage.flips,
            "false: no function and no permission that could modify a volume.",
            _SWITCH,
        ),
        Parameter("Schedule", _WATCHING, stage.schedule, "false: nothing runs by itself.", _SWITCH),
    ]


def _recipient_parameters(recipients: Recipients) -> list[Parameter]:
    """Who is notified."""
    emails = [*recipients.emails, *[""] * MAX_EMAILS][:MAX_EMAILS]
    return [
        *(
            Parameter(
                f"Email{number}",
                _RECIPIENTS,
                email,
                "An address for alerts, which must confirm once; empty: none.",
                _text(r"([^@\s]+@[^@\s]+)?", "empty or an e-mail address"),
            )
            for number, email in enumerate(emails, 1)
        ),
        Parameter(
            "SlackSecret",
            _RECIPIENTS,
            recipients.slack_secret or "",
            "The name of the secret, in this Region, with the address of a Slack webhook; empty: none.",
            _text(
                "[A-Za-z0-9/_+=.@-]{0,500}", "the name of a secret: not its ARN, and not the address itself"
            ),
        ),
        Parameter(
            "ChatTopic",
            _RECIPIENTS,
            recipients.chat,
            "A second topic, for Amazon Q Developer in chat applications.",
            _SWITCH,
        ),
    ]


def _operation_parameters(stage: StageConfig) -> list[Parameter]:
    """The alarms, the logs, and what the stack takes over."""
    return [
        Parameter(
            "LowestBurstBalance",
            _OPERATION,
            stage.lowest_burst_balance_pct or 0,
            "Percent at which CloudWatch's own alarm goes off, $0.10 a month for each volume; 0: no alarm.",
            # text, because a condition compares it with 0, and as a number 0.0 would be another value
            _text(
                f"[0-9]|[1-8][0-9]|9[0-{MAX_BALANCE_PCT % 10}]",
                f"0, or a whole number from 1 to {MAX_BALANCE_PCT}",
            ),
        ),
        Parameter("Dashboard", _OPERATION, stage.dashboard, "A dashboard in CloudWatch.", _SWITCH),
        Parameter(
            "LogRetentionDays",
            _OPERATION,
            stage.log_retention_days,
            "How long the logs of the functions are kept.",
            {"Type": "Number", "AllowedValues": list(LOG_RETENTION_DAYS)},
        ),
        Parameter("Tracing", _OPERATION, stage.tracing, "X-Ray, about $0.30 a month.", _SWITCH),
        Parameter(
            "Architecture",
            _OPERATION,
            stage.architecture,
            "Of the functions; x86_64 if a Region's Lambda has no arm64.",
            {"Type": "String", "AllowedValues": list(PLATFORMS)},
        ),
        Parameter(
            "ExistingLedger",
            _OPERATION,
            stage.ledger or "",
            "The name of the ledger table of an earlier deployment; empty: the stack makes one.",
            _text("([A-Za-z0-9_.-]{3,255})?", "empty or the name of a table"),
        ),
        Parameter(
            "PermissionsBoundary",
            _OPERATION,
            stage.permissions_boundary or "",
            "The ARN of the managed policy that bounds every role; empty: none.",
            _text(
                r"(arn:aws[a-z-]*:iam::([0-9]{12}|aws):policy/[\w+=,.@/-]{1,512})?",
                "empty or the ARN of a managed policy",
            ),
        ),
    ]


_SWITCH: Final = {"Type": "String", "AllowedValues": ["true", "false"]}


def _text(pattern: str, expectation: str) -> dict[str, Any]:
    return {
        "Type": "String",
        "AllowedPattern": pattern,
        "ConstraintDescription": f"must be {expectation}",
    }


def parameter_groups(parameters: list[Parameter]) -> dict[str, Any]:
    """The order in which CloudFormation's console shows the parameters."""
    groups = dict.fromkeys(parameter.group for parameter in parameters)
    return {
        "ParameterGroups": [
            {
                "Label": {"default": group},
                "Parameters": [parameter.name for parameter in parameters if parameter.group == group],
            }
            for group in groups
        ]
    }
