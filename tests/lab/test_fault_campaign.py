"""The fault campaign finds what is planted, leaves nothing out, and the product stands a slice of it."""

import json
from collections import Counter
from dataclasses import fields, replace

import pytest
from click.testing import CliRunner

from burstlab.fault_injection import fault_models, scenario
from burstlab.fault_injection.cli_deployment import FaultInjectingLedger
from burstlab.fault_injection.clients import CloudWatch
from burstlab.fault_injection.effects import COLUMNS, ITEM_FAULTS, Fault, FaultInjector, InjectedFault
from burstlab.fault_injection.invariants import INVARIANTS, check_invariants
from burstlab.fault_injection.runs import (
    judge_run,
    list_injectable_faults,
    run_campaign,
    run_with_fault,
    run_without_faults,
    select_faults,
)
from burstlab.fault_injection.scenario import run_scenario
from burstlab.fault_injection.text import SCHEMA
from burstlab.fault_injection.world import (
    CALM,
    DRAINING_GP3,
    DRAINING_IO1,
    IN_SCOPE,
    ON_HOLD,
    UNTAGGED,
    FaultWorld,
    UnknownOriginal,
)
from burstlab.harness.deterministic import SimulatedServices
from burstlab.harness.outcome import AcceptedModification
from burstlab.main import main
from burstlab.model.clock import LabClock
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.adapters.policy.yaml_file import parse_policy
from burstwatch.core.flips.flip_plan import FlipOrder
from burstwatch.core.ledger.flip_state import FlipCause
from burstwatch.engine.collector import Collector
from burstwatch.engine.services import Services
from burstwatch.handlers import flip

EFFECT_NAMES = {
    "record_intent": "ledger.begin",
    "claim_delivery": "ledger.claim",
    "mark_delivered": "ledger.delivered",
}
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


def burstlab(*arguments):
    return CliRunner().invoke(main, ["faults", *arguments])


# Nothing is left out


def test_each_effect_has_a_run_for_each_fault_or_a_reason_why_not(deployment):
    clean = run_without_faults(deployment)
    played = list_injectable_faults(clean.effects)
    assert len(set(played)) == len(played)
    for effect in clean.effects:
        runs = {item.fault for item in played if item.effect == effect.name}
        assert runs == set(effect.faults)
        assert runs.isdisjoint(effect.not_applicable)
        assert runs | effect.not_applicable.keys() >= set(Fault)
        assert all(effect.not_applicable.values())
        assert runs


def test_effects_of_one_name_are_numbered_without_a_gap(deployment):
    counts = Counter()
    for effect in run_without_faults(deployment).effects:
        counts[effect.operation] += 1
        assert effect.name == f"{effect.operation} #{counts[effect.operation]}"


def test_every_error_code_is_played_at_every_modification(deployment):
    effects = [
        item for item in run_without_faults(deployment).effects if item.operation == "ec2:ModifyVolume"
    ]
    assert len(effects) == 4
    for effect in effects:
        assert set(AWS_CODES) <= set(effect.faults)


def count_matching(known, done):
    """A method of the ledger that counts how often it is called during the scenario."""

    def call(self, *args, **kwargs):
        done[known.__name__] += 1
        return known(self, *args, **kwargs)

    return call


def test_what_the_watchdog_does_to_its_ledger_and_to_people_is_an_effect_each_time(monkeypatch):
    result = Counter()
    written = [
        "commit",
        "record_intent",
        "claim_tick",
        "renew_tick",
        "complete_tick",
        "claim_delivery",
        "mark_delivered",
        "place_hold",
        "lift_hold",
    ]
    for name in written:
        monkeypatch.setattr(SqliteLedger, name, count_matching(getattr(SqliteLedger, name), result))
    monkeypatch.setattr(scenario, "_QUIET_MIN", 0)
    run = run_scenario("desk")
    counts = Counter(effect.operation for effect in run.effects)
    assert {name: counts[EFFECT_NAMES.get(name, f"ledger.{name}")] for name in written} == {
        name: result[name] for name in written
    }
    assert counts["channel.send"] == len(run.alerts)
    assert counts["ec2:ModifyVolume"] == len(run.requests) == len(run.modifications)


def test_faults_are_injected_into_all_functions_and_services_of_a_deployed_watchdog():
    clean = run_without_faults("deployed")
    assert {effect.process for effect in clean.effects} == {"watch", "flip", "probe", "settle", "operator"}
    services = {effect.operation.split(":")[0] for effect in clean.effects}
    assert services == {"ec2", "cloudwatch", "dynamodb", "sns", "sqs", "ssm"}


