"""A backtest: a replay of recorded load under a policy, and its result."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from burstctl.backtest.bucket_replay import BucketTally, replay_bucket
from burstctl.backtest.load import BacktestInput
from burstctl.backtest.recording import Recording
from burstctl.backtest.replay import ReplayConfig, cost_of_calm_volume, is_calm_throughout, replay
from burstctl.backtest.scoring import SentAlert, Tally, Totals, sent_alerts, sum_tallies, tally_volume
from burstwatch.core.durations import DAY_S
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.policy import Mode, Policy
from burstwatch.core.resource_type import ResourceType
from burstwatch.core.tag_keys import IGNORE, MODE

MIN_RECORDED_S: Final = DAY_S
"""Of a volume that was seen for less than this, little can be said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BacktestRequest:
    """Had this policy run: on volumes ``as_tagged``, or else on all of them as if they had opted in."""

    policy: Policy
    policy_location: str
    location: AwsLocation
    lag_s: int
    as_tagged: bool = False
    target: VolumeType | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Backtest:
    """The answer: the most eventful volumes first."""

    request: BacktestRequest
    config: ReplayConfig
    source: BacktestInput
    tallies: Sequence[Tally]
    window_alerts: Sequence[SentAlert]
    totals: Totals
    bucket_tallies: Sequence[BucketTally] = ()

    @property
    def may_act(self) -> bool:
        """Whether the policy lets anything be modified."""
        return self.config.policy.mode.highest is Mode.AUTO


@dataclass(slots=True)
class CalmVolumeFilter:
    """Tallies the volumes that stay calm while they are read, and keeps nothing else of them."""

    request: BacktestRequest
    tallies: list[Tally] = field(default_factory=list)

    def __call__(self, recording: Recording, start_s: int, end_s: int, /) -> bool:
        config = _replay_config(self.request, start_s, end_s, {})
        tagged_recording = _with_mode_tags(recording, self.request)
        if not is_calm_throughout(tagged_recording, config.policy):
            return True
        self.tallies.append(tally_volume(cost_of_calm_volume(tagged_recording, config), config))
        return False


def run_backtest(
    source: BacktestInput,
    calm_filter: CalmVolumeFilter,
    *,
    report_progress: Callable[[int, int], None] = lambda _done, _days: None,
) -> Backtest:
    """Replay what was recorded, and add what the sieve has tallied already."""
    request = calm_filter.request
    config = _replay_config(request, source.start_s, source.end_s, source.limits)
    recordings = [_with_mode_tags(item, request) for item in source.recordings]
    replayed = replay(recordings, config, report_progress=report_progress)
    tallies = [*calm_filter.tallies, *(tally_volume(item, config) for item in replayed.volumes)]
    window_alerts = sent_alerts(replayed.window_entries)
    return Backtest(
        request=request,
        config=config,
        source=source,
        tallies=sorted(tallies, key=lambda item: item.urgency),
        window_alerts=window_alerts,
        totals=sum_tallies(tallies, window_alerts, replayed.metrics_of_instances),
        bucket_tallies=[replay_bucket(item, config) for item in source.buckets],
    )


def _replay_config(
    request: BacktestRequest, start_s: int, end_s: int, limits: Mapping[str, InstanceLimits]
) -> ReplayConfig:
    # only volumes are replayed, each of which was chosen
    policy = request.policy.watching_everything().watching((ResourceType.EBS,))
    if request.target is not None:
        policy = replace(policy, flip=replace(policy.flip, target=request.target))
    return ReplayConfig(
        policy=policy,
        location=request.location,
        lag_s=request.lag_s,
        start_s=start_s,
        end_s=end_s,
        limits=limits,
    )


def _with_mode_tags(recording: Recording, request: BacktestRequest) -> Recording:
    """The volume as if it had opted in. A volume that is named is not ignored, whatever its tags say."""
    tags: Mapping[str, str] = {name: text for name, text in recording.volume.tags.items() if name != IGNORE}
    if not request.as_tagged:
        key, value = request.policy.mode.opt_in_tag
        tags = {**tags, MODE: str(Mode.AUTO), key: value}
    return replace(recording, volume=replace(recording.volume, tags=tags))
