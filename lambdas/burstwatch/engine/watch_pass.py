"""One pass of the watchdog, the same in Lambda, burstctl and the lab.

The starter of a pass says which volumes it collects: a tick (``tick_pass``), a tick that comes too late
(``reconcile_pass``), events (``event_pass``), or a person (in ``burstctl``). Everything after that is here.
"""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import partial
from time import monotonic
from typing import TypeVar

from burstwatch.core.errors import BurstwatchError, PartialCommitError
from burstwatch.core.ledger.ledger import Change, States
from burstwatch.core.ledger.unreadable_item import ItemKind
from burstwatch.core.resource_type import is_volume_subject
from burstwatch.core.watch.decision import TickContext
from burstwatch.core.watch.fleet_summary import summarise_fleet
from burstwatch.core.watch.pass_report import PassReport
from burstwatch.core.watch.polling.due_buckets import DueBucket
from burstwatch.core.watch.polling.due_volumes import DueVolume
from burstwatch.core.watch.polling.turns import in_turn
from burstwatch.core.watch.window_status import WindowSchedule, announce_windows
from burstwatch.engine.alert_delivery import DeliveryReport, deliver_all
from burstwatch.engine.dispatch import dispatch_flips
from burstwatch.engine.evaluate_resources import evaluate_resources
from burstwatch.engine.evaluate_volumes import evaluate_due
from burstwatch.engine.pass_state import WatchPass, record_internal_error
from burstwatch.engine.services import Services


class LeaseLostError(BurstwatchError):
    """Another process has taken over this sweep: its results count, and nothing of this one is recorded."""


class PassScope(Enum):
    """What a pass knows, and whether it changes anything.

    A pass over the ``FLEET`` has read every state: it counts the fleet and sends all that waits. One over
    ``SOME_VOLUMES`` has not; if it sends no alert, it leaves what waits to the next tick, which sends it
    together. A ``READ_ONLY`` pass ends with its decisions: nothing is recorded, flipped or sent.
    """

    FLEET = auto()
    SOME_VOLUMES = auto()
    READ_ONLY = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """What is due; ``fleet_size`` is the number of all volumes, if all were listed."""

    due: Sequence[DueVolume] = ()
    due_buckets: Sequence[DueBucket] = ()
    fleet_size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedChanges:
    """What the pass wanted to record, and for which volumes (and windows) the ledger took it.

    The ledger does not take what another process has changed since this pass read it. ``started_at_s`` is of
    the monotonic clock. ``error`` is why some changes could not be written.
    """

    changes: Sequence[Change]
    subject_ids: AbstractSet[str]
    started_at_s: float
    error: PartialCommitError | None = None

    @property
    def applied(self) -> list[Change]:
        return [change for change in self.changes if change.volume_id in self.subject_ids]


_CollectionT = TypeVar("_CollectionT", bound=Collection)


def run_pass(
    watch_pass: WatchPass,
    collect: Callable[[WatchPass], _CollectionT],
    *,
    scope: PassScope = PassScope.FLEET,
) -> tuple[PassReport, _CollectionT]:
    """Do one pass over what ``collect`` finds due; its report, and what was collected.

    The order is the guarantee: an alert is in the ledger before it is sent, and an intent before AWS is
    called. Alerts are sent last, so that those about this pass's flips are sent with the others.
    """
    watch_pass.is_read_only = scope is PassScope.READ_ONLY
    # Collect: the volumes that are due, as EC2 describes them now.
    collection = collect(watch_pass)
    # A pass that sends nothing pays for no metrics about what drained a volume.
    watch_pass.explains_drains = not watch_pass.is_read_only
    # Evaluate: read their metrics, judge them and decide. A mistake about one volume stays with that volume.
    _evaluate(watch_pass, collection)
    # A pass that lists the fleet for the first time evaluates without knowing its size, and reports it.
    if collection.fleet_size is not None:
        watch_pass.fleet_size = collection.fleet_size
    if watch_pass.is_read_only:
        _report_unreadable_items(watch_pass)
        return _build_report(watch_pass, is_read_only=True), collection
    recorded = RecordedChanges(changes=(), subject_ids=frozenset(), started_at_s=monotonic())
    try:
        # Record: what was decided and the alerts about it, in the ledger.
        recorded = _record(watch_pass)
        # Dispatch flips: each records its own intent, calls AWS and records the outcome, here or elsewhere.
        dispatch_flips(watch_pass, recorded.subject_ids)
    except LeaseLostError:
        raise
    except Exception as error:
        # The pass fails, and what waits is sent: each pass may fail for the same reason, such as one volume.
        try:
            _send(watch_pass, recorded, scope)
        except Exception as send_error:  # noqa: BLE001 - the first error is the one to report
            error.add_note(f"alerts were not sent either: {send_error}")
        raise
    # Send: what waits in the ledger, with what the flips have added.
    delivery = _send(watch_pass, recorded, scope)
    if recorded.error is not None:
        record_internal_error(watch_pass, "not all decisions were recorded", recorded.error)
        watch_pass.is_incomplete = True
    return _build_acting_report(watch_pass, recorded, delivery, scope), collection


def _evaluate(watch_pass: WatchPass, collection: Collection) -> None:
    """Evaluate volumes and other buckets, in turn one or the other first.

    If the time of each pass ends after the first of them, neither is left out for ever.
    """
    steps = [
        partial(evaluate_due, watch_pass, collection.due),
        partial(evaluate_resources, watch_pass, collection.due_buckets),
    ]
    for step in in_turn(steps, watch_pass.context.tick_at_s):
        step()
    watch_pass.decisions.sort(key=lambda decision: not is_volume_subject(decision.volume_id))


