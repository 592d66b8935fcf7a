"""The fault campaign finds what is planted, leaves nothing out, and the product stands a slice of it."""

import json
from collections import Counter
from dataclasses import fields, replace

import pytest
from click.testing import CliRunner

from burstlab.fault_injection import fault_models, scenario
from burstlab.fault_injection.clients import CloudWatch
from burstlab.fault_injection.deployments import HOUSES, LedgerFile
from burstlab.fault_injection.effects import COLUMNS, ITEM_FAULTS, Fault, Strike
from burstlab.fault_injection.invariants import LAWS, judge
from burstlab.fault_injection.runs import campaign, chosen, clean_run, strike, strikes
from burstlab.fault_injection.scenario import play
from burstlab.fault_injection.text import SCHEMA
from burstlab.fault_injection.world import (
    CALM,
    HELD,
    IN_SCOPE,
    SICK,
    TWIN,
    UNTAGGED,
    Lost,
    Made,
    SimulatedShell,
    World,
)
from burstlab.main import main
from burstwatch.adapters.aws.ec2_modify import Ec2Modifier
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.adapters.policy.yaml_file import parse_policy
from burstwatch.core.flips.planning import Order
from burstwatch.core.ledger.flip_state import Cause
from burstwatch.engine.collector import Gathering
from burstwatch.engine.services import Shell
from burstwatch.handlers import flip

AWS_CODES = [
    "IncorrectModificationState",
    "VolumeModificationRateExceeded",
    "VolumeModificationSizeLimitExceeded",
    "MaxIOPSLimitExceeded",
    "VolumeIOPSLimit",
    "VolumeLimitExceeded",
    "IncorrectState",
    "InvalidParameterValue",
    "InvalidParameterCombination",
    "InvalidVolume.NotFound",
    "InvalidVolumeID.Malformed",
    "UnauthorizedOperation",
    "DryRunOperation",
    "RequestLimitExceeded",
    "UnsupportedOperation",
]
MODIFY = "ec2:ModifyVolume #1"


@pytest.fixture(params=HOUSES)
def house(request):
    return request.param


@pytest.fixture(scope="module")
def clean():
    return clean_run("desk")


def burstlab(*arguments):
    return CliRunner().invoke(main, ["faults", *arguments])


# Nothing is left out


def test_each_effect_has_a_run_for_each_fault_or_a_reason_why_not(house):
    clean = clean_run(house)
    played = strikes(clean.effects)
    assert len(set(played)) == len(played)
    for effect in clean.effects:
        runs = {one.fault for one in played if one.effect == effect.name}
        assert runs == set(effect.faults)
        assert runs.isdisjoint(effect.senseless)
        assert runs | effect.senseless.keys() >= set(Fault)
        assert all(effect.senseless.values())
        assert runs


def test_effects_of_one_name_are_numbered_without_a_gap(house):
    seen = Counter()
    for effect in clean_run(house).effects:
        seen[effect.operation] += 1
        assert effect.name == f"{effect.operation} #{seen[effect.operation]}"


def test_every_error_code_is_played_at_every_modification(house):
    effects = [each for each in clean_run(house).effects if each.operation == "ec2:ModifyVolume"]
    assert len(effects) == 4
    for effect in effects:
        assert set(AWS_CODES) <= set(effect.faults)


def counted(known, done):
    """A method of the ledger that counts how often it is called while the story is told."""

    def call(self, *given, **named):
        done[known.__name__] += 1
        return known(self, *given, **named)

    return call


def test_what_the_watchdog_does_to_its_ledger_and_to_people_is_an_effect_each_time(monkeypatch):
    done = Counter()
    written = [
        "commit",
        "begin",
        "claim_tick",
        "renew_tick",
        "complete_tick",
        "claim",
        "delivered",
        "place_hold",
        "lift_hold",
    ]
    for name in written:
        monkeypatch.setattr(SqliteLedger, name, counted(getattr(SqliteLedger, name), done))
    monkeypatch.setattr(scenario, "_QUIET_MIN", 0)
    run = play("desk")
    seen = Counter(effect.operation for effect in run.effects)
    assert {name: seen[f"ledger.{name}"] for name in written} == {name: done[name] for name in written}
    assert seen["channel.send"] == len(run.told)
    assert seen["ec2:ModifyVolume"] == len(run.sent) == len(run.made)


