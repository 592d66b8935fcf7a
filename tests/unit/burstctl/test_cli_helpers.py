"""Parts of burstctl that need no AWS: who the operator is, which volumes are meant, what the caps leave."""

import click
import pytest

from burstctl.cli.output import Unread, group_by_cause
from burstctl.cli.tag_filter import TagTerm, TagTermType, ec2_filters
from burstctl.cli.text_layout import lay_out_topics, sanitise_aligned
from burstctl.context.operator_identity import name_operator
from burstctl.flip.cap_preview import check_caps
from burstctl.render.flip_status import describe_flip_status
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.errors import Problem
from burstwatch.core.flips.flip_plan import FlipContext, FlipOrder, FlipPlan
from burstwatch.core.flips.outcome import Outcome, OutcomeStatus
from burstwatch.core.flips.refusal import Guard, Refusal
from burstwatch.core.ledger.flip_state import Direction, Flip, FlipCause, FlipStatus, Hold
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.policy.policy import FlipPolicy, Mode, Policy
from burstwatch.core.policy.volume_tags import VolumeSettings
from burstwatch.core.text import display_width
from burstwatch.core.watch.pass_report import PassReport
from burstwatch.wiring.bootstrap import CallerIdentity
from support.builders.core_values import a_decision, a_volume, an_assessment, at, balances

GP2 = Configuration(volume_type=VolumeType.GP2)
IO1 = Configuration(volume_type=VolumeType.IO1, iops=4000)


@pytest.mark.parametrize(
    ("user", "arn", "name"),
    [
        ("anna", None, "anna"),
        ("anna", "arn:aws:iam::123456789012:user/anna", "anna (user/anna)"),
        ("anna", "arn:aws:sts::123456789012:assumed-role/ops/anna@example.com", "anna (role/ops)"),
        ("anna", "arn:aws:iam::123456789012:root", "anna (root)"),
        ("anna", "", "anna"),
        ("watchdog", None, "user watchdog"),
        ("Others", None, "user Others"),
        ("an\u202ena\x1b[1m", None, "an?na?[1m"),
        (" ", None, "somebody"),
        ("x" * 80, "arn:aws:iam::1:user/" + "y" * 80, f"{'x' * 31}… (user/{'y' * 24}…"),
    ],
)
def test_the_operator_has_a_name_that_is_short_and_unique(monkeypatch, user, arn, name):
    monkeypatch.setattr("getpass.getuser", lambda: user)
    identity = None if arn is None else CallerIdentity(account="1", arn=arn)

    assert name_operator(identity) == name
    assert len(name_operator(identity)) <= 64


def test_a_user_without_a_name_is_a_number(monkeypatch):
    def raise_key_error():
        raise OSError("no name")

    monkeypatch.setattr("getpass.getuser", raise_key_error)
    monkeypatch.setattr("os.getuid", lambda: 1234)

    assert name_operator(None) == "uid 1234"


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("tag:role=ci", TagTerm("role", "ci")),
        ("tag:role", TagTerm("role")),
        ("tag:role=", TagTerm("role", "")),
        ("tag:a:b=c=d", TagTerm("a:b", "c=d")),
        ("tag:Name=two words\n", TagTerm("Name", "two words\n")),
    ],
)
def test_a_term_is_a_tag_and_perhaps_its_value(text, term):
    assert TagTermType().convert(text, None, None) == term
    assert str(term) == text


@pytest.mark.parametrize("text", ["role=ci", "tag:", "tag:=x", "", "Tag:role=ci", "tag: role"])
def test_an_invalid_term_is_refused(text):
    with pytest.raises(click.BadParameter, match=r"write tag:KEY=VALUE or tag:KEY$"):
        TagTermType().convert(text, None, None)


