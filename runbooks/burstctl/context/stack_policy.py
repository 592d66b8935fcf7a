"""The policy of a deployed stack: the one it was deployed with, and one that was pushed over it and wins."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

from burstwatch.adapters.aws.errors import AwsError, translate_errors
from burstwatch.adapters.policy.deployments import Deployment
from burstwatch.adapters.policy.parameter_name import pushed_parameter_name as pushed_name
from burstwatch.adapters.policy.yaml_file import parse_policy
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.policy.policy import Policy, PolicyError
from burstwatch.wiring.settings import SettingsError

_PUSHED_OVER: Final = "# pushed over sha256:"
_PUSHED_BY: Final = "# by "
_HEADER: Final = re.compile(rf"\A{_PUSHED_OVER}([0-9a-f]{{64}})[^\n]*\n(?:{_PUSHED_BY}([^\n]*)\n)?")
_POLICY_HINT: Final = "to go on with another: --policy FILE"


class PolicyConflictError(BurstwatchError):
    """Another person changed the policy since it was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPolicy:
    """A policy as Parameter Store holds it."""

    parameter: str
    text: str
    version: int
    modified_at: datetime

    @property
    def sha256(self) -> str:
        return sha256(self.text.encode()).hexdigest()

    @property
    def over_sha256(self) -> str | None:
        """What it was pushed over."""
        header = _HEADER.match(self.text)
        return header[1] if header else None

    @property
    def pushed_by(self) -> str | None:
        """Who pushed it."""
        header = _HEADER.match(self.text)
        return header[2] if header else None

    @property
    def document(self) -> str:
        """The text without what was written above it when it was pushed."""
        return without_header(self.text)

    def read(self) -> Policy:
        """The policy.

        Raises:
            PolicyError: it is wrong; with every fault.
        """
        return parse_policy(self.text.encode(), source=self.parameter)


@dataclass(frozen=True, slots=True, kw_only=True)
class StackPolicy:
    """Both policies of a stack; either may be missing."""

    stack: Deployment
    deployed: StoredPolicy | None
    pushed: StoredPolicy | None

    @property
    def current(self) -> StoredPolicy | None:
        """The one that counts, if there is any."""
        return self.pushed or self.deployed

    @property
    def in_force(self) -> StoredPolicy:
        """The one that counts.

        Raises:
            SettingsError: The stack has no policy.
        """
        current = self.current
        if current is None:
            raise SettingsError(
                f"the policy of stack {self.stack.name} is gone: neither {self.stack.policy} nor"
                f" {pushed_name(self.stack.policy)} exists",
                fix="to put one in force, use burstctl policy push FILE",
            )
        return current

    @property
    def is_outdated(self) -> bool:
        """Whether a deploy has changed what the pushed one was pushed over, as far as it says over what."""
        if self.pushed is None or self.deployed is None:
            return False
        return self.pushed.over_sha256 not in {None, self.deployed.sha256}


class StackPolicyStore:
    """Reads and changes the policies of one stack; only the pushed one is ever written."""

    def __init__(self, client: Any, stack: Deployment) -> None:
        self._client = client
        self.stack = stack
        self.pushed_parameter = pushed_name(stack.policy)

    def read(self) -> StackPolicy:
        """Both policies, for one call to AWS.

        Raises:
            AwsError: Parameter Store does not say.
        """
        with translate_errors("ssm:GetParameters"):
            response = self._client.get_parameters(Names=[self.stack.policy, self.pushed_parameter])
        policies = {parameter["Name"]: _to_stored_policy(parameter) for parameter in response["Parameters"]}
        return StackPolicy(
            stack=self.stack,
            deployed=policies.get(self.stack.policy),
            pushed=policies.get(self.pushed_parameter),
        )

    def push(self, text: str, expected: StackPolicy) -> int:
        """Put this text in force in place of what was ``expected``, and answer its version.

        Raises:
            PolicyConflictError: that is no longer what is there.
            AwsError: it could not be written.
        """
        self._refuse_if_changed(expected)
        try:
            with translate_errors("ssm:PutParameter"):
                response = self._client.put_parameter(
                    Name=self.pushed_parameter,
                    Value=text,
                    Type="String",
                    Tier="Intelligent-Tiering",
                    Overwrite=expected.pushed is not None,
                )
        except AwsError as error:
            if error.failure.code != "ParameterAlreadyExists":
                raise
            raise _conflict_error(self.stack) from error
        return int(response["Version"])

    def withdraw(self, expected: StackPolicy) -> None:
        """Take away the pushed policy that was ``expected``.

        Raises:
            PolicyConflictError: it is no longer what is there.
            AwsError: it could not be deleted.
        """
        self._refuse_if_changed(expected)
        with translate_errors("ssm:DeleteParameter"):
            self._client.delete_parameter(Name=self.pushed_parameter)

    def _refuse_if_changed(self, expected: StackPolicy) -> None:
        if self.read() != expected:
            raise _conflict_error(self.stack)


class StackPolicySource:
    """The policy that is in force in a stack, as a policy source."""

    check_command: Final = "burstctl policy check"

    def __init__(self, store: StackPolicyStore) -> None:
        self._store = store
        self._last_read: StackPolicy | None = None

    def read(self) -> Policy:
        """The policy that counts now.

        Raises:
            AwsError: Parameter Store does not say.
            PolicyError: it is wrong; with every fault.
            SettingsError: it is gone.
        """
        self._last_read = None
        try:
            self._last_read = self._store.read()
            return self._last_read.in_force.read()
        except AwsError as error:
            failure = replace(error.failure, next_step=f"{error.failure.next_step}; {_POLICY_HINT}")
            raise AwsError(failure) from error
        except SettingsError as error:
            problem = error.problem
            raise SettingsError(problem.cause, fix=f"{problem.fix}; {_POLICY_HINT}") from error

    @property
    def location(self) -> str:
        """The parameter that was read last; that of the deployed policy before, or if none exists."""
        current = self._last_read.current if self._last_read else None
        return current.parameter if current else self._store.stack.policy

    @property
    def is_outdated(self) -> bool:
        """Whether what was read last was pushed over another policy than the one deployed now."""
        return self._last_read is not None and self._last_read.is_outdated

    @property
    def is_default(self) -> bool:
        return False

    def __str__(self) -> str:
        return f"{self.location} (stack {self._store.stack.name})"


def with_header(document: str, replaced: StoredPolicy | None, pushed_by: str) -> str:
    """The text to push: what it is pushed over, who does it, and the document."""
    digest = replaced.sha256 if replaced else sha256(b"").hexdigest()
    return f"{_PUSHED_OVER}{digest}\n{_PUSHED_BY}{pushed_by}\n{document}"


def without_header(text: str) -> str:
    """The document alone, as ``with_header`` was given it."""
    return _HEADER.sub("", text)


def read_or_none(stored_policy: StoredPolicy) -> Policy | None:
    """The policy, None if it is invalid."""
    try:
        return stored_policy.read()
    except PolicyError:
        return None


def _to_stored_policy(parameter: Mapping[str, Any]) -> StoredPolicy:
    return StoredPolicy(
        parameter=parameter["Name"],
        text=parameter["Value"],
        version=int(parameter["Version"]),
        modified_at=parameter["LastModifiedDate"],
    )


def _conflict_error(stack: Deployment) -> PolicyConflictError:
    return PolicyConflictError(
        f"the policy of stack {stack.name} was changed by someone else, and nothing was done",
        fix="look at it (burstctl policy show) and run again",
    )
