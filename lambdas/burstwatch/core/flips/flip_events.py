"""What is reported of a flip: its facts, what it costs, and what to do after a failure."""

from typing import Any

from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.ebs.pricing import (
    PRICE_SOURCE,
    US_EAST_1,
    Configuration,
    usd_per_hour,
    usd_per_month,
)
from burstwatch.core.flips.transition import Event
from burstwatch.core.ledger.flip_state import (
    WATCHDOG,
    Direction,
    Flip,
    configuration_to_document,
)
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.policy.windows import (
    LeadPolicy,
    describe_flip_duration,
    expected_flip_duration,
)
from burstwatch.core.text import (
    HALF_CENT_USD,
    format_relative_time,
    format_usd,
    instant_or_none,
    rounded_or_none,
)


def accepted_event(
    flip: Flip, lead: LeadPolicy, *, time_to_empty_s: float | None = None, note: str = ""
) -> Event:
    """AWS accepted it; ``time_to_empty_s`` is how long the credits last, None if that is not known."""
    is_flip = flip.direction is Direction.FLIP
    reason_text = f" ({flip.reason})" if flip.reason else ""
    progress_note = (
        f"{describe_flip_duration(flip.size_gib, lead, time_to_empty_s=time_to_empty_s)}"
        " While AWS optimizes it, its performance is between the two."
        if is_flip
        else "Its burst balance is unknown until the first fresh datapoint."
    )
    return Event(
        kind=EntryKind.ACCEPTED,
        summary=f"is being modified to {flip.requested_config}",
        details=(
            f"Requested by {flip.by}{reason_text}.",
            f"It was {previous_config(flip)}; this {_format_cost_change(_usd_per_month_more(flip))}.",
            progress_note,
            *([note] if note else []),
        ),
        alert=AlertKind.FLIPPED if is_flip else AlertKind.FLIPPED_BACK,
        facts=flip_facts(flip)
        | {"because": flip.reason, "stays": flip.is_permanent}
        | {
            "expected_least_s": round(lead.least.total_seconds()),
            "expected_most_s": round(expected_flip_duration(flip.size_gib, lead).total_seconds()),
            "time_to_empty_s": rounded_or_none(time_to_empty_s),
        },
    )


def flip_facts(flip: Flip) -> dict[str, Any]:
    """The last requested modification, for programs: JSON values, dollars a month."""
    return {
        "intent_id": flip.intent_id,
        "direction": str(flip.direction),
        "from": configuration_to_document(previous_config(flip)),
        "to": configuration_to_document(flip.requested_config),
        "original": configuration_to_document(flip.original),
        "usd_per_month_more": _usd_per_month_more(flip),
        "by": flip.by,
        "cause": str(flip.cause),
    }


def format_failure(
    flip: Flip, retry_at_s: float | None, now_s: float, *, unavailable_message: str | None = None
) -> tuple[str, ...]:
    """What the volume is after a modification that was not made, and who tries again, as sentences.

    ``unavailable_message`` states why there is no attempt soon.
    """
    if unavailable_message is not None:
        return f"It is still {previous_config(flip)}, not {flip.requested_config}.", unavailable_message
    retry_text = f"Requested by {flip.by}; it must be requested again."
    if flip.by == WATCHDOG and retry_at_s is not None:
        retry_text = (
            f"The watchdog tries again {format_relative_time(retry_at_s, now_s, 'UTC')}, if that is still"
            " needed and no guard refuses."
        )
    return f"It is still {previous_config(flip)}, not {flip.requested_config}.", retry_text


def retry_command(flip: Flip, volume_id: str) -> str:
    """The command by which a person requests the same modification."""
    return f"burstctl {'flip' if flip.direction is Direction.FLIP else 'flip-back'} {volume_id}"


def previous_config(flip: Flip) -> Configuration:
    """The configuration that the last requested modification leads away from."""
    if flip.direction is Direction.FLIP_BACK:
        return flip.target
    return flip.previous.target if flip.previous else flip.original


def _usd_per_month_more(flip: Flip) -> float:
    before_usd, after_usd = (
        usd_per_month(configuration, flip.size_gib, US_EAST_1)
        for configuration in (previous_config(flip), flip.requested_config)
    )
    return round(after_usd - before_usd, 6)


def _format_cost_change(usd_per_month: float) -> str:
    if abs(usd_per_month) < HALF_CENT_USD:
        return "costs the same"
    word = "more" if usd_per_month > 0 else "less"
    per_month, per_hour = abs(usd_per_month), usd_per_hour(abs(usd_per_month))
    return (
        f"costs {format_usd(per_month)} a month {word}, {format_usd(per_hour, decimals=4)} an hour"
        f" ({PRICE_SOURCE})"
    )


def failure_facts(reason: str, retry_at_s: float | None, *, code: str | None = None) -> dict[str, Any]:
    """A modification that was not made, for programs; ``code`` is the error code of AWS."""
    retry_at = instant_or_none(retry_at_s)
    return {"reason": reason, "error_code": code, "retry_at": retry_at}
