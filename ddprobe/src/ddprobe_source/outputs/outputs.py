"""Outputs: everything that a reading goes to."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, Final

from ddprobe_source.host.child_task import ChildTask
from ddprobe_source.host.clock import boot_clock
from ddprobe_source.host.files import append_line, list_names, name_of, read_text, replace_file, resolve_links
from ddprobe_source.host.state_dirs import FileSystemLock, StateDirs, print_error, print_output
from ddprobe_source.judgement.record import ProbeError
from ddprobe_source.judgement.series import MIB
from ddprobe_source.judgement.text import json_text
from ddprobe_source.judgement.verdicts import CRIT, EVENT_CAUSES, UNKNOWN, WARN
from ddprobe_source.measure.probe import Probe
from ddprobe_source.options import Options
from ddprobe_source.outputs.aws import endpoint
from ddprobe_source.outputs.formats import collectd_text, graphite_text, prom_text
from ddprobe_source.outputs.http_client import HttpClient, split_url
from ddprobe_source.outputs.sender import Sender, agent_address

OUTPUT_WAIT_S: Final = 4.0
MAX_KEPT_LINES: Final = 100
FINISH_S: Final = 5.0
RETRY_S: Final = 1.0


class EventFilter:
    """Lets an event through when something changed, then once in five minutes while it lasts."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[str, str, float]] = {}

    def should_send(self, reading: dict[str, Any]) -> bool:
        path, now_s = reading["path"], time.monotonic()
        state = (reading["verdict"], reading["cause"])
        if (
            reading["verdict"] not in (WARN, CRIT)
            or reading["cause"] not in EVENT_CAUSES
            or not reading["volume_id"]
        ):
            self._last.pop(path, None)
            return False
        last = self._last.get(path)
        if last and now_s - last[2] < (300 if last[:2] == state else 60):
            return False
        self._last[path] = (*state, now_s)
        return True