@pytest.mark.parametrize(
    ("terms", "filters"),
    [
        ([TagTerm("role", "ci")], {"tag:role": ["ci"]}),
        ([TagTerm("role")], {"tag-key": ["role"]}),
        ([TagTerm("role", "c*")], {"tag-key": ["role"]}),
        ([TagTerm("a"), TagTerm("b")], {"tag-key": ["a"]}),
        ([TagTerm("a", "1"), TagTerm("a", "2"), TagTerm("b", "3")], {"tag:a": ["1"], "tag:b": ["3"]}),
    ],
)
def test_ec2_sorts_out_what_it_can_and_never_too_much(terms, filters):
    assert ec2_filters(terms, ["gp2"]) == {"volume-type": ["gp2"], **filters}


def test_a_term_fits_by_key_and_exact_value():
    volume = a_volume(tags={"role": "ci", "empty": ""})

    assert TagTerm("role").matches(volume)
    assert TagTerm("empty", "").matches(volume)
    assert not TagTerm("role", "CI").matches(volume)
    assert not TagTerm("rol", "ci").matches(volume)


def a_flip(**changes) -> Flip:
    facts = {
        "status": FlipStatus.ON_TARGET,
        "direction": Direction.FLIP,
        "intent_id": "x",
        "cause": FlipCause.MANUAL,
        "by": "anna",
        "original": GP2,
        "target": IO1,
        "size_gib": 100,
        "requested_at_s": 0,
        "usd_per_month": 60.0,
    }
    return Flip(**(facts | changes))


def a_plan(volume_id, usd_more=50.0, **order) -> FlipPlan:
    volume = a_volume(volume_id=volume_id)
    return FlipPlan(
        order=FlipOrder(
            volume_id=volume_id,
            direction=Direction.FLIP,
            cause=FlipCause.MANUAL,
            reason="by hand",
            **({"by": "ann"} | order),
        ),
        context=FlipContext(
            volume=volume,
            volume_settings=VolumeSettings(mode=Mode.PROPOSE),
            state=ResourceState(volume_id=volume_id, revision=0),
            now_s=0,
        ),
        current=GP2,
        target=IO1,
        usd_per_month_now=10.0,
        usd_per_month=10.0 + usd_more,
    )


def refusals(plans):
    return {volume_id: [str(refusal.guard) for refusal in plan.refusals] for volume_id, plan in plans.items()}


def test_the_caps_leave_room_for_those_that_come_first():
    # $100 allowed, 60 are taken by one that is away: 30 more fit, then 20 do not, and 10 do
    away = {"vol-0": ResourceState(volume_id="vol-0", revision=1, flip=a_flip())}
    plans = [a_plan("vol-1", 30.0), a_plan("vol-2", 20.0), a_plan("vol-3", 10.0)]

    result = refusals(check_caps(plans, away, FlipPolicy(spend_cap_usd=100.0)))
    assert result == {"vol-1": [], "vol-2": ["spend_cap"], "vol-3": []}
    result = refusals(check_caps(plans, away, FlipPolicy(fleet_cap=2)))
    assert result == {"vol-1": [], "vol-2": ["fleet_cap"], "vol-3": ["fleet_cap"]}


def test_a_permanent_flip_counts_no_more_and_a_saving_frees_no_room():
    settled = {"vol-0": ResourceState(volume_id="vol-0", revision=1, flip=a_flip(is_permanent=True))}
    cheaper = {"vol-0": ResourceState(volume_id="vol-0", revision=1, flip=a_flip(usd_per_month=-60.0))}
    policy = FlipPolicy(spend_cap_usd=50.0)

    assert refusals(check_caps([a_plan("vol-1", 50.0)], settled, policy)) == {"vol-1": []}
    assert refusals(check_caps([a_plan("vol-1", 50.0)], cheaper, policy)) == {"vol-1": []}
    assert refusals(check_caps([a_plan("vol-1", 50.01)], cheaper, policy)) == {"vol-1": ["spend_cap"]}


def test_a_cap_that_is_overridden_is_noted_only_where_it_mattered():
    override = {"overridden": frozenset({Guard.FLEET_CAP, Guard.SPEND_CAP})}

    plan = check_caps([a_plan("vol-1", 60.0, **override)], {}, FlipPolicy(spend_cap_usd=50.0))["vol-1"]

    assert (plan.refusals, plan.overridden) == ((), (Guard.SPEND_CAP,))


