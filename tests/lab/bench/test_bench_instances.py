"""The benches of instances: what they compare burstwatch with, and what they count."""

import pytest

from burstlab.score.ground_truth import START_S, Depletion, GroundTruth
from burstwatch.core.instances.instance_buckets import INSTANCE_IO
from burstwatch.core.policy.bucket_policy import policy_of_bucket
from burstwatch.core.policy.policy import CadencePolicy, Policy


def cadence_of(bucket) -> CadencePolicy:
    return policy_of_bucket(Policy(), INSTANCE_IO, bucket).cadence


def a_balance(alerts, values):
    shown_at_s = [START_S + (index + 1) * 300 + 60 for index in range(len(values))]
    return alerts.PublishedBalance(values, shown_at_s)


def test_an_alarm_with_the_lead_of_the_bound_needs_a_high_threshold(alerts, bucket):
    assert alerts.early_threshold_pct(bucket, cadence_of(bucket)) == pytest.approx(100 * 22 / 30)


@pytest.mark.parametrize(
    ("values", "minutes"), [([100, 60, 30, 0], 12), ([60, 60, 30, 0], 6), ([30, 30, 0], 0)]
)
def test_the_bound_leaves_less_lead_if_the_last_fall_began_low(alerts, bucket, values, minutes):
    depletion = Depletion(
        empty_at_s=START_S + (len(values) - 1) * 300, drain_started_at_s=START_S, is_from_high=False
    )
    lead_s = alerts.bound_lead_s(depletion, a_balance(alerts, values), bucket, cadence_of(bucket))
    assert lead_s == 60 * minutes


def test_an_alarm_waits_for_its_datapoints_in_a_row_and_ends_at_the_first_above(alerts):
    balance = a_balance(alerts, [50, 9, 12, 9, 8, 7, 20])
    assert alerts.find_alarms(balance, 10) == [
        (START_S + 660, START_S + 960),
        (START_S + 1_260, START_S + 2_160),
    ]
    assert alerts.find_alarms(balance, 10, 3) == [(START_S + 1_860, START_S + 2_160)]


def test_a_depletion_counts_again_only_after_the_bucket_was_half_full(alerts):
    minima = [100, 0, 20, 0, 60, 0]
    truth = GroundTruth(len(minima) * 60, minima, (), 0.0)
    assert [(d.empty_at_s - START_S) // 60 for d in alerts.find_depletions(truth)] == [1, 5]


def test_a_lasting_overload_is_announced_ahead_of_the_bound(alerts):
    load = [0.02] * 24 + [1.0] * 48
    recording = alerts.Recording("set", 300, load, [rate * 4 / 1_024 for rate in load])
    case = alerts.Case(
        recording=recording,
        number=0,
        type_name="m5.large",
        peak=4,
        shape=alerts.LoadShape.FLAT,
        volumes="type's maximum",
    )
    outcomes = {outcome.watcher: outcome for outcome in alerts.score(case)}
    warned = outcomes["burstwatch, from warning"]
    assert warned.announcements
    assert all(depletion.lead_s >= depletion.bound_lead_s for depletion in warned.announcements)
    assert warned.needless_alerts == 0


def test_a_default_gp3_cannot_drain_the_io_bucket_of_m5_large_but_its_throughput_bucket(costs):
    types = [("m5.large", costs.bursting_types()["m5.large"])]
    assert costs.share_proved(types, costs.VOLUMES["one default gp3"]) == "100% / 0% / 0%"


def test_the_overloaded_instances_are_one_in_twenty_that_two_gp2_can_drain(costs):
    limits = list(costs.bursting_types().values())
    overloaded = costs.choose_overloaded(limits)
    assert len(overloaded) == len(limits) // 20
    assert all(limits[number].baseline_iops < 6_000 for number in overloaded)
