"""burstctl aws-check asks, keeps to its price, removes what it created and touches nothing else."""

import json
import os
import signal
from dataclasses import replace

import pytest

from burstctl.aws_check import command, prices, run_file
from burstctl.aws_check.fact import Cost, Fact
from burstctl.aws_check.facts import FACTS, balance_after_return
from burstctl.aws_check.permissions import iam_policy, privileged_iam_policy
from burstctl.aws_check.plan import Plan
from burstctl.aws_check.resources import KINDS
from burstctl.cli.atomic_file import WriteError
from burstlab.fake_aws.faults import Fault
from burstwatch.core.text import format_duration
from support.cli.aws_check_session import (
    TAG,
    SimulatedCrash,
    answers_by_fact,
    find_fact,
    leftover_resources,
)
from support.cli.cli_session import add_lab_volume, modification_targets
from support.cli.schema_check import check_document
from support.paths import ROOT

COLUMNS = 80
DENIED = {"kind": "error", "status": 403, "message": "You are not authorized to perform this operation."}
CREATING = {
    "RunInstances": "balance-spacing",
    "CreateVolume": "ratio-refusal",
    "CreateRole": "tag-condition",
    "CreateKey": "encrypted-alarm",
    "CreateTopic": "encrypted-alarm",
    "CreateQueue": "encrypted-alarm",
    "PutRule": "event-results",
    "PutMetricAlarm": "encrypted-alarm",
}


def crash(checks, *, when=lambda: True):
    """The process ends in the first wait in which the condition holds."""

    def die(stop):
        if when():
            checks.actions.remove(die)
            raise SimulatedCrash

    checks.actions.append(die)


# -- before anything is created


def test_the_list_names_each_fact_what_is_not_tried_and_that_it_never_ran_on_aws(checks):
    result = checks.run("--list")

    assert result.code == 0
    assert all(fact.name in result.out for fact in FACTS)
    assert "Not tried" in result.out
    assert "never run on AWS" in " ".join(checks.run("--help").out.split())
    assert max(map(len, result.out.splitlines())) <= COLUMNS


def test_the_plan_states_price_and_time_on_80_columns_and_creates_nothing(checks, checks_lab):
    result = checks.run("--dry-run")

    assert result.code == 0
    assert "At most $0.3" in result.out
    assert "never run on AWS" in result.out
    assert max(map(len, result.out.splitlines())) <= COLUMNS
    assert checks_lab.faults.call_counts() == {}


def test_the_plan_as_a_document_has_the_policy_to_grant(checks, checks_lab):
    document = checks.run("--dry-run", "--json", "--only", "ratio-refusal").document

    assert [fact["name"] for fact in document["facts"]] == ["ratio-refusal"]
    assert document["host_usd"] == 0
    assert document["iam_policy"] == iam_policy(document["actions"])
    assert document["privileged_iam_policy"] is None
    assert checks.run("--list", "--json").document["region"] is None


def test_without_confirmation_nothing_is_created(checks, checks_lab):
    assert checks.run(answer="no").code == 130
    assert checks.run().code == 2
    assert leftover_resources(checks_lab) == []
    assert checks.run_files() == []


def test_what_could_cost_more_than_the_ceiling_is_not_begun(checks, checks_lab):
    result = checks.run("--yes", "--ceiling", "0.1")

    assert result.code == 4
    assert "it could cost $0.3" in result.err
    assert leftover_resources(checks_lab) == []


def test_all_facts_together_stay_below_a_dollar_in_every_region():
    assert prices.total_usd(FACTS, "us-east-1") < 0.5
    assert prices.total_usd(FACTS, "sa-east-1") < 1


def test_the_price_is_that_of_all_resources_for_all_the_time():
    fact = Fact(
        name="a",
        question="",
        why="",
        minutes=45,
        actions=(),
        measure=lambda _: None,
        cost=Cost(gp2_gib=73, kms_keys=1),
    )

    assert prices.fact_usd(fact, "us-east-1") == pytest.approx((7.3 + 1.0) / 730)
    assert prices.fact_usd(fact, "eu-west-1") == pytest.approx(2 * (7.3 + 1.0) / 730)
    own_instance = replace(fact, cost=Cost(instances=1))
    assert prices.fact_usd(own_instance, "us-east-1") == pytest.approx(0.0208 + 8 * 0.08 / 730)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "nonsense"], "the fact nonsense does not exist"),
        (["--resume", "--clean-up"], "are mutually exclusive"),
        (["--report", "no/such/folder", "--yes"], "there is no directory"),
    ],
)
def test_invalid_option_combinations_are_usage_errors(checks, checks_lab, arguments, message):
    result = checks.run(*arguments)

    assert result.code == 2
    assert message in result.err
    assert leftover_resources(checks_lab) == []


