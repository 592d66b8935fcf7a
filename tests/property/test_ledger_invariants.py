"""Invariants of the ledger: it does what a simple model does, with any process, also reopened."""

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.alerts.alert import Alert, AlertKind, make_digest
from burstwatch.core.assessment.host_stall import Stall, StuckTask
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ledger.caps import Caps, IntentResult, IntentStatus
from burstwatch.core.ledger.flip_state import (
    WATCHDOG,
    Direction,
    Flip,
    FlipCause,
    FlipStatus,
    Hold,
    ManualWindowOverride,
    ModificationUse,
)
from burstwatch.core.ledger.ledger import Change, Delivery, FleetSnapshot, TickKind
from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.location import AwsLocation
from support.builders.states import GROUPS, build_state
from support.ledger.ledger_stores import ledger_store

VOLUMES = ("vol-0a", "vol-0b", "vol-0c")
CHANNELS = ("mail", "slack")
LEASE_S = 60


def an_alert(volume_id, revision, kind):
    return Alert(
        alert_id=f"{volume_id} {kind} {revision}",
        kind=kind,
        level=Level.WARNING,
        previous_level=Level.OK,
        volume_id=volume_id,
        at_s=revision,
        volume={"volume_id": volume_id},
    )


def a_flip(**changes):
    facts = {
        "status": FlipStatus.REQUESTED,
        "direction": Direction.FLIP,
        "intent_id": "an intent",
        "cause": FlipCause.DRAINING,
        "by": WATCHDOG,
        "original": Configuration(volume_type=VolumeType.GP2),
        "target": Configuration(volume_type=VolumeType.IO1, iops=1000),
        "size_gib": 100,
        "requested_at_s": 1,
    }
    return Flip(**(facts | changes))


@dataclass
class PendingDelivery:
    """An alert on its way to one channel, in the model."""

    alert: Alert
    channel: str
    revision: int
    attempts: int = 0
    owner: int | None = None
    until_s: float = 0
    error: str | None = None
    digest: "PendingDelivery | None" = None

    @property
    def delivery(self):
        return Delivery(alert=self.alert, channel=self.channel, attempts=self.attempts)


