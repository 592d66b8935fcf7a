"""The policy of a deployed watchdog: two parameters of SSM, read again while it runs, the last good one kept.

The stack writes the deployed policy; ``burstctl policy push`` writes the pushed one, which wins while it is
there. Whatever becomes of them, a watchdog that ever had a good policy goes on with that.
"""

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Self

from burstwatch.adapters.aws.errors import AWS_ERRORS, AwsFailure, FailureKind, explain
from burstwatch.adapters.ledger.dynamodb_notes import Remembers
from burstwatch.adapters.policy.parameter_name import pushed
from burstwatch.adapters.policy.yaml_file import parse_policy
from burstwatch.core.alerts.alert import Alert, AlertKind, alert_id, make_policy_rejected
from burstwatch.core.ledger.ledger import Change, EntryKind, LedgerEntry
from burstwatch.core.location import Place
from burstwatch.core.policy.policy import Mode, Policy, PolicyError
from burstwatch.core.text import format_instant

if TYPE_CHECKING:
    from types_boto3_ssm import SSMClient

MAX_AGE_S: Final = 30.0
"""How long a function that stays warm goes on with what it read."""

SUBJECT: Final = "policy"
"""What troubles with the policy are filed under in the ledger."""

_NOTE: Final = "policy"
_HEADER: Final = re.compile(r"# pushed over sha256:([0-9a-f]{64})\s*(?:\n|$)")
_PASSING: Final = (FailureKind.RETRYABLE, FailureKind.UNREACHABLE)
_REVISION_DIGITS: Final = 15


class TroubleKind(StrEnum):
    """What is wrong with the policy.

    ``rejected``: the text is. ``missing``: it is gone. ``unread``: AWS does not give it. ``outdated``: the
    deployed one has changed since another was pushed over it.
    """

    REJECTED = "rejected"
    MISSING = "missing"
    UNREAD = "unread"
    OUTDATED = "outdated"


_SUMMARIES: Final = {
    TroubleKind.REJECTED: "policy rejected; the last good one stays in force",
    TroubleKind.MISSING: "the policy is gone; the last good one stays in force",
    TroubleKind.UNREAD: "the policy cannot be read; the last good one stays in force",
    TroubleKind.OUTDATED: "the deployed policy changed; the pushed one stays in force",
}

