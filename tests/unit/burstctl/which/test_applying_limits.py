"""Which limit applies, by tables of cases: values in, states and the next limit out."""

from dataclasses import replace

import pytest

from burstctl.which.host_report import HostReport
from burstctl.which.limit import Limit, LimitKind, LimitState, decide
from burstctl.which.limits import (
    FileSystemFacts,
    InstanceFacts,
    VolumeFacts,
    file_system_limits,
    instance_limits,
    unknown_instance_limits,
    volume_limits,
)
from burstwatch.core.assessment.assess_resource import BucketReading, assess_resource
from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.metric_history import MetricHistory
from burstwatch.core.ebs.volume_ceiling import VolumeCeiling
from burstwatch.core.efs.efs_bucket import EFS_BYTES
from burstwatch.core.instances.instance_buckets import INSTANCE_KINDS
from burstwatch.core.instances.instance_metrics import InstanceMetrics
from burstwatch.core.policy.policy import Policy
from support.builders.core_values import (
    M5_LARGE,
    a_volume,
    an_assessment,
    an_instance,
    at,
    balances,
    draining_to,
    sparse_balances,
)
from support.builders.storage import a_file_system

NOW_S = at("12:00")
MIB = 2**20
NOW, NEXT, NO, NEVER, UNKNOWN = (
    LimitState.NOW,
    LimitState.NEXT,
    LimitState.NO,
    LimitState.NEVER,
    LimitState.UNKNOWN,
)
GP3 = {"volume_type": "gp3", "provisioned_iops": 3_000, "throughput_mib_s": 125}
FAST = (VolumeCeiling(volume_id="vol-0b1", volume_type="gp3", iops=20_000, mib_s=1_000),)


def minutes(*values: float, newest_starts_at: str = "11:58") -> Series:
    return balances(*values, newest_starts_at=newest_starts_at)


def a_history(*iops: float, mib_s: float = 1.0, **place) -> MetricHistory:
    """Minutes with these rates, all of them reads."""
    ops = minutes(*(rate * 60 for rate in iops), **place)
    none = replace(ops, values=(0.0,) * len(ops))
    return MetricHistory(
        period_s=60,
        read_ops=ops,
        write_ops=none,
        read_bytes=replace(ops, values=(mib_s * 60 * MIB,) * len(ops)),
        write_bytes=none,
    )


def of_volume(balance=None, **facts) -> dict[LimitKind, Limit]:
    volume = facts.pop("volume", None) or a_volume()
    assessment = an_assessment(balance, volume=volume) if volume.has_bucket else None
    limits = volume_limits(
        VolumeFacts(volume=volume, assessment=assessment, **facts), now_s=NOW_S, exhausted_pct=1.0
    )
    return {limit.kind: limit for limit in decide(limits).limits}


def of_instance(io=None, throughput=None, *, load_iops=None, io_exceeded=Series(), **facts):
    """Its limits by kind; balances by five minutes, and the operations a second of the newest of them."""
    instance = an_instance(**({"ceilings": FAST} | facts))
    readings = dict(zip(INSTANCE_KINDS, (io, throughput), strict=True))
    metrics = InstanceMetrics(iops_exceeded=io_exceeded)
    if load_iops is not None:
        sums = sparse_balances(load_iops * 300)
        none = replace(sums, values=(0.0,))
        metrics = replace(metrics, read_ops=sums, write_ops=none, read_bytes=none, write_bytes=none)
    limits = instance_limits(
        InstanceFacts(
            instance=instance,
            assessments={
                kind: assess_resource(
                    instance,
                    kind,
                    BucketReading(balance=reading),
                    now_s=NOW_S,
                    telemetry=Policy().telemetry,
                )
                for kind, reading in readings.items()
            },
            metrics=metrics,
        ),
        now_s=NOW_S,
        exhausted_pct=1.0,
    )
    return {limit.kind: limit for limit in decide(limits).limits}


def text_of(limit: Limit) -> str:
    return "; ".join(limit.evidence)


