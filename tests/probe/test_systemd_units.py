"""The systemd units: how much of the host they leave to ddprobe, and that it is all that ddprobe needs."""

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import ddprobe
import pytest

from support.probe.probe_process import PROGRAM

PACKAGE = PROGRAM.parent / "package"
UNITS = ("ddprobe.service", "ddprobe-run.service")
MOST_EXPOSURE = 3.5
OPTIONS = ("--allow-fs", "overlay", "--allow-fs", "tmpfs", "--prom")


def needs(tool: str, package: str) -> None:
    if not shutil.which(tool):
        pytest.skip(f"NOT TESTED HERE: needs {tool} (Debian's package {package})")


def settings(unit: str) -> dict[str, list[str]]:
    """Every value of each setting, in their order."""
    values: dict[str, list[str]] = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", (PACKAGE / unit).read_text(), re.MULTILINE):
        values.setdefault(name, []).append(value)
    return values


def seconds(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)(min|s)?", text).groups()
    return int(number) * (60 if unit == "min" else 1)


def analyze(*arguments: object) -> subprocess.CompletedProcess:
    needs("systemd-analyze", "systemd")
    command = ["systemd-analyze", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_is_exposed_to_no_more_than_it_needs(unit):
    done = analyze("security", "--offline=yes", "--no-pager", PACKAGE / unit)
    if "unrecognized option" in done.stderr:
        pytest.skip("NOT TESTED HERE: systemd-analyze is older than 250, without --offline")
    [exposure] = re.findall(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert float(exposure) <= MOST_EXPOSURE


def test_the_two_services_share_one_sandbox():
    service, run = (settings(unit) for unit in UNITS)
    names = [name for name in service if name.startswith(("Protect", "Private", "Restrict", "SystemCall"))]
    names += ["DevicePolicy", "DeviceAllow", "NoNewPrivileges", "LockPersonality", "MemoryDenyWriteExecute"]
    assert {name: run.get(name) for name in names} == {name: service[name] for name in names}
    capabilities = [set(service_unit["CapabilityBoundingSet"][0].split()) for service_unit in (service, run)]
    assert capabilities[0] - capabilities[1] == {"CAP_IPC_LOCK"}
    assert capabilities[1] < capabilities[0]


def test_a_unit_is_not_ended_while_it_judges():
    """A run in a total stall lasts as long as its deadline at most; outputs have a few seconds more."""
    deadline_s = ddprobe.parse_command(["run"]).deadline
    service, run = (settings(unit) for unit in UNITS)
    assert seconds(service["WatchdogSec"][0]) > deadline_s + 10
    assert seconds(run["TimeoutStartSec"][0]) > 3 * deadline_s + 10
    assert service["KillMode"] == run["KillMode"] == ["mixed"]
    assert service["TasksMax"] == run["TasksMax"]


@pytest.mark.parametrize("unit", UNITS)
def test_systemd_itself_makes_no_directory_on_a_disk_to_start_a_unit(unit):
    """PID 1 creates those of PrivateTmp, and would wait for a disk that is stalled."""
    assert "PrivateTmp" not in settings(unit)
    assert "DynamicUser" not in settings(unit)


def permitted(unit: str) -> set[str]:
    """System calls that the unit's filter lets through."""
    allowed: set[str] = set(members("@default"))
    for line in settings(unit)["SystemCallFilter"]:
        names = [name for word in line.removeprefix("~").split() for name in members(word)]
        allowed = allowed - set(names) if line.startswith("~") else allowed | set(names)
    return allowed | {"execve"}


def members(word: str) -> list[str]:
    if not word.startswith("@"):
        return [word]
    lines = analyze("syscall-filter", word).stdout.splitlines()
    arguments = [line.strip() for line in lines[1:] if line.strip() and not line.strip().startswith("#")]
    return [name for inner in arguments for name in members(inner)]


def in_the_sandbox(unit: str, trace: Path, arguments: list[object]) -> subprocess.Popen:
    """Start ddprobe with the capabilities of its unit, every system call written down."""
    needs("strace", "strace")
    needs("setpriv", "util-linux")
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED HERE: dropping capabilities needs root")
    capabilities = [
        name.removeprefix("CAP_").lower() for name in settings(unit)["CapabilityBoundingSet"][0].split()
    ]
    bounds = ",".join(["-all", *(f"+{name}" for name in capabilities)])
    tracing = ["strace", "--follow-forks", "--quiet=all", "--output", trace]
    sandbox = ["setpriv", "--no-new-privs", "--bounding-set", bounds, "--inh-caps", "-all"]
    command = [*tracing, *sandbox, "/usr/bin/python3", "-IS", PROGRAM, *arguments]
    return subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def check_calls(unit: str, trace: Path) -> None:
    lines = trace.read_text().splitlines()
    after_exec = next(number for number, line in enumerate(lines) if 'execve("/usr/bin/python3"' in line)
    lines = [line for line in lines[after_exec:] if " = ? " not in line or "exit" not in line]
    calls = {match[1] for line in lines if (match := re.match(r"\d+ +([a-z_0-9]+)\(", line))}
    assert "openat" in calls
    assert calls - permitted(unit) == set()
    assert not [line for line in lines if "PROT_WRITE|PROT_EXEC" in line]
    assert not [line for line in lines if re.search(r"mprotect\(.*PROT_EXEC", line)]


@pytest.mark.parametrize("more", [[], ["--level", "classic"], ["--level", "classic", "--engine", "dd"]])
def test_a_run_makes_no_system_call_that_its_unit_refuses(shm_dir, tmp_path, more):
    trace, prom = tmp_path / "trace", tmp_path / "p.prom"
    arguments = ["run", "--run-dir", shm_dir, *OPTIONS, prom, *more, tmp_path]
    with in_the_sandbox("ddprobe-run.service", trace, arguments) as running:
        output = running.communicate(timeout=60)
    assert running.returncode in {0, 1, 2}, output
    assert prom.exists()
    check_calls("ddprobe-run.service", trace)


def test_serve_makes_no_system_call_that_its_unit_refuses(shm_dir, tmp_path):
    trace, prom = tmp_path / "trace", tmp_path / "p.prom"
    quick = ["--interval", "1s", "--passive-every", "200ms", "--max-credit-share", "100%"]
    arguments = ["serve", "--run-dir", shm_dir, *OPTIONS, prom, *quick, tmp_path]
    with in_the_sandbox("ddprobe.service", trace, arguments) as running:
        try:
            until_s = time.monotonic() + 30
            while not prom.exists() and running.poll() is None and time.monotonic() < until_s:
                time.sleep(0.05)
            for child in Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split():
                os.kill(int(child), signal.SIGTERM)
            output = running.communicate(timeout=60)
        finally:
            running.kill()
    assert (running.returncode, prom.exists()) == (0, True), output
    assert "memory is not all locked" not in output[1]
    check_calls("ddprobe.service", trace)
