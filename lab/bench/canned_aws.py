"""AWS for a large fleet whose answers are ready, so that what is measured waits for AWS, not for the lab.

    .venv/bin/python lab/bench/canned_aws.py VOLUMES [none | some]

The lab simulates each volume, which for 100,000 of them takes it minutes. Here volumes differ in size. With
``some``, one in twenty (of up to 100 GiB) drains at full burst since ten minutes before ``FIRST_TICK_S``; the
others keep their balance between 98 and 100 %. Everything else is the lab's: the server, the latency, the
counting of calls, the DynamoDB table. The responses have the lab's form: a test compares them.
"""

import json
import os
import signal
import sys
from contextlib import AbstractContextManager
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from threading import Event
from typing import Any, Final

from server_process import start_server

from burstlab.fake_aws.dynamodb import FakeDynamoDb
from burstlab.fake_aws.ec2.query import parse_list
from burstlab.fake_aws.protocols import Call, Response, ec2_response, parse_form
from burstlab.fake_aws.server import Endpoint
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet
from burstwatch.core.ebs.volume import BUCKET_CREDITS, baseline_iops, highest_drain_per_s

LATENCY_MS: Final = 30
LEDGER_LATENCY_MS: Final = 5
"""What a call to DynamoDB takes, begun in the same region."""

FIRST_TICK_S: Final = 1_795_197_600
"""On the grid of the sweep."""
_DRAIN_STARTS_AT_S: Final = FIRST_TICK_S - 600
_LAG_S: Final = 60

SIZES_GIB: Final = (8, 30, 100, 334, 500, 900)
_DRAINABLE_SIZES: Final = 3
_DRAIN_INTERVAL: Final = 10
"""Of the volumes of the three smaller sizes, so one in twenty of all."""

_PAGE: Final = 500
_TEN_DIGITS: Final = 10**10
UNITS_PATH: Final = "/_bench/units"
_LEDGER_ACTIONS: Final = ("GetItem", "BatchGetItem", "Query", "PutItem", "DeleteItem", "TransactWriteItems")


def volume_id_of(number: int) -> str:
    return f"vol-{number:017x}"


def size_gib_of(number: int) -> int:
    return SIZES_GIB[number % len(SIZES_GIB)]


def is_draining(number: int) -> bool:
    """Whether this volume drains in a fleet of which some do."""
    round_number, size_index = divmod(number, len(SIZES_GIB))
    return size_index < _DRAINABLE_SIZES and round_number % _DRAIN_INTERVAL == 0


class CannedEc2:
    """DescribeVolumes, and DescribeVolumesModifications, which lists nothing."""

    def __init__(self, volumes: int) -> None:
        self._volumes = volumes

    def handles(self, call: Call) -> bool:
        return call.action in {"DescribeVolumes", "DescribeVolumesModifications"}

    def handle(self, call: Call) -> Response:
        if call.action == "DescribeVolumesModifications":
            return ec2_response(call.action, "<volumeModificationSet/>")
        request = parse_form(call.body)
        if volume_ids := parse_list(request, "VolumeId"):
            numbers = [int(volume_id.removeprefix("vol-"), 16) for volume_id in volume_ids]
            return ec2_response(call.action, f"<volumeSet>{_volumes_xml(numbers)}</volumeSet>")
        first = int(request.get("NextToken", "0"))
        return self._page(first, min(first + _PAGE, self._volumes))

    @lru_cache(maxsize=1_000)  # noqa: B019 - the process ends with it
    def _page(self, first: int, end: int) -> Response:
        token = f"<nextToken>{end}</nextToken>" if end < self._volumes else ""
        elements = f"<volumeSet>{_volumes_xml(range(first, end))}</volumeSet>{token}"
        return ec2_response("DescribeVolumes", elements)


def _volumes_xml(numbers: Any) -> str:
    return "".join(map(_volume_xml, numbers))


def _volume_xml(number: int) -> str:
    """One volume as EC2 describes it, with the tags that volumes usually have."""
    volume_id, size_gib = volume_id_of(number), size_gib_of(number)
    tags = {"Name": f"build-{number}", "team": f"team-{number % 40}", "stage": "production"}
    tags_xml = "".join(f"<item><key>{key}</key><value>{value}</value></item>" for key, value in tags.items())
    created_at = "2025-03-01T09:30:00.000Z"
    return (
        f"<item><volumeId>{volume_id}</volumeId><size>{size_gib}</size><snapshotId/>"
        f"<availabilityZone>us-east-1a</availabilityZone><status>in-use</status><createTime>{created_at}</createTime>"
        f"<attachmentSet><item><volumeId>{volume_id}</volumeId><instanceId>i-{number // 2:017x}</instanceId>"
        f"<device>/dev/sda1</device><status>attached</status><attachTime>{created_at}</attachTime>"
        f"<deleteOnTermination>true</deleteOnTermination></item></attachmentSet><tagSet>{tags_xml}</tagSet>"
        f"<volumeType>gp2</volumeType><iops>{baseline_iops(size_gib)}</iops><encrypted>false</encrypted>"
        "<multiAttachEnabled>false</multiAttachEnabled><operator><managed>false</managed></operator></item>"
    )