class Outputs:
    """Everything a reading goes to; what has to be imported or opened is so before anything is sick."""

    def __init__(self, options: Options, state_dirs: StateDirs) -> None:
        self._options, self._state_dirs = options, state_dirs
        self._newest: dict[Probe | str, dict[str, Any]] = {}
        self._children: dict[str, ChildTask] = {}
        self._files = {path for path in (options.json, options.prom) if path}
        self._writing: set[str] = set()
        self._event_filter = EventFilter()
        if options.cloudwatch == "emf":
            agent_address()
        signed = options.cloudwatch == "api" or options.event_bus
        for service in ("monitoring", "events") if signed else ():
            split_url(endpoint(service, "x"))
        http = HttpClient(secure=endpoint("events", "x").startswith("https")) if signed else None
        if options.graphite or options.cloudwatch:
            import socket

            self._socket = socket
        self._metrics = (
            Sender("metrics", options, http, options.cloudwatch_every) if options.cloudwatch else None
        )
        self._events = Sender("event", options, http, RETRY_S) if options.event_bus else None

    def publish(self, reading: dict[str, Any], probe: Probe | None = None) -> None:
        """Send a reading to each output; memory first. It replaces the last one of its probe."""
        options, self._newest[probe or reading["path"]] = self._options, reading
        line = json_text(reading)
        self._state_dirs.write(f"{reading['device'].replace('/', '-') or 'unknown'}.json", line + "\n")
        if options.json == "-":
            print_output(line + "\n")
        elif options.json:
            prefix = self._keep(options.json, line)
            self._file(options.json, lambda path: self._append_kept(path, prefix))
        if options.prom:
            text = prom_text(list(self._newest.values()))
            self._file(options.prom, lambda path: replace_file(path, text))
        if options.collectd:
            host = os.environ.get("COLLECTD_HOSTNAME", reading["host"])
            print_output(collectd_text(reading, host, options.interval))
        if options.graphite:
            text = graphite_text(reading, options.graphite_prefix)
            self._start_child("graphite", lambda send: send(self._graphite(text)))
        self._to_aws(reading)

    def _to_aws(self, reading: dict[str, Any]) -> None:
        if self._metrics and reading["volume_id"] and reading["verdict"] != UNKNOWN:
            self._metrics.add(reading)
        if self._events and self._event_filter.should_send(reading):
            self._events.add(reading)
        self.pump()

    def pump(self) -> None:
        """Move on what is being sent."""
        for sender in self._senders():
            sender.pump()

    def _keep(self, path: str, line: str) -> str:
        """Put a line for a log into memory first: there it waits while the log's disk does not answer."""
        prefix = f"{name_of(os.path.abspath(path))}.line-"
        for name in self._kept_lines(prefix)[: -(MAX_KEPT_LINES - 1)]:
            self._state_dirs.remove(name)
        self._state_dirs.write(f"{prefix}{boot_clock():018.6f}-{os.getpid()}", line)
        return prefix

    def _kept_lines(self, prefix: str) -> list[str]:
        return sorted(name for name in list_names(self._state_dirs.folder) if name.startswith(prefix))

    def _append_kept(self, path: str, prefix: str) -> None:
        for name in self._kept_lines(prefix):
            if line := read_text(self._state_dirs.path(name), 4 * MIB):
                append_line(path, line)
            self._state_dirs.remove(name)

    def _file(self, path: str, write: Callable[[str], None]) -> None:
        """Write by a child, of which there is one at a time for a file, and one for a file system."""

        def work(send: Callable[[object], None]) -> None:
            system_lock = FileSystemLock(self._state_dirs, "output", OUTPUT_WAIT_S)
            folder, name = os.path.split(os.path.abspath(path))
            try:
                real, foreign_link = resolve_links(folder, self._state_dirs.mounts, system_lock.move_to)
                system_lock.move_to(real)
                send("")
                if foreign_link and os.geteuid() == 0:
                    send(f"not written: {foreign_link} is a symbolic link of another user; name {real}")
                else:
                    write(os.path.join(real, name))
            except (OSError, ProbeError) as fault:
                send(f"not written: {getattr(fault, 'strerror', None) or fault}")

        self._start_child(path, work)

    def _start_child(self, name: str, work: Callable[[Callable[[object], None]], None]) -> None:
        self._print_faults()
        earlier = self._children.get(name)
        if earlier and not earlier.has_ended():
            print_error(f"ddprobe: {name} left out: the previous one has not finished")
            return
        if earlier:
            earlier.give_up()
        self._writing.discard(name)
        self._children[name] = ChildTask(work)

    def _graphite(self, text: str) -> str:
        host, _, port = (self._options.graphite or "").rpartition(":")
        try:
            with self._socket.create_connection((host, int(port)), 5) as connection:
                connection.sendall(text.encode())
        except OSError as fault:
            return str(fault)
        return ""

    def finish(self, within_s: float) -> None:
        """Give what is on its way some time; a child that needs more goes on without us.

        What goes to AWS has the usual time in any case: where systemd ends a service, it ends our children.
        """
        began_s = time.monotonic()
        while (passed_s := time.monotonic() - began_s) < FINISH_S:
            self.pump()
            self._print_faults()
            is_writing = passed_s < within_s and not all(child.over for child in self._children.values())
            if not is_writing and not any(sender.busy for sender in self._senders()):
                break
            time.sleep(0.005)
        late = [name for name, child in self._children.items() if not child.over]
        waiting = [name for name in late if name in self._files and name not in self._writing]
        for name in waiting:
            self._children[name].give_up()
        if waiting:
            where = f"the disk is waited for already; {self._state_dirs.folder} has the reading"
            print_error(f"ddprobe: not written now: {', '.join(waiting)}: {where}")
        late = [name for name in late if name not in waiting]
        late += [sender.kind for sender in self._senders() if sender.busy]
        if late:
            print_error(f"ddprobe: still being sent, and left alone: {', '.join(late)}")

    def _senders(self) -> list[Sender]:
        return [sender for sender in (self._metrics, self._events) if sender]

    def _print_faults(self) -> None:
        for name, child in self._children.items():
            for fault in child.receive():
                self._writing.add(name)
                if fault:
                    print_error(f"ddprobe: {name}: {fault}")
