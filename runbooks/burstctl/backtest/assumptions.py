"""What a recording does not contain, and what a backtest assumes instead."""

from typing import Final

from burstctl.backtest.backtest import Backtest
from burstctl.context.metric_resolution import COARSE_PERIOD_S
from burstwatch.core.durations import format_duration_literal
from burstwatch.core.text import format_duration

_DEMAND_NOTE: Final = (
    "The demand of a volume that was throttled to its baseline is unknown. On its target it is assumed to"
    " serve what was recorded, and only stalled minutes count as avoided."
)
_BALANCE_NOTE: Final = (
    "The balance after a return is not documented. It is assumed to be what it was when the volume left, and"
    " to follow from the recorded operations."
)
_SILENCE_NOTE: Final = (
    "A long time without any datapoint is assumed to be a stopped instance. Holds, and windows started"
    " by hand, are left out."
)
_PRICES_NOTE: Final = "Dollars are those of the watchdog's own plans, at list prices of us-east-1."
_COARSE_NOTE: Final = (
    "It was recorded by five minutes and is drawn out to minutes: what was quicker is smoothed, alerts may"
    " be minutes off."
)


def list_assumptions(backtest: Backtest) -> list[str]:
    """The assumptions as sentences; those that the operator chose come first."""
    lead, config = backtest.config.policy.lead, backtest.config
    duration = (
        f"{format_duration_literal(lead.least)} and {format_duration_literal(lead.per_tib)} for each TiB"
    )
    return [
        f"Policy: {backtest.request.policy_location}. {_describe_tags(backtest)}",
        f"CloudWatch shows a minute {format_duration(config.lag_s)} after its start.",
        *([_COARSE_NOTE] if backtest.source.period_s == COARSE_PERIOD_S else []),
        _DEMAND_NOTE,
        (
            f"To change a volume AWS takes {duration}, as the policy's lead expects; then minutes count as"
            " avoided."
        ),
        _BALANCE_NOTE,
        _SILENCE_NOTE,
        _PRICES_NOTE,
    ]


def _describe_tags(backtest: Backtest) -> str:
    if not backtest.may_act:
        highest = backtest.config.policy.mode.highest
        return f"Its mode.highest is {highest}, so nothing is flipped: try one with highest: auto."
    if backtest.request.as_tagged:
        return "The tags are those of today."
    return "The tags are those of today, but for the mode."
