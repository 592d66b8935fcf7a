"""Which guards a person may override, and what else to do about one that refuses."""

from collections.abc import Collection, Iterable
from typing import Any, Final

import click

from burstctl.render.planned_flip import PlannedFlip
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.errors import Problem
from burstwatch.core.flips.refusal import (
    AUTOMATION_ONLY,
    NON_OVERRIDABLE,
    Guard,
    guard_page,
    resource_to_explain,
)

OVERRIDABLE: Final = tuple(
    guard for guard in Guard if guard not in NON_OVERRIDABLE | AUTOMATION_ONLY | {Guard.NO_CHANGE_NEEDED}
)
"""The guards that refuse a person's modification unless the person overrides them."""


class GuardName(click.Choice[str]):
    """A guard that a person may override."""

    name = "guard"

    def __init__(self) -> None:
        super().__init__([str(guard) for guard in OVERRIDABLE])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Guard:
        if str(value) not in list(Guard):
            listed = ", ".join(OVERRIDABLE)
            self.fail(Problem(f"{str(value)!r} is not a valid guard", f"give one of {listed}"), param, ctx)
        guard = Guard(str(value))
        if guard in NON_OVERRIDABLE:
            cause = f"AWS itself refuses for {guard}, so it cannot be overridden"
            self.fail(
                Problem(cause, "leave it out; burstctl runbook FlipRefused says how it ends"), param, ctx
            )
        if guard in AUTOMATION_ONLY:
            self.fail(
                Problem(f"{guard} stops only the watchdog, not this command", "leave it out"), param, ctx
            )
        if guard not in OVERRIDABLE:
            cause = f"{guard} cannot be overridden: it would use up a modification for nothing"
            self.fail(Problem(cause, "leave it out"), param, ctx)
        return guard


def override_hint(planned: Iterable[PlannedFlip]) -> str | None:
    """The command that would do it in spite of the guard; None if no override applies."""
    refusing_sets = [{refusal.guard for refusal in flip.shown_refusals} for flip in planned]
    overridable = {guard for guards in refusing_sets if guards <= set(OVERRIDABLE) for guard in guards}
    if not overridable:
        return None
    options = " ".join(f"--override {guard}" for guard in OVERRIDABLE if guard in overridable)
    return f"to do it anyway: {options} --reason TEXT"


def refusing_guards(planned: Iterable[PlannedFlip]) -> set[Guard]:
    """The guards that refuse any of it."""
    return {refusal.guard for flip in planned for refusal in flip.shown_refusals}


def runbook_hints(refusing_guards: Collection[Guard], runbooks_url: str) -> list[str]:
    """Where each guard that refuses something is explained, in the order of the guards."""
    pages = [guard_page(guard, runbooks_url) for guard in Guard if guard in refusing_guards]
    return [f"how to go on: {page}" for page in dict.fromkeys(pages)]


def command_about(volume: Volume, refusing_guards: Collection[Guard]) -> list[str]:
    """What shows why a flip of the volume is refused: of it, or of the instance that is the bottleneck."""
    if volume.volume_type not in frozenset(VolumeType):
        return ["which", volume.volume_id]
    return ["explain", resource_to_explain(volume, refusing_guards)]