# -- others' resources


def test_foreign_volumes_are_neither_modified_nor_deleted(checks, checks_lab):
    tagged = add_lab_volume(checks_lab, "mine", tags={TAG: "another-run"})
    plain = add_lab_volume(checks_lab, "plain")

    assert checks.run("--yes", "--only", "quota", "--only", "ratio-refusal").code == 2
    assert checks.run("--yes", "--only", "ratio-refusal", "--only", "zone-filter").code == 0
    assert {tagged, plain} == {volume.volume_id for volume in checks_lab.fleet}
    assert modification_targets(checks_lab, tagged) == modification_targets(checks_lab, plain) == []


def test_a_volume_that_lost_our_tag_is_not_touched_any_more(checks, checks_lab):
    terminated = []

    def take(stop):
        for volume in checks_lab.fleet:
            if TAG in volume.tags:
                del volume.tags[TAG]
                terminated.append(volume.volume_id)

    checks.actions.append(take)
    result = checks.run("--yes", "--only", "no-op-counts", "--json")

    fact = find_fact(result.document, "no-op-counts")
    assert fact["outcome"] == "failed"
    assert "it is not touched" in fact["reason"]
    assert terminated[0] in checks_lab.fleet


def test_a_tag_on_what_is_older_than_its_run_deletes_nothing(checks, checks_lab):
    """Anyone who may tag volumes, and no more, could have a run delete them."""
    old = {add_lab_volume(checks_lab, name, minutes=600, tags={TAG: name}) for name in ("mail", "../../shop")}

    def forge(stop):
        for run in checks.run_files():
            for volume in checks_lab.fleet:
                if volume.tags["Name"] == "mail":
                    volume.tags[TAG] = run["run_id"]

    checks.actions.append(forge)
    assert checks.run("--yes", "--only", "balance-spacing").code == 0
    cleaned = checks.run("--clean-up", "--yes")

    assert {volume.volume_id for volume in checks_lab.fleet} == old
    assert cleaned.code == 1
    assert "carries the tag of no run" in " ".join(cleaned.err.split())


# -- one fact hides no other


@pytest.mark.parametrize(("action", "fact"), CREATING.items())
def test_a_missing_permission_is_reported_with_the_action_to_grant_and_hides_no_other(
    checks, checks_lab, action, fact
):
    checks_lab.faults.add(Fault(action=action, code="UnauthorizedOperation", **DENIED))
    other = "encrypted-alarm" if fact != "encrypted-alarm" else "ratio-refusal"

    result = checks.run("--yes", "--json", "--only", fact, "--only", other)

    assert result.code == 3
    refused = find_fact(result.document, fact)
    assert refused["outcome"] == "not_permitted"
    assert refused["grant"].endswith(f":{action}")
    assert refused["grant"] in [item for known in FACTS for item in known.actions] + ["ec2:RunInstances"]
    assert find_fact(result.document, other)["outcome"] == "measured"
    assert leftover_resources(checks_lab) == []


def test_every_fact_that_needs_the_host_explains_why_it_is_missing(checks, checks_lab):
    checks_lab.faults.add(Fault(action="RunInstances", code="VPCIdNotSpecified", message="No default VPC"))

    result = checks.run("--yes", "--json", "--only", "balance-spacing", "--only", "idle-publishes")

    assert result.code == 3
    assert {fact["outcome"] for fact in result.document["facts"]} == {"not_measured"}
    assert all("give --subnet" in fact["reason"] for fact in result.document["facts"])


