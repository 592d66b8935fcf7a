"""Advice as people read it: a table of the fleet, paragraphs on a volume, and what to know beside it."""

import shlex
import sys
from collections.abc import Iterable, Sequence
from typing import Final

from burstctl.advise.collect import Advised
from burstctl.advise.rightsizing import STAY, Advice, Verdict, period_words
from burstctl.cli.output import complain, say
from burstctl.cli.text_layout import COLUMNS, Topic, hang, lay_out
from burstctl.render.plan_text import difference_words, usd
from burstctl.render.planned_flip import options_for
from burstctl.render.table import Cell, Table, cut, render_plain
from burstctl.render.volume import describe_in_a_line, inert, name_of
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.text import format_duration, format_instant, printable

MOST_ROWS: Final = 20
"""Of a fleet so many volumes are shown: those in most danger, then those with most dollars in it."""

_ALERTS_DIFFER: Final = (
    "An alert may ask for other numbers: it sees only the last minutes, so it never proposes a gp3 slower"
    " than the gp2 at its best. These come from the days seen; `burstctl advise VOLUME` shows both."
)
_MOST_LINES: Final = 10
_LONGEST: Final = 600
_VOLUME_COLUMNS: Final = 21
_CENT: Final = 0.005
_HUNDRED: Final = 100.0


def fleet_in_words(advised: Advised, *, everything: bool) -> str:
    """Two lines to a volume, the totals below; fits 80 columns."""
    shown = advised.advice if everything else advised.advice[:MOST_ROWS]
    table = Table(
        titles=("VOLUME", "NOW", "ADVISED", "$/MONTH"),
        lines=[line for each in shown for line in _lines(each)],
        right_aligned=frozenset({"$/MONTH"}),
        notes=_notes(advised, len(shown)),
    )
    return render_plain(table)


def advice_in_words(advice: Advice, advised: Advised) -> str:
    """All there is to say about one volume."""
    topics: list[Topic] = [
        ("Advice", [_headline(advice), *_durable_words(advice)]),
        ("Why", advice.reasons),
        ("Seen", _seen(advice)),
        ("Cost", [_cost(advice), prices_in_words(advised)]),
        ("Beside", [line for name in advice.options for line in _option_lines(name, advice)]),
        ("Risk", advice.risks),
    ]
    shown = [(topic, [inert(line) for line in lines]) for topic, lines in topics if lines]
    told = lay_out(describe_in_a_line(advice.volume), shown)
    return "\n".join([told, *_commands(advice, advised)])


def tell_advice(advised: Advised) -> None:
    """Say everything a person should know that is not in the advice itself."""
    if advised.advice and sys.stdout.isatty() and sys.stderr.isatty():
        say("")
    if not (advised.advice or advised.has_failed):
        say(f"there is no volume to advise on in {advised.region}")
    for fault in advised.prices.faults:
        say(f"prices: {printable(fault, _LONGEST)}")
    _say_each("ignored by tag", advised.ignored)
    _say_each("no advice", (f"{volume_id}: {why}" for volume_id, why in advised.unsuited.items()))
    calls = sum(advised.api_calls.values())
    say(
        f"read {advised.metrics_requested:,} metrics for ${advised.usd_read:.5f}, in {calls:,}"
        f" call{'' if calls == 1 else 's'} to AWS"
    )
    _complain_each(advised)


def prices_in_words(advised: Advised) -> str:
    """Whose prices these are, and of when."""
    table = advised.prices.table
    listed = "built in" if advised.prices.is_built_in else "AWS's price list"
    return f"list prices of {table.region} of {table.as_of:%Y-%m-%d}, {listed}"


def command_for(advice: Advice, advised: Advised) -> str:
    """The command that makes the volume what is advised."""
    return shlex.join(["burstctl", "flip", advice.volume.volume_id, *_options(advice), *advised.again])


def _options(advice: Advice) -> list[str]:
    return options_for(advice.target) if advice.verdict is Verdict.MOVE else []


def _lines(advice: Advice) -> list[list[Cell]]:
    first = [
        Cell(advice.volume.volume_id),
        Cell(_short(advice.case.now, advice.volume.size_gib)),
        Cell(_advised(advice)),
        Cell(signed(advice.price.difference_usd_per_month)),
    ]
    name = name_of(advice.volume) or advice.volume.instance_id or ""
    second = [Cell(cut(name, _VOLUME_COLUMNS)), Cell(_danger_words(advice)), Cell(_days_words(advice))]
    return [first, [*second, Cell("")]]


def _short(configuration: Configuration, size_gib: int) -> str:
    """``gp2 100 GiB``; of the other types it is the IOPS that tell."""
    if configuration.volume_type is VolumeType.GP2:
        return f"gp2 {size_gib:,} GiB"
    return f"{configuration.volume_type} {configuration.iops:,} IOPS"


