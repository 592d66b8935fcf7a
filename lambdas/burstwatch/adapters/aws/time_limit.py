"""Limits calls to AWS in a process that ends at a known time, as Lambda ends an invocation."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from burstwatch.adapters.aws.errors import OutOfTimeError

if TYPE_CHECKING:
    from botocore.client import BaseClient

_FINISH_RESERVE_S: Final = 2.0
"""The time that remains for the process after a call that takes as long as it may."""

_SLOW_CALL_S: Final = 5.0
"""A call that took longer is reported: usually it takes tens of milliseconds."""
_STARTED_AT_KEY: Final = "burstwatch-began"


@dataclass(slots=True)
class TimeLimit:
    """Prevents requests that could outlast the invocation, and reports each slow call by its name.

    Without it, Lambda ends the process in the middle of a call, and no log line names that call.
    ``remaining_s`` returns the seconds that remain; before the first invocation there is no limit.
    """

    remaining_s: Callable[[], float] = lambda: inf
    report: Callable[[str], object] = lambda _message: None

    def attach(self, client: "BaseClient") -> None:
        """Check each attempt of this client against the timeouts of its configuration."""
        events = client.meta.events
        config: Any = client.meta.config
        service = client.meta.service_model.service_id.hyphenize()
        needed_s = config.connect_timeout + config.read_timeout + _FINISH_RESERVE_S

        def check(**_: object) -> None:
            if (remaining_s := self.remaining_s()) < needed_s:
                raise OutOfTimeError(
                    why=f"{remaining_s:.0f} s are left of the invocation, and it may take {needed_s:.0f} s"
                )

        events.register(f"before-send.{service}", check)
        events.register(f"before-call.{service}", _record_start)
        events.register(f"after-call.{service}", self._record_end)
        events.register(f"after-call-error.{service}", self._record_end)

    def _record_end(self, event_name: str, context: dict[str, Any], **_: object) -> None:
        took_s = monotonic() - context.get(_STARTED_AT_KEY, inf)
        if took_s >= _SLOW_CALL_S:
            service, operation = event_name.split(".")[1:]
            self.report(f"{service}:{operation} took {took_s:.1f} s")


def _record_start(context: dict[str, Any], **_: object) -> None:
    context[_STARTED_AT_KEY] = monotonic()
