"""What is examined: everything that more than one check needs, found out once and never changed."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from threading import Lock
from time import time
from typing import Any, Final, Generic, TypeVar

from botocore.config import Config
from botocore.session import Session as BotocoreSession

from burstctl.advise.price_list import ENDPOINT_REGION
from burstctl.cli.options import Options
from burstctl.context.active_policy import PolicySource, find_policy_source, is_policy_named
from burstctl.context.on_demand_pass import assess_volumes
from burstctl.context.sqlite_inspect import inspect_ledger_file
from burstctl.context.stack_policy import StackPolicy, StackPolicySource, StackPolicyStore
from burstctl.context.stacks import Stacks, find_stacks, open_aws_session
from burstctl.doctor.finding import CheckTimeoutError, LookupFailedError
from burstwatch.adapters.aws import botocore_hooks
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.aws.cloudwatch import CloudWatchReader
from burstwatch.adapters.aws.ec2 import Ec2Reader
from burstwatch.adapters.aws.efs import EfsReader
from burstwatch.adapters.aws.errors import AwsError, AwsFailure, FailureKind, translate_errors
from burstwatch.adapters.aws.rds import RdsReader
from burstwatch.adapters.ledger.dynamodb import DynamoLedger
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.adapters.ledger.sqlite_schema import SCHEMA_VERSION
from burstwatch.adapters.policy.deployments import Deployment
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.errors import LedgerError
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.policy import Policy
from burstwatch.core.watch.pass_report import PassReport
from burstwatch.engine.services import Services
from burstwatch.wiring.bootstrap import (
    WORKERS,
    AwsSession,
    BindableLedger,
    CallerIdentity,
    build_client,
    endpoint_clock,
)
from burstwatch.wiring.settings import CLOCK, LEDGER, Clock, LedgerKind, Settings

VOLUME_TYPES: Final = ("gp2", "gp3", "io1", "io2")
"""What is watched, and what it may be flipped to."""

_LOOKUP_TIMEOUT_S: Final = 15.0
"""How long a check waits for what another one is finding out."""

FLEET_TIMEOUT_S: Final = 90.0
"""A pass over a large fleet takes time."""

_CLIENT_CONFIG: Final = Config(
    connect_timeout=3,
    read_timeout=5,
    retries={"mode": "standard", "total_max_attempts": 2},
    max_pool_connections=4 * WORKERS,  # all checks at once, some of them with workers of their own
    user_agent_extra="burstwatch",
)
"""A doctor does not wait: what takes this long is a finding."""

_SHORT_TIMEOUT_CONFIG: Final = _CLIENT_CONFIG.merge(
    Config(read_timeout=3, retries={"mode": "standard", "total_max_attempts": 1})
)
"""After one timeout, the other calls are made once only: 20 seconds show as much as a minute."""

_UNRECOVERABLE: Final = frozenset(
    {FailureKind.NO_CREDENTIALS, FailureKind.MISCONFIGURED, FailureKind.CLOCK_SKEW}
)
"""With these no call to AWS succeeds."""

T = TypeVar("T")


class CachedLookup(Generic[T]):
    """A value that the first caller determines; other callers wait for it, up to a timeout."""

    def __init__(self, owner: str, look_up: Callable[[], T], *, timeout_s: float = _LOOKUP_TIMEOUT_S) -> None:
        self._owner = owner
        self._look_up = look_up
        self._timeout_s = timeout_s
        self._lock = Lock()
        self._values: list[T] = []
        self._error: Exception | None = None

    def __call__(self) -> T:
        """What was found.

        Raises:
            LookupFailedError: it could not be found out.
        """
        if not self._lock.acquire(timeout=self._timeout_s):
            raise LookupFailedError(self._owner, CheckTimeoutError(f"no answer within {self._timeout_s:g} s"))
        try:
            if not self._values and self._error is None:
                self._run()
        finally:
            self._lock.release()
        if self._error is not None:
            raise LookupFailedError(self._owner, self._error)
        return self._values[0]

    def get_if_ready(self) -> T | None:
        """What was found by now, without waiting for it."""
        return self._values[0] if self._values else None

    def _run(self) -> None:
        try:
            self._values.append(self._look_up())
        except LookupFailedError as error:
            self._owner, self._error = error.owner, error.error
        except Exception as error:  # noqa: BLE001 - whoever asks is told, and it hides nothing else
            self._error = error


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Whom AWS takes these credentials for.

    ``clock_ahead_s`` is how far this machine's clock is ahead of AWS's; None if AWS returned no date.
    """

    identity: CallerIdentity
    method: str
    expires_at: datetime | None
    clock_ahead_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Every volume of the types that matter; ``failures`` say what could not be read."""

    volumes: Sequence[Volume]
    failures: Mapping[str, AwsFailure]


class DoctorContext:
    """The configuration, account and region to check; every lookup is made once."""

    def __init__(self, options: Options, environ: Mapping[str, str], *, home: Path) -> None:
        self.options = options
        self.environ = environ
        self.calls = CallCounter()
        self._home = home
        self._client_lock = Lock()
        self._clients: dict[str, Any] = {}
        self._config = _CLIENT_CONFIG
        self._exit_stack = ExitStack()
        self.session: CachedLookup[AwsSession] = CachedLookup(
            "credentials", lambda: open_aws_session(options)
        )
        self.caller: CachedLookup[Caller] = CachedLookup("credentials", self._find_caller)
        self.settings: CachedLookup[Settings] = CachedLookup("ledger", self._read_settings)
        self.now_s: CachedLookup[float] = CachedLookup("clock", self._read_clock)
        self.stacks: CachedLookup[Stacks] = CachedLookup("stack", self._find_stacks)
        self.stack_policy: CachedLookup[StackPolicy] = CachedLookup("policy", self._read_stack_policy)
        self.outputs: CachedLookup[Mapping[str, str]] = CachedLookup("stack", self._read_outputs)
        self.notify_settings: CachedLookup[Mapping[str, str]] = CachedLookup(
            "functions", self._read_notify_settings
        )
        self.policy: CachedLookup[Policy] = CachedLookup("policy", self._read_policy)
        self.ledger: CachedLookup[BindableLedger] = CachedLookup("ledger", self._open_ledger)
        self.fleet: CachedLookup[Fleet] = CachedLookup("volumes", self._read_fleet, timeout_s=FLEET_TIMEOUT_S)
        self.report: CachedLookup[PassReport] = CachedLookup(
            "telemetry", self._assess_fleet, timeout_s=FLEET_TIMEOUT_S
        )

    def close(self) -> None:
        """Let go of the ledger."""
        self._exit_stack.close()

    @property
    def region(self) -> str:
        return self.session().region_name

    @property
    def account(self) -> str:
        return self.caller().identity.account

    @property
    def partition(self) -> str:
        """What ARNs here begin with: ``aws_command``, or that of China or the government's."""
        return self.caller().identity.arn.partition("arn:")[2].partition(":")[0] or "aws"

    @property
    def stack(self) -> Deployment | None:
        """The active stack: of several, no other may flip."""
        return self.stacks().active

    @property
    def policy_source(self) -> PolicySource:
        """Where the policy comes from: the one named, else the stack's, else a file here."""
        stack = None if self._is_policy_named else self._stack_if_known()
        deployed = None
        if stack is not None:
            deployed = StackPolicySource(StackPolicyStore(self.client("ssm"), stack))
        return find_policy_source(self.options.policy, self.environ, deployed)

    @property
    def uses_endpoint_clock(self) -> bool:
        """Whether the current time is the endpoint's; this works even if other settings are invalid."""
        return self.environ.get(CLOCK) == Clock.ENDPOINT

    def policy_or_default(self) -> Policy:
        """The policy, or the default one if it cannot be used, so that the other checks can run."""
        try:
            return self.policy()
        except LookupFailedError:
            return Policy()

    def client(self, service: str) -> Any:
        """A client that does not wait long.

        Raises:
            LookupFailedError: no call can succeed, with these credentials or none.
        """
        self._check_credentials()
        return self._client(service)

    def price_client(self) -> Any:
        """A client of the Price List, which has an endpoint in another region; with the same credentials."""
        self._check_credentials()
        with self._client_lock:
            client = _botocore_session(self.session()).create_client(
                "pricing", region_name=ENDPOINT_REGION, config=self._config
            )
        botocore_hooks.install_hooks(client)
        self.calls.attach(client)
        return client

    def burstctl_command(self, *arguments: str) -> str:
        """A command of ours that can be pasted, for the same account and region."""
        context_options = {"--profile": self.options.profile, "--ledger": self.options.ledger}
        extra = [part for name, value in context_options.items() if value for part in (name, value)]
        return shlex.join(["burstctl", *arguments, *extra, *self._region_option()])

    def aws_command(self, *arguments: str) -> str:
        """A command of AWS's that can be pasted, for the same account and region."""
        profile = ["--profile", self.options.profile] if self.options.profile else []
        return shlex.join(["aws", *arguments, *profile, *self._region_option()])

    def _region_option(self) -> list[str]:
        try:
            return ["--region", self.region]
        except LookupFailedError:
            return []

    @property
    def _is_policy_named(self) -> bool:
        return is_policy_named(self.options.policy, self.environ)

    def _stack_if_known(self) -> Deployment | None:
        try:
            return self.stack
        except LookupFailedError:
            return None

    def _check_credentials(self) -> None:
        try:
            self.caller()
        except LookupFailedError as error:
            if isinstance(error.error, AwsError) and error.error.failure.kind not in _UNRECOVERABLE:
                self._config = _SHORT_TIMEOUT_CONFIG
                return  # the others may be there although this one did not answer
            raise

    def _client(self, service: str) -> Any:
        session = self.session()
        with self._client_lock:  # botocore's sessions are not for several threads
            if service not in self._clients:
                self._clients[service] = build_client(session, service, self.calls, config=self._config)
            return self._clients[service]

    def _find_caller(self) -> Caller:
        session = self.session()
        sts = self._client("sts")
        with translate_errors("sts:GetCallerIdentity"):
            response = sts.get_caller_identity()
        clock_ahead_s = _clock_ahead_s(response["ResponseMetadata"].get("HTTPHeaders", {}))
        credentials = _botocore_session(session).get_credentials()
        return Caller(
            identity=CallerIdentity(account=str(response["Account"]), arn=str(response.get("Arn", ""))),
            method=str(getattr(credentials, "method", "")),
            expires_at=getattr(credentials, "_expiry_time", None),
            clock_ahead_s=clock_ahead_s,
        )

    def _read_settings(self) -> Settings:
        ledger_override = {LEDGER: self.options.ledger} if self.options.ledger else {}
        profile = self.options.profile or self.environ.get("AWS_PROFILE")
        stack = self._stack_if_known()
        settings = Settings.from_env(
            {**self.environ, **ledger_override},
            home=self._home,
            default_ledger_id=f"{profile}-{self.region}" if profile else self.region,
            deployed=stack.ledger if stack else None,
        )
        if settings.ledger.kind is LedgerKind.DYNAMODB:
            return settings
        path = str(settings.ledger.path.absolute())
        return replace(settings, ledger=replace(settings.ledger, name=path))

    def _read_clock(self) -> float:
        if self.uses_endpoint_clock:
            return endpoint_clock(self.client("ec2").meta.endpoint_url)()
        return time()

    def _find_stacks(self) -> Stacks:
        self._check_credentials()
        stacks = find_stacks(_LockedSession(self.session(), self._client_lock, self._config), self.calls)
        if stacks.failure is not None:
            raise stacks.failure
        return stacks

    def _read_policy(self) -> Policy:
        return self.policy_source.read()

    def _read_stack_policy(self) -> StackPolicy:
        stack = self.stack
        assert stack is not None, "checked only if a stack is deployed"
        return StackPolicyStore(self.client("ssm"), stack).read()

    def _read_outputs(self) -> Mapping[str, str]:
        """What the stack calls its things; ``StackStatus`` is among them."""
        stack = self.stack
        assert stack is not None, "checked only if a stack is deployed"
        with translate_errors("cloudformation:DescribeStacks"):
            response = self.client("cloudformation").describe_stacks(StackName=stack.stack_name)["Stacks"][0]
        outputs = {output["OutputKey"]: output["OutputValue"] for output in response.get("Outputs", ())}
        return {**outputs, "StackStatus": response["StackStatus"]}

    def _read_notify_settings(self) -> Mapping[str, str]:
        """The settings of the notify function; empty if there is no active stack or no such function."""
        if self.stack is None or (notify := self.outputs().get("NotifyFunction")) is None:
            return {}
        with translate_errors("lambda:GetFunctionConfiguration"):
            response = self.client("lambda").get_function_configuration(FunctionName=notify)
        return dict(response.get("Environment", {}).get("Variables", {}))

    def _open_ledger(self) -> BindableLedger:
        """Open the ledger to read it; a missing file is not created."""
        address = self.settings().ledger
        if address.kind is LedgerKind.DYNAMODB:
            return DynamoLedger(self.client("dynamodb"), address.name, workers=WORKERS)
        if not address.path.exists():
            return self._exit_stack.enter_context(SqliteLedger.in_memory())
        if (schema := inspect_ledger_file(address.path).schema) < SCHEMA_VERSION:
            raise LedgerError(
                f"{address} has schema {schema}: it can be read once it is upgraded",
                fix="burstctl assess upgrades it",
            )
        return self._exit_stack.enter_context(SqliteLedger.open(address.path))

    def _read_fleet(self) -> Fleet:
        failures: dict[str, AwsFailure] = {}
        reader = Ec2Reader(self.client("ec2"))
        volumes = list(reader.volumes({"volume-type": VOLUME_TYPES}, report_failure=failures.__setitem__))
        return Fleet(volumes=volumes, failures=failures)

    def _assess_fleet(self) -> PassReport:
        """One pass over the fleet, as by ``burstctl assess``; a failing ledger hides no volume."""
        try:
            ledger = self.ledger()
        except LookupFailedError:
            ledger = self._exit_stack.enter_context(SqliteLedger.in_memory())
        policy = self.policy_or_default()
        services = Services(
            ec2=Ec2Reader(self.client("ec2")),
            cloudwatch=CloudWatchReader(self.client("cloudwatch"), workers=WORKERS),
            efs=EfsReader(self.client("efs")) if policy.resources.efs.watch else None,
            rds=RdsReader(self.client("rds")) if policy.resources.rds.watch else None,
            ledger=ledger,
            calls=CallCounter(),  # it would count from nothing, and ours goes on
            policy=policy,
            location=AwsLocation(region=self.region),
        )
        return assess_volumes(services, now_s=self.now_s())


class _LockedSession:
    """A session whose clients are made one at a time, and wait no longer than others here."""

    def __init__(self, session: AwsSession, lock: Lock, config: Config) -> None:
        self._session = session
        self._lock = lock
        self._config = config
        self.region_name = session.region_name

    def client(self, service_name: Any, *, config: Any, endpoint_url: Any) -> Any:
        with self._lock:
            merged_config = config.merge(self._config)
            return self._session.client(service_name, config=merged_config, endpoint_url=endpoint_url)


def _botocore_session(session: AwsSession) -> BotocoreSession:
    """The underlying botocore session, which knows the source of the credentials and when they expire."""
    return session._botocore  # noqa: SLF001 - reading them again could ask a person for a code again


def _clock_ahead_s(headers: Mapping[str, str]) -> float | None:
    """How many seconds this machine's clock is ahead of the date of an answer just received."""
    try:
        return time() - parsedate_to_datetime(headers["date"]).timestamp()
    except (KeyError, ValueError):
        return None
