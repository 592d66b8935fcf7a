"""The invariants of flips hold whatever happens to volumes, watchdogs and operators, and if processes crash.

Hypothesis generates the scenario: loads, ticks that are lost, doubled or late, faults of AWS, changes by
others, operators, windows, and crashes at any effect. The lab's own record of what it accepted is compared.

``FLIP_SCENARIOS=2000 pytest tests/property/test_flip_invariants.py`` runs more of them.
"""

import os
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from burstlab.harness.effects import CHANNEL, Hook, kill_process
from burstlab.model.fleet import LabSettings
from burstlab.model.modification import ModifyRequest
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.ebs.sizing import ReturnMode, TargetOverride
from burstwatch.core.ledger.flip_state import Direction
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.policy.policy import ActAt, FlipBackPolicy, FlipPolicy, Policy, QuotaRule
from burstwatch.core.policy.windows import LeadPolicy
from support.concurrency.faulty_aws import FAULTS
from support.concurrency.flip_state_machine import (
    DAY_S,
    NO_DISTURBANCE,
    OPT_IN,
    Disturbance,
    FlipWorld,
)

pytestmark = pytest.mark.usefixtures("one_thing_after_the_other")


EXAMPLES = int(os.environ.get("FLIP_SCENARIOS", "15"))
SAME_START_TOLERANCE_S = 5
SIZES = st.one_of(st.sampled_from([8, 100, 500]), st.integers(8, 999))
LOADS = st.sampled_from(["idle", "steady:90", "steady:1200", "steady:2500", "steady:3000"])
TARGETS = st.sampled_from(["gp3", "io1", "io1", "io2"])
VOLUME_INDEXES = st.sampled_from([0, 0, 1, 1, 2])


def minutes(number: int) -> timedelta:
    return timedelta(minutes=number)


@st.composite
def policies(draw) -> Policy:
    """As shipped, or as quick as may be, which tempts it to thrash."""
    flip, back = FlipPolicy(), FlipBackPolicy()
    if draw(st.booleans()):
        flip = FlipPolicy(cooldown=minutes(draw(st.sampled_from([0, 5]))))
        back = FlipBackPolicy(dwell=minutes(draw(st.sampled_from([0, 10]))), calm_for=minutes(5))
    return Policy(
        flip=replace(
            flip,
            target=draw(st.sampled_from([VolumeType.GP3, VolumeType.IO1])),
            quota_rule=draw(st.sampled_from([QuotaRule.FOUR_PER_DAY] * 3 + [QuotaRule.SIX_HOURS])),
            act_at=draw(st.sampled_from([ActAt.AUTO] * 3 + [ActAt.WARNING, ActAt.CRITICAL])),
            fleet_cap=draw(st.sampled_from([1, 2, 50, 50])),
            spend_cap_usd=draw(st.sampled_from([5.0, 250.0, 10_000.0, 10_000.0])),
        ),
        flip_back=replace(back, returns=draw(st.sampled_from([ReturnMode.AUTO, *[ReturnMode.ALWAYS] * 2]))),
        lead=LeadPolicy(least=minutes(5), reserve=minutes(5), per_tib=minutes(60)),
    )


@st.composite
def labs(draw, policy: Policy) -> LabSettings:
    return LabSettings(
        lag_s=draw(st.sampled_from([0, 60, 180])),
        modifying_s=draw(st.sampled_from([20, 70, 300])),
        modify_minutes_per_tib=draw(st.sampled_from([10, 120])),
        modify_rule=str(policy.flip.quota_rule),
        target_shown_from=draw(st.sampled_from(["accepted", "optimizing", "completed"])),
        balance_after=draw(st.sampled_from(["kept", "refilled", "reset", "emptied"])),
    )


@st.composite
def plots(draw) -> tuple[str, int, str] | None:
    """An action near an effect that matters, this many effects later; None if nothing interferes."""
    action = draw(
        st.sampled_from([None, None, "dies", "dies", "dies", "look", "hold", "flip", "back", "others"])
    )
    near = draw(
        st.sampled_from(["record_intent", "record_intent", "record_intent", "commit", "send", "claim_tick"])
    )
    return None if action is None else (near, draw(st.integers(0, 5)), action)


