"""The policy of a deployed watchdog: two SSM parameters, which are read again while it runs.

The stack writes the deployed policy. ``burstctl policy push`` writes the pushed one, which takes precedence
while it exists. If both become invalid or unreadable, a watchdog continues with its last valid policy.
"""

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Self

from burstwatch.adapters.aws.errors import AWS_ERRORS, AwsFailure, to_aws_failure
from burstwatch.adapters.ledger.dynamodb_notes import KeyValueStore
from burstwatch.adapters.policy.parameter_name import pushed_parameter_name
from burstwatch.adapters.policy.yaml_file import parse_policy
from burstwatch.core.alerts.alert import AlertKind, make_alert_id, make_policy_rejected
from burstwatch.core.ledger.ledger import Change
from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.policy import Mode, Policy, PolicyError
from burstwatch.core.text import format_instant

if TYPE_CHECKING:
    from types_boto3_ssm import SSMClient

MAX_AGE_S: Final = 30.0
"""How long a warm function uses what it has read."""

SUBJECT: Final = "policy"
"""The subject of problems with the policy in the ledger."""

_LAST_GOOD_KEY: Final = "policy"
_PUSHED_OVER_PATTERN: Final = re.compile(r"# pushed over sha256:([0-9a-f]{64})\s*(?:\n|$)")
_REVISION_DIGITS: Final = 15  # 60 bits: the most whole hexadecimal digits in SQLite's signed 64-bit integer


class PolicyProblemKind(StrEnum):
    """What is wrong with the policy.

    ``rejected``: its text is invalid. ``missing``: it does not exist. ``unread``: it could not be read.
    ``outdated``: the deployed one has changed since another was pushed over it.
    """

    REJECTED = "rejected"
    MISSING = "missing"
    UNREAD = "unread"
    OUTDATED = "outdated"


_SUMMARIES: Final = {
    PolicyProblemKind.REJECTED: "policy rejected; the last valid one stays in force",
    PolicyProblemKind.MISSING: "the policy is gone; the last valid one stays in force",
    PolicyProblemKind.UNREAD: "the policy cannot be read; the last valid one stays in force",
    PolicyProblemKind.OUTDATED: "the deployed policy changed; the pushed one stays in force",
}

