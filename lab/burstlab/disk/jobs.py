"""The loop of a build host: one small container-like job after another, each timed; standard library only.

``python jobs.py FOLDER PACE_S writers NAME WRITERS WRITES``, or ``… command COMMAND…``, starts a job every
PACE_S seconds, or when the previous one ends if that is later. A job is a process called NAME. It creates a
folder with a file for each writer, each writer makes N synchronous writes of 4 KiB, and everything is
deleted at the end. Otherwise the job is the command. One line of JSON reports each start and each end, in
seconds of the monotonic clock.
"""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_BLOCK = b"\x5a" * 4096  # not zeros, which a layer below may leave out
_BLOCKS = 16  # 64 KiB: the file that each writer overwrites
_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_SET_NAME = 15  # PR_SET_NAME


def main(directory: Path, pace_s: float, job_kind: str, arguments: Sequence[str]) -> None:
    """Run jobs until killed, or until the reader of stdout is gone."""
    _die_with_parent(os.getppid())
    number = 0
    while True:
        number += 1
        started_s = time.monotonic()
        _write_record(job=number, started_s=started_s)
        if job_kind == "command":
            code = _run_command(arguments)
        else:
            code = _run_job(directory / f"job-{number}", arguments[0], int(arguments[1]), int(arguments[2]))
        ended_s = time.monotonic()
        _write_record(job=number, started_s=started_s, ended_s=ended_s, exit_code=code)
        time.sleep(max(0.0, pace_s - (ended_s - started_s)))


def _write_record(**record: Any) -> None:
    os.write(1, json.dumps(record).encode() + b"\n")


def _run_command(command: Sequence[str]) -> int:
    completed = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)  # noqa: S603 - asked for by whoever started the loop
    return completed.returncode


def _run_job(directory: Path, name: str, writers: int, writes: int) -> int:
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            _die_with_parent(parent)
            ctypes.CDLL(None).prctl(_SET_NAME, name.encode(), 0, 0, 0)
            _run_writers(directory, name, writers, writes)
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _run_writers(directory: Path, name: str, writers: int, writes: int) -> None:
    """What a container does to a disk: unpack, write its state, be removed."""
    directory.mkdir()
    threads = [
        threading.Thread(target=_write, args=(directory / f"layer-{number}", name, writes))
        for number in range(writers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shutil.rmtree(directory)
    _sync_directory(directory.parent)


def _write(path: Path, name: str, writes: int) -> None:
    ctypes.CDLL(None).prctl(_SET_NAME, name.encode(), 0, 0, 0)
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        os.write(file, _BLOCK * _BLOCKS)
        os.fsync(file)
        dsync_file = os.open(path, os.O_WRONLY | os.O_DSYNC)
        for number in range(writes):
            os.pwrite(dsync_file, _BLOCK, number % _BLOCKS * len(_BLOCK))
        os.close(dsync_file)
    finally:
        os.close(file)


def _sync_directory(directory: Path) -> None:
    """The removal is on disk when a job is done."""
    directory_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(directory_fd)
    os.close(directory_fd)


def _die_with_parent(parent: int) -> None:
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4:])
