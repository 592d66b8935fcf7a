"""Values of the core as tests like to write them."""

from datetime import UTC, datetime, timedelta

from burstwatch.core.alerts.alert import Alert
from burstwatch.core.assessment.assess import Assessment, VolumeReading, assess
from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.ebs.modification import Modification, VolumeSpec
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ebs.volume import Volume, baseline_iops
from burstwatch.core.ebs.volume_ceiling import VolumeCeiling
from burstwatch.core.flips.volume_context import VolumeContext
from burstwatch.core.instances.instance import Instance
from burstwatch.core.ledger.flip_state import WATCHDOG, Direction, Flip, FlipCause, FlipStatus
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.policy import Mode, Policy
from burstwatch.core.policy.volume_tags import VolumeSettings
from burstwatch.core.policy.windows import Occurrence, TimeInterval, WindowPhase, WindowState
from burstwatch.core.watch.decide import Decision, TickContext, decide
from support.builders.states import build_state

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


GP2 = Configuration(volume_type=VolumeType.GP2)
GP3 = Configuration(volume_type=VolumeType.GP3, iops=3_000, throughput_mib_s=128)
IO1 = Configuration(volume_type=VolumeType.IO1, iops=1_000)
M5_LARGE = InstanceLimits(
    baseline_iops=3_600,
    max_iops=18_750,
    baseline_throughput_mib_s=81.25e6 / 2**20,
    max_throughput_mib_s=593.75e6 / 2**20,
)
IO2 = Configuration(volume_type=VolumeType.IO2, iops=4_000)


def at(clock: str | float) -> float:
    """Seconds since the epoch of a time on the day of the tests; seconds are taken as they are."""
    if not isinstance(clock, str):
        return clock
    hour, minute, *second = (int(part) for part in clock.split(":"))
    return NOON.replace(hour=hour, minute=minute, second=second[0] if second else 0).timestamp()


def a_volume(size_gib: int = 100, **changes) -> Volume:
    facts = {
        "volume_id": "vol-0a1",
        "volume_type": "gp2",
        "size_gib": size_gib,
        "created_at": NOON - timedelta(days=30),
        "attached": True,
        "attached_at": NOON - timedelta(days=30),
        "instance_id": "i-0a1",
    }
    return Volume(**(facts | changes))


def an_instance(**changes) -> Instance:
    """An m5.large with one default gp3 volume: its I/O bucket cannot drain, its throughput bucket can."""
    facts = {
        "instance_id": "i-0a1",
        "instance_type": "m5.large",
        "state": "running",
        "launched_at": NOON - timedelta(days=30),
        "volume_ids": ("vol-0b1",),
        "limits": M5_LARGE,
        "ceilings": (VolumeCeiling(volume_id="vol-0b1", volume_type="gp3", iops=3_000, mib_s=125),),
    }
    return Instance(**(facts | changes))


def sparse_balances(*values: float, newest_starts_at: str = "11:50") -> Series:
    """Five-minute balances without gaps, oldest first, ending with the period that starts as given."""
    newest = int(at(newest_starts_at))
    first = newest - 300 * (len(values) - 1)
    return Series(tuple(first + 300 * index for index in range(len(values))), tuple(values), 300)


def balances(*values: float, newest_starts_at: str = "11:58") -> Series:
    """One-minute balances without gaps, oldest first, ending with the minute that starts as given."""
    newest = int(at(newest_starts_at))
    first = newest - 60 * (len(values) - 1)
    return Series(tuple(first + 60 * index for index in range(len(values))), tuple(values))


def an_assessment(
    balance: Series | None,
    *,
    volume: Volume | None = None,
    now: str | float = "12:00",
    policy: Policy | None = None,
    **evidence,
) -> Assessment:
    return assess(
        volume or a_volume(),
        VolumeReading(balance=balance, **evidence),
        now_s=at(now),
        telemetry=(policy or Policy()).telemetry,
    )


def draining_to(
    end_pct: float, per_minute: float, *, count: int = 61, newest_starts_at: str = "11:58"
) -> Series:
    """Balances that fall by the same amount every minute; they rise where the amount is negative."""
    falling = (end_pct + per_minute * index for index in reversed(range(count)))
    return balances(*falling, newest_starts_at=newest_starts_at)


def a_volume_as(configuration: Configuration, size_gib: int = 100, **changes) -> Volume:
    """A volume of this configuration, as AWS describes it: a gp2 has IOPS that no one can set."""
    facts = {
        "volume_type": str(configuration.volume_type),
        "provisioned_iops": configuration.iops or baseline_iops(size_gib),
        "throughput_mib_s": configuration.throughput_mib_s,
    }
    return a_volume(size_gib, **(facts | changes))


