"""The values that the steps of a decision about one volume hand to each other."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from burstwatch.core.alerts.alert import Alert, AlertKind
from burstwatch.core.assessment.assess import Assessment
from burstwatch.core.assessment.drain_cause import DrainEpisode
from burstwatch.core.assessment.severity import Level
from burstwatch.core.flips.flip_trigger import ActRule, FlipTrigger
from burstwatch.core.flips.recommendation import Recommendation
from burstwatch.core.flips.transition import Event
from burstwatch.core.flips.volume_context import VolumeContext
from burstwatch.core.ledger.flip_state import Flip, FlipStatus
from burstwatch.core.ledger.ledger import Change
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.policy import Policy
from burstwatch.core.policy.volume_tags import VolumeSettings
from burstwatch.core.resource_type import ResourceType

_TROUBLE_METRICS: Final = {ResourceType.INSTANCE: 6, ResourceType.EFS: 0, ResourceType.RDS: 0}
"""What is read of a resource in trouble at each poll, besides its balance.

Of an instance: operations and bytes, and the two exceeded checks. Of other kinds, more is read for an alert.
"""


class Action(StrEnum):
    """What a decision wants done."""

    NONE = "none"
    ALERT = "alert"
    FLIP = "flip"
    FLIP_BACK = "flip_back"
    HOLD = "hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class TickContext:
    """The circumstances of one poll, in seconds since 1970: ``tick_at_s`` is the nominal time of its tick."""

    now_s: float
    tick_at_s: int
    location: AwsLocation


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What one poll of a volume leads to; ``change`` is None if the ledger needs no write.

    ``poll_interval_s`` is the time to the next poll in seconds, None if the bucket is not polled;
    ``sweep_interval_s`` is that of a calm one. ``act_lead_s`` is the time to act that this bucket can give.
    """

    assessment: Assessment
    volume_settings: VolumeSettings
    level: Level
    previous_level: Level
    action: Action
    reason: str
    poll_interval_s: int | None
    change: Change | None
    sweep_interval_s: int | None = None
    act_lead_s: int | None = None
    recommendation: Recommendation | None = None
    trigger: FlipTrigger | None = None
    flip: Flip | None = None

    @property
    def volume_id(self) -> str:
        """The key of the bucket in the ledger: for a volume its ID."""
        return self.assessment.subject

    @property
    def is_changing(self) -> bool:
        """Whether AWS is asked to change the volume, or is at it: its balance is that of what it was."""
        return self.flip is not None and self.flip.is_under_way

    @property
    def metric_count(self) -> int:
        """How many CloudWatch metrics the next poll of the bucket reads."""
        if (trouble_metrics := _TROUBLE_METRICS.get(self.assessment.resource.resource_type)) is not None:
            return 1 + (trouble_metrics if self.level.is_alerting else 0)
        if self.flip is not None and self.flip.status is FlipStatus.ON_TARGET:
            return 0 if self.flip.is_permanent else 2
        if self.flip is not None:
            return 1
        return 3 if self.level.is_alerting else 1

    @property
    def alerts(self) -> Sequence[Alert]:
        return self.change.alerts if self.change else ()

    @property
    def has_recommendation(self) -> bool:
        """Whether one of its alerts has a recommended action."""
        return any(alert.action for alert in self.alerts)


@dataclass(frozen=True, slots=True, kw_only=True)
class DueAlert:
    """The alert about the level or the data that is due now, if any, and the reason in words.

    ``kind`` is None if none is due. ``state`` is the state once people have been notified. ``drain`` is the
    fall of the balance that the alert is about.
    """

    kind: AlertKind | None
    reason: str
    state: ResourceState
    drain: DrainEpisode | None = None
    is_reminder: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeEvaluation:
    """What is known of a volume before its alert is written: each of the first six steps adds its result.

    ``old_state`` is what the ledger has of the volume, None if it has nothing; ``before`` is the same, or an
    empty state. ``state`` is what the ledger will have, except for the time of the next poll.
    ``focus_interval_s`` is the time to the next poll by the level alone, None if the sweep is enough.
    """

    assessment: Assessment
    volume_settings: VolumeSettings
    volume_context: VolumeContext
    policy: Policy
    context: TickContext
    old_state: ResourceState | None
    before: ResourceState
    state: ResourceState
    level: Level
    focus_interval_s: int | None
    alert: DueAlert
    recommendation: Recommendation | None = None
    act_rule: ActRule | None = None
    trigger: FlipTrigger | None = None
    blocked_reason: str | None = None
    events: tuple[Event, ...] = ()

    @property
    def volume_id(self) -> str:
        """The key of the bucket in the ledger: for a volume its ID."""
        return self.assessment.subject

    @property
    def flip(self) -> Flip | None:
        return self.state.flip

    @property
    def is_changing(self) -> bool:
        """Whether AWS is asked to change the volume, or is at it: its balance is that of what it was."""
        return self.flip is not None and self.flip.is_under_way

    @property
    def previous_level(self) -> Level:
        return self.before.level

    @property
    def previous_alerted_level(self) -> Level | None:
        """The level that people were notified of last, if that alert is still open."""
        return self.before.alerts.open_level

    @property
    def unexplained_drain(self) -> DrainEpisode | None:
        """The drain whose cause its alert should name; a reminder repeats none."""
        return None if self.alert.is_reminder else self.alert.drain
