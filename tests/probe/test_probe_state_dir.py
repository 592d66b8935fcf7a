import fcntl
import os
import time
from pathlib import Path

import ddprobe
import pytest

from support.waiting import wait_until

MOUNTS = ddprobe.parse_mounts(Path("/proc/self/mountinfo").read_text())


def test_a_folder_of_another_user_is_not_used(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(ddprobe.UsageError, match="--run-dir"):
        ddprobe.StateDirs(str(tmp_path / "link"))


def test_a_folder_on_a_disk_is_refused_without_being_made(tmp_path):
    """In a stall of that disk every run would hang, and none could report it."""
    if ddprobe.mount_of(str(tmp_path), MOUNTS).fs in ddprobe.MEMORY_FS:
        pytest.skip("needs a temporary folder on a disk")
    with pytest.raises(ddprobe.UsageError, match=r"not in memory .*; name another with --run-dir"):
        ddprobe.StateDirs(str(tmp_path / "here"))
    assert not (tmp_path / "here").exists()


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o1777])
def test_a_folder_that_others_may_write_to_is_refused(shm_dir, mode):
    shm_dir.chmod(mode)
    with pytest.raises(ddprobe.UsageError, match="may be written by others; name another with --run-dir"):
        ddprobe.StateDirs(str(shm_dir))


def test_a_folder_below_one_of_another_user_is_refused(shm_dir):
    needs_root()
    (shm_dir / "theirs" / "ours").mkdir(parents=True, mode=0o700)
    os.chown(shm_dir / "theirs", 65534, 65534)
    with pytest.raises(ddprobe.UsageError, match="belongs to another user"):
        ddprobe.StateDirs(str(shm_dir / "theirs" / "ours"))


def test_a_folder_behind_a_link_is_refused(shm_dir, tmp_path):
    (shm_dir / "link").symlink_to(tmp_path)
    with pytest.raises(ddprobe.UsageError, match="is not a directory"):
        ddprobe.StateDirs(str(shm_dir / "link" / "ours"))
    assert list(tmp_path.iterdir()) == []


def needs_root():
    if os.geteuid() != 0:
        pytest.skip("needs root, to give a file away")


def test_a_folder_that_was_tidied_away_is_made_again(state_dirs, shm_dir):
    shm_dir.rmdir()
    state_dirs.write("x.json", "{}")
    assert (shm_dir / "x.json").read_text() == "{}"


def test_the_lock_is_held_by_the_child_for_as_long_as_it_writes(state_dirs):
    lock = ddprobe.Lock(state_dirs, "259-3")
    assert lock.take()
    plan = ddprobe.Plan(
        level="lite",
        path="",
        engine="inproc",
        data="zero",
        writes=1,
        bulk=0,
        appends=0,
        extra=True,
        enough_s=None,
    )
    fd = lock.fd

    def write(send):
        ddprobe.note_writer(fd, plan)
        send(True)
        time.sleep(60)

    writer = ddprobe.ChildTask(write, keep=[fd])
    ddprobe.wait_for([writer.fd], 5)
    lock.close()
    other = ddprobe.Lock(state_dirs, "259-3")
    assert not other.take()
    holder = other.holder()
    assert (holder.pid, holder.level) == (writer.pid, "lite")
    assert holder.age_s < 5
    writer.give_up()
    wait_until(other.take)
    other.close()


@pytest.mark.parametrize(
    "note",
    [
        b"", b"x", b"1 lite 2", b"x lite 1.0 2.0 /data", b"-5 lite 1.0 2.0 /data", b"1 lite nan inf /data",
        b"1 ;rm 1.0 2.0 /data", b"\xff\x00 \xff 1 2 3", b"9" * 9000,
    ],
)  # fmt: skip
def test_a_lock_whose_note_is_no_note_has_a_holder_that_is_not_known(state_dirs, note):
    held, other = ddprobe.Lock(state_dirs, "259-3"), ddprobe.Lock(state_dirs, "259-3")
    assert held.take()
    os.pwrite(held.fd, note, 0)
    assert not other.take()
    assert other.holder() is None
    held.close()
    other.close()


def test_what_an_earlier_holder_noted_is_not_taken_for_the_present_ones(state_dirs):
    lock, other = ddprobe.Lock(state_dirs, "259-3"), ddprobe.Lock(state_dirs, "259-3")
    ddprobe.write_holder(lock.fd, "lite", (1.0, 1.0), "/data")
    assert lock.take()
    assert other.holder() is None
    lock.close()
    other.close()


def test_a_lock_file_of_another_user_is_not_used(state_dirs, shm_dir):
    needs_root()
    (shm_dir / "259-3.lock").touch()
    os.chown(shm_dir / "259-3.lock", 65534, 65534)
    with pytest.raises(ddprobe.ProbeError, match="is not ddprobe's own: remove it"):
        ddprobe.Lock(state_dirs, "259-3")


