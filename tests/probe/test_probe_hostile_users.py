"""ddprobe with malicious users and careless callers: no file of anybody else's is touched."""

import json
import os
import resource
import subprocess
import sys
import time

import ddprobe
import pytest

from support.probe.probe_process import PROGRAM
from support.unprivileged import UNPRIVILEGED_ID, needs_root


def run_unprivileged(work) -> None:
    """Do something as another user, in a child."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(UNPRIVILEGED_ID)
            os.setuid(UNPRIVILEGED_ID)
            work()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0


# -- the caller's streams


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_streams_that_the_caller_closed_change_nothing(probe, disk_of_others, tmp_path, closed):
    def close() -> None:
        for fd in closed:
            os.close(fd)

    command = probe.command("run", "--json", tmp_path / "log.json", *disk_of_others)
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        timeout=30, check=False, preexec_fn=close,
    )  # fmt: skip
    assert done.returncode == 0
    assert '"completed": true' in (tmp_path / "log.json").read_text()


def test_four_modules_are_read_at_the_start_beside_those_of_every_python():
    def read_modules(*arguments: object) -> set[str]:
        command = [sys.executable, "-X", "importtime", "-IS", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
        return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}

    assert read_modules(PROGRAM, "--version") - read_modules("-c", "import os") == {
        "__future__",
        "errno",
        "fcntl",
        "select",
    }


# -- its own file


@pytest.mark.parametrize("level", ["lite", "classic"])
@pytest.mark.parametrize(
    ("name", "expected"), [("data.db", "must begin with .ddprobe"), (".ddprobe-mine", "not ddprobe's own")]
)
def test_a_file_that_ddprobe_did_not_make_is_refused_untouched(probe, disk_of_others, name, expected, level):
    data = disk_of_others[-1] / name
    data.write_bytes(b"precious data\n")
    done = probe.run("run", "--level", level, "--file", name, *disk_of_others)
    assert done.returncode == 3
    assert expected in done.stdout
    assert data.read_bytes() == b"precious data\n"


@pytest.mark.parametrize("size", [0, 4096, 3 << 20, 10 << 20])
def test_a_file_that_an_earlier_version_left_is_used_again(probe, disk_of_others, size):
    own = disk_of_others[-1] / ".ddprobe"
    own.write_bytes(bytes(size))
    assert probe.run("run", "--level", "classic", *disk_of_others).returncode == 0
    assert own.stat().st_size == 10 << 20


@pytest.mark.parametrize("engine", ["inproc", "dd"])
def test_a_classic_run_that_fails_gives_back_what_it_wrote(probe, disk_of_others, engine):
    """As where a quota is full."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, 3 << 20))

    done = probe.run("run", "--level", "classic", "--engine", engine, *disk_of_others, preexec_fn=limit)
    assert (done.returncode, "EFBIG" in done.stdout) == (3, True)  # the disk is not to blame
    assert list(disk_of_others[-1].iterdir()) == []


@pytest.mark.parametrize(
    ("status", "text", "code"),
    [
        (256, "dd: error writing '/proc/self/fd/7': Disk quota exceeded\n3+0 records in\n", "EDQUOT"),
        (256, "dd: error writing '/proc/self/fd/7': Input/output error\n", "EIO"),
        (256, "what nobody expects", "?"),
        (9, "", "?"),
    ],
)
def test_an_error_of_dd_is_recognised_by_its_text(status, text, code):
    assert ddprobe.dd_failure(status, text)[0] == code


def test_root_writes_into_no_directory_that_it_reaches_through_a_link_of_another_user(
    probe, disk_of_others, child_end, tmp_path
):
    secret = tmp_path / "secret"
    secret.mkdir(mode=0o700)
    run_unprivileged(lambda: (child_end / "link").symlink_to(secret))
    done = probe.run("run", *disk_of_others[:-1], child_end / "link")
    assert done.returncode == 3
    assert f"{child_end / 'link'} is a symbolic link of another user" in done.stdout
    assert f"name {secret}" in done.stdout
    assert list(secret.iterdir()) == []
    assert probe.run("passive", "--look", "100ms", child_end / "link").returncode == 0  # reads only
    assert not list(probe.run_dir.glob("*.place"))  # nor is it remembered, for a run that looks nothing up