_DAILY_KINDS: Final = (PolicyProblemKind.MISSING, PolicyProblemKind.UNREAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyProblem:
    """A problem with the policy; people are notified unless it ``is_transient``.

    ``fingerprint`` identifies the problem: the same problem has the same fingerprint, so it is reported once.
    What a person did to a parameter or to a role is reported once a day.
    """

    kind: PolicyProblemKind
    faults: tuple[str, ...]
    active_source: str
    action: str
    fingerprint: str
    is_transient: bool = False

    def __str__(self) -> str:
        return f"{_SUMMARIES[self.kind]}: {'; '.join(self.faults)} (in force: {self.active_source})"

    def to_change(self, *, policy: Policy, location: AwsLocation, now_s: float) -> Change | None:
        """The change for the ledger, with the alert; committing it again has no effect."""
        if self.is_transient:
            return None
        day = format_instant(now_s)[:10] if self.kind in _DAILY_KINDS else ""
        identity = f"{self.kind}\n{self.fingerprint}\n{day}"
        revision = int(sha256(identity.encode()).hexdigest()[:_REVISION_DIGITS], 16)
        entry = LedgerEntry(
            volume_id=SUBJECT,
            revision=revision,
            kind=EntryKind.POLICY_REJECTED,
            at_s=int(now_s),
            body={"faults": list(self.faults)},
        )
        alert = make_policy_rejected(
            self.faults,
            in_force=self.active_source,
            summary=_SUMMARIES[self.kind],
            alert_id=make_alert_id(SUBJECT, AlertKind.POLICY_REJECTED, revision),
            action=self.action,
            location=location,
            runbooks_url=policy.alerts.runbooks_url,
            now_s=int(now_s),
        )
        # The change makes the entry about the alert itself.
        return Change(
            volume_id=SUBJECT, expected_revision=None, state=None, entries=(entry,), alerts=(alert,)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivePolicy:
    """The policy in force, its source, and the problem of the one that should be in force instead, if any."""

    policy: Policy
    source: str
    problem: PolicyProblem | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Document:
    """The text of a policy, with its source and its date."""

    name: str
    modified_at: str
    text: str

    @property
    def source(self) -> str:
        return f"{self.name} as of {self.modified_at}"

    @property
    def encoded(self) -> bytes:
        return self.text.encode("utf-8", "replace")

    @property
    def digest(self) -> str:
        return sha256(self.encoded).hexdigest()

    @property
    def pushed_over(self) -> str | None:
        """The digest of the deployed policy at the time when this one was pushed."""
        match = _PUSHED_OVER_PATTERN.match(self.text)
        return match[1] if match else None

    def parse(self) -> Policy:
        return parse_policy(self.encoded, source=self.name)

    @classmethod
    def from_parameter(cls, parameter: Any) -> Self:
        """From a parameter as Parameter Store returns it."""
        modified_at = format_instant(parameter["LastModifiedDate"].timestamp())
        return cls(name=parameter["Name"], modified_at=modified_at, text=parameter["Value"])

    def to_note(self) -> str:
        return json.dumps({name: getattr(self, name) for name in self.__slots__})

    @classmethod
    def from_note(cls, note: str | None) -> Self | None:
        """The inverse of ``to_note``; None if the note has another form."""
        try:
            values = json.loads(note) if note else None
            if isinstance(values, dict) and all(isinstance(value, str) for value in values.values()):
                return cls(**values)
        except (ValueError, TypeError, RecursionError):
            return None
        return None


class PolicyParameter:
    """The policy in force; it is read again when the last read is older than ``max_age_s``."""

    def __init__(
        self,
        client: "SSMClient",
        name: str,
        *,
        deployment: str,
        store: KeyValueStore,
        max_age_s: float = MAX_AGE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``name`` is the deployed policy's parameter; what is in ``store`` outlives this process."""
        self._client = client
        self._name = name
        self._deployment = deployment
        self._store = store
        self._max_age_s = max_age_s
        self._clock = clock
        self._active: ActivePolicy | None = None
        self._read_at_s = 0.0
        self._remembered: _Document | None = None
        self._has_read_note = False

    def get_active(self) -> ActivePolicy:
        """The policy in force now.

        Raises:
            LedgerError: the ledger, which remembers the last valid policy, cannot be used.
        """
        now_s = self._clock()
        if self._active is None or now_s - self._read_at_s >= self._max_age_s:
            self._active, self._read_at_s = self._refresh(), now_s
        return self._active

    def _refresh(self) -> ActivePolicy:
        try:
            deployed, pushed_document = self._read_parameters()
        except AWS_ERRORS as error:
            return self._fall_back(PolicyProblemKind.UNREAD, to_aws_failure(error, "ssm:GetParameters"))
        document = pushed_document or deployed
        if document is None:
            return self._fall_back(PolicyProblemKind.MISSING)
        try:
            policy = document.parse()
        except PolicyError as error:
            return self._reject_invalid(document, deployed, [str(fault) for fault in error.faults])
        if (
            pushed_document is not None
            and (deployed_policy := _conflicting_deployed_policy(policy, deployed)) is not None
        ):
            return self._reject_other_tag(pushed_document, policy, deployed_policy)
        self._remember(document)
        problem = _outdated_problem(pushed_document, deployed, self._deployment) if pushed_document else None
        return ActivePolicy(policy=policy, source=document.source, problem=problem)

    def _read_parameters(self) -> tuple[_Document | None, _Document | None]:
        """Read the deployed policy and the pushed one in one call, so that they belong together."""
        names = [self._name, pushed_parameter_name(self._name)]
        response = self._client.get_parameters(Names=names)
        documents = {
            parameter["Name"]: _Document.from_parameter(parameter) for parameter in response["Parameters"]
        }
        return documents.get(names[0]), documents.get(names[1])

    def _reject_invalid(
        self, rejected: _Document, deployed: _Document | None, faults: Sequence[str]
    ) -> ActivePolicy:
        """Reject an invalid text; another policy stays in force."""
        policy, source = self._last_good(deployed if rejected is not deployed else None)
        step = "fix it and push it again"
        if rejected is deployed:
            step = "fix the policy file and deploy again, or push a good one"
        problem = PolicyProblem(
            kind=PolicyProblemKind.REJECTED,
            faults=tuple(faults),
            active_source=source,
            action=f"{step}: burstctl policy push --stack {self._deployment}",
            fingerprint=f"{rejected.source} {rejected.digest}",
        )
        return ActivePolicy(policy=policy, source=source, problem=problem)

    def _reject_other_tag(
        self, pushed_document: _Document, policy: Policy, deployed_policy: "_DeployedPolicy"
    ) -> ActivePolicy:
        """Reject another opt-in tag: IAM allows modifications only with the tag of the deployed policy."""
        self._remember(deployed_policy.document)
        pushed_tag, deployed_tag = (
            "=".join(candidate.mode.opt_in_tag) for candidate in (policy, deployed_policy.policy)
        )
        fault = (
            f"{pushed_document.name}: mode.opt_in_tag is {pushed_tag}, and the permission to modify is for"
            f" {deployed_tag}"
        )
        withdraw = f"burstctl policy push --withdraw --stack {self._deployment}"
        problem = PolicyProblem(
            kind=PolicyProblemKind.REJECTED,
            faults=(fault,),
            active_source=deployed_policy.document.source,
            action=f"push one with that tag, or let the deployed policy apply: {withdraw}",
            fingerprint=f"{pushed_document.source} {deployed_policy.document.digest}",
        )
        return ActivePolicy(
            policy=deployed_policy.policy, source=deployed_policy.document.source, problem=problem
        )

    def _fall_back(self, kind: PolicyProblemKind, failure: AwsFailure | None = None) -> ActivePolicy:
        """The policy that stays in force while there is no text at all."""
        policy, source = self._last_good(None)
        missing = f"neither {self._name} nor {pushed_parameter_name(self._name)} exists"
        problem = PolicyProblem(
            kind=kind,
            faults=(str(failure) if failure else missing,),
            active_source=source,
            action=f"deploy the stack {self._deployment} again; to see what is there: burstctl policy show",
            fingerprint=f"{source} {failure.code if failure else ''}",
            is_transient=failure is not None and failure.is_transient,
        )
        return ActivePolicy(policy=policy, source=source, problem=problem)

    def _last_good(self, deployed: _Document | None) -> tuple[Policy, str]:
        """The last valid policy, or else the deployed one, or else the defaults without flips."""
        for document in (self._read_note(), deployed):
            try:
                if document is not None:
                    return document.parse(), document.source
            except PolicyError:
                continue
        built_in = Policy()
        without_flips = replace(built_in, mode=replace(built_in.mode, highest=Mode.PROPOSE))
        return without_flips, "the built-in defaults, without flips"

    def _read_note(self) -> _Document | None:
        if not self._has_read_note:
            self._remembered = _Document.from_note(self._store.read(_LAST_GOOD_KEY))
            self._has_read_note = True
        return self._remembered

    def _remember(self, document: _Document) -> None:
        """Remember it for the next cold start."""
        if self._read_note() != document:
            self._store.write(_LAST_GOOD_KEY, document.to_note())
            self._remembered = document


@dataclass(frozen=True, slots=True)
class _DeployedPolicy:
    """The parsed deployed policy."""

    document: _Document
    policy: Policy


def _conflicting_deployed_policy(pushed_policy: Policy, deployed: _Document | None) -> _DeployedPolicy | None:
    """The deployed policy if its opt-in tag differs from that of the pushed one; None otherwise."""
    if deployed is None:
        return None
    try:
        policy = deployed.parse()
    except PolicyError:
        return None
    is_same = policy.mode.opt_in_tag == pushed_policy.mode.opt_in_tag
    return None if is_same else _DeployedPolicy(deployed, policy)


def _outdated_problem(
    pushed_document: _Document, deployed: _Document | None, deployment: str
) -> PolicyProblem | None:
    """The problem that the deployed policy has changed since this one was pushed; None if it has not."""
    if deployed is None or pushed_document.pushed_over in {None, deployed.digest}:
        return None
    return PolicyProblem(
        kind=PolicyProblemKind.OUTDATED,
        faults=(
            (
                f"{deployed.source} is not the policy that {pushed_document.source} was pushed over, and"
                " waits behind it"
            ),
        ),
        active_source=pushed_document.source,
        action=(
            "push the policy that should apply, or return to the deployed one:"
            f" burstctl policy push --withdraw --stack {deployment}"
        ),
        fingerprint=f"{pushed_document.source} {deployed.digest}",
    )