def test_a_deployed_watchdog_is_struck_in_all_its_functions_and_services():
    clean = clean_run("deployed")
    assert {effect.process for effect in clean.effects} == {"watch", "flip", "settle", "operator"}
    services = {effect.operation.split(":")[0] for effect in clean.effects}
    assert services == {"ec2", "cloudwatch", "dynamodb", "sns", "sqs", "ssm"}


def test_the_story_is_a_whole_one(house):
    clean = clean_run(house)
    assert clean.is_at_rest
    assert not judge(replace(clean, strike=Strike("none", "none")), clean)
    assert [(one.volume_id, one.volume_type) for one in clean.made] == [
        (SICK, "io1"),
        (SICK, "gp2"),
        (TWIN, "gp3"),
        (HELD, "gp3"),
    ]
    told = {(one.volume_id, one.kind) for one in clean.told}
    assert {(HELD, "FlipRefused"), (UNTAGGED, "BurstBalanceExhausted"), (SICK, "VolumeFlippedBack")} <= told
    assert CALM not in {one.volume_id for one in clean.told}


def test_a_run_is_the_same_whenever_it_is_repeated(house):
    one, other = (play(house, Strike(MODIFY, Fault.TIMEOUT_AFTER)) for _ in range(2))
    assert replace(one, took_s=0) == replace(other, took_s=0)


# What is planted is found


def without(things, index):
    return [*things[:index], *things[index + 1 :]]


def first(things, **wanted):
    return next(i for i, one in enumerate(things) if all(getattr(one, k) == v for k, v in wanted.items()))


def late(run, struck, seconds):
    """The modification of one volume came so late."""
    made = [one._replace(at_s=one.at_s + seconds * (one.volume_id == TWIN)) for one in run.made]
    return replace(run, strike=struck, made=made)


PLANTED = {
    "the_original_is_known": lambda run: replace(run, lost=[Lost(run.begins_s, SICK, "io1", "nothing")]),
    "one_modification_per_decision": lambda run: replace(run, sent=[*run.sent, run.sent[0]]),
    "never_out_of_scope": lambda run: replace(
        run, sent=[*run.sent, run.sent[0]._replace(volume_id=UNTAGGED, intent_id="other")]
    ),
    "every_level_is_alerted": lambda run: replace(
        run, told=without(run.told, first(run.told, volume_id=UNTAGGED, level="exhausted"))
    ),
    "none_is_held_back": lambda run: replace(
        run, made=[one._replace(at_s=one.at_s + 60 * (one.volume_id == TWIN)) for one in run.made]
    ),
    "no_way_to_people_delays_a_flip": lambda run: late(run, Strike("channel.send #1", Fault.DRIP), 61),
    "a_blind_watchdog_is_late_by_no_more": lambda run: late(
        run, Strike("cloudwatch:GetMetricData #1", Fault.DRIP), 391
    ),
    "none_runs_dry": lambda run: replace(run, dry_from_s={**run.dry_from_s, TWIN: run.ended_s}),
    "the_ledger_is_true": lambda run: replace(
        run, entries=without(run.entries, first(run.entries, volume_id=SICK, kind="accepted"))
    ),
    "no_false_word": lambda run: replace(
        run, told=[*run.told, run.told[0]._replace(kind="VolumeChangedByOthers")]
    ),
    "all_comes_to_rest": lambda run: replace(run, types={**run.types, SICK: "io1"}),
    "no_mistake_of_ours": lambda run: replace(run, bugs=["KeyError: 'x'"]),
}


@pytest.mark.parametrize("law", LAWS)
def test_each_law_finds_what_breaks_it(law, clean):
    run = replace(clean, strike=Strike(MODIFY, Fault.ERROR))
    assert judge(run, clean) == {}
    assert law in judge(PLANTED[law](run), clean)


def test_a_volume_told_as_dry_breaks_the_same_law_however_much_it_had_left(clean):
    told = [*clean.told, clean.told[0]._replace(volume_id=TWIN, kind="BurstBalanceExhausted")]
    found = judge(replace(clean, strike=Strike(MODIFY, Fault.ERROR), told=told), clean)
    assert found["none_runs_dry"][0].startswith("ci-8 was told as dry in minute ")


