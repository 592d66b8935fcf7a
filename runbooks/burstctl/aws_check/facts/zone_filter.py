"""Whether a filter for the zone makes a listing of volumes shorter."""

from typing import Final

from burstctl.aws_check.fact import Cost, Fact
from burstctl.aws_check.fact_context import VOLUME_ACTIONS, FactContext
from burstctl.aws_check.paging import VOLUMES_PER_GROUP, judge, read_pages
from burstctl.aws_check.result import NotMeasuredError, Steps


def measure(context: FactContext) -> Steps:
    """List the volumes of one of two zones."""
    zones = context.list_zones()
    if len(zones) == 1:
        raise NotMeasuredError(f"{zones[0]} is the only zone: take another Region")
    for zone in zones[:2]:
        for _ in range(VOLUMES_PER_GROUP):
            yield from context.create_volume(1, zone=zone)
    return judge(read_pages(context, {"Name": "availability-zone", "Values": [zones[1]]}))


FACT: Final = Fact(
    name="zone-filter",
    question="Is the filter availability-zone of DescribeVolumes applied before or after a page is cut?",
    why="If before, a large Region can be listed zone by zone at the same time; if after, each such listing"
    " takes as many calls as the whole.",
    minutes=20,
    actions=VOLUME_ACTIONS,
    measure=measure,
    cost=Cost(gp2_gib=2 * VOLUMES_PER_GROUP),
)
