"""What the pictures of the tests show, in characters and as images."""

from datetime import timedelta

from burstctl.plot.load import BucketPlot
from burstctl.timeline.drawn_bucket import drawn_bucket
from burstctl.timeline.timeline import TimelineInput, build_timeline
from burstctl.timeline.window_intervals import WindowInterval
from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.assessment.assess_resource import BucketReading, assess_resource
from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.metric_history import MetricHistory
from burstwatch.core.instances.instance_buckets import INSTANCE_THROUGHPUT
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.policy.policy import Policy
from burstwatch.core.watch.decision import Decision
from support.builders.core_values import (
    a_decision,
    a_volume,
    an_assessment,
    an_instance,
    at,
)
from support.builders.history import (
    VOLUME_ID,
    a_flip_entry,
    a_history,
    a_hold,
    a_level,
    a_round_trip,
    a_stall,
    an_alert_entry,
    falling,
    minutes,
)

VOLUME_FIELDS = {"volume_id": VOLUME_ID, "instance_id": "i-0fedcba9876543210", "tags": {"Name": "ci-7"}}


def plotted_of(
    history: MetricHistory, *, start: str, now: str, volume=None, state=None, **fields
) -> BucketPlot:
    """The picture's values as they are read, judged by the core."""
    volume = volume or a_volume(**VOLUME_FIELDS)
    assessment = an_assessment(history.balance, volume=volume, now=now)
    sources = TimelineInput(
        drawn=drawn_bucket(assessment), history=history, start_s=int(at(start)), now_s=at(now),
        assessment=assessment,
        state=state, **fields,
    )  # fmt: skip
    return plot_of(sources, a_decision(assessment, state, now=now))


def plot_of(sources: TimelineInput, decision: Decision) -> BucketPlot:
    return BucketPlot(
        timeline=build_timeline(sources),
        decision=decision,
        region="us-east-1",
        ledger="sqlite:ledger",
        lookback=timedelta(seconds=sources.now_s - sources.start_s),
        holds=(),
        failures=(),
        metrics_requested=3,
        api_calls={},
    )


def a_draining_instance() -> BucketPlot:
    """The throughput bucket of an m5.large: 125 MiB/s since 10:00, of which it sustains 77."""
    starts = tuple(int(at("06:00")) + 300 * n for n in range(71))
    is_busy = [start_s >= at("10:00") for start_s in starts]
    balance = tuple(100.0 - 0.16 * max(0, n - 47) * 5 for n in range(71))
    instance = an_instance(instance_id="i-0fedcba9876543210", tags={"Name": "build-host"})
    series = Series(starts, balance, 300)
    assessment = assess_resource(
        instance,
        INSTANCE_THROUGHPUT,
        BucketReading(balance=series),
        now_s=at("12:00"),
        telemetry=Policy().telemetry,
    )
    bytes_ = Series(starts, tuple(300 * 62.5 * 2**20 if busy else 0.0 for busy in is_busy), 300)
    return plot_of(
        TimelineInput(
            drawn=drawn_bucket(assessment),
            history=MetricHistory(period_s=300, balance=series, read_bytes=bytes_, write_bytes=bytes_),
            start_s=int(at("06:00")),
            now_s=at("12:00"),
            assessment=assessment,
        ),
        a_decision(assessment),
    )


def a_slow_disk() -> BucketPlot:
    """125 GiB of sc1: a limit with a decimal, and a load that is always at it."""
    volume = a_volume(125, **(VOLUME_FIELDS | {"volume_type": "sc1"}))
    balance = minutes("11:00", *[100.0 - n for n in range(59)])
    assessment = an_assessment(balance, volume=volume)
    load = Series(balance.starts_at_s, (60 * 9.7 * 2**20,) * len(balance))
    return plot_of(
        TimelineInput(
            drawn=drawn_bucket(assessment),
            history=MetricHistory(period_s=60, balance=balance, write_bytes=load),
            start_s=int(at("11:00")),
            now_s=at("12:00"),
            assessment=assessment,
        ),
        a_decision(assessment),
    )


def a_bad_day() -> BucketPlot:
    """All that can be on a picture: at 1,200/s it loses 900 credits a second, 1 % a minute, from 10:10 on."""
    calm, drain = [100.0] * 190, [100.0 - n for n in range(60)]
    balance = minutes("07:00", *calm, *drain, skip=range(60, 95))
    busy = Series(
        balance.starts_at_s, tuple(60.0 * (40 if at_s < at("10:10") else 900) for at_s in balance.starts_at_s)
    )
    reads = Series(balance.starts_at_s, tuple(value / 3 for value in busy.values))
    entries = [
        a_level("10:20", "ok", "watch"),
        a_level("10:45", "watch", "warning"),
        an_alert_entry("10:45", AlertKind.DRAINING, "warning"),
        a_hold("10:50", "13:00"),
        a_flip_entry(EntryKind.REFUSED, "10:55", "is not moved to gp3: held"),
        a_stall("11:00", 150),
    ]
    return plotted_of(
        MetricHistory(period_s=60, balance=balance, read_ops=reads, write_ops=busy),
        start="06:12",
        now="11:12",
        entries=entries,
        windows=[WindowInterval(window="release", start_s=at("08:30"), end_s=at("10:00"))],
    )


def a_flipped_and_returned_volume() -> BucketPlot:
    """It drains by 1 % a minute from nine, is flipped at ten, on gp3 until two, and comes back empty."""
    pairs = [*falling("07:00", 100, 0, 120), *falling("09:00", 100, 1, 61), *falling("14:34", 0, -0.1, 85)]
    balance = Series.from_pairs((sample.start_at_s, sample.value) for sample in pairs)
    return plotted_of(a_history(balance), start="07:00", now="16:00", entries=a_round_trip())


def exhausted() -> BucketPlot:
    """Empty since half past ten, and throttled to its baseline of 300."""
    return plotted_of(
        a_history(falling("09:00", 90, 1, 178), reads=75, writes=225), start="09:00", now="12:00"
    )
