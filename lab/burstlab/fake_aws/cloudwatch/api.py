"""GetMetricData over the fleet, with CloudWatch's own limits, order, paging and status codes.

GetMetricStatistics, the older call for one metric, reads the same datapoints.
"""

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import mul
from typing import Any, Final

from burstlab.fake_aws.cloudwatch.alarms import ALARM_ACTIONS
from burstlab.fake_aws.cloudwatch.instance_metrics import INSTANCE_UNITS, read_instance_datapoints
from burstlab.fake_aws.cloudwatch.storage_metrics import read_resource_metric
from burstlab.fake_aws.cloudwatch.volume_metrics import (
    EXCEEDED_CHECKS,
    STATISTICS,
    UNITS,
    Datapoints,
    read_datapoints,
    read_exceeded_checks,
)
from burstlab.fake_aws.protocols import (
    Call,
    Response,
    Timestamp,
    Timestamps,
    cloudwatch_response,
    parse_form,
    read_cbor,
    to_nested,
)
from burstlab.model.aws_error import AwsError
from burstlab.model.fleet import LabFleet
from burstlab.model.minute_history import MINUTE_S
from burstlab.model.simulated_volume import SimulatedVolume
from burstlab.model.volume import MetricFault

# Source: CloudWatch API reference, GetMetricData
MAX_QUERIES: Final = 500
MAX_DATAPOINTS: Final = 100_800
# Source: CloudWatch API reference, GetMetricStatistics
MAX_STATISTICS_DATAPOINTS: Final = 1_440
_ID: Final = re.compile(r"[a-z][a-zA-Z0-9_]*")
_READ_ACTIONS: Final = ("GetMetricData", "GetMetricStatistics")
_ORDERS: Final = ("TimestampDescending", "TimestampAscending")


