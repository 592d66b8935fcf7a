"""Whether a filter for a tag makes a listing of volumes shorter."""

from typing import Final

from burstctl.aws_check.fact import Cost, Fact
from burstctl.aws_check.fact_context import VOLUME_ACTIONS, FactContext
from burstctl.aws_check.paging import VOLUMES_PER_GROUP, judge, read_pages
from burstctl.aws_check.result import Steps

_KEY: Final = "aws-check-half"


def measure(context: FactContext) -> Steps:
    """List half of the volumes by a tag."""
    for half in ("first", "second"):
        for _ in range(VOLUMES_PER_GROUP):
            yield from context.create_volume(1, **{_KEY: f"{half}-{context.run_file.run_id}"})
    return judge(
        read_pages(context, {"Name": f"tag:{_KEY}", "Values": [f"second-{context.run_file.run_id}"]})
    )


FACT: Final = Fact(
    name="tag-filter",
    question="Is a tag filter of DescribeVolumes applied before or after a page is cut?",
    why="Users report after: then watching a few tagged volumes takes as many calls as watching all.",
    minutes=20,
    actions=VOLUME_ACTIONS,
    measure=measure,
    cost=Cost(gp2_gib=2 * VOLUMES_PER_GROUP),
)
