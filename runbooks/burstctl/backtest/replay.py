"""The watchdog's own passes, tick by tick, over what was recorded."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from burstctl.backtest.recorded_aws import (
    CountingDrainMetricsReader,
    RecordedCloudWatch,
    RecordedEc2,
    RecordedModifier,
)
from burstctl.backtest.recorded_volume import RecordedFleet, SimulatedModification
from burstctl.backtest.recording import Recording
from burstctl.backtest.replay_ledger import ReplayLedger
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.core.buckets.poll_interval import is_sweep_due
from burstwatch.core.durations import DAY_S
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.ebs.volume_bucket import bucket_kind_of, bucket_of
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.ledger.ledger_entry import LedgerEntry
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.bucket_policy import policy_of_bucket
from burstwatch.core.policy.policy import FOCUS_TICK, CadencePolicy, Policy
from burstwatch.core.policy.windows import window_names_of
from burstwatch.core.tag_keys import CRITICAL, IGNORE
from burstwatch.core.watch.polling.cadence import sweep_ticks
from burstwatch.core.watch.polling.due_volumes import due_in_focus
from burstwatch.engine.services import Services
from burstwatch.engine.tick_pass import run_tick

if TYPE_CHECKING:
    from burstwatch.adapters.aws.cloudwatch import CloudWatchReader
    from burstwatch.adapters.aws.drain_metrics import DrainMetricsReader

TICK_DURATION_S: Final = 2  # the live watchdog decides about two seconds after its tick
_TICK_S: Final = int(FOCUS_TICK.total_seconds())
_SHORTEST_HORIZON_S: Final = 180
"""Over this the shortest horizon of a forecast looks."""

_MAX_GAP_MINUTES: Final = 5  # five-minute means have gaps of four minutes, and one minute may be lost


class ReplayError(BurstwatchError):
    """The watchdog could not be replayed; the message says what went wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayConfig:
    """The policy, and the span to replay; CloudWatch shows a minute ``lag_s`` after its start."""

    policy: Policy
    location: AwsLocation
    lag_s: int
    start_s: int
    end_s: int
    limits: Mapping[str, InstanceLimits] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """The result for one volume: the ledger's entries, the modifications, and the metrics that were read.

    ``stalls`` are the minutes in which the volume would have been throttled at its simulated balance.
    """

    recording: Recording
    entries: Sequence[LedgerEntry] = ()
    modifications: Sequence[SimulatedModification] = ()
    metrics_read: int = 0
    stalls: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetReplay:
    """The results of all volumes; ``window_entries`` are the ledger's entries about windows."""

    volumes: Sequence[ReplayResult]
    window_entries: Sequence[LedgerEntry] = ()
    metrics_of_instances: int = 0


def is_calm_throughout(recording: Recording, policy: Policy) -> bool:
    """Whether nothing can come of looking at a volume, at any moment of its recording.

    Its balance never leaves calm, cannot fall fast enough to look like a drain, is never missing for long,
    and neither tag nor window asks for anything.
    """
    volume, levels, cadence = recording.volume, policy.levels, _cadence_of(recording.volume, policy)
    if CRITICAL in volume.tags or IGNORE in volume.tags or window_names_of(policy.windows, volume):
        return False
    values = recording.balance.values
    minimum = min(values, default=0.0)
    if not minimum >= max(cadence.calm_from_pct, cadence.watch_below_pct):
        return False
    if _longest_gap(values) > _MAX_GAP_MINUTES:
        return False
    fall_pct = max(values) - minimum
    longest_s = max(levels.warning_within, levels.critical_within).total_seconds()
    return fall_pct == 0 or minimum / fall_pct * _SHORTEST_HORIZON_S > longest_s


def cost_of_calm_volume(recording: Recording, config: ReplayConfig) -> ReplayResult:
    """The result for a volume that stays calm: only the cost of polling it."""
    start_s, end_s = max(config.start_s, recording.first_s), min(config.end_s, recording.end_s)
    cadence = _cadence_of(recording.volume, config.policy)
    metrics_read = _count_sweep_reads(recording, cadence, start_s, end_s)
    return ReplayResult(recording=recording, metrics_read=metrics_read)


def _cadence_of(volume: Volume, policy: Policy) -> CadencePolicy:
    """The times that the policy has for the bucket of this volume."""
    return policy_of_bucket(policy, bucket_kind_of(volume), bucket_of(volume)).cadence


