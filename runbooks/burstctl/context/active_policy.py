"""The policy that is in force for an operator's command, and its changes while a watch runs."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from burstwatch.adapters.aws.errors import AwsError
from burstwatch.core.policy.policy import Policy, PolicyError
from burstwatch.wiring.settings import SettingsError

if TYPE_CHECKING:
    from burstwatch.core.errors import Problem

POLICY_ENV: Final = "BURSTWATCH_POLICY"
DEFAULT_PATH: Final = Path("policy.yaml")
POLICY_OPTION: Final = "--policy"
FILE_ARGUMENT: Final = "FILE"
_FOUND_HERE: Final = "found here"
_ADVICE: Final = {
    POLICY_OPTION: "give --policy another path",
    FILE_ARGUMENT: "give FILE another path",
    POLICY_ENV: f"correct the path in the environment variable {POLICY_ENV}, or unset it",
    _FOUND_HERE: "let it be read, or name another file with --policy",
}
"""What to do about a file that cannot be read, by what named it."""


class PolicySource(Protocol):
    """Where a policy comes from; ``str()`` says it with how it was chosen, ``location`` alone."""

    @property
    def location(self) -> str: ...

    @property
    def is_default(self) -> bool:
        """Whether it is what is built in, because no other policy was found."""
        ...

    @property
    def check_command(self) -> str:
        """The command that shows every fault of the policy."""
        ...

    def read(self) -> Policy:
        """The policy as it is now.

        Raises:
            PolicyError: it is wrong; with every fault.
            AwsError: it is AWS that has it, and does not say.
            SettingsError: it is gone.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePolicySource:
    """A policy in a file; without a ``path`` it is what is built in."""

    path: Path | None
    chosen_by: str

    def read(self) -> Policy:
        """The policy.

        Raises:
            PolicyError: the file cannot be read, or is wrong; with every fault.
        """
        if self.path is None:
            return Policy()
        from burstwatch.adapters.policy.yaml_file import read_policy  # noqa: PLC0415 - YAML only where there is some

        return read_policy(self.path, advice=_ADVICE[self.chosen_by])

    @property
    def location(self) -> str:
        return str(self.path) if self.path else self.chosen_by

    @property
    def is_default(self) -> bool:
        return self.path is None

    @property
    def check_command(self) -> str:
        return f"burstctl policy check {shlex.quote(str(self.path))}"

    def __str__(self) -> str:
        return f"{self.path} ({self.chosen_by})" if self.path else self.chosen_by


def is_policy_named(path: Path | None, environ: Mapping[str, str]) -> bool:
    """Whether the options name a policy, so that the policy of the stack is not needed."""
    return path is not None or bool(environ.get(POLICY_ENV))


def find_policy_source(
    path: Path | None, environ: Mapping[str, str], deployed: PolicySource | None = None
) -> PolicySource:
    """The option, else the environment, else the stack's, else the file of the usual name, else built-in."""
    return find_file_source(path, environ) if deployed is None or is_policy_named(path, environ) else deployed


def find_file_source(
    path: Path | None, environ: Mapping[str, str], *, named_by: str = POLICY_OPTION
) -> FilePolicySource:
    """The policy's source without regard to any stack; ``named_by`` is what gave the ``path``."""
    if path is not None:
        return FilePolicySource(path=path, chosen_by=named_by)
    if environ.get(POLICY_ENV):
        return FilePolicySource(path=Path(environ[POLICY_ENV]), chosen_by=POLICY_ENV)
    if DEFAULT_PATH.exists():
        return FilePolicySource(path=DEFAULT_PATH, chosen_by=_FOUND_HERE)
    description = f"built-in defaults (no --policy, {POLICY_ENV} or ./{DEFAULT_PATH})"
    return FilePolicySource(path=None, chosen_by=description)


class PolicyReloader:
    """Keeps the last valid policy while its source changes or cannot be read during a watch.

    Until ``mark_reported`` is called, ``unreported_faults`` holds the faults of a bad one, and
    ``unreported_read_error`` why it could not be read; the same comes up once.
    """

    def __init__(self, source: PolicySource, policy: Policy, *, now_s: float) -> None:
        self.source = source
        self.policy = policy
        self.in_force_since_s = now_s
        self.unreported_faults: Sequence[str] = ()
        self.unreported_read_error: Problem | None = None
        self._last_faults: Sequence[str] = ()
        self._last_read_error: Problem | None = None

    @property
    def is_rejected(self) -> bool:
        """Whether the policy as it was last found is not the one in force: it is wrong, or cannot be read."""
        return bool(self._last_faults) or self._last_read_error is not None

    def reload(self, now_s: float) -> bool:
        """Read the policy again; return whether a changed one is in force from now on."""
        try:
            policy = self.source.read()
        except PolicyError as error:
            faults = [str(fault) for fault in error.faults]
            if faults != self._last_faults:
                self._last_faults = self.unreported_faults = faults
            return False
        except (AwsError, SettingsError) as error:
            if str(error) != self._last_read_error:
                self._last_read_error = self.unreported_read_error = error.problem
            return False
        self._last_read_error = self.unreported_read_error = None
        has_changed = policy != self.policy or bool(self._last_faults)
        self._last_faults = self.unreported_faults = ()
        if has_changed:
            self.policy, self.in_force_since_s = policy, now_s
        return has_changed

    def mark_reported(self) -> None:
        """Note that the faults were reported."""
        self.unreported_faults, self.unreported_read_error = (), None
