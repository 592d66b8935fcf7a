"""An operator's desk for tests: the real burstctl, a home of its own, and the lab in place of AWS."""

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from io import StringIO
from typing import Any

import click

from burstctl.cli import confirm
from burstctl.flip import execute
from burstctl.main import burstctl, main
from burstlab.fake_aws.server import Endpoint
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.instances.instance import LabInstance
from burstlab.model.volume import LabVolume
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.engine import watch_pass
from burstwatch.engine.collector import Collector
from support.cli.schema_check import check_output
from support.lab.lab_start import START
from support.paths import ROOT

INSTANCE = "i-0123456789abcdef0"
BURSTCTL = (sys.executable, "-c", "import sys; from burstctl.main import main; sys.exit(main())")


@dataclass(frozen=True)
class CliResult:
    """The result of a run of burstctl."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def error_lines(self) -> list[str]:
        return [line for line in self.err.splitlines() if line.startswith("error: ")]


def _check_schema(result: CliResult, arguments) -> CliResult:
    """The run; what programs read of it is as its published schema says."""
    if "--json" in arguments and result.out and not result.out.startswith("Usage: "):
        check_output(result.out)
    return result


class _FakeStdin(StringIO):
    """A person at the keyboard."""

    def __init__(self, answer, during_prompt):
        super().__init__("" if answer is None else f"{answer}\n")
        self._during_prompt = during_prompt

    def readline(self, *args):
        self._during_prompt()
        return super().readline(*args)


class CliSession:
    """Runs burstctl in this process, or starts it as one of its own."""

    def __init__(self, directory, monkeypatch, capsys):
        self.directory = directory
        self.monkeypatch = monkeypatch
        self._capsys = capsys
        for name in list(os.environ):
            if name.startswith(
                ("AWS_", "BURSTWATCH_", "XDG_", "SLACK_", "HTTP", "http", "NO_COLOR", "COLUMNS")
            ):
                monkeypatch.delenv(name)
        self.set(HOME=str(directory), AWS_EC2_METADATA_DISABLED="true")
        monkeypatch.chdir(directory)

    @property
    def ledger_path(self):
        return self.directory / ".local" / "state" / "burstwatch" / "ledger-us-east-1.sqlite"

    def set(self, **environment):
        for name, value in environment.items():
            self.monkeypatch.setenv(name, value)

    def unset(self, *names):
        for name in names:
            self.monkeypatch.delenv(name)

    def run(self, *arguments, answer=None, during_prompt=lambda: None) -> CliResult:
        """In this process; with an ``answer`` someone is there to ask, and things may happen then."""
        self._capsys.readouterr()
        with self.monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", _FakeStdin(answer, during_prompt))
            patch.setattr(confirm, "_has_terminal", lambda: answer is not None)
            code = main([str(argument) for argument in arguments])
        text = self._capsys.readouterr()
        return _check_schema(CliResult(code, text.out, text.err), arguments)

    def open_ledger(self) -> SqliteLedger:
        return SqliteLedger.open(self.ledger_path)

    def entry_kinds(self, subject) -> list[str]:
        """What the ledger holds of a volume, without the alerts on its balance."""
        reported = (EntryKind.LEVEL_CHANGED, EntryKind.ALERT, EntryKind.DELIVERED)
        with self.open_ledger() as ledger:
            return [str(entry.kind) for entry in ledger.entries(subject) if entry.kind not in reported]

    @contextmanager
    def start_subprocess(self, *arguments, **options):
        """The command as a process, ended if it has not ended by itself."""
        roots = os.pathsep.join(str(ROOT / root) for root in ("lambdas", "runbooks", "lab"))
        popen_options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options
        environment = {**os.environ, "PYTHONPATH": roots, **popen_options.pop("env", {})}
        process = subprocess.Popen([*BURSTCTL, *map(str, arguments)], env=environment, **popen_options)
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def run_in_subprocess(self, *arguments, **options) -> CliResult:
        with self.start_subprocess(*arguments, **options) as process:
            out, err = process.communicate(timeout=60)
            return _check_schema(CliResult(process.returncode, out or "", err or ""), arguments)


def freeze_pass_time(monkeypatch):
    """No pass of this process takes any time: a slow machine says what a fast one does."""
    monkeypatch.setattr(Collector, "wall_clock_s", property(lambda collector: collector.now_s))
    for module in (watch_pass, execute):
        monkeypatch.setattr(module, "monotonic", lambda: 0.0)


@contextmanager
def start_lab(cli, *, speed=0, **settings):
    """A lab at 18:00 that the desk takes for AWS; its volumes have a past if they are given one."""
    if speed == 0:
        freeze_pass_time(cli.monkeypatch)
    fleet = LabFleet(LabClock(START, speed=speed), LabSettings(**({"lag_s": 60} | settings)))
    with Endpoint(fleet) as lab:
        cli.set(**lab.environment)
        yield lab


def add_lab_volume(
    lab, name, load="idle", *, size_gib=100, balance_pct=100.0, minutes=30, tags=None, **fields
) -> str:
    """A volume that has been living for this many minutes before 18:00."""
    volume = LabVolume(
        size_gib=size_gib,
        load=load,
        balance_pct=balance_pct,
        starts_at=START - timedelta(minutes=minutes),
        tags={"Name": name, **(tags or {})},
        **fields,
    )
    return lab.fleet.add(volume)


def add_lab_instance(lab, instance_id, instance_type="m5.large", *, name="build-host", **fields) -> str:
    """An instance that is older than any window of the tests; volumes are attached by their own fields."""
    lab.fleet.add_instance(
        LabInstance(
            instance_id=instance_id,
            launched_at=START - timedelta(days=40),
            instance_type=instance_type,
            tags={"Name": name, **fields.pop("tags", {})},
            **fields,
        )
    )
    return instance_id


def add_gp3(lab, name="data", load="idle", **fields) -> str:
    """A default gp3 volume of ``INSTANCE``, which has been living for two hours."""
    default = {"volume_type": "gp3", "iops": 3_000, "throughput_mib_s": 125, "minutes": 120}
    return add_lab_volume(lab, name, load, **{"instance_id": INSTANCE} | default | fields)


def add_draining_instance(lab, *, minutes=90, **fields) -> list[str]:
    """Two volumes with 2,000 IOPS each on t3.medium, which sustains 2,000 and has 17.64 million credits."""
    add_lab_instance(lab, INSTANCE, "t3.medium", **fields)
    return [add_gp3(lab, f"data-{number}", "steady:2000", minutes=minutes) for number in range(2)]


# 100 GiB earn 300 IOPS; one per cent of the bucket is 54,000 credits. The newest datapoint ended at 17:59.
def add_calm(lab, name="calm", **fields) -> str:
    return add_lab_volume(lab, name, **fields)


def add_warning(lab, name="build-3", **fields) -> str:
    """Drains by 1200 - 300 = 900/s, 1 % a minute: 60 % at 17:40, 41 % at 17:59.

    2,214,000 / 900 = 2,460 s, less 60 s: empty at 18:40. Bound: 2,214,000 / 2,700 = 820 s, less 60 s: 18:12.
    """
    return add_lab_volume(lab, name, "steady:1200", balance_pct=60, minutes=20, **fields)


def add_critical(lab, name="ci-7", **fields) -> str:
    """Drains by 3000 - 300 = 2,700/s, 3 % a minute: 96 % at 17:38, 33 % at 17:59.

    1,782,000 / 2,700 = 660 s, less 60 s: empty at 18:10, and not before.
    """
    return add_lab_volume(lab, name, "steady:3000", balance_pct=96, minutes=22, **fields)


def modification_targets(lab, volume_id) -> list[str]:
    """The requested types that AWS accepted, in their order."""
    return [modification.target.volume_type for modification in lab.fleet.modifications(volume_id)]


def count_modify_calls(lab) -> int:
    """How often AWS was asked to modify something, in earnest or not."""
    return lab.faults.call_counts().get("ModifyVolume", 0)


def add_exhausted(lab, name="etcd-1", **fields) -> str:
    """Empty for half an hour, and it stays so however fast the lab's time goes by."""
    return add_lab_volume(lab, name, "steady:3000", balance_pct=0, **fields)


