"""burstctl policy push: checked, shown, asked for, written over what was shown and nothing else."""

from hashlib import sha256

import pytest

from burstctl.context.stack_policy import StackPolicyStore
from burstlab.fake_aws.faults import Fault
from burstlab.fake_aws.ssm import MAX_ADVANCED_BYTES
from burstwatch.adapters.policy.parameter_store import PolicyParameter, PolicyProblemKind
from support.aws.fake_stack import DEFAULT_POLICY, deploy_stack, push_policy, pushed_policy

FORTY_FIVE = "version: 1\n# a quiet quarter\nlevels:\n  warning_within: 45m\n"

pytestmark = pytest.mark.policy_file(FORTY_FIVE)

THIRTY = "version: 1\nlevels:\n  warning_within: 30m\n"
NIGHTLY = "version: 1\nwindows:\n  nightly:\n    cron: 0 22 * * *\n    zone: UTC\n    duration: "
PARAMETER = "/burstwatch/burstwatch/policy-pushed"
WRITES = {"PutParameter", "DeleteParameter"}


def push(cli, *arguments, **fields):
    return cli.run("policy", "push", *arguments, **fields)


def writes(lab) -> set[str]:
    return WRITES & lab.faults.call_counts().keys()


def single_error(result) -> str:
    assert "Traceback" not in result.err
    (complaint,) = result.error_lines
    return complaint.removeprefix("error: ")


def test_it_shows_the_changes_confirms_and_writes_who_replaced_what(cli, lab, stack):
    result = push(cli, answer="y")

    assert result.code == 0
    assert result.out == (
        "stack burstwatch in us-east-1: /burstwatch/burstwatch/policy (deployed\n"
        "  2026-11-20T18:00:00Z) -> policy.yaml\n"
        "  levels.warning_within: 1h -> 45m\n"
    )
    assert "Put policy.yaml in force in stack burstwatch? [y/N]" in result.err
    assert f"pushed to {PARAMETER}; the watchdog takes it up within a minute" in result.err
    digest = sha256(DEFAULT_POLICY.encode()).hexdigest()
    assert pushed_policy(lab) == f"# pushed over sha256:{digest}\n# by anna (user/moto)\n{FORTY_FIVE}"
    assert cli.run("policy", "show", "--json").document["levels"]["warning_within"] == "45m"


def test_declining_writes_nothing(cli, lab, stack):
    result = push(cli, answer="n")

    assert result.code == 130
    assert "nothing was done" in result.err
    assert writes(lab) == set()


def test_without_a_terminal_it_needs_yes_and_calls_aws_for_nothing_before(cli, lab, stack):
    result = push(cli)

    assert result.code == 2
    assert single_error(result) == "no terminal to ask on."
    assert "  fix: add --yes to do it, or --dry-run" in result.err
    assert lab.faults.call_counts() == {}
    assert push(cli, "--yes").code == 0


def test_a_dry_run_shows_it_and_writes_nothing(cli, lab, stack):
    result = push(cli, "--dry-run")

    assert result.code == 0
    assert "levels.warning_within: 1h -> 45m" in result.out
    assert "a dry run: nothing was changed" in result.err
    assert writes(lab) == set()


def test_every_fault_is_reported_before_a_call_to_aws(cli, lab, stack):
    (cli.directory / "bad.yaml").write_text("version: 1\nlevels:\n  warning_within: soon\n  colour: red\n")

    result = push(cli, "bad.yaml", "--yes")

    assert result.code == 2
    assert "bad.yaml:3: levels.warning_within: 'soon' is not a valid duration" in result.err
    assert "bad.yaml:4: levels.colour: unknown key" in result.err
    assert lab.faults.call_counts() == {}


@pytest.mark.parametrize(
    ("more", "code"), [(-1, 0), (0, 0), (1, 2)], ids=["a byte below", "just full", "a byte above"]
)
def test_it_must_fit_into_a_parameter_with_the_lines_above_it_in_bytes(cli, lab, stack, more, code):
    above = len(f"# pushed over sha256:{64 * 'f'}\n# by anna (user/moto)\n")
    room = MAX_ADVANCED_BYTES - above + more
    text = f"version: 1\n# {'ä' * 10}\n"
    text += "#" * (room - len(text.encode()) - 1) + "\n"
    (cli.directory / "policy.yaml").write_bytes(text.encode())
    assert len(text) < len(text.encode()) == room

    result = push(cli, "--yes")

    assert result.code == code
    if code:
        assert single_error(result) == (
            f"policy.yaml: {room:,} bytes, and {above} for the lines that say who pushed it over what, are"
            " 8,193: a parameter holds 8,192 at most."
        )
        assert writes(lab) == set()
    else:
        assert len((pushed_policy(lab) or "").encode()) == MAX_ADVANCED_BYTES + more
        assert "over 4 KB: AWS keeps and bills it as an advanced parameter" in result.err


