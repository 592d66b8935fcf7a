"""The only place that builds clients and joins the core to its adapters."""

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from threading import Lock
from time import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, NoCredentialsError
from botocore.httpsession import URLLib3Session
from botocore.session import Session as BotocoreSession

from burstwatch.adapters.aws import botocore_hooks
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.aws.cloudwatch import CloudWatchReader
from burstwatch.adapters.aws.drain_metrics import DrainMetricsReader
from burstwatch.adapters.aws.ec2 import Ec2Reader
from burstwatch.adapters.aws.ec2_modify import Ec2Modifier, close_connection_after_modify
from burstwatch.adapters.aws.efs import EfsReader
from burstwatch.adapters.aws.errors import translate_errors
from burstwatch.adapters.aws.http_deadline import limit_response_time
from burstwatch.adapters.aws.rds import RdsReader
from burstwatch.adapters.aws.time_limit import TimeLimit
from burstwatch.adapters.notify.channel import AlertChannel
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.ledger.ledger import Ledger
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.policy import Policy
from burstwatch.core.text import format_instant
from burstwatch.engine.services import Services
from burstwatch.wiring.settings import CLOCK, Clock, LedgerAddress, LedgerKind, Settings, SettingsError

if TYPE_CHECKING:
    from botocore.client import BaseClient

WORKERS: Final = 8
"""Reads in parallel, to hide the latency of AWS; rate limits are kept elsewhere (``CloudWatchReader``)."""

_GC_THRESHOLD: Final = 50_000
"""Allocations between two runs of the garbage collector: a pass makes millions of objects and no cycles."""

_MAX_SKEW_S: Final = 120
"""How far this machine's clock may differ from AWS's: the ages of datapoints are compared with minutes."""
_FIRST_ERROR_STATUS: Final = 300  # as in botocore's client, which raises for 300 and above
_CLOCK_TIMEOUT_S: Final = 5  # the endpoint is the lab, on this machine or near it

_DEFAULT_CONFIG: Final = Config(
    connect_timeout=5,
    read_timeout=30,
    retries={"mode": "standard", "total_max_attempts": 5},
    max_pool_connections=WORKERS,
    user_agent_extra="burstwatch",
)

_BULK_CONFIG: Final = _DEFAULT_CONFIG.merge(Config(parameter_validation=False))
"""For calls of 500 metrics: botocore needs a fifth of the call's time to validate their 3,500 parameters."""

_NO_RETRY_CONFIG: Final = _DEFAULT_CONFIG.merge(
    Config(read_timeout=20, retries={"mode": "standard", "total_max_attempts": 1})
)
"""For calls that are sent once: after a lost response, the modification may have been made."""

_SHORT_CONFIG: Final = _DEFAULT_CONFIG.merge(
    Config(connect_timeout=3, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 2})
)
"""For information that is useful and not worth a long wait."""

_SHORT_NO_RETRY_CONFIG: Final = _SHORT_CONFIG.merge(
    Config(retries={"mode": "standard", "total_max_attempts": 1})
)
"""For reads that delay alerts."""


_LEDGER_CONFIG: Final = _DEFAULT_CONFIG.merge(Config(connect_timeout=2, read_timeout=4))
"""For the ledger of a function: after a slow call to AWS there must be time to write its outcome."""


_QUEUE_CONFIG: Final = _DEFAULT_CONFIG.merge(Config(connect_timeout=1, read_timeout=3))
"""For the queue: a retry is harmless, because the queue drops repeats and putting back is idempotent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """The longest waits of a function's clients, and the ``time_limit`` of its invocation."""

    time_limit: TimeLimit
    attempts: int
    connect_s: float = 5
    read_s: float = 8

    def apply_to(self, config: Any) -> Any:
        """The configuration of a client, with its waits and attempts limited to these."""
        attempts = min(self.attempts, config.retries["total_max_attempts"])
        return config.merge(
            Config(
                connect_timeout=min(self.connect_s, config.connect_timeout),
                read_timeout=min(self.read_s, config.read_timeout),
                retries={"mode": "standard", "total_max_attempts": attempts},
            )
        )


