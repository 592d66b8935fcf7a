"""Reads the input of a backtest: the volumes, and what CloudWatch still has of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from burstctl.backtest.bucket_replay import RecordedBucket
from burstctl.backtest.recorded_aws import UNKNOWN_INSTANCE_ID
from burstctl.backtest.recording import Recording, make_recording, restrict_to
from burstctl.cli.output import print_info
from burstctl.context.context import CommandContext
from burstctl.context.metric_resolution import choose_period_s
from burstctl.context.resources import resolve_resource, resolve_volumes
from burstctl.context.volume_histories import (
    METRIC_LAG_S,
    VolumeSelection,
    check_read_cost,
    read_histories,
    read_instance_limits,
    select_volumes,
)
from burstwatch.core.buckets.series import PERIOD_S, Series
from burstwatch.core.durations import DAY_S, HOUR_S
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.ebs.metric_history import MetricHistory
from burstwatch.core.ebs.modification import Modification
from burstwatch.core.ebs.volume import Volume, can_burst
from burstwatch.core.ebs.volume_bucket import bucket_of
from burstwatch.core.policy.policy import Policy
from burstwatch.core.resource_type import ResourceType, type_of_id
from burstwatch.core.text import format_count, format_instant, format_usd
from burstwatch.core.watch.api_cost import USD_PER_METRIC
from burstwatch.core.watch.polling.due_buckets import DueBucket, buckets_of
from burstwatch.engine.collector import Collector
from burstwatch.engine.resource_readers import ADVISED_KINDS, find_resources, list_resources

_WITH_VOLUMES: Final = (ResourceType.EBS, ResourceType.INSTANCE)
METRICS: Final = ("balance", "read_ops", "write_ops")
MAX_DAYS: Final = 62
"""CloudWatch keeps means of five minutes for 63 days."""

MAX_USD: Final = 1.0
"""Reads that cost more than this need the operator's consent."""

