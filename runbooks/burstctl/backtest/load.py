"""Reads the input of a backtest: the volumes, and what CloudWatch still has of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from burstctl.backtest.recorded_aws import UNKNOWN_INSTANCE_ID
from burstctl.backtest.recording import Recording, make_recording, restrict_to
from burstctl.cli.output import print_info
from burstctl.context.context import CommandContext
from burstctl.context.metric_resolution import choose_period_s
from burstwatch.adapters.aws.metric_history import HistoryReader
from burstwatch.core.buckets.series import PERIOD_S
from burstwatch.core.ebs.metric_history import MetricHistory
from burstwatch.core.ebs.modification import Modification
from burstwatch.core.ebs.sizing import InstanceLimits
from burstwatch.core.ebs.volume import BURST_IOPS, Volume, baseline_iops
from burstwatch.core.policy.policy import Policy
from burstwatch.core.policy.volume_tags import read_tags
from burstwatch.core.text import format_instant, format_usd, sanitise
from burstwatch.core.watch.api_cost import USD_PER_METRIC
from burstwatch.engine.collector import Collector
from burstwatch.wiring.bootstrap import WORKERS, build_client
from burstwatch.wiring.settings import SettingsError

METRICS: Final = ("balance", "read_ops", "write_ops")
MAX_DAYS: Final = 62
"""CloudWatch keeps means of five minutes for 63 days."""

MAX_USD: Final = 1.0
"""Reads that cost more than this need the operator's consent."""

_DAY_S: Final = 24 * 3600
_METRIC_LAG_S: Final = 120  # the last two minutes may be incomplete; AWS documents no delay
_LEAD_IN_S: Final = 2 * 3600
"""How much is read from before the replay, so that its first evaluation has a past like any other."""

_MAX_TEXT_LENGTH: Final = 600  # a failure of AWS on a few lines


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRequest:
    """The volumes that an operator wants to replay; no IDs means all gp2 volumes of the region."""

    volume_ids: Sequence[str] = ()
    days: int = 14
    assumes_yes: bool = False


class RecordingFilter(Protocol):
    """Takes what it needs of a recording, and says whether it is to be replayed; the others are let go."""

    def __call__(self, recording: Recording, start_s: int, end_s: int, /) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BacktestInput:
    """The recordings to replay, from ``start_s`` to ``end_s``, and the volumes that cannot be replayed.

    ``unsuited`` are volumes that cannot become empty, by reason; ``unseen`` those without any recorded data;
    ``unread`` those whose history could not be read.
    """

    start_s: int
    end_s: int
    period_s: int
    recordings: Sequence[Recording]
    limits: Mapping[str, InstanceLimits] = field(default_factory=dict)
    unsuited: Mapping[str, str] = field(default_factory=dict)
    ignored: Sequence[str] = ()
    unseen: Sequence[str] = ()
    missing: Sequence[str] = ()
    unread: Mapping[str, str] = field(default_factory=dict)
    failures: Sequence[str] = ()
    metrics_requested: int = 0
    api_calls: Mapping[str, int] = field(default_factory=dict)

    @property
    def has_failed(self) -> bool:
        return bool(self.failures or self.missing or self.unread)

    @property
    def read_cost_usd(self) -> float:
        """What the reads cost."""
        return self.metrics_requested * USD_PER_METRIC


@dataclass(slots=True)
class _VolumeSelection:
    volumes: list[Volume] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    unsuited: dict[str, str] = field(default_factory=dict)


def load_from_cloudwatch(
    context: CommandContext, request: InputRequest, recording_filter: RecordingFilter
) -> BacktestInput:
    """Choose the volumes and read what they did.

    Raises:
    SettingsError: the reads would cost more than ``MAX_USD`` without the operator's consent.
    """
    now_s = context.services.clock()
    collector = context.services.build_collector(now_s)
    selection = _select_volumes(request, collector, context.services.policy)
    period_s = choose_period_s(len(selection.volumes), request.days)
    _check_cost(len(selection.volumes), period_s, request)
    end_s = int(now_s - _METRIC_LAG_S) // period_s * period_s
    start_s = end_s - request.days * _DAY_S
    records, _ = collector.modifications([volume.volume_id for volume in selection.volumes])
    loader = _HistoryLoader(
        context=context, period_s=period_s, records=records, recording_filter=recording_filter
    )
    context.progress.begin(f"reading {request.days} days")
    try:
        loader.read(selection.volumes, start_s, end_s)
    finally:
        context.progress.end()
    return BacktestInput(
        start_s=start_s,
        end_s=end_s,
        period_s=period_s,
        recordings=loader.recordings,
        limits=_instance_limits(context, loader.recordings, collector.failures),
        unsuited=selection.unsuited,
        ignored=selection.ignored,
        unseen=loader.unseen,
        missing=selection.missing,
        unread=loader.unread,
        failures=[*collector.failures, *loader.messages],
        metrics_requested=context.services.calls.metrics_requested,
        api_calls=context.services.calls.calls,
    )


