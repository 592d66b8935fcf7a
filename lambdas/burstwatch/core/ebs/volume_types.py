"""What AWS allows for each volume type, and the configuration that a volume has.

Source of the limits: the EBS user guide, "Amazon EBS volume types", and the EC2 API reference, ModifyVolume.
"""

from dataclasses import dataclass
from typing import Final

from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ebs.volume import Volume, gp2_throughput_mib_s

GP3_MIN_MIB_S: Final = 125
GP3_MAX_MIB_S: Final = 2_000
"""AWS raised it from 1,000 in September 2025; on Outposts it is still 1,000."""
IO1_LARGE_OPERATION_MAX_MIB_S: Final = 500
"""Up to here io1 moves 256 KiB with each operation, above it 16 KiB."""

IOPS_PER_MIB_S: Final = 4
"""IOPS for each MiB/s: operations of 256 KiB, the largest that EBS counts as one on an SSD.

It is AWS's rule for gp3, what io1 reaches, and slightly more than io2 needs.
"""


@dataclass(frozen=True, slots=True)
class TypeLimits:
    """What AWS allows for a volume type; ``iops_per_gib`` is the highest ratio of IOPS to size."""

    min_gib: int
    max_gib: int
    min_iops: int
    max_iops: int
    iops_per_gib: int

    def max_iops_at(self, size_gib: int) -> int:
        """The highest IOPS at this size; every size may have ``min_iops``, whatever the ratio says.

        Examples: io1 allows 50 IOPS per GiB, so 100 GiB may have 5,000 and 8 GiB 400. gp3 allows 3,000 at any
        size and 4,000 at 8 GiB.
        """
        return max(self.min_iops, min(self.max_iops, self.iops_per_gib * size_gib))


# gp3 was limited to 16 TiB and 16,000 IOPS until September 2025; io2 to 500 IOPS per GiB until 2025.
# Source: the EBS user guide, "Document history".
TYPE_LIMITS: Final = {
    VolumeType.GP3: TypeLimits(1, 65_536, 3_000, 80_000, 500),
    VolumeType.IO1: TypeLimits(4, 16_384, 100, 64_000, 50),
    VolumeType.IO2: TypeLimits(4, 65_536, 100, 256_000, 1_000),
}


def configuration_of(volume: Volume) -> Configuration:
    """The volume's present configuration.

    Raises:
        ValueError: the volume is neither gp2, gp3, io1 nor io2.
    """
    return as_configuration(VolumeType(volume.volume_type), volume.provisioned_iops, volume.throughput_mib_s)


def as_configuration(kind: VolumeType, iops: int | None, throughput_mib_s: int | None) -> Configuration:
    """What ModifyVolume would be given; a number that AWS did not send is read as the minimum of the type."""
    return Configuration(
        volume_type=kind,
        iops=None if kind is VolumeType.GP2 else iops or TYPE_LIMITS[kind].min_iops,
        throughput_mib_s=throughput_mib_s or GP3_MIN_MIB_S if kind is VolumeType.GP3 else None,
    )


def reachable_mib_s(configuration: Configuration, size_gib: int) -> float:
    """The highest throughput with large operations, in MiB/s.

    io1 moves 256 KiB with each operation up to 500 MiB/s, and 16 KiB above that: 2,000 IOPS reach 500, and
    64,000 IOPS reach 1,000. io2 has 0.256 MiB/s for each IOPS, at most 4,000.
    Source: the EBS user guide, "Provisioned IOPS SSD volumes".
    """
    iops = configuration.iops or 0
    match configuration.volume_type:
        case VolumeType.GP2:
            return gp2_throughput_mib_s(size_gib)
        case VolumeType.GP3:
            return configuration.throughput_mib_s or 0
        case VolumeType.IO1:
            return min(iops / IOPS_PER_MIB_S, max(IO1_LARGE_OPERATION_MAX_MIB_S, iops / 64))
        case VolumeType.IO2:
            return min(iops * 0.256, 4_000)
