"""What a doctor makes of what it saw: verdicts on plain values."""

import time
from datetime import UTC, datetime, timedelta
from io import BytesIO
from threading import Barrier, Event
from urllib.error import URLError

import pytest

from burstctl.cli.exit_codes import Exit
from burstctl.doctor import check_alerts, check_permissions
from burstctl.doctor.check_alerts import judge_subscriptions, probe_webhook
from burstctl.doctor.check_credentials import judge_clock, judge_credentials
from burstctl.doctor.check_heartbeat import judge_tick, late_after_s
from burstctl.doctor.check_permissions import Need, Permission, best_to_try, judge_simulation
from burstctl.doctor.check_quotas import QUOTAS, judge_limits, judge_quota, wanted_tib
from burstctl.doctor.check_stack import judge_function, judge_schedule, judge_status
from burstctl.doctor.check_versions import judge_deployed, judge_pins, pins_of
from burstctl.doctor.check_volumes import judge_opt_in
from burstctl.doctor.context import Caller, Once
from burstctl.doctor.finding import (
    Trouble,
    UnknownError,
    Verdict,
    broken,
    exit_of_findings,
    of_error,
    ok,
    skipped,
    warning,
)
from burstctl.doctor.iam_simulation import Answer, Simulated, read_decision
from burstctl.doctor.registry import CHECKS, Check, Group
from burstctl.doctor.runner import Checked, run_checks
from burstctl.doctor.text import in_words, totals_in_words
from burstwatch.adapters.aws.errors import AwsError, AwsFailure, FailureKind
from burstwatch.core.errors import LedgerError
from burstwatch.core.ledger.ledger import TickKind
from burstwatch.core.policy.policy import Mode, ModePolicy, Policy
from burstwatch.wiring.bootstrap import Identity
from burstwatch.wiring.settings import SettingsError
from conftest import a_volume

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
NOON_S = NOON.timestamp()
AUTO = {"burstwatch:mode": "auto"}


class NoPatient:
    """Enough of one for what only writes commands, or needs none."""

    stack = None

    def aws(self, *words):
        return " ".join(["aws", *words])


def a_check(name="odd", examine=lambda _patient: (), **given):
    return Check(name=name, group=Group.ACCESS, examine=examine, **given)


def a_failure(kind, **given):
    facts = {"code": "Code", "message": "it may not", "next_step": "mend it", "action": "ec2:Do"}
    return AwsError(AwsFailure(kind=kind, **(facts | given)))


# Running


def run_all(*checks):
    return {each.check.name: each.findings for each in run_checks(NoPatient(), checks)}


def test_a_check_that_hangs_is_given_up_and_hides_no_other():
    never = Event()
    began = time.monotonic()

    found = run_all(
        a_check("hangs", lambda _: never.wait() and [], within_s=0.05),
        a_check("fine", lambda _: [ok("fine")]),
    )

    assert time.monotonic() - began < 10
    assert found["fine"] == [ok("fine")]
    (given_up,) = found["hangs"]
    assert (given_up.verdict, given_up.trouble) == (Verdict.BROKEN, Trouble.FAILED)
    assert given_up.seen == "it did not end within 0 s"
    never.set()


def test_a_check_that_fails_keeps_what_it_had_found_and_hides_no_other():
    def half(_patient):
        yield ok("the first half")
        raise ZeroDivisionError("by nothing")

    found = run_all(a_check("half", half), a_check("fine", lambda _: [ok("fine")]))

    first, second = found["half"]
    assert first == ok("the first half")
    assert second.seen == "unexpected ZeroDivisionError: by nothing"
    assert found["fine"] == [ok("fine")]


def test_what_several_need_and_nobody_knows_is_told_by_its_owner_alone():
    def ask(_patient):
        raise UnknownError("owner", a_failure(FailureKind.UNREACHABLE))

    found = run_all(a_check("owner", ask), a_check("other", ask))

    assert found["owner"][0].verdict is Verdict.BROKEN
    assert found["other"] == [skipped("not known, because of what is said at owner")]


