"""How the deployed functions are wired: what the stack writes into their environment, checked."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from burstwatch.adapters.policy.parameter_name import pushed
from burstwatch.wiring.settings import CLOCK, LEDGER, TOPIC_ARN, SettingsError

POLICY: Final = "BURSTWATCH_POLICY"
DEPLOYMENT: Final = "BURSTWATCH_DEPLOYMENT"
FLIP_QUEUE_URL: Final = "BURSTWATCH_FLIP_QUEUE_URL"
SLACK_SECRET: Final = "BURSTWATCH_SLACK_SECRET"  # noqa: S105 - where the secret is, not what it is
CHAT_TOPIC_ARN: Final = "BURSTWATCH_CHAT_TOPIC_ARN"
REGION: Final = "AWS_REGION"
"""Lambda's own; so is whatever begins with AWS_."""

_TABLE: Final = re.compile(r"dynamodb:([A-Za-z0-9_.-]{3,255})")
_TOPIC: Final = re.compile(r"arn:[a-z-]+:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_.-]{1,256}")
_PARAMETER: Final = re.compile(r"/[A-Za-z0-9_./-]{1,1000}")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,127}")
_QUEUE: Final = re.compile(r"https?://\S{1,1000}\.fifo")
_SECRET: Final = re.compile(
    r"(arn:[a-z-]+:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:)?[A-Za-z0-9/_+=.@-]{1,512}"
)


class FunctionClock(StrEnum):
    """Where a function takes *now* from: its machine, or the event (the lab's time-lapse)."""

    WALL = "wall"
    EVENT = "event"


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionSettings:
    """What watch, flip and settle are told; without a ``flip_queue_url`` nobody flips, they only propose."""

    region: str
    table: str
    clock: FunctionClock
    topic_arn: str
    policy_parameter: str
    deployment: str
    flip_queue_url: str | None = None

    @property
    def pushed_policy_parameter(self) -> str:
        """Where ``burstctl policy push`` puts the policy that wins."""
        return pushed(self.policy_parameter)

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        """Read the settings.

        Raises:
            SettingsError: naming every fault.
        """
        reader = _Reader(environ)
        settings = cls(
            region=reader.region(),
            table=reader.table(),
            clock=reader.clock(),
            topic_arn=reader.need(TOPIC_ARN, _TOPIC, "the ARN of the alerts topic"),
            policy_parameter=reader.need(POLICY, _PARAMETER, "the name of the policy's SSM parameter"),
            deployment=reader.need(DEPLOYMENT, _NAME, "the name of the stack"),
            flip_queue_url=reader.take(FLIP_QUEUE_URL, _QUEUE, "the URL of a FIFO queue"),
        )
        reader.complain()
        return settings


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifySettings:
    """What notify is told; a way to people that is not named is not used."""

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
        reader = _Reader(environ)
        settings = cls(
            region=reader.region(),
            table=reader.table(),
            deployment=reader.need(DEPLOYMENT, _NAME, "the name of the stack"),
            slack_secret=reader.take(SLACK_SECRET, _SECRET, "the name or ARN of a secret", is_shown=False),
            chat_topic_arn=reader.take(CHAT_TOPIC_ARN, _TOPIC, "the ARN of the chat service's topic"),
        )
        reader.complain()
        return settings


class _Reader:
    """Reads variables and remembers what was wrong with them; what is missing reads as empty meanwhile."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._faults: list[str] = []

    def take(self, name: str, form: re.Pattern[str], says: str, *, is_shown: bool = True) -> str | None:
        """What may be left out; somebody may have put the secret itself where its name belongs."""
        value = self._environ.get(name) or None
        if value is not None and not form.fullmatch(value):
            self._faults.append(f"{name}{f'={value!r}' if is_shown else ''} is not {says}")
        return value

    def need(self, name: str, form: re.Pattern[str], says: str) -> str:
        value = self.take(name, form, says)
        if value is None:
            self._faults.append(f"{name} is not set: it is {says}")
        return value or ""

    def table(self) -> str:
        ledger = self.need(LEDGER, _TABLE, "the ledger, written dynamodb:TABLE")
        return ledger.partition(":")[2]

    def region(self) -> str:
        return self.need(REGION, re.compile(r"[a-z]{2,4}(-[a-z]+)+-[0-9]+"), "the region, set by Lambda")

    def clock(self) -> FunctionClock:
        said = self._environ.get(CLOCK) or FunctionClock.WALL
        if said not in list(FunctionClock):
            self._faults.append(f"{CLOCK}={said!r} is no clock of a function: wall or event")
            return FunctionClock.WALL
        return FunctionClock(said)

    def complain(self) -> None:
        """Name every fault at once.

        Raises:
            SettingsError: there are some.
        """
        if self._faults:
            raise SettingsError(
                f"the function's environment is wrong: {'; '.join(self._faults)}. Deploy the stack again"
            )
