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


_VOLUME_LABELS: Final = ("region", "volume_id")

BUILD_INFO: Final = Metric(
    name="build_info", help="The version of burstwatch; always 1.", labels=("version",)
)
WATCH_INFO: Final = Metric(
    name="watch_info",
    help="What this process watches, and whether it may flip; always 1.",
    labels=("region", "account", "acts"),
)

LAST_PASS: Final = Metric(
    name="last_pass_timestamp_seconds",
    help="When the last pass of this process began, of those that it carried through.",
    labels=("region",),
)
LAST_PASS_DURATION: Final = Metric(
    name="last_pass_duration_seconds", help="How long that pass took.", labels=("region",)
)
PASSES: Final = Metric(
    name="passes_total",
    help="Passes: complete, partial (something could not be read or done), failed, or elsewhere (done by"
    " another process with this ledger).",
    labels=("region", "result"),
    kind=MetricKind.COUNTER,
)

VOLUMES: Final = Metric(
    name="volumes", help="Volumes at each level, after the last pass.", labels=("region", "level")
)
WATCHED: Final = Metric(
    name="volumes_watched", help="gp2 volumes that the last whole sweep found.", labels=("region",)
)
IN_FOCUS: Final = Metric(
    name="volumes_in_focus", help="Volumes looked at every one to five minutes.", labels=("region",)
)
FLIPPED: Final = Metric(
    name="volumes_flipped", help="Volumes away from gp2, or on their way there and back.", labels=("region",)
)
UNREAD: Final = Metric(
    name="volumes_unread", help="Volumes that could not be read, and so are not watched.", labels=("region",)
)
STUCK: Final = Metric(
    name="flips_stuck", help="Modifications that take far longer than expected.", labels=("region",)
)
VOLUMES_LEFT_OUT: Final = Metric(
    name="volumes_left_out",
    help=f"Volumes that would have metrics of their own, but are beyond the {MAX_VOLUMES} most urgent.",
    labels=("region",),
)
LOWEST_BALANCE: Final = Metric(
    name="lowest_burst_balance_ratio",
    help="The lowest burst balance of all volumes with anything going on, from 0 to 1.",
    labels=("region",),
)
SOONEST_EMPTY: Final = Metric(
    name="soonest_time_to_empty_seconds",
    help="How soon the first of the draining volumes is dry, as estimated by the last look at it.",
    labels=("region",),
)
DATAPOINT_AGE: Final = Metric(
    name="newest_datapoint_age_seconds",
    help="How old the newest datapoint of the last pass was: how far CloudWatch lags.",
    labels=("region",),
)
WORST_DATAPOINT_AGE: Final = Metric(
    name="worst_datapoint_age_seconds",
    help="How old the oldest datapoint of the last pass was, among volumes that are not full and so must"
    " publish one.",
    labels=("region",),
)
HOLDS: Final = Metric(
    name="holds", help="Holds in force, on everything and on single volumes.", labels=("region", "scope")
)
POLICY_REJECTED: Final = Metric(
    name="policy_rejected",
    help="1 while the policy cannot be used or read, and the last good one stays in force.",
    labels=("region",),
)

OUTCOMES: Final = Metric(
    name="outcomes_total",
    help="What became of wanted modifications: flipped, flipped_back, refused or failed.",
    labels=("region", "action"),
    kind=MetricKind.COUNTER,
)
ALERTS_SENT: Final = Metric(
    name="alerts_sent_total",
    help="Alerts that reached a channel.",
    labels=("region",),
    kind=MetricKind.COUNTER,
)
ALERTS_WAITING: Final = Metric(
    name="alerts_waiting",
    help="Alerts that a channel did not take in the last pass; they are tried again.",
    labels=("region",),
)
FAILURES: Final = Metric(
    name="failures_total",
    help="What could not be read or done in passes, each said on stderr.",
    labels=("region",),
    kind=MetricKind.COUNTER,
)
AWS_CALLS: Final = Metric(
    name="aws_calls_total",
    help="Requests sent to AWS in passes, retries as well.",
    labels=("region", "call"),
    kind=MetricKind.COUNTER,
)
METRICS_READ: Final = Metric(
    name="cloudwatch_metrics_read_total",
    help="Metrics requested of CloudWatch, which bills 0.01 dollars per 1000.",
    labels=("region",),
    kind=MetricKind.COUNTER,
)

VOLUME_INFO: Final = Metric(
    name="volume_info",
    help="Which volume it is; always 1. Join it to have names: on (volume_id) group_left (name).",
    labels=(*_VOLUME_LABELS, "name", "volume_type", "instance_id", "mode"),
)
VOLUME_LEVEL: Final = Metric(
    name="volume_level",
    help="The level that the volume is at, 1 for that one only; reason says why it is unknown.",
    labels=(*_VOLUME_LABELS, "level", "reason"),
)
VOLUME_BALANCE: Final = Metric(
    name="volume_burst_balance_ratio", help="Credits left in the bucket, from 0 to 1.", labels=_VOLUME_LABELS
)
VOLUME_BASELINE: Final = Metric(
    name="volume_baseline_iops",
    help="Operations per second that its size earns; as many credits come back.",
    labels=_VOLUME_LABELS,
)
VOLUME_DRAIN: Final = Metric(
    name="volume_drain_credits_per_second",
    help="Credits that leave the bucket per second; negative while it refills.",
    labels=_VOLUME_LABELS,
)
VOLUME_TIME_TO_EMPTY: Final = Metric(
    name="volume_time_to_empty_seconds",
    help="Estimated time until it is dry, at the last look; absent while it does not drain.",
    labels=_VOLUME_LABELS,
)
VOLUME_SOONEST_EMPTY: Final = Metric(
    name="volume_soonest_empty_seconds",
    help="No workload can empty it sooner, at the last look; a bound and no estimate.",
    labels=_VOLUME_LABELS,
)
VOLUME_SERVED_IOPS: Final = Metric(
    name="volume_served_iops",
    help="Operations per second over the newest five minutes, where they are read.",
    labels=(*_VOLUME_LABELS, "operation"),
)
VOLUME_DATAPOINT_TIME: Final = Metric(
    name="volume_datapoint_timestamp_seconds",
    help="The end of the minute that its newest datapoint is about.",
    labels=_VOLUME_LABELS,
)
VOLUME_FLIP_INFO: Final = Metric(
    name="volume_flip_info",
    help="The flip of a volume that is away from gp2 or on its way; always 1.",
    labels=(*_VOLUME_LABELS, "phase", "direction", "cause", "target"),
)

METRICS: Final = tuple(value for value in globals().values() if isinstance(value, Metric))
"""All metrics, in the order of the output."""