def test_the_scenario_is_complete(deployment):
    clean = run_without_faults(deployment)
    assert clean.is_settled
    assert not check_invariants(replace(clean, injected_fault=InjectedFault("none", "none")), clean)
    assert [(item.volume_id, item.volume_type) for item in clean.modifications] == [
        (DRAINING_IO1, "io1"),
        (DRAINING_IO1, "gp2"),
        (DRAINING_GP3, "gp3"),
        (ON_HOLD, "gp3"),
    ]
    reported = {(item.volume_id, item.kind) for item in clean.alerts}
    assert {
        (ON_HOLD, "FlipRefused"),
        (UNTAGGED, "BurstBalanceExhausted"),
        (DRAINING_IO1, "VolumeFlippedBack"),
    } <= reported
    assert CALM not in {item.volume_id for item in clean.alerts}


def test_a_run_is_the_same_whenever_it_is_repeated(deployment):
    item, other = (run_scenario(deployment, InjectedFault(MODIFY, Fault.TIMEOUT_AFTER)) for _ in range(2))
    assert replace(item, cpu_s=0) == replace(other, cpu_s=0)


# What is planted is found


def drop_index(items, index):
    return [*items[:index], *items[index + 1 :]]


def drop_first(items, **wanted):
    return next(i for i, item in enumerate(items) if all(getattr(item, k) == v for k, v in wanted.items()))


def make_late(run, fault, seconds):
    """The modification of one volume came so late."""
    created = [
        item._replace(at_s=item.at_s + seconds * (item.volume_id == DRAINING_GP3))
        for item in run.modifications
    ]
    return replace(run, injected_fault=fault, modifications=created)


PLANTED_FAULTS = {
    "original_is_recorded": lambda run: replace(
        run, unknown_originals=[UnknownOriginal(run.started_at_s, DRAINING_IO1, "io1", "nothing")]
    ),
    "one_modification_per_decision": lambda run: replace(run, requests=[*run.requests, run.requests[0]]),
    "no_request_out_of_scope": lambda run: replace(
        run, requests=[*run.requests, run.requests[0]._replace(volume_id=UNTAGGED, intent_id="other")]
    ),
    "every_level_is_alerted": lambda run: replace(
        run,
        alerts=drop_index(run.alerts, drop_first(run.alerts, volume_id=UNTAGGED, level="exhausted")),
    ),
    "delays_stay_bounded": lambda run: replace(
        run,
        modifications=[
            item._replace(at_s=item.at_s + 60 * (item.volume_id == DRAINING_GP3))
            for item in run.modifications
        ],
    ),
    "failed_delivery_delays_no_flip": lambda run: make_late(
        run, InjectedFault("channel.send #1", Fault.DRIP), 61
    ),
    "lost_reads_delay_by_minutes": lambda run: make_late(
        run, InjectedFault("cloudwatch:GetMetricData #1", Fault.DRIP), 391
    ),
    "no_volume_becomes_empty": lambda run: replace(
        run, empty_at_s={**run.empty_at_s, DRAINING_GP3: run.ended_at_s}
    ),
    "ledger_agrees_with_aws": lambda run: replace(
        run, entries=drop_index(run.entries, drop_first(run.entries, volume_id=DRAINING_IO1, kind="accepted"))
    ),
    "no_false_alert": lambda run: replace(
        run, alerts=[*run.alerts, run.alerts[0]._replace(kind="VolumeChangedByOthers")]
    ),
    "everything_settles": lambda run: replace(run, final_types={**run.final_types, DRAINING_IO1: "io1"}),
    "no_internal_errors": lambda run: replace(run, internal_errors=["KeyError: 'x'"]),
}


@pytest.mark.parametrize("invariant", INVARIANTS)
def test_each_invariant_finds_what_breaks_it(invariant, fault_free_run):
    run = replace(fault_free_run, injected_fault=InjectedFault(MODIFY, Fault.ERROR))
    assert check_invariants(run, fault_free_run) == {}
    assert invariant in check_invariants(PLANTED_FAULTS[invariant](run), fault_free_run)


def test_a_volume_reported_as_empty_violates_the_same_invariant_whatever_its_balance(fault_free_run):
    reported = [
        *fault_free_run.alerts,
        fault_free_run.alerts[0]._replace(volume_id=DRAINING_GP3, kind="BurstBalanceExhausted"),
    ]
    result = check_invariants(
        replace(fault_free_run, injected_fault=InjectedFault(MODIFY, Fault.ERROR), alerts=reported),
        fault_free_run,
    )
    assert result["no_volume_becomes_empty"][0].startswith("ci-8 was reported as empty in minute ")


