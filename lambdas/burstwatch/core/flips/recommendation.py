"""What a person can do about a draining volume: the command, and what it costs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from burstwatch.core.assessment.assess import Assessment
from burstwatch.core.ebs.demand import THROTTLED_SHARE, Demand
from burstwatch.core.ebs.instance_bottleneck import EMPTY_PCT, InstanceLimits
from burstwatch.core.ebs.pricing import US_EAST_1, Configuration, VolumeType
from burstwatch.core.ebs.sizing import Target, TargetOverride, TargetRefusal, TargetRefusalCode, choose_target
from burstwatch.core.ebs.volume import BURST_IOPS
from burstwatch.core.ebs.volume_types import configuration_of
from burstwatch.core.flips.guards import QUOTA, leaves_no_return
from burstwatch.core.flips.instance_effect import describe_instance_effect
from burstwatch.core.ledger.flip_state import QUOTA_PERIOD_S, ModificationUse
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.policy import FlipPolicy
from burstwatch.core.text import format_instant, format_usd


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """``action`` is a command to paste, or a sentence where no command helps; ``target`` is None then.

    The last of its ``reasons`` has the price, and the ``caveat``: what the modifications of the day change.
    ``settled_target`` has the target's price; None if the target may yet change: with a caveat it is a
    substitute, and without operations its demand is not known. ``instance_effect`` says which bucket of its
    instance the change makes the next to be empty. ``cautions`` are what to know before the command is run.
    """

    action: str
    target: Configuration | None = None
    reasons: tuple[str, ...] = ()
    caveat: str | None = None
    settled_target: Target | None = None
    instance_effect: str | None = None
    cautions: tuple[str, ...] = ()


def recommend(
    assessment: Assessment,
    override: TargetOverride,
    policy: FlipPolicy,
    location: AwsLocation,
    *,
    is_future: bool = False,
    modifications: Sequence[ModificationUse] = (),
    unavailable: Mapping[VolumeType, str] | None = None,
    instance: InstanceLimits | None = None,
) -> Recommendation:
    """The modification that takes the volume out of the burst bucket, by the demand that was seen.

    ``is_future``: the demand is still to come. ``modifications`` are those of the last 24 h: from the third
    on it is gp3, as the watchdog itself would choose, unless ``override`` names a type. If the type is
    ``unavailable``, it is io1, which exists everywhere. ``instance`` is what the volume's instance allows,
    None if that was not read.
    """
    volume = assessment.volume
    if volume.managed_by:
        return Recommendation(action=f"managed by {volume.managed_by}: change its volume type there")
    demand = replace(demand_of(assessment), is_future=is_future)

    def choose(kind: VolumeType) -> Target | TargetRefusal:
        typed_override = replace(override, volume_type=kind)
        return choose_target(
            volume,
            demand,
            typed_override,
            US_EAST_1,
            instance=instance,
            headroom_pct=policy.headroom_pct,
            unavailable=unavailable,
        )

    sized, caveat = _choose_with_caveat(choose, override, policy, modifications, unavailable or {})
    if isinstance(sized, TargetRefusal):
        return Recommendation(action=sized.sentence)
    if len(modifications) >= QUOTA:
        caveat = _describe_used_quota(modifications)
    price = _price_sentence(sized)
    return Recommendation(
        action=_flip_command(sized.configuration, volume.volume_id, location),
        target=sized.configuration,
        reasons=(*sized.reasons, f"{price}; {caveat}" if caveat else price),
        caveat=caveat,
        settled_target=sized if caveat is None and demand.peak_iops is not None else None,
        instance_effect=describe_instance_effect(
            instance, configuration_of(volume), sized.configuration, volume.size_gib
        ),
    )


def _choose_with_caveat(
    choose: Callable[[VolumeType], Target | TargetRefusal],
    override: TargetOverride,
    policy: FlipPolicy,
    modifications: Sequence[ModificationUse],
    unavailable: Mapping[VolumeType, str],
) -> tuple[Target | TargetRefusal, str | None]:
    """The target, and why it is not the type that the policy names; None if it is."""
    preferred = choose(override.volume_type or policy.target)
    if isinstance(preferred, TargetRefusal) and preferred.code is TargetRefusalCode.TYPE_NOT_AVAILABLE:
        available, caveat = choose(VolumeType.IO1), preferred.reason
    else:
        available, caveat = preferred, None
    if (
        isinstance(available, TargetRefusal)
        or not _leaves_no_return(available, modifications)
        or VolumeType.GP3 in unavailable
    ):
        return available, caveat
    used = f"{len(modifications)} of AWS's {QUOTA} modifications in 24 h are used"
    if override.volume_type is None:
        reason = f"not {policy.target}, because {used}, which leaves the watchdog none for the return"
    else:
        reason = f"the watchdog would wait, because {used}, which leaves it none for the return"
    return choose(override.volume_type or VolumeType.GP3), reason


def _describe_used_quota(modifications: Sequence[ModificationUse]) -> str:
    next_at_s = modifications[len(modifications) - QUOTA].at_s + QUOTA_PERIOD_S
    return f"AWS's {QUOTA} modifications in 24 h are used: it takes the next at {format_instant(next_at_s)}"


def _leaves_no_return(target: Target, modifications: Sequence[ModificationUse]) -> bool:
    """Whether it would be on a type from which no modification of the day brings it back."""
    return target.configuration.volume_type is not VolumeType.GP3 and leaves_no_return(modifications)


def demand_of(assessment: Assessment) -> Demand:
    """What the volume was seen to serve, in IOPS, and whether that was all that it could serve.

    It is the busiest of the newest five minutes. If no minute is known in full, it is the sum of the means.
    """
    reads, writes = assessment.consumed_read_iops, assessment.consumed_write_iops
    mean_iops = None if reads is None or writes is None else reads + writes
    peak_iops = max(assessment.served_iops.last(5), default=mean_iops)
    # Those of a volume whose balance is known may be too old to count.
    is_too_old = mean_iops is None and assessment.unknown_reason is None
    if peak_iops is None or is_too_old:
        return Demand()
    ceiling_iops = _ceiling_iops(assessment.baseline_iops, assessment.balance_pct)
    return Demand(peak_iops=peak_iops, is_throttled=peak_iops >= THROTTLED_SHARE * ceiling_iops)


def _ceiling_iops(baseline_iops: int, balance_pct: float | None) -> int:
    """What it may serve: the burst, and no more than the baseline once its bucket is empty."""
    is_empty = balance_pct is not None and balance_pct <= EMPTY_PCT
    return baseline_iops if is_empty else BURST_IOPS


def _flip_command(target: Configuration, volume_id: str, location: AwsLocation) -> str:
    throughput = "" if target.throughput_mib_s is None else f" --throughput {target.throughput_mib_s}"
    return (
        f"burstctl flip {volume_id} --region {location.region}"
        f" --to {target.volume_type} --iops {target.iops}{throughput}"
    )


def _price_sentence(target: Target) -> str:
    price = target.price
    return (
        f"{target.configuration} costs {format_usd(price.after_usd_per_month)} a month instead of"
        f" {format_usd(price.before_usd_per_month)} ({US_EAST_1.region} list prices of"
        f" {US_EAST_1.as_of:%Y-%m-%d})"
    )
