"""An instance whose recorded load is simulated."""

from datetime import timedelta

from burstlab.model.instances.instance import LabInstance
from support.cli.cli_session import INSTANCE, START, add_lab_volume

DAY_S, HOUR_S = 86_400, 3_600


NOW_S = int(START.timestamp())


END_S = NOW_S - 600
"""The last ten minutes are not read."""


CALM, JOB = 900, 6_000


OPERATION_KIB = 4
"""Small operations, so that the throughput does not matter: 6,000 are 23 MiB/s."""


def add_instance(lab, instance_type="m5.xlarge", *, days=40, volume_iops=8_000, **fields) -> str:
    lab.fleet.instances[INSTANCE] = LabInstance(
        instance_id=INSTANCE,
        launched_at=START - timedelta(days=days),
        instance_type=instance_type,
        tags={"Name": "ci-7"},
        **fields,
    )
    if volume_iops is None:
        return ""
    return add_lab_volume(
        lab,
        "data",
        volume_type="gp3",
        size_gib=500,
        iops=volume_iops,
        throughput_mib_s=125,
        instance_id=INSTANCE,
    )


def nightly_job(at_s: int) -> float:
    """Calm, and each night from 2:00 to 6:00 6,000 operations a second."""
    return JOB if 2 * HOUR_S <= at_s % DAY_S < 6 * HOUR_S else CALM