def test_a_check_of_a_stack_is_skipped_where_there_is_none():
    found = run_all(a_check("schedule", lambda _: [broken("x", fix="y")], of_stack=True))

    assert found["schedule"] == (skipped("no stack is deployed in this account and region"),)


def test_what_is_found_out_once_is_the_same_for_all_and_so_is_a_failure():
    found, failed = [], []
    once = Once("owner", lambda: found.append(1) or len(found))
    never = Once("owner", lambda: failed.append(1) or {}[0])

    assert (once.peek(), once(), once(), once.peek()) == (None, 1, 1, 1)
    for _ in range(2):
        with pytest.raises(UnknownError) as raised:
            never()
        assert raised.value.owner == "owner"
    assert (len(found), len(failed)) == (1, 1)


def test_nobody_waits_for_ever_for_what_another_finds_out():
    once = Once("owner", lambda: 1, patience_s=0.01)
    with once._lock, pytest.raises(UnknownError, match="no answer within"):
        once()


def test_every_check_has_a_name_of_its_own():
    names = [check.name for check in CHECKS]
    assert len(names) == len(set(names))
    assert all(check.examine.__doc__ for check in CHECKS)
    assert names[0] == "credentials"


# Verdicts and exit codes


@pytest.mark.parametrize(
    ("findings", "code", "excused"),
    [
        ([ok("a"), skipped("b")], Exit.FINE, Exit.FINE),
        ([ok("a"), warning("b", fix="c")], Exit.ATTENTION, Exit.FINE),
        ([broken("a", fix="b")], Exit.ATTENTION, Exit.FINE),
        ([broken("a", fix="b", trouble=Trouble.FAILED), broken("c", fix="d")], Exit.FAILED, Exit.FAILED),
        (
            [broken("a", fix="b", trouble=Trouble.FAILED), broken("c", fix="d", trouble=Trouble.MISUSED)],
            Exit.MISUSED,
            Exit.MISUSED,
        ),
    ],
)
def test_the_exit_code_is_the_first_that_applies(findings, code, excused):
    assert exit_of_findings(findings, exit_zero=False) is code
    assert exit_of_findings(findings, exit_zero=True) is excused


@pytest.mark.parametrize(
    ("error", "verdict", "trouble"),
    [
        (a_failure(FailureKind.REFUSED), Verdict.SKIPPED, None),
        (a_failure(FailureKind.RETRYABLE), Verdict.BROKEN, Trouble.FAILED),
        (a_failure(FailureKind.UNREACHABLE), Verdict.BROKEN, Trouble.FAILED),
        (SettingsError("no"), Verdict.BROKEN, Trouble.MISUSED),
        (LedgerError("no"), Verdict.BROKEN, Trouble.FAILED),
        (KeyError("no"), Verdict.BROKEN, Trouble.FAILED),
    ],
)
def test_what_ends_a_check_early(error, verdict, trouble):
    found = of_error(error)
    assert (found.verdict, found.trouble) == (verdict, trouble)
    assert found.fix


# Access


def a_caller(arn="arn:aws:sts::1:assumed-role/ops/ann", method="sso", left=None):
    expires_at = None if left is None else NOON + timedelta(minutes=left)
    return Caller(identity=Identity(account="1", arn=arn), method=method, expires_at=expires_at, ahead_s=None)


@pytest.mark.parametrize(
    ("caller", "verdict", "said"),
    [
        (a_caller(), Verdict.OK, "by sso"),
        (a_caller(left=5), Verdict.OK, "until 2026-11-20T12:05:00Z and then renewed"),
        (a_caller(method="env", left=50), Verdict.OK, "until 2026-11-20T12:50:00Z"),
        (a_caller(method="env", left=5), Verdict.WARNING, "they end in 5 min"),
        (a_caller(arn="arn:aws:iam::1:root"), Verdict.WARNING, "root user's"),
    ],
)
def test_credentials(caller, verdict, said):
    found = judge_credentials(caller, "us-east-1", now_s=NOON_S)
    assert found.verdict is verdict
    assert said in found.seen


