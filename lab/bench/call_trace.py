"""How much code one alert and one flip go through: the functions and files of ours that they enter.

    .venv/bin/python lab/bench/call_trace.py [--list]

A volume drains in a lab in the same process. Two things are traced. The first is the pass that first alerts
about it: ``run_tick``, with a channel, the metrics that show what drained it, and no authority to modify.
The second is what the flip function does for one request. It decides again about the volume
(``reassess_order``) and flips it (``execute_flips``: read again, check the guards, record the intent, call
ModifyVolume, record the outcome).

A function counts once, however often it is called, and where it is defined in a file of ``burstwatch``;
module bodies, lambdas, comprehensions and what ``dataclass`` generates do not count. ``--list`` names them.
"""

import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, cast

import burstwatch
from burstlab.fake_aws.in_process_clients import InProcessCloudWatch, InProcessEc2
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.volume import LabVolume
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.aws.cloudwatch import MetricQuery
from burstwatch.adapters.aws.drain_metrics import DrainMetricsResult
from burstwatch.adapters.aws.ec2 import Ec2Reader
from burstwatch.adapters.aws.ec2_modify import Ec2Modifier
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.alerts.alert import Alert
from burstwatch.core.assessment.drain_cause import OPERATIONS_HISTORY_S, DrainMetrics
from burstwatch.core.flips.flip_plan import FlipOrder
from burstwatch.core.flips.outcome import Outcome, OutcomeStatus
from burstwatch.core.ledger.flip_state import Direction
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.policy import Policy
from burstwatch.engine.flip_executor import execute_flips
from burstwatch.engine.reassess import reassess_order
from burstwatch.engine.services import Services
from burstwatch.engine.tick_pass import run_tick

_PACKAGE: Final = str(Path(burstwatch.__path__[0]).resolve())
_VOLUME_ID: Final = "vol-00000000000000001"
_STARTS_AT: Final = datetime(2026, 10, 12, tzinfo=UTC)
_TICK_S: Final = 60
_MAX_TICKS: Final = 240
"""The volume below is empty in two hours and ten minutes: it is alerted long before this is over."""


@dataclass(slots=True)
class CallTrace:
    """The code objects of our files that were entered."""

    code_objects: set[CodeType] = field(default_factory=set)

    def record(self, call: Callable[[], Any]) -> Any:
        """Do this, in whatever threads it starts, and note what it enters."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        try:
            return call()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def functions_by_file(self) -> Mapping[str, Sequence[str]]:
        """The functions entered, by file below ``burstwatch``."""
        names_by_file: dict[str, list[str]] = {}
        for code in self.code_objects:
            if code.co_filename.startswith(_PACKAGE) and not code.co_name.startswith("<"):
                file = str(Path(code.co_filename).relative_to(_PACKAGE))
                names_by_file.setdefault(file, []).append(code.co_qualname)
        return {file: sorted(names) for file, names in sorted(names_by_file.items())}

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            self.code_objects.add(frame.f_code)


@dataclass(slots=True)
class CountingChannel:
    """The channel that receives the alerts."""

    sent: Counter[str] = field(default_factory=Counter)
    name: str = "people"

    def send(self, alert: Alert) -> None:
        """Count the alert by its kind."""
        self.sent[alert.kind] += 1


@dataclass(slots=True)
class InProcessDrainMetrics:
    """What the lab's CloudWatch shows of a volume that drains."""

    cloudwatch: InProcessCloudWatch

    def read(self, volume_ids: Sequence[str], now_s: float) -> DrainMetricsResult:
        """The operations of the last hour, from the lab."""
        reads, writes = (
            {volume_id: MetricQuery(volume_id, metric, "Sum") for volume_id in volume_ids}
            for metric in ("VolumeReadOps", "VolumeWriteOps")
        )
        queries = [*reads.values(), *writes.values()]
        series = self.cloudwatch.read(queries, now_s - OPERATIONS_HISTORY_S, now_s).series
        return DrainMetricsResult(
            drain_metrics={
                i: DrainMetrics(read_ops=series[reads[i]], write_ops=series[writes[i]]) for i in volume_ids
            }
        )


def make_services(fleet: LabFleet) -> Services:
    """The watchdog in front of this fleet, with a ledger in memory and no authority to modify."""
    cloudwatch = InProcessCloudWatch(fleet)
    return Services(
        ec2=Ec2Reader(cast("Any", InProcessEc2(fleet))),
        cloudwatch=cast("Any", cloudwatch),
        ledger=SqliteLedger.in_memory(),
        calls=CallCounter(),
        policy=Policy(),
        location=AwsLocation(region=fleet.settings.region),
        channels=[CountingChannel()],
        drain_metrics_reader=cast("Any", InProcessDrainMetrics(cloudwatch)),
    )


def make_fleet() -> LabFleet:
    """One volume that drains, in the middle of its way."""
    fleet = LabFleet(LabClock.manual(_STARTS_AT - timedelta(hours=1)), LabSettings(lag_s=60))
    fleet.add(
        LabVolume(
            volume_id=_VOLUME_ID,
            size_gib=100,
            load="steady:600",
            balance_pct=43,
            tags={"burstwatch:mode": "auto"},
        )
    )
    fleet.clock.advance(timedelta(hours=1).total_seconds())
    return fleet


def trace_first_alert(fleet: LabFleet, services: Services) -> CallTrace:
    """What the pass enters that alerts first."""
    (channel,) = services.channels
    for _ in range(_MAX_TICKS):
        trace, tick_at_s = CallTrace(), fleet.now_s()
        report = trace.record(lambda: run_tick(services, tick_at_s=tick_at_s, now_s=float(tick_at_s)))  # noqa: B023 - called before the next tick
        assert not report.failures, report.failures
        if cast("CountingChannel", channel).sent:
            return trace
        fleet.clock.advance(_TICK_S)
    raise SystemExit(f"no alert within {_MAX_TICKS} minutes: the volume does not drain as it should")


def trace_request(fleet: LabFleet, services: Services) -> tuple[CallTrace, CallTrace]:
    """What the decision about one request to flip enters, and what the flip does."""
    services = replace(services, modifier=Ec2Modifier(cast("Any", InProcessEc2(fleet))))
    collector = replace(
        services.build_collector(fleet.clock.now_s()), only_volume_ids=frozenset({_VOLUME_ID})
    )
    decision_trace, flip_trace = CallTrace(), CallTrace()
    order = decision_trace.record(lambda: reassess_order(services, _VOLUME_ID, Direction.FLIP, collector))
    assert isinstance(order, FlipOrder), order
    outcome: Outcome = flip_trace.record(lambda: execute_flips(services, [order], collector)[_VOLUME_ID])
    assert outcome.status is OutcomeStatus.FLIPPED, outcome
    return decision_trace, flip_trace


def measure() -> Mapping[str, CallTrace]:
    """The traces, by what was traced."""
    fleet = make_fleet()
    services = make_services(fleet)
    alert_trace = trace_first_alert(fleet, services)
    decision_trace, flip_trace = trace_request(fleet, services)
    return {
        "a pass with its first alert": alert_trace,
        "a request decided again": decision_trace,
        "a flip": flip_trace,
    }


def main(options: Sequence[str]) -> None:
    """Print how many functions and files each enters, and which with ``--list``."""
    print(f"{'':<28}{'functions':>10}{'files':>7}")
    for name, trace in measure().items():
        functions = trace.functions_by_file()
        print(f"{name:<28}{sum(map(len, functions.values())):>10}{len(functions):>7}")
        if "--list" in options:
            print("".join(f"    {file}: {', '.join(names)}\n" for file, names in functions.items()), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
