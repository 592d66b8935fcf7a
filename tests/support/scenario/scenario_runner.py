"""Scenarios as text: what happens to one volume goes in, what the watchdog sees, does and says comes out.

The format is described in ``tests/scenarios/README.md``.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from burstctl.history.render import render_entries
from burstlab.harness.deterministic import SimulatedServices
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.aws.cloudwatch import CloudWatchReader
from burstwatch.adapters.aws.drain_metrics import DrainMetricsReader
from burstwatch.adapters.aws.ec2 import Ec2Reader
from burstwatch.adapters.aws.ec2_modify import Ec2Modifier
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.alerts.alert import Alert, format_sentences, format_title
from burstwatch.core.flips.outcome import Outcome, OutcomeStatus
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.policy import Policy
from burstwatch.core.watch.decision import Decision
from burstwatch.engine.tick_pass import run_tick
from support.scenario.scenario_world import VOLUME_ID, ScenarioCloudWatch, ScenarioEc2, ScenarioWorld

MIDNIGHT = datetime(2026, 11, 20, tzinfo=UTC)
REST = timedelta(hours=1)
DAY_S = 24 * 3600
PLACE = AwsLocation(region="us-east-1", account="111122223333")

_SETTING = re.compile(r"(volume|tags|balance|instance|policy|watchdogs|titles only): +(.+)")
_EVENT = re.compile(r"(\d\d):(\d\d)  (.+)")
_VOLUME = re.compile(r"(\d+) GiB, (\S+)")
_HOLD = re.compile(r"(\w+) holds it until (\d\d):(\d\d), because (.+)")
_RACE = re.compile(r"(\w+) looks and acts just before the next ModifyVolume of (\w+) arrives")
_NUMBER = re.compile(r"\d[\d,.:]*( s| min| h)?")
_SILENT_KINDS = (EntryKind.LEVEL_CHANGED, EntryKind.ALERT, EntryKind.DELIVERED)
"""Entries of which the transcript shows the level or the alert itself."""


@dataclass(frozen=True)
class Scenario:
    """A scenario as it is written: times are seconds since 1970, and the last event is its end."""

    settings: dict[str, list[str]]
    events: list[tuple[int, str]]

    @classmethod
    def read(cls, text: str) -> "Scenario":
        settings: dict[str, list[str]] = {}
        events: list[tuple[int, str]] = []
        at_s = int(MIDNIGHT.timestamp())
        for line in text.splitlines():
            if match := _SETTING.fullmatch(line):
                settings.setdefault(match[1], []).append(match[2])
            elif match := _EVENT.fullmatch(line):
                at_s = next_time(at_s, match[1], match[2])
                events.append((at_s, match[3]))
        assert events[-1][1] == "the end"
        return cls(settings, events)

    def values(self, name: str, default: str = "") -> list[str]:
        """The values of a setting, which are separated by commas."""
        return [value for value in ", ".join(self.settings.get(name, [default])).split(", ") if value]

    @property
    def policy(self) -> Policy:
        document: dict[str, Any] = {"version": "1"}
        for line in self.settings.get("policy", []):
            path, _, value = line.partition(" = ")
            *sections, key = path.split(".")
            section = document
            for name in sections:
                section = section.setdefault(name, {})
            section[key] = value
        return Policy.from_mapping(document)

    def make_world(self) -> ScenarioWorld:
        match = _VOLUME.fullmatch(self.settings["volume"][0])
        assert match, "volume: 100 GiB, ci-7"
        tags = dict(tag.split("=", 1) for tag in self.values("tags"))
        return ScenarioWorld.create(
            starts_at=datetime.fromtimestamp(self.events[0][0], tz=UTC) - REST,
            size_gib=int(match[1]),
            tags={"Name": match[2]} | tags,
            balance_pct=float(self.values("balance", "100 %")[0].removesuffix(" %")),
            instance=self._instance(),
        )

    def _instance(self) -> tuple[str, float] | None:
        """The type of the instance, and what its bucket of I/O holds, in per cent; None if not given."""
        if not (values := self.values("instance")):
            return None
        instance_type, balance = values
        return instance_type, float(balance.removesuffix(" %"))


def next_time(after_s: int, hour: str, minute: str) -> int:
    """The next time at which a clock shows this, ``after_s`` included."""
    time_of_day_s = int(hour) * 3600 + int(minute) * 60
    return after_s + (time_of_day_s - after_s) % DAY_S


@dataclass
class Transcript:
    """What is written down: each event, and a look if it differs from the one before."""

    titles_only: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    day: int | None = None
    pending_ticks: int = 0

    def write_line(self, at_s: float, text: str) -> None:
        if self.pending_ticks:
            self.lines.append(f"         ({self.pending_ticks} more like it)")
        self.pending_ticks = 0
        at = datetime.fromtimestamp(at_s, tz=UTC)
        if self.day not in (None, at.day):
            self.lines.append(f"{at:%a %-d %b}")
        self.day = at.day
        self.lines.append(f"{at:%H:%M}  {text}")

    def format_alert(self, alert: Alert) -> Iterator[str]:
        yield f"! {alert.kind}{' (reminder)' if alert.is_reminder else ''}"
        yield f"| {format_title(alert)}"
        if alert.kind not in self.titles_only:
            yield from (f"| {sentence}" for sentence in format_sentences(alert))
            yield from [f"> {alert.action}"] if alert.action else []

    def write_tick(self, at_s: float, summary: str, details: Iterable[str]) -> None:
        self.write_line(at_s, f"  {summary}")
        self.lines += (f"{'':12}{detail}" for detail in details)


@dataclass
class Watchdog:
    """One deployment: the real engine with a real ledger, which may modify the volume.

    ``details`` are what it does in the present tick, in this order. ``rival`` does its tick just before the
    next ModifyVolume of this watchdog arrives.
    """

    world: ScenarioWorld
    transcript: Transcript
    policy: Policy
    name: str = ""
    ledger: SqliteLedger = field(default_factory=SqliteLedger.in_memory)
    rival: "Watchdog | None" = None
    details: list[str] = field(default_factory=list)
    last_seen: dict[str, tuple[object, ...]] = field(default_factory=dict)
    last_wanted: str = ""
    shown_entries: list[LedgerEntry] = field(default_factory=list)

    def __post_init__(self) -> None:
        ec2 = cast("Any", ScenarioEc2(self.world, self._before_call, self._show_answer))
        cloudwatch = cast("Any", ScenarioCloudWatch(self.world))
        self.services = SimulatedServices(
            ec2=Ec2Reader(ec2),
            cloudwatch=CloudWatchReader(cloudwatch, workers=1, sleep=lambda _: None),
            drain_metrics_reader=DrainMetricsReader(cloudwatch),
            modifier=Ec2Modifier(ec2),
            ledger=self.ledger,
            calls=CallCounter(),
            policy=self.policy,
            location=PLACE,
            channels=[TranscriptChannel(self)],
            clock=self.world.fleet.clock.now_s,
        )

    def tick(self) -> None:
        """Do the tick of this minute, and write down what it did."""
        now_s, snapshot = self.world.now_s, self.ledger.fleet_snapshot()
        report = run_tick(self.services, tick_at_s=now_s, now_s=now_s)
        if report is None:  # it did this tick as the rival of another
            return
        assert not report.internal_errors, report.internal_errors
        self.show_entries()
        kind = "focus" if self.ledger.fleet_snapshot() == snapshot else "sweep"
        for decision in report.decisions:
            self._write_decision(now_s, kind, decision, report.outcomes.get(VOLUME_ID))
        if self.details:
            self._write_tick(now_s, kind)

    def show_entries(self) -> None:
        """Show what the ledger has got since the last time, in the words of ``burstctl history``."""
        entries = self.ledger.entries(VOLUME_ID, since_s=self.world.now_s)
        for entry in entries:
            if entry.kind not in _SILENT_KINDS and entry not in self.shown_entries:
                (rendered,) = render_entries([entry])
                self.details.append(f"+ {entry.kind}: {rendered.line}")
        self.shown_entries = entries

    def _write_decision(self, at_s: int, kind: str, decision: Decision, outcome: Outcome | None) -> None:
        is_volume = decision.volume_id == VOLUME_ID
        if is_volume:
            wanted = list(_wanted(decision, outcome))
            was_wanted, self.last_wanted = self.last_wanted, _NUMBER.sub("", " ".join(wanted))
            if self.last_wanted != was_wanted:
                self.details[:0] = (f"= {line}" for line in wanted)
        known, why = decision.assessment.balance_pct, decision.assessment.unknown_reason
        observed = (decision.level, why, decision.poll_interval_s)
        if observed == self.last_seen.get(decision.volume_id) and not (is_volume and self.details):
            self.transcript.pending_ticks += is_volume
            return
        self.last_seen[decision.volume_id] = observed
        balance = "-" if known is None else f"{known:.1f} %"
        because = f"{why}; " if why else ""
        summary = f"{kind}  {balance:>8}  {decision.level!s:9}  {because}{_next_look(decision)}"
        if is_volume:
            self._write_tick(at_s, summary)
        else:
            kind_of_bucket = decision.assessment.kind
            self.transcript.write_tick(at_s, f"{summary}: {kind_of_bucket.credits} of the instance", [])

    def _write_tick(self, at_s: int, summary: str) -> None:
        self.transcript.write_tick(at_s, self.name + summary, self.details)
        self.details.clear()

    def _before_call(self) -> None:
        self.show_entries()
        rival, self.rival = self.rival, None
        if rival is not None:
            self._write_tick(self.world.now_s, "is about to call AWS")
            rival.tick()

    def _show_answer(self, call: str) -> None:
        self.details.append(f"* {call}")


@dataclass
class TranscriptChannel:
    """A channel that writes alerts into the transcript, after what the ledger has by then."""

    watchdog: Watchdog
    name: str = "transcript"

    def send(self, alert: Alert) -> None:
        self.watchdog.show_entries()
        self.watchdog.details += self.watchdog.transcript.format_alert(alert)


def _wanted(decision: Decision, outcome: Outcome | None) -> Iterator[str]:
    """What is wanted of a volume or waited for, and what refuses it."""
    if decision.trigger is not None:
        yield f"{decision.action}: {decision.reason}"
    elif decision.flip is not None:
        yield decision.reason
    if outcome is not None and outcome.status is OutcomeStatus.REFUSED:
        yield f"refused: {outcome.reason}"


def _next_look(decision: Decision) -> str:
    if decision.poll_interval_s is None:
        return "not looked at any more"
    return f"look again in {decision.poll_interval_s // 60} min"


@dataclass
class ScenarioRun:
    """A scenario on its way."""

    world: ScenarioWorld
    watchdogs: list[Watchdog]

    def apply_event(self, event: str) -> None:
        now_s = self.world.now_s
        if match := _HOLD.fullmatch(event):
            until_s = next_time(now_s, match[2], match[3])
            hold = Hold(volume_id=VOLUME_ID, by=match[1], reason=match[4], placed_at_s=now_s, until_s=until_s)
            for watchdog in self.watchdogs:
                watchdog.ledger.place_hold(hold)
        elif match := _RACE.fullmatch(event):
            by_name = {watchdog.name.strip(): watchdog for watchdog in self.watchdogs}
            by_name[match[2]].rival = by_name[match[1]]
        else:
            self.world.apply_event(event)


def run_scenario(scenario: Scenario) -> str:
    """The transcript of a scenario."""
    ends_s = scenario.events[-1][0]
    world = scenario.make_world()
    transcript = Transcript(titles_only=scenario.values("titles only"))
    names = scenario.values("watchdogs") or [""]
    width = max(map(len, names)) + 1
    watchdogs = [
        Watchdog(world, transcript, scenario.policy, f"{name:{width}}".lstrip(" ")) for name in names
    ]
    run = ScenarioRun(world, watchdogs)
    world.fleet.clock.advance(REST.total_seconds())
    events = iter(scenario.events)
    at_s, event = next(events)
    while world.now_s <= ends_s:
        while at_s <= world.now_s:
            run.apply_event(event)
            transcript.write_line(at_s, event)
            at_s, event = next(events, (ends_s + 1, ""))
        for watchdog in run.watchdogs if world.has_ticks else ():
            watchdog.tick()
        for happened_at_s, text in world.pass_minute():
            transcript.write_line(happened_at_s, text)
    return "\n".join(transcript.lines) + "\n"
