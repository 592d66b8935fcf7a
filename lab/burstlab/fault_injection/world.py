"""The outside of the scenario: volumes, requests to AWS, alerts to people, and the final state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from burstlab.fault_injection.effects import Effect, FaultInjector, InjectedFault
from burstlab.harness.outcome import DeliveredAlert, Outcome
from burstlab.harness.world import World
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.volume import LabVolume

STARTS_AT: Final = datetime(2026, 11, 20, 16, 0, tzinfo=UTC)
DEPLOYED_AT: Final = STARTS_AT - timedelta(days=30)

DRAINING_IO1: Final = "vol-0000000000000000a"
DRAINING_GP3: Final = "vol-0000000000000000b"
ON_HOLD: Final = "vol-0000000000000000c"
CALM: Final = "vol-0000000000000000d"
UNTAGGED: Final = "vol-0000000000000000e"
HOST: Final = "i-00000000000000005"

NAMES: Final[Mapping[str, str]] = {
    DRAINING_IO1: "ci-7",  # drains, is moved to io1 and returns.
    DRAINING_GP3: "ci-8",  # drains in the same minute, is moved to gp3 and stays.
    ON_HOLD: "etcd-1",  # drains while a person holds it, then is moved to gp3.
    CALM: "wiki",  # may be moved, but does not need it.
    UNTAGGED: "db-3",  # becomes empty, and has no opt-in tag
}
IN_SCOPE: Final = frozenset({DRAINING_IO1, DRAINING_GP3, ON_HOLD})

POLICY: Final = """\
version: 1
cadence: {focus_at_most: 1m}
levels: {refilling_for: 3m}
flip: {act_at: critical, cooldown: 4m}
flip_back: {dwell: 5m, calm_for: 5m}
lead: {least: 2m, reserve: 1m, per_tib: 10m}
"""
"""The default policy with shorter times, so that the whole scenario takes less than half an hour.

A change to gp3, which costs nothing, waits for ``critical`` too: two volumes are to be moved in the same
minute.
"""

_UNTAGGED_BUSY_UNTIL_MIN: Final = 9  # two minutes after it is empty

_SETTINGS: Final = LabSettings(
    lag_s=60, modifying_s=70, modify_minutes_per_tib=1, modify_spread=0, modify_event_results=("completed",)
)


class SentRequest(NamedTuple):
    """A ModifyVolume that the watchdog sent, and the intent that the ledger had then, if any."""

    at_s: int
    volume_id: str
    intent_id: str | None
    is_held: bool


class UnknownOriginal(NamedTuple):
    """A moment at which the ledger did not have the configuration of a volume before its flip."""

    at_s: int
    volume_id: str
    current_type: str
    recorded_original: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult(Outcome):
    """The result of a run, for the invariants.

    ``empty_at_s`` is when a volume first had no credits left, according to the simulation.
    """

    deployment: str
    injected_fault: InjectedFault | None
    started_at_s: int
    faulted_at_s: float | None
    crash_count: int
    is_settled: bool
    effects: Sequence[Effect]
    requests: Sequence[SentRequest]
    unknown_originals: Sequence[UnknownOriginal]
    empty_at_s: Mapping[str, int]
    internal_errors: Sequence[str]
    failed_passes: int
    cpu_s: float


class FaultWorld(World):
    """The volumes and the people; records what happens to them.

    Without an ``injected_fault``, the faults that each effect could have are recorded.
    """

    def __init__(self, injected_fault: InjectedFault | None = None) -> None:
        """Five volumes on one host, which have been living for ten minutes."""
        self.fleet = LabFleet(LabClock.manual(STARTS_AT - timedelta(minutes=1)), _SETTINGS)
        self.fleet.add_all(_define_volumes())
        self.fleet.set_load(UNTAGGED, "idle", STARTS_AT + timedelta(minutes=_UNTAGGED_BUSY_UNTIL_MIN))
        self.injector = FaultInjector(self.fleet.clock, injected_fault, is_recording=injected_fault is None)
        self.alerts: list[DeliveredAlert] = []
        self.requests: list[SentRequest] = []
        self.unknown_originals: list[UnknownOriginal] = []
        self.internal_errors: list[str] = []
        self.idled_volume_ids: set[str] = set()
        self.failed_passes = 0

    def record_alert(self, document: Mapping[str, Any]) -> None:
        """People get an alert."""
        self.alerts.append(DeliveredAlert.from_document(self.now_s, document))

    def record_modify(self, volume_id: str) -> None:
        """The watchdog sends a ModifyVolume."""
        flip = self.flip(volume_id)
        holds = [hold for hold in self.ledger.holds(self.now_s) if hold.applies_to(volume_id, self.now_s)]
        intent_id = flip.intent_id if flip is not None and flip.is_under_way else None
        self.requests.append(SentRequest(self.now_s, volume_id, intent_id, bool(holds)))

    def check_originals(self) -> None:
        """Check that the ledger has the original of every volume that is flipped, or is being modified."""
        states = self.ledger.states()
        for volume in self.fleet:
            self.fleet.find(volume.volume_id)
            if volume.volume_type == "gp2" and volume.change is None:
                continue
            state = states.get(volume.volume_id)
            flip = (state.flip or state.modifications.unsent_intent) if state else None
            recorded_original = "nothing" if flip is None else f"{flip.original}, {flip.size_gib} GiB"
            if flip is None or str(flip.original.volume_type) != "gp2" or flip.size_gib != volume.size_gib:
                self.unknown_originals.append(
                    UnknownOriginal(self.now_s, volume.volume_id, volume.volume_type, recorded_original)
                )


def _define_volumes() -> Sequence[LabVolume]:
    """The volumes ten minutes before the scenario.

    At 2,500 IOPS 2.4 % of 100 GiB's bucket go a minute, so at its begin 45 % are left, which last 18 minutes:
    a warning first, critical some minutes later. Of 900 GiB's at 3,000 IOPS 0.33 % go a minute:
    2.4 % are left and last seven minutes; at rest 3 % come back a minute.
    """
    auto = {"burstwatch:mode": "auto"}
    return [
        _define_volume(DRAINING_IO1, "steady:2500", 69.5, auto | {"burstwatch:target": "io1"}),
        _define_volume(DRAINING_GP3, "steady:2500", 69.5, auto),
        _define_volume(ON_HOLD, "steady:2500", 69.5, auto),
        _define_volume(CALM, "idle", 100, auto),
        _define_volume(UNTAGGED, "steady:3000", 5.73, {}, size_gib=900),
    ]


def _define_volume(
    volume_id: str, load: str, balance_pct: float, tags: Mapping[str, str], *, size_gib: int = 100
) -> LabVolume:
    return LabVolume(
        volume_id=volume_id,
        size_gib=size_gib,
        load=load,
        balance_pct=balance_pct,
        starts_at=STARTS_AT - timedelta(minutes=10),
        instance_id=HOST,
        tags={"Name": NAMES[volume_id], **tags},
    )
