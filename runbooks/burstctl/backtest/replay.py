"""The watchdog's own passes, tick by tick, over what was recorded."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from burstctl.backtest.recorded_aws import CountedCauses, RecordedCloudWatch, RecordedEc2, RecordedModifier
from burstctl.backtest.recorded_volume import Move, World
from burstctl.backtest.recording import Recording
from burstctl.backtest.replay_ledger import ReplayLedger
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.core.ebs.sizing import InstanceLimits
from burstwatch.core.ebs.volume import baseline_iops
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.ledger.ledger import LedgerEntry
from burstwatch.core.location import Place
from burstwatch.core.policy.policy import FOCUS_TICK, CadencePolicy, Policy
from burstwatch.core.policy.windows import windows_of
from burstwatch.core.tag_keys import CRITICAL, IGNORE
from burstwatch.core.watch.due_volumes import due_in_focus
from burstwatch.core.watch.poll_interval import is_swept, sweep_ticks
from burstwatch.engine.services import Shell
from burstwatch.engine.watch_pass import run_tick

if TYPE_CHECKING:
    from burstwatch.adapters.aws.cloudwatch import CloudWatchReader
    from burstwatch.adapters.aws.drain_metrics import CauseReader

TICK_TAKES_S: Final = 2
_TICK_S: Final = int(FOCUS_TICK.total_seconds())
_QUICKEST_S: Final = 180
"""Over this the shortest horizon of a forecast looks."""

_LONGEST_GAP: Final = 5
_DAY_S: Final = 24 * 3600


class ReplayError(BurstwatchError):
    """The watchdog could not be replayed; the message says what went wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is replayed, ``start_s`` to ``end_s``; CloudWatch shows a minute ``lag_s`` after its start."""

    policy: Policy
    place: Place
    lag_s: int
    start_s: int
    end_s: int
    limits: Mapping[str, InstanceLimits] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lived:
    """What became of one volume: the ledger's lines, the modifications, and the metrics that were read.

    ``stalls`` are the minutes in which it would have been held back on the balance that it would have had.
    """

    recording: Recording
    entries: Sequence[LedgerEntry] = ()
    moves: Sequence[Move] = ()
    metrics: int = 0
    stalls: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What became of all of them; ``windows`` are the ledger's lines about windows."""

    volumes: Sequence[Lived]
    windows: Sequence[LedgerEntry] = ()
    metrics_of_instances: int = 0


def is_calm_throughout(recording: Recording, policy: Policy) -> bool:
    """Whether nothing can come of looking at a volume, at any moment of its recording.

    Its balance never leaves calm, cannot fall fast enough to look like a drain, is never missing for long,
    and neither tag nor window asks for anything.
    """
    volume, levels = recording.volume, policy.levels
    if CRITICAL in volume.tags or IGNORE in volume.tags or windows_of(policy.windows, volume):
        return False
    values = recording.balance.values
    least = min(values, default=0.0)
    if not least >= max(policy.cadence.calm_from_pct, policy.cadence.watch_below_pct):
        return False
    if _longest_gap(values) > _LONGEST_GAP:
        return False
    fall_pct = max(values) - least
    longest_s = max(levels.warning_within, levels.critical_within).total_seconds()
    return fall_pct == 0 or least / fall_pct * _QUICKEST_S > longest_s


def leave_calm(recording: Recording, setting: Setting) -> Lived:
    """A volume of which nothing can come: only what looking at it costs."""
    start_s, end_s = max(setting.start_s, recording.first_s), min(setting.end_s, recording.end_s)
    metrics = _calm_looks(recording, setting.policy.cadence, start_s, end_s)
    return Lived(recording=recording, metrics=metrics)


