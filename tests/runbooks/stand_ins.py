"""Stand-ins for what a test machine has not: a docker daemon, systemd as its init, the accounts of two teams.

Each knows the words that the pages use and refuses any other; ``test_stand_ins.py`` asks the real programs
whether they know them too, where those are installed.
"""

import re
from collections.abc import Callable, Mapping, Sequence

INFO = {"Driver": "overlay2", "LoggingDriver": "json-file", "DockerRootDir": "/var/lib/docker"}
"""Of what a daemon tells of itself."""

SYSTEMCTL = {"list-units": {"--all", "--failed"}, "restart": set[str]()}
"""Its commands, each with its options."""

CDK = {"bootstrap": set[str](), "deploy": {"--all", "--require-approval"}}

MISUSED = 1
Said = tuple[int, str, str]
"""Exit code, stdout and stderr."""


def docker(words: Sequence[str]) -> Said:
    """``docker info``, with a daemon that is set up as most are."""
    match words:
        case ["info", "--format", template]:
            unknown = set(re.findall(r"\{\{\.(\w+)\}\}", template)) - set(INFO)
            if not unknown:
                return 0, re.sub(r"\{\{\.(\w+)\}\}", lambda found: INFO[found[1]], template) + "\n", ""
            return MISUSED, "", f"docker: this test knows no {', '.join(sorted(unknown))}\n"
    return MISUSED, "", f"docker: this test knows no {' '.join(words)}\n"


def systemctl(words: Sequence[str]) -> Said:
    """Everything runs: nothing has failed, and what is restarted starts."""
    return _known("systemctl", SYSTEMCTL, words)


def cdk(words: Sequence[str]) -> Said:
    """A command that the real one would carry out; tests/e2e has that do it."""
    return _known("cdk", CDK, words)


STAND_INS: Mapping[str, Callable[[Sequence[str]], Said]] = {
    "docker": docker,
    "systemctl": systemctl,
    "cdk": cdk,
}


def _known(name: str, known: Mapping[str, set[str]], words: Sequence[str]) -> Said:
    options = {word for word in words[1:] if word.startswith("-")}
    if not words or words[0] not in known or options - known[words[0]]:
        return MISUSED, "", f"{name}: this test knows no {' '.join(words)}\n"
    return 0, "", ""
