"""Writers past the page cache, each waiting for its own write; standard library only.

``python load.py FILE THREADS KIB`` writes blocks of KIB at random places of FILE until it is killed.
"""

import ctypes
import mmap
import os
import random
import signal
import sys
import threading
import time

_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_FILE_BYTES = 64 << 20  # large enough that random writes are not merged
_STACK_BYTES = 64 << 10
"""thousands of threads with the usual 8 MiB each may exceed a limit on memory."""


def main(path: str, threads: int, kib: int) -> None:
    """Write until killed, or until the starter is gone."""
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600)
    if os.fstat(file).st_size < _FILE_BYTES:
        _fill(file)
    block = mmap.mmap(-1, kib << 10)

    def write() -> None:
        generator = random.Random()  # noqa: S311 - places in a file
        while True:
            os.pwrite(file, block, len(block) * generator.randrange(_FILE_BYTES // len(block)))

    threading.stack_size(_STACK_BYTES)
    for _ in range(threads):
        threading.Thread(target=write, daemon=True).start()
    os.write(1, b"writing\n")
    while True:
        time.sleep(3600)


def _fill(file: int) -> None:
    """Written, not allocated only: a write into unwritten space costs the journal a commit."""
    chunk = mmap.mmap(-1, 1 << 20)
    for number in range(_FILE_BYTES >> 20):
        os.pwrite(file, chunk, number << 20)
    os.fsync(file)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
