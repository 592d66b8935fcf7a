"""The result of a pass: what needs people, in which order, and the object that programs read."""

from dataclasses import replace

import pytest

from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.buckets.series import Series
from burstwatch.core.flips.outcome import Outcome, OutcomeStatus
from burstwatch.core.flips.refusal import Guard, Refusal
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.core.policy.policy import CadencePolicy, Mode
from burstwatch.core.watch.api_cost import usd_per_month_now
from burstwatch.core.watch.pass_report import PassReport, sort_by_urgency
from support.builders.core_values import (
    a_decision,
    a_flip,
    a_volume,
    an_assessment,
    at,
    balances,
    draining_to,
)

# 100 GiB at 12:00, newest minute ends 11:59: calm; 50 % at 0.9 % a minute; 18 % at 3 % a minute.


def calm(volume_id="vol-0calm", age_min=1):
    balance = balances(*[100.0] * 31, newest_starts_at=f"11:{59 - age_min}")
    return a_decision(an_assessment(balance, volume=a_volume(volume_id=volume_id)))


def draining(volume_id="vol-0drains", end_pct=50, per_minute=0.9, **changes):
    assessment = an_assessment(
        draining_to(end_pct, per_minute, count=40), volume=a_volume(volume_id=volume_id)
    )
    return a_decision(assessment, **changes)


def without_data(volume_id="vol-0silent"):
    return a_decision(an_assessment(Series(), volume=a_volume(volume_id=volume_id)))


def detached(volume_id="vol-0detached"):
    return a_decision(an_assessment(None, volume=a_volume(volume_id=volume_id, attached=False)))


def unreadable(volume_id="vol-0unread"):
    return a_decision(an_assessment(None, volume=a_volume(volume_id=volume_id)))


def a_report(*decisions, **facts) -> PassReport:
    defaults = {
        "now_s": at("12:00"),
        "region": "us-east-1",
        "ledger": "sqlite:/x",
        "decisions": decisions,
        "cadence": CadencePolicy(),
    }
    return PassReport(**(defaults | facts))


def outcomes(**done) -> dict[str, Outcome]:
    return {f"vol-0{name}": Outcome(status=status) for name, status in done.items()}


# whom it needs


@pytest.mark.parametrize(
    ("decisions", "done", "needs"),
    [
        ([], {}, False),
        ([calm()], {}, False),
        ([detached()], {}, False),
        ([calm(), draining()], {}, True),
        ([draining()], {"drains": OutcomeStatus.REFUSED}, True),
        ([draining()], {"drains": OutcomeStatus.FLIPPED}, False),
        ([calm(), without_data()], {}, True),
        ([unreadable()], {}, True),
    ],
)
def test_draining_unflipped_and_silent_volumes_need_attention(decisions, done, needs):
    assert a_report(*decisions, outcomes=outcomes(**done)).needs_attention is needs


def test_a_pass_has_failed_if_anything_did_or_a_volume_was_not_read():
    assert not a_report(calm(), without_data()).has_failed
    assert a_report(calm(), failures=["no answer"]).has_failed
    report = a_report(calm(), unreadable())
    assert report.has_failed
    assert [d.volume_id for d in report.unread] == ["vol-0unread"]


def test_outcomes_are_counted_by_status():
    report = a_report(
        outcomes=outcomes(
            a=OutcomeStatus.FLIPPED, b=OutcomeStatus.REFUSED, c=OutcomeStatus.FLIPPED, d=OutcomeStatus.FAILED
        )
    )
    assert report.count(OutcomeStatus.FLIPPED) == 2
    assert report.count(OutcomeStatus.FLIPPED, OutcomeStatus.FAILED) == 3
    assert report.was_refused
    assert not a_report(outcomes=outcomes(a=OutcomeStatus.FAILED)).was_refused


@pytest.mark.parametrize(
    ("decision", "is_read_only", "done"),
    [
        (draining(), False, OutcomeStatus.PROPOSED),
        (draining(), True, OutcomeStatus.NONE),
        (calm(), False, OutcomeStatus.NONE),
    ],
)
def test_a_reported_volume_without_an_action_is_proposed(decision, is_read_only, done):
    assert a_report(decision, is_read_only=is_read_only).outcome_of(decision).status is done


def test_a_volume_with_an_action_shows_its_outcome():
    report = a_report(draining(), is_read_only=False, outcomes=outcomes(drains=OutcomeStatus.IN_FLIGHT))
    assert report.outcome_of(report.decisions[0]).status is OutcomeStatus.IN_FLIGHT


