"""``burstctl alert``: whether an alert reaches people."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import click

from burstctl.alert.channels import channel_checks, judge_configuration
from burstctl.cli.exit_codes import ExitCode
from burstctl.cli.options import Command, Options, common_options
from burstctl.cli.output import print_info, print_next, print_output, to_json
from burstctl.cli.progress import ProgressBar
from burstctl.cli.styled_text import render_styled
from burstctl.doctor.context import DoctorContext
from burstctl.doctor.finding import exit_code_of_findings, worst_verdict
from burstctl.doctor.json import all_findings, to_finding_documents
from burstctl.doctor.runner import run_checks
from burstctl.doctor.text import describe_totals, to_lines
from burstwatch.core.errors import Problem
from burstwatch.core.text import format_instant

if TYPE_CHECKING:
    from documents.alert_delivery import AlertTestDocument

SCHEMA: Final = "burstwatch.alert-test/v1"


@click.command(
    cls=Command,
    examples=(
        ("burstctl alert --test", "a test message through every channel"),
        ("burstctl alert --test --profile prod --region eu-west-1", "of another account and region"),
        ("burstctl alert --test --json | jq -r '.findings[] | .seen'", "for programs"),
    ),
    page="runbooks/TestAlert.md",
)
@click.option("--test", "is_test", is_flag=True, help="Send the test message now. It asks nothing.")
@common_options
def alert(options: Options, *, is_test: bool) -> ExitCode:
    """Send a test message to people through every alert channel.

    The channels are the topic, the chat topic and the Slack secret of the deployed stack, and those that
    BURSTWATCH_TOPIC_ARN and BURSTWATCH_SLACK_WEBHOOK name. It says what each channel answered and where to
    look. Only the people can say that the message arrived: ask them. The ledger is neither read nor written.

    Exits 1 if a channel did not take the message or could not be tried. Exits 3 if no channel is configured,
    a topic has no recipient, or a subscription is not confirmed.
    """
    if not is_test:
        raise click.UsageError(
            Problem("nothing was sent", "to send a test message to everyone who receives alerts, add --test")
        )
    context = DoctorContext(options, os.environ, home=Path.home())
    alert_id = uuid4().hex
    progress = ProgressBar()
    progress.begin("sending")
    try:
        results = judge_configuration(run_checks(context, channel_checks(alert_id)))
        session, stacks = context.session.get_if_ready(), context.stacks.get_if_ready()
        caller = context.caller.get_if_ready()
        document: AlertTestDocument = {
            "schema": SCHEMA,
            "generated_at": format_instant(context.now_s.get_if_ready() or time.time()),
            "region": session.region_name if session else None,
            "account": caller.identity.account if caller else None,
            "stack": stacks.active.name if stacks and stacks.active else None,
            "alert_id": alert_id,
            "verdict": worst_verdict(all_findings(results)),
            "findings": to_finding_documents(results),
            "api_calls": context.calls.calls,
        }
    finally:
        progress.end()
        context.close()
    print_output(to_json(document) if options.json else render_styled(to_lines(results)))
    print_info(f"alert {alert_id}: {describe_totals(results)}")
    if not options.json:
        print_next([options.command("doctor")])
    return exit_code_of_findings(all_findings(results), exit_zero=options.exit_zero)