class FlipStateMachine(RuleBasedStateMachine):
    """Three volumes, all but the last of which may be modified automatically."""

    @initialize(data=st.data(), policy=policies(), sizes=st.tuples(SIZES, SIZES, SIZES))
    def begin(self, data, policy, sizes):
        self.world = FlipWorld(policy, data.draw(labs(policy)))
        self.volume_ids = []
        for number, size_gib in enumerate(sizes):
            tags = {"burstwatch:target": data.draw(TARGETS), "burstwatch:window": "release"}
            self.volume_ids.append(self.world.add(size_gib, tags if number == 2 else tags | {OPT_IN: "auto"}))
        self.world.run_minutes(15, every_min=5)

    def teardown(self):
        if hasattr(self, "world"):
            try:
                self.come_to_rest()
            finally:
                self.world.ledger.close()

    @property
    def fleet(self):
        return self.world.fleet

    def volume(self, which: int) -> str | None:
        """A volume that there still is."""
        volume_id = self.volume_ids[which]
        return volume_id if volume_id in self.fleet else None

    def live(
        self, minutes: int, every_min: int = 1, disturbance=(0, NO_DISTURBANCE), plot=None, about=None
    ) -> None:
        hooks = []
        if plot is not None:
            near, later, action_name = plot
            hooks = [Hook(name=near, effects_later=later, action=self.action(action_name, about))]
        self.world.run_minutes(minutes, every_min=every_min, disturbances=dict([disturbance]), hooks=hooks)

    def action(self, name: str, volume_id: str | None):
        """What somebody does in the middle of a pass, to a volume that there still is."""
        world = self.world
        actions = {
            "hold": lambda: world.hold(volume_id, 600),
            "flip": lambda: world.order(volume_id, Direction.FLIP),
            "back": lambda: world.order(volume_id, Direction.FLIP_BACK),
            "others": lambda: world.modify_externally(volume_id, ModifyRequest(volume_type="gp3")),
        }
        if name == "dies":
            return kill_process
        return (
            actions.get(name, world.run_concurrent_pass)
            if volume_id in self.fleet
            else world.run_concurrent_pass
        )

    # Time, and the load of volumes

    @rule(
        pace=st.one_of(
            st.tuples(st.integers(1, 90), st.sampled_from([1, 1, 5])),
            st.tuples(st.integers(120, 26 * 60), st.just(15)),
        ),
        tick=st.integers(0, 9),
        disturbance=st.sampled_from(
            [Disturbance(), Disturbance(nth=0), Disturbance(nth=2), Disturbance(2, 50), Disturbance(2, 170)]
        ),
        plot=plots(),
    )
    def time_passes(self, pace, tick, disturbance, plot):
        self.live(*pace, disturbance=(tick, disturbance), plot=plot)

    @rule(which=VOLUME_INDEXES, load=LOADS)
    def load_changes(self, which, load):
        if volume_id := self.volume(which):
            self.fleet.set_load(volume_id, load)
            self.live(3)

    @rule(
        which=VOLUME_INDEXES, load=st.sampled_from(["steady:3000", "steady:3000", "steady:2000"]),
        balance_pct=st.integers(10, 50), span=st.integers(5, 14), plot=plots(),
    )  # fmt: skip
    def burst_load(self, which, load, balance_pct, span, plot):
        """Straight into danger: nothing else makes a watchdog act. Not at full burst, gp3 may be free."""
        if volume_id := self.volume(which):
            self.fleet.set_balance(volume_id, balance_pct)
            self.fleet.set_load(volume_id, load)
            self.live(span, plot=plot, about=volume_id)

    @rule(which=VOLUME_INDEXES, span=st.integers(20, 120), plot=plots())
    def quiet_period(self, which, span, plot):
        if volume_id := self.volume(which):
            self.fleet.set_load(volume_id, "idle")
            self.live(span, 5, plot=plot, about=volume_id)

    @rule(
        which=VOLUME_INDEXES, rounds=st.integers(2, 4), busy=st.integers(6, 40), quiet=st.integers(30, 150),
        plot=plots(),
    )  # fmt: skip
    def ups_and_downs(self, which, rounds, busy, quiet, plot):
        """The load that makes a naive watchdog thrash."""
        volume_id = self.volume(which)
        for number in range(rounds if volume_id else 0):
            self.fleet.set_balance(volume_id, 40)
            self.fleet.set_load(volume_id, "steady:3000")
            self.live(busy, 2, plot=plot if number == 0 else None, about=volume_id)
            self.fleet.set_load(volume_id, "idle")
            self.live(quiet, 5)

    # What goes wrong

    def burst_load_somewhere(self, which, span):
        if volume_id := self.volume(which):
            self.fleet.set_balance(volume_id, 25)
            self.fleet.set_load(volume_id, "steady:3000")
        self.live(span)

    @rule(fault=st.sampled_from(sorted(FAULTS)), which=VOLUME_INDEXES, span=st.integers(1, 10))
    def modifying_goes_wrong(self, fault, which, span):
        self.world.ec2.fault = fault
        self.burst_load_somewhere(which, span)
        self.world.ec2.fault = None

    @rule(
        unreadable=st.sets(
            st.sampled_from(["describe_volumes", "describe_volumes_modifications", "metrics"]), min_size=1
        ),
        span=st.integers(1, 8),
    )
    def reading_goes_wrong(self, unreadable, span):
        self.world.ec2.unreadable = unreadable
        self.world.cloudwatch.is_unreadable = "metrics" in unreadable
        self.live(span)
        self.world.ec2.unreadable, self.world.cloudwatch.is_unreadable = set(), False

    @rule(which=VOLUME_INDEXES)
    def an_answer_is_stale(self, which):
        """For one pass AWS describes a volume on its target as the gp2 that it was."""
        volume_id = self.volume(which)
        state = self.world.state(volume_id) if volume_id else None
        if state and state.flip and not state.flip.is_under_way:
            self.world.ec2.stale[volume_id] = {"VolumeType": "gp2", "Iops": 300, "Throughput": None}
            self.live(1)
            self.world.ec2.stale.clear()
            self.live(2)

    @rule(which=VOLUME_INDEXES, span=st.integers(1, 9))
    def an_answer_leaves_one_out(self, which, span):
        """For less than the ten minutes after which it counts as deleted AWS describes all but one."""
        if volume_id := self.volume(which):
            self.world.ec2.left_out = {volume_id}
            self.live(span)
            self.world.ec2.left_out = set()
            self.live(2)

    @rule(
        which=VOLUME_INDEXES,
        will_end=st.sampled_from(["completed", "completed", "failed", "failed_early", "stuck"]),
        ends=st.sampled_from([None, "completed", "failed"]),
    )
    def modifications_end_well_or_badly(self, which, will_end, ends):
        self.fleet.change_settings(modify_outcome=will_end)
        volume_id = self.volume(which)
        if volume_id and ends and self.fleet.find(volume_id).change is not None:
            self.fleet.end_modification(volume_id, ends)
            self.live(2)

    # What others do

    @rule(
        which=VOLUME_INDEXES,
        wanted=st.sampled_from(
            [
                ModifyRequest(volume_type="gp2"),
                ModifyRequest(volume_type="gp3"),
                ModifyRequest(volume_type="io2", iops=3000),
            ]
        ),
        more_gib=st.sampled_from([0, 0, 1, 100]),
        after=st.integers(0, 20),
    )
    def others_change_or_resize_it(self, which, wanted, more_gib, after):
        if volume_id := self.volume(which):
            if more_gib:
                wanted = ModifyRequest(size_gib=self.fleet.find(volume_id).size_gib + more_gib)
            self.world.modify_externally(volume_id, wanted)
            self.live(after)

    @precondition(lambda self: len(self.fleet) == 3)
    @rule(which=VOLUME_INDEXES)
    def others_delete_it(self, which):
        if volume_id := self.volume(which):
            self.fleet.remove(volume_id)

    @rule(
        which=VOLUME_INDEXES,
        tag=st.sampled_from(
            [
                (OPT_IN, "auto"), (OPT_IN, "auto"), (OPT_IN, None), (OPT_IN, "observe"),
                ("burstwatch:ignore", "true"), ("burstwatch:ignore", None),
                ("burstwatch:critical", "true"), ("burstwatch:critical", None),
                ("burstwatch:target", "io1"), ("burstwatch:target", "gp3"),
            ]
        ),
    )  # fmt: skip
    def others_tag_it(self, which, tag):
        if volume_id := self.volume(which):
            self.fleet.set_tags(volume_id, dict([tag]))
            self.live(5)

    @rule(
        which=VOLUME_INDEXES, away=st.sampled_from([1, 2, 6, 40, 120]), after=st.integers(0, 20), plot=plots()
    )
    def others_move_it_to_another_instance(self, which, away, after, plot):
        """A node drain, a scale-to-zero; AWS attaches it when no modification is ``modifying``."""
        if volume_id := self.volume(which):
            self.world.detach(volume_id)
            self.live(away, plot=plot, about=volume_id)
            if volume_id in self.fleet:
                self.world.attach(volume_id)
            self.live(after)

    @rule(which=VOLUME_INDEXES)
    def others_detach_or_attach_it(self, which):
        """No one looks until something else happens."""
        if volume_id := self.volume(which):
            is_attached = self.fleet.find(volume_id).attachment is not None
            (self.world.detach if is_attached else self.world.attach)(volume_id)

    @rule(which=VOLUME_INDEXES, span=st.sampled_from([3, 20, 60]), starts=st.booleans())
    def others_stop_its_instance(self, which, span, starts):
        volume_id = self.volume(which)
        attachment = self.fleet.find(volume_id).attachment if volume_id else None
        if attachment is not None:
            self.fleet.stop_instance(attachment.instance_id)
            self.live(span)
            if starts:
                self.fleet.start_instance(attachment.instance_id)

    # What operators do

    @rule(
        which=VOLUME_INDEXES,
        volume_type=st.sampled_from([None, VolumeType.GP3, VolumeType.IO1, VolumeType.IO2]),
        hours=st.sampled_from([None, 1, 6]),
        after=st.integers(0, 12),
    )
    def an_operator_flips_it(self, which, volume_type, hours, after):
        if volume_id := self.volume(which):
            override = None if volume_type is None else TargetOverride(volume_type=volume_type)
            for_s = None if hours is None else hours * 3600
            self.world.order(volume_id, Direction.FLIP, override=override, for_s=for_s)
            self.live(after)

    @rule(which=VOLUME_INDEXES, after=st.integers(0, 12))
    def an_operator_flips_it_back(self, which, after):
        if volume_id := self.volume(which):
            self.world.order(volume_id, Direction.FLIP_BACK)
            self.live(after)

    @rule(
        which=VOLUME_INDEXES,
        command=st.sampled_from(["hold", "hold all", "release", "release", "window", "no window"]),
        span=st.integers(5, 300),
    )  # fmt: skip
    def an_operator_commands(self, which, command, span):
        world, volume_id = self.world, self.volume(which)
        match command:
            case "hold" | "hold all":
                world.hold(volume_id if command == "hold" else None, 60 * span)
            case "release" if volume_id:
                world.release(volume_id)
            case "window" | "no window":
                world.mark_window("release", starts=command == "window")
        self.live(6)

    # What must hold after each of these

    @invariant()
    def the_rules_hold(self):
        if not hasattr(self, "world"):
            return
        for volume_id in self.volume_ids:
            check_modification_budget(self.world, volume_id)
            check_attribution(self.world, volume_id)
            if volume_id in self.fleet:
                check_remembered_original(self.world, volume_id)
        check_caps(self.world)

    # What must be so in the end

    def come_to_rest(self):
        """All is repaired and no one requests anything: nothing stays open, and who may return does."""
        world = self.world
        world.clear_faults()
        world.mark_window("release", starts=False)
        for volume_id in [None, *self.volume_ids]:
            world.ledger.lift_hold(volume_id, by="ann", at_s=world.now_s)
        for volume in self.fleet:
            self.fleet.set_load(volume.volume_id, "idle")
            self.fleet.set_tags(volume.volume_id, {"burstwatch:critical": None})
        world.run_minutes(30)
        world.run_minutes(4 * 60, every_min=5)
        world.run_minutes(24 * 60, every_min=30)
        world.run_minutes(5)
        for volume_id in self.volume_ids:
            if volume_id in self.fleet:
                self.has_come_to_rest(volume_id)
        assert not world.ledger.pending_deliveries(channels=[CHANNEL])

    def has_come_to_rest(self, volume_id):
        world, volume, state = self.world, self.fleet.find(volume_id), self.world.state(volume_id)
        ends = {entry.body["intent_id"]: [] for entry in world.entries(volume_id, EntryKind.INTENT)}
        for entry in world.entries(volume_id, EntryKind.ACCEPTED, EntryKind.NOT_DONE):
            ends[entry.body["intent_id"]].append(entry.kind)
        # what counted as never sent is corrected, once, if AWS shows such a modification later
        corrected = [EntryKind.NOT_DONE, EntryKind.ACCEPTED]
        assert all(
            kinds in ([EntryKind.ACCEPTED], [EntryKind.NOT_DONE], corrected) for kinds in ends.values()
        )
        reported = {entry.body["alert_id"] for entry in world.entries(volume_id, EntryKind.ALERT)}
        assert reported <= set(world.sent)
        if state is None or state.flip is None:
            return
        assert not state.flip.is_under_way, f"never settled: {state.flip}"
        is_allowed = volume.tags.get(OPT_IN) == "auto" and volume.tags.get("burstwatch:ignore") != "true"
        waits = (
            state.modifications.contested_at_s is not None
            or not is_allowed
            or world.return_costs_more(volume_id)
        )
        assert state.flip.is_settled or waits, f"does not return: {state.flip}"
        assert state.flip.is_settled or world.entries(volume_id, EntryKind.LEFT_ON_TARGET), (
            f"unsaid: {state.flip}"
        )


