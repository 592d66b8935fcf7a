"""The deployed stacks of this account and region: the active one, and notes for the operator."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from burstctl.cli.options import Options
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.aws.errors import AwsError
from burstwatch.adapters.policy.deployments import (
    Deployment,
    DeploymentError,
    DeploymentRecord,
    find_deployments,
)
from burstwatch.core.errors import BurstwatchError, Problem
from burstwatch.core.text import sanitise
from burstwatch.wiring.bootstrap import AwsSession, Session, build_parameters_client, open_session
from burstwatch.wiring.settings import LEDGER, LedgerAddress, LedgerKind, SettingsError, parse_ledger

_MAX_TEXT_LENGTH: Final = 400  # keeps a fault of a deployment's parameter to a few lines
_ARN_PARTS: Final = 6  # arn:partition:service:region:account:resource
_LEDGER_HINT: Final = "name its ledger: --ledger dynamodb:TABLE"

StackOrError: TypeAlias = Deployment | DeploymentError
"""A stack, or why what it says of itself cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stacks:
    """The deployed stacks, the oldest first; ``failure`` is the reason if AWS could not be asked."""

    results: Sequence[StackOrError] = ()
    failure: AwsError | None = None

    @property
    def active(self) -> Deployment | None:
        """The first stack that may flip, else the first; None also if its description cannot be read.

        As for the functions, one that cannot be read may flip.
        """
        flipping = [item for item in self.results if isinstance(item, DeploymentError) or item.flips]
        first = next(iter(flipping or self.results), None)
        return first if isinstance(first, Deployment) else None

    @property
    def readable(self) -> list[Deployment]:
        return [result for result in self.results if isinstance(result, Deployment)]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerReach:
    """Which deployed watchdog reads a ledger, and so obeys an order in it.

    ``stack`` is the one whose ledger it is; ``other_stacks`` use another. ``missed_stack`` is the active one
    if it uses another ledger. ``uncertainty`` says why it is not known whether there are more stacks.
    """

    ledger: str
    region: str
    stack: str | None = None
    other_stacks: Sequence[str] = ()
    missed_stack: str | None = None
    uncertainty: Problem | None = None

    @classmethod
    def of(cls, stacks: Stacks, ledger: str, region: str) -> "LedgerReach":
        """The reach of this ledger among these stacks."""
        failures = [stacks.failure, *(item for item in stacks.results if isinstance(item, DeploymentError))]
        active = stacks.active
        return cls(
            ledger=ledger,
            region=region,
            stack=next((item.name for item in stacks.readable if item.ledger == ledger), None),
            other_stacks=[item.name for item in stacks.readable if item.ledger != ledger],
            missed_stack=active.name if active is not None and active.ledger != ledger else None,
            uncertainty=next((item.problem for item in failures if item is not None), None),
        )


class UnreachableWatchdogError(BurstwatchError):
    """An order would not reach the watchdog, or might not, so it is not given."""


def check_reaches_watchdog(
    reach: LedgerReach, options: Options, *, outcome: str, action: str, effect: str = "reach it"
) -> None:
    """Refuse what is meant for the deployed watchdog, or depends on it, with a ledger that it never reads.

    Only ``--ledger`` on the command line says that this is meant; a variable of the environment may be there
    for another reason. ``outcome`` is what the refusal means, such as "nothing was held"; ``action`` is what
    would not have the ``effect``.

    Raises:
        UnreachableWatchdogError: saying what it would not reach, and what to do.
    """
    if options.ledger:
        return
    if reach.missed_stack is not None:
        raise UnreachableWatchdogError(
            f"{outcome}: stack {reach.missed_stack} is deployed in {reach.region} and does not use"
            f" {reach.ledger}, so {action} would not {effect}",
            fix=(
                f"unset {LEDGER}; or, for a watch that uses this ledger, --ledger {reach.ledger}"
                if os.environ.get(LEDGER)
                else "start it again, so that it uses the ledger of the stack"
            ),
        )
    if reach.uncertainty is not None:
        watch_ledger = reach.ledger if reach.ledger.startswith(LedgerKind.SQLITE) else "sqlite:PATH"
        raise UnreachableWatchdogError(
            f"{outcome}: cannot find out whether a watchdog is deployed in {reach.region}, so {action} might"
            f" not {effect}: {reach.uncertainty.cause}",
            fix=f"{reach.uncertainty.fix or 'remove the cause'}; or name the ledger: --ledger dynamodb:TABLE"
            f" (a stack's), --ledger {watch_ledger} (a watch's)",
        )


def open_aws_session(options: Options) -> AwsSession:
    """The session that the options and the environment ask for.

    Raises:
        SettingsError: there is no such profile, or no region anywhere.
    """
    return open_session(options.profile, options.region, last_region=os.environ.get("AWS_REGION"))


