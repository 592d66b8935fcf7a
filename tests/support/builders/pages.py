"""Reports for the page to show, made of values: no lab, no ledger."""

from dataclasses import replace
from datetime import timedelta

from burstctl.report.activity import Activity, ActivityKind
from burstctl.report.collect import FleetReport, ResourceDetail, resource_id_of
from burstctl.report.costs import summarise_costs
from burstctl.report.page import render_page
from burstctl.report.series import MAX_DETAIL_POINTS, MAX_OVERVIEW_POINTS, choose_axis
from burstctl.timeline.drawn_bucket import drawn_bucket
from burstctl.timeline.flip_costs import FlipCost
from burstctl.timeline.timeline import TimelineInput, build_timeline
from burstwatch.core.assessment.assess_resource import BucketReading, assess_resource
from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.metric_history import MetricHistory
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.instances.instance_buckets import INSTANCE_THROUGHPUT
from burstwatch.core.policy.policy import Policy
from burstwatch.core.watch.pass_report import PassReport, urgency_of
from support.builders.core_values import (
    a_decision,
    a_flip,
    a_state,
    a_volume,
    an_assessment,
    an_instance,
    at,
    balances,
    draining_to,
    sparse_balances,
)

NOW_S = at("12:00")
DAY = timedelta(hours=24)
FINE_PERIOD = choose_axis(NOW_S - DAY.total_seconds(), NOW_S, max_points=MAX_DETAIL_POINTS)
COARSE_PERIOD = choose_axis(NOW_S - DAY.total_seconds(), NOW_S, max_points=MAX_OVERVIEW_POINTS)
GP3 = Configuration(volume_type=VolumeType.GP3, iops=3_000, throughput_mib_s=128)


def volume_id(number):
    return f"vol-{number:017x}"


def a_decision_row(number, balance, name=None, *, size_gib=100, tags=None, **fields):
    """A decision about volume ``number`` with such a balance recently."""
    named = {} if name is None else {"Name": name}
    volume = a_volume(
        size_gib,
        volume_id=volume_id(number),
        tags={**named, **(tags or {})},
        instance_id=f"i-{number:017x}",
        device="/dev/xvda",
    )
    return a_decision(an_assessment(balance, volume=volume, **fields))


def an_empty_volume(number, name="etcd-1"):
    return a_decision_row(number, balances(*[0.0] * 30), name)


def a_critical_volume(number, name="ci-7", pct=20.0):
    """Loses 3 % a minute."""
    return a_decision_row(number, draining_to(pct, 3.0, count=20), name)


def a_warning_volume(number, name="build-3", pct=40.0):
    """Loses 1 % a minute."""
    return a_decision_row(number, draining_to(pct, 1.0, count=40), name)


def a_calm_volume(number, name="web", **fields):
    return a_decision_row(number, balances(*[100.0] * 10), name, **fields)


def a_volume_without_data(number, name="mute"):
    """Attached to a running instance, and no datapoint."""
    return a_decision_row(number, Series(), name)


def a_draining_instance(number, name="build-host"):
    """The throughput bucket of an m5.large, at 20 % and falling."""
    instance = an_instance(instance_id=f"i-{number:017x}", tags={"Name": name})
    reading = BucketReading(balance=sparse_balances(*(100.0 - 5 * n for n in range(17))))
    return a_decision(
        assess_resource(instance, INSTANCE_THROUGHPUT, reading, now_s=NOW_S, telemetry=Policy().telemetry)
    )


def some_activities(decision):
    """It was flipped an hour ago, and refused since."""
    text = (
        (ActivityKind.LEVEL, "C", "level warning -> critical", True),
        (ActivityKind.FLIPPED, "F", "is being modified to gp3 with 3,000 IOPS and 128 MiB/s", False),
        (ActivityKind.REFUSED, "X", "is not moved to gp3: held", False),
    )
    return [
        Activity(
            at_s=int(NOW_S) - 3600 + 60 * nth,
            kind=sort,
            subject=decision.volume_id,
            line=line,
            details=("Because a test wants it.",),
            letter=letter,
            is_secondary=is_minor,
        )
        for nth, (sort, letter, line, is_minor) in enumerate(text)
    ]