def test_a_fact_that_breaks_or_takes_too_long_leaves_the_others_their_answers(
    checks, checks_lab, monkeypatch
):
    def breaks(bench):
        yield 1
        raise ZeroDivisionError

    def never_ends(bench):
        yield from bench.create_volume(1)
        while True:
            yield 60

    common = {"question": "?", "why": "!", "minutes": 30, "actions": ()}
    facts = (
        Fact(name="breaks", measure=breaks, **common),
        Fact(name="never-ends", measure=never_ends, **common),
        *(fact for fact in FACTS if fact.name == "ratio-refusal"),
    )
    monkeypatch.setattr(command, "FACTS", facts)

    result = checks.run("--yes", "--json")

    assert result.code == 3
    assert answers_by_fact(result.document) == {
        "breaks": None,
        "never-ends": None,
        "ratio-refusal": "refused, InvalidParameterValue",
    }
    assert "ZeroDivisionError" in find_fact(result.document, "breaks")["reason"]
    assert "longer than 30 min" in find_fact(result.document, "never-ends")["reason"]
    assert leftover_resources(checks_lab) == []


# -- interrupted, crashed, resumed


def test_ctrl_c_removes_everything_and_resume_measures_what_is_left(checks, checks_lab):
    crash_free = ("--yes", "--only", "ratio-refusal", "--only", "record-lifetime")
    interrupt_later = iter(range(4))

    def press(stop):
        if next(interrupt_later, None) is None:
            checks.actions.remove(press)
            os.kill(os.getpid(), signal.SIGINT)

    checks.actions.append(press)
    result = checks.run(*crash_free)

    assert result.code == 130
    assert "burstctl aws-check --resume" in result.err
    assert leftover_resources(checks_lab) == []
    requested = checks_lab.faults.call_counts()["CreateVolume"]
    second_result = checks.run("--resume", "--yes", "--json")
    assert second_result.code == 0
    assert answers_by_fact(second_result.document) == {
        "record-lifetime": "for 60 min or longer",
        "ratio-refusal": "refused, InvalidParameterValue",
    }
    assert checks_lab.faults.call_counts()["CreateVolume"] == requested + 1
    assert checks.run_files()[0]["is_over"] is True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_or_the_end_of_the_terminal_removes_the_host_and_its_volumes(checks, checks_lab, number):
    def press(stop):
        if len(checks_lab.fleet):
            checks.actions.remove(press)
            os.kill(os.getpid(), number)

    checks.actions.append(press)

    assert checks.run("--yes", "--only", "balance-spacing").code == 130
    assert leftover_resources(checks_lab) == []
    assert len(checks_lab.fleet) == 0


def test_after_a_crash_another_run_is_refused_and_clean_up_removes_what_is_left(checks, checks_lab):
    foreign_volume = add_lab_volume(checks_lab, "theirs")
    crash(checks, when=lambda: len(checks_lab.fleet) > 1)
    with pytest.raises(SimulatedCrash):
        checks.run("--yes")
    assert {kind for kind, _ in leftover_resources(checks_lab)} >= {"instance", "volume"}

    refused = checks.run("--yes")
    assert refused.code == 1
    assert "was interrupted" in refused.err
    cleaned = checks.run("--clean-up", "--yes", "--json")

    assert cleaned.code == 0
    assert cleaned.document["runs"][0]["left"] == []
    assert leftover_resources(checks_lab) == []
    assert foreign_volume in checks_lab.fleet
    assert checks.run("--yes", "--only", "ratio-refusal").code == 0


def test_if_the_process_is_killed_at_any_call_the_large_volume_ends_with_its_instance(
    checks, checks_lab, monkeypatch
):
    """A volume of 1,000 GiB that nothing deletes would cost $100 a month."""
    from botocore.client import BaseClient  # noqa: PLC0415 - patched here only

    make_call, is_owned = BaseClient._make_api_call, []

    def call_and_check(client, operation, parameters):
        answer = make_call(client, operation, parameters)
        for volume in checks_lab.fleet:
            if volume.size_gib >= 1000:
                owner = volume.attachment and checks_lab.fleet.instances[volume.attachment.instance_id]
                is_owned.append(owner is not None and volume.volume_id in owner.own_volumes)
        return answer

    monkeypatch.setattr(BaseClient, "_make_api_call", call_and_check)
    checks.answer("large-publishes")

    assert len(is_owned) > 1
    assert all(is_owned)


