"""The flip column of the table: a few words on the flip or hold of a volume."""

from burstwatch.core.ebs.pricing import Configuration
from burstwatch.core.flips.outcome import OutcomeStatus
from burstwatch.core.flips.refusal import Guard
from burstwatch.core.ledger.flip_state import Direction, Flip, active_hold
from burstwatch.core.watch.decision import Decision
from burstwatch.core.watch.pass_report import PassReport


def describe_flip_status(decision: Decision, report: PassReport) -> str:
    """``-> gp3, 3,000 IOPS``, ``on io1, 3,125 IOPS``, ``held``; or an empty text.

    A hold on everything is not shown, because it would be in every row.
    """
    own_holds = [hold for hold in report.holds if hold.volume_id is not None]
    resource_id = decision.assessment.resource.resource_id
    is_held = active_hold(own_holds, resource_id, report.now_s) is not None
    text = _describe_outcome(decision, report) or (_describe_flip(decision.flip) if decision.flip else "")
    is_hold_mentioned = text.endswith(Guard.HELD)
    return ", ".join(filter(None, (text, "held" if is_held and not is_hold_mentioned else "")))


def is_flip_active(decision: Decision, report: PassReport) -> bool:
    """Whether a flip is in progress, must still be returned, or was requested in this pass."""
    is_away = decision.flip is not None and not decision.flip.is_settled
    return is_away or bool(_describe_outcome(decision, report))


def _describe_outcome(decision: Decision, report: PassReport) -> str:
    outcome = report.outcome_of(decision)
    match outcome.status:
        case OutcomeStatus.FLIPPED:
            return "flipped now"
        case OutcomeStatus.FLIPPED_BACK:
            return "flipped back now"
        case OutcomeStatus.REFUSED:
            return f"refused: {outcome.refusal.guard}" if outcome.refusal else "refused"
        case OutcomeStatus.FAILED:
            return "not flipped, failed"
        case _:
            return ""


def _describe_flip(flip: Flip) -> str:
    if flip.is_under_way:
        arrow = "->" if flip.direction is Direction.FLIP else "back ->"
        return (
            f"{'stuck ' if flip.is_stuck_alerted else ''}{arrow}"
            f" {format_configuration(flip.requested_config)}"
        )
    return f"{'stays' if flip.is_permanent else 'on'} {format_configuration(flip.target)}"


def format_configuration(configuration: Configuration) -> str:
    """``io1, 3,125 IOPS``."""
    iops = "" if configuration.iops is None else f", {configuration.iops:,} IOPS"
    return f"{configuration.volume_type}{iops}"
