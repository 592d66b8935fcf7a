"""Volumes, instances and modifications as EC2 describes them."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

from botocore.exceptions import ClientError

from burstwatch.adapters.aws.botocore_hooks import pages
from burstwatch.adapters.aws.errors import (
    AWS_ERRORS,
    AwsError,
    AwsFailure,
    FailureKind,
    error_codes,
    explained,
)
from burstwatch.core.ebs.modification import Modification, Provision
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.ebs.sizing import InstanceLimits
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.text import printable

if TYPE_CHECKING:
    from types_boto3_ec2 import EC2Client

Described: TypeAlias = Mapping[str, Any]
Report: TypeAlias = Callable[[str, AwsFailure], None]
"""Takes the id of a volume that could not be read, and why; the others are unaffected."""

PAGE_SIZE: Final = 500
"""What DescribeVolumes and DescribeVolumesModifications give at most in one page."""

_FILTER_VALUES: Final = 200
"""What one filter of EC2 takes at most."""

_INSTANCE_TYPES: Final = 100
"""What DescribeInstanceTypes gives at most in one page."""

_TRIES_BY_ID: Final = 3
_NOT_OF_AN_ID: Final = re.compile(r"[^\w-]+")

_MODIFICATIONS: Final = "VolumesModifications"
_LARGEST: Final = 2**31 - 1
"""EC2's numbers are no larger."""

_LONGEST_ID: Final = 64
_LONGEST_SHOWN: Final = 80
_MIB_PER_MB: Final = 1e6 / 2**20
_IN_PROGRESS: Final = ("modifying", "optimizing")
_DETACHING: Final = ("detaching", "busy")
_LONG_AGO: Final = datetime.fromtimestamp(0, UTC)
_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumesRead:
    """Of each id asked for there is the volume, or it is ``missing``, or ``unread`` for a reason."""

    volumes: Sequence[Volume] = ()
    missing: Sequence[str] = ()
    unread: Mapping[str, AwsFailure] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceStates:
    """AWS's word for the state of each instance; one that AWS no longer knows is ``terminated``.

    ``types`` has the type of each instance that AWS still knows, such as ``m5.large``, and ``names`` the Name
    tag of those that have one.
    """

    states: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    unread: Mapping[str, AwsFailure] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModificationsRead:
    """The newest modification of each volume; a volume in neither has none that AWS remembers."""

    modifications: Mapping[str, Modification] = field(default_factory=dict)
    unread: Mapping[str, AwsFailure] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EbsLimitsRead:
    """What each instance type allows its volumes together; a type in neither has no limits that AWS tells."""

    limits: Mapping[str, InstanceLimits] = field(default_factory=dict)
    unread: Mapping[str, AwsFailure] = field(default_factory=dict)


class _Lookup(NamedTuple):
    """How EC2 is asked for things of one kind by their ids."""

    operation: str
    lists: str
    action: str
    ids_parameter: str
    filter_name: str
    bad_id_codes: frozenset[str]


_VOLUMES: Final = _Lookup(
    "describe_volumes",
    "Volumes",
    "ec2:DescribeVolumes",
    "VolumeIds",
    "volume-id",
    error_codes("InvalidVolume.NotFound InvalidVolumeID.Malformed InvalidParameterValue"),
)
_INSTANCES: Final = _Lookup(
    "describe_instances",
    "Reservations",
    "ec2:DescribeInstances",
    "InstanceIds",
    "instance-id",
    error_codes("InvalidInstanceID.NotFound InvalidInstanceID.Malformed InvalidParameterValue"),
)


