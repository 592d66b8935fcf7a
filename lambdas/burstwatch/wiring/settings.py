"""The settings of a process: names and addresses, never thresholds."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Self

from burstwatch.core.errors import BurstwatchError, Problem

LEDGER: Final = "BURSTWATCH_LEDGER"
CLOCK: Final = "BURSTWATCH_CLOCK"
TOPIC_ARN: Final = "BURSTWATCH_TOPIC_ARN"
SLACK_WEBHOOK: Final = "BURSTWATCH_SLACK_WEBHOOK"

_TABLE_PATTERN: Final = re.compile(r"[A-Za-z0-9_.-]{3,255}")


class Clock(StrEnum):
    """The source of the present time: this machine, or the endpoint's ``Date`` header (in the lab)."""

    WALL = "wall"
    ENDPOINT = "endpoint"


class SettingsError(BurstwatchError):
    """The environment or an option is wrong; the message names every fault."""


class LedgerKind(StrEnum):
    """The kind of a ledger's store."""

    SQLITE = "sqlite"
    DYNAMODB = "dynamodb"


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerAddress:
    """The address of a ledger; ``name`` is the path of a file, or the name of a table."""

    kind: LedgerKind
    name: str

    @property
    def path(self) -> Path:
        return Path(self.name).expanduser()

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


def parse_ledger(text: str) -> LedgerAddress:
    """Parse ``sqlite:PATH`` or ``dynamodb:TABLE``.

    Raises:
        SettingsError: the text is neither.
    """
    kind, _, name = text.partition(":")
    if kind == LedgerKind.DYNAMODB and name and not _TABLE_PATTERN.fullmatch(name):
        raise SettingsError(
            f"{name!r} is not a valid name of a DynamoDB table",
            fix="write 3 to 255 of a-z A-Z 0-9 _ . - after dynamodb:",
        )
    if kind not in list(LedgerKind) or not name:
        raise SettingsError(
            f"{text!r} is not a valid ledger",
            fix=f"write sqlite:PATH or dynamodb:TABLE after --ledger or in {LEDGER}",
        )
    return LedgerAddress(kind=LedgerKind(kind), name=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings from the environment, validated."""

    ledger: LedgerAddress
    clock: Clock = Clock.WALL
    topic_arn: str | None = None
    slack_webhook: str | None = None

    @classmethod
    def from_env(
        cls, environ: Mapping[str, str], *, home: Path, default_ledger_id: str, deployed: str | None = None
    ) -> Self:
        """Read the settings from ``environ``; ``default_ledger_id`` distinguishes default ledgers.

        ``deployed`` is the ledger of the stack, if one was found; a ledger that the environment names takes
        precedence.

        Raises:
            SettingsError: a setting is invalid; the message names every fault.
        """
        faults: list[Problem] = []
        file_name = f"ledger-{re.sub(r'[^A-Za-z0-9._-]', '_', default_ledger_id)}.sqlite"
        default = LedgerAddress(kind=LedgerKind.SQLITE, name=str(_state_directory(environ, home) / file_name))
        try:
            address_text = environ.get(LEDGER) or deployed
            ledger = parse_ledger(address_text) if address_text else default
        except SettingsError as error:
            faults.append(error.problem)
        clock = environ.get(CLOCK) or Clock.WALL
        if clock not in list(Clock):
            faults.append(Problem(f"{CLOCK}={clock!r} is not a valid clock", "write wall or endpoint"))
        topic_arn = environ.get(TOPIC_ARN) or None
        if topic_arn is not None and not (topic_arn.startswith("arn:") and topic_arn.count(":") >= 5):  # noqa: PLR2004
            fix = f"write its ARN after --topic-arn or in {TOPIC_ARN}"
            faults.append(Problem(f"{topic_arn!r} is not a topic", fix))
        if faults:
            raise SettingsError(
                "; ".join(fault.cause for fault in faults), fix="; ".join(fault.fix for fault in faults)
            )
        return cls(
            ledger=ledger,
            clock=Clock(clock),
            topic_arn=topic_arn,
            slack_webhook=environ.get(SLACK_WEBHOOK) or None,
        )


def _state_directory(environ: Mapping[str, str], home: Path) -> Path:
    base = environ.get("XDG_STATE_HOME")
    return (Path(base) if base else home / ".local" / "state") / "burstwatch"
