"""``burstctl top``: the fleet as a live view on a terminal."""

import os
import sys
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Final

import click

from burstctl.assess.assess_resources import assess_resources, kind_option
from burstctl.cli.exit_codes import ExitCode
from burstctl.cli.options import Command, Duration, Options, common_options
from burstctl.cli.output import print_error
from burstctl.cli.tag_filter import TagTerm, TagTermType
from burstctl.context.context import Notes, open_silently
from burstctl.context.stacks import open_aws_session
from burstctl.top.view import FleetReading, View, make_reading
from burstwatch.core.errors import Problem
from burstwatch.core.resource_type import ResourceType
from burstwatch.wiring.bootstrap import AwsSession
from burstwatch.wiring.settings import SettingsError

_OTHER_COMMANDS: Final = "run burstctl assess once, or burstctl watch for a line for each look"
_EVERY: Final = Duration(timedelta(minutes=1), timedelta(hours=1))


@click.command(
    cls=Command,
    examples=(
        ("burstctl top", "the fleet, the most urgent first, read every minute"),
        ("burstctl top --kind ebs,rds --every 5m", "volumes and databases, at a fifth of the price"),
        ("burstctl top --where tag:role=ci", "what carries this tag"),
    ),
    page="runbooks/BurstBalanceDraining.md",
    without=("exit_zero", "json", "verbose"),
)
@kind_option
@click.option(
    "--where",
    "terms",
    multiple=True,
    type=TagTermType(),
    metavar="tag:K=V",
    help="Resources with this tag (tag:K: any value); repeat to narrow the selection.",
)
@click.option(
    "--every", type=_EVERY, default="1m", metavar="SPAN", help="How often to read: 1m (default) to 1h."
)
@common_options
def top(
    options: Options,
    *,
    kinds: frozenset[ResourceType] | None,
    terms: Sequence[TagTerm],
    every: timedelta,
) -> ExitCode:
    """Watch the fleet in a live view, the most urgent resource first; it changes nothing by itself.

    Keys select a resource and run explain, flip --dry-run or hold, which asks first; ? lists them. Each
    read costs as much as one of assess: the first line shows the price of an hour. Without a key for an hour,
    it pauses.

    Exits 1 if the last read failed, wholly or partly.
    """
    if options.json:
        raise click.UsageError(
            Problem("top is for people and has no JSON", "use burstctl assess --json, or watch --json")
        )
    _require_terminal()
    from burstctl.top.selected import run_for_selected  # noqa: PLC0415 - brings every command in
    from burstctl.top.terminal import LiveView, StoppedError  # noqa: PLC0415 - brings rich in

    live = LiveView(
        View(every_s=every.total_seconds()),
        read=partial(_read, options, open_aws_session(options), kinds, terms),
        act=lambda action, resource_id: run_for_selected(action, resource_id, options),
    )
    try:
        live.run()
    except (StoppedError, KeyboardInterrupt):
        return live.leave(ExitCode.INTERRUPTED)
    view = live.view
    if view.error is not None:
        print_error(view.error, subject="the last read failed")
    has_failed = view.error is not None or (view.reading is not None and view.reading.failures)
    return live.leave(ExitCode.FAILED if has_failed else ExitCode.OK)


def _require_terminal() -> None:
    """Check that there is a terminal that can show it.

    Raises:
        SettingsError: there is no terminal, or it cannot move its cursor.
    """
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise SettingsError("top needs a terminal for its keys and its output", fix=_OTHER_COMMANDS)
    if os.environ.get("TERM", "dumb") in ("dumb", "unknown", ""):
        raise SettingsError("top needs a terminal that can move its cursor (TERM)", fix=_OTHER_COMMANDS)


def _read(
    options: Options, session: AwsSession, kinds: frozenset[ResourceType] | None, terms: Sequence[TagTerm]
) -> FleetReading:
    """One look, with the policy and the ledger as they are now: a hold may just have created the ledger."""
    notes = Notes()
    with open_silently(options, notes, session=session) as context:
        report = assess_resources((), kinds, context, keeps_samples=True, terms=terms)
        unreadable = context.services.ledger.take_unreadable()
    return make_reading(
        report, terms, unreadable=map(str, unreadable), remarks=[*notes.remarks, *map(str, notes.warnings)]
    )