class Ec2Reader:
    """Reads one region; the client brings the retries."""

    def __init__(self, client: "EC2Client") -> None:
        self._client = client
        self._asks_for_managed = True
        self._ebs_limits: dict[str, InstanceLimits | None] = {}

    def volumes(
        self,
        filters: Mapping[str, Sequence[str]],
        *,
        report: Report,
        on_page: Callable[[], None] = lambda: None,
    ) -> Iterator[Volume]:
        """Every volume of the region that passes EC2's own filters, such as ``{"volume-type": ["gp2"]}``.

        EC2 may apply a filter after it has cut a page of all volumes: pages come short or empty, and their
        number follows all volumes of the region. ``on_page`` is called after each.

        Raises:
            AwsError: A page could not be read; the volumes yielded until then are not all there are.
        """
        action = "ec2:DescribeVolumes"
        for page in self._listing("describe_volumes", "Volumes", action, filters):
            on_page()
            yield from _each(page["Volumes"], volume_from, action, report)

    def volumes_by_id(self, volume_ids: Iterable[str]) -> VolumesRead:
        """These volumes, whatever has become of some of them."""
        wanted = list(dict.fromkeys(volume_ids))
        unread: dict[str, AwsFailure] = {}
        volumes = [
            volume
            for answer in self._by_id(_VOLUMES, wanted, unread)
            for volume in _each(answer["Volumes"], volume_from, _VOLUMES.action, unread.__setitem__)
        ]
        accounted = {volume.volume_id for volume in volumes} | unread.keys()
        missing = [each for each in wanted if each not in accounted]
        return VolumesRead(volumes=volumes, missing=missing, unread=unread)

    def instance_states(self, instance_ids: Iterable[str]) -> InstanceStates:
        """Whether these instances are running, stopped or gone, and of what type they are."""
        wanted = list(dict.fromkeys(instance_ids))
        unread: dict[str, AwsFailure] = {}
        found = {
            instance["InstanceId"]: instance
            for answer in self._by_id(_INSTANCES, wanted, unread)
            for reservation in _mappings(answer, "Reservations")
            for instance in _mappings(reservation, "Instances")
            if instance.get("InstanceId") in wanted
        }
        states = {each: _word(_part(told, "State"), "Name") or "unknown" for each, told in found.items()}
        types = {each: kind for each, told in found.items() if (kind := _word(told, "InstanceType"))}
        names = {each: name for each, told in found.items() if (name := _tags(told).get("Name"))}
        accounted = found.keys() | unread.keys()
        gone = dict.fromkeys((each for each in wanted if each not in accounted), "terminated")
        return InstanceStates(states=states | gone, types=types, names=names, unread=unread)

    def ebs_limits(self, instance_types: Iterable[str]) -> EbsLimitsRead:
        """What these instance types allow their volumes together; each is asked for once in a reader's life.

        Asked for by filter: an unknown type fails a call that names it. A type without limits of its own (a
        t2, or an older one that is EBS-optimized on demand only) is left out.
        """
        wanted = list(dict.fromkeys(instance_types))
        unread: dict[str, AwsFailure] = {}
        for batch in _batches([each for each in wanted if each not in self._ebs_limits], _INSTANCE_TYPES):
            try:
                self._ebs_limits.update(dict.fromkeys(batch) | self._read_ebs_limits(batch))
            except AwsError as error:
                unread.update(dict.fromkeys(batch, error.failure))
        known = {each: self._ebs_limits.get(each) for each in wanted}
        return EbsLimitsRead(limits={k: found for k, found in known.items() if found}, unread=unread)

    def _read_ebs_limits(self, instance_types: Sequence[str]) -> dict[str, InstanceLimits | None]:
        with explained("ec2:DescribeInstanceTypes"):
            answers = pages(
                self._client.describe_instance_types,
                of="InstanceTypes",
                Filters=[{"Name": "instance-type", "Values": list(instance_types)}],
                MaxResults=_INSTANCE_TYPES,
            )
            told = [each for answer in answers for each in _mappings(answer, "InstanceTypes")]
        return {_word(each, "InstanceType") or "": ebs_limits_from(each) for each in told}

    def modifications_in_progress(self, *, report: Report) -> Iterator[Modification]:
        """Every modification of the region that is not over yet.

        Asked for by state and never by volume: one volume that was never modified fails a call with ids.

        Raises:
            AwsError: A page could not be read; what was yielded until then is not all there is.
        """
        action = "ec2:DescribeVolumesModifications"
        filters = {"modification-state": _IN_PROGRESS}
        for page in self._listing("describe_volumes_modifications", _MODIFICATIONS, action, filters):
            yield from _each(page[_MODIFICATIONS], modification_from, action, report)

    def modifications_by_id(self, volume_ids: Iterable[str]) -> ModificationsRead:
        """The newest modification of each of these volumes.

        Asked for by filter: one volume that was never modified fails a call that names it.
        """
        action = "ec2:DescribeVolumesModifications"
        newest: dict[str, Modification] = {}
        unread: dict[str, AwsFailure] = {}
        for batch in _batches(list(dict.fromkeys(volume_ids)), _FILTER_VALUES):
            filters = {"volume-id": batch}
            listing = self._listing("describe_volumes_modifications", _MODIFICATIONS, action, filters)
            try:
                told = [each for page in listing for each in page[_MODIFICATIONS]]
            except AwsError as error:
                unread.update(dict.fromkeys(batch, error.failure))
                continue
            for each in _each(told, modification_from, action, unread.__setitem__):
                known = newest.get(each.volume_id)
                if known is None or (each.started_at or _LONG_AGO) >= (known.started_at or _LONG_AGO):
                    newest[each.volume_id] = each
        return ModificationsRead(modifications=newest, unread=unread)

    def provisioned_iops(self, volume_type: VolumeType) -> int:
        """What all volumes of this type in the region are provisioned for together.

        Raises:
            AwsError: The volumes could not be listed.
        """
        filters = {"volume-type": [volume_type]}
        listing = self._listing("describe_volumes", "Volumes", "ec2:DescribeVolumes", filters)
        return sum(_whole(each, "Iops") or 0 for page in listing for each in _mappings(page, "Volumes"))

    def _listing(
        self, operation: str, of: str, action: str, filters: Mapping[str, Sequence[str]]
    ) -> Iterator[Described]:
        """Every page of what passes the filters, also what AWS services manage and hide."""
        call = partial(self._with_managed, getattr(self._client, operation))
        asked = [{"Name": name, "Values": list(values)} for name, values in filters.items()]
        with explained(action):
            yield from pages(call, of=of, MaxResults=PAGE_SIZE, **({"Filters": asked} if asked else {}))

    def _with_managed(self, call: Callable[..., Any], **request: Any) -> Any:
        """Ask for managed resources too, until an endpoint or an SDK turns out not to know of them."""
        if self._asks_for_managed:
            try:
                return call(**request, IncludeManagedResources=True)
            except AWS_ERRORS as error:
                if "IncludeManagedResources" not in str(error):
                    raise
            self._asks_for_managed = False
        return call(**request)

    def _by_id(
        self, lookup: _Lookup, ids: Sequence[str], unread: dict[str, AwsFailure]
    ) -> Iterator[Described]:
        """The answers for these ids, batch by batch; a batch that fails for good goes to ``unread``."""
        for batch in _batches(ids, PAGE_SIZE):
            try:
                with explained(lookup.action):
                    answers = self._batch_by_id(lookup, batch)
            except AwsError as error:
                unread.update(dict.fromkeys(batch, error.failure))
            else:
                yield from answers

    def _batch_by_id(self, lookup: _Lookup, batch: Sequence[str]) -> list[Described]:
        """One call by id, and another without the ids that AWS names as bad.

        A filter leaves bad ids out by itself, but EC2 applies it to page after page of everything the region
        has. So it is used only where the errors do not say which ids are bad.
        """
        call = getattr(self._client, lookup.operation)
        wanted = list(batch)
        for _ in range(_TRIES_BY_ID):
            try:
                return list(pages(call, of=lookup.lists, **{lookup.ids_parameter: wanted})) if wanted else []
            except ClientError as error:
                told = error.response.get("Error", {})
                if told.get("Code") not in lookup.bad_id_codes:
                    raise
                bad = set(_NOT_OF_AN_ID.split(str(told.get("Message"))))
            if not bad.intersection(wanted):
                break
            wanted = [each for each in wanted if each not in bad]
        filters = ({lookup.filter_name: part} for part in _batches(wanted, _FILTER_VALUES))
        return [
            page
            for each in filters
            for page in self._listing(lookup.operation, lookup.lists, lookup.action, each)
        ]


