"""Permissions: what only reads is tried, the smallest way; a modification by dry run; the rest is simulated.

Nothing is ever done to find out whether it may be done.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from burstctl.doctor.check_heartbeat import TICK_KEYS
from burstctl.doctor.context import Patient
from burstctl.doctor.finding import (
    Finding,
    UnknownError,
    broken,
    of_error,
    of_failure,
    ok,
    skipped,
    warning,
)
from burstctl.doctor.iam_simulation import Answer, Simulated, simulate
from burstwatch.adapters.aws.ec2_modify import Allowed, Ec2Modifier, Refused
from burstwatch.adapters.aws.errors import AwsError, FailureKind, explained
from burstwatch.adapters.policy.deployments import PATH
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ebs.volume import Volume
from burstwatch.wiring.settings import LedgerKind

TRIED: Final = "allowed, as tried"
SIMULATED: Final = "allowed, says IAM's simulation, which sees no policies of sessions and resources"
DRY_RUN: Final = "allowed, says AWS to a dry run"

_PAGE: Final = "README.md"
_ANY_VOLUME: Final = "vol-00000000000000000"
_LEDGER_WRITES: Final = (
    "dynamodb:PutItem",
    "dynamodb:UpdateItem",
    "dynamodb:DeleteItem",
    "dynamodb:ConditionCheckItem",
)
_TARGET: Final = Configuration(volume_type=VolumeType.GP3, iops=3_000, throughput_mib_s=125)


class Need(StrEnum):
    """How bad it is to lack a permission."""

    ALWAYS = "always"
    SOMETIMES = "sometimes"
    HARDLY = "hardly"


@dataclass(frozen=True, slots=True)
class Permission:
    """An action, how much it is needed, and what for."""

    action: str
    need: Need
    purpose: str

    def lacking(self, because: str, fix: str) -> Finding:
        """What it means not to have it."""
        seen = f"{because}; it is needed for {self.purpose}"
        match self.need:
            case Need.ALWAYS:
                return broken(seen, about=self.action, fix=fix, page=_PAGE)
            case Need.SOMETIMES:
                return warning(seen, about=self.action, fix=fix, page=_PAGE)
            case Need.HARDLY:
                return skipped(f"{because}; without it {self.purpose}", about=self.action, fix=fix)


Try = Callable[[Patient], Any]


def _ec2(operation: str) -> Try:
    return lambda patient: getattr(patient.client("ec2"), operation)(MaxResults=5)


def _describe_a_type(patient: Patient) -> Any:
    """One type; where the region does not have it, the answer is empty."""
    only = [{"Name": "instance-type", "Values": ["t3.micro"]}]
    return patient.client("ec2").describe_instance_types(MaxResults=5, Filters=only)


def _read_a_metric(patient: Patient) -> Any:
    """One metric, for a hundred-thousandth of a dollar; of a volume that need not be there."""
    end = datetime.fromtimestamp(patient.now_s(), tz=UTC)
    metric = {
        "Namespace": "AWS/EBS",
        "MetricName": "BurstBalance",
        "Dimensions": [{"Name": "VolumeId", "Value": _ANY_VOLUME}],
    }
    return patient.client("cloudwatch").get_metric_data(
        StartTime=end - timedelta(minutes=5),
        EndTime=end,
        MetricDataQueries=[{"Id": "m0", "MetricStat": {"Metric": metric, "Period": 60, "Stat": "Minimum"}}],
    )


def _read_a_price(patient: Patient) -> Any:
    return patient.price_client().get_products(ServiceCode="AmazonEC2", MaxResults=1)


def _list_deployments(patient: Patient) -> Any:
    return patient.client("ssm").get_parameters_by_path(Path=PATH, MaxResults=1)


READS: Final[Sequence[tuple[Permission, Try]]] = (
    (
        Permission("ec2:DescribeVolumes", Need.ALWAYS, "every look at the volumes"),
        _ec2("describe_volumes"),
    ),
    (
        Permission("ec2:DescribeVolumesModifications", Need.ALWAYS, "volumes that are being changed"),
        _ec2("describe_volumes_modifications"),
    ),
    (
        Permission("ec2:DescribeInstances", Need.ALWAYS, "telling a stopped instance from a fault"),
        _ec2("describe_instances"),
    ),
    (
        Permission("cloudwatch:GetMetricData", Need.ALWAYS, "every burst balance"),
        _read_a_metric,
    ),
    (
        Permission("ec2:DescribeInstanceTypes", Need.SOMETIMES, "flips and advice: what an instance allows"),
        _describe_a_type,
    ),
    (
        Permission("ssm:GetParametersByPath", Need.SOMETIMES, "finding a deployed stack and its ledger"),
        _list_deployments,
    ),
    (
        Permission("pricing:GetProducts", Need.HARDLY, "advice reckons with the built-in prices"),
        _read_a_price,
    ),
)
"""What every desk may be asked for, with the smallest request that needs it."""


def check_permissions(patient: Patient) -> Iterator[Finding]:
    """Each permission that a desk needs, by README's table; all at once, as each may take its time."""
    parts = (_of_the_ledger, _of_the_policy, _of_the_topic, _to_modify)
    with ThreadPoolExecutor(len(READS) + len(parts), thread_name_prefix="permission") as pool:
        reads = [pool.submit(_try, patient, *each) for each in READS]
        others = [pool.submit(lambda part: list(part(patient)), part) for part in parts]
        for read in reads:
            yield read.result()
        for other in others:
            yield from other.result()


