"""The settings of the deployed functions: what the stack writes into their environment, validated."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from burstwatch.adapters.policy.parameter_name import pushed_parameter_name
from burstwatch.wiring.settings import CLOCK, LEDGER, TOPIC_ARN, SettingsError

POLICY: Final = "BURSTWATCH_POLICY"
DEPLOYMENT: Final = "BURSTWATCH_DEPLOYMENT"
FLIP_QUEUE_URL: Final = "BURSTWATCH_FLIP_QUEUE_URL"
SLACK_SECRET: Final = "BURSTWATCH_SLACK_SECRET"  # noqa: S105 - where the secret is, not what it is
CHAT_TOPIC_ARN: Final = "BURSTWATCH_CHAT_TOPIC_ARN"
REGION: Final = "AWS_REGION"
"""Set by Lambda, like every variable that begins with AWS_."""

_TABLE_PATTERN: Final = re.compile(r"dynamodb:([A-Za-z0-9_.-]{3,255})")
_TOPIC_PATTERN: Final = re.compile(r"arn:[a-z-]+:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_.-]{1,256}")
_PARAMETER_PATTERN: Final = re.compile(r"/[A-Za-z0-9_./-]{1,1000}")
_NAME_PATTERN: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,127}")
_QUEUE_PATTERN: Final = re.compile(r"https?://\S{1,1000}\.fifo")
_SECRET_PATTERN: Final = re.compile(
    r"(arn:[a-z-]+:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:)?[A-Za-z0-9/_+=.@-]{1,512}"
)


class FunctionClock(StrEnum):
    """The source of the present time: the machine, or the event (the time-lapse of the lab)."""

    WALL = "wall"
    EVENT = "event"


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionSettings:
    """The settings of watch, flip and settle; without a ``flip_queue_url`` flips are only proposed."""

    region: str
    table: str
    clock: FunctionClock
    topic_arn: str
    policy_parameter: str
    deployment: str
    flip_queue_url: str | None = None

    @property
    def pushed_policy_parameter(self) -> str:
        """The parameter to which ``burstctl policy push`` writes, which takes precedence."""
        return pushed_parameter_name(self.policy_parameter)

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        """Read the settings.

        Raises:
            SettingsError: naming every fault.
        """
        reader = _EnvironmentReader(environ)
        settings = cls(
            region=reader.read_region(),
            table=reader.read_table(),
            clock=reader.read_clock(),
            topic_arn=reader.read_required(TOPIC_ARN, _TOPIC_PATTERN, "the ARN of the alerts topic"),
            policy_parameter=reader.read_required(
                POLICY, _PARAMETER_PATTERN, "the name of the policy's SSM parameter"
            ),
            deployment=reader.read_required(DEPLOYMENT, _NAME_PATTERN, "the name of the stack"),
            flip_queue_url=reader.read_optional(FLIP_QUEUE_URL, _QUEUE_PATTERN, "the URL of a FIFO queue"),
        )
        reader.raise_faults()
        return settings


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
        reader = _EnvironmentReader(environ)
        settings = cls(
            region=reader.read_region(),
            table=reader.read_table(),
            deployment=reader.read_required(DEPLOYMENT, _NAME_PATTERN, "the name of the stack"),
            slack_secret=reader.read_optional(
                SLACK_SECRET, _SECRET_PATTERN, "the name or ARN of a secret", is_shown=False
            ),
            chat_topic_arn=reader.read_optional(
                CHAT_TOPIC_ARN, _TOPIC_PATTERN, "the ARN of the chat service's topic"
            ),
        )
        reader.raise_faults()
        return settings


class _EnvironmentReader:
    """Reads variables and collects their faults; a missing variable counts as empty meanwhile."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._faults: list[str] = []

    def read_optional(
        self, name: str, pattern: re.Pattern[str], expectation: str, *, is_shown: bool = True
    ) -> str | None:
        """An optional variable; an error does not show its value, which may be a secret by mistake."""
        value = self._environ.get(name) or None
        if value is not None and not pattern.fullmatch(value):
            self._faults.append(f"{name}{f'={value!r}' if is_shown else ''} is not {expectation}")
        return value

    def read_required(self, name: str, pattern: re.Pattern[str], expectation: str) -> str:
        value = self.read_optional(name, pattern, expectation)
        if value is None:
            self._faults.append(f"{name} is not set: it is {expectation}")
        return value or ""

    def read_table(self) -> str:
        ledger = self.read_required(LEDGER, _TABLE_PATTERN, "the ledger, written dynamodb:TABLE")
        return ledger.partition(":")[2]

    def read_region(self) -> str:
        return self.read_required(
            REGION, re.compile(r"[a-z]{2,4}(-[a-z]+)+-[0-9]+"), "the region, set by Lambda"
        )

    def read_clock(self) -> FunctionClock:
        value = self._environ.get(CLOCK) or FunctionClock.WALL
        if value not in list(FunctionClock):
            self._faults.append(f"{CLOCK}={value!r} is no clock of a function: wall or event")
            return FunctionClock.WALL
        return FunctionClock(value)

    def raise_faults(self) -> None:
        """Report every fault at once.

        Raises:
            SettingsError: there is a fault.
        """
        if self._faults:
            raise SettingsError(
                f"the function's environment is wrong: {'; '.join(self._faults)}. Deploy the stack again"
            )
