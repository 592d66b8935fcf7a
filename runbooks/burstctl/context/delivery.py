"""Alerts that a command sends after a modification, whose report must not be lost if one cannot be sent."""

from collections.abc import Callable, Sequence

from burstctl.cli.output import print_internal_error
from burstwatch.core.errors import LedgerError
from burstwatch.engine.alert_delivery import deliver_all
from burstwatch.engine.services import Services


def deliver_after_modification(services: Services, now_s: float, clock: Callable[[], float]) -> Sequence[str]:
    """Send what waits, and return what could not be sent and why; a defect of a channel is printed too."""
    try:
        return deliver_all(services, now_s, clock=clock).errors
    except LedgerError as error:
        return [error.problem]
    except ExceptionGroup as group:
        for defect in group.exceptions:
            print_internal_error(defect)
        return [group.message]
