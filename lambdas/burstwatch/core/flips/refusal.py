"""The guards by name, and a refusal by one of them: which guard, why, and until when."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from burstwatch.core.alerts.alert import AlertKind, runbook_link, runbook_reference
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.text import format_instant


class Guard(StrEnum):
    """What can refuse a modification."""

    NOT_OPTED_IN = "not_opted_in"
    MANAGED = "managed"
    SERVICE_OWNED = "service_owned"
    MULTI_ATTACHED = "multi_attached"
    HELD = "held"
    CHANGED_BY_OTHERS = "changed_by_others"
    DETACHED = "detached"
    MODIFICATION_IN_PROGRESS = "modification_in_progress"
    AWS_QUOTA = "aws_quota"
    COOLDOWN = "cooldown"
    CHANGE_HOURS = "change_hours"
    INSTANCE_IS_BOTTLENECK = "instance_is_bottleneck"
    NO_TARGET = "no_target"
    NO_CHANGE_NEEDED = "no_change_needed"
    ACCOUNT_LIMIT = "account_limit"
    FLEET_CAP = "fleet_cap"
    SPEND_CAP = "spend_cap"
    TAG_CAP = "tag_cap"
    TYPE_NOT_AVAILABLE = "type_not_available"


NON_OVERRIDABLE: Final = frozenset(
    {
        Guard.MANAGED,
        Guard.SERVICE_OWNED,
        Guard.MULTI_ATTACHED,
        Guard.MODIFICATION_IN_PROGRESS,
        Guard.AWS_QUOTA,
        Guard.NO_TARGET,
        Guard.ACCOUNT_LIMIT,
    }
)
"""AWS refuses these itself, so no one can override them."""

AUTOMATION_ONLY: Final = frozenset(
    {
        Guard.NOT_OPTED_IN,
        Guard.CHANGED_BY_OTHERS,
        Guard.DETACHED,
        Guard.CHANGE_HOURS,
        Guard.TAG_CAP,
    }
)
"""These stop only the watchdog: a person's modification is not checked against them."""

TRANSIENT_FOR_RETURN: Final = frozenset(
    {
        Guard.MODIFICATION_IN_PROGRESS,
        Guard.COOLDOWN,
        Guard.CHANGE_HOURS,
        Guard.HELD,
    }
)
"""A return that these refuse comes a little later, or when the hold is released: no alert is sent."""

VISIBLE_TO_PASS: Final = frozenset({Guard.HELD, Guard.DETACHED})
"""A pass sees whether these still refuse. A flip that they do not is requested at once, without a turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A guard that refuses a modification, and why.

    ``ends_at_s`` is when it refuses no longer, in seconds since 1970; None if that is not known.
    ``release`` is what ``burstctl release`` takes to end a hold.
    """

    guard: Guard
    reason: str
    ends_at_s: float | None = None
    release: str | None = None

    def __str__(self) -> str:
        until = "" if self.ends_at_s is None else f", until {format_instant(self.ends_at_s)}"
        return f"{self.guard}: {self.reason}{until}"


def resource_to_explain(volume: Volume, refusing_guards: Collection[Guard]) -> str:
    """The ID of what explains the refusal: the instance if that is the bottleneck, or else the volume."""
    is_bottleneck = Guard.INSTANCE_IS_BOTTLENECK in refusing_guards
    return (is_bottleneck and volume.instance_id) or volume.volume_id


def guard_page(guard: Guard, runbooks_url: str) -> str:
    """Where a guard is explained: its row on the page of refusals, or the command that shows it."""
    page = AlertKind.FLIP_REFUSED
    return runbook_reference(page, f"{runbook_link(page, runbooks_url)}#{guard}")
