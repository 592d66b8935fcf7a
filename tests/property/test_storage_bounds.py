"""No load empties a bucket of EFS or RDS before the time that its `Bucket` gives, whatever the load does."""

from hypothesis import given, settings
from hypothesis import strategies as st

from burstlab.model.clock import LabClock
from burstlab.model.database import CLASS_IO, CLASS_THROUGHPUT, STORAGE, LabDatabase
from burstlab.model.file_system import BUCKET, LabFileSystem
from burstlab.model.fleet import LabFleet
from burstlab.model.instances.instance_types import ebs_limits
from burstlab.model.loads.load import Cycle, SizedLoad
from burstwatch.core.buckets.units import GIB
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.efs.efs_bucket import efs_bucket
from burstwatch.core.rds.rds_buckets import class_buckets, storage_bucket
from support.lab.lab_start import START

KIB_PER_MIB = 1_024

STEPS = st.lists(
    st.tuples(st.integers(60, 7_200), st.integers(0, 20_000), st.integers(0, 20_000)), min_size=1, max_size=4
)
LOADS = st.builds(
    lambda steps, kib: SizedLoad(
        load=Cycle(tuple((seconds, float(reads), float(writes)) for seconds, reads, writes in steps)),
        operation_kib=kib,
    ),
    STEPS,
    st.sampled_from([4.0, 16.0, 64.0, 256.0]),
)


def seconds_until_empty(pool):
    return None if pool.first_empty_at_s is None else pool.first_empty_at_s - START.timestamp()


def assert_not_before(pool, bucket, start_pct):
    emptied_after_s = seconds_until_empty(pool)
    if emptied_after_s is not None:
        assert bucket.highest_drain_per_s > 0
        bound_s = bucket.credits_in(start_pct) / bucket.highest_drain_per_s
        assert emptied_after_s >= bound_s * (1 - 1e-6)


@settings(max_examples=80, deadline=None)
@given(load=LOADS, gib=st.sampled_from([0.1, 20, 58, 700, 1_024, 5_000]), start_pct=st.integers(1, 100))
def test_no_load_empties_a_file_system_before_the_bound(load, gib, start_pct):
    fleet = LabFleet(LabClock.manual(START))
    file_system_id = fleet.file_systems.add(LabFileSystem(size_gib=gib, load=load, balance_pct=start_pct))
    fleet.clock.advance(86_400)
    pool = fleet.file_systems.find(file_system_id).pools[BUCKET]
    assert_not_before(pool, efs_bucket(int(gib * GIB)), start_pct)


@settings(max_examples=80, deadline=None)
@given(
    load=LOADS,
    gib=st.sampled_from([20, 170, 399, 400, 1_000, 3_900]),
    engine=st.sampled_from(["postgres", "oracle-ee", "sqlserver-se"]),
    instance_class=st.sampled_from(["db.t3.micro", "db.m5.large", "db.r5.2xlarge"]),
    pcts=st.tuples(*[st.integers(1, 100)] * 3),
)
def test_no_load_empties_storage_or_class_of_a_database_before_the_bound(
    load, gib, engine, instance_class, pcts
):
    fleet = LabFleet(LabClock.manual(START))
    storage_pct, io_pct, byte_pct = pcts
    fleet.databases.add(
        LabDatabase(
            identifier="db",
            allocated_gib=gib,
            engine=engine,
            instance_class=instance_class,
            load=load,
            balance_pct=storage_pct,
            io_pct=io_pct,
            byte_pct=byte_pct,
        )
    )
    fleet.clock.advance(86_400)
    database = fleet.databases.find("db")
    bucket = storage_bucket(database.facts)
    assert (bucket is None) == (STORAGE not in database.pools)
    if bucket is not None:
        assert_not_before(database.pools[STORAGE], bucket, storage_pct)
    limits = ebs_limits(database.facts.ec2_type)
    io, throughput = class_buckets(
        database.facts,
        InstanceLimits(
            baseline_iops=limits.io.baseline,
            max_iops=limits.io.maximum,
            baseline_throughput_mib_s=limits.kib.baseline / KIB_PER_MIB,
            max_throughput_mib_s=limits.kib.maximum / KIB_PER_MIB,
        ),
    )
    assert_not_before(database.pools[CLASS_IO], io, io_pct)
    assert_not_before(database.pools[CLASS_THROUGHPUT], throughput, byte_pct)
