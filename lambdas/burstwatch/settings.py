"""How a process is wired: names and places, never thresholds."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Self

from burstwatch.core.errors import BurstwatchError

LEDGER: Final = "BURSTWATCH_LEDGER"
CLOCK: Final = "BURSTWATCH_CLOCK"
TOPIC_ARN: Final = "BURSTWATCH_TOPIC_ARN"
SLACK_WEBHOOK: Final = "BURSTWATCH_SLACK_WEBHOOK"


class Clock(StrEnum):
    """Where *now* comes from: this machine, or the endpoint's ``Date`` header (the lab's time-lapse)."""

    WALL = "wall"
    ENDPOINT = "endpoint"


class SettingsError(BurstwatchError):
    """The environment or an option is wrong; the message names every fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the environment says, checked."""

    ledger_path: Path
    clock: Clock = Clock.WALL
    topic_arn: str | None = None
    slack_webhook: str | None = None

    @classmethod
    def from_env(cls, environ: Mapping[str, str], *, home: Path, place: str) -> Self:
        """Read the settings from ``environ``; ``place`` tells one default ledger from another.

        Raises:
            SettingsError: naming every fault.
        """
        faults: list[str] = []
        name = f"ledger-{re.sub(r'[^A-Za-z0-9._-]', '_', place)}.sqlite"
        ledger = environ.get(LEDGER) or f"sqlite:{_state_directory(environ, home) / name}"
        kind, _, path = ledger.partition(":")
        if kind != "sqlite" or not path:
            faults.append(f"{ledger!r} is no ledger: write sqlite:PATH after --ledger or in {LEDGER}")
        clock = environ.get(CLOCK) or Clock.WALL
        if clock not in list(Clock):
            faults.append(f"{CLOCK}={clock!r} is no clock; write wall or endpoint")
        topic_arn = environ.get(TOPIC_ARN) or None
        if topic_arn is not None and not (topic_arn.startswith("arn:") and topic_arn.count(":") >= 5):  # noqa: PLR2004
            faults.append(f"{topic_arn!r} is no topic: write its ARN after --topic-arn or in {TOPIC_ARN}")
        if faults:
            raise SettingsError("; ".join(faults))
        return cls(
            ledger_path=Path(path).expanduser(),
            clock=Clock(clock),
            topic_arn=topic_arn,
            slack_webhook=environ.get(SLACK_WEBHOOK) or None,
        )


def _state_directory(environ: Mapping[str, str], home: Path) -> Path:
    base = environ.get("XDG_STATE_HOME")
    return (Path(base) if base else home / ".local" / "state") / "burstwatch"
