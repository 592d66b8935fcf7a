"""What a picture says in words: which volume, how it stands, what was seen, and what happened when."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from burstctl.cli.text_layout import LONGEST_SENTENCE
from burstctl.plot.load import Plotted
from burstctl.render.table import CHANGING, cut, dry_words
from burstctl.timeline.intervals import HoldRun, Mark, StallRun, Stay
from burstctl.timeline.timeline import Absence, AbsenceReason, Chronology, Limit
from burstctl.timeline.window_intervals import Opening
from burstwatch.core.assessment.severity import Level
from burstwatch.core.durations import format_span
from burstwatch.core.ebs.pricing import Configuration
from burstwatch.core.ledger.flip_state import Flip, Phase
from burstwatch.core.text import columns, format_clock, format_roughly, format_time, printable

LONGEST_LABEL: Final = 60
_DAY_S: Final = 24 * 3600

ABSENCE_WORDS: Final = {
    AbsenceReason.NOT_CREATED: ("not created yet", "none yet"),
    AbsenceReason.FLIPPED: ("flipped: no balance", "flipped"),
    AbsenceReason.OTHER_TYPE: ("no burst credits", "none"),
    AbsenceReason.CANNOT_RUN_DRY: ("cannot run dry", "never dry"),
    AbsenceReason.DETACHED: ("detached",),
    AbsenceReason.INSTANCE_STOPPED: ("instance is stopped", "stopped"),
    AbsenceReason.GAP: ("no datapoint", "gap"),
}


def clock_words(at_s: float, this: Chronology) -> str:
    """The hour and minute, with the day where the picture has more than one of them."""
    if this.end_s - this.start_s <= _DAY_S:
        return format_clock(at_s)
    return _day_words(at_s)


def _day_words(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%m-%d %H:%M")


def state_words(plotted: Plotted) -> str:
    """How the volume stands now: level, balance, and when it is dry; or where it was moved."""
    this, decision = plotted.chronology, plotted.decision
    newest = this.balance.newest
    at_s = newest.start_s + this.period_s if newest else 0
    seen = f"{newest.value:.1f} % at {clock_words(at_s, this)}" if newest else ""
    if decision is None:
        return ", ".join(filter(None, ("ignored by tag, so nothing is decided about it", seen)))
    if decision.flip is not None:
        level = [CHANGING] if decision.is_changing else _judged(decision.level)
        return ": ".join([*level, _flip_words(decision.flip, this)])
    dry = dry_words(decision, this.now_s)
    if decision.level is Level.UNKNOWN:
        return f"unknown: {dry}" + (f"; last seen {seen}" if seen else "")
    forecast = decision.assessment.forecast
    is_to_be = forecast is not None and forecast.time_to_empty_s is not None
    zone = " UTC" if ":" in dry else ""
    return f"{decision.level}: {seen}, {'dry ' if is_to_be else ''}{dry}{zone}"


def _flip_words(flip: Flip, this: Chronology) -> str:
    """Where it is on its way to, or was moved to, since when and by whom."""
    at_s = flip.asked_at_s
    match flip.phase:
        case Phase.ASKED:
            said = f"is to become {flip.asked_for}"
        case Phase.CHANGING:
            said = f"is on its way to {flip.asked_for}"
        case Phase.ON_TARGET:
            said = f"{'stays' if flip.stays else 'is on'} {flip.target}"
            at_s = flip.reached_at_s or at_s
    return f"{said} since {format_time(at_s, this.now_s)} UTC, asked for by {flip.by}"


def _judged(level: Level) -> list[str]:
    """The level where there is one: away from burst credits none is missed."""
    return [] if level is Level.UNKNOWN else [str(level)]


def seen_words(plotted: Plotted) -> str:
    """The span in a line: the least balance, the busiest period, and what it did most."""
    this = plotted.chronology
    parts = []
    if this.balance:
        least = min(this.balance.values)
        at_s = this.balance.starts_s[this.balance.values.index(least)]
        parts.append(f"lowest {least:.1f} % at {clock_words(at_s, this)}")
    if this.served:
        most = max(this.served.values)
        at_s = this.served.starts_s[this.served.values.index(most)]
        parts.append(f"busiest {most:,.0f}/s at {clock_words(at_s, this)}" if most > 0 else "idle")
    if (total := sum(this.served.values)) > 0:
        parts.append(f"{100 * sum(this.reads.values) / total:.0f} % reads")
    return f"last {format_span(plotted.last)}: {', '.join(parts)}"


def mark_words(mark: Mark) -> str:
    """What happened, and whether people were told."""
    return printable(mark.says, LONGEST_SENTENCE) + (", told" if mark.is_told else "")


def absence_words(absence: Absence) -> tuple[str, ...]:
    """Why there is no balance; at length, and shorter where there is less room."""
    return ABSENCE_WORDS[absence.reason]


def fan_words(this: Chronology) -> list[str]:
    """The forecast, a few words to a line: when it is dry, and when at the soonest."""
    if this.fan is None or this.fan.about_s is None:
        return []
    left_s, soonest_s = this.fan.about_s - this.now_s, this.fan.soonest_s
    about = [f"dry in {format_roughly(left_s)}", f"({format_time(this.fan.about_s, this.now_s)})"]
    if soonest_s is None:
        return about
    return [*about, "not before", format_time(soonest_s, this.now_s)]


def limit_words(limit: Limit) -> dict[str, int]:
    """What a limit is called, and how many operations a second it is."""
    if limit.is_provisioned:
        return {"provisioned": limit.sustained_iops}
    burst = {"burst": limit.most_iops} if limit.most_iops > limit.sustained_iops else {}
    return {"baseline": limit.sustained_iops} | burst


def stay_words(stay: Stay) -> str:
    """Where it went: ``gp3 3,000 IOPS``, and whether to stay."""
    return f"{short_target(stay.target)}{', stays' if stay.stays else ''}"


def short_target(target: Configuration | None) -> str:
    """``gp3 3,000 IOPS``."""
    if target is None:
        return "another type"
    return f"{target.volume_type}" + ("" if target.iops is None else f" {target.iops:,} IOPS")


def window_words(opening: Opening) -> str:
    """The window's name, and whether somebody started it by hand."""
    return printable(opening.window, LONGEST_LABEL) + (" by hand" if opening.by_hand else "")


