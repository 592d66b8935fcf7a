"""Advice as text: a table of the fleet, paragraphs about a volume, and notes."""

import shlex
import sys
from collections.abc import Sequence
from typing import Final

from burstctl.advise.collect import AdviceReport
from burstctl.advise.rightsizing import STAY, Advice, Verdict, describe_period
from burstctl.cli.output import print_first_lines, print_info
from burstctl.cli.styled_text import StyledText
from burstctl.cli.text_layout import COLUMNS, Topic, lay_out_topics, wrap_hanging
from burstctl.render.plan_text import format_usd_difference
from burstctl.render.planned_flip import flip_options
from burstctl.render.table import Table, render_plain, truncate
from burstctl.render.volume import describe_volume, display_name_of
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.text import HALF_CENT_USD, format_count, format_duration, format_instant, format_usd

MAX_ROWS: Final = 20
"""The most volumes of a fleet that are shown, sorted by risk, then by the dollars involved."""

_ALERTS_DIFFER_NOTE: Final = (
    "An alert may request other numbers: it sees only the last minutes, so it never proposes a gp3 slower"
    " than the gp2 at its best. These come from the days seen; `burstctl advise VOLUME` shows both."
)
_VOLUME_COLUMNS: Final = 21
_FULL_PCT: Final = 100.0


def render_fleet(report: AdviceReport, *, shows_all: bool) -> str:
    """Two lines to a volume, the totals below; fits 80 columns."""
    listed = report.advice if shows_all else report.advice[:MAX_ROWS]
    table = Table(
        titles=("VOLUME", "NOW", "ADVISED", "$/MONTH"),
        lines=[line for advice in listed for line in _table_lines(advice)],
        right_aligned=frozenset({"$/MONTH"}),
        notes=_table_notes(report, len(listed)),
    )
    return render_plain(table)


def render_advice(advice: Advice, report: AdviceReport) -> str:
    """All there is to say about one volume."""
    topics: list[Topic] = [
        ("Advice", [_describe_verdict(advice), *_describe_durability(advice)]),
        ("Why", advice.reasons),
        ("Seen", _describe_usage(advice)),
        ("Cost", [_describe_cost(advice), describe_prices(report)]),
        ("Beside", [line for name in advice.options for line in _option_lines(name, advice)]),
        ("Risk", advice.risks),
    ]
    body = lay_out_topics(describe_volume(advice.volume), topics)
    return "\n".join([body, *_suggested_commands(advice, report)])


def print_notes(report: AdviceReport) -> None:
    """Print the notes that a person should read in addition to the advice."""
    if report.advice and sys.stdout.isatty() and sys.stderr.isatty():
        print_info("")
    if not (report.advice or report.selection.has_failed):
        print_info(f"there is no volume to advise on in {report.region}")
    print_first_lines("prices", report.prices.faults)
    report.selection.print_unused("no advice")
    calls = format_count(sum(report.selection.api_calls.values()), "call")
    print_info(
        f"read {report.selection.metrics_requested:,} metrics for"
        f" {format_usd(report.selection.read_cost_usd, decimals=5)}, in {calls} to AWS"
    )
    report.selection.print_failures("no advice on", report.region)


def describe_prices(report: AdviceReport) -> str:
    """Whose prices these are, and of when."""
    table = report.prices.table
    source = "built in" if report.prices.is_built_in else "AWS's price list"
    return f"list prices of {table.region} of {table.as_of:%Y-%m-%d}, {source}"


def flip_command(advice: Advice, report: AdviceReport) -> str:
    """The command that makes the volume what is advised."""
    return shlex.join(
        ["burstctl", "flip", advice.volume.volume_id, *_flip_options(advice), *report.context_options]
    )


def _flip_options(advice: Advice) -> list[str]:
    return flip_options(advice.target) if advice.verdict is Verdict.MOVE else []


def _table_lines(advice: Advice) -> list[list[StyledText]]:
    first = [
        StyledText(advice.volume.volume_id),
        StyledText(_describe_briefly(advice.inputs.current, advice.volume.size_gib)),
        StyledText(_describe_target(advice)),
        StyledText(format_signed_usd(advice.price.difference_usd_per_month)),
    ]
    name = display_name_of(advice.volume) or advice.volume.instance_id or ""
    second = [
        StyledText(truncate(name, _VOLUME_COLUMNS)),
        StyledText(_describe_drain(advice)),
        StyledText(_describe_history(advice)),
    ]
    return [first, [*second, StyledText("")]]


