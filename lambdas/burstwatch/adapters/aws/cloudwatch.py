"""Samples of metrics of volumes and other resources, read from CloudWatch in batches.

Source of the limits: the CloudWatch API reference, GetMetricData, and the CloudWatch user guide, "CloudWatch
service quotas".
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, as_completed, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice, pairwise
from math import ceil
from sys import float_info
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from burstwatch.adapters.aws.botocore_hooks import paginate
from burstwatch.adapters.aws.descriptions import read_mappings
from burstwatch.adapters.aws.errors import AWS_ERRORS, AwsFailure, FailureKind, error_codes, to_aws_failure
from burstwatch.core.buckets.series import PERIOD_S, Series
from burstwatch.core.text import sanitise

if TYPE_CHECKING:
    from types_boto3_cloudwatch import CloudWatchClient

BATCH_SIZE: Final = 500
"""The most queries that one GetMetricData call takes.

A page has 100,800 datapoints, so with spans of up to 201 minutes (500 x 201) the response fits on one page.
"""

DATAPOINTS_PER_S: Final = 150_000
"""Our share of the 180,000 datapoints per second of an account; AWS counts what a query could return.

The rest is left to other users of the account, such as dashboards. The quota holds for the last three hours.
"""

CALLS_PER_S: Final = 50
"""GetMetricData calls per second that every account allows; the present default is 500, the older was 50."""

_ACTION: Final = "cloudwatch:GetMetricData"
_BAD_REQUEST_CODES: Final = error_codes(
    """ValidationError ValidationException InvalidParameterValue InvalidParameterValueException
    InvalidParameterCombination InvalidParameterCombinationException MissingParameter
    MissingRequiredParameterException ParamValidationError"""
)
_MAX_PAGES: Final = 100
"""Pages of one call: ten million datapoints. A day of 500 metrics takes eight pages."""

_MAX_CALLS_PER_BATCH: Final = 64
"""Three bad queries among 500 are found by bisection in 50 calls; if all are bad, searching is of no use."""

_NAMESPACES: Final = {
    "VolumeId": "AWS/EBS",
    "InstanceId": "AWS/EC2",
    "FileSystemId": "AWS/EFS",
    "DBInstanceIdentifier": "AWS/RDS",
}
_VALUE_LIMITS: Final = dict.fromkeys(("BurstBalance", "EBSIOBalance%", "EBSByteBalance%"), (0.0, 100.0))
_MAX_TIMESTAMP_S: Final = 32_503_680_000
"""The year 3000: a later instant is not the time of a datapoint."""

# texts from AWS are cut for log lines and alerts: a message, and a single word or value
_MAX_MESSAGE_CHARS: Final = 400
_MAX_SHOWN_CHARS: Final = 40
_TOLERANCE: Final = 0.5
"""A value up to this far outside its limits counts as a rounding error and is moved to the limit."""


@dataclass(frozen=True, slots=True)
class MetricQuery:
    """One statistic of one metric by periods of ``period_s``, which has one dimension, such as VolumeId.

    Dimensions must match exactly: a query for VolumeId alone finds nothing of a metric that is published with
    InstanceId and VolumeId. ``instance_id`` is for those: it is the second dimension. Source: the CloudWatch
    user guide, "CloudWatch concepts", dimensions.
    """

    resource_id: str
    metric: str
    stat: str
    dimension: str = "VolumeId"
    period_s: int = PERIOD_S
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsResult:
    """Each query is either in ``series``, which is empty if there is a gap, or in ``unread`` with the reason.

    ``messages`` are AWS's messages about a call as a whole.
    """

    series: Mapping[MetricQuery, Series] = field(default_factory=dict)
    unread: Mapping[MetricQuery, AwsFailure] = field(default_factory=dict)
    messages: Sequence[str] = ()


class CloudWatchReader:
    """Reads the samples of one region.

    The client must retry throttled calls, because only botocore sees each response. Build it with
    ``Config(retries={"mode": "standard", "total_max_attempts": 5}, max_pool_connections=workers)``: the
    random delay before each retry grows exponentially up to 20 s. A batch that is still refused is unread;
    the others are not affected.
    """

    def __init__(
        self,
        client: "CloudWatchClient",
        *,
        workers: int = 8,
        datapoints_per_s: float = DATAPOINTS_PER_S,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._workers = workers
        self._rate_limiter = _RateLimiter(datapoints_per_s, monotonic, sleep)

    def read(
        self,
        queries: Iterable[MetricQuery],
        start_s: float,
        end_s: float,
        *,
        on_batch: Callable[[], None] = lambda: None,
    ) -> MetricsResult:
        """Read the samples whose period begins in ``[start_s, end_s)``, at most 15 days ago.

        CloudWatch keeps one-minute datapoints for 15 days.

        ``on_batch`` is called after each batch of 500 queries.
        """
        series: dict[MetricQuery, Series] = {}
        unread: dict[MetricQuery, AwsFailure] = {}
        messages: list[str] = []
        for batch in self.read_batches(queries, start_s, end_s):
            series.update(batch.series)
            unread.update(batch.unread)
            messages += batch.messages
            on_batch()
        return MetricsResult(series=series, unread=unread, messages=messages)

    def read_batches(
        self, queries: Iterable[MetricQuery], start_s: float, end_s: float
    ) -> Iterator[MetricsResult]:
        """The same in batches of 500 queries, in the order in which they are answered.

        ``queries`` may be a generator: neither all queries nor all samples are in memory at once.
        """
        if not start_s < end_s:
            raise ValueError(f"the span from {start_s} to {end_s} is empty: its end must be after its start")
        remaining = iter(queries)
        pool = ThreadPoolExecutor(self._workers, thread_name_prefix="cloudwatch")
        running: set[Future[MetricsResult]] = set()
        try:
            while batch := list(islice(remaining, BATCH_SIZE)):
                running.add(pool.submit(self._read_batch, batch, start_s, end_s))
                if len(running) >= 2 * self._workers:
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    yield from (future.result() for future in done)
            for future in as_completed(running):
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)

    def _read_batch(self, batch: Sequence[MetricQuery], start_s: float, end_s: float) -> MetricsResult:
        """Make one call, or as many as needed to find the queries that make it fail."""
        series: dict[MetricQuery, Series] = {}
        unread: dict[MetricQuery, AwsFailure] = {}
        messages: list[str] = []
        parts, calls = [batch], 0
        while parts:
            part = parts.pop()
            calls += 1
            try:
                response = self._get_metric_data(part, start_s, end_s)
            except AWS_ERRORS as error:
                failure = to_aws_failure(error, _ACTION)
                # CloudWatch rejects the whole call for one bad query and does not name it: bisect.
                if failure.code in _BAD_REQUEST_CODES and len(part) > 1 and calls < _MAX_CALLS_PER_BATCH:
                    middle = len(part) // 2
                    parts += [part[middle:], part[:middle]]
                else:
                    unread.update(dict.fromkeys(part, failure))
                continue
            messages += response.messages
            for index, query in enumerate(part):
                series_or_failure = _to_series_or_failure(query, response.by_id.get(_query_id(index)))
                if isinstance(series_or_failure, Series):
                    series[query] = series_or_failure
                else:
                    unread[query] = series_or_failure
        return MetricsResult(series=series, unread=unread, messages=messages)

    def _get_metric_data(self, part: Sequence[MetricQuery], start_s: float, end_s: float) -> "_Response":
        # AWS counts the datapoints that a query could return, not those that exist.
        self._rate_limiter.acquire(sum(ceil((end_s - start_s) / query.period_s) for query in part))
        return _merge_pages(
            paginate(
                self._client.get_metric_data,
                _MAX_PAGES,
                list_key="MetricDataResults",
                MetricDataQueries=[_to_data_query(index, query) for index, query in enumerate(part)],
                StartTime=datetime.fromtimestamp(start_s, UTC),
                EndTime=datetime.fromtimestamp(end_s, UTC),
                ScanBy="TimestampAscending",  # the default is the newest first
            )
        )


class _RateLimiter:
    """Delays callers so that they stay within AWS's quota; the first is not delayed."""

    def __init__(
        self, datapoints_per_s: float, monotonic: Callable[[], float], sleep: Callable[[float], None]
    ) -> None:
        self._datapoints_per_s = datapoints_per_s
        self._monotonic = monotonic
        self._sleep = sleep
        self._lock = Lock()
        self._next_slot_s = 0.0

    def acquire(self, datapoints: int) -> None:
        with self._lock:
            now_s = self._monotonic()
            slot_s = max(now_s, self._next_slot_s)
            self._next_slot_s = slot_s + max(datapoints / self._datapoints_per_s, 1 / CALLS_PER_S)
        if slot_s > now_s:
            self._sleep(slot_s - now_s)