@dataclass
class LedgerModel:
    """The ledger as one would write it without disks, processes or crashes; ``by`` is who calls."""

    states: dict = field(default_factory=dict)
    entries: dict = field(default_factory=dict)
    deliveries: list = field(default_factory=list)
    channels: list = field(default_factory=list)
    completed: dict = field(default_factory=dict)
    claimed: dict = field(default_factory=dict)
    roster: FleetSnapshot | None = None
    held: dict = field(default_factory=dict)
    marks: dict = field(default_factory=dict)

    def append(self, entry):
        about = (entry.body.get("alert_id"), entry.body.get("channel"))
        key = (entry.volume_id, entry.revision, entry.kind, about)
        is_new = key not in self.entries
        self.entries.setdefault(key, entry)
        return is_new

    def history(self, volume_id):
        return sorted((e for e in self.entries.values() if e.volume_id == volume_id), key=lambda e: e.at_s)

    def commit(self, changes, channels):
        self.channels = sorted({*self.channels, *channels})
        return {change.volume_id for change in changes if self._apply(change, self.channels)}

    def _apply(self, change, channels):
        state = self.states.get(change.volume_id)
        if (state.revision if state else None) != change.expected_revision:
            return False
        self.states.pop(change.volume_id, None)
        if change.state:
            self.states[change.volume_id] = change.state
        alerts = {alert.alert_id: alert for alert in change.alerts}
        for entry in change.entries:
            if self.append(entry) and entry.kind is EntryKind.ALERT:
                alert = alerts[entry.body["alert_id"]]
                self.deliveries += [PendingDelivery(alert, channel, entry.revision) for channel in channels]
        return True

    def append_entry(self, subject, kind, at_s, body):
        entry = LedgerEntry(volume_id=subject, revision=at_s, kind=kind, at_s=at_s, body=body)
        self.entries[len(self.entries), "told"] = entry

    def holds(self, now_s):
        lasting = [hold for hold in self.held.values() if hold.until_s > now_s]
        return sorted(lasting, key=lambda hold: (-hold.until_s, hold.volume_id or "*"))

    def place_hold(self, hold):
        self.held[hold.volume_id] = hold
        body = {"by": hold.by, "reason": hold.reason, "until_s": hold.until_s}
        self.append_entry(hold.volume_id or "*", EntryKind.HELD, hold.placed_at_s, body)

    def lift_hold(self, volume_id, by, at_s):
        hold = self.held.pop(volume_id, None)
        if hold is None or hold.until_s <= at_s:
            return None
        body = {"by": by, "reason": hold.reason, "until_s": hold.until_s}
        self.append_entry(volume_id or "*", EntryKind.RELEASED, at_s, body)
        return hold

    def mark_window(self, mark):
        self.marks[mark.name] = mark
        body = {"starts": mark.is_start, "by": mark.by, "until_s": mark.until_s}
        self.append_entry(f"window {mark.name}", EntryKind.WINDOW, mark.at_s, body)

    @property
    def reserved(self):
        flips = ((volume_id, state.flip) for volume_id, state in self.states.items() if state.flip)
        return {
            volume_id: max(0.0, flip.usd_per_month) for volume_id, flip in flips if flip.counts_against_caps
        }

    def begin(self, change, caps, now_s, *, respects_holds, channels):
        other_reservations = [
            usd for volume_id, usd in self.reserved.items() if volume_id != change.volume_id
        ]
        beginning = IntentResult(
            status=IntentStatus.RECORDED,
            volumes=len(other_reservations),
            usd_per_month=sum(other_reservations),
        )
        state = self.states.get(change.volume_id)
        if (state.revision if state else None) != change.expected_revision:
            return replace(beginning, status=IntentStatus.CONFLICT)
        stopping = [hold for hold in self.holds(now_s) if hold.volume_id in (None, change.volume_id)]
        if respects_holds and stopping:
            return replace(beginning, status=IntentStatus.HELD, hold=stopping[0])
        if change.state.flip.direction is Direction.FLIP:
            if caps.volumes is not None and len(other_reservations) + 1 > caps.volumes:
                return replace(beginning, status=IntentStatus.FLEET_CAP)
            total = sum(other_reservations) + max(0, change.state.flip.usd_per_month)
            if caps.usd_per_month is not None and total > caps.usd_per_month:
                return replace(beginning, status=IntentStatus.SPEND_CAP)
        assert self.commit([change], channels)
        return beginning

    def find(self, delivery):
        for waiting in self.deliveries:
            if (waiting.alert.alert_id, waiting.channel) == (delivery.alert.alert_id, delivery.channel):
                return waiting
        return None

    def waiting(self, channels):
        deliverable = [w for w in self.deliveries if w.channel in channels and w.digest is None]
        return [w.delivery for w in sorted(deliverable, key=lambda w: w.alert.at_s)]

    def claim(self, delivery, by, now_s):
        waiting = self.find(delivery)
        if waiting is None or waiting.digest or (waiting.owner is not None and waiting.until_s > now_s):
            return False
        waiting.attempts, waiting.owner, waiting.until_s = waiting.attempts + 1, by, now_s + LEASE_S
        return True

    def delivered(self, delivery, at_s):
        sent = self.find(delivery)
        for waiting in [w for w in self.deliveries if sent and sent in (w, w.digest)]:
            self.deliveries.remove(waiting)
            if waiting.alert.volume_id:
                self.append(delivered_entry(waiting, sent, at_s))

    def not_delivered(self, delivery, error, by):
        waiting = self.find(delivery)
        if waiting and waiting.owner == by:
            waiting.owner, waiting.error = None, error

    def bundle(self, alert_ids, digest, channels):
        for channel in channels:
            members = [w for w in self.deliveries if w.channel == channel and w.alert.alert_id in alert_ids]
            unsent = [w for w in members if not w.attempts and not w.digest]
            if alert_ids and len(unsent) == len(set(alert_ids)):
                new = PendingDelivery(digest, channel, 0)
                for waiting in self.deliveries:
                    if waiting in members or waiting.digest in members:
                        waiting.digest = new
                self.deliveries.append(new)

    def claim_tick(self, kind, tick_s, now_s):
        running = [t for (k, t), until_s in self.claimed.items() if k is kind and until_s > now_s]
        completed = self.completed.get(kind, -1)
        if max([completed, *running]) >= tick_s:
            return False
        if kind is TickKind.SWEEP and any(t > completed for t in running):
            return False
        self.claimed = {
            c: until_s for c, until_s in self.claimed.items() if c[0] is not kind or until_s > now_s
        }
        self.claimed[kind, tick_s] = now_s + LEASE_S
        return True

    def renew_tick(self, kind, tick_s, until_s, now_s):
        if self.claimed.get((kind, tick_s)) != until_s:
            return False
        self.claimed[kind, tick_s] = now_s + LEASE_S
        return True

    def complete_tick(self, kind, tick_s, roster):
        if tick_s < self.completed.get(kind, tick_s):
            return
        self.completed[kind] = tick_s
        if kind is TickKind.SWEEP:
            self.roster = FleetSnapshot(tick_at_s=tick_s, fingerprints=roster)