def test_a_path_that_cannot_be_measured_hides_no_other(probe, disk_of_others, tmp_path):
    done = probe.run("run", *disk_of_others, tmp_path / "missing", "--json", "-")
    readings = {line["path"]: line for line in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 3
    assert readings[str(disk_of_others[-1])]["verdict"] == "ok"
    missing_reading = readings[str(tmp_path / "missing")]
    assert (missing_reading["verdict"], missing_reading["completed"], missing_reading["dd_s"]) == (
        "unknown",
        False,
        None,
    )
    assert "No such file" in missing_reading["reason"]
    assert "missing" in done.stderr
    assert probe.run("run", tmp_path / "missing", tmp_path / "too").returncode == 3


def test_serve_starts_with_a_path_that_is_missing_and_measures_it_when_it_is_there(
    probe, disk_of_others, tmp_path
):
    log, missing, target = probe.run_dir / "readings.json", tmp_path / "missing", tmp_path / "target"
    arguments = [
        "serve",
        *disk_of_others[:2],
        "--interval",
        "1s",
        "--max-credit-share",
        "100%",
        "--json",
        log,
    ]
    serving = probe.start(*arguments, disk_of_others[-1], missing, stderr=subprocess.PIPE)
    try:
        assert latest(log, str(disk_of_others[-1]), "ok")
        assert latest(log, str(missing), "unknown")
        target.mkdir()
        missing.symlink_to(target)
        assert latest(log, str(target), "ok")
    finally:
        serving.terminate()
        errors = serving.communicate(timeout=60)[1]
    assert errors.count("No such file") == 2  # at the start, and as a verdict: not once each round
    assert "Traceback" not in errors


def latest(log, path, verdict) -> bool:
    until_s = time.monotonic() + 10
    while time.monotonic() < until_s:
        readings = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        if [reading["verdict"] for reading in readings if reading["path"] == path][-1:] == [verdict]:
            return True
        time.sleep(0.1)
    return False


def test_a_directory_that_became_a_link_after_it_was_looked_up_is_not_written_in(tmp_path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "data").symlink_to(tmp_path / "secret")
    plan = ddprobe.Plan(
        level="lite", path=str(tmp_path / "data" / ".ddprobe"), engine="inproc", data="zero", writes=1,
        bulk=0, appends=0, extra=False, enough_s=None,
    )  # fmt: skip
    with pytest.raises(OSError, match="symbolic link"):
        ddprobe.open_own_file(plan)
    assert list((tmp_path / "secret").iterdir()) == []


# -- the log


def run_with_log(probe, disk_of_others, path) -> str:
    return probe.run("run", "--json", path, *disk_of_others).stderr


@pytest.mark.parametrize("exists", [True, False])
def test_a_log_that_another_user_made_a_link_is_not_followed(
    probe, disk_of_others, child_end, tmp_path, exists
):
    preload = tmp_path / "preload"
    if exists:
        preload.write_text("x")
    run_unprivileged(lambda: (child_end / "log").symlink_to(preload))
    assert "not written: other users may write to" in run_with_log(probe, disk_of_others, child_end / "log")
    assert not exists or preload.read_text() == "x"
    assert preload.exists() == exists


@pytest.mark.parametrize("kind", ["link", "second name", "pipe", "file of another"])
def test_a_log_is_a_regular_file_of_the_probe_with_one_name(probe, disk_of_others, tmp_path, kind):
    needs_root()
    other, log = tmp_path / "precious", tmp_path / "log"
    other.write_text("precious")
    {
        "link": lambda: log.symlink_to(other),
        "second name": lambda: log.hardlink_to(other),
        "pipe": lambda: os.mkfifo(log),
        "file of another": lambda: (log.write_text(""), os.chown(log, UNPRIVILEGED_ID, UNPRIVILEGED_ID)),
    }[kind]()
    began_s = time.monotonic()
    assert "not written: " in run_with_log(probe, disk_of_others, log)
    assert time.monotonic() - began_s < 5
    assert other.read_text() == "precious"
    assert kind != "file of another" or log.read_text() == ""


@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_a_log_is_not_kept_where_everybody_may_write(probe, disk_of_others, tmp_path, mode):
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(mode)
    assert "other users may write to" in run_with_log(probe, disk_of_others, folder / "log")
    assert list(folder.iterdir()) == []


def test_a_link_laid_while_the_log_is_renamed_is_not_followed(tmp_path, monkeypatch):
    log, target, rename = tmp_path / "log", tmp_path / "target", os.rename
    log.write_text("x" * 100)

    def and_lay_a_link(*names, **folders):
        rename(*names, **folders)
        log.symlink_to(target)

    monkeypatch.setattr(ddprobe.os, "rename", and_lay_a_link)
    with pytest.raises(OSError, match="symbolic links"):
        ddprobe.append_line(str(log), "{}", max_bytes=50)
    assert not target.exists()


# -- the textfile


def test_a_temporary_file_that_another_user_foresaw_is_not_written(child_end):
    foreseen = child_end / f".x.prom.{os.getpid()}"
    run_unprivileged(foreseen.touch)
    ddprobe.replace_file(str(child_end / "x.prom"), "1\n")
    assert (child_end / "x.prom").stat().st_uid == os.geteuid()
    assert foreseen.read_text() == ""


def test_a_pipe_where_the_textfile_should_be_hangs_nothing(probe, disk_of_others):
    os.mkfifo(probe.run_dir / "x.prom")
    done = probe.run("run", "--prom", probe.run_dir / "x.prom", *disk_of_others, within_s=10)
    assert done.returncode == 0
    assert "ddprobe_verdict" in (probe.run_dir / "x.prom").read_text()


def test_a_textfile_is_not_written_in_a_directory_that_became_a_link(tmp_path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "textfiles").symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match="symbolic link"):
        ddprobe.replace_file(str(tmp_path / "textfiles" / "x.prom"), "1")
    assert list((tmp_path / "secret").iterdir()) == []


