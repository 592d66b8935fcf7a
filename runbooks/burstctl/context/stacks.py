"""The deployed stacks of this account and region: which one stands, and what an operator should know."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from burstctl.cli.options import Options
from burstctl.cli.output import say
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.aws.errors import AwsError
from burstwatch.adapters.policy.deployments import Deployment, DeploymentError, Registered, find_deployments
from burstwatch.core.text import printable
from burstwatch.wiring.bootstrap import AwsSession, Session, build_parameters_client, open_session
from burstwatch.wiring.settings import LedgerAddress, LedgerKind, SettingsError, parse_ledger

_LONGEST: Final = 400
_PARTS_OF_AN_ARN: Final = 6
_NAME_IT: Final = "--ledger dynamodb:TABLE names the ledger of one"

Found: TypeAlias = Deployment | DeploymentError
"""A stack, or why what it says of itself cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stacks:
    """The stacks there are, the one that stands first; ``failure`` says why AWS could not be asked."""

    found: Sequence[Found] = ()
    failure: AwsError | None = None

    @property
    def standing(self) -> Deployment | None:
        """The stack whose watchdog may act; None also where that is one that cannot be read."""
        first = self.found[0] if self.found else None
        return first if isinstance(first, Deployment) else None

    @property
    def readable(self) -> list[Deployment]:
        return [each for each in self.found if isinstance(each, Deployment)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Which deployed watchdog reads a ledger, and so obeys an order in it.

    ``stack`` is the one whose ledger it is; ``others`` use another. ``missed`` is the stack that may flip and
    uses another ledger. ``doubt`` says why it is not known whether there are more stacks.
    """

    stack: str | None = None
    others: Sequence[str] = ()
    missed: str | None = None
    doubt: str | None = None

    @classmethod
    def of(cls, stacks: Stacks, ledger: str) -> "Reach":
        """The reach of this ledger among these stacks."""
        doubts = [stacks.failure, *(each for each in stacks.found if isinstance(each, DeploymentError))]
        standing = stacks.standing
        return cls(
            stack=next((each.name for each in stacks.readable if each.ledger == ledger), None),
            others=[each.name for each in stacks.readable if each.ledger != ledger],
            missed=standing.name if standing is not None and standing.ledger != ledger else None,
            doubt=next((str(each) for each in doubts if each is not None), None),
        )


def session_of(options: Options) -> AwsSession:
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
        return Stacks(found=[_read(registered) for registered in find_deployments(client)])
    except AwsError as error:
        return Stacks(failure=error)


def say_stacks(stacks: Stacks, *, names_ledger: bool) -> None:
    """Say what is odd about what was found; one stack, or none, is not."""
    if stacks.failure is not None:
        missed = "its policy is not used (--policy FILE names one)"
        if not names_ledger:
            missed = f"it does not hear of what is done here ({_NAME_IT})"
        say(f"stack: whether one is deployed is not known; if one is, {missed}: {stacks.failure}")
    for each in stacks.found:
        if isinstance(each, DeploymentError):
            say(printable(f"stack: {each} ({_NAME_IT})", _LONGEST))
    if stacks.standing and len(stacks.found) > 1:
        others = ", ".join(stack.name for stack in stacks.readable[1:])
        say(f"stacks: {stacks.standing.name} was deployed first and may flip; only proposing: {others}")


def say_how_apart(ledger: LedgerAddress, stack: Deployment | None, *, only_watches: bool) -> None:
    """Say what a deployed watchdog and whoever uses this ledger do not know of each other, or take away."""
    if stack is None:
        return
    is_shared = str(ledger) == stack.ledger
    if is_shared and only_watches:
        say(
            f"careful: this watch takes ticks from the watchdog of stack {stack.name} and flips nothing:"
            " add --act, or leave out --ledger"
        )
    elif only_watches:
        say(
            f"stack: {stack.name} is deployed and goes on by itself; this watch does not act, so it keeps a"
            " ledger of its own"
        )
    elif not is_shared:
        said = f"stack: {stack.name} is deployed and does not hear of what is in this ledger"
        say(f"{said}; its own: {stack.ledger}")


def choose_stack(stacks: Stacks, name: str | None) -> Deployment:
    """The stack of this name, or the only one.

    Raises:
        AwsError: AWS could not be asked.
        DeploymentError: what there is cannot be read.
        SettingsError: there is none, not that one, or more than one to choose from.
    """
    if stacks.failure is not None:
        raise stacks.failure
    if not stacks.found:
        raise SettingsError(
            "no stack is deployed in this account and region: deploy one (cdk deploy), or say where one is"
            " (--profile, --region)"
        )
    names = ", ".join(stack.name for stack in stacks.readable)
    chosen = [stack for stack in stacks.readable if name in (None, stack.name)]
    if name is not None and not chosen:
        raise SettingsError(f"there is no stack {name!r}; deployed here: {names}")
    if len(chosen) > 1:
        raise SettingsError(f"several stacks are deployed here: add --stack with one of {names}")
    if not chosen:
        raise next(each for each in stacks.found if isinstance(each, DeploymentError))
    return chosen[0]


def _read(registered: Registered) -> Found:
    try:
        stack = registered.read()
        ledger = parse_ledger(stack.ledger)
    except DeploymentError as error:
        return error
    except SettingsError as error:
        return DeploymentError(f"the stack {registered.name} names a ledger that is none: {error}")
    if ledger.kind is not LedgerKind.DYNAMODB:
        return DeploymentError(
            f"the stack {registered.name} names the ledger {ledger}, and a stack's is a table"
        )
    if _owner(stack.topic_arn, "sns") != _owner(registered.arn, "ssm"):
        return DeploymentError(
            f"the stack {registered.name} names a topic that is not of this account and region:"
            f" {stack.topic_arn}; somebody may have changed its parameter: deploy the stack again"
        )
    return stack


def _owner(arn: str, service: str) -> list[str] | None:
    """Partition, region and account of an ARN of this service."""
    parts = arn.split(":")
    is_whole = len(parts) >= _PARTS_OF_AN_ARN and parts[0] == "arn" and parts[2] == service
    return [parts[1], *parts[3:5]] if is_whole else None
