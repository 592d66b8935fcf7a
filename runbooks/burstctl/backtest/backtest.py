"""A backtest: what was recorded, replayed under a policy, and what it comes to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from burstctl.backtest.load import Recorded
from burstctl.backtest.recording import Recording
from burstctl.backtest.replay import Setting, is_calm_throughout, leave_calm, replay
from burstctl.backtest.scoring import Tally, Told, Totals, sum_tallies, tally, told_in
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.ebs.sizing import InstanceLimits
from burstwatch.core.location import Place
from burstwatch.core.policy.policy import Mode, Policy
from burstwatch.core.tag_keys import IGNORE, MODE

SHORT_S: Final = 24 * 3600
"""Of a volume that was seen for less than this, little can be said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Had this policy run: on volumes ``as_tagged``, or else on all of them as if they had opted in."""

    policy: Policy
    policy_place: str
    place: Place
    lag_s: int
    as_tagged: bool = False
    target: VolumeType | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Backtest:
    """The answer: the most eventful volumes first."""

    question: Question
    setting: Setting
    recorded: Recorded
    tallies: Sequence[Tally]
    windows: Sequence[Told]
    totals: Totals

    @property
    def may_act(self) -> bool:
        """Whether the policy lets anything be modified."""
        return self.setting.policy.mode.highest is Mode.AUTO


@dataclass(slots=True)
class CalmSieve:
    """Tallies the volumes of which nothing can come as they are read, and keeps nothing else of them."""

    question: Question
    tallies: list[Tally] = field(default_factory=list)

    def __call__(self, recording: Recording, start_s: int, end_s: int, /) -> bool:
        setting = _setting(self.question, start_s, end_s, {})
        tagged = _tagged(recording, self.question)
        if not is_calm_throughout(tagged, setting.policy):
            return True
        self.tallies.append(tally(leave_calm(tagged, setting), setting))
        return False


def run_backtest(
    recorded: Recorded,
    sieve: CalmSieve,
    *,
    report_progress: Callable[[int, int], None] = lambda _done, _days: None,
) -> Backtest:
    """Replay what was recorded, and add what the sieve has tallied already."""
    question = sieve.question
    setting = _setting(question, recorded.start_s, recorded.end_s, recorded.limits)
    busy = [_tagged(each, question) for each in recorded.recordings]
    found = replay(busy, setting, report_progress=report_progress)
    tallies = [*sieve.tallies, *(tally(each, setting) for each in found.volumes)]
    windows = told_in(found.windows)
    return Backtest(
        question=question,
        setting=setting,
        recorded=recorded,
        tallies=sorted(tallies, key=lambda each: each.urgency),
        windows=windows,
        totals=sum_tallies(tallies, windows, found.metrics_of_instances),
    )


def _setting(question: Question, start_s: int, end_s: int, limits: Mapping[str, InstanceLimits]) -> Setting:
    policy = question.policy
    if question.target is not None:
        policy = replace(policy, flip=replace(policy.flip, target=question.target))
    return Setting(
        policy=policy,
        place=question.place,
        lag_s=question.lag_s,
        start_s=start_s,
        end_s=end_s,
        limits=limits,
    )


def _tagged(recording: Recording, question: Question) -> Recording:
    """As if it had opted in; a volume that somebody names is not ignored, whatever its tags say."""
    tags: Mapping[str, str] = {k: v for k, v in recording.volume.tags.items() if k != IGNORE}
    if not question.as_tagged:
        key, value = question.policy.mode.opt_in_tag
        tags = {**tags, MODE: str(Mode.AUTO), key: value}
    return replace(recording, volume=replace(recording.volume, tags=tags))
