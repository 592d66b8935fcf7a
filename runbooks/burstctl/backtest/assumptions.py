"""What a recording cannot tell, and what a backtest takes instead."""

from typing import Final

from burstctl.backtest.backtest import Backtest
from burstctl.context.metric_resolution import COARSE_S
from burstwatch.core.durations import format_span
from burstwatch.core.text import format_duration

_DEMAND: Final = (
    "What a volume wanted while it was held to its baseline nobody recorded: on its target it is taken to"
    " serve what was recorded, and only minutes that were stalled count as avoided."
)
_BALANCE: Final = (
    "Nobody documents the balance after a return: it is taken to be what it was when the volume left, and to"
    " follow from the operations recorded."
)
_SILENCE: Final = (
    "A long time without any datapoint is taken for an instance that was stopped. Holds, and windows started"
    " by hand, are left out."
)
_PRICES: Final = "Dollars are those of the watchdog's own plans, at list prices of us-east-1."
_COARSE: Final = (
    "It was recorded by five minutes and is drawn out to minutes: what was quicker is smoothed, alerts may"
    " be minutes off."
)


def assumptions(found: Backtest) -> list[str]:
    """Sentences, what was asked for first."""
    lead, setting = found.setting.policy.lead, found.setting
    takes = f"{format_span(lead.least)} and {format_span(lead.per_tib)} for each TiB"
    return [
        f"Policy: {found.question.policy_place}. {_tags(found)}",
        f"CloudWatch shows a minute {format_duration(setting.lag_s)} after its start.",
        *([_COARSE] if found.recorded.period_s == COARSE_S else []),
        _DEMAND,
        f"To change a volume AWS takes {takes}, as the policy's lead expects; then minutes count as avoided.",
        _BALANCE,
        _SILENCE,
        _PRICES,
    ]


def _tags(found: Backtest) -> str:
    if not found.may_act:
        highest = found.setting.policy.mode.highest
        return f"Its mode.highest is {highest}, so nothing is flipped: try one with highest: auto."
    if found.question.as_tagged:
        return "The tags are those of today."
    return "The tags are those of today, but for the mode."