_DAILY: Final = (TroubleKind.MISSING, TroubleKind.UNREAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTrouble:
    """Something wrong with the policy; people are told unless it ``passes`` by itself.

    ``about`` names what was found: the same trouble found again has the same, so it is told once; what a
    person did to SSM or to a role is told once a day.
    """

    kind: TroubleKind
    faults: tuple[str, ...]
    in_force: str
    action: str
    about: str
    passes: bool = False

    def __str__(self) -> str:
        return f"{_SUMMARIES[self.kind]}: {'; '.join(self.faults)} (in force: {self.in_force})"

    def change(self, *, policy: Policy, place: Place, now_s: float) -> Change | None:
        """What goes into the ledger, with the alert; committing it again changes nothing."""
        if self.passes:
            return None
        day = format_instant(now_s)[:10] if self.kind in _DAILY else ""
        found = f"{self.kind}\n{self.about}\n{day}"
        revision = int(sha256(found.encode()).hexdigest()[:_REVISION_DIGITS], 16)
        entry = LedgerEntry(
            volume_id=SUBJECT,
            revision=revision,
            kind=EntryKind.POLICY_REJECTED,
            at_s=int(now_s),
            body={"faults": list(self.faults)},
        )
        alert = self._alert(policy, place, now_s, revision)
        told = replace(entry, kind=EntryKind.ALERT, body=alert.to_document())
        return Change(
            volume_id=SUBJECT, expected_revision=None, state=None, entries=(entry, told), alerts=(alert,)
        )

    def _alert(self, policy: Policy, place: Place, now_s: float, revision: int) -> Alert:
        alert = make_policy_rejected(
            self.faults,
            in_force=self.in_force,
            action=self.action,
            place=place,
            runbooks_url=policy.alerts.runbooks_url,
            now_s=int(now_s),
        )
        return replace(
            alert,
            alert_id=alert_id(SUBJECT, AlertKind.POLICY_REJECTED, revision),
            evidence={**alert.evidence, "summary": _SUMMARIES[self.kind]},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyInForce:
    """The policy to go by, where it comes from, and what is wrong with one that should be in its place."""

    policy: Policy
    says: str
    trouble: PolicyTrouble | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Document:
    """A policy as it was written, where, and when."""

    name: str
    modified_at: str
    text: str

    @property
    def says(self) -> str:
        return f"{self.name} as of {self.modified_at}"

    @property
    def encoded(self) -> bytes:
        return self.text.encode("utf-8", "replace")

    @property
    def digest(self) -> str:
        return sha256(self.encoded).hexdigest()

    @property
    def pushed_over(self) -> str | None:
        """The digest of the deployed policy that was there when this one was pushed."""
        found = _HEADER.match(self.text)
        return found[1] if found else None

    def parse(self) -> Policy:
        return parse_policy(self.encoded, source=self.name)

    @classmethod
    def of(cls, parameter: Any) -> Self:
        """As Parameter Store tells it."""
        modified_at = format_instant(parameter["LastModifiedDate"].timestamp())
        return cls(name=parameter["Name"], modified_at=modified_at, text=parameter["Value"])

    def to_note(self) -> str:
        return json.dumps({name: getattr(self, name) for name in self.__slots__})

    @classmethod
    def from_note(cls, note: str | None) -> Self | None:
        """The inverse of ``to_note``; None for what was noted by who knows whom."""
        try:
            told = json.loads(note) if note else None
            if isinstance(told, dict) and all(isinstance(value, str) for value in told.values()):
                return cls(**told)
        except (ValueError, TypeError, RecursionError):
            return None
        return None


class PolicyParameter:
    """The policy in force, read again when what is known of it is older than ``max_age_s``."""

    def __init__(
        self,
        client: "SSMClient",
        name: str,
        *,
        deployment: str,
        notes: Remembers,
        max_age_s: float = MAX_AGE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``name`` is that of the deployed policy's parameter; ``notes`` outlive this process."""
        self._client = client
        self._name = name
        self._deployment = deployment
        self._notes = notes
        self._max_age_s = max_age_s
        self._clock = clock
        self._found: PolicyInForce | None = None
        self._read_at_s = 0.0
        self._noted: _Document | None = None
        self._knows_note = False

    def in_force(self) -> PolicyInForce:
        """The policy to go by now.

        Raises:
            LedgerError: the ledger, which remembers the last good one, cannot be used.
        """
        now_s = self._clock()
        if self._found is None or now_s - self._read_at_s >= self._max_age_s:
            self._found, self._read_at_s = self._look(), now_s
        return self._found

    def _look(self) -> PolicyInForce:
        try:
            deployed, over_it = self._read()
        except AWS_ERRORS as error:
            return self._without(TroubleKind.UNREAD, explain(error, "ssm:GetParameters"))
        document = over_it or deployed
        if document is None:
            return self._without(TroubleKind.MISSING)
        try:
            policy = document.parse()
        except PolicyError as error:
            return self._with_bad(document, deployed, [str(fault) for fault in error.faults])
        if over_it is not None and (other := _other_tag(policy, deployed)) is not None:
            return self._with_other_tag(over_it, policy, other)
        self._keep(document)
        trouble = _outdated(over_it, deployed, self._deployment) if over_it else None
        return PolicyInForce(policy=policy, says=document.says, trouble=trouble)

    def _read(self) -> tuple[_Document | None, _Document | None]:
        """The deployed policy and the pushed one, as they are at one moment."""
        names = [self._name, pushed(self._name)]
        answer = self._client.get_parameters(Names=names)
        found = {parameter["Name"]: _Document.of(parameter) for parameter in answer["Parameters"]}
        return found.get(names[0]), found.get(names[1])

    def _with_bad(self, bad: _Document, deployed: _Document | None, faults: Sequence[str]) -> PolicyInForce:
        """What stays in force beside a text that is wrong."""
        policy, says = self._last_good(deployed if bad is not deployed else None)
        mend = "mend it and push it again"
        if bad is deployed:
            mend = "mend the policy file and deploy again, or push a good one"
        trouble = PolicyTrouble(
            kind=TroubleKind.REJECTED,
            faults=tuple(faults),
            in_force=says,
            action=f"{mend}: burstctl policy push --stack {self._deployment}",
            about=f"{bad.says} {bad.digest}",
        )
        return PolicyInForce(policy=policy, says=says, trouble=trouble)

    def _with_other_tag(self, pushed_one: _Document, policy: Policy, other: "_Deployed") -> PolicyInForce:
        """The deployed policy holds: only the volumes that carry its tag may be modified, says IAM."""
        self._keep(other.document)
        wants, has = ("=".join(each.mode.opt_in_tag) for each in (policy, other.policy))
        fault = f"{pushed_one.name}: mode.opt_in_tag is {wants}, and the permission to modify is for {has}"
        withdraw = f"burstctl policy push --withdraw --stack {self._deployment}"
        trouble = PolicyTrouble(
            kind=TroubleKind.REJECTED,
            faults=(fault,),
            in_force=other.document.says,
            action=f"push one with that tag, or let the deployed policy hold: {withdraw}",
            about=f"{pushed_one.says} {other.document.digest}",
        )
        return PolicyInForce(policy=other.policy, says=other.document.says, trouble=trouble)

    def _without(self, kind: TroubleKind, failure: AwsFailure | None = None) -> PolicyInForce:
        """What stays in force while there is no text at all."""
        policy, says = self._last_good(None)
        gone = f"neither {self._name} nor {pushed(self._name)} is there"
        trouble = PolicyTrouble(
            kind=kind,
            faults=(str(failure) if failure else gone,),
            in_force=says,
            action=f"deploy the stack {self._deployment} again; to see what is there: burstctl policy show",
            about=f"{says} {failure.code if failure else ''}",
            passes=failure is not None and failure.kind in _PASSING,
        )
        return PolicyInForce(policy=policy, says=says, trouble=trouble)

    def _last_good(self, deployed: _Document | None) -> tuple[Policy, str]:
        """The last policy that was in force, else the deployed one, else what is built in, without flips."""
        for document in (self._note(), deployed):
            try:
                if document is not None:
                    return document.parse(), document.says
            except PolicyError:
                continue
        built_in = Policy()
        cautious = replace(built_in, mode=replace(built_in.mode, highest=Mode.PROPOSE))
        return cautious, "the built-in defaults, without flips"

    def _note(self) -> _Document | None:
        if not self._knows_note:
            self._noted = _Document.from_note(self._notes.read(_NOTE))
            self._knows_note = True
        return self._noted

    def _keep(self, document: _Document) -> None:
        """Remember it for the next cold start."""
        if self._note() != document:
            self._notes.write(_NOTE, document.to_note())
            self._noted = document


@dataclass(frozen=True, slots=True)
class _Deployed:
    """The deployed policy, read."""

    document: _Document
    policy: Policy


def _other_tag(pushed_one: Policy, deployed: _Document | None) -> _Deployed | None:
    """The deployed policy where its opt-in tag is another than the pushed one's."""
    if deployed is None:
        return None
    try:
        policy = deployed.parse()
    except PolicyError:
        return None
    is_same = policy.mode.opt_in_tag == pushed_one.mode.opt_in_tag
    return None if is_same else _Deployed(deployed, policy)


def _outdated(over_it: _Document, deployed: _Document | None, deployment: str) -> PolicyTrouble | None:
    """Whether the deployed policy is another one than that over which this one was pushed."""
    if deployed is None or over_it.pushed_over in {None, deployed.digest}:
        return None
    return PolicyTrouble(
        kind=TroubleKind.OUTDATED,
        faults=(
            f"{deployed.says} is not the policy that {over_it.says} was pushed over, and waits behind it",
        ),
        in_force=over_it.says,
        action=(
            "push again what shall hold, or let the deployed policy hold:"
            f" burstctl policy push --withdraw --stack {deployment}"
        ),
        about=f"{over_it.says} {deployed.digest}",
    )
