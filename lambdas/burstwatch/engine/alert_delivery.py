"""The last step of a pass: what waits in the ledger goes to people, the most urgent first."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from burstwatch.adapters.notify.channel import Channel, ChannelError
from burstwatch.core.alerts.alert import Alert, AlertKind, make_digest, urgency
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ledger.ledger import Delivery, Ledger
from burstwatch.core.location import Place

_LEASE_S: Final = 120.0
"""Longer than any channel takes for one alert; after a crash it is sent again when this is over."""

_SEND_FOR_S: Final = 10.0
"""A channel is sent to for so long in one pass, well below a tick: what is left waits for the next pass."""

_SEND_WHILE_STOPPING_S: Final = 2.0
"""A channel that takes its alerts gets them all the same; one that is slow holds nothing up."""

_MOST_FAILURES: Final = 2
"""A channel that failed this often in one pass is left alone until the next."""

_STUCK_FROM: Final = 3
"""After so many attempts an alert goes behind the others, so that one bad alert cannot block a channel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryReport:
    """What became of what waited: ``failed`` alerts wait on; ``errors`` has one line per channel."""

    sent: int
    failed: int
    errors: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class _Pass:
    """One channel in one pass; alerts about the ``held`` volumes must not overtake an earlier one."""

    channel: Channel
    sent: int = 0
    failed: int = 0
    failures: int = 0
    error: str | None = None
    is_over: bool = False
    held: set[str] = field(default_factory=set)
    bugs: list[Exception] = field(default_factory=list)


def deliver(
    ledger: Ledger,
    channels: Sequence[Channel],
    *,
    digest_above: int,
    place: Place,
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
        place: goes into the digest.
        runbooks_url: goes into the digest.
        now_s: the time of the pass.
        clock: the time of each send, so that claims hold through a long pass; ``now_s`` stands still without.
        should_stop: asked before each send; what is left soon after that waits for the next pass.

    Raises:
        ExceptionGroup: a channel raised something other than ChannelError; everything else was sent first.
    """
    tell_time = clock or (lambda: now_s)
    passes = []
    for channel in channels:
        _bundle(ledger, channel.name, digest_above, place=place, runbooks_url=runbooks_url, now_s=int(now_s))
        this = _Pass(channel=channel)
        began_s = tell_time()
        for delivery in _in_order(ledger.waiting(channels=[channel.name])):
            most_s = _SEND_WHILE_STOPPING_S if should_stop() else _SEND_FOR_S
            this.is_over = this.is_over or tell_time() - began_s >= most_s
            _serve(this, delivery, ledger, tell_time)
        passes.append(this)
    if bugs := [bug for this in passes for bug in this.bugs]:
        raise ExceptionGroup("alerts that broke a channel still wait in the ledger", bugs)
    return DeliveryReport(
        sent=sum(this.sent for this in passes),
        failed=sum(this.failed for this in passes),
        errors=tuple(_error_line(this) for this in passes if this.error),
    )


def _bundle(
    ledger: Ledger, channel: str, digest_above: int, *, place: Place, runbooks_url: str, now_s: int
) -> None:
    """Replace a flood by a digest; alerts about the watchdog itself and earlier digests stay themselves."""
    waiting = ledger.waiting(channels=[channel])
    fresh = [waits.alert for waits in waiting if waits.attempts == 0 and waits.alert.volume_id is not None]
    if len(fresh) > digest_above:
        digest = make_digest(fresh, place=place, runbooks_url=runbooks_url, now_s=now_s)
        ledger.bundle([alert.alert_id for alert in fresh], digest, channels=[channel])


def _in_order(waiting: Iterable[Delivery]) -> list[Delivery]:
    """The most urgent volume first; alerts about one volume stay together, the oldest of them first."""
    by_subject: dict[str, list[Delivery]] = {}
    for delivery in waiting:
        by_subject.setdefault(_subject(delivery.alert), []).append(delivery)
    return [delivery for together in sorted(by_subject.values(), key=_urgency) for delivery in together]


def _subject(alert: Alert) -> str:
    return alert.volume_id or alert.alert_id


def _urgency(together: Sequence[Delivery]) -> tuple[bool, int, float]:
    if any(delivery.alert.kind is AlertKind.DIGEST for delivery in together):
        return False, -len(Level), 0.0
    is_stuck = any(delivery.attempts >= _STUCK_FROM for delivery in together)
    spans_s = [delivery.alert.forecast.get("time_to_empty_s") for delivery in together]
    worst = max(urgency(delivery.alert).rank for delivery in together)
    return is_stuck, -worst, min((span for span in spans_s if span is not None), default=float("inf"))


def _serve(this: _Pass, delivery: Delivery, ledger: Ledger, tell_time: Callable[[], float]) -> None:
    subject = _subject(delivery.alert)
    if this.is_over or subject in this.held:
        this.failed += this.error is not None
        return
    if not ledger.claim(delivery, now_s=tell_time(), lease_s=_LEASE_S):
        this.held.add(subject)
        return
    error = _send(this, delivery.alert)
    if error is None:
        ledger.delivered(delivery, at_s=int(tell_time()))
        this.sent += 1
        return
    ledger.not_delivered(delivery, error=error)
    this.failed += 1
    this.error = this.error or error
    this.held.add(subject)
    this.is_over = this.is_over or delivery.alert.kind is AlertKind.DIGEST


def _send(this: _Pass, alert: Alert) -> str | None:
    """Why the channel did not take the alert, None when it did."""
    try:
        this.channel.send(alert)
    except ChannelError as fault:
        this.failures += 1
        this.is_over = fault.is_permanent or this.failures >= _MOST_FAILURES
        return str(fault)
    except Exception as bug:  # noqa: BLE001 - raised again when the other alerts are out
        bug.add_note(f"while sending alert {alert.alert_id} to {this.channel.name}")
        this.bugs.append(bug)
        return f"a fault in burstwatch ({type(bug).__name__}): report it with the id of the alert"
    return None


def _error_line(this: _Pass) -> str:
    alerts = "1 alert waits" if this.failed == 1 else f"{this.failed} alerts wait"
    return f"{this.channel.name}: {alerts} for the next pass: {this.error}"