def test_a_volume_that_runs_dry_where_the_watchdog_is_blind_is_found(monkeypatch, clean):
    """CloudWatch says of one volume that it is full, whatever it is: nobody is told, and it is not moved."""
    answer = CloudWatch._answer

    def say_full(self, query, from_s, to_s):
        found = answer(self, query, from_s, to_s)
        is_balance = query["MetricStat"]["Metric"]["MetricName"] == "BurstBalance"
        if is_balance and TWIN in str(query):
            found["Values"] = [100.0 for _ in found["Values"]]
        return found

    monkeypatch.setattr(CloudWatch, "_answer", say_full)
    run = play("desk", Strike(MODIFY, Fault.ERROR))
    assert (TWIN, "BurstBalanceExhausted") not in {(one.volume_id, one.kind) for one in run.told}
    (said,) = judge(run, clean)["none_runs_dry"]
    minute = (run.dry_from_s[TWIN] - run.begins_s) // 60
    # 45 % at 2,500 IOPS are gone after 18.4 minutes.
    assert (said, minute) == (f"ci-8 ran dry in minute {minute}", 18)


def test_a_simulated_pass_reads_as_one_of_the_product_and_lasts_as_the_lab_says():
    world = World.begin()
    policy = parse_policy(b"version: 1\ncadence: {metric_lag: 9m}\n", source="a test")
    given = {field.name: None for field in fields(Shell)} | {"policy": policy, "clock": lambda: 12.0}
    mine, own = SimulatedShell(**given).gathering(world.now_s), Shell(**given).gathering(world.now_s)
    assert mine.metric_lag_s == own.metric_lag_s == 540
    differing = {
        field.name for field in fields(Gathering) if getattr(mine, field.name) != getattr(own, field.name)
    }
    assert differing == {"monotonic", "_began"}
    assert mine.monotonic() == 12


def test_an_intent_ages_by_the_simulated_clock(monkeypatch):
    """One older than half a minute is not sent any more: to record one takes longer here."""

    def begin(self, *given, **named):
        done = self._ledger.begin(*given, **named)
        self._wire.clock.advance(31)
        return done

    monkeypatch.setattr(LedgerFile, "begin", begin, raising=False)
    run = play("desk")
    assert {one.volume_id for one in run.entries if one.kind == "intent"} == IN_SCOPE
    assert run.sent == []
    assert set(run.dry_from_s) == IN_SCOPE | {UNTAGGED}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"is_held": True}, "etcd-1 was on hold when ModifyVolume was sent in minute {}"),
        ({"volume_id": CALM}, "wiki is out of scope, and ModifyVolume was sent in minute {}"),
    ],
)
def test_what_must_not_be_sent_is_told_with_volume_and_minute(changed, said, clean):
    index = first(clean.sent, volume_id=HELD)
    sent = without(clean.sent, index)
    run = replace(
        clean, strike=Strike(MODIFY, Fault.ERROR), sent=[*sent, clean.sent[index]._replace(**changed)]
    )
    minute = (clean.sent[index].at_s - clean.begins_s) // 60
    assert judge(run, clean)["never_out_of_scope"] == [said.format(minute)]


def test_a_modification_more_than_was_decided_is_found(clean):
    more = Made(clean.ended_s, TWIN, "gp3")
    run = replace(clean, strike=Strike(MODIFY, Fault.ERROR), made=[*clean.made, more])
    assert (
        "ci-8 was modified to gp3 and gp3, not to gp3" in judge(run, clean)["one_modification_per_decision"]
    )


@pytest.fixture
def sends_twice(monkeypatch):
    """A modifier that takes silence for a no, and asks again."""
    send = Ec2Modifier.modify

    def modify(self, volume_id, configuration, **options):
        answer = send(self, volume_id, configuration, **options)
        is_silent = getattr(answer, "failure", None) is not None and answer.failure.code == "ReadTimeoutError"
        return send(self, volume_id, configuration, **options) if is_silent else answer

    monkeypatch.setattr(Ec2Modifier, "modify", modify)


