import ddprobe
import pytest
from ddprobe import Delta, Facts, Tasks, judge

LINES = ddprobe.Thresholds(warn_s=1.0, crit_s=5.0, ratio=10.0)


def a_disk(**changes) -> Delta:
    """A healthy disk with nothing but our five lite writes."""
    facts = {
        "disk": "nvme1n1", "seconds": 1.0, "done": 10, "writes": 10, "flushes": 5, "written_kib": 20,
        "await_ms": 0.5, "in_flight": 0, "in_flight_max": 1, "queue": 0.0, "busy_pct": 1.0, "quiet_s": 0.0,
    }  # fmt: skip
    return Delta(**(facts | changes))


def tasks(**changes) -> Tasks:
    facts = {
        "passes": 10, "pass_ms": 1.0, "hidden": False, "most": 1, "most_here": 1, "distinct": 1,
        "main_only": 1, "stuck": 0, "stuck_here": 0, "stuck_wchan": "", "slow": 0, "unattributed": 0,
        "own_seen": 10, "own_in_d": 10, "own_wchan": "folio_wait_bit", "top": [],
    }  # fmt: skip
    return Tasks(**(facts | changes))


def facts(level: str = "lite", **changes) -> Facts:
    own = {"lite": 10, "classic": 86, "passive": 0}[level]
    usual = {
        "level": level, "completed": True, "given_up": False, "elapsed_s": 0.003, "writes_s": (0.0005,) * 5,
        "bulk_s": (), "append_s": (), "failure": None, "healthy_s": 0.0005, "healthy_bulk_s": 0.002,
        "disk": a_disk(), "own_ios": own, "tasks": None, "cpu_wait_s": 0.0, "cpu_pressure_pct": 0.0,
        "measured_s": None,
    }  # fmt: skip
    return Facts(**(usual | changes))


AT_THE_LIMIT = {"done": 2000, "await_ms": 455.0, "in_flight": 46, "in_flight_max": 50, "queue": 46.0}
PACED = {"done": 70, "await_ms": 9.0, "in_flight_max": 4, "queue": 1.0, "busy_pct": 100.0}
STANDING = {"done": 0, "await_ms": None, "in_flight": 4, "in_flight_max": 4, "queue": 4.0, "quiet_s": 4.0}
NOTHING = {"done": 0, "await_ms": None, "in_flight_max": 0}

STUCK = {"stuck": 1, "stuck_here": 1, "stuck_wchan": "folio_wait_bit"}

