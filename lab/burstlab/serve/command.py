"""``burstlab serve`` and ``burstlab loads``."""

import signal
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Final

import click

from burstlab.main import HELP
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.fleet_file import (
    FleetDefinition,
    make_mixed_volumes,
    make_recorded_volumes,
    put_on_instances,
    read_fleet,
)
from burstlab.model.instances.instance import DEFAULT_INSTANCE_TYPE
from burstlab.model.instances.instance_types import instance_types
from burstlab.model.loads.load import NAMED_LOADS
from burstlab.model.loads.load_parser import list_recordings
from burstlab.model.storage_file import read_storage
from burstlab.model.volume import LabVolume
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.text import format_count

DEFAULT_PORT: Final = 5055  # 5000, which moto and Flask use, is often taken

_SERVE_EXAMPLES: Final = """\b
Examples:
  burstlab serve                                 a dozen mixed volumes, in real time
  burstlab serve --volumes 10000 --latency-ms 30
  burstlab serve --fleet fleet.yaml --speed 60   a minute each second
  burstlab serve --traces DIR --scale 4 --size 33
  burstlab serve --volumes 60 --per-instance 6 --instance-type t3.micro
  burstlab serve --as aws-check.json             as burstctl aws-check measured AWS
  burstlab serve > lab.env &                     once it is not empty: eval "$(cat lab.env)"
  curl -s $AWS_ENDPOINT_URL/_lab/                the requests that control it, and their fields
\b
A fleet file:
  volumes:
    - {size_gib: 100, load: docker-loop, tags: {Name: ci-7, "burstwatch:mode": auto}}
    - {size_gib: 8, load: "steady:20", balance_pct: 60, count: 50}
    - {size_gib: 100, load: idle, lacks_gp3: true}   (its zone or Outpost has no gp3)
    - {size_gib: 2000, volume_type: st1, load: "steady:200@1024",
       instance_id: i-0a0a0a0a}
    - {size_gib: 100, volume_type: io2, multi_attached: true,
       instance_ids: [i-0a0a0a0a, i-0b0b0b0b]}
  instances:
    - {instance_id: i-0a0a0a0a, instance_type: m5.large, io_pct: 60,
       tags: {Name: db-1}}
    - instance_type: t3.medium
      count: 20
      volumes: [{size_gib: 100, volume_type: gp3, load: "steady:2500"}]
  file_systems:
    - {size_gib: 58, load: "steady:400@256%0", balance_pct: 60, tags: {Name: home}}
    - {size_gib: 200, throughput_mode: provisioned, provisioned_mib_s: 20, count: 5}
  databases:
    - {identifier: orders, allocated_gib: 100, load: nightly-batch, free_gib: 20}
    - {identifier: shop, engine: oracle-ee, instance_class: db.t3.large, count: 3}
"""


