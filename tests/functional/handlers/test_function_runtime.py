"""The runtime of the functions: their environment, what importing one does, and what it keeps while warm."""

import json
import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from burstlab.fake_aws.faults import Fault
from burstwatch.adapters.ledger.dynamodb import DynamoLedger
from burstwatch.core.policy.policy import Mode
from burstwatch.handlers import runtime as footing_module
from burstwatch.handlers.runtime import account_from_context
from burstwatch.wiring.bootstrap import ledger_origin
from burstwatch.wiring.observability import Telemetry
from burstwatch.wiring.settings import SettingsError
from support.aws.fake_stack import deploy_stack, put_parameter
from support.builders.functions import (
    ACCOUNT,
    AUTO,
    a_lambda_context,
    a_message,
    to_instant,
)
from support.cli.cli_session import add_calm, add_critical, modification_targets
from support.paths import ROOT

LAMBDAS = ROOT / "lambdas"
VERBS = ("watch", "flip", "settle", "probe", "notify")
WEBHOOK = "https://hooks.slack.com/services/T00000000/B00000000/aVerySecretPart"
HEAVY = {"click", "rich", "matplotlib", "moto", "aws_xray_sdk", "burstlab", "burstctl"}

SPY = """
import json, os, sys
sys.path.insert(0, OURS)
reads, deeds = [], []


class Spy(dict):
    def __getitem__(self, name):
        note(name)
        return super().__getitem__(name)

    def __contains__(self, name):
        note(name)
        return super().__contains__(name)

    def get(self, name, default=None):
        note(name)
        return super().get(name, default)


def note(name):
    reader = sys._getframe(2).f_code.co_filename
    if reader.startswith(OURS):
        reads.append((reader, name))


os.environ = Spy(os.environ)
os.getenv = os.environ.get
hooked = ("socket.connect", "subprocess.Popen", "os.exec")
sys.addaudithook(lambda name, given: deeds.append(name) if name in hooked else None)

import botocore.session
botocore.session.Session.create_client = lambda *given, **named: deeds.append("create_client")

module = __import__(NAME, fromlist=["handler"])
assert callable(getattr(module, "handler", None))
print(json.dumps({"reads": reads, "deeds": deeds, "modules": sorted(sys.modules)}))
"""
"""What a process does while it imports a module of ours: variables it reads, clients it makes, calls."""


# ---- what importing does


def observe_import(name, own_folder=LAMBDAS):
    """In a bare interpreter, with no environment at all."""
    code = SPY.replace("OURS", repr(str(own_folder))).replace("NAME", repr(name))
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        env={},
        check=False,
        timeout=60,
    )
    assert (result.returncode, result.stderr) == (0, "")
    return json.loads(result.stdout)


@pytest.mark.parametrize("verb", VERBS)
def test_importing_a_handler_reads_no_environment_and_calls_no_one(verb):
    result = observe_import(f"burstwatch.handlers.{verb}")
    assert (result["reads"], result["deeds"]) == ([], [])
    assert not HEAVY & set(result["modules"])


def test_side_effects_at_import_would_be_detected(tmp_path):
    (tmp_path / "guilty.py").write_text(
        "import os\nfrom os import environ\nfrom botocore.session import Session\n"
        "os.environ.get('ONE'), environ.get('TWO'), 'THREE' in environ, os.getenv('FOUR')\n"
        "Session().create_client('ec2')\ndef handler(): ...\n"
    )
    result = observe_import("guilty", tmp_path)
    assert [name for _, name in result["reads"]] == ["ONE", "TWO", "THREE", "FOUR"]
    assert result["deeds"] == ["create_client"]


@pytest.mark.parametrize("verb", ["watch", "flip", "settle"])
def test_a_handler_imports_no_second_sdk(verb):
    """boto3 over botocore costs a tenth of a second of every cold start, and nothing here uses it."""
    assert "boto3" not in observe_import(f"burstwatch.handlers.{verb}")["modules"]