_LEAD_IN_S: Final = 2 * HOUR_S
"""How much is read from before the replay, so that its first evaluation has a past like any other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRequest:
    """The volumes that an operator wants to replay; no names means all volumes that the policy watches."""

    names: Sequence[str] = ()
    days: int = 14
    assumes_yes: bool = False


class RecordingFilter(Protocol):
    """Takes what it needs of a recording, and says whether it is to be replayed; the others are let go."""

    def __call__(self, recording: Recording, start_s: int, end_s: int, /) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BacktestInput:
    """The recordings from ``start_s`` to ``end_s``; ``unseen`` are volumes without any recorded data."""

    start_s: int
    end_s: int
    period_s: int
    recordings: Sequence[Recording]
    limits: Mapping[str, InstanceLimits] = field(default_factory=dict)
    unseen: Sequence[str] = ()
    selection: VolumeSelection = field(default_factory=VolumeSelection)
    buckets: Sequence[RecordedBucket] = ()
    """Those of instances, file systems and databases."""


def load_from_cloudwatch(
    context: CommandContext, request: InputRequest, recording_filter: RecordingFilter
) -> BacktestInput:
    """Choose the volumes and read what they did.

    Raises:
    SettingsError: the reads would cost more than ``MAX_USD`` without the operator's consent.
    """
    services = context.services
    now_s = services.clock()
    collector = services.build_collector(now_s)
    names = [resolve_resource(context, name, prefers=can_burst) for name in request.names]
    selection = _select_volumes_of(context, collector, names)
    due = _list_buckets(collector, names, services.policy, selection)
    volume_count = len(selection.volumes)
    period_s = choose_period_s(volume_count, request.days)
    usd = check_read_cost(volume_count, len(METRICS), max_usd=MAX_USD, assumes_yes=request.assumes_yes)
    unit = "minute" if period_s == PERIOD_S else "five minutes"
    usd += len(due) * USD_PER_METRIC
    buckets_text = f" and {format_count(len(due), 'other bucket')}" if due else ""
    print_info(
        f"reading {format_count(request.days, 'day')} of {format_count(volume_count, 'volume')}{buckets_text}"
        f" by the {unit}: {format_usd(usd, decimals=5)}"
    )
    end_s = int(now_s - METRIC_LAG_S) // period_s * period_s
    start_s = end_s - request.days * DAY_S
    records, _ = collector.modifications([volume.volume_id for volume in selection.volumes])
    context.progress.begin(f"reading {request.days} days")
    try:
        recordings, unseen = _read_recordings(
            context, selection, records, recording_filter, start_s, end_s, period_s=period_s
        )
    finally:
        context.progress.end()
    buckets = _read_buckets(collector, due, start_s - _LEAD_IN_S, end_s, days=request.days)
    seen_ids = {bucket.due.resource.resource_id for bucket in buckets}
    unseen += dict.fromkeys(
        item.resource.resource_id for item in due if item.resource.resource_id not in seen_ids
    )
    attached = [
        recording.volume for recording in recordings if recording.volume.instance_id != UNKNOWN_INSTANCE_ID
    ]
    limits = read_instance_limits(context, attached, selection.failures)
    selection.count_calls(services.calls)
    return BacktestInput(
        start_s=start_s,
        end_s=end_s,
        period_s=period_s,
        recordings=recordings,
        limits=limits,
        unseen=unseen,
        selection=selection,
        buckets=buckets,
    )


def _select_volumes_of(
    context: CommandContext, collector: Collector, names: Sequence[str]
) -> VolumeSelection:
    """The volumes that these IDs mean, those of instances among them; the whole fleet without an ID."""
    volume_names = [name for name in names if type_of_id(name) in _WITH_VOLUMES]
    if names and not volume_names:
        return VolumeSelection(failures=collector.failures)
    volume_ids = resolve_volumes(context, volume_names, prefers=can_burst)
    return select_volumes(collector, volume_ids, context.services.policy.mode, _unsuited_reason)


def _read_recordings(
    context: CommandContext,
    selection: VolumeSelection,
    records: Mapping[str, Modification],
    recording_filter: RecordingFilter,
    start_s: int,
    end_s: int,
    *,
    period_s: int,
) -> tuple[list[Recording], list[str]]:
    """The recordings that the filter keeps, and the volumes without any recorded data."""
    recordings: list[Recording] = []
    unseen: list[str] = []

    def add_recording(volume: Volume, history: MetricHistory) -> None:
        """Add the volume as it was recorded: attached, whatever it is attached to today."""
        past_volume = replace(
            volume,
            attached=True,
            detaching=False,
            attached_at=None,
            instance_id=volume.instance_id or UNKNOWN_INSTANCE_ID,
        )
        full_recording = make_recording(past_volume, history, start_s - _LEAD_IN_S, end_s)
        recording = _cut_at_modification(full_recording, records.get(volume.volume_id))
        if not recording.known_minutes(start_s, end_s):
            unseen.append(volume.volume_id)
        elif recording_filter(recording, start_s, end_s):
            recordings.append(recording)

    read_histories(
        context,
        selection,
        start_s - _LEAD_IN_S,
        end_s,
        period_s=period_s,
        metrics=METRICS,
        add=add_recording,
    )
    return recordings, unseen


def _list_buckets(
    collector: Collector, names: Sequence[str], policy: Policy, selection: VolumeSelection
) -> list[DueBucket]:
    """The buckets of these instances, file systems and databases; without names, of watched ones."""
    advised_ids = [name for name in names if type_of_id(name) is not ResourceType.EBS]
    resources, missing = find_resources(collector, advised_ids)
    selection.missing = [*selection.missing, *missing]
    if not names:
        for kind in ADVISED_KINDS:
            resources += (list_resources(collector, kind) or ()) if kind in policy.resources.watched else ()
    return [due for due in buckets_of(resources) if due.is_polled]


def _read_buckets(
    collector: Collector, due: Sequence[DueBucket], start_s: int, end_s: int, *, days: int
) -> list[RecordedBucket]:
    """What was recorded of these buckets; after 15 days, CloudWatch has no minutes any more."""
    least_period_s = choose_period_s(1, days)
    histories = collector.bucket_histories(due, start_s, end_s, least_period_s=least_period_s)
    return [
        RecordedBucket(due=item, balance=balance)
        for item in due
        if (balance := histories.get(item.subject, Series()))
    ]


def _unsuited_reason(volume: Volume) -> str | None:
    if not volume.has_bucket:
        command = f"burstctl which {volume.volume_id}"
        return f"it is {volume.volume_type}, which has no burst credits; {command} shows its limits"
    if not bucket_of(volume).highest_drain_per_s:
        return f"{volume.volume_type} of {volume.size_gib:,} GiB cannot run out of credits"
    return None


def _cut_at_modification(recording: Recording, modification: Modification | None) -> Recording:
    """The recording without what the volume did while it was something else, as far as AWS remembers that."""
    if modification is None or modification.started_at is None or modification.has_failed:
        return recording
    started_at_s = int(modification.started_at.timestamp())
    if modification.is_in_progress:
        if started_at_s >= recording.end_s:
            return recording
        reason = f"it is being modified since {format_instant(started_at_s)}"
        return restrict_to(recording, recording.first_s, started_at_s, reason)
    ended_at_s = int(modification.ended_at.timestamp()) if modification.ended_at else started_at_s
    if ended_at_s <= recording.first_s:
        return recording
    reason = f"it was modified until {format_instant(ended_at_s)}, and was something else before"
    return restrict_to(recording, ended_at_s, recording.end_s, reason)


def load_from_files(
    recordings: Sequence[Recording], days: int | None, recording_filter: RecordingFilter
) -> BacktestInput:
    """What files have recorded; of longer ones only the last ``days``, where they are given."""
    first_s, end_s = (
        min(recording.first_s for recording in recordings),
        max(recording.end_s for recording in recordings),
    )
    start_s = first_s if days is None else max(first_s, end_s - days * DAY_S)
    known = [recording for recording in recordings if recording.known_minutes(start_s, end_s)]
    return BacktestInput(
        start_s=start_s,
        end_s=end_s,
        period_s=max(recording.period_s for recording in recordings),
        recordings=[recording for recording in known if recording_filter(recording, start_s, end_s)],
        unseen=[recording.volume.volume_id for recording in recordings if recording not in known],
    )
