"""The scope of an operator's hold or release: one region or several, and who obeys it."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from burstctl.cli.exit_codes import ExitCode
from burstctl.cli.options import ALL_REGIONS, Options
from burstctl.cli.output import print_next, print_output, to_json
from burstctl.cli.text_layout import lay_out
from burstctl.context.context import CommandContext, Notes
from burstctl.context.multi_region import print_heading, run_in_regions, to_document
from burstctl.context.stacks import UnreachableWatchdogError, check_reaches_watchdog
from burstwatch.adapters.aws.errors import AwsError
from burstwatch.core.errors import BurstwatchError, Problem
from burstwatch.core.text import format_count

if TYPE_CHECKING:
    from documents.hold import HoldsDocument, ReachDocument, ReleaseDocument

BeginOutput: TypeAlias = Callable[[Notes], None]
"""Begins what is printed of a region: its name in an order for several, and the notes."""

RegionAction: TypeAlias = Callable[[Options, BeginOutput], tuple[ExitCode, "HoldsDocument | ReleaseDocument"]]
"""Executes the order in one region, reports it, and returns the exit code and the document.

It prints nothing of a region without anything to do if the order is for several.
"""

_OTHER_REGIONS_NOTE: Final = "Other regions are not affected."


def apply_in_regions(
    options: Options,
    action: RegionAction,
    *,
    result_word: str,
    idle_reason: str,
    next_command: Sequence[str],
    has_volumes: bool,
) -> ExitCode:
    """Give an order in the region, or in each of several; no region's failure hides another's.

    ``result_word`` describes the regions in which the order had an effect, such as "held"; their documents
    have it under ``placed`` or ``released``. ``idle_reason`` is why there was nothing to do in others.
    ``next_command`` comes after an order for several regions that had an effect.

    Raises:
        click.UsageError: volumes are named, and several regions.
    """
    if not options.has_several_regions:
        code, document = action(options, Notes.print_all)
        if options.json:
            print_output(to_json(document))
        return code
    if has_volumes:
        raise click.UsageError(Problem("VOLUMEs are in one region", "give --region once, with its name"))
    documents: list[HoldsDocument | ReleaseDocument] = []
    regions_with_output: list[str] = []

    def apply_in_region(region_options: Options) -> ExitCode:
        def begin(notes: Notes) -> None:
            if not options.json:
                print_heading(region_options.regions[0], is_first=not regions_with_output)
            regions_with_output.append(region_options.regions[0])
            notes.print_all()

        code, document = action(region_options, begin)
        documents.append(document)
        return code

    try:
        visit_result = run_in_regions(options, apply_in_region)
    except AwsError as error:  # which regions there are
        raise BurstwatchError(
            f"nothing was done: {error.problem.cause}",
            fix=f"{error.problem.fix}, or name the Regions: --region NAME for each",
        ) from error
    if options.json:
        print_output(to_json(to_document(documents, visit_result.failures)))
        return visit_result.exit_code
    affected = [document["region"] for document in documents if _is_affected(document)]
    summary = _summary(result_word, idle_reason, affected, len(documents), visit_result.failures)
    print_output(("\n" if regions_with_output else "") + lay_out(summary))
    if affected:
        regions = [part for region in options.regions for part in ("--region", region)]
        print_next([options.command(*next_command, *regions)])
    return visit_result.exit_code


def _summary(
    result_word: str, idle_reason: str, affected: Sequence[str], count: int, failures: Sequence[str]
) -> str:
    """One line about all regions, such as "held in 1 region (us-east-1), nothing to do in 33"."""
    failed = [failure.partition(":")[0] for failure in failures]
    idle_count = count - len(affected)
    return (
        f"{result_word} in {_format_regions(affected)}, nothing to do in {idle_count}"
        f"{f' ({idle_reason})' if idle_count else ''}"
        f"{f', FAILED in {_format_regions(failed)}' if failed else ''}"
    )


def _is_affected(document: Mapping[str, Any]) -> bool:
    return bool(document.get("placed")) or _has_released(document)


def _has_released(document: Mapping[str, Any]) -> bool:
    released = document.get("released", ())
    return any(value for subject in released for key, value in subject.items() if key != "volume_id")


def _format_regions(regions: Sequence[str]) -> str:
    names = f" ({', '.join(regions)})" if regions else ""
    return f"{format_count(len(regions), 'region')}{names}"


def check_can_hold(context: CommandContext) -> None:
    """Refuse a hold that no watchdog reads: without a stack and without a ledger, the ledger is new.

    Raises:
        UnreachableWatchdogError: saying what it would not reach, and what to do.
    """
    check_reaches_watchdog(context.reach, context.options, outcome="nothing was held", action="this hold")
    if not context.has_ledger and not context.options.ledger:
        raise UnreachableWatchdogError(
            f"nothing was held: no stack and no ledger in {context.services.location.region}",
            fix="--region NAME, --region all, or --ledger sqlite:PATH (that of a watch on this machine);"
            " for a watch in a container, run this in the container",
        )


def describe_reach(context: CommandContext) -> str:
    """Which watchdogs an order in this ledger reaches, and which it does not."""
    reach = context.reach
    location = f"in {context.services.location.region} ({_describe_account(context)})"
    if reach.stack is not None and reach.missed_stack is None:
        return f"This reaches stack {reach.stack} {location}. {_OTHER_REGIONS_NOTE}"
    scope = f"This reaches only watchdogs {location} that use this ledger"
    if reach.other_stacks:
        return (
            f"{scope}, and NOT stack {', '.join(reach.other_stacks)}, which is deployed there."
            f" {_OTHER_REGIONS_NOTE}"
        )
    if reach.uncertainty is not None:
        return f"{scope}; whether a stack is deployed there is not known. {_OTHER_REGIONS_NOTE}"
    return f"{scope}; no stack is deployed there. {_OTHER_REGIONS_NOTE}"


def reach_document(context: CommandContext) -> "ReachDocument":
    """Where an order was placed, for programs; ``stack`` is null if no stack obeys it."""
    return {
        **context.document_header(),
        "account": context.services.location.account,
        "stack": context.reach.stack,
    }


def is_idle_region(context: CommandContext, options: Options) -> bool:
    """Whether this is certainly a region without a stack or a ledger, in an order for all regions."""
    reach = context.reach
    has_watchdog = (reach.stack, reach.missed_stack, reach.uncertainty) != (None, None, None)
    return ALL_REGIONS in options.regions and not (has_watchdog or context.has_ledger)


def _describe_account(context: CommandContext) -> str:
    return (
        f"account {context.services.location.account}"
        if context.services.location.account
        else "account unknown"
    )