CASES = {
    "a healthy write": (facts(), "ok", "ok"),
    "the seed incident, one write": (
        facts(elapsed_s=1.9, writes_s=(0.97, 0.97), disk=a_disk(**AT_THE_LIMIT)),
        "crit",
        "throttled",
    ),
    "the seed incident, dd": (
        facts("classic", elapsed_s=22.4, disk=a_disk(**AT_THE_LIMIT)),
        "crit",
        "throttled",
    ),
    "the same with four beside it": (
        facts("classic", elapsed_s=2.4, disk=a_disk(**AT_THE_LIMIT | {"await_ms": 45.0, "queue": 8.2})),
        "warn",
        "throttled",
    ),
    "3,000 IOPS and 48 waiting is busy, not sick": (
        facts(elapsed_s=0.1, writes_s=(0.032,) * 5, disk=a_disk(done=3000, await_ms=16.0, queue=48.0)),
        "ok",
        "ok",
    ),
    "exhausted and idle, dd 14 times its median": (
        facts("classic", elapsed_s=0.5, writes_s=(0.05,) * 10, healthy_s=0.035, disk=a_disk(**PACED)),
        "warn",
        "exhausted_idle",
    ),
    "exhausted and idle, writes paced at 100 a second": (
        facts(writes_s=(0.0008, 0.0037, 0.0101, 0.01, 0.01), elapsed_s=0.035, disk=a_disk(await_ms=5.0)),
        "warn",
        "exhausted_idle",
    ),
    "exhausted and idle, where ten operations are let through at once": (
        facts(
            writes_s=(
                0.001,
                0.0004,
                0.0004,
                0.0004,
                0.1,
                0.0004,
                0.0004,
                0.0004,
                0.0004,
                0.098,
                0.0004,
                0.0004,
            ),
            elapsed_s=0.2,
            disk=a_disk(await_ms=9.0),
        ),
        "warn",
        "exhausted_idle",
    ),
    "two slow writes among many quick ones are noise": (
        facts(writes_s=(0.0005,) * 14 + (0.03, 0.02), elapsed_s=0.06, disk=a_disk(await_ms=2.0)),
        "ok",
        "ok",
    ),
    "one slow write among quick ones is noise": (
        facts(writes_s=(0.0005, 0.0005, 0.0005, 0.09, 0.0005), elapsed_s=0.093),
        "ok",
        "ok",
    ),
    "ten times the median of a fast disk is still fast": (
        facts(writes_s=(0.002,) * 5, healthy_s=0.0001),
        "ok",
        "ok",
    ),
    "slow without the disk being slow": (
        facts(writes_s=(0.02,) * 5, elapsed_s=0.1, disk=a_disk(await_ms=0.3)),
        "ok",
        "not_this_disk",
    ),
    "no processor for us": (
        facts("classic", elapsed_s=3.0, cpu_wait_s=2.8, tasks=tasks(own_in_d=1)),
        "warn",
        "not_this_disk",
    ),
    "a total stall": (
        facts(completed=False, elapsed_s=5.1, writes_s=(), disk=a_disk(**STANDING), tasks=tasks()),
        "crit",
        "stalled",
    ),
    "a stall in the middle of a dd that had begun well": (
        facts("classic", completed=False, elapsed_s=30, disk=a_disk(**STANDING | {"done": 40})),
        "crit",
        "stalled",
    ),
    "a frozen file system": (
        facts(
            completed=False,
            elapsed_s=5.1,
            writes_s=(),
            disk=a_disk(**NOTHING),
            tasks=tasks(own_wchan="percpu_rwsem_wait"),
        ),
        "crit",
        "frozen_or_lock",
    ),
    "a frozen file system beside a busy one": (
        facts(
            completed=False, elapsed_s=5.1, disk=a_disk(done=900), tasks=tasks(own_wchan="percpu_rwsem_wait")
        ),
        "crit",
        "frozen_or_lock",
    ),
    "a frozen file system, without the right to see where we wait": (
        facts(
            completed=False, elapsed_s=5.1, writes_s=(), disk=a_disk(**NOTHING), tasks=tasks(own_wchan="?")
        ),
        "crit",
        "frozen_or_lock",
    ),
    "1 MiB/s and no other load": (
        facts(bulk_s=(0.65, 1.0, 1.0), elapsed_s=2.7, disk=a_disk(await_ms=400.0, queue=3.9)),
        "crit",
        "exhausted_idle",
    ),
    "5.4 MB/s and no other load": (
        facts(bulk_s=(0.056, 0.194, 0.194), elapsed_s=0.5, disk=a_disk(await_ms=80.0, queue=3.9)),
        "warn",
        "exhausted_idle",
    ),
    "a throughput limit too high for the line of 1 s, many times the healthy median": (
        facts(bulk_s=(0.03, 0.05, 0.05), elapsed_s=0.2, disk=a_disk(await_ms=30.0, queue=3.0)),
        "warn",
        "exhausted_idle",
    ),
    "the same, where no healthy median is known": (
        facts(
            bulk_s=(0.03, 0.05, 0.05),
            healthy_bulk_s=None,
            elapsed_s=0.2,
            disk=a_disk(await_ms=30.0, queue=3.0),
        ),
        "ok",
        "ok",
    ),
    "a throughput limit that others wait at": (
        facts(bulk_s=(1.0, 1.0), elapsed_s=2.0, disk=a_disk(await_ms=900.0, queue=12.0)),
        "crit",
        "throttled",
    ),
    "held above the device": (
        facts(completed=False, elapsed_s=5.1, writes_s=(), disk=a_disk(**NOTHING), tasks=tasks()),
        "crit",
        "stalled",
    ),
    "held above the device, after a last I/O": (
        facts(completed=False, elapsed_s=5.1, writes_s=(), disk=a_disk(done=1), tasks=tasks()),
        "crit",
        "stalled",
    ),
    "a limit so low that a write does not end": (
        facts(
            completed=False, elapsed_s=5.1, disk=a_disk(done=9, await_ms=40.0, busy_pct=99.0), tasks=tasks()
        ),
        "crit",
        "throttled",
    ),
    "no counters, a write that does not end": (
        facts(completed=False, elapsed_s=5.1, writes_s=(), disk=None, tasks=tasks()),
        "crit",
        "unknown",
    ),
    "no counters, slow writes": (
        facts("classic", elapsed_s=11.0, disk=None, tasks=tasks()),
        "crit",
        "unknown",
    ),
    "no counters, a frozen file system": (
        facts(
            completed=False,
            elapsed_s=5.1,
            writes_s=(),
            disk=None,
            tasks=tasks(own_wchan="__percpu_down_read"),
        ),
        "crit",
        "frozen_or_lock",
    ),
    "no counters, writes many times their median": (
        facts(writes_s=(0.02,) * 5, elapsed_s=0.1, disk=None),
        "ok",
        "ok",
    ),
    "the kernel gave up": (facts(failure=("EIO", "Input/output error")), "crit", "io_error"),
    "remounted read-only": (facts(failure=("EROFS", "Read-only file system")), "crit", "io_error"),
    "no room": (facts(failure=("ENOSPC", "less than 30 MiB free")), "unknown", "not_measured"),
    "passive, healthy and busy": (
        facts("passive", disk=a_disk(done=3000, await_ms=16.0, queue=48.0, in_flight=48)),
        "ok",
        "ok",
    ),
    "passive, at the limit": (facts("passive", disk=a_disk(**AT_THE_LIMIT)), "crit", "throttled"),
    "passive, a short queue at the limit": (
        facts("passive", disk=a_disk(done=100, await_ms=60.0)),
        "warn",
        "throttled",
    ),
    "passive, standing": (facts("passive", disk=a_disk(**STANDING)), "crit", "stalled"),
    "passive, frozen": (
        facts("passive", disk=a_disk(**NOTHING), tasks=tasks(**STUCK | {"stuck_wchan": "percpu_rwsem_wait"})),
        "warn",
        "frozen_or_lock",
    ),
    "passive, held above the device": (
        facts("passive", disk=a_disk(**NOTHING), tasks=tasks(**STUCK)),
        "warn",
        "stalled",
    ),
    "passive, held by a limit of their own while the device works": (
        facts("passive", tasks=tasks(**STUCK)),
        "ok",
        "not_this_disk",
    ),
    "passive, no counters and tasks that wait for this disk": (
        facts("passive", disk=None, tasks=tasks(**STUCK)),
        "warn",
        "unknown",
    ),
    "passive, stuck elsewhere": (facts("passive", tasks=tasks(stuck=3)), "ok", "not_this_disk"),
    "passive, no disk": (facts("passive", disk=None), "unknown", "not_measured"),
    "passive, three slow reads are no basis": (
        facts("passive", disk=a_disk(done=3, await_ms=400.0)),
        "ok",
        "ok",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_verdict_and_a_cause_for(case):
    observed, verdict, cause = CASES[case]
    judged = judge(observed, LINES)
    assert (judged.verdict, judged.cause) == (verdict, cause)
    assert judged.reason


def test_many_quick_writes_in_a_row_are_no_slow_write():
    many = facts(writes_s=(0.012,) * 100, elapsed_s=1.21, healthy_s=0.012)
    assert judge(many, LINES).verdict == "ok"
    assert judge(facts(writes_s=(0.012,) * 100, elapsed_s=2.3), LINES).verdict == "warn"  # open took a second


def test_a_lite_write_estimates_how_long_the_classic_dd_would_take():
    # 970 ms for data and flush are 485 ms each; 49 such waits are 23.8 s, and 23.76 s were measured
    assert facts(writes_s=(0.97, 0.97, 0.97)).dd_s == pytest.approx(23.77, abs=0.01)


def test_a_limit_that_lets_some_through_at_once_is_recognised_by_the_mean():
    # twelve writes in 240 ms are 20 ms each, 10 ms a wait; 49 of them are 0.49 s, and 0.50 s were measured
    assert facts(writes_s=(*(0.0,) * 4, 0.12, *(0.0,) * 4, 0.12, 0.0, 0.0)).dd_s == pytest.approx(0.49)


def test_a_write_that_failed_took_no_time():
    assert facts(failure=("EROFS", "Read-only file system"), completed=False, elapsed_s=0.001).dd_s is None


def test_of_two_measurements_the_worse_is_reported_and_ok_only_if_both_are():
    ok, crit, unknown = (ddprobe.Judgement(verdict=v, cause=v, reason="") for v in ("ok", "crit", "unknown"))
    assert ddprobe.worse(ok, crit) is crit
    assert ddprobe.worse(crit, ok) is crit
    assert ddprobe.worse(ok, unknown) is unknown
    assert ddprobe.worse(unknown, crit) is crit
    assert ddprobe.worse(unknown, unknown) is unknown


def a_plan(**changes) -> ddprobe.Plan:
    usual = {
        "level": "lite", "path": "", "engine": "inproc", "data": "zero", "writes": 6, "bulk": 2,
        "appends": 3, "extra": True, "enough_s": 0.1,
    }  # fmt: skip
    return ddprobe.Plan(**(usual | changes))


def series(disk_of, **changes) -> dict[str, list[float]]:
    """Write as planned on a disk that takes ``disk_of(kind, operations and bytes so far)`` seconds."""
    plan, took_s, done, sent = a_plan(**changes), {kind: [] for kind in ddprobe.BLOCK_BYTES}, 0, 0
    while (kind := ddprobe.next_write(plan, took_s)) is not None:
        size = ddprobe.BLOCK_BYTES[kind]
        operations = max(1, size // ddprobe.MAX_EBS_IO)
        took_s[kind].append(disk_of(kind, done, operations, sent, size))
        done, sent = done + operations, sent + size
    return {kind: seconds for kind, seconds in took_s.items() if seconds}


def healthy(kind, *_):
    return 0.002 if kind == "bulk" else 0.0005


def at_bytes(rate):
    """A throughput limit that lets a tenth of a second's bytes through at once."""

    def takes(kind, _done, _operations, sent, size):
        burst = max(0.0, 0.1 * rate - sent)
        return healthy(kind) + max(0.0, size - burst) / rate

    return takes


def at_iops(rate, burst):
    def takes(kind, done, operations, *_):
        return healthy(kind) + max(0, operations - max(0, burst - done)) / rate

    return takes


def count_by_kind(took_s) -> dict[str, int]:
    return {kind: len(seconds) for kind, seconds in took_s.items()}


def test_a_healthy_disk_gets_the_lite_writes_and_two_of_a_mib():
    assert count_by_kind(series(healthy)) == {"lite": 6, "bulk": 2}
    assert count_by_kind(series(healthy, writes=16)) == {"lite": 16, "bulk": 2}
    assert count_by_kind(series(healthy, enough_s=None)) == {"lite": 6}


def test_with_few_credits_a_slow_disk_gets_no_more_requests_than_a_healthy_one():
    for slow in (at_iops(100, 10), at_bytes(5.4e6)):
        assert count_by_kind(series(slow, extra=False)) == {"lite": 6, "bulk": 2}


@pytest.mark.parametrize("slow", [1, 4, 5])
def test_after_a_lite_write_that_had_to_wait_as_many_more_show_whether_it_was_chance(slow):
    lite_s = [0.0005] * slow + [0.05]
    wanted = ddprobe.wanted_writes(a_plan(), lite_s)
    assert wanted == min(12, 2 * (slow + 2))
    assert (
        ddprobe.wanted_writes(a_plan(), [*lite_s, *[0.0005] * 5, 0.05]) == wanted
    )  # the second changes nothing


def test_two_slow_lite_writes_in_a_row_are_proof():
    assert count_by_kind(series(lambda kind, *_: 1.0 if kind == "bulk" else 0.7)) == {"lite": 2, "bulk": 2}
    assert count_by_kind(series(lambda *_: 2.0)) == {"lite": 2}  # and after 2.5 s nothing more is begun


def test_slow_large_writes_are_repeated_until_two_agree_and_the_burst_is_over():
    took_s = series(at_bytes(5.4e6), writes=6)
    assert count_by_kind(took_s) == {"lite": 6, "bulk": 3, "again": 3}
    assert took_s["bulk"][1] == pytest.approx(took_s["bulk"][2], rel=0.01)


@pytest.mark.parametrize("slow", range(2))
def test_one_large_write_that_is_slow_by_chance_is_no_limit(slow):
    bulk_s = []

    def takes(kind, *_):
        if kind == "bulk":
            bulk_s.append(0.3 if len(bulk_s) == slow else 0.002 + 0.001 * (len(bulk_s) % 2))
            return bulk_s[-1]
        return 0.0005

    took_s = series(takes)
    assert 3 <= len(bulk_s) <= 4
    assert estimate(took_s) < 0.4
    judged = judge(facts(bulk_s=tuple(bulk_s), elapsed_s=0.3), LINES)
    assert judged.verdict == "ok"


def in_a_queue(wait_s):
    """Each request waits behind those of others; a MiB of dd waits for its data and twice for the journal."""
    return lambda kind, *_: {"lite": 1, "bulk": 1.5, "append": 3.5}[kind] * wait_s


@pytest.mark.parametrize(("wait_s", "lites"), [(0.03, 5), (0.08, 5), (0.2, 2), (0.5, 2)])
def test_in_a_queue_the_series_goes_on_with_mib_as_dd_writes_them(wait_s, lites):
    took_s = series(in_a_queue(wait_s), writes=16)
    assert took_s["lite"] == [wait_s] * lites
    assert "bulk" not in took_s
    assert len(took_s["append"]) == (3 if wait_s < 0.5 else 1)  # and after 2.5 s nothing more is begun
    waiting = a_disk(**AT_THE_LIMIT)
    assert estimate(took_s, disk=waiting, elapsed_s=2.0) == pytest.approx(35 * wait_s)


def test_without_credits_or_room_nothing_is_appended_in_a_queue():
    for changes in ({"extra": False, "appends": 0}, {"appends": 0}):
        assert count_by_kind(series(in_a_queue(0.2), **changes)) == {"lite": 2, "bulk": 2}
    assert count_by_kind(series(in_a_queue(0.2), bulk=0, appends=0)) == {"lite": 2}
    assert count_by_kind(series(in_a_queue(0.8))) == {"lite": 2, "bulk": 1}  # each would take seconds


def test_one_append_that_met_another_commit_does_not_count():
    # measured at 200 operations a second with 8 writers: dd took 2.8 s
    observed = facts(writes_s=(0.1,) * 5, append_s=(0.201, 0.299, 1.063), disk=a_disk(**AT_THE_LIMIT))
    assert observed.dd_s == pytest.approx(2.5)


def test_appends_go_behind_each_other_and_the_others_in_place():
    took_s = {"append": [], "classic": []}
    assert [ddprobe.offset_of(kind, took_s) for kind in ("lite", "bulk", "again", "append")] == [
        0,
        0,
        0,
        1 << 20,
    ]
    took_s = {"append": [0.1, 0.1], "classic": [0.1, 0.1]}
    assert [ddprobe.offset_of(kind, took_s) for kind in ("append", "classic")] == [3 << 20, 2 << 20]


def estimate(took_s, **changes) -> float | None:
    series = {"bulk_s": tuple(took_s.get("bulk", ())), "append_s": tuple(took_s.get("append", ()))}
    return facts(writes_s=(*took_s["lite"], *took_s.get("again", ())), **series, **changes).dd_s


def test_single_slow_writes_beside_busy_processors_are_no_slow_disk():
    # measured on a healthy disk with eight busy processes on two cores
    slow_ms = (26, 2, 2, 5, 3, 4, 3, 5, 24, 5, 4, 3, 10, 1, 2, 1)
    observed = {
        "writes_s": tuple(ms / 1000 for ms in slow_ms),
        "bulk_s": (0.007, 0.007),
        "disk": a_disk(await_ms=2.0),
    }
    assert judge(facts(**observed), LINES).verdict == "warn"
    assert judge(facts(**observed, cpu_pressure_pct=60.0), LINES).verdict == "ok"
    paced = {"writes_s": (0.01,) * 16, "disk": a_disk(await_ms=5.0)}
    assert judge(facts(**paced, cpu_pressure_pct=60.0), LINES).cause == "exhausted_idle"


# milliseconds, measured at 5.4 MB/s with eight busy processes on two cores, where dd took 2.06 s
LATE = [
    (
        "10.1 11.9 3.9 10.8 13.1 3.3 4.1 3.7 4.1 12.0 1.4 6.1 9.6 9.5 20.7 3.6 8.2 7.9 4.3 12.3 10.9 4.0 9.2"
        " 14.6 23.6 10.3 5.8 7.7 0.7 1.2 1.7 11.1 0.8 0.2 2.8",
        "61 188 204",
    ),
    ("3.5 1.2 0.9 0.6 0.2 3.0 4.4 1.3 2.0 2.9 4.9 4.1 0.8 0.2 2.5 4.3 4.2 41.8 9.0", "208 232"),
    (
        "13.4 16.1 19.7 4.7 6.0 9.6 3.5 0.9 6.8 16.3 0.9 2.5 28.0 8.4 15.3 11.7 19.9 23.6 4.2 8.5 11.3 19.9"
        " 10.5 5.2 23.9 8.3 11.4 9.3 0.8 2.6 12.0",
        "87 102 242 200",
    ),
    ("10.4 16.1 10.2 5.9 12.1 7.7 31.4 11.5 23.5 6.3 2.7 1.4 0.3 0.4 4.2 6.4 1.1 11.4 0.9", "99 185 268 126"),
]


@pytest.mark.parametrize(("lite_ms", "bulk_ms"), LATE)
def test_small_writes_that_waited_for_a_processor_do_not_hide_a_throughput_limit(lite_ms, bulk_ms):
    writes_s, bulk_s = (tuple(float(ms) / 1000 for ms in text.split()) for text in (lite_ms, bulk_ms))
    disk = a_disk(await_ms=80.0, queue=3.0)
    late = facts(writes_s=writes_s, bulk_s=bulk_s, elapsed_s=1.0, healthy_bulk_s=None, disk=disk)
    assert late.dd_s == pytest.approx(2.06, rel=0.15)
    assert (judge(late, LINES).verdict, late.is_at_least) == ("warn", False)


@pytest.mark.parametrize("writes", [6, 16])
@pytest.mark.parametrize(
    ("rate", "verdict"), [(0.5e6, "crit"), (1 << 20, "crit"), (3e6, "warn"), (5.4e6, "warn"), (8e6, "warn")]
)
def test_the_estimate_follows_a_throughput_limit_and_is_not_deceived_by_its_burst(rate, verdict, writes):
    dd_s = (10_444 * 1024 - 0.1 * rate) / rate
    took_s = series(at_bytes(rate), writes=writes)
    assert estimate(took_s) == pytest.approx(dd_s, rel=0.15)
    judged = judge(facts(bulk_s=tuple(took_s["bulk"]), disk=a_disk(await_ms=100.0, queue=3.0)), LINES)
    assert judged.verdict == verdict


@pytest.mark.parametrize("writes", [6, 16])
@pytest.mark.parametrize("burst", [0, 10])
def test_the_estimate_follows_a_limit_of_operations_and_is_not_deceived_by_its_burst(burst, writes):
    took_s = series(at_iops(100, burst), writes=writes)
    assert estimate(took_s) == pytest.approx((60 - burst) / 100, rel=0.15)


def wants_classic(judged_facts, lines=LINES) -> bool:
    return ddprobe.wants_classic(judged_facts, judge(judged_facts, lines), lines, climb_s=0.1)


@pytest.mark.parametrize(
    ("dd_s", "climbs"), [(0.05, False), (0.65, False), (0.72, True), (0.88, True), (0.99, True), (1.2, True)]
)
def test_an_estimate_less_than_30_percent_below_the_line_is_decided_by_a_measured_dd(dd_s, climbs):
    near = facts(writes_s=(0.0005,) * 16, bulk_s=(dd_s / 10 - 0.001,) * 2, elapsed_s=0.3, healthy_bulk_s=None)
    assert near.dd_s == pytest.approx(dd_s)
    assert wants_classic(near) is climbs


@pytest.mark.parametrize("slow", [0, 1, 5, 11])
def test_a_healthy_disk_that_is_slow_by_chance_does_not_climb(slow):
    lite_s = tuple(0.03 if number == slow else 0.0005 for number in range(12))
    assert not wants_classic(facts(writes_s=lite_s, bulk_s=(0.002, 0.003), elapsed_s=0.1))
    assert not wants_classic(facts(writes_s=(0.0005,) * 12, bulk_s=(0.2, 0.003, 0.003), elapsed_s=0.3))
    assert not wants_classic(
        facts(writes_s=(0.001,) * 6, bulk_s=(0.03, 0.03), elapsed_s=0.07, healthy_bulk_s=0.03)
    )


def test_the_last_measured_dd_replaces_the_estimate_in_figure_and_verdict():
    near = {"bulk_s": (0.087, 0.087), "elapsed_s": 0.2, "disk": a_disk(**PACED)}
    assert judge(facts(**near), LINES).verdict == "ok"
    measured = facts(**near, measured_s=1.25)
    assert (measured.dd_s, judge(measured, LINES).verdict) == (1.25, "warn")
    assert not measured.is_at_least
    assert (
        judge(facts(bulk_s=(0.11, 0.11), measured_s=0.93, elapsed_s=0.3, healthy_bulk_s=None), LINES).verdict
        == "ok"
    )


LUMPS = (0.001,) * 8 + (0.097,) + (0.001,) * 8 + (0.093,) + (0.002,) * 5


@pytest.mark.parametrize(
    ("observed", "at_least"),
    [
        ({"writes_s": LUMPS, "bulk_s": (0.09, 0.002, 0.001, 0.097)}, True),
        ({"writes_s": (0.001,) * 19, "bulk_s": (0.096, 0.001, 0.001, 0.001)}, True),
        ({"writes_s": LUMPS, "bulk_s": (0.001, 0.001)}, True),
        ({"writes_s": LUMPS, "bulk_s": (0.001, 0.001), "disk": a_disk(**AT_THE_LIMIT)}, False),
        ({"writes_s": (0.1,) * 5, "bulk_s": (0.098, 0.112)}, False),
        ({"writes_s": (0.001,) * 12, "bulk_s": (0.002, 0.002, 0.098, 0.1)}, False),
        ({"writes_s": (0.001,) * 19, "bulk_s": (0.085, 0.108, 0.111)}, False),
        ({"writes_s": (0.0005,) * 16, "bulk_s": (0.002, 0.004)}, False),
        ({"completed": False, "elapsed_s": 5.0}, True),
        ({"failure": ("EROFS", "Read-only file system"), "completed": False}, False),
    ],
)
def test_where_a_limit_delays_one_write_and_not_the_next_the_estimate_is_a_lower_bound(observed, at_least):
    assert facts(**observed).is_at_least is at_least
    assert not facts("classic", elapsed_s=0.6, writes_s=(0.001,) * 9 + (0.5,)).is_at_least


@pytest.mark.parametrize(
    "bulk_s", [(0.09, 0.002, 0.001, 0.097), (0.097, 0.001, 0.09, 0.098), (0.001, 0.09, 0.002), (0.001, 0.001)]
)
def test_a_lower_bound_is_the_mean_of_all_operations_and_less_than_dd(bulk_s):
    # measured at 200 operations a second: dd took 0.61 to 0.70 s
    assert 0.3 < facts(writes_s=LUMPS, bulk_s=bulk_s).dd_s < 0.66


def test_a_stall_has_lasted_at_least_as_long_as_nothing_came_back():
    assert facts("passive", disk=a_disk(**STANDING)).dd_s == 4.0
    assert facts("classic", completed=False, elapsed_s=30.0).dd_s == 30.0


def test_classic_overrules_a_lite_write_that_was_slow_by_chance():
    lite = ddprobe.Judgement(verdict="warn", cause="exhausted_idle", reason="")
    quick = facts("classic", elapsed_s=0.03, healthy_s=None)
    slow = facts("classic", elapsed_s=0.5, healthy_s=None)
    assert ddprobe.after_classic(lite, judge(quick, LINES), quick).verdict == "ok"
    assert ddprobe.after_classic(lite, judge(slow, LINES), slow).cause == "exhausted_idle"


def test_a_known_fault_is_worse_than_not_knowing_which_is_worse_than_a_warning():
    assert ddprobe.worst(["ok", "crit", "unknown"]) == "crit"
    assert ddprobe.worst(["warn", "unknown"]) == "unknown"
    assert ddprobe.worst([]) == "unknown"
