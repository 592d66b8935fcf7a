"""Words of alerts at their edges, and what they offer to paste."""

import pytest

from burstwatch.core.alerts.alert import (
    AlertKind,
    format_forecast,
    format_sentences,
    format_title,
    further_commands,
    make_digest,
)
from burstwatch.core.assessment.severity import Level
from burstwatch.core.text import format_instant
from support.builders.alert_of_kind import HERE, an_alert
from support.builders.core_values import at

EXPLAIN_COMMAND = ("See why", "burstctl explain vol-0a1 --region us-east-1")
HOLD_COMMAND = (
    "Keep the watchdog off it",
    "burstctl hold vol-0a1 --region us-east-1 --for 2h --reason 'looking at it'",
)


# what to paste


@pytest.mark.parametrize("kind", [AlertKind.DRAINING, AlertKind.EXHAUSTED, AlertKind.TELEMETRY_GAP])
@pytest.mark.parametrize(
    ("evidence", "commands"),
    [
        ({}, [EXPLAIN_COMMAND]),
        ({"mode": "propose"}, [EXPLAIN_COMMAND]),
        ({"mode": "auto"}, [EXPLAIN_COMMAND, HOLD_COMMAND]),
    ],
)
def test_a_balance_can_be_explained_and_what_may_be_flipped_be_held(kind, evidence, commands):
    assert further_commands(an_alert(kind, evidence=evidence)) == commands


@pytest.mark.parametrize(
    ("kind", "volume_id"),
    [
        (AlertKind.RECOVERED, "vol-0a1"),
        (AlertKind.FLIPPED, "vol-0a1"),
        (AlertKind.DRAINING, None),
        (AlertKind.POLICY_REJECTED, None),
    ],
)
def test_what_is_over_or_about_no_volume_has_nothing_more_to_paste(kind, volume_id):
    assert further_commands(an_alert(kind, volume_id=volume_id, evidence={"mode": "auto"})) == []


# time left

MINUTE_S, HOUR_S, DAY_S = 60, 3_600, 86_400


def a_forecast(soonest_s=None, span_s=None, drain_per_s=None):
    """Seconds from noon, and the instants they are."""
    instants = {"soonest_empty": soonest_s, "time_to_empty": span_s}
    as_text = {
        f"{name}_at": None if s is None else format_instant(at("12:00") + s) for name, s in instants.items()
    }
    return {f"{name}_s": s for name, s in instants.items()} | as_text | {"drain_per_s": drain_per_s}


@pytest.mark.parametrize(
    ("forecast", "expected"),
    [
        (a_forecast(0, 0), "empty now"),
        (a_forecast(0), "no trend yet"),
        (a_forecast(59, drain_per_s=0.0), "not draining"),
        (a_forecast(60, drain_per_s=0.4), "not draining; not empty before 12:01 UTC"),
        (a_forecast(60, drain_per_s=486.0), "no steady drain; not empty before 12:01 UTC"),
        (a_forecast(60, drain_per_s=-90.0), "refilling; not empty before 12:01 UTC"),
        (a_forecast(HOUR_S, 2 * HOUR_S), "empty in about 2 h (14:00), not before 13:00 UTC"),
        (a_forecast(HOUR_S, 2 * HOUR_S + 1), "not empty before 13:00 UTC, at this pace in about 2 h (14:00)"),
    ],
)
def test_the_forecast_in_words_at_its_edges(forecast, expected):
    assert format_forecast(forecast) == expected


@pytest.mark.parametrize(
    ("span_s", "phrase"),
    [
        (11 * HOUR_S, "in about 11 h (23:00)"),
        (13 * HOUR_S, "in about 13 h (01:00 Sat)"),
        (3 * DAY_S, "in about 3 d (12:00 Mon)"),
        (14 * DAY_S, "in about 14 d (12:00 4 Dec)"),
    ],
)
def test_a_time_that_is_not_today_carries_its_day(span_s, phrase):
    assert format_forecast(a_forecast(HOUR_S, span_s)).endswith(phrase)


