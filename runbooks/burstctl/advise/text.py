"""Advice on one volume as text, and notes about what was read."""

import shlex
import sys
from collections.abc import Sequence
from typing import Final

from burstctl.advise.collect import AdviceReport
from burstctl.advise.rightsizing import Advice, AdviceVerdict, Confidence, describe_period
from burstctl.cli.output import print_info, print_warning
from burstctl.cli.text_layout import Topic, lay_out, lay_out_topics, text_columns, wrap_command
from burstctl.render.plan_text import format_usd_difference
from burstctl.render.planned_flip import flip_options
from burstctl.render.volume import describe_volume
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.text import format_count, format_duration, format_instant, format_usd

_CONFIDENCE: Final = {
    Confidence.GOOD: "confidence: good, because two weeks or more were seen",
    Confidence.FAIR: "confidence: fair, because less than two weeks were seen",
    Confidence.LOW: "confidence: low, because less than a week was seen",
}


def render_advice(advice: Advice, report: AdviceReport) -> str:
    """All there is to say about one volume."""
    topics: list[Topic] = [
        ("Advice", [_describe_verdict(advice), *_describe_durability(advice)]),
        ("Why", advice.reasons),
        ("Seen", _describe_usage(advice)),
        ("Cost", [_describe_cost(advice), describe_prices(report)]),
        ("Options", [line for name in advice.options for line in _option_lines(name, advice)]),
        ("Risk", advice.risks),
    ]
    body = lay_out_topics(describe_volume(advice.volume), topics)
    return "\n".join([body, *_suggested_commands(advice, report)])


def print_notes(*reports: AdviceReport) -> None:
    """Print the notes that a person should read in addition to the advice; of each Region a report."""
    selections = [report.selection for report in reports]
    if any(report.advice for report in reports) and sys.stdout.isatty() and sys.stderr.isatty():
        print_info("")
    for fault in dict.fromkeys(fault for report in reports for fault in report.prices.faults):
        print_warning(fault, subject="prices")
    for selection in selections:
        selection.print_unused("no advice")
    if not any(report.advice or report.selection.has_failed for report in reports):
        return
    calls = format_count(sum(sum(selection.api_calls.values()) for selection in selections), "call")
    usd = sum(selection.read_cost_usd for selection in selections)
    metrics = sum(selection.metrics_requested for selection in selections)
    print_info(f"read {metrics:,} metrics for {format_usd(usd, decimals=5)}, in {calls} to AWS", style="dim")


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
    return flip_options(advice.target) if advice.verdict is AdviceVerdict.MOVE else []


def _describe_verdict(advice: Advice) -> str:
    match advice.verdict:
        case AdviceVerdict.UNDECIDED:
            return f"Leave it {advice.target} for now: it has too little data."
        case AdviceVerdict.STAY if advice.inputs.flipped_from is not None:
            return f"Keep it {advice.target} permanently."
        case AdviceVerdict.STAY:
            return f"Leave it {advice.target}."
        case AdviceVerdict.MOVE:
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
    period = f"{usage.days:.1f} days by the {unit}, from {format_instant(usage.start_at_s)}"
    lines = [period, *([_CONFIDENCE[advice.confidence]] if advice.confidence in _CONFIDENCE else [])]
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
            f"bucket empty for {format_duration(usage.empty_s)}, throttled to its baseline for"
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
        return [lay_out(f"Change its definition in {advice.volume.managed_by}.")]
    if advice.verdict is not AdviceVerdict.MOVE and advice.inputs.flipped_from is None:
        return []
    volume_id = advice.volume.volume_id
    flip = ["burstctl", "flip", volume_id, *_flip_options(advice)]
    introduction = "To do it, and to change its definition (or cloudformation, or cdk):"
    if advice.verdict is not AdviceVerdict.MOVE:
        introduction = "To keep it (without a request to AWS), and to change its definition:"
    return [
        "",
        lay_out(introduction),
        *_paste(flip, report.context_options),
        *_paste(["burstctl", "advise", volume_id, "--iac", "terraform"], report.context_options),
    ]


def _paste(arguments: Sequence[str], context_options: Sequence[str]) -> list[str]:
    """A command that can be pasted, indented."""
    command = shlex.join([*arguments, *context_options])
    return [f"  {line}" for line in wrap_command(command, text_columns() - 2)]
