"""Which volumes are due at a tick."""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from hashlib import blake2b

from burstwatch.core.assessment.assess import UnknownReason, why_not_polled
from burstwatch.core.ebs.volume import Volume, baseline_iops
from burstwatch.core.ledger.ledger import Roster, VolumeState
from burstwatch.core.policy.policy import FOCUS_TICK, CadencePolicy
from burstwatch.core.watch.poll_interval import is_swept, sweep_ticks

_EARLY_S = int(FOCUS_TICK.total_seconds()) // 2
"""A look due within half a focus tick is taken now: ticks are not punctual to the second."""

_FARTHEST_S = 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class DueVolume:
    """A volume to look at now; ``has_arrived`` when it is new or changed since the last sweep.

    ``smaller_size_gib`` is the lesser size of a modification in progress. One that ``is_leaving`` lives on
    its credits until its modification is over, whatever type it shows.
    """

    volume: Volume
    has_arrived: bool = False
    smaller_size_gib: int | None = None
    is_leaving: bool = False

    @property
    def is_polled(self) -> bool:
        return self.is_leaving or why_not_polled(self.volume, self.smaller_size_gib) is None


def fingerprint(volume: Volume, cadence: CadencePolicy) -> int:
    """64 bits that change when the volume must be looked at anew: attached, resized, retyped."""
    ticks = sweep_ticks(baseline_iops(volume.size_gib), cadence)
    parts = (
        volume.volume_id,
        volume.volume_type,
        volume.size_gib,
        volume.attached,
        volume.instance_id,
        ticks,
    )
    return int.from_bytes(blake2b(repr(parts).encode(), digest_size=8).digest(), "big")


def due_in_focus(states: Mapping[str, VolumeState], tick_s: int) -> set[str]:
    """The ids of the volumes in focus whose next look is due.

    A look farther off than any interval was set by a clock that was ahead: it is due, too.
    """
    return {
        volume_id
        for volume_id, state in states.items()
        if state.next_look_at_s is not None
        and not tick_s + _EARLY_S < state.next_look_at_s <= tick_s + _FARTHEST_S
    }


def due_in_sweep(
    volumes: Iterable[Volume],
    states: Mapping[str, VolumeState],
    *,
    roster: Roster | None,
    sweep_s: int,
    focused: AbstractSet[str],
    restarted: AbstractSet[str],
    summoned: AbstractSet[str] = frozenset(),
    smaller_sizes_gib: Mapping[str, int],
    cadence: CadencePolicy,
) -> Iterator[DueVolume]:
    """The volumes due when the sweep up to ``sweep_s`` is done, all ticks since the last one taken together.

    Without a roster, everything is due: there was no sweep before. A volume whose instance was found stopped
    waits until it is in ``restarted``; one in focus has its own time and is due when it is in ``focused``.
    Those ``summoned`` are due whatever their balance.
    """
    grid_s = int(cadence.sweep_tick.total_seconds())
    last_tick = sweep_s // grid_s
    first_tick = last_tick
    if roster is not None and roster.tick_s <= sweep_s:
        first_tick = roster.tick_s // grid_s + 1
    known = roster.fingerprints if roster else frozenset()
    for volume in volumes:
        state = states.get(volume.volume_id)
        is_changed = roster is not None and fingerprint(volume, cadence) not in known
        due = DueVolume(
            volume=volume,
            has_arrived=is_changed or volume.volume_id in restarted,
            smaller_size_gib=smaller_sizes_gib.get(volume.volume_id),
        )
        ticks = sweep_ticks(baseline_iops(volume.size_gib), cadence)
        if volume.volume_id in summoned:
            is_due = True
        elif not due.is_polled:
            is_due = state is not None
        elif roster is None or due.has_arrived:
            is_due = True
        elif state is not None and state.next_look_at_s is not None:
            is_due = volume.volume_id in focused
        elif state is not None and state.unknown_reason is UnknownReason.INSTANCE_STOPPED:
            is_due = False
        else:
            is_due = due.smaller_size_gib is not None or is_swept(
                volume.volume_id, ticks, first_tick, last_tick
            )
        if is_due:
            yield due