@pytest.mark.parametrize(
    ("forecast", "expected"),
    [
        (a_forecast(), "is draining"),
        (a_forecast(0), "empty in 1 min at the earliest"),
        (a_forecast(90), "empty in 2 min at the earliest"),
        (a_forecast(0, 0), "empty now"),
        (a_forecast(0, 29), "empty in about 1 min"),
        (a_forecast(0, 2 * HOUR_S), "empty in about 2 h"),
        (a_forecast(HOUR_S, 2 * HOUR_S + 1), "empty in 60 min at the earliest"),
        (a_forecast(2 * HOUR_S), "empty in 2 h at the earliest"),
        (a_forecast(2 * HOUR_S + 60), "empty in 2 h at the earliest"),
    ],
)
def test_the_title_states_how_much_time_is_left_at_its_edges(forecast, expected):
    alert = an_alert(AlertKind.DRAINING, forecast=forecast)
    assert format_title(alert) == f"critical: vol-0a1, {expected} (i-0a1)"


# sentences

READ = {
    "baseline_iops": 300,
    "burst_balance_pct": 50.0,
    "credits": 2_700_000,
    "datapoint_at": "2026-11-20T11:59:00Z",
}


@pytest.mark.parametrize(
    ("drain_per_s", "phrase"),
    [
        (0.4, "It is draining at 0.4 credits/s"),
        (9.94, "It is draining at 9.9 credits/s"),
        (10, "It is draining at 10 credits/s"),
        (10.4, "It is draining at 10 credits/s"),
        (0, "Its balance is stable"),
        (-0.4, "It is refilling at 0.4 credits/s"),
        (-2_700, "It is refilling at 2,700 credits/s"),
    ],
)
def test_the_balance_trend_shows_its_sign_and_significant_digits(drain_per_s, phrase):
    alert = an_alert(AlertKind.DRAINING, reading=READ, forecast=a_forecast(HOUR_S, drain_per_s=drain_per_s))
    assert f"{phrase}; baseline 300 IOPS (100 GiB)." in format_sentences(alert)


@pytest.mark.parametrize(
    ("level", "previous", "phrase"),
    [
        (Level.CRITICAL, Level.OK, "Critical because it drains; it was ok."),
        (Level.CRITICAL, Level.CRITICAL, "Critical because it drains."),
        (Level.OK, Level.CRITICAL, "Now it drains; it was critical."),
    ],
)
def test_the_level_has_its_reason(level, previous, phrase):
    facts = {"level": level, "previous_level": previous, "evidence": {"because": "it drains"}}
    alert = an_alert(AlertKind.DRAINING, reading=READ, forecast=a_forecast(HOUR_S), **facts)
    assert format_sentences(alert)[0] == phrase


@pytest.mark.parametrize("reading", [{"baseline_iops": 300}, READ | {"burst_balance_pct": None}])
def test_without_a_balance_there_is_no_reason_and_no_drain(reading):
    alert = an_alert(
        AlertKind.DRAINING,
        reading=reading,
        forecast=a_forecast(HOUR_S, drain_per_s=5),
        evidence={"because": "it drains"},
    )
    assert format_sentences(alert) == ["Balance unknown: None; it was ok."]


def test_a_reason_that_is_a_sentence_gets_no_second_mark():
    reading = {"burst_balance_pct": None, "unknown_because": "AWS refuses it; try again later."}
    (sentence,) = format_sentences(an_alert(AlertKind.TELEMETRY_GAP, reading=reading))
    assert sentence == "Balance unknown: AWS refuses it; try again later; it was ok."


def test_without_a_rate_no_drain_is_reported():
    alert = an_alert(AlertKind.DRAINING, reading=READ, forecast=a_forecast(HOUR_S))
    assert len(format_sentences(alert)) == 1


def test_the_id_of_a_digest_is_as_long_as_any():
    alerts = [
        an_alert(AlertKind.DRAINING, alert_id=f"a{n}", forecast=a_forecast(0), reading=READ) for n in "12"
    ]
    digest = make_digest(alerts, location=HERE, runbooks_url="", now_s=int(at("12:00")))
    assert len(digest.alert_id) == 32
