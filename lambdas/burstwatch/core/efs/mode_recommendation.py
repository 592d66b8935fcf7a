"""Which throughput mode serves the load of an EFS file system for the least money.

Prices: AWS's list prices of us-east-1 in 2026. Bursting has no price of its own. Elastic is billed for what
is read and written, provisioned for the throughput above the baseline of the size (EFS pricing page). The GB
of AWS's price list is a GiB, a month has 730 hours. Storage costs the same in each mode and is left out.

For 58 GiB in Standard, which earn 2.8 MiB/s, by the load of a day:

::

    read      written   busiest        bursting   elastic    provisioned
    0 GiB     100 GiB   20 MiB/s           $0     $182.50    $103.01 (20 MiB/s)   lasts: 1.2 MiB/s on average
    0 GiB     400 GiB   60 MiB/s           $0     $730.00    $343.01 (60 MiB/s)   4.7 MiB/s: credits run out
    300 GiB   200 GiB   100 MiB/s          $0     $638.75    $583.01 (100 MiB/s)  3.6 MiB/s: credits run out

Writing without a pause at 100 MiB/s costs $21.09 an hour in elastic mode, $506.25 a day.

What a file system without credits reads and writes is less than is wanted, by an unknown amount. With
credits it would have been served its burst rate at most. So the price of elastic is between that of what was
measured and that of the burst for as long, and the higher one is compared. If even the busiest rate is what
is left without credits, provisioned has the burst rate. Without credits for this long in a day::

    in Standard   throttled   without credits   elastic                    provisioned
     10 GiB       5 min       1   MiB/s         $0.53 to $80.73            $597.07 (100 MiB/s)
    100 GiB       all day     4.9 MiB/s         $751.88 to $23,849.53      $570.70 (100 MiB/s)
    512 GiB       all day     25  MiB/s         $3,849.61 to $26,947.27    $450.00 (100 MiB/s)
"""

from dataclasses import dataclass
from datetime import date
from math import ceil, isfinite
from typing import Final

from burstwatch.core.buckets.units import GIB, MIB, format_rate
from burstwatch.core.definition import DefinitionChange, Vocabulary, change_definition
from burstwatch.core.durations import DAY_S, HOUR_S
from burstwatch.core.ebs.pricing import HOURS_PER_MONTH
from burstwatch.core.efs.efs_bucket import baseline_per_s, efs_bucket, limit_when_empty_per_s, metered
from burstwatch.core.efs.file_system import AVAILABLE, GENERAL_PURPOSE, FileSystem, ThroughputMode
from burstwatch.core.text import format_usd

MAX_PROVISIONED_MIB_S: Final = 3_414
"""The highest that any Region allows (EFS API reference, UpdateFileSystem); the quota may be 1,024."""

