"""Log lines, metrics and traces of the deployed functions, and every name in them.

Nothing here reads the environment before a function is invoked. X-Ray's SDK, which takes longer to import
than everything else, is imported only if an invocation is traced.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache, wraps
from math import inf
from os import environ
from typing import IO, Any, Final, Self, TypeAlias

from aws_lambda_powertools.logging import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

Handler: TypeAlias = Callable[[Any, Any], Any]
"""A handler as Lambda calls it, with the event and the context."""

SERVICE: Final = "POWERTOOLS_SERVICE_NAME"
NAMESPACE: Final = "POWERTOOLS_METRICS_NAMESPACE"
LOG_LEVEL: Final = "POWERTOOLS_LOG_LEVEL"
TRACE_DISABLED: Final = "POWERTOOLS_TRACE_DISABLED"
_TASK_ROOT: Final = "LAMBDA_TASK_ROOT"
_TRACE_ID: Final = "_X_AMZN_TRACE_ID"

_CALLER_STACK_LEVEL: Final = 3
"""The number of stack frames between a log line and its caller: those of Powertools and of this module."""

_WEBHOOK_PATTERN: Final = re.compile(r"/(services|workflows|triggers)/[^\s\"'\\]+")
"""The secret part of a webhook's address."""


class Metric(StrEnum):
    """Every metric, in the namespace ``Burstwatch``, with the dimension ``service``."""

    VOLUMES_WATCHED = "VolumesWatched"
    VOLUMES_IN_FOCUS = "VolumesInFocus"
    VOLUMES_UNREAD = "VolumesUnread"
    VOLUMES_OK = "VolumesOk"
    VOLUMES_WATCH = "VolumesWatch"
    VOLUMES_WARNING = "VolumesWarning"
    VOLUMES_CRITICAL = "VolumesCritical"
    VOLUMES_EXHAUSTED = "VolumesExhausted"
    VOLUMES_UNKNOWN = "VolumesUnknown"
    VOLUMES_FLIPPED = "VolumesFlipped"
    BUCKETS_WARNING = "BucketsWarning"
    BUCKETS_CRITICAL = "BucketsCritical"
    BUCKETS_EXHAUSTED = "BucketsExhausted"
    BUCKETS_UNKNOWN = "BucketsUnknown"
    NEWEST_DATAPOINT_AGE = "NewestDatapointAge"
    WORST_DATAPOINT_AGE = "WorstDatapointAge"
    DATAPOINT_SPACING = "DatapointSpacing"
    SOONEST_TIME_TO_EMPTY = "SoonestTimeToEmpty"
    LOWEST_BURST_BALANCE = "LowestBurstBalance"
    TICKS = "Ticks"
    LATE_TICKS = "LateTicks"
    FLIPS = "Flips"
    FLIPS_BACK = "FlipsBack"
    FLIPS_REFUSED = "FlipsRefused"
    FLIPS_FAILED = "FlipsFailed"
    FLIPS_STUCK = "FlipsStuck"
    ALERTS_SENT = "AlertsSent"
    ALERTS_NOT_DELIVERED = "AlertsNotDelivered"
    POLICY_REJECTED = "PolicyRejected"
    FLIP_AUTHORITY_MISSING = "NotStanding"
    PROBE_EVENTS_DROPPED = "ProbeEventsDropped"
    EBS_EVENTS_DROPPED = "EbsEventsDropped"


_UNITS: Final = {
    Metric.NEWEST_DATAPOINT_AGE: MetricUnit.Seconds,
    Metric.WORST_DATAPOINT_AGE: MetricUnit.Seconds,
    Metric.DATAPOINT_SPACING: MetricUnit.Seconds,
    Metric.SOONEST_TIME_TO_EMPTY: MetricUnit.Seconds,
    Metric.LOWEST_BURST_BALANCE: MetricUnit.Percent,
}
"""The units of metrics that are not counts."""


def metric_unit(metric: Metric) -> MetricUnit:
    """The unit in which a metric is sent."""
    return _UNITS.get(metric, MetricUnit.Count)


