"""The RDS calls that a watchdog and a person make, answered from the lab's databases as RDS would.

The protocol is query. Responses are written by botocore's own model of RDS, so that an element has the name
and the place that every client expects.
"""

import time
import uuid
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from xml.sax.saxutils import escape

from burstlab.fake_aws.protocols import Call, Response, parse_form, to_nested
from burstlab.model.aws_error import AwsError, iso
from burstlab.model.database import LOW_CREDITS_MESSAGE, SimulatedDatabase, StorageRequest
from burstlab.model.fleet import LabFleet
from burstwatch.core.rds.db_instance import DbInstance

if TYPE_CHECKING:
    from botocore.model import ServiceModel

NAMESPACE: Final = "http://rds.amazonaws.com/doc/2014-10-31/"
# Source: RDS API reference, DescribeDBInstances
MIN_PAGE: Final = 20
MAX_PAGE: Final = 100

_MODIFIABLE: Final = frozenset(
    (
        "Action", "Version", "DBInstanceIdentifier", "NewDBInstanceIdentifier", "ApplyImmediately",
        "StorageType", "AllocatedStorage", "Iops", "StorageThroughput",
    )
)  # fmt: skip
_PORTS: Final = {"postgres": 5432, "mysql": 3306, "mariadb": 3306}
_EVENT_MINUTES: Final = 60
"""How far back DescribeEvents looks if the call does not specify it."""