_ROUNDING: Final = 1.02
"""Bytes are counted when they arrive: five minutes at a limit may show a little more than it."""
_VOCABULARY: Final = Vocabulary(
    terraform="aws_efs_file_system", cloudformation="AWS::EFS::FileSystem", cdk="efs.FileSystem"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EfsPrices:
    """Dollars for the throughput of EFS in a Region: for each GiB read or written, for each MiB/s a month."""

    region: str
    as_of: date
    elastic_read_per_gib: float
    elastic_write_per_gib: float
    provisioned_per_mib_s: float


US_EAST_1: Final = EfsPrices(
    region="us-east-1",
    as_of=date(2026, 11, 22),
    elastic_read_per_gib=0.03,
    elastic_write_per_gib=0.06,
    provisioned_per_mib_s=6.0,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EfsLoad:
    """What a file system did, by default in a day: bytes, and its busiest metered rate in bytes per second.

    ``throttled_s`` is how long it was held back without credits. The load was then at least this.
    ``peak_with_credits_per_s`` is its busiest rate at other times; None if that is not known.

    Raises:
        ValueError: a value is negative or not finite, or the duration is 0.
    """

    read_bytes: float
    written_bytes: float
    peak_metered_per_s: float
    duration_s: float = DAY_S
    throttled_s: float = 0.0
    peak_with_credits_per_s: float | None = None

    def __post_init__(self) -> None:
        values = (
            self.read_bytes,
            self.written_bytes,
            self.peak_metered_per_s,
            self.duration_s,
            self.throttled_s,
        )
        if not all(isfinite(value) and value >= 0 for value in values) or not self.duration_s:
            raise ValueError(f"a load of {values} cannot be; give 0 or more, and a duration above 0")

    @property
    def was_throttled(self) -> bool:
        return self.throttled_s > 0

    @property
    def mean_metered_per_s(self) -> float:
        return metered(self.read_bytes, self.written_bytes) / self.duration_s

    def was_throttled_throughout(self, file_system: FileSystem) -> bool:
        """Whether even the busiest rate with credits is what is left without: it does not show the demand."""
        limit_per_s, peak_per_s = (
            limit_when_empty_per_s(file_system.standard_bytes),
            self.peak_with_credits_per_s,
        )
        if peak_per_s is None:
            peak_per_s = self.peak_metered_per_s
        return self.was_throttled and peak_per_s <= _ROUNDING * limit_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeOption:
    """A mode that the file system could have; ``serves_load`` says whether it lasts at the load.

    If the load was more than what was measured, it costs ``highest_usd_per_month`` at most.
    """

    mode: ThroughputMode
    usd_per_month: float
    serves_load: bool
    reason: str
    provisioned_mib_s: int | None = None
    highest_usd_per_month: float | None = None

    @property
    def price(self) -> str:
        """``$570.70``, or ``$0.53 to $80.73``; dollars a month."""
        highest = self.highest_usd_per_month
        return format_usd(self.usd_per_month) + ("" if highest is None else f" to {format_usd(highest)}")

    @property
    def price_to_compare(self) -> float:
        """The highest price that is possible."""
        return self.usd_per_month if self.highest_usd_per_month is None else self.highest_usd_per_month

    def __str__(self) -> str:
        return (
            f"{self.mode} with {self.provisioned_mib_s:,} MiB/s" if self.provisioned_mib_s else str(self.mode)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeRecommendation:
    """The cheapest mode that serves the load, beside the others.

    ``command`` and ``definition`` are None if the file system has that mode already. ``blocked`` says why
    AWS would refuse the command now. ``cautions`` are what to know before it is run.
    """

    options: tuple[ModeOption, ...]
    chosen: ModeOption
    reason: str
    command: str | None = None
    definition: DefinitionChange | None = None
    blocked: str | None = None
    cautions: tuple[str, ...] = ()


def recommend_mode(
    file_system: FileSystem, load: EfsLoad, prices: EfsPrices = US_EAST_1
) -> ModeRecommendation:
    """Compare the modes at this load, and choose the cheapest that serves it; if none does, provisioned."""
    options = (
        _bursting(file_system, load),
        _elastic(file_system, load, prices),
        _provisioned(file_system, load, prices),
    )
    serving = [option for option in options if option.serves_load] or options[-1:]
    chosen = min(serving, key=lambda option: option.price_to_compare)
    reason = f"{chosen}, {chosen.price} a month ({prices.region} list prices): {chosen.reason}"
    if _is_current(file_system, chosen):
        return ModeRecommendation(options=options, chosen=chosen, reason=f"leave it in {reason}")
    is_available = file_system.state == AVAILABLE
    return ModeRecommendation(
        options=options,
        chosen=chosen,
        reason=reason,
        command=update_command(file_system.file_system_id, chosen),
        definition=_definition(file_system, chosen),
        blocked=None
        if is_available
        else f"its state is {file_system.state}, and AWS changes the mode of available file systems only",
        cautions=tuple(_cautions(file_system, chosen, prices)),
    )


def update_command(file_system_id: str, option: ModeOption) -> str:
    """The aws-cli command that changes the mode. There is no downtime (EFS user guide)."""
    amount = (
        f" --provisioned-throughput-in-mibps {option.provisioned_mib_s}" if option.provisioned_mib_s else ""
    )
    return (
        f"aws efs update-file-system --file-system-id {file_system_id}"
        f" --throughput-mode {option.mode}{amount}"
    )


def _bursting(file_system: FileSystem, load: EfsLoad) -> ModeOption:
    bucket = efs_bucket(file_system.standard_bytes)
    mean, baseline = load.mean_metered_per_s, bucket.refill_per_s
    rates = f"{format_rate(mean)} metered on average, and its size earns {format_rate(baseline)}"
    if load.peak_metered_per_s > bucket.burst_per_s:
        peak, burst = format_rate(load.peak_metered_per_s), format_rate(bucket.burst_per_s)
        serves, reason = False, f"its peak of {peak} is above the burst of {burst}"
    elif mean > baseline:
        days = bucket.capacity / (mean - baseline) / DAY_S
        serves, reason = False, f"{rates}: a full bucket lasts {days:.1f} days of it"
    elif load.was_throttled:
        serves, reason = False, f"it was throttled, so its load was more than the {rates}"
    else:
        serves, reason = True, rates
    return ModeOption(mode=ThroughputMode.BURSTING, usd_per_month=0.0, serves_load=serves, reason=reason)


def _elastic(file_system: FileSystem, load: EfsLoad, prices: EfsPrices) -> ModeOption:
    months = HOURS_PER_MONTH * HOUR_S / load.duration_s
    read_gib, written_gib = load.read_bytes / GIB * months, load.written_bytes / GIB * months
    usd = read_gib * prices.elastic_read_per_gib + written_gib * prices.elastic_write_per_gib
    # A read byte is metered at a third, so of the burst it costs three times as much.
    per_metered_gib = max(prices.elastic_write_per_gib, 3 * prices.elastic_read_per_gib)
    burst_gib = efs_bucket(file_system.standard_bytes).burst_per_s * load.throttled_s / GIB * months
    is_possible = file_system.performance_mode == GENERAL_PURPOSE
    reason = f"{read_gib:,.0f} GiB read and {written_gib:,.0f} GiB written a month"
    if load.was_throttled:
        reason += ", or more: it was held back"
    if not is_possible:
        reason = f"AWS allows it for general purpose file systems only, not {file_system.performance_mode}"
    return ModeOption(
        mode=ThroughputMode.ELASTIC,
        usd_per_month=round(usd, 6),
        serves_load=is_possible,
        reason=reason,
        highest_usd_per_month=round(usd + burst_gib * per_metered_gib, 6) if load.was_throttled else None,
    )


def _provisioned(file_system: FileSystem, load: EfsLoad, prices: EfsPrices) -> ModeOption:
    # Throttled throughout, the busiest rate shows no demand: the burst is all that bursting mode ever served.
    is_throttled = load.was_throttled_throughout(file_system)
    burst_per_s = efs_bucket(file_system.standard_bytes).burst_per_s
    needed_mib_s = max(1, ceil(round((burst_per_s if is_throttled else load.peak_metered_per_s) / MIB, 6)))
    mib_s = min(MAX_PROVISIONED_MIB_S, needed_mib_s)
    billed_mib_s = max(0.0, mib_s - baseline_per_s(file_system.standard_bytes) / MIB)
    reason = f"its busiest rate was {format_rate(load.peak_metered_per_s)} metered"
    if is_throttled and load.peak_metered_per_s > _ROUNDING * limit_when_empty_per_s(
        file_system.standard_bytes
    ):
        reason += f", and it hardly had credits; {format_rate(burst_per_s)} are its burst with credits"
    elif is_throttled:
        reason += (
            f", no more than it has without credits; {format_rate(burst_per_s)} are its burst with credits"
        )
    elif load.was_throttled:
        reason += ", and more may have been wanted while it was throttled"
    if needed_mib_s > mib_s:
        reason += f", and AWS provisions {mib_s:,} MiB/s at most"
    return ModeOption(
        mode=ThroughputMode.PROVISIONED,
        usd_per_month=round(billed_mib_s * prices.provisioned_per_mib_s, 6),
        serves_load=needed_mib_s <= mib_s,
        reason=reason,
        provisioned_mib_s=mib_s,
    )


def _is_current(file_system: FileSystem, option: ModeOption) -> bool:
    if file_system.throughput_mode != option.mode:
        return False
    return option.provisioned_mib_s is None or option.provisioned_mib_s == file_system.provisioned_mib_s


def _cautions(file_system: FileSystem, option: ModeOption, prices: EfsPrices) -> list[str]:
    cautions = []
    if option.mode == ThroughputMode.ELASTIC:
        burst = efs_bucket(file_system.standard_bytes).burst_per_s
        per_hour = burst * HOUR_S / GIB * prices.elastic_write_per_gib
        cautions.append(
            f"Elastic mode has no price ceiling: an hour written at {format_rate(burst)} costs"
            f" {format_usd(per_hour)}. Set an alarm on MeteredIOBytes."
        )
        cautions.append(
            "Plan to stay for 24 hours: AWS may refuse another change of the mode until then"
            " (TooManyRequests). Its documentation does not settle whether that applies to elastic mode."
        )
    if option.mode == ThroughputMode.PROVISIONED:
        cautions.append(
            "For 24 hours, AWS refuses to leave provisioned mode and to lower the throughput"
            " (TooManyRequests). A raise is possible at any time."
        )
    if file_system.throughput_mode == ThroughputMode.PROVISIONED:
        cautions.append(
            "AWS refuses this within 24 hours of the change to provisioned mode or of a raise"
            " (TooManyRequests). Its error names the time from which it is possible."
        )
    if option.mode == ThroughputMode.BURSTING:
        cautions.append("The balance on return is not documented: look at BurstCreditBalance afterwards.")
    return cautions


def _definition(file_system: FileSystem, option: ModeOption) -> DefinitionChange:
    mode, amount = option.mode, option.provisioned_mib_s
    return change_definition(
        _VOCABULARY,
        file_system.name or file_system.file_system_id,
        terraform={"throughput_mode": f'"{mode}"'} | _amount("provisioned_throughput_in_mibps", amount),
        cloudformation={"ThroughputMode": str(mode)} | _amount("ProvisionedThroughputInMibps", amount),
        cdk={"throughput_mode": f"efs.ThroughputMode.{mode.upper()}"}
        | ({"provisioned_throughput_per_second": f"Size.mebibytes({amount})"} if amount else {}),
    )


def _amount(key: str, mib_s: int | None) -> dict[str, str]:
    return {key: str(mib_s)} if mib_s else {}
