"""The figures of each contender over many cases."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from burstlab.score.baselines import BASELINES
from burstlab.score.job import BURSTWATCH, NO_ACTION, ORACLE, CaseOutcome, DepletionScore, Tally
from burstwatch.core.ebs.pricing import VolumeType

SCHEMA: Final = "burstwatch.score/v1"
CONTENDERS: Final = (NO_ACTION, *(rival.name for rival in BASELINES), BURSTWATCH, ORACLE)
_MIN_LEAD_FRACTION: Final = 0.95  # the aim in docs/benchmarks.md: 95 % of the lead of looking every minute
_PERCENTILES: Final = (5, 50, 95)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionScore:
    """The outcome of a contender's flips.

    ``avoided_pct`` is the share of the stalled seconds that the oracle avoids; None if it avoids none.
    Of the ``needless_flips``, ``needless_free_flips`` are to what costs no more than gp2. ``usd`` is beyond
    gp2, without ``watching_usd``.
    """

    contender: str
    stalled_s: float
    avoided_pct: float | None
    flips: int
    needless_flips: int
    needless_free_flips: int
    usd: float
    watching_usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertScore:
    """The value of a contender's alerts if no one acts on them; leads in seconds, by percentile."""

    contender: str
    depletions: int
    announced: int
    lead_s: dict[str, int] | None
    criticals: int
    needless_criticals: int
    needless_per_100_days: float
    watching_usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GuaranteeScore:
    """How the guarantee fared on depletions that began at 95 % or above.

    How many were ``is_in_focus`` with ``act_lead`` left, and how many had at least 95 % of the lead that
    looking every minute would have had.
    """

    depletions: int
    in_focus: int
    with_lead: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreSummary:
    """Everything about one set of recordings, or about all of them."""

    folder: str
    cases: int
    volume_days: float
    stalled_s: float
    acting: dict[str, Sequence[ActionScore]]
    alerting: Sequence[AlertScore]
    promise: GuaranteeScore
    calm_cases: int
    calm_watching_usd: float
    calm_polling_usd: float
    polling_usd: float

    def to_document(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def summarise(folder: str, outcomes: Sequence[CaseOutcome]) -> ScoreSummary:
    """Add up the results of these cases."""
    stalled_s = sum(outcome.stalled_s for outcome in outcomes)
    days = sum(outcome.days for outcome in outcomes)
    calm = [outcome for outcome in outcomes if outcome.is_calm]
    return ScoreSummary(
        folder=folder,
        cases=len(outcomes),
        volume_days=days,
        stalled_s=stalled_s,
        acting={
            str(target): _score_actions(outcomes, target, stalled_s)
            for target in VolumeType
            if _has_target(outcomes, target)
        },
        alerting=[
            _score_alerts(name, _select_tallies(outcomes, name, None), days)
            for name in CONTENDERS
            if name not in (NO_ACTION, ORACLE)
        ],
        promise=_score_guarantee(_select_tallies(outcomes, BURSTWATCH, None)),
        calm_cases=len(calm),
        calm_watching_usd=sum(tally.watching_usd for tally in _select_tallies(calm, BURSTWATCH, None)),
        calm_polling_usd=sum(outcome.polling_usd for outcome in calm),
        polling_usd=sum(outcome.polling_usd for outcome in outcomes),
    )


def _has_target(outcomes: Sequence[CaseOutcome], target: VolumeType) -> bool:
    return bool(_select_tallies(outcomes, ORACLE, target))


def _select_tallies(
    outcomes: Iterable[CaseOutcome], contender: str, target: VolumeType | None
) -> list[Tally]:
    return [
        tally
        for outcome in outcomes
        for tally in outcome.tallies
        if tally.contender == contender and tally.target == target
    ]


def _score_actions(
    outcomes: Sequence[CaseOutcome], target: VolumeType, stalled_s: float
) -> list[ActionScore]:
    oracle_stalled_s = sum(tally.stalled_s for tally in _select_tallies(outcomes, ORACLE, target))
    scores = [
        ActionScore(
            contender=NO_ACTION,
            stalled_s=stalled_s,
            avoided_pct=0.0 if stalled_s > oracle_stalled_s else None,
            flips=0,
            needless_flips=0,
            needless_free_flips=0,
            usd=0.0,
            watching_usd=0.0,
        )
    ]
    for name in CONTENDERS[1:]:
        tallies = _select_tallies(outcomes, name, target)
        remaining_s = sum(tally.stalled_s for tally in tallies)
        avoidable_s = stalled_s - oracle_stalled_s
        scores.append(
            ActionScore(
                contender=name,
                stalled_s=remaining_s,
                avoided_pct=100 * (stalled_s - remaining_s) / avoidable_s if avoidable_s > 0 else None,
                flips=sum(tally.flips for tally in tallies),
                needless_flips=sum(tally.needless_flips for tally in tallies) if name != ORACLE else 0,
                needless_free_flips=(
                    sum(tally.needless_free_flips for tally in tallies) if name != ORACLE else 0
                ),
                usd=sum(tally.usd for tally in tallies),
                watching_usd=sum(tally.watching_usd for tally in tallies),
            )
        )
    return scores


def _score_alerts(name: str, tallies: Sequence[Tally], days: float) -> AlertScore:
    depletion_scores = _depletion_scores(tallies)
    leads_s = sorted(score.lead_s for score in depletion_scores if score.lead_s is not None)
    needless = sum(tally.needless_criticals for tally in tallies)
    return AlertScore(
        contender=name,
        depletions=len(depletion_scores),
        announced=len(leads_s),
        lead_s={f"p{pct}": leads_s[(len(leads_s) - 1) * pct // 100] for pct in _PERCENTILES}
        if leads_s
        else None,
        criticals=sum(tally.criticals for tally in tallies),
        needless_criticals=needless,
        needless_per_100_days=100 * needless / days if days else 0.0,
        watching_usd=sum(tally.watching_usd for tally in tallies),
    )


def _score_guarantee(tallies: Sequence[Tally]) -> GuaranteeScore:
    scores_from_high = [score for score in _depletion_scores(tallies) if score.is_from_high]
    return GuaranteeScore(
        depletions=len(scores_from_high),
        in_focus=sum(bool(score.is_in_focus) for score in scores_from_high),
        with_lead=sum(
            (score.lead_s or 0) >= _MIN_LEAD_FRACTION * (score.minute_lead_s or 0)
            for score in scores_from_high
        ),
    )


def _depletion_scores(tallies: Sequence[Tally]) -> list[DepletionScore]:
    return [score for tally in tallies for score in tally.depletion_scores]
