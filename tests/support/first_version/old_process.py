"""The first version of burstwatch, as a process that a test talks to."""

import json
import subprocess
from typing import Any

from support.paths import ROOT

FIRST_VERSION = "66f6cb2"


SUPPORT = ROOT / "tests" / "support" / "first_version"


TABLE = "burstwatch-ledger"


class FirstVersion:
    """A process that runs the code of the first version."""

    def __init__(self, process: subprocess.Popen) -> None:
        self._process = process

    def __call__(self, command: str, **arguments: Any) -> Any:
        self._process.stdin.write(json.dumps([command, arguments]) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert "error" not in answer, answer["error"]
        return answer["answer"]
