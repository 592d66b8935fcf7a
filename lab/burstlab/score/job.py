"""One fleet's worth of scoring: every contender on the same cases, judged by what happens without help."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from burstlab.model.fleet import LabSettings
from burstlab.model.minute_history import MINUTE_S
from burstlab.score.baselines import RIVALS, Rival, Seen, calls_of, calls_of_fleet
from burstlab.score.burstwatch_runner import every_minute, for_scoring, watch
from burstlab.score.cases import Case
from burstlab.score.ground_truth import Course, Depletion, leave_alone
from burstlab.score.metric_delay import Weather
from burstlab.score.oracle import foresee
from burstlab.score.record import Call, Move, Record, is_free, usd_over_gp2
from burstlab.score.replay import live_with, served_before, target_for
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.policy.policy import Policy

NOTHING: Final = "nothing"
ORACLE: Final = "oracle"
OURS: Final = "burstwatch"
ONE_MINUTE: Final = "burstwatch, every minute"
TARGETS: Final = (VolumeType.GP3, VolumeType.IO1)
_POLL_S: Final = 300
_CALM_PCT: Final = 95.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Cases that are one fleet; ``queued``: what is held back waits instead of being lost."""

    cases: Sequence[Case]
    policy: Policy
    weather: Weather
    queued: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Foretold:
    """One depletion and how a contender met it; ``lead_s`` is None where no alert stood before it.

    ``in_focus`` and ``minute_lead_s`` (of the same judgement every minute) are told of burstwatch only.
    """

    from_high: bool
    lead_s: int | None
    in_focus: bool | None = None
    minute_lead_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What one contender made of one case; without a ``target`` it only alerts.

    Of the ``needless_flips``, ``needless_free_flips`` are to what costs no more than gp2.
    """

    contender: str
    target: VolumeType | None
    stalled_s: float = 0.0
    flips: int = 0
    needless_flips: int = 0
    needless_free_flips: int = 0
    moves: int = 0
    usd: float = 0.0
    watching_usd: float = 0.0
    criticals: int = 0
    needless_criticals: int = 0
    foretold: Sequence[Foretold] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A case with every contender's tally; ``is_calm``: without help it never falls below 95 %."""

    folder: str
    name: str
    scale: float
    size_gib: int
    shape: str
    queued: bool
    days: float
    stalled_s: float
    is_calm: bool
    polling_usd: float
    tallies: Sequence[Tally] = field(default_factory=list)


def score(job: Job) -> list[Outcome]:
    """Let every contender play on these cases."""
    settings = job.weather.settings(queued=job.queued)
    courses = {case.volume_id: leave_alone(case, settings) for case in job.cases}
    tallies: dict[str, list[Tally]] = {case.volume_id: [] for case in job.cases}
    _let_rivals(job, courses, settings, tallies)
    _let_oracle(job, courses, settings, tallies)
    _let_burstwatch(job, courses, settings, tallies)
    return [_outcome(job, case, courses[case.volume_id], tallies[case.volume_id]) for case in job.cases]


def _let_burstwatch(
    job: Job, courses: Mapping[str, Course], settings: LabSettings, tallies: dict[str, list[Tally]]
) -> None:
    plain = for_scoring(job.policy, VolumeType.GP3)
    alerting = watch(job.cases, plain, settings, job.weather, flips=False)
    drying = [case for case in job.cases if courses[case.volume_id].depletions]
    minutely = watch(drying, every_minute(plain), settings, job.weather, flips=False)
    act_lead_s = int(job.policy.cadence.act_lead.total_seconds())
    for case in job.cases:
        course, record = courses[case.volume_id], alerting[case.volume_id]
        beside = minutely.get(case.volume_id)
        foretold = [
            Foretold(
                from_high=each.from_high,
                lead_s=_lead_s(each, record.standing),
                in_focus=_holds(record.focus, each.dry_s - act_lead_s),
                minute_lead_s=_lead_s(each, beside.standing) if beside else None,
            )
            for each in course.depletions
        ]
        tallies[case.volume_id].append(_of_calls(OURS, course, record, foretold))
    uneasy = [case for case in job.cases if alerting[case.volume_id].standing]
    for target in TARGETS:
        # a volume that never stood at warning is looked at and decided about alike, flips or not
        acting = watch(uneasy, for_scoring(job.policy, target), settings, job.weather, flips=True)
        for case in job.cases:
            record = acting.get(case.volume_id) or alerting[case.volume_id]
            tallies[case.volume_id].append(_of_moves(OURS, target, case, courses[case.volume_id], record))


