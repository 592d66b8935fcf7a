"""Which guards a person may override."""

from collections.abc import Collection, Iterable
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from burstctl.render.planned_flip import Planned
from burstwatch.core.flips.guards import OF_AWS, Guard, guard_page

OVERRIDABLE: Final = tuple(guard for guard in Guard if guard not in OF_AWS | {Guard.NO_CHANGE_NEEDED})


class GuardName(click.ParamType[Guard]):
    """A guard that a person may override."""

    name = "guard"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Guard:
        if str(value) not in list(Guard):
            listed = ", ".join(OVERRIDABLE)
            self.fail(f"{str(value)!r} is no guard; these can be overridden: {listed}.", param, ctx)
        guard = Guard(str(value))
        if guard in OF_AWS:
            self.fail(f"AWS itself refuses for {guard}, nobody can override that.", param, ctx)
        if guard not in OVERRIDABLE:
            self.fail(
                f"{guard} cannot be overridden: it would use up a modification for nothing.", param, ctx
            )
        return guard

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem[str]]:
        return [CompletionItem(str(guard)) for guard in OVERRIDABLE if guard.startswith(incomplete)]


def override_hint(planned: Iterable[Planned]) -> str | None:
    """What would have it done all the same; None where no override helps."""
    refused = [{refusal.guard for refusal in each.refusals} for each in planned]
    could = {guard for guards in refused if guards <= set(OVERRIDABLE) for guard in guards}
    if not could:
        return None
    options = " ".join(f"--override {guard}" for guard in OVERRIDABLE if guard in could)
    return f"to do it all the same: {options} --reason TEXT"


def refusing_guards(planned: Iterable[Planned]) -> set[Guard]:
    """The guards that refuse any of it."""
    return {refusal.guard for each in planned for refusal in each.refusals}


def page_hints(refusing: Collection[Guard], runbooks_url: str) -> list[str]:
    """Where each guard that refuses something is explained, in the order of the guards."""
    return [f"how to go on: {guard_page(guard, runbooks_url)}" for guard in Guard if guard in refusing]
