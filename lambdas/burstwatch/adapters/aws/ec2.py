"""Volumes, instances and modifications as EC2 describes them."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from botocore.exceptions import ClientError

from burstwatch.adapters.aws.botocore_hooks import paginate
from burstwatch.adapters.aws.descriptions import (
    EPOCH,
    MAX_ID_CHARS,
    Description,
    FailureCallback,
    ResourceKind,
    batches,
    is_valid_number,
    parse_each,
    quote,
    read_id,
    read_integer,
    read_limit,
    read_mappings,
    read_nested,
    read_required,
    read_string,
    read_tags,
    to_utc,
)
from burstwatch.adapters.aws.errors import AWS_ERRORS, AwsError, AwsFailure, error_codes, translate_errors
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.ebs.modification import Modification, VolumeSpec
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.instances.instance import Instance
from burstwatch.core.text import sanitise

if TYPE_CHECKING:
    from types_boto3_ec2 import EC2Client

PAGE_SIZE: Final = 500
"""The largest page of DescribeVolumes and DescribeVolumesModifications (EC2 API reference)."""

_MAX_FILTER_VALUES: Final = 200
"""The most values that one filter of an EC2 call takes."""

_INSTANCE_TYPES_PER_PAGE: Final = 100
"""The largest page of DescribeInstanceTypes (EC2 API reference)."""

_MAX_TRIES_BY_ID: Final = 3
"""Calls by ID before the filter is used: an error may name only some of the unknown IDs."""
_NON_ID_CHARS: Final = re.compile(r"[^\w-]+")

_MODIFICATIONS_KEY: Final = "VolumesModifications"
_MIB_PER_MB: Final = 1e6 / 2**20  # EbsOptimizedInfo is in MB/s, EBS volumes are in MiB/s
_IN_PROGRESS_STATES: Final = ("modifying", "optimizing")
"""The states in which EC2 refuses another modification (``IncorrectModificationState``)."""
_DETACHING_STATES: Final = ("detaching", "busy")
"""``busy``: a detachment was requested and the instance still uses the device."""
_VOLUME: Final = ResourceKind("volume", "VolumeId", "aws ec2 describe-volumes")
_INSTANCE: Final = ResourceKind("instance", "InstanceId", "aws ec2 describe-instances")


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumesResult:
    """Each requested ID is in ``volumes``, in ``missing``, or in ``unread`` with the reason."""

    volumes: Sequence[Volume] = ()
    missing: Sequence[str] = ()
    unread: Mapping[str, AwsFailure] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceStates:
    """EC2's state of each instance; an instance that EC2 no longer knows is ``terminated``.

    ``types`` has the type of each instance that EC2 still knows, such as ``m5.large``. ``names`` has the Name
    tag of those that have one, ``volume_ids`` their attached volumes, and ``launched_at`` their last start.
    """

    states: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    volume_ids: Mapping[str, Sequence[str]] = field(default_factory=dict)
    launched_at: Mapping[str, datetime] = field(default_factory=dict)
    unread: Mapping[str, AwsFailure] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModificationsResult:
    """The newest modification of each volume; EC2 remembers none of a volume that is in neither field.

    EC2 keeps only the newest modification, and does not document for how long.
    """

    modifications: Mapping[str, Modification] = field(default_factory=dict)
    unread: Mapping[str, AwsFailure] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EbsLimitsResult:
    """What each instance type allows its volumes together; EC2 shows no limits of a type in neither field."""

    limits: Mapping[str, InstanceLimits] = field(default_factory=dict)
    unread: Mapping[str, AwsFailure] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstancesResult:
    """Each requested ID is in ``instances``, in ``missing``, or in ``unread`` with the reason."""

    instances: Sequence[Instance] = ()
    missing: Sequence[str] = ()
    unread: Mapping[str, AwsFailure] = field(default_factory=dict)


class _Lookup(NamedTuple):
    """How EC2 describes resources of one kind by their IDs."""

    operation: str
    list_key: str
    action: str
    ids_parameter: str
    filter_name: str
    bad_id_codes: frozenset[str]


_VOLUME_LOOKUP: Final = _Lookup(
    "describe_volumes",
    "Volumes",
    "ec2:DescribeVolumes",
    "VolumeIds",
    "volume-id",
    error_codes("InvalidVolume.NotFound InvalidVolumeID.Malformed InvalidParameterValue"),
)
_EXISTING_STATES: Final = ("pending", "running", "stopping", "stopped")
"""EC2 lists a terminated instance, with its tags, for about an hour."""
_FILTER_WILDCARDS: Final = frozenset("*?\\")
_INSTANCE_LOOKUP: Final = _Lookup(
    "describe_instances",
    "Reservations",
    "ec2:DescribeInstances",
    "InstanceIds",
    "instance-id",
    error_codes("InvalidInstanceID.NotFound InvalidInstanceID.Malformed InvalidParameterValue"),
)


class Ec2Reader:
    """Reads one region; the client must retry."""

    def __init__(self, client: "EC2Client") -> None:
        self._client = client
        self._includes_managed = True
        self._ebs_limits: dict[str, InstanceLimits | None] = {}
        self._families: dict[str, Mapping[str, InstanceLimits]] = {}

    def volumes(
        self,
        filters: Mapping[str, Sequence[str]],
        *,
        report_failure: FailureCallback,
        on_page: Callable[[], None] = lambda: None,
    ) -> Iterator[Volume]:
        """Every volume of the region that matches EC2's filters, such as ``{"volume-type": ["gp2"]}``.

        EC2 may apply a filter after it has divided all volumes into pages. So pages can be short or empty,
        and their number depends on all volumes of the region. ``on_page`` is called after each page.

        Raises:
            AwsError: a page could not be read; the volumes yielded until then are incomplete.
        """
        action = "ec2:DescribeVolumes"
        for page in self._list_pages("describe_volumes", "Volumes", action, filters):
            on_page()
            yield from parse_each(page["Volumes"], parse_volume, action, report_failure, _VOLUME)

    def volumes_by_id(self, volume_ids: Iterable[str]) -> VolumesResult:
        """Describe these volumes, even if some of them no longer exist.

        DescribeVolumes with IDs fails as a whole if one of them does not exist, so such a call is repeated
        without that ID.
        """
        requested_ids = list(dict.fromkeys(volume_ids))
        unread: dict[str, AwsFailure] = {}
        volumes = [
            volume
            for page in self._describe_by_id(_VOLUME_LOOKUP, requested_ids, unread)
            for volume in parse_each(
                page["Volumes"], parse_volume, _VOLUME_LOOKUP.action, unread.__setitem__, _VOLUME
            )
        ]
        known_ids = {volume.volume_id for volume in volumes} | unread.keys()
        missing = [volume_id for volume_id in requested_ids if volume_id not in known_ids]
        return VolumesResult(volumes=volumes, missing=missing, unread=unread)

    def instance_states(self, instance_ids: Iterable[str]) -> InstanceStates:
        """Read whether these instances are running, stopped or gone, and their types."""
        requested_ids = list(dict.fromkeys(instance_ids))
        unread: dict[str, AwsFailure] = {}
        instances = {
            instance["InstanceId"]: instance
            for page in self._describe_by_id(_INSTANCE_LOOKUP, requested_ids, unread)
            for instance in _instances_in(page)
            if isinstance(instance, Mapping) and instance.get("InstanceId") in requested_ids
        }
        states = {
            instance_id: read_string(read_nested(description, "State"), "Name") or "unknown"
            for instance_id, description in instances.items()
        }
        types = {
            instance_id: instance_type
            for instance_id, description in instances.items()
            if (instance_type := read_string(description, "InstanceType"))
        }
        names = {
            instance_id: name
            for instance_id, description in instances.items()
            if (name := read_tags(description).get("Name"))
        }
        known_ids = instances.keys() | unread.keys()
        terminated = dict.fromkeys(
            (instance_id for instance_id in requested_ids if instance_id not in known_ids), "terminated"
        )
        return InstanceStates(
            states=states | terminated,
            types=types,
            names=names,
            volume_ids={
                instance_id: _attached_volume_ids(description)
                for instance_id, description in instances.items()
            },
            launched_at={
                instance_id: to_utc(description.get("LaunchTime")) or EPOCH
                for instance_id, description in instances.items()
            },
            unread=unread,
        )

    def running_instances(
        self, *, report_failure: FailureCallback, on_page: Callable[[], None] = lambda: None
    ) -> Iterator[Instance]:
        """Every running instance of the region, without the limits of its type.

        Raises:
            AwsError: a page could not be read; the instances yielded until then are incomplete.
        """
        action, filters = _INSTANCE_LOOKUP.action, {"instance-state-name": ["running"]}
        for page in self._list_pages("describe_instances", "Reservations", action, filters):
            on_page()
            yield from parse_each(_instances_in(page), parse_instance, action, report_failure, _INSTANCE)

    def instances_named(self, name: str) -> list[Instance]:
        """The instances with this Name tag, without the limits of their types; terminated ones are left out.

        Raises:
            AwsError: they could not be listed.
        """
        action = _INSTANCE_LOOKUP.action
        filters = {"tag:Name": [name], "instance-state-name": list(_EXISTING_STATES)}
        if _FILTER_WILDCARDS & set(name):  # EC2 would take them as wildcards
            filters = {"tag-key": ["Name"], "instance-state-name": list(_EXISTING_STATES)}
        descriptions = [
            description
            for page in self._list_pages("describe_instances", "Reservations", action, filters)
            for description in _instances_in(page)
        ]
        unread: dict[str, AwsFailure] = {}
        parsed = parse_each(descriptions, parse_instance, action, unread.__setitem__, _INSTANCE)
        return [instance for instance in parsed if instance.name == name]

    def instances_by_id(self, instance_ids: Iterable[str]) -> InstancesResult:
        """Describe these instances, without the limits of their types."""
        requested_ids = list(dict.fromkeys(instance_ids))
        unread: dict[str, AwsFailure] = {}
        instances = [
            instance
            for page in self._describe_by_id(_INSTANCE_LOOKUP, requested_ids, unread)
            for instance in parse_each(
                _instances_in(page),
                parse_instance,
                _INSTANCE_LOOKUP.action,
                unread.__setitem__,
                _INSTANCE,
            )
        ]
        known_ids = {instance.instance_id for instance in instances} | unread.keys()
        missing = [instance_id for instance_id in requested_ids if instance_id not in known_ids]
        return InstancesResult(instances=instances, missing=missing, unread=unread)

    def family_limits(self, instance_type: str) -> Mapping[str, InstanceLimits]:
        """What each type of the same family (``m5.*``) allows its volumes; read once per reader.

        Raises:
            AwsError: the types could not be read.
        """
        family = instance_type.partition(".")[0]
        if family not in self._families:
            limits = self._read_ebs_limits([f"{family}.*"])
            self._families[family] = {name: known for name, known in limits.items() if known is not None}
        return self._families[family]

    def ebs_limits(self, instance_types: Iterable[str]) -> EbsLimitsResult:
        """Read what these instance types allow their volumes together; each type is read once per reader.

        The call uses a filter, because a call that names an unknown type fails. A type without limits of its
        own is left out: a t2, or an older type that is EBS-optimized only on demand.
        """
        requested_types = list(dict.fromkeys(instance_types))
        unread: dict[str, AwsFailure] = {}
        for batch in batches(
            [instance_type for instance_type in requested_types if instance_type not in self._ebs_limits],
            _INSTANCE_TYPES_PER_PAGE,
        ):
            try:
                self._ebs_limits.update(dict.fromkeys(batch) | self._read_ebs_limits(batch))
            except AwsError as error:
                unread.update(dict.fromkeys(batch, error.failure))
        known_limits = {
            instance_type: self._ebs_limits.get(instance_type) for instance_type in requested_types
        }
        return EbsLimitsResult(
            limits={k: limits for k, limits in known_limits.items() if limits}, unread=unread
        )

    def _read_ebs_limits(self, instance_types: Sequence[str]) -> dict[str, InstanceLimits | None]:
        with translate_errors("ec2:DescribeInstanceTypes"):
            type_pages = paginate(
                self._client.describe_instance_types,
                list_key="InstanceTypes",
                Filters=[{"Name": "instance-type", "Values": list(instance_types)}],
                MaxResults=_INSTANCE_TYPES_PER_PAGE,
            )
            descriptions = [
                description for page in type_pages for description in read_mappings(page, "InstanceTypes")
            ]
        return {
            read_string(description, "InstanceType") or "": parse_ebs_limits(description)
            for description in descriptions
        }

    def modifications_in_progress(self, *, report_failure: FailureCallback) -> Iterator[Modification]:
        """Every modification of the region that is in progress.

        The call filters by state and never names volumes: with IDs it fails as a whole
        (``InvalidVolumeModification.NotFound``) if one of the volumes was never modified.

        Raises:
            AwsError: a page could not be read; what was yielded until then is incomplete.
        """
        action = "ec2:DescribeVolumesModifications"
        filters = {"modification-state": _IN_PROGRESS_STATES}
        for page in self._list_pages("describe_volumes_modifications", _MODIFICATIONS_KEY, action, filters):
            yield from parse_each(
                page[_MODIFICATIONS_KEY], parse_modification, action, report_failure, _VOLUME
            )

    def modifications_by_id(self, volume_ids: Iterable[str]) -> ModificationsResult:
        """The newest modification of each of these volumes.

        The call uses a filter: with IDs it fails as a whole if one of the volumes was never modified.
        """
        action = "ec2:DescribeVolumesModifications"
        newest: dict[str, Modification] = {}
        unread: dict[str, AwsFailure] = {}
        for batch in batches(list(dict.fromkeys(volume_ids)), _MAX_FILTER_VALUES):
            filters = {"volume-id": batch}
            listing = self._list_pages("describe_volumes_modifications", _MODIFICATIONS_KEY, action, filters)
            try:
                descriptions = [modification for page in listing for modification in page[_MODIFICATIONS_KEY]]
            except AwsError as error:
                unread.update(dict.fromkeys(batch, error.failure))
                continue
            for modification in parse_each(
                descriptions, parse_modification, action, unread.__setitem__, _VOLUME
            ):
                current = newest.get(modification.volume_id)
                if current is None or (modification.started_at or EPOCH) >= (current.started_at or EPOCH):
                    newest[modification.volume_id] = modification
        return ModificationsResult(modifications=newest, unread=unread)

    def provisioned_iops(self, volume_type: VolumeType) -> int:
        """The sum of the provisioned IOPS of all volumes of this type in the region.

        Raises:
            AwsError: the volumes could not be listed.
        """
        filters = {"volume-type": [volume_type]}
        listing = self._list_pages("describe_volumes", "Volumes", "ec2:DescribeVolumes", filters)
        return sum(
            read_integer(volume, "Iops") or 0 for page in listing for volume in read_mappings(page, "Volumes")
        )

    def has_volume_in_zone(self, volume_type: VolumeType, zone: str) -> bool:
        """Whether the account has a volume of this type in the zone, so that the type exists there.

        Raises:
            AwsError: the volumes could not be listed.
        """
        filters: dict[str, list[str]] = {"volume-type": [volume_type], "availability-zone": [zone]}
        listing = self._list_pages("describe_volumes", "Volumes", "ec2:DescribeVolumes", filters)
        return any(read_mappings(page, "Volumes") for page in listing)

    def _list_pages(
        self, operation: str, list_key: str, action: str, filters: Mapping[str, Sequence[str]]
    ) -> Iterator[Description]:
        """Every page of what matches the filters, including what AWS services manage and hide."""
        call = partial(self._call_with_managed, getattr(self._client, operation))
        filter_parameters = [{"Name": name, "Values": list(values)} for name, values in filters.items()]
        with translate_errors(action):
            yield from paginate(
                call,
                list_key=list_key,
                MaxResults=PAGE_SIZE,
                **({"Filters": filter_parameters} if filter_parameters else {}),
            )

    def _call_with_managed(self, call: Callable[..., Any], **request: Any) -> Any:
        """Include managed resources, until an endpoint or an SDK turns out not to support that.

        EC2 hides volumes that a service such as EKS Auto Mode manages from lists, unless
        ``IncludeManagedResources`` is set. Source: the EC2 user guide, "Amazon EC2 managed instances".
        """
        if self._includes_managed:
            try:
                return call(**request, IncludeManagedResources=True)
            except AWS_ERRORS as error:
                if "IncludeManagedResources" not in str(error):
                    raise
            self._includes_managed = False
        return call(**request)

    def _describe_by_id(
        self, lookup: _Lookup, ids: Sequence[str], unread: dict[str, AwsFailure]
    ) -> Iterator[Description]:
        """The descriptions of these IDs, in batches; a batch that finally fails is added to ``unread``."""
        for batch in batches(ids, PAGE_SIZE):
            try:
                with translate_errors(lookup.action):
                    described_pages = self._describe_batch(lookup, batch)
            except AwsError as error:
                unread.update(dict.fromkeys(batch, error.failure))
            else:
                yield from described_pages

    def _describe_batch(self, lookup: _Lookup, batch: Sequence[str]) -> list[Description]:
        """Make one call by ID, and another without the IDs that EC2 names as unknown.

        A filter would leave unknown IDs out, but EC2 applies it to page after page of all resources in the
        region. So it is used only if the errors do not say which IDs are unknown.
        """
        call = getattr(self._client, lookup.operation)
        remaining_ids = list(batch)
        for _ in range(_MAX_TRIES_BY_ID):
            try:
                return (
                    list(paginate(call, list_key=lookup.list_key, **{lookup.ids_parameter: remaining_ids}))
                    if remaining_ids
                    else []
                )
            except ClientError as error:
                error_details = error.response.get("Error", {})
                if error_details.get("Code") not in lookup.bad_id_codes:
                    raise
                # The error has no field for the unknown IDs: its message lists them as text.
                bad_ids = set(_NON_ID_CHARS.split(str(error_details.get("Message"))))
            if not bad_ids.intersection(remaining_ids):
                break
            remaining_ids = [item for item in remaining_ids if item not in bad_ids]
        filters = ({lookup.filter_name: part} for part in batches(remaining_ids, _MAX_FILTER_VALUES))
        return [
            page
            for item in filters
            for page in self._list_pages(lookup.operation, lookup.list_key, lookup.action, item)
        ]


def parse_volume(description: Description) -> Volume:
    """Parse one entry of DescribeVolumes.

    Every attachment that is not detached counts, and a complete one comes first. A volume without a creation
    time counts as old: otherwise its missing data would count as ``too_new`` instead of as a fault. An
    optional value that is invalid counts as absent.

    Raises:
        KeyError: it has no ID, type or size.
        ValueError: one of these, or its attachment, is invalid.
    """
    attachments = [
        attachment for attachment in _attachments(description) if attachment.get("State") != "detached"
    ]
    attachments.sort(key=lambda attachment: attachment.get("State", "attached") != "attached")
    first = attachments[0] if attachments else {}
    operator = read_nested(description, "Operator")
    managed_by = read_string(first, "InstanceOwningService")
    if operator.get("Managed"):
        managed_by = read_string(operator, "Principal") or "an AWS service"
    return Volume(
        volume_id=read_id(description, _VOLUME.id_key),
        volume_type=read_required(description, "VolumeType", read_string),
        size_gib=read_required(description, "Size", read_integer),
        created_at=to_utc(description.get("CreateTime")) or EPOCH,
        attached=bool(attachments),
        detaching=first.get("State") in _DETACHING_STATES,
        attached_at=to_utc(first.get("AttachTime")),
        instance_id=read_string(first, "InstanceId"),
        device=read_string(first, "Device"),
        multi_attach_enabled=len(attachments) > 1 or description.get("MultiAttachEnabled") is True,
        managed_by=managed_by,
        provisioned_iops=read_limit(description, "Iops"),
        throughput_mib_s=read_limit(description, "Throughput"),
        zone=read_string(description, "AvailabilityZone") or read_string(description, "AvailabilityZoneId"),
        outpost_arn=read_string(description, "OutpostArn"),
        tags=read_tags(description),
    )


def parse_instance(description: Description) -> Instance:
    """Parse one entry of DescribeInstances, without the limits of its type.

    An instance without a launch time counts as old: otherwise its missing data would count as ``too_new``.

    Raises:
        KeyError: it has no ID or type.
        ValueError: one of these is invalid.
    """
    return Instance(
        instance_id=read_id(description, "InstanceId"),
        instance_type=sanitise(read_required(description, "InstanceType", read_string), MAX_ID_CHARS),
        state=read_string(read_nested(description, "State"), "Name") or "unknown",
        launched_at=to_utc(description.get("LaunchTime")) or EPOCH,
        has_detailed_monitoring=read_string(read_nested(description, "Monitoring"), "State")
        in ("enabled", "pending"),
        volume_ids=_attached_volume_ids(description),
        tags=read_tags(description),
    )


def _attached_volume_ids(description: Description) -> tuple[str, ...]:
    mappings = (read_nested(mapping, "Ebs") for mapping in read_mappings(description, "BlockDeviceMappings"))
    return tuple(sorted({volume_id for ebs in mappings if (volume_id := read_string(ebs, "VolumeId"))}))


def _instances_in(page: Description) -> Iterator[Description]:
    """The instances of a page of DescribeInstances, which groups them by reservation."""
    for reservation in read_mappings(page, "Reservations"):
        instances = reservation.get("Instances")
        yield from instances if isinstance(instances, list | tuple) else ()


def parse_modification(description: Description) -> Modification:
    """Parse one entry of DescribeVolumesModifications.

    Raises:
        KeyError: it has no ID or state, or its original or its target has no type or size.
        ValueError: one of these is invalid.
    """
    return Modification(
        volume_id=read_id(description, _VOLUME.id_key),
        state=read_required(description, "ModificationState", read_string),
        original=_parse_provision(description, "Original"),
        target=_parse_provision(description, "Target"),
        progress_pct=read_integer(description, "Progress"),
        started_at=to_utc(description.get("StartTime")),
        ended_at=to_utc(description.get("EndTime")),
        status_message=read_string(description, "StatusMessage"),
    )


def parse_ebs_limits(description: Description) -> InstanceLimits | None:
    """Parse one entry of DescribeInstanceTypes; None if it has no limits, or if they do not always apply.

    EC2 gives the throughput of instances in MB/s and that of volumes in MiB/s.
    """
    ebs_info = read_nested(description, "EbsInfo")
    limits = read_nested(ebs_info, "EbsOptimizedInfo")
    required_keys = ("BaselineIops", "MaximumIops", "BaselineThroughputInMBps", "MaximumThroughputInMBps")
    if ebs_info.get("EbsOptimizedSupport") != "default" or not all(
        is_valid_number(limits.get(name)) and limits[name] for name in required_keys
    ):
        return None
    return InstanceLimits(
        max_iops=limits["MaximumIops"],
        max_throughput_mib_s=limits["MaximumThroughputInMBps"] * _MIB_PER_MB,
        baseline_iops=limits["BaselineIops"],
        baseline_throughput_mib_s=limits["BaselineThroughputInMBps"] * _MIB_PER_MB,
    )


def _parse_provision(description: Description, side: str) -> VolumeSpec:
    return VolumeSpec(
        volume_type=read_required(description, f"{side}VolumeType", read_string),
        size_gib=read_required(description, f"{side}Size", read_integer),
        iops=read_limit(description, f"{side}Iops"),
        throughput_mib_s=read_limit(description, f"{side}Throughput"),
    )


def _attachments(description: Description) -> list[Description]:
    """The attachments; none of them may be missed, because a detached volume is treated differently.

    Raises:
        ValueError: they cannot be parsed.
    """
    raw = description.get("Attachments", ())
    attachments = read_mappings(description, "Attachments")
    if not isinstance(raw, list | tuple) or len(attachments) < len(raw):
        raise ValueError(f"its Attachments are {quote(raw)}")
    return attachments
