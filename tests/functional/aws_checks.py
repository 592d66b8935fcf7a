"""burstctl aws-check for tests: the real command, the lab in place of AWS, and no time slept through."""

import json
from urllib.request import Request, urlopen

from operators_desk import OperatorsDesk

from burstctl.aws_check import command
from burstctl.cli.signals import StopSignal
from burstctl.experiment import waiting
from burstwatch.wiring.settings import Clock

TAG = "burstwatch:aws-check"


class Crash(BaseException):
    """The process ends here, and nothing after it runs."""


class AwsChecks:
    """Runs the command; while it waits the lab's time goes by, and what ``meanwhile`` holds is done."""

    def __init__(self, directory, monkeypatch, capsys):
        self.desk = OperatorsDesk(directory, monkeypatch, capsys)
        self.directory = directory
        self.monkeypatch = monkeypatch
        self.meanwhile = []
        self.lab = None
        monkeypatch.setitem(waiting.LONGEST_NAP_S, Clock.ENDPOINT, 3600.0)

        def nap(stop, seconds):
            self.lab.clock.advance(seconds)
            for deed in list(self.meanwhile):
                deed(stop)

        monkeypatch.setattr(StopSignal, "wait", nap)
        # a run reads the clock thousands of times, and an HTTP request for each is most of a test's time;
        # whole seconds, as the endpoint tells them
        monkeypatch.setattr(
            command, "endpoint_clock", lambda _url: lambda: float(int(self.lab.clock.now_s()))
        )

    def run(self, *arguments, **given):
        return self.desk.run("aws-check", *arguments, **given)

    def measure(self, *facts, report="report"):
        """The report on these facts; everything is removed afterwards."""
        only = [word for fact in facts for word in ("--only", fact)]
        ran = self.run("--yes", "--json", "--report", self.directory / report, *only)
        assert ran.code == 0, ran.err
        assert ran.document == json.loads(self.report_path(report).read_text())
        assert remains(self.lab) == []
        return ran.document

    def answer(self, fact, **given):
        return answers(self.measure(fact, **given))[fact]

    def report_path(self, report="report"):
        return self.directory / f"{report}.json"

    def forget_moto(self):
        """What moto holds would be there in the next test too."""
        urlopen(Request(f"{self.lab.url}/moto-api/reset", method="POST"), timeout=60).close()

    def run_files(self):
        return [
            json.loads(path.read_text()) for path in self.desk.ledger_path.parent.glob("aws-check-*.json")
        ]


def answers(document):
    return {fact["name"]: fact["answer"] for fact in document["facts"]}


def fact_of(document, name):
    return next(fact for fact in document["facts"] if fact["name"] == name)


def remains(lab):
    """What the lab and moto still hold of any run, as (kind, name)."""
    kms, iam = lab.client("kms"), lab.client("iam")
    states = [kms.describe_key(KeyId=key["KeyId"])["KeyMetadata"] for key in kms.list_keys()["Keys"]]
    return [
        *(("volume", volume.volume_id) for volume in lab.fleet if TAG in volume.tags),
        *(
            ("instance", each.instance_id)
            for each in lab.fleet.instances.values()
            if TAG in each.tags and each.state != "terminated"
        ),
        *(("topic", each["TopicArn"]) for each in lab.client("sns").list_topics()["Topics"]),
        *(("rule", each["Name"]) for each in lab.client("events").list_rules()["Rules"]),
        *(("queue", each) for each in lab.client("sqs").list_queues().get("QueueUrls", ())),
        *(
            ("alarm", each["AlarmName"])
            for each in lab.client("cloudwatch").describe_alarms()["MetricAlarms"]
        ),
        *(("key", each["KeyId"]) for each in states if each["KeyState"] != "PendingDeletion"),
        *(("role", each["RoleName"]) for each in iam.list_roles()["Roles"]),
    ]
