"""The kinds of resources that a run creates: how each is found by its tag, and deleted.

Nothing is deleted before AWS has just said that it carries this run's tag.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from botocore.exceptions import ClientError

TAG: Final = "burstwatch:aws-check"
PREFIX: Final = "burstwatch-aws-check-"
ROLE_PATH: Final = "/burstwatch-aws-check/"
KEY_DELETION_WINDOW_DAYS: Final = 7
"""The shortest that KMS lets a key wait for its deletion; a key that waits costs nothing."""

NO_RUN: Final = ""
"""Instead of a run, for what carries no tag of a run, or is older than the run whose tag it carries."""

_RUN_ID_PATTERN: Final = re.compile(r"\d{8}t\d{6}z-[0-9a-f]{4}")
_CLOCK_TOLERANCE: Final = timedelta(minutes=5)

Client = Callable[[str], Any]
"""A client of a service, by its name."""

_NOT_FOUND_CODES: Final = frozenset(
    {
        "InvalidInstanceID.NotFound",
        "InvalidVolume.NotFound",
        "ResourceNotFound",
        "ResourceNotFoundException",
        "NotFound",
        "NotFoundException",
        "NoSuchEntity",
        "AWS.SimpleQueueService.NonExistentQueue",
        "QueueDoesNotExist",
    }
)


_ACCESS_DENIED: Final = "AccessDeniedException"
_UNREADABLE_KEY_CODES: Final = frozenset(
    {_ACCESS_DENIED, "UnsupportedOperationException", "NotFoundException"}
)
"""KMS returns these for keys of other accounts and of AWS, whose tags not everybody may read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceKind:
    """One kind of resource, of a ``service`` as IAM's actions name it.

    ``find`` yields the IDs of resources with our tag, of any run. ``run_of`` returns the run in a resource's
    tag: None if AWS does not show the resource, ``NO_RUN`` if no run can have created it. If it
    ``may_be_duplicated``, a call that was repeated because its response was lost may have created two.
    """

    name: str
    service: str
    find: Callable[[Client], Iterator[str]]
    run_of: Callable[[Client, str], str | None]
    delete: Callable[[Client, str], object]
    may_be_duplicated: bool = False


def run_of(kind: ResourceKind, client: Client, resource_id: str) -> str | None:
    """The run that a resource belongs to, ``NO_RUN`` if to none; None if AWS does not show it."""
    try:
        return kind.run_of(client, resource_id)
    except ClientError as error:
        if is_not_found(error):
            return None
        raise


def is_run_id(text: str) -> bool:
    """Whether this can be a run's ID. A tag may have any value, and the ID becomes part of a file name."""
    return _RUN_ID_PATTERN.fullmatch(text) is not None


def run_started_at(run_id: str) -> datetime:
    """When a run began, from its id."""
    return datetime.strptime(run_id[:16], "%Y%m%dt%H%M%Sz").replace(tzinfo=UTC)


def is_not_found(error: ClientError) -> bool:
    """Whether AWS reports that the resource does not exist."""
    return error.response.get("Error", {}).get("Code") in _NOT_FOUND_CODES


def make_tags(run_id: str, extra: Mapping[str, str] | None = None) -> list[dict[str, str]]:
    """What every resource of a run carries."""
    return [
        {"Key": key, "Value": value}
        for key, value in {TAG: run_id, "Name": "aws-check", **(extra or {})}.items()
    ]


def _run_in_tags(
    tag_list: Any, key: str = "Key", value: str = "Value", created_at: datetime | None = None
) -> str:
    """The run in a list of tags.

    A resource that is older than the run does not belong to it, whatever its tag.
    """
    run_id = next((str(tag[value]) for tag in tag_list or () if tag[key] == TAG), NO_RUN)
    if created_at is None or not is_run_id(run_id):
        return run_id
    return run_id if created_at >= run_started_at(run_id) - _CLOCK_TOLERANCE else NO_RUN