class CannedCloudWatch:
    """GetMetricData for balance, operations and bytes: the same for all volumes of a size that fare alike."""

    def __init__(self, *, some_drain: bool) -> None:
        self._some_drain = some_drain

    def handles(self, call: Call) -> bool:
        return call.action == "GetMetricData"

    def handle(self, call: Call) -> Response:
        request = json.loads(call.body)
        start_s, end_s = request["StartTime"], request["EndTime"]
        results = [self._result(query, start_s, end_s) for query in request["MetricDataQueries"]]
        body = '{"MetricDataResults":[' + ",".join(results) + '],"Messages":[]}'
        return Response(body=body.encode(), content_type="application/x-amz-json-1.0")

    def _result(self, query: Any, start_s: float, end_s: float) -> str:
        stat = query["MetricStat"]
        metric = stat["Metric"]
        number = int(metric["Dimensions"][0]["Value"].removeprefix("vol-"), 16)
        size_gib = size_gib_of(number) if self._some_drain and is_draining(number) else None
        result_json = _result_json(metric["MetricName"], size_gib, number % 4, stat["Period"], start_s, end_s)
        return f'{{"Id":"{query["Id"]}",{result_json}'


@lru_cache(maxsize=100_000)
def _result_json(
    metric: str, size_gib: int | None, sort: int, period_s: int, start_s: float, end_s: float
) -> str:
    """One result but for its id.

    ``size_gib`` is None for a calm volume, of which there are four sorts.
    """
    first_start_s = int(start_s) // period_s * period_s
    last_start_s = int(end_s) - _LAG_S - period_s
    starts_s = range(first_start_s, last_start_s + 1, period_s)
    values = [_datapoint(metric, size_gib, sort, period_s, at_s + period_s) for at_s in starts_s]
    document = {"Label": metric, "Timestamps": list(starts_s), "Values": values, "StatusCode": "Complete"}
    return json.dumps(document, separators=(",", ":"))[1:]


def _datapoint(metric: str, size_gib: int | None, sort: int, period_s: int, end_at_s: int) -> float:
    """Of the period that ends then: its least balance, or what was done in it."""
    drained_s = max(0, end_at_s - _DRAIN_STARTS_AT_S) if size_gib else 0
    if metric != "BurstBalance":
        iops = 3_000 if drained_s else 20
        return float(iops * period_s / 2 * (16_384 if metric.endswith("Bytes") else 1))
    if size_gib is None:
        noise = (end_at_s // 60 * 2_654_435_761 * (sort + 1)) % _TEN_DIGITS / _TEN_DIGITS
        return 100.0 if sort < 2 else round(98 + 2 * noise, 10)
    used_fraction = drained_s * highest_drain_per_s(baseline_iops(size_gib)) / BUCKET_CREDITS
    return max(0.0, 100 * (1 - used_fraction))


class CannedEndpoint(Endpoint):
    """The lab's server with these answers, and one table of DynamoDB."""

    def __init__(self, volumes: int, *, some_drain: bool) -> None:
        super().__init__(LabFleet(LabClock.manual()))
        self.table = FakeDynamoDb()
        self.tables[self.table.table] = self.table
        self._apis |= {"ec2": CannedEc2(volumes), "monitoring": CannedCloudWatch(some_drain=some_drain)}  # type: ignore[dict-item]
        self.faults.set_latency(LATENCY_MS)
        for action in _LEDGER_ACTIONS:
            self.faults.set_latency(LEDGER_LATENCY_MS, action)

    def __call__(self, environ: Any, start_response: Any) -> Any:
        """As the lab does, which does not report what a table has cost so far."""
        if environ["PATH_INFO"] != UNITS_PATH:
            return super().__call__(environ, start_response)
        document = {**asdict(self.table.units), "calls": self.table.calls.total()}
        return self._send(
            Response(body=json.dumps(document).encode(), content_type="application/json"), start_response
        )


def serve_canned_aws(volumes: int, *, some_drain: bool) -> AbstractContextManager[dict[str, str]]:
    """Such an AWS in a process of its own."""
    command = [sys.executable, __file__, str(volumes), "some" if some_drain else "none"]
    roots = [str(Path(__file__).parents[2] / root) for root in ("lambdas", "runbooks", "lab")]
    return start_server(command, {**os.environ, "PYTHONPATH": os.pathsep.join(roots)})


def main(volumes: int, *, some_drain: bool) -> None:
    """Serve until a signal stops it."""
    stop = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with CannedEndpoint(volumes, some_drain=some_drain) as aws:
        for name, value in aws.environment.items():
            print(f"export {name}={value}", flush=True)
        stop.wait()


if __name__ == "__main__":
    main(int(sys.argv[1]), some_drain=sys.argv[2:] == ["some"])
