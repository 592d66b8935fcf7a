import gzip
from textwrap import dedent

import pytest

from burstlab.concurrency import runner as concurrency_runner
from burstlab.concurrency.invariants import check_invariants
from burstlab.deployed.local_aws import LocalAws
from burstlab.disk.block_device import DiskError
from burstlab.fake_aws.server import Endpoint
from burstlab.fault_injection.runs import run_without_faults
from burstlab.fault_injection.scenario import DEPLOYMENTS
from burstlab.harness.world import temporary_directory
from burstlab.incident import run as incident_module
from burstlab.model.clock import LabClock
from burstlab.model.database import LabDatabase
from burstlab.model.file_system import LabFileSystem
from burstlab.model.fleet import LabFleet
from burstlab.soak.runner import run
from burstwatch.adapters.aws.ec2_modify import Ec2Modifier
from support.concurrency.lab_runs import MINUTES
from support.lab.lab_start import START
from support.lab.scored_night import HOUR_S, NIGHT


@pytest.fixture(scope="module")
def baseline_run():
    """The scenario of a single watchdog, and its result."""
    result = concurrency_runner.run(concurrency_runner.RunConfig(watchdogs=1, minutes=MINUTES))
    return result, check_invariants(result)


@pytest.fixture(params=DEPLOYMENTS)
def deployment(request):
    return request.param


@pytest.fixture(scope="module")
def fault_free_run():
    return run_without_faults("desk")


@pytest.fixture
def duplicate_sends(monkeypatch, fault_free_run):
    """A modifier that takes silence for a no, and asks again."""
    send = Ec2Modifier.modify

    def modify(self, volume_id, configuration, **options):
        answer = send(self, volume_id, configuration, **options)
        is_silent = getattr(answer, "failure", None) is not None and answer.failure.code == "ReadTimeoutError"
        return send(self, volume_id, configuration, **options) if is_silent else answer

    monkeypatch.setattr(Ec2Modifier, "modify", modify)


@pytest.fixture
def containers(monkeypatch):
    """What runs containers on which device: none on any, until a test adds one."""
    able = {"prepare_docker_job": set(), "prepare_podman_job": set()}
    for name, devices in able.items():

        def job(device, *, name=name, devices=devices, in_own_cgroup=False):
            if device not in devices:
                raise DiskError(f"{name} does not run on {device}")
            return (name, device, str(in_own_cgroup))

        monkeypatch.setattr(incident_module, name, job)
    return able


@pytest.fixture(scope="module")
def aws(tmp_path_factory):
    with LocalAws(directory=tmp_path_factory.mktemp("aws")) as running:
        yield running


@pytest.fixture
def app(tmp_path):
    """A CDK app of one function, as small as they come."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "greet.py").write_text(
        dedent("""\
            import os

            def handler(event, context):
                return {"greeted": event["name"], "endpoint": os.environ["AWS_ENDPOINT_URL"], **os.environ}
        """)
    )
    (tmp_path / "app.py").write_text(
        dedent("""\
            from aws_cdk import App, Stack, aws_lambda as functions

            app = App()
            functions.Function(
                Stack(app, "small"),
                "Greet",
                function_name="greet",
                code=functions.Code.from_asset("code"),
                handler="greet.handler",
                runtime=functions.Runtime.PYTHON_3_14,
            )
            app.synth()
        """)
    )
    return tmp_path


@pytest.fixture
def disks(tmp_path):
    result = tmp_path / "disks"
    result.mkdir()
    rows = [f"{HOUR_S * hour},0,{iops}" for hour, iops in enumerate(NIGHT[:8])]
    text = "\n".join(["seconds_since_start,read_ops_per_s,write_ops_per_s", *rows])
    (result / "one.csv.gz").write_bytes(gzip.compress(text.encode()))
    return result


@pytest.fixture(scope="module")
def day_rows():
    """The first two days: two nights of batches, a hold, a window without volumes, and a gap begun."""
    with temporary_directory("burstlab-month-") as folder:
        return list(run(2, folder / "ledger.db"))


@pytest.fixture
def lab():
    fleet = LabFleet(LabClock.manual(START))
    fleet.file_systems.add(LabFileSystem(size_gib=58, file_system_id="fs-0123456789abcdef0"))
    fleet.databases.add(LabDatabase(identifier="orders"))
    with Endpoint(fleet) as endpoint:
        yield endpoint
