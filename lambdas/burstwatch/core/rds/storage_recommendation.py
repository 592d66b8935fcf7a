"""What to change the gp2 storage of a database instance to: gp3, once.

gp2 and gp3 cost the same for each GiB (us-east-1: $0.115 a month, twice that with Multi-AZ), so there is no
reason to go back. Source of the numbers: the RDS user guide, "Amazon RDS DB instance storage" (gp3). For
MariaDB, MySQL and PostgreSQL::

    gp2 storage          gp2 at best, while credits last   gp3
     20 to  170 GiB       3,000 IOPS,   128 MiB/s           3,000 IOPS, 125 MiB/s, fixed
    171 to  399 GiB       3,000 IOPS,   250 MiB/s           3,000 IOPS, 125 MiB/s, fixed: half the throughput
    400 to  683 GiB      12,000 IOPS,   512 MiB/s          12,000 IOPS, 500 MiB/s, more for more money
    684 to 3,999 GiB     12,000 IOPS, 1,000 MiB/s          12,000 IOPS, 500 MiB/s, more for more money

For Oracle, 200 GiB takes the place of 400. SQL Server has 3,000 IOPS and 125 MiB/s at any size, and both can
be raised. Below the limit, AWS refuses a request that contains IOPS or throughput ("You can't specify IOPS or
storage throughput for engine postgres and a storage size less than 400").
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, isfinite
from typing import Final

from burstwatch.core.buckets.bucket import Bucket
from burstwatch.core.buckets.units import GIB
from burstwatch.core.definition import DefinitionChange, Vocabulary, change_definition
from burstwatch.core.durations import DAY_S
from burstwatch.core.ebs.instance_bottleneck import EMPTY_PCT, InstanceLimits
from burstwatch.core.rds.db_instance import AVAILABLE, DbInstance
from burstwatch.core.rds.rds_buckets import class_buckets, gp2_storage_mib_s, no_storage_bucket_reason
from burstwatch.core.rds.storage_options import StorageOption, nearest_allowed
from burstwatch.core.text import format_rounded_duration, format_usd

GP3: Final = "gp3"
GP3_IOPS: Final = 3_000
GP3_MIB_S: Final = 125
GP3_STRIPED_IOPS: Final = 12_000
GP3_STRIPED_MIB_S: Final = 500
USD_PER_GIB: Final = 0.115
"""Dollars a month for a GiB of gp2 or gp3 in us-east-1 (list price of 2026), in one Availability Zone."""
_UNKNOWN_PRICE: Final = "burstwatch does not know the price of"

OPTIMIZATION_S: Final = DAY_S
"""How long a storage optimization may take: AWS documents "typical migration times under 24 hours"."""

_HEADROOM: Final = 1.25
_NOTICEABLE_FALL: Final = 1.1
"""A judgement: up to 170 GiB, 128 MiB/s become 125, which is no reason to buy more storage."""
_LITTLE_FREE_SHARE: Final = 0.1
"""The share of free storage at which RDS would grow it automatically, which an optimization prevents."""
_MIN_GROWTH_PCT: Final = 10
"""AWS raises a new size that is less than a tenth larger (RDS API reference, ModifyDBInstance)."""
_OPTIMIZATION_CAUTION: Final = (
    "Its status is then storage-optimization for hours, typically less than 24. Until the end, AWS refuses"
    " another change of the storage, and the storage does not grow automatically. AWS allows four changes in"
    " 24 hours."
)
_FULL_PCT: Final = 100
_VOCABULARY: Final = Vocabulary(
    terraform="aws_db_instance", cloudformation="AWS::RDS::DBInstance", cdk="rds.DatabaseInstance"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageLoad:
    """What was measured recently; None if it was not.

    ``peak_mib_s`` is the highest ReadThroughput + WriteThroughput, in MiB/s. If it ``was_throttled`` at some
    time of the day, because credits of the storage or the class were empty, more may have been wanted.
    ``free_loss_per_day`` is by how many bytes FreeStorageSpace fell in the last day, negative if it rose.
    ``class_io_pct`` and ``class_byte_pct`` are the balances of the class now.

    Raises:
        ValueError: a value is not finite, or the peak or the free storage is negative.
    """

    peak_mib_s: float | None = None
    was_throttled: bool = False
    class_io_pct: float | None = None
    class_byte_pct: float | None = None
    free_bytes: float | None = None
    free_loss_per_day: float | None = None

    def __post_init__(self) -> None:
        for value, lowest in (
            (self.peak_mib_s, 0.0),
            (self.class_io_pct, 0.0),
            (self.class_byte_pct, 0.0),
            (self.free_bytes, 0.0),
            (self.free_loss_per_day, None),
        ):
            if value is not None and not (isfinite(value) and (lowest is None or value >= lowest)):
                raise ValueError(f"a measurement of {value} cannot be; give a number, or None")


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageChange:
    """The change to gp3: None for a number that must be omitted or stays as it is.

    ``grow_to_gib`` is the new size, if the present one is too small for the throughput that was measured.
    ``extra`` is what is not in the two prices, or "". ``tightest_bucket`` says which bucket may run out
    afterwards. ``cautions`` are what to know before.
    """

    iops: int | None
    throughput_mib_s: int | None
    grow_to_gib: int | None
    before_usd_per_month: float
    after_usd_per_month: float
    extra: str
    reasons: tuple[str, ...]
    cautions: tuple[str, ...]
    tightest_bucket: str
    command: str
    definition: DefinitionChange

    @property
    def price(self) -> str:
        """``$46.00 a month instead of $23.00 (us-east-1 list prices)``; a lower bound if more is billed."""
        after, before = format_usd(self.after_usd_per_month), format_usd(self.before_usd_per_month)
        price = f"{after} a month instead of {before} (us-east-1 list prices)"
        return f"at least {price}: {_UNKNOWN_PRICE} {self.extra}" if self.extra else price


@dataclass(frozen=True, slots=True, kw_only=True)
class NoStorageChange:
    """Why there is nothing to recommend, or nothing now."""

    reason: str
    next_step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gp3:
    """The gp3 storage that is recommended; ``is_fixed`` says that its numbers cannot be requested."""

    size_gib: int
    iops: int
    mib_s: int
    is_fixed: bool


def recommend_storage(
    database: DbInstance,
    load: StorageLoad,
    options: Sequence[StorageOption] | None,
    *,
    limits: InstanceLimits | None = None,
) -> StorageChange | NoStorageChange:
    """Recommend gp3 for a database on gp2, or give the reason why not.

    Args:
        database: the instance as it is now.
        load: what was measured.
        options: what AWS allows; None if it was not read.
        limits: those of the EC2 type behind the class; None if they are not known.
    """
    if reason := no_storage_bucket_reason(database):
        return NoStorageChange(reason=reason, next_step="leave the storage as it is")
    if refusal := _refusal_now(database):
        return refusal
    option = next((option for option in options or () if option.storage_type == GP3), None)
    if options is not None and option is None:
        offered = ", ".join(option.storage_type for option in options) or "nothing"
        return NoStorageChange(
            reason=f"AWS does not offer gp3 for it, only {offered}",
            next_step="upgrade the engine or the instance class, or ask AWS",
        )
    gp3 = _size_gp3(database, load, option or StorageOption(storage_type=GP3))
    grow_to_gib = None if gp3.size_gib == database.allocated_gib else gp3.size_gib
    iops, mib_s = (None, None) if gp3.is_fixed else (gp3.iops, gp3.mib_s)
    return StorageChange(
        iops=iops,
        throughput_mib_s=mib_s,
        grow_to_gib=grow_to_gib,
        before_usd_per_month=storage_usd_per_month(database, database.allocated_gib),
        after_usd_per_month=storage_usd_per_month(database, gp3.size_gib),
        extra=_describe_extra(database, gp3),
        reasons=tuple(_reasons(database, load, gp3)),
        cautions=tuple(_cautions(database, load, gp3, is_checked=options is not None)),
        tightest_bucket=_tightest_bucket(database, load, gp3, limits),
        command=modify_command(database.identifier, grow_to_gib, iops, mib_s),
        definition=_definition(database, grow_to_gib, iops, mib_s),
    )


def storage_usd_per_month(database: DbInstance, size_gib: int) -> float:
    """The price of gp2 or gp3 of this size, without IOPS and throughput above the included ones."""
    copies = 2 if database.multi_az else 1
    return round(size_gib * USD_PER_GIB * copies, 6)


def modify_command(
    identifier: str, grow_to_gib: int | None, iops: int | None, throughput_mib_s: int | None
) -> str:
    """The aws-cli command of the change; the instance stays available."""
    options = (
        ("allocated-storage", grow_to_gib), ("iops", iops), ("storage-throughput", throughput_mib_s)
    )  # fmt: skip
    numbers = "".join(f" --{name} {value}" for name, value in options if value is not None)
    return (
        f"aws rds modify-db-instance --db-instance-identifier {identifier} --storage-type {GP3}{numbers}"
        " --apply-immediately"
    )


def _refusal_now(database: DbInstance) -> NoStorageChange | None:
    if database.storage_operation or database.status == "storage-optimization":
        progress = (
            ""
            if database.storage_operation_pct is None
            else f" ({database.storage_operation_pct} % of it is done)"
        )
        return NoStorageChange(
            reason=f"its previous storage change is not finished{progress}, and AWS refuses another before",
            next_step="wait until its status is available",
        )
    if database.status != AVAILABLE:
        return NoStorageChange(
            reason=f"its status is {database.status}, and AWS modifies available instances only",
            next_step="wait until its status is available, or start it",
        )
    return None


def _size_gp3(database: DbInstance, load: StorageLoad, option: StorageOption) -> _Gp3:
    """The smallest gp3 that serves what was measured; its size grows only if its throughput requires it."""
    striped_from_gib, size_gib = database.striped_from_gib, database.allocated_gib
    is_fixed = striped_from_gib is not None and size_gib < striped_from_gib
    if is_fixed and striped_from_gib is not None and (load.peak_mib_s or 0) > GP3_MIB_S * _NOTICEABLE_FALL:
        tenth_more = -(-size_gib * (100 + _MIN_GROWTH_PCT) // 100)
        size_gib, is_fixed = max(striped_from_gib, tenth_more), False
        size_gib = nearest_allowed(option.size_gib, size_gib)
    if is_fixed:
        return _Gp3(size_gib=size_gib, iops=GP3_IOPS, mib_s=GP3_MIB_S, is_fixed=True)
    base_iops, base_mib_s = (
        (GP3_IOPS, GP3_MIB_S) if striped_from_gib is None else (GP3_STRIPED_IOPS, GP3_STRIPED_MIB_S)
    )
    # More than gp2 could serve was never measured, so it is not recommended either.
    useful_mib_s = max(base_mib_s, gp2_storage_mib_s(database))
    needed_mib_s = max(base_mib_s, min(useful_mib_s, ceil((load.peak_mib_s or 0) * _HEADROOM)))
    return _Gp3(
        size_gib=size_gib,
        iops=nearest_allowed(option.iops, base_iops),
        mib_s=nearest_allowed(option.throughput_mib_s, needed_mib_s),
        is_fixed=False,
    )


def _reasons(database: DbInstance, load: StorageLoad, gp3: _Gp3) -> list[str]:
    included = f"gp3 has {gp3.iops:,} IOPS and {gp3.mib_s:,} MiB/s at any time, without credits"
    reasons = [f"{included}, and costs the same for each GiB: change it once, nothing speaks for gp2."]
    if gp3.size_gib != database.allocated_gib:
        reasons.append(
            f"{load.peak_mib_s:,.0f} MiB/s were measured, and gp3 of {database.allocated_gib:,} GiB is fixed"
            f" at {GP3_MIB_S}: from {database.striped_from_gib} GiB on it has {GP3_STRIPED_MIB_S}."
        )
    if gp3.is_fixed:
        reasons.append(
            f"Below {database.striped_from_gib} GiB the numbers of gp3 are fixed: AWS refuses a request with"
            " IOPS or throughput."
        )
    return reasons


def _cautions(database: DbInstance, load: StorageLoad, gp3: _Gp3, *, is_checked: bool) -> list[str]:
    cautions = [_OPTIMIZATION_CAUTION]
    cautions += _throughput_cautions(database, load, gp3)
    cautions += _free_storage_cautions(database, load, gp3)
    if gp3.size_gib != database.allocated_gib:
        extra = storage_usd_per_month(database, gp3.size_gib - database.allocated_gib)
        cautions.append(
            f"Growing to {gp3.size_gib:,} GiB costs {format_usd(extra)} a month more, cannot be undone, and"
            " copies everything to four volumes, which takes hours of I/O."
        )
    if database.replica_of:
        cautions.append(
            f"It is a read replica of {database.replica_of}, which has storage of its own: look at both."
        )
    if not is_checked:
        cautions.append(
            "What AWS allows was not read: compare with `aws rds describe-valid-db-instance-modifications`."
        )
    return cautions


def _throughput_cautions(database: DbInstance, load: StorageLoad, gp3: _Gp3) -> list[str]:
    """Compare the throughput after the change with that of gp2 and with what was measured."""
    gp2_mib_s = gp2_storage_mib_s(database)
    cautions = []
    if extra := _describe_extra(database, gp3):
        cautions.append(f"AWS bills {extra}: see https://aws.amazon.com/rds/pricing/ for the price.")
    if load.was_throttled and load.peak_mib_s is not None and gp3.mib_s < gp2_mib_s:
        cautions.append(
            f"The highest throughput falls from {gp2_mib_s:,} to {gp3.mib_s:,} MiB/s. {load.peak_mib_s:,.0f}"
            " MiB/s were measured, but it was without credits at some time of the day, so more may have been"
            " wanted."
        )
    elif gp3.mib_s < gp2_mib_s:
        fall = f"The highest throughput falls from {gp2_mib_s:,} to {gp3.mib_s:,} MiB/s"
        if load.peak_mib_s is None:
            cautions.append(
                f"{fall}: compare with the highest ReadThroughput + WriteThroughput first (not measured)."
            )
        elif load.peak_mib_s > gp3.mib_s:
            cautions.append(f"{fall}, and {load.peak_mib_s:,.0f} MiB/s were measured.")
        else:
            cautions.append(f"{fall}; the highest that was measured is {load.peak_mib_s:,.0f}, which fits.")
    return cautions


def _describe_extra(database: DbInstance, gp3: _Gp3) -> str:
    """The IOPS and the throughput that gp3 does not include; RDS has prices of its own for them."""
    if gp3.is_fixed:
        return ""
    iops, mib_s = (GP3_IOPS, GP3_MIB_S) if database.is_sql_server else (GP3_STRIPED_IOPS, GP3_STRIPED_MIB_S)
    parts = [
        f"{wanted - included:,} {unit} above the included {included:,}"
        for wanted, included, unit in ((gp3.iops, iops, "IOPS"), (gp3.mib_s, mib_s, "MiB/s"))
        if wanted > included
    ]
    return " and ".join(parts)


def _free_storage_cautions(database: DbInstance, load: StorageLoad, gp3: _Gp3) -> list[str]:
    """A warning if the free storage may run out before the optimization ends."""
    if load.free_bytes is None:
        return []
    free = f"{load.free_bytes / GIB:,.0f} GiB are free"
    added_gib = gp3.size_gib - database.allocated_gib
    advice = (
        f"The command adds {added_gib:,} GiB; AWS refuses more until the optimization ends."
        if added_gib
        else "Add storage in the same command, because AWS refuses it until the optimization ends."
    )
    if load.free_loss_per_day is not None and load.free_loss_per_day > 0:
        lasts_s = load.free_bytes / load.free_loss_per_day * DAY_S
        if lasts_s <= OPTIMIZATION_S:
            return [
                f"{free}, which last about {format_rounded_duration(lasts_s)} at yesterday's rate. {advice}"
            ]
    if load.free_bytes < _LITTLE_FREE_SHARE * database.allocated_gib * GIB:
        return [f"{free}, less than a tenth. {advice}"]
    return []


def _tightest_bucket(
    database: DbInstance, load: StorageLoad, gp3: _Gp3, limits: InstanceLimits | None
) -> str:
    """Which bucket may run out after the change, by what it holds now: gp3 has none, the class may."""
    if limits is None:
        return f"Not known: the EBS limits of {database.instance_class} were not read."
    changed = replace(
        database,
        storage_type=GP3,
        allocated_gib=gp3.size_gib,
        provisioned_iops=gp3.iops,
        storage_throughput_mib_s=gp3.mib_s,
    )
    io, throughput = class_buckets(changed, limits)
    lasting = [
        (_drain_time_s(bucket) * _balance_share(balance_pct), name, sustained, balance_pct)
        for bucket, name, sustained, balance_pct in (
            (io, "EBSIOBalance%", f"{limits.baseline_iops:,} IOPS", load.class_io_pct),
            (
                throughput,
                "EBSByteBalance%",
                f"{limits.baseline_throughput_mib_s:,.0f} MiB/s",
                load.class_byte_pct,
            ),
        )
        if bucket.highest_drain_per_s and bucket.capacity
    ]
    if not lasting:
        return f"None: {database.instance_class} has no EBS bucket that this storage can drain."
    lasts_s, name, sustained, balance_pct = min(lasting, key=lambda bucket: bucket[0])
    limit = f"{name} of {database.instance_class}: it sustains {sustained}"
    if balance_pct is not None and balance_pct <= EMPTY_PCT:
        return f"{limit}, and the bucket is empty already."
    if balance_pct is not None and round(balance_pct) < _FULL_PCT:
        return (
            f"{limit}, and the {balance_pct:.0f} % that are left now last"
            f" {format_rounded_duration(lasts_s)} at full load."
        )
    return f"{limit}, and a full bucket lasts {format_rounded_duration(lasts_s)} at least."


def _balance_share(balance_pct: float | None) -> float:
    return 1.0 if balance_pct is None else balance_pct / _FULL_PCT


def _drain_time_s(bucket: Bucket) -> float:
    return bucket.capacity / bucket.highest_drain_per_s


def _definition(
    database: DbInstance, grow_to_gib: int | None, iops: int | None, mib_s: int | None
) -> DefinitionChange:
    sizes = {"allocated_storage": grow_to_gib, "iops": iops, "storage_throughput": mib_s}
    terraform = {"storage_type": f'"{GP3}"'} | _without_none(sizes) | {"apply_immediately": "true"}
    cloudformation = {"StorageType": GP3} | _without_none(
        {"AllocatedStorage": grow_to_gib, "Iops": iops, "StorageThroughput": mib_s}
    )
    cdk = {"storage_type": f"rds.StorageType.{GP3.upper()}"} | _without_none(sizes)
    return change_definition(
        _VOCABULARY,
        database.identifier,
        terraform=terraform,
        cloudformation=cloudformation,
        cdk=cdk,
    )


def _without_none(values: Mapping[str, int | None]) -> dict[str, str]:
    return {key: str(value) for key, value in values.items() if value is not None}
