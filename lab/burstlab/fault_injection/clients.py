"""AWS clients in the same process; each call is an effect into which a fault can be injected."""

# ruff: noqa: N803 - the parameter names of AWS

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any, Final

from burstlab.fake_aws.dynamodb import FakeDynamoDb
from burstlab.fake_aws.in_process_clients import InProcessEc2, client_error, read_points
from burstlab.fault_injection import fault_models, ledger_faults
from burstlab.fault_injection.effects import FaultInjector, FaultModel
from burstlab.model.fleet import LabFleet
from burstwatch.adapters.aws.cloudwatch import MetricQuery

_INSTANCE_TYPE: Final = "m5.xlarge"
_INSTANCE_TYPE_DOCUMENT: Final = {
    "InstanceType": _INSTANCE_TYPE,
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
    """EC2; ``record_modify`` is called with each ModifyVolume before any fault."""

    def __init__(
        self, fleet: LabFleet, injector: FaultInjector, record_modify: Callable[[str], None]
    ) -> None:
        super().__init__(fleet)
        self._injector = injector
        self._record_modify = record_modify
        self._modify_model = fault_models.make_modify_volume_model(fleet.clock.now_s)

    def describe_volumes(
        self, VolumeIds: Sequence[str] = (), Filters: Sequence[Mapping[str, Any]] = (), **rest: object
    ) -> dict[str, Any]:
        model = fault_models.DESCRIBE_NAMED if VolumeIds else fault_models.DESCRIBE_VOLUMES
        action = partial(super().describe_volumes, VolumeIds=VolumeIds, Filters=Filters, **rest)
        return self._read("DescribeVolumes", model, action, (VolumeIds, Filters))

    def describe_volumes_modifications(
        self, Filters: Sequence[Mapping[str, Any]] = (), **rest: object
    ) -> dict[str, Any]:
        action = partial(super().describe_volumes_modifications, Filters=Filters, **rest)
        return self._read(
            "DescribeVolumesModifications", fault_models.DESCRIBE_MODIFICATIONS, action, Filters
        )

    def describe_instances(  # type: ignore[override]
        self, InstanceIds: Sequence[str] = (), **rest: object
    ) -> dict[str, Any]:
        running = {"State": {"Name": "running"}, "InstanceType": _INSTANCE_TYPE}
        response = {
            "Reservations": [
                {"Instances": [{"InstanceId": instance_id, **running}]} for instance_id in InstanceIds
            ]
        }
        return self._read(
            "DescribeInstances", fault_models.DESCRIBE_INSTANCES, lambda: response, (InstanceIds, rest)
        )

    def describe_instance_types(self, **request: object) -> dict[str, Any]:  # type: ignore[override]
        response = {"InstanceTypes": [_INSTANCE_TYPE_DOCUMENT]}
        return self._read("DescribeInstanceTypes", fault_models.DESCRIBE_TYPES, lambda: response, request)

    def modify_volume(self, VolumeId: str, **parameters: Any) -> dict[str, Any]:  # type: ignore[override]
        self._record_modify(VolumeId)
        action = partial(super().modify_volume, VolumeId=VolumeId, **parameters)
        response: dict[str, Any] = self._injector.perform(
            "ec2:ModifyVolume", self._modify_model, action, volume_ids=frozenset({VolumeId})
        )
        return response

    def _read(
        self, operation: str, model: FaultModel, action: Callable[[], dict[str, Any]], request: object
    ) -> dict[str, Any]:
        volume_ids = frozenset(_volume_ids_in(repr(request)))
        response: dict[str, Any] = self._injector.perform(
            f"ec2:{operation}", model, action, volume_ids=volume_ids, request_key=repr(request)
        )
        return response


def _volume_ids_in(text: str) -> Iterable[str]:
    parts = text.split("vol-")[1:]
    return (f"vol-{part[:17]}" for part in parts)


class CloudWatch:
    """GetMetricData; ``model`` has the faults and the time-out of its client."""

    def __init__(self, fleet: LabFleet, injector: FaultInjector, model: FaultModel) -> None:
        self._fleet = fleet
        self._injector = injector
        self._model = model

    def get_metric_data(
        self,
        MetricDataQueries: Sequence[Mapping[str, Any]],
        StartTime: datetime,
        EndTime: datetime,
        **_: object,
    ) -> dict[str, Any]:
        from_s, to_s = int(StartTime.timestamp()), int(EndTime.timestamp())

        def read() -> dict[str, Any]:
            return {
                "MetricDataResults": [self._query_result(query, from_s, to_s) for query in MetricDataQueries]
            }

        volume_ids = frozenset(_volume_ids_in(repr(MetricDataQueries)))
        response: dict[str, Any] = self._injector.perform(
            "cloudwatch:GetMetricData", self._model, read, volume_ids=volume_ids
        )
        return response

    def _query_result(self, request: Mapping[str, Any], from_s: int, to_s: int) -> dict[str, Any]:
        stat = request["MetricStat"]
        metric = stat["Metric"]
        resource, *others = metric["Dimensions"]
        query = MetricQuery(
            resource["Value"],
            metric["MetricName"],
            stat["Stat"],
            dimension=resource["Name"],
            period_s=stat["Period"],
            instance_id=others[0]["Value"] if others else None,
        )
        times, values = read_points(self._fleet, query, from_s=from_s, to_s=to_s)
        return {"Id": request["Id"], "Timestamps": times, "Values": values, "StatusCode": "Complete"}


_OPERATIONS: Final = {
    "get_item": "GetItem",
    "batch_get_item": "BatchGetItem",
    "query": "Query",
    "put_item": "PutItem",
    "delete_item": "DeleteItem",
    "transact_write_items": "TransactWriteItems",
}
_TOKENS: Final = count()
"""Gives each transaction a token of its own, whichever table it is for."""


class UnbilledDynamoDb(FakeDynamoDb):
    """The lab's table without counting capacity units."""

    __slots__ = ()

    def _bill_read(self, *_: object, **__: object) -> None:
        """Measuring items takes longer than reading them."""

    _bill_write = _bill_read


class DynamoClient:
    """boto3's client of DynamoDB, as far as the ledger uses it."""

    meta = SimpleNamespace(region_name="us-east-1")

    def __init__(self, table: FakeDynamoDb, injector: FaultInjector | None = None) -> None:
        """Without a ``injector`` nothing of it is an effect: so looks who only judges."""
        self._table = table
        self._injector = injector

    def __getattr__(self, name: str) -> Any:
        if name not in _OPERATIONS:
            raise AttributeError(name)
        return lambda **request: self._perform(_OPERATIONS[name], request)

    def _perform(self, operation: str, request: dict[str, Any]) -> Any:
        if operation == "TransactWriteItems":
            request["ClientRequestToken"] = str(next(_TOKENS))
        if request.get("ExclusiveStartKey") == ledger_faults.START_KEY:
            del request["ExclusiveStartKey"]
        body = json.dumps(request, default=_to_base64).encode()
        if self._injector is None:
            return self._send(operation, body)
        model = ledger_faults.DYNAMO_READS.get(operation, ledger_faults.DYNAMO_WRITE)
        if operation == "TransactWriteItems":
            model = ledger_faults.DYNAMO_TRANSACT
        volume_ids = frozenset(_volume_ids_in(body.decode()))
        return self._injector.perform(
            f"dynamodb:{operation}", model, lambda: self._send(operation, body), volume_ids=volume_ids
        )

    def _send(self, operation: str, body: bytes) -> Any:
        status, response_body = self._table.handle(operation, body)
        response = json.loads(response_body, object_hook=_from_base64)
        if status == 200:  # noqa: PLR2004 - HTTP's OK
            return response
        error: Any = client_error(response["__type"], response["message"], status, operation)
        error.response["CancellationReasons"] = response.get("CancellationReasons", [])
        raise error


def _to_base64(value: Any) -> str:
    return b64encode(value).decode()


def _from_base64(value: dict[str, Any]) -> dict[str, Any]:
    return {"B": b64decode(value["B"])} if value.keys() == {"B"} else value


@dataclass
class Sqs:
    """The queue between two functions; ``message_bodies`` are the bodies of its messages.

    ``forged_minutes_left`` is for how many more minutes an attacker also sends requests.
    """

    injector: FaultInjector
    now_s: Callable[[], float]
    message_bodies: list[str] = field(default_factory=list)
    forged_minutes_left: int = 0
    _sent_at_s: dict[str, float] = field(default_factory=dict)

    _DEDUPLICATION_S = 300.0
    _FORGERY_MINUTES = 20
    """From the first flip of the scenario until after the last return."""

    def add_forged_requests(self, volume_ids: Iterable[str]) -> None:
        """Add the requests that an attacker sends in this minute."""
        if self.forged_minutes_left > 0:
            self.forged_minutes_left -= 1
            self.message_bodies += fault_models.forge_requests(volume_ids, int(self.now_s()))

    def _start_forgery(self) -> None:
        self.forged_minutes_left = self._FORGERY_MINUTES

    def change_message_visibility(self, **_: object) -> None:
        """What failed is tried again in a minute as it is."""

    def send_message_batch(self, QueueUrl: str, Entries: Sequence[Mapping[str, str]]) -> Any:  # noqa: ARG002
        sent: list[str] = []

        def send() -> Any:
            for entry in Entries:
                deduplication_id = entry["MessageDeduplicationId"]
                is_duplicate = (
                    self.now_s() - self._sent_at_s.get(deduplication_id, float("-inf"))
                    < self._DEDUPLICATION_S
                )
                if not is_duplicate or sent:
                    self.message_bodies.append(entry["MessageBody"])
                    self._sent_at_s[deduplication_id] = self.now_s()
            sent.append("all")
            return {"Successful": [{"Id": entry["Id"]} for entry in Entries]}

        volume_ids = frozenset(entry["MessageGroupId"] for entry in Entries)
        model = replace(fault_models.SEND_MESSAGES, start_forgery=self._start_forgery)
        return self.injector.perform("sqs:SendMessageBatch", model, send, volume_ids=volume_ids)


@dataclass
class Sns:
    """The alerts topic, and the alerts that people received from it."""

    injector: FaultInjector
    record_alert: Callable[[Mapping[str, Any]], None]

    def publish(self, Message: str, **_: Any) -> Any:
        document = json.loads(json.loads(Message)["lambda"])
        volume_ids = frozenset({document["volume"]["volume_id"]} if document["volume"] else ())
        return self.injector.perform(
            "sns:Publish", fault_models.PUBLISH, lambda: self.record_alert(document), volume_ids=volume_ids
        )


@dataclass
class Ssm:
    """Parameter Store: what the stack wrote."""

    injector: FaultInjector
    parameters: Mapping[str, str]
    modified_at: datetime

    def get_parameters(self, Names: Sequence[str]) -> Any:
        documents = [self._to_document(name) for name in Names if name in self.parameters]
        return self._read("GetParameters", {"Parameters": documents})

    def get_parameters_by_path(self, Path: str, **_: Any) -> Any:
        documents = [self._to_document(name) for name in self.parameters if name.startswith(Path)]
        return self._read("GetParametersByPath", {"Parameters": documents})

    def _to_document(self, name: str) -> dict[str, Any]:
        return {"Name": name, "Value": self.parameters[name], "LastModifiedDate": self.modified_at}

    def _read(self, operation: str, response: dict[str, Any]) -> Any:
        return self.injector.perform(
            f"ssm:{operation}", fault_models.GET_PARAMETERS, lambda: response, request_key=operation
        )