def check_modification_budget(world, volume_id):
    """At most three automatic modifications in any 24 h, and the third never onto an expensive type."""
    automatic = [item for item in world.accepted_for(volume_id) if item.is_automatic]
    for first, fourth in zip(automatic, automatic[3:], strict=False):
        assert fourth.at_s - first.at_s >= DAY_S, f"four in a day: {automatic}"
    for first, third in zip(automatic, automatic[2:], strict=False):
        leaves = third.direction is Direction.FLIP and third.volume_type in ("io1", "io2")
        assert third.at_s - first.at_s >= DAY_S or not leaves, f"stranded: {automatic}"


def check_attribution(world, volume_id):
    """No one is reported to have changed a volume that no one changed."""
    blamed = world.entries(volume_id, EntryKind.CHANGED_BY_OTHERS)
    assert volume_id in world.externally_changed or not blamed, f"others did not change it: {blamed}"


def check_remembered_original(world, volume_id):
    """The ledger counts everything that AWS took of us, and knows the way back from where it led."""
    state, own_modifications = world.state(volume_id), list(world.accepted_for(volume_id))
    recent = [item for item in own_modifications if item.at_s > world.now_s - DAY_S]
    assert state is not None or not recent, f"forgotten: {recent}"
    open_since_s = state.flip.requested_at_s if state and state.flip and state.flip.is_under_way else None
    for item in recent:
        is_known = any(
            abs(item.at_s - use.at_s) <= SAME_START_TOLERANCE_S for use in state.modifications.used
        )
        is_open = open_since_s is not None and item.at_s >= open_since_s
        assert is_known or is_open, f"{item} is not in {state.modifications.used}"
    newest = world.newest(volume_id)
    is_own = (
        bool(own_modifications)
        and newest is not None
        and int(newest.started_at.timestamp()) == own_modifications[-1].at_s
    )
    if is_own and newest.state != "failed" and own_modifications[-1].direction is Direction.FLIP:
        flip = state.flip if state else None
        assert flip is not None, f"no way back from {own_modifications[-1]}"
        assert flip.original in world.shapes[volume_id]


def check_caps(world):
    """Of volumes that are away or on their way there; one that returns from where it stayed adds nothing.

    What others make more expensive cannot be prevented: it counts as it was reserved. Nor is it refused
    that a person who pays for a stay already gives it an end, though it counts from then on.
    """
    away = [
        state.flip
        for volume_id, state in world.ledger.states().items()
        if state.flip and state.flip.counts_against_caps and state.flip.direction is Direction.FLIP
        and state.flip.intent_id not in world.with_return_time and not is_as_others_made_it(world, volume_id)
    ]  # fmt: skip
    assert len(away) <= world.policy.flip.fleet_cap
    more_usd = sum(max(0.0, flip.usd_per_month) for flip in away)
    assert more_usd <= world.policy.flip.spend_cap_usd + 0.01, f"${more_usd} a month more: {away}"


def is_as_others_made_it(world, volume_id):
    requested_at_s = world.state(volume_id).flip.requested_at_s
    return any(
        entry.at_s >= requested_at_s for entry in world.entries(volume_id, EntryKind.CHANGED_BY_OTHERS)
    )


TestFlipInvariants = FlipStateMachine.TestCase
TestFlipInvariants.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
