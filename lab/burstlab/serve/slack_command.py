"""``burstlab slack``: a webhook that shows the alerts it receives, in place of Slack."""

import signal
from threading import Event
from typing import Final

import click

from burstlab.fake_aws.slack import SlackReceiver
from burstlab.main import HELP
from burstwatch.wiring.settings import SLACK_WEBHOOK

_POLL_S: Final = 0.2


@click.command(
    context_settings=HELP, epilog='Example: burstlab slack > slack.env &  then: eval "$(cat slack.env)"'
)
def slack() -> None:
    """Receive alerts in place of Slack, and print each, until Ctrl-C.

    It prints an "export" line and then blocks. In a second terminal, paste this line and run burstctl alert
    --test or burstctl watch. Each message is checked against Slack's limits. Only the loopback interface is
    listened on.
    """
    stop = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with SlackReceiver() as receiver:
        click.echo(f"export {SLACK_WEBHOOK}={receiver.url}")
        click.echo("waits for alerts, Ctrl-C stops", err=True)
        shown_count = 0
        while not stop.wait(_POLL_S):
            for message in receiver.all_messages[shown_count:]:
                shown_count += 1
                text = message.full_text.removeprefix(f"{message.text}\n")  # a block repeats it
                click.echo(f"\n{text}", err=True)
                for problem in message.problems:
                    click.echo(f"refused: {problem}", err=True)
    click.echo("stopped", err=True)
