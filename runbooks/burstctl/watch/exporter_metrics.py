"""Every metric that ``burstctl watch`` exports to Prometheus, and the type of a value."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

PREFIX: Final = "burstwatch_"
MAX_VOLUMES: Final = 1000
"""The most volumes with their own metrics, the most urgent ones."""


class MetricKind(StrEnum):
    """What a metric's value means."""

    GAUGE = "gauge"
    COUNTER = "counter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric, its name without the prefix; that of a counter ends in ``_total``."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    kind: MetricKind = MetricKind.GAUGE

    @property
    def full_name(self) -> str:
        return f"{PREFIX}{self.name}"


@dataclass(frozen=True, slots=True)
class MetricValue:
    """A value of a metric, with a value for each of its labels."""

    metric: Metric
    value: float
    labels: tuple[str, ...] = ()


def _per_region(name: str, help: str, *labels: str, kind: MetricKind = MetricKind.GAUGE) -> Metric:  # noqa: A002
    return Metric(name=name, help=help, labels=("region", *labels), kind=kind)


def _per_volume(name: str, help: str, *labels: str) -> Metric:  # noqa: A002
    return Metric(name=name, help=help, labels=("region", "volume_id", *labels))


def _per_bucket(name: str, help: str, *labels: str) -> Metric:  # noqa: A002
    return Metric(name=name, help=help, labels=("region", "resource_id", "bucket", *labels))


BUILD_INFO: Final = Metric(
    name="build_info", help="The version of burstwatch; always 1.", labels=("version",)
)
WATCH_INFO: Final = _per_region(
    "watch_info", "What this process watches, and whether it may flip; always 1.", "account", "acts"
)

LAST_PASS: Final = _per_region(
    "last_pass_timestamp_seconds",
    "When the last completed pass of this process began.",
)
LAST_PASS_DURATION: Final = _per_region("last_pass_duration_seconds", "How long that pass took.")
PASSES: Final = _per_region(
    "passes_total",
    "Passes: complete, partial (something could not be read or done), failed, or elsewhere (done by"
    " another process with this ledger).",
    "result",
    kind=MetricKind.COUNTER,
)

VOLUMES: Final = _per_region("volumes", "Volumes at each level, after the last pass.", "level")
WATCHED: Final = _per_region("volumes_watched", "gp2 volumes that the last whole sweep found.")
IN_FOCUS: Final = _per_region("volumes_in_focus", "Volumes looked at every one to five minutes.")
FLIPPED: Final = _per_region("volumes_flipped", "Volumes that are flipped, or are being flipped or returned.")
UNREAD: Final = _per_region("volumes_unread", "Volumes that could not be read, and so are not watched.")
STUCK: Final = _per_region("flips_stuck", "Modifications that take far longer than expected.")
VOLUMES_LEFT_OUT: Final = _per_region(
    "volumes_left_out",
    f"Volumes that would have metrics of their own, but are beyond the {MAX_VOLUMES} most urgent.",
)
LOWEST_BALANCE: Final = _per_region(
    "lowest_burst_balance_ratio",
    "The lowest burst balance of all volumes in focus, from 0 to 1.",
)
SOONEST_EMPTY: Final = _per_region(
    "soonest_time_to_empty_seconds",
    "Estimated time until the first draining volume is empty, when last read.",
)
DATAPOINT_AGE: Final = _per_region(
    "newest_datapoint_age_seconds",
    "How old the newest datapoint of the last pass was: how far CloudWatch lags.",
)
WORST_DATAPOINT_AGE: Final = _per_region(
    "worst_datapoint_age_seconds",
    "How old the oldest datapoint of the last pass was, among volumes that are not full and so must"
    " publish one.",
)
HOLDS: Final = _per_region("holds", "Holds in force, on everything and on single volumes.", "scope")
POLICY_REJECTED: Final = _per_region(
    "policy_rejected", "1 while the policy cannot be used or read, and the last valid one stays in force."
)

