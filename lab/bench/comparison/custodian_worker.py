"""Runs Cloud Custodian's passes in its own environment; ``compare.py`` starts it.

    PYTHON custodian_worker.py POLICY_FILE OUTPUT_FOLDER

Each line of stdin is a time in seconds since the epoch. One pass of ``custodian run`` is made at that time,
and a JSON object with what it took is written to stdout. The one thing that is changed in Custodian is the
clock by which it chooses the window of a metric, because the lab's time is not the machine's.
"""

import json
import logging
import resource
import sys
import time
from contextlib import redirect_stdout
from datetime import UTC
from datetime import datetime as real_datetime

import c7n.filters.metrics
from c7n import cli


class LabTime(real_datetime):
    """The time of the pass."""

    now_s = 0.0

    @classmethod
    def utcnow(cls):
        return real_datetime.fromtimestamp(cls.now_s, tz=UTC).replace(tzinfo=None)


class WarningCounter(logging.Handler):
    """Keeps the messages that a person could read in the log."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.messages = []

    def emit(self, record):
        self.messages.append(record.getMessage())


def run_pass(policy_file, output_folder):
    """The exit code of one ``custodian run``."""
    arguments = ["run", "--quiet", "--cache-period", "0", "--output-dir", output_folder, policy_file]
    try:
        with redirect_stdout(sys.stderr):
            cli.main(arguments)
    except SystemExit as error:
        return error.code or 0
    return 0


def main(policy_file, output_folder):
    """Make a pass for each line."""
    c7n.filters.metrics.datetime = LabTime
    warnings = WarningCounter()
    logging.getLogger().addHandler(warnings)
    for line in sys.stdin:
        LabTime.now_s = float(line)
        warnings.messages.clear()
        started_s, started_cpu_s = time.perf_counter(), time.process_time()
        exit_code = run_pass(policy_file, output_folder)
        result = {
            "wall_s": time.perf_counter() - started_s,
            "cpu_s": time.process_time() - started_cpu_s,
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "has_failed": exit_code != 0,
            "messages": list(warnings.messages),
        }
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