class BindableLedger(Ledger, Protocol):
    """A ledger that can be bound to one account and region."""

    def bind(self, origin: str) -> None:
        """Bind it to this origin; from then on another origin is refused."""
        ...


class ClockError(BurstwatchError):
    """The clock of this machine is wrong, and with it every age and forecast."""


class Session(Protocol):
    """A factory of clients: ours, or a session of boto3."""

    @property
    def region_name(self) -> str: ...

    def client(self, service_name: Any, *, config: Any, endpoint_url: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class AwsSession:
    """A session of botocore; boto3 adds nothing that is used here and takes a tenth of the start-up time."""

    _botocore: BotocoreSession
    region_name: str
    call_limits: CallLimits | None = None
    _lock: Lock = field(default_factory=Lock)
    """A session of botocore is not thread-safe, its clients are."""

    def in_region(self, region: str) -> "AwsSession":
        """The same session in another Region: what it has loaded and the credentials are shared."""
        return replace(self, region_name=region)

    def require_credentials(self) -> None:
        """Find the credentials without a call to EC2 or another service of AWS that is read.

        Raises:
            AwsError: no credentials are found, or they cannot be fetched.
        """
        with translate_errors("finding the credentials"), self._lock:
            if self._botocore.get_credentials() is None:
                raise NoCredentialsError

    def client(self, service_name: Any, *, config: Any, endpoint_url: Any) -> Any:
        if self.call_limits is not None:
            config = self.call_limits.apply_to(config)
        with self._lock:
            client = self._botocore.create_client(
                service_name, self.region_name, config=config, endpoint_url=endpoint_url
            )
        if self.call_limits is not None:
            self.call_limits.time_limit.attach(client)
        return client

    def client_with_credentials(
        self, service_name: str, *, config: Any, credentials: Mapping[str, str]
    ) -> Any:
        """A client with the ``Credentials`` from AssumeRole."""
        return self._botocore.create_client(
            service_name,
            self.region_name,
            config=config,
            aws_access_key_id=credentials["AccessKeyId"],
            aws_secret_access_key=credentials["SecretAccessKey"],
            aws_session_token=credentials["SessionToken"],
        )


def open_session(
    profile: str | None,
    region: str | None,
    *,
    last_region: str | None = None,
    call_limits: CallLimits | None = None,
) -> AwsSession:
    """Open a session as boto3 does: from options first, then the environment, then files.

    boto3 ignores AWS_REGION, unlike other AWS tools: it can be passed as ``last_region``, the last resort.

    Raises:
        SettingsError: the profile does not exist, or there is no region anywhere.
    """
    session = BotocoreSession(profile=profile)
    try:
        session.get_scoped_config()
        region = region or session.get_config_variable("region") or last_region
    except BotoCoreError as error:
        raise SettingsError(str(error), fix="check --profile, AWS_PROFILE and ~/.aws/config") from error
    if not region:
        raise SettingsError("no AWS Region", fix="give --region, set AWS_REGION, or add one to the profile")
    region = region.lower()
    session.set_config_variable("region", region)
    limit_response_time()
    botocore_hooks.use_fast_timestamps(session)
    botocore_hooks.use_strict_parser(session)
    return AwsSession(session, region, call_limits)


def build_services(
    session: Session,
    *,
    policy: Policy,
    ledger: Ledger,
    channels: Sequence[AlertChannel] = (),
    account: str | None = None,
    endpoint_url: str | None = None,
    report_progress: Callable[[int, int], None] = lambda _done, _total: None,
    clock: Clock | None = None,
    calls: CallCounter | None = None,
) -> Services:
    """Build everything that a pass needs; without a ``clock`` the caller passes the time.

    ``calls`` is for callers that have called AWS before. From now on, Python's garbage collector runs less
    often: with its default it takes a quarter of the time of a pass over a large fleet.
    """
    gc.set_threshold(_GC_THRESHOLD)
    calls = calls or CallCounter()
    ec2 = build_client(session, "ec2", calls, endpoint_url=endpoint_url)

    def cloudwatch(config: Config) -> Any:
        return build_client(session, "cloudwatch", calls, endpoint_url=endpoint_url, config=config)

    return Services(
        ec2=Ec2Reader(ec2),
        cloudwatch=CloudWatchReader(_LazyClient(lambda: cloudwatch(_BULK_CONFIG)), workers=WORKERS),  # type: ignore[arg-type]
        drain_metrics_reader=DrainMetricsReader(_LazyClient(lambda: cloudwatch(_SHORT_NO_RETRY_CONFIG))),
        # Built only when a file system or a database is read: most policies watch neither.
        efs=EfsReader(_LazyClient(lambda: build_client(session, "efs", calls, endpoint_url=endpoint_url))),
        rds=RdsReader(_LazyClient(lambda: build_client(session, "rds", calls, endpoint_url=endpoint_url))),
        ledger=ledger,
        calls=calls,
        policy=policy,
        location=AwsLocation(region=session.region_name, account=account),
        channels=channels,
        report_progress=report_progress,
        clock=_select_clock(ec2, clock),
    )


def _select_clock(client: Any, clock: Clock | None) -> Callable[[], float]:
    if clock is Clock.ENDPOINT:
        return endpoint_clock(client.meta.endpoint_url)
    if clock is Clock.WALL:
        client.meta.events.register("response-received", _check_clock_skew)
    return time


def endpoint_clock(url: str) -> Callable[[], float]:
    """The time of this endpoint, to the second; read at each call, because it may be faster than real time.

    Raises:
        AwsError: the endpoint does not answer.
        ClockError: its response has no date.
    """
    http = URLLib3Session(timeout=_CLOCK_TIMEOUT_S)

    def read() -> float:
        with translate_errors("reading the endpoint's clock"):
            response = http.send(AWSRequest(method="HEAD", url=url).prepare())
        try:
            return parsedate_to_datetime(response.headers["date"]).timestamp()
        except (KeyError, ValueError) as error:
            raise ClockError(f"{url} does not return its time", fix=f"set {CLOCK}=wall") from error

    return read


def _check_clock_skew(response_dict: dict[str, Any] | None, **_: object) -> None:
    """Compare this machine's clock with the date of a response of AWS.

    Raises:
        ClockError: they are more than two minutes apart.
    """
    if response_dict is None or response_dict["status_code"] >= _FIRST_ERROR_STATUS:
        return
    try:
        aws_s = parsedate_to_datetime(response_dict["headers"]["date"]).timestamp()
    except (KeyError, ValueError):
        return
    ahead_s = time() - aws_s
    if abs(ahead_s) > _MAX_SKEW_S:
        side = "ahead of" if ahead_s > 0 else "behind"
        raise ClockError(
            f"this machine's clock is {abs(ahead_s) / 60:,.0f} min {side} AWS's ({format_instant(aws_s)}),"
            f" more than {_MAX_SKEW_S // 60} min",
            fix="set it (for example chronyc makestep) and run again; for a lab with a time of its own, set"
            f" {CLOCK}=endpoint",
        )


@contextmanager
def open_ledger(session: Session, address: LedgerAddress) -> Iterator[BindableLedger]:
    """Open the ledger at this address; a missing file is created, a missing table is not.

    Its calls are not counted, so that the count of a pass does not depend on the kind of its ledger.

    Raises:
        LedgerError: it cannot be used; a missing table is found by the first read.
    """
    if address.kind is LedgerKind.SQLITE:
        from burstwatch.adapters.ledger.sqlite import SqliteLedger  # noqa: PLC0415 - one of two is used

        with SqliteLedger.open(address.path) as ledger:
            yield ledger
        return
    from burstwatch.adapters.ledger.dynamodb import DynamoLedger  # noqa: PLC0415 - as above

    client = build_client(session, "dynamodb", CallCounter())
    yield DynamoLedger(client, address.name, workers=WORKERS)


def build_ledger_client(session: Session) -> Any:
    """The client of a function's ledger; its calls are not counted, because they do not read AWS's state."""
    return build_client(session, "dynamodb", CallCounter(), config=_LEDGER_CONFIG)


def ledger_origin(account: str, region: str) -> str:
    """The origin to which a ledger is bound: the same for every process that shares it."""
    return f"account {account} in {region}"


def build_parameters_client(session: Session, calls: CallCounter) -> Any:
    """A client of SSM Parameter Store with short waits: what it reads can also be given as an option."""
    return build_client(session, "ssm", calls, config=_SHORT_CONFIG)


def build_topic_client(session: Session, calls: CallCounter) -> Any:
    """A client of SNS without retries: an alert that SNS does not take waits in the ledger."""
    return build_client(session, "sns", calls, config=_SHORT_NO_RETRY_CONFIG)


def build_queue_client(session: Session, calls: CallCounter) -> Any:
    """A client for flip requests with short waits: a request must be put back even in the last seconds."""
    return build_client(session, "sqs", calls, config=_QUEUE_CONFIG)


class _LazyClient:
    """A client that is built when it is first used, so that nothing waits for it before."""

    def __init__(self, build: Callable[[], Any]) -> None:
        self._build = build
        self._built: Any = None
        self._lock = Lock()

    def __getattr__(self, name: str) -> Any:
        with self._lock:
            self._built = self._built or self._build()
        return getattr(self._built, name)


def build_modifier(session: Session, calls: CallCounter, *, endpoint_url: str | None = None) -> Ec2Modifier:
    """Build what modifies volumes; its client is built when the first volume is modified."""

    def build() -> Any:
        client = build_client(session, "ec2", calls, endpoint_url=endpoint_url, config=_NO_RETRY_CONFIG)
        close_connection_after_modify(client)
        return client

    return Ec2Modifier(_LazyClient(build))  # type: ignore[arg-type]


def build_client(
    session: Session,
    service: Any,
    calls: CallCounter,
    *,
    endpoint_url: str | None = None,
    config: Config = _DEFAULT_CONFIG,
) -> Any:
    """Build a client with explicit timeouts and retries, whose calls are counted.

    Raises:
        SettingsError: the AWS configuration has an invalid value.
    """
    try:
        client: BaseClient = session.client(service, config=config, endpoint_url=endpoint_url)
    except (BotoCoreError, ValueError) as error:
        raise SettingsError(str(error), fix="correct the AWS configuration or AWS_ENDPOINT_URL") from error
    botocore_hooks.install_hooks(client)
    calls.attach(client)
    return client


def build_client_with_credentials(
    session: AwsSession, service: str, calls: CallCounter, credentials: Mapping[str, str]
) -> Any:
    """Build a client with the credentials of an assumed role, whose calls are counted."""
    client = session.client_with_credentials(service, config=_DEFAULT_CONFIG, credentials=credentials)
    calls.attach(client)
    return client


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerIdentity:
    """The identity of the caller: the ID of the account, and the name of the user or role."""

    account: str
    arn: str


def get_caller_identity(session: Session, calls: CallCounter) -> CallerIdentity:
    """The identity of these credentials; it needs no permission, and waits briefly if AWS is unreachable.

    Raises:
        AwsError: the identity could not be read.
    """
    with translate_errors("sts:GetCallerIdentity"):
        response = build_client(session, "sts", calls, config=_SHORT_CONFIG).get_caller_identity()
        return CallerIdentity(account=str(response["Account"]), arn=str(response.get("Arn", "")))


def build_channels(session: Session, settings: Settings, calls: CallCounter) -> list[AlertChannel]:
    """Build the alert channels that the settings name."""
    channels: list[AlertChannel] = []
    if settings.topic_arn:
        from burstwatch.adapters.notify.sns import SnsChannel  # noqa: PLC0415 - most runs of burstctl send nothing

        channels.append(SnsChannel(build_topic_client(session, calls), settings.topic_arn))
    if settings.slack_webhook:
        from burstwatch.adapters.notify.slack import SlackChannel  # noqa: PLC0415 - as above

        channels.append(SlackChannel(settings.slack_webhook))
    return channels