def test_the_instance_of_the_large_volume_ends_itself_within_the_time_that_is_priced(checks, checks_lab):
    crash(checks, when=lambda: len(checks_lab.fleet) > 0)
    with pytest.raises(SimulatedCrash):
        checks.run("--yes", "--only", "large-publishes")
    [instance] = checks_lab.fleet.instances.values()
    [fact] = [item for item in FACTS if item.name == "large-publishes"]

    assert f"shutdown -h +{fact.minutes + prices.CLEANUP_MINUTES}" in instance.script
    checks_lab.fleet.terminate_instance(instance.instance_id)
    assert len(checks_lab.fleet) == 0


def test_after_a_crash_resume_removes_what_is_left_and_goes_on(checks, checks_lab):
    crash(checks, when=lambda: len(checks_lab.fleet) > 0)
    with pytest.raises(SimulatedCrash):
        checks.run("--yes", "--only", "ratio-refusal", "--only", "shown-while-modifying")

    result = checks.run("--resume", "--yes", "--json")

    assert result.code == 0
    assert answers_by_fact(result.document) == {
        "ratio-refusal": "refused, InvalidParameterValue",
        "shown-while-modifying": "optimizing",
    }
    assert leftover_resources(checks_lab) == []


def test_clean_up_from_another_machine_finds_by_tag(checks, checks_lab):
    crash(checks, when=lambda: len(checks_lab.fleet) > 3)
    with pytest.raises(SimulatedCrash):
        checks.run("--yes")
    for path in checks.cli.ledger_path.parent.glob("aws-check-*.json"):
        path.unlink()

    assert checks.run("--clean-up", answer="no").code == 130
    assert leftover_resources(checks_lab) != []
    assert checks.run("--clean-up", answer="yes").code == 0
    assert leftover_resources(checks_lab) == []
    assert "nothing with the tag" in checks.run("--clean-up", "--yes").err


def test_the_price_of_a_resumed_run_is_that_of_all_its_attempts(checks, checks_lab):
    facts = [fact for fact in FACTS if fact.name in ("balance-spacing", "ratio-refusal")]
    each_usd = Plan(facts=facts).usd
    only = [word for fact in facts for word in ("--only", fact.name)]
    crash(checks, when=lambda: len(checks_lab.fleet) > 1)
    with pytest.raises(SimulatedCrash):
        checks.run("--yes", *only)

    refused = checks.run("--resume", "--yes", "--ceiling", str(1.5 * each_usd))
    assert refused.code == 4
    assert f"${each_usd:.2f} of it before this attempt" in " ".join(refused.err.split())
    assert "--ceiling" in refused.err
    result = checks.run("--resume", "--yes", "--json")

    assert result.code == 0
    assert result.document["most_usd"] == pytest.approx(2 * each_usd, abs=1e-3)
    assert leftover_resources(checks_lab) == []


def test_clean_up_names_the_permission_without_which_it_finds_no_key(checks, checks_lab):
    crash(checks, when=lambda: checks_lab.client("kms").list_keys()["Keys"])
    with pytest.raises(SimulatedCrash):
        checks.run("--yes", "--only", "encrypted-alarm")
    for path in checks.cli.ledger_path.parent.glob("aws-check-*.json"):
        path.unlink()
    checks_lab.faults.add(Fault(action="ListResourceTags", **(DENIED | {"code": "AccessDeniedException"})))

    result = checks.run("--clean-up", "--yes")

    assert result.code == 1
    assert "grant kms:ListResourceTags" in " ".join(result.err.split())
    assert {kind for kind, _ in leftover_resources(checks_lab)} == {"key"}
    checks_lab.faults.clear()
    assert checks.run("--clean-up", "--yes").code == 0
    assert leftover_resources(checks_lab) == []


def test_a_key_whose_own_policy_hides_its_tags_keeps_nothing_from_being_removed(checks, checks_lab):
    foreign_key = checks_lab.client("kms").create_key()["KeyMetadata"]["KeyId"]
    crash(checks, when=lambda: len(checks_lab.client("kms").list_keys()["Keys"]) > 1)
    with pytest.raises(SimulatedCrash):
        checks.run("--yes", "--only", "encrypted-alarm")
    for path in checks.cli.ledger_path.parent.glob("aws-check-*.json"):
        path.unlink()
    denied = DENIED | {"code": "AccessDeniedException", "volume_ids": (foreign_key,)}
    checks_lab.faults.add(Fault(action="ListResourceTags", **denied))

    assert checks.run("--clean-up", "--yes").code == 0
    assert leftover_resources(checks_lab) == [("key", foreign_key)]


