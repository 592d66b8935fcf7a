"""A volume's chronology, read: AWS for what it did, the ledger for what happened to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from burstctl.context.context import Desk
from burstctl.timeline.intervals import EVERYTHING
from burstctl.timeline.timeline import AbsenceReason, Chronology, Sources, chronicle
from burstctl.timeline.window_intervals import Opening, marks_in, openings
from burstwatch.adapters.aws.metric_history import HistoryReader
from burstwatch.core.durations import format_span
from burstwatch.core.ebs.usage import History
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.core.ledger.ledger import Ledger, LedgerEntry
from burstwatch.core.policy.windows import windows_of
from burstwatch.core.text import printable
from burstwatch.core.watch.decide import Decision
from burstwatch.core.watch.report import Report
from burstwatch.engine.collector import Gathering
from burstwatch.engine.watch_pass import assess_volumes
from burstwatch.wiring.bootstrap import build_client

METRICS: Final = ("balance", "read_ops", "write_ops")

LONGEST: Final = timedelta(days=454)
"""CloudWatch keeps means of an hour for 455 days."""

_PERIODS: Final = ((timedelta(days=14), 60), (timedelta(days=62), 300), (LONGEST, 3600))
"""Up to how far back CloudWatch still has which period, a day less than it says."""

_BEFORE_S: Final = 30 * 24 * 3600
"""The ledger is read from so much earlier: no hold lasts longer, few flips do."""

_LONGEST_COMPLAINT: Final = 600


class NothingToPlotError(BurstwatchError):
    """There is no picture of this volume; the message says why, and what to do instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plotted:
    """A chronology with what its picture says in words; ``decision`` is None for a volume tagged ignored."""

    chronology: Chronology
    decision: Decision | None
    region: str
    ledger: str
    last: timedelta
    holds: Sequence[Hold]
    failures: Sequence[str]
    metrics_requested: int
    api_calls: Mapping[str, int]


def read_chronology(desk: Desk, volume_id: str, last: timedelta) -> Plotted:
    """Read what there is to be drawn of a volume, and judge it as every pass does.

    Raises:
        NothingToPlotError: it does not exist, was not told of, or there is no datapoint of it.
    """
    desk.progress.begin(f"reading {format_span(last)}")
    try:
        return _read(desk, volume_id, last)
    finally:
        desk.progress.end()


def _read(desk: Desk, volume_id: str, last: timedelta) -> Plotted:
    shell, now_s = desk.shell, desk.shell.clock()
    report = assess_volumes(shell, [volume_id], now_s=now_s)
    gathering = shell.gathering(now_s)
    volume = _volume(report, gathering, volume_id)
    decision = report.decisions[0] if report.decisions else None
    period_s = next(period_s for longest, period_s in _PERIODS if last <= longest)
    start_s = int(now_s - last.total_seconds()) // period_s * period_s
    sources = Sources(
        volume=volume,
        history=_history(desk, gathering, volume_id, start_s, period_s),
        start_s=start_s,
        now_s=now_s,
        assessment=decision.assessment if decision else None,
        state=shell.ledger.states_of({volume_id}).get(volume_id),
        entries=_entries(shell.ledger, volume_id, start_s - _BEFORE_S),
        watch_below_pct=shell.policy.cadence.watch_below_pct,
    )
    chronology = _explained(desk, gathering, sources)
    if (reason := _why_not(chronology, last)) is not None:
        raise NothingToPlotError(reason)
    return Plotted(
        chronology=chronology,
        decision=decision,
        region=shell.place.region,
        ledger=desk.ledger,
        last=last,
        holds=[hold for hold in report.holds if hold.holds(volume_id, now_s)],
        failures=[*report.failures, *gathering.failures],
        metrics_requested=shell.calls.metrics_requested,
        api_calls=shell.calls.calls,
    )


def _volume(report: Report, gathering: Gathering, volume_id: str) -> Volume:
    """The volume, which may be tagged ignored: somebody asks for it."""
    if report.decisions:
        return report.decisions[0].assessment.volume
    found = gathering.by_id([volume_id])[0] if report.ignored else []
    if found:
        return found[0]
    if volume_id in report.missing:
        raise NothingToPlotError(
            f"there is no volume {volume_id} in {report.region}: check the id, the region, the account;"
            f" what the ledger knows of a deleted one tells burstctl history {volume_id}"
        )
    said = "; ".join([*report.failures, *gathering.failures]) or "EC2 does not describe it"
    raise NothingToPlotError(f"{volume_id} could not be read: {printable(said, _LONGEST_COMPLAINT)}")


def _history(desk: Desk, gathering: Gathering, volume_id: str, start_s: int, period_s: int) -> History:
    """What CloudWatch has of it up to the last closed period."""
    client = build_client(desk.session, "cloudwatch", desk.shell.calls)
    reader = HistoryReader(client, period_s=period_s, workers=1, metrics=METRICS)
    end_s = int(gathering.now_s) // period_s * period_s
    [found] = reader.read([volume_id], start_s, end_s)
    gathering.failures += [f"cloudwatch:GetMetricData says: {said}" for said in found.messages]
    if volume_id in found.unread:
        said = printable(str(found.unread[volume_id]), _LONGEST_COMPLAINT)
        raise NothingToPlotError(f"the history of {volume_id} could not be read: {said}")
    return found.histories[volume_id]


def _entries(ledger: Ledger, volume_id: str, since_s: int) -> list[LedgerEntry]:
    found = [e for subject in (volume_id, EVERYTHING) for e in ledger.entries(subject, since_s=since_s)]
    return sorted(found, key=lambda entry: entry.at_s)


def _explained(desk: Desk, gathering: Gathering, sources: Sources) -> Chronology:
    """The chronology; AWS is asked about a change of type only where some balance is missing without one."""
    bare = chronicle(sources)
    record = None
    if any(each.reason in (AbsenceReason.GAP, AbsenceReason.OTHER_TYPE) for each in bare.absences):
        volume_id = sources.volume.volume_id
        record = gathering.modifications([volume_id])[0].get(volume_id)
    windows = _windows(desk, sources, bare.end_s)
    return chronicle(replace(sources, record=record, windows=windows))


def _windows(desk: Desk, sources: Sources, end_s: float) -> list[Opening]:
    policy, ledger = desk.shell.policy, desk.shell.ledger
    names = windows_of(policy.windows, sources.volume)
    marks = {name: marks_in(ledger.entries(f"window {name}"), name) for name in names}
    return openings(policy.windows, names, marks, sources.start_s, end_s)


def _why_not(chronology: Chronology, last: timedelta) -> str | None:
    """Why there is no picture of it; None where there is."""
    volume, span = chronology.volume, format_span(last)
    explain = f"burstctl explain {volume.volume_id}"
    if not (volume.is_gp2 or chronology.balance or chronology.stays):
        return (
            f"{volume.volume_id} is {volume.volume_type} and was nothing else in the last {span}: it has no"
            " burst credits, so there is nothing to plot; if it was gp2 before that, name a longer --last"
        )
    if not chronology.is_blank:
        return None
    said = f"CloudWatch has no datapoint of {volume.volume_id} in the last {span}"
    if not volume.attached:
        return f"{said}: it is detached; name a longer --last to see when it was in use"
    return f"{said}, though it is attached: {explain} says why, and a longer --last may show more"
