"""burstctl from its wheel, in an environment with what it declares and nothing else; without a network."""

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email import message_from_string
from importlib.metadata import version
from pathlib import Path

import pytest

from burstctl.main import COMMANDS
from burstctl.manpage import make_manpage
from burstlab.fake_aws.server import Endpoint
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.instances.instance import LabInstance
from burstlab.model.volume import LabVolume
from support.paths import ROOT
from support.runbooks.checkout import Checkout
from support.runbooks.external_commands import page_command
from support.wheelhouse import make_wheelhouse

BIN = Path(sys.executable).parent
START = datetime(2026, 11, 20, 18, 0, tzinfo=UTC)
VOLUME = "vol-0123456789abcdef0"
INSTANCE = "i-0123456789abcdef0"
READ_ONLY = [
    ("--version",),
    ("assess",),
    ("explain", VOLUME),
    ("which", VOLUME),
    ("history", VOLUME),
    ("plot", VOLUME),
    ("advise",),
    ("backtest", "--days", "1"),
    ("watch", "--passes", "1", "--metrics-port", "0"),
    ("doctor",),
    ("alert", "--test"),
    ("policy", "show"),
    ("window", "list"),
    ("flip", VOLUME, "--dry-run"),
    ("flip-back", VOLUME, "--dry-run"),
    ("experiment", "credit-reset", VOLUME, "--dry-run"),
    ("aws-check", "--dry-run"),
    ("completion", "zsh"),
    ("runbook", "BurstBalanceDraining"),
    ("simulate", INSTANCE, "--to", "m5.large"),
    ("init", "--email", "oncall@example.com", "--yes"),
]
WRITE = {"hold", "release"}
NEEDS_A_TERMINAL = {"top"}
DONE = {0, 3, 4}
"""Done; and done with a volume that needs attention, or one that a guard refuses."""

PICTURES = [("plot", VOLUME, "--to", "picture.png"), ("report", "--html", "report.html")]
IMPORT_ALL = """
import importlib, json, pkgutil, burstctl, burstwatch
failed = {}
for package in (burstctl, burstwatch):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        try:
            importlib.import_module(module.name)
        except ImportError as error:
            failed[module.name] = error.name
print(json.dumps(failed))
"""


def run(*command, **options):
    result = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, timeout=300, check=False, **options
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """The wheel and the sdist, as ``make wheel`` builds them."""
    assert "hatchling build --directory dist" in (ROOT / "Makefile").read_text()
    folder = tmp_path_factory.mktemp("dist")
    run(BIN / "hatchling", "build", "--directory", folder, cwd=ROOT)
    return folder


@pytest.fixture(scope="module")
def wheel(dist):
    [path] = dist.glob("*.whl")
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


