"""metrics.md: the metrics of the stack in CloudWatch, and those of ``burstctl watch`` for Prometheus."""

from burstctl.watch.exporter_metrics import METRICS
from burstwatch.wiring.observability import Metric, metric_unit
from documents.reference.markdown import escape, page, paragraph, require_same_keys, table

_CLOUDWATCH = {
    Metric.VOLUMES_WATCHED: "gp2 volumes that the last whole sweep found",
    Metric.VOLUMES_IN_FOCUS: "volumes that are polled every one to five minutes; sent only if not zero",
    Metric.VOLUMES_UNREAD: "volumes that could not be read, and so are not watched",
    Metric.VOLUMES_OK: "volumes at level `ok`",
    Metric.VOLUMES_WATCH: "volumes at level `watch`; sent only if not zero",
    Metric.VOLUMES_WARNING: "volumes at level `warning`",
    Metric.VOLUMES_CRITICAL: "volumes at level `critical`",
    Metric.VOLUMES_EXHAUSTED: "volumes at level `exhausted`",
    Metric.VOLUMES_UNKNOWN: "volumes that could not be judged; sent only if not zero",
    Metric.VOLUMES_FLIPPED: "volumes that are flipped, or are being flipped or returned",
    Metric.BUCKETS_WARNING: (
        "buckets of instances and other resources at level `warning`; like the next three, sent only if not"
        " zero"
    ),
    Metric.BUCKETS_CRITICAL: "such buckets at level `critical`",
    Metric.BUCKETS_EXHAUSTED: "such buckets at level `exhausted`",
    Metric.BUCKETS_UNKNOWN: "such buckets that could not be judged",
    Metric.NEWEST_DATAPOINT_AGE: "age of the newest datapoint of a pass: how late CloudWatch is",
    Metric.WORST_DATAPOINT_AGE: (
        "age of the oldest datapoint of a pass; sent only if it exceeds `cadence.metric_lag`"
    ),
    Metric.DATAPOINT_SPACING: (
        "time between the newest datapoints of a volume; sent only if it exceeds a minute"
    ),
    Metric.SOONEST_TIME_TO_EMPTY: "estimated time until the first draining volume or bucket is empty",
    Metric.LOWEST_BURST_BALANCE: "lowest balance of all volumes and buckets in focus",
    Metric.TICKS: "ticks that were processed",
    Metric.LATE_TICKS: "ticks of more than two minutes' age, which only settle what is open",
    Metric.FLIPS: "flips that AWS accepted",
    Metric.FLIPS_BACK: "returns that AWS accepted",
    Metric.FLIPS_REFUSED: "flips and returns that a guard refused",
    Metric.FLIPS_FAILED: "flips and returns that failed, and requests that were dropped as too old",
    Metric.FLIPS_STUCK: "modifications that take far longer than expected",
    Metric.ALERTS_SENT: "alerts that reached a channel",
    Metric.ALERTS_NOT_DELIVERED: "alerts that a channel did not accept; they are tried again",
    Metric.POLICY_REJECTED: (
        "1 for each pass while the policy cannot be used, and the last valid one stays in force"
    ),
    Metric.FLIP_AUTHORITY_MISSING: "1 for each pass while another deployment flips in this Region",
    Metric.PROBE_EVENTS_DROPPED: "reports of ddprobe that were invalid, too many or too old",
    Metric.EBS_EVENTS_DROPPED: "EBS events that waited for more than five minutes",
}


def metrics_page() -> str:
    """The page."""
    require_same_keys(_CLOUDWATCH, list(Metric), "metrics")
    return page(
        "# Metrics",
        "## In CloudWatch",
        paragraph(
            "The functions of a stack write these metrics into their logs (embedded metric format), in the"
            " namespace `Burstwatch` with the dimension `service`, which is the name of the deployment."
            " Counts of events are sent only if they are not zero, because CloudWatch bills a metric for"
            " each hour in which it is sent: [what it costs](../deploying.md#what-it-costs)."
        ),
        table(
            ("Metric", "Unit", "Meaning"),
            [(f"`{metric}`", metric_unit(metric).value, text) for metric, text in _CLOUDWATCH.items()],
        ),
        "## For Prometheus",
        paragraph(
            "`burstctl watch --metrics-port PORT` serves these: [how to scrape them](../prometheus.md)."
            " Times are seconds since 1970 or durations in seconds, and shares go from 0 to 1. An unknown"
            " value is absent, and never zero."
        ),
        table(
            ("Metric", "Type", "Labels", "Meaning"),
            [
                (
                    f"`{metric.full_name}`",
                    str(metric.kind),
                    ", ".join(f"`{label}`" for label in metric.labels),
                    escape(metric.help),
                )
                for metric in METRICS
            ],
        ),
        paragraph(
            "The page also has the `process_…` metrics of Prometheus clients: memory, processor time, open"
            " files."
        ),
    )
