import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import ddprobe
import pytest

from support.probe.probe_process import PROGRAM, Probe, pythons
from support.waiting import wait_until

LOCAL = ddprobe.mount_of(
    str(Path(__file__).parent), ddprobe.parse_mounts(Path("/proc/self/mountinfo").read_text())
)
ON_A_DISK = LOCAL is not None and LOCAL.fs not in ddprobe.FOREIGN_FS


@pytest.mark.parametrize("python", pythons(), ids=lambda path: Path(path).name)
def test_the_oldest_and_the_newest_python_measure(shm_dir, disk, python):
    reading = Probe(shm_dir, python).read("run", *disk)
    assert reading["schema"] == "burstwatch.reading/v1"
    assert reading["completed"] is True
    assert reading["reached"] in {"lite", "classic"}
    assert reading["total_s"] > 0
    assert reading["startup_ms"] >= 0
    assert reading["cost"]["credits"] >= 32


@pytest.mark.parametrize("python", pythons(), ids=lambda path: Path(path).name)
def test_every_mode_answers_on_the_oldest_and_the_newest_python(shm_dir, disk, python):
    probe = Probe(shm_dir, python)
    assert "own file" in probe.run("explain", disk[-1]).stdout
    assert probe.read("passive", "--look", "100ms", disk[-1])["level"] == "passive"
    assert probe.run("--help").stdout.startswith("usage: ddprobe")


def test_a_reading_has_the_same_keys_whatever_happened(probe, disk):
    lite, classic = (
        probe.read("run", "--level", "lite", *disk),
        probe.read("run", "--level", "classic", *disk),
    )
    passive = probe.read("passive", "--look", "100ms", disk[-1])
    assert lite.keys() == classic.keys() == passive.keys()
    assert len(classic["write_ms"]) == 10
    assert classic["dd_measured"] is True
    assert passive["total_s"] is None
    assert passive["cost"] == {"writes": 0, "flushes": 0, "credits": 0}


def test_dd_itself_and_the_same_in_process_leave_the_same_file(probe, disk, tmp_path):
    for engine in ("inproc", "dd"):
        reading = probe.read("run", "--level", "classic", "--engine", engine, *disk)
        assert reading["engine"] == engine
        assert reading["completed"] is True
        assert (tmp_path / ".ddprobe").read_bytes() == bytes(10 << 20)


def test_random_data_is_written_where_zeros_would_cost_nothing(probe, disk, tmp_path):
    probe.read("run", "--level", "lite", "--data", "random", *disk)
    assert len(set((tmp_path / ".ddprobe").read_bytes())) > 100


def test_the_newest_reading_is_in_memory(probe, disk):
    probe.read("run", *disk)
    (state_file,) = probe.run_dir.glob("*.json")
    assert json.loads(state_file.read_text())["schema"] == "burstwatch.reading/v1"


# -- it does no harm


def prepare(kind: str, path: Path) -> None:
    other = path.parent / "precious"
    other.write_text("precious")
    {
        "link": lambda: path.symlink_to(other),
        "second name": lambda: path.hardlink_to(other),
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
        "file of another": lambda: (path.write_text("theirs"), os.chown(path, 65534, 65534)),
    }[kind]()


@pytest.mark.parametrize("level", ["lite", "classic"])
@pytest.mark.parametrize("kind", ["link", "second name", "pipe", "folder", "file of another"])
def test_only_a_file_of_its_own_is_written(probe, disk, tmp_path, kind, level):
    if kind == "file of another" and os.geteuid() != 0:
        pytest.skip("needs root, to give a file away")
    prepare(kind, tmp_path / ".ddprobe")
    done = probe.run("run", "--level", level, *disk)
    assert done.returncode == 3
    assert "UNKNOWN" in done.stdout
    assert (tmp_path / "precious").read_text() == "precious"


def test_a_device_is_no_place_to_write(probe):
    done = probe.run("run", "/dev/null")
    assert done.returncode == 3
    assert "is not a directory" in done.stdout


def test_memory_is_refused_with_the_next_step(probe, shm_dir):
    done = probe.run("run", shm_dir)
    assert done.returncode == 3
    assert "it is memory" in done.stdout
    assert "--allow-fs tmpfs" in done.stdout


