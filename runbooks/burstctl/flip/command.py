"""``burstctl flip`` and ``burstctl flip-back``: an operator's modifications, under the same guards as any."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final, TypeVar

import click

from burstctl.cli.exit_codes import ExitCode
from burstctl.cli.options import ORDER_DURATION, Command, Options, ReasonText, ResourceName, common_options
from burstctl.cli.tag_filter import TagTerm, TagTermType
from burstctl.context.context import open_modifying
from burstctl.flip.execute import modify
from burstctl.flip.select import FlipSelection
from burstctl.render.guard_override import OVERRIDABLE, GuardName
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.ebs.sizing import TargetOverride
from burstwatch.core.ebs.volume_types import TYPE_LIMITS
from burstwatch.core.errors import Problem
from burstwatch.core.flips.refusal import Guard
from burstwatch.core.ledger.flip_state import Direction

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])


class TargetType(click.Choice[str]):
    """A type to flip to."""

    name = "type"

    def __init__(self) -> None:
        super().__init__([str(volume_type) for volume_type in TYPE_LIMITS])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> VolumeType:
        if str(value) == VolumeType.GP2:
            self.fail(
                Problem("gp2 is not a valid target", "burstctl flip-back restores the former type"),
                param,
                ctx,
            )
        if str(value) not in TYPE_LIMITS:
            self.fail(
                Problem(f"{str(value)!r} is not a valid target", f"give {', '.join(TYPE_LIMITS)}"),
                param,
                ctx,
            )
        return VolumeType(str(value))


_SHARED_OPTIONS: Final = (
    click.argument("volumes", metavar="[VOLUME]...", nargs=-1, type=ResourceName()),
    click.option(
        "--where",
        "terms",
        multiple=True,
        type=TagTermType(),
        metavar="tag:K=V",
        help="Volumes with this tag (tag:K: any value); repeat to narrow the selection.",
    ),
    click.option(
        "--override",
        "overridden",
        multiple=True,
        type=GuardName(),
        metavar="GUARD",
        help=f"Override this guard (requires --reason): {', '.join(OVERRIDABLE)}.",
    ),
    click.option(
        "--reason", type=ReasonText(), metavar="TEXT", help="The reason, for the ledger and alerts."
    ),
    click.option("--dry-run", is_flag=True, help="Show the plan and ask AWS whether it may; do nothing."),
    click.option("--yes", "assumes_yes", is_flag=True, help="Do not ask; required without a terminal."),
)


def _add_shared_options(function: _Decorated) -> _Decorated:
    for option in reversed(_SHARED_OPTIONS):
        function = option(function)
    return function


@click.command(
    cls=Command,
    examples=(
        ("burstctl flip ci-7", "to gp3, as fast as its burst; asks before it does"),
        ("burstctl flip vol-0123456789abcdef0 --to io1 --iops 4000 --for 6h", "and back when calm after 6 h"),
        ("burstctl flip --where tag:role=ci --dry-run", "what that would be and cost, for every such gp2"),
        (
            'burstctl flip vol-0123456789abcdef0 --override cooldown --reason "INC-7"',
            "although it was modified just now",
        ),
    ),
    page="runbooks/VolumeFlipped.md",
    without=(),
)
@_add_shared_options
@click.option(
    "--to",
    "target",
    type=TargetType(),
    metavar="gp3|io1|io2",
    help="The target type; default: tag, else policy.",
)
@click.option("--iops", type=click.IntRange(min=1), metavar="N", help="Provision exactly N IOPS.")
@click.option(
    "--throughput", type=click.IntRange(min=1), metavar="N", help="Provision exactly N MiB/s; gp3 only."
)
@click.option(
    "--for", "lasts", type=ORDER_DURATION, metavar="SPAN", help="Flip back after this long (1m-30d)."
)
@common_options
def flip(
    volumes: Sequence[str],
    options: Options,
    *,
    target: VolumeType | None,
    iops: int | None,
    throughput: int | None,
    lasts: timedelta | None,
    **shared: Any,
) -> ExitCode:
    """Move volumes off burst credits: show the plan and its price, ask, modify.

    The VOLUMEs given, of whatever type, or every gp2 volume that carries all the tags given. Any volume will
    do, opted in or not. After you agree everything is read and asked again: what was shown is done, or
    refused. Without --ledger it fails if a deployed stack uses another ledger, or if this cannot be checked.

    Exits 1 if anything failed or is not clear, else 4 if a guard refuses; 2 if nothing fits --where, 130 if
    the answer is no.
    """
    target_override = None
    if (target, iops, throughput) != (None, None, None):
        target_override = TargetOverride(volume_type=target, iops=iops, throughput_mib_s=throughput)
    request = _request(Direction.FLIP, volumes, target_override=target_override, duration=lasts, **shared)
    with open_modifying(options) as context:
        return modify(context, request)


@click.command(
    name="flip-back",
    cls=Command,
    examples=(
        ("burstctl flip-back ci-7", "to what it was before its flip; asks before it does"),
        ("burstctl flip-back --where tag:role=ci --yes", "every such volume with a flip in the ledger"),
    ),
    page="runbooks/VolumeFlippedBack.md",
    without=(),
)
@_add_shared_options
@common_options
def flip_back(volumes: Sequence[str], options: Options, **shared: Any) -> ExitCode:
    """Return flipped volumes to their former type: show the plan and its price, ask, modify.

    The VOLUMEs given, or every volume with a flip in the ledger that carries all the tags given. It does not
    wait for calm. The volume then depends on credits again, and their number is unknown.

    Exits 1 if anything failed or is not clear, else 4 if a guard refuses; 2 if nothing fits --where, 130 if
    the answer is no.
    """
    request = _request(Direction.FLIP_BACK, volumes, **shared)
    with open_modifying(options) as context:
        return modify(context, request)


def _request(
    direction: Direction,
    volumes: Sequence[str],
    *,
    terms: Sequence[TagTerm],
    overridden: Sequence[Guard],
    reason: str | None,
    **values: Any,
) -> FlipSelection:
    """The request, if the options agree with each other."""
    if bool(volumes) == bool(terms):
        raise click.UsageError(
            Problem(
                "no volumes are named" if not volumes else "VOLUME and --where are mutually exclusive",
                "select volumes either by VOLUME or by --where tag:KEY=VALUE",
            )
        )
    if overridden and reason is None:
        raise click.UsageError(
            Problem("--override needs a reason, which the ledger keeps", "add --reason TEXT")
        )
    return FlipSelection(
        direction=direction,
        names=list(dict.fromkeys(volumes)),
        terms=list(dict.fromkeys(terms)),
        overridden=frozenset(overridden),
        reason=reason,
        **values,
    )
