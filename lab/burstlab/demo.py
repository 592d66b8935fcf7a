"""The demo: a dozen volumes under load, the real watchdog, six hours in a minute and a half."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import click
from boto3.session import Session

from burstlab.clock import LabClock
from burstlab.endpoint import ACCESS_KEY, Endpoint
from burstlab.fleet import LabFleet, LabSettings
from burstlab.main import HELP
from burstlab.volume import LabVolume
from burstwatch.adapters.ledger_sqlite import SqliteLedger
from burstwatch.bootstrap import build_shell
from burstwatch.core.alerts import Alert, AlertKind
from burstwatch.core.decide import Decision
from burstwatch.core.policy import Policy
from burstwatch.watchdog import Shell, run_tick

STARTS_AT: Final = datetime(2026, 11, 20, 16, 0, tzinfo=UTC)
PAST: Final = timedelta(minutes=75)
"""What the fleet has lived through when the curtain rises: quiet, so that there is something to read."""
TICK_S: Final = 60
LAG_S: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """One volume of the demo: ``story`` says what it is asked to do, ``size_gib`` and ``load`` make it so."""

    name: str
    size_gib: int
    load: str
    story: str
    balance_pct: float = 100.0
    is_hidden_from_h: float | None = None


CAST: Final = (
    Actor(name="ci-docker-7", size_gib=33, load="docker-loop", story="docker run in a loop"),
    Actor(name="billing-db", size_gib=33, load="nab_c0d644*32+93600", story="recorded: NAB c0d644 x32"),
    Actor(name="reports", size_gib=100, load="nab_c0d644*16+781200", story="recorded: NAB c0d644 x16"),
    Actor(name="exports", size_gib=50, load="nab_1ef3de*32+784800", story="recorded: NAB 1ef3de x32"),
    Actor(name="etcd-0", size_gib=20, load="etcd", story="etcd with defragmentation"),
    Actor(name="nightly", size_gib=200, load="nightly-batch:18", story="a batch from 18:00 to 20:00"),
    Actor(name="build-3", size_gib=100, load="ci-day", story="a build host, afternoon"),
    Actor(name="ambush", size_gib=8, load="adversary:60", story="calm, then all it can"),
    Actor(
        name="slow-leak", size_gib=100, load="steady:360", balance_pct=40, story="a little over its baseline"
    ),
    Actor(name="web-1", size_gib=30, load="steady:20", story="a web server"),
    Actor(
        name="silent", size_gib=60, load="steady:150", story="its metrics stop at 19:00", is_hidden_from_h=3
    ),
    Actor(name="lake", size_gib=1000, load="steady:2900", story="too large ever to run dry"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What was really so on a volume in one minute, until ``at_s``; CloudWatch shows it later and in part."""

    at_s: int
    balance_pct: float
    demand_iops: float
    served_iops: float
    lost_ops: float


@dataclass(slots=True, kw_only=True)
class Role:
    """An actor on stage: its volume, what happened to it, and what the watchdog said."""

    actor: Actor
    volume_id: str
    moments: list[Moment] = field(default_factory=list)
    alerts: list[Alert] = field(default_factory=list)
    decision: Decision | None = None
    dry_at_s: float | None = None

    @property
    def lead_s(self) -> float | None:
        """From the first alert that it drains until it was dry; None where there was not both."""
        first = next((alert for alert in self.alerts if alert.kind is AlertKind.DRAINING), None)
        return self.dry_at_s - first.time_s if first and self.dry_at_s else None


class Audience:
    """The channel of the demo: every alert is heard by the role it is about."""

    name = "demo"

    def __init__(self, roles: dict[str, Role]) -> None:
        self._roles = roles
        self.heard: list[Alert] = []

    def send(self, alert: Alert) -> None:
        self.heard.append(alert)
        if alert.volume_id in self._roles:
            self._roles[alert.volume_id].alerts.append(alert)


@dataclass(slots=True)
class Stage:
    """The demo while it runs."""

    endpoint: Endpoint
    shell: Shell
    roles: dict[str, Role]
    audience: Audience
    ticks: int = 0
    metrics_requested: int = 0
    api_calls: Counter[str] = field(default_factory=Counter)

    @property
    def now_s(self) -> int:
        return self.endpoint.fleet.now_s()


def set_stage(endpoint: Endpoint, ledger: SqliteLedger, policy: Policy) -> Stage:
    """Put the cast behind the endpoint and the watchdog in front of it."""
    fleet = endpoint.fleet
    roles: dict[str, Role] = {}
    for actor in CAST:
        volume = LabVolume(
            size_gib=actor.size_gib,
            balance_pct=actor.balance_pct,
            load=f"steady:{_balanced_load(actor)}",
            tags={"Name": actor.name},
            starts_at=STARTS_AT - PAST,
        )
        volume_id = fleet.add(volume)
        fleet.set_load(volume_id, actor.load, STARTS_AT)
        if actor.is_hidden_from_h is not None:
            silence = STARTS_AT + timedelta(hours=actor.is_hidden_from_h)
            fleet.hide_metrics(volume_id, from_at=silence, to_at=silence + timedelta(days=1))
        roles[volume_id] = Role(actor=actor, volume_id=volume_id)
    audience = Audience(roles)
    session = Session(
        aws_access_key_id=ACCESS_KEY, aws_secret_access_key=ACCESS_KEY, region_name=fleet.settings.region
    )
    shell = build_shell(
        session,
        endpoint_url=endpoint.url,
        policy=policy,
        ledger=ledger,
        channels=[audience],
        account=fleet.settings.account_id,
    )
    return Stage(endpoint, shell, roles, audience)