def find_stacks(session: Session, calls: CallCounter) -> Stacks:
    """Every stack of this account and region, for one call to AWS.

    Raises:
        SettingsError: the AWS configuration holds something that no client can be made of.
    """
    client = build_parameters_client(session, calls)
    try:
        return Stacks(results=[_read_stack(record) for record in find_deployments(client)])
    except AwsError as error:
        return Stacks(failure=error)


def stack_warnings(stacks: Stacks, *, is_ledger_named: bool) -> list[Problem]:
    """What is wrong with what was found of stacks."""
    warnings = []
    if stacks.failure is not None:
        failure = stacks.failure.problem
        unused = "its policy is" if is_ledger_named else "its ledger and its policy are"
        hint = "name its policy: --policy FILE" if is_ledger_named else _LEDGER_HINT
        warnings.append(
            Problem(
                f"cannot find out whether a stack is deployed here, so {unused} not used: {failure.cause}",
                f"{failure.fix}, or {hint}",
            )
        )
    warnings += [
        Problem(sanitise(str(result), _MAX_TEXT_LENGTH), _LEDGER_HINT)
        for result in stacks.results
        if isinstance(result, DeploymentError)
    ]
    return warnings


def describe_other_stacks(stacks: Stacks) -> list[str]:
    """Which of several stacks may flip; nothing if there is one or none."""
    active = stacks.active
    other_names = ", ".join(stack.name for stack in stacks.readable if stack != active)
    if active is None or not other_names:
        return []
    if active.flips:
        return [f"stacks: {active.name} may flip; only proposing: {other_names}"]
    return [f"stacks: none flips; {active.name} was deployed first and is used here, not {other_names}"]


def describe_ledger_mismatch(
    ledger: LedgerAddress, stack: Deployment | None, *, only_watches: bool
) -> list[str]:
    """What a deployed watchdog and the user of another ledger do not know of each other."""
    if stack is None:
        return []
    is_shared = str(ledger) == stack.ledger
    if is_shared and only_watches:
        text = f"careful: this watch takes ticks from the watchdog of stack {stack.name} and flips nothing"
        return [f"{text}: add --act, or leave out --ledger"]
    if only_watches:
        text = f"stack: {stack.name} is deployed and works independently"
        return [f"{text}; this watch does not act, so it keeps a ledger of its own"]
    if is_shared:
        return []
    return [f"stack: {stack.name} is deployed and does not read this ledger; its own: {stack.ledger}"]


def choose_stack(stacks: Stacks, name: str | None) -> Deployment:
    """The stack of this name, or the only one.

    Raises:
    AwsError: AWS could not be asked.
    DeploymentError: a description cannot be read.
    SettingsError: there is no stack, not that one, or more than one.
    """
    if stacks.failure is not None:
        raise stacks.failure
    if not stacks.results:
        raise SettingsError(
            "no stack is deployed in this account and Region",
            fix="deploy one (cdk deploy), or say where one is: --profile, --region",
        )
    names = ", ".join(stack.name for stack in stacks.readable)
    chosen = [stack for stack in stacks.readable if name in (None, stack.name)]
    if name is not None and not chosen:
        raise SettingsError(f"no stack {name!r}", fix=f"name one that is deployed here: {names}")
    if len(chosen) > 1:
        raise SettingsError("several stacks are deployed here", fix=f"add --stack with one of {names}")
    if not chosen:
        raise next(result for result in stacks.results if isinstance(result, DeploymentError))
    return chosen[0]


def _read_stack(record: DeploymentRecord) -> StackOrError:
    try:
        stack = record.read()
        ledger = parse_ledger(stack.ledger)
    except DeploymentError as error:
        return error
    except SettingsError as error:
        return DeploymentError(f"the stack {record.name} names an invalid ledger: {error}")
    if ledger.kind is not LedgerKind.DYNAMODB:
        return DeploymentError(f"the stack {record.name} names the ledger {ledger}, and a stack's is a table")
    if _arn_owner(stack.topic_arn, "sns") != _arn_owner(record.arn, "ssm"):
        return DeploymentError(
            f"the stack {record.name} names a topic that is not of this account and region:"
            f" {stack.topic_arn}; its parameter may have been changed: deploy the stack again"
        )
    return stack


def _arn_owner(arn: str, service: str) -> list[str] | None:
    """Partition, region and account of an ARN of this service."""
    parts = arn.split(":")
    is_complete = len(parts) >= _ARN_PARTS and parts[0] == "arn" and parts[2] == service
    return [parts[1], *parts[3:5]] if is_complete else None