def _batches(ids: Sequence[str], most: int) -> Iterator[Sequence[str]]:
    return (ids[first : first + most] for first in range(0, len(ids), most))


def _each(
    described: Iterable[Described], read: Callable[[Described], _Read], action: str, report: Report
) -> Iterator[_Read]:
    """What can be read; the rest is reported one by one."""
    for each in described:
        try:
            value = read(_described(each))
        except (KeyError, ValueError) as error:
            why = f"AWS's answer has no {error}" if isinstance(error, KeyError) else str(error)
            failure = AwsFailure(
                kind=FailureKind.BROKEN,
                code="UnreadableVolume",
                message=why,
                next_step="it is not watched until this is mended, see `aws ec2 describe-volumes`",
                action=action,
            )
            said = each.get("VolumeId") if isinstance(each, Mapping) else None
            known_by = printable(said, _LONGEST_ID) if isinstance(said, str) else ""
            report(known_by or "(a volume without id)", failure)
        else:
            yield value


def volume_from(described: Described) -> Volume:
    """One entry of DescribeVolumes.

    Any attachment that is not over counts, the first that is complete comes first. A volume without a
    creation time counts as old, so that missing data is a fault and not put down to its youth. What is told
    besides, and cannot be, counts as not told.

    Raises:
        KeyError: It has no id, type or size.
        ValueError: One of these, or where it is attached, cannot be.
    """
    attachments = [each for each in _attachments(described) if each.get("State") != "detached"]
    attachments.sort(key=lambda each: each.get("State", "attached") != "attached")
    first = attachments[0] if attachments else {}
    operator = _part(described, "Operator")
    managed_by = _word(first, "InstanceOwningService")
    if operator.get("Managed"):
        managed_by = _word(operator, "Principal") or "an AWS service"
    return Volume(
        volume_id=_id(described),
        volume_type=_needed(described, "VolumeType", _word),
        size_gib=_needed(described, "Size", _whole),
        created_at=_utc(described.get("CreateTime")) or _LONG_AGO,
        attached=bool(attachments),
        detaching=first.get("State") in _DETACHING,
        attached_at=_utc(first.get("AttachTime")),
        instance_id=_word(first, "InstanceId"),
        device=_word(first, "Device"),
        multi_attached=len(attachments) > 1 or described.get("MultiAttachEnabled") is True,
        managed_by=managed_by,
        provisioned_iops=_whole(described, "Iops"),
        throughput_mib_s=_whole(described, "Throughput"),
        zone=_word(described, "AvailabilityZone") or _word(described, "AvailabilityZoneId"),
        outpost_arn=_word(described, "OutpostArn"),
        tags=_tags(described),
    )


