"""Which results the events about a modification have."""

import json
from collections.abc import Sequence
from typing import Final

from burstctl.aws_check.fact import Cost, Fact
from burstctl.aws_check.fact_context import GP3, MODIFICATION_ACTIONS, POLL_INTERVAL_S, FactContext
from burstctl.aws_check.queues import ACTIONS as QUEUE_ACTIONS
from burstctl.aws_check.queues import create_queue, queue_arn, receive_messages
from burstctl.aws_check.resources import make_tags
from burstctl.aws_check.result import Measurement, NotMeasuredError, Steps

_RULE_PROPAGATION_S: Final = 60
"""A new rule may take this long to match events."""

_EVENT_DELAY_S: Final = 300  # EBS events are best effort: what is not there by now may never come
_ORDER: Final = ("modifying", "optimizing", "completed")
_PATTERN: Final = {
    "source": ["aws.ec2"],
    "detail-type": ["EBS Volume Notification"],
    "detail": {"event": ["modifyVolume"]},
}


def judge(results: Sequence[str]) -> Measurement:
    """By the results in all events about one completed modification.

    Raises:
        NotMeasuredError: none arrived.
    """
    if not results:
        raise NotMeasuredError("no event arrived: they may be lost, or the rule was not known in time")
    distinct = sorted(
        set(results),
        key=lambda result: (result not in _ORDER, _ORDER.index(result) if result in _ORDER else 0),
    )
    return Measurement(
        answer=", ".join(distinct), values={"results": distinct}, evidence={"arrived": list(results)}
    )


def measure(context: FactContext) -> Steps:
    """Modify a volume while a rule sends its events to a queue."""
    volume_id = yield from context.create_volume(1)
    queue = _create_rule_and_queue(context)
    yield _RULE_PROPAGATION_S
    context.modify_volume_or_fail(volume_id, **GP3)
    ended_at_s, results = None, list[str]()
    while ended_at_s is None or context.now_s() < ended_at_s + _EVENT_DELAY_S:
        yield POLL_INTERVAL_S
        results += [
            str(event["detail"]["result"])
            for event in map(json.loads, receive_messages(context, queue))
            if any(str(arn).endswith(volume_id) for arn in event["resources"])
        ]
        record = context.read_modification(volume_id)
        if (
            ended_at_s is None
            and record is not None
            and record["ModificationState"] in ("completed", "failed")
        ):
            ended_at_s = context.now_s()
    return judge(results)


def _create_rule_and_queue(context: FactContext) -> str:
    """Create a rule for modifications of volumes, with a queue as its target; return the queue."""
    name, events = f"{context.resource_name}-events", context.client("events")
    region_and_account = f"{context.run_file.region}:{context.run_file.account}"
    rule_arn = f"arn:{context.partition}:events:{region_and_account}:rule/{name}"
    queue = create_queue(context, name, service="events", source_arn=rule_arn)

    def put_rule() -> str:
        events.put_rule(Name=name, EventPattern=json.dumps(_PATTERN), Tags=make_tags(context.run_file.run_id))
        return name

    context.create("rule", put_rule)
    events.put_targets(Rule=name, Targets=[{"Id": "queue", "Arn": queue_arn(context, name)}])
    return queue


FACT: Final = Fact(
    name="event-results",
    question="Which results do the modifyVolume events of a modification have?",
    why="AWS documents optimizing only. burstwatch takes events as hints, and must not wait for one that"
    " never comes.",
    minutes=75,
    actions=(
        *MODIFICATION_ACTIONS,
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