def _let_oracle(
    job: Job, courses: Mapping[str, Course], settings: LabSettings, tallies: dict[str, list[Tally]]
) -> None:
    for case in job.cases:
        course = courses[case.volume_id]
        for target in TARGETS:
            record = foresee(case, course, target, settings)
            tallies[case.volume_id].append(_of_moves(ORACLE, target, case, course, record))


def _let_rivals(
    job: Job, courses: Mapping[str, Course], settings: LabSettings, tallies: dict[str, list[Tally]]
) -> None:
    seen = {case.volume_id: Seen(case, courses[case.volume_id], job.weather) for case in job.cases}
    for rival in RIVALS:
        over_fleet = calls_of_fleet(rival, seen, job.cases, job.weather) if rival.over_fleet else None
        for case in job.cases:
            volume_id = case.volume_id
            spans = (
                over_fleet[volume_id] if over_fleet else calls_of(rival, case, seen[volume_id], job.weather)
            )
            usd = rival.usd(case.seconds) / (len(job.cases) if rival.over_fleet else 1)
            record = Record(
                stalled_s=courses[volume_id].stalled_s,
                calls=[Call(since_s, is_critical=True) for since_s, _ in spans],
                standing=spans,
                watching_usd=usd,
            )
            tallies[volume_id] += _rival_tallies(rival, case, courses[volume_id], record, settings)


def _rival_tallies(
    rival: Rival, case: Case, course: Course, record: Record, settings: LabSettings
) -> list[Tally]:
    foretold = [
        Foretold(from_high=each.from_high, lead_s=_lead_s(each, record.standing))
        for each in course.depletions
    ]
    found = [_of_calls(rival.name, course, record, foretold)]
    for target in TARGETS:
        acted = Record(stalled_s=course.stalled_s, watching_usd=record.watching_usd)
        if record.calls:
            at_s = record.calls[0].at_s
            bought = target_for(case, served_before(course, at_s), target)
            stalled_s, moves = live_with(case, [Move(at_s, bought)], settings)
            acted = Record(stalled_s=stalled_s, moves=moves, watching_usd=record.watching_usd)
        found.append(_of_moves(rival.name, target, case, course, acted))
    return found


def _of_calls(name: str, course: Course, record: Record, foretold: Sequence[Foretold]) -> Tally:
    criticals = [call for call in record.calls if call.is_critical]
    return Tally(
        contender=name,
        target=None,
        stalled_s=course.stalled_s,
        watching_usd=record.watching_usd,
        criticals=len(criticals),
        needless_criticals=sum(not course.is_dry_within(call.at_s) for call in criticals),
        foretold=foretold,
    )


def _of_moves(name: str, target: VolumeType, case: Case, course: Course, record: Record) -> Tally:
    needless = [move for move in record.flips if not course.is_dry_within(move.at_s)]
    return Tally(
        contender=name,
        target=target,
        stalled_s=record.stalled_s,
        flips=len(record.flips),
        needless_flips=len(needless),
        needless_free_flips=sum(is_free(case, move) for move in needless),
        moves=len(record.moves),
        usd=usd_over_gp2(case, record.moves),
        watching_usd=record.watching_usd,
    )


def _outcome(job: Job, case: Case, course: Course, tallies: Sequence[Tally]) -> Outcome:
    return Outcome(
        folder=case.folder,
        name=case.recorded.name,
        scale=case.scale,
        size_gib=case.size_gib,
        shape=str(case.shape),
        queued=job.queued,
        days=case.seconds / 86_400,
        stalled_s=course.stalled_s,
        is_calm=min(course.minima[: case.seconds // MINUTE_S]) >= _CALM_PCT,
        polling_usd=case.seconds / _POLL_S * 0.01 / 1000,
        tallies=tallies,
    )


def _lead_s(depletion: Depletion, standing: Sequence[tuple[int, int]]) -> int | None:
    """How long before the depletion the alert began that stood then, or the last since the drain began."""
    heard = [
        since_s
        for since_s, until_s in standing
        if since_s <= depletion.dry_s and (until_s >= depletion.dry_s or since_s >= depletion.drains_from_s)
    ]
    return depletion.dry_s - heard[-1] if heard else None


def _holds(spans: Sequence[tuple[int, int]], at_s: int) -> bool:
    return any(since_s <= at_s <= until_s for since_s, until_s in spans)