def test_a_plan_that_is_refused_anyway_takes_no_room():
    refused = a_plan("vol-1")
    refused = FlipPlan(
        order=refused.order, context=refused.context, current=GP2, target=IO1,
        refusals=(Refusal(guard=Guard.HELD, reason="x"),),
    )  # fmt: skip

    plans = check_caps([refused, a_plan("vol-2")], {}, FlipPolicy(fleet_cap=1))

    assert refusals(plans) == {"vol-1": ["held"], "vol-2": []}


def mark_text(flip=None, outcome=None, holds=()):
    decision = a_decision(an_assessment(balances(100, 100)))
    volume_id = decision.volume_id
    if flip is not None:
        state = ResourceState(volume_id=volume_id, revision=1, flip=flip)
        decision = a_decision(an_assessment(balances(100, 100)), state)
    report = PassReport(
        now_s=at("12:00"),
        region="us-east-1",
        ledger="",
        decisions=[decision],
        cadence=Policy().cadence,
        outcomes={volume_id: outcome} if outcome else {},
        holds=[Hold(volume_id=i, by="a", reason="r", placed_at_s=0, until_s=2**37) for i in holds],
    )
    return describe_flip_status(decision, report)


@pytest.mark.parametrize(
    ("arguments", "mark"),
    [
        ({}, ""),
        ({"flip": a_flip(status=FlipStatus.IN_PROGRESS)}, "-> io1, 4,000 IOPS"),
        ({"flip": a_flip(status=FlipStatus.REQUESTED)}, "-> io1, 4,000 IOPS"),
        ({"flip": a_flip(status=FlipStatus.IN_PROGRESS, is_stuck_alerted=True)}, "stuck -> io1, 4,000 IOPS"),
        ({"flip": a_flip(status=FlipStatus.IN_PROGRESS, direction=Direction.FLIP_BACK)}, "back -> gp2"),
        ({"flip": a_flip()}, "on io1, 4,000 IOPS"),
        ({"flip": a_flip(is_permanent=True), "holds": ["vol-0a1"]}, "stays io1, 4,000 IOPS, held"),
        ({"holds": [None]}, ""),
        ({"holds": ["vol-0b2"]}, ""),
        ({"outcome": Outcome(status=OutcomeStatus.FLIPPED)}, "flipped now"),
        ({"outcome": Outcome(status=OutcomeStatus.FAILED)}, "not flipped, failed"),
        (
            {
                "outcome": Outcome(
                    status=OutcomeStatus.REFUSED, refusal=Refusal(guard=Guard.HELD, reason="x")
                ),
                "holds": ["vol-0a1"],
            },
            "refused: held",
        ),
    ],
)
def test_a_mark_shows_the_flip_status(arguments, mark):
    assert mark_text(**arguments) == mark


def test_what_is_laid_out_fits_eighty_columns_whatever_the_words():
    text = lay_out_topics(
        "vol-0 " * 30, [("Topic", ["日本語" * 40, "a" * 300, "words " * 40]), ("Other", ["fits  as it is"])]
    )

    assert max(map(display_width, text.splitlines())) <= 80
    assert text.endswith("\nOther     fits  as it is")


def test_a_row_keeps_its_columns_and_nothing_that_acts():
    assert sanitise_aligned("gp3   io1\u202e  \x1b[1mx") == "gp3   io1?  ?[1mx"


def test_the_name_of_one_resource_stays_and_texts_of_several_are_one():
    short, long = "vol-1", "vol-12"

    def unread(resource_id):
        problem = Problem(f"the state of {resource_id} cannot be read", f"use burstctl release {resource_id}")
        return Unread(resource_id, f"{resource_id} (b)", problem)

    assert [*group_by_cause([unread(short)]).values()] == [(unread(short).reason, {short: "vol-1 (b)"})]
    [(problem, labels)] = group_by_cause([unread(long), unread(short)]).values()
    assert problem == "the state of it cannot be read; use burstctl release ID"
    assert labels == {short: "vol-1 (b)", long: "vol-12 (b)"}
