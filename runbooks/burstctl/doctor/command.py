"""``burstctl doctor``: what is wrong with the set-up itself, and how to fix it."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

import click

from burstctl.cli.exit_codes import ExitCode
from burstctl.cli.options import Command, Options, common_options
from burstctl.cli.output import print_info, print_next, print_output, to_json
from burstctl.cli.progress import ProgressBar
from burstctl.cli.styled_text import render_styled
from burstctl.doctor.context import DoctorContext
from burstctl.doctor.finding import exit_code_of_findings
from burstctl.doctor.json import all_findings, to_document
from burstctl.doctor.runner import CheckResult, run_checks
from burstctl.doctor.text import URGENT, describe_totals, to_lines
from burstwatch.core.text import format_count


@click.command(
    cls=Command,
    examples=(
        ("burstctl doctor", "what is broken, and how to fix it; changes nothing"),
        ("burstctl doctor --profile prod --region eu-west-1", "of another account and region"),
        ("burstctl doctor --json | jq '.findings[] | select(.verdict == \"broken\")'", "for programs"),
    ),
    page="runbooks/README.md",
    without=("verbose",),
)
@common_options
def doctor(options: Options) -> ExitCode:
    """Check the setup and suggest fixes.

    It checks credentials, the clock, permissions (by reads, dry runs or simulation), quotas, the deployed
    stack and its heartbeat. It also checks the policy, the ledger, volumes that cannot be watched, alert
    channels, and versions. Each finding has a fix. It only reads, and posts nothing.

    Exits 3 if something needs attention, 1 if something could not be checked, 2 if the setup is wrong.
    """
    context = DoctorContext(options, os.environ, home=Path.home())
    progress = ProgressBar()
    progress.begin("examining")
    try:
        results = run_checks(context)
        document = to_document(context, results, generated_at_s=context.now_s.get_if_ready() or time.time())
    finally:
        progress.end()
        context.close()
    print_output(to_json(document) if options.json else render_styled(to_lines(results)))
    print_info(f"{describe_totals(results)}; {_describe_effort(context)}")
    if not options.json:
        print_next([options.command(*_next_command(results))])
    return exit_code_of_findings(all_findings(results), exit_zero=options.exit_zero)


def _next_command(results: Sequence[CheckResult]) -> list[str]:
    """The page about the first fault that has one, else the same again; without a fault, the fleet."""
    urgent = [finding for finding in all_findings(results) if finding.verdict in URGENT]
    if not urgent:
        return ["assess"]
    pages = [Path(finding.page).stem for finding in urgent if finding.page]
    return ["runbook", pages[0]] if pages else ["doctor"]


def _describe_effort(context: DoctorContext) -> str:
    calls, metrics = sum(context.calls.calls.values()), context.calls.metrics_requested
    return f"{format_count(calls, 'call')} to AWS, {metrics:,} metrics read"