def _describe_briefly(configuration: Configuration, size_gib: int) -> str:
    """``gp2 100 GiB``; for the other types, the IOPS instead of the size."""
    if configuration.volume_type is VolumeType.GP2:
        return f"gp2 {size_gib:,} GiB"
    return f"{configuration.volume_type} {configuration.iops:,} IOPS"


def _describe_target(advice: Advice) -> str:
    if advice.verdict is Verdict.UNDECIDED:
        return "stay for now: little data"
    if advice.verdict is Verdict.STAY:
        return "stay"
    target = advice.target
    mib_s = "" if target.throughput_mib_s is None else f" {target.throughput_mib_s:,} MiB/s"
    return f"{target.volume_type} {target.iops:,} IOPS{mib_s}"


def format_signed_usd(usd_more: float) -> str:
    """``-1.88``, ``+64.00``, and a plain ``0.00`` for less than half a cent."""
    return "0.00" if abs(usd_more) < HALF_CENT_USD else f"{usd_more:+,.2f}"


def _describe_drain(advice: Advice) -> str:
    usage = advice.inputs.usage
    if usage is None:
        return ""
    if usage.empty_s:
        return f"empty {format_duration(usage.empty_s)}"
    min_balance = usage.lowest_balance
    return "" if min_balance is None or min_balance.value >= _FULL_PCT else f"least {min_balance.value:.1f} %"


def _describe_history(advice: Advice) -> str:
    usage = advice.inputs.usage
    days = "0" if usage is None else f"{usage.days:.1f}"
    return f"{days} days seen: {advice.confidence}"


def _table_notes(report: AdviceReport, listed_count: int) -> list[str]:
    hidden = len(report.advice) - listed_count
    notes = [f"and {hidden:,} more (--all shows them, --csv and --json have them)"] if hidden else []
    notes += ["", describe_totals(report), *_describe_split(report)]
    notes += (
        [_ALERTS_DIFFER_NOTE]
        if any(advice.differs_from_alert for advice in report.advice[:listed_count])
        else []
    )
    notes += _closing_notes(report)
    return [line for note in notes for line in wrap_hanging(note, COLUMNS)]


def describe_totals(report: AdviceReport) -> str:
    """How many volumes would become what, and what that costs or saves."""
    fleet = report.fleet
    counts = [
        f"{count:,} to {target_type}"
        for target_type, count in sorted(fleet.by_target.items())
        if target_type != STAY
    ]
    stay = fleet.by_target.get(STAY, 0) - fleet.undecided
    counts += [f"{stay:,} stay"] if stay else []
    counts += [f"{fleet.undecided:,} undecided"] if fleet.undecided else []
    price = fleet.price
    return (
        f"{format_count(fleet.count, 'volume')} in {report.region}: {', '.join(counts)};"
        f" {format_usd(price.before_usd_per_month)} -> {format_usd(price.after_usd_per_month)} a month,"
        f" {format_usd_difference(price.difference_usd_per_month)} ({describe_prices(report)})."
    )


def _describe_split(report: AdviceReport) -> list[str]:
    """The total split by what is critical, and what durability would cost; nothing if nothing is critical."""
    fleet = report.fleet
    critical_count, other_count = fleet.critical_count, fleet.count - fleet.critical_count
    if not critical_count:
        return []
    parts = [
        f"{count:,} {label} {format_usd_difference(price.difference_usd_per_month)}"
        for count, label, price in (
            (other_count, "not critical", fleet.not_critical),
            (critical_count, "critical", fleet.critical),
        )
        if count
    ]
    durability_note = (
        f"; io2 for the critical, for durability: {format_usd(fleet.usd_more_on_io2)} a month more"
    )
    return [f"Of that, {', '.join(parts)}{durability_note if fleet.usd_more_on_io2 else ''}."]


def _closing_notes(report: AdviceReport) -> list[str]:
    """What a watchdog can still do after the move; states it plainly if that is nothing."""
    if not report.request.is_whole_fleet:
        return []
    if not report.ends_the_watch:
        return [f"Keep the watch until all have enough data: {', '.join(_describe_unjudged(report))}."]
    target_types = sorted(target_type for target_type in report.fleet.by_target if target_type != STAY)
    if not target_types:
        return ["Nothing here depends on burst credits: there is nothing to watch; uninstall burstwatch."]
    answer = (
        f"Our recommendation is {' and '.join(target_types)}, once, and you can uninstall burstwatch:"
        " after that nothing here depends on burst credits. Make gp3 the default for new volumes, or new gp2"
        " volumes bring the problem back."
    )
    return [answer, "How to do it: burstctl runbook MovingToGp3"]