def test_a_run_costs_what_it_may_and_then_looks_only(probe, disk):
    arguments = ["run", "--level", "classic", "--max-credit-share", "0.5%", *disk]
    readings = [probe.read(*arguments) for _ in range(5)]  # 300 credits were saved up, a run takes 86
    assert [reading["reached"] for reading in readings] == ["classic"] * 3 + ["passive"] * 2
    assert "again in" in readings[-1]["skipped"][0]
    assert "raise --max-credit-share" in readings[-1]["skipped"][0]


def test_of_ten_runs_at_once_each_is_counted(probe, disk):
    runs = [probe.start("run", "--json", "-", *disk, stdout=subprocess.PIPE) for _ in range(10)]
    readings = [json.loads(run.communicate(timeout=60)[0]) for run in runs]
    # 600 credits were saved up: no ten climbs together, no lite write beyond that
    used = sum(reading["cost"]["credits"] for reading in readings)
    assert 0 < used < 600 + 60
    last = probe.read("run", *disk)
    assert last["credits_total"] == used + last["cost"]["credits"]


def test_without_a_known_volume_it_reports_that_nothing_goes_to_aws(probe, disk):
    done = probe.run("run", "--event-bus", "burstwatch-probe", *disk)
    assert "its volume is not known (--volume-id)" in done.stderr
    known = ["--volume-id", "vol-0123456789abcdef0"]
    assert "not known" not in probe.run("run", "--event-bus", "burstwatch-probe", *known, *disk).stderr


def test_nothing_is_written_by_explain_and_passive(probe, tmp_path):
    probe.run("explain", tmp_path)
    probe.read("passive", "--look", "100ms", tmp_path)
    assert list(tmp_path.iterdir()) == []


# -- bad input


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["run", "--warn", "soon"], 3, "--warn takes a time such as 500ms, 5s or 2m, not 'soon'"),
        (["run", "--exit-style", "npd", "--top", "x"], 2, "--top takes a whole number"),
        (["frobnicate"], 3, "not one of run, serve, passive, explain"),
        (["run", "/no/such/place"], 3, "/no/such/place: No such file or directory"),
        (["passive", "--require-ebs", "/"], 3, "which is not an EBS volume"),
        (["passive", "--run-dir", "/etc/passwd", "/"], 3, "name another with --run-dir"),
    ],
)
def test_bad_input_is_one_clear_line(arguments, code, message):
    done = subprocess.run(
        [sys.executable, "-IS", PROGRAM, *arguments], capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == code
    output = done.stdout + done.stderr
    assert message in output
    assert "Traceback" not in output
    assert len(output.splitlines()) == 1


def test_a_fault_of_its_own_is_no_traceback_either(probe, disk):
    (probe.run_dir / "full").touch()
    done = probe.run("run", "--run-dir", probe.run_dir / "full", *disk)
    assert done.returncode == 3
    assert "Traceback" not in done.stderr


def test_the_path_lookup_has_more_time_than_a_threshold_of_milliseconds(probe, disk):
    reading = probe.read("run", "--warn", "1ms", "--crit", "1ms", *disk)
    assert reading["reached"] != "passive"
    assert not any("path lookup" in text for text in reading["skipped"])


# -- outputs of a process


@pytest.mark.parametrize("arguments", [("--help",), ("explain", "/"), ("passive", "--look", "100ms", "/")])
def test_output_that_a_full_disk_does_not_take_is_reported(probe, arguments):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            probe.command(*arguments), stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=30
        )
    assert "ddprobe: output is lost: stdout is full, or nothing reads it" in done.stderr
    # the exit code of a reading is its verdict, which is not lost
    assert done.returncode == (0 if arguments[0] == "passive" else 3)


def test_exit_styles_and_their_words(probe, disk):
    nagios = probe.run("run", *disk)
    assert (nagios.returncode, nagios.stdout.count("\n")) == (0, 1)
    assert nagios.stdout.startswith("DDPROBE OK ")
    npd = probe.run("run", "--exit-style", "npd", *disk)
    assert npd.returncode == 0
    assert len(npd.stdout.rstrip("\n")) <= 80
    cron = probe.run("run", "--exit-style", "cron", *disk)
    assert (cron.returncode, cron.stdout, cron.stderr) == (0, "", "")
    slow = probe.run("run", "--exit-style", "cron", "--warn", "0s", *disk)
    assert slow.returncode == 0
    assert "WARN" in slow.stdout


