"""What a file system in trouble is advised from: the load of a day, and that of the last half hour."""

from datetime import UTC, datetime

import pytest

from burstwatch.core.assessment.assess import Assessment
from burstwatch.core.buckets.series import Series
from burstwatch.core.buckets.units import GIB, MIB
from burstwatch.core.efs.efs_bucket import EFS_BYTES, efs_bucket
from burstwatch.core.location import AwsLocation
from burstwatch.core.watch.efs_evidence import EfsEvidence
from support.builders.storage import a_file_system

NOW_S = datetime(2026, 11, 21, 18, 0, tzinfo=UTC).timestamp()
CLOSED_S = int(NOW_S) - 300
"""The end of the newest five minutes of which no minute may be missing any more."""

ASSESSMENT = Assessment(resource=a_file_system(58), kind=EFS_BYTES, bucket=efs_bucket(58 * GIB))


def evidence(*mib_s, credits_left=None):
    """A file system of 58 GiB that wrote at these rates, five minutes each, until ``CLOSED_S``."""
    starts_at_s = [CLOSED_S - 300 * (len(mib_s) - index) for index in range(len(mib_s))]
    pairs = [(start, rate * MIB * 300) for start, rate in zip(starts_at_s, mib_s, strict=True)]
    written = Series.from_pairs(pairs, 300)
    nothing = Series.from_pairs([(start, 0.0) for start, _ in pairs], 300)
    return EfsEvidence(
        file_system=a_file_system(58),
        now_s=NOW_S,
        series={"metered": written, "read": nothing, "written": written}
        | ({} if credits_left is None else {"credits": Series.from_pairs(credits_left(pairs), 300)}),
    )


def without_credits(pairs):
    """No credits in the last half hour."""
    return [(start, 0.0 if start >= CLOSED_S - 1_800 else 1e9) for start, _ in pairs]


def test_a_load_that_has_just_begun_is_provisioned_at_its_busiest_rate():
    """100 MiB/s for ten minutes are a mean of 33 in half an hour."""
    lasting = evidence(*[0] * 280, 0, 0, 0, 0, 100, 100).lasting_recommendation()
    assert lasting.command.endswith("--throughput-mode provisioned --provisioned-throughput-in-mibps 100")
    assert "its busiest rate was 100 MiB/s metered" in lasting.reason


def test_elastic_for_a_day_of_little_load_is_not_recommended_alone_to_a_load_that_may_last():
    """100 MiB/s for 45 minutes: elastic is $481 a month if that is all of a day, and $15,398 if it lasts."""
    busy = evidence(*[0] * 279, *[100] * 9)
    recommendation = busy.advise(ASSESSMENT, AwsLocation(region="us-east-1"))
    assert "--throughput-mode provisioned --provisioned-throughput-in-mibps 100" in recommendation.action
    assert "By its load of a day: elastic, $481.20 a month" in recommendation.reasons[-1]
    assert (
        "If the load of its busiest five minutes lasts: provisioned with 100 MiB/s, $583.01 a month"
        in (recommendation.reasons[-1])
    )
    assert recommendation.reasons[-1].endswith("; elastic would cost $15,398.44 a month")


def test_what_was_busy_before_the_last_half_hour_does_not_last():
    assert evidence(*[0] * 280, 100, 0, 0, 0, 0, 0, 0).lasting_recommendation() is None


def test_a_throttled_half_hour_is_not_the_load_that_may_last():
    """58 GiB without credits have 2.8 MiB/s left; an hour ago it wrote 100 MiB/s."""
    throttled = evidence(*[0] * 278, *[100] * 4, *[2.8] * 6, credits_left=without_credits)
    by_day = throttled.mode_recommendation()
    assert str(by_day.chosen) == "provisioned with 100 MiB/s"
    assert "its busiest rate was 100 MiB/s metered" in by_day.reason
    assert throttled.lasting_recommendation() is None