def _advised(advice: Advice) -> str:
    if advice.verdict is Verdict.UNDECIDED:
        return "stay for now: little seen"
    if advice.verdict is Verdict.STAY:
        return "stay"
    target = advice.target
    mib_s = "" if target.throughput_mib_s is None else f" {target.throughput_mib_s:,} MiB/s"
    return f"{target.volume_type} {target.iops:,} IOPS{mib_s}"


def signed(usd_more: float) -> str:
    """``-1.88``, ``+64.00``, and a plain ``0.00`` for less than half a cent."""
    return "0.00" if abs(usd_more) < _CENT else f"{usd_more:+,.2f}"


def _danger_words(advice: Advice) -> str:
    usage = advice.case.usage
    if usage is None:
        return ""
    if usage.dry_s:
        return f"dry {format_duration(usage.dry_s)}"
    least = usage.least_balance
    return "" if least is None or least.value >= _HUNDRED else f"least {least.value:.1f} %"


def _days_words(advice: Advice) -> str:
    usage = advice.case.usage
    days = "0" if usage is None else f"{usage.days:.1f}"
    return f"{days} days seen: {advice.confidence}"


def _notes(advised: Advised, shown: int) -> list[str]:
    hidden = len(advised.advice) - shown
    notes = [f"and {hidden:,} more (--all shows them, --csv and --json have them)"] if hidden else []
    notes += ["", totals_in_words(advised), *_split_words(advised)]
    notes += [_ALERTS_DIFFER] if any(each.differs_from_alert for each in advised.advice[:shown]) else []
    notes += _ending(advised)
    return [line for note in notes for line in hang(note, COLUMNS)]


def totals_in_words(advised: Advised) -> str:
    """How many volumes become what, and what that comes to."""
    fleet = advised.fleet
    counts = [f"{count:,} to {kind}" for kind, count in sorted(fleet.by_target.items()) if kind != STAY]
    stay = fleet.by_target.get(STAY, 0) - fleet.undecided
    counts += [f"{stay:,} stay"] if stay else []
    counts += [f"{fleet.undecided:,} undecided"] if fleet.undecided else []
    price = fleet.price
    return (
        f"{fleet.count:,} volume{'' if fleet.count == 1 else 's'} in {advised.region}: {', '.join(counts)};"
        f" {usd(price.before_usd_per_month)} -> {usd(price.after_usd_per_month)} a month,"
        f" {difference_words(price.difference_usd_per_month)} ({prices_in_words(advised)})."
    )


def _split_words(advised: Advised) -> list[str]:
    """The total split by what is critical, and what durability would cost; nothing if nothing is critical."""
    fleet = advised.fleet
    critical, others = fleet.critical_count, fleet.count - fleet.critical_count
    if not critical:
        return []
    parts = [
        f"{count:,} {kind} {difference_words(price.difference_usd_per_month)}"
        for count, kind, price in (
            (others, "not critical", fleet.others),
            (critical, "critical", fleet.critical),
        )
        if count
    ]
    durable = f"; io2 for the critical, for durability: {usd(fleet.usd_more_on_io2)} a month more"
    return [f"Of that, {', '.join(parts)}{durable if fleet.usd_more_on_io2 else ''}."]


def _ending(advised: Advised) -> list[str]:
    """What is left for a watchdog to do after that; the plain truth where that is nothing."""
    if not advised.request.is_for_all:
        return []
    if not advised.ends_the_watch:
        return [f"Keep the watch until all are judged: {', '.join(_unjudged(advised))}."]
    moved = sorted(kind for kind in advised.fleet.by_target if kind != STAY)
    if not moved:
        return ["Nothing here lives on burst credits: there is nothing to watch, you can uninstall us."]
    answer = (
        f"The honest answer is {' and '.join(moved)}, once, and you can uninstall us: after that nothing here"
        " lives on burst credits. Make gp3 the default where volumes are made, or new gp2 volumes bring the"
        " problem back."
    )
    return [answer, "How to go about it: runbooks/MovingToGp3.md"]


def _unjudged(advised: Advised) -> list[str]:
    counts = {
        "undecided": advised.fleet.undecided,
        "unread": len(advised.unread),
        "ignored by tag": len(advised.ignored),
        "calls to AWS that failed": len(advised.failures),
    }
    named = [f"{count:,} {word}" for word, count in counts.items() if count]
    return named or ["some stay on credits, because no other type will do"]


def _headline(advice: Advice) -> str:
    match advice.verdict:
        case Verdict.UNDECIDED:
            return f"Leave it {advice.target} for now: too little was seen of it."
        case Verdict.STAY if advice.case.flipped_from is not None:
            return f"Keep it {advice.target} for good."
        case Verdict.STAY:
            return f"Leave it {advice.target}."
        case Verdict.MOVE:
            return f"Make it {advice.target}, for good."