def _query_id(index: int) -> str:
    return f"m{index}"


def _to_data_query(index: int, query: MetricQuery) -> dict[str, Any]:
    """Build the query without a unit: with a wrong one, CloudWatch returns no datapoints and no error."""
    dimensions = [{"Name": query.dimension, "Value": query.resource_id}]
    if query.instance_id is not None:
        dimensions.append({"Name": "InstanceId", "Value": query.instance_id})
    metric = {
        "Namespace": _NAMESPACES[query.dimension],
        "MetricName": query.metric,
        "Dimensions": dimensions,
    }
    return {
        "Id": _query_id(index),
        "MetricStat": {"Metric": metric, "Period": query.period_s, "Stat": query.stat},
    }


@dataclass(slots=True)
class _QueryResult:
    """What the pages so far contain about one query."""

    times: list[Any] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    status: str = ""
    messages: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Response:
    by_id: dict[str, _QueryResult] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)


def _merge_pages(pages: Iterable[Mapping[str, Any]]) -> _Response:
    """Merge the pages of one call; the newest status of a query counts.

    A query is ``PartialData`` on each page but the last. Source: the CloudWatch API reference,
    MetricDataResult.
    """
    response = _Response()
    for page in pages:
        response.messages += _message_texts(page)
        for entry in read_mappings(page, "MetricDataResults"):
            result = response.by_id.setdefault(str(entry.get("Id", "")), _QueryResult())
            times, values = entry.get("Timestamps", ()), entry.get("Values", ())
            is_paired = isinstance(times, list | tuple) and isinstance(values, list | tuple)
            result.times += times if is_paired else [None]
            result.values += values if is_paired else []
            result.status = str(entry.get("StatusCode", ""))
            result.messages += _message_texts(entry)
    return response


