"""What is to be replayed, read: which volumes there are, and what CloudWatch still knows of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from burstctl.backtest.recorded_aws import NO_INSTANCE
from burstctl.backtest.recording import Recording, record, with_only
from burstctl.cli.output import say
from burstctl.context.context import Desk
from burstctl.context.metric_resolution import finest_s
from burstwatch.adapters.aws.metric_history import HistoryReader
from burstwatch.core.buckets.series import PERIOD_S
from burstwatch.core.ebs.modification import Modification
from burstwatch.core.ebs.sizing import InstanceLimits
from burstwatch.core.ebs.usage import History
from burstwatch.core.ebs.volume import BURST_IOPS, Volume, baseline_iops
from burstwatch.core.policy.policy import Policy
from burstwatch.core.policy.volume_tags import read_tags
from burstwatch.core.text import format_instant, printable
from burstwatch.core.watch.api_cost import USD_PER_METRIC
from burstwatch.engine.collector import Gathering
from burstwatch.wiring.bootstrap import WORKERS, build_client
from burstwatch.wiring.settings import SettingsError

METRICS: Final = ("balance", "read_ops", "write_ops")
MOST_DAYS: Final = 62
"""CloudWatch keeps means of five minutes for 63 days."""

MOST_USD: Final = 1.0
"""Reads that cost more than this are not made without being told so."""

_DAY_S: Final = 24 * 3600
_LAG_S: Final = 120
_BEFORE_S: Final = 2 * 3600
"""So much is read from before the replay: its first look has a past, as every look has."""

_LONGEST: Final = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What an operator wants replayed; no ids are all gp2 volumes of the region."""

    volume_ids: Sequence[str] = ()
    days: int = 14
    assumes_yes: bool = False


class Sieve(Protocol):
    """Takes what it needs of a recording, and says whether it is to be replayed; the others are let go."""

    def __call__(self, recording: Recording, start_s: int, end_s: int, /) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What is to be replayed, from ``start_s`` to ``end_s``, and all that cannot be.

    ``unsuited`` are volumes that cannot run dry, by why; ``unseen`` those of which nothing was recorded;
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
    def usd_read(self) -> float:
        """What the reads cost."""
        return self.metrics_requested * USD_PER_METRIC


@dataclass(slots=True)
class _Chosen:
    volumes: list[Volume] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    unsuited: dict[str, str] = field(default_factory=dict)


def read_recorded(desk: Desk, request: Request, sieve: Sieve) -> Recorded:
    """Choose the volumes and read what they did.

    Raises:
        SettingsError: the reads would cost more than ``MOST_USD``, and nobody agreed to that.
    """
    now_s = desk.shell.clock()
    gathering = desk.shell.gathering(now_s)
    chosen = _choose(request, gathering, desk.shell.policy)
    period_s = finest_s(len(chosen.volumes), request.days)
    _say_price(len(chosen.volumes), period_s, request)
    end_s = int(now_s - _LAG_S) // period_s * period_s
    start_s = end_s - request.days * _DAY_S
    records, _ = gathering.modifications([volume.volume_id for volume in chosen.volumes])
    reading = _Reading(desk=desk, period_s=period_s, records=records, sieve=sieve)
    desk.progress.begin(f"reading {request.days} days")
    try:
        reading.read(chosen.volumes, start_s, end_s)
    finally:
        desk.progress.end()
    return Recorded(
        start_s=start_s,
        end_s=end_s,
        period_s=period_s,
        recordings=reading.recordings,
        limits=_limits(desk, reading.recordings, gathering.failures),
        unsuited=chosen.unsuited,
        ignored=chosen.ignored,
        unseen=reading.unseen,
        missing=chosen.missing,
        unread=reading.unread,
        failures=[*gathering.failures, *reading.messages],
        metrics_requested=desk.shell.calls.metrics_requested,
        api_calls=desk.shell.calls.calls,
    )


def _choose(request: Request, gathering: Gathering, policy: Policy) -> _Chosen:
    chosen = _Chosen()
    if request.volume_ids:
        volumes, chosen.missing = gathering.by_id(request.volume_ids)
    else:
        volumes, _ = gathering.fleet()
    for volume in volumes:
        if not request.volume_ids and read_tags(volume.tags, policy.mode).is_ignored:
            chosen.ignored.append(volume.volume_id)
        elif not volume.is_gp2:
            chosen.unsuited[volume.volume_id] = f"it is {volume.volume_type}, which has no burst credits"
        elif baseline_iops(volume.size_gib) >= BURST_IOPS:
            chosen.unsuited[volume.volume_id] = f"a gp2 of {volume.size_gib:,} GiB cannot run dry"
        else:
            chosen.volumes.append(volume)
    return chosen