@pytest.mark.usefixtures("sends_twice")
def test_a_modifier_that_sends_twice_is_found_where_an_answer_is_lost_and_nowhere_else():
    assert strike("desk", Strike(MODIFY, Fault.ERROR)).violations == {}
    found = strike("desk", Strike(MODIFY, Fault.TIMEOUT_AFTER)).violations["one_modification_per_decision"]
    assert any(said.endswith("was sent 2 times") for said in found)


@pytest.mark.usefixtures("sends_twice")
def test_the_command_says_which_law_is_broken_and_how_to_play_it_again():
    result = burstlab("--on", "desk", "--only", MODIFY, "--fault", "timeout")
    assert result.exit_code == 1
    assert "one_modification_per_decision" in result.output
    assert f"burstlab faults --on desk --only '{MODIFY}' --fault timeout-after" in result.output.replace(
        "\n", " "
    ).replace("  ", " ")


def test_a_ledger_that_forgets_what_a_volume_was_is_found(monkeypatch):
    """The watchdog's own commits lose every flip under way."""
    commit = SqliteLedger.commit

    def forget(self, changes, *, channels):
        lossy = [
            replace(each, state=replace(each.state, flip=None)) if each.state and each.state.flip else each
            for each in changes
        ]
        return commit(self, lossy, channels=channels)

    monkeypatch.setattr(SqliteLedger, "commit", forget)
    assert play("desk", Strike(MODIFY, Fault.ERROR_AFTER)).lost


# The product stands it


SLICE = [
    *[("desk", MODIFY, None), ("desk", "ledger.begin", None), ("desk", "ledger.place_hold", None)],
    *[("deployed", MODIFY, column) for column in ("error", "after", "timeout", "crash", "answer")],
    ("deployed", "sqs:SendMessageBatch #1", None),
    *[("desk", f"{effect} #5", "drip") for effect in ("channel.send", "cloudwatch:GetMetricData")],
    ("deployed", "sns:Publish #5", "drip"),
]


@pytest.mark.parametrize(("on", "only", "fault"), SLICE)
def test_a_slice_of_the_campaign_breaks_no_law(on, only, fault):
    wanted = chosen(clean_run(on), only, fault)
    told = campaign(on, wanted, workers=1)
    assert [one.strike for one in told.outcomes] == wanted
    assert {one.strike: one.violations for one in told.broken} == {}


def test_a_deployed_flip_that_was_never_sent_is_asked_for_again_when_its_pause_is_over():
    """The pause after what was never sent is a minute, and the queue forgets no request in it."""
    run = play("deployed", Strike(MODIFY, Fault.ERROR))
    flipped_s = next(one.at_s for one in run.made if one.volume_id == SICK)
    undone_s = next(one.at_s for one in run.entries if (one.volume_id, one.kind) == (SICK, "not_done"))
    assert 60 <= flipped_s - undone_s < 120


@pytest.mark.parametrize(
    ("operation", "fault"),
    [
        ("ec2:DescribeVolumes", Fault.PARTIAL),
        ("ec2:DescribeVolumes", Fault.EMPTY),
        ("cloudwatch:GetMetricData", Fault.EMPTY),
        ("cloudwatch:GetMetricData", Fault.STALE),
    ],
)
def test_one_answer_that_leaves_out_draining_volumes_costs_them_minutes_at_most(operation, fault, house):
    clean = clean_run(house)
    warned_s = next(one.at_s for one in clean.told if one.volume_id == SICK)
    effect = next(
        one
        for one in clean.effects
        if one.operation == operation and one.at_s > warned_s and fault in one.faults and SICK in one.about
    )
    outcome = strike(house, Strike(effect.name, fault))
    assert outcome.violations == {}
    assert outcome.longest_s <= 120


FORGED = Strike("sqs:SendMessageBatch #1", "forged")


def test_forged_flip_requests_change_nothing_of_the_story():
    outcome = strike("deployed", FORGED)
    assert outcome.violations == {}
    assert outcome.longest_s == 0


def test_a_flip_function_that_believes_a_request_is_found(monkeypatch):
    def believe(_shell, volume_id, direction, _gathering):
        return Order(volume_id=volume_id, direction=direction, cause=Cause.WINDOW, because="asked for")

    monkeypatch.setattr(flip, "order_now", believe)
    found = strike("deployed", FORGED).violations
    assert {"one_modification_per_decision", "never_out_of_scope"} <= found.keys()
    assert any("wiki" in said for said in found["never_out_of_scope"])