def _try(patient: Patient, permission: Permission, attempt: Try) -> Finding:
    """Make the call; an answer that it is not there is an answer to whoever may ask."""
    try:
        with explained(permission.action):
            attempt(patient)
    except AwsError as error:
        match error.failure.kind:
            case FailureKind.REFUSED:
                return permission.lacking(error.failure.message, error.failure.next_step)
            case FailureKind.NOT_FOUND:
                return ok(TRIED, about=permission.action)
            case _:
                return of_failure(error.failure)
    return ok(TRIED, about=permission.action)


def _of_the_ledger(patient: Patient) -> Iterator[Finding]:
    try:
        address = patient.settings().ledger
    except UnknownError:
        return
    if address.kind is not LedgerKind.DYNAMODB:
        return
    key = TICK_KEYS[0]
    reads: Mapping[str, Try] = {
        "dynamodb:GetItem": lambda p: p.client("dynamodb").get_item(TableName=address.place, Key=key),
        "dynamodb:BatchGetItem": lambda p: p.client("dynamodb").batch_get_item(
            RequestItems={address.place: {"Keys": [key]}}
        ),
        "dynamodb:Query": lambda p: p.client("dynamodb").query(
            TableName=address.place,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": "doctor"}},  # there is nothing, so it costs the least
        ),
    }
    for action, attempt in reads.items():
        yield _try(patient, Permission(action, Need.ALWAYS, "reading the stack's ledger"), attempt)
    writes = (
        Permission(each, Need.SOMETIMES, "holds, flips and releases from here") for each in _LEDGER_WRITES
    )
    resource = _arn(patient, "dynamodb", f"table/{address.place}")
    yield from _simulated(patient, list(writes), resource)


def _of_the_policy(patient: Patient) -> Iterator[Finding]:
    try:
        stack = patient.stack
    except UnknownError:
        return
    if stack is None:
        return
    read = Permission("ssm:GetParameters", Need.ALWAYS, "reading the stack's policy")
    yield _try(patient, read, lambda p: p.client("ssm").get_parameters(Names=[stack.policy]))
    writes = [
        Permission(action, Need.HARDLY, "burstctl policy push does not work from here")
        for action in ("ssm:PutParameter", "ssm:DeleteParameter")
    ]
    yield from _simulated(patient, writes, _arn(patient, "ssm", f"parameter{stack.policy}-pushed"))


def _of_the_topic(patient: Patient) -> Iterator[Finding]:
    try:
        topic_arn = patient.settings().topic_arn
    except UnknownError:
        return
    if topic_arn is not None:
        publish = Permission("sns:Publish", Need.SOMETIMES, "the alerts of a watch here")
        yield from _simulated(patient, [publish], topic_arn)