def test_a_volume_that_empties_while_the_watchdog_cannot_see_it_is_detected(monkeypatch, fault_free_run):
    """CloudWatch says of one volume that it is full, whatever it is: no alert, no flip."""
    answer = CloudWatch._query_result

    def return_full(self, query, from_s, to_s):
        result = answer(self, query, from_s, to_s)
        is_balance = query["MetricStat"]["Metric"]["MetricName"] == "BurstBalance"
        if is_balance and DRAINING_GP3 in str(query):
            result["Values"] = [100.0 for _ in result["Values"]]
        return result

    monkeypatch.setattr(CloudWatch, "_query_result", return_full)
    run = run_scenario("desk", InjectedFault(MODIFY, Fault.ERROR))
    assert (DRAINING_GP3, "BurstBalanceExhausted") not in {(item.volume_id, item.kind) for item in run.alerts}
    (text,) = check_invariants(run, fault_free_run)["no_volume_becomes_empty"]
    minute = (run.empty_at_s[DRAINING_GP3] - run.started_at_s) // 60
    # 45 % at 2,500 IOPS are gone after 18.4 minutes.
    assert (text, minute) == (f"ci-8 became empty in minute {minute}", 18)


def test_a_simulated_pass_reads_as_one_of_the_product_and_lasts_as_the_lab_defines():
    world = FaultWorld()
    policy = parse_policy(b"version: 1\ncadence: {metric_lag: 9m}\n", source="a test")
    arguments = {field.name: None for field in fields(Services)} | {"policy": policy, "clock": lambda: 12.0}
    simulated, own = (
        SimulatedServices(**arguments).build_collector(world.now_s),
        Services(**arguments).build_collector(world.now_s),
    )
    assert simulated.metric_lag_s == own.metric_lag_s == 540
    differing = {
        field.name
        for field in fields(Collector)
        if getattr(simulated, field.name) != getattr(own, field.name)
    }
    assert differing == {"monotonic", "_started_at_s"}
    assert simulated.monotonic() == 12


def test_an_intent_ages_by_the_simulated_clock(monkeypatch):
    """One older than half a minute is not sent any more: to record one takes longer here."""

    def record_intent(self, *args, **kwargs):
        result = self.target.record_intent(*args, **kwargs)
        self.injector.clock.advance(31)
        return result

    monkeypatch.setattr(FaultInjectingLedger, "record_intent", record_intent, raising=False)
    run = run_scenario("desk")
    assert {entry.volume_id for entry in run.entries if entry.kind == "intent"} == IN_SCOPE
    assert run.requests == []
    assert set(run.empty_at_s) == IN_SCOPE | {UNTAGGED}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"is_held": True}, "etcd-1 was on hold when ModifyVolume was sent in minute {}"),
        ({"volume_id": CALM}, "wiki is out of scope, and ModifyVolume was sent in minute {}"),
    ],
)
def test_a_forbidden_alert_is_listed_with_volume_and_minute(changed, message, fault_free_run):
    index = drop_first(fault_free_run.requests, volume_id=ON_HOLD)
    sent = drop_index(fault_free_run.requests, index)
    run = replace(
        fault_free_run,
        injected_fault=InjectedFault(MODIFY, Fault.ERROR),
        requests=[*sent, fault_free_run.requests[index]._replace(**changed)],
    )
    minute = (fault_free_run.requests[index].at_s - fault_free_run.started_at_s) // 60
    assert check_invariants(run, fault_free_run)["no_request_out_of_scope"] == [message.format(minute)]


def test_a_modification_more_than_was_decided_is_found(fault_free_run):
    more = AcceptedModification(fault_free_run.ended_at_s, DRAINING_GP3, "gp3")
    run = replace(
        fault_free_run,
        injected_fault=InjectedFault(MODIFY, Fault.ERROR),
        modifications=[*fault_free_run.modifications, more],
    )
    assert (
        "ci-8 was modified to gp3 and gp3, not to gp3"
        in check_invariants(run, fault_free_run)["one_modification_per_decision"]
    )


@pytest.mark.usefixtures("duplicate_sends")
def test_a_modifier_that_sends_twice_is_found_where_an_answer_is_lost_and_nowhere_else():
    assert run_with_fault("desk", InjectedFault(MODIFY, Fault.ERROR)).violations == {}
    result = run_with_fault("desk", InjectedFault(MODIFY, Fault.TIMEOUT_AFTER)).violations[
        "one_modification_per_decision"
    ]
    assert any(finding.endswith("was sent 2 times") for finding in result)


