"""burstctl from its wheel, in an environment with what it declares and nothing else; without a network."""

import json
import os
import re
import subprocess
import zipfile
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

import pytest

from burstctl.main import COMMANDS
from burstctl.manpage import make_manpage
from support.install.installing import BIN, INSTANCE, VOLUME, run
from support.paths import ROOT
from support.runbooks.checkout import Checkout
from support.runbooks.external_commands import page_command

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


def test_two_builds_have_the_same_bytes_and_so_has_the_wheel_of_the_sdist(built, tmp_path):
    [sdist] = built.glob("*.tar.gz")
    run(BIN / "hatchling", "build", "--directory", tmp_path / "again", cwd=ROOT, umask=0o077)
    run("tar", "-xf", sdist, "-C", tmp_path)
    unpacked = tmp_path / sdist.name.removesuffix(".tar.gz")
    run(BIN / "hatchling", "build", "--target", "wheel", "--directory", tmp_path / "from", cwd=unpacked)

    built = {path.name: path.read_bytes() for path in built.iterdir() if path.name.startswith("burstwatch-")}
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
