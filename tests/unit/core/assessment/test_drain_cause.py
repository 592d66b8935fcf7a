import pytest

from burstwatch.core.alerts.drain_message import (
    describe_drain,
    describe_drain_cause,
    format_drain_cause,
    format_drain_start,
)
from burstwatch.core.assessment.drain_cause import (
    BALANCE_HISTORY_PERIOD_S,
    BALANCE_HISTORY_S,
    OPERATIONS_HISTORY_S,
    DrainEpisode,
    DrainMetrics,
    compare_same_hour,
    find_drain,
    measure_operations,
)
from burstwatch.core.buckets.series import Series
from support.builders.core_values import at, balances, draining_to

DAY_S = 24 * 3600
HOUR_S = 3600
NOW_S = at("12:00")


def falling(*, calm: int, minutes: int, per_minute: float = 3, start_pct: float = 100) -> Series:
    """A balance that is constant and then falls, to the minute that begins at 11:58."""
    values = [start_pct] * calm + [start_pct - per_minute * (item + 1) for item in range(minutes)]
    return balances(*values)


def a_fall(
    began: str = "11:30", ended: str = "11:59", pct: float = 60, *, is_longer: bool = False
) -> DrainEpisode:
    return DrainEpisode(
        began_at_s=int(at(began)),
        ended_at_s=int(at(ended)),
        from_pct=100,
        to_pct=100 - pct,
        began_before_samples=is_longer,
    )


def test_a_day_is_compared_with_the_seven_before_it_and_the_operations_of_an_hour():
    assert (BALANCE_HISTORY_S, OPERATIONS_HISTORY_S) == (8 * DAY_S, HOUR_S)


# when it began


def test_a_drain_begins_after_the_last_peak():
    # 29 minutes of fall, the first of which begins at 11:30
    assert find_drain(falling(calm=31, minutes=29)) == DrainEpisode(
        began_at_s=int(at("11:30")),
        ended_at_s=int(at("11:59")),
        from_pct=100,
        to_pct=13,
        began_before_samples=False,
    )