def invoke_in_subprocess(functions, verb, event, **changes):
    """Invoke a handler as Lambda's runtime does: a process of its own, the environment, and no more."""
    code = (
        "import json, sys; sys.path.insert(0, sys.argv[1])\n"
        "from types import SimpleNamespace\n"
        f"from burstwatch.handlers.{verb} import handler\n"
        "context = SimpleNamespace(**json.loads(sys.argv[3]))\n"
        "context.get_remaining_time_in_millis = lambda: 50_000\n"
        "print('RESULT ' + json.dumps(handler(json.loads(sys.argv[2]), context)))\n"
    )
    context = {
        name: value
        for name, value in vars(a_lambda_context(verb, functions.service)).items()
        if isinstance(value, str | int)
    }
    environment = functions.lab.environment | functions.environment(verb) | changes
    return subprocess.run(
        [sys.executable, "-c", code, str(LAMBDAS), json.dumps(event), json.dumps(context)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=environment,
    )


def test_the_real_handlers_run_in_processes_of_their_own_and_flip(functions, lab):
    volume_id = add_critical(lab, tags=AUTO)
    due = to_instant(lab.clock.now_s())
    result = invoke_in_subprocess(
        functions, "watch", {"mode": "sweep", "time": due}, BURSTWATCH_CLOCK="event"
    )
    assert result.returncode == 0, result.stderr
    assert '"action_taken":"in_flight"' in result.stdout
    result = invoke_in_subprocess(
        functions, "flip", {"Records": functions.requests()}, BURSTWATCH_CLOCK="event"
    )
    assert result.returncode == 0, result.stderr
    assert 'RESULT {"batchItemFailures": []}' in result.stdout
    assert modification_targets(lab, volume_id) == ["gp3"]
    assert functions.alert_kinds() == ["BurstBalanceDraining", "VolumeFlipped"]


def test_a_tick_of_two_hours_ago_is_late_by_the_machines_own_clock(functions, lab):
    add_critical(lab, tags=AUTO)
    result = invoke_in_subprocess(
        functions, "watch", {"mode": "sweep", "time": to_instant(time.time() - 7200)}
    )
    assert result.returncode == 0, result.stderr
    assert '"LateTicks":[1.0]' in result.stdout
    assert functions.requests() == []


# ---- the environment


@pytest.mark.parametrize("verb", ["watch", "flip", "settle"])
def test_every_fault_of_the_environment_is_named_in_one_error(functions, lab, verb, monkeypatch):
    wrong = {
        "BURSTWATCH_LEDGER": "sqlite:/tmp/x",
        "BURSTWATCH_CLOCK": "sundial",
        "BURSTWATCH_TOPIC_ARN": "alerts",
        "BURSTWATCH_POLICY": "",
        "BURSTWATCH_DEPLOYMENT": "-",
        "BURSTWATCH_FLIP_QUEUE_URL": "flips",
    }
    monkeypatch.setattr(type(functions), "environment", lambda *_: wrong)
    with pytest.raises(SettingsError) as exc_info:
        functions.invoke(verb, {"mode": "sweep", "time": "2026-11-20T18:00:00Z", "Records": [a_message("")]})
    text = str(exc_info.value)
    assert all(name in text for name in wrong)
    assert text.endswith("deploy the stack again")


def test_an_environment_that_was_fixed_is_read_by_the_next_invocation(monkeypatch):
    footing_module.function_runtime.cache_clear()
    for name in list(os.environ):
        if name.startswith("BURSTWATCH_"):
            monkeypatch.delenv(name)
    for _ in range(2):
        with pytest.raises(SettingsError, match="BURSTWATCH_LEDGER is not set"):
            footing_module.function_runtime(ACCOUNT)
    assert footing_module.function_runtime.cache_info().currsize == 0


def test_the_account_is_that_of_the_function(functions, lab):
    context = SimpleNamespace(
        invoked_function_arn="arn:aws-cn:lambda:cn-north-1:111122223333:function:f:live"
    )
    assert account_from_context(context) == "111122223333"


def test_a_ledger_of_another_account_is_refused_by_name(functions, lab, build_runtime):
    functions.ledger.bind(ledger_origin("999999999999", "us-east-1"))
    with pytest.raises(Exception, match="999999999999"):
        build_runtime()


# ---- what is kept while warm


def test_a_warm_function_refreshes_policy_and_authority_only_periodically(functions, lab):
    """Six ticks: the policy is known for 30 s, who else is deployed for five minutes."""
    add_calm(lab)
    lab.faults.reset_calls()
    functions.tick()
    for _ in range(5):
        functions.watch("focus")
        lab.clock.advance(60)
        functions.watch("focus")
    calls = lab.faults.call_counts()
    assert calls["GetParameters"] == 6
    assert calls["GetParametersByPath"] == 2


def test_the_functions_of_a_stack_share_the_last_good_policy(functions, lab, build_runtime, telemetry):
    functions.deploy_policy("version: 1\nmode:\n  highest: propose\n")
    build_runtime("watch").services_for_watch(lab.clock.now_s(), telemetry)
    functions.ssm.delete_parameter(Name="/burstwatch/burstwatch/policy")
    shell = build_runtime("flip").services_for_flip(lab.clock.now_s(), telemetry)
    assert shell.policy.mode.highest is Mode.PROPOSE


def test_only_the_services_for_flip_can_modify(functions, lab, build_runtime, telemetry):
    now_s = lab.clock.now_s()
    looking = build_runtime("watch").services_for_watch(now_s, telemetry)
    modifying = build_runtime("flip").services_for_flip(now_s, telemetry)
    assert (looking.modifier, looking.flip_queue is None) == (None, False)
    assert (modifying.modifier is None, modifying.flip_queue) == (False, None)
    assert looking.channel_names == modifying.channel_names == ["sns"]
    assert isinstance(looking.ledger, DynamoLedger)


def test_the_first_function_that_runs_writes_once_when_the_stack_was_first_deployed(
    functions, lab, build_runtime, telemetry
):
    card, origin = "/burstwatch/deployments/burstwatch", "/burstwatch/deployments/burstwatch/an-id/since"
    deploy_stack(lab, functions.name, topic_arn=functions.topic_arn, origin=origin)
    put_parameter(functions.ssm, f"{card}/since", "burstwatch")
    first_s = lab.clock.now_s()
    lab.clock.advance(60)
    build_runtime("watch").services_for_watch(lab.clock.now_s(), telemetry)
    functions.ssm.put_parameter(Name=f"{card}/since", Value="burstwatch", Overwrite=True)  # as for a new tag
    build_runtime("flip").services_for_flip(lab.clock.now_s(), telemetry)
    assert lab.parameters.parameters("us-east-1")[origin].value == f"{first_s:.3f}"
    assert lab.parameters.parameters("us-east-1")[f"{card}/since"].modified_at_s > first_s


def test_with_unknown_authority_no_stack_flips(functions, lab, build_runtime, telemetry, capsys):
    lab.faults.add(
        Fault(action="GetParametersByPath", code="AccessDeniedException", message="not authorized")
    )
    shell = build_runtime("flip").services_for_flip(lab.clock.now_s(), telemetry)
    assert shell.modifier is None
    assert "NotStanding" in telemetry.metrics.metric_set
    telemetry.metrics.clear_metrics()


def test_the_first_policy_problem_is_reported_once_by_any_function(functions, lab):
    functions.deploy_policy("version: 7\n")
    add_critical(lab, tags=AUTO)
    lab.clock.advance(29)
    functions.watch("sweep")
    functions.settle(an_ebs_event(lab))
    functions.flip([a_message("?")])
    assert functions.alert_kinds().count("PolicyRejected") == 1


def an_ebs_event(lab):
    return {
        "source": "aws.ec2",
        "detail-type": "EBS Volume Notification",
        "time": to_instant(lab.clock.now_s()),
        "resources": [],
        "detail": {"event": "createVolume"},
    }


# ---- secrets


def test_the_address_of_a_webhook_is_in_no_line_whatever_it_is_part_of(functions, lab):
    poison = json.dumps({"schema": WEBHOOK, WEBHOOK: 1, "because": f"see {WEBHOOK}"})
    output = functions.flip([a_message(poison, group=WEBHOOK)])
    with pytest.raises(Exception, match="mode"):
        functions.invoke("watch", {"mode": WEBHOOK})
    repeated = functions.last
    for text in (output.text, repeated.text):
        assert "aVerySecretPart" not in text
    assert "not a flip request" in output.text


def test_a_bug_is_logged_with_its_traceback_and_without_secrets(functions, capsys):
    instruments = Telemetry.from_env({"POWERTOOLS_SERVICE_NAME": functions.service})
    with pytest.raises(ValueError, match="invalid literal") as exc_info:
        int(WEBHOOK)
    instruments.internal_error("not delivered", exc_info.value)
    line = json.loads(capsys.readouterr().out)
    assert "Traceback" in line["exception"]
    assert "aVerySecretPart" not in json.dumps(line)