def test_another_opt_in_tag_than_the_stacks_is_refused(cli, lab, stack):
    (cli.directory / "policy.yaml").write_text("version: 1\nmode:\n  opt_in_tag: team:watch=yes\n")

    result = push(cli, "--yes")

    assert result.code == 2
    assert single_error(result) == (
        "policy.yaml: mode.opt_in_tag is 'team:watch=yes', and the stack burstwatch was deployed to modify"
        " only volumes tagged 'burstwatch:mode=auto': its permissions depend on that."
    )
    assert writes(lab) == set()


def test_the_opt_in_tag_that_the_stack_was_deployed_with_is_fine(cli, lab):
    (cli.directory / "policy.yaml").write_text("version: 1\nmode:\n  opt_in_tag: team:watch=yes\n")
    deploy_stack(lab, opt_in_tag={"key": "team:watch", "value": "yes"})

    assert push(cli, "--yes").code == 0


def test_a_policy_that_parameter_store_reads_as_a_reference_is_refused(cli, lab, stack):
    (cli.directory / "policy.yaml").write_text("version: 1\n# {{ssm:thresholds}}\n")

    result = push(cli, "--yes")

    assert result.code == 2
    assert single_error(result).startswith(
        "policy.yaml holds something in {{ }}, which Parameter Store takes"
    )


def test_the_active_policy_is_not_pushed_again(cli, lab, stack):
    push(cli, "--yes")
    lab.faults.reset_calls()

    result = push(cli, "--yes")

    assert result.code == 0
    assert "nothing changes" in result.out
    assert "in force already" in result.err
    assert writes(lab) == set()


def test_a_text_without_any_other_setting_is_pushed_and_that_is_reported(cli, lab, stack):
    (cli.directory / "policy.yaml").write_text("version: 1\n# as it always was\n")

    result = push(cli, "--yes")

    assert "no setting changes; the text, or what it is pushed over, does" in result.out
    assert (pushed_policy(lab) or "").endswith("# as it always was\n")


def test_it_warns_where_the_one_in_force_was_pushed_over_another_deploy(cli, lab, stack):
    push(cli, "--yes")
    lab.clock.advance(3600)
    deployed = "version: 1\nlevels:\n  critical_within: 20m\n"
    deploy_stack(lab, policy=deployed)
    (cli.directory / "policy.yaml").write_text(THIRTY)

    result = push(cli, "--yes")

    assert f"{PARAMETER} (pushed 2026-11-20T18:00:00Z by anna (user/moto))" in " ".join(result.out.split())
    assert "  levels.warning_within: 45m -> 30m\n" in result.out
    assert (
        "careful: the policy in force was pushed before the deployment of 2026-11-20T19:00:00Z,"
        " which changed the deployed policy. That change is not in force; to see it:"
        " burstctl policy push --withdraw --dry-run"
    ) in result.err
    assert f"sha256:{sha256(deployed.encode()).hexdigest()}\n" in (pushed_policy(lab) or ""), (
        "it is over that one now"
    )
    assert "careful" not in push(cli, "--yes").err


def test_to_push_the_same_again_over_a_later_deploy_is_something_to_do(cli, lab, stack):
    push(cli, "--yes")
    deploy_stack(lab, policy=THIRTY)

    result = push(cli, "--yes")

    assert "no setting changes" in result.out
    assert sha256(THIRTY.encode()).hexdigest() in (pushed_policy(lab) or "")


def test_what_an_earlier_push_wrote_above_is_not_pushed_twice(cli, lab, stack):
    push(cli, "--yes")
    (cli.directory / "fetched.yaml").write_text((pushed_policy(lab) or "").replace("45m", "44m"))

    push(cli, "fetched.yaml", "--yes")

    assert (pushed_policy(lab) or "").count("# pushed over") == 1
    assert (pushed_policy(lab) or "").count("# by ") == 1


def test_a_bad_active_policy_does_not_block_a_push(cli, lab, stack):
    push_policy(lab, "version: 9\n")

    result = push(cli, "--yes")

    assert result.code == 0
    assert "the one in force cannot be read, so there is nothing to compare with" in result.out


def test_withdraw_brings_the_deployed_one_back(cli, lab, stack):
    push(cli, "--yes")

    result = push(cli, "--withdraw", answer="yes")

    assert result.code == 0
    assert "  levels.warning_within: 45m -> 1h\n" in result.out
    assert "Withdraw the pushed policy of stack burstwatch? [y/N]" in result.err
    assert pushed_policy(lab) is None
    assert "/burstwatch/burstwatch/policy (stack burstwatch)" in cli.run("policy", "show").err