def a_state(**changes) -> ResourceState:
    return build_state(**({"volume_id": "vol-0a1", "revision": 1} | changes))


def a_flip(**changes) -> Flip:
    """A 100 GiB gp2 that the watchdog sent to gp3 at ten, and that is there since half past."""
    facts = {
        "status": FlipStatus.ON_TARGET,
        "direction": Direction.FLIP,
        "intent_id": "0123456789abcdef",
        "cause": FlipCause.DRAINING,
        "by": WATCHDOG,
        "original": GP2,
        "target": GP3,
        "size_gib": 100,
        "requested_at_s": int(at("10:00")),
        "started_at_s": int(at("10:00")),
        "reached_at_s": int(at("10:30")),
    }
    return Flip(**(facts | changes))


def a_provision(configuration: Configuration, size_gib: int = 100) -> VolumeSpec:
    return VolumeSpec(
        volume_type=str(configuration.volume_type),
        size_gib=size_gib,
        iops=configuration.iops or baseline_iops(size_gib),
        throughput_mib_s=configuration.throughput_mib_s,
    )


def a_modification(
    original: Configuration = GP2,
    target: Configuration = GP3,
    *,
    state: str = "completed",
    started: str | float | None = "10:00",
    **changes,
) -> Modification:
    """AWS's record; what has ended has done so ten minutes after it started."""
    begun_at = None if started is None else datetime.fromtimestamp(at(started), tz=UTC)
    is_over = begun_at is not None and state in ("completed", "failed")
    facts = {
        "volume_id": "vol-0a1",
        "state": state,
        "original": a_provision(original),
        "target": a_provision(target),
        "started_at": begun_at,
        "ended_at": begun_at + timedelta(minutes=10) if is_over else None,
    }
    return Modification(**(facts | changes))


def volume_settings(mode: Mode = Mode.AUTO, **changes) -> VolumeSettings:
    return VolumeSettings(**({"mode": mode} | changes))


def a_window_state(
    phase: WindowPhase = WindowPhase.INSIDE,
    start: str = "11:30",
    end: str = "14:00",
    *,
    missed_min: float | None = None,
    **changes,
) -> WindowState:
    """What one window ``release`` asks for: it runs, or it is the next to come."""
    instants = (datetime.fromtimestamp(at(clock), tz=UTC) for clock in (start, end))
    occurrences = (Occurrence(**({"window": "release", "interval": TimeInterval(*instants)} | changes)),)
    is_running = phase is WindowPhase.INSIDE
    return WindowState(
        phase=phase,
        running=occurrences if is_running else (),
        upcoming=() if is_running else occurrences,
        missed_by=None if missed_min is None else timedelta(minutes=missed_min),
    )


def a_tick_context(now: str | float = "12:00", *, region: str = "us-east-1") -> TickContext:
    return TickContext(
        now_s=at(now), tick_at_s=int(at(now)), location=AwsLocation(region=region, account="111122223333")
    )


def a_decision(
    assessment: Assessment,
    state: ResourceState | None = None,
    *,
    now: str | float = "12:00",
    mode: Mode = Mode.PROPOSE,
    policy: Policy | None = None,
    around: VolumeContext | None = None,
    **settings,
) -> Decision:
    return decide(
        assessment,
        state,
        volume_settings(mode, **settings),
        policy=policy or Policy(),
        context=a_tick_context(now),
        volume_context=around or VolumeContext(),
    )


class TrackedVolume:
    """What the ledger would remember of one volume from look to look, and every alert so far."""

    def __init__(self, *, mode: Mode = Mode.PROPOSE, policy: Policy | None = None) -> None:
        self.mode = mode
        self.policy = policy or Policy()
        self.state: ResourceState | None = None
        self.alerts: list[Alert] = []

    def evaluate(self, now: str | float, balance: Series | None, **evidence) -> Decision:
        """Look at the volume and keep what is to be kept."""
        assessment = an_assessment(balance, now=now, policy=self.policy, **evidence)
        decision = a_decision(assessment, self.state, now=now, mode=self.mode, policy=self.policy)
        if decision.change is not None:
            self.state = decision.change.state
        self.alerts += decision.alerts
        return decision


GAP = Series()


def calm(newest: str = "11:58") -> Series:
    return balances(*[100.0] * 31, newest_starts_at=newest)


def steady(newest: str = "11:58") -> Series:
    return balances(*[60.0] * 31, newest_starts_at=newest)


def warning(newest: str = "11:58") -> Series:
    return draining_to(50, 0.9, count=40, newest_starts_at=newest)


def critical(newest: str = "11:58") -> Series:
    return draining_to(18, 3, count=20, newest_starts_at=newest)
