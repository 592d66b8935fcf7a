"""Processes of their own that use one ledger at once."""

import os
import subprocess
import sys
import textwrap
from contextlib import contextmanager

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

path, me = Path(sys.argv[1]), int(sys.argv[2])

def change(volume_id, expected, revision, text=""):
    alert = Alert(alert_id=f"{volume_id} {revision}", kind=AlertKind.DRAINING, level=Level.WARNING,
        previous_level=Level.OK, volume_id=volume_id, at_s=revision, volume={"volume_id": volume_id})
    entry = LedgerEntry(volume_id=volume_id, revision=revision, kind=EntryKind.LEVEL_CHANGED, at_s=revision,
        body={"by": me, "text": text})
    return Change(volume_id=volume_id, expected_revision=expected,
        state=ResourceState(volume_id=volume_id, revision=revision), entries=[entry], alerts=[alert])

def wait_for_the_start():
    print("ready", flush=True)
    sys.stdin.readline()
"""


@contextmanager
def start_processes(script, path, count):
    environ = {**os.environ, "PYTHONPATH": SOURCES}
    code = PRELUDE + textwrap.dedent(script)
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, path, str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environ,
        )
        for number in range(count)
    ]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.communicate()


def run_race(script, path, count=6):
    """What each of several processes printed that all began at once."""
    with start_processes(script, path, count) as racers:
        for racer in racers:
            assert racer.stdout.readline() == "ready\n"
        for racer in racers:
            racer.stdin.write("go\n")
            racer.stdin.flush()
        text = [racer.communicate(timeout=60)[0].splitlines() for racer in racers]
        assert [racer.returncode for racer in racers] == [0] * count
    return text
