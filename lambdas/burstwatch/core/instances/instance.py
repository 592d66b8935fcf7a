"""What an EC2 instance is, as far as its EBS credits are concerned."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.ebs.volume_ceiling import VolumeCeiling
from burstwatch.core.resource_type import ResourceType


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """An EC2 instance as AWS describes it, with what its type and its volumes allow.

    ``state`` is EC2's, such as ``running``. ``volume_ids`` are the attached volumes. ``limits`` are those of
    the type, None if EC2 shows none. ``ceilings`` are what each attached volume can serve at best, None if
    that is not known of every volume. ``limits_error`` says why the limits could not be read.
    """

    instance_id: str
    instance_type: str
    state: str
    launched_at: datetime
    has_detailed_monitoring: bool = False
    volume_ids: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    limits: InstanceLimits | None = None
    ceilings: tuple[VolumeCeiling, ...] | None = None
    limits_error: str | None = None

    @property
    def resource_id(self) -> str:
        return self.instance_id

    @property
    def metric_id(self) -> str:
        """The value of the dimension of its metrics."""
        return self.instance_id

    @property
    def resource_type(self) -> ResourceType:
        return ResourceType.INSTANCE

    @property
    def name(self) -> str | None:
        """The Name tag, or None without one."""
        return self.tags.get("Name") or None

    @property
    def volumes_iops(self) -> float | None:
        """The sum of what the attached volumes can serve, in operations per second; None if not known."""
        return None if self.ceilings is None else sum(ceiling.iops for ceiling in self.ceilings)

    @property
    def volumes_mib_s(self) -> float | None:
        """The same in MiB per second."""
        return None if self.ceilings is None else sum(ceiling.mib_s for ceiling in self.ceilings)
