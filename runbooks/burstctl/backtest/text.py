"""A backtest as text: the totals, the volumes or the history of one, and the assumptions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from burstctl.backtest.assumptions import list_assumptions
from burstctl.backtest.backtest import MIN_RECORDED_S, Backtest
from burstctl.backtest.bucket_replay import BucketTally
from burstctl.backtest.scoring import Stalls, Tally, replayed_days
from burstctl.cli.output import print_first_lines, print_info
from burstctl.cli.styled_text import StyledText
from burstctl.cli.text_layout import (
    Topic,
    lay_out,
    lay_out_topics,
    sanitise_aligned,
    text_columns,
    wrap_hanging,
)
from burstctl.history.render import HistoryEntry, layout_history, render_entries
from burstctl.render.plan_text import format_usd_difference
from burstctl.render.table import Table, render_plain, truncate
from burstctl.render.volume import describe_volume, display_name_of, format_id_and_name
from burstwatch.core.text import HALF_CENT_USD, format_count, format_duration, format_instant, format_usd

MAX_ROWS: Final = 20
"""The most volumes of a fleet that are shown, those with most stalled minutes first, then most actions."""

_VOLUME_COLUMNS: Final = 21
_UNDELIVERED_PREFIX: Final = "not delivered"
_TITLES: Final = ("VOLUME", "ALERTS", "FLIPS", "STALLED", "AVOIDED", "LEFT", "$ FLIPS")
_NARROW_TITLES: Final = _TITLES[:5]
"""Of a terminal that is too narrow for all: what the other columns have is below each line."""


def render_fleet(backtest: Backtest, *, shows_all: bool) -> str:
    """The totals, two lines or more to a volume, and what it rests on; fits 60 columns."""
    eventful = [tally for tally in backtest.tallies if not tally.is_quiet]
    listed = backtest.tallies if shows_all else eventful[:MAX_ROWS]
    parts = [
        lay_out(describe_totals(backtest)),
        "\n".join(_table_lines(backtest, listed)) if listed else "",
        lay_out(*_table_notes(backtest, listed, eventful)),
        render_buckets(backtest),
        lay_out(*_assumption_lines(backtest)),
    ]
    return "\n\n".join(part for part in parts if part)


def render_volume(backtest: Backtest) -> str:
    """The totals, the result and the history of the only volume, and the assumptions."""
    [tally] = backtest.tallies
    parts = [
        lay_out(describe_totals(backtest)),
        lay_out_topics(describe_volume(tally.volume), _topics(tally, backtest)),
        layout_history(_without_deliveries(render_entries(tally.entries))),
        render_buckets(backtest),
        lay_out(*_assumption_lines(backtest)),
    ]
    return "\n\n".join(part for part in parts if part)


def render_buckets(backtest: Backtest) -> str:
    """What would have been alerted about instances, file systems and databases; empty without any."""
    tallies = backtest.bucket_tallies
    if not tallies:
        return ""
    eventful = sorted(
        (tally for tally in tallies if tally.alerts or tally.depletions),
        key=lambda tally: (-len(tally.depletions), -len(tally.alerts), tally.due.subject),
    )
    calm = len(tallies) - len(eventful)
    lines = [
        "Alerts about instances, file systems and databases, which are never changed:",
        *(f"- {_describe_bucket(tally)}" for tally in eventful[:MAX_ROWS]),
        *([f"- and {len(eventful) - MAX_ROWS:,} more (--json has them)"] if len(eventful) > MAX_ROWS else []),
        *([f"- {format_count(calm, 'bucket')} stayed calm"] if calm else []),
        "Each is replayed as it is today: type, volumes, size and class.",
    ]
    return lay_out(*lines)


def _describe_bucket(tally: BucketTally) -> str:
    resource = tally.due.resource
    parts = [", ".join(_describe_counts(tally.by_kind)) or "no alert"]
    if tally.depletions:
        count = len(tally.depletions)
        parts.append("empty once" if count == 1 else f"empty {count:,} times")
        leads = [depletion.lead_s for depletion in tally.depletions if depletion.lead_s is not None]
        parts += [f"alerted {format_duration(min(leads))} before at the least"] if leads else []
        if surprises := sum(depletion.is_surprise for depletion in tally.depletions):
            parts.append(_describe_share(surprises, count, "without an alert before"))
    return f"{format_id_and_name(resource)}, {tally.due.kind.credits}: {'; '.join(parts)}"


def _without_deliveries(entries: Iterable[HistoryEntry]) -> list[HistoryEntry]:
    """The history without the deliveries of alerts: a backtest sends no notifications."""
    return [
        replace(
            entry, details=[detail for detail in entry.details if not detail.startswith(_UNDELIVERED_PREFIX)]
        )
        for entry in entries
    ]


def print_notes(backtest: Backtest) -> None:
    """Print the notes that a person should read in addition to the result."""
    source, selection = backtest.source, backtest.source.selection
    if not backtest.tallies and not backtest.bucket_tallies and not selection.has_failed:
        region = backtest.request.location.region
        print_info(f"no volume with burst credits was recorded in {region}")
    selection.print_unused("not replayed")
    print_first_lines("nothing recorded", source.unseen)
    selection.print_failures(backtest.request.location.region)
    if selection.metrics_requested:
        calls = sum(selection.api_calls.values())
        price = format_usd(selection.read_cost_usd, decimals=5)
        print_info(f"read {selection.metrics_requested:,} metrics for {price}, in {calls:,} calls to AWS")


def describe_totals(backtest: Backtest) -> str:
    """The whole answer in a sentence."""
    totals = backtest.totals
    alerts = format_count(sum(totals.alerts.values()), "alert")
    flips = f"{format_count(totals.flips, 'flip')} and {format_count(totals.returns, 'return')}"
    refused = sum(totals.refused.values())
    return (
        f"With this policy, {_describe_period(backtest)} of"
        f" {format_count(totals.volumes, 'volume')}{_describe_region(backtest)}{_describe_mode(backtest)}"
        f" would have had:"
        f" {alerts}, {flips}, {refused:,} refused; {_describe_avoided(totals.stalls)};"
        f" {format_usd_difference(totals.usd_over_gp2)}{_comparison_word(totals.usd_over_gp2)} gp2,"
        f" {_format_small_usd(totals.usd_watching)} for watching."
    )


def _describe_period(backtest: Backtest) -> str:
    days = replayed_days(backtest.config)
    if backtest.source.selection.metrics_requested:
        return "the last day" if days == 1 else f"the last {days:g} days"
    start, end = format_instant(backtest.config.start_s), format_instant(backtest.config.end_s)
    return f"the time from {start} to {end}"


def _describe_region(backtest: Backtest) -> str:
    return f" in {backtest.request.location.region}" if backtest.source.selection.metrics_requested else ""


def _describe_mode(backtest: Backtest) -> str:
    if backtest.request.as_tagged:
        return ", each in the mode of its tags,"
    return ", all in mode auto," if backtest.may_act else ", which allows no modification,"


def _comparison_word(usd_more: float) -> str:
    return " as" if format_usd_difference(usd_more) == "the same" else " than"


def _describe_avoided(stalls: Stalls) -> str:
    if not stalls.recorded:
        return "no stalled minute was seen"
    return f"{stalls.avoided:,} of {format_count(stalls.recorded, 'stalled minute')} avoided"


def _format_small_usd(amount: float) -> str:
    """Dollars; less than half a cent to the price of a single metric."""
    return format_usd(amount, decimals=5 if 0 < amount < HALF_CENT_USD else 2)


def _table_lines(backtest: Backtest, listed: Sequence[Tally]) -> list[str]:
    """A line of numbers for each volume, and below it what they consist of."""
    table = Table(
        titles=_TITLES,
        lines=[_table_line(tally) for tally in listed],
        right_aligned=frozenset(_TITLES[1:]),
    ).fit_columns([_TITLES, _NARROW_TITLES], text_columns())
    is_narrow = table.titles == _NARROW_TITLES
    header, *lines = render_plain(table).splitlines()
    output = [header]
    for line, tally in zip(lines, listed, strict=True):
        details = _describe_details(tally, backtest, is_narrow=is_narrow)
        output += [line, *_wrap_indented(sanitise_aligned(details))]
    return output


def _wrap_indented(sentence: str) -> list[str]:
    return [f"  {line}" for line in wrap_hanging(sentence, text_columns() - 2)]


def _table_line(tally: Tally) -> list[StyledText]:
    stalls = tally.stalls
    flips = f"{tally.flips}/{tally.returns}" if tally.modifications else "0"
    texts = (
        truncate(tally.volume.volume_id, _VOLUME_COLUMNS),
        f"{len(tally.alerts):,}",
        flips,
        f"{stalls.recorded:,}",
        f"{stalls.avoided:,}",
        f"{stalls.remaining:,}",
        f"{tally.usd_over_gp2:+,.2f}" if tally.flips else "",
    )
    return [StyledText(text) for text in texts]


def _describe_details(tally: Tally, backtest: Backtest, *, is_narrow: bool) -> str:
    name = display_name_of(tally.volume)
    size = f"{tally.volume.size_gib:,} GiB"
    parts = [
        *([", ".join(_describe_counts(tally.by_kind))] if tally.by_kind else []),
        *([f"refused: {', '.join(_describe_counts(tally.refused))}"] if tally.refused else []),
        *_describe_depletions(tally),
        *_describe_end(tally),
        *([f"{tally.stalls.remaining:,} min left"] if is_narrow and tally.stalls.remaining else []),
        *([_describe_cost_of_flips(tally)] if is_narrow and tally.flips else []),
        *_describe_coverage(tally, backtest, only_if_short=True),
    ]
    return f"{f'{name}, ' if name else ''}{size}: {'; '.join(parts) or 'no events'}"


def _describe_counts(counts: Mapping[str, int]) -> list[str]:
    return [f"{count:,} {name}" for name, count in counts.items()]


def _describe_depletions(tally: Tally) -> list[str]:
    if not tally.depletions:
        return []
    count, prevented = len(tally.depletions), sum(depletion.is_prevented for depletion in tally.depletions)
    times = "empty once" if count == 1 else f"empty {count:,} times"
    parts = [f"{times} as recorded, {_describe_share(prevented, count, 'prevented')}"]
    leads = [depletion.lead_s for depletion in tally.depletions if depletion.lead_s is not None]
    if leads:
        qualifier = "" if len(leads) == 1 else " at the least"
        parts.append(f"alerted {format_duration(min(leads))} before{qualifier}")
    if surprises := sum(depletion.is_surprise for depletion in tally.depletions):
        parts.append(_describe_share(surprises, count, "without an alert before"))
    return parts


def _describe_share(matching: int, count: int, word: str) -> str:
    if count == 1:
        return word if matching else f"not {word}"
    if matching == count:
        return f"all {word}"
    return f"{matching:,} of them {word}" if matching else f"none {word}"


def _describe_end(tally: Tally) -> list[str]:
    return [f"{tally.modifications[-1].target.volume_type} at the end"] if tally.ends_on_target else []


def _describe_coverage(tally: Tally, backtest: Backtest, *, only_if_short: bool) -> list[str]:
    if only_if_short and tally.known_s >= MIN_RECORDED_S:
        return []
    replayed_s = backtest.config.end_s - backtest.config.start_s
    parts = f"{format_duration(tally.known_s)} of {format_duration(replayed_s)} recorded"
    if tally.known_s < MIN_RECORDED_S:
        parts = f"only {parts}, too little to rely on"
    return [parts]


def _topics(tally: Tally, backtest: Backtest) -> list[Topic]:
    stalls = tally.stalls
    minutes = [
        (
            f"{stalls.recorded:,} min recorded, {stalls.avoided:,} avoided on the target,"
            f" {stalls.remaining:,} remaining"
        ),
    ]
    if stalls.eased:
        minutes.append(
            f"{stalls.eased:,} of the remaining minutes were during the modification, with rising IOPS"
        )
    if stalls.added:
        minutes.append(
            f"{stalls.added:,} of the remaining minutes are new: it had fewer credits after its return"
        )
    counts = [f"{format_count(tally.flips, 'flip')}, {format_count(tally.returns, 'return')}"]
    cost = [_describe_cost_of_flips(tally), f"watching: {_format_small_usd(tally.usd_watching)}"]
    cut_because = tally.cut_because
    return [
        ("Alerts", [", ".join(_describe_counts(tally.by_kind)) or "none"]),
        ("Flips", [", ".join([*counts, *_describe_end(tally)])]),
        ("Refused", [", ".join(_describe_counts(tally.refused))] if tally.refused else []),
        ("Stalled", minutes if stalls.recorded or stalls.added else ["never"]),
        ("Empty", ["; ".join(_describe_depletions(tally))] if tally.depletions else ["never"]),
        ("Cost", cost),
        (
            "Recorded",
            [
                *_describe_coverage(tally, backtest, only_if_short=False),
                *([cut_because] if cut_because else []),
            ],
        ),
    ]


def _describe_cost_of_flips(tally: Tally) -> str:
    return f"flips: {format_usd_difference(tally.usd_over_gp2)}{_comparison_word(tally.usd_over_gp2)} gp2"


def _table_notes(backtest: Backtest, listed: Sequence[Tally], eventful: Sequence[Tally]) -> list[str]:
    notes: list[str] = []
    quiet, hidden = len(backtest.tallies) - len(eventful), max(0, len(eventful) - len(listed))
    if hidden:
        notes.append(f"and {hidden:,} more with events (--all shows them, --json has them)")
    if quiet and len(listed) <= len(eventful):
        notes.append(f"{format_count(quiet, 'volume')} stayed calm: no alert and no flip")
    if listed:
        has_hdd = any(not tally.volume.is_gp2 for tally in listed)
        notes.append(
            "STALLED minutes: recorded without credits, and with no more served than the baseline"
            f"{' (of st1 and sc1: without credits)' if has_hdd else ''}. FLIPS: out and back."
        )
    return notes


def _assumption_lines(backtest: Backtest) -> list[str]:
    """What a recording does not contain, and what is assumed instead."""
    return ["Assumptions:", *(f"- {assumption}" for assumption in list_assumptions(backtest))]