def start_pass(services: Services, *, now_s: float, tick_at_s: int | None = None) -> WatchPass:
    """A pass that knows every state in the ledger; ``tick_at_s`` is now unless it is a tick's."""
    watch_pass = start_partial_pass(services, now_s=now_s, tick_at_s=tick_at_s)
    watch_pass.states = services.ledger.states()
    read_windows_and_holds(watch_pass)
    return watch_pass


def start_partial_pass(services: Services, *, now_s: float, tick_at_s: int | None = None) -> WatchPass:
    """A pass about a few volumes, for which the ledger is not read yet."""
    services.calls.reset()
    services.calls.limit_reads(services.read_limit_s)
    return WatchPass(
        services=services,
        context=TickContext(
            now_s=now_s,
            tick_at_s=int(now_s) if tick_at_s is None else tick_at_s,
            location=services.location,
        ),
        collector=services.build_collector(now_s),
        states=States(),
        window_schedule=WindowSchedule.at(now_s, services.policy, ()),
        holds=(),
    )


def read_windows_and_holds(watch_pass: WatchPass) -> None:
    """Read what a decision needs besides the volume's own state: windows started by hand, and holds."""
    ledger, now_s = watch_pass.services.ledger, watch_pass.context.now_s
    watch_pass.window_schedule = WindowSchedule.at(
        now_s, watch_pass.services.policy, ledger.manual_overrides().values()
    )
    watch_pass.holds = ledger.holds(now_s)


def _record(watch_pass: WatchPass) -> RecordedChanges:
    """Record the decisions, what is forgotten and the windows that start, with their alerts.

    Raises:
        LeaseLostError: another process has taken over this sweep; nothing is recorded.
    """
    services = watch_pass.services
    watch_pass.collector.heartbeat()
    changes = [
        *watch_pass.dropped,
        *(
            _due_at_once(decision.change, watch_pass.context.now_s)
            if watch_pass.leaves_flips and decision.trigger is not None
            else decision.change
            for decision in watch_pass.decisions
            if decision.change is not None
        ),
        *announce_windows(
            watch_pass.in_window,
            policy=services.policy,
            location=services.location,
            now_s=watch_pass.context.now_s,
        ),
    ]
    started_at_s = monotonic()
    recorded = RecordedChanges(changes=changes, subject_ids=frozenset(), started_at_s=started_at_s)
    try:
        subject_ids = services.ledger.commit(changes, channels=services.channel_names) if changes else set()
        return replace(recorded, subject_ids=subject_ids)
    except PartialCommitError as error:
        return replace(recorded, subject_ids=error.written_ids, error=error)


def _due_at_once(change: Change, now_s: float) -> Change:
    """The change of a volume that the next tick polls, whatever its interval is."""
    return (
        change
        if change.state is None
        else replace(change, state=replace(change.state, next_poll_at_s=int(now_s)))
    )


def _send(watch_pass: WatchPass, recorded: RecordedChanges, scope: PassScope) -> DeliveryReport:
    services, now_s = watch_pass.services, watch_pass.context.now_s
    should_send = scope is PassScope.FLEET or any(change.alerts for change in recorded.applied)
    delivery = deliver_all(
        services,
        now_s,
        channels=None if should_send else (),
        clock=lambda: now_s + monotonic() - recorded.started_at_s,
        should_stop=services.should_stop,
    )
    watch_pass.collector.failures += delivery.errors
    return delivery


def _build_acting_report(
    watch_pass: WatchPass, recorded: RecordedChanges, delivery: DeliveryReport, scope: PassScope
) -> PassReport:
    unreadable_alerts = _report_unreadable_items(watch_pass)
    knows_fleet = scope is PassScope.FLEET
    return replace(
        _build_report(watch_pass, is_read_only=False),
        sent=delivery.sent,
        undelivered=delivery.failed + unreadable_alerts,
        fleet=summarise_fleet(watch_pass.states, recorded.applied, watch_pass.fleet_size)
        if knows_fleet
        else None,
        unreadable_count=_count_unreadable(watch_pass),
    )


def _report_unreadable_items(watch_pass: WatchPass) -> int:
    """Say what the ledger holds that cannot be read; how many alerts of it will not be sent."""
    items = watch_pass.services.ledger.take_unreadable()
    reported_ids = {decision.volume_id for decision in watch_pass.decisions}
    watch_pass.collector.failures += [
        str(item) for item in items if item.kind is not ItemKind.STATE or item.subject not in reported_ids
    ]
    return sum(item.kind is ItemKind.ALERT for item in items)


def _count_unreadable(watch_pass: WatchPass) -> int:
    """How many resources were not described; if the fleet could not be listed, all that were known."""
    if watch_pass.collector.has_whole_fleet:
        return len(watch_pass.collector.unreadable) + len(watch_pass.collector.unread_kinds)
    return max(1, watch_pass.fleet_size or 0, len(watch_pass.collector.unreadable))


def _build_report(watch_pass: WatchPass, *, is_read_only: bool) -> PassReport:
    services = watch_pass.services
    return PassReport(
        now_s=watch_pass.context.now_s,
        region=services.location.region,
        ledger=services.ledger.location,
        decisions=watch_pass.decisions,
        cadence=services.policy.cadence,
        metrics_requested=services.calls.metrics_requested,
        api_calls=services.calls.calls,
        ignored=watch_pass.ignored,
        missing=watch_pass.missing,
        failures=watch_pass.collector.failures,
        internal_errors=watch_pass.internal_errors,
        is_read_only=is_read_only,
        outcomes=watch_pass.outcomes,
        holds=watch_pass.holds,
        excused_kinds=watch_pass.collector.excused_kinds,
    )
