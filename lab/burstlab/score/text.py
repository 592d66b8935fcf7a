"""The figures as tables of at most 80 columns."""

from collections.abc import Sequence

from rich import box
from rich.table import Table

from burstlab.score.aggregate import Acting, Alerting, Figures
from burstlab.score.job import OURS


def acting_table(told: Figures, target: str) -> Table:
    """What flipping to one type came to, contender by contender."""
    table = _table(
        f"{told.folder}, flipping to {target}",
        ("", "left"),
        ("stalled", "right"),
        ("avoided", "right"),
        ("flips", "right"),
        ("needless\npaid", "right"),
        ("\nfree", "right"),
        ("$ over\ngp2", "right"),
        ("$ to\nwatch", "right"),
    )
    for one in told.acting[target]:
        table.add_row(*_acting_cells(one), style="bold" if one.contender == OURS else "")
    return table


def alerting_table(told: Figures) -> Table:
    """What the alerts were worth where nobody acts on them."""
    table = _table(
        f"{told.folder}, alerts only: {_depletions(told)} depletions in {told.volume_days:,.0f} volume-days",
        ("", "left"),
        ("told", "right"),
        ("lead p5", "right"),
        ("p50", "right"),
        ("criticals", "right"),
        ("needless", "right"),
        ("/100 days", "right"),
    )
    for one in told.alerting:
        table.add_row(*_alerting_cells(one), style="bold" if one.contender == OURS else "")
    return table


def promise_sentence(told: Figures) -> str:
    """How the guarantee fared, and what watching cost beside polling."""
    promise = told.promise
    calm = f"{100 * told.calm_watching_usd / told.calm_polling_usd:.0f} %" if told.calm_polling_usd else "-"
    ours = next(one.watching_usd for one in told.alerting if one.contender == OURS)
    whole = f"{100 * ours / told.polling_usd:.0f} %" if told.polling_usd else "-"
    return (
        f"Of {promise.depletions:,} depletions that began at 95 % or above {promise.in_focus:,} were in focus"
        f" in time, and\n{promise.with_lead:,} had 95 % of the lead of looking every minute."
        f" Watching the {told.calm_cases:,} calm\nvolumes costs {calm} of polling every 5 minutes;"
        f" all {told.cases:,} cost {whole}."
    )


def _table(title: str, *columns: tuple[str, str]) -> Table:
    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True
    )
    for name, justify in columns:
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    return table


def _acting_cells(one: Acting) -> Sequence[str]:
    avoided = "-" if one.avoided_pct is None else f"{one.avoided_pct:.2f} %"
    return (
        one.contender,
        _span(one.stalled_s),
        avoided,
        f"{one.flips:,}",
        f"{one.needless_flips - one.needless_free_flips:,}",
        f"{one.needless_free_flips:,}",
        f"{one.usd:,.2f}",
        f"{one.watching_usd:,.2f}",
    )


def _alerting_cells(one: Alerting) -> Sequence[str]:
    leads = one.lead_s or {}
    return (
        one.contender,
        f"{one.announced:,}",
        _span(leads.get("p5")),
        _span(leads.get("p50")),
        f"{one.criticals:,}",
        f"{one.needless_criticals:,}",
        f"{one.needless_per_100_days:.2f}",
    )


def _depletions(told: Figures) -> int:
    return max((one.depletions for one in told.alerting), default=0)


def _span(seconds: float | None) -> str:
    """Seconds, minutes or hours, whichever reads best."""
    if seconds is None:
        return "-"
    if seconds < 600:  # noqa: PLR2004 - ten minutes
        return f"{seconds:.0f} s"
    return f"{seconds / 60:,.0f} min" if seconds < 36_000 else f"{seconds / 3600:,.0f} h"  # noqa: PLR2004
