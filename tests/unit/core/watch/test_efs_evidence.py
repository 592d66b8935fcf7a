"""What a file system in trouble is advised from: the load of a day, and that of the last half hour."""

from datetime import UTC, datetime

from burstwatch.core.assessment.assess import Assessment
from burstwatch.core.buckets.series import Series
from burstwatch.core.efs.efs_bucket import EFS_BYTES, GIB, MIB, efs_bucket
from burstwatch.core.location import AwsLocation
from burstwatch.core.watch.efs_evidence import EfsEvidence
from support.builders.storage import a_file_system

NOW_S = datetime(2026, 11, 21, 18, 0, tzinfo=UTC).timestamp()
CLOSED_S = int(NOW_S) - 300
"""The end of the newest five minutes of which no minute may be missing any more."""


def evidence(*mib_s):
    """A file system of 58 GiB that wrote at these rates, five minutes each, until ``CLOSED_S``."""
    starts_at_s = [CLOSED_S - 300 * (len(mib_s) - index) for index in range(len(mib_s))]
    pairs = [(start, rate * MIB * 300) for start, rate in zip(starts_at_s, mib_s, strict=True)]
    written = Series.from_pairs(pairs, 300)
    nothing = Series.from_pairs([(start, 0.0) for start, _ in pairs], 300)
    return EfsEvidence(
        file_system=a_file_system(58),
        now_s=NOW_S,
        series={"metered": written, "read": nothing, "written": written},
    )


def test_a_load_that_has_just_begun_is_provisioned_at_its_busiest_rate():
    """100 MiB/s for ten minutes are a mean of 33 in half an hour."""
    lasting = evidence(*[0] * 280, 0, 0, 0, 0, 100, 100).lasting_recommendation()
    assert lasting.command.endswith("--throughput-mode provisioned --provisioned-throughput-in-mibps 100")
    assert "its busiest rate was 100 MiB/s metered" in lasting.reason


def test_elastic_for_a_day_of_little_load_is_not_recommended_alone_to_a_load_that_may_last():
    """100 MiB/s for 45 minutes: elastic is $485 a month if that is all of a day, and $15,188 if it lasts."""
    busy = evidence(*[0] * 279, *[100] * 9)
    assessment = Assessment(resource=busy.file_system, kind=EFS_BYTES, bucket=efs_bucket(58 * GIB))
    recommendation = busy.advise(assessment, AwsLocation(region="us-east-1"))
    assert "--throughput-mode elastic" in recommendation.action
    assert (
        "If the load of its busiest five minutes lasts: provisioned with 100 MiB/s, $583.01 a month"
        in (recommendation.reasons[-1])
    )


def test_what_was_busy_before_the_last_half_hour_does_not_last():
    assert evidence(*[0] * 280, 100, 0, 0, 0, 0, 0, 0).lasting_recommendation() is None


def test_minutes_without_datapoints_are_not_counted_as_idle():
    [sentence] = evidence(40, 40).recent_load_sentences()
    assert sentence.startswith("In the last half hour: 40 MiB/s metered")
    assert evidence().recent_load_sentences() == []
