import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstwatch.core.assessment.host_stall import MAX_TASKS, Stall, StallError

NOW_S = 1_795_176_000
DETAIL = {
    "schema": "burstwatch.probe/v1",
    "instance_id": "i-0123456789abcdef0",
    "volume_id": "vol-0123456789abcdef0",
    "verdict": "crit",
    "cause": "throttled",
    "total_s": 8.25,
    "started_at": "2026-11-20T12:00:00Z",
    "top": [{"comm": "systemd-udevd", "wchan": "blk_mq_get_tag", "count": 3}],
}


def a_stall(*, received_s=NOW_S + 8.25, **changes):
    return Stall.from_detail(DETAIL | changes, now_s=received_s)


def test_a_report_is_read_and_comes_back_from_the_ledger():
    stall = a_stall()
    assert (stall.volume_id, stall.total_s, stall.started_at_s) == ("vol-0123456789abcdef0", 8.25, NOW_S)
    assert Stall.from_document(stall.to_document()) == stall


def test_a_report_is_reported_with_its_age_and_the_tasks_that_are_stuck():
    text = a_stall().to_sentences(NOW_S + 8.25 + 125)
    assert text == [
        "Its host i-0123456789abcdef0 reported 2 min ago: a synchronous write took 8.2 s (crit: throttled).",
        "Stuck in state D there: 3 systemd-udevd in blk_mq_get_tag.",
    ]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("schema", "burstwatch.probe/v2"),
        ("instance_id", "i-0123456789abcdef0; rm"),
        ("instance_id", None),
        ("volume_id", "vol-123"),
        ("volume_id", ["vol-0123456789abcdef0"]),
        ("verdict", ""),
        ("verdict", "ok"),
        ("verdict", "unknown"),
        ("cause", 7),
        ("cause", "URGENT: call +1-900-555 now"),
        ("verdict", ["crit"]),
        ("total_s", -1),
        ("total_s", float("nan")),
        ("total_s", 309),  # it began 8.25 s ago, and 300 s are for its clock
        ("total_s", 2_592_000),
        ("total_s", True),
        ("total_s", "8"),
        ("started_at", "yesterday"),
        ("started_at", "2026-11-20T12:00:00"),
        ("started_at", "2026-11-20T12:06:00Z"),
        ("started_at", 1_795_176_000),
        ("started_at", "2025-11-20T12:00:00Z"),
        ("top", "systemd-udevd"),
    ],
)
def test_a_report_that_is_not_one_is_refused_by_the_name_of_what_is_wrong(key, value):
    with pytest.raises(StallError, match=f"^{key} is "):
        a_stall(**{key: value})


def test_every_fault_of_a_report_is_named_at_once():
    with pytest.raises(StallError) as exc_info:
        Stall.from_detail({}, now_s=NOW_S)
    assert str(exc_info.value).count(" is None, not ") == len(DETAIL) - 1


def test_a_fault_states_what_was_reported_and_what_should_have_been():
    with pytest.raises(StallError) as exc_info:
        a_stall(verdict="ok", cause="")
    assert str(exc_info.value) == (
        "verdict is 'ok', not one of warn, crit;"
        " cause is '', not one of throttled, exhausted_idle, stalled, frozen_or_lock, io_error"
    )


def test_what_a_host_writes_is_cut_short_and_made_inert():
    stall = a_stall(
        top=[{"comm": "a\nb", "wchan": "\u202eevil", "count": 1}] * 50,
    )
    assert len(stall.top) == MAX_TASKS
    assert (stall.top[0].comm, stall.top[0].wchan) == ("a?b", "?evil")


def test_an_invalid_task_hides_no_other():
    good = {"comm": "etcd", "wchan": "", "count": 2}
    assert [task.comm for task in a_stall(top=[None, {"comm": 1}, {**good, "count": -1}, good]).top] == [
        "etcd"
    ]


def test_a_probe_that_only_watched_reports_no_time_of_a_write():
    stall = a_stall(total_s=None)
    assert stall.total_s is None
    assert stall.to_facts(NOW_S)["total_s"] is None
    assert Stall.from_document(stall.to_document()) == stall
    assert stall.to_sentences(NOW_S)[0] == "Its host i-0123456789abcdef0 reported 0 s ago: crit: throttled."


def test_a_host_whose_clock_is_a_little_ahead_reports_of_now():
    assert a_stall(started_at="2026-11-20T12:04:59Z", received_s=NOW_S).started_at_s == NOW_S


