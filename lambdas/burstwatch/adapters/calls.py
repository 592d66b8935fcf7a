"""What a pass asks of AWS, counted as it is sent."""

from collections import Counter
from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from botocore.client import BaseClient


class CallCounter:
    """Counts the requests of every client it is attached to, from any number of threads.

    ``calls`` holds each request that went out, botocore's own retries as well, under names such as
    ``ec2:DescribeVolumes``. ``metrics_requested`` is what CloudWatch bills: the queries of each GetMetricData
    call, once for each page, but not again for a retry, because a refused request is not billed.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._calls: Counter[str] = Counter()
        self._metrics_requested = 0

    def attach(self, client: "BaseClient") -> None:
        """Count what this client sends; attaching twice counts once."""
        events = client.meta.events
        service = client.meta.service_model.service_id.hyphenize()
        name = f"burstwatch-{id(self)}"
        events.register(f"before-send.{service}", self._count_call, unique_id=f"{name}-calls")
        if service == "cloudwatch":
            asked = f"before-parameter-build.{service}.GetMetricData"
            events.register(asked, self._count_metrics, unique_id=f"{name}-metrics")

    @property
    def calls(self) -> dict[str, int]:
        with self._lock:
            return dict(sorted(self._calls.items()))

    @property
    def metrics_requested(self) -> int:
        with self._lock:
            return self._metrics_requested

    def reset(self) -> None:
        """Begin anew, for a client that outlives one pass."""
        with self._lock:
            self._calls.clear()
            self._metrics_requested = 0

    def _count_call(self, event_name: str, **_: object) -> None:
        service, operation = event_name.split(".")[1:]
        with self._lock:
            self._calls[f"{service}:{operation}"] += 1

    def _count_metrics(self, params: dict[str, Any], **_: object) -> None:
        with self._lock:
            self._metrics_requested += len(params.get("MetricDataQueries", ()))