def modification_from(described: Described) -> Modification:
    """One entry of DescribeVolumesModifications.

    Raises:
        KeyError: It has no id or state, or lacks the type or size on one side.
        ValueError: One of these cannot be.
    """
    return Modification(
        volume_id=_id(described),
        state=_needed(described, "ModificationState", _word),
        original=_provision(described, "Original"),
        target=_provision(described, "Target"),
        progress_pct=_whole(described, "Progress"),
        started_at=_utc(described.get("StartTime")),
        ended_at=_utc(described.get("EndTime")),
        status_message=_word(described, "StatusMessage"),
    )


def ebs_limits_from(described: Described) -> InstanceLimits | None:
    """One entry of DescribeInstanceTypes; None where the limits are not there or do not always apply.

    AWS tells megabytes per second, volumes are given mebibytes.
    """
    ebs = _part(described, "EbsInfo")
    told = _part(ebs, "EbsOptimizedInfo")
    needed = ("BaselineIops", "MaximumIops", "BaselineThroughputInMBps", "MaximumThroughputInMBps")
    if ebs.get("EbsOptimizedSupport") != "default" or not all(_is_amount(told.get(name)) for name in needed):
        return None
    return InstanceLimits(
        max_iops=told["MaximumIops"],
        max_throughput_mib_s=told["MaximumThroughputInMBps"] * _MIB_PER_MB,
        baseline_iops=told["BaselineIops"],
        baseline_throughput_mib_s=told["BaselineThroughputInMBps"] * _MIB_PER_MB,
    )