@pytest.mark.parametrize("then", ["--clean-up", "--resume"])
@pytest.mark.parametrize(("action", "fact"), CREATING.items())
def test_a_crash_between_the_intent_and_the_record_of_what_was_created_leaves_nothing(
    checks, checks_lab, monkeypatch, action, fact, then
):
    """The call is carried out, and the process ends before it sees the answer."""
    from botocore.client import BaseClient  # noqa: PLC0415 - patched here only

    make_call = BaseClient._make_api_call

    def call_and_crash(client, operation, parameters):
        answer = make_call(client, operation, parameters)
        if operation == action:
            raise SimulatedCrash
        return answer

    with monkeypatch.context() as patched:
        patched.setattr(BaseClient, "_make_api_call", call_and_crash)
        with pytest.raises(SimulatedCrash):
            checks.run("--yes", "--only", fact)
    assert leftover_resources(checks_lab) != []

    assert checks.run(then, "--yes").code == 0
    assert leftover_resources(checks_lab) == []


@pytest.mark.parametrize(("action", "fact"), CREATING.items())
def test_a_lost_answer_leaves_nothing_behind(checks, checks_lab, action, fact):
    checks_lab.faults.add(Fault(action=action, kind="reset", after_effect=True, times=1))

    assert checks.run("--yes", "--only", fact).code == 0
    assert leftover_resources(checks_lab) == []


def test_what_cannot_be_removed_is_named_and_the_next_clean_up_removes_it(checks, checks_lab):
    checks_lab.faults.add(Fault(action="DeleteVolume", code="UnauthorizedOperation", **DENIED))

    result = checks.run("--yes", "--json", "--only", "ratio-refusal")

    assert result.code == 1
    assert [item["kind"] for item in result.document["left"]] == ["volume"]
    assert "fix: try again with burstctl aws-check --clean-up" in result.err
    checks_lab.faults.clear()
    assert checks.run("--clean-up", "--yes").code == 0
    assert leftover_resources(checks_lab) == []


def test_on_a_full_disk_nothing_more_is_created_and_everything_is_removed(checks, checks_lab):
    written = run_file.write_atomically

    def raise_disk_full(path, content):
        if checks_lab.faults.call_counts().get("CreateVolume", 0) > 1:
            raise WriteError(f"{path} could not be written (No space left on device)")
        written(path, content)

    checks.monkeypatch.setattr(run_file, "write_atomically", raise_disk_full)

    result = checks.run("--yes", "--only", "tag-filter")

    assert result.code == 1
    assert "No space left on device" in result.err
    assert checks_lab.faults.call_counts()["CreateVolume"] == 2
    assert leftover_resources(checks_lab) == []


def test_another_process_in_the_region_is_refused(checks, checks_lab):
    results = []

    def run_another(stop):
        checks.actions.clear()
        results.append(checks.cli.run_in_subprocess("aws-check", "--clean-up", "--yes"))

    checks.actions.append(run_another)

    assert checks.run("--yes", "--only", "ratio-refusal").code == 0
    assert results[0].code == 1
    assert "another burstctl aws-check is running" in results[0].err


def test_a_run_of_another_account_is_not_touched(checks, checks_lab):
    crash(checks)
    with pytest.raises(SimulatedCrash):
        checks.run("--yes", "--only", "ratio-refusal")
    checks_lab.account.arn = "arn:aws:sts::999999999999:user/other"

    for arguments in (["--resume", "--yes"], ["--clean-up", "--yes"]):
        result = checks.run(*arguments)
        assert result.code == 2
        assert "999999999999" in result.err


def test_what_aws_does_not_show_yet_is_removed_once_it_does(checks, checks_lab):
    def press(stop):
        if len(checks_lab.fleet):
            checks.actions.remove(press)
            checks_lab.faults.add(Fault(action="DescribeVolumes", code="InvalidVolume.NotFound", times=2))
            os.kill(os.getpid(), signal.SIGINT)

    checks.actions.append(press)

    assert checks.run("--yes", "--only", "record-lifetime").code == 130
    assert leftover_resources(checks_lab) == []


