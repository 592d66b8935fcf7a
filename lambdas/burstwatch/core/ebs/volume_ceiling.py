"""The most that a volume can serve: what bounds the load on its instance."""

from dataclasses import dataclass

from burstwatch.core.ebs.hdd_bucket import HDD_RATES, hdd_bucket
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ebs.volume import BURST_IOPS, Volume, baseline_iops
from burstwatch.core.ebs.volume_types import as_configuration, reachable_mib_s


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeCeiling:
    """The most operations and MiB that a volume serves in a second, while it has credits."""

    volume_id: str
    volume_type: str
    iops: float
    mib_s: float


def ceiling_of(volume: Volume) -> VolumeCeiling | None:
    """The ceiling of a volume; None if AWS does not show it, or for a type of no known limits (``standard``).

    Examples: 100 GiB of gp2 serve 3,000 IOPS and 128 MiB/s, a default gp3 3,000 and 125, and 2 TiB of st1 500
    MiB/s in 500 operations.
    """
    volume_type = volume.volume_type
    if volume_type in HDD_RATES:
        rates, bucket = HDD_RATES[volume_type], hdd_bucket(volume_type, volume.size_gib)
        return _ceiling(volume, rates.max_iops, bucket.burst_per_s)
    if volume_type not in frozenset(VolumeType):
        return None
    is_unknown = volume_type != VolumeType.GP2 and volume.provisioned_iops is None
    if is_unknown or (volume_type == VolumeType.GP3 and volume.throughput_mib_s is None):
        return None
    configuration = as_configuration(
        VolumeType(volume_type), volume.provisioned_iops, volume.throughput_mib_s
    )
    return _ceiling(volume, *rates_of(configuration, volume.size_gib))


def rates_of(configuration: Configuration, size_gib: int) -> tuple[float, float]:
    """Operations and MiB per second of a volume of this configuration and size, at most."""
    iops = configuration.iops or max(BURST_IOPS, baseline_iops(size_gib))
    return iops, reachable_mib_s(configuration, size_gib)


def _ceiling(volume: Volume, iops: float, mib_s: float) -> VolumeCeiling:
    return VolumeCeiling(volume_id=volume.volume_id, volume_type=volume.volume_type, iops=iops, mib_s=mib_s)
