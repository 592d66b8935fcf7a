"""GetMetricData over the fleet, with CloudWatch's own limits, order, paging and status codes."""

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from burstlab.fake_aws.cloudwatch_alarms import ALARM_ACTIONS
from burstlab.fake_aws.metrics import STATISTICS, UNITS, Datapoints, read_datapoints, read_instance_balances
from burstlab.fake_aws.protocols import Answer, Call, Timestamps, cloudwatch_answer, form, nested, read_cbor
from burstlab.model.aws_error import AwsError
from burstlab.model.fleet import LabFleet
from burstlab.model.instance import BALANCES
from burstlab.model.minute_history import MINUTE_S
from burstlab.model.volume import MetricFault

MOST_QUERIES: Final = 500
MOST_DATAPOINTS: Final = 100_800
_ID: Final = re.compile(r"[a-z][a-zA-Z0-9_]*")
_ORDERS: Final = ("TimestampDescending", "TimestampAscending")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """A GetMetricData call, read."""

    queries: Sequence[Mapping[str, Any]]
    from_s: int
    to_s: int
    newest_first: bool
    most_datapoints: int
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
    """Answers GetMetricData for the metrics the fleet publishes; other metrics are asked of moto.

    ``metrics_asked`` counts what AWS would bill: each metric of each question.
    """

    def __init__(self, fleet: LabFleet) -> None:
        self._fleet = fleet
        self.metrics_asked = 0

    def answers(self, call: Call) -> bool:
        known = call.action == "GetMetricData" or call.action in ALARM_ACTIONS
        return known and call.region == self._fleet.settings.region

    def answer(self, call: Call) -> Answer:
        if call.action in ALARM_ACTIONS:
            answer = ALARM_ACTIONS[call.action](self._fleet.settings, _parameters(call))
            return cloudwatch_answer(call, answer)
        question = _read_question(_parameters(call))
        with self._fleet.lock:
            now_s = self._fleet.clock.now_s()
            self.metrics_asked += len(question.queries)
            results = [
                self._result(query, question, now_s)
                for query in question.queries
                if _truth(query.get("ReturnData", True))
            ]
        return cloudwatch_answer(call, _page(results, question))

    def _result(self, query: Mapping[str, Any], question: _Question, now_s: float) -> _Result:
        stat = query["MetricStat"]
        metric = stat["Metric"]
        name, label = metric["MetricName"], query.get("Label") or metric["MetricName"]
        if metric["Namespace"] == "AWS/EC2" and name in BALANCES:
            points = self._instance_balances(stat, question, now_s)
            return _Result(query_id=query["Id"], label=label, points=points)
        if metric["Namespace"] != "AWS/EBS" or not self._publishes(name):
            points = self._from_moto(query, question)
            return _Result(query_id=query["Id"], label=label, points=points)
        volume_id = _only_dimension(metric, "VolumeId")
        held = self._fleet.get(volume_id) if volume_id else None
        if held is None or stat.get("Unit", UNITS[name]) != UNITS[name]:
            return _Result(query_id=query["Id"], label=label, points=Datapoints([], []))
        held.catch_up(int(now_s))
        points = read_datapoints(
            held,
            name,
            stat["Stat"],
            period_s=int(stat["Period"]),
            from_s=question.from_s,
            to_s=question.to_s,
            now_s=now_s,
            settings=self._fleet.settings,
        )
        return _spoilt(_Result(query_id=query["Id"], label=label, points=points), held.metric_fault)

    def _publishes(self, metric: str) -> bool:
        return metric in UNITS and (UNITS[metric] != "Bytes" or self._fleet.settings.publishes_bytes)

    def _instance_balances(self, stat: Mapping[str, Any], question: _Question, now_s: float) -> Datapoints:
        metric = stat["Metric"]
        held = self._fleet.instances.get(_only_dimension(metric, "InstanceId") or "")
        if held is None or stat.get("Unit", "Percent") != "Percent":
            return Datapoints([], [])
        return read_instance_balances(
            held,
            metric["MetricName"],
            stat["Stat"],
            period_s=int(stat["Period"]),
            from_s=question.from_s,
            to_s=question.to_s,
            now_s=now_s,
            settings=self._fleet.settings,
        )

    def _from_moto(self, query: Mapping[str, Any], question: _Question) -> Datapoints:
        """A metric someone put there with PutMetricData."""
        from moto.cloudwatch.models import cloudwatch_backends  # noqa: PLC0415 - heavy, seldom needed

        settings = self._fleet.settings
        found = cloudwatch_backends[settings.account_id][settings.region].get_metric_data(
            queries=[query],
            start_time=_moto_time(question.from_s),
            end_time=_moto_time(question.to_s),
            scan_by="TimestampAscending",
        )
        starts_s = [int(at.replace(tzinfo=UTC).timestamp()) for at in found[0]["timestamps"]]
        return Datapoints(starts_s, [float(value) for value in found[0]["values"]])


def _moto_time(at_s: int) -> datetime:
    """Moto compares times without a zone, meaning UTC."""
    return datetime.fromtimestamp(at_s, tz=UTC).replace(tzinfo=None)


def _parameters(call: Call) -> Mapping[str, Any]:
    if call.protocol == "cbor":
        read: Mapping[str, Any] = read_cbor(call.body)
    else:
        read = json.loads(call.body) if call.protocol == "json" else nested(form(call.body))
    return read


