"""The EC2 calls a watchdog makes, answered from the fleet as EC2 would."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Final
from xml.sax.saxutils import escape

from burstlab.fake_aws.ec2.attach import attach_volume, detach_volume
from burstlab.fake_aws.ec2.create import (
    create_volume,
    delete_volume,
    run_instances,
    terminate_instances,
)
from burstlab.fake_aws.ec2.modify import describe_modifications, modify_volume
from burstlab.fake_aws.ec2.query import (
    MOST_PAGE,
    filters,
    matches,
    members,
    no_such_instance,
    page,
    structures,
    text_of,
    volumes_listed,
    volumes_named,
)
from burstlab.fake_aws.ec2.session_policy import Policy, check_session
from burstlab.fake_aws.protocols import Answer, Call, ec2_answer, form, xml
from burstlab.model.aws_error import AwsError, iso
from burstlab.model.describe import RATELESS
from burstlab.model.fleet import LabFleet
from burstlab.model.instance import INSTANCE_TYPES, LabInstance, instance_type_told
from burstlab.model.simulated_volume import SimulatedVolume

_MOST_INSTANCES_PAGE: Final = 1_000
_STATE_CODES: Final = {
    "pending": 0,
    "running": 16,
    "shutting-down": 32,
    "terminated": 48,
    "stopping": 64,
    "stopped": 80,
}


class Ec2Api:
    """Answers for the fleet's volumes and instances; what concerns none of them is left to moto."""

    def __init__(self, fleet: LabFleet, sessions: Mapping[str, Sequence[Policy]] | None = None) -> None:
        self._fleet = fleet
        self._created: dict[tuple[str, str], str] = {}
        self._sessions = {} if sessions is None else sessions
        self._actions: dict[str, Callable[[dict[str, str]], str]] = {
            "DescribeVolumes": self._describe_volumes,
            "DescribeVolumesModifications": partial(describe_modifications, fleet),
            "DescribeInstances": self._describe_instances,
            "DescribeInstanceTypes": _describe_instance_types,
            "ModifyVolume": partial(modify_volume, fleet),
            "AttachVolume": partial(attach_volume, fleet),
            "DetachVolume": partial(detach_volume, fleet),
            "CreateVolume": partial(create_volume, fleet),
            "DeleteVolume": partial(delete_volume, fleet),
            "RunInstances": partial(run_instances, fleet),
            "TerminateInstances": partial(terminate_instances, fleet),
            "CreateTags": self._create_tags,
            "DeleteTags": self._delete_tags,
        }

    def answers(self, call: Call) -> bool:
        if call.action not in self._actions or call.region != self._fleet.settings.region:
            return False
        if call.action in ("CreateTags", "DeleteTags"):
            return any(self._known(resource) for resource in members(form(call.body), "ResourceId"))
        if call.action == "DescribeInstanceTypes":
            types = set(_types_asked(form(call.body)))
            return bool(types) and types <= INSTANCE_TYPES.keys()
        if call.action == "DescribeInstances":
            asked = members(form(call.body), "InstanceId")
            return not asked or any(self._known(instance_id) for instance_id in asked)
        return True

    def answer(self, call: Call) -> Answer:
        parameters = form(call.body)
        if self._fleet.settings.page_latency_s and "MaxResults" in parameters:
            time.sleep(self._fleet.settings.page_latency_s)
        with self._fleet.lock:
            self._fleet.changes()  # what is being modified is told as it is now
            if call.action == "ModifyVolume" and call.access_key in self._sessions:
                check_session(self._fleet, self._sessions[call.access_key], parameters)
            return ec2_answer(call.action, self._carried_out(call.action, parameters))

    def _carried_out(self, action: str, parameters: dict[str, str]) -> str:
        """The answer; the second request with a ClientToken gets that of the first and creates nothing."""
        token = parameters.get("ClientToken")
        if token is None:
            return self._actions[action](parameters)
        known = self._created.get((action, token))
        if known is None:
            known = self._created[action, token] = self._actions[action](parameters)
        return known

    def _describe_volumes(self, parameters: dict[str, str]) -> str:
        asked = members(parameters, "VolumeId")
        chosen = filters(parameters, _VOLUME_FILTERS)
        if asked and "MaxResults" in parameters:
            raise AwsError(
                "InvalidParameterCombination",
                "The parameter volumeSet cannot be used with the parameter maxResults",
            )
        volumes = volumes_named(self._fleet, asked) if asked else volumes_listed(self._fleet, parameters)
        early, late = self._by_cut(chosen)
        found = [each for each in volumes if matches(each, early, _VOLUME_FILTERS)]
        shown, token = page(found, parameters, most=MOST_PAGE, number=lambda volume: volume.number)
        shown = [each for each in shown if matches(each, late, _VOLUME_FILTERS)]
        items = "".join(_volume_xml(volume, self._fleet.first_zone) for volume in shown)
        return f"<volumeSet>{items}</volumeSet>{token}"

    def _by_cut(
        self, chosen: Sequence[tuple[str, list[str]]]
    ) -> tuple[list[tuple[str, list[str]]], list[tuple[str, list[str]]]]:
        """The filters applied before a page is cut, and those after it."""
        settings = self._fleet.settings
        if not settings.filter_after_page:
            return list(chosen), []
        early = [
            each
            for each in chosen
            if any(fnmatchcase(each[0], name) for name in settings.filters_before_page)
        ]
        return early, [each for each in chosen if each not in early]

    def _describe_instances(self, parameters: dict[str, str]) -> str:
        asked = members(parameters, "InstanceId")
        if asked and "MaxResults" in parameters:
            raise AwsError(
                "InvalidParameterCombination",
                "The parameter instancesSet cannot be used with the parameter maxResults",
            )
        missing = [instance_id for instance_id in asked if instance_id not in self._fleet.instances]
        if missing:
            raise no_such_instance(missing)
        chosen = filters(parameters, _INSTANCE_FILTERS)
        candidates = enumerate(self._fleet.instances.values(), start=1)
        found = [
            (number, instance)
            for number, instance in candidates
            if (not asked or instance.instance_id in asked) and matches(instance, chosen, _INSTANCE_FILTERS)
        ]
        shown, token = page(found, parameters, most=_MOST_INSTANCES_PAGE, number=lambda entry: entry[0])
        reservations = [self._reservation(instance) for _, instance in shown]
        return f"<reservationSet>{xml(reservations, 'item')}</reservationSet>{token}"

    def _reservation(self, instance: LabInstance) -> dict[str, Any]:
        return {
            "reservationId": "r-" + instance.instance_id.removeprefix("i-"),
            "ownerId": self._fleet.settings.account_id,
            "instancesSet": [
                {
                    "instanceId": instance.instance_id,
                    "instanceState": {"code": _STATE_CODES[instance.state], "name": instance.state},
                    "instanceType": instance.instance_type,
                    "launchTime": iso(instance.launched_at),
                    "placement": {"availabilityZone": self._fleet.first_zone},
                    "tagSet": _tags(instance.tags),
                }
            ],
        }

    def _create_tags(self, parameters: dict[str, str]) -> str:
        tags = {tag["Key"]: tag.get("Value", "") for tag in structures(parameters, "Tag")}
        for held in self._taggable(parameters):
            held.update(tags)
        return "<return>true</return>"

    def _delete_tags(self, parameters: dict[str, str]) -> str:
        """Without a value a tag goes whatever its value, without tags all go."""
        wanted = structures(parameters, "Tag")
        for held in self._taggable(parameters):
            for key, value in list(held.items()):
                if not wanted or any(
                    tag["Key"] == key and tag.get("Value", value) == value for tag in wanted
                ):
                    del held[key]
        return "<return>true</return>"

    def _taggable(self, parameters: Mapping[str, str]) -> list[dict[str, str]]:
        held = []
        for resource in members(parameters, "ResourceId"):
            owner = self._fleet.get(resource) or self._fleet.instances.get(resource)
            if owner is None:
                raise AwsError("InvalidID", f"The ID '{resource}' is not valid")
            held.append(owner.tags)
        return held

    def _known(self, resource_id: str) -> bool:
        return resource_id in self._fleet or resource_id in self._fleet.instances


