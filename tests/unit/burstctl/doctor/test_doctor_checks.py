"""What a doctor makes of what it saw: verdicts on plain values."""

import time
from datetime import UTC, datetime, timedelta
from io import BytesIO
from threading import Barrier, Event
from urllib.error import URLError

import pytest

from burstctl.cli.exit_codes import ExitCode
from burstctl.cli.styled_text import to_plain_text
from burstctl.doctor import check_alerts, check_permissions
from burstctl.doctor.check_alerts import judge_subscriptions, probe_webhook
from burstctl.doctor.check_credentials import judge_clock, judge_credentials
from burstctl.doctor.check_heartbeat import judge_tick, late_after_s
from burstctl.doctor.check_permissions import Importance, Permission, best_dry_run_volume, judge_simulation
from burstctl.doctor.check_quotas import QUOTAS, judge_policy_limits, judge_quota, required_tib
from burstctl.doctor.check_stack import judge_function, judge_schedule, judge_status
from burstctl.doctor.check_versions import judge_deployed, judge_pins, parse_pins
from burstctl.doctor.check_volumes import judge_opt_in
from burstctl.doctor.context import CachedLookup, Caller
from burstctl.doctor.finding import (
    CheckFailure,
    CheckStatus,
    LookupFailedError,
    broken,
    exit_code_of_findings,
    from_error,
    ok,
    skipped,
    warning,
)
from burstctl.doctor.iam_simulation import PermissionSimulation, SimulationOutcome, read_decision
from burstctl.doctor.registry import CHECKS, Check, Group
from burstctl.doctor.runner import CheckResult, run_checks
from burstctl.doctor.text import describe_totals, to_lines
from burstwatch.adapters.aws.errors import AwsError, AwsFailure, FailureKind
from burstwatch.core.errors import LedgerError
from burstwatch.core.ledger.ledger import TickKind
from burstwatch.core.policy.policy import Mode, ModePolicy, Policy
from burstwatch.wiring.bootstrap import CallerIdentity
from burstwatch.wiring.settings import SettingsError
from support.builders.core_values import a_volume

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
NOON_S = NOON.timestamp()
AUTO = {"burstwatch:mode": "auto"}


class NoContext:
    """Enough of one for what only writes commands, or needs none."""

    stack = None

    def aws_command(self, *arguments):
        return " ".join(["aws", *arguments])

    def policy_or_default(self):
        return Policy()


def a_check(name="odd", examine=lambda _context: (), **fields):
    return Check(name=name, group=Group.ACCESS, run=examine, **fields)


def a_failure(kind, **fields):
    facts = {"code": "Code", "message": "it may not", "next_step": "mend it", "action": "ec2:Do"}
    return AwsError(AwsFailure(kind=kind, **(facts | fields)))


# Running


def run_all_checks(*checks):
    return {finding.check.name: finding.findings for finding in run_checks(NoContext(), checks)}


def test_a_check_that_hangs_is_abandoned_and_hides_no_other():
    never = Event()
    started_at_s = time.monotonic()

    result = run_all_checks(
        a_check("hangs", lambda _: never.wait() and [], timeout_s=0.05),
        a_check("fine", lambda _: [ok("fine")]),
    )

    assert time.monotonic() - started_at_s < 10
    assert result["fine"] == [ok("fine")]
    (given_up,) = result["hangs"]
    assert (given_up.verdict, given_up.trouble) == (CheckStatus.BROKEN, CheckFailure.FAILED)
    assert given_up.summary == "it did not finish within 0 s"
    never.set()


def test_a_check_that_fails_keeps_what_it_had_found_and_hides_no_other():
    def raise_midway(_context):
        yield ok("the first half")
        raise ZeroDivisionError("by nothing")

    result = run_all_checks(a_check("half", raise_midway), a_check("fine", lambda _: [ok("fine")]))

    first, second = result["half"]
    assert first == ok("the first half")
    assert second.summary == "unexpected ZeroDivisionError: by nothing"
    assert result["fine"] == [ok("fine")]


def test_a_shared_failure_is_reported_by_its_owner_alone():
    def check(_context):
        raise LookupFailedError("owner", a_failure(FailureKind.UNREACHABLE))

    result = run_all_checks(a_check("owner", check), a_check("other", check))

    assert result["owner"][0].verdict is CheckStatus.BROKEN
    assert result["other"] == [skipped("unknown; see owner")]