def test_a_file_system_that_is_throttled_now_is_advised_with_all_that_elastic_may_cost():
    """What it wrote in the throttled half hour is $9 a month in elastic mode, and not what was wanted."""
    throttled = evidence(*[0] * 282, *[2.8] * 6, credits_left=without_credits)
    recommendation = throttled.advise(ASSESSMENT, AwsLocation(region="us-east-1"))
    assert "--throughput-mode provisioned --provisioned-throughput-in-mibps 100" in recommendation.action
    load = recommendation.reasons[-1]
    assert load.startswith("By its load of a day: elastic, $8.98 to $490.18 a month")
    assert "If the load of its busiest five minutes lasts: provisioned with 100 MiB/s, $583.01" in load
    assert load.endswith("elastic would cost $431.16 to $23,528.81 a month")


def test_a_file_system_that_was_throttled_for_minutes_is_advised_by_the_highest_price_of_that():
    backup = evidence(*[0] * 100, *[2.8] * 2, *[0] * 186, credits_left=without_credits)
    recommendation = backup.advise(ASSESSMENT, AwsLocation(region="us-east-1"))
    assert recommendation.action.endswith("--throughput-mode elastic --region us-east-1")
    assert recommendation.reasons[0] == (
        "By its load of a day, a month costs: bursting $0.00, elastic $2.99 to $163.39,"
        " provisioned with 100 MiB/s $583.01"
    )


@pytest.mark.parametrize(
    ("credits_left", "is_throttled"), [(0, True), (1, True), (2.3e10, True), (2.4e10, False)]
)
def test_it_is_throttled_at_a_balance_that_counts_as_exhausted(credits_left, is_throttled):
    """1 % of 2.1 TiB are 2.309e10 bytes; a trickle of credits comes and goes while it is throttled."""
    held_back = evidence(*[2.83] * 288, credits_left=lambda pairs: [(s, credits_left) for s, _ in pairs])
    assert held_back.load.was_throttled is is_throttled
    assert (held_back.recommended_change().command is not None) is is_throttled


def test_what_a_pause_earned_is_not_the_load_that_is_wanted():
    """Throttled but for a pause, whose credits are spent at once: 3.4 MiB/s for five minutes."""
    throttled = evidence(
        *[2.83] * 280, 0.5, 3.4, *[2.83] * 6, credits_left=lambda p: [(s, 0.0) for s, _ in p]
    )
    assert str(throttled.recommended_change().chosen) == "provisioned with 100 MiB/s"


@pytest.mark.parametrize("mib_s", [0.1, 1, 2.4])
def test_a_load_below_what_its_size_earns_is_not_throttled_although_it_is_almost_empty(mib_s):
    """A small one is almost empty for days after the load that has emptied it."""
    refilling = evidence(*[mib_s] * 288, credits_left=lambda pairs: [(start, 1e9) for start, _ in pairs])
    assert not refilling.load.was_throttled
    assert refilling.recommended_change().command is None


def test_a_time_without_datapoints_is_no_part_of_the_load():
    half_an_hour = evidence(*[1] * 6)
    assert half_an_hour.load.duration_s == 1_800
    assert half_an_hour.load.mean_metered_per_s == MIB
    assert half_an_hour.load_span == "the 30 min that CloudWatch has"
    assert evidence(*[1] * 288).load_span == "a day"


def test_an_alert_has_the_cautions_of_the_mode():
    busy = evidence(*[0] * 279, *[100] * 9)
    recommendation = busy.advise(ASSESSMENT, AwsLocation(region="us-east-1"))
    assert any("AWS refuses to leave provisioned mode" in caution for caution in recommendation.cautions)


def test_the_choice_of_a_day_stays_if_the_present_load_needs_no_change():
    """The busy time is over: elastic is the cheapest for a day, and the last half hour is idle."""
    over = evidence(*[0] * 273, *[100] * 9, *[0] * 6)
    recommendation = over.advise(ASSESSMENT, AwsLocation(region="us-east-1"))
    assert "--throughput-mode elastic" in recommendation.action
    assert any("Elastic mode has no price ceiling" in caution for caution in recommendation.cautions)


def test_minutes_without_datapoints_are_not_counted_as_idle():
    [sentence] = evidence(40, 40).recent_load_sentences()
    assert sentence.startswith("In the last half hour: 40 MiB/s metered")
    assert evidence().recent_load_sentences() == []
