"""Which volumes are due at a tick."""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Self

from burstwatch.core.assessment.assess import UnknownReason, not_polled_reason
from burstwatch.core.buckets.poll_interval import is_sweep_due
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.ebs.volume_bucket import bucket_kind_of, bucket_of
from burstwatch.core.ledger.ledger import FleetSnapshot
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.policy.bucket_policy import BucketPolicies
from burstwatch.core.policy.policy import FOCUS_TICK
from burstwatch.core.watch.polling.cadence import sweep_ticks

_EARLY_TOLERANCE_S = int(FOCUS_TICK.total_seconds()) // 2
"""A look due within half a focus tick is taken now: ticks are not punctual to the second."""

_MAX_INTERVAL_S = 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class DueVolume:
    """A volume to poll now; ``has_arrived``: it is new or changed since the last sweep.

    ``smaller_size_gib`` is the smaller size of a modification in progress. A volume that
    ``is_being_modified`` depends on its credits until its modification is over, whatever type AWS shows.
    """

    volume: Volume
    has_arrived: bool = False
    smaller_size_gib: int | None = None
    is_being_modified: bool = False

    @property
    def is_polled(self) -> bool:
        return self.is_being_modified or not_polled_reason(self.volume, self.smaller_size_gib) is None


def fingerprint(volume: Volume, policies: BucketPolicies) -> int:
    """64 bits that change if the volume must be polled again: when it is attached, resized or retyped."""
    parts = (
        volume.volume_id,
        volume.volume_type,
        volume.size_gib,
        volume.attached,
        volume.instance_id,
        _sweep_ticks(volume, policies),
    )
    return fingerprint_of(parts)


def fingerprint_of(parts: tuple[Any, ...]) -> int:
    """64 bits that change if any of these parts does."""
    return int.from_bytes(blake2b(repr(parts).encode(), digest_size=8).digest(), "big")


def _sweep_ticks(volume: Volume, policies: BucketPolicies) -> int:
    bucket = bucket_of(volume)
    return sweep_ticks(bucket, policies.of(bucket_kind_of(volume), bucket).cadence)


def due_in_focus(states: Mapping[str, ResourceState], tick_at_s: int) -> set[str]:
    """The ids of the volumes in focus whose next poll is due.

    A poll that is farther off than any interval was set by a clock that was ahead, so it is due as well.
    """
    return {
        volume_id
        for volume_id, state in states.items()
        if state.next_poll_at_s is not None
        and not tick_at_s + _EARLY_TOLERANCE_S < state.next_poll_at_s <= tick_at_s + _MAX_INTERVAL_S
    }


@dataclass(frozen=True, slots=True)
class SweepTicks:
    """The sweep ticks that a sweep does: its own, and those since the last completed sweep."""

    first: int
    last: int

    @classmethod
    def between(cls, snapshot: FleetSnapshot | None, sweep_at_s: int, sweep_tick_s: int) -> Self:
        last = first = sweep_at_s // sweep_tick_s
        if snapshot is not None and snapshot.tick_at_s <= sweep_at_s:
            first = snapshot.tick_at_s // sweep_tick_s + 1
        return cls(first, last)

    def include(self, subject: str, ticks: int) -> bool:
        """Whether a bucket that is polled every ``ticks`` ticks is due in them."""
        return is_sweep_due(subject, ticks, self.first, self.last)


def due_in_sweep(
    volumes: Iterable[Volume],
    states: Mapping[str, ResourceState],
    *,
    snapshot: FleetSnapshot | None,
    sweep_at_s: int,
    focused: AbstractSet[str],
    instances_restarted: AbstractSet[str],
    forced: AbstractSet[str] = frozenset(),
    smaller_sizes_gib: Mapping[str, int],
    policies: BucketPolicies,
) -> Iterator[DueVolume]:
    """The volumes due in the sweep up to ``sweep_at_s``, with those of all ticks since the last sweep.

    Without a roster, everything is due: there was no sweep before. A volume whose instance was found stopped
    waits until it is in ``instances_restarted``; one in focus has its own time and is due when it is in
    ``focused``. Those ``forced`` are due whatever their balance.
    """
    ticks_due = SweepTicks.between(snapshot, sweep_at_s, policies.sweep_tick_s)
    known_fingerprints = snapshot.fingerprints if snapshot else frozenset()
    for volume in volumes:
        state = states.get(volume.volume_id)
        is_changed = snapshot is not None and fingerprint(volume, policies) not in known_fingerprints
        due = DueVolume(
            volume=volume,
            has_arrived=is_changed or volume.volume_id in instances_restarted,
            smaller_size_gib=smaller_sizes_gib.get(volume.volume_id),
        )
        if volume.volume_id in forced:
            is_due = True
        elif not due.is_polled:
            is_due = state is not None
        elif snapshot is None or due.has_arrived:
            is_due = True
        elif state is not None and state.next_poll_at_s is not None:
            is_due = volume.volume_id in focused
        elif state is not None and state.reading.unknown_reason is UnknownReason.INSTANCE_STOPPED:
            is_due = False
        else:
            is_due = due.smaller_size_gib is not None or ticks_due.include(
                volume.volume_id, _sweep_ticks(volume, policies)
            )
        if is_due:
            yield due