def _list_items(call: Callable[..., Any], items: str, **parameters: Any) -> Iterator[Any]:
    """Every item of a listing in pages."""
    token: dict[str, str] = {}
    while True:
        page = call(**parameters, **token)
        yield from page.get(items) or ()
        if not page.get("NextToken"):
            return
        token = {"NextToken": page["NextToken"]}


def _tag_filters() -> list[dict[str, Any]]:
    return [{"Name": "tag-key", "Values": [TAG]}]


def _find_instances(client: Client) -> Iterator[str]:
    for reservation in _list_items(client("ec2").describe_instances, "Reservations", Filters=_tag_filters()):
        for instance in reservation["Instances"]:
            if instance["State"]["Name"] not in ("shutting-down", "terminated"):
                yield instance["InstanceId"]


def _run_of_instance(client: Client, instance_id: str) -> str | None:
    reservations = client("ec2").describe_instances(InstanceIds=[instance_id])["Reservations"]
    instance = reservations[0]["Instances"][0] if reservations else None
    if instance is None or instance["State"]["Name"] == "terminated":
        return None
    attached_at = (mapping["Ebs"]["AttachTime"] for mapping in instance.get("BlockDeviceMappings", ()))
    return _run_in_tags(instance.get("Tags"), created_at=min((instance["LaunchTime"], *attached_at)))


def _find_volumes(client: Client) -> Iterator[str]:
    for volume in _list_items(client("ec2").describe_volumes, "Volumes", Filters=_tag_filters()):
        yield volume["VolumeId"]


def _run_of_volume(client: Client, volume_id: str) -> str | None:
    volumes = client("ec2").describe_volumes(VolumeIds=[volume_id])["Volumes"]
    return _run_in_tags(volumes[0].get("Tags"), created_at=volumes[0]["CreateTime"]) if volumes else None


def _find_alarms(client: Client) -> Iterator[str]:
    for alarm in _list_items(client("cloudwatch").describe_alarms, "MetricAlarms", AlarmNamePrefix=PREFIX):
        yield alarm["AlarmName"]


def _run_of_alarm(client: Client, name: str) -> str | None:
    cloudwatch = client("cloudwatch")
    alarms = cloudwatch.describe_alarms(AlarmNames=[name])["MetricAlarms"]
    if not alarms:
        return None
    return _run_in_tags(cloudwatch.list_tags_for_resource(ResourceARN=alarms[0]["AlarmArn"])["Tags"])


def _find_topics(client: Client) -> Iterator[str]:
    for topic in _list_items(client("sns").list_topics, "Topics"):
        if topic["TopicArn"].rpartition(":")[2].startswith(PREFIX):
            yield topic["TopicArn"]


def _run_of_topic(client: Client, arn: str) -> str | None:
    return _run_in_tags(client("sns").list_tags_for_resource(ResourceArn=arn)["Tags"])


def _find_queues(client: Client) -> Iterator[str]:
    yield from client("sqs").list_queues(QueueNamePrefix=PREFIX).get("QueueUrls", ())


def _run_of_queue(client: Client, url: str) -> str | None:
    return str(client("sqs").list_queue_tags(QueueUrl=url).get("Tags", {}).get(TAG, NO_RUN))


def _find_rules(client: Client) -> Iterator[str]:
    for rule in _list_items(client("events").list_rules, "Rules", NamePrefix=PREFIX):
        yield rule["Name"]


def _run_of_rule(client: Client, name: str) -> str | None:
    events = client("events")
    arn = events.describe_rule(Name=name)["Arn"]
    return _run_in_tags(events.list_tags_for_resource(ResourceARN=arn)["Tags"])


def _delete_rule(client: Client, name: str) -> None:
    events = client("events")
    if targets := [target["Id"] for target in events.list_targets_by_rule(Rule=name)["Targets"]]:
        events.remove_targets(Rule=name, Ids=targets)
    events.delete_rule(Name=name)


