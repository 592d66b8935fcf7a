"""The settings of the deployed functions: what the stack writes into their environment, validated."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Self

from burstwatch.core.parsing import DocumentReader
from burstwatch.wiring.settings import CLOCK, LEDGER, TOPIC_ARN, SettingsError

POLICY: Final = "BURSTWATCH_POLICY"
DEPLOYMENT: Final = "BURSTWATCH_DEPLOYMENT"
FLIP_QUEUE_URL: Final = "BURSTWATCH_FLIP_QUEUE_URL"
SLACK_SECRET: Final = "BURSTWATCH_SLACK_SECRET"  # noqa: S105 - where the secret is, not what it is
CHAT_TOPIC_ARN: Final = "BURSTWATCH_CHAT_TOPIC_ARN"
REGION: Final = "AWS_REGION"
"""Set by Lambda, like every variable that begins with AWS_."""


class FunctionClock(StrEnum):
    """The source of the present time: the machine, or the event (the time-lapse of the lab)."""

    WALL = "wall"
    EVENT = "event"


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionSettings:
    """The settings of watch, flip, settle and probe; without a ``flip_queue_url`` flips are only proposed."""

    region: str
    table: str
    clock: FunctionClock
    topic_arn: str
    policy_parameter: str
    deployment: str
    flip_queue_url: str | None = None

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        """Read the settings.

        Raises:
            SettingsError: naming every fault.
        """
        required = ("region", "table", "topic_arn", "policy_parameter", "deployment")
        values = _read_environment(environ, required, optional=("clock", "flip_queue_url"))
        return cls(**values | {"clock": FunctionClock(values["clock"] or FunctionClock.WALL)})


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifySettings:
    """The settings of notify; a channel that is not named is not used."""

    region: str
    table: str
    deployment: str
    slack_secret: str | None = None
    chat_topic_arn: str | None = None

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        """Read the settings.

        Raises:
            SettingsError: naming every fault.
        """
        required = ("region", "table", "deployment")
        return cls(**_read_environment(environ, required, optional=("slack_secret", "chat_topic_arn")))


@dataclass(frozen=True, slots=True)
class _Variable:
    """A variable and what it must be; a group of the pattern is its value.

    An error does not show a value that may be a secret by mistake.
    """

    name: str
    pattern: str
    expectation: str
    is_shown: bool = True

    def parse(self, text: str) -> str:
        match = re.fullmatch(self.pattern, text)
        if not match:
            raise ValueError(f"{f'={text!r}' if self.is_shown else ''} is not {self.expectation}")
        return match.groupdict().get("value", text)


_TOPIC_PATTERN: Final = r"arn:[a-z-]+:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_.-]{1,256}"
_VARIABLES: Final = {
    "region": _Variable(REGION, r"[a-z]{2,4}(-[a-z]+)+-[0-9]+", "the region, set by Lambda"),
    "table": _Variable(
        LEDGER, r"dynamodb:(?P<value>[A-Za-z0-9_.-]{3,255})", "the ledger, written dynamodb:TABLE"
    ),
    "clock": _Variable(CLOCK, "|".join(FunctionClock), "a clock of a function: wall or event"),
    "topic_arn": _Variable(TOPIC_ARN, _TOPIC_PATTERN, "the ARN of the alerts topic"),
    "policy_parameter": _Variable(
        POLICY, r"/[A-Za-z0-9_./-]{1,1000}", "the name of the policy's SSM parameter"
    ),
    "deployment": _Variable(DEPLOYMENT, r"[A-Za-z][A-Za-z0-9-]{0,127}", "the name of the stack"),
    "flip_queue_url": _Variable(FLIP_QUEUE_URL, r"https?://\S{1,1000}\.fifo", "the URL of a FIFO queue"),
    "slack_secret": _Variable(
        SLACK_SECRET,
        r"(arn:[a-z-]+:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:)?[A-Za-z0-9/_+=.@-]{1,512}",
        "the name or ARN of a secret",
        is_shown=False,
    ),
    "chat_topic_arn": _Variable(CHAT_TOPIC_ARN, _TOPIC_PATTERN, "the ARN of the chat service's topic"),
}


def _read_environment(
    environ: Mapping[str, str], required: Sequence[str], *, optional: Sequence[str]
) -> dict[str, Any]:
    """The settings by their names; an empty variable counts as missing.

    Raises:
        SettingsError: naming every fault.
    """
    reader = DocumentReader({name: text for name, text in environ.items() if text})
    values: dict[str, Any] = {}
    for setting in required:
        variable = _VARIABLES[setting]
        missing = f" is not set: it is {variable.expectation}"
        values[setting] = reader.parse_required(variable.name, variable.parse, missing)
    for setting in optional:
        values[setting] = reader.parse_optional(_VARIABLES[setting].name, _VARIABLES[setting].parse)
    if reader.faults:
        faults = "; ".join(f"{fault.path}{fault.message}" for fault in reader.faults)
        raise SettingsError(f"the function's environment is wrong: {faults}", fix="deploy the stack again")
    return values
