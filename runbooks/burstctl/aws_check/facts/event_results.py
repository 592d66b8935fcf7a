"""Which results the events about a modification have."""

import json
from collections.abc import Sequence
from typing import Final

from burstctl.aws_check.bench import LOOK_EVERY_S, Bench
from burstctl.aws_check.fact import Cost, Fact
from burstctl.aws_check.queues import ACTIONS as QUEUE_ACTIONS
from burstctl.aws_check.queues import create_queue, queue_arn, receive
from burstctl.aws_check.resources import tags
from burstctl.aws_check.result import Measured, NotMeasured, Steps

_KNOWN_S: Final = 60
"""So long a new rule may take to match."""

_LATE_S: Final = 300
_ORDER: Final = ("modifying", "optimizing", "completed")
_PATTERN: Final = {
    "source": ["aws.ec2"],
    "detail-type": ["EBS Volume Notification"],
    "detail": {"event": ["modifyVolume"]},
}


def judge(results: Sequence[str]) -> Measured:
    """By the results in all events about one completed modification.

    Raises:
        NotMeasured: none arrived.
    """
    if not results:
        raise NotMeasured("no event arrived: they may be lost, or the rule was not known in time")
    found = sorted(
        set(results), key=lambda each: (each not in _ORDER, _ORDER.index(each) if each in _ORDER else 0)
    )
    return Measured(answer=", ".join(found), values={"results": found}, evidence={"arrived": list(results)})


def measure(bench: Bench) -> Steps:
    """Modify a volume while a rule sends its events to a queue."""
    volume_id = yield from bench.volume(1)
    queue = _build(bench)
    yield _KNOWN_S
    if (refusal := bench.modify(volume_id, VolumeType="gp3", Iops=3000, Throughput=125)) is not None:
        raise NotMeasured(f"ModifyVolume was refused ({refusal.code}): {refusal.message}")
    ended_s, results = None, list[str]()
    while ended_s is None or bench.now_s() < ended_s + _LATE_S:
        yield LOOK_EVERY_S
        results += [
            str(event["detail"]["result"])
            for event in map(json.loads, receive(bench, queue))
            if any(str(arn).endswith(volume_id) for arn in event["resources"])
        ]
        record = bench.modification(volume_id)
        if ended_s is None and record is not None and record["ModificationState"] in ("completed", "failed"):
            ended_s = bench.now_s()
    return judge(results)


def _build(bench: Bench) -> str:
    """A rule for modifications of volumes and a queue behind it; answers the queue."""
    name, events = f"{bench.name}-events", bench.client("events")
    place = f"{bench.run.region}:{bench.run.account}"
    rule_arn = f"arn:{bench.partition}:events:{place}:rule/{name}"
    queue = create_queue(bench, name, service="events", source_arn=rule_arn)

    def put_rule() -> str:
        events.put_rule(Name=name, EventPattern=json.dumps(_PATTERN), Tags=tags(bench.run.run_id))
        return name

    bench.create("rule", put_rule)
    events.put_targets(Rule=name, Targets=[{"Id": "queue", "Arn": queue_arn(bench, name)}])
    return queue


FACT: Final = Fact(
    name="event-results",
    question="Which results do the modifyVolume events of a modification have?",
    why="AWS documents optimizing only. burstwatch takes events as hints, and must not wait for one that"
    " never comes.",
    minutes=75,
    actions=(
        "ec2:DescribeAvailabilityZones",
        "ec2:CreateVolume",
        "ec2:CreateTags",
        "ec2:DescribeVolumes",
        "ec2:ModifyVolume",
        "ec2:DescribeVolumesModifications",
        "ec2:DeleteVolume",
        "events:PutRule",
        "events:TagResource",
        "events:PutTargets",
        "events:DescribeRule",
        "events:ListTagsForResource",
        "events:ListTargetsByRule",
        "events:RemoveTargets",
        "events:DeleteRule",
        *QUEUE_ACTIONS,
    ),
    measure=measure,
    cost=Cost(gp3_gib=1),
)