def delivered_entry(waiting, sent, at_s):
    return LedgerEntry(
        volume_id=waiting.alert.volume_id,
        revision=waiting.revision,
        kind=EntryKind.DELIVERED,
        at_s=at_s,
        body={
            "alert_id": waiting.alert.alert_id,
            "channel": waiting.channel,
            "attempts": sent.attempts,
            "last_error": sent.error,
            "digest_id": None if sent is waiting else sent.alert.alert_id,
        },
    )


process = st.sampled_from([0, 1])
channel_sets = st.sets(st.sampled_from(CHANNELS)).map(sorted)
index = st.integers(0, 50)
volumes = st.sampled_from(VOLUMES)
subjects = st.none() | volumes
dollars = st.sampled_from([-5.0, 0.0, 0.5, 10.0, 20.0])
all_caps = st.builds(
    Caps,
    volumes=st.none() | st.integers(0, 3),
    usd_per_month=st.none() | st.sampled_from([0.0, 10.0, 10.5, 20.0, 30.5]),
)
flips = st.none() | st.builds(
    a_flip,
    status=st.sampled_from(FlipStatus),
    direction=st.sampled_from(Direction),
    is_permanent=st.booleans(),
    usd_per_month=dollars,
)


class TwoProcesses(RuleBasedStateMachine):
    """Two processes use one ledger; either may end at any time and come back having forgotten its claims."""

    kind = "sqlite"

    def __init__(self):
        super().__init__()
        self.resources = ExitStack()
        directory = self.resources.enter_context(TemporaryDirectory())
        self.home = self.resources.enter_context(ledger_store(self.kind, Path(directory)))
        self.ledgers = [self.home.open() for _ in range(2)]
        self.model = LedgerModel()
        self.now_s = 1000
        self.looks = 0
        self.births = 2
        self.names = [0, 1]
        self.pending = []
        self.sending = [[], []]
        self.past = []
        self.promised = set()
        self.sent_keys = Counter()
        self.overtaken = set()

    def teardown(self):
        with self.resources:
            self.everything_is_delivered_in_the_end()

    def everything_is_delivered_in_the_end(self):
        self.now_s += 2 * LEASE_S
        while waiting := self.model.waiting(CHANNELS):
            assert self.begin_to_send(0, waiting[0])
            self.send_to_channel(0, 0)
        assert self.ledgers[1].pending_deliveries(channels=CHANNELS) == []
        assert self.home.count_undelivered() == 0
        self.everything_is_as_in_the_model()
        assert set(self.sent_keys) == self.promised
        assert {key for key, times in self.sent_keys.items() if times > 1} <= self.overtaken

    @rule(seconds=st.sampled_from([1, 10, LEASE_S]))
    def time_passes(self, seconds):
        self.now_s += seconds

    def change(self, volume_id, *, stale, kinds, drop=False, flip=None):
        state = self.model.states.get(volume_id)
        revision = max(state.revision + 1 if state else 0, self.now_s)
        expected = state.revision if state else None
        alerts = [an_alert(volume_id, revision, kind) for kind in kinds]
        entries = [
            LedgerEntry(
                volume_id=volume_id,
                revision=revision,
                kind=EntryKind.ALERT,
                at_s=self.now_s,
                body=a.to_document(),
            )
            for a in alerts
        ]
        return Change(
            volume_id=volume_id,
            expected_revision=(expected or 0) - 1 if stale else expected,
            state=None
            if drop
            else build_state(volume_id, revision, balance_pct=31.5, flip=flip),
            entries=[LedgerEntry(volume_id=volume_id, revision=revision, kind=EntryKind.LEVEL_CHANGED,
                                 at_s=self.now_s, body={"from": "ok"}), *entries],
            alerts=alerts,
        )  # fmt: skip

    @rule(
        by=process,
        volume_ids=st.sets(st.sampled_from(VOLUMES), min_size=1).map(sorted),
        stale=st.sets(st.sampled_from(VOLUMES), max_size=1),
        drop=st.booleans(),
        kinds=st.sets(st.sampled_from([AlertKind.DRAINING, AlertKind.TELEMETRY_GAP])).map(sorted),
        flip=flips,
        channels=channel_sets,
    )
    def looks_are_committed(self, by, volume_ids, stale, drop, kinds, flip, channels):
        changes = [self.change(v, stale=v in stale, drop=drop, kinds=kinds, flip=flip) for v in volume_ids]
        self.past.append(changes)
        self.commit(by, changes, channels)

    @precondition(lambda self: self.past)
    @rule(by=process, which=index, channels=channel_sets)
    def an_earlier_commit_is_repeated(self, by, which, channels):
        self.commit(by, self.past[which % len(self.past)], channels)

    def commit(self, by, changes, channels):
        applied = self.model.commit(changes, channels)
        assert self.ledgers[by].commit(changes, channels=channels) == applied
        self.promised |= {(w.channel, w.alert.alert_id) for w in self.model.deliveries if w.alert.volume_id}

    @rule(
        by=process,
        volume_id=volumes,
        stale=st.integers(0, 9).map(lambda one_in_ten: one_in_ten == 0),
        direction=st.sampled_from(Direction),
        usd=dollars,
        caps=all_caps,
        respects_holds=st.booleans(),
        kinds=st.sets(st.just(AlertKind.DRAINING)).map(sorted),
        channels=channel_sets,
    )
    def an_intent_is_begun(self, by, volume_id, stale, direction, usd, caps, respects_holds, kinds, channels):
        flip = a_flip(direction=direction, usd_per_month=usd)
        change = self.change(volume_id, stale=stale, kinds=kinds, flip=flip)
        expected = self.model.begin(
            change, caps, self.now_s, respects_holds=respects_holds, channels=channels
        )
        outcome = self.ledgers[by].record_intent(
            change, caps, now_s=self.now_s, respects_holds=respects_holds, channels=channels
        )
        assert outcome == expected
        self.past.append([change])
        self.promised |= {(w.channel, w.alert.alert_id) for w in self.model.deliveries if w.alert.volume_id}

    @rule(by=process, subject=subjects, for_s=st.sampled_from([1, 30, 100]), reason=st.text(max_size=5))
    def a_hold_is_placed(self, by, subject, for_s, reason):
        hold = Hold(
            volume_id=subject,
            by=f"process {by}",
            reason=reason,
            placed_at_s=self.now_s,
            until_s=self.now_s + for_s,
        )
        self.model.place_hold(hold)
        self.ledgers[by].place_hold(hold)

    @rule(by=process, subject=subjects)
    def a_hold_is_lifted(self, by, subject):
        expected = self.model.lift_hold(subject, "bob", self.now_s)
        assert self.ledgers[by].lift_hold(subject, by="bob", at_s=self.now_s) == expected

    @rule(
        by=process,
        name=st.sampled_from(["night", "release"]),
        starts=st.booleans(),
        for_s=st.none() | st.just(60),
    )
    def a_window_is_marked(self, by, name, starts, for_s):
        until_s = None if for_s is None else self.now_s + for_s
        mark = ManualWindowOverride(
            name=name, is_start=starts, by=f"process {by}", at_s=self.now_s, until_s=until_s
        )
        self.model.mark_window(mark)
        self.ledgers[by].record_manual_override(mark)

    @rule(by=process, volume_ids=st.sets(volumes))
    def the_states_of_some_are_read(self, by, volume_ids):
        expected = {v: state for v, state in self.model.states.items() if v in volume_ids}
        assert self.ledgers[by].states_of(volume_ids) == expected

    @rule(by=process, channels=channel_sets)
    def what_waits_is_listed(self, by, channels):
        pending_deliveries = self.ledgers[by].pending_deliveries(channels=channels)
        assert pending_deliveries == self.model.waiting(channels)
        self.pending += pending_deliveries

    @precondition(lambda self: self.pending)
    @rule(by=process, which=index)
    def an_alert_seen_before_is_claimed(self, by, which):
        self.begin_to_send(by, self.pending[which % len(self.pending)])

    @precondition(lambda self: self.model.waiting(CHANNELS))
    @rule(by=process, which=index)
    def a_waiting_alert_is_claimed(self, by, which):
        waiting = self.model.waiting(CHANNELS)
        self.begin_to_send(by, waiting[which % len(waiting)])

    def begin_to_send(self, by, delivery):
        expected = self.model.claim(delivery, self.names[by], self.now_s)
        assert self.ledgers[by].claim_delivery(delivery, now_s=self.now_s, lease_s=LEASE_S) is expected
        if expected:
            if delivery in chain_of(self.sending):
                self.overtaken |= self.keys_of(delivery)
            self.sending[by].insert(0, delivery)
        return expected

    def keys_of(self, delivery):
        """The alerts of volumes, with their channel, in a message: its own, or those of a digest."""
        sent = self.model.find(delivery)
        reported = [w for w in self.model.deliveries if sent and sent in (w, w.digest)]
        return {(w.channel, w.alert.alert_id) for w in reported if w.alert.volume_id}

    def send_to_channel(self, by, which):
        delivery = self.sending[by].pop(which % len(self.sending[by]))
        self.sent_keys.update(self.keys_of(delivery))
        self.model.delivered(delivery, self.now_s)
        self.ledgers[by].mark_delivered(delivery, at_s=self.now_s)

    @precondition(lambda self: any(self.sending))
    @rule(by=process, which=index)
    def a_channel_takes_an_alert(self, by, which):
        self.send_to_channel(by if self.sending[by] else 1 - by, which)

    @precondition(lambda self: any(self.sending))
    @rule(by=process, which=index, error=st.text(max_size=5))
    def a_channel_takes_nothing(self, by, which, error):
        by = by if self.sending[by] else 1 - by
        delivery = self.sending[by].pop(which % len(self.sending[by]))
        self.model.not_delivered(delivery, error, self.names[by])
        self.ledgers[by].mark_undelivered(delivery, error=error)

    @precondition(lambda self: self.model.waiting(CHANNELS))
    @rule(by=process, chosen=st.sets(index, max_size=4), channels=channel_sets)
    def alerts_are_bundled(self, by, chosen, channels):
        known = [*self.model.waiting(CHANNELS), *self.pending]
        alerts = {a.alert_id: a for a in (known[i % len(known)].alert for i in chosen)}
        place = AwsLocation(region="us-east-1")
        some = list(alerts.values()) or [known[0].alert]
        digest = make_digest(some, location=place, runbooks_url="https://runbooks", now_s=self.now_s)
        self.model.bundle(list(alerts), digest, channels)
        self.ledgers[by].replace_with_digest(list(alerts), digest, channels=channels)

    @rule(by=process, kind=st.sampled_from(TickKind), minutes=st.integers(0, 5))
    def a_tick_is_claimed(self, by, kind, minutes):
        expected = self.model.claim_tick(kind, 60 * minutes, self.now_s)
        claimed = self.ledgers[by].claim_tick(kind, 60 * minutes, now_s=self.now_s, lease_s=LEASE_S)
        assert claimed is expected

    @rule(by=process, kind=st.sampled_from(TickKind), minutes=st.integers(0, 5), is_owner=st.booleans())
    def a_claim_is_renewed(self, by, kind, minutes, is_owner):
        known_s = self.model.claimed.get((kind, 60 * minutes), self.now_s)
        until_s = known_s if is_owner else known_s + 1
        expected = self.model.renew_tick(kind, 60 * minutes, until_s, self.now_s)
        renewed = self.ledgers[by].renew_tick(
            kind, 60 * minutes, until_s=until_s, now_s=self.now_s, lease_s=LEASE_S
        )
        assert renewed is expected

    @rule(
        by=process,
        kind=st.sampled_from(TickKind),
        minutes=st.integers(0, 5),
        fingerprints=st.frozensets(st.integers(0, 2**64 - 1), max_size=3),
    )
    def a_tick_is_completed(self, by, kind, minutes, fingerprints):
        roster = fingerprints if kind is TickKind.SWEEP else None
        self.model.complete_tick(kind, 60 * minutes, roster)
        self.ledgers[by].complete_tick(kind, 60 * minutes, fleet_fingerprints=roster)

    @rule(by=process)
    def a_process_ends_and_starts_again(self, by):
        self.home.end_process(self.ledgers[by])
        self.ledgers[by] = self.home.open()
        self.names[by], self.births = self.births, self.births + 1
        self.sending[by] = []

    @invariant()
    def everything_is_as_in_the_model(self):
        reserved = self.model.reserved
        assert self.home.reserved() == (len(reserved), sum(reserved.values()))
        self.looks += 1
        ledger = self.ledgers[self.looks % 2]
        assert ledger.states() == self.model.states
        assert ledger.fleet_snapshot() == self.model.roster
        assert ledger.pending_deliveries(channels=CHANNELS) == self.model.waiting(CHANNELS)
        assert ledger.holds(self.now_s) == self.model.holds(self.now_s)
        assert ledger.manual_overrides() == self.model.marks
        for subject in (*VOLUMES, "*", "window night", "window release"):
            assert ledger.entries(subject) == self.model.history(subject)


