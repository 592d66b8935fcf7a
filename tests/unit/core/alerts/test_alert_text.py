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
from support.builders.alert_of_kind import HERE, alert_of_kind
from support.builders.core_values import at
from support.builders.events import event_alerts

EXPLAIN_COMMAND = ("See why", "burstctl explain vol-0a1 --region us-east-1")
HOLD_COMMAND = (
    "Stop automatic changes",
    "burstctl hold vol-0a1 --region us-east-1 --for 2h --reason 'looking at it'",
)


RELEASE_COMMAND = ("End the hold", "burstctl release --all --region us-east-1")


# what to paste


@pytest.mark.parametrize("kind", [AlertKind.DRAINING, AlertKind.EXHAUSTED, AlertKind.TELEMETRY_GAP])
@pytest.mark.parametrize(
    ("evidence", "commands"),
    [
        ({}, [EXPLAIN_COMMAND]),
        ({"mode": "propose"}, [EXPLAIN_COMMAND]),
        ({"mode": "auto"}, [EXPLAIN_COMMAND, HOLD_COMMAND]),
        ({"mode": "auto", "release": "--all"}, [EXPLAIN_COMMAND, RELEASE_COMMAND]),
    ],
)
def test_a_balance_can_be_explained_and_what_may_be_flipped_be_held(kind, evidence, commands):
    assert further_commands(alert_of_kind(kind, evidence=evidence)) == commands


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
    assert further_commands(alert_of_kind(kind, volume_id=volume_id, evidence={"mode": "auto"})) == []


def test_a_refusal_because_of_a_hold_has_the_command_that_ends_it():
    assert further_commands(event_alerts()[AlertKind.FLIP_REFUSED]) == [RELEASE_COMMAND]


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
        (a_forecast(0), "is empty in 1 min at the earliest"),
        (a_forecast(90), "is empty in 2 min at the earliest"),
        (a_forecast(0, 0), "is empty now"),
        (a_forecast(0, 29), "is empty in about 1 min"),
        (a_forecast(0, 2 * HOUR_S), "is empty in about 2 h"),
        (a_forecast(HOUR_S, 2 * HOUR_S + 1), "is empty in 60 min at the earliest"),
        (a_forecast(2 * HOUR_S), "is empty in 2 h at the earliest"),
        (a_forecast(2 * HOUR_S + 60), "is empty in 2 h at the earliest"),
        (a_forecast(2 * HOUR_S, drain_per_s=-90.0), "is refilling"),
    ],
)
def test_the_title_states_how_much_time_is_left_at_its_edges(forecast, expected):
    alert = alert_of_kind(AlertKind.DRAINING, forecast=forecast)
    assert format_title(alert) == f"CRITICAL: vol-0a1 {expected} (us-east-1)"


# sentences

READ = {
    "baseline_iops": 300,
    "burst_balance_pct": 50.0,
    "credits": 2_700_000,
    "datapoint_at": "2026-11-20T11:59:00Z",
}


@pytest.mark.parametrize(
    ("span_s", "drain_per_s", "phrase"),
    [
        (HOUR_S, 0.4, ", draining at 0.4 credits/s; empty at about 13:00, not before 12:30 UTC"),
        (2 * HOUR_S, 9.94, ", draining at 9.9 credits/s; empty at about 14:00, not before 12:30 UTC"),
        (
            2 * HOUR_S + 60,
            10,
            ", draining at 10 credits/s; not empty before 12:30 UTC, at this pace in about 2 h (14:01)",
        ),
        (None, 10.4, "; no steady drain; not empty before 12:30 UTC"),
        (None, 0, "; not draining; not empty before 12:30 UTC"),
        (None, -0.4, "; not draining; not empty before 12:30 UTC"),
        (None, -0.6, ", refilling at 0.6 credits/s; not empty before 12:30 UTC"),
        (None, -2_700, ", refilling at 2,700 credits/s; not empty before 12:30 UTC"),
    ],
)
def test_the_reason_of_a_drain_has_the_balance_the_rate_and_when_it_is_empty(span_s, drain_per_s, phrase):
    forecast = a_forecast(HOUR_S / 2, span_s, drain_per_s=drain_per_s)
    alert = alert_of_kind(AlertKind.DRAINING, reading=READ, forecast=forecast)
    assert format_sentences(alert) == [
        f"Burst balance 50.0 % at 11:59 UTC{phrase}.",
        "2,700,000 credits left; baseline 300 IOPS (100 GiB).",
    ]


