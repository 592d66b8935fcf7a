from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from burstctl.simulate.simulation import InstanceBucket
from documents.shared import ApiCalls, Count, HeaderDocument, Instant, Percent, ReadCostDocument, VolumeId

InstanceId = Annotated[str, Field(pattern="^i-([0-9a-f]{8}|[0-9a-f]{17})$")]


class CeilingDocument(TypedDict):
    """The most that volumes serve together; null if it is not known."""

    iops: Count | None
    mib_s: float | None


class PlannedVolumesDocument(TypedDict):
    """What the planned volumes change."""

    volumes: list[str]
    volume_limits: CeilingDocument
    at_present_limit_s: Count
    """How long the load was at the limit of today's volumes: there it may rise."""
    empty_times_at_most: Count | None
    """If it rises as far as the plan allows; null if the plan allows no more than today.

    Null as well if the load was throttled: then it is not known how often."""
    empty_s_at_most: Count | None


class HeldBackDocument(TypedDict):
    """What limited the load when it was measured."""

    limit: str
    seconds: Count
    first_at: Instant
    certain: bool
    """Whether it did: a bucket of its own, or of a volume, was empty."""


class SpellDocument(TypedDict):
    """A time in which a bucket would have been empty; short gaps in it do not count in empty_s."""

    starts_at: Instant
    ends_at: Instant
    empty_s: Count


class BucketSpellDocument(SpellDocument):
    waiting_at_most: Count


class InstanceSpellDocument(SpellDocument):
    buckets: list[InstanceBucket]


class SimulatedBucketDocument(TypedDict):
    bucket: InstanceBucket
    unit: Literal["operations", "MiB"]
    capacity: Count
    refill_per_s: float
    most_per_s: float
    """The maximum of the type or of its volumes, whichever is lower."""
    cannot_drain: bool
    lowest_pct: Percent | None
    """Null if the type sustains its maximum."""
    lowest_with_bursts_pct: Percent | None
    """A bound for any shape of the load within each five minutes."""
    empty_s: Count
    spells: list[BucketSpellDocument]


class SimulatedTypeDocument(TypedDict):
    instance_type: str
    sustained: bool
    measured: bool
    """Whether it is the present type, and its own balances show when it was empty: nothing was played."""
    empty_times: Count
    empty_s: Count
    first_empty_at: Instant | None
    at_maximum_s: Count
    enough: bool
    """Whether it would have held nothing back, and would not if the load went on as it was.

    False as well if it sustains no more than was served while the instance was out of credits."""
    enough_with_bursts: bool
    spells: list[InstanceSpellDocument]
    """The times in which at least one bucket was empty."""
    buckets: list[SimulatedBucketDocument]


class SimulationDocument(HeaderDocument):
    """The measured I/O of an instance on the EBS credits of other types.

    burstctl simulate --json. Absent values are null, keys never disappear.
    """

    schema: Literal["burstwatch.simulation/v1"]
    instance_id: InstanceId
    name: str | None
    instance_type: str | None
    starts_at: Instant
    ends_at: Instant
    unknown_s: Count
    unserved: Literal["queued"]
    daily_reset: str | None
    volumes: list[VolumeId] | None
    volume_limits: CeilingDocument
    plan: PlannedVolumesDocument | None
    held_back: list[HeldBackDocument]
    throttled_s: Count
    """For how long a bucket of its own, or of a volume, was empty. If not 0, more was wanted than was served.

    So each type may be empty more often than its numbers say."""
    target: SimulatedTypeDocument
    types: list[SimulatedTypeDocument]
    """All types that were looked at, the target's family first, each in the order of baselines and sizes."""
    smallest: list[str]
    """The smallest of each family that is enough for the load that was served."""
    left_out: list[str]
    failures: list[str]
    cost: ReadCostDocument
    api_calls: ApiCalls