def test_an_answer_without_a_date_tells_no_clock():
    assert judge_clock(None).verdict is Verdict.SKIPPED


# Permissions

MISSING = {"EvalResourceName": "*", "MissingContextValues": ["aws:SourceIp"]}


@pytest.mark.parametrize(
    ("result", "answer"),
    [
        ({"EvalDecision": "allowed"}, Answer.ALLOWED),
        ({"EvalDecision": "implicitDeny"}, Answer.DENIED),
        ({"EvalDecision": "explicitDeny"}, Answer.DENIED),
        ({"EvalDecision": "implicitDeny", "MissingContextValues": ["ec2:Region"]}, Answer.UNKNOWN),
        # where a resource is named, and it always is, IAM tells beside that what it missed
        ({"EvalDecision": "implicitDeny", "ResourceSpecificResults": [MISSING]}, Answer.UNKNOWN),
        ({"EvalDecision": "explicitDeny", "ResourceSpecificResults": [MISSING]}, Answer.UNKNOWN),
        ({"EvalDecision": "allowed", "ResourceSpecificResults": [MISSING]}, Answer.UNKNOWN),
        ({"EvalDecision": "allowed", "ResourceSpecificResults": [{}]}, Answer.ALLOWED),
        ({"EvalDecision": "perhaps"}, Answer.UNKNOWN),
        ({}, Answer.UNKNOWN),
        (
            {"EvalDecision": "allowed", "OrganizationsDecisionDetail": {"AllowedByOrganizations": False}},
            Answer.DENIED,
        ),
        (
            {
                "EvalDecision": "allowed",
                "PermissionsBoundaryDecisionDetail": {"AllowedByPermissionsBoundary": False},
            },
            Answer.DENIED,
        ),
    ],
)
def test_a_simulation_is_never_read_too_well(result, answer):
    assert read_decision(result).answer is answer


@pytest.mark.parametrize(
    ("need", "denied"),
    [(Need.ALWAYS, Verdict.BROKEN), (Need.SOMETIMES, Verdict.WARNING), (Need.HARDLY, Verdict.SKIPPED)],
)
def test_what_a_simulated_answer_means_depends_on_the_need(need, denied):
    permission = Permission("sns:Publish", need, "alerts")

    def judged(answer):
        return judge_simulation(permission, Simulated(answer=answer), untried="x").verdict

    assert judged(Answer.ALLOWED) is Verdict.OK
    assert judged(Answer.DENIED) is denied
    assert judged(Answer.UNKNOWN) is Verdict.SKIPPED


def test_the_dry_run_is_on_the_volume_where_only_a_permission_can_be_in_the_way():
    managed = a_volume(volume_id="vol-0a1", managed_by="eks")
    shared = a_volume(volume_id="vol-0a2", multi_attached=True)
    flipped = a_volume(volume_id="vol-0a3", volume_type="io1")
    plain = a_volume(volume_id="vol-0a4")

    assert best_to_try([managed, shared, flipped, plain]) is plain
    assert best_to_try([managed, flipped]) is flipped


# Quotas


def test_what_opted_in_counts_for_the_type_that_it_would_become():
    volumes = [
        a_volume(512, tags=AUTO),
        a_volume(512, tags={**AUTO, "burstwatch:target": "io1"}),
        a_volume(512),
        a_volume(512, volume_type="gp3", tags=AUTO),
        a_volume(512, tags={**AUTO, "burstwatch:ignore": "true"}),
    ]
    assert wanted_tib(volumes, Policy()) == {"gp3": 0.5, "io1": 0.5}


@pytest.mark.parametrize(
    ("used", "added", "verdict"),
    [(0, 0, Verdict.OK), (39, 0, Verdict.OK), (40, 0, Verdict.WARNING), (30, 21, Verdict.WARNING)],
)
def test_a_quota_of_50_tib(used, added, verdict):
    assert judge_quota(QUOTAS[0], 50.0, used=used, added=added, raise_it="aws").verdict is verdict


