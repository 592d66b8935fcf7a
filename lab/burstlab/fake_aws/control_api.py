"""The lab's own HTTP surface: what a person or another process does to the clock, the loads and the faults.

Everything is JSON. A POST has one object, a GET may have a query (``events?after=7``). An error is
``{"error": "..."}`` with a message that says what is accepted.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import parse_qsl

from burstlab.fake_aws import storage_control
from burstlab.fake_aws.faults import Fault, FaultRegistry, parse_fault
from burstlab.fake_aws.protocols import Response
from burstlab.model.aws_error import AwsError
from burstlab.model.fleet import LabFleet
from burstlab.model.modification import ModifyRequest
from burstlab.model.settings import changeable_settings
from burstlab.model.volume import MetricFault
from burstwatch.core.errors import BurstwatchError

CONTROL_PATH: Final = "/_lab/"
_PARAMETER_SOURCES: Final = {"GET": "query, as in ?name=value", "POST": "JSON object"}

_ROUTE_FIELDS: Final[dict[tuple[str, str], Sequence[str]]] = {
    ("POST", "clock"): ("speed",),
    ("POST", "advance"): ("seconds",),
    ("POST", "load"): ("volume_id", "load", "in_seconds?"),
    ("POST", "balance"): ("volume_id", "balance_pct"),
    ("POST", "tags"): ("volume_id", "tags"),
    ("POST", "attach"): ("volume_id", "instance_id?"),
    ("POST", "detach"): ("volume_id", "instance_id?"),
    ("POST", "instance"): ("instance_id", "state?", "instance_type?", "detailed_monitoring?"),
    ("POST", "instance-balance"): ("instance_id", "io_pct?", "byte_pct?"),
    ("POST", "instance-bucket"): ("instance_id", "io_pct?", "byte_pct?"),
    ("POST", "status"): ("volume_id", "status"),
    ("POST", "modify"): ("volume_id", *(f"{field.name}?" for field in fields(ModifyRequest))),
    ("POST", "end-modification"): ("volume_id", "state?"),
    ("GET", "modifications"): ("volume_id",),
    ("GET", "events"): ("after?",),
    ("POST", "settings"): tuple(f"{name}?" for name in changeable_settings()),
    ("POST", "gap"): ("volume_id|instance_id", "seconds", "in_seconds?"),
    ("POST", "metric-fault"): ("volume_id|instance_id", "status_code", "message?"),
    ("POST", "faults"): tuple(f"{field.name}?" for field in fields(Fault)),
    ("POST", "latency"): ("ms", "action?"),
}
"""The fields of the routes that have any; one with a question mark may be left out."""


class ControlError(BurstwatchError):
    """A control request that cannot be done; the message says what would do."""


class ControlApi:
    """Serves the paths below ``/_lab/``."""

    def __init__(self, fleet: LabFleet, faults: FaultRegistry) -> None:
        self._fleet = fleet
        self._faults = faults
        self._routes: Final[dict[tuple[str, str], Callable[[Mapping[str, Any]], Any]]] = {
            ("GET", ""): self._index,
            ("GET", "clock"): self._get_clock,
            ("POST", "clock"): self._set_speed,
            ("POST", "advance"): self._advance,
            ("GET", "volumes"): self._list_volumes,
            ("GET", "file-systems"): lambda _: storage_control.list_file_systems(fleet),
            ("POST", "file-system"): lambda request: storage_control.change_file_system(fleet, request),
            ("GET", "databases"): lambda _: storage_control.list_databases(fleet),
            ("POST", "database"): lambda request: storage_control.change_database(fleet, request),
            ("POST", "load"): self._set_load,
            ("POST", "balance"): self._set_balance,
            ("POST", "tags"): self._set_tags,
            ("POST", "attach"): self._attach,
            ("POST", "detach"): self._detach,
            ("POST", "instance"): self._set_instance,
            ("POST", "instance-balance"): self._set_instance_balance,
            ("POST", "instance-bucket"): self._fill_instance,
            ("GET", "instances"): self._list_instances,
            ("POST", "status"): self._set_status,
            ("POST", "modify"): self._modify,
            ("POST", "end-modification"): self._end_modification,
            ("GET", "modifications"): self._list_modifications,
            ("GET", "events"): self._list_events,
            ("GET", "settings"): lambda _: asdict(self._fleet.settings),
            ("POST", "settings"): lambda request: asdict(self._fleet.change_settings(**request)),
            ("POST", "gap"): self._hide_metrics,
            ("POST", "metric-fault"): self._set_metric_fault,
            ("GET", "faults"): lambda _: self._faults.to_document(),
            ("POST", "faults"): self._add_fault,
            ("DELETE", "faults"): self._clear_faults,
            ("POST", "latency"): self._set_latency,
            ("GET", "calls"): lambda _: self._faults.call_counts(),
            ("DELETE", "calls"): self._reset_calls,
        }

    def handle(self, environ: Mapping[str, Any], body: bytes) -> Response:
        method = environ["REQUEST_METHOD"]
        path = environ["PATH_INFO"].removeprefix(CONTROL_PATH).strip("/")
        try:
            if method == "GET" and path.startswith("truth/"):
                return _json_response(self._get_truth(path.removeprefix("truth/")))
            route = self._routes.get((method, path))
            if route is None:
                known = ", ".join(f"{known} {CONTROL_PATH}{name}" for known, name in self._routes)
                return _json_response(
                    {"error": f"no {method} {CONTROL_PATH}{path}; there are {known}"}, status=404
                )
            return _json_response(route(_parse_query(environ) if method == "GET" else _parse_object(body)))
        except KeyError as error:
            return _json_response(
                {
                    "error": (
                        f"{CONTROL_PATH}{path} needs {error.args[0]!r} in its {_PARAMETER_SOURCES[method]}"
                    )
                },
                status=400,
            )
        except (AwsError, BurstwatchError, ValueError, TypeError) as error:
            return _json_response({"error": str(error)}, status=400)

    def _index(self, _: Mapping[str, Any]) -> Any:
        return {
            "volumes": len(self._fleet),
            "routes": [
                " ".join([method, f"{CONTROL_PATH}{name}", *_ROUTE_FIELDS.get((method, name), ())])
                for method, name in self._routes
            ]
            + [f"GET {CONTROL_PATH}truth/VOLUME_OR_INSTANCE_ID"],
            "fields": "POST: one JSON object; GET: the query, as in ?name=value; name?: may be left out",
        }

    def _get_clock(self, _: Mapping[str, Any]) -> Any:
        clock = self._fleet.clock
        return {"now": clock.now().isoformat(), "speed": clock.speed}

    def _set_speed(self, request: Mapping[str, Any]) -> Any:
        self._fleet.clock.set_speed(float(request["speed"]))
        return self._get_clock(request)

    def _advance(self, request: Mapping[str, Any]) -> Any:
        self._fleet.clock.advance(float(request["seconds"]))
        return self._get_clock(request)

    def _list_volumes(self, _: Mapping[str, Any]) -> Any:
        with self._fleet.lock:
            return [
                {"volume_id": volume.volume_id, "size_gib": volume.size_gib, "tags": volume.tags}
                for volume in self._fleet
            ]

    def _list_instances(self, _: Mapping[str, Any]) -> Any:
        with self._fleet.lock:
            return [
                {
                    "instance_id": instance.instance_id,
                    "instance_type": instance.instance_type,
                    "state": instance.state,
                    "detailed_monitoring": instance.detailed_monitoring,
                    "volumes": [volume.volume_id for volume in instance.volumes],
                    "tags": instance.tags,
                }
                for instance in self._fleet.instances.values()
            ]

    def _get_truth(self, resource_id: str) -> Any:
        if resource_id in self._fleet.instances:
            return _with_iso_dates(asdict(self._fleet.instance_truth(resource_id)))
        return _with_iso_dates(asdict(self._fleet.truth(resource_id)))

    def _set_load(self, request: Mapping[str, Any]) -> Any:
        self._fleet.set_load(request["volume_id"], str(request["load"]), self._parse_delay(request))
        return {"volume_id": request["volume_id"], "load": request["load"]}

    def _set_balance(self, request: Mapping[str, Any]) -> Any:
        self._fleet.set_balance(request["volume_id"], float(request["balance_pct"]))
        return self._get_truth(request["volume_id"])

    def _set_tags(self, request: Mapping[str, Any]) -> Any:
        self._fleet.set_tags(request["volume_id"], request["tags"])
        return {"volume_id": request["volume_id"], "tags": self._fleet.find(request["volume_id"]).tags}

    def _attach(self, request: Mapping[str, Any]) -> Any:
        return {"instance_id": self._fleet.attach(request["volume_id"], request.get("instance_id"))}

    def _detach(self, request: Mapping[str, Any]) -> Any:
        self._fleet.detach(request["volume_id"], request.get("instance_id"))
        return {"volume_id": request["volume_id"]}

    def _set_instance(self, request: Mapping[str, Any]) -> Any:
        """Any of its state, its type (if it is stopped, or to be stopped), and its monitoring."""
        instance_id, states = request["instance_id"], ("running", "stopped")
        if not {"state", "instance_type", "detailed_monitoring"} & request.keys():
            raise KeyError("state")
        state, instance_type = request.get("state"), request.get("instance_type")
        if state not in (None, *states):
            raise ControlError(f"instance state is {state!r}: give one of {', '.join(states)}")
        if state == "stopped":
            self._fleet.stop_instance(instance_id)
        if instance_type is not None:
            self._fleet.set_instance_type(instance_id, instance_type)
        if state == "running":
            self._fleet.start_instance(instance_id)
        if "detailed_monitoring" in request:
            self._fleet.set_monitoring(instance_id, detailed=bool(request["detailed_monitoring"]))
        return dict(request)

    def _fill_instance(self, request: Mapping[str, Any]) -> Any:
        instance_id, io_pct, byte_pct = request["instance_id"], request.get("io_pct"), request.get("byte_pct")
        self._fleet.fill_instance(instance_id, io_pct, byte_pct)
        return self._get_truth(instance_id)

    def _set_instance_balance(self, request: Mapping[str, Any]) -> Any:
        instance_id, io_pct, byte_pct = request["instance_id"], request.get("io_pct"), request.get("byte_pct")
        self._fleet.set_instance_balance(instance_id, io_pct, byte_pct)
        return {"instance_id": instance_id, "io_pct": io_pct, "byte_pct": byte_pct}

    def _set_status(self, request: Mapping[str, Any]) -> Any:
        self._fleet.set_status(request["volume_id"], request["status"])
        return {"volume_id": request["volume_id"], "status": self._fleet.find(request["volume_id"]).status}

    def _modify(self, request: Mapping[str, Any]) -> Any:
        parameters = {name: value for name, value in request.items() if name != "volume_id"}
        return _with_iso_dates(asdict(self._fleet.modify(request["volume_id"], **parameters)))

    def _end_modification(self, request: Mapping[str, Any]) -> Any:
        modification = self._fleet.end_modification(request["volume_id"], request.get("state", "completed"))
        return _with_iso_dates(asdict(modification))

    def _list_modifications(self, request: Mapping[str, Any]) -> Any:
        return [
            _with_iso_dates(asdict(modification))
            for modification in self._fleet.modifications(request["volume_id"])
        ]

    def _list_events(self, request: Mapping[str, Any]) -> Any:
        after = max(0, int(request.get("after", 0)))
        return [{"number": event.number, "event": event.body} for event in self._fleet.events[after:]]

    def _hide_metrics(self, request: Mapping[str, Any]) -> Any:
        from_at = self._fleet.clock.now() + timedelta(seconds=float(request.get("in_seconds", 0)))
        to_at = from_at + timedelta(seconds=float(request["seconds"]))
        self._fleet.hide_metrics(_resource_id(request), from_at=from_at, to_at=to_at)
        return {"from": from_at.isoformat(), "to": to_at.isoformat()}

    def _set_metric_fault(self, request: Mapping[str, Any]) -> Any:
        status_code = request["status_code"]
        fault = (
            MetricFault(status_code=status_code, message=request.get("message", "")) if status_code else None
        )
        self._fleet.set_metric_fault(_resource_id(request), fault)
        return dict(request)

    def _add_fault(self, request: Mapping[str, Any]) -> Any:
        self._faults.add(parse_fault(request))
        return self._faults.to_document()

    def _clear_faults(self, _: Mapping[str, Any]) -> Any:
        self._faults.clear()
        return self._faults.to_document()

    def _set_latency(self, request: Mapping[str, Any]) -> Any:
        self._faults.set_latency(float(request["ms"]), request.get("action", "*"))
        return {"ms": request["ms"], "action": request.get("action", "*")}

    def _reset_calls(self, _: Mapping[str, Any]) -> Any:
        self._faults.reset_calls()
        return self._faults.call_counts()

    def _parse_delay(self, request: Mapping[str, Any]) -> datetime | None:
        if "in_seconds" not in request:
            return None
        return self._fleet.clock.now() + timedelta(seconds=float(request["in_seconds"]))


def _resource_id(request: Mapping[str, Any]) -> str:
    """A volume, or an instance."""
    resource_id: str = request["instance_id"] if "instance_id" in request else request["volume_id"]
    return resource_id


def _parse_query(environ: Mapping[str, Any]) -> Mapping[str, Any]:
    return dict(parse_qsl(environ.get("QUERY_STRING", "")))


def _with_iso_dates(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Moments as JSON has them."""
    return {
        name: value.isoformat()
        if isinstance(value, datetime)
        else _with_iso_dates(value)
        if isinstance(value, Mapping)
        else value
        for name, value in fields.items()
    }


def _parse_object(body: bytes) -> Mapping[str, Any]:
    if not body:
        return {}
    try:
        document = json.loads(body)
    except ValueError as error:
        raise ControlError(f"the body is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise ControlError(f"the body is a JSON {type(document).__name__}: send one object")
    return document


def _json_response(value: Any, status: int = 200) -> Response:
    return Response(body=json.dumps(value).encode() + b"\n", content_type="application/json", status=status)