def test_a_check_of_a_stack_is_skipped_where_there_is_none():
    result = run_all_checks(a_check("schedule", lambda _: [broken("x", fix="y")], needs_stack=True))

    assert result["schedule"] == (skipped("no stack is deployed in this account and region"),)


def test_a_cached_lookup_gives_all_the_same_result_or_failure():
    result, failed = [], []
    once = CachedLookup("owner", lambda: result.append(1) or len(result))
    never = CachedLookup("owner", lambda: failed.append(1) or {}[0])

    assert (once.get_if_ready(), once(), once(), once.get_if_ready()) == (None, 1, 1, 1)
    for _ in range(2):
        with pytest.raises(LookupFailedError) as exc_info:
            never()
        assert exc_info.value.owner == "owner"
    assert (len(result), len(failed)) == (1, 1)


def test_no_check_waits_forever_for_a_lookup_of_another():
    once = CachedLookup("owner", lambda: 1, timeout_s=0.01)
    with once._lock, pytest.raises(LookupFailedError, match="no answer within"):
        once()


def test_every_check_has_a_name_of_its_own():
    names = [check.name for check in CHECKS]
    assert len(names) == len(set(names))
    assert all(check.run.__doc__ for check in CHECKS)
    assert names[0] == "credentials"


# Verdicts and exit codes


@pytest.mark.parametrize(
    ("findings", "code", "excused"),
    [
        ([ok("a"), skipped("b")], ExitCode.OK, ExitCode.OK),
        ([ok("a"), warning("b", fix="c")], ExitCode.ATTENTION, ExitCode.OK),
        ([broken("a", fix="b")], ExitCode.ATTENTION, ExitCode.OK),
        (
            [broken("a", fix="b", trouble=CheckFailure.FAILED), broken("c", fix="d")],
            ExitCode.FAILED,
            ExitCode.FAILED,
        ),
        (
            [
                broken("a", fix="b", trouble=CheckFailure.FAILED),
                broken("c", fix="d", trouble=CheckFailure.MISUSED),
            ],
            ExitCode.USAGE,
            ExitCode.USAGE,
        ),
    ],
)
def test_the_exit_code_is_the_first_that_applies(findings, code, excused):
    assert exit_code_of_findings(findings, exit_zero=False) is code
    assert exit_code_of_findings(findings, exit_zero=True) is excused


@pytest.mark.parametrize(
    ("error", "verdict", "trouble"),
    [
        (a_failure(FailureKind.REFUSED), CheckStatus.SKIPPED, None),
        (a_failure(FailureKind.RETRYABLE), CheckStatus.BROKEN, CheckFailure.FAILED),
        (a_failure(FailureKind.UNREACHABLE), CheckStatus.BROKEN, CheckFailure.FAILED),
        (SettingsError("no"), CheckStatus.BROKEN, CheckFailure.MISUSED),
        (LedgerError("no"), CheckStatus.BROKEN, CheckFailure.FAILED),
        (KeyError("no"), CheckStatus.BROKEN, CheckFailure.FAILED),
    ],
)
def test_what_ends_a_check_early(error, verdict, trouble):
    result = from_error(error)
    assert (result.verdict, result.trouble) == (verdict, trouble)
    assert result.fix


# Access


def a_caller(arn="arn:aws:sts::1:assumed-role/ops/ann", method="sso", left_min=None):
    expires_at = None if left_min is None else NOON + timedelta(minutes=left_min)
    return Caller(
        identity=CallerIdentity(account="1", arn=arn),
        method=method,
        expires_at=expires_at,
        clock_ahead_s=None,
    )


@pytest.mark.parametrize(
    ("caller", "verdict", "message"),
    [
        (a_caller(), CheckStatus.OK, "by sso"),
        (a_caller(left_min=5), CheckStatus.OK, "until 2026-11-20T12:05:00Z and then renewed"),
        (a_caller(method="env", left_min=50), CheckStatus.OK, "until 2026-11-20T12:50:00Z"),
        (a_caller(method="env", left_min=5), CheckStatus.WARNING, "they end in 5 min"),
        (a_caller(arn="arn:aws:iam::1:root"), CheckStatus.WARNING, "root user's"),
    ],
)
def test_credentials(caller, verdict, message):
    result = judge_credentials(caller, "us-east-1", now_s=NOON_S)
    assert result.verdict is verdict
    assert message in result.summary