def test_allowance_is_spent_and_comes_back_with_time(state_dirs, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(ddprobe, "boot_clock", lambda: now[0])
    history = ddprobe.RunHistory(state_dirs, "259-3", credits_per_s=1.0)
    assert history.allowance() == 600
    history.spend(586)
    now[0] += 30
    again = ddprobe.RunHistory(state_dirs, "259-3", credits_per_s=1.0)
    assert again.allowance() == pytest.approx(44)
    assert again.credits_total == 586
    now[0] += 10_000
    assert again.allowance() == 600


def test_what_runs_beside_each_other_spend_is_added_up(state_dirs):
    """Ten ticks at once read the same file; each has to see what the others took."""
    several = [ddprobe.RunHistory(state_dirs, "259-3", credits_per_s=1.0) for _ in range(3)]
    for history in several:
        history.spend(100)
        history.add_healthy({"lite": 0.001})
    assert several[-1].credits_total == 300
    assert several[-1].allowance() == pytest.approx(300, abs=5)
    several[0].reload()
    assert several[0].allowance() == pytest.approx(300, abs=5)
    assert several[0].median_s("lite") == 0.001


def test_credits_that_were_charged_and_not_spent_come_back_and_no_more_than_may_be_saved(state_dirs):
    history = ddprobe.RunHistory(state_dirs, "259-3", credits_per_s=1.0)
    history.spend(86)
    history.spend(-80)
    assert history.credits_total == 6
    history.spend(-1000)
    assert history.allowance() == 600


def test_a_lock_on_the_state_file_that_is_never_released_is_not_awaited_for_ever(state_dirs):
    with open(state_dirs.path("259-3.memory.lock"), "w") as held:  # noqa: PTH123 - as ddprobe does
        fcntl.flock(held, fcntl.LOCK_EX)
        began_s = time.monotonic()
        ddprobe.RunHistory(state_dirs, "259-3", credits_per_s=1.0).spend(1)
    assert time.monotonic() - began_s < 5


def test_a_median_needs_three_values_and_drops_the_oldest(state_dirs):
    history = ddprobe.RunHistory(state_dirs, "259-3", credits_per_s=1.0)
    history.add_healthy({"lite": 0.001})
    history.add_healthy({"lite": 0.003, "classic": 0.03})
    assert history.median_s("lite") is None
    history.add_healthy({"lite": 0.002})
    assert history.median_s("lite") == 0.002
    for _ in range(ddprobe.KEPT_MEDIANS):
        history.add_healthy({"lite": 0.009})
    assert (
        ddprobe.RunHistory(state_dirs, "259-3", credits_per_s=1.0).healthy["lite"]
        == [0.009] * ddprobe.KEPT_MEDIANS
    )


def test_a_state_file_that_was_overwritten_is_replaced(state_dirs):
    state_dirs.write("259-3.memory", "lite what\ncredits 1\n\x00\x00\nclassic 0.5")
    history = ddprobe.RunHistory(state_dirs, "259-3", credits_per_s=1.0)
    assert history.healthy == {"lite": [], "bulk": [], "classic": [0.5]}
    assert history.allowance() == 600


def test_a_child_task_that_hangs_is_not_awaited_beyond_its_time():
    began_s = time.monotonic()
    child = ddprobe.ChildTask(lambda send: time.sleep(60))
    assert child.answer(0.3) is None
    assert time.monotonic() - began_s < 20
    wait_until(child.has_ended)


def test_the_output_of_a_child_task_is_read_although_no_time_is_left():
    child = ddprobe.ChildTask(lambda send: send("done"))
    ddprobe.wait_for([child.fd], 10)
    assert child.answer(0.0) == "done"


def test_when_no_process_can_be_started_it_names_what_to_do(monkeypatch):
    def refuse() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    before = len(list(Path("/proc/self/fd").iterdir()))
    monkeypatch.setattr(os, "fork", refuse)
    with pytest.raises(ddprobe.ProbeError, match="TasksMax"):
        ddprobe.ChildTask(lambda send: None)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_child_task_that_fails_prints_nothing_and_is_over():
    assert ddprobe.ChildTask(lambda send: send(1 / 0)).answer(5) is None


def test_a_child_task_holds_none_of_them_where_there_is_no_proc_either(monkeypatch):
    def refuse(_):
        raise FileNotFoundError

    read_fd, write_fd = os.pipe()
    monkeypatch.setattr(ddprobe.os, "listdir", refuse)
    assert ddprobe.ChildTask(lambda send: send("done")).answer(5) == "done"
    child = ddprobe.ChildTask(lambda send: time.sleep(60))
    os.close(write_fd)
    assert os.read(read_fd, 1) == b""
    os.close(read_fd)
    child.give_up()


def test_a_child_task_holds_none_of_the_callers_files(tmp_path):
    read_fd, write_fd = os.pipe()
    child = ddprobe.ChildTask(lambda send: time.sleep(60))
    os.close(write_fd)
    assert os.read(read_fd, 1) == b""  # would wait for the child otherwise
    os.close(read_fd)
    child.give_up()


@pytest.mark.parametrize(
    "text",
    [
        "\n\n",
        "credits nan nan nan nan\n",
        "credits inf 0 0 0\n",
        "credits 1e300 -1e300 -1 1e300\n",
        "lite nan nan nan nan nan nan nan nan\n",
        "lite -1 -1 -1 -1 -1 -1 -1 -1\n",
    ],
)
def test_impossible_stored_values_are_dropped(state_dirs, text):
    state_dirs.ensure()
    state_dirs.write("8-1.memory", text)
    history = ddprobe.RunHistory(state_dirs, "8-1", 3.0)
    assert history.allowance() == history.max_allowance
    assert history.median_s("lite") is None
    history.spend(32.0)
    assert ddprobe.RunHistory(state_dirs, "8-1", 3.0).credits_total == 32.0


def test_the_last_climb_is_remembered_beside_the_credits(state_dirs):
    history = ddprobe.RunHistory(state_dirs, "8-1", 1.0)
    assert history.climb_s == 0.0
    history.spend(86, climbed=True)
    history.record_climb(1.25)
    again = ddprobe.RunHistory(state_dirs, "8-1", 1.0)
    assert (again.climb_s, again.classic_at_s) == (1.25, pytest.approx(history.classic_at_s, abs=0.01))
    again.record_climb(0.0)
    assert ddprobe.RunHistory(state_dirs, "8-1", 1.0).climb_s == 0.0