@click.command(context_settings=HELP, epilog=_SERVE_EXAMPLES)
@click.option("--volumes", type=click.IntRange(1, 200_000), help="Number of mixed volumes (default 12).")
@click.option(
    "--fleet",
    "fleet_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The volumes of a YAML file instead.",
)
@click.option(
    "--traces",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="A volume for each recording below a folder instead.",
)
@click.option(
    "--size",
    "size_gib",
    type=click.IntRange(1, 16_384),
    default=100,
    help="Size of each volume in GiB, with --traces.",
)
@click.option(
    "--scale", type=click.FloatRange(0, 1e6), default=1.0, help="Factor for the load, with --traces."
)
@click.option(
    "--per-instance",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="Volumes on each instance; not with --fleet.",
)
@click.option(
    "--instance-type",
    help="Type of the instances, such as m5.large; default: one that holds no volume back.",
)
@click.option(
    "--detailed-hides-balance",
    is_flag=True,
    help="Instances with detailed monitoring publish no EBSIOBalance% and EBSByteBalance%.",
)
@click.option(
    "--instance-reset-hour", type=click.IntRange(0, 23), help="Fill the instances' buckets daily, at UTC."
)
@click.option(
    "--speed", type=float, default=1.0, show_default=True, help="Lab seconds per second; 1 to 1000."
)
@click.option("--start", type=click.DateTime(), help="Lab time (UTC) at the start; default: now.")
@click.option(
    "--past-hours",
    type=click.FloatRange(0, 14 * 24),
    default=3.0,
    show_default=True,
    help="Hours of history at the start.",
)
@click.option(
    "--lag", "lag_s", type=float, default=60.0, show_default=True, help="Publication lag in seconds."
)
@click.option("--lag-most", "lag_most_s", type=float, help="Let the lag of a datapoint vary up to this.")
@click.option("--open-minute", is_flag=True, help="Show the minute that is still filling.")
@click.option(
    "--balance-every",
    "balance_every_s",
    type=int,
    default=60,
    show_default=True,
    help="Seconds between datapoints of BurstBalance, such as 300.",
)
@click.option("--idle-silent", is_flag=True, help="Idle volumes publish no datapoints.")
@click.option("--filter-after-page", is_flag=True, help="Apply filters after a page is cut, as EC2 may.")
@click.option("--page-ms", type=click.FloatRange(0, 60_000), default=0.0, help="Each page takes this long.")
@click.option(
    "--as",
    "report",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="REPORT",
    help="Behave as measured in a report of burstctl aws-check; it overrides the other options.",
)
@click.option("--queued", is_flag=True, help="Serve later what could not be served, instead of losing it.")
@click.option(
    "--modify-minutes-per-tib",
    type=click.FloatRange(0),
    default=360.0,
    show_default=True,
    help="How long ModifyVolume works on a 1 TiB volume, at most.",
)
@click.option(
    "--balance-after",
    type=click.Choice(["kept", "refilled", "reset", "emptied"]),
    default="kept",
    show_default=True,
    help="The bucket of a volume that comes back to gp2.",
)
@click.option(
    "--latency-ms", type=click.FloatRange(0, 60_000), default=0.0, help="Added latency of each call."
)
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=DEFAULT_PORT, show_default=True, help="0: any free one."
)
@click.option("--region", default="us-east-1", show_default=True)
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Ids, mixture and lags are the same by seed."
)
def serve(
    volumes: int | None,
    fleet_file: Path | None,
    traces: Path | None,
    size_gib: int,
    scale: float,
    per_instance: int,
    instance_type: str | None,
    speed: float,
    start: datetime | None,
    past_hours: float,
    lag_s: float,
    lag_most_s: float | None,
    open_minute: bool,  # noqa: FBT001
    balance_every_s: int,
    idle_silent: bool,  # noqa: FBT001
    filter_after_page: bool,  # noqa: FBT001
    page_ms: float,
    report: Path | None,
    queued: bool,  # noqa: FBT001
    detailed_hides_balance: bool,  # noqa: FBT001
    instance_reset_hour: int | None,
    modify_minutes_per_tib: float,
    balance_after: str,
    latency_ms: float,
    port: int,
    region: str,
    seed: int,
) -> None:
    """Answer AWS clients for a simulated fleet of volumes and instances, until Ctrl-C.

    They and their CloudWatch metrics come from the simulation, everything else from moto. Only the loopback
    interface is listened on.

    It prints "export" lines and then blocks. In a second terminal, paste these lines and run burstctl; the
    examples show a way without pasting.
    """
    if sum(source is not None for source in (volumes, fleet_file, traces)) > 1:
        raise click.UsageError("--volumes, --fleet and --traces exclude each other: give one")
    if fleet_file and (per_instance > 1 or instance_type):
        raise click.UsageError("--per-instance and --instance-type: the --fleet file says where volumes are")
    try:
        clock = LabClock(start.replace(tzinfo=UTC) if start else None, speed=speed)
        settings = LabSettings(
            region=region,
            lag_s=lag_s,
            lag_most_s=lag_most_s,
            open_minute=open_minute,
            balance_every_s=balance_every_s,
            idle_publishes=not idle_silent,
            filter_after_page=filter_after_page,
            page_latency_s=page_ms / 1000,
            queued=queued,
            detailed_hides_balance=detailed_hides_balance,
            instance_reset_hour=instance_reset_hour,
            modify_minutes_per_tib=modify_minutes_per_tib,
            balance_after=balance_after,
            seed=seed,
        )
        if report is not None:
            settings = _apply_report(report, settings)
        starts_at = clock.now() - timedelta(hours=past_hours)
        fleet = LabFleet(clock, settings)
        if fleet_file:
            _add_from_file(fleet, fleet_file, starts_at)
        else:
            generated = (
                make_recorded_volumes(traces, size_gib=size_gib, scale=scale, starts_at=starts_at)
                if traces
                else make_mixed_volumes(volumes or 12, seed=seed, starts_at=starts_at)
            )
            _add_definition(fleet, _place(generated, per_instance, instance_type, starts_at))
        _serve_until_stopped(fleet, port, latency_ms)
    except (BurstwatchError, ValueError) as error:
        raise click.ClickException(str(error)) from error