class Field(StrEnum):
    """Every field of our log lines, besides those that Powertools writes."""

    ACTION_TAKEN = "action_taken"
    ALERT_ID = "alert_id"
    CHANNEL = "channel"
    DECISION = "decision"
    ERROR_CODE = "error_code"
    KIND = "kind"
    LATE_S = "late_s"
    LEVEL = "volume_level"
    MODE = "mode"
    REASON = "reason"
    TICK = "tick"
    VOLUME_ID = "volume_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """The logger, metrics and tracer of a function, and the remaining seconds of its invocation."""

    logger: Logger
    metrics: EphemeralMetrics
    remaining_s: Callable[[], float] = lambda: inf

    @classmethod
    def from_env(cls, environ: Mapping[str, str], *, stream: IO[str] | None = None) -> Self:
        """From the environment that the stack writes; a missing name does not stop the function."""
        return cls(logger=make_logger(environ, stream=stream), metrics=make_metrics(environ))

    def emit_metric(self, metric: Metric, value: float | None) -> None:
        """Send a metric; an unknown value (None) is not sent."""
        if value is not None:
            self.metrics.add_metric(name=metric, unit=metric_unit(metric), value=value)

    def flush(self) -> None:
        """Write the collected metrics in one line of the log."""
        if self.metrics.metric_set:
            self.metrics.flush_metrics()

    def info(self, message: str, fields: Mapping[Field, Any] | None = None) -> None:
        self.logger.info(message, extra=_log_fields(fields), stacklevel=_CALLER_STACK_LEVEL)

    def warn(self, message: str, fields: Mapping[Field, Any] | None = None) -> None:
        self.logger.warning(message, extra=_log_fields(fields), stacklevel=_CALLER_STACK_LEVEL)

    def error(self, message: str, fields: Mapping[Field, Any] | None = None) -> None:
        self.logger.error(message, extra=_log_fields(fields), stacklevel=_CALLER_STACK_LEVEL)

    def internal_error(
        self, message: str, error: Exception, fields: Mapping[Field, Any] | None = None
    ) -> None:
        """Log an internal error, with its traceback."""
        self.logger.error(message, extra=_log_fields(fields), exc_info=error, stacklevel=_CALLER_STACK_LEVEL)


def make_logger(environ: Mapping[str, str], *, stream: IO[str] | None = None) -> Logger:
    """A logger of JSON lines with the time in UTC, which removes the addresses of webhooks."""
    return Logger(
        service=environ.get(SERVICE) or "burstwatch",
        level=environ.get(LOG_LEVEL) or "INFO",
        stream=stream,
        utc=True,
        use_rfc3339=True,
        json_serializer=_serialize,
    )


def make_metrics(environ: Mapping[str, str]) -> EphemeralMetrics:
    """Metrics in the embedded metric format: CloudWatch reads them from the log, without a call."""
    return EphemeralMetrics(
        namespace=environ.get(NAMESPACE) or "Burstwatch", service=environ.get(SERVICE) or "burstwatch"
    )


def make_tracer(environ: Mapping[str, str]) -> Callable[[Handler], Handler]:
    """A wrapper of handlers that traces invocations which Lambda samples, with their calls to AWS.

    Outside Lambda, and if the stack has tracing off, it returns the handler unchanged.
    """
    is_off = environ.get(TRACE_DISABLED, "").lower() in {"1", "true", "yes", "on"}
    if is_off or not environ.get(_TASK_ROOT):
        return lambda handle: handle

    def trace(handle: Handler) -> Handler:
        @cache
        def traced() -> Handler:
            from aws_lambda_powertools.tracing import Tracer  # noqa: PLC0415 - brings X-Ray's SDK with it

            tracer = Tracer(service=environ.get(SERVICE) or "burstwatch", patch_modules=["botocore"])
            wrapped: Handler = tracer.capture_lambda_handler(handle, capture_response=False)
            return wrapped

        @wraps(handle)
        def handler(event: Any, context: Any) -> Any:
            is_sampled = "Sampled=1" in environ.get(_TRACE_ID, "")
            return (traced() if is_sampled else handle)(event, context)

        return handler

    return trace


def with_telemetry(handle: Callable[[Any, Any, Telemetry], Any]) -> Handler:
    """Make the handler that Lambda calls; its first call builds the telemetry, which later calls reuse.

    Metrics are written even if the invocation fails; an exception of the handler fails it.
    """

    @cache
    def prepared() -> Handler:
        telemetry = Telemetry.from_env(environ)

        @make_tracer(environ)
        def traced(event: Any, context: Any) -> Any:
            remaining_s = lambda: context.get_remaining_time_in_millis() / 1000  # noqa: E731 - as it is read
            return handle(event, context, replace(telemetry, remaining_s=remaining_s))

        def handler(event: Any, context: Any) -> Any:
            try:
                return traced(event, context)
            finally:
                telemetry.flush()

        wrapped: Handler = telemetry.logger.inject_lambda_context(handler, clear_state=True)
        return wrapped

    @wraps(handle)
    def handler(event: Any, context: Any) -> Any:
        return prepared()(event, context)

    return handler


def _log_fields(fields: Mapping[Field, Any] | None) -> dict[str, Any]:
    """The fields by their names; those without a value are left out."""
    return {str(name): value for name, value in (fields or {}).items() if value is not None}


def _serialize(record: Mapping[str, Any]) -> str:
    line = json.dumps(record, default=str, ensure_ascii=False, separators=(",", ":"))
    return _WEBHOOK_PATTERN.sub(r"/\1/…", line).encode("utf-8", "replace").decode()
