"""Counts the requests of a pass to AWS as they are sent."""

from collections import Counter
from collections.abc import Callable
from math import inf
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from burstwatch.adapters.aws.errors import OutOfTimeError

if TYPE_CHECKING:
    from botocore.client import BaseClient


_LIMITED_CALLS: Final = ("ec2:Describe", "cloudwatch:Get")
"""The reads of a pass: it can go on without an answer, and reports what is missing."""


class CallCounter:
    """Counts the requests of every client that it is attached to, and limits the time of reads; thread-safe.

    ``calls`` counts each request that was sent, including botocore's own retries, by names such as
    ``ec2:DescribeVolumes``. ``metrics_requested`` is what CloudWatch bills: the queries of each GetMetricData
    call, once for each page. Retries are not counted, because a refused request is not billed.
    Source: the Amazon CloudWatch pricing page.

    After ``limit_reads``, reads of EC2 and CloudWatch fail when the time is over, including retries of a read
    under way. Modifications, the ledger and deliveries are not limited.
    """

    def __init__(self, monotonic: Callable[[], float] = monotonic) -> None:
        self._monotonic = monotonic
        self._read_limit_s, self._read_deadline_s = inf, inf
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
            event_name = f"before-parameter-build.{service}.GetMetricData"
            events.register(event_name, self._count_metrics, unique_id=f"{name}-metrics")

    @property
    def calls(self) -> dict[str, int]:
        with self._lock:
            return dict(sorted(self._calls.items()))

    @property
    def metrics_requested(self) -> int:
        with self._lock:
            return self._metrics_requested

    def reset(self) -> None:
        """Start again at zero, for a client that is used in several passes; reads are no longer limited."""
        self.limit_reads(inf)
        with self._lock:
            self._calls.clear()
            self._metrics_requested = 0

    def limit_reads(self, seconds: float) -> None:
        """Let no read be sent later than ``seconds`` from now."""
        self._read_limit_s, self._read_deadline_s = seconds, self._monotonic() + seconds

    def _count_call(self, event_name: str, **_: object) -> None:
        service, operation = event_name.split(".")[1:]
        name = f"{service}:{operation}"
        if name.startswith(_LIMITED_CALLS) and self._monotonic() >= self._read_deadline_s:
            seconds = max(0.0, self._read_limit_s)
            raise OutOfTimeError(why=f"the {seconds:.0f} s that a pass has for its reads are over")
        with self._lock:
            self._calls[name] += 1

    def _count_metrics(self, params: dict[str, Any], **_: object) -> None:
        with self._lock:
            self._metrics_requested += len(params.get("MetricDataQueries", ()))
