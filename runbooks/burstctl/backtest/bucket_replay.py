"""What the watchdog would have alerted about instances, file systems and databases, which it never changes.

There is nothing to modify, so no world is simulated: each bucket is assessed and decided about by itself, at
the polls that its policy leads to. Its resource is what it is today.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from burstctl.backtest.replay import TICK_DURATION_S, ReplayConfig
from burstctl.backtest.scoring import Depletion, SentAlert, count_by_kind, find_depletions, find_least_lead_s
from burstwatch.core.assessment.assess_resource import METRIC_LATENESS_S, BucketReading, assess_resource
from burstwatch.core.assessment.resource import AdvisedResource
from burstwatch.core.buckets.poll_interval import is_sweep_due
from burstwatch.core.buckets.series import Series
from burstwatch.core.durations import HOUR_S
from burstwatch.core.instances.instance import Instance
from burstwatch.core.policy.bucket_policy import policy_of_bucket
from burstwatch.core.policy.policy import FOCUS_TICK, Policy
from burstwatch.core.policy.volume_tags import read_tags
from burstwatch.core.watch.api_cost import USD_PER_METRIC
from burstwatch.core.watch.decide import decide
from burstwatch.core.watch.decision import TickContext
from burstwatch.core.watch.polling.cadence import sweep_ticks
from burstwatch.core.watch.polling.due_buckets import DueBucket

if TYPE_CHECKING:
    from burstwatch.core.ledger.resource_state import ResourceState

_TICK_S: Final = int(FOCUS_TICK.total_seconds())
_HORIZON_S: Final = HOUR_S + METRIC_LATENESS_S
"""The longest horizon of a forecast of a bucket that lasts as long as that of a gp2 volume."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedBucket:
    """A bucket and its recorded balance, in the unit of its metric."""

    due: DueBucket
    balance: Series


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketTally:
    """The result for one bucket; ``known_s`` is for how long its balance was recorded."""

    due: DueBucket
    known_s: int
    alerts: Sequence[SentAlert]
    depletions: Sequence[Depletion]
    usd_watching: float

    @property
    def by_kind(self) -> dict[str, int]:
        """How many alerts of each kind, reminders included."""
        return count_by_kind(self.alerts)

    @property
    def least_lead_s(self) -> int | None:
        """The shortest time from an alert to an empty bucket; None if it was never empty."""
        return find_least_lead_s(self.depletions)


def replay_bucket(recorded: RecordedBucket, config: ReplayConfig) -> BucketTally:
    """Poll one bucket from tick to tick as the watchdog would, and count what came of it."""
    due, balance = recorded.due, recorded.balance
    policy = policy_of_bucket(config.policy, due.kind, due.bucket)
    sweep_tick_s = int(policy.cadence.sweep_tick.total_seconds())
    ticks = sweep_ticks(due.bucket, policy.cadence)
    alerts: list[SentAlert] = []
    state: ResourceState | None = None
    next_poll_at_s, polls = None, 0
    tick_at_s = config.start_s // sweep_tick_s * sweep_tick_s
    while tick_at_s < config.end_s:
        sweep = tick_at_s // sweep_tick_s
        is_swept = not tick_at_s % sweep_tick_s and is_sweep_due(due.subject, ticks, sweep, sweep)
        if is_swept or (next_poll_at_s is not None and tick_at_s >= next_poll_at_s):
            polls += 1
            state, sent = _poll(recorded, state, policy, tick_at_s, config)
            alerts += sent
            next_poll_at_s = state.next_poll_at_s if state else None
        tick_at_s = (sweep + 1) * sweep_tick_s if next_poll_at_s is None else tick_at_s + _TICK_S
    span = balance.since(config.start_s)
    percentages = (
        (at_s, due.bucket.pct_of(value) if due.kind.is_in_credits else value)
        for at_s, value in zip(span.starts_at_s, span.values, strict=True)
    )
    return BucketTally(
        due=due,
        known_s=len(span) * balance.period_s,
        alerts=alerts,
        depletions=find_depletions(percentages, alerts, (), policy=policy, start_s=config.start_s),
        usd_watching=polls * USD_PER_METRIC,
    )


def _as_of(resource: AdvisedResource, now_s: float) -> AdvisedResource:
    """The resource at that time: EC2 shows only when an instance was launched last."""
    if isinstance(resource, Instance) and resource.launched_at.timestamp() > now_s:
        return replace(resource, launched_at=datetime.min.replace(tzinfo=UTC))
    return resource


def _poll(
    recorded: RecordedBucket,
    state: "ResourceState | None",
    policy: Policy,
    tick_at_s: int,
    config: ReplayConfig,
) -> "tuple[ResourceState | None, list[SentAlert]]":
    """The state after one poll, and the alerts of it.

    A long time without any datapoint is assumed to be a stopped instance, as for volumes.
    """
    due, balance, now_s = recorded.due, recorded.balance, tick_at_s + TICK_DURATION_S
    newest_s = now_s - max(policy.cadence.metric_lag.total_seconds(), balance.period_s)
    published = balance.closed_by(newest_s + balance.period_s)
    visible = published.since(newest_s - _HORIZON_S * due.bucket.time_scale)
    newest = visible.newest
    if newest is None or now_s - newest.end_at_s >= policy.telemetry.gap_after.total_seconds():
        return None, []
    assessment = assess_resource(
        _as_of(due.resource, now_s),
        due.kind,
        BucketReading(balance=visible),
        now_s=now_s,
        telemetry=policy.telemetry,
    )
    decision = decide(
        assessment,
        state,
        read_tags(due.resource.tags, config.policy.mode, known_windows=frozenset()),
        policy=policy,
        context=TickContext(now_s=now_s, tick_at_s=tick_at_s, location=config.location),
    )
    sent = [
        SentAlert(at_s=alert.at_s, kind=alert.kind, level=alert.level, is_reminder=alert.is_reminder)
        for alert in decision.alerts
    ]
    return (decision.change.state if decision.change else state), sent