def _say_price(volumes: int, period_s: int, request: Request) -> None:
    usd = volumes * len(METRICS) * USD_PER_METRIC
    if usd > MOST_USD and not request.assumes_yes:
        raise SettingsError(
            f"reading the history of {volumes:,} volumes costs ${usd:,.2f} (CloudWatch bills {len(METRICS)}"
            f" metrics for each), more than ${MOST_USD:,.2f}: add --yes to read it, or name some of the"
            " volumes; fewer --days cost the same"
        )
    unit = "minute" if period_s == PERIOD_S else "five minutes"
    many = "1 volume" if volumes == 1 else f"{volumes:,} volumes"
    days = "1 day" if request.days == 1 else f"{request.days} days"
    say(f"reading {days} of {many} by the {unit}: ${usd:.5f}")


@dataclass(slots=True, kw_only=True)
class _Reading:
    """The histories read; ``records`` are AWS's newest modifications. What the sieve lets go is not held."""

    desk: Desk
    period_s: int
    records: Mapping[str, Modification]
    sieve: Sieve
    recordings: list[Recording] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)

    def read(self, volumes: Sequence[Volume], start_s: int, end_s: int) -> None:
        by_id = {volume.volume_id: volume for volume in volumes}
        client = build_client(self.desk.session, "cloudwatch", self.desk.shell.calls)
        reader = HistoryReader(client, period_s=self.period_s, workers=WORKERS, metrics=METRICS)
        done = 0
        for found in reader.read(list(by_id), start_s - _BEFORE_S, end_s):
            for volume_id, history in found.histories.items():
                self._take(by_id[volume_id], history, start_s, end_s)
            self.unread |= {i: printable(str(why), _LONGEST) for i, why in found.unread.items()}
            said = (f"cloudwatch:GetMetricData says: {message}" for message in found.messages)
            self.messages += [each for each in said if each not in self.messages]
            done += len(found.histories) + len(found.unread)
            self.desk.progress.report(done, len(by_id))

    def _take(self, volume: Volume, history: History, start_s: int, end_s: int) -> None:
        """The volume as it was then: on an instance, whatever it is attached to today."""
        then = replace(
            volume,
            attached=True,
            detaching=False,
            attached_at=None,
            instance_id=volume.instance_id or NO_INSTANCE,
        )
        recorded = record(then, history, start_s - _BEFORE_S, end_s)
        recording = _cut(recorded, self.records.get(volume.volume_id))
        if not recording.known_minutes(start_s, end_s):
            self.unseen.append(volume.volume_id)
        elif self.sieve(recording, start_s, end_s):
            self.recordings.append(recording)


def _cut(recording: Recording, modification: Modification | None) -> Recording:
    """The recording without what the volume did while it was something else, as far as AWS remembers that."""
    if modification is None or modification.started_at is None or modification.has_failed:
        return recording
    started_s = int(modification.started_at.timestamp())
    if modification.is_in_progress:
        if started_s >= recording.end_s:
            return recording
        why = f"it is being modified since {format_instant(started_s)}"
        return with_only(recording, recording.first_s, started_s, why)
    ended_s = int(modification.ended_at.timestamp()) if modification.ended_at else started_s
    if ended_s <= recording.first_s:
        return recording
    why = f"it was modified until {format_instant(ended_s)}, and was something else before"
    return with_only(recording, ended_s, recording.end_s, why)


def _limits(desk: Desk, recordings: Sequence[Recording], failures: list[str]) -> Mapping[str, InstanceLimits]:
    """What each instance allows its volumes; what is not known limits nothing, and is said."""
    ec2 = desk.shell.ec2
    ids = {each.volume.instance_id for each in recordings} - {None, NO_INSTANCE}
    found = ec2.instance_states(sorted(each for each in ids if each))
    ebs = ec2.ebs_limits(sorted(set(found.types.values())))
    failures += dict.fromkeys(str(failure) for failure in (*found.unread.values(), *ebs.unread.values()))
    return {i: ebs.limits[kind] for i, kind in found.types.items() if kind in ebs.limits}


def from_files(recordings: Sequence[Recording], days: int | None, sieve: Sieve) -> Recorded:
    """What files have recorded; of longer ones only the last ``days``, where they are given."""
    first_s, end_s = min(each.first_s for each in recordings), max(each.end_s for each in recordings)
    start_s = first_s if days is None else max(first_s, end_s - days * _DAY_S)
    seen = [each for each in recordings if each.known_minutes(start_s, end_s)]
    return Recorded(
        start_s=start_s,
        end_s=end_s,
        period_s=max(each.period_s for each in recordings),
        recordings=[each for each in seen if sieve(each, start_s, end_s)],
        unseen=[each.volume.volume_id for each in recordings if each not in seen],
    )
