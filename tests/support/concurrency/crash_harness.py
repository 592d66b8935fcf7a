"""A watchdog that dies at a chosen effect and is started again, and the world around it, which goes on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial

from boto3.session import Session

from burstlab.fake_aws.in_process_clients import InProcessCloudWatch, InProcessEc2
from burstlab.fake_aws.server import ACCESS_KEY, Endpoint
from burstlab.harness.effects import (
    CHANNEL,
    CrashPoint,
    EffectProxy,
    ProcessKilled,
    RecordingChannel,
    watch_ledger,
)
from burstlab.harness.outcome import Outcome
from burstlab.harness.world import World
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabInstance, LabSettings
from burstlab.model.volume import LabVolume
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.aws.cloudwatch import CloudWatchReader
from burstwatch.adapters.aws.ec2 import Ec2Reader
from burstwatch.adapters.aws.ec2_modify import Ec2Modifier
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.policy import Policy
from burstwatch.engine.services import Services
from burstwatch.engine.tick_pass import run_tick
from burstwatch.wiring.bootstrap import build_client, build_modifier

FIRST_DAY = datetime(2026, 11, 20, 16, 0, tzinfo=UTC)
INSTANCE_ID = "i-00000000000000005"


def a_policy(**sections) -> Policy:
    """Quick to return; the fleet is listed every 15 min, which spares a campaign many calls."""
    quick = {
        "version": "1",
        "cadence": {"sweep_tick": "15m"},
        "flip": {"cooldown": "4m"},
        "flip_back": {"dwell": "5m", "calm_for": "5m"},
        "lead": {"least": "2m", "reserve": "1m", "per_tib": "10m"},
    }
    for name, section in sections.items():
        quick[name] = quick.get(name, {}) | section
    return Policy.from_mapping(quick)


def a_lab_volume(
    volume_id: str, load: str, *, size_gib: int, balance_pct: float, starts_at: datetime, **tags: str
) -> LabVolume:
    """A volume on the host that may be modified; ``tags`` without their prefix."""
    return LabVolume(
        volume_id=volume_id,
        size_gib=size_gib,
        load=load,
        balance_pct=balance_pct,
        starts_at=starts_at,
        instance_id=INSTANCE_ID,
        tags={"burstwatch:mode": "auto"} | {f"burstwatch:{key}": value for key, value in tags.items()},
    )


@cache
def boto_session() -> Session:
    """One for all: the description of EC2 takes a while to read."""
    return Session(aws_access_key_id=ACCESS_KEY, aws_secret_access_key=ACCESS_KEY, region_name="us-east-1")


def crashing_modifier(modifier, fuse: CrashPoint):
    """A modifier each of whose calls is an effect."""
    return EffectProxy(modifier, fuse.run_effect, {"modify": "ModifyVolume"})


def crashing_parts(ledger, modifier, fuse: CrashPoint, sent: list[str]) -> dict[str, object]:
    """The parts of a process by which it changes anything: each change is an effect.

    What people received outlives every process.
    """
    return {
        "ledger": watch_ledger(ledger, fuse.run_effect),
        "modifier": crashing_modifier(modifier, fuse),
        "channels": [RecordingChannel(lambda alert: sent.append(alert.alert_id), fuse.run_effect)],
    }


@dataclass(frozen=True)
class LabClients:
    """Connections to the lab, which outlive the processes that are played: they know nothing of volumes."""

    ec2: object
    build_cloudwatch: Callable[[], object]
    modifier: Ec2Modifier

    @classmethod
    def connect(cls, url: str) -> "LabClients":
        calls = CallCounter()
        cloudwatch = build_client(boto_session(), "cloudwatch", calls, endpoint_url=url)
        return cls(
            ec2=build_client(boto_session(), "ec2", calls, endpoint_url=url),
            build_cloudwatch=partial(CloudWatchReader, cloudwatch, workers=1),
            modifier=build_modifier(boto_session(), calls, endpoint_url=url),
        )

    @classmethod
    def without_protocol(cls, fleet: LabFleet) -> "LabClients":
        """The same lab by function calls: to build and to parse requests is half the time of a play."""
        ec2 = InProcessEc2(fleet)
        return cls(ec2=ec2, build_cloudwatch=partial(InProcessCloudWatch, fleet), modifier=Ec2Modifier(ec2))

    def build_services(
        self, ledger: SqliteLedger, policy: Policy, fuse: CrashPoint, sent: list[str]
    ) -> Services:
        """A process that begins to live: everything it knows is in its ledger."""
        return Services(
            ec2=Ec2Reader(self.ec2),
            cloudwatch=self.build_cloudwatch(),
            calls=CallCounter(),
            policy=policy,
            location=AwsLocation(region="us-east-1"),
            **crashing_parts(ledger, self.modifier, fuse, sent),
        )


@dataclass
class SharedLab:
    """One endpoint for many plays; each begins on a day of its own, at the same hour, with no volumes."""

    endpoint: Endpoint
    clients: LabClients
    quick_clients: LabClients
    day: int = 0

    @property
    def fleet(self) -> LabFleet:
        return self.endpoint.fleet

    def next_day(self, **settings) -> datetime:
        for volume in self.fleet:
            self.fleet.remove(volume.volume_id)
        self.endpoint.faults.clear()
        self.day += 1
        begins_at = FIRST_DAY + timedelta(days=self.day)
        self.fleet.clock.advance((begins_at - self.fleet.clock.now()).total_seconds())
        self.fleet.change_settings(**{"modifying_s": 20.0, "modify_outcome": "completed", **settings})
        # without buckets of its own: there is less to be read
        host = LabInstance(instance_id=INSTANCE_ID, launched_at=FIRST_DAY, tags={})
        self.fleet.add_instance(host)
        return begins_at


@contextmanager
def shared_lab() -> Iterator[SharedLab]:
    """Modifications take 20 s, and 6 s more for 100 GiB: they are over at the next tick."""
    quick = LabSettings(lag_s=60, modifying_s=20, modify_minutes_per_tib=1, modify_spread=0)
    with Endpoint(LabFleet(LabClock.manual(FIRST_DAY), quick)) as endpoint:
        yield SharedLab(
            endpoint, LabClients.connect(endpoint.url), LabClients.without_protocol(endpoint.fleet)
        )


@dataclass
class CrashRun(World):
    """A story as it is lived by one watchdog, which is killed once if its fuse says so, and started again."""

    lab: SharedLab
    path: object
    policy: Policy
    fuse: CrashPoint
    clients: LabClients | None = None
    sent_alert_ids: list[str] = field(default_factory=list)
    restarts: int = 0
    invariants: list[Callable[["CrashRun"], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._start(self.fuse)

    def _start(self, fuse: CrashPoint) -> None:
        self.ledger = SqliteLedger.open(self.path)
        clients = self.clients or self.lab.clients
        self.shell = clients.build_services(self.ledger, self.policy, fuse, self.sent_alert_ids)

    @property
    def fleet(self) -> LabFleet:
        return self.lab.fleet

    def add(self, volume_id: str, load: str, **facts) -> None:
        """A volume that may be modified, and has been living for ten minutes."""
        starts_at = self.fleet.clock.now() - timedelta(minutes=10)
        self.fleet.add(a_lab_volume(volume_id, load, starts_at=starts_at, **facts))

    def tick(self, minutes: int = 1) -> None:
        """A pass at the next whole minute, or this many later; if it dies, it runs again, as sent twice."""
        self.fleet.clock.advance(60 * minutes - self.now_s % 60)
        tick_s = self.now_s
        try:
            self.run_pass(tick_s)
        except ProcessKilled:
            self.restart()
            self.fleet.clock.advance(5)
            self.run_pass(tick_s)
        for invariant in self.invariants:
            invariant(self)

    def restart(self) -> None:
        self.restarts += 1
        self.ledger.close()
        self._start(CrashPoint())

    def run_pass(self, tick_s: int) -> None:
        shell = replace(self.shell, policy=self.policy)
        report = run_tick(shell, tick_at_s=tick_s, now_s=self.now_s)
        assert report is None or not report.failures, report.failures

    def tick_until(self, is_so: Callable[[], bool], *, every_min: int = 1, at_most_min: int = 30) -> None:
        """Tick until it is so."""
        for _ in range(0, at_most_min, every_min):
            if is_so():
                return
            self.tick(every_min)
        assert is_so(), f"not so after {at_most_min} min"

    def tick_until_delivered(self) -> None:
        self.tick_until(lambda: not self.ledger.pending_deliveries(channels=[CHANNEL]))

    def has_entry(self, volume_id: str, kind: EntryKind) -> bool:
        return bool(self.entries(volume_id, kind))

    def outcome(self) -> Outcome:
        """AWS and the ledger at this moment."""
        volume_ids = {volume.volume_id: volume.volume_id for volume in self.fleet}
        return Outcome.collect(self.fleet, self.ledger, volume_ids, volume_ids, alerts=[])

    def volume_type(self, volume_id: str) -> str:
        return self.fleet.find(volume_id).volume_type

    def close(self) -> None:
        self.ledger.close()


VOLUME_ID = "vol-000000000000000c1"


HELD_POINTS: list[int] = []


def add_draining(play: CrashRun, load: str = "steady:2500", **tags: str) -> None:
    """(2500 - 300) / 54,000 = 2.4 % go a minute: at most 20 % are left, it is empty in 8 min: critical."""
    play.add(VOLUME_ID, load, size_gib=100, balance_pct=44, **tags)
