"""What ``burstlab disk`` takes for its own where every user may write: it acts on it as root."""

import os
import subprocess

import pytest

from burstlab.disk.cleanup import clean
from burstlab.disk.state_dir import (
    PREFIX,
    is_private_directory,
    lock,
    make_state_dir,
    orphaned_state_dirs,
    record_process,
    remove,
)
from support.unprivileged import UNPRIVILEGED_ID


def is_alive(process: subprocess.Popen) -> bool:
    return process.poll() is None


def test_a_link_that_another_user_made_leads_to_no_process_being_killed(
    world_writable_dir, other_process, run_unprivileged
):
    process, line = other_process
    run_unprivileged(
        "os.symlink(sys.argv[1], sys.argv[2])\nopen(sys.argv[1] + '/processes', 'w').write(sys.argv[3])",
        *(world_writable_dir, world_writable_dir / f"{PREFIX}evil", line),
    )
    assert clean(lambda _: None, world_writable_dir) == 0
    assert remove(world_writable_dir / f"{PREFIX}evil") == []
    assert is_alive(process)
    assert (world_writable_dir / "processes").exists()


def test_a_folder_of_another_user_is_left_alone(world_writable_dir, other_process, run_unprivileged):
    process, line = other_process
    folder = world_writable_dir / f"{PREFIX}theirs"
    run_unprivileged(
        "os.mkdir(sys.argv[1], 0o700)\nopen(sys.argv[1] + '/processes', 'w').write(sys.argv[2])",
        *(folder, line),
    )
    assert orphaned_state_dirs(world_writable_dir) == []
    with pytest.raises(PermissionError, match="not a directory of this user"):
        lock(folder)
    assert remove(folder) == []
    assert is_alive(process)
    assert sorted(path.name for path in folder.iterdir()) == ["processes"]


def test_a_folder_of_the_lab_that_others_may_enter_is_left_alone(world_writable_dir):
    folder = make_state_dir(world_writable_dir)
    assert orphaned_state_dirs(world_writable_dir) == [folder]
    folder.chmod(0o755)
    assert orphaned_state_dirs(world_writable_dir) == []
    assert not is_private_directory(folder)


@pytest.mark.parametrize("kind", ["link", "hard link", "theirs"])
def test_a_list_that_is_not_our_own_file_ends_no_process(
    world_writable_dir, other_process, run_unprivileged, kind
):
    process, line = other_process
    folder, foreign_file = make_state_dir(world_writable_dir), world_writable_dir / "list"
    run_unprivileged("open(sys.argv[1], 'w').write(sys.argv[2])", foreign_file, line)
    if kind == "link":
        (folder / "processes").symlink_to(foreign_file)
    elif kind == "hard link":
        (folder / "processes").hardlink_to(foreign_file)
    else:
        (folder / "processes").write_text(line)
        os.chown(folder / "processes", UNPRIVILEGED_ID, UNPRIVILEGED_ID)
    assert remove(folder) == []
    assert is_alive(process)
    assert not folder.exists()


def test_a_lock_that_is_a_link_or_a_fifo_is_not_opened(world_writable_dir):
    folder = make_state_dir(world_writable_dir)
    (folder / "owner").symlink_to(world_writable_dir / "made")
    with pytest.raises(OSError, match="symbolic links"):
        lock(folder)
    assert not (world_writable_dir / "made").exists()
    (folder / "owner").unlink()
    os.mkfifo(folder / "owner")
    with pytest.raises(PermissionError, match="not a regular file"):
        lock(folder)


def test_what_we_noted_is_ended_and_a_line_cut_short_is_left_out(world_writable_dir, other_process):
    process, _ = other_process
    folder = make_state_dir(world_writable_dir)
    record_process(folder, process.pid)
    with (folder / "processes").open("a") as notes:
        notes.write("12")
    assert remove(folder) == []
    assert process.wait(60) == -9
