"""AWS, a fleet, two watchdogs and an operator in one process; the lab keeps the record of what was done.

The readers, the modifier, the ledger and the watchdog are the product's own. Beneath them stands a client
that looks like boto3's and asks the lab without a wire between.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import ceil
from typing import Any

from burstctl.context.on_demand_pass import evaluate_fleet
from burstlab.fake_aws.in_process_clients import modification_document, volume_document
from burstlab.harness.deterministic import InlineExecutor, run_into
from burstlab.harness.effects import CHANNEL, CrashPoint, Hook, ProcessKilled
from burstlab.harness.world import World, build_services
from burstlab.model.aws_error import AwsError
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.modification import Modification, ModifyRequest
from burstlab.model.volume import LabVolume
from burstwatch.adapters.aws.ec2 import Ec2Reader, parse_modification, parse_volume
from burstwatch.adapters.aws.ec2_modify import Ec2Modifier
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ebs.pricing import US_EAST_1, Configuration, VolumeType, usd_per_month
from burstwatch.core.ebs.sizing import TargetOverride
from burstwatch.core.ebs.volume_types import configuration_of
from burstwatch.core.flips.flip_plan import FlipOrder
from burstwatch.core.ledger.caps import IntentStatus
from burstwatch.core.ledger.flip_state import (
    WATCHDOG,
    Direction,
    FlipCause,
    FlipStatus,
    ManualWindowOverride,
    active_hold,
)
from burstwatch.core.ledger.ledger import Change
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.policy.policy import ActAt, Policy
from burstwatch.engine.flip_executor import execute_flips
from burstwatch.engine.services import Services
from burstwatch.engine.tick_pass import run_tick
from support.builders.states import with_fields
from support.concurrency.crash_harness import crashing_parts
from support.concurrency.faulty_aws import FaultyCloudWatch, FaultyEc2

START = datetime(2026, 11, 20, 0, 0, tzinfo=UTC)
OPT_IN = "burstwatch:mode"
DAY_S = 24 * 3600


@dataclass(frozen=True)
class AcceptedModification:
    """A modification that AWS accepted of us, as the lab has it."""

    volume_id: str
    by: str
    at_s: int
    volume_type: str
    direction: Direction

    @property
    def is_automatic(self) -> bool:
        return self.by == WATCHDOG


class DelayedExecutor(InlineExecutor):
    """In place of threads: what was submitted is done, in order, when all has been submitted.

    A failing example must fail again in the same way.
    """

    def __init__(self, *_: object, **__: object) -> None:
        self._waiting: list[Callable[[], None]] = []

    def __exit__(self, kind: object, *_: object) -> None:
        for work in self._waiting if kind is None else ():
            work()

    def submit(self, do: Callable[..., Any], *args: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        self._waiting.append(lambda: run_into(future, do, *args))
        return future


@dataclass
class CheckedLedger:
    """The ledger, which no automatic intent may enter that is held, contested or not opted in."""

    ledger: SqliteLedger
    world: "FlipWorld"

    def __getattr__(self, name):
        return getattr(self.ledger, name)

    def record_intent(self, change: Change, caps, *, now_s, **options):
        before = self.ledger.states_of({change.volume_id}).get(change.volume_id)
        hold = active_hold(self.ledger.holds(now_s), change.volume_id, now_s)
        beginning = self.ledger.record_intent(change, caps, now_s=now_s, **options)
        flip = change.state.flip
        if beginning.status is IntentStatus.RECORDED:
            self.world.intents.add((change.volume_id, flip.intent_id))
            assert hold is None, f"{change.volume_id} is begun while on hold"
            is_contested = before is not None and before.modifications.contested_at_s is not None
            assert not (is_contested and flip.by == WATCHDOG), f"{change.volume_id} is contested"
            if flip.direction is Direction.FLIP:
                self._check_caps(change.volume_id, flip)
        return beginning

    def _check_caps(self, volume_id, flip) -> None:
        """Of everything that counts when one more volume is let out, its own included."""
        states = self.ledger.states()
        other_flips = [
            s.flip for i, s in states.items() if i != volume_id and s.flip and s.flip.counts_against_caps
        ]
        caps, more_usd = (
            self.world.policy.flip,
            sum(max(0.0, item.usd_per_month) for item in (*other_flips, flip)),
        )
        assert len(other_flips) < caps.fleet_cap, f"{volume_id} is one too many"
        assert more_usd <= caps.spend_cap_usd + 0.01, f"{volume_id} makes it ${more_usd} a month more"
        if flip.by == WATCHDOG and flip.reason.startswith(Level.WARNING):
            reserved = ceil(caps.fleet_cap * caps.draining_reserve_pct / 100)
            assert len(other_flips) < caps.fleet_cap - reserved, f"{volume_id} takes a critical drain's place"
            is_free = flip.is_permanent and flip.usd_per_month <= 0
            assert is_free or caps.act_at is ActAt.WARNING, f"{volume_id} could wait, and costs money"


@dataclass
class CheckedModifier:
    """Sends on, after it has looked whether this may be sent at all; keeps who asked for what AWS took."""

    modifier: Ec2Modifier
    world: "FlipWorld"
    by: str

    def modify(self, volume_id, configuration, **options):
        world = self.world
        flip = world.flip(volume_id)
        if volume_id in world.fleet:
            assert flip is not None
            assert (flip.status, flip.by, flip.requested_config) == (
                FlipStatus.REQUESTED,
                self.by,
                configuration,
            )
            assert (volume_id, flip.intent_id) in world.intents
            reported = {entry.body.get("intent_id") for entry in world.entries(volume_id, EntryKind.INTENT)}
            assert flip.intent_id in reported, f"{volume_id} is sent without an intent in its history"
            if self.by == WATCHDOG:
                self._check_automatic(volume_id, flip)
        known = world.newest(volume_id)
        answer = self.modifier.modify(volume_id, configuration, **options)
        newest = world.newest(volume_id)
        if newest is not None and newest != known:
            at_s = int(newest.started_at.timestamp())
            world.accepted.append(
                AcceptedModification(volume_id, self.by, at_s, newest.target.volume_type, flip.direction)
            )
        return answer

    def _check_automatic(self, volume_id, flip) -> None:
        world, volume = self.world, self.world.fleet.find(volume_id)
        is_return_by_hand = flip.direction is Direction.FLIP_BACK and flip.cause is FlipCause.MANUAL
        assert volume.tags.get(OPT_IN) == "auto" or is_return_by_hand, f"{volume_id} is not opted in"
        assert volume.tags.get("burstwatch:ignore") != "true", f"{volume_id} is ignored"
        assert volume.attachment is not None, f"{volume_id} is detached"
        if flip.direction is Direction.FLIP_BACK:
            assert not world.return_costs_more(volume_id), f"{volume_id} returns to what costs more"
        own_modifications = [
            modification for modification in world.accepted if modification.volume_id == volume_id
        ]
        newest = world.newest(volume_id)
        if (
            newest is not None
            and own_modifications
            and own_modifications[-1].at_s == int(newest.started_at.timestamp())
        ):
            assert newest.has_ended, f"{volume_id} is sent while our own modification is in progress"


@dataclass
class FlipWorld(World):
    """Everything there is, with the rules of the lab and of the policy that were drawn."""

    policy: Policy
    settings: LabSettings
    sent: list[str] = field(default_factory=list)
    accepted: list[AcceptedModification] = field(default_factory=list)
    intents: set[tuple[str, str]] = field(default_factory=set)
    with_return_time: set[str] = field(default_factory=set)
    externally_changed: set[str] = field(default_factory=set)
    shapes: dict[str, list[Configuration]] = field(default_factory=dict)
    restarts: int = 0
    ticks: int = 0

    def __post_init__(self) -> None:
        self.fleet = LabFleet(LabClock.manual(START), self.settings)
        self.ledger = SqliteLedger.in_memory()
        self.ec2 = FaultyEc2(self.fleet)
        self.cloudwatch = FaultyCloudWatch(self.fleet)

    def newest(self, volume_id: str) -> Modification | None:
        if volume_id not in self.fleet:
            return None
        return next(reversed(self.fleet.modifications(volume_id)), None)

    def add(self, size_gib: int, tags: Mapping[str, str]) -> str:
        volume_id = self.fleet.add(LabVolume(size_gib=size_gib, load="idle", tags=tags))
        self.shapes[volume_id] = [Configuration(volume_type=VolumeType.GP2)]
        return volume_id

    def run_minutes(
        self,
        minutes: int,
        *,
        every_min: int = 1,
        disturbances: Mapping[int, "Disturbance"] | None = None,
        hooks: Sequence[Hook] = (),
    ) -> None:
        """N minutes with a tick every few of them, some of them disturbed, and traps on the way."""
        for number, _ in enumerate(range(0, minutes, every_min)):
            self.fleet.clock.advance(60 * every_min - self.now_s % 60)
            disturbance = (disturbances or {}).get(number, NO_DISTURBANCE)
            tick_s = self.now_s
            self.fleet.clock.advance(disturbance.late_s)
            for _ in range(disturbance.nth):
                self.tick(tick_s, CrashPoint(hooks=hooks))

    def tick(self, tick_s: int, fuse: CrashPoint) -> None:
        self.ticks += 1
        try:
            run_tick(self.shell(WATCHDOG, fuse), tick_at_s=tick_s, now_s=self.now_s)
        except ProcessKilled:
            self.restarts += 1

    def shell(self, by: str, fuse: CrashPoint | None = None) -> Services:
        """A process that begins to live: everything it knows is in the ledger."""
        fuse = fuse or CrashPoint()
        modifier = CheckedModifier(Ec2Modifier(self.ec2), self, by)
        parts = crashing_parts(CheckedLedger(self.ledger, self), modifier, fuse, self.sent)
        return build_services(
            self.fleet, policy=self.policy, ec2=Ec2Reader(self.ec2), cloudwatch=self.cloudwatch, **parts
        )

    def run_concurrent_pass(self) -> None:
        """Another watchdog looks at everything."""
        evaluate_fleet(self.shell(WATCHDOG), now_s=self.now_s)

    def order(
        self,
        volume_id: str,
        direction: Direction,
        *,
        override: TargetOverride | None = None,
        for_s: int | None = None,
    ):
        """An operator flips a volume, or takes it back."""
        shell, known = self.shell("ann"), self.flip(volume_id)
        order = FlipOrder(
            volume_id=volume_id,
            direction=direction,
            cause=FlipCause.MANUAL,
            reason="ann wants it",
            by="ann",
            override=override,
            return_after_s=None if for_s is None else self.now_s + for_s,
        )
        outcomes = execute_flips(shell, [order], shell.build_collector(self.now_s))
        flip = self.flip(volume_id)
        if (
            known
            and flip
            and flip.intent_id == known.intent_id
            and flip.counts_against_caps
            and not known.counts_against_caps
        ):
            self.with_return_time.add(flip.intent_id)
        return outcomes

    def release(self, volume_id: str) -> None:
        """No one holds it any more, and what others did to it is settled."""
        for item in (None, volume_id):
            self.ledger.lift_hold(item, by="ann", at_s=self.now_s)
        state = self.state(volume_id)
        if state is not None and state.modifications.contested_at_s is not None:
            after = with_fields(state, revision=max(state.revision + 1, self.now_s), contested_at_s=None)
            change = Change(volume_id=volume_id, expected_revision=state.revision, state=after)
            assert self.ledger.commit([change], channels=[CHANNEL])

    def mark_window(self, name: str, *, starts: bool) -> None:
        until_s = None if starts else self.now_s + 1
        self.ledger.record_manual_override(
            ManualWindowOverride(name=name, is_start=starts, by="ann", at_s=self.now_s, until_s=until_s)
        )

    def return_costs_more(self, volume_id: str) -> bool:
        """Whether a volume was more expensive than now and not gp2, to which only people return it."""
        original = self.state(volume_id).flip.original
        volume = parse_volume(volume_document(self.fleet.find(volume_id)))
        before, after = (
            usd_per_month(item, volume.size_gib, US_EAST_1) for item in (configuration_of(volume), original)
        )
        return original.volume_type is not VolumeType.GP2 and after > before

    def detach(self, volume_id: str) -> None:
        self.fleet.detach(volume_id)

    def attach(self, volume_id: str) -> bool:
        """As a CSI driver does, which tries again for as long as AWS refuses."""
        if self.fleet.find(volume_id).attachment is None:
            try:
                self.fleet.attach(volume_id)
            except AwsError:
                return False
        return True

    def modify_externally(self, volume_id: str, wanted: ModifyRequest) -> bool:
        """Terraform, the console, a driver; AWS may refuse them as well."""
        try:
            reported = self.fleet.modify(volume_id, wanted)
        except AwsError:
            return False
        self.externally_changed.add(volume_id)
        created = parse_modification(modification_document(volume_id, reported)).target.configuration()
        self.shapes[volume_id].append(created)
        return True

    def clear_faults(self) -> None:
        """Nothing goes wrong any more."""
        self.ec2.fault, self.ec2.unreadable, self.cloudwatch.is_unreadable = None, set(), False
        self.ec2.left_out = set()
        self.fleet.change_settings(modify_outcome="completed")
        for change_of in list(self.fleet):
            if change_of.change is not None:
                self.fleet.end_modification(change_of.volume_id)
            self.attach(change_of.volume_id)
        for instance_id in self.fleet.instances:
            self.fleet.start_instance(instance_id)

    def accepted_for(self, volume_id: str) -> Iterable[AcceptedModification]:
        return (modification for modification in self.accepted if modification.volume_id == volume_id)


@dataclass(frozen=True)
class Disturbance:
    """The fate of one tick: it runs this many times, and this late."""

    nth: int = 1
    late_s: int = 0


NO_DISTURBANCE = Disturbance()
