"""What a contender did to one case, in values that can cross between processes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, NamedTuple

from burstlab.model.modification import Modification
from burstlab.score.cases import Case
from burstlab.score.ground_truth import START_S
from burstwatch.core.ebs.pricing import US_EAST_1, Configuration, VolumeType, usd_per_month

HOURS_A_MONTH: Final = 730
METRIC_USD: Final = 0.01 / 1000
"""Of GetMetricData, for each metric asked for."""


class Move(NamedTuple):
    """A modification that EC2 accepted."""

    at_s: int
    configuration: Configuration

    @property
    def is_out(self) -> bool:
        return self.configuration.volume_type is not VolumeType.GP2


class Call(NamedTuple):
    """An alert that a volume is about to run dry, or has."""

    at_s: int
    is_critical: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """``calls`` are the beginnings of alerts, ``standing`` the spans in which one stood.

    ``focus`` are the spans in which the volume was in focus; ``metrics`` how many were read for it.
    """

    stalled_s: float
    moves: Sequence[Move] = ()
    calls: Sequence[Call] = ()
    standing: Sequence[tuple[int, int]] = ()
    focus: Sequence[tuple[int, int]] = ()
    watching_usd: float = 0.0

    @property
    def flips(self) -> list[Move]:
        return [move for move in self.moves if move.is_out]


@dataclass(slots=True)
class Spans:
    """Something that is on or off; the spans in which it was on."""

    found: list[tuple[int, int]] = field(default_factory=list)
    since_s: int | None = None

    def set(self, at_s: int, *, on: bool) -> None:
        if on and self.since_s is None:
            self.since_s = at_s
        elif not on and self.since_s is not None:
            self.found.append((self.since_s, at_s))
            self.since_s = None

    def closed(self, at_s: int) -> list[tuple[int, int]]:
        self.set(at_s, on=False)
        return self.found


def moves_of(modifications: Sequence[Modification]) -> list[Move]:
    """What EC2 accepted, oldest first."""
    return [Move(int(each.started_at.timestamp()), _configuration(each)) for each in modifications]


def usd_over_gp2(case: Case, moves: Sequence[Move]) -> float:
    """What the moves cost beyond gp2, to the end of the recording; negative where they save.

    A new type is billed from when the modification is asked for.
    """
    gp2_usd = usd_per_month(Configuration(volume_type=VolumeType.GP2), case.size_gib, US_EAST_1)
    ends_s = [*(move.at_s for move in moves), START_S + case.seconds][1:]
    spent = 0.0
    for move, end_s in zip(moves, ends_s, strict=True):
        more_usd = usd_per_month(move.configuration, case.size_gib, US_EAST_1) - gp2_usd
        spent += more_usd * timedelta(seconds=end_s - move.at_s) / timedelta(hours=HOURS_A_MONTH)
    return spent


def is_free(case: Case, move: Move) -> bool:
    """Whether a move leads to what costs no more than gp2."""
    gp2 = Configuration(volume_type=VolumeType.GP2)
    gp2_usd, usd = (usd_per_month(each, case.size_gib, US_EAST_1) for each in (gp2, move.configuration))
    return usd <= gp2_usd


def _configuration(told: Modification) -> Configuration:
    kind = VolumeType(told.target.volume_type)
    return Configuration(
        volume_type=kind,
        iops=None if kind is VolumeType.GP2 else told.target.iops,
        throughput_mib_s=told.target.throughput_mib_s if kind is VolumeType.GP3 else None,
    )


Records = Mapping[str, Record]
"""By the id of the case's volume."""