class RdsApi:
    """Serves calls about the lab's databases; moto serves the others."""

    def __init__(self, fleet: LabFleet) -> None:
        self._fleet = fleet
        self._actions: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "DescribeDBInstances": self._describe,
            "DescribeValidDBInstanceModifications": self._describe_modifications,
            "ModifyDBInstance": self._modify,
            "DescribeEvents": self._describe_events,
        }

    def handles(self, call: Call) -> bool:
        return call.action in self._actions and call.region == self._fleet.settings.region

    def handle(self, call: Call) -> Response:
        parameters = to_nested(parse_form(call.body))
        with self._fleet.lock:
            result = self._actions[call.action](parameters)
        if self._fleet.settings.page_latency_s and call.action == "DescribeDBInstances":
            time.sleep(self._fleet.settings.page_latency_s)
        return _response(call.action, result)

    def _describe(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        if "DBInstanceIdentifier" in parameters:
            databases = [self._find(parameters["DBInstanceIdentifier"])]
        else:
            databases = list(self._fleet.databases)
        databases = [
            database
            for database in databases
            if all(_matches(database, entry) for entry in parameters.get("Filters", ()))
        ]
        page, marker = _page(databases, parameters, lambda database: database.resource_id)
        now_s = self._fleet.now_s()
        for database in page:
            database.catch_up(now_s)
        return {"DBInstances": [self._document(database) for database in page], **marker}

    def _describe_modifications(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        database = self._find(parameters.get("DBInstanceIdentifier", ""))
        if database.status != "available":
            raise AwsError("InvalidDBInstanceState", "Database instance is not in available state.")
        return {"ValidDBInstanceModificationsMessage": {"Storage": _storage_options(database.facts)}}

    def _modify(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        if unknown := sorted(parameters.keys() - _MODIFIABLE):
            raise AwsError(
                "InvalidParameterValue", f"burstlab changes the storage and the name, not {unknown[0]}"
            )
        database = self._find(parameters.get("DBInstanceIdentifier", ""))
        immediately = parameters.get("ApplyImmediately") == "true"
        request = StorageRequest(
            storage_type=parameters.get("StorageType"),
            allocated_gib=_integer(parameters, "AllocatedStorage"),
            iops=_integer(parameters, "Iops"),
            throughput_mib_s=_integer(parameters, "StorageThroughput"),
        )
        if not request.is_empty:
            database.modify_storage(request, immediately=immediately)
        if "NewDBInstanceIdentifier" in parameters and immediately:
            try:
                self._fleet.databases.rename(
                    database.identifier, parameters["NewDBInstanceIdentifier"].lower()
                )
            except ValueError as error:
                raise AwsError("InvalidParameterValue", str(error)) from error
        return {"DBInstance": self._document(database)}

    def _describe_events(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        now = self._fleet.clock.now()
        minutes = _integer(parameters, "Duration") or _EVENT_MINUTES
        end_at = _instant(parameters, "EndTime") or now
        start_at = _instant(parameters, "StartTime") or end_at - timedelta(minutes=minutes)
        settings = self._fleet.settings
        categories = parameters.get("EventCategories", ["notification"])
        is_requested = (
            parameters.get("SourceType", "db-instance") == "db-instance" and "notification" in categories
        )
        events = [
            {
                "SourceIdentifier": event.identifier,
                "SourceType": "db-instance",
                "Message": LOW_CREDITS_MESSAGE,
                "EventCategories": ["notification"],
                "Date": datetime.fromtimestamp(event.at_s, tz=UTC),
                "SourceArn": f"arn:aws:rds:{settings.region}:{settings.account_id}:db:{event.identifier}",
            }
            for event in self._fleet.databases.low_credit_events()
            if is_requested
            and start_at.timestamp() <= event.at_s <= end_at.timestamp()
            and parameters.get("SourceIdentifier", event.identifier) == event.identifier
        ]
        page, marker = _page(events, parameters, lambda event: f"{event['Date']}/{event['SourceIdentifier']}")
        return {"Events": list(page), **marker}

    def _find(self, identifier: str) -> SimulatedDatabase:
        name = identifier.rpartition(":")[2].lower()  # an ARN is allowed too
        database = self._fleet.databases.get(name)
        if database is None:
            raise AwsError("DBInstanceNotFound", f"DBInstance {identifier} not found.", 404)
        return database

    def _document(self, database: SimulatedDatabase) -> dict[str, Any]:
        facts, settings = database.facts, self._fleet.settings
        operation, progress_pct = database.storage_operation
        document = {
            "DBInstanceIdentifier": facts.identifier,
            "DBInstanceClass": facts.instance_class,
            "Engine": facts.engine,
            "DBInstanceStatus": database.status,
            "MasterUsername": "admin",
            "Endpoint": {
                "Address": f"{facts.identifier}.burstlab.{settings.region}.rds.amazonaws.com",
                "Port": _PORTS.get(facts.engine, 5432),
            },
            "AllocatedStorage": facts.allocated_gib,
            "InstanceCreateTime": facts.created_at,
            "AvailabilityZone": self._fleet.first_zone,
            "PendingModifiedValues": _pending_document(database),
            "MultiAZ": facts.multi_az,
            "Iops": facts.provisioned_iops,
            # RDS sends 0 for every other type of storage.
            "StorageThroughput": facts.storage_throughput_mib_s if facts.storage_type == "gp3" else 0,
            "StorageType": facts.storage_type,
            "DedicatedLogVolume": facts.has_other_volumes,
            "ReadReplicaSourceDBInstanceIdentifier": facts.replica_of,
            "DBClusterIdentifier": facts.cluster_id,
            "DbiResourceId": facts.dbi_resource_id,
            "DBInstanceArn": f"arn:aws:rds:{settings.region}:{settings.account_id}:db:{facts.identifier}",
            "TagList": [{"Key": key, "Value": value} for key, value in database.tags.items()],
            "StorageOperationStatus": operation,
            "StorageOperationPercentProgress": progress_pct,
        }
        return {key: value for key, value in document.items() if value is not None}


def _pending_document(database: SimulatedDatabase) -> dict[str, Any]:
    """What of a pending change differs from what is."""
    pending, facts = database.pending, database.facts
    if pending is None:
        return {}
    values = {
        "StorageType": (pending.storage_type, facts.storage_type),
        "AllocatedStorage": (pending.allocated_gib, facts.allocated_gib),
        "Iops": (pending.provisioned_iops, facts.provisioned_iops),
        "StorageThroughput": (pending.storage_throughput_mib_s, facts.storage_throughput_mib_s),
    }
    return {key: new for key, (new, old) in values.items() if new != old and new is not None}


def _storage_options(facts: DbInstance) -> list[dict[str, Any]]:
    """What the storage may be; below the size of striping, gp3 has no numbers to choose.

    AWS documents the fields and examples of their values; the ranges for gp3 follow the RDS user guide.
    """
    size = [{"From": max(20, facts.allocated_gib), "To": 65_536, "Step": 1}]
    common = {"StorageSize": size, "SupportsStorageAutoscaling": True}
    gp3: dict[str, Any] = {"StorageType": "gp3", **common}
    if facts.is_sql_server or facts.volume_count > 1:
        least_iops, least_mib_s = (3_000, 125) if facts.is_sql_server else (12_000, 500)
        gp3 |= {
            "ProvisionedIops": [{"From": least_iops, "To": 64_000, "Step": 1}],
            "IopsToStorageRatio": [{"From": 0.5, "To": 500.0}],
            "ProvisionedStorageThroughput": [{"From": least_mib_s, "To": 4_000, "Step": 1}],
            "StorageThroughputToIopsRatio": [{"From": 0.0, "To": 0.25}],
        }
    io1 = {
        "StorageType": "io1",
        **common,
        "ProvisionedIops": [{"From": 1_000, "To": 256_000, "Step": 1}],
        "IopsToStorageRatio": [{"From": 0.5, "To": 50.0}],
    }
    return [{"StorageType": "gp2", **common}, gp3, io1, {**io1, "StorageType": "io2"}]


def _matches(database: SimulatedDatabase, entry: Mapping[str, Any]) -> bool:
    facts = database.facts
    values = {
        "db-instance-id": facts.identifier,
        "dbi-resource-id": facts.dbi_resource_id,
        "db-cluster-id": facts.cluster_id,
        "engine": facts.engine,
    }
    if entry.get("Name") not in values:
        raise AwsError("InvalidParameterValue", f"Unrecognized filter name: {entry.get('Name')}")
    return values[entry["Name"]] in entry.get("Values", ())


def _page(
    items: Sequence[Any], parameters: Mapping[str, Any], key_of: Callable[[Any], str]
) -> tuple[Sequence[Any], dict[str, str]]:
    """One page, and the marker of the next; it names the last item of the page."""
    size = int(parameters.get("MaxRecords", MAX_PAGE))
    if not MIN_PAGE <= size <= MAX_PAGE:
        raise AwsError(
            "InvalidParameterValue",
            f"Invalid value {size} for MaxRecords. Must be between {MIN_PAGE} and {MAX_PAGE}",
        )
    first = 0
    if marker := parameters.get("Marker"):
        try:
            first = [key_of(item) for item in items].index(urlsafe_b64decode(marker).decode()) + 1
        except ValueError:
            raise AwsError("InvalidParameterValue", f"Invalid marker: {marker}") from None
    page = items[first : first + size]
    if first + size >= len(items):
        return page, {}
    return page, {"Marker": urlsafe_b64encode(key_of(page[-1]).encode()).decode()}


def _integer(parameters: Mapping[str, Any], name: str) -> int | None:
    return int(parameters[name]) if name in parameters else None


def _instant(parameters: Mapping[str, Any], name: str) -> datetime | None:
    return datetime.fromisoformat(parameters[name]) if name in parameters else None


@cache
def _service_model() -> "ServiceModel":
    from botocore.loaders import Loader  # noqa: PLC0415 - reads a large file, only if RDS is called
    from botocore.model import ServiceModel  # noqa: PLC0415

    return ServiceModel(Loader().load_service_model("rds", "service-2"), service_name="rds")


def _response(action: str, result: Mapping[str, Any]) -> Response:
    shape = _service_model().operation_model(action).output_shape
    text = (
        f'<{action}Response xmlns="{NAMESPACE}"><{action}Result>{_render(shape, result)}</{action}Result>'
        f"<ResponseMetadata><RequestId>{uuid.uuid4()}</RequestId></ResponseMetadata></{action}Response>"
    )
    return Response(body=text.encode(), content_type="text/xml")


def _render(shape: Any, value: Any) -> str:
    """Write a value as the model says; a key that the model does not have is an error of the lab."""
    match shape.type_name:
        case "structure":
            return "".join(
                f"<{_element(key, shape.members[key])}>{_render(shape.members[key], member)}"
                f"</{_element(key, shape.members[key])}>"
                for key, member in value.items()
            )
        case "list":
            name = _element("member", shape.member)
            return "".join(f"<{name}>{_render(shape.member, member)}</{name}>" for member in value)
        case "boolean":
            return "true" if value else "false"
        case "timestamp":
            return iso(value)
        case _:
            return escape(str(value))


def _element(name: str, shape: Any) -> str:
    element: str = shape.serialization.get("name", name)
    return element
