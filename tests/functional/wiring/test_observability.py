import json
import os
import subprocess
import sys

import pytest
from aws_lambda_powertools import tracing

from burstwatch.wiring import observability
from burstwatch.wiring.observability import Field, Metric, Telemetry, make_tracer, with_telemetry
from support.builders.functions import Context

WEBHOOK = "https://hooks.slack.com/services/T00000000/B00000000/abcdefghijklmnopqrstuvwx"


def lines(log):
    return [json.loads(line) for line in log.getvalue().splitlines()]


# Log lines


def test_a_line_is_json_with_the_fields_that_have_a_value(telemetry, log, environ):
    telemetry.info("looked", {Field.VOLUME_ID: "vol-1", Field.DECISION: "flip", Field.ERROR_CODE: None})
    (line,) = lines(log)
    assert (line["message"], line["level"], line["volume_id"], line["decision"]) == (
        "looked",
        "INFO",
        "vol-1",
        "flip",
    )
    assert line["service"] == environ["POWERTOOLS_SERVICE_NAME"]
    assert line["timestamp"].endswith(("Z", "+00:00"))
    assert "error_code" not in line
    assert line["location"].startswith("test_a_line_is_json")


def test_no_field_takes_the_place_of_one_of_powertools_own(telemetry, log):
    telemetry.warn("all of them", dict.fromkeys(Field, "ours"))
    (line,) = lines(log)
    assert (line["level"], line["message"]) == ("WARNING", "all of them")
    assert [field for field in Field if line.get(field) != "ours"] == []


def test_the_level_of_the_environment_counts(log, environ):
    telemetry = Telemetry.from_env(environ | {"POWERTOOLS_LOG_LEVEL": "ERROR"}, stream=log)
    telemetry.info("quiet")
    telemetry.error("loud")
    assert [line["message"] for line in lines(log)] == ["loud"]


def test_no_log_line_contains_the_webhook_address(telemetry, log):
    try:
        int(WEBHOOK)
    except ValueError as error:
        telemetry.internal_error("a bug", error, {Field.REASON: f"post to {WEBHOOK}"})
    telemetry.info(WEBHOOK)
    assert "T00000000" not in log.getvalue()
    assert lines(log)[0]["reason"] == "post to https://hooks.slack.com/services/…"
    assert lines(log)[0]["exception_name"] == "ValueError"


def test_text_that_has_no_bytes_breaks_no_line(telemetry, log):
    telemetry.info("a name", {Field.VOLUME_ID: "vol-\ud800 büro"})
    assert lines(log)[0]["volume_id"] == "vol-? büro"


# Metrics


def emitted_metrics(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_metrics_are_one_line_that_cloudwatch_reads(telemetry, environ, capsys):
    telemetry.emit_metric(Metric.TICKS, 1)
    telemetry.emit_metric(Metric.NEWEST_DATAPOINT_AGE, 95.5)
    telemetry.emit_metric(Metric.LOWEST_BURST_BALANCE, 31.5)
    telemetry.emit_metric(Metric.SOONEST_TIME_TO_EMPTY, None)
    telemetry.flush()
    (line,) = emitted_metrics(capsys)
    (directive,) = line["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == "Burstwatch"
    assert directive["Dimensions"] == [["service"]]
    assert line["service"] == environ["POWERTOOLS_SERVICE_NAME"]
    units = {metric["Name"]: metric["Unit"] for metric in directive["Metrics"]}
    assert units == {"Ticks": "Count", "NewestDatapointAge": "Seconds", "LowestBurstBalance": "Percent"}
    assert line["LowestBurstBalance"] == [31.5]


def test_without_metrics_nothing_is_written(telemetry, capsys):
    telemetry.flush()
    assert emitted_metrics(capsys) == []


def test_metrics_of_one_invocation_are_not_repeated_in_the_next(telemetry, capsys):
    telemetry.emit_metric(Metric.FLIPS, 2)
    telemetry.flush()
    telemetry.emit_metric(Metric.TICKS, 1)
    telemetry.flush()
    _, second = emitted_metrics(capsys)
    assert "Flips" not in second
    assert second["service"]


def test_names_that_are_missing_stop_no_function(log, capsys):
    telemetry = Telemetry.from_env({}, stream=log)
    telemetry.emit_metric(Metric.TICKS, 1)
    telemetry.flush()
    (line,) = emitted_metrics(capsys)
    assert (line["service"], line["_aws"]["CloudWatchMetrics"][0]["Namespace"]) == (
        "burstwatch",
        "Burstwatch",
    )


# The handler


def test_a_handler_gets_instruments_and_writes_its_metrics_and_whose_line_it_is(in_lambda, capsys):
    @with_telemetry
    def handler(event, context, telemetry):
        telemetry.info("hello")
        telemetry.emit_metric(Metric.TICKS, 1)
        return event["answer"]

    assert handler({"answer": 42}, Context()) == 42
    line, metrics = emitted_metrics(capsys)
    assert (line["message"], line["function_request_id"]) == ("hello", "c0ffee")
    assert metrics["Ticks"] == [1.0]


def test_a_handler_that_fails_writes_its_metrics_and_fails(in_lambda, capsys):
    @with_telemetry
    def handler(event, context, telemetry):
        telemetry.emit_metric(Metric.ALERTS_NOT_DELIVERED, 1)
        raise LookupError("nobody there")

    with pytest.raises(LookupError, match="nobody there"):
        handler({}, Context())
    assert emitted_metrics(capsys)[-1]["AlertsNotDelivered"] == [1.0]


def test_instruments_are_made_once_and_only_when_there_is_something_to_do(in_lambda, monkeypatch):
    created = []
    real = Telemetry.from_env
    monkeypatch.setattr(Telemetry, "from_env", lambda environ: created.append(1) or real(environ))

    @with_telemetry
    def handler(event, context, telemetry):
        return telemetry.logger

    assert created == []
    assert handler({}, Context()) is handler({}, Context())
    assert created == [1]


# Traces


def handle_untraced(event, context):
    return "done"


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"_X_AMZN_TRACE_ID": "Root=1-5;Parent=5;Sampled=1"},
        {"LAMBDA_TASK_ROOT": "/var/task", "POWERTOOLS_TRACE_DISABLED": "true"},
    ],
)
def test_outside_lambda_or_switched_off_a_tracer_leaves_the_handler_as_it_is(environ):
    assert make_tracer(environ)(handle_untraced) is handle_untraced