# how the fleet stands


def test_the_newest_datapoint_of_all_shows_the_lag():
    assert a_report(detached()).newest_datapoint_age_s is None
    assert (
        a_report(calm(age_min=3), detached(), calm(age_min=1), calm(age_min=2)).newest_datapoint_age_s == 60
    )


def test_what_a_calm_fleet_costs_counts_what_is_polled():
    # 100 GiB: every 15 minutes, 2,880 in 30 days, a hundred-thousandth of a dollar each
    assert a_report(calm(), draining(), detached()).usd_per_month_idle == pytest.approx(2 * 0.0288)
    assert a_report().usd_per_month_idle == 0


def test_the_most_urgent_come_first_by_level_then_time_then_balance_then_name():
    exhausted = draining("vol-0dry", 0, 3)
    critical = draining("vol-0critical", 18, 3)
    soon, later = draining("vol-0soon", 45, 0.9), draining("vol-0later", 50, 0.9)
    steady = [
        a_decision(an_assessment(balances(*[pct] * 31), volume=a_volume(volume_id=name)))
        for pct, name in [(60.0, "vol-0sixty"), (70.0, "vol-0b"), (70.0, "vol-0a")]
    ]
    ordered = [
        exhausted,
        critical,
        soon,
        later,
        without_data(),
        steady[0],
        steady[2],
        steady[1],
        calm(),
        detached(),
    ]
    assert [d.volume_id for d in sort_by_urgency(reversed(ordered))] == [d.volume_id for d in ordered]


def test_within_a_level_the_first_to_empty_comes_first():
    def steady(volume_id, pct, size_gib):
        volume = a_volume(size_gib, volume_id=volume_id)
        return a_decision(an_assessment(balances(*[pct] * 31), volume=volume))

    # 50 % at 0.9 % a minute: 56 min; 30 % at 0.52 %: 58 min.
    warned = [draining("vol-0b", 50, 0.9), draining("vol-0a", 30, 0.52)]
    # A volume that falls (60 % at 0.9 % a minute) before those that do not. At full burst 100 GiB lose 2,700
    # a second: 50 % last 1,000 s. 550 GiB lose 1,350: 25 % last as long, and the lower balance comes first;
    # 800 GiB lose 600, so that 20 % last 1,800 s.
    watched = [
        draining("vol-0z", 60, 0.9),
        steady("vol-0y", 25.0, 550),
        steady("vol-0x", 50.0, 100),
        steady("vol-0w", 20.0, 800),
    ]
    ordered = [*warned, *watched]
    assert [str(d.level) for d in ordered] == ["warning"] * 2 + ["watch"] * 4
    assert sort_by_urgency(reversed(ordered)) == ordered


# the object that programs read


def test_one_volume_of_the_report():
    # 18 % are 972,000 credits; at 3 % a minute 2,700/s: empty in 360 s, less 60 s of age
    decision = draining("vol-0critical", 18, 3, mode=Mode.AUTO)
    refusal = Refusal(guard=Guard.COOLDOWN, reason="flipped an hour ago", ends_at_s=at("13:00"))
    outcome = Outcome(
        status=OutcomeStatus.REFUSED, reason="flipped an hour ago", refusal=refusal, retry_at_s=at("13:00")
    )
    [row] = a_report(decision, outcomes={"vol-0critical": outcome}).to_document()["volumes"]
    assert (row["volume_id"], row["burst_balance_pct"], row["credits"]) == ("vol-0critical", 18.0, 972_000)
    assert (row["drain_per_s"], row["time_to_empty_s"], row["soonest_empty_s"]) == (2_700, 300, 300)
    assert (row["datapoint_age_s"], row["level"], row["mode"]) == (60, "critical", "auto")
    assert (row["unknown_reason"], row["fault"], row["flip"]) == (None, False, None)
    assert row["decision"]["target"] == {"volume_type": "gp3", "iops": 3_000, "throughput_mib_s": 128}
    assert row["outcome"] == {
        "action": "refused",
        "because": "flipped an hour ago",
        "error_code": None,
        "refusal": "cooldown",
        "retry_at": "2026-11-20T13:00:00Z",
    }


def test_what_is_not_known_is_null_and_the_keys_are_there():
    report = a_report(without_data(), calm())
    unknown, known = report.to_document()["volumes"]
    assert unknown.keys() == known.keys()
    assert (unknown["unknown_reason"], unknown["fault"]) == (UnknownReason.TELEMETRY_GAP, True)
    assert {unknown[name] for name in ("credits", "burst_balance_pct", "datapoint_age_s")} == {None}
    assert (known["decision"]["target"], known["outcome"]["retry_at"], known["outcome"]["refusal"]) == (
        None,
        None,
        None,
    )