def test_one_report_a_minute_is_taken_by_our_clock_and_none_that_adds_nothing():
    first = a_stall(received_s=NOW_S + 1000, total_s=None)
    at_once = a_stall(received_s=NOW_S + 1059, total_s=900)  # whatever time it claims
    assert at_once.is_repeat_of(first)
    assert not a_stall(received_s=NOW_S + 1060, total_s=900).is_repeat_of(first)
    assert a_stall(received_s=NOW_S + 1300, total_s=None).is_repeat_of(
        first
    )  # the same event, delivered twice


def test_a_report_of_a_clock_that_is_ahead_silences_no_later_one():
    ahead = a_stall(received_s=NOW_S, started_at="2026-11-20T12:04:59Z", total_s=299)
    assert ahead.seen_at_s == NOW_S
    honest = a_stall(received_s=NOW_S + 61, started_at="2026-11-20T12:00:50Z", total_s=8)
    assert not honest.is_repeat_of(ahead)


def test_a_report_from_a_ledger_that_did_not_keep_its_time_of_arrival_is_read():
    document = a_stall().to_document()
    del document["heard_at_s"]
    assert Stall.from_document(document).received_at_s == 0


@pytest.mark.parametrize(
    ("changes", "received_s"),
    [
        ({"total_s": 0}, NOW_S),
        ({"total_s": 308.25}, NOW_S + 8.25),
        ({"started_at": "2026-11-20T12:05:00Z"}, NOW_S),
        ({"total_s": 30 * 86_400}, NOW_S + 30 * 86_400),
    ],
)
def test_a_report_at_a_limit_is_valid(changes, received_s):
    assert a_stall(**changes, received_s=received_s).received_at_s == int(received_s)


@pytest.mark.parametrize(
    "changes", [{"started_at": "2026-11-20T12:05:01Z", "total_s": 0}, {"total_s": 30 * 86_400 + 1}]
)
def test_a_report_beyond_a_limit_is_invalid(changes):
    with pytest.raises(StallError):
        a_stall(**changes, received_s=NOW_S)
    with pytest.raises(StallError):
        a_stall(total_s=None, received_s=NOW_S + 30 * 86_400 + 1)


@pytest.mark.parametrize(
    ("count", "is_one"), [(0, False), (1, True), (1_000_000, True), (1_000_001, False), (True, False)]
)
def test_the_maximum_number_of_tasks_may_be_stuck(count, is_one):
    result = a_stall(top=[{"comm": "etcd", "wchan": "", "count": count}]).top
    assert [task.count for task in result] == [count] * is_one


def test_ten_tasks_are_kept_three_are_named_and_without_any_no_sentence_is_written():
    stall = a_stall(top=[{"comm": f"t{number}", "wchan": "w", "count": 1} for number in range(11)])
    assert len(stall.top) == 10
    assert stall.to_sentences(NOW_S)[1] == "Stuck in state D there: 1 t0 in w, 1 t1 in w, 1 t2 in w."
    assert len(a_stall(top=[]).to_sentences(NOW_S)) == 1


@pytest.mark.parametrize(("later_s", "age_s", "expected"), [(-100, 0, "0 s ago"), (100, 100, "100 s ago")])
def test_its_age_counts_from_when_the_host_last_saw_it_and_is_never_less_than_nothing(
    later_s, age_s, expected
):
    for total_s in (8.0, None):
        stall = a_stall(total_s=total_s)
        last_observed_s = NOW_S + (total_s or 0)
        assert stall.to_facts(last_observed_s + later_s)["age_s"] == age_s
        assert expected in stall.to_sentences(last_observed_s + later_s)[0]


def test_it_describes_the_present_for_an_hour():
    stall = a_stall(total_s=None)
    assert stall.is_fresh(NOW_S + 3_599)
    assert not stall.is_fresh(NOW_S + 3_600)


@given(
    st.dictionaries(
        st.sampled_from(list(DETAIL)),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=50),
            lambda inner: st.lists(inner, max_size=3),
            max_leaves=4,
        ),
    )
)
def test_whatever_a_host_sends_is_a_report_or_a_named_fault(changes):
    try:
        stall = Stall.from_detail(DETAIL | changes, now_s=NOW_S)
    except StallError:
        return
    assert Stall.from_document(stall.to_document()) == stall
    assert all(sentence.isprintable() for sentence in stall.to_sentences(NOW_S))
