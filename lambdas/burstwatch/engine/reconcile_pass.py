"""The pass that follows the modifications under way and starts none."""

from dataclasses import replace

from burstwatch.core.watch.pass_report import PassReport
from burstwatch.engine.evaluate_volumes import read_remembered_volumes, to_due
from burstwatch.engine.pass_state import WatchPass
from burstwatch.engine.services import Services
from burstwatch.engine.watch_pass import Collection, run_pass, start_pass


def reconcile_open_flips(services: Services, *, now_s: float) -> PassReport:
    """Find out the outcome of the modifications under way; starts none."""
    services_without_flips = replace(services, modifier=None, flip_queue=None)
    report, _ = run_pass(start_pass(services_without_flips, now_s=now_s), _collect_open_flips)
    return report


def _collect_open_flips(watch_pass: WatchPass) -> Collection:
    open_ids = {
        volume_id
        for volume_id, state in watch_pass.states.items()
        if state.flip is not None and state.flip.is_under_way
    }
    if not open_ids:
        return Collection()
    return Collection(due=to_due(watch_pass, read_remembered_volumes(watch_pass, open_ids)))