def chain_of(lists):
    return [item for items in lists for item in items]


TestTwoProcesses = TwoProcesses.TestCase
TestTwoProcesses.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


class TwoProcessesAndATable(TwoProcesses):
    """The same in DynamoDB."""

    kind = "dynamodb"


TestTwoProcessesAndATable = TwoProcessesAndATable.TestCase
TestTwoProcessesAndATable.settings = settings(max_examples=12, stateful_step_count=40, deadline=None)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
names = st.text().filter(lambda name: not name.endswith("_s"))  # which are numbers wherever they are read
documents = st.dictionaries(names, json_values, max_size=4)
inferred = {known.name: ... for kind in (ResourceState, *GROUPS.values()) for known in fields(kind)}
instants = st.integers(0, 2**37)
"""Plausible values: a ledger does not believe a time, a size or a number of IOPS beyond all limits."""
inferred |= {name: st.none() | instants for name in inferred if name.endswith("_s")} | {
    "level_since_s": instants,
    "failure_count": st.integers(0, 2**31),
    "smaller_size_gib": st.none() | st.integers(1, 10**6),
    "balance_pct": st.none() | st.floats(0, 100),
    "used": st.lists(
        st.builds(ModificationUse, at_s=instants, direction=st.none() | st.sampled_from(Direction)),
        max_size=3,
    ).map(tuple),
    "stall": st.none()
    | st.builds(
        Stall,
        total_s=st.none() | st.floats(0, 1e9),
        started_at_s=instants,
        received_at_s=instants,
        top=st.lists(st.builds(StuckTask, count=st.integers(0, 2**31)), max_size=2).map(tuple),
    ),
}
integers = st.integers(1, 10**5)
configurations = (
    st.just(Configuration(volume_type=VolumeType.GP2))
    | st.builds(Configuration, volume_type=st.sampled_from([VolumeType.IO1, VolumeType.IO2]), iops=integers)
    | st.builds(Configuration, volume_type=st.just(VolumeType.GP3), iops=integers, throughput_mib_s=integers)
)
inferred_flips = {known.name: ... for known in fields(Flip)}
inferred_flips |= {name: st.none() | instants for name in inferred_flips if name.endswith("_s")}
inferred_flips |= {"requested_at_s": instants, "size_gib": st.integers(1, 10**6)}
any_flips = st.builds(
    Flip,
    **(
        inferred_flips
        | {"original": configurations, "target": configurations, "previous": st.none()}
        | {"usd_per_month": st.just(0.0) | st.floats(0.01, 1e12)}
    ),
)
inferred |= {
    "revision": st.integers(0, 2**63 - 1),
    "flip": st.none() | any_flips,
    "unsent_intent": st.none() | any_flips,
}
inferred |= {
    group: st.builds(kind, **{name: inferred.pop(name) for name in kind.__dataclass_fields__})
    for group, kind in GROUPS.items()
}
states = st.builds(ResourceState, **inferred)