def replay(
    recordings: Iterable[Recording],
    setting: Setting,
    *,
    report_progress: Callable[[int, int], None] = lambda _done, _days: None,
    skips: bool = True,
) -> Replayed:
    """Let the watchdog look after these volumes from tick to tick.

    Ticks at which nothing is due are skipped, unless ``skips`` is off: they change nothing.

    Raises:
        ReplayError: a volume could not be judged, by a mistake of ours.
    """
    policy = setting.policy
    world = World.of(
        recordings,
        lag_s=setting.lag_s,
        gap_after_s=policy.telemetry.gap_after.total_seconds(),
        lead=policy.lead,
    )
    cloudwatch = RecordedCloudWatch(world)
    with ReplayLedger.in_memory() as ledger:
        shell = _shell(world, cloudwatch, ledger, setting)
        grid_s = int(policy.cadence.sweep_tick.total_seconds())
        days = -(-(setting.end_s - setting.start_s) // _DAY_S)
        tick_s = setting.start_s // _TICK_S * _TICK_S
        while tick_s < setting.end_s and world.volumes:
            world.now_s = tick_s + TICK_TAKES_S
            report = run_tick(shell, tick_s=tick_s, now_s=world.now_s)
            if report is not None and (report.bugs or report.failures):
                raise ReplayError("; ".join(dict.fromkeys([*report.bugs, *report.failures])))
            tick_s += _TICK_S
            while skips and tick_s % grid_s and not due_in_focus(ledger.states(), tick_s):
                tick_s += _TICK_S
            report_progress((tick_s - setting.start_s) // _DAY_S, days)
        world.now_s = setting.end_s
        return _read_out(world, cloudwatch, ledger, setting)


def _shell(world: World, cloudwatch: RecordedCloudWatch, ledger: ReplayLedger, setting: Setting) -> Shell:
    """The readers over the world in place of AWS's; nobody is told, so there are no channels."""
    unknown: Any = RecordedEc2(world, setting.limits)
    modifier: Any = RecordedModifier(world)
    return Shell(
        ec2=unknown,
        cloudwatch=cast("CloudWatchReader", cloudwatch),
        ledger=ledger,
        calls=CallCounter(),
        policy=setting.policy,
        place=setting.place,
        modifier=modifier,
        causes=cast("CauseReader", CountedCauses(cloudwatch.asked)),
    )


def _read_out(
    world: World, cloudwatch: RecordedCloudWatch, ledger: ReplayLedger, setting: Setting
) -> Replayed:
    asked = cloudwatch.asked
    volumes = []
    for volume_id, each in world.volumes.items():
        each.balance(each.recording.first_s, setting.end_s, setting.end_s)
        volumes.append(
            Lived(
                recording=each.recording,
                entries=ledger.entries(volume_id),
                moves=each.moves,
                metrics=asked.pop(volume_id, 0),
                stalls=_stalls(each.recording, dict(each.lived), setting),
            )
        )
    names = [window.name for window in setting.policy.windows]
    windows = [entry for name in names for entry in ledger.entries(f"window {name}")]
    return Replayed(volumes=volumes, windows=windows, metrics_of_instances=asked.total())


def _stalls(recording: Recording, lived: Mapping[int, float], setting: Setting) -> list[int]:
    span = range(setting.start_s, setting.end_s)
    return [at_s for at_s, pct in lived.items() if at_s in span and recording.is_stalled(at_s, pct)]


def _calm_looks(recording: Recording, cadence: CadencePolicy, start_s: int, end_s: int) -> int:
    """How often the sweep comes by: the first pass looks at everything."""
    grid_s = int(cadence.sweep_tick.total_seconds())
    ticks = sweep_ticks(baseline_iops(recording.volume.size_gib), cadence)
    volume_id, first = recording.volume.volume_id, start_s // grid_s + 1
    return 1 + sum(is_swept(volume_id, ticks, tick, tick) for tick in range(first, -(-end_s // grid_s)))


def _longest_gap(values: Iterable[float]) -> int:
    longest = gap = 0
    for value in values:
        gap = gap + 1 if value != value else 0  # noqa: PLR0124 - no gap is itself
        longest = max(longest, gap)
    return longest
