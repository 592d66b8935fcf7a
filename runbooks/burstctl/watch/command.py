"""``burstctl watch``: the watchdog, from any shell with AWS credentials."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, Final

import click

from burstctl.cli.exit_codes import ExitCode, exit_code_of
from burstctl.cli.options import Command, Options, common_options
from burstctl.cli.output import print_info, print_interruption, print_output, print_warning, to_json
from burstctl.cli.signals import StopSignal
from burstctl.context.context import CommandContext, open_watch
from burstctl.context.on_demand_pass import evaluate_fleet
from burstctl.render.pass_summary import (
    print_next_elsewhere,
    print_next_for,
    print_report_failures,
    print_runbook_hints,
    print_summary,
)
from burstctl.render.show_report import print_table
from burstctl.watch.loop import WatchLoop
from burstwatch.core.durations import format_duration_literal, parse_duration
from burstwatch.core.ebs.pricing import PRICE_SOURCE
from burstwatch.core.errors import Problem
from burstwatch.core.policy.policy import FOCUS_TICK, Mode
from burstwatch.core.text import format_count, format_usd
from burstwatch.wiring.settings import SLACK_WEBHOOK, TOPIC_ARN, SettingsError

if TYPE_CHECKING:
    from burstctl.watch.exporter_collector import FleetCollector

_LOOPBACK: Final = "127.0.0.1"
_SHUTDOWN_TIMEOUT_S: Final = 15.0
"""After a signal; a delivery under way takes up to 10 s. Supervisors kill later (systemd after 90 s)."""

_MAX_INTERVAL: Final = timedelta(minutes=5)


class _IntervalType(click.ParamType[timedelta]):
    """A span of whole minutes, from the focus tick to the sweep tick."""

    name = "span"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        try:
            interval = parse_duration(str(value))
        except ValueError as error:
            self.fail(Problem.parse(str(error)), param, ctx)
        if not FOCUS_TICK <= interval <= _MAX_INTERVAL or interval % FOCUS_TICK:
            self.fail(Problem(f"{value} is out of range", "give whole minutes from 1m to 5m"), param, ctx)
        return interval


@click.command(
    cls=Command,
    examples=(
        ("burstctl watch", "looks every minute at what is due, alerts on stderr, until Ctrl-C"),
        ("burstctl watch --act", "the same, and flips what is tagged burstwatch:mode=auto, and back"),
        ("burstctl watch --once --exit-zero", "everything now, once: for a scheduler"),
        ("burstctl watch --json >> burstwatch.jsonl", "a line of JSON for each pass"),
        ("burstctl watch --slack-webhook-file ~/.slack-webhook", "alerts to a Slack channel as well"),
        ("burstctl watch --metrics-port 9417", "metrics for Prometheus at http://127.0.0.1:9417/metrics"),
    ),
    page="runbooks/README.md",
    without=(),
)
@click.option("--once", is_flag=True, help="Check everything now, once.")
@click.option("--act", is_flag=True, help="Flip opted-in volumes before they are empty, and return them.")
@click.option("--every", type=_IntervalType(), default="1m", metavar="SPAN", help="From 1m (default) to 5m.")
@click.option("--passes", type=click.IntRange(min=1), metavar="N", help="Stop after N passes.")
@click.option("--topic-arn", metavar="ARN", help="An SNS topic for alerts. Default: BURSTWATCH_TOPIC_ARN.")
@click.option(
    "--slack-webhook-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A file with the address of a Slack webhook. Default: the address in BURSTWATCH_SLACK_WEBHOOK.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65_535),
    metavar="PORT",
    help="Serve Prometheus metrics on PORT (0: any free port).",
)
@click.option(
    "--metrics-address",
    metavar="ADDRESS",
    help=f"Address to listen on. Default: {_LOOPBACK}, this machine only.",
)
@common_options
def watch(
    options: Options,
    *,
    once: bool,
    act: bool,
    every: timedelta,
    passes: int | None,
    topic_arn: str | None,
    slack_webhook_file: Path | None,
    metrics_port: int | None,
    metrics_address: str | None,
) -> ExitCode:
    """Look, decide, record and alert: the watchdog itself.

    Without --act it modifies no volume. With --act, volumes with the opt-in tag are flipped before they are
    empty and returned when they are calm. Volumes that were flipped by hand for a time are returned as well.
    Without --ledger it does not start if a deployed stack uses another ledger, or if this cannot be checked.
    If such a stack is deployed later, it only proposes from then on.

    Without --once it runs a pass at every tick. SIGINT and SIGTERM end it between two volumes, within 15
    seconds; a second one ends it at once.

    Exits with the code of the last pass: 1 if anything failed, else 4 if a flip was refused. Else 3 if a
    volume at warning or worse was not flipped, or its data is missing.
    """
    if once and passes:
        raise click.UsageError(Problem("--once is a single pass", "leave out --passes"))
    if once and metrics_port is not None:
        raise click.UsageError(Problem("--once ends before metrics can be read", "leave out --metrics-port"))
    if metrics_address is not None and metrics_port is None:
        raise click.UsageError(Problem("--metrics-address needs a port", "add --metrics-port PORT"))
    environment = {TOPIC_ARN: topic_arn} if topic_arn else {}
    if slack_webhook_file:
        environment[SLACK_WEBHOOK] = _read_webhook(slack_webhook_file)
    with (
        _serve_metrics(metrics_address, metrics_port) as collector,
        open_watch(options, environment, may_modify=act) as context,
    ):
        _print_permissions(context)
        if collector is not None:
            collector.start_watch(context.services.location, acts=act)
        return _run_once(context, options) if once else _run_loop(context, options, every, passes, collector)


@contextmanager
def _serve_metrics(address: str | None, port: int | None) -> Iterator["FleetCollector | None"]:
    """The metrics server, if requested. A port that is in use is detected before any call to AWS."""
    if port is None:
        yield None
        return
    from burstctl.watch.exporter_collector import FleetCollector  # noqa: PLC0415
    from burstctl.watch.exporter_http_server import metrics_server  # noqa: PLC0415 - prometheus_client is for this only

    collector = FleetCollector(version=version("burstwatch"))
    with metrics_server(collector, address=address or _LOOPBACK, port=port):
        yield collector


def _print_permissions(context: CommandContext) -> None:
    """Whether it modifies volumes, which ones, and how many at once."""
    policy = context.services.policy
    if context.services.modifier is None:
        print_info("modifies nothing: it decides and alerts; --act lets it flip")
    elif policy.mode.highest is not Mode.AUTO:
        print_info(
            f"acts, but the policy's mode.highest is {policy.mode.highest}: only manual flips are returned"
        )
    else:
        tag, flip = "=".join(policy.mode.opt_in_tag), policy.flip
        print_info(
            f"acts: flips volumes tagged {tag} and brings them back, at most {flip.fleet_cap:,} at once"
            f" for {format_usd(flip.spend_cap_usd)} a month more ({PRICE_SOURCE})"
        )


def _run_once(context: CommandContext, options: Options) -> ExitCode:
    context.progress.begin()
    try:
        report = evaluate_fleet(context.services, now_s=context.services.clock())
    finally:
        context.progress.end()
    if options.json:
        print_output(to_json(report.to_document()))
    else:
        print_table([report])
    print_summary(report)
    if not report.decisions and not report.failures:
        print_info(f"nothing to watch in {report.region}")
        if not options.json:
            print_next_elsewhere(options)
    print_report_failures(report)
    print_runbook_hints(report, context.services.policy.alerts.runbooks_url)
    if not options.json:
        print_next_for({report.region: options.repeated}, report)
    return exit_code_of(report, exit_zero=options.exit_zero)


def _run_loop(
    context: CommandContext,
    options: Options,
    every: timedelta,
    passes: int | None,
    collector: "FleetCollector | None",
) -> ExitCode:
    print_info(
        f"watching {context.services.location.region} every {format_duration_literal(every)}; press Ctrl-C to"
        " stop (within 15 s)"
    )
    if every > FOCUS_TICK:
        print_info(
            "volumes in focus may be due every minute: with longer ticks they are checked later than promised"
        )
    loop = WatchLoop(
        context,
        every_s=int(every.total_seconds()),
        as_json=options.json,
        exit_zero=options.exit_zero,
        on_pass=collector.record_pass if collector else lambda _ended: None,
    )
    with StopSignal(grace_s=_SHUTDOWN_TIMEOUT_S) as stop:
        loop.run(stop, passes=passes)
    if stop.is_requested:
        print_interruption(f"stopped after {format_count(loop.pass_count, 'pass', 'passes')}")
    return loop.exit_code


def _warn_if_public(path: Path) -> None:
    """Warn if other users may read the file, because the address allows posting; the watch goes on."""
    mode = path.stat().st_mode
    if S_ISREG(mode) and mode & 0o077:
        print_warning(
            Problem(
                f"{path} contains a secret, and others can read it (mode {mode & 0o777:04o})",
                f"chmod 600 {path}",
            )
        )


def _read_webhook(path: Path) -> str:
    try:
        _warn_if_public(path)
        url = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise SettingsError(
            f"the Slack webhook cannot be read from {path}: {reason}",
            fix="check --slack-webhook-file and its permissions",
        ) from error
    if not url:
        raise SettingsError(f"{path} is empty", fix="put the address of the Slack webhook into it")
    return url