# 100 GiB of gp2: baseline 300 IOPS, burst 3,000, 128 MiB/s.
@pytest.mark.parametrize(
    ("balance", "iops", "volume_credits", "volume_iops"),
    [
        pytest.param(balances(0.0), (300,), NOW, NO, id="empty, and its load is at the baseline"),
        pytest.param(balances(1.0), (300,), NOW, NO, id="at the threshold of empty"),
        pytest.param(balances(0.5), (269,), NEXT, NO, id="empty, and its load is below 90 % of the baseline"),
        pytest.param(balances(0.5), (270,), NOW, NO, id="empty, and its load is at 90 % of the baseline"),
        pytest.param(draining_to(40, 3), (3_000,), NEXT, NOW, id="drains, but its burst is the limit now"),
        pytest.param(draining_to(40, 1), (1_200,), NEXT, NO, id="drains"),
        pytest.param(balances(100, 100), (100,), NO, NEXT, id="full: a growing load reaches its IOPS first"),
        pytest.param(Series(), (100,), UNKNOWN, NEXT, id="no balance is never full"),
        pytest.param(None, (100,), UNKNOWN, NEXT, id="a balance that could not be read"),
    ],
)
def test_credits_of_a_gp2_volume(balance, iops, volume_credits, volume_iops):
    limits = of_volume(balance, history=a_history(*iops, mib_s=0.1))
    states = limits[LimitKind.VOLUME_CREDITS].state, limits[LimitKind.VOLUME_IOPS].state
    assert states == (volume_credits, volume_iops)


def test_an_empty_bucket_shows_its_age_its_load_and_the_baseline():
    limit = of_volume(balances(0.0), history=a_history(300))[LimitKind.VOLUME_CREDITS]
    assert (limit.limit, limit.use, limit.headroom, limit.datapoint_age_s) == (300, 300, 0, 60)
    assert text_of(limit) == (
        "BurstBalance was 0.0 % at 11:59 UTC, 60 s ago; It served up to 300 IOPS in the last 5 min of data,"
        " 60 s old: 100 % of its baseline of 300 IOPS; CloudWatch's check of this limit has no recent"
        " datapoint"
    )


def test_an_empty_bucket_of_unknown_load_applies_now():
    assert of_volume(balances(0.0))[LimitKind.VOLUME_CREDITS].state is NOW


def test_a_check_of_an_empty_volume_is_evidence_for_its_credits():
    limits = of_volume(balances(0.0), history=a_history(100), iops_exceeded=minutes(0, 1, 1))
    assert limits[LimitKind.VOLUME_CREDITS].state is NOW
    assert limits[LimitKind.VOLUME_IOPS].state is NO
    assert "the limit was exceeded in 2 of the last 5 min" in text_of(limits[LimitKind.VOLUME_CREDITS])


def test_credits_that_cannot_run_out_are_proved():
    limit = of_volume(None, volume=a_volume(1_000))[LimitKind.VOLUME_CREDITS]
    assert limit.state is NEVER
    assert text_of(limit) == "Its baseline of 3,000 IOPS is as high as its burst, so it loses no credits"


def test_a_drain_has_the_estimate_and_the_bound():
    # 40 % at 11:59: at 1 % a minute 40 min, less 60 s: 12:39. 2,160,000 / 2,700 = 800 s less 60 s: 12:12:20.
    limit = of_volume(draining_to(40, 1), history=a_history(840))[LimitKind.VOLUME_CREDITS]
    assert (limit.state, limit.time_to_empty_s, limit.soonest_empty_s) == (NEXT, 2_340, 740)
    assert "it is empty at about 12:39 UTC; No load can empty it before 12:12 UTC" in text_of(limit)


def test_without_a_trend_a_load_above_the_baseline_empties_the_credits():
    # 2,160,000 / (840 - 300) = 4,000 s from 12:00
    limit = of_volume(balances(40), history=a_history(840))[LimitKind.VOLUME_CREDITS]
    assert (limit.state, limit.time_to_empty_s) == (NEXT, pytest.approx(4_000))
    assert "No trend yet: by its present load it is empty at about 13:06 UTC" in text_of(limit)


def test_without_a_trend_a_load_below_the_baseline_has_no_time():
    limit = of_volume(balances(40), history=a_history(200))[LimitKind.VOLUME_CREDITS]
    assert (limit.state, limit.time_to_empty_s) == (NO, None)
    assert "No trend yet; No load can empty it before" in text_of(limit)