def _add_from_file(fleet: LabFleet, path: Path, starts_at: datetime) -> None:
    """Add everything that a fleet file declares."""
    _add_definition(fleet, read_fleet(path, starts_at))
    storage = read_storage(path, starts_at)
    fleet.file_systems.add_all(storage.file_systems)
    fleet.databases.add_all(storage.databases)


def _add_definition(fleet: LabFleet, definition: FleetDefinition) -> None:
    for instance in definition.instances:
        fleet.add_instance(instance)
    fleet.add_all(definition.volumes)


def _place(
    volumes: list[LabVolume], per_instance: int, instance_type: str | None, starts_at: datetime
) -> FleetDefinition:
    """Volumes that have an instance each by default, which holds nothing back."""
    if per_instance == 1 and instance_type is None:
        return FleetDefinition([], volumes)
    instance_type = instance_type or DEFAULT_INSTANCE_TYPE
    if instance_type not in instance_types():
        raise click.UsageError(f"--instance-type: EC2 has no type {instance_type!r}, such as m5.large")
    return put_on_instances(
        volumes, per_instance=per_instance, instance_type=instance_type, starts_at=starts_at
    )


def _apply_report(path: Path, settings: LabSettings) -> LabSettings:
    from burstlab.serve.measured_settings import read_report, settings_from_report  # noqa: PLC0415 - seldom wanted

    report = read_report(path)
    changes, unknown = settings_from_report(report)
    changes_text = ", ".join(f"{name}={value!r}" for name, value in changes.items()) or "nothing"
    click.echo(f"as measured in {report['region']} ({report['endpoint']}): {changes_text}", err=True)
    for text in unknown:
        click.echo(f"not as measured: {text}", err=True)
    return replace(settings, **changes)


def _serve_until_stopped(fleet: LabFleet, port: int, latency_ms: float) -> None:
    from burstlab.fake_aws.server import Endpoint  # noqa: PLC0415 - brings the HTTP server

    stop = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with Endpoint(fleet, port=port) as endpoint:
        endpoint.faults.set_latency(latency_ms)
        for count, noun in ((len(fleet.file_systems), "file system"), (len(fleet.databases), "database")):
            if count:
                click.echo(format_count(count, noun), err=True)
        click.echo(f"{len(fleet)} volumes, {fleet.clock.now():%Y-%m-%d %H:%M:%S} UTC", err=True)
        click.echo(f"speed {fleet.clock.speed:g}, controls at {endpoint.url}/_lab/, Ctrl-C stops", err=True)
        for name, value in endpoint.environment.items():
            click.echo(f"export {name}={value}")
        stop.wait()
    click.echo("stopped", err=True)


@click.command(context_settings=HELP, epilog="Example: burstlab loads")
def loads() -> None:
    """List the loads that a simulated volume can have, and their purpose.

    A load is written NAME[:ARGUMENT][*SCALE][+OFFSET_S][@KIB][%READS], such as docker-loop*2 or
    nab_c0d644*32+3600. In steady:900@64%100 the operations have 64 KiB (default: 16) and are all reads. Any
    path that ends in .csv.gz is a recording of your own.
    """
    for named_load in NAMED_LOADS:
        usage = named_load.name if named_load.argument is None else f"{named_load.name}:{named_load.argument}"
        default = f" (default {named_load.default})" if named_load.default else ""
        click.echo(f"{usage}{default}\n    {named_load.reason}")
    for name in list_recordings():
        click.echo(f"{name}\n    a recorded disk, calm as it is: scale it, such as {name}*32")