@settings(deadline=None)
@given(state=states)
def test_any_state_comes_back_as_it_was_with_every_field_of_its_own_type(state):
    """``repr`` distinguishes a level from the text that equals it."""
    with SqliteLedger.in_memory() as ledger:
        ledger.commit([Change(volume_id=state.volume_id, expected_revision=None, state=state)], channels=[])
        assert repr(ledger.states()) == repr({state.volume_id: state})


FIRST_VERSION_KEYS = """
    volume_id revision level level_since_s unknown_reason unknown_since_s alerted_level alerted_at_s
    gap_alerted next_look_at_s arrived_at_s smaller_size_gib modified_at_s balance_pct balance_at_s flip lost
    spent failures retry_at_s contested_at_s returned_at_s refusal_told critical_told missed_told_s
    missing_since_s stall stall_told_at_s
"""
FIRST_VERSION_FLIP_KEYS = """
    phase direction intent_id cause by original target size_gib asked_at_s because stays return_after_s
    usd_per_month previous started_at_s reached_at_s unseen_since_s stuck_told left_told_at_s
"""


@settings(deadline=None)
@given(state=states)
def test_the_first_version_knows_every_key_of_any_state(state):
    """It gives up the whole ledger over another key, so no one could go back to it after an upgrade."""
    document = state.to_document()
    assert document.keys() <= set(FIRST_VERSION_KEYS.split())
    for key in document.keys() & {"flip", "lost"}:
        assert document[key].keys() <= set(FIRST_VERSION_FLIP_KEYS.split())


