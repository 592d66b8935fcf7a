"""A few words for the table on what happens to a volume beside its balance."""

from burstwatch.core.ebs.pricing import Configuration
from burstwatch.core.flips.guards import Guard
from burstwatch.core.flips.outcome import Done
from burstwatch.core.ledger.flip_state import Direction, Flip, hold_on
from burstwatch.core.watch.decide import Decision
from burstwatch.core.watch.report import Report


def mark_of(decision: Decision, report: Report) -> str:
    """``-> gp3, 3,000 IOPS``, ``on io1, 3,125 IOPS``, ``held``; empty where there is nothing to say.

    A hold on everything is no mark: it would stand at every volume.
    """
    own_holds = [hold for hold in report.holds if hold.volume_id is not None]
    is_held = hold_on(own_holds, decision.volume_id, report.now_s) is not None
    said = _done_just_now(decision, report) or (_standing(decision.flip) if decision.flip else "")
    is_said = said.endswith(Guard.HELD)
    return ", ".join(filter(None, (said, "held" if is_held and not is_said else "")))


def is_moving(decision: Decision, report: Report) -> bool:
    """Whether a flip of it is under way or has still to be brought back, or was wanted in this pass."""
    is_away = decision.flip is not None and not decision.flip.is_settled
    return is_away or bool(_done_just_now(decision, report))


def _done_just_now(decision: Decision, report: Report) -> str:
    outcome = report.outcome_of(decision)
    match outcome.done:
        case Done.FLIPPED:
            return "flipped now"
        case Done.FLIPPED_BACK:
            return "flipped back now"
        case Done.REFUSED:
            return f"refused: {outcome.refusal.guard}" if outcome.refusal else "refused"
        case Done.FAILED:
            return "not flipped, failed"
        case _:
            return ""


def _standing(flip: Flip) -> str:
    if flip.is_under_way:
        way = "->" if flip.direction is Direction.OUT else "back ->"
        return f"{'stuck ' if flip.stuck_told else ''}{way} {short_configuration(flip.asked_for)}"
    return f"{'stays' if flip.stays else 'on'} {short_configuration(flip.target)}"


def short_configuration(configuration: Configuration) -> str:
    """``io1, 3,125 IOPS``."""
    iops = "" if configuration.iops is None else f", {configuration.iops:,} IOPS"
    return f"{configuration.volume_type}{iops}"