def test_an_intent_is_as_old_as_its_record_and_not_as_what_was_read_before_it(clean):
    """The quota of io1 is read last of all: its answer does not come, which takes two and a half minutes."""
    begins = [one.name for one in clean.effects].index("ledger.begin #1")
    quota = clean.effects[begins - 1]
    assert quota.operation == "ec2:DescribeVolumes"
    run = play("desk", Strike(quota.name, Fault.TIMEOUT))
    assert judge(run, clean) == {}
    sent_s, due_s = (next(o.at_s for o in told.sent if o.volume_id == SICK) for told in (run, clean))
    assert sent_s - due_s == 150


def test_others_are_not_held_back_while_one_volume_is_refused(clean):
    run = play("desk", Strike(MODIFY, "MaxIOPSLimitExceeded"))
    due = {one.volume_id: one.at_s for one in clean.made if one.volume_id in (IN_SCOPE - {SICK})}
    assert {one.volume_id: one.at_s for one in run.made if one.volume_id in due} == due


# The command


def test_the_command_tells_its_runs_as_a_document():
    result = burstlab("--on", "desk", "--only", "ec2:ModifyVolume #2", "--fault", "timeout", "--json")
    assert result.exit_code == 0
    (told,) = json.loads(result.stdout)["campaigns"]
    assert json.loads(result.stdout)["schema"] == SCHEMA
    assert (told["on"], told["runs"], told["violations"], told["broken"]) == ("desk", 2, 0, [])
    assert told["runs_in_all"] == sum(len(effect["faults"]) for effect in told["effects"])


def test_the_table_fits_a_terminal_and_has_a_column_for_every_kind():
    result = burstlab("--on", "desk", "--only", "ledger.lift_hold")
    assert result.exit_code == 0
    assert all(len(line) <= 80 for line in result.output.splitlines())
    assert all(name in result.output for name in COLUMNS)
    assert "0 broke a law." in " ".join(result.output.split())


def test_the_list_says_why_what_is_not_played_makes_no_sense():
    result = burstlab("--list", "--on", "deployed")
    assert result.exit_code == 0
    assert "it changes nothing" in result.output
    assert "every read of the" in result.output
    assert all(len(line) <= 80 for line in result.output.splitlines())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--only", "ec2:DeleteVolume"), "no effect 'ec2:DeleteVolume'"),
        (("--on", "desk", "--only", MODIFY, "--fault", "stale"), "it is no read"),
    ],
)
def test_what_cannot_be_played_is_refused_with_what_can(arguments, said):
    result = burstlab(*arguments)
    assert result.exit_code == 1
    assert said in result.stderr
    assert "Traceback" not in result.output


def test_every_error_of_a_modification_is_known_to_the_lab_under_its_own_code():
    raises = fault_models.modify_volume(lambda: 0.0).raises
    told = {code: raises[code]("ec2:ModifyVolume").response["Error"]["Code"] for code in AWS_CODES}
    assert told == {code: code for code in AWS_CODES}


# Items of the ledger


@pytest.mark.parametrize("fault", ITEM_FAULTS)
def test_one_bad_item_of_the_ledger_breaks_no_law_and_fails_no_pass(house, fault):
    every = [one for one in strikes(clean_run(house).effects) if one.fault == fault]
    reads = {one.effect.split(" #")[0]: one for one in every}  # the last of each kind of read
    some = [*reads.values(), every[len(every) // 2]]

    for one in some:
        assert strike(house, one).violations == {}, one
    if house == "desk":
        assert [play(house, one).failed_passes for one in some] == [0] * len(some)


def test_every_kind_of_read_of_the_ledger_meets_bad_items(house):
    struck = {
        one.effect.split(" #")[0] for one in strikes(clean_run(house).effects) if one.fault == "damaged"
    }
    of_file = {"ledger.states", "ledger.states_of", "ledger.holds", "ledger.waiting"}
    assert struck == of_file if house == "desk" else struck >= {"dynamodb:Query", "dynamodb:BatchGetItem"}
