"""Processes of their own that use one ledger at once."""

import os
import signal
import subprocess
import sys
import textwrap
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO

from support.paths import ROOT

SOURCES = os.pathsep.join(str(ROOT / root) for root in ("lambdas", "tests"))
PRELUDE = """
import sys
from pathlib import Path
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.alerts.alert import Alert, AlertKind, make_digest
from burstwatch.core.ledger.ledger import Change, TickKind
from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.assessment.severity import Level
from burstwatch.core.location import AwsLocation

path, me = Path(sys.argv[1]), 0

def change(volume_id, expected, revision, text=""):
    alert = Alert(alert_id=f"{volume_id} {revision}", kind=AlertKind.DRAINING, level=Level.WARNING,
        previous_level=Level.OK, volume_id=volume_id, at_s=revision, volume={"volume_id": volume_id})
    entry = LedgerEntry(volume_id=volume_id, revision=revision, kind=EntryKind.LEVEL_CHANGED, at_s=revision,
        body={"by": me, "text": text})
    return Change(volume_id=volume_id, expected_revision=expected,
        state=ResourceState(volume_id=volume_id, revision=revision), entries=[entry], alerts=[alert])
"""

RACE_PRELUDE = """
import os, signal

def become_racer():
    outputs = [int(output) for output in sys.argv[2:]]
    for number, output in enumerate(outputs):
        if os.fork() == 0:
            sys.stdout = os.fdopen(output, "w")
            return number
    for _ in outputs:
        _, status = os.wait()
        if status:
            os.killpg(0, signal.SIGKILL)
    sys.exit()

def wait_for_the_start():
    os.write(1, b"ready\\n")
    os.read(0, 1)

me = become_racer()
"""
"""One process imports the product and becomes many, each with an output of its own."""


@contextmanager
def start_process(script, path):
    process = subprocess.Popen(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(script), path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def environment():
    return {**os.environ, "PYTHONPATH": SOURCES}


@dataclass
class Race:
    """Processes that are about to begin, as soon as all are ready."""

    parent: subprocess.Popen[bytes]
    outputs: list[IO[str]]

    def begin(self) -> None:
        for _ in self.outputs:
            assert self.parent.stdout.readline() == b"ready\n"
        self.parent.stdin.write(b"g" * len(self.outputs))
        self.parent.stdin.flush()

    @property
    def is_running(self) -> bool:
        return self.parent.poll() is None

    def wait(self) -> list[list[str]]:
        """The lines that each has printed in the end."""
        assert self.parent.wait(timeout=60 * len(self.outputs)) == 0
        for output in self.outputs:
            output.seek(0)
        return [output.read().splitlines() for output in self.outputs]


@contextmanager
def start_race(script, path, count=6):
    with ExitStack() as stack:
        outputs = [stack.enter_context(TemporaryFile("w+")) for _ in range(count)]
        numbers = [output.fileno() for output in outputs]
        parent = subprocess.Popen(
            [
                sys.executable,
                "-c",
                PRELUDE + RACE_PRELUDE + textwrap.dedent(script),
                path,
                *map(str, numbers),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=numbers,
            start_new_session=True,
            env=environment(),
        )
        try:
            yield Race(parent, outputs)
        finally:
            if parent.poll() is None:
                os.killpg(parent.pid, signal.SIGKILL)
            parent.communicate()


def run_race(script, path, count=6):
    """What each of several processes printed that all began at once."""
    with start_race(script, path, count) as race:
        race.begin()
        return race.wait()
