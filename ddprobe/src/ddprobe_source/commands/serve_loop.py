"""The loop of ddprobe serve."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any, Final

from ddprobe_source.host.child_task import reap
from ddprobe_source.host.clock import random_below
from ddprobe_source.host.files import read_text
from ddprobe_source.host.state_dirs import print_error
from ddprobe_source.judgement.facts import passive_facts
from ddprobe_source.judgement.headline import headline
from ddprobe_source.judgement.verdicts import CRIT, OK, SEVERITIES, STALLED, WARN, judge
from ddprobe_source.measure.probe import Probe
from ddprobe_source.options import Options
from ddprobe_source.outputs.outputs import Outputs


class Stopping(Exception):  # noqa: N818 - not an error: what systemd asked for
    """SIGTERM or SIGINT came: a reading under way is dropped, and what it waits for ends by itself."""


class Notifier:
    """Notifies systemd that we are up and alive; does nothing without systemd."""

    def __init__(self) -> None:
        self._socket: Any = None
        self._next_s = 0.0
        self.stopping = False
        address = os.environ.get("NOTIFY_SOCKET", "")
        if address:
            import socket

            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            self._socket.setblocking(False)
            self._address = "\0" + address[1:] if address.startswith("@") else address

    def notify(self, text: str) -> None:
        if self._socket is not None:
            try:
                self._socket.sendto(text.encode(), self._address)
            except OSError:
                pass

    def notify_alive(self) -> None:
        """Show that the loop turns; at most once a second. Ends whatever is under way when we are to stop."""
        if self.stopping:
            raise Stopping
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + 1
            self.notify("WATCHDOG=1")


LOCK_CURRENT_AND_FUTURE: Final = 1 | 2
LOCK_ON_FAULT: Final = 4
ALL_LOCALES: Final = "locale-archive"
"""A file of 200 MB on some systems; it is mapped whole, and not needed."""


def lock_memory() -> str | None:
    """Keep what we have and will have in memory; return the reason if the kernel refuses.

    Pages of files are read in now. Others are locked as they come: a fresh one is zeroes and needs no disk.
    """
    import ctypes
    import resource

    hard_limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (hard_limit, hard_limit))
    libc = ctypes.CDLL(None, use_errno=True)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)  # gives back what compiling this file took
    faults = []
    if libc.mlockall(LOCK_CURRENT_AND_FUTURE | LOCK_ON_FAULT):
        faults.append(os.strerror(ctypes.get_errno()))
    for line in read_text("/proc/self/maps").splitlines():
        bounds, rights, _, _, inode, *name = line.split(None, 5)
        if inode == "0" or "r" not in rights or ALL_LOCALES in "".join(name):
            continue
        start, end = (int(edge, 16) for edge in bounds.split("-"))
        if libc.mlock(ctypes.c_void_p(start), ctypes.c_size_t(end - start)):
            faults.append(os.strerror(ctypes.get_errno()))
    if faults:
        return f"memory is not all locked ({faults[0]}): raise LimitMEMLOCK to 64M or grant CAP_IPC_LOCK"
    return None


class ServeLoop:
    """Looks at every path for ever: the counters every few seconds, a write now and then."""

    def __init__(
        self, options: Options, probes: Sequence[Probe], outputs: Outputs, notifier: Notifier
    ) -> None:
        self._options, self._probes, self._outputs, self._notifier = options, probes, outputs, notifier
        now_s = time.monotonic()
        first_s = now_s + random_below(options.jitter)
        self._write_s = dict.fromkeys(probes, first_s)
        self._look_s = now_s + options.passive_every
        self._named_s: dict[Probe, float] = {}
        self._last: dict[Probe, tuple[str, str]] = {}

    def stop(self, *_: object) -> None:
        self._notifier.stopping = True

    def serve(self) -> None:
        """Run cycles until a signal stops it."""
        self._notifier.notify("READY=1")
        try:
            while True:
                self._run_cycle()
                due_s = min(self._look_s, *self._write_s.values())
                time.sleep(min(1.0, max(0.0, due_s - time.monotonic())))
        except Stopping:
            pass
        self._notifier.notify("STOPPING=1")

    def _run_cycle(self) -> None:
        self._notifier.notify_alive()
        now_s = time.monotonic()
        if now_s >= self._look_s:
            self._look_s = now_s + self._options.passive_every
            for probe in self._probes:
                self._look(probe)
        for probe in self._probes:
            if time.monotonic() >= self._write_s[probe]:
                self._write_s[probe] = time.monotonic() + self._options.interval
                self._report(probe, probe.run(time.monotonic(), skip_look=True))
        self._outputs.pump()
        reap()

    def _look(self, probe: Probe) -> None:
        """Read the counters; if they are bad, see which tasks wait, report it, and pause the writes."""
        probe.watches.look(even_if_just_done=True)
        judged = judge(passive_facts(probe.watches.slowest(), None), probe.thresholds)
        probe.watches.restart()
        now_s = time.monotonic()
        if judged.verdict not in (WARN, CRIT):
            return
        if judged.cause == STALLED:
            self._write_s[probe] = max(self._write_s[probe], now_s + self._options.passive_every)
        known = SEVERITIES.index(self._last.get(probe, (OK, ""))[0]) if probe in self._last else 0
        changed = SEVERITIES.index(judged.verdict) > known
        if changed or now_s - self._named_s.get(probe, -1e9) >= self._options.interval:
            self._named_s[probe] = now_s
            self._report(probe, probe.passive_reading())

    def _report(self, probe: Probe, reading: dict[str, Any]) -> None:
        state = (reading["verdict"] if reading["verdict"] in SEVERITIES else WARN, reading["cause"])
        if self._last.get(probe) != state:
            by_path = len(self._options.paths) > 1
            print_error(f"ddprobe: {headline(reading, by_path=by_path)}")
            self._notifier.notify(f"STATUS={headline(reading, 200, by_path=by_path)}")
        self._last[probe] = state
        self._outputs.publish(reading, probe)
