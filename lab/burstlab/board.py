"""What the demo shows while it runs and when it ends: on a terminal a live board, elsewhere lines."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from burstlab.demo import Role, Stage
from burstwatch.adapters.terminal import render
from burstwatch.core.alerts import describe_forecast, forecast_words
from burstwatch.core.cost import USD_PER_METRIC
from burstwatch.core.words import format_clock, format_duration

COLOURS: Final = {
    "ok": "green",
    "watch": "cyan",
    "warning": "yellow",
    "critical": "bold red",
    "exhausted": "bold white on red",
    "unknown": "magenta",
}
_BAR: Final = 10
_LAST_ALERTS: Final = 6


@contextmanager
def open_board(console: Console) -> Iterator[Callable[[Stage], None]]:
    """Give the function that shows the stage after each tick."""
    if not console.is_terminal:
        yield _line_printer(console)
        return
    with Live(console=console, refresh_per_second=8, transient=True) as live:
        yield lambda stage: live.update(_board(stage))


def _line_printer(console: Console) -> Callable[[Stage], None]:
    printed = 0

    def show(stage: Stage) -> None:
        nonlocal printed
        for alert in stage.audience.heard[printed:]:
            console.print("\n".join(render(alert)), markup=False, highlight=False, soft_wrap=True)
        printed = len(stage.audience.heard)

    return show


def _board(stage: Stage) -> Group:
    now = datetime.fromtimestamp(stage.now_s, tz=UTC)
    table = Table(title=f"{now:%H:%M} UTC", title_justify="left", box=None, pad_edge=False, expand=False)
    for heading, width in (
        ("volume", 11),
        ("GiB", 5),
        ("burst balance", 17),
        ("level", 9),
        ("dry (UTC)", 27),
    ):
        table.add_column(heading, no_wrap=True, width=width, justify="right" if heading == "GiB" else "left")
    for role in stage.roles.values():
        table.add_row(
            role.actor.name, f"{role.actor.size_gib:,}", _bar(role), _level(role), _words(stage, role)
        )
    heard = [
        Text(f"{format_clock(a.time_s)}  {' '.join(render(a)[0].split())}"[:79], style=COLOURS[str(a.level)])
        for a in stage.audience.heard[-_LAST_ALERTS:]
    ]
    return Group(table, Text(""), Text("alerts", style="bold"), *heard)


def _bar(role: Role) -> Text:
    balance = role.moments[-1].balance_pct
    filled = round(balance / 100 * _BAR)
    level = str(role.decision.level) if role.decision else "ok"
    return Text("█" * filled + "░" * (_BAR - filled) + f" {balance:4.0f} %", style=COLOURS[level])


def _level(role: Role) -> Text:
    level = str(role.decision.level) if role.decision else "unseen"
    return Text(level, style=COLOURS.get(level, ""))


def _words(stage: Stage, role: Role) -> str:
    decision = role.decision
    if decision is None:
        return ""
    if decision.assessment.unknown_reason is not None:
        return str(decision.assessment.unknown_reason).replace("_", " ")
    if not decision.level.is_alerting:
        return ""
    words = forecast_words(describe_forecast(decision.assessment, stage.now_s)) or ""
    return words.removeprefix("dry at about ").removesuffix(" UTC")


def tell_the_end(console: Console, stage: Stage) -> None:
    """What happened: when each volume was announced, and how long before it was dry."""
    table = Table(box=None, pad_edge=False, title="What happened", title_justify="left")
    columns = (
        ("volume", 11),
        ("first alert", 14),
        ("dry", 5),
        ("notice", 6),
        ("lowest", 6),
        ("what it did", 28),
    )
    for heading, width in columns:
        table.add_column(heading, no_wrap=True, width=width)
    for role in sorted(stage.roles.values(), key=lambda role: role.dry_at_s or float("inf")):
        table.add_row(*_ending(role))
    console.print(table)
    dollars = stage.metrics_requested * USD_PER_METRIC
    calls = ", ".join(f"{count} {action}" for action, count in sorted(stage.api_calls.items()))
    price = f"{stage.metrics_requested} metrics read, ${dollars:.4f} at CloudWatch's price"
    console.print(f"{stage.ticks} ticks; {calls}; {price}.", highlight=False)


def _ending(role: Role) -> tuple[str, ...]:
    first = role.alerts[0] if role.alerts else None
    lead = "" if role.lead_s is None else format_duration(role.lead_s)
    return (
        role.actor.name,
        f"{format_clock(first.time_s)} {first.level}" if first else "-",
        format_clock(role.dry_at_s) if role.dry_at_s else "-",
        lead if role.dry_at_s else "-",
        f"{min(moment.balance_pct for moment in role.moments):.0f} %",
        role.actor.story,
    )
