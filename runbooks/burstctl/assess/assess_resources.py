"""One look at the resources of a Region that changes nothing, and the kinds of resources to look at."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import click

from burstctl.cli.tag_filter import TagTerm
from burstctl.context.context import CommandContext
from burstctl.context.on_demand_pass import assess_volumes
from burstctl.context.resources import resolve_volumes
from burstwatch.core.errors import Problem
from burstwatch.core.resource_type import DATABASE_ID, FILE_SYSTEM_ID, ResourceType, type_of_id
from burstwatch.core.text import sanitise
from burstwatch.core.watch.pass_report import PassReport
from burstwatch.wiring.settings import SettingsError


class _Kinds(click.ParamType[frozenset[ResourceType]]):
    """Kinds of resources, separated by commas."""

    name = "kinds"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> frozenset[ResourceType]:
        names = {name.strip() for name in str(value).split(",")}
        known = list(ResourceType)
        if unknown := sorted(names - set(known)):
            listed = ", ".join(known)
            self.fail(
                Problem(f"{sanitise(unknown[0], 40)!r} is not a kind of resource", f"write some of {listed}"),
                param,
                ctx,
            )
        return frozenset(map(ResourceType, names))


kind_option: Final = click.option(
    "--kind",
    "kinds",
    type=_Kinds(),
    metavar="KIND[,KIND]",
    help="Look at these kinds only: ebs, instance, efs, rds. Default: those that the policy watches, or"
    " without a policy, every kind that you may read.",
)


def assess_resources(
    names: Sequence[str],
    kinds: frozenset[ResourceType] | None,
    context: CommandContext,
    *,
    keeps_samples: bool = False,
    terms: Sequence[TagTerm] = (),
) -> PassReport:
    """Look at what is named, or at every watched resource of these kinds.

    Without ``kinds``, the policy decides, and without a policy it is every kind that the caller may read.
    ``keeps_samples`` keeps those of a whole fleet, too. ``terms`` are tags that a resource of the fleet must
    have.

    Raises:
        SettingsError: what is named is not of these kinds.
    """
    services, looks_at_everything = context.services, kinds is None and context.policy_source.is_default
    if kinds is not None:
        services = replace(services, policy=services.policy.watching(kinds))
    elif looks_at_everything:
        services = replace(services, policy=services.policy.watching_everything())
    context.progress.begin()
    try:
        # the ID of an instance means its volumes; those of other kinds are not looked up
        advised = [name for name in names if FILE_SYSTEM_ID.fullmatch(name) or DATABASE_ID.fullmatch(name)]
        volume_ids = resolve_volumes(context, [name for name in names if name not in advised])
        resource_ids = [*volume_ids, *advised]
        _check_kinds(resource_ids, kinds)
        report = assess_volumes(
            services,
            resource_ids,
            now_s=services.clock(),
            excuses_denied=looks_at_everything,
            keeps_samples=keeps_samples,
            with_flipped=kinds is None or ResourceType.EBS in kinds,
            selects=lambda resource: all(term.matches(resource) for term in terms),
        )
    finally:
        context.progress.end()
    return replace(report, ledger=context.ledger_location)


def _check_kinds(resource_ids: Sequence[str], kinds: frozenset[ResourceType] | None) -> None:
    """An ID that ``--kind`` excludes is a mistake in one of the two."""
    for resource_id in resource_ids:
        if kinds is not None and type_of_id(resource_id) not in kinds:
            raise SettingsError(
                f"{resource_id} is not of the kind {', '.join(sorted(kinds))}",
                fix="leave out --kind: an ID says what to look at",
            )
