"""burstctl policy push: checked, shown, asked for, written over what was shown and nothing else."""

from hashlib import sha256

import pytest
from a_stack import PLAIN, a_stack, push_by_hand, pushed
from operators_desk import OperatorsDesk, a_lab

from burstctl.context.stack_policy import StackPolicyStore
from burstlab.fake_aws.faults import Fault
from burstlab.fake_aws.ssm import ADVANCED_BYTES
from burstwatch.adapters.policy.parameter_store import PolicyParameter, TroubleKind

FORTY_FIVE = "version: 1\n# a quiet quarter\nlevels:\n  warning_within: 45m\n"
THIRTY = "version: 1\nlevels:\n  warning_within: 30m\n"
NIGHTLY = "version: 1\nwindows:\n  nightly:\n    cron: 0 22 * * *\n    zone: UTC\n    duration: "
PARAMETER = "/burstwatch/burstwatch/policy-pushed"
WRITES = {"PutParameter", "DeleteParameter"}


@pytest.fixture
def desk(tmp_path, monkeypatch, capsys):
    made = OperatorsDesk(tmp_path, monkeypatch, capsys)
    made.set(LOGNAME="anna")
    (made.directory / "policy.yaml").write_text(FORTY_FIVE)
    return made


@pytest.fixture
def lab(desk):
    with a_lab(desk) as endpoint:
        yield endpoint


@pytest.fixture
def stack(lab):
    made = a_stack(lab)
    lab.faults.forget_calls()
    return made


def push(desk, *arguments, **given):
    return desk.run("policy", "push", *arguments, **given)


def writes(lab) -> set[str]:
    return WRITES & lab.faults.calls().keys()


def the_complaint(ran) -> str:
    assert "Traceback" not in ran.err
    (complaint,) = ran.complaints
    return complaint.removeprefix("burstctl: ")


def test_it_shows_what_changes_asks_and_writes_who_did_it_over_what(desk, lab, stack):
    ran = push(desk, answer="y")

    assert ran.code == 0
    assert ran.out == (
        "stack burstwatch in us-east-1: /burstwatch/burstwatch/policy (deployed\n"
        "  2026-11-20T18:00:00Z) -> policy.yaml\n"
        "  levels.warning_within: 1h -> 45m\n"
    )
    assert "Put policy.yaml in force in stack burstwatch? [y/N]" in ran.err
    assert f"pushed to {PARAMETER}; the watchdog takes it up within a minute" in ran.err
    digest = sha256(PLAIN.encode()).hexdigest()
    assert pushed(lab) == f"# pushed over sha256:{digest}\n# by anna (user/moto)\n{FORTY_FIVE}"
    assert desk.run("policy", "show", "--json").document["levels"]["warning_within"] == "45m"


def test_no_is_no_and_nothing_is_written(desk, lab, stack):
    ran = push(desk, answer="n")

    assert ran.code == 130
    assert "nothing was done" in ran.err
    assert writes(lab) == set()


def test_without_a_terminal_it_needs_yes_and_asks_aws_nothing_before(desk, lab, stack):
    ran = push(desk)

    assert ran.code == 2
    assert the_complaint(ran).startswith("there is no terminal to ask on: add --yes to do it, or --dry-run")
    assert lab.faults.calls() == {}
    assert push(desk, "--yes").code == 0


def test_a_dry_run_shows_it_and_writes_nothing(desk, lab, stack):
    ran = push(desk, "--dry-run")

    assert ran.code == 0
    assert "levels.warning_within: 1h -> 45m" in ran.out
    assert "a dry run: nothing was changed" in ran.err
    assert writes(lab) == set()


def test_every_fault_is_told_before_aws_is_asked(desk, lab, stack):
    (desk.directory / "bad.yaml").write_text("version: 1\nlevels:\n  warning_within: soon\n  colour: red\n")

    ran = push(desk, "bad.yaml", "--yes")

    assert ran.code == 2
    assert "bad.yaml:3: levels.warning_within: 'soon' is not a span" in ran.err
    assert "bad.yaml:4: levels.colour: unknown key" in ran.err
    assert lab.faults.calls() == {}