def _message_texts(document: Mapping[str, Any]) -> list[str]:
    texts = (
        f"{message.get('Code', '')}: {message.get('Value', '')}"
        for message in read_mappings(document, "Messages")
    )
    return [sanitise(text, _MAX_MESSAGE_CHARS) for text in texts]


_STATUS_KINDS: Final = {
    "PartialData": FailureKind.RETRYABLE,
    "InternalError": FailureKind.RETRYABLE,
    "Forbidden": FailureKind.REFUSED,
}


def _to_series_or_failure(query: MetricQuery, result: _QueryResult | None) -> Series | AwsFailure:
    """The samples, or why they cannot be trusted.

    Partial data is not used: the newest part may be missing, and the older samples would look like a gap.
    """
    if result is None:
        return _unusable(query, "NoResult", "CloudWatch left it out of its answer")
    if result.status != "Complete":
        reason = sanitise("; ".join(result.messages), _MAX_MESSAGE_CHARS) or "CloudWatch gives no reason"
        kind = _STATUS_KINDS.get(result.status, FailureKind.BROKEN)
        return _unusable(query, sanitise(result.status, _MAX_SHOWN_CHARS) or "NoStatusCode", reason, kind)
    if len(result.times) != len(result.values):
        mismatch = f"{len(result.times)} timestamps came with {len(result.values)} values"
        return _unusable(query, "UnpairedValues", mismatch)
    if not result.values:
        return Series(period_s=query.period_s)
    return _to_series(query, result.times, result.values)


def _to_series(query: MetricQuery, times: Sequence[Any], values: Sequence[Any]) -> Series | AwsFailure:
    """The samples; a value far outside its limits, or not a number, makes the whole series unread."""
    minimum, maximum = _VALUE_LIMITS.get(query.metric, (0.0, float_info.max))
    low, high = minimum - _TOLERANCE, maximum + _TOLERANCE
    for value in values:
        if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
            shown_value = sanitise(repr(value), _MAX_SHOWN_CHARS)
            limits = f"between {minimum:g} and {maximum:g}, CloudWatch says {shown_value}"
            return _unusable(query, "ImplausibleValue", f"{query.metric} is {limits}")
    if min(values) < minimum or max(values) > maximum:
        values = [min(max(value, minimum), maximum) for value in values]
    try:
        starts = [_period_start_s(instant, query.period_s) for instant in times]
    except (TypeError, ValueError, OverflowError):
        return _unusable(query, "ImplausibleTime", f"{query.metric} has an invalid timestamp")
    if all(earlier < later for earlier, later in pairwise(starts)):
        return Series(tuple(starts), tuple(values), query.period_s)
    return Series.from_pairs(zip(starts, values, strict=True), query.period_s)


def _period_start_s(timestamp: Any, period_s: int) -> int:
    """The start of the period of a timestamp: a number from our own parser, or a datetime from botocore.

    Raises:
        TypeError, ValueError, OverflowError: it is not an instant, or not one before the year 3000.
    """
    at_s = timestamp.timestamp() if isinstance(timestamp, datetime) else timestamp
    if not 0 <= at_s < _MAX_TIMESTAMP_S:
        raise ValueError(f"{at_s} is not a plausible time")
    return int(at_s) // period_s * period_s


def _unusable(
    query: MetricQuery, code: str, reason: str, kind: FailureKind = FailureKind.BROKEN
) -> AwsFailure:
    return AwsFailure(
        kind=kind,
        code=code,
        message=f"{query.metric} of {query.resource_id} cannot be used: {reason}",
        next_step="it is read again at the next poll; if it lasts, compare with the CloudWatch console",
        action=_ACTION,
        resource=query.resource_id,
    )