@pytest.mark.parametrize(("gib", "lost_mib_s"), [(0, 20), (1, 20 - 50 / 1_024), (58, 20 - 58 * 50 / 1_024)])
def test_a_load_takes_from_a_file_system_what_its_size_does_not_earn(gib, lost_mib_s):
    """Without credits EFS serves at least 1 MiB/s, which a small file system does not earn."""
    file_system = a_file_system(gib)
    balance = Series((int(NOW_S) - 1_200,), (1_024.0**4,), 600)
    assessment = assess_resource(
        file_system, EFS_BYTES, BucketReading(balance=balance), now_s=NOW_S, telemetry=Policy().telemetry
    )
    facts = FileSystemFacts(
        file_system=file_system, assessment=assessment, metered=minutes(*[20.0 * 60 * MIB] * 5)
    )
    limit = file_system_limits(facts, now_s=NOW_S, exhausted_pct=1.0)[0]
    assert limit.kind is LimitKind.FILE_SYSTEM_CREDITS
    assert limit.time_to_empty_s == pytest.approx(1_024**2 / lost_mib_s)


@pytest.mark.parametrize(
    ("facts", "state", "sentence"),
    [
        ({"history": a_history(2_850)}, NOW, "95 % of its limit of 3,000 IOPS"),
        ({"history": a_history(3_000, 10, 10, 10, 10)}, NOW, "up to 3,000 IOPS"),
        ({"history": a_history(3_000, 10, 10, 10, 10, 10)}, NO, "up to 10 IOPS"),
        ({"history": a_history(2_900), "iops_exceeded": minutes(0)}, NEXT, "was not exceeded"),
        ({"history": a_history(10), "iops_exceeded": minutes(1, 0, 0, 0, 0)}, NOW, "in 1 of the last 5 min"),
        ({"history": a_history(10), "iops_exceeded": minutes(1, 0, 0, 0, 0, 0)}, NO, "was not exceeded"),
        ({"iops_exceeded": minutes(0)}, NO, "Its load is not known"),
        ({}, UNKNOWN, "CloudWatch has no load of it in the last 10 min"),
        ({"history": a_history(3_000, newest_starts_at="11:48")}, UNKNOWN, "no load of it in the last"),
        ({"load_error": "it could not be read"}, UNKNOWN, "Its load is not known: it could not be read"),
    ],
    ids=[
        "at 95 %",
        "at the limit four minutes ago",
        "at the limit five minutes ago",
        "at 97 %, and not exceeded by the check",
        "the check of a minute",
        "an old check",
        "only the check is known",
        "no data",
        "old data",
        "an error",
    ],
)
def test_the_iops_limit_of_a_gp3_volume(facts, state, sentence):
    limit = of_volume(volume=a_volume(**GP3), **facts)[LimitKind.VOLUME_IOPS]
    assert limit.state is state
    assert sentence in text_of(limit)


def test_the_throughput_limit_is_in_mib():
    limit = of_volume(volume=a_volume(**GP3), history=a_history(100, mib_s=124))[LimitKind.VOLUME_THROUGHPUT]
    assert (limit.state, limit.limit, limit.use, limit.headroom) == (NOW, 125, 124, 1)


def test_a_slower_instance_is_the_proof_that_a_volume_cannot_reach_its_own_limit():
    fast = a_volume(volume_type="io2", provisioned_iops=20_000)
    limit = of_volume(volume=fast, instance=an_instance(), history=a_history(100))[LimitKind.VOLUME_IOPS]
    assert limit.state is NEVER
    assert text_of(limit) == "Its instance, m5.large, serves 18,750 IOPS at most, which is less"


def test_a_magnetic_volume_has_no_known_limits():
    limits = of_volume(volume=a_volume(volume_type="standard"), history=a_history(100))
    assert {limit.state for limit in limits.values()} == {UNKNOWN}
    assert text_of(limits[LimitKind.VOLUME_IOPS]) == "AWS shows no limits of the type standard"