@pytest.mark.parametrize(
    ("more", "code"), [(-1, 0), (0, 0), (1, 2)], ids=["a byte below", "just full", "a byte above"]
)
def test_it_must_fit_into_a_parameter_with_the_lines_above_it_in_bytes(desk, lab, stack, more, code):
    above = len(f"# pushed over sha256:{64 * 'f'}\n# by anna (user/moto)\n")
    room = ADVANCED_BYTES - above + more
    text = f"version: 1\n# {'ä' * 10}\n"
    text += "#" * (room - len(text.encode()) - 1) + "\n"
    (desk.directory / "policy.yaml").write_bytes(text.encode())
    assert len(text) < len(text.encode()) == room

    ran = push(desk, "--yes")

    assert ran.code == code
    if code:
        assert the_complaint(ran) == (
            f"policy.yaml: {room:,} bytes, and {above} for the lines that say who pushed it over what, are"
            " 8,193: a parameter holds 8,192 at most; shorten it"
        )
        assert writes(lab) == set()
    else:
        assert len((pushed(lab) or "").encode()) == ADVANCED_BYTES + more
        assert "over 4 KB: AWS keeps and bills it as an advanced parameter" in ran.err


def test_another_opt_in_tag_than_the_stacks_is_refused(desk, lab, stack):
    (desk.directory / "policy.yaml").write_text("version: 1\nmode:\n  opt_in_tag: team:watch=yes\n")

    ran = push(desk, "--yes")

    assert ran.code == 2
    assert the_complaint(ran) == (
        "policy.yaml: mode.opt_in_tag is 'team:watch=yes', and the stack burstwatch was deployed to modify"
        " only volumes tagged 'burstwatch:mode=auto': its permissions were made from that; to change the tag,"
        " deploy the stack with this policy (cdk deploy)"
    )
    assert writes(lab) == set()


def test_the_opt_in_tag_that_the_stack_was_deployed_with_is_fine(desk, lab):
    (desk.directory / "policy.yaml").write_text("version: 1\nmode:\n  opt_in_tag: team:watch=yes\n")
    a_stack(lab, opt_in_tag={"key": "team:watch", "value": "yes"})

    assert push(desk, "--yes").code == 0


def test_what_parameter_store_would_take_for_a_reference_is_refused(desk, lab, stack):
    (desk.directory / "policy.yaml").write_text("version: 1\n# {{ssm:thresholds}}\n")

    ran = push(desk, "--yes")

    assert ran.code == 2
    assert the_complaint(ran).startswith("policy.yaml holds something in {{ }}, which Parameter Store takes")


def test_what_is_in_force_is_not_pushed_again(desk, lab, stack):
    push(desk, "--yes")
    lab.faults.forget_calls()

    ran = push(desk, "--yes")

    assert ran.code == 0
    assert "nothing changes" in ran.out
    assert "in force already" in ran.err
    assert writes(lab) == set()


def test_a_text_without_any_other_setting_is_pushed_and_that_is_said(desk, lab, stack):
    (desk.directory / "policy.yaml").write_text("version: 1\n# as it always was\n")

    ran = push(desk, "--yes")

    assert "no setting changes; the text, or what it is pushed over, does" in ran.out
    assert (pushed(lab) or "").endswith("# as it always was\n")


