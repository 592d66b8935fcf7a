"""The answers from which ``burstctl init`` makes a deployment, and how each is read from text."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from burstwatch.core.policy.change_hours import parse_change_hours
from burstwatch.core.policy.parsing import parse_dollars
from burstwatch.core.resource_type import ResourceType

SLACK_PREFIX: Final = "slack:"
_EMAIL: Final = re.compile(r"[^@\s,;<>]{1,64}@[A-Za-z0-9][A-Za-z0-9.-]{0,250}\.[A-Za-z]{2,}")
_SECRET: Final = re.compile(r"[A-Za-z0-9/_+=.@-]{1,500}")
_REGION: Final = re.compile(r"[a-z]{2,4}(-[a-z]+){1,2}-[0-9]{1,2}")
_SEPARATOR: Final = re.compile(r"[,\s]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What an operator wants to deploy; without ``regions``, one stack where the credentials point."""

    emails: tuple[str, ...]
    slack_secret: str | None
    regions: tuple[str, ...]
    kinds: tuple[ResourceType, ...] = (ResourceType.EBS,)
    flips: bool
    spend_cap: str
    change_hours: str


def parse_email(text: str) -> str:
    """An e-mail address, as the stage file accepts it."""
    if not _EMAIL.fullmatch(text):
        raise ValueError(f"{text!r} is not an e-mail address; write one such as oncall@example.com")
    return text


def parse_secret(text: str) -> str:
    """The name of a secret. The text may *be* the secret, so messages do not quote it."""
    if not _SECRET.fullmatch(text):
        raise ValueError(
            "this is not the name of a secret; put the webhook's address into Secrets Manager, and its name"
            " here"
        )
    return text


def parse_recipients(text: str) -> tuple[tuple[str, ...], str | None]:
    """E-mail addresses and at most one ``slack:SECRET``, with commas or spaces between."""
    entries = _split(text)
    secrets = [entry.removeprefix(SLACK_PREFIX) for entry in entries if entry.startswith(SLACK_PREFIX)]
    emails = [parse_email(entry) for entry in entries if not entry.startswith(SLACK_PREFIX)]
    if len(secrets) > 1:
        raise ValueError("a stack posts to one Slack webhook; write one slack:SECRET")
    if not entries:
        raise ValueError("no one would be alerted; write an e-mail address or slack:SECRET")
    return tuple(emails), parse_secret(secrets[0]) if secrets else None


def parse_regions(text: str) -> tuple[str, ...]:
    """Names of Regions, with commas or spaces between; none is where the credentials point."""
    for name in (names := _split(text)):
        if not _REGION.fullmatch(name):
            raise ValueError(f"{name!r} is not a Region; write names such as us-east-1, eu-central-1")
    return tuple(names)


def parse_kinds(text: str) -> tuple[ResourceType, ...]:
    """Kinds of resources, with commas or spaces between, in the order of the policy."""
    names = _split(text)
    known = ", ".join(ResourceType)
    for name in names:
        if name not in list(ResourceType):
            raise ValueError(f"{name!r} is not a kind of resource; write some of {known}")
    if not names:
        raise ValueError(f"nothing would be watched; write some of {known}")
    return tuple(kind for kind in ResourceType if kind in names)


def parse_flips(text: str) -> bool:
    """Whether opted-in volumes are flipped, or it only alerts."""
    if text not in {"alert", "flip"}:
        raise ValueError(f"{text!r} is not a mode; write alert or flip")
    return text == "flip"


def check_spend_cap(text: str) -> str:
    """An amount of dollars, as written."""
    parse_dollars(text)
    return text


def check_change_hours(text: str) -> str:
    """Change hours, as written."""
    parse_change_hours(text)
    return text


def _split(text: str) -> Sequence[str]:
    return tuple(dict.fromkeys(part for part in _SEPARATOR.split(text) if part))
