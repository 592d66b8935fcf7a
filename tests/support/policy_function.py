"""A function that reads its policy from Parameter Store, again and again."""

from datetime import UTC, datetime

from burstwatch.adapters.ledger.dynamodb_notes import DynamoKeyValueStore
from burstwatch.adapters.policy.parameter_store import PolicyParameter
from support.ledger.ledger_stores import TABLE, dynamodb_client

NAME = "/burstwatch/prod/policy"


PUSHED = f"{NAME}-pushed"


def policy(minutes):
    """A policy that is distinguished from others by when it warns."""
    return f"version: 1\nlevels:\n  warning_within: {minutes}m\n"


class FakeSsm:
    """Parameter Store: text by name, each with the hour in which it was written; or nothing but ``error``."""

    def __init__(self, **texts):
        self.parameters = {}
        self.error = None
        self.calls = 0
        for name, text in texts.items():
            self.put({"deployed": NAME, "pushed": PUSHED}[name], text)

    def put(self, name, text, hour=9):
        self.parameters[name] = (text, datetime(2026, 11, 20, hour, tzinfo=UTC))

    def get_parameters(self, *, Names):  # noqa: N803 - AWS's names
        self.calls += 1
        if self.error:
            raise self.error
        result = {name: self.parameters[name] for name in Names if name in self.parameters}
        return {
            "Parameters": [
                {"Name": name, "Value": text, "LastModifiedDate": at} for name, (text, at) in result.items()
            ],
            "InvalidParameters": [name for name in Names if name not in result],
        }


class PolicyReaderFunction:
    """A function with these parameters, which may be restarted."""

    def __init__(self, ssm, time):
        self.ssm = ssm
        self.time = time
        self.start()

    def start(self):
        notes = DynamoKeyValueStore(dynamodb_client(), TABLE, sleep=lambda _: None)
        self.parameter = PolicyParameter(self.ssm, NAME, deployment="prod", store=notes, clock=self.time)

    def read_policy(self, *, after_s=30.0):
        self.time.now_s += after_s
        return self.parameter.get_active()

    def minutes(self, **when):
        return self.read_policy(**when).policy.levels.warning_within.total_seconds() / 60