@pytest.mark.usefixtures("duplicate_sends")
def test_the_command_names_the_violated_invariant_and_how_to_replay_it():
    result = burstlab("--on", "desk", "--only", MODIFY, "--fault", "timeout")
    assert result.exit_code == 1
    assert "one_modification_per_decision" in result.output
    assert f"burstlab faults --on desk --only '{MODIFY}' --fault timeout-after" in result.output.replace(
        "\n", " "
    ).replace("  ", " ")


def test_a_ledger_that_loses_what_a_volume_was_is_detected(monkeypatch):
    """The watchdog's own commits lose every flip under way."""
    commit = SqliteLedger.commit

    def forget(self, changes, *, channels):
        lossy = [
            replace(change, state=replace(change.state, flip=None))
            if change.state and change.state.flip
            else change
            for change in changes
        ]
        return commit(self, lossy, channels=channels)

    monkeypatch.setattr(SqliteLedger, "commit", forget)
    assert run_scenario("desk", InjectedFault(MODIFY, Fault.ERROR_AFTER)).unknown_originals


# The product stands it


SLICE = [
    *[("desk", MODIFY, None), ("desk", "ledger.begin", None), ("desk", "ledger.place_hold", None)],
    *[("deployed", MODIFY, column) for column in ("error", "after", "timeout", "crash", "answer")],
    ("deployed", "sqs:SendMessageBatch #1", None),
    *[("desk", f"{effect} #5", "drip") for effect in ("channel.send", "cloudwatch:GetMetricData")],
    ("deployed", "sns:Publish #5", "drip"),
]


@pytest.mark.parametrize(("on", "only", "fault"), SLICE)
def test_a_slice_of_the_campaign_violates_no_invariant(on, only, fault):
    wanted = select_faults(run_without_faults(on), only, fault)
    reported = run_campaign(on, wanted, workers=1)
    assert [item.injected_fault for item in reported.outcomes] == wanted
    assert {item.injected_fault: item.violations for item in reported.failed_outcomes} == {}


def test_a_deployed_flip_that_was_never_sent_is_requested_again_when_its_pause_is_over():
    """The pause after what was never sent is a minute, and the queue forgets no request in it."""
    run = run_scenario("deployed", InjectedFault(MODIFY, Fault.ERROR))
    flipped_s = next(item.at_s for item in run.modifications if item.volume_id == DRAINING_IO1)
    undone_s = next(
        item.at_s for item in run.entries if (item.volume_id, item.kind) == (DRAINING_IO1, "not_done")
    )
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
def test_one_answer_that_leaves_out_draining_volumes_costs_them_minutes_at_most(operation, fault, deployment):
    clean = run_without_faults(deployment)
    warned_s = next(item.at_s for item in clean.alerts if item.volume_id == DRAINING_IO1)
    effect = next(
        item
        for item in clean.effects
        if item.operation == operation
        and item.at_s > warned_s
        and fault in item.faults
        and DRAINING_IO1 in item.volume_ids
    )
    outcome = run_with_fault(deployment, InjectedFault(effect.name, fault))
    assert outcome.violations == {}
    assert outcome.longest_delay_s <= 120


FORGED_REQUESTS = InjectedFault("sqs:SendMessageBatch #1", "forged")


def test_forged_flip_requests_do_not_change_the_run():
    outcome = run_with_fault("deployed", FORGED_REQUESTS)
    assert outcome.violations == {}
    assert outcome.longest_delay_s == 0


def test_a_fault_that_would_change_nothing_has_not_happened():
    """Such a run differs from the run without faults, which had something to alter here."""
    injector = FaultInjector(LabClock.manual(scenario.STARTS_AT), InjectedFault("read #1", Fault.PARTIAL))
    response = {"MetricDataResults": []}
    assert injector.perform("read", fault_models.GET_METRICS, lambda: response) is response
    assert injector.faulted_at_s is None


def test_a_flip_function_that_trusts_a_request_is_detected(monkeypatch):
    run_without_faults("deployed")  # is cached, so it must not be the changed one

    def believe(_shell, volume_id, direction, _gathering):
        return FlipOrder(volume_id=volume_id, direction=direction, cause=FlipCause.WINDOW, reason="asked for")

    monkeypatch.setattr(flip, "reassess_order", believe)
    result = run_with_fault("deployed", FORGED_REQUESTS).violations
    assert {"one_modification_per_decision", "no_request_out_of_scope"} <= result.keys()
    assert any("wiki" in item for item in result["no_request_out_of_scope"])