OUTCOMES: Final = _per_region(
    "outcomes_total",
    "Outcomes of requested modifications: flipped, flipped_back, refused or failed.",
    "action",
    kind=MetricKind.COUNTER,
)
ALERTS_SENT: Final = _per_region(
    "alerts_sent_total", "Alerts that reached a channel.", kind=MetricKind.COUNTER
)
ALERTS_WAITING: Final = _per_region(
    "alerts_waiting", "Alerts that a channel did not accept in the last pass; they are tried again."
)
FAILURES: Final = _per_region(
    "failures_total",
    "What could not be read or done in passes, each reported on stderr.",
    kind=MetricKind.COUNTER,
)
AWS_CALLS: Final = _per_region(
    "aws_calls_total", "Requests sent to AWS in passes, retries as well.", "call", kind=MetricKind.COUNTER
)
METRICS_READ: Final = _per_region(
    "cloudwatch_metrics_read_total",
    "Metrics requested of CloudWatch, which bills 0.01 dollars per 1000.",
    kind=MetricKind.COUNTER,
)

VOLUME_INFO: Final = _per_volume(
    "volume_info",
    "Which volume it is; always 1. Join it to have names: on (volume_id) group_left (name).",
    "name",
    "volume_type",
    "instance_id",
    "mode",
)
VOLUME_LEVEL: Final = _per_volume(
    "volume_level",
    "The level that the volume is at, 1 for that one only; reason says why it is unknown.",
    "level",
    "reason",
)
VOLUME_BALANCE: Final = _per_volume("volume_burst_balance_ratio", "Credits left in the bucket, from 0 to 1.")
VOLUME_BASELINE: Final = _per_volume(
    "volume_baseline_iops", "Operations per second that its size earns; as many credits come back."
)
VOLUME_DRAIN: Final = _per_volume(
    "volume_drain_credits_per_second", "Credits that leave the bucket per second; negative while it refills."
)
VOLUME_TIME_TO_EMPTY: Final = _per_volume(
    "volume_time_to_empty_seconds",
    "Estimated time until it is empty, when last read; absent while it does not drain.",
)
VOLUME_SOONEST_EMPTY: Final = _per_volume(
    "volume_soonest_empty_seconds",
    "No workload can empty it sooner, when last read; a bound, not an estimate.",
)
VOLUME_SERVED_IOPS: Final = _per_volume(
    "volume_served_iops",
    "Operations per second over the newest five minutes, if they are read.",
    "operation",
)
VOLUME_DATAPOINT_TIME: Final = _per_volume(
    "volume_datapoint_timestamp_seconds", "The end of the minute that its newest datapoint is about."
)
VOLUME_FLIP_INFO: Final = _per_volume(
    "volume_flip_info",
    "The flip of a volume that is not gp2, or is being modified; always 1.",
    "phase",
    "direction",
    "cause",
    "target",
)

BUCKET_INFO: Final = _per_bucket(
    "bucket_info",
    "Which bucket of which resource other than a volume it is; always 1.",
    "name",
    "resource_type",
    "type",
    "mode",
)
BUCKET_LEVEL: Final = _per_bucket(
    "bucket_level",
    "The level that the bucket is at, 1 for that one only; reason says why it is unknown.",
    "level",
    "reason",
)
BUCKET_BALANCE: Final = _per_bucket("bucket_balance_ratio", "Credits left in the bucket, from 0 to 1.")
BUCKET_DRAIN: Final = _per_bucket(
    "bucket_drain_per_second",
    "Credits that leave the bucket per second, operations or MiB; negative while it refills.",
)
BUCKET_TIME_TO_EMPTY: Final = _per_bucket(
    "bucket_time_to_empty_seconds",
    "Estimated time until it is empty, when last read; absent while it does not drain.",
)
BUCKET_SOONEST_EMPTY: Final = _per_bucket(
    "bucket_soonest_empty_seconds",
    "No workload can empty it sooner, when last read; a bound, not an estimate.",
)

METRICS: Final = tuple(value for value in globals().values() if isinstance(value, Metric))
"""All metrics, in the order of the output."""