def test_all_outputs_at_once(probe, disk, tmp_path):
    graphite = socket.create_server(("127.0.0.1", 0))
    graphite.settimeout(10)
    port = graphite.getsockname()[1]
    prom, log = tmp_path / "ddprobe.prom", tmp_path / "readings.json"
    arguments = ["--prom", prom, "--json", log, "--collectd", "--graphite", f"127.0.0.1:{port}"]
    done = probe.run("run", *arguments, *disk)
    connection, _ = graphite.accept()
    lines = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
    connection.close()
    graphite.close()
    assert done.returncode == 0
    assert "ddprobe_dd_seconds{" in prom.read_text()
    assert json.loads(log.read_text())["completed"] is True
    assert done.stdout.startswith('PUTVAL "')
    assert ".dd_seconds " in lines


def test_an_output_that_fails_is_reported_and_hides_no_verdict(probe, disk):
    arguments = ["--json", "/no/such/folder/x.json", "--graphite", "127.0.0.1:1"]
    done = probe.run("run", *arguments, *disk)
    assert done.returncode == 0
    assert "DDPROBE OK" in done.stdout
    assert "ddprobe: /no/such/folder/x.json: not written: No such file" in done.stderr
    assert "refused" in done.stderr


def test_a_caller_gets_end_of_file_although_a_child_is_left(probe, disk, tmp_path):
    """A plugin runner reads until all writers of the pipe are gone: no child may keep it."""
    silent = socket.create_server(("127.0.0.1", 0))
    environment = os.environ | {
        "AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://127.0.0.1:{silent.getsockname()[1]}",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
    }
    began_s = time.monotonic()
    arguments = ["--cloudwatch", "api", "--volume-id", "vol-0123456789abcdef0"]
    done = probe.run("run", *arguments, *disk, env=environment)
    silent.close()
    assert done.returncode == 0
    assert time.monotonic() - began_s < 8
    assert "$0.60 a month" in done.stderr


# -- resident


