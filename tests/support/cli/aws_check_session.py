"""burstctl aws-check for tests: the real command, the lab in place of AWS, and no time slept through."""

import json
from contextlib import contextmanager
from urllib.request import Request, urlopen

from burstctl.aws_check import command
from burstctl.cli.signals import StopSignal
from burstctl.experiment import waiting
from burstwatch.wiring.settings import Clock
from support.cli.cli_session import CliSession, start_lab

TAG = "burstwatch:aws-check"


class SimulatedCrash(BaseException):
    """The process ends here, and nothing after it runs."""


class AwsCheckSession:
    """Runs the command; while it waits the lab's time goes by, and what ``meanwhile`` holds is done."""

    def __init__(self, directory, monkeypatch, capsys):
        self.cli = CliSession(directory, monkeypatch, capsys)
        self.directory = directory
        self.monkeypatch = monkeypatch
        self.actions = []
        self.lab = None
        monkeypatch.setitem(waiting.MAX_SLEEP_S, Clock.ENDPOINT, 3600.0)

        def sleep(stop, seconds):
            self.lab.clock.advance(seconds)
            for action in list(self.actions):
                action(stop)

        monkeypatch.setattr(StopSignal, "wait", sleep)
        # a run reads the clock thousands of times, and an HTTP request for each is most of a test's time;
        # whole seconds, as the endpoint returns them
        monkeypatch.setattr(
            command, "endpoint_clock", lambda _url: lambda: float(int(self.lab.clock.now_s()))
        )

    def run(self, *arguments, **fields):
        return self.cli.run("aws-check", *arguments, **fields)

    def measure(self, *facts, report="report"):
        """The report on these facts; everything is removed afterwards."""
        only = [word for fact in facts for word in ("--only", fact)]
        result = self.run("--yes", "--json", "--report", self.directory / report, *only)
        assert result.code == 0, result.err
        assert result.document == json.loads(self.report_path(report).read_text())
        assert leftover_resources(self.lab) == []
        return result.document

    def answer(self, fact, **fields):
        return answers_by_fact(self.measure(fact, **fields))[fact]

    def report_path(self, report="report"):
        return self.directory / f"{report}.json"

    @contextmanager
    def start_lab(self, **settings):
        """A lab that holds nothing: the state of moto is the process's, with what other tests left in it."""
        with start_lab(self.cli, **settings) as self.lab:
            self._reset_moto()
            yield self.lab
            self._reset_moto()

    def _reset_moto(self):
        urlopen(Request(f"{self.lab.url}/moto-api/reset", method="POST"), timeout=60).close()
        self.lab.faults.reset_calls()

    def run_files(self):
        return [json.loads(path.read_text()) for path in self.cli.ledger_path.parent.glob("aws-check-*.json")]


def answers_by_fact(document):
    return {fact["name"]: fact["answer"] for fact in document["facts"]}


def find_fact(document, name):
    return next(fact for fact in document["facts"] if fact["name"] == name)


def leftover_resources(lab):
    """What the lab and moto still hold of any run, as (kind, name)."""
    kms, iam = lab.client("kms"), lab.client("iam")
    states = [kms.describe_key(KeyId=key["KeyId"])["KeyMetadata"] for key in kms.list_keys()["Keys"]]
    return [
        *(("volume", volume.volume_id) for volume in lab.fleet if TAG in volume.tags),
        *(
            ("instance", item.instance_id)
            for item in lab.fleet.instances.values()
            if TAG in item.tags and item.state != "terminated"
        ),
        *(("topic", item["TopicArn"]) for item in lab.client("sns").list_topics()["Topics"]),
        *(("rule", item["Name"]) for item in lab.client("events").list_rules()["Rules"]),
        *(("queue", item) for item in lab.client("sqs").list_queues().get("QueueUrls", ())),
        *(
            ("alarm", item["AlarmName"])
            for item in lab.client("cloudwatch").describe_alarms()["MetricAlarms"]
        ),
        *(("key", item["KeyId"]) for item in states if item["KeyState"] != "PendingDeletion"),
        *(("role", item["RoleName"]) for item in iam.list_roles()["Roles"]),
    ]
