"""Whether a filter for a tag makes a listing of volumes shorter."""

from typing import Final

from burstctl.aws_check.bench import Bench
from burstctl.aws_check.fact import Cost, Fact
from burstctl.aws_check.paging import ACTIONS, EACH, judge, walk
from burstctl.aws_check.result import Steps

_KEY: Final = "aws-check-half"


def measure(bench: Bench) -> Steps:
    """List half of the volumes by a tag."""
    for half in ("first", "second"):
        for _ in range(EACH):
            yield from bench.volume(1, **{_KEY: f"{half}-{bench.run.run_id}"})
    return judge(walk(bench, {"Name": f"tag:{_KEY}", "Values": [f"second-{bench.run.run_id}"]}))


FACT: Final = Fact(
    name="tag-filter",
    question="Is a tag filter of DescribeVolumes applied before or after a page is cut?",
    why="Users report after: then watching a few tagged volumes takes as many calls as watching all.",
    minutes=20,
    actions=ACTIONS,
    measure=measure,
    cost=Cost(gp2_gib=2 * EACH),
)