def hold_words(run: HoldRun) -> str:
    """Who holds what, and why."""
    what = "everything, " if run.of_everything else ""
    return printable(f"{what}{run.by}: {run.reason}", LONGEST_LABEL)


def stall_words(run: StallRun) -> str:
    """What the host saw."""
    span_s = run.end_s - run.start_s
    return printable(f"stalled{f' {span_s:.0f} s' if span_s else ''}: {run.cause}", LONGEST_LABEL)


def bins_words(step_s: float, period_s: int) -> str:
    """``a minute``, ``5 min``: over how long a point or a column chooses."""
    minutes = max(1, round(max(step_s, period_s) / 60))
    if minutes == 1:
        return "a minute"
    return f"{minutes} min" if minutes < 120 else f"{round(minutes / 60)} h"  # noqa: PLR2004 - two hours


def fitted(text: str, room: int) -> str:
    """The text, without its last words where it is too long; one word that is too long itself is cut."""
    words = text.split(" ")
    while len(words) > 1 and columns(" ".join(words)) > room:
        words.pop()
    said = " ".join(words)
    return cut(said if len(words) == len(text.split(" ")) else said.rstrip(":,"), room)


def some_marks(marks: Sequence[Mark], room: int) -> tuple[Sequence[Mark], int]:
    """The newest marks that fit on so many lines, and how many earlier ones do not."""
    if len(marks) <= room:
        return marks, 0
    shown = marks[len(marks) - max(0, room - 1) :]
    return shown, len(marks) - len(shown)
