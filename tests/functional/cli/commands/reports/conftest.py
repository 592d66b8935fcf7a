from datetime import timedelta

import pytest

from burstlab.model.database import LabDatabase
from burstlab.model.file_system import LabFileSystem
from burstlab.model.instances.instance import InstanceBalances
from support.cli.cli_session import (
    INSTANCE,
    START,
    add_calm,
    add_draining_instance,
    add_lab_instance,
    add_lab_volume,
)
from support.cli.plotted_storage import add_database, add_file_system
from support.cli.reported_resources import CALM_INSTANCE, DRAINED, ELASTIC, HOME
from support.lab.instance_load import publish_load
from support.lab.simulated_instance import (
    DAY_S,
    END_S,
    HOUR_S,
    OPERATION_KIB,
    add_instance,
    nightly_job,
)


@pytest.fixture
def forget_put_metrics():
    """Metrics that tests put are kept by moto, for the whole process."""
    yield
    from moto.cloudwatch.models import cloudwatch_backends  # noqa: PLC0415 - heavy, and mostly not there

    cloudwatch_backends.reset()


@pytest.fixture
def draining_instance(lab):
    """Two volumes with 2,000 IOPS each on t3.medium, which sustains 2,000: its I/O bucket empties first."""
    return add_draining_instance(lab, io_pct=90)


@pytest.fixture
def logs_disk(lab):
    """1 TiB of st1, which sustains 40 MiB/s, under 3.1."""
    return add_lab_volume(
        lab, "logs", "steady:200", volume_type="st1", size_gib=1_024, balance_pct=40, minutes=90
    )


@pytest.fixture
def home(lab):
    """60 MiB/s, of which a third of the half that is read is metered: 40 MiB/s, 37 more than 58 GiB earn."""
    return add_file_system(lab, load="steady:240@256%50", balance_pct=80)


@pytest.fixture
def orders(lab):
    """100 GiB of gp2 on db.t3.medium at 2,500 operations a second, of which the class sustains 2,000."""
    add_database(lab, 0.5, load="steady:2500@16%30", instance_class="db.t3.medium")
    return "db:orders"


@pytest.fixture
def page(tmp_path):
    return tmp_path / "fleet.html"


@pytest.fixture
def watched_disk(cli, lab):
    """Every kind is watched: an instance that drains, one that cannot, 1 TiB of st1, and a calm gp2 volume.

    The lab attaches each of the two volumes to an instance of its own.
    """
    (cli.directory / "policy.yaml").write_text(
        "version: 1\nresources: {instance: {watch: true}, ebs: {types: 'gp2, st1'}}\n"
    )
    gp3 = {"volume_type": "gp3", "iops": 3_000, "throughput_mib_s": 125}
    add_lab_instance(lab, INSTANCE, "t3.medium", io_pct=90)
    for number in range(2):
        add_lab_volume(lab, f"data-{number}", "steady:2000", minutes=90, instance_id=INSTANCE, **gp3)
    add_lab_instance(lab, CALM_INSTANCE, "m5.xlarge", name="calm-host")
    add_lab_volume(lab, "root", instance_id=CALM_INSTANCE, **gp3)
    add_calm(lab, "web-1")
    return add_lab_volume(
        lab, "logs", "steady:200", volume_type="st1", size_gib=1_024, balance_pct=40, minutes=90
    )


@pytest.fixture
def resources_of_each_kind(watched_disk, cli, lab):
    """As above, with a drained file system, one that cannot drain, a draining database, and no policy."""
    (cli.directory / "policy.yaml").unlink()
    starts_at = START - timedelta(minutes=30)
    file_system = lab.fleet.file_systems.add(
        LabFileSystem(size_gib=10, load="steady:600@256", balance_pct=0, starts_at=starts_at)
    )
    lab.fleet.file_systems.add(LabFileSystem(size_gib=10, throughput_mode="elastic", starts_at=starts_at))
    lab.fleet.databases.add(LabDatabase(identifier="orders", load="steady:2500@16", starts_at=starts_at))
    return {INSTANCE, watched_disk, file_system, "db:orders"}


@pytest.fixture
def reported_storage(cli, lab):
    """A file system that drains, one that is empty, one in elastic mode, and two databases."""
    (cli.directory / "policy.yaml").write_text(
        "version: 1\nresources: {efs: {watch: true}, rds: {watch: true}}\n"
    )
    for file_system_id, name, fields in (
        (HOME, "shared-home", {"size_gib": 58, "load": "steady:240@256%50", "balance_pct": 80}),
        (DRAINED, "old-home", {"size_gib": 10, "load": "steady:600@256", "balance_pct": 0}),
        (ELASTIC, "cache", {"size_gib": 10, "throughput_mode": "elastic"}),
    ):
        starts_at = START - timedelta(hours=6)
        lab.fleet.file_systems.add(
            LabFileSystem(file_system_id=file_system_id, tags={"Name": name}, starts_at=starts_at, **fields)
        )
    for identifier, fields in (
        ("orders", {"load": "steady:2500@16%30", "starts_at": START - timedelta(minutes=30)}),
        ("idle", {"instance_class": "db.t3.medium", "starts_at": START - timedelta(hours=6)}),
    ):
        lab.fleet.databases.add(LabDatabase(identifier=identifier, **fields))


@pytest.fixture
def night(cli, lab, monkeypatch):
    """Two weeks of the nightly job."""
    publish_load(monkeypatch, nightly_job, operation_kib=OPERATION_KIB)
    return lab


@pytest.fixture
def throttled(cli, lab, monkeypatch):
    """An m5.large that served its baseline of 3,600 for three hours, with an empty bucket."""
    publish_load(monkeypatch, lambda at_s: 3_600 if at_s >= END_S - 3 * HOUR_S else 100, operation_kib=4)
    add_instance(lab, "m5.large")
    instance = lab.fleet.instances[INSTANCE]
    instance.set_balances(InstanceBalances(END_S - 13 * DAY_S, 100, 100))
    instance.set_balances(InstanceBalances(END_S - 3 * HOUR_S, 0, 100))
    return lab