def test_an_invocation_that_is_not_sampled_is_not_traced_and_one_that_is_is(monkeypatch):
    class FakeTracer:
        def __init__(self, **options):
            traced.append(options)

        def capture_lambda_handler(self, handle, **_):
            return lambda event, context: f"traced and {handle(event, context)}"

    traced = []
    monkeypatch.setattr(tracing, "Tracer", FakeTracer)
    environ = {"LAMBDA_TASK_ROOT": "/var/task", "POWERTOOLS_SERVICE_NAME": "prod"}
    handler = make_tracer(environ)(handle_untraced)
    assert handler({}, None) == "done"
    environ["_X_AMZN_TRACE_ID"] = "Root=1-5759e988;Parent=53995c3f;Sampled=0"
    assert handler({}, None) == "done"
    assert traced == []
    environ["_X_AMZN_TRACE_ID"] = "Root=1-5759e988;Parent=53995c3f;Sampled=1"
    assert [handler({}, None), handler({}, None)] == ["traced and done"] * 2
    assert traced == [{"service": "prod", "patch_modules": ["botocore"]}]


# Importing


def modules_after_import(module, *unwanted):
    """What of this is imported along with a module, in an interpreter of its own without an environment."""
    code = f"import {module}, sys; print([m for m in {unwanted!r} if m in sys.modules])"
    bare = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    completed = subprocess.run(
        [sys.executable, "-c", code], env=bare, capture_output=True, text=True, timeout=60, check=True
    )
    assert completed.stderr == ""
    return completed.stdout.strip()


@pytest.mark.parametrize("module", ["burstwatch.wiring.observability", "burstwatch.handlers.notify"])
def test_importing_brings_no_xray_sdk_with_it(module):
    assert modules_after_import(module, "aws_xray_sdk", "moto", "yaml", "rich", "click") == "[]"


def test_importing_reads_no_environment():
    code = (
        "import os\n"
        "import aws_lambda_powertools.metrics, aws_lambda_powertools.logging\n"
        "import aws_lambda_powertools.utilities.idempotency, botocore.session, burstwatch.wiring.bootstrap\n"
        "read = []\n"
        "class Environ(dict):\n"
        "    def __getitem__(self, key): read.append(key); return super().__getitem__(key)\n"
        "    def get(self, key, default=None): read.append(key); return super().get(key, default)\n"
        "os.environ = Environ(os.environ)\n"
        "import burstwatch.handlers.notify\n"
        "print(read)"
    )
    completed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert completed.stdout.strip() == "[]"


def test_every_metric_uses_a_cloudwatch_unit():
    assert all(metric.isalnum() and metric[0].isupper() for metric in Metric)
    assert observability._UNITS.keys() <= set(Metric)
