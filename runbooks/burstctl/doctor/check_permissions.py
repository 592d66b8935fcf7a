"""Permissions: reads are tried with the smallest request, a modification by dry run; the rest is simulated.

Nothing is ever done to find out whether it may be done.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from burstctl.doctor.check_heartbeat import TICK_KEYS
from burstctl.doctor.context import DoctorContext
from burstctl.doctor.finding import (
    Finding,
    LookupFailedError,
    broken,
    from_error,
    from_failure,
    ok,
    skipped,
    warning,
)
from burstctl.doctor.iam_simulation import PermissionSimulation, SimulationOutcome, simulate
from burstwatch.adapters.aws.ec2_modify import DryRunAllowed, Ec2Modifier, Refused
from burstwatch.adapters.aws.errors import AwsError, FailureKind, translate_errors
from burstwatch.adapters.policy.deployments import DEPLOYMENTS_PATH
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.resource_type import ResourceType
from burstwatch.wiring.settings import LedgerKind

ALLOWED_BY_CALL: Final = "allowed, as tried"
ALLOWED_BY_SIMULATION: Final = "allowed by IAM's simulation, which ignores session and resource policies"
ALLOWED_BY_DRY_RUN: Final = "allowed, according to a dry run"

_ANY_VOLUME: Final = "vol-00000000000000000"
_ANY_DATABASE: Final = "burstwatch-doctor"
_LEDGER_WRITES: Final = (
    "dynamodb:PutItem",
    "dynamodb:UpdateItem",
    "dynamodb:DeleteItem",
    "dynamodb:ConditionCheckItem",
)
_DRY_RUN_TARGET: Final = Configuration(volume_type=VolumeType.GP3, iops=3_000, throughput_mib_s=125)


class Importance(StrEnum):
    """How bad it is to lack a permission."""

    REQUIRED = "always"
    RECOMMENDED = "sometimes"
    OPTIONAL = "hardly"


@dataclass(frozen=True, slots=True)
class Permission:
    """An action, how much it is needed, and what for."""

    action: str
    importance: Importance
    purpose: str

    def missing_finding(self, reason: str, fix: str) -> Finding:
        """What it means not to have it."""
        summary = f"{reason}; it is needed for {self.purpose}"
        match self.importance:
            case Importance.REQUIRED:
                return broken(summary, subject=self.action, fix=fix)
            case Importance.RECOMMENDED:
                return warning(summary, subject=self.action, fix=fix)
            case Importance.OPTIONAL:
                return skipped(f"{reason}; without it {self.purpose}", subject=self.action, fix=fix)


Attempt = Callable[[DoctorContext], Any]


def _ec2_call(operation: str) -> Attempt:
    return lambda context: getattr(context.client("ec2"), operation)(MaxResults=5)


def _describe_instance_type(context: DoctorContext) -> Any:
    """One type; if the region does not have it, the response is empty."""
    filters = [{"Name": "instance-type", "Values": ["t3.micro"]}]
    return context.client("ec2").describe_instance_types(MaxResults=5, Filters=filters)


def _read_metric(context: DoctorContext) -> Any:
    """One metric, for a hundred-thousandth of a dollar; of a volume that need not be there."""
    end = datetime.fromtimestamp(context.now_s(), tz=UTC)
    metric = {
        "Namespace": "AWS/EBS",
        "MetricName": "BurstBalance",
        "Dimensions": [{"Name": "VolumeId", "Value": _ANY_VOLUME}],
    }
    return context.client("cloudwatch").get_metric_data(
        StartTime=end - timedelta(minutes=5),
        EndTime=end,
        MetricDataQueries=[{"Id": "m0", "MetricStat": {"Metric": metric, "Period": 60, "Stat": "Minimum"}}],
    )


def _read_price(context: DoctorContext) -> Any:
    return context.price_client().get_products(ServiceCode="AmazonEC2", MaxResults=1)


def _list_deployments(context: DoctorContext) -> Any:
    return context.client("ssm").get_parameters_by_path(Path=DEPLOYMENTS_PATH, MaxResults=1)


READS: Final[Sequence[tuple[Permission, Attempt]]] = (
    (
        Permission("ec2:DescribeVolumes", Importance.REQUIRED, "every description of the volumes"),
        _ec2_call("describe_volumes"),
    ),
    (
        Permission("ec2:DescribeVolumesModifications", Importance.REQUIRED, "volumes that are being changed"),
        _ec2_call("describe_volumes_modifications"),
    ),
    (
        Permission(
            "ec2:DescribeInstances", Importance.REQUIRED, "distinguishing a stopped instance from a fault"
        ),
        _ec2_call("describe_instances"),
    ),
    (
        Permission("cloudwatch:GetMetricData", Importance.REQUIRED, "every burst balance"),
        _read_metric,
    ),
    (
        Permission(
            "ec2:DescribeInstanceTypes", Importance.RECOMMENDED, "flips and advice: what an instance allows"
        ),
        _describe_instance_type,
    ),
    (
        Permission(
            "ssm:GetParametersByPath", Importance.RECOMMENDED, "finding a deployed stack and its ledger"
        ),
        _list_deployments,
    ),
    (
        Permission("pricing:GetProducts", Importance.OPTIONAL, "advice uses the built-in prices"),
        _read_price,
    ),
)
"""The reads that any command may need, each with the smallest request that requires it."""

READS_OF_KINDS: Final[Mapping[ResourceType, Sequence[tuple[Permission, Attempt]]]] = {
    ResourceType.EFS: (
        (
            Permission(
                "elasticfilesystem:DescribeFileSystems", Importance.REQUIRED, "watching EFS file systems"
            ),
            lambda context: context.client("efs").describe_file_systems(MaxItems=1),
        ),
    ),
    ResourceType.RDS: (
        (
            Permission("rds:DescribeDBInstances", Importance.REQUIRED, "watching RDS databases"),
            lambda context: context.client("rds").describe_db_instances(MaxRecords=20),
        ),
        (
            Permission(
                "rds:DescribeValidDBInstanceModifications",
                Importance.OPTIONAL,
                "the advice on a database does not show what AWS allows",
            ),
            lambda context: context.client("rds").describe_valid_db_instance_modifications(
                DBInstanceIdentifier=_ANY_DATABASE
            ),
        ),
    ),
}
"""The reads of the kinds that the policy watches, besides those above."""


def check_permissions(context: DoctorContext) -> Iterator[Finding]:
    """Each permission that operators need; all at once, because each call may take long."""
    parts = (
        _check_ledger_permissions,
        _check_policy_permissions,
        _check_topic_permission,
        _check_modify_permission,
    )
    watched = context.policy_or_default().resources.watched
    reads = [*READS, *(read for kind in watched for read in READS_OF_KINDS.get(kind, ()))]
    with ThreadPoolExecutor(len(reads) + len(parts), thread_name_prefix="permission") as pool:
        read_results = [pool.submit(_attempt, context, *read_permission) for read_permission in reads]
        part_results = [pool.submit(lambda part: list(part(context)), part) for part in parts]
        for read_result in read_results:
            yield read_result.result()
        for part_result in part_results:
            yield from part_result.result()


def _attempt(context: DoctorContext, permission: Permission, attempt: Attempt) -> Finding:
    """Make the call; a response that the resource does not exist proves the permission, too."""
    try:
        with translate_errors(permission.action):
            attempt(context)
    except AwsError as error:
        match error.failure.kind:
            case FailureKind.REFUSED:
                return permission.missing_finding(error.failure.message, error.failure.next_step)
            case FailureKind.NOT_FOUND:
                return ok(ALLOWED_BY_CALL, subject=permission.action)
            case _:
                return from_failure(error.failure)
    return ok(ALLOWED_BY_CALL, subject=permission.action)


def _check_ledger_permissions(context: DoctorContext) -> Iterator[Finding]:
    try:
        address = context.settings().ledger
    except LookupFailedError:
        return
    if address.kind is not LedgerKind.DYNAMODB:
        return
    key = TICK_KEYS[0]
    reads: Mapping[str, Attempt] = {
        "dynamodb:GetItem": lambda p: p.client("dynamodb").get_item(TableName=address.name, Key=key),
        "dynamodb:BatchGetItem": lambda p: p.client("dynamodb").batch_get_item(
            RequestItems={address.name: {"Keys": [key]}}
        ),
        "dynamodb:Query": lambda p: p.client("dynamodb").query(
            TableName=address.name,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": "doctor"}},  # there is nothing, so it costs the least
        ),
    }
    for action, attempt in reads.items():
        yield _attempt(
            context, Permission(action, Importance.REQUIRED, "reading the stack's ledger"), attempt
        )
    writes = (
        Permission(write_action, Importance.RECOMMENDED, "holds, flips and releases from here")
        for write_action in _LEDGER_WRITES
    )
    resource = _arn(context, "dynamodb", f"table/{address.name}")
    yield from _simulate_permissions(context, list(writes), resource)


def _check_policy_permissions(context: DoctorContext) -> Iterator[Finding]:
    try:
        stack = context.stack
    except LookupFailedError:
        return
    if stack is None:
        return
    read = Permission("ssm:GetParameters", Importance.REQUIRED, "reading the stack's policy")
    yield _attempt(context, read, lambda p: p.client("ssm").get_parameters(Names=[stack.policy]))
    writes = [
        Permission(action, Importance.OPTIONAL, "burstctl policy push does not work from here")
        for action in ("ssm:PutParameter", "ssm:DeleteParameter")
    ]
    yield from _simulate_permissions(context, writes, _arn(context, "ssm", f"parameter{stack.policy}-pushed"))


def _check_topic_permission(context: DoctorContext) -> Iterator[Finding]:
    try:
        topic_arn = context.settings().topic_arn
    except LookupFailedError:
        return
    if topic_arn is not None:
        publish = Permission("sns:Publish", Importance.RECOMMENDED, "the alerts of a watch here")
        yield from _simulate_permissions(context, [publish], topic_arn)


def _check_modify_permission(doctor_context: DoctorContext) -> Iterator[Finding]:
    """Check by a dry run on a volume that opted in; without such a volume, by simulation with the tag."""
    key, value = doctor_context.policy_or_default().mode.opt_in_tag
    try:
        opted_in = [volume for volume in doctor_context.fleet().volumes if volume.tags.get(key) == value]
        flips_from_here = doctor_context.stack is None
    except LookupFailedError as error:
        yield skipped(f"unknown; see {error.owner}", subject="ec2:ModifyVolume")
        return
    permission = Permission(
        "ec2:ModifyVolume",
        Importance.RECOMMENDED if flips_from_here and opted_in else Importance.OPTIONAL,
        "burstctl flip, and watch --act"
        if flips_from_here and opted_in
        else "burstctl flip does not work from here"
        + ("" if flips_from_here else "; the stack flips by a role of its own"),
    )
    if opted_in:
        yield _dry_run(doctor_context, permission, best_dry_run_volume(opted_in))
        return
    request_context = {f"ec2:ResourceTag/{key}": value, f"aws:ResourceTag/{key}": value}
    resource = _arn(doctor_context, "ec2", f"volume/{_ANY_VOLUME}")
    why_not_tried = f"no volume carries the opt-in tag {key}={value}, so no dry run is possible"
    yield from _simulate_permissions(
        doctor_context, [permission], resource, request_context, why_not_tried=why_not_tried
    )


def best_dry_run_volume(volumes: Iterable[Volume]) -> Volume:
    """The volume with the most conclusive dry run: one for which only a permission could be missing."""
    return min(
        volumes,
        key=lambda volume: (
            volume.managed_by is not None,
            volume.multi_attach_enabled,
            not volume.is_gp2,
            volume.volume_id,
        ),
    )


def _dry_run(context: DoctorContext, permission: Permission, volume: Volume) -> Finding:
    answer = Ec2Modifier(context.client("ec2")).modify(volume.volume_id, _DRY_RUN_TARGET, dry_run=True)
    if isinstance(answer, DryRunAllowed):
        return ok(f"{ALLOWED_BY_DRY_RUN} on {volume.volume_id}", subject=permission.action)
    if not isinstance(answer, Refused):
        return skipped("unknown: AWS did not answer a dry run", subject=permission.action)
    failure = answer.failure
    if failure.code == "UnauthorizedOperation":
        return permission.missing_finding(f"{failure.message}, according to a dry run", failure.next_step)
    if failure.kind in (FailureKind.REFUSED, FailureKind.NOT_FOUND, FailureKind.BROKEN):
        summary = f"not known: to a dry run on {volume.volume_id} AWS says {failure.message} ({failure.code})"
        return skipped(summary, subject=permission.action, fix=failure.next_step)
    return from_failure(failure)


def _simulate_permissions(
    doctor_context: DoctorContext,
    permissions: Sequence[Permission],
    resource: str,
    request_context: Mapping[str, str] | None = None,
    *,
    why_not_tried: str = "it cannot be tried without doing it",
) -> Iterator[Finding]:
    actions = [item.action for item in permissions]
    try:
        answers = simulate(doctor_context, actions, resource, request_context=request_context)
    except (AwsError, LookupFailedError) as error:
        yield from_error(error.error if isinstance(error, LookupFailedError) else error)
        return
    for permission in permissions:
        yield judge_simulation(permission, answers[permission.action], why_not_tried=why_not_tried)


def judge_simulation(permission: Permission, result: PermissionSimulation, *, why_not_tried: str) -> Finding:
    """Never a false green: what IAM does not say is not known."""
    match result.outcome:
        case SimulationOutcome.ALLOWED:
            return ok(ALLOWED_BY_SIMULATION, subject=permission.action)
        case SimulationOutcome.DENIED:
            reason = f"not allowed by IAM's simulation: {result.reason}"
            return permission.missing_finding(reason, f"grant {permission.action}, if it is needed")
        case SimulationOutcome.UNKNOWN:
            summary = f"not known: {why_not_tried}, and it cannot be simulated ({result.reason})"
            return skipped(
                summary, subject=permission.action, fix="grant iam:SimulatePrincipalPolicy to find out"
            )


def _arn(context: DoctorContext, service: str, resource: str) -> str:
    return f"arn:{context.partition}:{service}:{context.region}:{context.account}:{resource}"
