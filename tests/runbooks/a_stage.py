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
from a_moto_stack import MotoStack, a_moto_stack
from a_terminal import Asked, Keyboard, Screen, Terminal
from aws_by_model import Aws
from botocore.client import ClientCreator
from botocore.config import Config
from botocore.validate import ParamValidator
from operators_desk import ROOT, START, OperatorsDesk, stand_still
from some_functions import Functions
from stand_ins import STAND_INS, Said

from burstctl.cli import confirm
from burstctl.cli.signals import StopSignal
from burstctl.main import main
from burstlab.fake_aws.server import Endpoint
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.load import Load
from burstlab.model.volume import LabVolume

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
WHO = "anna"
NOWHERE = "http://lab.invalid"
"""Stands for the lab of the stage in shared clients."""

DDPROBE = ROOT / "ddprobe" / "ddprobe.py"
_PAGE = re.compile(r"Runbook: .*/(\w+)\.md")


class Nobody:
    """Stands where pytest's own capture would: what is written here goes to a screen."""

    def readouterr(self) -> Any:
        return type("Nothing", (), {"out": "", "err": ""})


@dataclass
class Stage:
    """A lab at 18:00, an operator's desk before it, and a terminal on the desk."""

    desk: OperatorsDesk
    lab: Any
    monkeypatch: Any
    ending: ExitStack
    functions: Functions | None = None
    parts: MotoStack | None = None
    told: list[str] = field(default_factory=list)
    _clients: dict[str, Any] = field(default_factory=dict)

    # ---- the volumes

    def add(
        self,
        name: str = "ci-7",
        load: Load | str = "idle",
        *,
        minutes: int = 30,
        size_gib: int = 100,
        **given,
    ) -> str:
        """A volume that has been living for so many minutes."""
        tags = {"Name": name, **given.pop("tags", {})}
        begins_at = self.lab.clock.now() - timedelta(minutes=minutes)
        return self.lab.fleet.add(
            LabVolume(size_gib=size_gib, load=load, starts_at=begins_at, tags=tags, **given)
        )

    def add_volume(self, name: str = "ci-7", load: Load | str = "idle", **given) -> str:
        """The volume that the page is about."""
        return self.add(name, load, volume_id=VOLUME, instance_id=HOST, **given)

    # ---- time, and who acts in it

    def later(self, minutes: float) -> None:
        self.lab.clock.advance(60 * minutes)

    def watch(self, *, acts: bool = False) -> None:
        """One pass of the watchdog, from another shell."""
        self.burstctl("watch", "--once", "--exit-zero", *(["--act"] if acts else []))

    def burstctl(self, *words: str) -> list[str]:
        """Somebody runs it out of our sight; the lines of both its streams."""
        code, written = self.answer_burstctl(Asked("burstctl", list(words), is_shown=True))
        lines = "".join(text for _, text in written).splitlines()
        assert code in (0, 1, 3, 4), lines
        self.told += lines
        return lines

    def modify(self, **given: Any) -> None:
        """Somebody modifies the volume without burstctl."""
        self.client("ec2").modify_volume(**({"VolumeId": VOLUME} | given))

    def add_stack(self, **given: Any) -> Functions:
        """The functions of a deployed stack; from now on the desk finds it."""
        self.functions = Functions(lab=self.lab, monkeypatch=self.monkeypatch, **given)
        return self.functions

    def add_parts(self) -> MotoStack:
        """The stack's queues, logs, schedules, functions and alarms, and CloudFormation's word of them."""
        for service in MotoStack.SERVICES:
            self.client(service)
        self.parts = self.ending.enter_context(a_moto_stack(self.client))
        self.lab._apis["cloudformation"] = self.parts
        return self.parts

    def write(self, name: str, text: str) -> None:
        """A file on the desk."""
        (self.desk.directory / name).write_text(text)

    def kinds(self) -> set[str]:
        """The alerts that people got, by their kind: each names its page."""
        told = {found[1] for line in self.told if (found := _PAGE.search(line))}
        return told | set(self.functions.kinds() if self.functions else ())

    # ---- the terminal

    @contextmanager
    def terminal(self):
        answered = {"burstctl": self.answer_burstctl, "aws": self.answer_aws, "ddprobe": self.answer_ddprobe}
        answered |= {name: partial(_stood_in_for, stands_in) for name, stands_in in STAND_INS.items()}
        with Terminal(self.desk.directory, answered, self._now).open() as opened:
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
        request.url = request.url.replace(NOWHERE, self.lab.url)

    def _listen(self, client: Any, event: str, handler: Callable[..., Any]) -> None:
        """Until the stage is taken down: clients are shared by all stages of this process."""
        client.meta.events.register(event, handler)
        self.ending.callback(client.meta.events.unregister, event, handler)

    def aws_says(
        self, service: str, operation: str, answer: Callable[[Mapping[str, Any]], Any] | Any
    ) -> None:
        """Play an operation that neither the lab nor moto has; question and answer must fit AWS's model."""

        def play(model: Any, params: Mapping[str, Any], **_: Any) -> Any:
            told = answer(params) if callable(answer) else answer
            if model.output_shape is not None:
                faults = ParamValidator().validate(told, model.output_shape)
                assert not faults.has_errors(), faults.generate_report()
            return SimpleNamespace(status_code=200), dict(told)

        client = self.client(service)
        self._listen(client, f"before-call.{_id(client)}.{operation}", play)

    def answer_aws(self, asked: Asked) -> tuple[int, list[tuple[int, str]]]:
        code, out, err = Aws(self.client, self.lab.clock.now).run(asked.words)
        return code, [(1, out), (2, err)]

    def answer_burstctl(self, asked: Asked) -> tuple[int, list[tuple[int, str]]]:
        """In this process, at a terminal of 80 columns without colours, with somebody who says yes."""
        written: list[tuple[int, str]] = []
        out = Screen(1, written, is_terminal=asked.is_shown)
        err = Screen(2, written, is_terminal=True)

        def interrupt(stop: StopSignal, _seconds: float) -> None:
            stop.is_asked = True
            err.write("^C\n")

        with self.monkeypatch.context() as here:
            here.setattr(sys, "stdout", out)
            here.setattr(sys, "stderr", err)
            here.setattr(sys, "stdin", Keyboard(err))
            here.setattr(confirm, "_has_terminal", lambda: True)
            here.setattr(StopSignal, "wait", interrupt)
            return main(asked.words), written

    def answer_ddprobe(self, asked: Asked) -> tuple[int, list[tuple[int, str]]]:
        """The real one; what a page calls /data is a folder here, and whatever it finds is no failure."""
        place = self.desk.directory / "data"
        place.mkdir(exist_ok=True)
        words = [str(place) if word == "/data" else word for word in asked.words]
        with TemporaryDirectory(dir="/dev/shm") as memory:
            command = [sys.executable, "-IS", str(DDPROBE), words[0], "--run-dir", memory, *words[1:]]
            ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return 0, [(1, ran.stdout), (2, ran.stderr)]


