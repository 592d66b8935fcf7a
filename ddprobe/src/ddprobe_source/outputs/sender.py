"""Sender: readings to AWS, from a child."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, Final

from ddprobe_source.host.child_task import ChildTask
from ddprobe_source.host.state_dirs import print_error
from ddprobe_source.judgement.record import ProbeError, UsageError
from ddprobe_source.judgement.text import sanitise
from ddprobe_source.options import Options, parse_value
from ddprobe_source.outputs.aws import Caller, call_aws, emf_line, put_events, put_metric_data, query_metadata
from ddprobe_source.outputs.http_client import HttpClient

SEND_S: Final = 15.0


def agent_address() -> tuple[str, int]:
    """Where the CloudWatch agent takes datagrams; raises UsageError for what is no such place."""
    address = os.environ.get("AWS_EMF_AGENT_ENDPOINT", "udp://127.0.0.1:25888")
    scheme, _, place = address.partition("://")
    if scheme != "udp" or parse_value("HOST:PORT", place) is None:
        raise UsageError(f"AWS_EMF_AGENT_ENDPOINT is {address}; ddprobe sends datagrams: udp://HOST:PORT")
    host, _, port = place.rpartition(":")
    return host, int(port)


class Sender:
    """Sends readings to AWS from a child, one at a time: DNS, TLS and credentials may all hang."""

    def __init__(self, kind: str, options: Options, http: HttpClient | None, every_s: float) -> None:
        self.kind, self._options, self._http, self._every_s = kind, options, http, every_s
        self._began_s = -1e9
        self._waiting: list[dict[str, Any]] = []
        self._sending: list[dict[str, Any]] = []
        self._child: ChildTask | None = None
        self._until_s = 0.0
        self._caller: dict[str, str] | None = None
        self._tries = 0

    def add(self, reading: dict[str, Any]) -> None:
        """Take a reading along with the next call; the newest of each path."""
        self._waiting = [other for other in self._waiting if other["path"] != reading["path"]] + [reading]

    def pump(self) -> None:
        """Collect what ended, start what waits."""
        if self._child:
            for frame in self._child.receive():
                self._handle_frame(frame)
            if not self._child.over and time.monotonic() < self._until_s:
                return
            if not self._child.over:
                print_error(f"ddprobe: {self.kind} not sent: no answer within {SEND_S:g} s")
            self._child.give_up()
            self._child = None
        if self._waiting and time.monotonic() - self._began_s >= self._every_s:
            self._sending, self._waiting = self._waiting, []
            self._began_s = time.monotonic()
            self._until_s = self._began_s + SEND_S
            self._child = ChildTask(self._send)

    @property
    def busy(self) -> bool:
        return self._child is not None or bool(self._waiting)

    def _handle_frame(self, frame: dict[str, Any]) -> None:
        if "caller" in frame:
            self._caller = frame["caller"]
        if "fault" in frame:
            self._tries += 1
            self._caller = None
            print_error(f"ddprobe: {self.kind} not sent: {frame['fault']}")
            if self.kind == "event" and self._tries < 5:  # noqa: PLR2004 - then newer ones matter more
                for reading in self._sending:
                    if all(reading["path"] != other["path"] for other in self._waiting):
                        self._waiting.append(reading)
        if "done" in frame:
            self._tries = 0

    def _send(self, send: Callable[[object], None]) -> None:
        try:
            if self.kind == "metrics" and self._options.cloudwatch == "emf":
                self._send_datagrams()
            else:
                self._send_signed(send)
            send({"done": True})
        except (OSError, ValueError, KeyError, ProbeError) as fault:
            send({"fault": sanitise(getattr(fault, "strerror", None) or str(fault), 400)})

    def _send_datagrams(self) -> None:
        import socket

        agent_at = agent_address()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as agent:
            for reading in self._sending:
                agent.sendto(emf_line(reading, self._options.namespace).encode(), agent_at)

    def _send_signed(self, send: Callable[[object], None]) -> None:
        assert self._http is not None
        caller = Caller(**self._caller) if self._caller else query_metadata(self._http)
        if caller.expires < time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 300)):
            caller = query_metadata(self._http)
        send({"caller": vars(caller)})
        if self._options.region:
            caller = caller.replaced(region=self._options.region)
        request = (
            put_metric_data(self._sending, self._options.namespace)
            if self.kind == "metrics"
            else put_events(self._sending, self._options.event_bus or "", caller.instance_id)
        )
        call_aws(self._http, caller, request)