def _types_asked(parameters: Mapping[str, str]) -> list[str]:
    """The instance types a call names, by itself or in its only filter."""
    chosen = structures(parameters, "Filter")
    if len(chosen) == 1 and chosen[0].get("Name") == "instance-type":
        return [value for field, value in chosen[0].items() if field.startswith("Value.")]
    return [] if chosen else members(parameters, "InstanceType")


def _describe_instance_types(parameters: Mapping[str, str]) -> str:
    told = [instance_type_told(name) for name in dict.fromkeys(_types_asked(parameters))]
    return f"<instanceTypeSet>{xml(told, 'item')}</instanceTypeSet>"


def _attached(volume: SimulatedVolume) -> Iterable[Any]:
    return () if volume.attachment is None else (volume.attachment,)


_VOLUME_FILTERS: Final[Mapping[str, Callable[[SimulatedVolume], Iterable[str]]]] = {
    "volume-id": lambda volume: (volume.volume_id,),
    "volume-type": lambda volume: (volume.shown().volume_type,),
    "status": lambda volume: (volume.status,),
    "size": lambda volume: (str(volume.size_gib),),
    "create-time": lambda volume: (iso(volume.created_at),),
    "availability-zone": lambda volume: (volume.zone,) if volume.zone else (),
    "multi-attach-enabled": lambda volume: (text_of(volume.shown().multi_attached),),
    "operator.managed": lambda volume: (text_of(volume.managed_by is not None),),
    "operator.principal": lambda volume: (volume.managed_by,) if volume.managed_by else (),
    "attachment.instance-id": lambda volume: tuple(
        attached.instance_id for attached in _attached(volume) if attached.instance_id
    ),
    "attachment.status": lambda volume: tuple("attached" for _ in _attached(volume)),
    "attachment.device": lambda volume: tuple(attached.device for attached in _attached(volume)),
    "tag-key": lambda volume: volume.tags.keys(),
    "tag-value": lambda volume: volume.tags.values(),
}
_INSTANCE_FILTERS: Final[Mapping[str, Callable[[LabInstance], Iterable[str]]]] = {
    "instance-id": lambda instance: (instance.instance_id,),
    "instance-state-name": lambda instance: (instance.state,),
    "instance-state-code": lambda instance: (str(_STATE_CODES[instance.state]),),
    "instance-type": lambda instance: (instance.instance_type,),
    "tag-key": lambda instance: instance.tags.keys(),
    "tag-value": lambda instance: instance.tags.values(),
}


