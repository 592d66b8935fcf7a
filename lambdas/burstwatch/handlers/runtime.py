"""The services of an invocation: built by the first invocation, kept while the function is warm."""

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
from burstwatch.adapters.ledger.dynamodb_notes import DynamoKeyValueStore
from burstwatch.adapters.notify.sns import SnsChannel
from burstwatch.adapters.policy.deployments import (
    LIST_MAX_AGE_S,
    DeploymentRecord,
    FlipAuthority,
    apply_handover,
    find_deployments,
    flip_authority,
    had_authority,
    write_origin,
)
from burstwatch.adapters.policy.parameter_store import ActivePolicy, PolicyParameter
from burstwatch.core.policy.policy import Policy
from burstwatch.engine.services import Services
from burstwatch.wiring.bootstrap import (
    WORKERS,
    CallLimits,
    build_ledger_client,
    build_modifier,
    build_parameters_client,
    build_queue_client,
    build_services,
    build_topic_client,
    ledger_origin,
    open_session,
)
from burstwatch.wiring.function_settings import FunctionSettings
from burstwatch.wiring.observability import Metric, Telemetry

if TYPE_CHECKING:
    from burstwatch.adapters.aws.ec2_modify import Ec2Modifier

ATTEMPTS: Final = 3
"""Attempts of each call to AWS before it counts as failed."""

_FINISH_RESERVE_S: Final = 30.0
"""The longest time that a pass needs after its evaluation: to record, to request flips and to send alerts."""

_STOP_RESERVE_S: Final = 12.0
"""The longest time of what is under way when a pass is stopped."""

_AUTHORITY_KEY: Final = "standing"


