"""What a person can do about a draining volume: the command, and what it costs."""

from dataclasses import dataclass
from typing import Final

from burstwatch.core.assess import Assessment
from burstwatch.core.place import Place
from burstwatch.core.prices import US_EAST_1, Configuration
from burstwatch.core.target import Demand, Target, TargetRefusal, Wish, choose_target
from burstwatch.core.volume import BURST_IOPS

_PINNED_IOPS: Final = 0.9 * BURST_IOPS
"""AWS delivers at least 90 % of what a volume may serve, so from here on more may be wanted than is seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """``action`` is a command to paste, or a sentence where no command helps; ``target`` is None then."""

    action: str
    target: Configuration | None = None
    reasons: tuple[str, ...] = ()


def propose(assessment: Assessment, wish: Wish, place: Place) -> Proposal:
    """The modification that takes the volume out of the burst bucket, by what it was seen to serve."""
    volume = assessment.volume
    if volume.managed_by:
        return Proposal(action=f"managed by {volume.managed_by}: change its volume type there")
    match choose_target(volume, _demand(assessment), wish, US_EAST_1):
        case TargetRefusal() as refusal:
            return Proposal(action=refusal.sentence)
        case Target() as target:
            return Proposal(
                action=_command(target.configuration, volume.volume_id, place),
                target=target.configuration,
                reasons=(*target.reasons, _price_sentence(target)),
            )


def _demand(assessment: Assessment) -> Demand:
    reads, writes = assessment.consumed_read_iops, assessment.consumed_write_iops
    if reads is None or writes is None:
        return Demand()
    return Demand(peak_iops=reads + writes, pinned=reads + writes >= _PINNED_IOPS)


def _command(target: Configuration, volume_id: str, place: Place) -> str:
    throughput = "" if target.throughput_mib_s is None else f" --throughput {target.throughput_mib_s}"
    return (
        f"aws ec2 modify-volume --region {place.region} --volume-id {volume_id}"
        f" --volume-type {target.volume_type} --iops {target.iops}{throughput}"
    )


def _price_sentence(target: Target) -> str:
    price = target.price
    return (
        f"{target.configuration} costs ${price.after_usd_per_month:,.2f} a month instead of"
        f" ${price.before_usd_per_month:,.2f} ({US_EAST_1.region} list prices of {US_EAST_1.as_of:%Y-%m-%d})"
    )