def test_iops_are_counted_by_what_was_provisioned():
    volumes = [
        a_volume(volume_type="io1", provisioned_iops=3000),
        a_volume(volume_type="io1", provisioned_iops=1000),
        a_volume(),
    ]
    (iops,) = [quota for quota in QUOTAS if quota.name == "io1 IOPS"]
    assert iops.used(volumes) == 4000


def test_the_policys_limit_may_be_lower_than_the_quota_and_not_higher():
    assert list(judge_limits(Policy(), {"L-B3A130E6": 400_000.0})) == []
    (found,) = judge_limits(Policy(), {"L-B3A130E6": 200_000.0})
    assert found.about == "flip.io1_iops_limit"


# The stack


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        ("CREATE_COMPLETE", Verdict.OK),
        ("UPDATE_COMPLETE", Verdict.OK),
        ("UPDATE_IN_PROGRESS", Verdict.WARNING),
        ("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", Verdict.WARNING),
        ("UPDATE_ROLLBACK_COMPLETE", Verdict.WARNING),
        ("UPDATE_ROLLBACK_FAILED", Verdict.BROKEN),
        ("ROLLBACK_COMPLETE", Verdict.BROKEN),
        ("DELETE_IN_PROGRESS", Verdict.BROKEN),
    ],
)
def test_how_the_last_deploy_ended(status, verdict):
    assert judge_status("burstwatch", status, "flips").verdict is verdict


@pytest.mark.parametrize(
    ("told", "verdict"),
    [
        ({"State": "Active", "LastUpdateStatus": "Successful"}, Verdict.OK),
        ({"State": "Inactive"}, Verdict.OK),
        ({"State": "Failed", "StateReason": "no role"}, Verdict.BROKEN),
        ({"State": "Active", "LastUpdateStatus": "Failed"}, Verdict.BROKEN),
    ],
)
def test_a_functions_state(told, verdict):
    assert judge_function("watch", told).verdict is verdict


def test_a_schedule_that_is_switched_off_is_written_again_as_it_is_but_enabled():
    found = judge_schedule(NoPatient(), {"Name": "burstwatch-Focus", "State": "DISABLED"})
    read, write = found.commands
    assert read.startswith("aws scheduler get-schedule --name burstwatch-Focus --query {Name:Name,")
    assert read.endswith(" > schedule.json")
    assert write.endswith("--cli-input-json file://schedule.json --state ENABLED")


@pytest.mark.parametrize(
    ("kind", "age_s", "is_stacks", "verdict"),
    [
        (TickKind.FOCUS, 170, True, Verdict.OK),
        (TickKind.FOCUS, 190, True, Verdict.BROKEN),
        (TickKind.SWEEP, 650, True, Verdict.OK),
        (TickKind.SWEEP, 670, True, Verdict.BROKEN),
        (TickKind.FOCUS, 600, False, Verdict.OK),
        (TickKind.FOCUS, 700, False, Verdict.WARNING),
        (TickKind.FOCUS, -300, True, Verdict.WARNING),
    ],
)
def test_one_tick_may_be_lost_and_the_next_be_late(kind, age_s, is_stacks, verdict):
    """Focus: 2 x 60 s + 60 s of slack; sweep: 2 x 5 min + 60 s; a desk's watch may tick every 5 min."""
    slowest = timedelta(minutes=1 if is_stacks else 5)
    late_s = late_after_s(kind, Policy().cadence, slowest=slowest)
    found = judge_tick(
        kind, int(NOON_S - age_s), now_s=NOON_S, late_s=late_s, watch="burstctl watch", is_stacks=is_stacks
    )
    assert found.verdict is verdict


# Volumes


@pytest.mark.parametrize(
    ("mode", "flips", "verdict", "said"),
    [
        (ModePolicy(), True, Verdict.OK, "flipped before they run dry"),
        (ModePolicy(highest=Mode.PROPOSE), True, Verdict.WARNING, "mode.highest is propose"),
        (ModePolicy(), False, Verdict.WARNING, "without flips"),
        (ModePolicy(), None, Verdict.SKIPPED, "no stack is known that would flip them"),
    ],
)
def test_what_opted_in_and_what_stops_it(mode, flips, verdict, said):
    (found,) = judge_opt_in([a_volume(tags=AUTO), a_volume()], Policy(mode=mode), flips=flips)
    assert found.verdict is verdict
    assert "1 volume with the opt-in tag burstwatch:mode=auto" in found.seen
    assert said in found.seen


