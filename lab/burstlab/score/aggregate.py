"""The figures of each contender over many cases."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from burstlab.score.baselines import RIVALS
from burstlab.score.job import NOTHING, ORACLE, OURS, Foretold, Outcome, Tally
from burstwatch.core.ebs.pricing import VolumeType

SCHEMA: Final = "burstwatch.score/v1"
CONTENDERS: Final = (NOTHING, *(rival.name for rival in RIVALS), OURS, ORACLE)
_OF_MINUTELY: Final = 0.95
_PERCENTILES: Final = (5, 50, 95)


@dataclass(frozen=True, slots=True, kw_only=True)
class Acting:
    """What a contender's flips came to.

    ``avoided_pct`` is the share of the stalled seconds that the oracle avoids; None where it avoids none.
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
class Alerting:
    """What a contender's alerts were worth where nobody acts; leads in seconds, by percentile."""

    contender: str
    depletions: int
    announced: int
    lead_s: dict[str, int] | None
    criticals: int
    needless_criticals: int
    needless_per_100_days: float
    watching_usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """How the guarantee fared on depletions that began at 95 % or above.

    How many were ``in_focus`` with ``act_lead`` left, and how many had at least 95 % of the lead that looking
    every minute would have had.
    """

    depletions: int
    in_focus: int
    with_lead: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Everything about one set of recordings, or about all of them."""

    folder: str
    cases: int
    volume_days: float
    stalled_s: float
    acting: dict[str, Sequence[Acting]]
    alerting: Sequence[Alerting]
    promise: Promise
    calm_cases: int
    calm_watching_usd: float
    calm_polling_usd: float
    polling_usd: float

    def to_document(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def figures(folder: str, outcomes: Sequence[Outcome]) -> Figures:
    """Add up what became of these cases."""
    stalled_s = sum(one.stalled_s for one in outcomes)
    days = sum(one.days for one in outcomes)
    calm = [one for one in outcomes if one.is_calm]
    return Figures(
        folder=folder,
        cases=len(outcomes),
        volume_days=days,
        stalled_s=stalled_s,
        acting={
            str(target): _acting(outcomes, target, stalled_s)
            for target in VolumeType
            if _has(outcomes, target)
        },
        alerting=[
            _alerting(name, _tallies(outcomes, name, None), days)
            for name in CONTENDERS
            if name not in (NOTHING, ORACLE)
        ],
        promise=_promise(_tallies(outcomes, OURS, None)),
        calm_cases=len(calm),
        calm_watching_usd=sum(each.watching_usd for each in _tallies(calm, OURS, None)),
        calm_polling_usd=sum(one.polling_usd for one in calm),
        polling_usd=sum(one.polling_usd for one in outcomes),
    )


def _has(outcomes: Sequence[Outcome], target: VolumeType) -> bool:
    return bool(_tallies(outcomes, ORACLE, target))


def _tallies(outcomes: Iterable[Outcome], contender: str, target: VolumeType | None) -> list[Tally]:
    return [
        tally
        for outcome in outcomes
        for tally in outcome.tallies
        if tally.contender == contender and tally.target == target
    ]


def _acting(outcomes: Sequence[Outcome], target: VolumeType, stalled_s: float) -> list[Acting]:
    least_s = sum(each.stalled_s for each in _tallies(outcomes, ORACLE, target))
    found = [
        Acting(
            contender=NOTHING,
            stalled_s=stalled_s,
            avoided_pct=0.0 if stalled_s > least_s else None,
            flips=0,
            needless_flips=0,
            needless_free_flips=0,
            usd=0.0,
            watching_usd=0.0,
        )
    ]
    for name in CONTENDERS[1:]:
        tallies = _tallies(outcomes, name, target)
        left_s = sum(each.stalled_s for each in tallies)
        avoidable_s = stalled_s - least_s
        found.append(
            Acting(
                contender=name,
                stalled_s=left_s,
                avoided_pct=100 * (stalled_s - left_s) / avoidable_s if avoidable_s > 0 else None,
                flips=sum(each.flips for each in tallies),
                needless_flips=sum(each.needless_flips for each in tallies) if name != ORACLE else 0,
                needless_free_flips=(
                    sum(each.needless_free_flips for each in tallies) if name != ORACLE else 0
                ),
                usd=sum(each.usd for each in tallies),
                watching_usd=sum(each.watching_usd for each in tallies),
            )
        )
    return found


def _alerting(name: str, tallies: Sequence[Tally], days: float) -> Alerting:
    foretold = _foretold(tallies)
    leads = sorted(one.lead_s for one in foretold if one.lead_s is not None)
    needless = sum(each.needless_criticals for each in tallies)
    return Alerting(
        contender=name,
        depletions=len(foretold),
        announced=len(leads),
        lead_s={f"p{pct}": leads[(len(leads) - 1) * pct // 100] for pct in _PERCENTILES} if leads else None,
        criticals=sum(each.criticals for each in tallies),
        needless_criticals=needless,
        needless_per_100_days=100 * needless / days if days else 0.0,
        watching_usd=sum(each.watching_usd for each in tallies),
    )


def _promise(tallies: Sequence[Tally]) -> Promise:
    high = [one for one in _foretold(tallies) if one.from_high]
    return Promise(
        depletions=len(high),
        in_focus=sum(bool(one.in_focus) for one in high),
        with_lead=sum((one.lead_s or 0) >= _OF_MINUTELY * (one.minute_lead_s or 0) for one in high),
    )


def _foretold(tallies: Sequence[Tally]) -> list[Foretold]:
    return [one for each in tallies for one in each.foretold]
