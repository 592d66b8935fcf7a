"""What watching 1,000 idle gp2 volumes costs in CloudWatch reads, in a 30-day month.

.venv/bin/python lab/bench/cost/watch_cost.py
"""

from burstwatch.core.ebs.gp2_bucket import gp2_bucket
from burstwatch.core.ebs.volume import baseline_iops
from burstwatch.core.policy.policy import CadencePolicy
from burstwatch.core.watch.api_cost import metric_usd_per_month, usd_per_month_idle
from burstwatch.core.watch.polling.cadence import sweep_interval_s

VOLUMES = 1_000
MIX_GIB = (8, 30, 100, 334, 500, 900)
ALARM_USD_PER_MONTH = 0.10
FREE_ALARMS = 10


def main() -> None:
    """Print our price by size, then what the alternatives cost."""
    cadence = CadencePolicy()
    for size_gib in MIX_GIB:
        interval_s = sweep_interval_s(gp2_bucket(baseline_iops(size_gib)), cadence)
        price = VOLUMES * metric_usd_per_month(interval_s)
        print(f"all {size_gib:>3} GiB, every {interval_s // 60:>2} min: {price:8.2f}")
    intervals = [sweep_interval_s(gp2_bucket(baseline_iops(size_gib)), cadence) for size_gib in MIX_GIB]
    print(f"an even mix of these:     {usd_per_month_idle(intervals) * VOLUMES / len(MIX_GIB):8.2f}")
    print(f"polling every 5 minutes:  {VOLUMES * metric_usd_per_month(300):8.2f}")
    print(f"polling every minute:     {VOLUMES * metric_usd_per_month(60):8.2f}")
    print(f"an alarm for each volume: {(VOLUMES - FREE_ALARMS) * ALARM_USD_PER_MONTH:8.2f}")


if __name__ == "__main__":
    main()