def test_volumes_that_opted_in_and_are_left_alone_all_the_same():
    _, found = judge_opt_in([a_volume(tags=AUTO, managed_by="eks.amazonaws.com")], Policy(), flips=True)
    assert found.verdict is Verdict.WARNING
    assert "can never be flipped" in found.seen


# The ways to people

SLACK = "https://hooks.slack.com/services/T0/B0/secret"


class Said(BytesIO):
    """An answer, as urllib has it."""

    def __init__(self, status, body, **headers):
        super().__init__(body.encode())
        self.status, self.headers = status, headers


@pytest.mark.parametrize(
    ("status", "said", "verdict", "trouble"),
    [
        (400, "no_text", Verdict.OK, None),
        (400, "missing_text", Verdict.OK, None),
        (400, "invalid_payload", Verdict.SKIPPED, None),
        (404, "no_service", Verdict.BROKEN, None),
        (403, "invalid_token", Verdict.BROKEN, None),
        (410, "channel_is_archived", Verdict.BROKEN, None),
        (302, "", Verdict.BROKEN, None),
        (200, "ok", Verdict.WARNING, None),
        (500, "rollup_error", Verdict.BROKEN, Trouble.FAILED),
        (429, "rate_limited", Verdict.BROKEN, Trouble.FAILED),
    ],
)
def test_what_slack_says_to_a_message_that_it_must_refuse(status, said, verdict, trouble):
    posted = []

    def open_url(request, **_):
        posted.append(request.data)
        return Said(status, said, **{"Retry-After": "60"})

    found = probe_webhook(SLACK, open_url)

    assert (found.verdict, found.trouble) == (verdict, trouble)
    assert posted == [b'{"text": ""}'], "there is nothing in it to post"
    assert "secret" not in found.seen + found.fix
    assert "alert" not in found.seen, "none was sent"
    assert "tried again" not in found.seen, "nobody tries it again"


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [(Said(404, ""), Verdict.SKIPPED), (URLError("certificate has expired"), Verdict.BROKEN)],
)
def test_whoever_else_is_there_is_only_connected_to(monkeypatch, answer, verdict):
    opened = []

    class Opener:
        def add_handler(self, _handler):
            pass

        def open(self, request, **_):
            opened.append((request.get_method(), request.full_url, request.data))
            if isinstance(answer, URLError):
                raise answer
            return answer

    monkeypatch.setattr(check_alerts, "OpenerDirector", Opener)

    found = probe_webhook("https://chat.example.com:8443/hooks/secret")

    assert found.verdict is verdict
    assert opened == [("HEAD", "https://chat.example.com:8443/", None)]
    assert "secret" not in found.seen


TOPIC = "arn:aws:sns:us-east-1:1:alerts"
PENDING = {"SubscriptionArn": "PendingConfirmation", "Protocol": "email", "Endpoint": "a@example.com"}
CONFIRMED = {"SubscriptionArn": f"{TOPIC}:1", "Protocol": "email", "Endpoint": "b@example.com"}
DELETED = {"SubscriptionArn": "Deleted", "Protocol": "email", "Endpoint": "c@example.com"}
FUNCTION = {"SubscriptionArn": f"{TOPIC}:2", "Protocol": "lambda", "Endpoint": "arn:aws:lambda"}


