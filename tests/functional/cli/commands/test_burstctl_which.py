"""burstctl which: over HTTP against the lab, in which instances really hold load back."""

import json
from datetime import timedelta

import pytest

from burstlab.fake_aws.faults import Fault
from burstlab.model.instance import LabInstance
from burstwatch.core.text import display_width
from support.cli_session import START, add_calm, add_exhausted, add_lab_volume, add_warning

INSTANCE = "i-0123456789abcdef0"


def add_instance(lab, instance_type="m5.large", **fields) -> str:
    lab.fleet.instances[INSTANCE] = LabInstance(
        instance_id=INSTANCE,
        launched_at=START - timedelta(days=40),
        instance_type=instance_type,
        tags={"Name": "ci-host"},
        **fields,
    )
    return INSTANCE


def add_gp3(lab, name="data", load="idle", *, iops=3_000, throughput_mib_s=125, **fields) -> str:
    return add_lab_volume(
        lab,
        name,
        load,
        volume_type="gp3",
        size_gib=500,
        iops=iops,
        throughput_mib_s=throughput_mib_s,
        **{"instance_id": INSTANCE, "minutes": 120} | fields,
    )


def states(document) -> dict:
    return {limit["kind"]: limit["state"] for limit in document["limits"]}


def limit_of(document, kind) -> dict:
    return next(limit for limit in document["limits"] if limit["kind"] == kind)


def evidence_of(document, kind) -> str:
    return "; ".join(limit_of(document, kind)["evidence"])


def test_smoke(cli, lab):
    outs=[]
    empty = add_exhausted(lab)
    warn = add_warning(lab)
    calm = add_calm(lab)
    for v in (empty, warn, calm):
        r = cli.run("which", v)
        outs.append(r)
    add_instance(lab, "m5.large", io_pct=40)
    a = add_gp3(lab, load="steady:3000")
    b = add_gp3(lab, "b", load="steady:2900")
    r = cli.run("which", INSTANCE)
    outs.append(r)
    r = cli.run("which", a)
    outs.append(r)
    [print(r.out, r.err.split('none yet')[1], r.code) for r in outs]
    assert 0
