"""Stand-ins for what a test machine has not: a docker daemon, systemd as its init, the accounts of two teams.

Each knows the words that the pages use and refuses any other; ``test_stand_ins.py`` asks the real programs
whether they know them too, where those are installed.
"""

import re
from collections.abc import Callable, Mapping, Sequence

INFO = {"Driver": "overlay2", "LoggingDriver": "json-file", "DockerRootDir": "/var/lib/docker"}
"""A part of what a daemon reports of itself."""

SYSTEMCTL = {"list-units": {"--all", "--failed"}, "restart": set[str]()}
"""Its commands, each with its options."""

CDK = {"bootstrap": set[str](), "deploy": {"--all", "--require-approval"}}

USAGE_EXIT_CODE = 1
ProgramOutput = tuple[int, str, str]
"""Exit code, stdout and stderr."""


def docker(arguments: Sequence[str]) -> ProgramOutput:
    """``docker info``, with a daemon that is set up as most are."""
    match arguments:
        case ["info", "--format", template]:
            unknown = set(re.findall(r"\{\{\.(\w+)\}\}", template)) - set(INFO)
            if not unknown:
                return 0, re.sub(r"\{\{\.(\w+)\}\}", lambda match: INFO[match[1]], template) + "\n", ""
            return USAGE_EXIT_CODE, "", f"docker: this test knows no {', '.join(sorted(unknown))}\n"
    return USAGE_EXIT_CODE, "", f"docker: this test knows no {' '.join(arguments)}\n"


def systemctl(arguments: Sequence[str]) -> ProgramOutput:
    """Everything runs: nothing has failed, and what is restarted starts."""
    return _check_options("systemctl", SYSTEMCTL, arguments)


def cdk(arguments: Sequence[str]) -> ProgramOutput:
    """A command that the real one would carry out; tests/e2e has that do it."""
    return _check_options("cdk", CDK, arguments)


FAKE_PROGRAMS: Mapping[str, Callable[[Sequence[str]], ProgramOutput]] = {
    "docker": docker,
    "systemctl": systemctl,
    "cdk": cdk,
}


def _check_options(name: str, known: Mapping[str, set[str]], arguments: Sequence[str]) -> ProgramOutput:
    options = {word for word in arguments[1:] if word.startswith("-")}
    if not arguments or arguments[0] not in known or options - known[arguments[0]]:
        return USAGE_EXIT_CODE, "", f"{name}: this test knows no {' '.join(arguments)}\n"
    return 0, "", ""
