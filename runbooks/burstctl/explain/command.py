"""``burstctl explain``: the decision about one resource, and every number behind it."""

from collections.abc import Mapping
from typing import Any, Final

import click

from burstctl.cli.exit_codes import ExitCode
from burstctl.cli.options import RESOURCE_NAMES, Command, Options, ResourceName, common_options
from burstctl.context.context import open_readonly
from burstctl.context.resources import resolve_resource
from burstctl.explain.explain_instance import INSTANCE_EXPLAINER
from burstctl.explain.explain_resource import Explainer, explain_resource
from burstctl.explain.explain_storage import STORAGE_EXPLAINER
from burstctl.explain.explain_volume import VOLUME_EXPLAINER
from burstwatch.core.resource_type import ResourceType, type_of_id

_EXPLAINERS: Final[Mapping[ResourceType, Explainer[Any]]] = {
    ResourceType.EBS: VOLUME_EXPLAINER,
    ResourceType.INSTANCE: INSTANCE_EXPLAINER,
    ResourceType.EFS: STORAGE_EXPLAINER,
    ResourceType.RDS: STORAGE_EXPLAINER,
}


@click.command(
    cls=Command,
    examples=(
        ("burstctl explain ci-7", "the reason for its level, and what would change it"),
        ("burstctl explain i-0123456789abcdef0", "each bucket of an instance, and what can drain it"),
        ("burstctl explain fs-0123456789abcdef0", "a file system, and what each throughput mode would cost"),
        ("burstctl explain db:orders", "the storage and the class of a database, and the change to gp3"),
        ("burstctl explain vol-0123456789abcdef0 --json", "the same numbers for programs"),
    ),
    page="runbooks/BurstBalanceDraining.md",
    option_help={
        "verbose": "Also show how each number and the next look are computed, and which policy and ledger are"
        " used."
    },
)
@click.argument("name", metavar="RESOURCE", type=ResourceName(RESOURCE_NAMES))
@common_options
def explain(name: str, options: Options) -> ExitCode:
    """Show the decision about RESOURCE and every number behind it; changes nothing.

    For a volume: its balance, its flip, the guards that would refuse one now, its windows, holds, and AWS's
    quota. For an instance: each of its buckets, and the proof if its volumes cannot drain one. For a file
    system or a database: its load of a day, and the throughput mode or the storage that serves it.
    """
    with open_readonly(options) as context:
        resource_id = resolve_resource(context, name)
        return explain_resource(context, resource_id, _EXPLAINERS[type_of_id(resource_id)])
