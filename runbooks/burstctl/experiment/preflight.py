"""Whether an experiment with a volume may be made, and whether its answer could be told."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from burstctl.context.context import Desk
from burstctl.experiment.credit_bounds import NOISE_PCT, Band
from burstctl.experiment.credit_reset import (
    BEFORE_S,
    ENOUGH_S,
    LEAST_AWAY_S,
    MOST_AWAY_S,
    MOST_BALANCE_PCT,
    Fate,
    Journey,
    alike,
    foresee,
    pct_per_minute,
    reckon_there,
    shortest_away_s,
    weigh_before,
)
from burstctl.experiment.datapoints import Datapoints, read_datapoints
from burstctl.flip.select import Request, draw_up
from burstctl.render.planned_flip import Planned
from burstwatch.core.buckets.series import PERIOD_S, Sample
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.ebs.sizing import Wish
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.flips.guards import QUOTA
from burstwatch.core.flips.triggers import can_burst
from burstwatch.core.ledger.flip_state import Direction
from burstwatch.core.policy.policy import QuotaRule
from burstwatch.core.policy.windows import expected_flip
from burstwatch.core.tag_keys import IGNORE
from burstwatch.core.text import format_duration, format_instant
from burstwatch.core.watch.decide import Decision
from burstwatch.core.watch.window_status import Outlook
from burstwatch.engine.watch_pass import assess_volumes

MODIFICATIONS: Final = 2
"""There and back; one more is kept for people."""

_FRESH_S: Final = 600
_SPARE_S: Final = 1800
_SIX_HOURS_S: Final = 6 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a person asks for."""

    volume_id: str
    target: VolumeType = VolumeType.IO1
    away: timedelta | None = None
    report: Path | None = None
    tells_id: bool = False
    dry_run: bool = False
    assumes_yes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Objection:
    """Why the experiment is not made."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlined:
    """How it would go: away for ``away_s``, with ``modify_s`` for each way; what each answer would show."""

    away_s: int
    modify_s: int
    bands: Mapping[Fate, Band]

    @property
    def lasts_s(self) -> int:
        """From the first modification to the last datapoint wanted."""
        return self.away_s + 2 * self.modify_s + ENOUGH_S + _SPARE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """A volume and the experiment with it: at AWS's ``quickest``, and as ``reckoned`` with by the policy.

    Neither is there for a volume of whose balance nothing is known.
    """

    at_s: float
    planned: Planned
    decision: Decision
    datapoints: Datapoints
    newest: Sample | None
    iops: float
    quickest: Outlined | None
    reckoned: Outlined | None
    objections: Sequence[Objection]

    @property
    def volume(self) -> Volume:
        return self.planned.plan.facts.volume

    def usd_more(self, outlined: Outlined) -> float:
        """What it adds to the bill: AWS bills the new type from the moment a modification to it begins."""
        away = timedelta(seconds=outlined.away_s + outlined.modify_s)
        return self.planned.price.difference_usd_over(away)


def examine(desk: Desk, wanted: Wanted) -> Examined:
    """Read everything about the volume, and find what speaks against the experiment.

    Raises:
        BurstwatchError: the volume does not exist, or could not be read.
    """
    shell, now_s = desk.shell, desk.shell.clock()
    report = assess_volumes(shell, [wanted.volume_id], now_s=now_s)
    if report.missing:
        region = shell.place.region
        raise BurstwatchError(
            f"there is no volume {wanted.volume_id} in {region}: check the id, the region, the account"
        )
    if report.ignored:
        raise BurstwatchError(
            f"{wanted.volume_id} is tagged {IGNORE}, so nobody looks at it: take the tag away, or take"
            " another volume"
        )
    drawn = draw_up(
        desk,
        Request(direction=Direction.OUT, volume_ids=[wanted.volume_id], wish=Wish(volume_type=wanted.target)),
    )
    if not (report.decisions and drawn.planned):
        failures = [*report.failures, *drawn.failures]
        raise BurstwatchError(f"{wanted.volume_id} could not be read: {failures[0] if failures else 'gone'}")
    [planned], [decision] = drawn.planned, report.decisions
    found = read_datapoints(shell, wanted.volume_id, now_s - BEFORE_S - PERIOD_S, now_s)
    served = found.operations.values
    case = _Case(
        desk=desk,
        wanted=wanted,
        planned=planned,
        decision=decision,
        datapoints=found,
        now_s=now_s,
        iops=sum(served) / (len(served) * PERIOD_S) if served else 0.0,
    )
    return case.examined()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """Everything that was read about one volume."""

    desk: Desk
    wanted: Wanted
    planned: Planned
    decision: Decision
    datapoints: Datapoints
    now_s: float
    iops: float

    @property
    def volume(self) -> Volume:
        return self.planned.plan.facts.volume

    @property
    def newest(self) -> Sample | None:
        return self.datapoints.balance.newest

    def examined(self) -> Examined:
        quickest = reckoned = None
        if self.newest is not None and can_burst(self.volume):
            usual_s = int(expected_flip(self.volume.size_gib, self.desk.shell.policy.lead).total_seconds())
            quickest, reckoned = self._outline(self.newest, 0), self._outline(self.newest, usual_s)
        return Examined(
            at_s=self.now_s,
            planned=self.planned,
            decision=self.decision,
            datapoints=self.datapoints,
            newest=self.newest,
            iops=self.iops,
            quickest=quickest,
            reckoned=reckoned,
            objections=list(self._objections(quickest, reckoned)),
        )

    def _outline(self, newest: Sample, modify_s: int) -> Outlined:
        size_gib, iops = self.volume.size_gib, self.iops
        there = reckon_there(newest.value, size_gib=size_gib, iops=iops, modify_s=modify_s)
        needed_s = shortest_away_s(there, size_gib=size_gib, iops=iops, modify_s=modify_s)
        away_s = max(needed_s or 0, self._least_away_s())
        bands = foresee(there, size_gib=size_gib, iops=iops, away_s=away_s, modify_s=modify_s)
        return Outlined(away_s=away_s, modify_s=modify_s, bands=bands)

    def _least_away_s(self) -> int:
        """What was asked for, or what AWS's older rule wants between two modifications."""
        asked_s = int(self.wanted.away.total_seconds()) if self.wanted.away else 0
        is_old = self.desk.shell.policy.flip.quota_rule is QuotaRule.SIX_HOURS
        return max(asked_s, _SIX_HOURS_S if is_old else 0, LEAST_AWAY_S)

    def _objections(self, quickest: Outlined | None, reckoned: Outlined | None) -> Iterator[Objection]:
        state = self.planned.plan.facts.state
        if state.flip is not None:
            reason = f"it is flipped already, to {state.flip.target}, asked for by {state.flip.by}"
            yield Objection(name="flipped", reason=f"{reason}: burstctl flip-back {self.volume.volume_id}")
            return
        for refusal in self.planned.plan.refusals:
            ends = "" if refusal.ends_at_s is None else f"; it ends {format_instant(refusal.ends_at_s)}"
            yield Objection(name=str(refusal.guard), reason=f"{refusal.reason}{ends}")
        yield from self._about_danger(reckoned)
        yield from self._about_quota()
        if not can_burst(self.volume):
            reason = f"a {self.volume.volume_type} of {self.volume.size_gib:,} GiB lives on no burst balance"
            yield Objection(name="no_balance", reason=f"{reason}: take a gp2 below 1,000 GiB")
            return
        yield from self._about_telemetry()
        if self.newest is not None and quickest is not None:
            yield from self._about_balance(self.newest, quickest)

    def _about_danger(self, reckoned: Outlined | None) -> Iterator[Objection]:
        """What would be hurt by a volume without its burst."""
        state, decision = self.planned.plan.facts.state, self.decision
        if decision.wishes.is_critical:
            yield Objection(name="critical", reason="it is tagged critical: take one nobody would miss")
        if state.contested_at_s is not None:
            reason = f"somebody else changed it, seen {format_instant(state.contested_at_s)}"
            yield Objection(
                name="changed_by_others", reason=f"{reason}: burstctl release, when that is mended"
            )
        alerted = state.alerted_level or (decision.level if decision.level.is_alerting else None)
        if alerted is not None:
            reason = f"an alert is going on, {alerted}: {decision.reason}"
            yield Objection(name="alert", reason=reason)
        marks = self.desk.shell.ledger.window_marks().values()
        windows = Outlook.at(self.now_s, self.desk.shell.policy, marks).of(self.volume)
        if windows is None:
            return
        ends_s = self.now_s + (reckoned.lasts_s if reckoned else 0)
        near = [one for one in windows.upcoming if one.span.start_at.timestamp() < ends_s]
        for one in (*windows.running, *near):
            word = "runs" if one in windows.running else "starts before the experiment would be over"
            yield Objection(name="window", reason=f"its window {one.window} {word}")

    def _about_quota(self) -> Iterator[Objection]:
        spent = self.planned.spent
        if len(spent) <= QUOTA - MODIFICATIONS - 1:
            return
        reason = (
            f"{len(spent)} of AWS's {QUOTA} modifications in 24 h are used; it takes {MODIFICATIONS}, and one"
            " is kept for people"
        )
        free_s = spent[-(QUOTA - MODIFICATIONS - 1) - 1].at_s + 24 * 3600
        yield Objection(name="quota_reserve", reason=f"{reason}; it ends {format_instant(free_s)}")

    def _about_telemetry(self) -> Iterator[Objection]:
        newest, facts = self.newest, self.decision.assessment
        if newest is None or self.now_s - newest.end_s > _FRESH_S:
            why = facts.unknown_because or facts.unknown_reason or "CloudWatch is behind"
            told = "no datapoint" if newest is None else f"none since {format_instant(newest.end_s)}"
            yield Objection(name="no_data", reason=f"there is {told} of its balance: {why}")
            return
        journey = Journey(
            size_gib=self.volume.size_gib,
            left_s=self.now_s,
            balance=self.datapoints.balance,
            operations=self.datapoints.operations,
        )
        if weigh_before(journey) is None:
            reason = (
                "in the last half hour its balance did not move as its operations say, so what they take"
                " after the return could not be reckoned: take a quieter volume"
            )
            yield Objection(name="unsteady", reason=reason)

    def _about_balance(self, newest: Sample, quickest: Outlined) -> Iterator[Objection]:
        if newest.value > MOST_BALANCE_PCT:
            reason = (
                f"its balance is {newest.value:.1f} %, above {MOST_BALANCE_PCT:g} %: refilled and reset would"
                " look alike; let something drain it first"
            )
            yield Objection(name="balance_too_high", reason=reason)
            return
        bands = quickest.bands
        for one, other in alike(bands):
            reason = (
                f"{one} ({bands[one]}) and {other} ({bands[other]}) could not be told apart after"
                f" {format_duration(quickest.away_s)} away: {_way_out(other, self.volume.size_gib)}"
            )
            yield Objection(name="would_not_tell", reason=reason)


def _way_out(other: Fate, size_gib: int) -> str:
    rate = pct_per_minute(size_gib)
    if other is Fate.EMPTIED:
        return f"let it refill first, at {rate:.2f} % a minute"
    if other is Fate.RESET:
        return f"its size earns {rate:.2f} % a minute: begin lower, stay shorter, or take a smaller volume"
    return f"with datapoints good to {NOISE_PCT:g} % that takes more than {format_duration(MOST_AWAY_S)} here"