def _find_keys(client: Client) -> Iterator[str]:
    """The keys with our tag; without those whose own policy does not let the caller read their tags.

    Raises:
        ClientError: no tags could be read and a request was denied: the permission is missing.
    """
    kms = client("kms")
    marker: dict[str, str] = {}
    denied: ClientError | None = None
    can_read = False
    while True:
        page = kms.list_keys(**marker)
        for key in page["Keys"]:
            try:
                is_owned = bool(_run_of_key(kms, key["KeyId"]))
                can_read = True
            except ClientError as error:
                code = error.response["Error"]["Code"]
                if code not in _UNREADABLE_KEY_CODES or error.operation_name != "ListResourceTags":
                    raise
                denied = error if code == _ACCESS_DENIED else denied
                continue
            if is_owned:
                yield key["KeyId"]
        if not page.get("Truncated"):
            break
        marker = {"Marker": page["NextMarker"]}
    if denied is not None and not can_read:
        raise denied


def _run_of_key(kms: Any, key_id: str) -> str | None:
    tag_list = kms.list_resource_tags(KeyId=key_id)["Tags"]
    if _run_in_tags(tag_list, "TagKey", "TagValue") == NO_RUN:
        return NO_RUN
    key = kms.describe_key(KeyId=key_id)["KeyMetadata"]
    if key["KeyState"] == "PendingDeletion":
        return None
    return _run_in_tags(tag_list, "TagKey", "TagValue", created_at=key["CreationDate"])


def role_path(client: Client) -> str:
    """Where the roles of the runs of this Region are: IAM has no Regions, and a run has one."""
    return f"{ROLE_PATH}{client('ec2').meta.region_name}/"


def _find_roles(client: Client) -> Iterator[str]:
    iam = client("iam")
    for page in iam.get_paginator("list_roles").paginate(PathPrefix=role_path(client)):
        for role in page["Roles"]:
            yield role["RoleName"]


def _run_of_role(client: Client, name: str) -> str | None:
    return _run_in_tags(client("iam").list_role_tags(RoleName=name)["Tags"])


def _delete_role(client: Client, name: str) -> None:
    iam = client("iam")
    for policy in iam.list_role_policies(RoleName=name)["PolicyNames"]:
        iam.delete_role_policy(RoleName=name, PolicyName=policy)
    iam.delete_role(RoleName=name)


KINDS: Final[Mapping[str, ResourceKind]] = {
    kind.name: kind
    for kind in (
        ResourceKind(
            name="instance",
            service="ec2",
            find=_find_instances,
            run_of=_run_of_instance,
            delete=lambda client, key: client("ec2").terminate_instances(InstanceIds=[key]),
        ),
        ResourceKind(
            name="volume",
            service="ec2",
            find=_find_volumes,
            run_of=_run_of_volume,
            delete=lambda client, key: client("ec2").delete_volume(VolumeId=key),
        ),
        ResourceKind(
            name="alarm",
            service="cloudwatch",
            find=_find_alarms,
            run_of=_run_of_alarm,
            delete=lambda client, key: client("cloudwatch").delete_alarms(AlarmNames=[key]),
        ),
        ResourceKind(
            name="topic",
            service="sns",
            find=_find_topics,
            run_of=_run_of_topic,
            delete=lambda client, key: client("sns").delete_topic(TopicArn=key),
        ),
        ResourceKind(
            name="rule", service="events", find=_find_rules, run_of=_run_of_rule, delete=_delete_rule
        ),
        ResourceKind(
            name="queue",
            service="sqs",
            find=_find_queues,
            run_of=_run_of_queue,
            delete=lambda client, key: client("sqs").delete_queue(QueueUrl=key),
        ),
        ResourceKind(
            name="key",
            service="kms",
            find=_find_keys,
            run_of=lambda client, key: _run_of_key(client("kms"), key),
            delete=lambda client, key: client("kms").schedule_key_deletion(
                KeyId=key, PendingWindowInDays=KEY_DELETION_WINDOW_DAYS
            ),
            may_be_duplicated=True,
        ),
        ResourceKind(name="role", service="iam", find=_find_roles, run_of=_run_of_role, delete=_delete_role),
    )
}
"""In the order of deletion: an instance before its volumes."""