def _describe_unjudged(report: AdviceReport) -> list[str]:
    counts = {
        "undecided": report.fleet.undecided,
        "unread": len(report.selection.unread),
        "ignored by tag": len(report.selection.ignored),
        "calls to AWS that failed": len(report.selection.failures),
    }
    parts = [f"{count:,} {word}" for word, count in counts.items() if count]
    return parts or ["some stay on credits, because no other type fits"]


def _describe_verdict(advice: Advice) -> str:
    match advice.verdict:
        case Verdict.UNDECIDED:
            return f"Leave it {advice.target} for now: it has too little data."
        case Verdict.STAY if advice.inputs.flipped_from is not None:
            return f"Keep it {advice.target} permanently."
        case Verdict.STAY:
            return f"Leave it {advice.target}."
        case Verdict.MOVE:
            return f"Make it {advice.target} permanently."


def _describe_durability(advice: Advice) -> list[str]:
    """The more durable type as an option for a critical volume."""
    usd_more = advice.usd_more_on_io2
    if usd_more is None:
        return []
    io2 = advice.options[VolumeType.IO2].configuration
    return [f"For durability, {io2} is an option: {format_usd_difference(usd_more)} a month than that."]


def _describe_cost(advice: Advice) -> str:
    price = advice.price
    return (
        f"{format_usd(price.before_usd_per_month)} -> {format_usd(price.after_usd_per_month)} a month:"
        f" {format_usd_difference(price.difference_usd_per_month)}"
    )


def _describe_usage(advice: Advice) -> list[str]:
    usage = advice.inputs.usage
    if usage is None:
        return ["nothing"]
    unit = describe_period(usage.period_s)
    lines = [
        f"{usage.days:.1f} days by the {unit}, {format_instant(usage.start_at_s)} on: {advice.confidence}"
    ]
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
    if (min_balance := usage.lowest_balance) is not None:
        lines.append(
            f"burst balance at least {min_balance.value:.1f} %, at {format_instant(min_balance.at_s)}"
        )
    if usage.empty_s:
        lines.append(
            f"bucket empty for {format_duration(usage.empty_s)}, held to its baseline for"
            f" {format_duration(usage.throttled_s)} of it"
        )
    return lines


def _option_lines(name: str, advice: Advice) -> list[str]:
    option, gp3 = advice.options[name], advice.options.get(VolumeType.GP3)
    if name == "flip" and gp3 is not None and gp3.configuration == option.configuration:
        return []
    marker = "  <-" if option.configuration == advice.target else ""
    monthly_price = f"{format_usd(option.usd_per_month)} a month"
    line = f"{name:<4}  {option.configuration!s:<39}{monthly_price:>19}{marker}"
    return [line, f"      {option.shortfall}"] if option.shortfall else [line]


def _suggested_commands(advice: Advice, report: AdviceReport) -> list[str]:
    """What to do, to paste; a volume that its flip made what it should be is kept so by a flip by hand."""
    if advice.volume.managed_by:
        return [f"Change its definition in {advice.volume.managed_by}."]
    if advice.verdict is not Verdict.MOVE and advice.inputs.flipped_from is None:
        return []
    volume_id = advice.volume.volume_id
    flip = ["burstctl", "flip", volume_id, *_flip_options(advice)]
    lines = ["", "To do it, and to change its definition (or cloudformation, or cdk):"]
    if advice.verdict is not Verdict.MOVE:
        lines[1] = "To keep it (without a request to AWS), and to change its definition:"
    return [
        *lines,
        *_wrap_command(flip, report.context_options),
        *_wrap_command(["burstctl", "advise", volume_id, "--iac", "terraform"], report.context_options),
    ]


def _wrap_command(arguments: Sequence[str], context_options: Sequence[str]) -> list[str]:
    """A command that can be pasted, on two lines if one is too long."""
    first, rest = f"  {shlex.join(arguments)}", shlex.join(context_options)
    full_line = f"{first} {rest}"
    return [full_line] if len(full_line) <= COLUMNS else [f"{first} \\", f"      {rest}"]
