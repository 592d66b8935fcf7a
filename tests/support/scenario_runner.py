"""Stories as text: what happens to one volume goes in, what the watchdog sees and says comes out.

A story begins in prose. Then come settings (``volume: 100 GiB, ci-7``), then events, each at its time::

    09:30  load 3000 IOPS

The events are the cases of ``World.undergo``. Before the first event the volume has been at rest for an hour
at the balance given. A tick runs every minute; CloudWatch shows a minute three minutes after it began.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from burstwatch.core.alerts.alert import Alert, format_sentences, format_title
from burstwatch.core.alerts.drain_message import describe_drain_cause
from burstwatch.core.assessment.assess import STOPPED_STATES, Assessment, UnknownReason, VolumeReading, assess
from burstwatch.core.assessment.drain_cause import (
    BALANCE_HISTORY_PERIOD_S,
    OPERATIONS_HISTORY_S,
    DrainMetrics,
)
from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.volume import BUCKET_CREDITS, BURST_IOPS, CREDITS_PER_PCT, Volume, baseline_iops
from burstwatch.core.flips.flip_trigger import FlipTrigger
from burstwatch.core.ledger.ledger import FleetSnapshot
from burstwatch.core.ledger.volume_state import VolumeState
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.policy import Policy
from burstwatch.core.policy.volume_tags import read_tags
from burstwatch.core.watch.decide import conclude, evaluate_volume
from burstwatch.core.watch.decision import Decision, TickContext, VolumeEvaluation
from burstwatch.core.watch.due_volumes import due_in_focus, due_in_sweep, fingerprint

MIDNIGHT = datetime(2026, 11, 20, tzinfo=UTC)
REST_S = 3_600
OPERATION_BYTES = 16 * 1024
LAG_S = 180
PLACE = AwsLocation(region="us-east-1", account="111122223333")

_SETTING = re.compile(r"(volume|tags|balance): +(.+)")
_EVENT = re.compile(r"(\d\d):(\d\d)  (.+)")
_VOLUME = re.compile(r"(\d+) GiB, (\S+)")


@dataclass(frozen=True)
class Scenario:
    """A story as it is told: times are seconds since the epoch, and the last event is its end."""

    settings: dict[str, str]
    events: list[tuple[int, str]]

    @classmethod
    def read(cls, text: str) -> "Scenario":
        settings = dict(match.groups() for line in text.splitlines() if (match := _SETTING.fullmatch(line)))
        events = []
        for line in text.splitlines():
            if match := _EVENT.fullmatch(line):
                at = MIDNIGHT + timedelta(hours=int(match[1]), minutes=int(match[2]))
                events.append((int(at.timestamp()), match[3]))
        assert events == sorted(events, key=lambda event: event[0]), "events come in order of time"
        assert events[-1][1] == "the end"
        return cls(settings, events)

    @property
    def volume(self) -> Volume:
        match = _VOLUME.fullmatch(self.settings["volume"])
        assert match, "volume: 100 GiB, ci-7"
        tags = dict(tag.split("=", 1) for tag in self.settings.get("tags", "").split(", ") if tag)
        return Volume(
            volume_id="vol-0a1",
            volume_type="gp2",
            size_gib=int(match[1]),
            created_at=MIDNIGHT - timedelta(days=30),
            attached=True,
            attached_at=MIDNIGHT - timedelta(days=30),
            instance_id="i-0a1",
            tags={"Name": match[2]} | tags,
        )


@dataclass
class ScenarioWorld:
    """The volume as it really is, and what AWS would answer."""

    volume: Volume
    now_s: int
    credits_left: float
    demand_iops: int
    instance_state: str = "running"
    has_telemetry: bool = True
    read_error: str | None = None
    has_ticks: bool = True
    minima: dict[int, float] = field(default_factory=dict)
    operations: dict[int, float] = field(default_factory=dict)
    is_empty: bool = False

    @property
    def baseline(self) -> int:
        return baseline_iops(self.volume.size_gib)

    def apply_event(self, event: str) -> None:
        match event.split():
            case ["load", iops, "IOPS"]:
                self.demand_iops = int(iops)
            case ["telemetry", "stops" | "returns" as what]:
                self.has_telemetry = what == "returns"
            case ["reads", "fail:", *error]:
                self.read_error = " ".join(error)
            case ["reads", "work"]:
                self.read_error = None
            case ["ticks", "stop" | "return" as what]:
                self.has_ticks = what == "return"
            case ["the", "instance", "stops" | "starts" as what]:
                self.instance_state = "stopped" if what == "stops" else "running"
            case ["the", "volume", "is", "detached"]:
                self.volume = replace(self.volume, attached=False, attached_at=None, instance_id=None)
            case ["the", "volume", "is", "attached", "to", instance_id]:
                now = datetime.fromtimestamp(self.now_s, tz=UTC)
                self.volume = replace(self.volume, attached=True, attached_at=now, instance_id=instance_id)
            case ["the", "end"]:
                pass
            case _:
                raise ValueError(f"{event!r} is no event; see World.undergo")

    def simulate(self, seconds: int) -> Iterator[tuple[int, str]]:
        """Let time pass; yields the moment the bucket runs dry."""
        for _ in range(seconds):
            is_used = self.volume.attached and self.instance_state == "running"
            served = min(self.demand_iops if is_used else 0, BURST_IOPS)
            if self.credits_left <= 0:
                served = min(served, self.baseline)
            self.credits_left = min(BUCKET_CREDITS, max(0.0, self.credits_left + self.baseline - served))
            if is_used and self.has_telemetry:
                self._record(served)
            if self.credits_left <= 0 and not self.is_empty:
                yield self.now_s, f"the bucket is empty: {self.baseline} IOPS are served from here"
            self.is_empty = self.credits_left <= 0 or (self.is_empty and self.credits_left < CREDITS_PER_PCT)
            self.now_s += 1

    def _record(self, served: int) -> None:
        minute_s = self.now_s // 60 * 60
        balance_pct = self.credits_left / CREDITS_PER_PCT
        self.minima[minute_s] = min(self.minima.get(minute_s, 100.0), balance_pct)
        self.operations[minute_s] = self.operations.get(minute_s, 0.0) + served

    def visible_datapoints(self, values: dict[int, float], now_s: int, span_s: int = 65 * 60) -> Series:
        """What CloudWatch shows at ``now_s`` of the last 65 minutes."""
        span = range(now_s - span_s, now_s - LAG_S + 1)
        return Series.from_pairs((start_s, value) for start_s, value in values.items() if start_s in span)

    def drain_metrics(self, now_s: int) -> DrainMetrics:
        """What is read besides when a drain is told; all operations are writes of 16 KiB."""
        writes = self.visible_datapoints(self.operations, now_s, OPERATIONS_HISTORY_S)
        nothing = Series(writes.starts_at_s, (0.0,) * len(writes))
        moved = Series(writes.starts_at_s, tuple(count * OPERATION_BYTES for count in writes.values))
        least: dict[int, float] = {}
        for start_s, value in self.minima.items():
            period_s = start_s // BALANCE_HISTORY_PERIOD_S * BALANCE_HISTORY_PERIOD_S
            least[period_s] = min(value, least.get(period_s, 100.0))
        return DrainMetrics(
            read_ops=nothing,
            write_ops=writes,
            read_bytes=nothing,
            write_bytes=moved,
            balance_history=Series.from_pairs(least.items()),
        )


@dataclass
class Watchdog:
    """The core, joined for one volume as the real watchdog joins it for a fleet."""

    policy: Policy
    state: VolumeState | None = None
    roster: FleetSnapshot | None = None

    def tick(self, world: ScenarioWorld) -> tuple[str, Decision] | None:
        """Look at the volume if it is due; the kind of tick comes with the decision."""
        tick_s, cadence = world.now_s, self.policy.cadence
        states = {self.state.volume_id: self.state} if self.state else {}
        grid_s = int(cadence.sweep_tick.total_seconds())
        sweep_s = tick_s // grid_s * grid_s
        if self.roster is not None and self.roster.tick_at_s >= sweep_s:
            return ("focus", self._look(world)) if due_in_focus(states, tick_s) else None
        due = list(
            due_in_sweep(
                [world.volume],
                states,
                snapshot=self.roster,
                sweep_at_s=sweep_s,
                focused=due_in_focus(states, tick_s),
                instances_restarted=self._restarted(world),
                smaller_sizes_gib={},
                cadence=cadence,
            )
        )
        self.roster = FleetSnapshot(
            tick_at_s=sweep_s, fingerprints=frozenset({fingerprint(world.volume, cadence)})
        )
        return ("sweep", self._look(world, has_arrived=due[0].has_arrived)) if due else None

    def _restarted(self, world: ScenarioWorld) -> frozenset[str]:
        waits = self.state is not None and self.state.reading.unknown_reason is UnknownReason.INSTANCE_STOPPED
        return frozenset(
            {world.volume.volume_id} if waits and world.instance_state not in STOPPED_STATES else ()
        )

    def _look(self, world: ScenarioWorld, *, has_arrived: bool = False) -> Decision:
        now_s, volume = world.now_s, world.volume
        wishes = read_tags(volume.tags, self.policy.mode)
        look = TickContext(now_s=now_s, tick_at_s=now_s, location=PLACE)
        assessment = self._assess(world, now_s if has_arrived else self._arrived_at_s(now_s))
        evaluation = evaluate_volume(assessment, self.state, wishes, policy=self.policy, context=look)
        decision = self._conclude(evaluation, world)
        if decision.change is not None:
            self.state = decision.change.state
        return decision

    @staticmethod
    def _conclude(evaluation: VolumeEvaluation | Decision, world: ScenarioWorld) -> Decision:
        if isinstance(evaluation, Decision):
            return evaluation
        drain, now_s = evaluation.unexplained_drain, world.now_s
        metrics = world.drain_metrics(now_s)
        cause = None if drain is None else describe_drain_cause(drain, metrics, now_s=now_s)
        return conclude(evaluation, cause)

    def _arrived_at_s(self, now_s: int) -> int | None:
        arrived_at_s = self.state.presence.arrived_at_s if self.state else None
        too_new_s = self.policy.telemetry.too_new.total_seconds()
        return arrived_at_s if arrived_at_s is not None and arrived_at_s > now_s - too_new_s else None

    def _assess(self, world: ScenarioWorld, arrived_at_s: int | None) -> Assessment:
        evidence = VolumeReading(
            balance=None if world.read_error else world.visible_datapoints(world.minima, world.now_s),
            read_error=world.read_error,
            read_ops=world.visible_datapoints(dict.fromkeys(world.operations, 0.0), world.now_s),
            write_ops=world.visible_datapoints(world.operations, world.now_s),
            arrived_at_s=arrived_at_s,
        )
        telemetry = self.policy.telemetry
        result = assess(world.volume, evidence, now_s=world.now_s, telemetry=telemetry)
        if result.unknown_reason is UnknownReason.TELEMETRY_GAP:
            requested = replace(evidence, instance_state=world.instance_state)
            result = assess(world.volume, requested, now_s=world.now_s, telemetry=telemetry)
        return result


@dataclass
class Transcript:
    """What is written down: every event and alert, and a look when it differs from the one before."""

    lines: list[str] = field(default_factory=list)
    last_seen: tuple[object, ...] = ()
    last_trigger: FlipTrigger | None = None
    pending_ticks: int = 0

    def write_line(self, at_s: float, words: str) -> None:
        self._flush_pending_ticks()
        self.lines.append(f"{datetime.fromtimestamp(at_s, tz=UTC):%H:%M}  {words}")

    def write_evaluation(self, at_s: float, kind: str, decision: Decision) -> None:
        known = decision.assessment.balance_pct
        why = decision.assessment.unknown_reason
        observed = (decision.level, why, decision.poll_interval_s)
        is_wanted = decision.trigger is not None and decision.trigger != self.last_trigger
        self.last_trigger = decision.trigger
        if observed == self.last_seen and not decision.alerts and not is_wanted:
            self.pending_ticks += 1
            return
        self.last_seen = observed
        balance = "-" if known is None else f"{known:.1f} %"
        because = f"{why}; " if why else ""
        self.write_line(
            at_s, f"  {kind}  {balance:>8}  {decision.level!s:9}  {because}{_next_look(decision)}"
        )
        for alert in decision.alerts:
            self._alert(alert)
        if is_wanted:
            self.lines.append(f"{'':12}= {decision.action}: {decision.reason}")

    def _alert(self, alert: Alert) -> None:
        self.lines.append(f"{'':12}! {alert.kind}{' (reminder)' if alert.is_reminder else ''}")
        self.lines += [f"{'':12}| {line}" for line in (format_title(alert), *format_sentences(alert))]
        if alert.action:
            self.lines.append(f"{'':12}> {alert.action}")

    def _flush_pending_ticks(self) -> None:
        if self.pending_ticks:
            self.lines.append(f"         ({self.pending_ticks} more like it)")
        self.pending_ticks = 0


def _next_look(decision: Decision) -> str:
    if decision.poll_interval_s is None:
        return "not looked at any more"
    return f"look again in {decision.poll_interval_s // 60} min"


def run_scenario(story: Scenario) -> str:
    """The transcript of a story."""
    starts_s, ends_s = story.events[0][0], story.events[-1][0]
    volume = story.volume
    world = ScenarioWorld(
        volume=volume,
        now_s=starts_s - REST_S,
        credits_left=float(story.settings.get("balance", "100 %").removesuffix(" %")) * CREDITS_PER_PCT,
        demand_iops=baseline_iops(volume.size_gib),
    )
    watchdog, transcript = Watchdog(Policy()), Transcript()
    list(world.simulate(REST_S))
    events = iter(story.events)
    at_s, event = next(events)
    while world.now_s <= ends_s:
        while at_s <= world.now_s:
            world.apply_event(event)
            transcript.write_line(at_s, event)
            at_s, event = next(events, (ends_s + 1, ""))
        looked = watchdog.tick(world) if world.has_ticks else None
        if looked:
            transcript.write_evaluation(world.now_s, *looked)
        for dry_at_s, words in world.simulate(60):
            transcript.write_line(dry_at_s, words)
    return "\n".join(transcript.lines) + "\n"
