"""What CloudWatch shows of an instance: its balances, the operations of its volumes, and its exceeded checks.

Source: EBS user guide, "Amazon CloudWatch metrics for Amazon EBS", the part about instances.
"""

from collections.abc import Iterator
from typing import Final

from burstlab.fake_aws.cloudwatch.volume_metrics import (
    Aggregate,
    Datapoints,
    datapoint_lag_s,
    minute_total,
    period_datapoints,
)
from burstlab.model.bucket import FULL_CREDITS
from burstlab.model.instances.instance import BALANCES, LabInstance
from burstlab.model.instances.instance_types import ebs_limits, is_bare_metal, is_nitro
from burstlab.model.minute_history import MINUTE_S, RETENTION_MINUTES, MinuteHistory
from burstlab.model.settings import LabSettings

_INTERVAL_S: Final = 300
"""The interval of basic monitoring; balances have it with detailed monitoring too."""
_FULL_PCT: Final = 100.0
_VOLUME_METRICS: Final = {
    "EBSReadOps": "VolumeReadOps",
    "EBSWriteOps": "VolumeWriteOps",
    "EBSReadBytes": "VolumeReadBytes",
    "EBSWriteBytes": "VolumeWriteBytes",
}
_CHECKS: Final = ("InstanceEBSIOPSExceededCheck", "InstanceEBSThroughputExceededCheck")
INSTANCE_UNITS: Final = {
    **dict.fromkeys(BALANCES, "Percent"),
    **{name: "Count" if name.endswith("Ops") else "Bytes" for name in _VOLUME_METRICS},
    **dict.fromkeys(_CHECKS, "None"),
}
"""The metrics of an instance, with the unit of each."""


def read_instance_datapoints(
    instance: LabInstance,
    metric: str,
    statistic: str,
    *,
    period_s: int,
    from_s: int,
    to_s: int,
    now_s: float,
    settings: LabSettings,
) -> Datapoints:
    """The datapoints that are published at ``now_s`` and start in [``from_s``, ``to_s``).

    The instance must be simulated up to then.
    """
    from_s = max(from_s // period_s * period_s, int(now_s) - RETENTION_MINUTES * MINUTE_S)
    to_s = min(-(-to_s // period_s) * period_s, int(now_s))
    gaps = [*instance.gaps, *(instance.balance_gaps if metric in BALANCES else ())]
    aggregates = (
        aggregate
        for start_s, end_s in _intervals(instance, metric, from_s, to_s, settings)
        if end_s + datapoint_lag_s(instance.instance_id, start_s // MINUTE_S, settings) <= now_s
        and not any(gap_from_s <= start_s < gap_to_s for gap_from_s, gap_to_s in gaps)
        and (aggregate := _aggregate(instance, metric, start_s, end_s)) is not None
    )
    return period_datapoints(aggregates, statistic, period_s)


def _intervals(
    instance: LabInstance, metric: str, from_s: int, to_s: int, settings: LabSettings
) -> Iterator[tuple[int, int]]:
    """The intervals with a datapoint each, as the monitoring of the time has them."""
    for start_s in range(-(-from_s // _INTERVAL_S) * _INTERVAL_S - _INTERVAL_S, to_s, _INTERVAL_S):
        states = instance.states_between(start_s, start_s + _INTERVAL_S)
        if not any(state.state == "running" for state in states):
            continue
        is_detailed = states[0].detailed_monitoring
        if metric in BALANCES:
            step_s = _INTERVAL_S
            if is_detailed and settings.detailed_hides_balance:
                continue
        else:
            step_s = MINUTE_S if is_detailed or metric in _CHECKS else _INTERVAL_S
        for part_s in range(start_s, start_s + _INTERVAL_S, step_s):
            if from_s <= part_s < to_s and (len(states) == 1 or _runs(instance, part_s, part_s + step_s)):
                yield part_s, part_s + step_s


def _runs(instance: LabInstance, from_s: int, to_s: int) -> bool:
    return any(state.state == "running" for state in instance.states_between(from_s, to_s))


def _aggregate(instance: LabInstance, metric: str, start_s: int, end_s: int) -> Aggregate | None:
    """The interval in CloudWatch's terms, None if nothing is published."""
    if metric in BALANCES:
        return _balance(instance, metric, start_s, end_s)
    starts_at_s = instance.starts_at_s
    if starts_at_s is None or end_s <= starts_at_s or not is_nitro(instance.instance_type):
        return None
    if metric in _CHECKS:
        if is_bare_metal(instance.instance_type):
            return None
        value = _exceeded(instance, metric, start_s)
    else:
        value = _sum_of_volumes(instance, _VOLUME_METRICS[metric], start_s, end_s)
    return Aggregate(start_s, value, value, value, 1.0)


def _balance(instance: LabInstance, metric: str, start_s: int, end_s: int) -> Aggregate | None:
    """What was set to be shown, otherwise what the bucket held."""
    if chosen := instance.balances_between(start_s, end_s):
        values = [value for value in map(BALANCES[metric], chosen) if value is not None]
        if not values:
            return None
        return Aggregate(start_s, min(values), min(values), min(values), 1.0)
    index = list(BALANCES).index(metric)
    limits = ebs_limits(instance.states_between(start_s, end_s)[0].instance_type)
    starts_at_s = instance.starts_at_s
    if limits is None or not limits[index].capacity or starts_at_s is None or end_s <= starts_at_s:
        return None
    return _bucket_levels(instance.histories[index], start_s, end_s)


def _bucket_levels(history: MinuteHistory, start_s: int, end_s: int) -> Aggregate:
    """The bucket is full in the minutes in which it was not simulated."""
    minutes = (end_s - start_s) // MINUTE_S
    runs = history.runs(start_s // MINUTE_S, end_s // MINUTE_S)
    lows, highs, total, known = [], [], 0.0, 0
    for run in runs:
        change = (run.minute_count - 1) * run.step
        lows.append(run.minimum + min(0.0, change))
        highs.append(run.maximum + max(0.0, change))
        total += (run.mean + change / 2) * run.minute_count
        known += run.minute_count
    if known < minutes:
        lows.append(FULL_CREDITS)
        highs.append(FULL_CREDITS)
        total += FULL_CREDITS * (minutes - known)
    to_pct = _FULL_PCT / FULL_CREDITS
    return Aggregate(start_s, min(lows) * to_pct, total / minutes * to_pct, max(highs) * to_pct, 1.0)


def _exceeded(instance: LabInstance, metric: str, start_s: int) -> float:
    minute = start_s // MINUTE_S
    runs = instance.histories[_CHECKS.index(metric)].runs(minute, minute + 1)
    return float(any(run.exceeded for run in runs))


def _sum_of_volumes(instance: LabInstance, metric: str, start_s: int, end_s: int) -> float:
    """What its volumes did, each in the minutes in which it was attached."""
    total = 0.0
    counted_until: dict[str, int] = {}
    for hosting in instance.hostings:
        first_s, last_s = max(start_s, hosting.from_s), min(end_s, hosting.to_s or end_s)
        if first_s >= last_s:
            continue
        origin_minute = hosting.volume.origin_s // MINUTE_S
        first_minute, end_minute = first_s // MINUTE_S, -(-last_s // MINUTE_S)
        first_minute = max(first_minute, counted_until.get(hosting.volume.volume_id, first_minute))
        counted_until[hosting.volume.volume_id] = end_minute
        for run in hosting.volume.history.runs(first_minute - origin_minute, end_minute - origin_minute):
            total += minute_total(run, metric) * run.minute_count * hosting.share
    return total