def _balanced_load(actor: Actor) -> int:
    """Demand that keeps the balance where it starts: the baseline, or nothing on a full bucket."""
    return 0 if actor.balance_pct == 100 else max(100, 3 * actor.size_gib)  # noqa: PLR2004 - full


def play(stage: Stage, *, hours: float, pace_s: float, show: Callable[[Stage], None]) -> None:
    """Let time pass, minute by minute; each minute one tick of the real watchdog over real HTTP.

    Args:
        stage: who plays.
        hours: how long, in simulated time.
        pace_s: wall seconds a simulated minute takes at least.
        show: called after every tick.
    """
    for _ in range(round(hours * 60)):
        began = time.monotonic()
        stage.endpoint.clock.advance(TICK_S)
        _tick(stage)
        show(stage)
        time.sleep(max(0.0, pace_s - (time.monotonic() - began)))


def _tick(stage: Stage) -> None:
    report = run_tick(stage.shell, tick_s=stage.now_s, now_s=stage.now_s)
    if report is None or report.failures:
        raise RuntimeError(f"the watchdog failed in the demo: {report.failures if report else 'no tick'}")
    stage.ticks += 1
    stage.metrics_requested += report.metrics_requested
    stage.api_calls.update(report.api_calls)
    for decision in report.decisions:
        stage.roles[decision.assessment.volume.volume_id].decision = decision
    for role in stage.roles.values():
        role.moments.append(_see(stage, role))


def _see(stage: Stage, role: Role) -> Moment:
    volume = stage.endpoint.fleet.find(role.volume_id)
    truth = volume.truth()
    role.dry_at_s = truth.first_dry_at.timestamp() if truth.first_dry_at else None
    minute = (stage.now_s - volume.origin_s) // TICK_S - 1
    served = sum(run.read_ops + run.write_ops for run in volume.history.runs(minute, minute + 1)) / TICK_S
    lost_before = role.moments[-1].lost_ops if role.moments else 0.0
    return Moment(
        at_s=stage.now_s,
        balance_pct=truth.burst_balance_pct,
        demand_iops=served + (truth.lost_ops - lost_before) / TICK_S,
        served_iops=served,
        lost_ops=truth.lost_ops,
    )


def run(*, hours: float, seconds: float, picture: Path, show: Callable[[Stage], None]) -> Stage:
    """The whole demo: set the stage, play, leave the picture."""
    from burstlab.picture import draw  # noqa: PLC0415 - matplotlib takes a second to import

    picture.parent.mkdir(parents=True, exist_ok=True)
    clock = LabClock.by_hand(STARTS_AT - PAST)
    fleet = LabFleet(clock, LabSettings(lag_s=LAG_S))
    with SqliteLedger.in_memory() as ledger, Endpoint(fleet) as endpoint:
        stage = set_stage(endpoint, ledger, Policy())
        clock.advance(PAST.total_seconds())
        play(stage, hours=hours, pace_s=seconds / (hours * 60), show=show)
        draw(list(stage.roles.values()), picture)
    return stage


@click.command(context_settings=HELP, epilog="Example: burstlab demo --seconds 30 --picture /tmp/demo.png")
@click.option(
    "--hours", type=click.FloatRange(0.1, 24), default=6.0, show_default=True, help="Simulated time."
)
@click.option(
    "--seconds",
    type=click.FloatRange(0, 3_600),
    default=90.0,
    show_default=True,
    help="What it takes at least.",
)
@click.option(
    "--picture",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("demo/burstwatch-demo.png"),
    show_default=True,
    help="Where to leave the picture.",
)
def demo(hours: float, seconds: float, picture: Path) -> None:
    """A dozen volumes, the real watchdog over real HTTP, six hours in a minute and a half."""
    from rich.console import Console  # noqa: PLC0415 - only the demo needs it

    from burstlab.board import open_board, tell_the_end  # noqa: PLC0415 - it builds on this module

    console = Console()
    console.print(
        f"{len(CAST)} gp2 volumes from {STARTS_AT:%H:%M} UTC on, {hours:g} hours in about {seconds:g} s:"
        " the lab plays AWS on loopback, the watchdog is the real one.\n",
        highlight=False,
    )
    try:
        with open_board(console) as show:
            stage = run(hours=hours, seconds=seconds, picture=picture, show=show)
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except OSError as error:
        raise click.ClickException(f"{picture}: {error.strerror}; give --picture another place") from error
    tell_the_end(console, stage)
    console.print(f"The picture: {picture.absolute()}", soft_wrap=True, highlight=False)
