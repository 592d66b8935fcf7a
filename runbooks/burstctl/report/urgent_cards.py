"""The urgent volumes: the sentence over everything, and a card for each."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from burstctl.cli.text_layout import LONGEST_SENTENCE
from burstctl.render.table import CHANGING, dry_words
from burstctl.render.volume import name_of
from burstctl.report.collect import Reported
from burstctl.report.format import moment_words, volumes_words
from burstctl.report.page_data import FAULT, action_of, facts_of, level_of
from burstwatch.core.alerts.alert import AlertKind, is_command, runbook_link
from burstwatch.core.text import printable
from burstwatch.core.watch.decide import Decision

MOST_CARDS: Final = 12
"""So many urgent volumes stand at the top; some more are a click away, and all are in the table."""

MOST_MORE_CARDS: Final = 48

RUNBOOKS: Final = {
    "exhausted": AlertKind.EXHAUSTED,
    "critical": AlertKind.DRAINING,
    "warning": AlertKind.DRAINING,
    FAULT: AlertKind.TELEMETRY_GAP,
}
"""What is urgent, and the page for it."""

_MOST_PRINTED: Final = 8


def urgent_context(reported: Reported, counts: Mapping[str, int], runbooks_url: str) -> dict[str, Any]:
    """What the template says of them."""
    urgent = [decision for decision in reported.decisions if level_of(decision) in RUNBOOKS]
    cards = [_card(decision, reported, runbooks_url) for decision in urgent[: MOST_CARDS + MOST_MORE_CARDS]]
    return {
        "verdict": _verdict(counts, is_partial=reported.has_failed),
        "next": _next(urgent, reported.report.now_s),
        "cards": cards[:MOST_CARDS],
        "more_cards": cards[MOST_CARDS:],
        "beyond_cards": f"{len(urgent) - len(cards):,}" if len(urgent) > len(cards) else "",
        "urgent_said": f"{volumes_words(len(urgent))}, most urgent first",
    }


def _verdict(counts: Mapping[str, int], *, is_partial: bool) -> str:
    """The one sentence that stands over everything; of what could not be read it claims nothing."""
    nothing = "Nothing that could be read" if is_partial else "Nothing"
    dry, soon = counts["exhausted"], counts["critical"] + counts["warning"]
    said = []
    if dry:
        said.append(f"{volumes_words(dry)} {'is' if dry == 1 else 'are'} dry")
    if soon:
        said.append(f"{soon:,}{' more' if dry else ''} {'runs' if soon == 1 else 'run'} dry soon")
    if counts[FAULT]:
        tells = "tells" if counts[FAULT] == 1 else "tell"
        said.append(f"{counts[FAULT]:,} {tells} nothing")
    if changing := counts[CHANGING]:
        said.append(f"{changing:,} {'is' if changing == 1 else 'are'} being changed")
    if not said:
        return f"{nothing} runs dry"
    if not dry and not soon:
        else_ = " else" if changing else ""  # what is being changed may be dry until AWS is done
        return f"{nothing}{else_} is seen to run dry, but {', '.join(said)}"
    return ", ".join(said)


def _next(urgent: Iterable[Decision], now_s: float) -> str:
    """Which volume runs dry next, of those that are not dry yet."""
    coming = [
        (forecast.time_to_empty_s, decision)
        for decision in urgent
        if level_of(decision) != "exhausted"
        and (forecast := decision.assessment.forecast) is not None
        and forecast.time_to_empty_s
    ]
    if not coming:
        return ""
    _, decision = min(coming, key=lambda each: (each[0], each[1].volume_id))
    volume = decision.assessment.volume
    return f"Next: {name_of(volume) or volume.volume_id}, dry {dry_words(decision, now_s)} UTC"


def _card(decision: Decision, reported: Reported, runbooks_url: str) -> dict[str, Any]:
    volume, level = decision.assessment.volume, level_of(decision)
    action = action_of(decision, reported.report.region)
    runbook = runbook_link(RUNBOOKS[level], runbooks_url)
    facts = facts_of(decision, reported)
    return {
        "id": volume.volume_id,
        "name": name_of(volume),
        "level": level,
        "dry": _headline(decision, reported.report.now_s),
        "place": _place(decision),
        "why": next((text for name, text in facts if name == "Why"), ""),
        "action": action,
        "is_command": is_command(action),
        "runbook": runbook,
        "page": str(RUNBOOKS[level]),
        "runbook_is_link": runbook.startswith(("https://", "http://")),
        "facts": [fact for fact in facts if fact[0] != "Why"],
        "story": _printed_story(decision, reported),
    }


def _printed_story(decision: Decision, reported: Reported) -> list[tuple[str, str]]:
    """The newest of what happened to it; on the screen all of it is a click away."""
    told = reported.told.get(decision.volume_id)
    newest = list(told.story)[-_MOST_PRINTED:] if told else []
    return [(moment_words(deed.at_s), deed.line) for deed in reversed(newest)]


def _headline(decision: Decision, now_s: float) -> str:
    balance_pct = decision.assessment.balance_pct
    if balance_pct is None:
        return f"No balance: {dry_words(decision, now_s)}"
    words = dry_words(decision, now_s)
    is_dated = words.startswith(("now", "in "))
    return f"{balance_pct:.1f} %, {'dry ' if is_dated else ''}{words}{' UTC' if ':' in words else ''}"


def _place(decision: Decision) -> str:
    volume = decision.assessment.volume
    where = f"{volume.instance_id or 'no instance'}{f' as {volume.device}' if volume.device else ''}"
    baseline = f"baseline {decision.assessment.baseline_iops:,} IOPS"
    parts = (volume.volume_id, f"{volume.size_gib:,} GiB {volume.volume_type}", baseline, where)
    return printable(" · ".join(parts), LONGEST_SENTENCE)