def _to_modify(patient: Patient) -> Iterator[Finding]:
    """By dry run on a volume that opted in; where there is none, by simulation of one that has the tag."""
    key, value = patient.policy_or_default().mode.opt_in_tag
    try:
        opted_in = [each for each in patient.fleet().volumes if each.tags.get(key) == value]
        does_flip = patient.stack is None
    except UnknownError as error:
        yield skipped(f"not known, because of what is said at {error.owner}", about="ec2:ModifyVolume")
        return
    permission = Permission(
        "ec2:ModifyVolume",
        Need.SOMETIMES if does_flip and opted_in else Need.HARDLY,
        "burstctl flip, and watch --act"
        if does_flip and opted_in
        else "burstctl flip does not work from here"
        + ("" if does_flip else "; the stack flips by a role of its own"),
    )
    if opted_in:
        yield _dry_run(patient, permission, best_to_try(opted_in))
        return
    context = {f"ec2:ResourceTag/{key}": value, f"aws:ResourceTag/{key}": value}
    resource = _arn(patient, "ec2", f"volume/{_ANY_VOLUME}")
    untried = f"no volume carries the opt-in tag {key}={value}, so there is none for a dry run"
    yield from _simulated(patient, [permission], resource, context, untried=untried)


def best_to_try(volumes: Iterable[Volume]) -> Volume:
    """The volume whose dry run says most: one that nothing but a permission stands in the way of."""
    return min(
        volumes,
        key=lambda each: (each.managed_by is not None, each.multi_attached, not each.is_gp2, each.volume_id),
    )


def _dry_run(patient: Patient, permission: Permission, volume: Volume) -> Finding:
    answer = Ec2Modifier(patient.client("ec2")).modify(volume.volume_id, _TARGET, dry_run=True)
    if isinstance(answer, Allowed):
        return ok(f"{DRY_RUN} on {volume.volume_id}", about=permission.action)
    if not isinstance(answer, Refused):
        return skipped("not known: AWS did not answer a dry run", about=permission.action)
    failure = answer.failure
    if failure.code == "UnauthorizedOperation":
        return permission.lacking(f"{failure.message}, says AWS to a dry run", failure.next_step)
    if failure.kind in (FailureKind.REFUSED, FailureKind.NOT_FOUND, FailureKind.BROKEN):
        seen = f"not known: to a dry run on {volume.volume_id} AWS says {failure.message} ({failure.code})"
        return skipped(seen, about=permission.action, fix=failure.next_step)
    return of_failure(failure)


def _simulated(
    patient: Patient,
    permissions: Sequence[Permission],
    resource: str,
    context: Mapping[str, str] | None = None,
    *,
    untried: str = "to try it is to do it",
) -> Iterator[Finding]:
    actions = [each.action for each in permissions]
    try:
        answers = simulate(patient, actions, resource, context=context)
    except (AwsError, UnknownError) as error:
        yield of_error(error.error if isinstance(error, UnknownError) else error)
        return
    for permission in permissions:
        yield judge_simulation(permission, answers[permission.action], untried=untried)


def judge_simulation(permission: Permission, simulated: Simulated, *, untried: str) -> Finding:
    """Never a false green: what IAM does not say is not known."""
    match simulated.answer:
        case Answer.ALLOWED:
            return ok(SIMULATED, about=permission.action)
        case Answer.DENIED:
            because = f"not allowed, says IAM's simulation: {simulated.because}"
            return permission.lacking(because, f"grant {permission.action}, if it is wanted")
        case Answer.UNKNOWN:
            seen = f"not known: {untried}, and it cannot be simulated ({simulated.because})"
            return skipped(seen, about=permission.action, fix="grant iam:SimulatePrincipalPolicy to find out")


def _arn(patient: Patient, service: str, resource: str) -> str:
    return f"arn:{patient.partition}:{service}:{patient.region}:{patient.account}:{resource}"
