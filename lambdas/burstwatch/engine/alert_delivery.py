"""The last step of a pass: what waits in the ledger goes to people, the most urgent first."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from burstwatch.adapters.notify.channel import AlertChannel, ChannelError
from burstwatch.core.alerts.alert import Alert, AlertKind, alert_urgency, make_digest
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ledger.ledger import Delivery, Ledger
from burstwatch.core.location import AwsLocation
from burstwatch.engine.services import Services

_LEASE_S: Final = 120.0
"""Longer than any channel takes for one alert; after a crash it is sent again when this is over."""

_SEND_LIMIT_S: Final = 10.0
"""A channel is sent to for this long in one pass, well below a tick: what is left waits for the next pass."""

_STOPPING_SEND_LIMIT_S: Final = 2.0
"""A channel that takes its alerts gets them all the same; one that is slow holds nothing up."""

_MAX_FAILURES: Final = 2
"""A channel that failed this often in one pass is left alone until the next."""

_STUCK_AFTER_ATTEMPTS: Final = 3
"""After this many attempts an alert goes behind the others, so that one bad alert cannot block a channel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryReport:
    """The outcome of what waited: ``failed`` alerts wait on; ``errors`` has one line per channel."""

    sent: int
    failed: int
    errors: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class _ChannelRun:
    """One channel in one pass.

    Alerts about the ``blocked_subjects`` volumes must not overtake an earlier one.
    """

    channel: AlertChannel
    sent: int = 0
    failed: int = 0
    failures: int = 0
    error: str | None = None
    is_finished: bool = False
    blocked_subjects: set[str] = field(default_factory=set)
    internal_errors: list[Exception] = field(default_factory=list)