def a_history(*, gap_h=(6, 8)):
    """A day that falls from full to 20 % with two hours missing."""
    starts = [FINE_PERIOD.start_s + nth * FINE_PERIOD.period_s for nth in range(FINE_PERIOD.count - 1)]
    hours = [(start - FINE_PERIOD.start_s) / 3600 for start in starts]
    known = [
        (start, 100 - 80 * h / 24)
        for start, h in zip(starts, hours, strict=True)
        if not gap_h[0] <= h < gap_h[1]
    ]
    ops = Series.from_pairs((start, 500.0 * FINE_PERIOD.period_s) for start, _ in known)
    return MetricHistory(
        period_s=FINE_PERIOD.period_s, balance=Series.from_pairs(known), read_ops=ops, write_ops=ops
    )


def volume_details(decision, history=None, **fields):
    sources = TimelineInput(
        drawn=drawn_bucket(decision.assessment),
        history=history or a_history(),
        start_s=FINE_PERIOD.start_s,
        now_s=NOW_S,
        assessment=decision.assessment,
        **fields,
    )
    return ResourceDetail(
        decision=decision, timeline=build_timeline(sources), activities=some_activities(decision)
    )


def a_fleet_report(decisions, *, detailed=(), policy=None, **changes):
    """A report of these; those in ``stories``, all the urgent if none are named, are shown in detail."""
    ordered = sorted(decisions, key=urgency_of)
    policy = policy or Policy()
    chosen = detailed or [d for d in ordered if d.level.is_alerting or d.assessment.is_fault]
    details = {resource_id_of(decision): volume_details(decision) for decision in chosen}
    flat = Series.from_pairs(
        (COARSE_PERIOD.start_s + nth * COARSE_PERIOD.period_s, 100.0) for nth in range(COARSE_PERIOD.count)
    )
    stays = [
        FlipCost(
            volume_id=decision.volume_id,
            target=GP3,
            started_at_s=NOW_S - 7300,
            ended_at_s=NOW_S - 3650,
            usd_per_month=73.0,
            has_returned=True,
        )
        for decision in chosen[:1]
    ]
    activities = [
        action for volume in details.values() for action in volume.activities if not action.is_secondary
    ]
    facts = {
        "pass_report": PassReport(
            now_s=NOW_S,
            region="us-east-1",
            ledger="sqlite:/home/anna/ledger.sqlite",
            decisions=ordered,
            cadence=policy.cadence,
        ),
        "since_s": int(NOW_S - DAY.total_seconds()),
        "decisions": ordered,
        "axis": COARSE_PERIOD,
        "details": details,
        "balances": {
            resource_id_of(d): flat
            for d in ordered
            if resource_id_of(d) not in details and d.assessment.sample
        },
        "activities": sorted(activities, key=lambda action: -action.at_s),
        "costs": summarise_costs(
            stays,
            states={"vol-0a1": a_state(flip=a_flip(usd_per_month=10.0))},
            volumes=[d.assessment.resource for d in ordered if isinstance(d.assessment.resource, Volume)],
            policy=policy.flip,
            start_s=NOW_S - DAY.total_seconds(),
            end_s=NOW_S,
        ),
        "unread": {},
        "failures": (),
        "metrics_requested": 30,
        "api_calls": {"cloudwatch:GetMetricData": 2},
        "policy": policy,
    }
    return FleetReport(**(facts | changes))


def a_fleet(count):
    """This many volumes, one in twenty of them urgent, each with a name of its own; judged by prototypes."""
    kinds = [
        an_empty_volume(1),
        a_critical_volume(2),
        a_warning_volume(3),
        a_volume_without_data(4),
        *(a_calm_volume(5 + nth) for nth in range(36)),
    ]
    kinds += [a_decision_row(60 + nth, balances(*[float(50 + nth)] * 10), "watched") for nth in range(40)]
    created = []
    for number in range(count):
        like = kinds[number % len(kinds)]
        volume = replace(
            like.assessment.volume,
            volume_id=volume_id(number + 1_000),
            size_gib=1 + number % 333,
            tags={"Name": f"{like.assessment.volume.name}-{number}", "team": f"team-{number % 17}"},
        )
        created.append(replace(like, assessment=replace(like.assessment, resource=volume)))
    return created


def render_report_page(reported, *, last=DAY, runbooks_url="https://example.test/runbooks"):
    return render_page(reported, lookback=last, runbooks_url=runbooks_url)
