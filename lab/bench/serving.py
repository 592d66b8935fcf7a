"""Something that plays AWS in a process of its own, for a bench that is to be measured without it."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

LAST_LINE = "BURSTWATCH_CLOCK"


@contextmanager
def serving(command: Sequence[str], environment: Mapping[str, str] = os.environ) -> Iterator[dict[str, str]]:
    """The environment, with what the process says by its ``export`` lines: by it AWS clients find it."""
    found = dict(environment)
    aws = subprocess.Popen(command, env=found, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert aws.stdout is not None
    try:
        for line in aws.stdout:
            if told := re.match(r"export (\w+)=(\S+)", line):
                found[told[1]] = told[2]
            if LAST_LINE in found:
                break
        yield found
    finally:
        aws.terminate()
        aws.wait()
        aws.stdout.close()


def a_lab(*words: str, latency_ms: int) -> list[str]:
    """The command of a lab that answers each call after so long."""
    return [sys.executable, "-m", "burstlab", "serve", "--port=0", f"--latency-ms={latency_ms}", *words]