def _read_question(parameters: Mapping[str, Any]) -> _Question:
    queries = parameters.get("MetricDataQueries") or []
    _check_queries(queries)
    start, end = (_moment_s(parameters, name) for name in ("StartTime", "EndTime"))
    if start >= end:
        raise AwsError("ValidationError", "The parameter StartTime must be less than the parameter EndTime.")
    most = int(parameters.get("MaxDatapoints") or MOST_DATAPOINTS)
    if not 1 <= most <= MOST_DATAPOINTS:
        raise AwsError(
            "ValidationError",
            f"The parameter MaxDatapoints must be between 1 and {MOST_DATAPOINTS}; it is {most}.",
        )
    order = parameters.get("ScanBy") or _ORDERS[0]
    if order not in _ORDERS:
        raise AwsError("ValidationError", f"The value {order} for parameter ScanBy is not supported.")
    return _Question(
        queries=queries,
        from_s=int(start // MINUTE_S * MINUTE_S),
        to_s=int(-(-end // 1)),
        newest_first=order == _ORDERS[0],
        most_datapoints=most,
        token=_read_token(parameters.get("NextToken"), len(queries)),
    )


def _check_queries(queries: Sequence[Mapping[str, Any]]) -> None:
    if not queries:
        raise AwsError("ValidationError", "The parameter MetricDataQueries is required.")
    if len(queries) > MOST_QUERIES:
        raise AwsError(
            "ValidationError",
            f"The collection MetricDataQueries must not have a size greater than {MOST_QUERIES}.",
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
            f"the expected pattern {_PATTERN_SHOWN}.",
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


_PATTERN_SHOWN: Final = "^[a-z][a-zA-Z0-9_]*$"


def _moment_s(parameters: Mapping[str, Any], name: str) -> float:
    value = parameters.get(name)
    if value is None:
        raise AwsError("ValidationError", f"The parameter {name} is required.")
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, str):
        return datetime.fromisoformat(value).timestamp()
    return float(value)


def _only_dimension(metric: Mapping[str, Any], name: str) -> str | None:
    """What a metric is published under: one dimension of this name alone, or the metric does not exist."""
    named = {dimension["Name"]: dimension["Value"] for dimension in metric.get("Dimensions", ())}
    return named.get(name) if len(named) == 1 else None


def _spoilt(result: _Result, fault: MetricFault | None) -> _Result:
    """The result as it looks when CloudWatch has trouble with this metric."""
    if fault is None:
        return result
    kept = len(result.points.starts_s) // 2 if fault.status_code == "PartialData" else 0
    return _Result(
        query_id=result.query_id,
        label=result.label,
        points=Datapoints(result.points.starts_s[:kept], result.points.values[:kept]),
        status_code=fault.status_code,
        messages=[{"Code": fault.status_code, "Value": fault.message}] if fault.message else [],
    )


def _page(results: Sequence[_Result], question: _Question) -> dict[str, Any]:
    """As many datapoints as fit, query by query; what is left is named by the token."""
    first, after_s = question.token
    room = question.most_datapoints
    shown: list[dict[str, Any]] = []
    for index, result in enumerate(results[first:], start=first):
        starts_s, values = _in_order(
            result.points, question.newest_first, after_s if index == first else None
        )
        if starts_s and not room:
            return _cut_page(shown, index, None)
        whole = len(starts_s) <= room
        shown.append(_shown(result, starts_s[:room], values[:room], whole=whole))
        if not whole:
            return _cut_page(shown, index, starts_s[room - 1])
        room -= len(starts_s)
    return {"MetricDataResults": shown, "Messages": []}


def _in_order(points: Datapoints, newest_first: bool, after_s: int | None) -> tuple[list[int], list[float]]:  # noqa: FBT001
    starts_s, values = points.starts_s, points.values
    if newest_first:
        end = len(starts_s) if after_s is None else bisect_left(starts_s, after_s)
        return starts_s[:end][::-1], values[:end][::-1]
    begin = 0 if after_s is None else bisect_right(starts_s, after_s)
    return starts_s[begin:], values[begin:]


def _shown(result: _Result, starts_s: list[int], values: list[float], *, whole: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "Id": result.query_id,
        "Label": result.label,
        "Timestamps": Timestamps(starts_s),
        "Values": values,
        "StatusCode": result.status_code if whole else "PartialData",
    }
    if result.messages:
        shown["Messages"] = result.messages
    return shown


def _cut_page(shown: list[dict[str, Any]], index: int, after_s: int | None) -> dict[str, Any]:
    token = urlsafe_b64encode(json.dumps([index, after_s]).encode()).decode()
    return {"MetricDataResults": shown, "Messages": [], "NextToken": token}


def _read_token(token: str | None, queries: int) -> tuple[int, int | None]:
    if not token:
        return 0, None
    try:
        index, after_s = json.loads(urlsafe_b64decode(token))
    except (ValueError, TypeError):
        index, after_s = queries, None
    if not 0 <= index < queries:
        raise AwsError("InvalidNextToken", f"The token {token} is not valid.")
    return index, after_s


def _truth(value: object) -> bool:
    """A flag; the query protocol writes it as text."""
    return value not in (False, "false")