def replay(
    recordings: Iterable[Recording],
    config: ReplayConfig,
    *,
    report_progress: Callable[[int, int], None] = lambda _done, _days: None,
    skips_idle_ticks: bool = True,
) -> FleetReplay:
    """Let the watchdog look after these volumes from tick to tick.

    Ticks at which nothing is due are skipped, unless ``skips_idle_ticks`` is off: they change nothing.

    Raises:
        ReplayError: A volume could not be judged because of an internal error.
    """
    policy = config.policy
    fleet = RecordedFleet.of(
        recordings,
        lag_s=config.lag_s,
        gap_after_s=policy.telemetry.gap_after.total_seconds(),
        lead=policy.lead,
    )
    cloudwatch = RecordedCloudWatch(fleet)
    with ReplayLedger.in_memory() as ledger:
        services = _build_services(fleet, cloudwatch, ledger, config)
        sweep_tick_s = int(policy.cadence.sweep_tick.total_seconds())
        days = -(-(config.end_s - config.start_s) // DAY_S)
        tick_at_s = config.start_s // _TICK_S * _TICK_S
        while tick_at_s < config.end_s and fleet.volumes:
            fleet.now_s = tick_at_s + TICK_DURATION_S
            report = run_tick(services, tick_at_s=tick_at_s, now_s=fleet.now_s)
            if report is not None and (report.internal_errors or report.failures):
                raise ReplayError("; ".join(dict.fromkeys([*report.internal_errors, *report.failures])))
            tick_at_s += _TICK_S
            while (
                skips_idle_ticks and tick_at_s % sweep_tick_s and not due_in_focus(ledger.states(), tick_at_s)
            ):
                tick_at_s += _TICK_S
            report_progress((tick_at_s - config.start_s) // DAY_S, days)
        fleet.now_s = config.end_s
        return _collect_results(fleet, cloudwatch, ledger, config)


def _build_services(
    fleet: RecordedFleet, cloudwatch: RecordedCloudWatch, ledger: ReplayLedger, config: ReplayConfig
) -> Services:
    """The readers of the recording in place of AWS's. There are no channels, because no one is notified."""
    ec2: Any = RecordedEc2(fleet, config.limits)
    modifier: Any = RecordedModifier(fleet)
    return Services(
        ec2=ec2,
        cloudwatch=cast("CloudWatchReader", cloudwatch),
        ledger=ledger,
        calls=CallCounter(),
        policy=config.policy,
        location=config.location,
        modifier=modifier,
        drain_metrics_reader=cast(
            "DrainMetricsReader", CountingDrainMetricsReader(cloudwatch.billed_metrics)
        ),
    )


def _collect_results(
    fleet: RecordedFleet, cloudwatch: RecordedCloudWatch, ledger: ReplayLedger, config: ReplayConfig
) -> FleetReplay:
    billed_metrics = cloudwatch.billed_metrics
    volumes = []
    for volume_id, volume in fleet.volumes.items():
        volume.balance(volume.recording.first_s, config.end_s, config.end_s)
        volumes.append(
            ReplayResult(
                recording=volume.recording,
                entries=ledger.entries(volume_id),
                modifications=volume.modifications,
                metrics_read=billed_metrics.pop(volume_id, 0),
                stalls=_simulated_stalls(volume.recording, dict(volume.simulated_balance), config),
            )
        )
    names = [window.name for window in config.policy.windows]
    window_entries = [entry for name in names for entry in ledger.entries(f"window {name}")]
    return FleetReplay(
        volumes=volumes, window_entries=window_entries, metrics_of_instances=billed_metrics.total()
    )


def _simulated_stalls(recording: Recording, balance: Mapping[int, float], config: ReplayConfig) -> list[int]:
    span = range(config.start_s, config.end_s)
    return [at_s for at_s, pct in balance.items() if at_s in span and recording.is_stalled(at_s, pct)]


def _count_sweep_reads(recording: Recording, cadence: CadencePolicy, start_s: int, end_s: int) -> int:
    """How many sweeps there are; the first pass evaluates every volume."""
    sweep_tick_s = int(cadence.sweep_tick.total_seconds())
    ticks = sweep_ticks(bucket_of(recording.volume), cadence)
    volume_id, first = recording.volume.volume_id, start_s // sweep_tick_s + 1
    return 1 + sum(
        is_sweep_due(volume_id, ticks, tick, tick) for tick in range(first, -(-end_s // sweep_tick_s))
    )


def _longest_gap(values: Iterable[float]) -> int:
    longest = current_gap = 0
    for value in values:
        current_gap = current_gap + 1 if value != value else 0  # noqa: PLR0124 - no gap is itself
        longest = max(longest, current_gap)
    return longest
