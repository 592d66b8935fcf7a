"""What a contender did to one case, in values that can cross between processes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from burstlab.model.modification import Modification
from burstlab.score.cases import Case
from burstlab.score.ground_truth import START_S
from burstwatch.core.ebs.pricing import US_EAST_1, Configuration, VolumeType, usd_over, usd_per_month

METRIC_USD: Final = 0.01 / 1000
"""GetMetricData, for each requested metric."""


class AcceptedModification(NamedTuple):
    """A modification that EC2 accepted."""

    at_s: int
    configuration: Configuration

    @property
    def is_flip(self) -> bool:
        return self.configuration.volume_type is not VolumeType.GP2


class AlertStart(NamedTuple):
    """The beginning of an alert that a volume will be empty soon, or is empty."""

    at_s: int
    is_critical: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRecord:
    """``alerts`` are the beginnings of alerts, ``alert_spans`` the spans in which one was active.

    ``focus_spans`` are the spans in which the volume was in focus; ``watching_usd`` is what the metrics cost.
    """

    stalled_s: float
    modifications: Sequence[AcceptedModification] = ()
    alerts: Sequence[AlertStart] = ()
    alert_spans: Sequence[tuple[int, int]] = ()
    focus_spans: Sequence[tuple[int, int]] = ()
    watching_usd: float = 0.0

    @property
    def flips(self) -> list[AcceptedModification]:
        return [modification for modification in self.modifications if modification.is_flip]


@dataclass(slots=True)
class SpanRecorder:
    """Records the spans in which something was on."""

    spans: list[tuple[int, int]] = field(default_factory=list)
    started_at_s: int | None = None

    def set(self, at_s: int, *, is_on: bool) -> None:
        if is_on and self.started_at_s is None:
            self.started_at_s = at_s
        elif not is_on and self.started_at_s is not None:
            self.spans.append((self.started_at_s, at_s))
            self.started_at_s = None

    def close(self, at_s: int) -> list[tuple[int, int]]:
        self.set(at_s, is_on=False)
        return self.spans


def accepted_modifications(modifications: Sequence[Modification]) -> list[AcceptedModification]:
    """What EC2 accepted, oldest first."""
    return [
        AcceptedModification(int(modification.started_at.timestamp()), _to_configuration(modification))
        for modification in modifications
    ]


def usd_over_gp2(case: Case, modifications: Sequence[AcceptedModification]) -> float:
    """What the moves cost beyond gp2, to the end of the recording; negative if they save.

    A new type is billed from the request for the modification on. Source: EBS user guide, "Modify a volume".
    """
    gp2_usd = usd_per_month(Configuration(volume_type=VolumeType.GP2), case.size_gib, US_EAST_1)
    ended_at_s = [*(modification.at_s for modification in modifications), START_S + case.duration_s][1:]
    total_usd = 0.0
    for modification, end_at_s in zip(modifications, ended_at_s, strict=True):
        extra_usd = usd_per_month(modification.configuration, case.size_gib, US_EAST_1) - gp2_usd
        total_usd += usd_over(extra_usd, end_at_s - modification.at_s)
    return total_usd


def is_free(case: Case, modification: AcceptedModification) -> bool:
    """Whether a move leads to what costs no more than gp2."""
    gp2 = Configuration(volume_type=VolumeType.GP2)
    gp2_usd, usd = (
        usd_per_month(configuration, case.size_gib, US_EAST_1)
        for configuration in (gp2, modification.configuration)
    )
    return usd <= gp2_usd


def _to_configuration(modification: Modification) -> Configuration:
    volume_type = VolumeType(modification.target.volume_type)
    return Configuration(
        volume_type=volume_type,
        iops=None if volume_type is VolumeType.GP2 else modification.target.iops,
        throughput_mib_s=modification.target.throughput_mib_s if volume_type is VolumeType.GP3 else None,
    )
