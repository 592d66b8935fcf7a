"""``burstctl watch``: the watchdog, from any shell with AWS credentials."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, Final

import click

from burstctl.cli.exit_codes import Exit, exit_of
from burstctl.cli.options import Command, Options, common_options
from burstctl.cli.output import say
from burstctl.cli.signals import StopSignal
from burstctl.context.context import Desk, watching_desk
from burstctl.render.pass_summary import tell, tell_pages
from burstctl.render.show_report import show_report
from burstctl.watch.loop import Watch
from burstwatch.core.durations import format_span, parse_span
from burstwatch.core.ebs.pricing import LIST_PRICES
from burstwatch.core.policy.policy import FOCUS_TICK, Mode
from burstwatch.engine.watch_pass import look_at_everything
from burstwatch.wiring.settings import SLACK_WEBHOOK, TOPIC_ARN, SettingsError

if TYPE_CHECKING:
    from burstctl.watch.exporter_collector import Standing

_LOOPBACK: Final = "127.0.0.1"
_STOPS_WITHIN_S: Final = 15.0
"""After a signal; a delivery under way takes up to 10 s. Supervisors kill later (systemd after 90 s)."""

_LONGEST_EVERY: Final = timedelta(minutes=5)


class _Every(click.ParamType[timedelta]):
    """A span of whole minutes, from the focus tick to the sweep tick."""

    name = "span"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        try:
            span = parse_span(str(value))
        except ValueError as error:
            self.fail(f"{error}.", param, ctx)
        if not FOCUS_TICK <= span <= _LONGEST_EVERY or span % FOCUS_TICK:
            self.fail(f"{value} must be whole minutes from 1m to 5m.", param, ctx)
        return span


@click.command(
    cls=Command,
    examples=(
        ("burstctl watch", "looks every minute at what is due, alerts on stderr, until Ctrl-C"),
        ("burstctl watch --act", "the same, and flips what is tagged burstwatch:mode=auto, and back"),
        ("burstctl watch --once --exit-zero", "everything now, once: for a scheduler"),
        ("burstctl watch --json >> burstwatch.jsonl", "a line of JSON for each pass"),
        ("burstctl watch --slack-webhook-file ~/.slack-webhook", "alerts to a Slack channel as well"),
        ("burstctl watch --metrics-port 9417", "metrics for Prometheus (docs/prometheus.md)"),
    ),
    page="runbooks/README.md",
)
@click.option("--once", is_flag=True, help="Look at everything now, once.")
@click.option("--act", is_flag=True, help="Flip opted-in volumes before they run dry, and bring them back.")
@click.option("--every", type=_Every(), default="1m", metavar="SPAN", help="From 1m (default) to 5m.")
@click.option("--passes", type=click.IntRange(min=1), metavar="N", help="End after so many passes.")
@click.option("--topic-arn", metavar="ARN", help="An SNS topic for alerts. Default: BURSTWATCH_TOPIC_ARN.")
@click.option(
    "--slack-webhook-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Holds the address of a Slack webhook. Default: the address in BURSTWATCH_SLACK_WEBHOOK.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65_535),
    metavar="PORT",
    help="Tell Prometheus how the fleet stands; 0 is any port that is free.",
)
@click.option(
    "--metrics-address",
    metavar="ADDRESS",
    help=f"Where Prometheus asks. Default: {_LOOPBACK}, this machine only.",
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
) -> Exit:
    """Look, decide, record and alert: the watchdog itself.

    It modifies no volume, unless it is told to --act: then volumes with the opt-in tag are flipped before
    they run dry and brought back when they are calm, and so are those that people flipped for a time.

    Without --once it runs a pass at every tick. SIGINT and SIGTERM end it between two volumes, within 15
    seconds; a second one ends it at once.

    Exits with the code of the last pass: 1 if anything failed, else 4 if a flip was refused, else 3 if a
    volume at warning or worse was not flipped in it, or its data is missing.
    """
    if once and passes:
        raise click.UsageError("--once is a single pass: leave out --passes.")
    if once and metrics_port is not None:
        raise click.UsageError("--once ends before anybody asks for metrics: leave out --metrics-port.")
    if metrics_address is not None and metrics_port is None:
        raise click.UsageError("--metrics-address needs --metrics-port.")
    wiring = {TOPIC_ARN: topic_arn} if topic_arn else {}
    if slack_webhook_file:
        wiring[SLACK_WEBHOOK] = _read_webhook(slack_webhook_file)
    with (
        _metrics(metrics_address, metrics_port) as standing,
        watching_desk(options, wiring, acts=act) as desk,
    ):
        _say_what_it_may(desk)
        if standing is not None:
            standing.watch(desk.shell.place, acts=act)
        return _look_once(desk, options) if once else _keep_watch(desk, options, every, passes, standing)


@contextmanager
def _metrics(address: str | None, port: int | None) -> Iterator["Standing | None"]:
    """What tells metrics, if it is wanted; a port that is taken is found before AWS is asked anything."""
    if port is None:
        yield None
        return
    try:
        from burstctl.watch.exporter_collector import Standing  # noqa: PLC0415
        from burstctl.watch.exporter_http_server import serving  # noqa: PLC0415 - prometheus_client is for this only
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"--metrics-port needs the package {error.name}: make setup installs it"
        ) from error
    standing = Standing(version=version("burstwatch"))
    with serving(standing, address=address or _LOOPBACK, port=port):
        yield standing


def _say_what_it_may(desk: Desk) -> None:
    """Whether it modifies volumes, which ones, and how many at once."""
    policy = desk.shell.policy
    if desk.shell.modifier is None:
        say("modifies nothing: it decides and tells; --act lets it flip")
    elif policy.mode.highest is not Mode.AUTO:
        say(f"acts, but the policy's mode.highest is {policy.mode.highest}: only what people flipped returns")
    else:
        tag, flip = "=".join(policy.mode.opt_in_tag), policy.flip
        say(
            f"acts: flips volumes tagged {tag} and brings them back, at most {flip.fleet_cap:,} at once"
            f" for ${flip.spend_cap_usd:,.2f} a month more ({LIST_PRICES})"
        )


def _look_once(desk: Desk, options: Options) -> Exit:
    desk.progress.begin()
    try:
        report = look_at_everything(desk.shell, now_s=desk.shell.clock())
    finally:
        desk.progress.end()
    show_report(report, as_json=options.json)
    tell(report)
    tell_pages(report, desk.shell.policy.alerts.runbooks_url)
    return exit_of(report, exit_zero=options.exit_zero)


def _keep_watch(
    desk: Desk, options: Options, every: timedelta, passes: int | None, standing: "Standing | None"
) -> Exit:
    say(f"watching {desk.shell.place.region} every {format_span(every)}; press Ctrl-C to stop (within 15 s)")
    if every > FOCUS_TICK:
        say("volumes in focus may be due every minute: with longer ticks they are seen later than promised")
    watch = Watch(
        desk,
        every_s=int(every.total_seconds()),
        as_json=options.json,
        exit_zero=options.exit_zero,
        tell=standing.take if standing else lambda _ended: None,
    )
    with StopSignal(within_s=_STOPS_WITHIN_S) as stop:
        watch.run(stop, passes=passes)
    return watch.exit_code


def _warn_if_public(path: Path) -> None:
    """Warn of a file that others may read, as whoever has the address can post; a watchdog does not stop."""
    mode = path.stat().st_mode
    if S_ISREG(mode) and mode & 0o077:
        say(f"careful: {path} holds a secret, and others may use it (mode {mode & 0o777:04o}): chmod 600 it")


def _read_webhook(path: Path) -> str:
    try:
        _warn_if_public(path)
        webhook = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise SettingsError(f"the Slack webhook cannot be read from {path}: {reason}") from error
    if not webhook:
        raise SettingsError(f"{path} is empty: put the address of the Slack webhook into it")
    return webhook