def every_command(group=burstctl, path=()):
    """Each command and group of commands, with the words that call it."""
    context = click.Context(group)
    yield path, group
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from every_command(command, (*path, name))
        else:
            yield (*path, name), command


def run_on_terminal(cli, *arguments, width=80, **environment) -> str:
    """What a terminal of this width is sent on stdout; burstctl runs in this process."""
    own_end, other_end = pty.openpty()
    fcntl.ioctl(other_end, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    # burstctl sets LESS if it is not set, which would stay so for other tests
    variables = {"TERM": "xterm-256color", "LESS": "FRX", **environment}
    try:
        with ThreadPoolExecutor(1) as pool, cli.monkeypatch.context() as patch:
            sent = pool.submit(_read_all, own_end)
            with _stdout_to(other_end, patch):
                for name, value in variables.items():
                    patch.setenv(name, value)
                cli.run(*arguments)
        return sent.result().decode()
    finally:
        os.close(own_end)


@contextmanager
def _stdout_to(terminal, patch):
    """Let this process write to the terminal, which is closed at the end."""
    usual = os.dup(1)
    os.dup2(terminal, 1)
    os.close(terminal)
    try:
        with open(1, "w", encoding="utf-8", closefd=False) as stdout:
            patch.setattr(sys, "stdout", stdout)
            patch.setattr(sys, "__stdout__", stdout)  # whose size is that of the terminal
            yield
    finally:
        os.dup2(usual, 1)
        os.close(usual)


def _read_all(terminal) -> bytes:
    """What is sent until the other end is closed everywhere."""
    sent = b""
    with suppress(OSError):  # Linux ends a terminal with an error
        while chunk := os.read(terminal, 65_536):
            sent += chunk
    return sent


ACCOUNT = "123456789012"
