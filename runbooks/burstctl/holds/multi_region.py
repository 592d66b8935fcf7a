"""Orders of an operator, hold and release: whom they reach, in one region or several."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import click

from burstctl.cli.exit_codes import Exit
from burstctl.cli.options import ALL_REGIONS, Options
from burstctl.cli.output import show, to_json
from burstctl.cli.text_layout import COLUMNS, hang
from burstctl.context.context import Desk
from burstctl.context.multi_region import show_heading, to_document, visit
from burstwatch.adapters.aws.errors import AwsError
from burstwatch.core.errors import BurstwatchError
from burstwatch.wiring.settings import LEDGER

Order: TypeAlias = Callable[[Options], tuple[Exit, Mapping[str, Any]]]
"""Gives the order in one region, says so, and answers with its exit code and document."""

_ELSEWHERE: Final = "Other regions are not affected."


class ReachError(BurstwatchError):
    """An order would not reach the watchdog, or might not, so it is not given."""


def order_in_regions(options: Options, order: Order, *, done: str, is_for_volumes: bool) -> Exit:
    """Give an order in the region, or in each of several; no region's failure hides another's.

    ``done`` is what is reported of each region in which the order had something to do, such as "held"; its
    documents name that under ``placed`` or ``released``.

    Raises:
        click.UsageError: volumes are named, and several regions.
    """
    if not options.is_for_several:
        code, document = order(options)
        if options.json:
            show(to_json(document))
        return code
    if is_for_volumes:
        raise click.UsageError("VOLUMEs are in one region: give --region once, with its name.")
    documents: list[dict[str, Any]] = []

    def give(here: Options) -> Exit:
        if not options.json:
            show_heading(here.regions[0], is_first=not documents)
        code, document = order(here)
        documents.append(dict(document))
        return code

    try:
        visited = visit(options, give)
    except AwsError as error:  # which regions there are
        raise BurstwatchError(
            f"{error} Nothing was done: name the regions, --region NAME for each"
        ) from error
    if options.json:
        show(to_json(to_document(documents, visited)))
    else:
        show("\n" + "\n".join(hang(_summary(done, documents, visited.failures), COLUMNS)))
    return visited.exit


def _summary(done: str, documents: Sequence[Mapping[str, Any]], failures: Sequence[str]) -> str:
    """One line about all regions, such as "held in 1 region (us-east-1), nothing to do in 33"."""
    reached = [each["region"] for each in documents if each.get("placed") or _is_released(each)]
    failed = [failure.partition(":")[0] for failure in failures]
    return (
        f"{done} in {_counted(reached)}, nothing to do in {len(documents) - len(reached)}"
        f"{f', FAILED in {_counted(failed)}' if failed else ''}"
    )


def _is_released(document: Mapping[str, Any]) -> bool:
    released = document.get("released", ())
    return any(value for each in released for key, value in each.items() if key != "volume_id")


def _counted(regions: Sequence[str]) -> str:
    names = f" ({', '.join(regions)})" if regions else ""
    return f"{len(regions)} region{'' if len(regions) == 1 else 's'}{names}"


def check_reach(desk: Desk, order: str, done: str) -> None:
    """Refuse an order that might stay in a ledger which the deployed watchdog never reads.

    Only ``--ledger`` on the command line says that this is meant; a variable of the environment may be there
    for another reason.

    Raises:
        ReachError: saying what it would not reach, and what to do.
    """
    reach, region = desk.reach, desk.shell.place.region
    if desk.options.ledger:
        return
    if reach.missed is not None:
        raise _refusal(
            region,
            f"stack {reach.missed} is deployed in {region} and does not use {desk.ledger}, so {order} would"
            f" not reach it. Nothing was {done}.",
            f"fix: unset {LEDGER}; or, for a watch that uses this ledger, --ledger {desk.ledger}",
        )
    if reach.doubt is not None:
        raise _refusal(
            region,
            f"cannot determine whether a watchdog is deployed in {region}, so {order} might not reach it."
            f" Nothing was {done}.",
            f"cause: {reach.doubt}",
            "fix: remove the cause; or name the ledger, --ledger dynamodb:TABLE (the stack's) or --ledger"
            " sqlite:PATH (that of a watch on this machine)",
        )


def check_place(desk: Desk) -> None:
    """Refuse a hold where there is neither a stack nor a ledger: a new ledger is one that nothing reads.

    Raises:
        ReachError: naming the region, and what to do.
    """
    if not desk.has_ledger and not desk.options.ledger:
        region = desk.shell.place.region
        raise _refusal(
            region,
            f"no stack and no ledger in {region}: nothing was held.",
            "fix: --region NAME, --region all, or --ledger sqlite:PATH (that of a watch on this machine)",
        )


def _refusal(region: str, headline: str, *advice: str) -> ReachError:
    """A refusal as it fits on 80 columns below the name of the command and the region."""
    before = f"burstctl: {region}: "
    first, *rest = hang(before + headline, COLUMNS)
    lines = [line for each in advice for line in hang(each, COLUMNS - 2)]
    return ReachError("\n".join([first.removeprefix(before), *rest, *(f"  {line}" for line in lines)]))


def reach_words(desk: Desk) -> str:
    """Which watchdogs an order in this ledger reaches, and which it does not."""
    reach = desk.reach
    where = f"in {desk.shell.place.region} ({_account(desk)})"
    if reach.stack is not None:
        return f"This reaches stack {reach.stack} {where}. {_ELSEWHERE}"
    only = f"This reaches only watchdogs {where} that use this ledger"
    if reach.others:
        return f"{only}, and NOT stack {', '.join(reach.others)}, which is deployed there. {_ELSEWHERE}"
    if reach.doubt is not None:
        return f"{only}; whether a stack is deployed there is not known. {_ELSEWHERE}"
    return f"{only}; no stack is deployed there. {_ELSEWHERE}"


def reach_document(desk: Desk) -> dict[str, Any]:
    """Where an order was given, for programs; ``stack`` is null where it reaches none."""
    return {
        "region": desk.shell.place.region,
        "account": desk.shell.place.account,
        "stack": desk.reach.stack,
        "ledger": desk.ledger,
    }


def is_idle_region(desk: Desk, options: Options) -> bool:
    """Whether, when all regions were asked for, this is one without a stack or a ledger."""
    return ALL_REGIONS in options.regions and desk.reach.stack is None and not desk.has_ledger


def _account(desk: Desk) -> str:
    return f"account {desk.shell.place.account}" if desk.shell.place.account else "account unknown"
