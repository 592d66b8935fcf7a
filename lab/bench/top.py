"""How long ``burstctl top`` takes from a key to the frame that shows it, on a large fleet.

    .venv/bin/python lab/bench/top.py 5000

A fake AWS runs in a process of its own and answers each call after 30 ms; the command runs in another, on a
pseudo-terminal of 120 x 40. A key counts until the whole frame with another selected resource has arrived.
"""

import argparse
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path
from statistics import median

from assess_pass import serve_idle_fleet

COLUMNS, LINES = 120, 40
KEYS = 200
WITHIN_S = 180
_COMMAND = "import sys; from burstctl.main import main; sys.exit(main())"
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Screen:
    """The terminal with the command on it, and the last whole frame as lines."""

    def __init__(self, environment: dict[str, str], home: str) -> None:
        self._own_end, other_end = pty.openpty()
        fcntl.ioctl(other_end, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        roots = os.pathsep.join(("lambdas", "runbooks", "lab"))
        variables = {**environment, "HOME": home, "PYTHONPATH": roots, "TERM": "xterm-256color"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", _COMMAND, "top", "--kind", "ebs"],
            env=variables,
            stdin=other_end,
            stdout=other_end,
            stderr=other_end,
        )
        os.close(other_end)
        self._text = ""
        self.lines: list[str] = []

    def press(self, key: str) -> None:
        os.write(self._own_end, key.encode())

    def receive(self) -> None:
        """Wait for more, and take the last frame if all its lines have arrived."""
        if not select.select([self._own_end], [], [], WITHIN_S)[0]:
            sys.exit(f"nothing was shown for {WITHIN_S} s")
        self._text += os.read(self._own_end, 65_536).decode(errors="replace")
        self._text = self._text[max(0, self._text.rfind("\x1b[H")) :]
        lines = _ESCAPES.sub("", self._text).split("\r\n")
        if len(lines) == LINES and len(lines[-1]) >= COLUMNS - 1:
            self.lines = lines

    @property
    def selected(self) -> str:
        return self.lines[-2].split(" ")[0] if self.lines else ""

    @property
    def read_age_s(self) -> int | None:
        age = re.match(r"read (\d+) s ago", self.lines[0]) if self.lines else None
        return int(age[1]) if age else None

    def time_key(self, key: str) -> float:
        """Milliseconds until another resource is selected."""
        selected, started_s = self.selected, time.perf_counter()
        self.press(key)
        while self.selected == selected:
            self.receive()
        return (time.perf_counter() - started_s) * 1000


def describe(name: str, times_ms: list[float]) -> str:
    """One line of the table."""
    ordered = sorted(times_ms)
    return (
        f"{name:<24} {len(ordered):>5} {median(ordered):>9.1f} {ordered[int(len(ordered) * 0.95)]:>9.1f}"
        f" {ordered[-1]:>9.1f}"
    )


def measure(volumes: int) -> None:
    """Keys while it waits for the next read, and keys while a read is in progress."""
    with serve_idle_fleet(volumes) as environment, tempfile.TemporaryDirectory() as home:
        screen = Screen(environment, home)
        try:
            while screen.read_age_s is None:
                screen.receive()
            keys = ["j", "k"] * (KEYS // 2)
            waiting_ms = [screen.time_key(key) for key in keys]
            age_s = screen.read_age_s or 0
            screen.press("r")
            started_s, reading_ms, read_s = time.perf_counter(), [], 0.0
            while not read_s:
                reading_ms += [screen.time_key("j"), screen.time_key("k")]
                if (screen.read_age_s or 0) < age_s:
                    read_s = time.perf_counter() - started_s
                age_s = screen.read_age_s or 0
                time.sleep(0.02)
            status = Path(f"/proc/{screen.process.pid}/status").read_text()
            peak_mib = int(status.partition("VmHWM:")[2].split()[0]) / 1024
            screen.press("q")
            screen.process.wait(timeout=WITHIN_S)
        finally:
            screen.process.kill()
            screen.process.wait()
    print(f"{volumes:,} volumes, {COLUMNS} x {LINES}: a read takes {read_s:.1f} s, peak {peak_mib:.0f} MiB")
    print(f"{'milliseconds to a frame':<24} {'keys':>5} {'median':>9} {'95 %':>9} {'slowest':>9}")
    print(describe("between two reads", waiting_ms))
    print(describe("while it reads", reading_ms))


def main() -> None:
    """Measure fleets of these sizes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sizes", type=int, nargs="*", default=[5_000])
    for size in parser.parse_args().sizes:
        measure(size)


if __name__ == "__main__":
    main()