@pytest.mark.parametrize(
    ("balance", "began"),
    [
        # a slow loss before it is another story
        (balances(*[90 - 0.1 * m for m in range(31)], *[87 - 3 * m for m in range(1, 20)]), "11:40"),
        # a refill before it is none of it
        (balances(*[40 + m for m in range(31)], *[70 - 2 * m for m in range(1, 20)]), "11:40"),
        # a saw of five minutes goes down by 4 % each
        (balances(*[100] * 20, *[96 - 4 * (m // 5) + (m % 5) / 4 for m in range(30)]), "11:29"),
        # a pause of five minutes does not end it
        (balances(*[100] * 15, *[100 - 3 * m for m in range(1, 20)], *[43] * 5, *range(40, 22, -3)), "11:29"),
    ],
)
def test_the_drain_starts_where_the_present_rate_began(balance, began):
    fall = find_drain(balance)
    assert abs(fall.began_at_s - at(began)) <= 60
    assert not fall.began_before_samples


def test_a_drain_that_started_before_the_samples_is_longer():
    fall = find_drain(draining_to(18, 3, count=20))
    assert (fall.began_before_samples, fall.began_at_s) == (True, at("11:40"))


def test_a_drain_to_empty_ends_where_the_bucket_was_empty():
    fall = find_drain(balances(*[100] * 10, *[100 - 5 * m for m in range(1, 21)], *[0] * 15))
    assert (fall.began_at_s, fall.ended_at_s, fall.to_pct) == (at("11:24"), at("11:44"), 0)


@pytest.mark.parametrize(
    "balance",
    [
        balances(),
        balances(50),
        balances(*[50] * 60),
        balances(*[0] * 60),
        draining_to(80, -0.5),
        balances(*[80 - m for m in range(10)], *[71 + m for m in range(30)]),
    ],
)
def test_without_a_decrease_there_is_no_drain(balance):
    assert find_drain(balance) is None


def test_nothing_is_known_before_a_long_gap():
    whole = falling(calm=31, minutes=29)
    cut = Series(whole.starts_at_s[:25] + whole.starts_at_s[40:], whole.values[:25] + whole.values[40:])
    fall = find_drain(cut)
    assert (fall.began_before_samples, fall.began_at_s) == (True, cut.starts_at_s[25] + 60)


# by what


def test_only_operations_during_the_drain_count():
    # 100 reads and 300 writes a second in the fall, nothing before; 4 KiB and 64 KiB each
    before, during = 31, 28
    fall = a_fall(began="11:31", ended="11:59")
    traces = DrainMetrics(
        read_ops=balances(*[0] * before, *[6_000] * during),
        write_ops=balances(*[0] * before, *[18_000] * during),
        read_bytes=balances(*[0] * before, *[6_000 * 4 * 1024] * during),
        write_bytes=balances(*[0] * before, *[18_000 * 64 * 1024] * during),
    )
    result = measure_operations(fall, traces, now_s=NOW_S)
    assert (result.read_iops, result.write_iops, result.read_kib, result.write_kib) == (100, 300, 4, 64)


def test_operations_are_of_the_minutes_of_which_reads_and_writes_are_known():
    many, few = balances(*[60] * 20), balances(*[120] * 5)
    fall = a_fall()
    fewer_writes = measure_operations(fall, DrainMetrics(read_ops=many, write_ops=few), now_s=NOW_S)
    assert (fewer_writes.minutes, fewer_writes.read_iops, fewer_writes.write_iops) == (5, 1, 2)
    fewer_reads = measure_operations(fall, DrainMetrics(read_ops=few, write_ops=many), now_s=NOW_S)
    assert (fewer_reads.minutes, fewer_reads.read_iops, fewer_reads.write_iops) == (5, 2, 1)


def test_sizes_are_of_the_minutes_of_which_both_are_known():
    ops, moved = balances(*[60] * 20), balances(*[60 * 8 * 1024] * 5)
    result = measure_operations(
        a_fall(), DrainMetrics(read_ops=ops, write_ops=ops, read_bytes=moved), now_s=NOW_S
    )
    assert (result.read_kib, result.write_kib) == (8, None)


def test_the_open_minute_does_not_count():
    ops = balances(*[60] * 5, 6_000)
    result = measure_operations(
        a_fall(ended="12:30"), DrainMetrics(read_ops=ops, write_ops=ops), now_s=at("11:58:30")
    )
    assert result.read_iops == 1


def test_without_operations_there_is_no_cause_to_report():
    assert measure_operations(a_fall(), DrainMetrics(read_ops=balances(60)), now_s=NOW_S) is None


# how often


def history_with_days(
    *drained: int, known: range = range(1, 8), at_hour: float = 11.5, depth: float = 60
) -> Series:
    """Eight days by five minutes; on these days before today it fell for half an hour from this hour on."""
    midnight = int(at("00:00"))
    pairs = []
    for day in known:
        for start_s in range(0, DAY_S, BALANCE_HISTORY_PERIOD_S):
            into_s = start_s - at_hour * HOUR_S
            fell = depth * min(1, max(0, into_s / 1800)) if day in drained and into_s < 4 * HOUR_S else 0
            pairs.append((midnight - day * DAY_S + start_s, 100 - fell))
    return Series.from_pairs(pairs)


@pytest.mark.parametrize(
    ("history", "counted"),
    [
        (history_with_days(), (7, 0)),
        (history_with_days(1, 2, 3, 4, 5, 6, 7), (7, 7)),
        (history_with_days(1, 2, 5), (7, 3)),
        # half an hour earlier or later is the same hour, two hours later is not
        (history_with_days(1, 2, at_hour=12), (7, 2)),
        (history_with_days(1, 2, at_hour=11), (7, 2)),
        (history_with_days(1, 2, at_hour=14), (7, 0)),
        # half as deep is alike, a fifth is not
        (history_with_days(1, 2, depth=31), (7, 2)),
        (history_with_days(1, 2, depth=12), (7, 0)),
        # an unknown day is neither
        (history_with_days(1, 2, known=range(1, 4)), (3, 2)),
        (Series(), (0, 0)),
    ],
)
def test_earlier_days_are_counted_where_they_are_known(history, counted):
    comparison = compare_same_hour(history, a_fall())
    assert (comparison.known_days, comparison.matching_days) == counted


def test_a_day_half_known_is_not_known():
    whole = history_with_days(1, 2, 3)
    torn = [
        (s, v)
        for s, v in zip(whole.starts_at_s, whole.values, strict=True)
        if s % (2 * BALANCE_HISTORY_PERIOD_S)
    ]
    assert compare_same_hour(Series.from_pairs(torn), a_fall()).known_days == 0


def test_a_bucket_that_was_empty_all_the_hour_was_drained_too():
    empty = Series.from_pairs(
        (at("00:00") - DAY_S + s, 0.0) for s in range(0, DAY_S, BALANCE_HISTORY_PERIOD_S)
    )
    comparison = compare_same_hour(empty, a_fall())
    assert (comparison.known_days, comparison.matching_days) == (1, 1)


def test_a_bucket_that_little_emptied_was_drained_too():
    # From 2.4 % to 0.9 %: a fall too small to count, and yet it ran out of credits.
    low = Series.from_pairs(
        (at("00:00") - DAY_S + s, 2.4 if s < 11.5 * HOUR_S else 0.9)
        for s in range(0, DAY_S, BALANCE_HISTORY_PERIOD_S)
    )
    comparison = compare_same_hour(low, a_fall())
    assert (comparison.known_days, comparison.matching_days) == (1, 1)


def day_starts(*earlier_s: int) -> Series:
    """Eight days by five minutes, with a fall like the one of 11:30 this many seconds earlier."""
    began = [int(at("11:30")) - offset_s for offset_s in earlier_s]

    def balance(start_s: int) -> float:
        return min(
            (100 - (start_s - item) / 30 for item in began if 0 <= start_s - item < 1800), default=100.0
        )

    return Series.from_pairs(
        (s, balance(s)) for s in range(int(NOW_S) - 8 * DAY_S, int(NOW_S), BALANCE_HISTORY_PERIOD_S)
    )


@pytest.mark.parametrize(
    ("other_starts", "is_particular"),
    [
        # Of 7 days 2 were alike, so of 21 other hours less than 3 may be: first, middle, last.
        ((), True),
        ((DAY_S + 6 * HOUR_S, 3 * DAY_S + 12 * HOUR_S), True),
        ((DAY_S + 6 * HOUR_S, 3 * DAY_S + 12 * HOUR_S, 7 * DAY_S + 18 * HOUR_S), False),
        # Six hours ago is no other day's, and eight days are not read.
        ((6 * HOUR_S, DAY_S + 6 * HOUR_S, 3 * DAY_S + 12 * HOUR_S), True),
    ],
)
def test_other_hours_are_those_of_the_seven_days_after_which_they_come(other_starts, is_particular):
    comparison = compare_same_hour(day_starts(2 * DAY_S, 5 * DAY_S, *other_starts), a_fall())
    assert (comparison.known_days, comparison.matching_days, comparison.is_hour_specific) == (
        7,
        2,
        is_particular,
    )


def test_a_pattern_at_all_hours_is_not_hour_specific():
    starts_s = range(int(NOW_S) - 8 * DAY_S, int(NOW_S), BALANCE_HISTORY_PERIOD_S)
    saw = Series.from_pairs((start_s, 100 - start_s % HOUR_S / 60) for start_s in starts_s)
    assert compare_same_hour(saw, a_fall(pct=40)) is not None
    assert not compare_same_hour(saw, a_fall(pct=40)).is_hour_specific
    assert compare_same_hour(history_with_days(1, 2, 3), a_fall()).is_hour_specific


@pytest.mark.parametrize(
    "fall", [a_fall(pct=1.9), a_fall(is_longer=True), a_fall(began="00:00", ended="12:01")]
)
def test_a_drain_without_an_hour_is_not_compared(fall):
    assert compare_same_hour(history_with_days(1, 2), fall) is None


# in words


def sentences(fall=None, traces=None, *, reads=None, writes=None):
    reported = describe_drain(fall) if traces is None else describe_drain_cause(fall, traces, now_s=NOW_S)
    evidence = {"consumed_read_iops": reads, "consumed_write_iops": writes, "drain": reported}
    return format_drain_cause(evidence, at_s=int(NOW_S))


def per_second(
    reads: float, writes: float, read_kib: float = 16, write_kib: float = 16, **changes
) -> DrainMetrics:
    served = {"read": reads * 60, "write": writes * 60}
    ops = {f"{kind}_ops": balances(*[count] * 29) for kind, count in served.items()}
    sizes = {"read": read_kib * 1024, "write": write_kib * 1024}
    moved = {f"{kind}_bytes": balances(*[count * sizes[kind]] * 29) for kind, count in served.items()}
    return DrainMetrics(**(ops | moved | changes))


@pytest.mark.parametrize(
    ("traces", "served"),
    [
        (per_second(750, 2_250), "750 reads/s and 2,250 writes/s of 16 KiB each (75 % writes)"),
        (per_second(2_250, 750, 4, 64), "2,250 reads/s of 4 KiB and 750 writes/s of 64 KiB (75 % reads)"),
        (per_second(0, 3_000), "3,000 writes/s of 16 KiB and no reads"),
        (per_second(3_000, 0, 0.5), "3,000 reads/s of 0.5 KiB and no writes"),
        (per_second(2, 2_998), "2 reads/s and 2,998 writes/s of 16 KiB each (nearly all writes)"),
        (
            per_second(5, 5, read_bytes=Series(), write_bytes=Series()),
            "5 reads/s and 5 writes/s (50 % writes)",
        ),
        (per_second(0, 0), "0 reads/s and 0 writes/s"),
    ],
)
def test_what_drained_it_in_words(traces, served):
    assert sentences(a_fall(), traces) == [
        f"The drain began at 11:30 UTC, at 100.0 %; since then it served {served}."
    ]


@pytest.mark.parametrize(
    ("history", "sentence"),
    [
        (history_with_days(1, 2, 3, 4, 5), "The same drain at this hour on 5 of the last 7 days."),
        (history_with_days(*range(1, 8)), "The same drain at this hour on each of the last 7 days."),
        (history_with_days(), "No such drain at this hour on any of the last 7 days."),
        (
            history_with_days(1, known=range(1, 5)),
            "The same drain at this hour on 1 of the 4 earlier days with data.",
        ),
        (
            history_with_days(known=range(1, 5)),
            "No such drain at this hour on any of the 4 earlier days with data.",
        ),
        (
            history_with_days(1, known=range(1, 2)),
            "The same drain at this hour on the only earlier day with data.",
        ),
        (
            history_with_days(known=range(1, 2)),
            "No such drain at this hour on the only earlier day with data.",
        ),
    ],
)
def test_how_often_it_did_so_in_words(history, sentence):
    assert sentences(a_fall(), per_second(1, 1, balance_history=history))[1:] == [sentence]


def test_operations_of_the_end_of_a_long_drain_are_reported_as_such():
    # by the minute no more than an hour is read, 29 minutes here; the drain began three hours ago
    fall = a_fall(began="09:00")
    assert sentences(fall, per_second(750, 2_250)) == [
        "The drain began at 09:00 UTC, at 100.0 %; in its last 29 min it served 750 reads/s and"
        " 2,250 writes/s of 16 KiB each (75 % writes)."
    ]
    assert describe_drain_cause(fall, per_second(750, 2_250), now_s=NOW_S)["served_min"] == 29


def test_unknown_days_are_not_mentioned():
    assert len(sentences(a_fall(), per_second(1, 1))) == 1


def test_what_happens_at_other_hours_as_often_is_reported_as_such():
    reported = describe_drain_cause(
        a_fall(), DrainMetrics(balance_history=history_with_days(1, 2)), now_s=NOW_S
    ) | {"is_particular": False}
    text = format_drain_cause({"drain": reported}, at_s=int(NOW_S))
    assert text[-1] == "The same drain at this hour on 2 of the last 7 days, and as often at other hours."


def test_unread_metrics_are_reported_and_the_others_used():
    traces = per_second(0, 3_000, read_error="cloudwatch:GetMetricData: ReadTimeoutError")
    assert sentences(a_fall(), traces)[-1] == (
        "What drained it was not read in full: cloudwatch:GetMetricData: ReadTimeoutError."
    )
    assert sentences(a_fall(), DrainMetrics(read_error="x: y"), reads=0.0, writes=300.0) == [
        "The drain began at 11:30 UTC, at 100.0 %.",
        "Current load: 300 writes/s and no reads.",
        "What drained it was not read in full: x: y.",
    ]


def test_before_the_read_the_start_and_the_current_load_are_reported():
    assert sentences(a_fall(), reads=100.0, writes=300.0) == [
        "The drain began at 11:30 UTC, at 100.0 %.",
        "Current load: 100 reads/s and 300 writes/s (75 % writes).",
    ]
    assert sentences(None, reads=100.0, writes=300.0) == [
        "Current load: 100 reads/s and 300 writes/s (75 % writes)."
    ]
    assert sentences(None) == []


def test_a_long_drain_is_described_with_its_start_date():
    longer = a_fall(began="11:00", is_longer=True)
    assert sentences(longer) == ["The drain began at 11:00 UTC or earlier."]
    # 100 % until two days ago at 06:00, then 1 % an hour
    starts_s = range(int(NOW_S) - 8 * DAY_S, int(NOW_S) - 300, BALANCE_HISTORY_PERIOD_S)
    began_s = int(at("06:00")) - 2 * DAY_S
    days = Series.from_pairs(
        (s, 100 - max(0, s + BALANCE_HISTORY_PERIOD_S - began_s) / HOUR_S) for s in starts_s
    )
    assert sentences(longer, DrainMetrics(balance_history=days)) == [
        "The drain began at 06:00 Wed UTC, at 100.0 %."
    ]


def test_only_a_longer_drain_is_searched_for_in_earlier_days():
    # By the days it fell since 09:00.
    starts_s = range(int(NOW_S) - 8 * DAY_S, int(NOW_S) - 300, BALANCE_HISTORY_PERIOD_S)
    days = Series.from_pairs(
        (s, 100 - max(0, s + BALANCE_HISTORY_PERIOD_S - int(at("09:00"))) / 300) for s in starts_s
    )
    began = {
        is_longer: describe_drain_cause(
            a_fall(is_longer=is_longer), DrainMetrics(balance_history=days), now_s=NOW_S
        )["began_at"]
        for is_longer in (False, True)
    }
    assert began == {False: "2026-11-20T11:30:00Z", True: "2026-11-20T09:00:00Z"}


def test_days_that_show_no_earlier_beginning_leave_it_as_it_is():
    # By the days it fell since 11:45 only.
    starts_s = range(int(NOW_S) - 8 * DAY_S, int(NOW_S) - 300, BALANCE_HISTORY_PERIOD_S)
    later = Series.from_pairs(
        (s, 100 - max(0, s + BALANCE_HISTORY_PERIOD_S - int(at("11:45"))) / 20) for s in starts_s
    )
    longer = a_fall(is_longer=True)
    assert find_drain(later, period_s=BALANCE_HISTORY_PERIOD_S).began_at_s > longer.began_at_s
    for days in (later, Series()):
        reported = describe_drain_cause(longer, DrainMetrics(balance_history=days), now_s=NOW_S)
        assert (reported["began_at"], reported["is_longer"]) == ("2026-11-20T11:30:00Z", True)


# in words that stand alone


def test_the_drain_start_is_reported_alone():
    assert format_drain_start(a_fall(), now_s=NOW_S) == ["The drain began at 11:30 UTC, at 100.0 %"]
    assert format_drain_start(None, now_s=NOW_S) == []
