"""The EC2 calls a watchdog makes, answered from the fleet as EC2 would."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, Final, TypeVar
from xml.sax.saxutils import escape

from burstlab.answers import Answer, AwsError, Call, ec2_answer, form, iso, xml
from burstlab.fleet import LabFleet, LabInstance
from burstlab.modification import Modification, Shape
from burstlab.simulation import SimulatedVolume

MOST_FILTER_VALUES: Final = 200
_LEAST_PAGE: Final = 5
_MOST_PAGE: Final = 500
_MOST_INSTANCES_PAGE: Final = 1_000
_STATE_CODES: Final = {
    "pending": 0,
    "running": 16,
    "shutting-down": 32,
    "terminated": 48,
    "stopping": 64,
    "stopped": 80,
}
_Item = TypeVar("_Item")


class Ec2Api:
    """Answers for the fleet's volumes and instances; what concerns none of them is left to moto."""

    def __init__(self, fleet: LabFleet) -> None:
        self._fleet = fleet
        self._actions: dict[str, Callable[[dict[str, str]], str]] = {
            "DescribeVolumes": self._describe_volumes,
            "DescribeVolumesModifications": self._describe_modifications,
            "DescribeInstances": self._describe_instances,
            "ModifyVolume": self._modify_volume,
            "CreateTags": self._create_tags,
            "DeleteTags": self._delete_tags,
        }

    def answers(self, call: Call) -> bool:
        if call.action not in self._actions or call.region != self._fleet.settings.region:
            return False
        if call.action in ("CreateTags", "DeleteTags"):
            return any(self._known(resource) for resource in _members(form(call.body), "ResourceId"))
        if call.action == "DescribeInstances":
            asked = _members(form(call.body), "InstanceId")
            return not asked or any(self._known(instance_id) for instance_id in asked)
        return True

    def answer(self, call: Call) -> Answer:
        parameters = form(call.body)
        with self._fleet.lock:
            return ec2_answer(call.action, self._actions[call.action](parameters))

    def _describe_volumes(self, parameters: dict[str, str]) -> str:
        asked = _members(parameters, "VolumeId")
        filters = _filters(parameters, _VOLUME_FILTERS)
        if asked and "MaxResults" in parameters:
            raise AwsError(
                "InvalidParameterCombination",
                "The parameter volumeSet cannot be used with the parameter maxResults",
            )
        volumes: Iterable[SimulatedVolume] = self._asked(asked) if asked else self._listed(parameters)
        found = [volume for volume in volumes if _matches(volume, filters, _VOLUME_FILTERS)]
        page, token = _page(found, parameters, most=_MOST_PAGE, number=lambda volume: volume.number)
        zone = f"{self._fleet.settings.region}a"
        items = "".join(_volume_xml(volume, zone) for volume in page)
        return f"<volumeSet>{items}</volumeSet>{token}"

    def _listed(self, parameters: Mapping[str, str]) -> Iterable[SimulatedVolume]:
        """Volumes a list call shows: those operated by a service may be hidden unless they are asked for."""
        managed_too = parameters.get("IncludeManagedResources") == "true"
        return (volume for volume in self._fleet if managed_too or not volume.hidden)

    def _asked(self, volume_ids: Sequence[str]) -> list[SimulatedVolume]:
        for volume_id in volume_ids:
            _check_volume_id(volume_id)
        missing = [volume_id for volume_id in volume_ids if volume_id not in self._fleet]
        if missing:
            raise _no_such_volume(missing)
        return [volume for volume in map(self._fleet.get, dict.fromkeys(volume_ids)) if volume is not None]

    def _describe_modifications(self, parameters: dict[str, str]) -> str:
        asked = _members(parameters, "VolumeId")
        volumes = self._asked(asked) if asked else list(self._listed(parameters))
        for volume in volumes:
            if asked and volume.modification is None:
                raise AwsError(
                    "InvalidVolumeModification.NotFound",
                    f"Modification for volume '{volume.volume_id}' does not exist.",
                )
        filters = _filters(parameters, _MODIFICATION_FILTERS)
        known = [(volume, volume.modification) for volume in volumes if volume.modification is not None]
        found = [entry for entry in known if _matches(entry, filters, _MODIFICATION_FILTERS)]
        page, token = _page(found, parameters, most=_MOST_PAGE, number=lambda entry: entry[0].number)
        items = xml([_modification(volume, modification) for volume, modification in page], "item")
        return f"<volumeModificationSet>{items}</volumeModificationSet>{token}"

    def _modify_volume(self, parameters: dict[str, str]) -> str:
        volume_id = parameters.get("VolumeId", "")
        self._asked([volume_id])
        raise AwsError("UnsupportedOperation", f"The volume '{volume_id}' cannot be modified.")

    def _describe_instances(self, parameters: dict[str, str]) -> str:
        asked = _members(parameters, "InstanceId")
        if asked and "MaxResults" in parameters:
            raise AwsError(
                "InvalidParameterCombination",
                "The parameter instancesSet cannot be used with the parameter maxResults",
            )
        missing = [instance_id for instance_id in asked if instance_id not in self._fleet.instances]
        if missing:
            raise _no_such_instance(missing)
        filters = _filters(parameters, _INSTANCE_FILTERS)
        candidates = enumerate(self._fleet.instances.values(), start=1)
        found = [
            (number, instance)
            for number, instance in candidates
            if (not asked or instance.instance_id in asked) and _matches(instance, filters, _INSTANCE_FILTERS)
        ]
        page, token = _page(found, parameters, most=_MOST_INSTANCES_PAGE, number=lambda entry: entry[0])
        reservations = [self._reservation(instance) for _, instance in page]
        return f"<reservationSet>{xml(reservations, 'item')}</reservationSet>{token}"

    def _reservation(self, instance: LabInstance) -> dict[str, Any]:
        zone = f"{self._fleet.settings.region}a"
        return {
            "reservationId": "r-" + instance.instance_id.removeprefix("i-"),
            "ownerId": self._fleet.settings.account_id,
            "instancesSet": [
                {
                    "instanceId": instance.instance_id,
                    "instanceState": {"code": _STATE_CODES[instance.state], "name": instance.state},
                    "instanceType": instance.instance_type,
                    "launchTime": iso(instance.launched_at),
                    "placement": {"availabilityZone": zone},
                    "tagSet": _tags(instance.tags),
                }
            ],
        }

    def _create_tags(self, parameters: dict[str, str]) -> str:
        tags = {tag["Key"]: tag.get("Value", "") for tag in _structures(parameters, "Tag")}
        for held in self._taggable(parameters):
            held.update(tags)
        return "<return>true</return>"

    def _delete_tags(self, parameters: dict[str, str]) -> str:
        """Without a value a tag goes whatever its value, without tags all go."""
        wanted = _structures(parameters, "Tag")
        for held in self._taggable(parameters):
            for key, value in list(held.items()):
                if not wanted or any(
                    tag["Key"] == key and tag.get("Value", value) == value for tag in wanted
                ):
                    del held[key]
        return "<return>true</return>"

    def _taggable(self, parameters: Mapping[str, str]) -> list[dict[str, str]]:
        held = []
        for resource in _members(parameters, "ResourceId"):
            owner = self._fleet.get(resource) or self._fleet.instances.get(resource)
            if owner is None:
                raise AwsError("InvalidID", f"The ID '{resource}' is not valid")
            held.append(owner.tags)
        return held

    def _known(self, resource_id: str) -> bool:
        return resource_id in self._fleet or resource_id in self._fleet.instances