@dataclass(slots=True, kw_only=True)
class FunctionRuntime:
    """Services, policy and flip authority of a deployed function; ``base`` are services that cannot flip."""

    settings: FunctionSettings
    base: Services
    policy_parameter: PolicyParameter
    store: DynamoKeyValueStore
    ssm_client: Any
    modifier: "Ec2Modifier"
    queue: FlipQueue | None = None
    time_limit: TimeLimit = field(default_factory=TimeLimit)
    clock: Callable[[], float] = monotonic
    _authority: FlipAuthority | None = field(default=None, init=False)
    _authority_read_at_s: float = field(default=0.0, init=False)

    @classmethod
    def build(cls, settings: FunctionSettings, account: str, *, attempts: int = ATTEMPTS) -> Self:
        """Build clients for everything that the settings name; each call is tried up to ``attempts`` times.

        Raises:
            LedgerError: the ledger belongs to another account or region, or cannot be used.
        """
        time_limit = TimeLimit()
        session = open_session(
            None, settings.region, call_limits=CallLimits(time_limit=time_limit, attempts=attempts)
        )
        ledger_client = build_ledger_client(session)
        ledger = DynamoLedger(ledger_client, settings.table, workers=WORKERS)
        ledger.bind(ledger_origin(account, settings.region))
        base = build_services(session, policy=Policy(), ledger=ledger, account=account)
        sns_channel = SnsChannel(build_topic_client(session, base.calls), settings.topic_arn)
        ssm_client = build_parameters_client(session, base.calls)
        store = DynamoKeyValueStore(ledger_client, settings.table)
        queue_url = settings.flip_queue_url
        return cls(
            settings=settings,
            base=replace(base, channels=[sns_channel]),
            policy_parameter=PolicyParameter(
                ssm_client, settings.policy_parameter, deployment=settings.deployment, store=store
            ),
            store=store,
            ssm_client=ssm_client,
            modifier=build_modifier(session, base.calls),
            queue=FlipQueue(build_queue_client(session, base.calls), queue_url) if queue_url else None,
            time_limit=time_limit,
        )

    def services_for_watch(self, now_s: float, telemetry: Telemetry) -> Services:
        """The services of a watch pass, which requests flips if this deployment may make them."""
        services = self._base_services(now_s, telemetry)
        can_request = self.queue is not None and self._may_flip(now_s, telemetry)
        return replace(services, flip_queue=self.queue) if can_request else services

    def services_for_flip(self, now_s: float, telemetry: Telemetry) -> Services:
        """The services of the flip function."""
        services = self._base_services(now_s, telemetry)
        return replace(services, modifier=self.modifier) if self._may_flip(now_s, telemetry) else services

    def _base_services(self, now_s: float, telemetry: Telemetry) -> Services:
        self.time_limit.remaining_s, self.time_limit.report = telemetry.remaining_s, telemetry.warn
        active_policy = self.policy_parameter.get_active()
        services = replace(self.base, policy=active_policy.policy)
        if active_policy.problem is not None:
            _report_policy_problem(active_policy, services, now_s, telemetry)
        return services

    def _may_flip(self, now_s: float, telemetry: Telemetry) -> bool:
        """Whether this deployment has the authority to flip; not while that is unknown."""
        # Cached for less than HANDOVER_S: a deployment that takes over waits until this one has read the list
        # again.
        authority = self._authority
        is_old = self.clock() - self._authority_read_at_s >= LIST_MAX_AGE_S
        if authority is None or is_old or now_s >= authority.recheck_at_s:
            self._refresh_authority(now_s, telemetry)
            authority = self._authority
        if authority is not None and authority.may_flip:
            return True
        telemetry.emit_metric(Metric.FLIP_AUTHORITY_MISSING, 1)
        telemetry.warn(
            authority.reason if authority else "until they can be listed, this deployment only proposes"
        )
        return False

    def _refresh_authority(self, now_s: float, telemetry: Telemetry) -> None:
        """Read which deployments exist; if that fails, the last known result counts."""
        try:
            records = find_deployments(self.ssm_client)
        except AwsError as error:
            telemetry.warn(f"cannot list other deployments: {error}")
            if self._authority is None and had_authority(self.store.read(_AUTHORITY_KEY)):
                self._authority = FlipAuthority(may_flip=True)
            return
        self._authority_read_at_s = self.clock()
        self._write_origin(records, telemetry)
        note = self.store.read(_AUTHORITY_KEY)
        self._authority, new_note = apply_handover(
            flip_authority(self.settings.deployment, records), note, now_s
        )
        if new_note != note:
            self.store.write(_AUTHORITY_KEY, new_note)

    def _write_origin(self, records: Sequence[DeploymentRecord], telemetry: Telemetry) -> None:
        for record in records:
            if record.name == self.settings.deployment:
                try:
                    write_origin(self.ssm_client, record)
                except AwsError as error:
                    telemetry.warn(f"when this stack was first deployed cannot be written down: {error}")


def _report_policy_problem(
    active_policy: ActivePolicy, services: Services, now_s: float, telemetry: Telemetry
) -> None:
    """Log a problem with the policy, and record it once in the ledger, which sends the alert."""
    assert active_policy.problem is not None
    telemetry.emit_metric(Metric.POLICY_REJECTED, 1)
    telemetry.warn(str(active_policy.problem))
    change = active_policy.problem.to_change(
        policy=active_policy.policy, location=services.location, now_s=now_s
    )
    if change is not None:
        services.ledger.commit([change], channels=services.channel_names)


@cache
def function_runtime(account: str, attempts: int = ATTEMPTS) -> FunctionRuntime:
    """The runtime of this process."""
    return FunctionRuntime.build(FunctionSettings.from_env(environ), account, attempts=attempts)


def limit_to_invocation(services: Services, remaining_s: Callable[[], float]) -> Services:
    """Services for a pass that ends before its invocation; what it leaves is done by the next pass."""
    remaining_at_start_s = remaining_s()
    return replace(
        services,
        should_stop=lambda: remaining_s() < _STOP_RESERVE_S,
        read_limit_s=max(remaining_at_start_s - _FINISH_RESERVE_S, remaining_at_start_s / 2),
    )


def account_from_context(context: Any) -> str:
    """The account in which the function runs, from the function's ARN."""
    return str(context.invoked_function_arn).split(":")[4]
