"""Advice on a fleet as text: a table, its totals, and what they mean for burstwatch."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from shutil import get_terminal_size
from typing import Final

from burstctl.advise.collect import AdviceReport
from burstctl.advise.rightsizing import STAY, Advice, AdviceVerdict, FleetAdvice, summarise
from burstctl.advise.text import describe_prices
from burstctl.cli.styled_text import StyledText, render_styled
from burstctl.cli.text_layout import text_columns, wrap_hanging
from burstctl.render.plan_text import format_usd_difference
from burstctl.render.table import Table, truncate
from burstctl.render.volume import display_name_of
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.text import HALF_CENT_USD, format_count, format_rounded_duration, format_usd

MAX_ROWS: Final = 20
"""The most volumes of a fleet that are shown, sorted by risk, then by the dollars involved."""

_ALERTS_DIFFER_NOTE: Final = (
    "An alert may request other numbers: it sees only the last minutes, so it never proposes a gp3 slower"
    " than the gp2 at its best. These come from the days seen; `burstctl advise VOLUME` shows both."
)
_FULL_PCT: Final = 100.0
# layout: from these widths on there is a line to a volume, or a column for what it is now
_ONE_LINE_COLUMNS: Final = 120
_NOW_COLUMNS: Final = 80
_VOLUME_COLUMNS: Final = 21


@dataclass(frozen=True)
class _Fleet:
    """The reports of one Region or several, taken together."""

    reports: Sequence[AdviceReport]

    @cached_property
    def pairs(self) -> list[tuple[Advice, AdviceReport]]:
        """All advice with its report, sorted by risk and then by dollars."""
        pairs = [(advice, report) for report in self.reports for advice in report.advice]
        return sorted(pairs, key=lambda pair: pair[0].urgency)

    @cached_property
    def total(self) -> FleetAdvice:
        return summarise([advice for advice, _ in self.pairs])

    @property
    def regions(self) -> Sequence[str]:
        """The Regions with advice."""
        return list(dict.fromkeys(report.region for _, report in self.pairs))


def render_fleet(reports: Sequence[AdviceReport], *, shows_all: bool) -> str:
    """A line to a volume on a wide terminal, else two, which fit into 80 columns; the totals below."""
    fleet = _Fleet([report for report in reports if report.advice])
    listed = fleet.pairs if shows_all else fleet.pairs[:MAX_ROWS]
    width = get_terminal_size().columns if sys.stdout.isatty() else _NOW_COLUMNS
    has_regions = len(fleet.regions) > 1
    is_wide = width >= _ONE_LINE_COLUMNS
    table = _wide_table(listed, has_regions) if is_wide else _narrow_table(listed, has_regions, width)
    notes = _table_notes(fleet, listed)
    return "\n".join([render_styled(table.to_lines()), *notes])


def _format_signed_usd(usd_more: float) -> str:
    """``-1.88``, ``+64.00``, and a plain ``0.00`` for less than half a cent."""
    return "0.00" if abs(usd_more) < HALF_CENT_USD else f"{usd_more:+,.2f}"


def _wide_table(pairs: Sequence[tuple[Advice, AdviceReport]], has_regions: bool) -> Table:  # noqa: FBT001 - a layout
    titles = ["VOLUME", "NAME", "NOW", "ADVISED", "$/MONTH", "BEFORE", "DATA SEEN"]
    lines = [
        [
            *([StyledText(report.region)] if has_regions else []),
            StyledText(advice.volume.volume_id),
            StyledText(_format_name(advice)),
            StyledText(_describe_briefly(advice.inputs.current, advice.volume.size_gib)),
            StyledText(_describe_target(advice)),
            StyledText(_format_signed_usd(advice.price.difference_usd_per_month)),
            StyledText(_describe_drain(advice)),
            StyledText(_describe_history(advice)),
        ]
        for advice, report in pairs
    ]
    return Table(
        titles=[*(["REGION"] if has_regions else []), *titles],
        lines=lines,
        right_aligned=frozenset({"$/MONTH"}),
    )


def _narrow_table(pairs: Sequence[tuple[Advice, AdviceReport]], has_regions: bool, width: int) -> Table:  # noqa: FBT001
    """Two lines to a volume; a narrow terminal shows neither what it is now nor what it was."""
    has_middle = width >= _NOW_COLUMNS
    titles = ["VOLUME", *(["REGION" if has_regions else "NOW"] if has_middle else []), "ADVISED", "$/MONTH"]
    lines: list[list[StyledText]] = []
    for advice, report in pairs:
        now = (
            report.region if has_regions else _describe_briefly(advice.inputs.current, advice.volume.size_gib)
        )
        name = (
            _format_name(advice)
            if has_middle or not has_regions
            else f"{report.region} {_format_name(advice)}"
        )
        lines += [
            [
                StyledText(advice.volume.volume_id),
                *([StyledText(now)] if has_middle else []),
                StyledText(_describe_target(advice)),
                StyledText(_format_signed_usd(advice.price.difference_usd_per_month)),
            ],
            [
                StyledText(truncate(name, _VOLUME_COLUMNS)),
                *([StyledText(_describe_drain(advice))] if has_middle else []),
                StyledText(_describe_history(advice), "dim"),
                StyledText(""),
            ],
        ]
    return Table(titles=titles, lines=lines, right_aligned=frozenset({"$/MONTH"}))


def _format_name(advice: Advice) -> str:
    return display_name_of(advice.volume) or advice.volume.instance_id or ""


def _describe_briefly(configuration: Configuration, size_gib: int) -> str:
    """``gp2 100 GiB``; for the other types, the IOPS instead of the size."""
    if configuration.volume_type is VolumeType.GP2:
        return f"gp2 {size_gib:,} GiB"
    return f"{configuration.volume_type} {configuration.iops:,} IOPS"


def _describe_target(advice: Advice) -> str:
    if advice.verdict is AdviceVerdict.UNDECIDED:
        return "stay for now: little data"
    if advice.verdict is AdviceVerdict.STAY:
        return "stay"
    target = advice.target
    mib_s = "" if target.throughput_mib_s is None else f" {target.throughput_mib_s:,} MiB/s"
    return f"{target.volume_type} {target.iops:,} IOPS{mib_s}"


def _describe_drain(advice: Advice) -> str:
    """How low the balance was in the days seen."""
    usage = advice.inputs.usage
    if usage is None:
        return ""
    if usage.empty_s:
        return f"was empty {format_rounded_duration(usage.empty_s)}"
    lowest = usage.lowest_balance
    return "" if lowest is None or lowest.value >= _FULL_PCT else f"fell to {lowest.value:.1f} %"


def _describe_history(advice: Advice) -> str:
    usage = advice.inputs.usage
    days = "0" if usage is None else f"{usage.days:.1f}"
    return f"{days} d, {advice.confidence} confidence"


def _table_notes(fleet: _Fleet, listed: Sequence[tuple[Advice, AdviceReport]]) -> list[str]:
    hidden = len(fleet.pairs) - len(listed)
    notes = [f"and {hidden:,} more (--all shows them, --csv and --json have them)"] if hidden else []
    notes += ["", _describe_totals(fleet), *_describe_split(fleet.total)]
    notes += [_ALERTS_DIFFER_NOTE] if any(advice.differs_from_alert for advice, _ in listed) else []
    notes += _closing_notes(fleet)
    return [line for note in notes for line in wrap_hanging(note, text_columns())]


def _describe_totals(fleet: _Fleet) -> str:
    """How many volumes would become what, and what that costs or saves."""
    total, price = fleet.total, fleet.total.price
    counts = [
        f"{count:,} to {target_type}"
        for target_type, count in sorted(total.by_target.items())
        if target_type != STAY
    ]
    stay = total.by_target.get(STAY, 0) - total.undecided
    counts += [f"{stay:,} stay"] if stay else []
    counts += [f"{total.undecided:,} undecided"] if total.undecided else []
    place, prices = fleet.regions[0], describe_prices(fleet.reports[0])
    if len(fleet.regions) > 1:
        place, prices = format_count(len(fleet.regions), "Region"), "list prices of each Region"
    return (
        f"{format_count(total.count, 'volume')} in {place}: {', '.join(counts)};"
        f" {format_usd(price.before_usd_per_month)} -> {format_usd(price.after_usd_per_month)} a month,"
        f" {format_usd_difference(price.difference_usd_per_month)} ({prices})."
    )


def _describe_split(total: FleetAdvice) -> list[str]:
    """The total split by what is critical, and what durability would cost; nothing if nothing is critical."""
    critical_count, other_count = total.critical_count, total.count - total.critical_count
    if not critical_count:
        return []
    parts = [
        f"{count:,} {label} {format_usd_difference(price.difference_usd_per_month)}"
        for count, label, price in (
            (other_count, "not critical", total.not_critical),
            (critical_count, "critical", total.critical),
        )
        if count
    ]
    durability_note = (
        f"; io2 for the critical, for durability: {format_usd(total.usd_more_on_io2)} a month more"
    )
    return [f"Of that, {', '.join(parts)}{durability_note if total.usd_more_on_io2 else ''}."]


_OTHER_KINDS: Final = (
    "Other burst credits were not looked at: those of st1 and sc1 volumes, instances, file systems and"
    " databases. If `burstctl assess` shows none that you need to watch, you can uninstall burstwatch."
)


def _closing_notes(fleet: _Fleet) -> list[str]:
    """What a watchdog can still do after the move; states it plainly if that is nothing."""
    if not fleet.reports[0].request.is_whole_fleet:
        return []
    if not all(report.ends_the_watch for report in fleet.reports):
        return [f"Keep the watch until all have enough data: {', '.join(_describe_undecided(fleet))}."]
    target_types = sorted(target_type for target_type in fleet.total.by_target if target_type != STAY)
    if not target_types:
        return ["No gp2 volume here depends on burst credits: there is nothing to change.", _OTHER_KINDS]
    answer = (
        f"Our recommendation is {' and '.join(target_types)}, once: after that no gp2 volume here depends on"
        " burst credits. Make gp3 the default for new volumes, or new gp2 volumes bring the problem back."
    )
    return [answer, _OTHER_KINDS, "How to do it: burstctl runbook MovingToGp3"]


def _describe_undecided(fleet: _Fleet) -> list[str]:
    selections = [report.selection for report in fleet.reports]
    counts = {
        "undecided": fleet.total.undecided,
        "unread": sum(len(selection.unread) for selection in selections),
        "ignored by tag": sum(len(selection.ignored) for selection in selections),
        "calls to AWS that failed": sum(len(selection.failures) for selection in selections),
    }
    parts = [f"{count:,} {word}" for word, count in counts.items() if count]
    return parts or ["some stay on credits, because no other type fits"]