@settings(deadline=None)
@given(volume=documents, evidence=documents, volume_id=st.none() | st.text(), time_s=st.integers(0, 2**33))
def test_any_alert_waits_and_is_remembered_as_it_was(volume, evidence, volume_id, time_s):
    plain = an_alert(volume_id, time_s, AlertKind.POLICY_REJECTED)
    alert = replace(plain, volume=volume, evidence=evidence)
    with SqliteLedger.in_memory() as ledger:
        change = Change(volume_id="policy", expected_revision=None, state=None, alerts=[alert])
        ledger.commit([change], channels=["mail"])
        assert [delivery.alert for delivery in ledger.pending_deliveries(channels=["mail"])] == [alert]
        assert [entry.body for entry in ledger.entries("policy")] == [alert.to_document()]


@settings(deadline=None)
@given(fleet=st.frozensets(st.integers(0, 2**64 - 1)), tick_s=st.integers(0, 2**40))
def test_any_roster_comes_back_as_it_was(fleet, tick_s):
    with SqliteLedger.in_memory() as ledger:
        ledger.complete_tick(TickKind.SWEEP, tick_s, fleet_fingerprints=fleet)
        assert ledger.fleet_snapshot() == FleetSnapshot(tick_at_s=tick_s, fingerprints=fleet)
