"""How long ``burstctl assess`` takes from process start to its first call to AWS; the budget is 500 ms.

python lab/bench/startup.py            ten runs: the median, the best, and the slowest imports
"""

import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Final

RUNS: Final = 10
BUDGET_MS: Final = 500
SLOWEST_SHOWN: Final = 8
BURSTCTL: Final = (Path(sys.executable).parent / "burstctl", "assess")
BARE_BOTO3: Final = (sys.executable, "-c", "import boto3; boto3.client('ec2').describe_volumes()")
"""The least that any program with boto3 can take; it distinguishes a slow machine from a slow command."""
_RESPONSE: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
)


class FirstRequestServer:
    """A server on the loopback interface that notes when the first request arrives."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.arrived_at_s: float | None = None
        self._thread = Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take no more requests."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(1)
                self.arrived_at_s = self.arrived_at_s or time.perf_counter()
                connection.recv(65_536)
                connection.sendall(_RESPONSE)


def measure_ms(home: str, command: Sequence[str | Path] = BURSTCTL) -> float:
    """One run: milliseconds from the start of the process to its first request."""
    server = FirstRequestServer()
    try:
        started_at_s = time.perf_counter()
        subprocess.run(command, env=_environment(home, server.url), capture_output=True, check=False)
        if server.arrived_at_s is None:
            raise SystemExit(f"{command[0]} ended without any request")
        return 1000 * (server.arrived_at_s - started_at_s)
    finally:
        server.close()


def measure_cpu_ms(home: str) -> float:
    """Milliseconds of processor time that one run takes, to its end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    measure_ms(home)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)


def measure_slowest_imports(home: str) -> list[tuple[float, str]]:
    """Milliseconds that single modules take to import, without what they import; the slowest first."""
    server = FirstRequestServer()
    try:
        completed = subprocess.run(
            [sys.executable, "-X", "importtime", *BURSTCTL],
            env=_environment(home, server.url),
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        server.close()
    rows = (
        line.removeprefix("import time:").split("|") for line in completed.stderr.splitlines() if "|" in line
    )
    return sorted(
        ((int(row[0]) / 1000, row[2].strip()) for row in rows if row[0].strip().isdigit()), reverse=True
    )


def _environment(home: str, url: str) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", ""),
        "HOME": home,
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_MAX_ATTEMPTS": "1",
    }


def main() -> None:
    """Measure and print."""
    with TemporaryDirectory() as home:
        measure_ms(home)
        runs_ms = [measure_ms(home) for _ in range(RUNS)]
        spread_text = f"median of {RUNS}, from {min(runs_ms):.0f} to {max(runs_ms):.0f} ms"
        print(
            f"first call to AWS after {median(runs_ms):.0f} ms ({spread_text}); the budget is {BUDGET_MS} ms"
        )
        bare_ms = median(measure_ms(home, BARE_BOTO3) for _ in range(RUNS))
        ratio = median(runs_ms) / bare_ms
        print(f"a bare boto3 client takes {bare_ms:.0f} ms here: burstctl {ratio:.2f} times as long")
        print(
            f"processor time of a whole run: {measure_cpu_ms(home):.0f} ms; on a busy machine, look at this"
        )
        for import_ms, module in measure_slowest_imports(home)[:SLOWEST_SHOWN]:
            print(f"{import_ms:7.1f} ms  {module}")


if __name__ == "__main__":
    main()
