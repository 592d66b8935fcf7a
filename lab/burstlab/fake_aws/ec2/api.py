"""The EC2 calls a watchdog makes, answered from the fleet as EC2 would."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final
from xml.sax.saxutils import escape

from burstlab.fake_aws.ec2.attach import attach_volume, detach_volume
from burstlab.fake_aws.ec2.create import (
    create_volume,
    delete_volume,
    run_instances,
    terminate_instances,
)
from burstlab.fake_aws.ec2.instance_types import describe_instance_types
from burstlab.fake_aws.ec2.instances import (
    describe_instances,
    modify_instance_attribute,
    monitor_instances,
    start_instances,
    stop_instances,
    unmonitor_instances,
)
from burstlab.fake_aws.ec2.modify import describe_modifications, modify_volume
from burstlab.fake_aws.ec2.query import (
    MAX_PAGE,
    find_volumes,
    format_flag,
    list_volumes,
    matches,
    paginate,
    parse_filters,
    parse_list,
    parse_structures,
    split_filters,
)
from burstlab.fake_aws.ec2.session_policy import Policy, check_modify_allowed
from burstlab.fake_aws.protocols import Call, Response, ec2_response, parse_form
from burstlab.model.aws_error import AwsError, iso
from burstlab.model.describe import TYPES_WITHOUT_IOPS
from burstlab.model.fleet import LabFleet
from burstlab.model.simulated_volume import SimulatedVolume
from burstlab.model.volume import Attachment

_ACTIONS_BY_INSTANCE: Final = (
    "DescribeInstances",
    "StartInstances",
    "StopInstances",
    "MonitorInstances",
    "UnmonitorInstances",
    "ModifyInstanceAttribute",
)
"""The calls that moto serves for instances that only it has."""


class Ec2Api:
    """Serves calls about the fleet's volumes and instances; moto serves the others."""

    def __init__(self, fleet: LabFleet, sessions: Mapping[str, Sequence[Policy]] | None = None) -> None:
        self._fleet = fleet
        self._responses_by_token: dict[tuple[str, str], str] = {}
        self._sessions = {} if sessions is None else sessions
        self._actions: dict[str, Callable[[dict[str, str]], str]] = {
            "DescribeVolumes": self._describe_volumes,
            "DescribeVolumesModifications": partial(describe_modifications, fleet),
            "DescribeInstances": partial(describe_instances, fleet),
            "DescribeInstanceTypes": describe_instance_types,
            "ModifyVolume": partial(modify_volume, fleet),
            "AttachVolume": partial(attach_volume, fleet),
            "DetachVolume": partial(detach_volume, fleet),
            "CreateVolume": partial(create_volume, fleet),
            "DeleteVolume": partial(delete_volume, fleet),
            "RunInstances": partial(run_instances, fleet),
            "TerminateInstances": partial(terminate_instances, fleet),
            "StartInstances": partial(start_instances, fleet),
            "StopInstances": partial(stop_instances, fleet),
            "MonitorInstances": partial(monitor_instances, fleet),
            "UnmonitorInstances": partial(unmonitor_instances, fleet),
            "ModifyInstanceAttribute": partial(modify_instance_attribute, fleet),
            "CreateTags": self._create_tags,
            "DeleteTags": self._delete_tags,
        }

    def handles(self, call: Call) -> bool:
        if call.action not in self._actions or call.region != self._fleet.settings.region:
            return False
        if call.action in ("CreateTags", "DeleteTags"):
            return any(
                self._is_known(resource) for resource in parse_list(parse_form(call.body), "ResourceId")
            )
        if call.action in _ACTIONS_BY_INSTANCE:
            parameters = parse_form(call.body)
            instance_ids = parse_list(parameters, "InstanceId") or [parameters.get("InstanceId", "")]
            return instance_ids == [""] or any(self._is_known(instance_id) for instance_id in instance_ids)
        return True

    def handle(self, call: Call) -> Response:
        parameters = parse_form(call.body)
        if self._fleet.settings.page_latency_s and "MaxResults" in parameters:
            time.sleep(self._fleet.settings.page_latency_s)
        with self._fleet.lock:
            self._fleet.changes_in_progress()  # a volume being modified is shown as it is now
            if call.action == "ModifyVolume" and call.access_key in self._sessions:
                check_modify_allowed(self._fleet, self._sessions[call.access_key], parameters)
            return ec2_response(call.action, self._run_idempotently(call.action, parameters))

    def _run_idempotently(self, action: str, parameters: dict[str, str]) -> str:
        """The answer; the second request with a ClientToken gets that of the first and creates nothing."""
        token = parameters.get("ClientToken")
        if token is None:
            return self._actions[action](parameters)
        response = self._responses_by_token.get((action, token))
        if response is None:
            response = self._responses_by_token[action, token] = self._actions[action](parameters)
        return response

    def _describe_volumes(self, parameters: dict[str, str]) -> str:
        volume_ids = parse_list(parameters, "VolumeId")
        requested_filters = parse_filters(parameters, _VOLUME_FILTERS)
        if volume_ids and "MaxResults" in parameters:
            raise AwsError(
                "InvalidParameterCombination",
                "The parameter volumeSet cannot be used with the parameter maxResults",
            )
        volumes = (
            find_volumes(self._fleet, volume_ids) if volume_ids else list_volumes(self._fleet, parameters)
        )
        filters_before_page, filters_after_page = split_filters(requested_filters, self._fleet.settings)
        matching = [
            candidate for candidate in volumes if matches(candidate, filters_before_page, _VOLUME_FILTERS)
        ]
        page_volumes, token = paginate(
            matching, parameters, max_items=MAX_PAGE, number=lambda volume: volume.number
        )
        page_volumes = [
            candidate for candidate in page_volumes if matches(candidate, filters_after_page, _VOLUME_FILTERS)
        ]
        items = "".join(_volume_xml(volume, self._fleet.first_zone) for volume in page_volumes)
        return f"<volumeSet>{items}</volumeSet>{token}"

    def _create_tags(self, parameters: dict[str, str]) -> str:
        tags = {tag["Key"]: tag.get("Value", "") for tag in parse_structures(parameters, "Tag")}
        for resource_tags in self._tags_of_resources(parameters):
            resource_tags.update(tags)
        return "<return>true</return>"

    def _delete_tags(self, parameters: dict[str, str]) -> str:
        """A tag without a value is deleted whatever its value; without tags, all are deleted."""
        requested_tags = parse_structures(parameters, "Tag")
        for resource_tags in self._tags_of_resources(parameters):
            for key, value in list(resource_tags.items()):
                if not requested_tags or any(
                    tag["Key"] == key and tag.get("Value", value) == value for tag in requested_tags
                ):
                    del resource_tags[key]
        return "<return>true</return>"

    def _tags_of_resources(self, parameters: Mapping[str, str]) -> list[dict[str, str]]:
        tags_of_resources = []
        for resource in parse_list(parameters, "ResourceId"):
            owner = self._fleet.get(resource) or self._fleet.instances.get(resource)
            if owner is None:
                raise AwsError("InvalidID", f"The ID '{resource}' is not valid")
            tags_of_resources.append(owner.tags)
        return tags_of_resources

    def _is_known(self, resource_id: str) -> bool:
        return resource_id in self._fleet or resource_id in self._fleet.instances


