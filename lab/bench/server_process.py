"""A fake AWS in a process of its own, so that a bench is measured without it."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

LAST_VARIABLE = "BURSTWATCH_CLOCK"


@contextmanager
def start_server(
    command: Sequence[str], environment: Mapping[str, str] = os.environ
) -> Iterator[dict[str, str]]:
    """The environment, with what the process says by its ``export`` lines: by it AWS clients find it."""
    variables = dict(environment)
    aws = subprocess.Popen(
        command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert aws.stdout is not None
    try:
        for line in aws.stdout:
            if match := re.match(r"export (\w+)=(\S+)", line):
                variables[match[1]] = match[2]
            if LAST_VARIABLE in variables:
                break
        yield variables
    finally:
        aws.terminate()
        aws.wait()
        aws.stdout.close()


def lab_command(*options: str, latency_ms: int) -> list[str]:
    """The command of a lab that answers each call after this delay."""
    return [sys.executable, "-m", "burstlab", "serve", "--port=0", f"--latency-ms={latency_ms}", *options]