@pytest.mark.parametrize(
    ("told", "others", "expected"),
    [
        ([], [], [Verdict.BROKEN]),
        ([FUNCTION], [], [Verdict.BROKEN]),
        ([FUNCTION], ["Slack"], [Verdict.OK]),
        ([FUNCTION], None, [Verdict.SKIPPED]),
        ([DELETED], [], [Verdict.BROKEN]),
        ([CONFIRMED], [], [Verdict.OK]),
        ([PENDING], [], [Verdict.WARNING, Verdict.BROKEN]),
        ([PENDING, CONFIRMED], [], [Verdict.WARNING, Verdict.OK]),
    ],
)
def test_a_subscription_counts_from_its_confirmation_on(told, others, expected):
    found = list(judge_subscriptions(NoPatient(), TOPIC, told, others))
    assert [each.verdict for each in found] == expected


# Versions


def test_only_what_burstctl_itself_is_pinned_to_is_compared():
    pins = pins_of(
        ["boto3==1.44.5", "click==8.5.1 ; python_version > '3'", "moto[ec2]==5; extra == 'lab'", "x>=2"]
    )
    assert pins == [("boto3", "1.44.5"), ("click", "8.5.1")]
    old, missing, same = judge_pins(
        [*pins, ("rich", "15.0.0")], {"boto3": "1.40.0", "click": None, "rich": "15.0.0"}
    )
    assert (old.about, old.seen) == ("boto3", "1.40.0, and 1.44.5 is what was tested")
    assert missing.seen.startswith("missing")
    assert same.seen == "as pinned: rich 15.0.0"


@pytest.mark.parametrize(
    ("deployed", "verdict"), [("0.2.0", Verdict.OK), ("0.1.0", Verdict.WARNING), (None, Verdict.SKIPPED)]
)
def test_the_deployed_version_against_this_one(deployed, verdict):
    assert judge_deployed("burstwatch", deployed, "0.2.0").verdict is verdict


# Words


def told(*findings, name="odd"):
    return [Checked(check=a_check(name), findings=findings)]


def test_a_command_is_continued_between_its_words_and_never_inside_quotes():
    command = f"aws scheduler get-schedule --name {'n' * 40} --query '{{A: B, {'C: D, ' * 12}}}' > s.json"
    lines = [line.text for line in in_words(told(broken("it is off", fix="enable it", commands=(command,))))]

    pasted = " ".join(line.strip().removesuffix("\\").strip() for line in lines[3:])
    assert pasted == " ".join(command.split())
    assert all(line.endswith("\\") for line in lines[3:-1])


def test_what_says_the_same_is_told_once_with_all_that_it_is_about():
    same = [broken("no answer", fix="wait", about=about) for about in ("ec2:A", "ec2:B")]
    checked = [*told(*same, name="one"), *told(broken("no answer", fix="wait", about="ec2:C"), name="two")]

    lines = [line.text for line in in_words(checked)]

    assert lines == ["BROKEN   one, two", "    ec2:A, ec2:B, ec2:C: no answer", "    To mend it: wait"]
    assert totals_in_words(checked) == "3 broken"


def test_permissions_are_tried_at_once_so_that_silence_is_waited_for_once(monkeypatch):
    """Seven calls that nobody answers, one after the other, would take more than a minute."""
    all_there = Barrier(3, timeout=60)
    reads = [(Permission(f"ec2:Do{each}", Need.ALWAYS, "it"), lambda _: all_there.wait()) for each in "abc"]
    monkeypatch.setattr(check_permissions, "READS", reads)
    for part in ("_of_the_ledger", "_of_the_policy", "_of_the_topic", "_to_modify"):
        monkeypatch.setattr(check_permissions, part, lambda _patient: [])

    found = list(check_permissions.check_permissions(NoPatient()))

    assert [(each.about, each.verdict) for each in found] == [(f"ec2:Do{each}", Verdict.OK) for each in "abc"]


def test_the_path_of_a_ledger_is_in_one_piece():
    path = "sqlite:/home/anna/.local/state/burstwatch/ledger-us-east-1.sqlite"
    checked = Checked(check=a_check("ledger"), findings=[ok(f"{path}, schema 2, 0.1 MiB")])

    lines = [line.text for line in in_words([checked])]

    assert lines[1:] == ["  ok       ledger", f"      {path}, schema", "      2, 0.1 MiB"]
    assert max(map(len, lines)) <= 80
