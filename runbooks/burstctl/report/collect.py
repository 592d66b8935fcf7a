"""Everything a report tells: one look at the fleet, the ledger's lines of late, pictures, and dollars."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from enum import IntEnum
from typing import Any, Final

from burstctl.context.context import Desk
from burstctl.history.render import EVERYTHING
from burstctl.render.flip_status import is_moving
from burstctl.report.activity import Deed, deeds_of
from burstctl.report.costs import MOVES, Money, PaidStay, begins_midway, paid_stays, sum_money
from burstctl.report.series import (
    CALM,
    FINE,
    MOST_FINE_POINTS,
    MOST_POINTS,
    Axis,
    Pictures,
    axis_of,
    read_pictures,
)
from burstctl.timeline.timeline import Chronology, Sources, chronicle
from burstctl.timeline.window_intervals import Opening, marks_in, openings
from burstwatch.core.assessment.severity import Level
from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.ebs.usage import History
from burstwatch.core.ledger.flip_state import WindowMark
from burstwatch.core.ledger.ledger import LedgerEntry, VolumeState
from burstwatch.core.policy.policy import Policy
from burstwatch.core.policy.windows import windows_of
from burstwatch.core.watch.api_cost import USD_PER_METRIC
from burstwatch.core.watch.decide import Decision
from burstwatch.core.watch.report import Report, urgency_of
from burstwatch.engine.watch_pass import assess_volumes
from burstwatch.wiring.bootstrap import WORKERS, build_client
from burstwatch.wiring.settings import SettingsError

MOST_USD: Final = 1.0
"""A report whose reads cost more than this is not made without being told so."""

MOST_TOLD: Final = 300
"""So many volumes, those that matter most, are told at length; the others have a row and a small picture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A volume that is told at length: what a picture of it shows, and its story, oldest first."""

    decision: Decision
    chronology: Chronology
    story: Sequence[Deed]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """What the report tells.

    ``decisions`` are the fleet, most urgent first; ``told`` those of them told at length, ``balances`` the
    others' by the volume's id, on ``axis``. ``deeds`` are those of the whole fleet, newest first; of volumes
    that are gone the ledger is not asked.
    """

    report: Report
    since_s: int
    decisions: Sequence[Decision]
    axis: Axis
    told: Mapping[str, Told]
    balances: Mapping[str, Series]
    deeds: Sequence[Deed]
    money: Money
    unread: Mapping[str, str]
    failures: Sequence[str]
    metrics_requested: int
    api_calls: Mapping[str, int]
    policy: Policy

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to tell because reading it failed."""
        return bool(self.failures) and not self.decisions

    @property
    def has_failed(self) -> bool:
        return self.report.has_failed or bool(self.failures or self.unread)

    @property
    def usd_read(self) -> float:
        """What the reads for this report cost."""
        return self.metrics_requested * USD_PER_METRIC


def make_report(desk: Desk, *, last: timedelta, assumes_yes: bool) -> Reported:
    """Look at everything once, and read what happened in ``last``; changes nothing.

    Raises:
        SettingsError: the reads would cost more than ``MOST_USD``, and nobody agreed to that.
    """
    desk.progress.begin()
    try:
        report = assess_volumes(desk.shell, now_s=desk.shell.clock())
        return _Reporter(desk=desk, report=report, last=last, assumes_yes=assumes_yes).make()
    finally:
        desk.progress.end()


class _Interest(IntEnum):
    """Why a volume is told at length, most deserving first; of those of ``NONE`` CloudWatch has nothing."""

    URGENT = 0
    MOVING = 1
    DEEDS = 2
    WATCHED = 3
    POLLED = 4
    NONE = 5


