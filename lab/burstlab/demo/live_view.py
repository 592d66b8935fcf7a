"""What the demo shows while it runs and when it ends: on a terminal a live board, elsewhere lines."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from burstlab.demo.activity import Trip, last_word
from burstlab.demo.run import Life, Role, Stage
from burstlab.demo.scenario import CAST, STARTS_AT
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ebs.volume import BURST_IOPS, baseline_iops
from burstwatch.core.ledger.ledger import EntryKind
from burstwatch.core.text import fill, format_clock, format_duration, printable
from burstwatch.core.watch.api_cost import USD_PER_METRIC

COLOURS: Final = {
    "ok": "green",
    "watch": "cyan",
    "warning": "yellow",
    "critical": "bold red",
    "exhausted": "bold white on red",
    "unknown": "magenta",
}
_COLUMNS: Final = 80
_INDENT: Final = " " * 7
_BAR: Final = 8
_LAST_ALERTS: Final = 6


def tell_the_start(console: Console, *, hours: float, seconds: float, is_deployed: bool = False) -> None:
    """What is about to be seen."""
    watchdog = (
        "the watchdog is the stack that `cdk deploy` makes, its functions really run"
        if is_deployed
        else "the watchdog is the real one"
    )
    text = (
        f"{len(CAST)} gp2 volumes from {STARTS_AT:%H:%M} UTC on, {hours:g} hours in about {seconds:g} s."
        f" The lab plays AWS on loopback; {watchdog}, and flips what is tagged auto."
        " A flip takes as long as AWS's documents say: up to 6 h for a TiB."
    )
    _say(console, text)
    console.print()


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
        heard = stage.watchdog.heard
        for message in heard[printed:]:
            _say(console, message.headline, lead=f"{format_clock(message.at_s)}  ")
        printed = len(heard)

    return show


def _board(stage: Stage) -> Group:
    table = Table(
        title=f"{format_clock(stage.now_s)} UTC",
        title_justify="left",
        box=None,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    columns = (("volume", 11), ("mode", 7), ("burst balance", 15), ("type", 4), ("level", 9))
    for heading, width in (*columns, ("last", 28)):
        table.add_column(heading, no_wrap=True, width=width)
    for role in stage.roles.values():
        table.add_row(role.actor.name, role.actor.mode, _bar(role), _type(role), _level(role), _last(role))
    heard = [
        Text(
            printable(f"{format_clock(message.at_s)} {message.headline}", _COLUMNS - 1),
            style=COLOURS[message.level],
        )
        for message in stage.watchdog.heard[-_LAST_ALERTS:]
    ]
    return Group(table, Text(""), Text(stage.watchdog.place, style="bold"), *heard)


def _bar(role: Role) -> Text:
    balance = role.life.moments[-1].balance_pct
    if balance is None:
        return Text("-", style="green")
    filled = round(balance / 100 * _BAR)
    return Text("█" * filled + "░" * (_BAR - filled) + f" {balance:3.0f} %", style=COLOURS[role.level])


def _type(role: Role) -> Text:
    return Text(role.type_now, style="" if role.type_now == "gp2" else "bold green")


def _level(role: Role) -> Text:
    """The level as judged; none while there is no bucket to judge."""
    level = role.level
    return Text(level, style=COLOURS[level]) if role.type_now == "gp2" else Text("-", style="green")


def _last(role: Role) -> str:
    if word := last_word(role.entries):
        return word
    return "" if baseline_iops(role.actor.size_gib) < BURST_IOPS else "cannot run dry"


def tell_the_end(console: Console, stage: Stage) -> None:
    """What happened, what was done and refused, and what it cost."""
    roles = list(stage.roles.values())
    _tell_twins(console, stage.twins)
    trips = sorted(((trip, role) for role in roles for trip in role.trips), key=_asked_at_s)
    if trips:
        _head(console, "What was done, and what it cost above gp2")
    for trip, role in trips:
        _tell_trip(console, role, trip)
    refused = sorted((role for role in roles if role.refusals), key=lambda role: role.refusals[0].at_s)
    if refused:
        _head(console, "What was refused")
    for role in refused:
        _tell_refusal(console, role)
    _head(console, "In all")
    _tell_sums(console, stage, roles)


def _asked_at_s(pair: tuple[Trip, Role]) -> int:
    return pair[0].asked_at_s


def _tell_twins(console: Console, twins: list[Role]) -> None:
    first = twins[0].actor
    _head(console, f"The twins: {first.story}, on {first.size_gib} GiB of gp2 each")
    rows = [
        ("", *(role.actor.name for role in twins)),
        ("mode", *(role.actor.mode for role in twins)),
        ("judged critical", *(_clock(_critical_at_s(role)) for role in twins)),
        ("flipped", *(_clock(next((trip.asked_at_s for trip in r.trips), None)) for r in twins)),
        ("ran dry", *(_clock(role.life.dry_at_s) for role in twins)),
        ("stalled", *(format_duration(role.life.stalled_s) for role in twins)),
        ("operations lost", *(f"{role.life.lost_ops:,.0f}" for role in twins)),
        ("paid for the volume", *(f"${role.life.usd:.4f}" for role in twins)),
    ]
    for label, *values in rows:
        console.print(Text(f"{label:<20}" + "".join(f"{value:>15}" for value in values)))


def _clock(at_s: float | None) -> str:
    return "never" if at_s is None else format_clock(at_s)


def _critical_at_s(role: Role) -> int | None:
    changes = (entry for entry in role.entries if entry.kind is EntryKind.LEVEL_CHANGED)
    return next((entry.at_s for entry in changes if entry.body["to"] == Level.CRITICAL), None)


def _tell_trip(console: Console, role: Role, trip: Trip) -> None:
    end = ", to stay" if trip.stays else ""
    line = f"{format_clock(trip.asked_at_s)}  {role.actor.name} to {trip.target}{end}"
    usd = role.life.usd_more(trip.asked_at_s, trip.back_at_s)
    console.print(Text(f"{line:<68}{_dollars(usd):>11}"))
    _say(console, trip.because, lead=_INDENT)
    said = [
        f"asked back {format_clock(trip.back_at_s)}" if trip.back_at_s else "",
        f"gp2 again {format_clock(trip.restored_at_s)}" if trip.restored_at_s else "",
        f"left alone: {_fate(role.alone)}" if role.alone.dry_at_s else "",
    ]
    if any(said):
        _say(console, "; ".join(filter(None, said)), lead=_INDENT)


def _tell_refusal(console: Console, role: Role) -> None:
    refused = role.refusals[0]
    lead = f"{format_clock(refused.at_s)}  "
    _say(console, f"{role.actor.name}, {refused.guard}: {refused.reason}", lead=lead)
    later = [trip for trip in role.trips if trip.asked_at_s > refused.at_s]
    if later:
        _say(console, f"flipped {format_clock(later[0].asked_at_s)}, when that was over", lead=_INDENT)
    elif role.life.dry_at_s:
        announced = "" if role.notice_s is None else f"; announced {format_duration(role.notice_s)} before"
        _say(console, f"{_fate(role.life)}{announced}", lead=_INDENT)


def _fate(life: Life) -> str:
    return f"dry {_clock(life.dry_at_s)}, stalled {format_duration(life.stalled_s)}"


def _tell_sums(console: Console, stage: Stage, roles: list[Role]) -> None:
    lives, alone = [role.life for role in roles], [role.alone for role in roles]
    usd = sum(life.usd_more() for life in lives)
    _say(console, f"Left alone, {_sum_up(alone)}.")
    more = "more" if usd >= 0 else "less"
    _say(console, f"Watched, {_sum_up(lives)}; the flips cost ${abs(usd):.4f} {more} than gp2.")
    calls = ", ".join(f"{count} {action}" for action, count in sorted(stage.api_calls.items()))
    metrics = stage.endpoint.metrics_asked
    price = f"${metrics * USD_PER_METRIC:.4f} at CloudWatch's price"
    _say(console, f"{stage.ticks} ticks; {metrics:,} metrics read, {price}; {calls}.")


def _sum_up(lives: list[Life]) -> str:
    dry = sum(life.dry_at_s is not None for life in lives)
    stalled = format_duration(sum(life.stalled_s for life in lives))
    lost = sum(life.lost_ops for life in lives)
    return f"{dry} of {len(lives)} volumes ran dry, stalled {stalled} and lost {lost:,.0f} operations"


def _dollars(usd: float) -> str:
    return f"{'-' if usd < 0 else '+'}${abs(usd):.4f}"


def _head(console: Console, text: str) -> None:
    console.print()
    console.print(Text(text, style="bold"))


def _say(console: Console, text: str, *, lead: str = "") -> None:
    """Words in lines of 80 columns after ``lead``, which the later lines leave blank."""
    first, *rest = fill(text.split(), _COLUMNS - len(lead))
    for line in (lead + first, *(" " * len(lead) + line for line in rest)):
        console.print(Text(line), soft_wrap=True)
