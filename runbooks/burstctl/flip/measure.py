"""Measures the load of volumes for plans of a person, which no pass of the watchdog precedes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from burstwatch.core.assessment.assess import VolumeReading, assess
from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.demand import Demand
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.flips.recommendation import demand_of
from burstwatch.core.watch.polling.due_volumes import DueVolume
from burstwatch.engine.collector import Collector
from burstwatch.engine.services import Services


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeMeasurement:
    """The recent load of a volume, and the time when it will be empty; None if it is not draining."""

    demand: Demand = field(default_factory=Demand)
    time_to_empty_s: float | None = None


def measure_volumes(
    services: Services, collector: Collector, volumes: Iterable[Volume]
) -> Mapping[str, VolumeMeasurement]:
    """What CloudWatch has on volumes, by the rules of the watchdog."""
    volumes_by_id = {volume.volume_id: volume for volume in volumes}
    operations = collector.operations(volumes_by_id)
    balances = collector.balances(
        [DueVolume(volume=gp2_volume) for gp2_volume in volumes_by_id.values() if gp2_volume.is_gp2], set()
    )
    measurements: dict[str, VolumeMeasurement] = {}
    for volume_id, (reads, writes) in operations.items():
        balance = balances.get(volume_id)
        reading = VolumeReading(
            balance=balance if isinstance(balance, Series) else None, read_ops=reads, write_ops=writes
        )
        assessment = assess(
            volumes_by_id[volume_id], reading, now_s=collector.now_s, telemetry=services.policy.telemetry
        )
        measurements[volume_id] = VolumeMeasurement(
            demand=demand_of(assessment), time_to_empty_s=assessment.time_to_empty_s
        )
    return measurements