def test_it_warns_where_the_one_in_force_was_pushed_over_another_deploy(desk, lab, stack):
    push(desk, "--yes")
    lab.clock.advance(3600)
    deployed = "version: 1\nlevels:\n  critical_within: 20m\n"
    a_stack(lab, policy=deployed)
    (desk.directory / "policy.yaml").write_text(THIRTY)

    ran = push(desk, "--yes")

    assert f"{PARAMETER} (pushed 2026-11-20T18:00:00Z by anna (user/moto))" in " ".join(ran.out.split())
    assert "  levels.warning_within: 45m -> 30m\n" in ran.out
    assert (
        "careful: the policy in force was pushed over another deployed one than today's, which is of"
        " 2026-11-20T19:00:00Z: what that deploy changed is not in force; to see it:"
        " burstctl policy push --withdraw --dry-run"
    ) in ran.err
    assert f"sha256:{sha256(deployed.encode()).hexdigest()}\n" in (pushed(lab) or ""), (
        "it is over that one now"
    )
    assert "careful" not in push(desk, "--yes").err


def test_to_push_the_same_again_over_a_later_deploy_is_something_to_do(desk, lab, stack):
    push(desk, "--yes")
    a_stack(lab, policy=THIRTY)

    ran = push(desk, "--yes")

    assert "no setting changes" in ran.out
    assert sha256(THIRTY.encode()).hexdigest() in (pushed(lab) or "")


def test_what_an_earlier_push_wrote_above_is_not_pushed_twice(desk, lab, stack):
    push(desk, "--yes")
    (desk.directory / "fetched.yaml").write_text((pushed(lab) or "").replace("45m", "44m"))

    push(desk, "fetched.yaml", "--yes")

    assert (pushed(lab) or "").count("# pushed over") == 1
    assert (pushed(lab) or "").count("# by ") == 1


def test_a_bad_policy_in_force_is_no_obstacle(desk, lab, stack):
    push_by_hand(lab, "version: 9\n")

    ran = push(desk, "--yes")

    assert ran.code == 0
    assert "the one in force cannot be read, so there is nothing to compare with" in ran.out


def test_withdraw_brings_the_deployed_one_back(desk, lab, stack):
    push(desk, "--yes")

    ran = push(desk, "--withdraw", answer="yes")

    assert ran.code == 0
    assert "  levels.warning_within: 45m -> 1h\n" in ran.out
    assert "Withdraw the pushed policy of stack burstwatch? [y/N]" in ran.err
    assert pushed(lab) is None
    assert "/burstwatch/burstwatch/policy (stack burstwatch)" in desk.run("policy", "show").err


def test_the_deployed_functions_take_up_what_was_pushed_and_what_was_withdrawn(desk, lab, stack):
    functions = PolicyParameter(
        lab.client("ssm"),
        "/burstwatch/burstwatch/policy",
        deployment="burstwatch",
        notes=Forgetful(),
        max_age_s=0,
    )
    before = functions.in_force()
    push(desk, "--yes")
    between = functions.in_force()
    a_stack(lab, policy=THIRTY)
    outdated = functions.in_force()
    push(desk, "--withdraw", "--yes")
    after = functions.in_force()

    minutes = [
        found.policy.levels.warning_within.seconds // 60 for found in (before, between, outdated, after)
    ]
    assert minutes == [60, 45, 45, 30]
    troubles = [found.trouble and found.trouble.kind for found in (before, between, outdated, after)]
    assert troubles == [None, None, TroubleKind.OUTDATED, None]


class Forgetful:
    """Notes that nobody keeps."""

    def read(self, name):
        return None

    def write(self, name, text):
        pass


def test_there_may_be_nothing_to_withdraw(desk, lab, stack):
    ran = push(desk, "--withdraw", "--yes")

    assert ran.code == 0
    assert "no policy was pushed: there is nothing to withdraw" in ran.err
    assert writes(lab) == set()


def test_the_only_policy_is_not_withdrawn(desk, lab, stack):
    push(desk, "--yes")
    lab.client("ssm").delete_parameter(Name="/burstwatch/burstwatch/policy")

    ran = push(desk, "--withdraw", "--yes")

    assert ran.code == 2
    assert "is gone: without a pushed policy there would be none" in the_complaint(ran)
    assert pushed(lab) is not None