def test_an_answer_without_a_date_gives_no_clock_time():
    assert judge_clock(None).verdict is CheckStatus.SKIPPED


# Permissions

MISSING = {"EvalResourceName": "*", "MissingContextValues": ["aws:SourceIp"]}


@pytest.mark.parametrize(
    ("result", "answer"),
    [
        ({"EvalDecision": "allowed"}, SimulationOutcome.ALLOWED),
        ({"EvalDecision": "implicitDeny"}, SimulationOutcome.DENIED),
        ({"EvalDecision": "explicitDeny"}, SimulationOutcome.DENIED),
        ({"EvalDecision": "implicitDeny", "MissingContextValues": ["ec2:Region"]}, SimulationOutcome.UNKNOWN),
        # where a resource is named, and it always is, IAM also reports what it missed
        ({"EvalDecision": "implicitDeny", "ResourceSpecificResults": [MISSING]}, SimulationOutcome.UNKNOWN),
        ({"EvalDecision": "explicitDeny", "ResourceSpecificResults": [MISSING]}, SimulationOutcome.UNKNOWN),
        ({"EvalDecision": "allowed", "ResourceSpecificResults": [MISSING]}, SimulationOutcome.UNKNOWN),
        ({"EvalDecision": "allowed", "ResourceSpecificResults": [{}]}, SimulationOutcome.ALLOWED),
        ({"EvalDecision": "perhaps"}, SimulationOutcome.UNKNOWN),
        ({}, SimulationOutcome.UNKNOWN),
        (
            {"EvalDecision": "allowed", "OrganizationsDecisionDetail": {"AllowedByOrganizations": False}},
            SimulationOutcome.DENIED,
        ),
        (
            {
                "EvalDecision": "allowed",
                "PermissionsBoundaryDecisionDetail": {"AllowedByPermissionsBoundary": False},
            },
            SimulationOutcome.DENIED,
        ),
    ],
)
def test_a_simulation_is_never_read_too_well(result, answer):
    assert read_decision(result).outcome is answer


@pytest.mark.parametrize(
    ("need", "denied"),
    [
        (Importance.REQUIRED, CheckStatus.BROKEN),
        (Importance.RECOMMENDED, CheckStatus.WARNING),
        (Importance.OPTIONAL, CheckStatus.SKIPPED),
    ],
)
def test_what_a_simulated_answer_means_depends_on_the_need(need, denied):
    permission = Permission("sns:Publish", need, "alerts")

    def judged(answer):
        return judge_simulation(permission, PermissionSimulation(outcome=answer), why_not_tried="x").verdict

    assert judged(SimulationOutcome.ALLOWED) is CheckStatus.OK
    assert judged(SimulationOutcome.DENIED) is denied
    assert judged(SimulationOutcome.UNKNOWN) is CheckStatus.SKIPPED


def test_the_dry_run_is_on_the_volume_where_only_a_permission_can_be_in_the_way():
    managed = a_volume(volume_id="vol-0a1", managed_by="eks")
    shared = a_volume(volume_id="vol-0a2", multi_attach_enabled=True)
    flipped = a_volume(volume_id="vol-0a3", volume_type="io1")
    plain = a_volume(volume_id="vol-0a4")

    assert best_dry_run_volume([managed, shared, flipped, plain]) is plain
    assert best_dry_run_volume([managed, flipped]) is flipped


# Quotas


def test_what_opted_in_counts_for_the_type_that_it_would_become():
    volumes = [
        a_volume(512, tags=AUTO),
        a_volume(512, tags={**AUTO, "burstwatch:target": "io1"}),
        a_volume(512),
        a_volume(512, volume_type="gp3", tags=AUTO),
        a_volume(512, tags={**AUTO, "burstwatch:ignore": "true"}),
    ]
    assert required_tib(volumes, Policy()) == {"gp3": 0.5, "io1": 0.5}


@pytest.mark.parametrize(
    ("used", "added", "verdict"),
    [
        (0, 0, CheckStatus.OK),
        (39, 0, CheckStatus.OK),
        (40, 0, CheckStatus.WARNING),
        (30, 21, CheckStatus.WARNING),
    ],
)
def test_a_quota_of_50_tib(used, added, verdict):
    assert judge_quota(QUOTAS[0], 50.0, used=used, added=added, increase_command="aws").verdict is verdict


