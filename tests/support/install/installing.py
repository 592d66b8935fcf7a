"""Installing the wheel as a reader does."""

import subprocess
import sys
from pathlib import Path

BIN = Path(sys.executable).parent


VOLUME = "vol-0123456789abcdef0"


INSTANCE = "i-0123456789abcdef0"


def run(*command, **options):
    result = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, timeout=300, check=False, **options
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout
