"""Which calm volumes must be polled before their sweep is due: for a tag, a window or a person."""

from collections.abc import Iterable

from burstwatch.core.ebs.volume import Volume, can_burst
from burstwatch.core.flips.reconciliation.observed_state import is_on_target
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.policy.policy import Mode
from burstwatch.core.tag_keys import CRITICAL, WINDOW
from burstwatch.engine.pass_state import WatchPass


def find_forced_volumes(watch_pass: WatchPass, volumes: Iterable[Volume]) -> frozenset[str]:
    """The ids of the volumes to poll whatever their balance is.

    Adds to ``watch_pass.in_window`` the volumes that belong to a window which runs or comes.
    """
    forced = set[str]()
    for volume in volumes:
        if volume.volume_id in watch_pass.states.unreadable:
            continue
        state = watch_pass.states.get(volume.volume_id)
        if _was_returned_by_others(volume, state) or _is_wanted_on_target(watch_pass, volume, state):
            forced.add(volume.volume_id)
    return frozenset(forced)


def _was_returned_by_others(volume: Volume, state: ResourceState | None) -> bool:
    """Whether somebody else undid our flip: the volume lives on its credits again."""
    flip = state.flip if state else None
    return flip is not None and not flip.is_under_way and not is_on_target(volume, flip)


def _is_wanted_on_target(watch_pass: WatchPass, volume: Volume, state: ResourceState | None) -> bool:
    """Whether its tag or a window asks for a flip, or for the alert that it runs on credits."""
    policy = watch_pass.services.policy
    may_be_wanted = CRITICAL in volume.tags or WINDOW in volume.tags or bool(policy.windows)
    if not may_be_wanted or not can_burst(volume) or (state is not None and state.flip is not None):
        return False
    volume_settings = watch_pass.settings_of(volume)
    if volume_settings.is_ignored or volume_settings.mode is Mode.OBSERVE:
        return False
    window = watch_pass.window_schedule.status_for(volume)
    if window is not None:
        watch_pass.in_window[volume.volume_id] = window
    # In focus, its next look is near anyway.
    if state is not None and state.next_poll_at_s is not None:
        return False
    needs_critical_alert = volume_settings.is_critical and not (state and state.alerts.is_critical_open)
    is_in_running_window = window is not None and window.wants_flip
    return needs_critical_alert or (
        volume_settings.mode is Mode.AUTO and (is_in_running_window or volume_settings.is_critical)
    )