_VOLUME_FILTERS: Final[Mapping[str, Callable[[SimulatedVolume], Iterable[str]]]] = {
    "volume-id": lambda volume: (volume.volume_id,),
    "volume-type": lambda volume: (volume.describe_configuration().volume_type,),
    "status": lambda volume: (volume.status,),
    "size": lambda volume: (str(volume.size_gib),),
    "create-time": lambda volume: (iso(volume.created_at),),
    "availability-zone": lambda volume: (volume.zone,) if volume.zone else (),
    "multi-attach-enabled": lambda volume: (format_flag(volume.describe_configuration().multi_attached),),
    "operator.managed": lambda volume: (format_flag(volume.managed_by is not None),),
    "operator.principal": lambda volume: (volume.managed_by,) if volume.managed_by else (),
    "attachment.instance-id": lambda volume: tuple(
        attached.instance_id for attached in volume.attachments if attached.instance_id
    ),
    "attachment.status": lambda volume: tuple("attached" for _ in volume.attachments),
    "attachment.device": lambda volume: tuple(attached.device for attached in volume.attachments),
    "tag-key": lambda volume: volume.tags.keys(),
    "tag-value": lambda volume: volume.tags.values(),
}


def _volume_xml(volume: SimulatedVolume, zone: str) -> str:
    """One element of a page of five hundred, so written in one go."""
    tags = "".join(
        f"<item><key>{escape(key)}</key><value>{escape(value)}</value></item>"
        for key, value in volume.tags.items()
    )
    attachments = "".join(_attachment_xml(volume, attachment) for attachment in volume.attachments)
    volume_type, rate, throughput, multi_attached = volume.describe_configuration()
    return (
        f"<item><volumeId>{volume.volume_id}</volumeId><size>{volume.size_gib}</size><snapshotId/>"
        f"<availabilityZone>{escape(volume.zone or zone)}</availabilityZone>"
        f"{f'<outpostArn>{escape(volume.outpost_arn)}</outpostArn>' if volume.outpost_arn else ''}"
        f"<status>{volume.status}</status>"
        f"<createTime>{iso(volume.created_at)}</createTime>"
        f"<attachmentSet>{attachments}</attachmentSet><tagSet>{tags}</tagSet>"
        f"<volumeType>{volume_type}</volumeType>"
        f"{'' if volume_type in TYPES_WITHOUT_IOPS else f'<iops>{rate}</iops>'}"
        f"{'' if throughput is None else f'<throughput>{throughput}</throughput>'}"
        f"<encrypted>false</encrypted><multiAttachEnabled>{format_flag(multi_attached)}</multiAttachEnabled>"
        f"{_operator_xml(volume)}</item>"
    )


def _attachment_xml(volume: SimulatedVolume, attachment: Attachment) -> str:
    owner = (
        f"<instanceId>{attachment.instance_id}</instanceId><device>{escape(attachment.device)}</device>"
        if attachment.instance_id is not None
        else f"<instanceOwningService>{escape(attachment.service_owner or '')}</instanceOwningService>"
    )
    return (
        f"<item><volumeId>{volume.volume_id}</volumeId>{owner}<status>attached</status>"
        f"<attachTime>{iso(attachment.attached_at)}</attachTime>"
        "<deleteOnTermination>true</deleteOnTermination></item>"
    )


def _operator_xml(volume: SimulatedVolume) -> str:
    if volume.managed_by is None:
        return "<operator><managed>false</managed></operator>"
    return (
        f"<operator><managed>true</managed><principal>{escape(volume.managed_by)}</principal>"
        f"<hiddenByDefault>{format_flag(volume.hidden)}</hiddenByDefault></operator>"
    )