def _provision(described: Described, side: str) -> Provision:
    return Provision(
        volume_type=_needed(described, f"{side}VolumeType", _word),
        size_gib=_needed(described, f"{side}Size", _whole),
        iops=_whole(described, f"{side}Iops"),
        throughput_mib_s=_whole(described, f"{side}Throughput"),
    )


def _attachments(described: Described) -> list[Described]:
    """Where it is attached, of which nothing may be missed.

    Raises:
        ValueError: that is not told in a way to be read.
    """
    told = described.get("Attachments", ())
    found = _mappings(described, "Attachments")
    if not isinstance(told, list | tuple) or len(found) < len(told):
        raise ValueError(f"its Attachments are {_shown(told)}")
    return found


def _tags(described: Described) -> dict[str, str]:
    told = ((tag.get("Key"), tag.get("Value", "")) for tag in _mappings(described, "Tags"))
    return {key: value for key, value in told if isinstance(key, str) and isinstance(value, str)}


def _utc(instant: Any) -> datetime | None:
    try:
        return instant.astimezone(UTC) if isinstance(instant, datetime) else None
    except OverflowError:  # in its own zone it is of the year 1 or 9999
        return None


def _id(described: Described) -> str:
    """The id of the volume; what is none must not become a key of the ledger.

    Raises:
        KeyError: there is none.
        ValueError: it is none.
    """
    found = _needed(described, "VolumeId", _word)
    if len(found) > _LONGEST_ID or not found.isascii() or not found.isprintable():
        raise ValueError(f"its VolumeId is {_shown(found)}")
    return found


def _described(told: Any) -> Described:
    if not isinstance(told, Mapping):
        raise ValueError(f"it is described as {_shown(told)}")  # noqa: TRY004 - one kind of fault of many
    return told


def _needed(described: Described, name: str, read: Callable[[Described, str], _Read | None]) -> _Read:
    """What there must be.

    Raises:
        KeyError: it is not there.
        ValueError: it is something else.
    """
    value = read(described, name)
    if value is None:
        raise ValueError(f"its {name} is {_shown(described[name])}")
    return value


def _word(described: Described, name: str) -> str | None:
    value = described.get(name)
    return value if isinstance(value, str) and value else None


def _whole(described: Described, name: str) -> int | None:
    value = described.get(name)
    return value if isinstance(value, int) and _is_amount(value) else None


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _LARGEST


def _part(described: Described, name: str) -> Described:
    """What is described further below a name; nothing, where that is something else."""
    value = described.get(name)
    return value if isinstance(value, Mapping) else {}


def _mappings(described: Described, name: str) -> list[Described]:
    """What of a list can be read on."""
    told = described.get(name)
    return [each for each in told if isinstance(each, Mapping)] if isinstance(told, list | tuple) else []


def _shown(value: Any) -> str:
    return printable(repr(value), _LONGEST_SHOWN)
