"""Which bucket holds a database back, and so what is changed first."""

import pytest

from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.rds.rds_buckets import RDS_CLASS_IO
from burstwatch.core.watch.rds_evidence import RdsEvidence
from support.builders.storage import a_database

M5_LARGE = InstanceLimits(
    baseline_iops=3_600, max_iops=18_750, baseline_throughput_mib_s=77.5, max_throughput_mib_s=566.2
)


@pytest.mark.parametrize(("volumes", "bucket"), [({}, None), ({"has_other_volumes": True}, RDS_CLASS_IO)])
def test_an_empty_class_is_slower_than_the_storage_only_if_all_volumes_are_known(volumes, bucket):
    """The storage serves 3,000 IOPS, less than the class sustains, but it is not alone."""
    database = a_database(limits=M5_LARGE, **volumes)
    evidence = RdsEvidence(database=database, series={"class_io": Series((0,), (0.0,), 300)})
    assert evidence.empty_class_bucket is bucket