def test_to_withdraw_takes_no_file(desk, lab, stack):
    ran = push(desk, "policy.yaml", "--withdraw", "--yes")

    assert ran.code == 2
    assert "--withdraw takes the pushed policy back: leave out FILE." in ran.err


def test_of_several_stacks_one_must_be_named(desk, lab, stack):
    lab.clock.advance(60)
    a_stack(lab, "second")

    ran = push(desk, "--yes")

    assert ran.code == 2
    assert (
        the_complaint(ran) == "several stacks are deployed here: add --stack with one of burstwatch, second"
    )
    assert push(desk, "--yes", "--stack", "second").code == 0
    assert (pushed(lab), pushed(lab, "second") is None) == (None, False)
    assert "warning_within: 45m" in desk.run("policy", "show", "--stack", "second").out


def test_a_stack_that_is_not_there(desk, lab, stack):
    ran = push(desk, "--yes", "--stack", "burstwach")

    assert ran.code == 2
    assert the_complaint(ran) == "there is no stack 'burstwach'; deployed here: burstwatch"


def test_no_stack_at_all(desk, lab):
    ran = push(desk, "--yes")

    assert ran.code == 2
    assert the_complaint(ran) == (
        "no stack is deployed in this account and region: deploy one (cdk deploy), or say where one is"
        " (--profile, --region)"
    )


@pytest.mark.parametrize("command", ["check", "show"])
def test_a_file_and_a_stack_are_two_policies(desk, lab, stack, command):
    ran = desk.run("policy", command, "--policy", "policy.yaml", "--stack", "burstwatch")

    assert ran.code == 2
    assert "policy.yaml and --stack are two policies: leave out one of them." in ran.err


def test_nothing_to_push(desk, lab, stack):
    (desk.directory / "policy.yaml").unlink()

    ran = push(desk, "--yes")

    assert ran.code == 2
    assert the_complaint(ran) == "there is nothing to push: name a FILE, here is no policy.yaml"


def test_a_file_that_is_not_there(desk, lab, stack):
    ran = push(desk, "nowhere.yaml", "--yes")

    assert ran.code == 2
    assert "nowhere.yaml: cannot be read: No such file or directory" in ran.err


@pytest.mark.parametrize("before", [None, THIRTY])
def test_what_others_push_meanwhile_is_not_overwritten(desk, lab, stack, before):
    if before:
        push_by_hand(lab, before)
    theirs = "version: 1\nlevels:\n  warning_within: 50m\n"

    ran = push(desk, answer="y", meanwhile=lambda: push_by_hand(lab, theirs))

    assert ran.code == 1
    assert (
        "burstctl: the policy of stack burstwatch was changed by somebody else meanwhile, nothing was done:"
        " look at it (burstctl policy show) and run again"
    ) in ran.err
    assert (pushed(lab) or "").endswith(theirs)


def test_a_deploy_meanwhile_stops_it_too(desk, lab, stack):
    ran = push(desk, answer="y", meanwhile=lambda: a_stack(lab, policy=THIRTY))

    assert ran.code == 1
    assert pushed(lab) is None


def test_two_first_pushes_at_the_same_moment_are_one(desk, lab, stack, monkeypatch):
    monkeypatch.setattr(
        StackPolicyStore, "_refuse_if_changed", lambda _self, _seen: push_by_hand(lab, THIRTY)
    )

    ran = push(desk, "--yes")

    assert ran.code == 1
    assert "was changed by somebody else meanwhile, nothing was done" in the_complaint(ran)
    assert (pushed(lab) or "").endswith(THIRTY)


def test_a_second_push_at_the_same_moment_is_told_that_there_was_another(desk, lab, stack, monkeypatch):
    push_by_hand(lab, THIRTY)
    theirs = "version: 1\nlevels:\n  warning_within: 50m\n"
    monkeypatch.setattr(
        StackPolicyStore, "_refuse_if_changed", lambda _self, _seen: push_by_hand(lab, theirs)
    )

    ran = push(desk, "--yes")

    assert the_complaint(ran).startswith("somebody else pushed at the same moment: see which one counts")


