"""The demo: a dozen volumes under load, the real watchdog acting, six hours in a minute or two."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from math import inf
from pathlib import Path
from typing import Final

from burstlab.demo.activity import Refused, Trip, refusals_of, trips_of
from burstlab.demo.scenario import CAST, STARTS_AT, TWINS, Actor
from burstlab.demo.watchdogs import Watchdog, deployed_watchdog, local_watchdog
from burstlab.fake_aws.server import Endpoint
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.simulated_volume import SimulatedVolume
from burstlab.model.volume import LabVolume
from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ebs.pricing import US_EAST_1, Configuration, VolumeType, usd_per_hour, usd_per_month
from burstwatch.core.ebs.volume import BURST_IOPS, Volume, baseline_iops
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.core.ledger.ledger import EntryKind, LedgerEntry, VolumeState

POLICY: Final = Path(__file__).with_name("demo_policy.yaml")
PAST: Final = timedelta(minutes=75)
"""What the fleet has lived through when the curtain rises: quiet, so that there is something to read."""
TICK_S: Final = 60
SETTINGS: Final = LabSettings(lag_s=120)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What was really so on a volume in the minute until ``at_s``; CloudWatch shows it later and in part.

    ``balance_pct`` is None while there is no bucket. ``usd_more`` is what the minute cost above gp2.
    """

    at_s: int
    balance_pct: float | None
    demand_iops: float
    served_iops: float
    usd: float
    usd_more: float


@dataclass(slots=True, kw_only=True)
class Life:
    """A volume from the first minute of the demo on."""

    volume_id: str
    moments: list[Moment] = field(default_factory=list)
    dry_at_s: float | None = None
    stalled_s: float = 0.0
    lost_ops: float = 0.0

    def live(self, volume: SimulatedVolume) -> None:
        """Note the minute that has just passed."""
        truth = volume.truth()
        minute = (volume.at_s - volume.origin_s) // TICK_S - 1
        served = sum(run.read_ops + run.write_ops for run in volume.history.runs(minute, minute + 1)) / TICK_S
        usd = _usd(billed(volume), volume.size_gib)
        self.moments.append(
            Moment(
                at_s=volume.at_s,
                balance_pct=truth.burst_balance_pct if volume.tells_balance() else None,
                demand_iops=served + (truth.lost_ops - self.lost_ops) / TICK_S,
                served_iops=served,
                usd=usd,
                usd_more=usd - _usd(Configuration(volume_type=VolumeType.GP2), volume.size_gib),
            )
        )
        self.dry_at_s = truth.first_dry_at.timestamp() if truth.first_dry_at else None
        self.stalled_s, self.lost_ops = truth.stalled_s, truth.lost_ops

    @property
    def usd(self) -> float:
        return sum(moment.usd for moment in self.moments)

    def usd_more(self, from_s: float = 0, to_s: float | None = None) -> float:
        """What it cost above gp2 between two moments; negative where it cost less."""
        end_s = inf if to_s is None else to_s
        return sum(moment.usd_more for moment in self.moments if from_s < moment.at_s <= end_s)


def billed(volume: SimulatedVolume) -> Configuration:
    """What is paid for: AWS bills a new configuration from the start of its modification."""
    shape = volume.change.target if volume.change else volume.shape
    kind = VolumeType(shape.volume_type)
    return Configuration(
        volume_type=kind,
        iops=None if kind is VolumeType.GP2 else shape.iops,
        throughput_mib_s=shape.throughput_mib_s if kind is VolumeType.GP3 else None,
    )


def _usd(configuration: Configuration, size_gib: int) -> float:
    """Dollars for a minute."""
    return usd_per_hour(usd_per_month(configuration, size_gib, US_EAST_1)) * TICK_S / 3600


@dataclass(slots=True, kw_only=True)
class Role:
    """An actor on stage: what became of its volume, what would have become of it ``alone``, what was done.

    ``state`` is what the ledger has of it, None while it is calm. ``type_now`` is what it is, with an arrow
    while it is on its way there.
    """

    actor: Actor
    volume_id: str
    life: Life
    alone: Life
    entries: list[LedgerEntry] = field(default_factory=list)
    state: VolumeState | None = None
    type_now: str = "gp2"

    @property
    def volume(self) -> Volume:
        """As AWS describes it at the start."""
        return Volume(
            volume_id=self.volume_id,
            volume_type=VolumeType.GP2,
            size_gib=self.actor.size_gib,
            created_at=STARTS_AT,
            tags=self.actor.tags,
        )

    @property
    def level(self) -> Level:
        """As it is judged now."""
        if self.state is None:
            return Level.OK if baseline_iops(self.actor.size_gib) < BURST_IOPS else Level.UNKNOWN
        return Level.UNKNOWN if self.state.unknown_reason else self.state.level

    @property
    def notice_s(self) -> float | None:
        """From the first alert that it drains until it was dry; None where there was not both."""
        alerts = (entry for entry in self.entries if entry.kind is EntryKind.ALERT)
        first = next((entry for entry in alerts if entry.body["kind"] == AlertKind.DRAINING), None)
        return self.life.dry_at_s - first.at_s if first and self.life.dry_at_s else None

    @property
    def trips(self) -> list[Trip]:
        return trips_of(self.entries)

    @property
    def refusals(self) -> list[Refused]:
        return refusals_of(self.entries)