def _select_volumes(request: InputRequest, collector: Collector, policy: Policy) -> _VolumeSelection:
    selection = _VolumeSelection()
    if request.volume_ids:
        volumes, selection.missing = collector.volumes_by_id(request.volume_ids)
    else:
        volumes, _ = collector.fleet()
    for volume in volumes:
        if not request.volume_ids and read_tags(volume.tags, policy.mode).is_ignored:
            selection.ignored.append(volume.volume_id)
        elif not volume.is_gp2:
            selection.unsuited[volume.volume_id] = f"it is {volume.volume_type}, which has no burst credits"
        elif baseline_iops(volume.size_gib) >= BURST_IOPS:
            selection.unsuited[volume.volume_id] = f"a gp2 of {volume.size_gib:,} GiB cannot run dry"
        else:
            selection.volumes.append(volume)
    return selection


def _check_cost(volumes: int, period_s: int, request: InputRequest) -> None:
    usd = volumes * len(METRICS) * USD_PER_METRIC
    if usd > MAX_USD and not request.assumes_yes:
        raise SettingsError(
            f"reading the history of {volumes:,} volumes costs {format_usd(usd)} (CloudWatch bills"
            f" {len(METRICS)}"
            f" metrics for each), more than {format_usd(MAX_USD)}: add --yes to read it, or name some of the"
            " volumes; fewer --days cost the same"
        )
    unit = "minute" if period_s == PERIOD_S else "five minutes"
    volume_count = "1 volume" if volumes == 1 else f"{volumes:,} volumes"
    day_count = "1 day" if request.days == 1 else f"{request.days} days"
    print_info(f"reading {day_count} of {volume_count} by the {unit}: {format_usd(usd, decimals=5)}")


@dataclass(slots=True, kw_only=True)
class _HistoryLoader:
    """The histories read; ``records`` are AWS's newest modifications. What the sieve lets go is not held."""

    context: CommandContext
    period_s: int
    records: Mapping[str, Modification]
    recording_filter: RecordingFilter
    recordings: list[Recording] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)

    def read(self, volumes: Sequence[Volume], start_s: int, end_s: int) -> None:
        by_id = {volume.volume_id: volume for volume in volumes}
        client = build_client(self.context.session, "cloudwatch", self.context.services.calls)
        reader = HistoryReader(client, period_s=self.period_s, workers=WORKERS, metrics=METRICS)
        done = 0
        for batch in reader.read(list(by_id), start_s - _LEAD_IN_S, end_s):
            for volume_id, history in batch.histories.items():
                self._add(by_id[volume_id], history, start_s, end_s)
            self.unread |= {
                unread_id: sanitise(str(failure), _MAX_TEXT_LENGTH)
                for unread_id, failure in batch.unread.items()
            }
            messages = (f"cloudwatch:GetMetricData says: {message}" for message in batch.messages)
            self.messages += [text for text in messages if text not in self.messages]
            done += len(batch.histories) + len(batch.unread)
            self.context.progress.report(done, len(by_id))

    def _add(self, volume: Volume, history: MetricHistory, start_s: int, end_s: int) -> None:
        """Add the volume as it was recorded: attached, whatever it is attached to today."""
        past_volume = replace(
            volume,
            attached=True,
            detaching=False,
            attached_at=None,
            instance_id=volume.instance_id or UNKNOWN_INSTANCE_ID,
        )
        full_recording = make_recording(past_volume, history, start_s - _LEAD_IN_S, end_s)
        recording = _cut_at_modification(full_recording, self.records.get(volume.volume_id))
        if not recording.known_minutes(start_s, end_s):
            self.unseen.append(volume.volume_id)
        elif self.recording_filter(recording, start_s, end_s):
            self.recordings.append(recording)


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


def _instance_limits(
    context: CommandContext, recordings: Sequence[Recording], failures: list[str]
) -> Mapping[str, InstanceLimits]:
    """What each instance allows its volumes; what is not known limits nothing, and is said."""
    ec2 = context.services.ec2
    ids = {item.volume.instance_id for item in recordings} - {None, UNKNOWN_INSTANCE_ID}
    instances = ec2.instance_states(sorted(item for item in ids if item))
    ebs = ec2.ebs_limits(sorted(set(instances.types.values())))
    failures += dict.fromkeys(str(failure) for failure in (*instances.unread.values(), *ebs.unread.values()))
    return {
        instance_id: ebs.limits[instance_type]
        for instance_id, instance_type in instances.types.items()
        if instance_type in ebs.limits
    }


def load_from_files(
    recordings: Sequence[Recording], days: int | None, recording_filter: RecordingFilter
) -> BacktestInput:
    """What files have recorded; of longer ones only the last ``days``, where they are given."""
    first_s, end_s = (
        min(recording.first_s for recording in recordings),
        max(recording.end_s for recording in recordings),
    )
    start_s = first_s if days is None else max(first_s, end_s - days * _DAY_S)
    known = [recording for recording in recordings if recording.known_minutes(start_s, end_s)]
    return BacktestInput(
        start_s=start_s,
        end_s=end_s,
        period_s=max(recording.period_s for recording in recordings),
        recordings=[recording for recording in known if recording_filter(recording, start_s, end_s)],
        unseen=[recording.volume.volume_id for recording in recordings if recording not in known],
    )
