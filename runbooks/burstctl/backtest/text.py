"""A backtest as people read it: the totals, the volumes or the story of one, and what it rests on."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from burstctl.backtest.assumptions import assumptions
from burstctl.backtest.backtest import SHORT_S, Backtest
from burstctl.backtest.scoring import Stalls, Tally, days_of
from burstctl.cli.output import complain, say
from burstctl.cli.text_layout import COLUMNS, Topic, hang, lay_out
from burstctl.history.render import Passage, lay_out_story, tell_story
from burstctl.render.plan_text import difference_words, usd
from burstctl.render.table import GAP, Cell, Table, cut
from burstctl.render.volume import describe_in_a_line, inert, name_of
from burstwatch.core.text import format_duration, format_instant, printable

MOST_ROWS: Final = 20
"""Of a fleet so many volumes are shown: those that were held back most, then those with most done to them."""

_MOST_LINES: Final = 10
_LONGEST: Final = 600
_VOLUME_COLUMNS: Final = 21
_CENT: Final = 0.005
_UNDELIVERED: Final = "delivered to nobody"
_TITLES: Final = ("VOLUME", "ALERTS", "FLIPS", "STALLED", "AVOIDED", "LEFT", "$ FLIPS")


def fleet_in_words(found: Backtest, *, everything: bool) -> str:
    """The totals, two lines or more to a volume, and what it rests on; fits 80 columns."""
    eventful = [each for each in found.tallies if not each.is_quiet]
    shown = found.tallies if everything else eventful[:MOST_ROWS]
    parts = [
        _paragraph([total_in_words(found)]),
        "\n".join(_table(found, shown)) if shown else "",
        _paragraph(_notes(found, shown, eventful)),
        _paragraph(_rests_on(found)),
    ]
    return "\n\n".join(part for part in parts if part)


def volume_in_words(found: Backtest) -> str:
    """The totals, what became of the only volume, its story line by line, and what it rests on."""
    [one] = found.tallies
    topics = [(topic, [inert(line) for line in lines]) for topic, lines in _topics(one, found) if lines]
    parts = [
        _paragraph([total_in_words(found)]),
        lay_out(describe_in_a_line(one.volume), topics),
        lay_out_story(_without_deliveries(tell_story(one.entries))),
        _paragraph(_rests_on(found)),
    ]
    return "\n\n".join(part for part in parts if part)


def _paragraph(sentences: Iterable[str]) -> str:
    return "\n".join(line for sentence in sentences for line in hang(inert(sentence), COLUMNS))


def _without_deliveries(story: Iterable[Passage]) -> list[Passage]:
    """The story without what became of its alerts: nobody was to hear of them."""
    return [
        replace(each, details=[detail for detail in each.details if not detail.startswith(_UNDELIVERED)])
        for each in story
    ]


def tell_backtest(found: Backtest) -> None:
    """Say everything a person should know that is not in the answer itself."""
    recorded = found.recorded
    if not found.tallies and not recorded.has_failed:
        say(f"there is no recorded gp2 volume to replay in {found.question.place.region}")
    _say_each("ignored by tag", recorded.ignored)
    _say_each("not replayed", (f"{i}: {why}" for i, why in recorded.unsuited.items()))
    _say_each("nothing recorded", recorded.unseen)
    for failure in dict.fromkeys(recorded.failures):
        complain(printable(failure, _LONGEST))
    _complain_of_unread(recorded.unread)
    for volume_id in recorded.missing:
        complain(
            f"there is no volume {volume_id} in {found.question.place.region}: check the id, the region,"
            " the account"
        )
    if recorded.metrics_requested:
        calls = sum(recorded.api_calls.values())
        price = f"${recorded.usd_read:.5f}"
        say(f"read {recorded.metrics_requested:,} metrics for {price}, in {calls:,} calls to AWS")


def total_in_words(found: Backtest) -> str:
    """The whole answer in a sentence."""
    total = found.totals
    alerts = _many(sum(total.alerts.values()), "alert")
    flips = f"{_many(total.flips, 'flip')} and {_many(total.returns, 'return')}"
    refused = sum(total.refused.values())
    return (
        f"Had this policy run {_span(found)} on {_many(total.volumes, 'volume')}"
        f"{_where(found)}{_mode(found)}: {alerts}, {flips}, {refused:,} refused;"
        f" {_avoided(total.stalls)}; {difference_words(total.usd_over_gp2)}{_than(total.usd_over_gp2)} gp2,"
        f" {_small_usd(total.usd_watching)} for watching."
    )


def _span(found: Backtest) -> str:
    days = days_of(found.setting)
    if found.recorded.metrics_requested:
        return f"for the last {days:g} day{'' if days == 1 else 's'}"
    start, end = format_instant(found.setting.start_s), format_instant(found.setting.end_s)
    return f"from {start} to {end}"


def _where(found: Backtest) -> str:
    return f" in {found.question.place.region}" if found.recorded.metrics_requested else ""


def _mode(found: Backtest) -> str:
    if found.question.as_tagged:
        return ", each in the mode of its tags"
    return ", all in mode auto" if found.may_act else ", which lets nothing be modified"


def _than(usd_more: float) -> str:
    return " as" if difference_words(usd_more) == "the same" else " than"


def _avoided(stalls: Stalls) -> str:
    if not stalls.seen:
        return "no stalled minute was seen"
    return f"{stalls.avoided:,} of {_many(stalls.seen, 'stalled minute')} avoided"


def _many(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def _small_usd(amount: float) -> str:
    return usd(amount) if amount >= _CENT or not amount else f"${amount:.5f}"


def _table(found: Backtest, shown: Sequence[Tally]) -> list[str]:
    """A line of numbers to a volume, and below it what they are made of."""
    table = Table(
        titles=_TITLES,
        lines=[_line(each) for each in shown],
        right_aligned=frozenset(_TITLES[1:]),
    )
    header, *lines = (GAP.join(cell.text for cell in line).rstrip() for line in table.padded())
    said = [header]
    for line, each in zip(lines, shown, strict=True):
        said += [line, *_hung(inert(_details(each, found)))]
    return said


def _hung(sentence: str) -> list[str]:
    return [f"  {line}" for line in hang(sentence, COLUMNS - 2)]


def _line(one: Tally) -> list[Cell]:
    stalls = one.stalls
    flips = f"{one.flips}/{one.returns}" if one.moves else "0"
    texts = (
        cut(one.volume.volume_id, _VOLUME_COLUMNS),
        f"{len(one.alerts):,}",
        flips,
        f"{stalls.seen:,}",
        f"{stalls.avoided:,}",
        f"{stalls.left:,}",
        f"{one.usd_over_gp2:+,.2f}" if one.flips else "",
    )
    return [Cell(text) for text in texts]


def _details(one: Tally, found: Backtest) -> str:
    name = name_of(one.volume)
    size = f"{one.volume.size_gib:,} GiB"
    parts = [
        *([", ".join(_counted(one.by_kind))] if one.by_kind else []),
        *([f"refused: {', '.join(_counted(one.refused))}"] if one.refused else []),
        *_dry_words(one),
        *_end_words(one),
        *_seen_words(one, found, only_if_short=True),
    ]
    return f"{f'{name}, ' if name else ''}{size}: {'; '.join(parts) or 'nothing to tell'}"


def _counted(counts: Mapping[str, int]) -> list[str]:
    return [f"{count:,} {name}" for name, count in counts.items()]


def _dry_words(one: Tally) -> list[str]:
    if not one.depletions:
        return []
    count, prevented = len(one.depletions), sum(each.prevented for each in one.depletions)
    times = "ran dry once" if count == 1 else f"ran dry {count:,} times"
    words = [f"{times} as recorded, {_share(prevented, count, 'prevented')}"]
    leads = [each.lead_s for each in one.depletions if each.lead_s is not None]
    if leads:
        least = "" if len(leads) == 1 else " at the least"
        words.append(f"alerted {format_duration(min(leads))} before{least}")
    if surprises := sum(each.is_surprise for each in one.depletions):
        words.append(_share(surprises, count, "without an alert before"))
    return words


def _share(some: int, count: int, word: str) -> str:
    if count == 1:
        return word if some else f"not {word}"
    if some == count:
        return f"all {word}"
    return f"{some:,} of them {word}" if some else f"none {word}"


def _end_words(one: Tally) -> list[str]:
    return [f"{one.moves[-1].target.volume_type} at the end"] if one.is_away else []


def _seen_words(one: Tally, found: Backtest, *, only_if_short: bool) -> list[str]:
    if only_if_short and one.known_s >= SHORT_S:
        return []
    whole = found.setting.end_s - found.setting.start_s
    words = f"{format_duration(one.known_s)} of {format_duration(whole)} recorded"
    if one.known_s < SHORT_S:
        words = f"only {words}, too little to rely on"
    return [words]


def _topics(one: Tally, found: Backtest) -> list[Topic]:
    stalls = one.stalls
    minutes = [
        f"{stalls.seen:,} min seen, {stalls.avoided:,} avoided on the target, {stalls.left:,} left",
    ]
    if stalls.eased:
        minutes.append(
            f"{stalls.eased:,} of those left fell while AWS was changing it, and faster by the minute"
        )
    if stalls.added:
        minutes.append(f"{stalls.added:,} of those left are new: after its return it had fewer credits")
    moves = [f"{_many(one.flips, 'flip')}, {_many(one.returns, 'return')}"]
    flipped = f"flips: {difference_words(one.usd_over_gp2)}{_than(one.usd_over_gp2)} gp2"
    cost = [flipped, f"watching: {_small_usd(one.usd_watching)}"]
    cut_because = one.cut_because
    return [
        ("Alerts", [", ".join(_counted(one.by_kind)) or "none"]),
        ("Flips", [", ".join([*moves, *_end_words(one)])]),
        ("Refused", [", ".join(_counted(one.refused))] if one.refused else []),
        ("Stalled", minutes if stalls.seen or stalls.added else ["never"]),
        ("Dry", ["; ".join(_dry_words(one))] if one.depletions else ["never"]),
        ("Cost", cost),
        ("Seen", [*_seen_words(one, found, only_if_short=False), *([cut_because] if cut_because else [])]),
    ]


def _notes(found: Backtest, shown: Sequence[Tally], eventful: Sequence[Tally]) -> list[str]:
    notes: list[str] = []
    quiet, hidden = len(found.tallies) - len(eventful), max(0, len(eventful) - len(shown))
    if hidden:
        notes.append(f"and {hidden:,} more with something to tell (--all shows them, --json has them)")
    if quiet and len(shown) <= len(eventful):
        notes.append(f"{_many(quiet, 'volume')} stayed calm: nothing would have been told or done")
    if shown:
        notes.append(
            "STALLED minutes: recorded without credits, and with no more served than the baseline. FLIPS: out"
            " and back."
        )
    return notes


def _rests_on(found: Backtest) -> list[str]:
    """What a recording cannot tell, and what is taken instead."""
    return ["It rests on this:", *(f"- {each}" for each in assumptions(found))]


def _say_each(word: str, lines: Iterable[str]) -> None:
    found = list(lines)
    for line in found[:_MOST_LINES]:
        say(f"{word}: {printable(line, _LONGEST)}")
    if len(found) > _MOST_LINES:
        say(f"{word}: and {len(found) - _MOST_LINES:,} more, which --json shows")


def _complain_of_unread(unread: Mapping[str, str]) -> None:
    by_reason: dict[str, list[str]] = {}
    for volume_id, why in sorted(unread.items()):
        by_reason.setdefault(why.replace(volume_id, "it"), []).append(volume_id)
    for why, volume_ids in by_reason.items():
        more = len(volume_ids) - _MOST_LINES
        some = ", ".join(volume_ids[:_MOST_LINES]) + (f" and {more:,} more" if more > 0 else "")
        complain(f"not replayed: {some}: {why}")