@pytest.mark.parametrize(("home", "code"), [("us-east-1", 0), ("eu-west-1", 1)])
def test_clean_up_leaves_a_run_of_another_region_to_that_region(checks, checks_lab, home, code):
    """A role is seen from every Region, and what else the run has left is not."""
    crash(checks, when=lambda: len(checks_lab.fleet) > 0)
    with pytest.raises(SimulatedCrash):
        checks.run("--yes", "--only", "record-lifetime")
    [before] = checks.run_files()
    checks_lab.client("iam").create_role(
        RoleName="left",
        Path=f"/burstwatch-aws-check/{home}/",
        AssumeRolePolicyDocument="{}",
        Tags=[{"Key": TAG, "Value": before["run_id"]}],
    )
    leftovers = leftover_resources(checks_lab)

    result = checks.run("--clean-up", "--yes", "--region", "eu-west-1")

    assert (result.code, checks.run_files(), leftover_resources(checks_lab)) == (code, [before], leftovers)
    assert (
        "is of us-east-1, account 123456789012. fix: clean up there" in " ".join(result.err.split())
    ) is bool(code)


@pytest.mark.parametrize(
    ("fact", "code"),
    [
        ("ratio-refusal", "InternalError"),
        ("ratio-refusal", "ExpiredToken"),
        ("attach-while-modifying", "RequestLimitExceeded"),
    ],
)
def test_an_aws_error_is_not_an_answer(checks, checks_lab, fact, code):
    action = "AttachVolume" if fact == "attach-while-modifying" else "ModifyVolume"
    checks_lab.faults.add(Fault(action=action, code=code, message="Sorry."))

    result = checks.run("--yes", "--json", "--only", fact)

    assert (find_fact(result.document, fact)["outcome"], result.code) == ("failed", 3)


@pytest.mark.parametrize(
    ("fact", "answer"),
    [
        ("modification-quota", "4 accepted, then VolumeModificationRateExceeded, which says until when"),
        ("no-op-counts", "counts"),
        ("balance-after-return", "kept"),
    ],
)
@pytest.mark.usefixtures("late_records")
def test_a_record_of_the_modification_before_is_not_taken_for_this_one(checks, checks_lab, fact, answer):
    assert checks.answer(fact) == answer


def test_times_of_a_modification_are_not_those_of_the_one_before(
    checks, checks_lab, late_records, monkeypatch
):
    round_trips, judge = [], balance_after_return.reach_verdict
    monkeypatch.setattr(
        balance_after_return,
        "reach_verdict",
        lambda round_trip: round_trips.append(round_trip) or judge(round_trip),
    )

    checks.answer("balance-after-return")

    assert round_trips[-1].return_started_at_s > round_trips[-1].arrived_at_s


def test_a_record_that_one_look_does_not_show_is_not_gone(checks, checks_lab, monkeypatch):
    from botocore.client import BaseClient  # noqa: PLC0415 - patched here only

    make_call, completed = BaseClient._make_api_call, []

    def call(client, operation, parameters):
        answer = make_call(client, operation, parameters)
        for record in answer.get("VolumesModifications", ()):
            completed.extend([1] if record["ModificationState"] == "completed" else [])
        if operation == "DescribeVolumesModifications" and len(completed) in (3, 5):
            return answer | {"VolumesModifications": []}
        return answer

    monkeypatch.setattr(BaseClient, "_make_api_call", call)

    assert checks.answer("record-lifetime") == "for 60 min or longer"


def test_an_unreadable_run_file_is_named(checks, checks_lab):
    path = checks.cli.ledger_path.parent / "aws-check-20261120t180000z-0000.json"
    path.parent.mkdir(parents=True)
    path.write_text("{")

    result = checks.run("--yes")

    assert result.code == 1
    assert str(path) in result.err
    assert "--clean-up finds by tag" in result.err


# -- the report


