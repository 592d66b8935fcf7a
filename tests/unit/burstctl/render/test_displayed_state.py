"""What people are shown of a volume: it never contradicts itself, and what AWS is changing says so."""

import re
from dataclasses import replace

import pytest

from burstctl.explain.explanation import Explanation, entry_line, render_explanation, urgent_lines
from burstctl.render.pass_summary import format_level_counts
from burstctl.render.resource_rows import describe_depletion, level_label, select_rows
from burstctl.render.table import narrow_table, render_plain
from burstctl.report.page_data import level_counts, level_of
from burstwatch.core.alerts.alert import AlertKind, format_sentences, format_title
from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.assessment.severity import Level
from burstwatch.core.flips.reconciliation.observed_state import ObservedState
from burstwatch.core.flips.volume_context import VolumeContext
from burstwatch.core.ledger.flip_state import Direction, FlipStatus
from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry
from burstwatch.core.policy.policy import Policy
from burstwatch.core.text import display_width
from burstwatch.core.watch.pass_report import PassReport, urgency_of
from support.builders.core_values import (
    GP3,
    a_decision,
    a_flip,
    a_modification,
    a_state,
    a_volume_as,
    an_assessment,
    at,
    balances,
    draining_to,
)

NOW_S = at("12:00")
REQUESTED_S = int(at("11:48"))
CHANGING = a_flip(
    status=FlipStatus.IN_PROGRESS, reached_at_s=None, requested_at_s=REQUESTED_S, started_at_s=REQUESTED_S
)


def explain(decision, *, verbose=True):
    reported = Explanation(decision=decision, policy=Policy(), now_s=NOW_S, state=None, entries=())
    topics = render_explanation(reported, verbose=verbose)
    return urgent_lines(reported), {topic: " ".join(lines) for topic, lines in topics}


def explained_in_progress(balance, **flip):
    state = a_state(flip=replace(CHANGING, **flip), level=Level.CRITICAL)
    return a_decision(an_assessment(balance, changing_to="gp3"), state)


def a_report(*decisions):
    return PassReport(
        now_s=NOW_S, region="us-east-1", ledger="", decisions=decisions, cadence=Policy().cadence
    )


# -- explain agrees with itself

_RISING = [97.0 + 0.2 * minute for minute in range(1, 11)]
REFILLED_AND_FALLING = balances(*[97.0] * 46, *_RISING, 98.8, 98.6, 98.4, 98.2, 98.0)
"""It refilled within the hour, so that the whole hour shows no fall, and has fallen for five minutes."""


def test_a_volume_that_falls_unsteadily_is_reported_neither_as_steady_nor_as_draining():
    _, text = explain(a_decision(an_assessment(REFILLED_AND_FALLING)))
    assert "over 5 min: 180 credits/s" in text["Drains"]
    why = "it falls, but not steadily: over 60 min it has not fallen"
    assert text["Drains"].endswith(f"{why}, so no drain is used")
    assert text["Estimate"] == f"none: {why}"
    assert "Began" not in text


def test_the_table_does_not_print_not_draining_beside_a_drain():
    decision = a_decision(an_assessment(REFILLED_AND_FALLING))
    assert describe_depletion(decision, NOW_S) == "no steady drain"
    assert round(decision.assessment.forecast.drain_per_s) == 180


def test_a_drain_not_extrapolated_has_no_start():
    _, young = explain(a_decision(an_assessment(draining_to(90, 1, count=6))))
    assert "sets no level" in young["Estimate"]
    assert "Began" not in young
    _, old = explain(a_decision(an_assessment(draining_to(30, 1))))
    assert old["Began"] == "The drain began at 10:59 UTC or earlier"


@pytest.mark.parametrize("balance", [balances(*[0.0] * 20), draining_to(10, 3)])
def test_the_reserve_is_not_subtracted_from_less_time_than_it_is(balance):
    state = a_state(next_poll_at_s=int(NOW_S))
    _, text = explain(a_decision(an_assessment(balance), state))
    assert "840 s of them" not in text["Look"]
    assert "no longer than the 840 s reserved for lag, slack and acting" in text["Look"]


def test_the_next_command_comes_first_when_something_is_critical():
    lines, text = explain(a_decision(an_assessment(draining_to(18, 3, count=20))), verbose=False)
    assert lines == [
        "CRITICAL: empty in about 5 min (12:05), not before 12:05 UTC",
        "  burstctl flip vol-0a1 --region us-east-1 --to gp3 --iops 3000 --throughput 128",
        "AWS is expected to take 15 min to 50 min for 100 GiB; empty in about 5 min;",
        "  reduce load until then.",
    ]
    assert text["Next step"] == "you: flip it (mode is propose; ok before, now critical)"
    assert not {"Drains", "Look", "Ledger", "Next"} & text.keys()


def test_a_calm_volume_has_nothing_to_do_first():
    lines, text = explain(a_decision(an_assessment(balances(*[100.0] * 20))))
    assert (lines, text["Next step"]) == ([], "none: ok")


# -- explain shows words, not the codes of documents

