"""AWS's clients in the same process, each call of which is an effect that may be struck."""

# ruff: noqa: N803 - AWS's names

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any, Final

from botocore.exceptions import ClientError

from burstlab.fake_aws.dynamodb import DynamoDb
from burstlab.fake_aws.in_process_clients import InProcessEc2
from burstlab.fake_aws.metrics import read_datapoints
from burstlab.fault_injection import fault_models
from burstlab.fault_injection.effects import Nature, Wire
from burstlab.model.fleet import LabFleet
from burstlab.model.instance import BALANCES

_INSTANCE: Final = "m5.xlarge"
_LIMITS: Final = {
    "InstanceType": _INSTANCE,
    "EbsInfo": {
        "EbsOptimizedSupport": "default",
        "EbsOptimizedInfo": {
            "BaselineIops": 6_000,
            "MaximumIops": 18_750,
            "BaselineThroughputInMBps": 143.75,
            "MaximumThroughputInMBps": 593.75,
        },
    },
}


class Ec2(InProcessEc2):
    """EC2; ``note_send`` hears of each ModifyVolume before anything becomes of it."""

    def __init__(self, fleet: LabFleet, wire: Wire, note_send: Callable[[str], None]) -> None:
        super().__init__(fleet)
        self._wire = wire
        self._note_send = note_send
        self._modify = fault_models.modify_volume(fleet.clock.now_s)

    def describe_volumes(
        self, VolumeIds: Sequence[str] = (), Filters: Sequence[Mapping[str, Any]] = (), **rest: object
    ) -> dict[str, Any]:
        nature = fault_models.DESCRIBE_NAMED if VolumeIds else fault_models.DESCRIBE_VOLUMES
        do = partial(super().describe_volumes, VolumeIds=VolumeIds, Filters=Filters, **rest)
        return self._read("DescribeVolumes", nature, do, (VolumeIds, Filters))

    def describe_volumes_modifications(
        self, Filters: Sequence[Mapping[str, Any]] = (), **rest: object
    ) -> dict[str, Any]:
        do = partial(super().describe_volumes_modifications, Filters=Filters, **rest)
        return self._read("DescribeVolumesModifications", fault_models.DESCRIBE_MODIFICATIONS, do, Filters)

    def describe_instances(self, InstanceIds: Sequence[str] = (), **rest: object) -> dict[str, Any]:
        running = {"State": {"Name": "running"}, "InstanceType": _INSTANCE}
        told = {"Reservations": [{"Instances": [{"InstanceId": each, **running}]} for each in InstanceIds]}
        return self._read(
            "DescribeInstances", fault_models.DESCRIBE_INSTANCES, lambda: told, (InstanceIds, rest)
        )

    def describe_instance_types(self, **request: object) -> dict[str, Any]:
        told = {"InstanceTypes": [_LIMITS]}
        return self._read("DescribeInstanceTypes", fault_models.DESCRIBE_TYPES, lambda: told, request)

    def modify_volume(self, VolumeId: str, **asked: Any) -> dict[str, Any]:  # type: ignore[override]
        self._note_send(VolumeId)
        do = partial(super().modify_volume, VolumeId=VolumeId, **asked)
        answer: dict[str, Any] = self._wire.carry(
            "ec2:ModifyVolume", self._modify, do, about=frozenset({VolumeId})
        )
        return answer

    def _read(
        self, operation: str, nature: Nature, do: Callable[[], dict[str, Any]], question: object
    ) -> dict[str, Any]:
        about = frozenset(_volumes_in(repr(question)))
        answer: dict[str, Any] = self._wire.carry(
            f"ec2:{operation}", nature, do, about=about, question=repr(question)
        )
        return answer


def _volumes_in(text: str) -> Iterable[str]:
    parts = text.split("vol-")[1:]
    return (f"vol-{part[:17]}" for part in parts)


class CloudWatch:
    """GetMetricData; ``nature`` says how patient its client is."""

    def __init__(self, fleet: LabFleet, wire: Wire, nature: Nature) -> None:
        self._fleet = fleet
        self._wire = wire
        self._nature = nature

    def get_metric_data(
        self,
        MetricDataQueries: Sequence[Mapping[str, Any]],
        StartTime: datetime,
        EndTime: datetime,
        **_: object,
    ) -> dict[str, Any]:
        from_s, to_s = int(StartTime.timestamp()), int(EndTime.timestamp())

        def do() -> dict[str, Any]:
            return {"MetricDataResults": [self._answer(each, from_s, to_s) for each in MetricDataQueries]}

        about = frozenset(_volumes_in(repr(MetricDataQueries)))
        answer: dict[str, Any] = self._wire.carry("cloudwatch:GetMetricData", self._nature, do, about=about)
        return answer

    def _answer(self, query: Mapping[str, Any], from_s: int, to_s: int) -> dict[str, Any]:
        stat = query["MetricStat"]
        name, (dimension,) = stat["Metric"]["MetricName"], stat["Metric"]["Dimensions"]
        times: Sequence[int] = ()
        values: Sequence[float] = ()
        if name not in BALANCES and dimension["Value"] in self._fleet:
            points = read_datapoints(
                self._fleet.find(dimension["Value"]),
                name,
                stat["Stat"],
                period_s=stat["Period"],
                from_s=from_s,
                to_s=to_s,
                now_s=self._fleet.clock.now_s(),
                settings=self._fleet.settings,
            )
            times, values = points.starts_s, points.values
        return {"Id": query["Id"], "Timestamps": times, "Values": values, "StatusCode": "Complete"}


_TOKENS: Final = count()
"""No two transactions of a table bear the same, whoever writes them."""