def test_serve_notifies_systemd_sends_the_watchdog_signal_writes_and_ends_on_term(probe, disk, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(15)
        prom = probe.run_dir / "ddprobe.prom"
        disk = [word for word in disk if word not in ("--look", "100ms")]
        arguments = ["serve", "--interval", "1s", "--max-credit-share", "100%", "--prom", prom, *disk]
        environment = os.environ | {"NOTIFY_SOCKET": str(tmp_path / "notify")}
        serving = probe.start(*arguments, env=environment, stderr=subprocess.PIPE)
        try:
            notifications = [systemd.recv(4096).decode() for _ in range(4)]
            wait_until(prom.exists)
            first = prom.read_text()
            wait_until(lambda: stamp_of(prom.read_text()) > stamp_of(first))
            status = Path(f"/proc/{serving.pid}/status").read_text()
        finally:
            serving.send_signal(signal.SIGTERM)
            code = serving.wait(60)
            serving.stderr.close()
        rest = systemd.recv(4096)
    assert notifications[0] == "READY=1"
    assert "WATCHDOG=1" in notifications
    assert any(line.startswith("STATUS=") for line in notifications)
    assert code == 0
    assert rest
    resident_kib = int(re.search(r"VmRSS:\s+(\d+)", status)[1])
    assert resident_kib <= 30 * 1024


def stamp_of(textfile: str) -> float:
    return float(re.search(r"last_run_timestamp_seconds ([0-9.]+)", textfile)[1])


# -- its pages


def test_every_option_is_in_the_pages_and_no_other():
    folder = PROGRAM.parent
    options = {option[0] for option in ddprobe.OPTIONS}
    page = (folder / "ddprobe.md").read_text()
    manual = (folder / "package" / "ddprobe.1").read_text().replace("\\-", "-")
    for text in (page, manual):
        named = set(re.findall(r"--([a-z][a-z-]+)", text))
        assert options <= named | {"help", "version"}
    in_manual = set(re.findall(r"^\.BI? --([a-z-]+)", manual, re.MULTILINE))
    assert in_manual <= options | {"help", "version"}


def test_every_command_of_the_pages_is_one_that_is_taken():
    root = PROGRAM.parents[1]
    pages = [PROGRAM.parent / "ddprobe.md", *(root / "runbooks").glob("*.md"), *(root / "docs").glob("*.md")]
    page_names = []
    for page in pages:
        for arguments in re.findall(
            r"ddprobe(?:\.py)? ((?:run|serve|passive|explain) [^`\"|\n]*)", page.read_text()
        ):
            ddprobe.parse_command(arguments.split())
            page_names.append(page.name)
    assert {"ddprobe.md", "HostStallReported.md"} <= set(page_names)


def test_the_scripts_of_the_page_are_ones_a_shell_takes_and_its_documents_are_json(tmp_path):
    text = (PROGRAM.parent / "ddprobe.md").read_text()
    scripts = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    assert len(scripts) == 2
    for script in scripts:
        subprocess.run(["sh", "-n"], input=script, text=True, check=True)
    (parameters,) = re.findall(r"--parameters 'commands=(\[.*\])'", scripts[1])
    assert all(command.startswith(("aws s3 cp ", "python3 -IS ")) for command in json.loads(parameters))
    documents = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    assert [json.loads(document) for document in documents]


def test_the_user_data_leaves_a_configuration_that_the_service_takes(tmp_path):
    """Run as an instance does, with its root elsewhere and tools that only note what they are asked."""
    script = re.findall(r"```sh\n(#!/bin/sh.*?)```", (PROGRAM.parent / "ddprobe.md").read_text(), re.DOTALL)[
        0
    ]
    for folder in ("bin", "etc/default"):
        (tmp_path / folder).mkdir(parents=True)
    for tool in ("aws", "sha256sum", "rpm", "systemctl"):
        (tmp_path / "bin" / tool).write_text(f'#!/bin/sh\necho "{tool} $*" >> {tmp_path}/asked\n')
        (tmp_path / "bin" / tool).chmod(0o755)
    elsewhere = script.replace("/etc/default", f"{tmp_path}/etc/default")
    environment = os.environ | {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    subprocess.run(["sh", "-e"], input=elsewhere, text=True, check=True, env=environment)
    calls = (tmp_path / "asked").read_text().splitlines()
    assert [line.split()[0] for line in calls] == ["aws", "sha256sum", "rpm", "systemctl"]
    assert f"ddprobe-{ddprobe.VERSION}-1.noarch.rpm" in calls[2]
    settings = (tmp_path / "etc/default/ddprobe").read_text()
    printed = subprocess.run(
        ["sh", "-c", f"{settings}\necho serve $DDPROBE_OPTIONS $DDPROBE_PATHS"],
        capture_output=True,
        text=True,
        check=True,
    )
    options = ddprobe.parse_command(printed.stdout.split())
    assert (options.event_bus, options.paths) == ("burstwatch-probe", ("/var/lib/ddprobe", "/data"))


def test_every_key_of_a_reading_is_explained(probe, disk):
    page = (PROGRAM.parent / "ddprobe.md").read_text()
    assert [key for key in probe.read("run", *disk) if f"`{key}`" not in page] == []


def test_every_cause_and_metric_is_explained():
    page = (PROGRAM.parent / "ddprobe.md").read_text()
    assert [cause for cause in ddprobe.CAUSES if f"`{cause}`" not in page] == []
    names = [name for name, *_ in ddprobe.PROM_METRICS]
    assert [name for name in names if f"`ddprobe_{name}`" not in page] == []


# -- resident


def the_probe(shm_dir, path, *arguments: str) -> ddprobe.Probe:
    options = ddprobe.parse_command([*arguments, str(path)])
    return ddprobe.Probe(
        options, ddprobe.find_site(str(path), 10), ddprobe.StateDirs(str(shm_dir)), lambda: None
    )


def test_a_look_whose_observer_died_ends_in_its_time_and_does_not_spin(shm_dir, tmp_path, monkeypatch):
    def die(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(ddprobe.Observer, "watch", die)
    probe = the_probe(shm_dir, tmp_path, "passive")
    began_s, spent_s = time.monotonic(), time.process_time()
    assert probe.look(0.5).tasks is None
    assert time.monotonic() - began_s < ddprobe.SECOND_PASS_S
    assert time.process_time() - spent_s < 0.2


def test_a_disk_that_answers_late_has_a_memory_of_its_own(shm_dir, tmp_path):
    mount = ddprobe.mount_of(str(tmp_path), ddprobe.parse_mounts(Path("/proc/self/mountinfo").read_text()))
    probe = the_probe(shm_dir, tmp_path, "serve", "--allow-fs", mount.fs)
    site = probe.site
    probe.site = ddprobe.Site(
        **(vars(site) | {"answered": False, "mount": ddprobe.UNKNOWN_MOUNT, "disks": ()})
    )
    probe.history = ddprobe.RunHistory(probe.state_dirs, probe.site.key, 1.0)
    probe.run(time.monotonic(), skip_look=True)
    assert probe.site.mount == site.mount
    assert [file.name.partition("_")[0] for file in shm_dir.glob("*.memory")] in (
        [site.key],
        [f"{site.key}.memory"],
    )