@dataclass(slots=True, kw_only=True)
class Stage:
    """The demo while it runs; the volumes of ``alone`` live the same load, and nobody watches them."""

    endpoint: Endpoint
    alone: LabFleet
    watchdog: Watchdog
    roles: dict[str, Role]
    ticks: int = 0

    @property
    def now_s(self) -> int:
        return self.endpoint.fleet.now_s()

    @property
    def api_calls(self) -> dict[str, int]:
        """What the watchdog has asked of EC2 and CloudWatch."""
        return self.endpoint.faults.calls()

    @property
    def twins(self) -> list[Role]:
        return [role for role in self.roles.values() if role.actor.name in TWINS]


@contextmanager
def open_stage(policy: Path, *, say: Callable[[str], None] | None = None) -> Iterator[Stage]:
    """Put the cast behind an endpoint and the watchdog in front of it, with leave to modify.

    With ``say``, which hears how that goes, it is the deployed one.
    """
    clock = LabClock.by_hand(STARTS_AT - PAST)
    watched, alone = LabFleet(clock, SETTINGS), LabFleet(clock, SETTINGS)
    roles = [_cast(actor, watched, alone) for actor in CAST]
    with ExitStack() as stack:
        endpoint = stack.enter_context(Endpoint(watched))
        opened = deployed_watchdog(endpoint, policy, say) if say else local_watchdog(endpoint, policy)
        stage = Stage(
            endpoint=endpoint,
            alone=alone,
            watchdog=stack.enter_context(opened),
            roles={role.volume_id: role for role in roles},
        )
        clock.advance(PAST.total_seconds())
        _place_holds(stage)
        endpoint.faults.forget_calls()
        yield stage


def _cast(actor: Actor, watched: LabFleet, alone: LabFleet) -> Role:
    volume_id = _enter(watched, actor)
    life, left_alone = Life(volume_id=volume_id), Life(volume_id=_enter(alone, actor))
    return Role(actor=actor, volume_id=volume_id, life=life, alone=left_alone)


def _enter(fleet: LabFleet, actor: Actor) -> str:
    volume = LabVolume(
        size_gib=actor.size_gib,
        balance_pct=actor.balance_pct,
        load=actor.load_before,
        tags={"Name": actor.name, **actor.tags},
        starts_at=STARTS_AT - PAST,
    )
    volume_id = fleet.add(volume)
    fleet.set_load(volume_id, actor.load, STARTS_AT)
    if actor.silent_after is not None:
        silence = STARTS_AT + actor.silent_after
        fleet.hide_metrics(volume_id, from_at=silence, to_at=silence + timedelta(days=1), only_balance=True)
    return volume_id


def _place_holds(stage: Stage) -> None:
    """What people had told the watchdog before."""
    for role in stage.roles.values():
        if role.actor.hold is not None:
            by, reason = role.actor.hold
            until_s = stage.now_s + int(timedelta(days=1).total_seconds())
            stage.watchdog.ledger.place_hold(
                Hold(volume_id=role.volume_id, by=by, reason=reason, placed_at_s=stage.now_s, until_s=until_s)
            )


def play(stage: Stage, *, hours: float, pace_s: float, show: Callable[[Stage], None]) -> None:
    """Let time pass, minute by minute; each minute one tick of the real watchdog over real HTTP.

    Args:
        stage: who plays.
        hours: how long, in simulated time.
        pace_s: wall seconds a simulated minute takes at least.
        show: called after every tick.
    """
    for _ in range(round(hours * 60)):
        began = time.monotonic()
        stage.endpoint.clock.advance(TICK_S)
        for role in stage.roles.values():
            role.life.live(stage.endpoint.fleet.find(role.life.volume_id))
            role.alone.live(stage.alone.find(role.alone.volume_id))
        _tick(stage)
        show(stage)
        time.sleep(max(0.0, pace_s - (time.monotonic() - began)))


def _tick(stage: Stage) -> None:
    stage.watchdog.tick()
    stage.ticks += 1
    states = stage.watchdog.ledger.states()
    for role in stage.roles.values():
        state = states.get(role.volume_id)
        if state != role.state or state is None:
            role.entries = stage.watchdog.ledger.entries(role.volume_id)
        role.state = state
        volume = stage.endpoint.fleet.find(role.volume_id)
        role.type_now = f"→{volume.change.target.volume_type}" if volume.change else volume.volume_type