class Unbilled(DynamoDb):
    """The lab's table, whose units nobody counts."""

    __slots__ = ()

    def _bill_read(self, *_: object, **__: object) -> None:
        """Measuring items takes longer than reading them."""

    _bill_write = _bill_read


class DynamoClient:
    """boto3's client of DynamoDB, as far as the ledger uses it."""

    meta = SimpleNamespace(region_name="us-east-1")

    def __init__(self, table: DynamoDb, wire: Wire | None = None) -> None:
        """Without a ``wire`` nothing of it is an effect: so looks who only judges."""
        self._table = table
        self._wire = wire

    def get_item(self, **request: Any) -> Any:
        return self._carry("GetItem", request)

    def batch_get_item(self, **request: Any) -> Any:
        return self._carry("BatchGetItem", request)

    def query(self, **request: Any) -> Any:
        return self._carry("Query", request)

    def put_item(self, **request: Any) -> Any:
        return self._carry("PutItem", request)

    def delete_item(self, **request: Any) -> Any:
        return self._carry("DeleteItem", request)

    def transact_write_items(self, **request: Any) -> Any:
        return self._carry("TransactWriteItems", request | {"ClientRequestToken": str(next(_TOKENS))})

    def _carry(self, operation: str, request: dict[str, Any]) -> Any:
        if request.get("ExclusiveStartKey") == fault_models.FROM_THE_START:
            del request["ExclusiveStartKey"]
        body = json.dumps(request, default=_to_base64).encode()
        if self._wire is None:
            return self._ask(operation, body)
        nature = fault_models.DYNAMO_READS.get(operation, fault_models.DYNAMO_WRITE)
        if operation == "TransactWriteItems":
            nature = fault_models.DYNAMO_TRANSACT
        about = frozenset(_volumes_in(body.decode()))
        return self._wire.carry(
            f"dynamodb:{operation}", nature, lambda: self._ask(operation, body), about=about
        )

    def _ask(self, operation: str, body: bytes) -> Any:
        status, said = self._table.answer(operation, body)
        answer = json.loads(said, object_hook=_from_base64)
        if status == 200:  # noqa: PLR2004 - HTTP's OK
            return answer
        told: Any = {
            "Error": {"Code": answer["__type"], "Message": answer["message"]},
            "CancellationReasons": answer.get("CancellationReasons", []),
            "ResponseMetadata": {"HTTPStatusCode": status, "RequestId": "1", "HTTPHeaders": {}},
        }
        raise ClientError(told, operation)


def _to_base64(value: Any) -> str:
    return b64encode(value).decode()


def _from_base64(found: dict[str, Any]) -> dict[str, Any]:
    return {"B": b64decode(found["B"])} if found.keys() == {"B"} else found


@dataclass
class Sqs:
    """The queue between two functions; ``waiting`` are the bodies of its messages.

    ``forgeries`` is for how many minutes somebody else sends requests as well.
    """

    wire: Wire
    now_s: Callable[[], float]
    waiting: list[str] = field(default_factory=list)
    forgeries: int = 0
    _known: dict[str, float] = field(default_factory=dict)

    _REMEMBERS_S = 300.0
    _FORGED_MIN = 20
    """From the first flip of the story to after the last return."""

    def forge(self, volume_ids: Iterable[str]) -> None:
        """What somebody else sends in this minute."""
        if self.forgeries > 0:
            self.forgeries -= 1
            self.waiting += fault_models.forged_requests(volume_ids, int(self.now_s()))

    def _let_forge(self) -> None:
        self.forgeries = self._FORGED_MIN

    def change_message_visibility(self, **_: object) -> None:
        """What failed is tried again in a minute as it is."""

    def send_message_batch(self, QueueUrl: str, Entries: Sequence[Mapping[str, str]]) -> Any:  # noqa: ARG002
        sent: list[str] = []

        def do() -> Any:
            for entry in Entries:
                mark = entry["MessageDeduplicationId"]
                is_known = self.now_s() - self._known.get(mark, float("-inf")) < self._REMEMBERS_S
                if not is_known or sent:
                    self.waiting.append(entry["MessageBody"])
                    self._known[mark] = self.now_s()
            sent.append("all")
            return {"Successful": [{"Id": entry["Id"]} for entry in Entries]}

        about = frozenset(entry["MessageGroupId"] for entry in Entries)
        nature = replace(fault_models.SEND_MESSAGES, forges=self._let_forge)
        return self.wire.carry("sqs:SendMessageBatch", nature, do, about=about)


@dataclass
class Sns:
    """The alerts topic, and what people got from it."""

    wire: Wire
    hear: Callable[[Mapping[str, Any]], None]

    def publish(self, Message: str, **_: Any) -> Any:
        document = json.loads(json.loads(Message)["lambda"])
        about = frozenset({document["volume"]["volume_id"]} if document["volume"] else ())
        return self.wire.carry("sns:Publish", fault_models.PUBLISH, lambda: self.hear(document), about=about)


@dataclass
class Ssm:
    """Parameter Store: what the stack wrote."""

    wire: Wire
    parameters: Mapping[str, str]
    since: datetime

    def get_parameters(self, Names: Sequence[str]) -> Any:
        held = [self._told(name) for name in Names if name in self.parameters]
        return self._read("GetParameters", {"Parameters": held})

    def get_parameters_by_path(self, Path: str, **_: Any) -> Any:
        held = [self._told(name) for name in self.parameters if name.startswith(Path)]
        return self._read("GetParametersByPath", {"Parameters": held})

    def _told(self, name: str) -> dict[str, Any]:
        return {"Name": name, "Value": self.parameters[name], "LastModifiedDate": self.since}

    def _read(self, operation: str, answer: dict[str, Any]) -> Any:
        return self.wire.carry(
            f"ssm:{operation}", fault_models.PARAMETERS, lambda: answer, question=operation
        )