@dataclass(frozen=True, slots=True, kw_only=True)
class _MetricDataRequest:
    """A GetMetricData call, read."""

    queries: Sequence[Mapping[str, Any]]
    from_s: int
    to_s: int
    is_newest_first: bool
    max_datapoints: int
    token: tuple[int, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    """The answer to one query, oldest first."""

    query_id: str
    label: str
    points: Datapoints
    status_code: str = "Complete"
    messages: list[dict[str, str]] = field(default_factory=list)


class CloudWatchApi:
    """Serves reads of the metrics that the fleet publishes; moto serves the others.

    ``metrics_requested`` counts what AWS would bill: each metric of each question, and each call of
    GetMetricStatistics.
    """

    def __init__(self, fleet: LabFleet) -> None:
        self._fleet = fleet
        self.metrics_requested = 0

    def handles(self, call: Call) -> bool:
        is_known = call.action in _READ_ACTIONS or call.action in ALARM_ACTIONS
        return is_known and call.region == self._fleet.settings.region

    def handle(self, call: Call) -> Response:
        if call.action in ALARM_ACTIONS:
            result = ALARM_ACTIONS[call.action](self._fleet.settings, _parameters(call))
            return cloudwatch_response(call, result)
        if call.action == "GetMetricStatistics":
            return cloudwatch_response(call, self._read_statistics(_parameters(call)))
        request = _parse_request(_parameters(call))
        with self._fleet.lock:
            now_s = self._fleet.clock.now_s()
            self.metrics_requested += len(request.queries)
            results = [
                self._result(query, request, now_s)
                for query in request.queries
                if _parse_flag(query.get("ReturnData", True))
            ]
        return cloudwatch_response(call, _page(results, request))

    def _read_statistics(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The datapoints of one metric, with the statistics that were requested.

        Unlike those of GetMetricData, periods begin with StartTime, rounded down to a minute. AWS documents
        no order; here the oldest is first.
        """
        statistics, period_s = parameters.get("Statistics") or [], int(parameters["Period"])
        if not statistics:
            raise AwsError(
                "InvalidParameterCombination",
                "Must specify either Statistics or ExtendedStatistics; burstlab computes no percentiles.",
            )
        metric = {name: parameters.get(name, []) for name in ("Namespace", "MetricName", "Dimensions")}
        queries = [
            {"Id": statistic.lower(), "MetricStat": {"Metric": metric, "Period": MINUTE_S, "Stat": statistic}}
            for statistic in ("SampleCount", *(name for name in statistics if name != "SampleCount"))
        ]
        request = _parse_request({**parameters, "MetricDataQueries": queries})
        if (request.to_s - request.from_s) / period_s > MAX_STATISTICS_DATAPOINTS:
            raise AwsError(
                "InvalidParameterCombination",
                f"A response has at most {MAX_STATISTICS_DATAPOINTS} datapoints: ask for a longer Period, or "
                "for less time.",
            )
        with self._fleet.lock:
            now_s = self._fleet.clock.now_s()
            self.metrics_requested += 1
            by_minute = {
                query["MetricStat"]["Stat"]: self._result(query, request, now_s).points for query in queries
            }
        periods: dict[int, list[int]] = {}
        for index, start_s in enumerate(by_minute["SampleCount"].starts_s):
            if start_s < request.to_s:
                since_start_s = start_s - request.from_s
                periods.setdefault(start_s - since_start_s % period_s, []).append(index)
        datapoints = [
            {"Timestamp": Timestamp(start_s), "Unit": UNITS.get(metric["MetricName"], "None")}
            | {statistic: _combine(statistic, by_minute, minutes) for statistic in statistics}
            for start_s, minutes in periods.items()
        ]
        return {"Label": metric["MetricName"], "Datapoints": datapoints}

    def _result(self, query: Mapping[str, Any], request: _MetricDataRequest, now_s: float) -> _Result:
        stat = query["MetricStat"]
        metric = stat["Metric"]
        name, label = metric["MetricName"], query.get("Label") or metric["MetricName"]
        span: dict[str, Any] = {
            "period_s": int(stat["Period"]),
            "from_s": request.from_s,
            "to_s": request.to_s,
            "now_s": now_s,
            "settings": self._fleet.settings,
        }
        points, fault = Datapoints([], []), None
        resource = read_resource_metric(self._fleet, stat, request.from_s, request.to_s, now_s)
        if resource is not None:
            points, fault = resource.points, resource.fault
        elif metric["Namespace"] == "AWS/EC2" and name in INSTANCE_UNITS:
            instance_id = _dimension_values(metric, "InstanceId")[0]
            instance = self._fleet.catch_up_instance(instance_id)
            if instance is not None and stat.get("Unit", INSTANCE_UNITS[name]) == INSTANCE_UNITS[name]:
                fault = instance.metric_fault
                points = read_instance_datapoints(instance, name, stat["Stat"], **span)
        elif metric["Namespace"] == "AWS/EBS" and name in EXCEEDED_CHECKS:
            volume_id, instance_id = _dimension_values(metric, "VolumeId", "InstanceId")
            volume, instance = self._find_volume(volume_id), self._fleet.instances.get(instance_id)
            if volume is not None and instance is not None and stat.get("Unit", "None") == "None":
                fault = volume.metric_fault
                points = read_exceeded_checks(volume, instance, name, stat["Stat"], **span)
        elif metric["Namespace"] == "AWS/EBS" and self._publishes(name):
            volume = self._find_volume(_dimension_values(metric, "VolumeId")[0])
            if volume is not None and stat.get("Unit", UNITS[name]) == UNITS[name]:
                fault = volume.metric_fault
                points = read_datapoints(volume, name, stat["Stat"], **span)
        else:
            points = self._read_from_moto(query, request)
        return _apply_fault(_Result(query_id=query["Id"], label=label, points=points), fault)

    def _find_volume(self, volume_id: str) -> SimulatedVolume | None:
        return self._fleet.find(volume_id) if volume_id in self._fleet else None

    def _publishes(self, metric: str) -> bool:
        return metric in UNITS and (UNITS[metric] != "Bytes" or self._fleet.settings.publishes_bytes)

    def _read_from_moto(self, query: Mapping[str, Any], request: _MetricDataRequest) -> Datapoints:
        """A metric someone put there with PutMetricData."""
        from moto.cloudwatch.models import cloudwatch_backends  # noqa: PLC0415 - heavy, seldom needed

        settings = self._fleet.settings
        results = cloudwatch_backends[settings.account_id][settings.region].get_metric_data(
            queries=[query],
            start_time=_to_moto_time(request.from_s),
            end_time=_to_moto_time(request.to_s),
            scan_by="TimestampAscending",
        )
        starts_s = [int(start_at.replace(tzinfo=UTC).timestamp()) for start_at in results[0]["timestamps"]]
        return Datapoints(starts_s, [float(value) for value in results[0]["values"]])


def _combine(statistic: str, by_minute: Mapping[str, Datapoints], minutes: Sequence[int]) -> float:
    """The statistic of a period, from those of its minutes."""
    values = [by_minute[statistic].values[minute] for minute in minutes]
    if statistic == "Average":
        samples = [by_minute["SampleCount"].values[minute] for minute in minutes]
        return float(sum(map(mul, values, samples)) / sum(samples))
    if statistic in ("Minimum", "Maximum"):
        return min(values) if statistic == "Minimum" else max(values)
    return sum(values)


def _to_moto_time(at_s: int) -> datetime:
    """Moto compares times without a zone, meaning UTC."""
    return datetime.fromtimestamp(at_s, tz=UTC).replace(tzinfo=None)


def _parameters(call: Call) -> Mapping[str, Any]:
    if call.protocol == "cbor":
        parameters: Mapping[str, Any] = read_cbor(call.body)
    else:
        parameters = json.loads(call.body) if call.protocol == "json" else to_nested(parse_form(call.body))
    return parameters


def _parse_request(parameters: Mapping[str, Any]) -> _MetricDataRequest:
    queries = parameters.get("MetricDataQueries") or []
    _check_queries(queries)
    start_at_s, end_at_s = (_parse_instant_s(parameters, name) for name in ("StartTime", "EndTime"))
    if start_at_s >= end_at_s:
        raise AwsError("ValidationError", "The parameter StartTime must be less than the parameter EndTime.")
    max_datapoints = int(parameters.get("MaxDatapoints") or MAX_DATAPOINTS)
    if not 1 <= max_datapoints <= MAX_DATAPOINTS:
        raise AwsError(
            "ValidationError",
            f"The parameter MaxDatapoints must be between 1 and {MAX_DATAPOINTS}; it is {max_datapoints}.",
        )
    order = parameters.get("ScanBy") or _ORDERS[0]
    if order not in _ORDERS:
        raise AwsError("ValidationError", f"The value {order} for parameter ScanBy is not supported.")
    return _MetricDataRequest(
        queries=queries,
        from_s=int(start_at_s // MINUTE_S * MINUTE_S),
        to_s=int(-(-end_at_s // 1)),
        is_newest_first=order == _ORDERS[0],
        max_datapoints=max_datapoints,
        token=_read_token(parameters.get("NextToken"), len(queries)),
    )


def _check_queries(queries: Sequence[Mapping[str, Any]]) -> None:
    if not queries:
        raise AwsError("ValidationError", "The parameter MetricDataQueries is required.")
    if len(queries) > MAX_QUERIES:
        raise AwsError(
            "ValidationError",
            f"The collection MetricDataQueries must not have a size greater than {MAX_QUERIES}.",
        )
    for number, query in enumerate(queries, start=1):
        _check_query(f"MetricDataQueries.member.{number}", query)
    if len({query["Id"] for query in queries}) < len(queries):
        raise AwsError("ValidationError", "The values for parameter id in MetricDataQueries are not unique.")


def _check_query(where: str, query: Mapping[str, Any]) -> None:
    query_id = query.get("Id", "")
    if not _ID.fullmatch(query_id):
        raise AwsError(
            "ValidationError",
            f"The value {query_id} for parameter {where}.Id is not matching "
            f"the expected pattern {_ID_PATTERN_TEXT}.",
        )
    if "Expression" in query:
        raise AwsError(
            "ValidationError",
            f"{where}.Expression: burstlab computes no metric math and no Metrics Insights.",
        )
    stat = query.get("MetricStat")
    if stat is None:
        raise AwsError("ValidationError", f"The parameter {where}.MetricStat is required.\n")
    if int(stat["Period"]) < MINUTE_S or int(stat["Period"]) % MINUTE_S:
        raise AwsError(
            "ValidationError",
            f"The parameter {where}.MetricStat.Period must be a multiple of 60, not {stat['Period']}.",
        )
    if stat["Stat"] not in STATISTICS:
        raise AwsError(
            "ValidationError",
            f"The value {stat['Stat']} for parameter {where}.MetricStat.Stat is not supported.",
        )


_ID_PATTERN_TEXT: Final = "^[a-z][a-zA-Z0-9_]*$"


def _parse_instant_s(parameters: Mapping[str, Any], name: str) -> float:
    value = parameters.get(name)
    if value is None:
        raise AwsError("ValidationError", f"The parameter {name} is required.")
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, str):
        return datetime.fromisoformat(value).timestamp()
    return float(value)


def _dimension_values(metric: Mapping[str, Any], *names: str) -> list[str]:
    """What a metric is published under: these dimensions and no others, or the metric does not exist."""
    dimensions = {dimension["Name"]: dimension["Value"] for dimension in metric.get("Dimensions", ())}
    return [dimensions[name] for name in names] if dimensions.keys() == set(names) else [""] * len(names)


def _apply_fault(result: _Result, fault: MetricFault | None) -> _Result:
    """The result as it looks when CloudWatch has trouble with this metric."""
    if fault is None:
        return result
    kept_count = len(result.points.starts_s) // 2 if fault.status_code == "PartialData" else 0
    return _Result(
        query_id=result.query_id,
        label=result.label,
        points=Datapoints(result.points.starts_s[:kept_count], result.points.values[:kept_count]),
        status_code=fault.status_code,
        messages=[{"Code": fault.status_code, "Value": fault.message}] if fault.message else [],
    )


def _page(results: Sequence[_Result], request: _MetricDataRequest) -> dict[str, Any]:
    """As many datapoints as fit, query by query; what is left is named by the token."""
    first, after_s = request.token
    remaining = request.max_datapoints
    entries: list[dict[str, Any]] = []
    for index, result in enumerate(results[first:], start=first):
        starts_s, values = _in_order(
            result.points,
            is_newest_first=request.is_newest_first,
            after_s=after_s if index == first else None,
        )
        if starts_s and not remaining:
            return _truncated_page(entries, index, None)
        is_whole = len(starts_s) <= remaining
        entries.append(_to_entry(result, starts_s[:remaining], values[:remaining], is_whole=is_whole))
        if not is_whole:
            return _truncated_page(entries, index, starts_s[remaining - 1])
        remaining -= len(starts_s)
    return {"MetricDataResults": entries, "Messages": []}


def _in_order(
    points: Datapoints, *, is_newest_first: bool, after_s: int | None
) -> tuple[list[int], list[float]]:
    starts_s, values = points.starts_s, points.values
    if is_newest_first:
        end = len(starts_s) if after_s is None else bisect_left(starts_s, after_s)
        return starts_s[:end][::-1], values[:end][::-1]
    begin = 0 if after_s is None else bisect_right(starts_s, after_s)
    return starts_s[begin:], values[begin:]


def _to_entry(result: _Result, starts_s: list[int], values: list[float], *, is_whole: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "Id": result.query_id,
        "Label": result.label,
        "Timestamps": Timestamps(starts_s),
        "Values": values,
        "StatusCode": result.status_code if is_whole else "PartialData",
    }
    if result.messages:
        entry["Messages"] = result.messages
    return entry


def _truncated_page(entries: list[dict[str, Any]], index: int, after_s: int | None) -> dict[str, Any]:
    token = urlsafe_b64encode(json.dumps([index, after_s]).encode()).decode()
    return {"MetricDataResults": entries, "Messages": [], "NextToken": token}


def _read_token(token: str | None, query_count: int) -> tuple[int, int | None]:
    if not token:
        return 0, None
    try:
        index, after_s = json.loads(urlsafe_b64decode(token))
    except (ValueError, TypeError):
        index, after_s = query_count, None
    if not 0 <= index < query_count:
        raise AwsError("InvalidNextToken", f"The token {token} is not valid.")
    return index, after_s


def _parse_flag(value: object) -> bool:
    """A flag; the query protocol writes it as text."""
    return value not in (False, "false")
