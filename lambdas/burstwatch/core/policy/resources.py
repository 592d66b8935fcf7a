"""Which kinds of resources are watched, and the thresholds of those that differ from gp2.

A kind that the watchdog never changes leaves the work to people, so its ``act_lead`` is longer.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from burstwatch.core.durations import DAY, HOUR, MINUTE, parse_duration
from burstwatch.core.ebs.volume import BURSTABLE_TYPES
from burstwatch.core.parsing import Fault
from burstwatch.core.policy.parsing import parse_flag, range_faults, setting
from burstwatch.core.resource_type import ResourceType

_SEPARATOR: Final = re.compile(r"[,\s]+")

_PERSON_LEAD: Final = timedelta(minutes=30)
"""A judgement: what a person needs to read an alert, decide, and change a resource."""


def parse_volume_types(text: str) -> frozenset[str]:
    """The volume types to watch, separated by commas."""
    types = frozenset(filter(None, _SEPARATOR.split(text)))
    if not types or not types <= frozenset(BURSTABLE_TYPES):
        known = ", ".join(BURSTABLE_TYPES)
        raise ValueError(f"{text!r} names no volume types with burst credits; write some of {known}")
    return types


@dataclass(frozen=True, slots=True, kw_only=True)
class EbsPolicy:
    """Which volumes are watched; the thresholds of gp2 are those of the sections cadence and levels."""

    watch: bool = setting(parse_flag, True, "whether EBS volumes are watched", unit="true or false")
    types: frozenset[str] = setting(
        parse_volume_types,
        frozenset({"gp2"}),
        "the volume types to watch; st1 and sc1 are never changed",
        unit="some of gp2, st1, sc1",
    )
    act_lead: timedelta = setting(
        parse_duration, _PERSON_LEAD, "time to act on st1 and sc1, which only people change"
    )

    def faults(self) -> Iterator[Fault]:
        """Settings out of their range."""
        yield from range_faults("resources.ebs.act_lead", self.act_lead, MINUTE, DAY)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstancePolicy:
    """How the EBS credits of EC2 instances are watched."""

    watch: bool = setting(
        parse_flag, False, "whether the EBS credits of EC2 instances are watched", unit="true or false"
    )
    # AWS documents no delay: five minutes for the period of the metric, and five more to appear.
    metric_lag: timedelta = setting(
        parse_duration,
        timedelta(minutes=10),
        "CloudWatch shows a period of five minutes this long after its start, at the latest",
    )
    act_lead: timedelta = setting(parse_duration, _PERSON_LEAD, "time to act; only people change instances")
    critical_within: timedelta = setting(
        parse_duration,
        timedelta(minutes=15),
        "critical when empty within this time, by a drain that has lasted twice the time left; 30m at most",
    )
    warning_within: timedelta = setting(
        parse_duration, timedelta(minutes=60), "warning when empty within this time"
    )

    def faults(self) -> Iterator[Fault]:
        """Settings out of their range."""
        path = "resources.instance"
        yield from range_faults(f"{path}.metric_lag", self.metric_lag, 5 * MINUTE, HOUR)
        yield from range_faults(f"{path}.act_lead", self.act_lead, MINUTE, DAY)
        yield from range_faults(f"{path}.critical_within", self.critical_within, MINUTE, 30 * MINUTE)
        if self.warning_within <= self.critical_within:
            yield Fault(f"{path}.warning_within", "must be above critical_within")


@dataclass(frozen=True, slots=True, kw_only=True)
class EfsPolicy:
    """How EFS file systems in bursting mode are watched: they drain for hours, and need days to refill."""

    watch: bool = setting(
        parse_flag, False, "whether the burst credits of EFS file systems are watched", unit="true or false"
    )
    # Ten minutes for the period by which the metric is read, and five more to appear.
    metric_lag: timedelta = setting(
        parse_duration,
        timedelta(minutes=15),
        "CloudWatch shows a period of ten minutes this long after its start, at the latest",
    )
    act_lead: timedelta = setting(
        parse_duration, _PERSON_LEAD, "time to act; only people change file systems"
    )
    critical_within: timedelta = setting(
        parse_duration,
        timedelta(hours=3),
        "critical when empty within this time, by a drain that has lasted twice the time left; 5h at most",
    )
    warning_within: timedelta = setting(
        parse_duration, timedelta(hours=12), "warning when empty within this time"
    )

    def faults(self) -> Iterator[Fault]:
        """Settings out of their range."""
        path = "resources.efs"
        # A period counts when it has been over for five minutes, so that none of its minutes is missing.
        yield from range_faults(f"{path}.metric_lag", self.metric_lag, 15 * MINUTE, HOUR)
        yield from range_faults(f"{path}.act_lead", self.act_lead, MINUTE, 4 * HOUR)
        yield from range_faults(f"{path}.critical_within", self.critical_within, MINUTE, 5 * HOUR)
        if self.warning_within <= self.critical_within:
            yield Fault(f"{path}.warning_within", "must be above critical_within")


@dataclass(frozen=True, slots=True, kw_only=True)
class RdsPolicy:
    """How RDS databases are watched: storage as gp2 volumes are, classes as instances are."""

    watch: bool = setting(
        parse_flag, False, "whether the burst credits of RDS databases are watched", unit="true or false"
    )
    act_lead: timedelta = setting(parse_duration, _PERSON_LEAD, "time to act; only people change databases")

    def faults(self) -> Iterator[Fault]:
        """Settings out of their range."""
        yield from range_faults("resources.rds.act_lead", self.act_lead, MINUTE, DAY)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourcesPolicy:
    """What is watched. A new kind is watched only when a policy says so: an upgrade changes no bill."""

    ebs: EbsPolicy = field(default_factory=EbsPolicy)
    instance: InstancePolicy = field(default_factory=InstancePolicy)
    efs: EfsPolicy = field(default_factory=EfsPolicy)
    rds: RdsPolicy = field(default_factory=RdsPolicy)

    @property
    def watched(self) -> tuple[ResourceType, ...]:
        """The kinds that are watched."""
        return tuple(resource_type for resource_type in ResourceType if getattr(self, resource_type).watch)

    @property
    def volume_types(self) -> frozenset[str]:
        """The volume types that are watched; none if volumes are not."""
        return self.ebs.types if self.ebs.watch else frozenset()

    def faults(self) -> Iterator[Fault]:
        """Settings out of their range."""
        for resource_type in ResourceType:
            yield from getattr(self, resource_type).faults()
        if not self.watched:
            kinds = f"{', '.join(list(ResourceType)[:-1])} or {list(ResourceType)[-1]}"
            yield Fault("resources", f"nothing is watched; set watch: true below {kinds}")
