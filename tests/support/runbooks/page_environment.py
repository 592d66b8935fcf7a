"""What a page is about, brought about in the lab: volumes, their past, a watchdog, a stack, a desk."""

import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from urllib.request import Request, urlopen

import botocore.session
from botocore.client import ClientCreator
from botocore.config import Config
from botocore.validate import ParamValidator

from burstctl.cli import confirm
from burstctl.cli.signals import StopSignal
from burstctl.main import main
from burstlab.fake_aws.server import Endpoint
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.loads.load import Load
from burstlab.model.volume import LabVolume
from support.builders.functions import DeployedFunctions
from support.cli.cli_session import START, CliSession, freeze_pass_time
from support.paths import ROOT
from support.runbooks.fake_aws_cli import FakeAwsCli
from support.runbooks.fake_programs import FAKE_PROGRAMS, ProgramOutput
from support.runbooks.moto_stack import MotoStack, build_moto_stack
from support.runbooks.pty_shell import ProgramCall, PtyKeyboard, PtyShell, PtyWriter

VOLUME = "vol-0123456789abcdef0"
HOST = "i-0123456789abcdef0"
ACCOUNT = "123456789012"
AUTO = {"burstwatch:mode": "auto"}
KEYS = {
    "aws_access_key_id": "burstlab",
    "aws_secret_access_key": "secret",
    "region_name": "us-east-1",
    "config": Config(retries={"total_max_attempts": 1}),
}
CALLER_IDENTITY = "anna"
UNREACHABLE_URL = "http://lab.invalid"
"""Stands for the lab of the stage in shared clients."""

DDPROBE = ROOT / "ddprobe" / "ddprobe.py"
_PAGE = re.compile(r"Runbook: burstctl runbook (\w+)")


class NoCapture:
    """Stands where pytest's own capture would: what is written here goes to a screen."""

    def readouterr(self) -> Any:
        return type("Nothing", (), {"out": "", "err": ""})


@dataclass
class PageEnvironment:
    """A lab at 18:00, and an operator's machine with a terminal."""

    cli: CliSession
    lab: Any
    monkeypatch: Any
    exit_stack: ExitStack
    functions: DeployedFunctions | None = None
    parts: MotoStack | None = None
    alerts: list[str] = field(default_factory=list)
    _clients: dict[str, Any] = field(default_factory=dict)

    # ---- the volumes

    def add(
        self,
        name: str = "ci-7",
        load: Load | str = "idle",
        *,
        minutes: int = 30,
        size_gib: int = 100,
        **fields,
    ) -> str:
        """A volume that has been living for this many minutes."""
        tags = {"Name": name, **fields.pop("tags", {})}
        begins_at = self.lab.clock.now() - timedelta(minutes=minutes)
        return self.lab.fleet.add(
            LabVolume(size_gib=size_gib, load=load, starts_at=begins_at, tags=tags, **fields)
        )

    def add_volume(self, name: str = "ci-7", load: Load | str = "idle", **fields) -> str:
        """The volume that the page is about."""
        return self.add(name, load, volume_id=VOLUME, instance_id=HOST, **fields)

    # ---- time, and who acts in it

    def advance_minutes(self, minutes: float) -> None:
        self.lab.clock.advance(60 * minutes)

    def watch(self, *, acts: bool = False) -> None:
        """One pass of the watchdog, from another shell."""
        self.burstctl("watch", "--once", "--exit-zero", *(["--act"] if acts else []))

    def burstctl(self, *arguments: str) -> list[str]:
        """Somebody runs it out of our sight; the lines of both its streams."""
        code, written = self.run_burstctl(ProgramCall("burstctl", list(arguments), has_terminal=True))
        lines = "".join(text for _, text in written).splitlines()
        assert code in (0, 1, 3, 4), lines
        self.alerts += lines
        return lines

    def modify(self, **fields: Any) -> None:
        """Somebody modifies the volume without burstctl."""
        self.client("ec2").modify_volume(**({"VolumeId": VOLUME} | fields))

    def add_stack(self, **fields: Any) -> DeployedFunctions:
        """The functions of a deployed stack; from now on the operator's commands find it."""
        self.functions = DeployedFunctions(lab=self.lab, monkeypatch=self.monkeypatch, **fields)
        return self.functions

    def add_parts(self) -> MotoStack:
        """The stack's queues, logs, schedules, functions and alarms, and CloudFormation's word of them."""
        for service in MotoStack.SERVICES:
            self.client(service)
        self.parts = self.exit_stack.enter_context(build_moto_stack(self.client))
        self.lab._apis["cloudformation"] = self.parts
        return self.parts

    def write(self, name: str, text: str) -> None:
        """A file on the operator's machine."""
        (self.cli.directory / name).write_text(text)

    def alert_kinds(self) -> set[str]:
        """The alerts that people got, by their kind: each names its page."""
        reported = {result[1] for line in self.alerts if (result := _PAGE.search(line))}
        return reported | set(self.functions.alert_kinds() if self.functions else ())

    # ---- the terminal

    @contextmanager
    def terminal(self):
        answered = {"burstctl": self.run_burstctl, "aws": self.run_aws, "ddprobe": self.run_ddprobe}
        answered |= {
            name: partial(_run_fake_program, fake_program) for name, fake_program in FAKE_PROGRAMS.items()
        }
        with PtyShell(self.cli.directory, answered, self._now).open() as opened:
            yield opened

    def _now(self) -> str:
        return f"{self.lab.clock.now():%Y-%m-%d %H:%M:%S} UTC"

    def client(self, service: str) -> Any:
        client = client_of(service)
        if service not in self._clients:
            self._clients[service] = client
            self._listen(client, f"before-send.{_id(client)}", self._send_to_the_lab)
        return client

    def _send_to_the_lab(self, request: Any, **_: Any) -> None:
        request.url = request.url.replace(UNREACHABLE_URL, self.lab.url)

    def _listen(self, client: Any, event: str, handler: Callable[..., Any]) -> None:
        """Until the stage is taken down: clients are shared by all stages of this process."""
        client.meta.events.register(event, handler)
        self.exit_stack.callback(client.meta.events.unregister, event, handler)

    def stub_aws_response(
        self, service: str, operation: str, answer: Callable[[Mapping[str, Any]], Any] | Any
    ) -> None:
        """Play an operation that neither the lab nor moto has; question and answer must fit AWS's model."""

        def play(model: Any, params: Mapping[str, Any], **_: Any) -> Any:
            reported = answer(params) if callable(answer) else answer
            if model.output_shape is not None:
                faults = ParamValidator().validate(reported, model.output_shape)
                assert not faults.has_errors(), faults.generate_report()
            return SimpleNamespace(status_code=200), dict(reported)

        client = self.client(service)
        self._listen(client, f"before-call.{_id(client)}.{operation}", play)

    def run_aws(self, call: ProgramCall) -> tuple[int, list[tuple[int, str]]]:
        code, out, err = FakeAwsCli(self.client, self.lab.clock.now).run(call.argv)
        return code, [(1, out), (2, err)]

    def run_burstctl(self, call: ProgramCall) -> tuple[int, list[tuple[int, str]]]:
        """In this process, at a terminal of 80 columns without colours, with somebody who says yes."""
        written: list[tuple[int, str]] = []
        out = PtyWriter(1, written, is_terminal=call.has_terminal)
        err = PtyWriter(2, written, is_terminal=True)

        def interrupt(stop: StopSignal, _seconds: float) -> None:
            stop.is_requested = True
            err.write("^C\n")

        with self.monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            patch.setattr(sys, "stdin", PtyKeyboard(err))
            patch.setattr(confirm, "_has_terminal", lambda: True)
            patch.setattr(StopSignal, "wait", interrupt)
            return main(call.argv), written

    def run_ddprobe(self, call: ProgramCall) -> tuple[int, list[tuple[int, str]]]:
        """The real one; what a page calls /data is a folder here, and whatever it finds is not a failure."""
        place = self.cli.directory / "data"
        place.mkdir(exist_ok=True)
        arguments = [str(place) if word == "/data" else word for word in call.argv]
        with TemporaryDirectory(dir="/dev/shm") as run_dir:
            command = [
                sys.executable,
                "-IS",
                str(DDPROBE),
                arguments[0],
                "--run-dir",
                run_dir,
                *arguments[1:],
            ]
            result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return 0, [(1, result.stdout), (2, result.stderr)]