def test_iops_are_counted_by_what_was_provisioned():
    volumes = [
        a_volume(volume_type="io1", provisioned_iops=3000),
        a_volume(volume_type="io1", provisioned_iops=1000),
        a_volume(),
    ]
    (iops,) = [quota for quota in QUOTAS if quota.name == "io1 IOPS"]
    assert iops.usage_of(volumes) == 4000


def test_the_policys_limit_may_be_lower_than_the_quota_and_not_higher():
    assert list(judge_policy_limits(Policy(), {"L-B3A130E6": 400_000.0})) == []
    (result,) = judge_policy_limits(Policy(), {"L-B3A130E6": 200_000.0})
    assert result.subject == "flip.io1_iops_limit"


# The stack


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        ("CREATE_COMPLETE", CheckStatus.OK),
        ("UPDATE_COMPLETE", CheckStatus.OK),
        ("UPDATE_IN_PROGRESS", CheckStatus.WARNING),
        ("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", CheckStatus.WARNING),
        ("UPDATE_ROLLBACK_COMPLETE", CheckStatus.WARNING),
        ("UPDATE_ROLLBACK_FAILED", CheckStatus.BROKEN),
        ("ROLLBACK_COMPLETE", CheckStatus.BROKEN),
        ("DELETE_IN_PROGRESS", CheckStatus.BROKEN),
    ],
)
def test_how_the_last_deploy_ended(status, verdict):
    assert judge_status("burstwatch", status, "flips").verdict is verdict


@pytest.mark.parametrize(
    ("response", "verdict"),
    [
        ({"State": "Active", "LastUpdateStatus": "Successful"}, CheckStatus.OK),
        ({"State": "Inactive"}, CheckStatus.OK),
        ({"State": "Failed", "StateReason": "no role"}, CheckStatus.BROKEN),
        ({"State": "Active", "LastUpdateStatus": "Failed"}, CheckStatus.BROKEN),
    ],
)
def test_a_functions_state(response, verdict):
    assert judge_function("watch", response).verdict is verdict


def test_a_schedule_that_is_switched_off_is_written_again_as_it_is_but_enabled():
    result = judge_schedule(NoContext(), {"Name": "burstwatch-Focus", "State": "DISABLED"})
    read, write = result.commands
    assert read.startswith("aws scheduler get-schedule --name burstwatch-Focus --query {Name:Name,")
    assert read.endswith(" > schedule.json")
    assert write.endswith("--cli-input-json file://schedule.json --state ENABLED")


@pytest.mark.parametrize(
    ("kind", "age_s", "is_stacks", "verdict"),
    [
        (TickKind.FOCUS, 170, True, CheckStatus.OK),
        (TickKind.FOCUS, 190, True, CheckStatus.BROKEN),
        (TickKind.SWEEP, 650, True, CheckStatus.OK),
        (TickKind.SWEEP, 670, True, CheckStatus.BROKEN),
        (TickKind.FOCUS, 600, False, CheckStatus.OK),
        (TickKind.FOCUS, 700, False, CheckStatus.WARNING),
        (TickKind.FOCUS, -300, True, CheckStatus.WARNING),
    ],
)
def test_one_tick_may_be_lost_and_the_next_be_late(kind, age_s, is_stacks, verdict):
    """Focus: 2 x 60 s + 60 s of slack; sweep: 2 x 5 min + 60 s; a desk's watch may tick every 5 min."""
    slowest = timedelta(minutes=1 if is_stacks else 5)
    late_s = late_after_s(kind, Policy().cadence, interval=slowest)
    result = judge_tick(
        kind,
        int(NOON_S - age_s),
        now_s=NOON_S,
        overdue_after_s=late_s,
        watch_command="burstctl watch",
        is_stack_ledger=is_stacks,
    )
    assert result.verdict is verdict


# Volumes


@pytest.mark.parametrize(
    ("mode", "flips", "verdict", "message"),
    [
        (ModePolicy(), True, CheckStatus.OK, "flipped before they are empty"),
        (ModePolicy(highest=Mode.PROPOSE), True, CheckStatus.WARNING, "mode.highest is propose"),
        (ModePolicy(), False, CheckStatus.WARNING, "without flips"),
        (ModePolicy(), None, CheckStatus.SKIPPED, "no stack is known that would flip them"),
    ],
)
def test_what_opted_in_and_what_stops_it(mode, flips, verdict, message):
    (result,) = judge_opt_in([a_volume(tags=AUTO), a_volume()], Policy(mode=mode), flips=flips)
    assert result.verdict is verdict
    assert "1 volume with the opt-in tag burstwatch:mode=auto" in result.summary
    assert message in result.summary


