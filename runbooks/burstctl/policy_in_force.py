"""Which policy is in force at an operator's desk, and what becomes of it while a watch runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from burstwatch.core.policy import Policy, PolicyError

POLICY: Final = "BURSTWATCH_POLICY"
USUAL_PATH: Final = Path("policy.yaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySource:
    """Where the policy comes from; without a ``path`` it is what is built in."""

    path: Path | None
    chosen_by: str

    def read(self) -> Policy:
        """The policy.

        Raises:
            PolicyError: the file cannot be read, or is wrong; with every fault.
        """
        if self.path is None:
            return Policy()
        from burstwatch.adapters.policy_file import read_policy  # noqa: PLC0415 - YAML only where there is some

        return read_policy(self.path)

    def __str__(self) -> str:
        return f"{self.path} ({self.chosen_by})" if self.path else self.chosen_by


def find_policy(given: Path | None, environ: Mapping[str, str]) -> PolicySource:
    """The option, else the environment, else the file of the usual name, else the built-in defaults."""
    if given is not None:
        return PolicySource(path=given, chosen_by="--policy")
    if environ.get(POLICY):
        return PolicySource(path=Path(environ[POLICY]), chosen_by=POLICY)
    if USUAL_PATH.exists():
        return PolicySource(path=USUAL_PATH, chosen_by="found here")
    return PolicySource(path=None, chosen_by=f"built-in defaults (no --policy, {POLICY} or ./{USUAL_PATH})")


class PolicyKeeper:
    """Keeps the last good policy while its file changes under a running watch.

    ``untold`` holds the faults of a bad file until ``told`` is called; the same faults come up once.
    """

    def __init__(self, source: PolicySource, policy: Policy, *, now_s: float) -> None:
        self.source = source
        self.policy = policy
        self.in_force_since_s = now_s
        self.untold: Sequence[str] = ()
        self._faults: Sequence[str] = ()

    def look_again(self, now_s: float) -> bool:
        """Read the file anew; whether a changed policy is in force from now on."""
        try:
            policy = self.source.read()
        except PolicyError as error:
            faults = [str(fault) for fault in error.faults]
            if faults != self._faults:
                self._faults = self.untold = faults
            return False
        has_changed = policy != self.policy or bool(self._faults)
        self._faults = self.untold = ()
        if has_changed:
            self.policy, self.in_force_since_s = policy, now_s
        return has_changed

    def told(self) -> None:
        """People know."""
        self.untold = ()