def test_the_deployed_functions_take_up_what_was_pushed_and_what_was_withdrawn(cli, lab, stack):
    functions = PolicyParameter(
        lab.client("ssm"),
        "/burstwatch/burstwatch/policy",
        deployment="burstwatch",
        store=NoNotes(),
        max_age_s=0,
    )
    before = functions.get_active()
    push(cli, "--yes")
    between = functions.get_active()
    deploy_stack(lab, policy=THIRTY)
    outdated = functions.get_active()
    push(cli, "--withdraw", "--yes")
    after = functions.get_active()

    minutes = [item.policy.levels.warning_within.seconds // 60 for item in (before, between, outdated, after)]
    assert minutes == [60, 45, 45, 30]
    problem_kinds = [item.problem and item.problem.kind for item in (before, between, outdated, after)]
    assert problem_kinds == [None, None, PolicyProblemKind.OUTDATED, None]


class NoNotes:
    """Notes that no one keeps."""

    def read(self, name):
        return None

    def write(self, name, text):
        pass


def test_there_may_be_nothing_to_withdraw(cli, lab, stack):
    result = push(cli, "--withdraw", "--yes")

    assert result.code == 0
    assert "no policy was pushed: there is nothing to withdraw" in result.err
    assert writes(lab) == set()


def test_the_only_policy_is_not_withdrawn(cli, lab, stack):
    push(cli, "--yes")
    lab.client("ssm").delete_parameter(Name="/burstwatch/burstwatch/policy")

    result = push(cli, "--withdraw", "--yes")

    assert result.code == 2
    assert "is gone: without a pushed policy there would be none" in single_error(result)
    assert pushed_policy(lab) is not None


def test_to_withdraw_takes_no_file(cli, lab, stack):
    result = push(cli, "policy.yaml", "--withdraw", "--yes")

    assert result.code == 2
    assert "--withdraw withdraws the pushed policy.\n  fix: leave out FILE" in result.err


def test_of_several_stacks_one_must_be_named(cli, lab, stack):
    lab.clock.advance(60)
    deploy_stack(lab, "second")

    result = push(cli, "--yes")

    assert result.code == 2
    assert single_error(result) == "several stacks are deployed here."
    assert "  fix: add --stack with one of burstwatch, second" in result.err
    assert push(cli, "--yes", "--stack", "second").code == 0
    assert (pushed_policy(lab), pushed_policy(lab, "second") is None) == (None, False)
    assert "warning_within: 45m" in cli.run("policy", "show", "--stack", "second").out


def test_a_stack_that_is_not_there(cli, lab, stack):
    result = push(cli, "--yes", "--stack", "burstwach")

    assert result.code == 2
    assert single_error(result) == "no stack 'burstwach'."
    assert "  fix: name one that is deployed here: burstwatch" in result.err


def test_no_stack_at_all(cli, lab):
    result = push(cli, "--yes")

    assert result.code == 2
    assert single_error(result) == "no stack is deployed in this account and Region."
    assert "  fix: deploy one (cdk deploy), or say where one is: --profile, --region" in result.err


@pytest.mark.parametrize("command", ["check", "show"])
def test_a_file_and_a_stack_are_two_policies(cli, lab, stack, command):
    result = cli.run("policy", command, "--policy", "policy.yaml", "--stack", "burstwatch")

    assert result.code == 2
    assert "policy.yaml and --stack are two policies.\n  fix: leave out one of them" in result.err


def test_nothing_to_push(cli, lab, stack):
    (cli.directory / "policy.yaml").unlink()

    result = push(cli, "--yes")

    assert result.code == 2
    assert single_error(result) == "there is nothing to push."


def test_a_file_that_is_not_there(cli, lab, stack):
    result = push(cli, "nowhere.yaml", "--yes")

    assert result.code == 2
    assert "nowhere.yaml: cannot be read: No such file or directory" in result.err


@pytest.mark.parametrize("before", [None, THIRTY])
def test_what_others_push_in_the_meantime_is_not_overwritten(cli, lab, stack, before):
    if before:
        push_policy(lab, before)
    other_policy = "version: 1\nlevels:\n  warning_within: 50m\n"

    result = push(cli, answer="y", during_prompt=lambda: push_policy(lab, other_policy))

    assert result.code == 1
    assert (
        "error: the policy of stack burstwatch was changed by someone else, and nothing was done.\n"
        "  fix: look at it (burstctl policy show) and run again"
    ) in result.err
    assert (pushed_policy(lab) or "").endswith(other_policy)


def test_a_deploy_in_the_meantime_stops_it_too(cli, lab, stack):
    result = push(cli, answer="y", during_prompt=lambda: deploy_stack(lab, policy=THIRTY))

    assert result.code == 1
    assert pushed_policy(lab) is None


def test_two_first_pushes_at_the_same_moment_are_one(cli, lab, stack, monkeypatch):
    monkeypatch.setattr(
        StackPolicyStore, "_refuse_if_changed", lambda _self, _expected: push_policy(lab, THIRTY)
    )

    result = push(cli, "--yes")

    assert result.code == 1
    assert "was changed by someone else, and nothing was done" in single_error(result)
    assert (pushed_policy(lab) or "").endswith(THIRTY)


def test_a_concurrent_second_push_is_reported(cli, lab, stack, monkeypatch):
    push_policy(lab, THIRTY)
    other_policy = "version: 1\nlevels:\n  warning_within: 50m\n"
    monkeypatch.setattr(
        StackPolicyStore, "_refuse_if_changed", lambda _self, _expected: push_policy(lab, other_policy)
    )

    result = push(cli, "--yes")

    assert single_error(result).startswith("someone else pushed at the same moment.")


@pytest.mark.parametrize("arguments", [["--yes"], ["--withdraw", "--yes"]])
def test_aws_may_refuse_the_write(cli, lab, stack, arguments):
    if "--withdraw" in arguments:
        push(cli, "--yes")
    for action in WRITES:
        lab.faults.add(Fault(action=action, code="AccessDeniedException", message="no"))

    result = push(cli, *arguments)

    assert result.code == 1
    assert "this identity may not call ssm:" in single_error(result)
    assert (pushed_policy(lab) is None) is ("--withdraw" not in arguments)


def test_aws_may_refuse_to_list_stacks(cli, lab, stack):
    lab.faults.add(Fault(action="GetParametersByPath", code="AccessDeniedException", message="no"))

    result = push(cli, "--yes")

    assert result.code == 1
    assert single_error(result) == "this identity may not call ssm:GetParametersByPath."


def test_a_stack_that_flips_nothing_reports_it(cli, lab):
    deploy_stack(lab, flips=False)

    assert "deployed with flips: false: it flips nothing, regardless of the policy" in push(cli, "--yes").err


def test_it_is_one_object_in_json(cli, lab, stack):
    document = push(cli, "--dry-run", "--json").document
    result = push(cli, "--yes", "--json").document
    withdrawn = push(cli, "--withdraw", "--yes", "--json").document

    assert document == {
        "schema": "burstwatch.policy-push/v1",
        "stack": "burstwatch",
        "region": "us-east-1",
        "in_force": {
            "parameter": "/burstwatch/burstwatch/policy",
            "version": 1,
            "modified_at": "2026-11-20T18:00:00Z",
            "sha256": sha256(DEFAULT_POLICY.encode()).hexdigest(),
            "pushed": False,
            "by": None,
            "outdated": False,
        },
        "policy": "policy.yaml",
        "changes": [{"setting": "levels.warning_within", "before": "1h", "after": "45m"}],
        "size_bytes": document["size_bytes"],
        "most_bytes": 8192,
        "dry_run": True,
        "pushed": False,
        "withdrawn": False,
        "version": None,
    }
    assert (result["pushed"], result["version"], result["dry_run"]) == (True, 1, False)
    assert (withdrawn["withdrawn"], withdrawn["in_force"]["by"]) == (True, "anna (user/moto)")
    assert withdrawn["size_bytes"] is None


def test_with_json_the_prompt_still_shows_the_change(cli, lab, stack):
    result = push(cli, "--json", answer="y")

    assert "  levels.warning_within: 1h -> 45m" in result.err
    assert result.document["pushed"] is True


def test_windows_come_and_go_by_name(cli, lab):
    deploy_stack(lab, policy=f"{NIGHTLY}8h\n  old:\n")
    (cli.directory / "policy.yaml").write_text(f"{NIGHTLY}9h\n    where: tag:Role=etcd\n")

    output = push(cli, "--dry-run").out

    assert "  windows.nightly.duration: 8h -> 9h\n" in output
    assert "  windows.nightly.where: (nothing) -> tag:Role=etcd\n" in output
    assert "  windows.old: no settings -> (nothing)\n" in output


def test_a_policy_with_a_byte_order_mark_is_pushed_without(cli, lab, stack):
    (cli.directory / "policy.yaml").write_bytes(b"\xef\xbb\xbf" + FORTY_FIVE.encode())

    assert push(cli, "--yes").code == 0
    assert (pushed_policy(lab) or "").endswith(FORTY_FIVE)
    assert "\ufeff" not in (pushed_policy(lab) or "")
    assert cli.run("policy", "check").code == 0
