"""Orders of an operator, hold and release: whom they reach, in one region or several."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import click

from burstctl.command import ALL_REGIONS, Options
from burstctl.desk import Desk
from burstctl.exits import Exit
from burstctl.output import show, to_json
from burstctl.regions import show_heading, to_document, visit
from burstwatch.adapters.errors import AwsError
from burstwatch.core.errors import BurstwatchError

Order: TypeAlias = Callable[[Options], tuple[Exit, Mapping[str, Any]]]
"""Gives the order in one region, says so, and answers with its exit code and document."""

_ELSEWHERE: Final = "Other regions are not affected."


class ReachError(BurstwatchError):
    """It cannot be told whether an order would reach the watchdog, so it is not given."""


def order_in_regions(options: Options, order: Order, *, is_for_volumes: bool) -> Exit:
    """Give an order in the region, or in each of several; no region's failure hides another's.

    Raises:
        click.UsageError: volumes are named, and several regions.
    """
    if not options.is_for_several:
        done, document = order(options)
        if options.json:
            show(to_json(document))
        return done
    if is_for_volumes:
        raise click.UsageError("VOLUMEs are in one region: give --region once, with its name.")
    documents: list[dict[str, Any]] = []

    def give(here: Options) -> Exit:
        if not options.json:
            show_heading(here.regions[0], is_first=not documents)
        done, document = order(here)
        documents.append(dict(document))
        return done

    try:
        visited = visit(options, give)
    except AwsError as error:  # which regions there are
        raise BurstwatchError(
            f"{error} Nothing was done: name the regions, --region NAME for each"
        ) from error
    if options.json:
        show(to_json(to_document(documents, visited)))
    return visited.exit


def check_reach(desk: Desk, order: str, done: str) -> None:
    """Refuse an order that might stay in a ledger which the deployed watchdog never reads.

    Raises:
        ReachError: saying why nobody can tell, and what to do.
    """
    if not desk.reach.is_certain:
        raise ReachError(
            f"cannot tell whether a watchdog is deployed in {desk.shell.place.region}, so {order} might not"
            f" reach it; nothing was {done}: {desk.reach.doubt} Or name the ledger: --ledger dynamodb:TABLE"
            " is a stack's, --ledger sqlite:PATH is that of a watch on this machine."
        )


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
