"""The plan of an experiment as people read it before they agree."""

from collections.abc import Mapping
from typing import Final

from burstctl.cli.text_layout import Topic, lay_out
from burstctl.experiment.credit_bounds import NOISE_PCT, Band
from burstctl.experiment.credit_reset import ENOUGH_S, Fate, alike
from burstctl.experiment.preflight import MODIFICATIONS, Examined, Outlined
from burstctl.render.plan_text import difference_words, usd
from burstctl.render.planned_flip import PRICES
from burstctl.render.volume import describe_in_a_line, inert
from burstwatch.core.flips.guards import QUOTA
from burstwatch.core.policy.policy import Mode, Policy
from burstwatch.core.text import format_clock, format_duration

MEANT_FOR: Final = "a volume whose burst nobody minds losing: it may come back without a single credit"


def outline_in_words(examined: Examined, policy: Policy) -> str:
    """What would be done with the volume, what each answer would look like, what it costs, what refuses."""
    plan = examined.planned.plan
    topics: list[Topic] = [("Meant for", [MEANT_FOR]), ("Now", _now(examined))]
    quickest, reckoned = examined.quickest, examined.reckoned
    if quickest and reckoned and plan.target is not None:
        topics += [
            ("Steps", _steps(examined, quickest, reckoned)),
            ("Answers", _answers(quickest.bands)),
            ("Doubt", _doubt(reckoned)),
            ("Cost", _costs(examined, quickest, reckoned)),
        ]
    topics.append(("Quota", [_quota(examined)]))
    topics.append(("Else", [_else(policy)]))
    topics.append(("Refused", [f"{each.name}: {each.reason}" for each in examined.objections]))
    shown = [(topic, [inert(line) for line in lines]) for topic, lines in topics if lines]
    return lay_out(describe_in_a_line(examined.volume), shown)


def _now(examined: Examined) -> list[str]:
    newest = examined.newest
    if newest is None:
        return ["CloudWatch tells no balance"]
    balance = (
        f"{newest.value:.1f} % of its burst balance in the minute from {format_clock(newest.start_s)} UTC"
    )
    return [f"{balance}, {examined.iops:,.1f} IOPS in the last half hour"]


def _steps(examined: Examined, quickest: Outlined, reckoned: Outlined) -> list[str]:
    plan = examined.planned.plan
    bands = quickest.bands
    stay = f"stay for {format_duration(quickest.away_s)}"
    if not bands[Fate.KEPT].meets(bands[Fate.REFILLED]):
        stay += ", long enough to tell refilled from kept"
    if reckoned.away_s > quickest.away_s:
        takes = format_duration(reckoned.modify_s)
        stay += f"; {format_duration(reckoned.away_s)} if AWS takes {takes} for each way"
    return [
        "hold it against the watchdog",
        f"{plan.now} -> {plan.target}; AWS takes minutes to hours",
        stay,
        f"{plan.target} -> {plan.now}, whatever came of it",
        f"{format_duration(ENOUGH_S)} of datapoints, a report, release",
    ]


def _answers(bands: Mapping[Fate, Band]) -> list[str]:
    return [
        *(f"{f'{fate}:':<21}{band}" for fate, band in bands.items()),
        f"at AWS's quickest, with {NOISE_PCT:g} % for rounding; told from each other where they do not meet",
    ]


def _doubt(reckoned: Outlined) -> list[str]:
    pairs = alike(reckoned.bands)
    if not pairs:
        return []
    doubtful = [str(fate) for fate in Fate if any(fate in pair for pair in pairs)]
    shown = f"{', '.join(doubtful[:-1])} and {doubtful[-1]}"
    takes = f"if AWS takes {format_duration(reckoned.modify_s)} for each way"
    return [f"{takes}, {shown} may look alike: a smaller volume with a lower balance is surer"]


def _costs(examined: Examined, quickest: Outlined, reckoned: Outlined) -> list[str]:
    plan = examined.planned.plan
    least, most = examined.usd_more(quickest), examined.usd_more(reckoned)
    per_month = f"{usd(plan.usd_per_month_now)} -> {usd(plan.usd_per_month)} a month while it is away"
    in_all = f"{difference_words(least)} in all, {difference_words(most)} if AWS takes its time"
    return [f"{per_month}: {in_all}; {PRICES}"]


def _quota(examined: Examined) -> str:
    used = len(examined.planned.spent)
    are = "is" if used == 1 else "are"
    return (
        f"{used} of AWS's {QUOTA} modifications in 24 h {are} used; this takes {MODIFICATIONS} and leaves one"
        " for people at least"
    )


def _else(policy: Policy) -> str:
    again = "Ctrl-C or a crash ends nothing: the same command goes on, --abandon brings the volume home"
    if policy.mode.highest is Mode.AUTO:
        return f"{again}; if neither comes, a watch --act does when the hold is over"
    return f"{again}; if neither comes, nobody does"