def test_an_st1_volume_has_throughput_credits_and_no_limit_of_iops():
    # 1 TiB: baseline 40 MiB/s, burst 250.
    limits = of_volume(
        balances(0.0), volume=a_volume(1_024, volume_type="st1"), history=a_history(40, mib_s=40)
    )
    assert set(limits) == {LimitKind.VOLUME_CREDITS, LimitKind.VOLUME_THROUGHPUT}
    credits_limit = limits[LimitKind.VOLUME_CREDITS]
    assert (credits_limit.state, credits_limit.limit, credits_limit.unit) == (NOW, 40, "MiB/s")
    assert limits[LimitKind.VOLUME_THROUGHPUT].limit == 250


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({"volume": a_volume(attached=False, instance_id=None)}, "It is not attached"),
        ({"instance": an_instance(state="stopped")}, "i-0a1 is stopped"),
    ],
)
def test_no_limit_applies_to_a_volume_that_nothing_uses(facts, sentence):
    limits = of_volume(balances(0.0), history=a_history(3_000), **facts)
    assert {(limit.state, limit.evidence) for limit in limits.values()} == {(NO, (sentence,))}


# m5.large: 3,600 IOPS, up to 18,750, and 77.5 MiB/s, up to 566.2.
@pytest.mark.parametrize(
    ("facts", "io_credits", "instance_iops"),
    [
        pytest.param({"io": sparse_balances(0.0), "load_iops": 3_600}, NOW, NO, id="empty"),
        pytest.param(
            {"io": sparse_balances(0.0), "load_iops": 3_000}, NEXT, NO, id="empty, with a lower load"
        ),
        pytest.param({"io": sparse_balances(60, 50, 40), "load_iops": 9_000}, NEXT, NO, id="drains"),
        pytest.param(
            {"io": sparse_balances(99, 90, 80), "load_iops": 18_000}, NEXT, NOW, id="at its maximum"
        ),
        pytest.param(
            {"io": sparse_balances(80, 80, 80), "load_iops": 5_000, "io_exceeded": minutes(1)},
            NO,
            NOW,
            id="the check, with credits left",
        ),
        pytest.param(
            {"io": sparse_balances(0, 0), "load_iops": 3_600, "io_exceeded": minutes(1)},
            NOW,
            NO,
            id="the check, without credits",
        ),
        pytest.param({"io": Series(), "load_iops": 100}, UNKNOWN, NEXT, id="no balance"),
        pytest.param({"io": sparse_balances(50)}, NO, UNKNOWN, id="no load"),
        pytest.param({"has_detailed_monitoring": True, "io": Series()}, UNKNOWN, UNKNOWN, id="detailed"),
        pytest.param(
            {"limits": None, "limits_error": "denied", "load_iops": 100}, UNKNOWN, UNKNOWN, id="type denied"
        ),
        pytest.param({"limits": None, "load_iops": 100}, UNKNOWN, UNKNOWN, id="no limits of the type"),
        pytest.param(
            {"limits": replace(M5_LARGE, baseline_iops=18_750), "load_iops": 100},
            NEVER,
            NEXT,
            id="a type that sustains its maximum",
        ),
        pytest.param(
            {
                "ceilings": (VolumeCeiling(volume_id="vol-0b1", volume_type="gp3", iops=3_000, mib_s=50),),
                "load_iops": 3_000,
            },
            NEVER,
            NEVER,
            id="volumes that cannot take more than the baseline",
        ),
        pytest.param({"state": "stopped"}, NO, NO, id="stopped"),
    ],
)
def test_credits_and_maximum_of_an_instance(facts, io_credits, instance_iops):
    limits = of_instance(**{"throughput": Series()} | facts)
    states = limits[LimitKind.INSTANCE_IO_CREDITS].state, limits[LimitKind.INSTANCE_IOPS].state
    assert states == (io_credits, instance_iops)


def test_the_maximum_of_an_instance_that_is_exceeded_without_a_known_balance_names_the_doubt():
    limit = of_instance(io=Series(), load_iops=100, io_exceeded=minutes(1))[LimitKind.INSTANCE_IOPS]
    assert limit.state is NOW
    assert limit.evidence[-1] == (
        "Its credits are unknown: if they are used up, the limit that applies is the baseline of 3,600 IOPS"
    )


