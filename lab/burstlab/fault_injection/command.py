"""``burstlab faults``: runs the scenario once for everything that can go wrong in it."""

import sys
from collections.abc import Sequence
from typing import Final

import click

from burstlab.fault_injection.effects import Fault
from burstlab.fault_injection.runs import (
    Campaign,
    NoSuchFaultError,
    run_campaign,
    run_without_faults,
    select_faults,
)
from burstlab.fault_injection.scenario import DEPLOYMENTS
from burstlab.fault_injection.text import (
    build_not_applicable_table,
    build_table,
    describe_violation,
    summarise,
    to_document,
)
from burstlab.main import HELP
from burstlab.output import output_console, print_json, show_progress

_MAX_SHOWN: Final = 20  # failures of a campaign usually have one cause; --json has all
_EPILOG: Final = """\b
Examples:
  burstlab faults
  burstlab faults --on desk --only ec2:ModifyVolume
  burstlab faults --on deployed --only "ec2:ModifyVolume #2" --fault timeout
  burstlab faults --list"""


@click.command(context_settings=HELP, epilog=_EPILOG)
@click.option(
    "--on",
    "deployments",
    type=click.Choice(list(DEPLOYMENTS)),
    multiple=True,
    help="From the CLI with its ledger in SQLite, or deployed with DynamoDB. Default: both.",
)
@click.option("--only", help='One effect, such as "ec2:ModifyVolume #2", or all with one name.')
@click.option("--fault", help="One fault, an error code, or a column of the table.")
@click.option(
    "--workers", type=click.IntRange(1), default=1, show_default=True, help="Processes that run scenarios."
)
@click.option(
    "--list", "lists", is_flag=True, help="List the faults that do not apply, and why; run nothing."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def faults(
    *,
    deployments: Sequence[str],
    only: str | None,
    fault: str | None,
    workers: int,
    lists: bool,
    as_json: bool,
) -> None:
    """Run one scenario again and again, each time with another fault, and check every run.

    Volumes drain, are flipped and return, a person holds one, a host reports a stall. This injects each
    applicable fault, one at a time, into each read of AWS, write of the ledger, alert and ModifyVolume. The
    scenario then goes on by itself, and its invariants are checked. Exits 1 if a run breaks one.
    """
    results = [
        _run_selected(deployment, only, fault, workers=workers, is_list_only=lists)
        for deployment in deployments or DEPLOYMENTS
    ]
    campaigns = [result for result in results if result is not None]
    if not campaigns:
        raise click.ClickException(_explain_nothing_selected(only, fault, deployments or list(DEPLOYMENTS)))
    if as_json:
        print_json(to_document(campaigns))
    else:
        _print_results(campaigns, is_list_only=lists)
    if any(result.failed_outcomes for result in campaigns):
        sys.exit(1)


def _run_selected(
    deployment: str, only: str | None, fault: str | None, *, workers: int, is_list_only: bool
) -> Campaign | None:
    """The selected runs; None if this deployment has none of them."""
    clean = run_without_faults(deployment)
    if is_list_only:
        return Campaign(deployment=deployment, clean=clean)
    try:
        selected = select_faults(clean, only, fault)
    except NoSuchFaultError:
        return None
    with show_progress(f"{deployment}: runs done", len(selected)) as advance:
        return run_campaign(deployment, selected, workers=workers, progress=lambda _: advance())


def _explain_nothing_selected(only: str | None, fault: str | None, deployments: Sequence[str]) -> str:
    """Why nothing was selected."""
    reasons = []
    for deployment in deployments:
        try:
            select_faults(run_without_faults(deployment), only, fault)
        except NoSuchFaultError as error:
            reasons.append(str(error))
    return "\n".join(dict.fromkeys(reasons))


def _print_results(campaigns: Sequence[Campaign], *, is_list_only: bool) -> None:
    console = output_console()
    for result in campaigns:
        if is_list_only:
            console.print(build_not_applicable_table(result))
            continue
        console.print(build_table(result))
        for sentence in summarise(result):
            console.print(sentence)
        for outcome in result.failed_outcomes[:_MAX_SHOWN]:
            console.print(describe_violation(result.deployment, outcome))
        if (hidden_count := len(result.failed_outcomes) - _MAX_SHOWN) > 0:
            console.print(f"and {hidden_count} more: see --json")
        console.print()
    if is_list_only:
        for each_fault in Fault:
            console.print(f"{each_fault}: {each_fault.description}")