@pytest.mark.parametrize("arguments", [["--yes"], ["--withdraw", "--yes"]])
def test_aws_may_not_take_it(desk, lab, stack, arguments):
    if "--withdraw" in arguments:
        push(desk, "--yes")
    for action in WRITES:
        lab.faults.add(Fault(action=action, code="AccessDeniedException", message="no"))

    ran = push(desk, *arguments)

    assert ran.code == 1
    assert "AccessDeniedException" in the_complaint(ran)
    assert (pushed(lab) is None) is ("--withdraw" not in arguments)


def test_aws_may_not_tell_of_stacks(desk, lab, stack):
    lab.faults.add(Fault(action="GetParametersByPath", code="AccessDeniedException", message="no"))

    ran = push(desk, "--yes")

    assert ran.code == 1
    assert the_complaint(ran).startswith("ssm:GetParametersByPath failed (AccessDeniedException)")


def test_a_stack_that_flips_nothing_says_so(desk, lab):
    a_stack(lab, flips=False)

    assert "deployed with flips: false: it flips nothing, whatever the policy says" in push(desk, "--yes").err


def test_it_is_one_object_in_json(desk, lab, stack):
    dry = push(desk, "--dry-run", "--json").document
    done = push(desk, "--yes", "--json").document
    withdrawn = push(desk, "--withdraw", "--yes", "--json").document

    assert dry == {
        "schema": "burstwatch.policy-push/v1",
        "stack": "burstwatch",
        "region": "us-east-1",
        "in_force": {
            "parameter": "/burstwatch/burstwatch/policy",
            "version": 1,
            "modified_at": "2026-11-20T18:00:00Z",
            "sha256": sha256(PLAIN.encode()).hexdigest(),
            "pushed": False,
            "by": None,
            "outdated": False,
        },
        "policy": "policy.yaml",
        "changes": [{"setting": "levels.warning_within", "before": "1h", "after": "45m"}],
        "size_bytes": dry["size_bytes"],
        "most_bytes": 8192,
        "dry_run": True,
        "pushed": False,
        "withdrawn": False,
        "version": None,
    }
    assert (done["pushed"], done["version"], done["dry_run"]) == (True, 1, False)
    assert (withdrawn["withdrawn"], withdrawn["in_force"]["by"]) == (True, "anna (user/moto)")
    assert withdrawn["size_bytes"] is None


def test_with_json_whoever_is_asked_sees_the_change_all_the_same(desk, lab, stack):
    ran = push(desk, "--json", answer="y")

    assert "  levels.warning_within: 1h -> 45m" in ran.err
    assert ran.document["pushed"] is True


def test_windows_come_and_go_by_name(desk, lab):
    a_stack(lab, policy=f"{NIGHTLY}8h\n  old:\n")
    (desk.directory / "policy.yaml").write_text(f"{NIGHTLY}9h\n    where: tag:Role=etcd\n")

    shown = push(desk, "--dry-run").out

    assert "  windows.nightly.duration: 8h -> 9h\n" in shown
    assert "  windows.nightly.where: (nothing) -> tag:Role=etcd\n" in shown
    assert "  windows.old: no settings -> (nothing)\n" in shown


def test_a_policy_with_a_byte_order_mark_is_pushed_without(desk, lab, stack):
    (desk.directory / "policy.yaml").write_bytes(b"\xef\xbb\xbf" + FORTY_FIVE.encode())

    assert push(desk, "--yes").code == 0
    assert (pushed(lab) or "").endswith(FORTY_FIVE)
    assert "\ufeff" not in (pushed(lab) or "")
    assert desk.run("policy", "check").code == 0