def _volume_xml(volume: SimulatedVolume, zone: str) -> str:
    """One element of a page of five hundred, so written in one go."""
    tags = "".join(
        f"<item><key>{escape(key)}</key><value>{escape(value)}</value></item>"
        for key, value in volume.tags.items()
    )
    volume_type, rate, throughput, multi_attached = volume.shown()
    return (
        f"<item><volumeId>{volume.volume_id}</volumeId><size>{volume.size_gib}</size><snapshotId/>"
        f"<availabilityZone>{escape(volume.zone or zone)}</availabilityZone>"
        f"{f'<outpostArn>{escape(volume.outpost_arn)}</outpostArn>' if volume.outpost_arn else ''}"
        f"<status>{volume.status}</status>"
        f"<createTime>{iso(volume.created_at)}</createTime>"
        f"<attachmentSet>{_attachment_xml(volume)}</attachmentSet><tagSet>{tags}</tagSet>"
        f"<volumeType>{volume_type}</volumeType>"
        f"{'' if volume_type in RATELESS else f'<iops>{rate}</iops>'}"
        f"{'' if throughput is None else f'<throughput>{throughput}</throughput>'}"
        f"<encrypted>false</encrypted><multiAttachEnabled>{text_of(multi_attached)}</multiAttachEnabled>"
        f"{_operator_xml(volume)}</item>"
    )


def _attachment_xml(volume: SimulatedVolume) -> str:
    attached = volume.attachment
    if attached is None:
        return ""
    owner = (
        f"<instanceId>{attached.instance_id}</instanceId><device>{escape(attached.device)}</device>"
        if attached.instance_id is not None
        else f"<instanceOwningService>{escape(attached.service_owner or '')}</instanceOwningService>"
    )
    return (
        f"<item><volumeId>{volume.volume_id}</volumeId>{owner}<status>attached</status>"
        f"<attachTime>{iso(attached.attached_at)}</attachTime>"
        "<deleteOnTermination>true</deleteOnTermination></item>"
    )


def _operator_xml(volume: SimulatedVolume) -> str:
    if volume.managed_by is None:
        return "<operator><managed>false</managed></operator>"
    return (
        f"<operator><managed>true</managed><principal>{escape(volume.managed_by)}</principal>"
        f"<hiddenByDefault>{text_of(volume.hidden)}</hiddenByDefault></operator>"
    )


def _tags(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in tags.items()]