_CODE = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")


@pytest.mark.parametrize("reason", UnknownReason)
@pytest.mark.parametrize("level", [Level.OK, Level.CRITICAL])
def test_the_reason_of_an_unknown_balance_is_in_words(reason, level):
    assessment = replace(an_assessment(balances()), unknown_reason=reason, unknown_because=None)
    open_level = level if level.is_alerting else None
    for state in (None, a_state(level=level, open_level=open_level), a_state(is_gap_open=True)):
        decision = a_decision(assessment, state)
        _, text = explain(decision)
        assert not _CODE.search(" ".join(text.values())), text
        assert not _CODE.search(decision.reason)


@pytest.mark.parametrize("kind", EntryKind)
def test_an_entry_of_the_ledger_is_described_in_words(kind):
    entry = LedgerEntry(volume_id="vol-0a1", revision=1, kind=kind, at_s=int(NOW_S))
    assert not _CODE.search(entry_line(entry))


# -- a volume that refills says so


def test_an_exhausted_volume_that_refills_is_reported_as_refilling_everywhere():
    decision = a_decision(an_assessment(draining_to(3, -0.2, count=14)), a_state(level=Level.EXHAUSTED))
    lines, text = explain(decision)
    assert lines == ["EXHAUSTED: empty, refilling (5 % in 10 min)"]
    assert text["Estimate"] == "none: empty, refilling (5 % in 10 min)"
    assert text["Next step"].startswith("none: ")
    assert describe_depletion(decision, NOW_S) == "empty, refilling (5 % in 10 min)"
    [alert] = decision.alerts
    assert format_title(alert) == "EXHAUSTED: vol-0a1 is refilling, 3.0 % so far (us-east-1)"
    assert any(", refilling at " in sentence for sentence in format_sentences(alert))


# -- a volume that AWS changes is not shown as exhausted


@pytest.mark.parametrize("direction", Direction)
def test_a_volume_that_aws_is_changing_is_shown_as_changing(direction):
    decision = explained_in_progress(balances(*[0.0] * 20), direction=direction)
    assert decision.level is Level.EXHAUSTED, "programs are told the level by the balance"
    assert (level_label(decision), level_of(decision)) == ("changing", "changing")
    assert format_level_counts([decision]) == "1 changing"
    assert level_counts([decision])["exhausted"] == 0
    lines = render_plain(
        narrow_table(*select_rows([a_report(decision)], shows_all=False), bar=None)
    ).splitlines()
    assert lines[1].split()[0] == "changing"
    assert not [line for line in lines if line.startswith("exhausted")]
    assert max(map(display_width, lines)) <= 80
    first, text = explain(decision)
    assert first == []
    assert text["Level"].startswith("changing: being modified to ")
    assert text["Next step"].startswith("wait until AWS is done: ")


def test_the_alert_of_a_volume_that_aws_is_changing_begins_with_that():
    [alert] = explained_in_progress(balances(*[0.0] * 20)).alerts
    assert alert.kind is AlertKind.EXHAUSTED, "it is still one that wakes people"
    assert format_title(alert) == (
        "CHANGING: vol-0a1 has no credits left while AWS modifies it to gp3 with 3,000 IOPS and 128 MiB/s"
        " (us-east-1)"
    )
    text = format_sentences(alert)
    assert text[0].startswith("Requested from AWS at 11:48 UTC; by its balance it would be exhausted: ")
    assert any(line.endswith("; reduce load until then.") for line in text)


def test_a_volume_found_on_target_is_no_longer_exhausted():
    volume = a_volume_as(GP3)
    record = a_modification(state="completed", started="11:48")
    decision = a_decision(
        an_assessment(balances(*[0.5] * 20), volume=volume, changing_to="gp3"),
        a_state(flip=replace(CHANGING, is_permanent=True), level=Level.EXHAUSTED),
        around=VolumeContext(observed=ObservedState(volume=volume, record=record)),
    )
    assert (decision.flip.status, decision.level) == (FlipStatus.ON_TARGET, Level.UNKNOWN)
    assert decision.assessment.balance_pct is None
    assert describe_depletion(decision, NOW_S) == "no burst credits"
    assert level_label(decision) == "fixed"


def test_a_volume_that_returned_has_no_level_before_its_first_fresh_datapoint():
    # the look cuts off what is older than the return: nothing is left of the balance
    back_s = int(at("11:58"))
    assessment = an_assessment(balances(), modified_at_s=back_s, arrived_at_s=back_s)
    decision = a_decision(assessment, a_state(level=Level.OK, returned_at_s=back_s))
    assert level_label(decision) == "unknown"
    assert describe_depletion(decision, NOW_S) == "too new"


def test_a_stuck_change_of_a_volume_without_credits_comes_before_what_only_drains():
    empty, draining = balances(*[0.0] * 60), a_decision(an_assessment(draining_to(10, 2.0)))
    assert urgency_of(explained_in_progress(empty, is_stuck_alerted=True)) < urgency_of(draining)
    assert urgency_of(explained_in_progress(empty)) > urgency_of(draining)