def _run_fake_program(
    fake_program: Callable[..., ProgramOutput], call: ProgramCall
) -> tuple[int, list[tuple[int, str]]]:
    code, out, err = fake_program(call.argv)
    return code, [(1, out), (2, err)]


@cache
def client_of(service: str) -> Any:
    """A client takes long to make, so there is one for all stages."""
    return _session().create_client(service, endpoint_url=UNREACHABLE_URL, **KEYS)


@cache
def _session() -> botocore.session.Session:
    return botocore.session.Session()


def _id(client: Any) -> str:
    return client.meta.service_model.service_id.hyphenize()


_CREATE_CLASS = ClientCreator._create_client_class
_CLASSES: dict[str, Any] = {}


def _cached_client_class(creator: ClientCreator, service: str, model: Any) -> Any:
    """EC2's client has 700 methods; making its class again is a third of what making a client takes."""
    if service not in _CLASSES:
        _CLASSES[service] = _CREATE_CLASS(creator, service, model)
    return _CLASSES[service]


@contextmanager
def page_environment(folder: Path, monkeypatch: Any, **lab_settings: Any):
    cli = CliSession(folder, monkeypatch, NoCapture())
    cli.set(
        LOGNAME=CALLER_IDENTITY, USER=CALLER_IDENTITY, NO_COLOR="1", TERM="dumb", COLUMNS="80", LINES="50"
    )
    monkeypatch.setattr(ClientCreator, "_create_client_class", _cached_client_class)
    freeze_pass_time(monkeypatch)
    settings = LabSettings(**({"lag_s": 60} | lab_settings))
    with Endpoint(LabFleet(LabClock(START, speed=0), settings)) as lab, ExitStack() as ending:
        # moto remembers what other tests in this process made
        urlopen(Request(f"{lab.url}/moto-api/reset", method="POST"), timeout=60).close()
        lab.account.arn = f"arn:aws:iam::{ACCOUNT}:user/{CALLER_IDENTITY}"
        cli.set(**lab.environment)
        yield PageEnvironment(cli, lab, monkeypatch, ending)