def call(burstctl, folder, environment, arguments):
    """The finished process; it sees nothing of the environment that runs the tests."""
    return subprocess.run(
        [burstctl, *arguments],
        cwd=folder,
        env={"HOME": str(folder), "PATH": os.defpath, "AWS_EC2_METADATA_DISABLED": "true", **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_every_module_of_the_wheel_can_be_imported_with_what_it_declares(burstctl, tmp_path):
    failed = json.loads(run(burstctl.with_name("python"), "-c", IMPORT_ALL, cwd=tmp_path, env={}))

    pictures = ("burstctl.plot.matplotlib_plot", "burstctl.simulate.matplotlib_picture")
    assert failed == dict.fromkeys(pictures, "matplotlib")


def test_every_command_that_only_reads_works_from_the_wheel(burstctl, lab, tmp_path):
    def attempt(arguments):
        (folder := tmp_path / "-".join(arguments)).mkdir()
        return call(burstctl, folder, lab, arguments)

    with ThreadPoolExecutor(4) as pool:
        results = dict(zip(READ_ONLY, pool.map(attempt, READ_ONLY), strict=True))

    failed = {arguments: result for arguments, result in results.items() if result.returncode not in DONE}
    assert failed == {}
    assert {name for name, *_ in (*READ_ONLY, *PICTURES)} | WRITE | NEEDS_A_TERMINAL >= set(COMMANDS)


@pytest.mark.parametrize("arguments", PICTURES, ids=lambda arguments: arguments[0])
def test_a_picture_without_its_extra_is_refused_in_one_line(burstctl, lab, tmp_path, arguments):
    result = call(burstctl, tmp_path, lab, arguments)

    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.count("error: ") == 1
    message = " ".join(result.stderr.split())
    assert f"pip install './burstwatch-{version('burstwatch')}-py3-none-any.whl[pictures]'" in message
    assert list(tmp_path.iterdir()) == []


def test_the_manual_page_and_the_completions_are_where_they_are_looked_for(burstctl):
    share = burstctl.parents[1] / "share"

    assert (share / "man" / "man1" / "burstctl.1").read_text() == make_manpage()
    scripts = {
        "bash": share / "bash-completion" / "completions" / "burstctl",
        "zsh": share / "zsh" / "site-functions" / "_burstctl",
        "fish": share / "fish" / "vendor_completions.d" / "burstctl.fish",
    }
    for shell, path in scripts.items():
        assert path.read_text() == run(burstctl, "completion", shell)


def test_the_wheel_has_the_command_and_nothing_of_the_lab_the_stack_or_the_probe(wheel):
    names = zipfile.ZipFile(wheel).namelist()

    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"burstctl", "burstwatch"}
    assert not [name for name in names if "handlers/" in name]


def test_the_metadata_requires_little_and_names_no_address(metadata):
    required = metadata.get_all("Requires-Dist")
    packages = ("matplotlib", "jinja2", "cdk", "moto", "flask", "powertools", "pytest")
    heavy = [text for text in required if any(name in text.lower() for name in packages)]
    assert all(text.endswith("; extra == 'pictures'") for text in heavy), heavy
    assert metadata.get_all("Provides-Extra") == ["pictures"]
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("Classifier")
    assert metadata["Keywords"]
    assert (metadata["Home-page"], metadata["Project-URL"], metadata["Author-email"]) == (None, None, None)
    assert "://" not in metadata.get_payload()


def test_two_builds_have_the_same_bytes_and_so_has_the_wheel_of_the_sdist(dist, tmp_path):
    [sdist] = dist.glob("*.tar.gz")
    run(BIN / "hatchling", "build", "--directory", tmp_path / "again", cwd=ROOT, umask=0o077)
    run("tar", "-xf", sdist, "-C", tmp_path)
    unpacked = tmp_path / sdist.name.removesuffix(".tar.gz")
    run(BIN / "hatchling", "build", "--target", "wheel", "--directory", tmp_path / "from", cwd=unpacked)

    built = {path.name: path.read_bytes() for path in dist.iterdir() if path.name.startswith("burstwatch-")}
    assert {path.name: path.read_bytes() for path in (tmp_path / "again").glob("burstwatch-*")} == built
    [wheel] = (tmp_path / "from").iterdir()
    assert wheel.read_bytes() == built[wheel.name]


def test_the_readme_tries_it_without_installing_it(offline, lab, tmp_path):
    checkout = Checkout(tmp_path / "burstwatch", {**offline, **lab})

    code, lines = checkout.paste(page_command("README.md", "uvx --from . burstctl assess"), within_s=300)

    assert code == 3, lines
    assert any(VOLUME in line for line in lines)


def test_pages_and_messages_name_the_version_that_is_built():
    for page in (ROOT / "docs").glob("*.md"):
        named = set(re.findall(r"burstwatch-(\d[\d.]*\d)", page.read_text()))
        assert named <= {version("burstwatch")}, page


def test_no_page_or_message_installs_it_by_name_from_an_index():
    by_name = re.compile(r"(?:pip|pipx|uv|uvx)\b.* (?:install|--from) ['\"]?burstwatch(?!-)")
    sources = [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("runbooks/**/*.*"),
        *ROOT.glob("lambdas/**/*.py"),
    ]
    for path in sources:
        if path.suffix in {".md", ".py", ".1", ".html"}:
            assert not by_name.search(path.read_text()), path