def test_a_textfile_is_whole_although_the_kernel_takes_little_at_a_time(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(ddprobe.os, "write", lambda fd, raw: write(fd, raw[:7]))
    ddprobe.replace_file(str(tmp_path / "x.prom"), "0123456789" * 10)
    assert (tmp_path / "x.prom").read_text() == "0123456789" * 10


def test_a_textfile_that_cannot_be_finished_leaves_nothing_behind(tmp_path, monkeypatch):
    def is_full(fd, raw):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ddprobe.os, "write", is_full)
    with pytest.raises(OSError, match="No space"):
        ddprobe.replace_file(str(tmp_path / "x.prom"), "1")
    assert list(tmp_path.iterdir()) == []


# -- the lookup


def test_a_path_is_followed_as_the_kernel_does(tmp_path):
    (tmp_path / "far" / "away").mkdir(parents=True)
    (tmp_path / "link").symlink_to("far/away")
    (tmp_path / "round").symlink_to("round")
    assert ddprobe.find_site(f"{tmp_path}/link/..", 5).path == str(tmp_path / "far")
    with pytest.raises(ddprobe.UsageError, match="Too many levels of symbolic links"):
        ddprobe.find_site(str(tmp_path / "round"), 5)


def test_a_lookup_without_evidence_accuses_no_disk(shm_dir, tmp_path):
    state_dirs, path = ddprobe.StateDirs(str(shm_dir)), str(tmp_path)
    held = ddprobe.Lock(state_dirs, ddprobe.name_of(path))
    assert held.take()
    site = ddprobe.Lookup(path, state_dirs).site(time.monotonic() + 0.1, "vol-0123456789abcdef0")
    held.close()
    assert (site.answered, site.path) == (False, path)
    assert (site.disks, site.volume_ids, site.partition, site.mount.fs) == ((), [], "", "")


def test_a_lookup_that_another_run_has_not_got_back_names_the_disk_it_waits_for(shm_dir, tmp_path):
    state_dirs, path = ddprobe.StateDirs(str(shm_dir)), str(tmp_path)
    held = ddprobe.Lock(state_dirs, ddprobe.name_of(path))
    assert held.take()
    ddprobe.write_holder(held.fd, "lookup", (1.0, 1.0), str(shm_dir / "x"))
    site = ddprobe.Lookup(path, state_dirs).site(time.monotonic() + 0.1)
    held.close()
    assert not site.answered
    assert site.mount.point == "/dev/shm"
