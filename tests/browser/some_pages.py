"""Reports for the page to show, made of values: no lab, no ledger."""

from dataclasses import replace
from datetime import timedelta

from burstctl.report.activity import Deed, Sort
from burstctl.report.collect import Reported, Told
from burstctl.report.costs import PaidStay, sum_money
from burstctl.report.page import render_page
from burstctl.report.series import MOST_FINE_POINTS, MOST_POINTS, axis_of
from burstctl.timeline.timeline import Sources, chronicle
from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ebs.usage import History
from burstwatch.core.policy.policy import Policy
from burstwatch.core.watch.report import Report, urgency_of
from conftest import a_decision, a_flip, a_state, a_volume, an_assessment, at, balances, draining_to

NOW_S = at("12:00")
DAY = timedelta(hours=24)
FINE = axis_of(NOW_S - DAY.total_seconds(), NOW_S, most=MOST_FINE_POINTS)
COARSE = axis_of(NOW_S - DAY.total_seconds(), NOW_S, most=MOST_POINTS)
GP3 = Configuration(volume_type=VolumeType.GP3, iops=3_000, throughput_mib_s=128)


def volume_id(number):
    return f"vol-{number:017x}"


def a_row(number, balance, name=None, *, size_gib=100, tags=None, **given):
    """A decision about volume ``number`` with such a balance of late."""
    named = {} if name is None else {"Name": name}
    volume = a_volume(
        size_gib,
        volume_id=volume_id(number),
        tags={**named, **(tags or {})},
        instance_id=f"i-{number:017x}",
        device="/dev/xvda",
    )
    return a_decision(an_assessment(balance, volume=volume, **given))


def dry(number, name="etcd-1"):
    return a_row(number, balances(*[0.0] * 30), name)


def critical(number, name="ci-7", pct=20.0):
    """Loses 3 % a minute."""
    return a_row(number, draining_to(pct, 3.0, count=20), name)


def warning(number, name="build-3", pct=40.0):
    """Loses 1 % a minute."""
    return a_row(number, draining_to(pct, 1.0, count=40), name)


def calm(number, name="web", **given):
    return a_row(number, balances(*[100.0] * 10), name, **given)


def silent(number, name="mute"):
    """Attached to a running instance, and no datapoint."""
    return a_row(number, Series(), name)


def a_story(decision):
    """It was flipped an hour ago, and refused since."""
    said = (
        (Sort.LEVEL, "C", "level warning -> critical", True),
        (Sort.FLIPPED, "F", "is on its way to gp3 with 3,000 IOPS and 128 MiB/s", False),
        (Sort.REFUSED, "X", "is not moved to gp3: held", False),
    )
    return [
        Deed(
            at_s=int(NOW_S) - 3600 + 60 * nth,
            sort=sort,
            subject=decision.volume_id,
            line=line,
            details=("Because a test wants it.",),
            letter=letter,
            is_minor=is_minor,
        )
        for nth, (sort, letter, line, is_minor) in enumerate(said)
    ]


def a_history(*, gap_h=(6, 8)):
    """A day that falls from full to 20 % with two hours missing."""
    starts = [FINE.start_s + nth * FINE.period_s for nth in range(FINE.count - 1)]
    hours = [(start - FINE.start_s) / 3600 for start in starts]
    known = [
        (start, 100 - 80 * h / 24)
        for start, h in zip(starts, hours, strict=True)
        if not gap_h[0] <= h < gap_h[1]
    ]
    ops = Series.of((start, 500.0 * FINE.period_s) for start, _ in known)
    return History(period_s=FINE.period_s, balance=Series.of(known), read_ops=ops, write_ops=ops)


def told(decision, history=None, **given):
    sources = Sources(
        volume=decision.assessment.volume,
        history=history or a_history(),
        start_s=FINE.start_s,
        now_s=NOW_S,
        assessment=decision.assessment,
        **given,
    )
    return Told(decision=decision, chronology=chronicle(sources), story=a_story(decision))


def a_reported(decisions, *, stories=(), policy=None, **changes):
    """A report of these; those in ``stories``, all the urgent if none are named, are told at length."""
    ordered = sorted(decisions, key=urgency_of)
    policy = policy or Policy()
    chosen = stories or [d for d in ordered if d.level.is_alerting or d.assessment.is_fault]
    tales = {decision.volume_id: told(decision) for decision in chosen}
    flat = Series.of((COARSE.start_s + nth * COARSE.period_s, 100.0) for nth in range(COARSE.count))
    stays = [
        PaidStay(
            volume_id=decision.volume_id,
            target=GP3,
            began_s=NOW_S - 7300,
            ended_s=NOW_S - 3650,
            usd_per_month=73.0,
            came_back=True,
        )
        for decision in chosen[:1]
    ]
    deeds = [deed for tale in tales.values() for deed in tale.story if not deed.is_minor]
    facts = {
        "report": Report(
            now_s=NOW_S,
            region="us-east-1",
            ledger="sqlite:/home/anna/ledger.sqlite",
            decisions=ordered,
            cadence=policy.cadence,
        ),
        "since_s": int(NOW_S - DAY.total_seconds()),
        "decisions": ordered,
        "axis": COARSE,
        "told": tales,
        "balances": {d.volume_id: flat for d in ordered if d.volume_id not in tales and d.assessment.sample},
        "deeds": sorted(deeds, key=lambda deed: -deed.at_s),
        "money": sum_money(
            stays,
            states={"vol-0a1": a_state(flip=a_flip(usd_per_month=10.0))},
            volumes=[d.assessment.volume for d in ordered],
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
    return Reported(**(facts | changes))


def a_fleet(count):
    """So many volumes, one in twenty of them urgent, each with a name of its own; judged by prototypes."""
    kinds = [dry(1), critical(2), warning(3), silent(4), *(calm(5 + nth) for nth in range(36))]
    kinds += [a_row(60 + nth, balances(*[float(50 + nth)] * 10), "watched") for nth in range(40)]
    made = []
    for number in range(count):
        like = kinds[number % len(kinds)]
        volume = replace(
            like.assessment.volume,
            volume_id=volume_id(number + 1_000),
            size_gib=1 + number % 333,
            tags={"Name": f"{like.assessment.volume.name}-{number}", "team": f"team-{number % 17}"},
        )
        made.append(replace(like, assessment=replace(like.assessment, volume=volume)))
    return made


def page_of(reported, *, last=DAY, runbooks_url="https://example.test/runbooks"):
    return render_page(reported, last=last, runbooks_url=runbooks_url)