def deliver(
    ledger: Ledger,
    channels: Sequence[AlertChannel],
    *,
    digest_above: int,
    location: AwsLocation,
    runbooks_url: str,
    now_s: float,
    clock: Callable[[], float] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> DeliveryReport:
    """Send what these channels have not taken yet, a digest in place of many alerts never attempted.

    Args:
        ledger: where the alerts wait, and wait on when a channel fails.
        channels: the quickest first, as each is served whole before the next.
        digest_above: more alerts than this that were never attempted become one digest.
        location: goes into the digest.
        runbooks_url: goes into the digest.
        now_s: the time of the pass.
        clock: the time of each send, so that claims hold through a long pass; ``now_s`` stands still without.
        should_stop: asked before each send; what is left soon after that waits for the next pass.

    Raises:
        ExceptionGroup: a channel raised something other than ChannelError; everything else was sent first.
    """
    current_time_s = clock or (lambda: now_s)
    runs = []
    for channel in channels:
        _replace_flood_with_digest(
            ledger, channel.name, digest_above, location=location, runbooks_url=runbooks_url, now_s=int(now_s)
        )
        run = _ChannelRun(channel=channel)
        started_at_s = current_time_s()
        for delivery in _sort_by_urgency(ledger.pending_deliveries(channels=[channel.name])):
            limit_s = _STOPPING_SEND_LIMIT_S if should_stop() else _SEND_LIMIT_S
            run.is_finished = run.is_finished or current_time_s() - started_at_s >= limit_s
            _process(run, delivery, ledger, current_time_s)
        runs.append(run)
    if internal_errors := [internal_error for run in runs for internal_error in run.internal_errors]:
        raise ExceptionGroup("alerts that broke a channel still wait in the ledger", internal_errors)
    return DeliveryReport(
        sent=sum(run.sent for run in runs),
        failed=sum(run.failed for run in runs),
        errors=tuple(_error_line(run) for run in runs if run.error),
    )


def deliver_all(
    services: Services,
    now_s: float,
    *,
    channels: Sequence[AlertChannel] | None = None,
    clock: Callable[[], float] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> DeliveryReport:
    """Send what waits to every channel of these services, or to these ``channels``, as their policy says.

    Args:
        services: their ledger, channels, policy and location.
        now_s: the time of the pass.
        channels: in place of theirs.
        clock: as for :func:`deliver`.
        should_stop: as for :func:`deliver`.

    Raises:
        ExceptionGroup: as :func:`deliver`.
    """
    return deliver(
        services.ledger,
        services.channels if channels is None else channels,
        digest_above=services.policy.alerts.digest_above,
        location=services.location,
        runbooks_url=services.policy.alerts.runbooks_url,
        now_s=now_s,
        clock=clock,
        should_stop=should_stop,
    )


def _replace_flood_with_digest(
    ledger: Ledger, channel: str, digest_above: int, *, location: AwsLocation, runbooks_url: str, now_s: int
) -> None:
    """Replace a flood by a digest; alerts about the watchdog itself and earlier digests stay themselves."""
    waiting = ledger.pending_deliveries(channels=[channel])
    new_alerts = [
        entry.alert for entry in waiting if entry.attempts == 0 and entry.alert.volume_id is not None
    ]
    if len(new_alerts) > digest_above:
        digest = make_digest(new_alerts, location=location, runbooks_url=runbooks_url, now_s=now_s)
        ledger.replace_with_digest([alert.alert_id for alert in new_alerts], digest, channels=[channel])


def _sort_by_urgency(waiting: Iterable[Delivery]) -> list[Delivery]:
    """The most urgent volume first; alerts about one volume stay together, the oldest of them first."""
    by_subject: dict[str, list[Delivery]] = {}
    for delivery in waiting:
        by_subject.setdefault(_subject(delivery.alert), []).append(delivery)
    return [delivery for group in sorted(by_subject.values(), key=_urgency_key) for delivery in group]


def _subject(alert: Alert) -> str:
    return alert.volume_id or alert.alert_id


def _urgency_key(group: Sequence[Delivery]) -> tuple[bool, int, float]:
    if any(delivery.alert.kind is AlertKind.DIGEST for delivery in group):
        return False, -len(Level), 0.0
    is_stuck = any(delivery.attempts >= _STUCK_AFTER_ATTEMPTS for delivery in group)
    times_to_empty_s = [delivery.alert.forecast.get("time_to_empty_s") for delivery in group]
    worst = max(alert_urgency(delivery.alert).rank for delivery in group)
    return (
        is_stuck,
        -worst,
        min(
            (time_to_empty_s for time_to_empty_s in times_to_empty_s if time_to_empty_s is not None),
            default=float("inf"),
        ),
    )


def _process(
    run: _ChannelRun, delivery: Delivery, ledger: Ledger, current_time_s: Callable[[], float]
) -> None:
    subject = _subject(delivery.alert)
    if run.is_finished or subject in run.blocked_subjects:
        run.failed += run.error is not None
        return
    if not ledger.claim_delivery(delivery, now_s=current_time_s(), lease_s=_LEASE_S):
        run.blocked_subjects.add(subject)
        return
    error = _send(run, delivery.alert)
    if error is None:
        ledger.mark_delivered(delivery, at_s=int(current_time_s()))
        run.sent += 1
        return
    ledger.mark_undelivered(delivery, error=error)
    run.failed += 1
    run.error = run.error or error
    run.blocked_subjects.add(subject)
    run.is_finished = run.is_finished or delivery.alert.kind is AlertKind.DIGEST


def _send(run: _ChannelRun, alert: Alert) -> str | None:
    """Why the channel did not take the alert, None when it did."""
    try:
        run.channel.send(alert)
    except ChannelError as channel_error:
        run.failures += 1
        run.is_finished = channel_error.is_permanent or run.failures >= _MAX_FAILURES
        return str(channel_error)
    except Exception as error:  # noqa: BLE001 - raised again when the other alerts are out
        error.add_note(f"while sending alert {alert.alert_id} to {run.channel.name}")
        run.internal_errors.append(error)
        return f"a fault in burstwatch ({type(error).__name__}): report it with the id of the alert"
    return None


def _error_line(run: _ChannelRun) -> str:
    alerts = "1 alert waits" if run.failed == 1 else f"{run.failed} alerts wait"
    return f"{run.channel.name}: {alerts} for the next pass: {run.error}"