def _members(parameters: Mapping[str, str], name: str) -> list[str]:
    """``Name.1``, ``Name.2``, ... in their order."""
    found = []
    for key, value in parameters.items():
        head, _, number = key.partition(".")
        if head == name and number.isdigit():
            found.append((int(number), value))
    return [value for _, value in sorted(found)]


def _structures(parameters: Mapping[str, str], name: str) -> list[dict[str, str]]:
    """``Name.1.Field=value`` as one mapping per number."""
    found: dict[int, dict[str, str]] = {}
    for key, value in parameters.items():
        head, _, rest = key.partition(".")
        number, _, field = rest.partition(".")
        if head == name and number.isdigit():
            found.setdefault(int(number), {})[field] = value
    return [found[number] for number in sorted(found)]


def _filters(parameters: Mapping[str, str], known: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    found = []
    for given in _structures(parameters, "Filter"):
        name = given.get("Name", "")
        if name not in known and not (name.startswith("tag:") and "tag-key" in known):
            raise AwsError("InvalidParameterValue", f"The filter '{name}' is invalid")
        found.append((name, [value for field, value in given.items() if field.startswith("Value.")]))
    if sum(len(values) for _, values in found) > MOST_FILTER_VALUES:
        raise AwsError(
            "FilterLimitExceeded",
            f"The maximum number of filter values specified on a single call is {MOST_FILTER_VALUES}",
        )
    return found


def _matches(item: Any, filters: Sequence[tuple[str, list[str]]], known: Mapping[str, Any]) -> bool:
    """Any value of a filter, all filters; * and ? stand for anything, and letters' case matters."""
    return all(
        any(_like(held, wanted) for held in _held(item, name, known) for wanted in values)
        for name, values in filters
    )


def _held(item: Any, name: str, known: Mapping[str, Any]) -> Iterable[str]:
    if name.startswith("tag:"):
        value = item.tags.get(name.removeprefix("tag:"))
        return () if value is None else (value,)
    held: Iterable[str] = known[name](item)
    return held


def _like(held: str, wanted: str) -> bool:
    if "*" in wanted or "?" in wanted:
        return fnmatchcase(held, wanted.replace("[", "[[]"))
    return held == wanted


def _page(
    items: Sequence[_Item], parameters: Mapping[str, str], *, most: int, number: Callable[[_Item], int]
) -> tuple[Sequence[_Item], str]:
    """One page and the element with the token of the next, which names the last item shown."""
    after = _read_token(parameters.get("NextToken"))
    left = [item for item in items if number(item) > after]
    if "MaxResults" not in parameters:
        return left, ""
    size = int(parameters["MaxResults"])
    if size < _LEAST_PAGE:
        raise AwsError(
            "InvalidParameterValue",
            f"Value ( {size} ) for parameter maxResults is invalid. Expecting at least {_LEAST_PAGE}.",
        )
    page = left[: min(size, most)]
    if len(page) == len(left):
        return page, ""
    token = urlsafe_b64encode(f"after {number(page[-1])}".encode()).decode()
    return page, f"<nextToken>{token}</nextToken>"


def _read_token(token: str | None) -> int:
    if not token:
        return 0
    try:
        return int(urlsafe_b64decode(token).decode().removeprefix("after "))
    except ValueError as error:
        raise AwsError("InvalidNextToken", f"The token '{token}' is not valid") from error


def _check_volume_id(volume_id: str) -> None:
    if not volume_id.startswith("vol-"):
        raise AwsError(
            "InvalidParameterValue",
            f"Value ({volume_id}) for parameter volumes is invalid. Expected: 'vol-...'.",
        )
    if not _HEX_ID.fullmatch(volume_id):
        raise AwsError("InvalidVolumeID.Malformed", f'Invalid id: "{volume_id}"')


_HEX_ID: Final = re.compile(r"vol-(?:[0-9a-f]{8}|[0-9a-f]{17})")


def _no_such_volume(volume_ids: Sequence[str]) -> AwsError:
    if len(volume_ids) == 1:
        return AwsError("InvalidVolume.NotFound", f"The volume '{volume_ids[0]}' does not exist.")
    return AwsError("InvalidVolume.NotFound", f"The volumes '{', '.join(volume_ids)}' do not exist.")


def _no_such_instance(instance_ids: Sequence[str]) -> AwsError:
    if len(instance_ids) == 1:
        return AwsError("InvalidInstanceID.NotFound", f"The instance ID '{instance_ids[0]}' does not exist")
    return AwsError(
        "InvalidInstanceID.NotFound", f"The instance IDs '{', '.join(instance_ids)}' do not exist"
    )


def _status(volume: SimulatedVolume) -> str:
    return "available" if volume.attachment is None else "in-use"


def _text(flag: bool) -> str:  # noqa: FBT001
    return "true" if flag else "false"


def _attached(volume: SimulatedVolume) -> Iterable[Any]:
    return () if volume.attachment is None else (volume.attachment,)


_VOLUME_FILTERS: Final[Mapping[str, Callable[[SimulatedVolume], Iterable[str]]]] = {
    "volume-id": lambda volume: (volume.volume_id,),
    "volume-type": lambda volume: (volume.volume_type,),
    "status": lambda volume: (_status(volume),),
    "size": lambda volume: (str(volume.size_gib),),
    "create-time": lambda volume: (iso(volume.created_at),),
    "multi-attach-enabled": lambda volume: (_text(volume.multi_attached),),
    "operator.managed": lambda volume: (_text(volume.managed_by is not None),),
    "operator.principal": lambda volume: (volume.managed_by,) if volume.managed_by else (),
    "attachment.instance-id": lambda volume: tuple(
        attached.instance_id for attached in _attached(volume) if attached.instance_id
    ),
    "attachment.status": lambda volume: tuple("attached" for _ in _attached(volume)),
    "attachment.device": lambda volume: tuple(attached.device for attached in _attached(volume)),
    "tag-key": lambda volume: volume.tags.keys(),
    "tag-value": lambda volume: volume.tags.values(),
}
_MODIFICATION_FILTERS: Final[
    Mapping[str, Callable[[tuple[SimulatedVolume, Modification]], Iterable[str]]]
] = {
    "volume-id": lambda entry: (entry[0].volume_id,),
    "modification-state": lambda entry: (entry[1].state,),
    "original-volume-type": lambda entry: (entry[1].original.volume_type,),
    "target-volume-type": lambda entry: (entry[1].target.volume_type,),
    "start-time": lambda entry: (iso(entry[1].started_at),),
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
    throughput = volume.shown_throughput_mib_s
    return (
        f"<item><volumeId>{volume.volume_id}</volumeId><size>{volume.size_gib}</size><snapshotId/>"
        f"<availabilityZone>{zone}</availabilityZone><status>{_status(volume)}</status>"
        f"<createTime>{iso(volume.created_at)}</createTime>"
        f"<attachmentSet>{_attachment_xml(volume)}</attachmentSet><tagSet>{tags}</tagSet>"
        f"<volumeType>{volume.volume_type}</volumeType>"
        f"{'' if volume.shown_rate is None else f'<iops>{volume.shown_rate}</iops>'}"
        f"{'' if throughput is None else f'<throughput>{throughput}</throughput>'}"
        f"<encrypted>false</encrypted><multiAttachEnabled>{_text(volume.multi_attached)}</multiAttachEnabled>"
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
        f"<hiddenByDefault>{_text(volume.hidden)}</hiddenByDefault></operator>"
    )


def _modification(volume: SimulatedVolume, modification: Modification) -> dict[str, Any]:
    return {
        "volumeId": volume.volume_id,
        "modificationState": modification.state,
        "statusMessage": modification.status_message,
        **_shape("target", modification.target),
        **_shape("original", modification.original),
        "progress": modification.progress_pct,
        "startTime": iso(modification.started_at),
        "endTime": _iso_or_none(modification.ended_at),
    }


def _shape(prefix: str, shape: Shape) -> dict[str, Any]:
    return {
        f"{prefix}Size": shape.size_gib,
        f"{prefix}Iops": shape.iops,
        f"{prefix}VolumeType": shape.volume_type,
        f"{prefix}Throughput": shape.throughput_mib_s,
        f"{prefix}MultiAttachEnabled": False,
    }


def _iso_or_none(at: datetime | None) -> str | None:
    return None if at is None else iso(at)


def _tags(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in tags.items()]
