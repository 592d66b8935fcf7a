"""The money of a report in sentences, and the stays behind it."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from burstctl.render.flip_status import format_configuration
from burstctl.render.planned_flip import PRICES
from burstctl.report.collect import FleetReport
from burstctl.report.costs import CostSummary
from burstctl.report.format import (
    format_full_instant,
    format_lookback,
    volume_labels,
)
from burstctl.timeline.flip_costs import FlipCost
from burstwatch.core.text import format_count, format_usd
from burstwatch.core.watch.api_cost import usd_per_month_now

MAX_FLIP_COSTS: Final = 100  # a longer table is not read; the totals count all flips


def cost_context(fleet_report: FleetReport, lookback: timedelta) -> dict[str, Any]:
    """What the template says of it."""
    costs, names = fleet_report.costs, volume_labels(fleet_report)
    flip_costs = sorted(
        costs.flip_costs, key=lambda flip_cost: -abs(flip_cost.usd_within(costs.start_s, costs.end_s))
    )
    return {
        "prices": f"{PRICES}; of other regions they differ",
        "money_lines": _cost_lines(fleet_report, lookback),
        "stays": [_flip_cost_document(flip_cost, costs, names) for flip_cost in flip_costs[:MAX_FLIP_COSTS]],
    }


def _cost_lines(fleet_report: FleetReport, lookback: timedelta) -> list[str]:
    costs, lookback_text = fleet_report.costs, format_lookback(lookback)
    lines = [_flips_line(costs, lookback_text)]
    if costs.saved_on_cheaper_usd:
        lines.append(
            f"Saved {format_usd(costs.saved_on_cheaper_usd)} in that time: targets that cost less, most often"
            " gp3."
        )
    if costs.saved_by_return_usd:
        lines.append(
            f"Saved {format_usd(costs.saved_by_return_usd)} in that time by returning: what volumes that came"
            " back in it would have cost more since, left on their target until now or until they went"
            " again."
        )
    lines.append(
        f"Flipped now: {format_count(costs.on_target, 'volume')}, for"
        f" {format_usd(costs.on_target_usd_per_month)} a month more. The policy allows {costs.fleet_cap:,}"
        f" volumes, and {format_usd(costs.spend_cap_usd)} a month."
    )
    idle_usd, now_usd = fleet_report.pass_report.usd_per_month_idle, usd_per_month_now(fleet_report.decisions)
    lines.append(
        f"Watching costs {format_usd(now_usd)} a month as it is now, {format_usd(idle_usd)} while all are"
        " calm."
    )
    lines.append(_gp3_line(costs))
    return lines


def _flips_line(costs: CostSummary, lookback_text: str) -> str:
    cost = f"Flips cost {format_usd(costs.flips_usd)} in the last {lookback_text}"
    return f"{cost}: what volumes cost more on their target than they did before."


def _gp3_line(costs: CostSummary) -> str:
    savings = costs.gp3
    if not savings.volumes:
        return "None of these volumes would cost less as gp3 with the same throughput."
    return (
        f"Not saved yet: {format_usd(savings.usd_per_month)} a month for {savings.volumes:,} of"
        f" {format_count(savings.gp2_volumes, 'gp2 volume')}. They would cost less as gp3 with the same"
        " throughput and at least their baseline IOPS. This considers only sizes;"
        " burstctl advise also considers their load."
    )


def _flip_cost_document(flip_cost: FlipCost, costs: CostSummary, names: Mapping[str, str]) -> dict[str, str]:
    usd = flip_cost.usd_within(costs.start_s, costs.end_s)
    return {
        "volume_id": flip_cost.volume_id,
        "name": names.get(flip_cost.volume_id, flip_cost.volume_id),
        "target": format_configuration(flip_cost.target),
        "began": format_full_instant(flip_cost.started_at_s),
        "ended": "still there" if flip_cost.ended_at_s is None else format_full_instant(flip_cost.ended_at_s),
        "usd_per_month": f"{flip_cost.usd_per_month:+,.2f}",
        "usd": f"{usd:+,.4f}",
    }
