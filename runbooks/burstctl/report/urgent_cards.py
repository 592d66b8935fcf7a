"""The urgent resources: the sentence over everything, and a card for each."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from burstctl.cli.text_layout import MAX_SENTENCE_LENGTH
from burstctl.render.resource_rows import CHANGING_LABEL, describe_depletion
from burstctl.render.volume import count_resources, describe_place, display_name_of
from burstctl.report.collect import FleetReport, noun_of, resource_id_of
from burstctl.report.format import format_short_instant, resource_label
from burstctl.report.page_data import FAULT, describe_baseline, level_of, resource_facts, suggested_action
from burstwatch.core.alerts.alert import AlertKind, is_command, runbook_link, runbook_reference
from burstwatch.core.assessment.resource import type_name_of
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.resource_type import ResourceType
from burstwatch.core.text import sanitise
from burstwatch.core.watch.decision import Decision

MAX_CARDS: Final = 12
"""The most urgent resources are shown at once, some more on request; all are in the table."""

MAX_MORE_CARDS: Final = 48
"""60 cards in all: the page must stay small enough to be sent."""

RUNBOOKS: Final = {
    "exhausted": AlertKind.EXHAUSTED,
    "critical": AlertKind.DRAINING,
    "warning": AlertKind.DRAINING,
    FAULT: AlertKind.TELEMETRY_GAP,
}
"""What is urgent, and the page for it."""

_EMPTYING: Final = ("critical", "warning")
_BREAK: Final = re.compile(" (?=--|vol-|&& )")
_MAX_PRINTED_ACTIVITIES: Final = 8  # of each resource on paper, where nothing can be scrolled


def urgent_context(fleet_report: FleetReport, counts: Mapping[str, int], runbooks_url: str) -> dict[str, Any]:
    """What the template says of them."""
    urgent = [decision for decision in fleet_report.decisions if level_of(decision) in RUNBOOKS]
    cards = [_card(decision, fleet_report, runbooks_url) for decision in urgent[: MAX_CARDS + MAX_MORE_CARDS]]
    return {
        "verdict": _headline_sentence(urgent, counts, is_partial=fleet_report.has_failed),
        "next": _next_empty(urgent, fleet_report.pass_report.now_s),
        "cards": cards[:MAX_CARDS],
        "more_cards": cards[MAX_CARDS:],
        "beyond_cards": f"{len(urgent) - len(cards):,}" if len(urgent) > len(cards) else "",
        "urgent_said": f"{_count(urgent)}, most urgent first",
    }


def _count(decisions: Iterable[Decision]) -> str:
    """``2 volumes and 1 instance``."""
    return count_resources(decision.assessment.resource for decision in decisions)


def _headline_sentence(urgent: Sequence[Decision], counts: Mapping[str, int], *, is_partial: bool) -> str:
    """The headline; it makes no statement about resources that could not be read."""
    nothing = "Nothing that could be read" if is_partial else "Nothing"
    exhausted = _count(decision for decision in urgent if level_of(decision) == "exhausted")
    soon = _count(decision for decision in urgent if level_of(decision) in _EMPTYING)
    empty, emptying = counts["exhausted"], counts["critical"] + counts["warning"]
    parts = []
    if empty:
        parts.append(f"{exhausted} {'is' if empty == 1 else 'are'} empty")
    if emptying:
        is_mixed = noun_of(urgent) != ResourceType.EBS.noun
        subject = soon if is_mixed else f"{emptying:,}{' more' if empty else ''}"
        parts.append(f"{subject} will be empty soon")
    if counts[FAULT]:
        verb = "has" if counts[FAULT] == 1 else "have"
        parts.append(f"{counts[FAULT]:,} {verb} no data")
    if changing := counts[CHANGING_LABEL]:
        parts.append(f"{changing:,} {'is' if changing == 1 else 'are'} being changed")
    if not parts:
        return f"{nothing} will be empty"
    if not empty and not emptying:
        else_ = " else" if changing else ""  # what is being changed may be empty until AWS is done
        return f"{nothing}{else_} is expected to be empty, but {', '.join(parts)}"
    return ", ".join(parts)


def _next_empty(urgent: Iterable[Decision], now_s: float) -> str:
    """The resource that will be empty next, of those that are not empty yet."""
    draining = [
        (forecast.time_to_empty_s, decision)
        for decision in urgent
        if level_of(decision) != "exhausted"
        and (forecast := decision.assessment.forecast) is not None
        and forecast.time_to_empty_s
    ]
    if not draining:
        return ""
    _, decision = min(draining, key=lambda pair: (pair[0], pair[1].volume_id))
    return f"Next: {resource_label(decision)}, empty {describe_depletion(decision, now_s)} UTC"


def _card(decision: Decision, fleet_report: FleetReport, runbooks_url: str) -> dict[str, Any]:
    resource, level = decision.assessment.resource, level_of(decision)
    action = suggested_action(decision, fleet_report.pass_report.region)
    page = RUNBOOKS[level]
    runbook = runbook_reference(page, runbook_link(page, runbooks_url))
    facts = resource_facts(decision, fleet_report)
    return {
        "id": resource.resource_id,
        "name": display_name_of(resource),
        "level": level,
        "depletion": _card_headline(decision, fleet_report.pass_report.now_s),
        "place": _card_location(decision),
        "why": next((text for name, text in facts if name == "Why"), ""),
        "action": action,
        "command_parts": split_command(action) if is_command(action) else [],
        "runbook": runbook,
        "page": str(page),
        "runbook_is_link": runbook.startswith("https://"),
        "facts": [fact for fact in facts if fact[0] != "Why"],
        "story": _printed_activities(decision, fleet_report),
    }


def split_command(command: str) -> list[str]:
    """The parts between which a command may be broken: no ID is broken, and a flag stays with its value.

    ``burstctl flip vol-1 --to gp3`` is ``burstctl flip``, ``vol-1`` and ``--to gp3``.
    """
    return _BREAK.split(command)


def _printed_activities(decision: Decision, fleet_report: FleetReport) -> list[tuple[str, str]]:
    """The newest of what happened to it; on the screen all of it is a click away."""
    detail = fleet_report.details.get(resource_id_of(decision))
    newest = list(detail.activities)[-_MAX_PRINTED_ACTIVITIES:] if detail else []
    return [(format_short_instant(activity.at_s), activity.line) for activity in reversed(newest)]


def _card_headline(decision: Decision, now_s: float) -> str:
    balance_pct = decision.assessment.balance_pct
    if balance_pct is None:
        return f"No balance: {describe_depletion(decision, now_s)}"
    depletion = describe_depletion(decision, now_s)
    is_dated = depletion.startswith(("now", "in "))
    return (
        f"{balance_pct:.1f} %, {'empty ' if is_dated else ''}{depletion}{' UTC' if ':' in depletion else ''}"
    )


def _card_location(decision: Decision) -> str:
    assessment, resource = decision.assessment, decision.assessment.resource
    if isinstance(resource, Volume):
        kind = f"{resource.size_gib:,} GiB {resource.volume_type}"
    else:
        kind = f"{type_name_of(resource)} · {assessment.kind.credits}"
    parts = (resource.resource_id, kind, describe_baseline(assessment), describe_place(resource))
    return sanitise(" · ".join(filter(None, parts)), MAX_SENTENCE_LENGTH)