def test_a_flip_is_reported_with_what_it_was_and_what_it_costs():
    flip = a_flip(usd_per_month=1.5, reason="drained")
    decision = replace(calm(), flip=flip)
    [row] = a_report(decision).to_document()["volumes"]
    assert row["flip"] == {
        "phase": "on_target",
        "direction": "out",
        "cause": "draining",
        "by": "watchdog",
        "original": {"volume_type": "gp2", "iops": None, "throughput_mib_s": None},
        "target": {"volume_type": "gp3", "iops": 3_000, "throughput_mib_s": 128},
        "asked_at": "2026-11-20T10:00:00Z",
        "stays": False,
        "because": "drained",
        "usd_per_month_more": 1.5,
    }


def test_totals_cost_and_holds():
    hold = Hold(volume_id=None, by="ann", reason="release day", placed_at_s=0, until_s=int(at("18:00")))
    decisions = (calm(), draining(), without_data(), unreadable())
    report = a_report(
        *decisions,
        outcomes=outcomes(
            drain_rates=OutcomeStatus.FLIPPED, x=OutcomeStatus.FAILED, y=OutcomeStatus.FLIPPED_BACK
        ),
        holds=[hold],
        ignored=["vol-0i"],
        missing=["vol-0m"],
        failures=["no answer"],
        metrics_requested=7,
        api_calls={"ec2:DescribeVolumes": 1},
    )
    reported = report.to_document()
    assert (reported["schema"], reported["generated_at"]) == ("burstwatch.report/v1", "2026-11-20T12:00:00Z")
    assert reported["totals"] == {
        "volumes": 4,
        "resources": 4,
        "by_level": {"ok": 1, "warning": 1, "unknown": 2},
        "flipped": 1,
        "flipped_back": 1,
        "refused": 0,
        "failed": 1,
        "in_flight": 0,
        "unread": 1,
        "ignored": 1,
    }
    assert reported["cost"] == {
        "metrics_requested": 7,
        "usd_per_month_idle": round(report.usd_per_month_idle, 2),
        "usd_per_month_now": round(usd_per_month_now(decisions), 2),
    }
    assert reported["holds"] == [
        {
            "volume_id": None,
            "resource_id": None,
            "by": "ann",
            "reason": "release day",
            "until": "2026-11-20T18:00:00Z",
        }
    ]
    assert (reported["missing"], reported["failures"]) == (["vol-0m"], ["no answer"])
    assert (reported["newest_datapoint_age_s"], reported["api_calls"]) == (60, {"ec2:DescribeVolumes": 1})


def test_a_pass_without_news_sends_and_changes_nothing():
    bare = a_report()
    assert (bare.metrics_requested, bare.sent, bare.undelivered, bare.unreadable_count) == (0, 0, 0, 0)
    assert bare.is_read_only
    assert not bare.has_failed


def test_an_unknown_age_is_null():
    assert a_report().to_document()["newest_datapoint_age_s"] is None


def test_the_worst_datapoint_is_that_of_a_volume_which_must_publish():
    """A full volume may be idle, a new one may not publish yet."""
    low = an_assessment(balances(80.0, 70.0, newest_starts_at="11:44"))
    new = replace(an_assessment(balances(70.0, newest_starts_at="11:36")), arrived_at_s=at("11:30"))
    assert a_report(calm(age_min=12)).worst_datapoint_age_s is None
    report = a_report(calm(age_min=20), a_decision(low), a_decision(new), calm(age_min=1))
    assert report.worst_datapoint_age_s == 15 * 60
    assert report.oldest_datapoint == (15 * 60, low.volume.volume_id)
    assert a_report(calm(age_min=1)).oldest_datapoint is None


def test_many_full_volumes_without_a_fresh_datapoint_show_that_cloudwatch_is_late():
    assert a_report(*[calm(age_min=12)] * 10).worst_datapoint_age_s == 12 * 60
    assert a_report(*[calm(age_min=12)] * 9, calm(age_min=1)).worst_datapoint_age_s == 60
    assert a_report(*[calm(age_min=12)] * 9).worst_datapoint_age_s is None


def test_the_spacing_of_datapoints_is_that_of_most_volumes():
    assert a_report(detached()).datapoint_spacing_s is None
    assert a_report(calm(), detached(), calm()).datapoint_spacing_s == 60
