import os
import subprocess
import tomllib
import zipfile
from datetime import timedelta
from email import message_from_string
from pathlib import Path

import pytest
from integrations import dist

from burstlab.fake_aws.server import Endpoint
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.instances.instance import LabInstance
from burstlab.model.volume import LabVolume
from support.install.container_image import bench, build
from support.install.installing import BIN, INSTANCE, VOLUME, run
from support.install.wheelhouse import make_wheelhouse
from support.lab.lab_start import START
from support.paths import ROOT
from support.runbooks.checkout import Checkout
from support.runbooks.external_commands import page_command


@pytest.fixture(scope="module")
def image(tmp_path_factory) -> Path:
    try:
        build.check_tools()
    except build.BuildError as error:
        pytest.skip(f"the image cannot be built here: {error}")
    if not build.PACKAGES.is_dir():
        pytest.skip("the image's packages are not there: run integrations/container/build.py --download")
    layout, _ = build.build_image(tmp_path_factory.mktemp("image"), None)
    return layout


@pytest.fixture(scope="module")
def root(image, tmp_path_factory) -> Path:
    if os.geteuid() != 0:
        pytest.skip("chroot and mount need root")
    folder = tmp_path_factory.mktemp("root")
    bench.unpack(image, folder)
    tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"no mount namespace can be made here: {tried.stderr.strip()}")
    return folder


@pytest.fixture
def state(tmp_path) -> Path:
    """As Kubernetes mounts a volume with fsGroup: root's, and writable for the group."""
    folder = tmp_path / "state"
    folder.mkdir()
    os.chown(folder, 0, build.USER_ID)
    folder.chmod(0o2775)
    return folder


@pytest.fixture
def image_lab():
    fleet = LabFleet(LabClock.manual(START), LabSettings(lag_s=60))
    fleet.add(LabVolume(size_gib=100, load="steady:3000", volume_id=VOLUME))
    fleet.clock.advance(timedelta(minutes=25).total_seconds())
    with Endpoint(fleet) as aws:
        yield aws


@pytest.fixture
def template(tmp_path):
    folder = tmp_path / "template"
    folder.mkdir()
    (folder / "burstwatch.template.json").write_text("{}")
    (folder / "upload.sh").write_text("#!/bin/sh\n")
    (folder / "upload.sh").chmod(0o755)
    return folder


@pytest.fixture
def out(tmp_path, template):
    folder = tmp_path / "out"
    folder.mkdir()
    dist.build_archives(folder, template, "1.2.3")
    return folder


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel and the sdist, as ``make wheel`` builds them."""
    assert "hatchling build --directory dist" in (ROOT / "Makefile").read_text()
    folder = tmp_path_factory.mktemp("dist")
    run(BIN / "hatchling", "build", "--directory", folder, cwd=ROOT)
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    [path] = built.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def metadata(wheel):
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_string(archive.read(name).decode())


@pytest.fixture(scope="module")
def offline(tmp_path_factory, metadata):
    """The variables with which pip and uv find what the wheel and its build declare, and nothing else."""
    declared = [text for text in metadata.get_all("Requires-Dist") if "extra ==" not in text]
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    wheels = make_wheelhouse(tmp_path_factory.mktemp("offline") / "wheels", [*declared, *build])
    return {
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels),
        "PIP_NO_COMPILE": "1",
        "UV_OFFLINE": "1",
        "UV_NO_INDEX": "1",
        "UV_FIND_LINKS": str(wheels),
        "UV_CACHE_DIR": str(wheels.parent / "uv"),
    }


@pytest.fixture(scope="module")
def burstctl(wheel, offline, tmp_path_factory):
    """The command, installed as the README says, with the wheel in place of the dot."""
    checkout = Checkout(tmp_path_factory.mktemp("reader") / "burstwatch", offline)
    install = page_command("README.md", "python3 -m venv ~/.burstwatch").text.replace(
        "install .", f"install {wheel}"
    )
    path = page_command("README.md", "export PATH=").text

    code, lines = checkout.paste(f"{install} && {path} && command -v burstctl", within_s=300)

    assert code == 0, lines
    return Path(lines[-1])


@pytest.fixture(scope="module")
def lab():
    """The variables with which a process finds a lab, where one volume drains."""
    fleet = LabFleet(LabClock(START, speed=0), LabSettings(lag_s=60))
    starts_at = START - timedelta(minutes=20)
    fleet.add_instance(
        LabInstance(instance_id=INSTANCE, instance_type="m5.xlarge", launched_at=starts_at, tags={})
    )
    fleet.add(
        LabVolume(
            volume_id=VOLUME,
            size_gib=100,
            load="steady:1200",
            balance_pct=60,
            starts_at=starts_at,
            instance_id=INSTANCE,
        )
    )
    with Endpoint(fleet) as endpoint:
        yield endpoint.environment
