"""What an invocation stands on: made by the first one, kept while the function is warm."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from os import environ
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Self

from burstwatch.adapters.aws.errors import AwsError
from burstwatch.adapters.aws.flip_queue import FlipQueue
from burstwatch.adapters.aws.time_limit import TimeLimit
from burstwatch.adapters.ledger.dynamodb import DynamoLedger
from burstwatch.adapters.ledger.dynamodb_notes import Notes
from burstwatch.adapters.notify.sns import SnsChannel
from burstwatch.adapters.policy.deployments import (
    Registered,
    Standing,
    find_deployments,
    standing_of,
    stood,
    take_over,
    write_origin,
)
from burstwatch.adapters.policy.parameter_store import PolicyInForce, PolicyParameter
from burstwatch.core.policy.policy import Policy
from burstwatch.engine.services import Shell
from burstwatch.wiring.bootstrap import (
    WORKERS,
    Patience,
    build_ledger_client,
    build_modifier,
    build_parameters_client,
    build_queue_client,
    build_shell,
    build_topic_client,
    open_session,
    origin_of,
)
from burstwatch.wiring.function_settings import FunctionSettings
from burstwatch.wiring.observability import Instruments, Metric

if TYPE_CHECKING:
    from burstwatch.adapters.aws.ec2_modify import Ec2Modifier

ATTEMPTS: Final = 3
"""Of each call to AWS, before it counts as failed."""

_TO_FINISH_S: Final = 30.0
"""What a pass needs at most when it has looked: to record, to ask for flips and to deliver."""

_TO_STOP_S: Final = 12.0
"""What is under way when a pass is stopped takes no longer."""

_NOTE: Final = "standing"
_STANDING_AGE_S: Final = 300.0
"""How long a function believes what it read of other deployments."""


@dataclass(slots=True, kw_only=True)
class Footing:
    """Shell, policy and standing of a deployed function; ``base`` is the shell without any power to flip."""

    settings: FunctionSettings
    base: Shell
    policies: PolicyParameter
    notes: Notes
    parameters: Any
    modifier: "Ec2Modifier"
    queue: FlipQueue | None = None
    limit: TimeLimit = field(default_factory=TimeLimit)
    clock: Callable[[], float] = monotonic
    _standing: Standing | None = field(default=None, init=False)
    _asked_at_s: float = field(default=0.0, init=False)

    @classmethod
    def build(cls, settings: FunctionSettings, account: str, *, attempts: int = ATTEMPTS) -> Self:
        """Clients for everything that the settings name; ``attempts`` is how often one tries a call.

        Raises:
            LedgerError: the ledger is that of another account or region, or cannot be used.
        """
        limit = TimeLimit()
        session = open_session(None, settings.region, patience=Patience(limit=limit, attempts=attempts))
        ledger_client = build_ledger_client(session)
        ledger = DynamoLedger(ledger_client, settings.table, workers=WORKERS)
        ledger.bind(origin_of(account, settings.region))
        base = build_shell(session, policy=Policy(), ledger=ledger, account=account)
        topic = SnsChannel(build_topic_client(session, base.calls), settings.topic_arn)
        parameters = build_parameters_client(session, base.calls)
        notes = Notes(ledger_client, settings.table)
        queue_url = settings.flip_queue_url
        return cls(
            settings=settings,
            base=replace(base, channels=[topic]),
            policies=PolicyParameter(
                parameters, settings.policy_parameter, deployment=settings.deployment, notes=notes
            ),
            notes=notes,
            parameters=parameters,
            modifier=build_modifier(session, base.calls),
            queue=FlipQueue(build_queue_client(session, base.calls), queue_url) if queue_url else None,
            limit=limit,
        )

    def asking(self, now_s: float, say: Instruments) -> Shell:
        """The shell of a function that looks: it asks for flips where this deployment may make them."""
        shell = self._looking(now_s, say)
        may_ask = self.queue is not None and self._may_flip(now_s, say)
        return replace(shell, requests=self.queue) if may_ask else shell

    def modifying(self, now_s: float, say: Instruments) -> Shell:
        """The shell of the function that flips."""
        shell = self._looking(now_s, say)
        return replace(shell, modifier=self.modifier) if self._may_flip(now_s, say) else shell

    def _looking(self, now_s: float, say: Instruments) -> Shell:
        self.limit.left_s, self.limit.report = say.left_s, say.warn
        found = self.policies.in_force()
        shell = replace(self.base, policy=found.policy)
        if found.trouble is not None:
            _tell_trouble(found, shell, now_s, say)
        return shell

    def _may_flip(self, now_s: float, say: Instruments) -> bool:
        """Whether this deployment stands; while nobody can tell, it does not."""
        standing = self._standing
        is_old = self.clock() - self._asked_at_s >= _STANDING_AGE_S
        if standing is None or is_old or now_s >= standing.waits_until_s:
            self._ask_standing(now_s, say)
            standing = self._standing
        if standing is not None and standing.may_flip:
            return True
        say.measure(Metric.NOT_STANDING, 1)
        say.warn(standing.because if standing else "until it can be told, this deployment only proposes")
        return False

    def _ask_standing(self, now_s: float, say: Instruments) -> None:
        """Look which deployments there are; while that cannot be told, what was last found out counts."""
        try:
            found = find_deployments(self.parameters)
        except AwsError as error:
            say.warn(f"whether another deployment watches here cannot be told: {error}")
            if self._standing is None and stood(self.notes.read(_NOTE)):
                self._standing = Standing(may_flip=True)
            return
        self._asked_at_s = self.clock()
        self._write_origin(found, say)
        noted = self.notes.read(_NOTE)
        self._standing, said = take_over(standing_of(self.settings.deployment, found), noted, now_s)
        if said != noted:
            self.notes.write(_NOTE, said)

    def _write_origin(self, found: Sequence[Registered], say: Instruments) -> None:
        for own in found:
            if own.name == self.settings.deployment:
                try:
                    write_origin(self.parameters, own)
                except AwsError as error:
                    say.warn(f"when this stack was first deployed cannot be written down: {error}")


def _tell_trouble(found: PolicyInForce, shell: Shell, now_s: float, say: Instruments) -> None:
    """What is wrong with the policy goes to the log, and once into the ledger, from which people hear it."""
    assert found.trouble is not None
    say.measure(Metric.POLICY_REJECTED, 1)
    say.warn(str(found.trouble))
    change = found.trouble.change(policy=found.policy, place=shell.place, now_s=now_s)
    if change is not None:
        shell.ledger.commit([change], channels=shell.channel_names)


@cache
def stand(account: str, attempts: int = ATTEMPTS) -> Footing:
    """The footing of this process."""
    return Footing.build(FunctionSettings.from_env(environ), account, attempts=attempts)


def in_time(shell: Shell, time_left_s: Callable[[], float]) -> Shell:
    """The shell of a pass that ends before its invocation does: what it has not done the next one does."""
    left_s = time_left_s()
    return replace(
        shell,
        should_stop=lambda: time_left_s() < _TO_STOP_S,
        look_within_s=max(left_s - _TO_FINISH_S, left_s / 2),
    )


def account_of(context: Any) -> str:
    """The account that the function runs in, by the function's own ARN."""
    return str(context.invoked_function_arn).split(":")[4]