def test_volumes_that_opted_in_and_are_still_not_flipped():
    _, result = judge_opt_in([a_volume(tags=AUTO, managed_by="eks.amazonaws.com")], Policy(), flips=True)
    assert result.verdict is CheckStatus.WARNING
    assert "can never be flipped" in result.summary


# The ways to people

SLACK = "https://hooks.slack.com/services/T0/B0/secret"


class FakeResponse(BytesIO):
    """An answer, as urllib has it."""

    def __init__(self, status, body, **headers):
        super().__init__(body.encode())
        self.status, self.headers = status, headers


@pytest.mark.parametrize(
    ("status", "body", "verdict", "trouble"),
    [
        (400, "no_text", CheckStatus.OK, None),
        (400, "missing_text", CheckStatus.OK, None),
        (400, "invalid_payload", CheckStatus.SKIPPED, None),
        (404, "no_service", CheckStatus.BROKEN, None),
        (403, "invalid_token", CheckStatus.BROKEN, None),
        (410, "channel_is_archived", CheckStatus.BROKEN, None),
        (302, "", CheckStatus.BROKEN, None),
        (200, "ok", CheckStatus.WARNING, None),
        (500, "rollup_error", CheckStatus.BROKEN, CheckFailure.FAILED),
        (429, "rate_limited", CheckStatus.BROKEN, CheckFailure.FAILED),
    ],
)
def test_the_answer_of_slack_to_a_message_that_it_must_refuse(status, body, verdict, trouble):
    posted = []

    def open_url(request, **_):
        posted.append(request.data)
        return FakeResponse(status, body, **{"Retry-After": "60"})

    result = probe_webhook(SLACK, open_url)

    assert (result.verdict, result.trouble) == (verdict, trouble)
    assert posted == [b'{"text": ""}'], "there is nothing in it to post"
    assert "secret" not in result.summary + result.fix
    assert "alert" not in result.summary, "none was sent"
    assert "tried again" not in result.summary


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [(FakeResponse(404, ""), CheckStatus.SKIPPED), (URLError("certificate has expired"), CheckStatus.BROKEN)],
)
def test_other_webhook_hosts_are_only_connected_to(monkeypatch, answer, verdict):
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

    result = probe_webhook("https://chat.example.com:8443/hooks/secret")

    assert result.verdict is verdict
    assert opened == [("HEAD", "https://chat.example.com:8443/", None)]
    assert "secret" not in result.summary


TOPIC = "arn:aws:sns:us-east-1:1:alerts"
PENDING = {"SubscriptionArn": "PendingConfirmation", "Protocol": "email", "Endpoint": "a@example.com"}
CONFIRMED = {"SubscriptionArn": f"{TOPIC}:1", "Protocol": "email", "Endpoint": "b@example.com"}
DELETED = {"SubscriptionArn": "Deleted", "Protocol": "email", "Endpoint": "c@example.com"}
FUNCTION = {"SubscriptionArn": f"{TOPIC}:2", "Protocol": "lambda", "Endpoint": "arn:aws:lambda"}


@pytest.mark.parametrize(
    ("attributes", "subscriptions", "expected"),
    [
        ([], [], [CheckStatus.BROKEN]),
        ([FUNCTION], [], [CheckStatus.BROKEN]),
        ([FUNCTION], ["Slack"], [CheckStatus.OK]),
        ([FUNCTION], None, [CheckStatus.SKIPPED]),
        ([DELETED], [], [CheckStatus.BROKEN]),
        ([CONFIRMED], [], [CheckStatus.OK]),
        ([PENDING], [], [CheckStatus.WARNING, CheckStatus.BROKEN]),
        ([PENDING, CONFIRMED], [], [CheckStatus.WARNING, CheckStatus.OK]),
    ],
)
def test_a_subscription_counts_from_its_confirmation_on(attributes, subscriptions, expected):
    result = list(judge_subscriptions(NoContext(), TOPIC, attributes, subscriptions))
    assert [finding.verdict for finding in result] == expected


