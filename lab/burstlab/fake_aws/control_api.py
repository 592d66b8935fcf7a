"""The lab's own HTTP surface: what a person or another process does to the clock, the loads and the faults.

Everything is JSON. A POST carries one object, a GET may have a query (``events?after=7``); an error answers
``{"error": "..."}`` and says what would do.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import parse_qsl

from burstlab.fake_aws.faults import Faults, fault_from
from burstlab.fake_aws.protocols import Answer
from burstlab.model.aws_error import AwsError
from burstlab.model.fleet import LabFleet
from burstlab.model.volume import MetricFault
from burstwatch.core.errors import BurstwatchError

CONTROL_PATH: Final = "/_lab/"
_WHERE: Final = {"GET": "query, as in ?name=value", "POST": "JSON object"}


class ControlError(BurstwatchError):
    """A control request that cannot be done; the message says what would do."""


class Control:
    """Answers under ``/_lab/``."""

    def __init__(self, fleet: LabFleet, faults: Faults) -> None:
        self._fleet = fleet
        self._faults = faults
        self._routes: Final[dict[tuple[str, str], Callable[[Mapping[str, Any]], Any]]] = {
            ("GET", ""): self._index,
            ("GET", "clock"): self._clock,
            ("POST", "clock"): self._set_speed,
            ("POST", "advance"): self._advance,
            ("GET", "volumes"): self._volumes,
            ("POST", "load"): self._set_load,
            ("POST", "balance"): self._set_balance,
            ("POST", "tags"): self._set_tags,
            ("POST", "attach"): self._attach,
            ("POST", "detach"): self._detach,
            ("POST", "instance"): self._set_instance,
            ("POST", "instance-balance"): self._set_instance_balance,
            ("POST", "status"): self._set_status,
            ("POST", "modify"): self._modify,
            ("POST", "end-modification"): self._end_modification,
            ("GET", "modifications"): self._modifications,
            ("GET", "events"): self._events,
            ("GET", "settings"): lambda _: asdict(self._fleet.settings),
            ("POST", "settings"): lambda asked: asdict(self._fleet.change_settings(**asked)),
            ("POST", "gap"): self._hide_metrics,
            ("POST", "metric-fault"): self._set_metric_fault,
            ("GET", "faults"): lambda _: self._faults.shown(),
            ("POST", "faults"): self._add_fault,
            ("DELETE", "faults"): self._clear_faults,
            ("POST", "latency"): self._set_latency,
            ("GET", "calls"): lambda _: self._faults.calls(),
            ("DELETE", "calls"): self._forget_calls,
        }

    def answer(self, environ: Mapping[str, Any], body: bytes) -> Answer:
        method = environ["REQUEST_METHOD"]
        path = environ["PATH_INFO"].removeprefix(CONTROL_PATH).strip("/")
        try:
            if method == "GET" and path.startswith("truth/"):
                return _json(self._truth(path.removeprefix("truth/")))
            route = self._routes.get((method, path))
            if route is None:
                known = ", ".join(f"{known} {CONTROL_PATH}{name}" for known, name in self._routes)
                return _json({"error": f"no {method} {CONTROL_PATH}{path}; there are {known}"}, status=404)
            return _json(route(_query(environ) if method == "GET" else _object(body)))
        except KeyError as error:
            return _json(
                {"error": f"{CONTROL_PATH}{path} needs {error.args[0]!r} in its {_WHERE[method]}"}, status=400
            )
        except (AwsError, BurstwatchError, ValueError, TypeError) as error:
            return _json({"error": str(error)}, status=400)

    def _index(self, _: Mapping[str, Any]) -> Any:
        return {
            "volumes": len(self._fleet),
            "routes": [f"{method} {CONTROL_PATH}{name}" for method, name in self._routes]
            + [f"GET {CONTROL_PATH}truth/VOLUME_ID"],
        }

    def _clock(self, _: Mapping[str, Any]) -> Any:
        clock = self._fleet.clock
        return {"now": clock.now().isoformat(), "speed": clock.speed}

    def _set_speed(self, asked: Mapping[str, Any]) -> Any:
        self._fleet.clock.set_speed(float(asked["speed"]))
        return self._clock(asked)

    def _advance(self, asked: Mapping[str, Any]) -> Any:
        self._fleet.clock.advance(float(asked["seconds"]))
        return self._clock(asked)

    def _volumes(self, _: Mapping[str, Any]) -> Any:
        with self._fleet.lock:
            return [
                {"volume_id": volume.volume_id, "size_gib": volume.size_gib, "tags": volume.tags}
                for volume in self._fleet
            ]

    def _truth(self, volume_id: str) -> Any:
        return _dated(asdict(self._fleet.truth(volume_id)))

    def _set_load(self, asked: Mapping[str, Any]) -> Any:
        self._fleet.set_load(asked["volume_id"], str(asked["load"]), self._later(asked))
        return {"volume_id": asked["volume_id"], "load": asked["load"]}

    def _set_balance(self, asked: Mapping[str, Any]) -> Any:
        self._fleet.set_balance(asked["volume_id"], float(asked["balance_pct"]))
        return self._truth(asked["volume_id"])

    def _set_tags(self, asked: Mapping[str, Any]) -> Any:
        self._fleet.set_tags(asked["volume_id"], asked["tags"])
        return {"volume_id": asked["volume_id"], "tags": self._fleet.find(asked["volume_id"]).tags}

    def _attach(self, asked: Mapping[str, Any]) -> Any:
        return {"instance_id": self._fleet.attach(asked["volume_id"], asked.get("instance_id"))}

    def _detach(self, asked: Mapping[str, Any]) -> Any:
        self._fleet.detach(asked["volume_id"])
        return {"volume_id": asked["volume_id"]}

    def _set_instance(self, asked: Mapping[str, Any]) -> Any:
        states = {"running": self._fleet.start_instance, "stopped": self._fleet.stop_instance}
        if asked["state"] not in states:
            raise ControlError(f"instance state is {asked['state']!r}: give one of {', '.join(states)}")
        states[asked["state"]](asked["instance_id"])
        return {"instance_id": asked["instance_id"], "state": asked["state"]}

    def _set_instance_balance(self, asked: Mapping[str, Any]) -> Any:
        instance_id, io_pct, byte_pct = asked["instance_id"], asked.get("io_pct"), asked.get("byte_pct")
        self._fleet.set_instance_balance(instance_id, io_pct, byte_pct)
        return {"instance_id": instance_id, "io_pct": io_pct, "byte_pct": byte_pct}

    def _set_status(self, asked: Mapping[str, Any]) -> Any:
        self._fleet.set_status(asked["volume_id"], asked["status"])
        return {"volume_id": asked["volume_id"], "status": self._fleet.find(asked["volume_id"]).status}

    def _modify(self, asked: Mapping[str, Any]) -> Any:
        wanted = {name: held for name, held in asked.items() if name != "volume_id"}
        return _dated(asdict(self._fleet.modify(asked["volume_id"], **wanted)))

    def _end_modification(self, asked: Mapping[str, Any]) -> Any:
        ended = self._fleet.end_modification(asked["volume_id"], asked.get("state", "completed"))
        return _dated(asdict(ended))

    def _modifications(self, asked: Mapping[str, Any]) -> Any:
        return [_dated(asdict(told)) for told in self._fleet.modifications(asked["volume_id"])]

    def _events(self, asked: Mapping[str, Any]) -> Any:
        after = max(0, int(asked.get("after", 0)))
        return [{"number": event.number, "event": event.body} for event in self._fleet.events[after:]]

    def _hide_metrics(self, asked: Mapping[str, Any]) -> Any:
        from_at = self._fleet.clock.now() + timedelta(seconds=float(asked.get("in_seconds", 0)))
        to_at = from_at + timedelta(seconds=float(asked["seconds"]))
        self._fleet.hide_metrics(asked["volume_id"], from_at=from_at, to_at=to_at)
        return {"from": from_at.isoformat(), "to": to_at.isoformat()}

    def _set_metric_fault(self, asked: Mapping[str, Any]) -> Any:
        status_code = asked["status_code"]
        fault = (
            MetricFault(status_code=status_code, message=asked.get("message", "")) if status_code else None
        )
        self._fleet.set_metric_fault(asked["volume_id"], fault)
        return {"volume_id": asked["volume_id"], "status_code": status_code}

    def _add_fault(self, asked: Mapping[str, Any]) -> Any:
        self._faults.add(fault_from(asked))
        return self._faults.shown()

    def _clear_faults(self, _: Mapping[str, Any]) -> Any:
        self._faults.clear()
        return self._faults.shown()

    def _set_latency(self, asked: Mapping[str, Any]) -> Any:
        self._faults.set_latency(float(asked["ms"]), asked.get("action", "*"))
        return {"ms": asked["ms"], "action": asked.get("action", "*")}

    def _forget_calls(self, _: Mapping[str, Any]) -> Any:
        self._faults.forget_calls()
        return self._faults.calls()

    def _later(self, asked: Mapping[str, Any]) -> datetime | None:
        if "in_seconds" not in asked:
            return None
        return self._fleet.clock.now() + timedelta(seconds=float(asked["in_seconds"]))


def _query(environ: Mapping[str, Any]) -> Mapping[str, Any]:
    return dict(parse_qsl(environ.get("QUERY_STRING", "")))


def _dated(told: Mapping[str, Any]) -> dict[str, Any]:
    """Moments as JSON has them."""
    return {name: held.isoformat() if isinstance(held, datetime) else held for name, held in told.items()}


def _object(body: bytes) -> Mapping[str, Any]:
    if not body:
        return {}
    try:
        read = json.loads(body)
    except ValueError as error:
        raise ControlError(f"the body is not JSON: {error}") from error
    if not isinstance(read, dict):
        raise ControlError(f"the body is a JSON {type(read).__name__}: send one object")
    return read


def _json(value: Any, status: int = 200) -> Answer:
    return Answer(body=json.dumps(value).encode() + b"\n", content_type="application/json", status=status)
