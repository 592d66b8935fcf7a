"""``burstctl doctor``: what is wrong with the set-up itself, and what mends it."""

import os
import time
from pathlib import Path

import click

from burstctl.cli.exit_codes import Exit
from burstctl.cli.options import Command, Options, common_options
from burstctl.cli.output import say, show, to_json
from burstctl.cli.progress import ProgressBar
from burstctl.doctor.context import Patient
from burstctl.doctor.finding import exit_of_findings
from burstctl.doctor.json import all_findings, to_document
from burstctl.doctor.runner import run_checks
from burstctl.doctor.text import in_words, render, totals_in_words


@click.command(
    cls=Command,
    examples=(
        ("burstctl doctor", "what is broken, and what mends it; changes nothing"),
        ("burstctl doctor --profile prod --region eu-west-1", "of another account and region"),
        ("burstctl doctor --json | jq '.findings[] | select(.verdict == \"broken\")'", "for programs"),
    ),
    page="runbooks/README.md",
)
@common_options
def doctor(options: Options) -> Exit:
    """Examine the set-up itself: can it see, act, remember and tell?

    Credentials, clock, permissions (tried, by dry run or simulated; nothing is done to find out), quotas, the
    deployed stack and its heartbeat, the policy, the ledger, volumes that cannot be watched, the ways to
    people, and versions. Each finding says what mends it. It only reads, and posts nothing.

    Exits 3 if something needs attention, 1 if something could not be looked at, 2 if it is set up wrongly.
    """
    patient = Patient(options, os.environ, home=Path.home())
    progress = ProgressBar()
    progress.begin("examining")
    try:
        checked = run_checks(patient)
        document = to_document(patient, checked, at_s=patient.now_s.peek() or time.time())
    finally:
        progress.end()
        patient.close()
    show(to_json(document) if options.json else render(in_words(checked)))
    say(f"{totals_in_words(checked)}; {_effort(patient)}")
    return exit_of_findings(all_findings(checked), exit_zero=options.exit_zero)


def _effort(patient: Patient) -> str:
    calls, metrics = sum(patient.calls.calls.values()), patient.calls.metrics_requested
    return f"{calls:,} call{'' if calls == 1 else 's'} to AWS, {metrics:,} metrics read"
