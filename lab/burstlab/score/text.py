"""The figures as tables of at most 80 columns."""

from collections.abc import Sequence

from rich import box
from rich.table import Table

from burstlab.score.aggregate import ActionScore, AlertScore, ScoreSummary
from burstlab.score.job import BURSTWATCH


def build_action_table(summary: ScoreSummary, target: str) -> Table:
    """The outcome of flips to one type, contender by contender."""
    table = _make_table(
        f"{summary.folder}, flipping to {target}",
        ("", "left"),
        ("stalled", "right"),
        ("avoided", "right"),
        ("flips", "right"),
        ("needless\npaid", "right"),
        ("\nfree", "right"),
        ("$ over\ngp2", "right"),
        ("$ to\nwatch", "right"),
    )
    for score in summary.acting[target]:
        table.add_row(*_format_action_score(score), style="bold" if score.contender == BURSTWATCH else "")
    return table


def build_alert_table(summary: ScoreSummary) -> Table:
    """The table of the value of alerts if no one acts on them."""
    table = _make_table(
        f"{summary.folder}, alerts only: {_count_depletions(summary)} depletions in"
        f" {summary.volume_days:,.0f} volume-days",
        ("", "left"),
        ("announced", "right"),
        ("lead p5", "right"),
        ("p50", "right"),
        ("criticals", "right"),
        ("needless", "right"),
        ("/100 days", "right"),
    )
    for score in summary.alerting:
        table.add_row(*_format_alert_score(score), style="bold" if score.contender == BURSTWATCH else "")
    return table


def describe_guarantee(summary: ScoreSummary) -> str:
    """The results of the guarantee, and the cost of watching compared with polling."""
    promise = summary.promise
    calm_share = (
        f"{100 * summary.calm_watching_usd / summary.calm_polling_usd:.0f} %"
        if summary.calm_polling_usd
        else "-"
    )
    watching_usd = next(score.watching_usd for score in summary.alerting if score.contender == BURSTWATCH)
    total_share = f"{100 * watching_usd / summary.polling_usd:.0f} %" if summary.polling_usd else "-"
    return (
        f"Of {promise.depletions:,} depletions that began at 95 % or above {promise.in_focus:,} were in focus"
        f" in time, and\n{promise.with_lead:,} had 95 % of the lead of looking every minute."
        f" Watching the {summary.calm_cases:,} calm\nvolumes costs {calm_share} of polling every 5 minutes;"
        f" all {summary.cases:,} cost {total_share}."
    )


def _make_table(title: str, *columns: tuple[str, str]) -> Table:
    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True
    )
    for name, justify in columns:
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    return table


def _format_action_score(score: ActionScore) -> Sequence[str]:
    avoided = "-" if score.avoided_pct is None else f"{score.avoided_pct:.2f} %"
    return (
        score.contender,
        _format_duration(score.stalled_s),
        avoided,
        f"{score.flips:,}",
        f"{score.needless_flips - score.needless_free_flips:,}",
        f"{score.needless_free_flips:,}",
        f"{score.usd:,.2f}",
        f"{score.watching_usd:,.2f}",
    )


def _format_alert_score(score: AlertScore) -> Sequence[str]:
    leads_s = score.lead_s or {}
    return (
        score.contender,
        f"{score.announced:,}",
        _format_duration(leads_s.get("p5")),
        _format_duration(leads_s.get("p50")),
        f"{score.criticals:,}",
        f"{score.needless_criticals:,}",
        f"{score.needless_per_100_days:.2f}",
    )


def _count_depletions(summary: ScoreSummary) -> int:
    return max((score.depletions for score in summary.alerting), default=0)


def _format_duration(seconds: float | None) -> str:
    """Seconds, minutes or hours, whichever reads best."""
    if seconds is None:
        return "-"
    if seconds < 600:  # noqa: PLR2004 - ten minutes
        return f"{seconds:.0f} s"
    return f"{seconds / 60:,.0f} min" if seconds < 36_000 else f"{seconds / 3600:,.0f} h"  # noqa: PLR2004
