import pytest

from burstwatch.core.ebs.modification import Modification, VolumeSpec
from burstwatch.core.ebs.pricing import Configuration, VolumeType


@pytest.mark.parametrize(
    ("provision", "configuration"),
    [
        # AWS reports the IOPS of a gp2, and of io1 and io2 a throughput, that no one can set
        (VolumeSpec(volume_type="gp2", size_gib=100, iops=300), Configuration(volume_type=VolumeType.GP2)),
        (
            VolumeSpec(volume_type="gp2", size_gib=100, iops=300, throughput_mib_s=128),
            Configuration(volume_type=VolumeType.GP2),
        ),
        (
            VolumeSpec(volume_type="gp3", size_gib=100, iops=4_000, throughput_mib_s=250),
            Configuration(volume_type=VolumeType.GP3, iops=4_000, throughput_mib_s=250),
        ),
        (
            VolumeSpec(volume_type="io1", size_gib=100, iops=1_000, throughput_mib_s=250),
            Configuration(volume_type=VolumeType.IO1, iops=1_000),
        ),
        (
            VolumeSpec(volume_type="io2", size_gib=100, iops=1_000),
            Configuration(volume_type=VolumeType.IO2, iops=1_000),
        ),
        # what AWS does not report is the least of the type
        (
            VolumeSpec(volume_type="gp3", size_gib=100),
            Configuration(volume_type=VolumeType.GP3, iops=3_000, throughput_mib_s=125),
        ),
        (VolumeSpec(volume_type="io1", size_gib=100), Configuration(volume_type=VolumeType.IO1, iops=100)),
    ],
)
def test_a_provision_is_the_configuration_that_would_be_requested(provision, configuration):
    assert provision.configuration() == configuration


@pytest.mark.parametrize("volume_type", ["st1", "sc1", "standard", "gp9"])
def test_a_type_that_volumes_are_not_moved_between_has_no_configuration(volume_type):
    assert VolumeSpec(volume_type=volume_type, size_gib=500, iops=500).configuration() is None


@pytest.mark.parametrize(
    ("state", "in_progress", "over", "failed"),
    [
        ("modifying", True, False, False),
        ("optimizing", True, False, False),
        ("completed", False, True, False),
        ("failed", False, True, True),
        ("pondering", True, False, False),
    ],
)
def test_a_modification_is_over_only_when_aws_reports_it(state, in_progress, over, failed):
    gp2 = VolumeSpec(volume_type="gp2", size_gib=100)
    reported = Modification(volume_id="vol-1", state=state, original=gp2, target=gp2)
    assert (reported.is_in_progress, reported.is_finished, reported.has_failed) == (in_progress, over, failed)