@dataclass(slots=True, kw_only=True)
class _Reporter:
    """A report in the making: ``entries`` are the ledger's of late, ``deeds`` what they tell, by subject."""

    desk: Desk
    report: Report
    last: timedelta
    assumes_yes: bool
    states: Mapping[str, VolumeState] = field(default_factory=dict)
    entries: dict[str, list[LedgerEntry]] = field(default_factory=dict)
    deeds: dict[str, list[Deed]] = field(default_factory=dict)
    by_hand: dict[str, list[WindowMark]] = field(default_factory=dict)

    @property
    def since_s(self) -> int:
        return int(self.report.now_s - self.last.total_seconds())

    def make(self) -> Reported:
        decisions = sorted(self.report.decisions, key=urgency_of)
        self._read_ledger(decisions)
        ranked = sorted((self._interest(each), each.volume_id) for each in decisions)
        fine_ids = [i for (rank, _), i in ranked if rank is not _Interest.NONE][:MOST_TOLD]
        calm_ids = [i for (rank, _), i in ranked if rank is _Interest.POLLED and i not in set(fine_ids)]
        self._check_cost(len(fine_ids), len(calm_ids))
        fine_axis, axis = (self._axis(most) for most in (MOST_FINE_POINTS, MOST_POINTS))
        fine = self._pictures(fine_ids, fine_axis, FINE)
        calm = self._pictures(calm_ids, axis, CALM)
        by_id = {decision.volume_id: decision for decision in decisions}
        calls = self.desk.shell.calls
        return Reported(
            report=self.report,
            since_s=self.since_s,
            decisions=decisions,
            axis=axis,
            told={i: self._tell(by_id[i], fine, fine_axis) for i in fine_ids},
            balances={volume_id: history.balance for volume_id, history in calm.histories.items()},
            deeds=self._story_of_all(),
            money=self._money(decisions),
            unread=fine.unread | calm.unread,
            failures=[*self.report.failures, *dict.fromkeys((*fine.messages, *calm.messages))],
            metrics_requested=calls.metrics_requested,
            api_calls=calls.calls,
            policy=self.desk.shell.policy,
        )

    def _read_ledger(self, decisions: Iterable[Decision]) -> None:
        """What the ledger tells of the volumes that there are, of everything, windows and the policy."""
        ledger = self.desk.shell.ledger
        self.states, marked = ledger.states(), ledger.window_marks().keys()
        windows = marked | {window.name for window in self.desk.shell.policy.windows}
        subjects = [decision.volume_id for decision in decisions]
        subjects += sorted((self.states.keys() | set(self.report.ignored)) - set(subjects))
        subjects += [EVERYTHING, "policy", *(f"window {name}" for name in sorted(windows))]
        self._begin("reading the ledger")
        with ThreadPoolExecutor(WORKERS, thread_name_prefix="ledger") as pool:
            read = pool.map(lambda subject: ledger.entries(subject, since_s=self.since_s), subjects)
            for number, (subject, entries) in enumerate(zip(subjects, read, strict=True), start=1):
                if entries:
                    self.entries[subject] = entries
                    self.deeds[subject] = deeds_of(entries)
                self.desk.progress.report(number, len(subjects))
        self.by_hand = {name: marks_in(ledger.entries(f"window {name}"), name) for name in marked}

    def _interest(self, decision: Decision) -> tuple[_Interest, tuple[Any, ...]]:
        """The lower, the more it deserves to be told at length."""
        has_deeds = any(not deed.is_minor for deed in self.deeds.get(decision.volume_id, ()))
        holds = {
            _Interest.URGENT: decision.level.is_alerting or decision.assessment.is_fault,
            _Interest.MOVING: is_moving(decision, self.report),
            _Interest.DEEDS: has_deeds,
            _Interest.WATCHED: decision.level is Level.WATCH or decision.flip is not None,
            _Interest.POLLED: decision.look_interval_s is not None,
        }
        return next((rank for rank, is_so in holds.items() if is_so), _Interest.NONE), urgency_of(decision)

    def _axis(self, most: int) -> Axis:
        return axis_of(self.since_s, self.report.now_s, most=most)

    def _check_cost(self, told: int, calm: int) -> None:
        metrics = told * len(FINE) + calm * len(CALM)
        usd = (self.desk.shell.calls.metrics_requested + metrics) * USD_PER_METRIC
        if usd > MOST_USD and not self.assumes_yes:
            raise SettingsError(
                f"the pictures of {told + calm:,} volumes need {metrics:,} metrics, with which this report"
                f" costs ${usd:,.2f}, more than ${MOST_USD:,.2f}: add --yes to make it; a shorter --last"
                " costs as much"
            )

    def _begin(self, doing: str) -> None:
        self.desk.progress.end()
        self.desk.progress.begin(doing)

    def _pictures(self, volume_ids: Sequence[str], axis: Axis, metrics: Sequence[str]) -> Pictures:
        self._begin("reading CloudWatch")
        return read_pictures(
            build_client(self.desk.session, "cloudwatch", self.desk.shell.calls),
            volume_ids,
            axis,
            metrics,
            workers=WORKERS,
            report=lambda done: self.desk.progress.report(done, len(volume_ids)),
        )

    def _tell(self, decision: Decision, found: Pictures, axis: Axis) -> Told:
        volume = decision.assessment.volume
        entries = [*self.entries.get(volume.volume_id, ()), *self.entries.get(EVERYTHING, ())]
        sources = Sources(
            volume=volume,
            history=found.histories.get(volume.volume_id) or History(period_s=axis.period_s),
            start_s=axis.start_s,
            now_s=self.report.now_s,
            assessment=decision.assessment,
            state=self.states.get(volume.volume_id),
            entries=sorted(entries, key=lambda entry: entry.at_s),
            windows=self._openings(decision, axis),
        )
        story = self.deeds.get(volume.volume_id, ())
        return Told(decision=decision, chronology=chronicle(sources), story=story)

    def _openings(self, decision: Decision, axis: Axis) -> Sequence[Opening]:
        policy = self.desk.shell.policy
        names = windows_of(policy.windows, decision.assessment.volume)
        if not names:
            return ()
        until_s = self.report.now_s + self.last.total_seconds()
        return openings(policy.windows, names, self.by_hand, axis.start_s, until_s)

    def _story_of_all(self) -> list[Deed]:
        deeds = [deed for deeds in self.deeds.values() for deed in deeds if not deed.is_minor]
        return sorted(deeds, key=lambda deed: -deed.at_s)

    def _money(self, decisions: Iterable[Decision]) -> Money:
        """From what happened of late; of a stay that began earlier the whole history tells."""
        moved = {i for i, entries in self.entries.items() if any(e.kind in MOVES for e in entries)}
        moved |= {volume_id for volume_id, state in self.states.items() if state.flip is not None}
        stays: list[PaidStay] = []
        for volume_id in sorted(moved):
            entries = self.entries.get(volume_id, [])
            if begins_midway(entries):
                entries = self.desk.shell.ledger.entries(volume_id)
            stays += paid_stays(entries, self.states.get(volume_id))
        volumes = [decision.assessment.volume for decision in decisions]
        unavailable = self.desk.shell.unavailable_types(volumes, self.report.now_s)
        return sum_money(
            stays,
            states=self.states,
            volumes=volumes,
            without_gp3={i for i, kinds in unavailable.items() if VolumeType.GP3 in kinds},
            policy=self.desk.shell.policy.flip,
            start_s=self.since_s,
            end_s=self.report.now_s,
        )
