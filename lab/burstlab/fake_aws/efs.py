"""The EFS calls that a watchdog and a person make, answered from the lab's file systems as EFS would.

The protocol is rest-json; a call's parameters are in the body of ``Call``.
"""

import json
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Final

from burstlab.fake_aws.protocols import Call, Response
from burstlab.model.aws_error import AwsError
from burstlab.model.file_system import SimulatedFileSystem
from burstlab.model.fleet import LabFleet

MAX_PAGE: Final = 100
"""Source: EFS API reference, DescribeFileSystems: "automatically set to 100"."""

_ACTIONS: Final = frozenset({"DescribeFileSystems", "UpdateFileSystem"})
_ACCEPTED: Final = 202


class EfsApi:
    """Serves calls about the lab's file systems; moto serves the others."""

    def __init__(self, fleet: LabFleet) -> None:
        self._fleet = fleet

    def handles(self, call: Call) -> bool:
        return call.action in _ACTIONS and call.region == self._fleet.settings.region

    def handle(self, call: Call) -> Response:
        parameters = json.loads(call.body)
        with self._fleet.lock:
            if call.action == "UpdateFileSystem":
                return _response(self._update(parameters), _ACCEPTED)
            response = self._describe(parameters)
        if self._fleet.settings.page_latency_s:
            time.sleep(self._fleet.settings.page_latency_s)
        return _response(response)

    def _describe(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        if "FileSystemId" in parameters:
            return {"FileSystems": [self._document(self._find(parameters["FileSystemId"]))]}
        file_systems = list(self._fleet.file_systems)
        if "CreationToken" in parameters:
            token = parameters["CreationToken"]
            file_systems = [candidate for candidate in file_systems if _creation_token(candidate) == token]
        first = _read_marker(parameters.get("Marker"), file_systems)
        size = min(MAX_PAGE, int(parameters.get("MaxItems", MAX_PAGE)))
        if size < 1:
            raise AwsError("BadRequest", "MaxItems must be 1 or more.")
        page = file_systems[first : first + size]
        now_s = self._fleet.now_s()
        for file_system in page:
            file_system.catch_up(now_s)
        response: dict[str, Any] = {"FileSystems": [self._document(file_system) for file_system in page]}
        if first + size < len(file_systems):
            response["NextMarker"] = urlsafe_b64encode(page[-1].resource_id.encode()).decode()
        if "Marker" in parameters:
            response["Marker"] = parameters["Marker"]
        return response

    def _update(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        file_system = self._find(parameters["FileSystemId"])
        file_system.update(parameters.get("ThroughputMode"), parameters.get("ProvisionedThroughputInMibps"))
        return self._document(file_system)

    def _find(self, file_system_id: str) -> SimulatedFileSystem:
        file_system_id = file_system_id.rpartition("/")[2]  # an ARN is allowed too
        file_system = self._fleet.file_systems.get(file_system_id)
        if file_system is None:
            raise AwsError("FileSystemNotFound", f"File system '{file_system_id}' does not exist.", 404)
        return file_system

    def _document(self, file_system: SimulatedFileSystem) -> dict[str, Any]:
        settings, stored = self._fleet.settings, file_system.stored[-1]
        name = file_system.tags.get("Name")
        return {
            "OwnerId": settings.account_id,
            "CreationToken": _creation_token(file_system),
            "FileSystemId": file_system.resource_id,
            "FileSystemArn": f"arn:aws:elasticfilesystem:{settings.region}:{settings.account_id}"
            f":file-system/{file_system.resource_id}",
            "CreationTime": file_system.created_at.timestamp(),
            "LifeCycleState": file_system.state,
            **({"Name": name} if name else {}),
            "NumberOfMountTargets": 1,
            "SizeInBytes": {
                "Value": stored.total,
                "Timestamp": stored.since_s,
                "ValueInStandard": stored.standard,
                "ValueInIA": stored.infrequent,
                "ValueInArchive": stored.archive,
            },
            "PerformanceMode": file_system.performance_mode,
            "Encrypted": True,
            "ThroughputMode": file_system.mode,
            **(
                {"ProvisionedThroughputInMibps": file_system.provisioned_mib_s}
                if file_system.provisioned_mib_s is not None
                else {}
            ),
            **({"AvailabilityZoneName": file_system.zone} if file_system.zone else {}),
            "Tags": [{"Key": key, "Value": value} for key, value in file_system.tags.items()],
            "FileSystemProtection": {"ReplicationOverwriteProtection": "ENABLED"},
        }


def _creation_token(file_system: SimulatedFileSystem) -> str:
    return f"lab-{file_system.resource_id}"


def _read_marker(marker: str | None, file_systems: Sequence[SimulatedFileSystem]) -> int:
    """The position after the file system that a marker names."""
    if not marker:
        return 0
    try:
        last_id = urlsafe_b64decode(marker).decode()
        ids = [file_system.resource_id for file_system in file_systems]
        return ids.index(last_id) + 1
    except ValueError:
        raise AwsError("BadRequest", f"The marker '{marker}' is not valid.") from None


def _response(document: Mapping[str, Any], status: int = 200) -> Response:
    return Response(
        body=json.dumps(document).encode(), content_type="application/x-amz-json-1.1", status=status
    )