def test_an_instance_that_could_not_be_described_has_four_unknown_limits():
    limits = unknown_instance_limits("i-0a1", "i-0a1 could not be described")
    assert [limit.state for limit in limits] == [UNKNOWN] * 4
    assert {limit.evidence for limit in limits} == {("i-0a1 could not be described",)}


def a_report(**changes) -> HostReport:
    facts = {
        "volume_ids": ("vol-0a1",),
        "verdict": "crit",
        "cause": "throttled",
        "reason": "a write of 10 MiB took 12.0 s",
        "at_s": NOW_S - 120,
        "source": "on this host",
    }
    return HostReport(**(facts | changes))


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, NOW),
        ({"verdict": "ok", "cause": "ok"}, NO),
        ({"verdict": "unknown", "cause": "not_measured"}, NO),
        ({"cause": "not_this_disk"}, NO),
        ({"at_s": NOW_S - 901}, NO),
    ],
)
def test_a_host_counts_as_now_only_with_a_recent_stall_of_this_volume(changes, state):
    limit = of_volume(volume=a_volume(**GP3), reports=(a_report(**changes),))[LimitKind.HOST]
    assert limit.state is state


def a_limit(kind, state=NO, **facts) -> Limit:
    return Limit(kind=kind, resource_id="vol-0a1", state=state, **facts)


def test_the_next_limit_is_the_bucket_that_is_empty_first():
    answer = decide(
        [
            a_limit(LimitKind.VOLUME_IOPS, limit=100.0, use=90.0),
            a_limit(LimitKind.VOLUME_CREDITS, time_to_empty_s=900),
            a_limit(LimitKind.INSTANCE_IO_CREDITS, time_to_empty_s=600),
        ]
    )
    assert answer.next_limit is not None
    assert answer.next_limit.kind is LimitKind.INSTANCE_IO_CREDITS
    assert [limit.kind for limit in answer.limits][:2] == [
        LimitKind.INSTANCE_IO_CREDITS,
        LimitKind.VOLUME_CREDITS,
    ]


def test_without_a_drain_the_next_limit_is_the_one_that_is_used_most():
    answer = decide(
        [
            a_limit(LimitKind.VOLUME_IOPS, limit=100.0, use=50.0),
            a_limit(LimitKind.VOLUME_THROUGHPUT, limit=100.0, use=60.0),
            a_limit(LimitKind.VOLUME_CREDITS, limit=100.0, use=70.0, balance_pct=100.0),
        ]
    )
    assert answer.next_limit is not None
    assert answer.next_limit.kind is LimitKind.VOLUME_THROUGHPUT


def test_while_a_limit_applies_nothing_but_a_drain_is_next():
    answer = decide(
        [a_limit(LimitKind.VOLUME_IOPS, NOW), a_limit(LimitKind.VOLUME_THROUGHPUT, limit=100.0, use=60.0)]
    )
    assert answer.next_limit is None
    assert [limit.kind for limit in answer.now] == [LimitKind.VOLUME_IOPS]


def test_an_idle_volume_has_no_next_limit():
    assert decide([a_limit(LimitKind.VOLUME_IOPS, limit=100.0, use=0.0)]).next_limit is None


def test_of_several_limits_that_apply_the_credits_of_the_instance_are_first():
    kinds = [LimitKind.HOST, LimitKind.VOLUME_IOPS, LimitKind.INSTANCE_IO_CREDITS]
    answer = decide([a_limit(kind, NOW) for kind in kinds])
    assert [limit.kind for limit in answer.now] == kinds[::-1]


def test_volumes_that_serve_less_than_the_maximum_prove_that_it_is_out_of_reach():
    two = [VolumeCeiling(volume_id=f"vol-0b{i}", volume_type="gp3", iops=3_000, mib_s=125) for i in (1, 2)]
    limit = of_instance(load_iops=100, ceilings=tuple(two), volume_ids=("vol-0b1", "vol-0b2"))[
        LimitKind.INSTANCE_IOPS
    ]
    assert limit.state is NEVER
    assert text_of(limit) == "Together, its volumes serve 6,000 IOPS at most"