def test_an_intent_is_as_old_as_its_record_and_not_as_what_was_read_before_it(fault_free_run):
    """The quota of io1 is read last of all: its answer does not come, which takes two and a half minutes."""
    begins = [effect.name for effect in fault_free_run.effects].index("ledger.begin #1")
    quota = fault_free_run.effects[begins - 1]
    assert quota.operation == "ec2:DescribeVolumes"
    run = run_scenario("desk", InjectedFault(quota.name, Fault.TIMEOUT))
    assert check_invariants(run, fault_free_run) == {}
    sent_s, due_s = (
        next(o.at_s for o in reported.requests if o.volume_id == DRAINING_IO1)
        for reported in (run, fault_free_run)
    )
    assert sent_s - due_s == 150


def test_others_are_not_held_back_while_one_volume_is_refused(fault_free_run):
    run = run_scenario("desk", InjectedFault(MODIFY, "MaxIOPSLimitExceeded"))
    due = {
        item.volume_id: item.at_s
        for item in fault_free_run.modifications
        if item.volume_id in (IN_SCOPE - {DRAINING_IO1})
    }
    assert {item.volume_id: item.at_s for item in run.modifications if item.volume_id in due} == due


# The command


def test_the_command_prints_its_runs_as_json():
    result = burstlab("--on", "desk", "--only", "ec2:ModifyVolume #2", "--fault", "timeout", "--json")
    assert result.exit_code == 0
    (campaign,) = json.loads(result.stdout)["campaigns"]
    assert json.loads(result.stdout)["schema"] == SCHEMA
    assert (campaign["on"], campaign["runs"], campaign["violations"], campaign["broken"]) == (
        "desk",
        2,
        0,
        [],
    )
    assert campaign["runs_in_all"] == sum(len(effect["faults"]) for effect in campaign["effects"])


def test_the_table_fits_a_terminal_and_has_a_column_for_every_kind():
    result = burstlab("--on", "desk", "--only", "ledger.lift_hold")
    assert result.exit_code == 0
    assert all(len(line) <= 80 for line in result.output.splitlines())
    assert all(name in result.output for name in COLUMNS)
    assert "0 broke an invariant." in " ".join(result.output.split())


def test_the_list_explains_why_an_omitted_combination_makes_no_sense():
    result = burstlab("--list", "--on", "deployed")
    assert result.exit_code == 0
    assert "it changes nothing" in result.output
    assert "every read of the" in result.output
    assert all(len(line) <= 80 for line in result.output.splitlines())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--only", "ec2:DeleteVolume"), "no effect 'ec2:DeleteVolume'"),
        (("--on", "desk", "--only", MODIFY, "--fault", "stale"), "it is not a read"),
    ],
)
def test_what_cannot_be_played_is_refused_with_what_can(arguments, message):
    result = burstlab(*arguments)
    assert result.exit_code == 1
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_every_error_of_a_modification_is_known_to_the_lab_under_its_own_code():
    raises = fault_models.make_modify_volume_model(lambda: 0.0).errors
    reported = {code: raises[code]("ec2:ModifyVolume").response["Error"]["Code"] for code in AWS_CODES}
    assert reported == {code: code for code in AWS_CODES}


# Items of the ledger


@pytest.mark.parametrize("fault", ITEM_FAULTS)
def test_one_bad_item_of_the_ledger_violates_no_invariant_and_fails_no_pass(deployment, fault):
    every = [
        item for item in list_injectable_faults(run_without_faults(deployment).effects) if item.fault == fault
    ]
    reads = {item.effect.split(" #")[0]: item for item in every}  # the last of each kind of read
    some = [*reads.values(), every[len(every) // 2]]

    for item in some:
        run = run_scenario(deployment, item)
        assert judge_run(item, run).violations == {}, item
        if deployment == "desk":
            assert run.failed_passes == 0, item


def test_every_kind_of_read_of_the_ledger_meets_bad_items(deployment):
    damaged_reads = {
        fault.effect.split(" #")[0]
        for fault in list_injectable_faults(run_without_faults(deployment).effects)
        if fault.fault == "damaged"
    }
    of_file = {"ledger.states", "ledger.states_of", "ledger.holds", "ledger.waiting"}
    assert (
        damaged_reads == of_file
        if deployment == "desk"
        else damaged_reads >= {"dynamodb:Query", "dynamodb:BatchGetItem"}
    )