@pytest.mark.parametrize(
    ("level", "previous", "phrase"),
    [
        (Level.CRITICAL, Level.OK, "Critical because it drains; it was ok."),
        (Level.CRITICAL, Level.CRITICAL, "Critical because it drains."),
    ],
)
def test_the_level_has_its_reason_after_the_reading(level, previous, phrase):
    facts = {"level": level, "previous_level": previous, "evidence": {"because": "it drains"}}
    alert = alert_of_kind(AlertKind.DRAINING, reading=READ, forecast=a_forecast(HOUR_S), **facts)
    assert format_sentences(alert)[1] == phrase


def test_a_level_that_is_over_has_its_reason_first():
    facts = {"level": Level.OK, "previous_level": Level.CRITICAL, "evidence": {"because": "calm"}}
    alert = alert_of_kind(AlertKind.RECOVERED, reading=READ, forecast=a_forecast(HOUR_S), **facts)
    assert format_sentences(alert)[0] == "Now calm; it was critical."


@pytest.mark.parametrize("reading", [{"baseline_iops": 300}, READ | {"burst_balance_pct": None}])
def test_without_a_balance_there_is_no_reason_and_no_drain(reading):
    alert = alert_of_kind(
        AlertKind.DRAINING,
        reading=reading,
        forecast=a_forecast(HOUR_S, drain_per_s=5),
        evidence={"because": "it drains"},
    )
    assert format_sentences(alert) == ["Balance unknown: None; it was ok."]


def test_a_reason_that_is_a_sentence_gets_no_second_mark():
    reading = {"burst_balance_pct": None, "unknown_because": "AWS refuses it; try again later."}
    (sentence,) = format_sentences(alert_of_kind(AlertKind.TELEMETRY_GAP, reading=reading))
    assert sentence == "Balance unknown: AWS refuses it; try again later; it was ok."


def test_without_a_rate_no_drain_is_reported():
    alert = alert_of_kind(AlertKind.DRAINING, reading=READ, forecast=a_forecast(HOUR_S))
    assert format_sentences(alert)[0].endswith(" UTC; no trend yet; not empty before 13:00 UTC.")


def test_a_region_that_the_text_has_already_is_not_repeated():
    evidence = {"summary": "nightly now, 1 volume in us-east-1", "details": []}
    alert = alert_of_kind(
        AlertKind.WINDOW_STARTING, volume={"region": "us-east-1"}, volume_id=None, evidence=evidence
    )
    assert format_title(alert) == "WINDOW: nightly now, 1 volume in us-east-1"


def test_an_unknown_region_is_left_out_of_the_title():
    alert = alert_of_kind(AlertKind.RECOVERED, volume={"volume_id": "vol-0a1"})
    assert format_title(alert) == "RECOVERED: vol-0a1"


INSTANCE_IO = {
    "resource_id": "i-0a1", "resource_type": "instance", "name": "small", "bucket": "instance-io"
} | {"region": "us-east-1"}  # fmt: skip


def test_a_gap_of_a_resource_with_several_buckets_names_the_bucket():
    alert = alert_of_kind(
        AlertKind.TELEMETRY_GAP, volume={}, resource=INSTANCE_IO, volume_id="i-0a1#instance-io"
    )
    assert format_title(alert).endswith(": small has no balance of its EBS I/O credits to read (us-east-1)")


def test_an_alert_that_ends_without_a_balance_is_closed_and_did_not_recover():
    def title(**reading):
        return format_title(alert_of_kind(AlertKind.RECOVERED, level=Level.UNKNOWN, reading=reading))

    for reason in ("instance_stopped", "detached"):
        assert title(unknown_reason=reason) == "CLOSED: vol-0a1 (us-east-1)"
    assert title(unknown_because="the volume was deleted") == "CLOSED: vol-0a1 (us-east-1)"
    assert title(unknown_reason="not_burstable_type") == "RECOVERED: vol-0a1 (us-east-1)"


def test_a_digest_names_the_bucket_of_a_resource_that_has_several():
    alerts = [
        alert_of_kind(
            AlertKind.DRAINING,
            alert_id=f"a{n}",
            volume={},
            resource=INSTANCE_IO,
            volume_id="i-0a1#instance-io",
            forecast=a_forecast(HOUR_S),
            reading=READ,
        )
        for n in "12"
    ]
    digest = make_digest(alerts, location=HERE, runbooks_url="", now_s=int(at("12:00")))
    assert "critical: small, EBS I/O credits 50.0 %" in format_sentences(digest)[2]


def test_the_id_of_a_digest_is_as_long_as_any():
    alerts = [
        alert_of_kind(AlertKind.DRAINING, alert_id=f"a{n}", forecast=a_forecast(0), reading=READ)
        for n in "12"
    ]
    digest = make_digest(alerts, location=HERE, runbooks_url="", now_s=int(at("12:00")))
    assert len(digest.alert_id) == 32