def _durable_words(advice: Advice) -> list[str]:
    """The more durable type as an option for a critical volume."""
    more = advice.usd_more_on_io2
    if more is None:
        return []
    io2 = advice.options[VolumeType.IO2].configuration
    return [f"For durability, {io2} is an option: {difference_words(more)} a month than that."]


def _cost(advice: Advice) -> str:
    price = advice.price
    return (
        f"{usd(price.before_usd_per_month)} -> {usd(price.after_usd_per_month)} a month:"
        f" {difference_words(price.difference_usd_per_month)}"
    )


def _seen(advice: Advice) -> list[str]:
    usage = advice.case.usage
    if usage is None:
        return ["nothing"]
    unit = period_words(usage.period_s)
    lines = [f"{usage.days:.1f} days by the {unit}, {format_instant(usage.first_s)} on: {advice.confidence}"]
    for rate, name in ((usage.iops, "IOPS"), (usage.mib_s, "MiB/s")):
        if rate is None:
            lines.append(f"{name} not known")
            continue
        lines.append(
            f"{rate.at_percentile:,.0f} {name} at {usage.percentile:g} %; busiest {unit}"
            f" {rate.busiest.value:,.0f} at {format_instant(rate.busiest.at_s)}; busiest hour"
            f" {rate.busiest_hour.value:,.0f} from {format_instant(rate.busiest_hour.at_s)}"
        )
    if usage.read_pct is not None:
        lines.append(f"{usage.read_pct:.0f} % of the operations were reads")
    if (least := usage.least_balance) is not None:
        lines.append(f"burst balance at least {least.value:.1f} %, at {format_instant(least.at_s)}")
    if usage.dry_s:
        lines.append(
            f"bucket empty for {format_duration(usage.dry_s)}, held to its baseline for"
            f" {format_duration(usage.held_s)} of it"
        )
    return lines


def _option_lines(name: str, advice: Advice) -> list[str]:
    option, gp3 = advice.options[name], advice.options.get(VolumeType.GP3)
    if name == "flip" and gp3 is not None and gp3.configuration == option.configuration:
        return []
    mark = "  <-" if option.configuration == advice.target else ""
    month = f"{usd(option.usd_per_month)} a month"
    line = f"{name:<4}  {option.configuration!s:<39}{month:>19}{mark}"
    return [line, f"      {option.short}"] if option.short else [line]


def _commands(advice: Advice, advised: Advised) -> list[str]:
    """What to do, to paste; a volume that its flip made what it should be is kept so by a flip by hand."""
    if advice.volume.managed_by:
        return [f"Change it where {advice.volume.managed_by} is told what it shall be."]
    if advice.verdict is not Verdict.MOVE and advice.case.flipped_from is None:
        return []
    volume_id = advice.volume.volume_id
    flip = ["burstctl", "flip", volume_id, *_options(advice)]
    lines = ["", "To do it, and what its definition has to say (or cloudformation, or cdk):"]
    if advice.verdict is not Verdict.MOVE:
        lines[1] = "To keep it so (AWS is asked for nothing), and what its definition has to say:"
    return [
        *lines,
        *_pasteable(flip, advised.again),
        *_pasteable(["burstctl", "advise", volume_id, "--iac", "terraform"], advised.again),
    ]


def _pasteable(words: Sequence[str], again: Sequence[str]) -> list[str]:
    """A command that can be pasted, on two lines where one is too long."""
    first, rest = f"  {shlex.join(words)}", shlex.join(again)
    whole = f"{first} {rest}"
    return [whole] if len(whole) <= COLUMNS else [f"{first} \\", f"      {rest}"]


def _say_each(word: str, lines: Iterable[str]) -> None:
    found = list(lines)
    for line in found[:_MOST_LINES]:
        say(f"{word}: {printable(line, _LONGEST)}")
    if len(found) > _MOST_LINES:
        say(f"{word}: and {len(found) - _MOST_LINES:,} more, which --json shows")


def _complain_each(advised: Advised) -> None:
    for failure in dict.fromkeys(advised.failures):
        complain(printable(failure, _LONGEST))
    by_reason: dict[str, list[str]] = {}
    for volume_id, why in sorted(advised.unread.items()):
        by_reason.setdefault(_without_subject(why, volume_id), []).append(volume_id)
    for why, volume_ids in by_reason.items():
        complain(f"no advice on {_some(volume_ids)}: {printable(why, _LONGEST)}")
    for volume_id in advised.missing:
        complain(f"there is no volume {volume_id} in {advised.region}: check the id, the region, the account")


def _without_subject(why: str, volume_id: str) -> str:
    return why.replace(volume_id, "it")


def _some(volume_ids: Sequence[str]) -> str:
    more = len(volume_ids) - _MOST_LINES
    shown = ", ".join(volume_ids[:_MOST_LINES])
    return f"{shown} and {more:,} more" if more > 0 else shown
