"""How long before empty a full burst is alerted, by how far apart and how late datapoints come.

    .venv/bin/python lab/bench/alerts/lead.py [--metric-lag 10m]

Only the decision core, with its defaults. A volume bursts at 3,000 operations a second: from a full bucket
(calm, so in the sweep), or from 30 % (held there, so in focus). Every phase of the looks against the burst
and of the datapoints against both is tried, minute by minute. The table has the least and the median lead of
the warning and of the critical alert before the bucket is empty, in minutes; below 0 is after it.
"""

import argparse
from collections.abc import Iterator, Mapping
from itertools import product
from statistics import median

from burstwatch.core.assessment.assess import VolumeReading, assess
from burstwatch.core.assessment.severity import Level
from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.gp2_bucket import gp2_bucket
from burstwatch.core.ebs.volume import CREDITS_PER_PCT, Volume, baseline_iops, highest_drain_per_s
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.policy import Policy
from burstwatch.core.policy.volume_tags import read_tags
from burstwatch.core.watch.decide import decide
from burstwatch.core.watch.decision import TickContext
from burstwatch.core.watch.polling.cadence import sweep_interval_s

_MINUTE_S, _HOUR_S = 60, 3600
_BURST_AT_S = 1_800_000_000 // 86_400 * 86_400
SIZES_GIB = (8, 33, 100, 500)
PUBLISHED = ((60, 180), (60, 300), (300, 180), (300, 300))
"""Seconds between datapoints, and from the start of a datapoint's minute to its being shown."""


def make_volume(size_gib: int) -> Volume:
    """An old volume of this size, attached for ever."""
    from datetime import UTC, datetime

    created_at = datetime(2020, 1, 1, tzinfo=UTC)
    return Volume(
        volume_id="vol-00000000000000001",
        volume_type="gp2",
        size_gib=size_gib,
        created_at=created_at,
        attached=True,
        attached_at=created_at,
        instance_id="i-00000000000000001",
        device="/dev/sdf",
    )


def measure_leads(
    size_gib: int, from_pct: float, spacing_s: int, lag_s: int, policy: Policy
) -> Iterator[Mapping[Level, float]]:
    """For each phase, how long before empty each level was first alerted, in seconds."""
    volume = make_volume(size_gib)
    drain_pct_per_s = highest_drain_per_s(baseline_iops(size_gib)) / CREDITS_PER_PCT
    empty_at_s = _BURST_AT_S + from_pct / drain_pct_per_s
    interval_s = sweep_interval_s(gp2_bucket(baseline_iops(size_gib)), policy.cadence)
    phases = product(range(0, interval_s, _MINUTE_S), range(0, spacing_s, _MINUTE_S))
    for poll_phase_s, point_phase_s in phases:
        first_point_s = _BURST_AT_S - 2 * _HOUR_S + point_phase_s
        points = {
            start_s: max(0.0, from_pct - drain_pct_per_s * max(0, start_s + _MINUTE_S - _BURST_AT_S))
            for start_s in range(first_point_s, _BURST_AT_S + 3 * _HOUR_S, spacing_s)
        }
        state, at_s = None, _BURST_AT_S - interval_s + poll_phase_s
        leads_by_level: dict[Level, float] = {}
        while at_s < empty_at_s + _HOUR_S and Level.EXHAUSTED not in leads_by_level:
            visible_points = {
                start_at_s: pct
                for start_at_s, pct in points.items()
                if at_s - 4_200 <= start_at_s <= at_s - lag_s
            }
            assessment = assess(
                volume,
                VolumeReading(balance=Series.from_pairs(visible_points.items())),
                now_s=at_s,
                telemetry=policy.telemetry,
            )
            context = TickContext(now_s=at_s, tick_at_s=at_s, location=AwsLocation(region="us-east-1"))
            decision = decide(assessment, state, read_tags({}, policy.mode), policy=policy, context=context)
            for level in (Level.WARNING, Level.CRITICAL, Level.EXHAUSTED):
                if decision.level.rank >= level.rank:
                    leads_by_level.setdefault(level, empty_at_s - at_s)
            state = decision.change.state if decision.change else state
            at_s += decision.poll_interval_s or interval_s
        yield leads_by_level


def main() -> None:
    """Print a row for each size, start and way of publishing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--metric-lag", default="5m")
    options = parser.parse_args()
    policy = Policy.from_mapping({"version": "1", "cadence": {"metric_lag": options.metric_lag}})
    print("| GiB | from | datapoint every | shown after | warning: least (median) | critical |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for size_gib, from_pct, (spacing_s, lag_s) in product(SIZES_GIB, (100.0, 30.0), PUBLISHED):
        leads_found = list(measure_leads(size_gib, from_pct, spacing_s, lag_s, policy))
        cells = []
        for level in (Level.WARNING, Level.CRITICAL):
            minutes = [leads_by_level.get(level, -_HOUR_S) / 60 for leads_by_level in leads_found]
            cells.append(f"{min(minutes):.1f} ({median(minutes):.1f})")
        row = (size_gib, f"{from_pct:g} %", f"{spacing_s // 60} min", f"{lag_s // 60} min", *cells)
        print(f"| {' | '.join(map(str, row))} |", flush=True)


if __name__ == "__main__":
    main()