# Versions


def test_only_what_burstctl_itself_is_pinned_to_is_compared():
    pins = parse_pins(
        ["boto3==1.44.5", "click==8.5.1 ; python_version > '3'", "moto[ec2]==5; extra == 'lab'", "x>=2"]
    )
    assert pins == [("boto3", "1.44.5"), ("click", "8.5.1")]
    old, missing, same = judge_pins(
        [*pins, ("rich", "15.0.0")], {"boto3": "1.40.0", "click": None, "rich": "15.0.0"}
    )
    assert (old.subject, old.summary) == ("boto3", "1.40.0, and 1.44.5 is what was tested")
    assert missing.summary.startswith("missing")
    assert same.summary == "as pinned: rich 15.0.0"


@pytest.mark.parametrize(
    ("deployed", "verdict"),
    [("0.2.0", CheckStatus.OK), ("0.1.0", CheckStatus.WARNING), (None, CheckStatus.SKIPPED)],
)
def test_the_deployed_version_against_this_one(deployed, verdict):
    assert judge_deployed("burstwatch", deployed, "0.2.0").verdict is verdict


# Words


def check_results(*findings, name="odd"):
    return [CheckResult(check=a_check(name), findings=findings)]


def test_a_command_is_continued_between_its_words_and_never_inside_quotes():
    command = f"aws scheduler get-schedule --name {'n' * 40} --query '{{A: B, {'C: D, ' * 12}}}' > s.json"
    checked = check_results(broken("it is off", fix="enable it", commands=(command,)))
    lines = to_plain_text(to_lines(checked)).split("\n")

    pasted = " ".join(line.strip().removesuffix("\\").strip() for line in lines[3:])
    assert pasted == " ".join(command.split())
    assert all(line.endswith("\\") for line in lines[3:-1])


def test_equal_findings_are_merged_with_all_their_subjects():
    same = [broken("no answer", fix="wait", subject=about) for about in ("ec2:A", "ec2:B")]
    checked = [
        *check_results(*same, name="one"),
        *check_results(broken("no answer", fix="wait", subject="ec2:C"), name="two"),
    ]

    lines = to_plain_text(to_lines(checked)).split("\n")

    assert lines == ["BROKEN   one, two", "    ec2:A, ec2:B, ec2:C: no answer", "    To fix it: wait"]
    assert describe_totals(checked) == "3 broken"


def test_permissions_are_tried_at_once_so_that_silence_is_waited_for_once(monkeypatch):
    """Seven calls that no one answers, one after the other, would take more than a minute."""
    barrier = Barrier(3, timeout=60)
    reads = [
        (Permission(f"ec2:Do{item}", Importance.REQUIRED, "it"), lambda _: barrier.wait()) for item in "abc"
    ]
    monkeypatch.setattr(check_permissions, "READS", reads)
    for part in (
        "_check_ledger_permissions",
        "_check_policy_permissions",
        "_check_topic_permission",
        "_check_modify_permission",
    ):
        monkeypatch.setattr(check_permissions, part, lambda _context: [])

    result = list(check_permissions.check_permissions(NoContext()))

    assert [(item.subject, item.verdict) for item in result] == [
        (f"ec2:Do{item}", CheckStatus.OK) for item in "abc"
    ]


def test_a_path_is_in_one_piece_on_a_narrow_terminal(monkeypatch):
    monkeypatch.setattr("burstctl.doctor.text.text_columns", lambda: 60)
    path = "sqlite:/home/anna/.local/state/burstwatch/ledger-us-east-1.sqlite"
    findings = [ok(f"{path}, schema 2"), broken(f"cannot read {path}", fix=f"remove {path}")]
    checked = CheckResult(check=a_check("ledger"), findings=findings)
    text = to_plain_text(to_lines([checked]))
    assert text.count(path) == 3


def test_the_path_of_a_ledger_is_in_one_piece():
    path = "sqlite:/home/anna/.local/state/burstwatch/ledger-us-east-1.sqlite"
    checked = CheckResult(check=a_check("ledger"), findings=[ok(f"{path}, schema 2, 0.1 MiB")])

    lines = to_plain_text(to_lines([checked])).split("\n")

    assert lines[1:] == ["  ok       ledger", f"      {path}, schema", "      2, 0.1 MiB"]
    assert max(map(len, lines)) <= 80