def test_the_report_names_neither_account_nor_people_unless_requested(checks, checks_lab):
    message = "User: arn:aws:sts::123456789012:assumed-role/Admin/jane is not authorized to perform:"
    denied = Fault(
        action="CreateVolume",
        code="UnauthorizedOperation",
        status=403,
        message=f"{message} ec2:CreateVolume. Encoded authorization failure message: AbC_dEf",
    )
    checks_lab.faults.add(denied)
    checks.run("--yes", "--report", "shared", "--only", "ratio-refusal")
    checks.run("--yes", "--report", "private", "--only", "ratio-refusal", "--with-account")

    for name, is_private in (("shared", False), ("private", True)):
        for ending in ("json", "md"):
            text = (checks.directory / f"{name}.{ending}").read_text()
            assert ("jane" in text) is is_private
            assert "AbC_dEf" not in text
        document = check_document(json.loads((checks.directory / f"{name}.json").read_text()))
        assert document["account"] == ("123456789012" if is_private else None)


def test_the_report_names_no_account_of_others_and_no_request(checks, checks_lab):
    output = "key arn:aws:kms:us-east-1:210987654321:key/a of 210987654321 (Request ID: 7a62c49f-347e)"
    checks_lab.faults.add(Fault(action="CreateVolume", code="Odd", message=output))
    checks.run("--yes", "--report", "shared", "--only", "ratio-refusal")

    for ending in ("json", "md"):
        text = (checks.directory / f"shared.{ending}").read_text()
        assert "Odd" in text
        assert "210987654321" not in text
        assert "7a62c49f" not in text


def test_serve_as_takes_the_report_and_lists_what_it_could_not_take(checks, checks_lab, tmp_path):
    checks.measure("ratio-refusal")
    from burstlab.serve.measured_settings import settings_from_report  # noqa: PLC0415

    changes, unknown = settings_from_report(json.loads(checks.report_path().read_text()))
    assert changes == {"ratio_code": "InvalidParameterValue"}
    assert len(unknown) == len(FACTS) - 1


# -- the pages


def test_the_page_has_the_policies_that_all_facts_need():
    page = (ROOT / "docs" / "aws-check.md").read_text()
    policies = [json.loads(part.partition("```")[0]) for part in page.split("```json\n")[1:]]

    actions = Plan(facts=FACTS).actions
    assert policies == [iam_policy(actions), privileged_iam_policy(actions)]


def test_the_granted_policy_gives_no_access_to_foreign_keys_or_roles():
    actions = Plan(facts=FACTS).actions
    granted = {action for item in iam_policy(actions)["Statement"] for action in item["Action"]}
    privileged = {action for item in privileged_iam_policy(actions)["Statement"] for action in item["Action"]}

    assert granted | privileged == set(actions)
    assert not granted & privileged
    assert {"iam:CreateRole", "iam:PutRolePolicy", "sts:AssumeRole", "kms:TagResource"} <= privileged
    assert [item for item in granted if item.startswith("iam:") and not item.startswith("iam:List")] == []


def test_the_page_names_each_fact_and_that_it_never_ran():
    page = (ROOT / "docs" / "aws-check.md").read_text()

    assert [fact.name for fact in FACTS if f"`{fact.name}`" not in page] == []
    assert "has never run on AWS" in page
    plan = Plan(facts=FACTS)
    assert f"at most ${plan.usd:.2f} and {format_duration(plan.minutes * 60)} in us-east-1" in page


def test_the_policy_lets_nothing_be_changed_that_does_not_carry_the_tag_or_the_name():
    actions = Plan(facts=FACTS).actions
    statements = [
        item
        for policy in (iam_policy(actions), privileged_iam_policy(actions))
        for item in policy["Statement"]
    ]

    changing = {"ec2:ModifyVolume", "ec2:DeleteVolume", "ec2:TerminateInstances", "kms:ScheduleKeyDeletion"}
    by_tag = {action for item in statements if item["Sid"] == "OwnByTag" for action in item["Action"]}
    assert changing <= by_tag
    assert not any(
        action in changing for item in statements if item["Sid"] != "OwnByTag" for action in item["Action"]
    )
    assert all(item["Resource"] != "*" for item in statements if item["Sid"].startswith("OwnI"))


def test_the_deployed_roles_get_none_of_it():
    sources = "\n".join(path.read_text() for path in (ROOT / "infra").glob("*.py"))

    assert "aws-check" not in sources
    assert "ec2:RunInstances" not in sources


def test_each_kind_has_a_test_of_a_crash():
    assert len(KINDS) == len(CREATING)
