"""The packages: what is in them, and that they install, run and go, in a root of their own."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import ddprobe
import pytest

from support.probe.packages import SOURCES, build, run
from support.probe.probe_process import PROGRAM
from support.runbooks.external_commands import page_command


def package(packages: dict[str, Path], kind: str, debian: str) -> Path:
    if kind not in packages:
        pytest.skip(f"the {kind} was not built: install Debian's package {debian}")
    return packages[kind]


FILES = {
    "/usr/bin/ddprobe",
    "/usr/lib/systemd/system/ddprobe.service",
    "/usr/lib/systemd/system/ddprobe-run.service",
    "/usr/lib/systemd/system/ddprobe.timer",
    "/etc/default/ddprobe",
    "/etc/cron.d/ddprobe",
    "/usr/share/man/man1/ddprobe.1.gz",
    "/usr/share/doc/ddprobe/ddprobe.md",
    "/usr/share/doc/ddprobe/ddprobe_example.txt",
    "/usr/share/doc/ddprobe/runbooks/HostStallReported.md",
}
DEB_FILES = {
    "/usr/share/doc/ddprobe/changelog.gz",
    "/usr/share/doc/ddprobe/copyright",
    "/usr/share/lintian/overrides/ddprobe",
}
RPM_FILES = {"/usr/share/licenses/ddprobe/LICENSE"}


def test_the_deb_holds_every_file_for_every_architecture(packages):
    deb = package(packages, ".deb", "dpkg")
    listed = run("dpkg-deb", "--contents", deb).splitlines()
    files = {line.split()[5].removeprefix(".") for line in listed if line.startswith("-")}
    assert files == FILES | DEB_FILES
    assert all("root/root" in line for line in listed)
    control = run("dpkg-deb", "--field", deb)
    assert "Architecture: all" in control
    assert f"Version: {ddprobe.VERSION}" in control
    assert "Depends: python3 (>= 3.9)" in control


@pytest.mark.parametrize(("kind", "debian"), [(".deb", "dpkg"), (".rpm", "rpm")])
def test_the_same_sources_give_the_same_package(packages, tmp_path, kind, debian):
    first = package(packages, kind, debian)
    assert build(tmp_path)[kind].read_bytes() == first.read_bytes()


def test_lintian_finds_no_error_and_no_warning(packages):
    deb = package(packages, ".deb", "dpkg")
    if not shutil.which("lintian"):
        pytest.skip("NOT TESTED HERE: needs lintian (Debian's package of that name)")
    done = subprocess.run(
        ["lintian", "--fail-on", "none", deb], capture_output=True, text=True, check=False, timeout=300
    )
    assert [line for line in done.stdout.splitlines() if line.startswith(("E:", "W:"))] == []


def test_the_changelog_begins_with_the_version_of_the_program():
    first = (SOURCES / "changelog").read_text().splitlines()[0]
    assert first.startswith(f"ddprobe ({ddprobe.VERSION}) ")


def test_the_maintainer_is_of_a_reserved_domain_or_whom_the_builder_names(packages, tmp_path):
    deb = package(packages, ".deb", "dpkg")
    stated = "burstwatch maintainers <maintainers@burstwatch.example>"
    assert run("dpkg-deb", "--field", deb, "Maintainer").strip() == stated
    named = {"DEBFULLNAME": "Ann Other", "DEBEMAIL": "ann@example.org"}
    run(sys.executable, SOURCES / "build.py", tmp_path, env=os.environ | named)
    [child_end] = tmp_path.glob("*.deb")
    assert run("dpkg-deb", "--field", child_end, "Maintainer").strip() == "Ann Other <ann@example.org>"


def test_every_page_that_the_help_names_is_packaged():
    pages = set(re.findall(r"[\w./]*\w+\.md", ddprobe.help_text()))
    assert pages
    folder = "/usr/share/doc/ddprobe"
    assert {f"{folder}/{page.removeprefix(f'{folder}/')}" for page in pages} <= FILES


def test_a_cron_line_that_outlives_the_package_is_quiet(tmp_path):
    """Removal keeps the file, as configuration: cron must not mail about a program that is gone."""
    cron = (SOURCES / "ddprobe.cron").read_text().splitlines()
    command = cron[-1].removeprefix("#").split(" root ")[1]
    missing = command.replace("/usr/bin/ddprobe", str(tmp_path / "gone"))
    assert missing != command
    done = subprocess.run(["sh", "-c", missing], capture_output=True, text=True, check=False, timeout=10)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_rpm_holds_the_same_and_runs_the_same(packages):
    rpm = package(packages, ".rpm", "rpm")
    listed = run("rpm", "-qp", "--queryformat", "[%{FILEMODES:perms} %{FILENAMES}\n]", rpm).splitlines()
    files = {line.split()[1] for line in listed if line.startswith("-")}
    assert files == FILES | RPM_FILES
    assert run("rpm", "-qp", "--licensefiles", rpm).split() == [*RPM_FILES]
    assert (
        run("rpm", "-qp", "--queryformat", "%{NAME} %{VERSION} %{ARCH}", rpm)
        == f"ddprobe {ddprobe.VERSION} noarch"
    )
    assert set(run("rpm", "-qpc", rpm).split()) == {"/etc/default/ddprobe", "/etc/cron.d/ddprobe"}
    scripts = run("rpm", "-qp", "--scripts", rpm)
    assert "rm -f /var/lib/ddprobe/.ddprobe" in scripts


def test_the_first_line_is_the_hosts_own_python_reading_no_environment():
    assert PROGRAM.read_text().startswith("#!/usr/bin/python3 -IS\n")


def test_nothing_starts_by_being_installed():
    cron = (SOURCES / "ddprobe.cron").read_text()
    assert all(line.startswith(("#", "SHELL", "PATH", "LC_ALL")) for line in cron.splitlines())
    assert "enable" not in "".join(
        line for line in (SOURCES / "postinst").read_text().splitlines() if "echo" not in line
    )


def test_the_units_call_what_there_is():
    for unit in SOURCES.glob("*.service"):
        (command,) = re.findall(r"^ExecStart=(.*)$", unit.read_text(), re.MULTILINE)
        arguments = [word for word in command.split()[1:] if not word.startswith("$")]
        assert ddprobe.parse_command(arguments).mode in {"run", "serve"}
    service = (SOURCES / "ddprobe.service").read_text()
    watchdog_s = int(re.search(r"WatchdogSec=(\d+)", service)[1])
    assert watchdog_s > ddprobe.parse_command(["serve"]).deadline + 10


def test_systemd_takes_the_units(tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("needs systemd-analyze (Debian's package systemd)")
    for unit in [*SOURCES.glob("*.service"), *SOURCES.glob("*.timer")]:
        text = unit.read_text().replace("/usr/bin/ddprobe", str(PROGRAM))
        (tmp_path / unit.name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *map(str, tmp_path.iterdir())],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert not [line for line in done.stderr.splitlines() if "ddprobe" in line]


def test_the_man_page_has_no_faults_of_form():
    if not shutil.which("groff"):
        pytest.skip("needs groff")
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-z", SOURCES / "ddprobe.1"],
        capture_output=True,
        check=False,
        timeout=30,
    )
    assert done.stderr == b""


# -- in a clean root: this machine's system read-only below, an empty layer on top, gone with the process


USE_IT = r"""
test -x /usr/bin/ddprobe && test -d /var/lib/ddprobe
ddprobe --version
ddprobe explain /disk | grep -q 'own file'
ddprobe run --look 100ms --allow-fs overlay --allow-fs tmpfs --prom /run/ddprobe.prom /disk
test -s /disk/.ddprobe && test -s /run/ddprobe.prom && ls /run/ddprobe/*.json
. /etc/default/ddprobe
echo "paths: $DDPROBE_PATHS"
mkdir /disk/lib && mount --bind /disk/lib /var/lib/ddprobe
ddprobe run --exit-style cron --look 100ms --allow-fs overlay --allow-fs tmpfs $DDPROBE_PATHS
test -s /var/lib/ddprobe/.ddprobe
umount /var/lib/ddprobe && cp /disk/lib/.ddprobe /var/lib/ddprobe/
"""
AFTERWARDS = r"""
for left in /usr/bin/ddprobe /var/lib/ddprobe /run/ddprobe /etc/default/ddprobe /etc/cron.d/ddprobe \
    /usr/lib/systemd/system/ddprobe.service /usr/share/doc/ddprobe /usr/share/licenses/ddprobe; do
  if [ -e "$left" ]; then echo "left behind: $left"; exit 1; fi
done
echo clean
"""


def test_the_deb_is_installed_run_and_removed_in_a_clean_root(packages, in_clean_root):
    """As the page of what is uninstalled says; who is root and has no sudo needs none."""
    deb = package(packages, ".deb", "dpkg")
    sudo = """command -v sudo > /dev/null || sudo() { "$@"; }"""
    remove = page_command("runbooks/Uninstall.md", "sudo apt-get remove ddprobe").text
    removed = f"{sudo}\necho y | {remove}\ntest -e /etc/default/ddprobe\ndpkg -P ddprobe"
    output = in_clean_root(deb, f"dpkg -i --force-depends $1\n{USE_IT}\n{removed}\n{AFTERWARDS}")
    assert f"ddprobe {ddprobe.VERSION}" in output
    assert "DDPROBE OK" in output
    assert "nothing is started yet" in output
    assert "paths: /var/lib/ddprobe" in output
    assert output.rstrip().endswith("clean")


def test_the_rpm_is_installed_run_and_removed_in_a_clean_root(packages, in_clean_root):
    rpm = package(packages, ".rpm", "rpm")
    script = f"rpm -i --nodeps $1\n{USE_IT}\nrpm -e --nodeps ddprobe\n{AFTERWARDS}"
    output = in_clean_root(rpm, script)
    assert "DDPROBE OK" in output
    assert "nothing is started yet" in output
    assert output.rstrip().endswith("clean")