def _stood_in_for(stands_in: Callable[..., Said], asked: Asked) -> tuple[int, list[tuple[int, str]]]:
    code, out, err = stands_in(asked.words)
    return code, [(1, out), (2, err)]


@cache
def client_of(service: str) -> Any:
    """A client takes long to make, so there is one for all stages."""
    return _session().create_client(service, endpoint_url=NOWHERE, **KEYS)


@cache
def _session() -> botocore.session.Session:
    return botocore.session.Session()


def _id(client: Any) -> str:
    return client.meta.service_model.service_id.hyphenize()


_CREATE_CLASS = ClientCreator._create_client_class
_CLASSES: dict[str, Any] = {}


def _class_made_once(creator: ClientCreator, service: str, model: Any) -> Any:
    """EC2's client has 700 methods; making its class anew is a third of what making a client takes."""
    if service not in _CLASSES:
        _CLASSES[service] = _CREATE_CLASS(creator, service, model)
    return _CLASSES[service]


@contextmanager
def a_stage(folder: Path, monkeypatch: Any, **lab_settings: Any):
    desk = OperatorsDesk(folder, monkeypatch, Nobody())
    desk.set(LOGNAME=WHO, USER=WHO, NO_COLOR="1", TERM="dumb", COLUMNS="80", LINES="50")
    monkeypatch.setattr(ClientCreator, "_create_client_class", _class_made_once)
    stand_still(monkeypatch)
    settings = LabSettings(**({"lag_s": 60} | lab_settings))
    with Endpoint(LabFleet(LabClock(START, speed=0), settings)) as lab, ExitStack() as ending:
        # moto remembers what other tests in this process made
        urlopen(Request(f"{lab.url}/moto-api/reset", method="POST"), timeout=60).close()
        lab.account.arn = f"arn:aws:iam::{ACCOUNT}:user/{WHO}"
        desk.set(**lab.environment)
        yield Stage(desk, lab, monkeypatch, ending)
