"""Which volumes and instances an operator means: by an ID of AWS, by a name, or by what they belong to."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeVar

from burstctl.cli.tag_filter import TagTerm, ec2_filters
from burstctl.context.context import CommandContext
from burstctl.render.volume import count_resources, format_id_and_name
from burstwatch.adapters.aws.errors import AwsError, AwsFailure, FailureKind
from burstwatch.core.assessment.resource import AdvisedResource, Resource, type_name_of
from burstwatch.core.assessment.resource_buckets import bucket_kinds_of_type
from burstwatch.core.ebs.display_name import NAME_TAGS, names_of
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.errors import LedgerError, Problem
from burstwatch.core.instances.instance import Instance
from burstwatch.core.resource_type import (
    DATABASE_ID,
    DATABASE_PREFIX,
    FILE_SYSTEM_ID,
    INSTANCE_ID,
    VOLUME_ID,
    ResourceType,
    is_resource_id,
    subject_of,
    type_of_id,
)
from burstwatch.core.text import sanitise
from burstwatch.core.watch.renamed_database import new_name_in
from burstwatch.engine.resource_readers import (
    find_databases_by_lasting_id,
    find_resources,
    list_resources,
)
from burstwatch.wiring.settings import SettingsError

_CLAIM: Final = re.compile(r"(?:claim )?(?:\S+/)?(?P<name>\S+?)(?: in \S+)?")
"""The forms of a claim's name that tables show: ``claim data-0 in prod``, ``prod/data-0``, ``data-0``."""

_DBI_RESOURCE_ID: Final = re.compile(r"db-[A-Z0-9]{16,40}")
"""The ID that a database keeps when it is renamed: DbiResourceId."""
_STORAGE_KINDS: Final = frozenset((ResourceType.EFS, ResourceType.RDS))
_MAX_CANDIDATES: Final = 5  # keeps the message to a few lines
_MAX_SHOWN_CHARS: Final = 80

_Resource = TypeVar("_Resource", Volume, Instance, Volume | Instance, Resource)


class ResourceNameError(SettingsError):
    """A word names no resource, one of another kind, or more than one where one is needed."""


def resolve_volumes(
    context: CommandContext, names: Sequence[str], *, prefers: Callable[[Volume], bool] = lambda _volume: True
) -> list[str]:
    """The IDs of the volumes with these names, each once and in their order; the ID of one is not looked up.

    An instance stands for those of its volumes that are preferred, or for all of them if none is.

    Raises:
        ResourceNameError: a word names no volume, or is the name of several.
        AwsError: AWS does not list the volumes or the instances.
    """
    volume_ids: list[str] = []
    for name in names:
        if VOLUME_ID.fullmatch(name):
            volume_ids.append(name)
        else:
            volume_ids += [volume.volume_id for volume in _find_volumes(context, name, prefers)]
    return list(dict.fromkeys(volume_ids))


def resolve_volume(
    context: CommandContext, word: str, *, prefers: Callable[[Volume], bool] = lambda _volume: True
) -> str:
    """The ID of the one volume that the word names; the ID of one is not looked up.

    Raises:
        ResourceNameError: it names none or several.
        AwsError: AWS does not list the volumes or the instances.
    """
    if VOLUME_ID.fullmatch(word):
        return word
    return _the_only(context, word, _find_volumes(context, word, prefers)).volume_id


def resolve_resource(
    context: CommandContext, word: str, *, prefers: Callable[[Volume], bool] = lambda _volume: True
) -> str:
    """The ID of the one resource that the word names; an ID is not looked up.

    File systems and databases that the policy does not watch are looked up only if nothing else has the
    name. The ID of a database in RDS (``db-…``) is translated to its name.

    If volumes that are preferred have the name, the others do not count.

    Raises:
        ResourceNameError: it names none or several.
        AwsError: AWS does not list the volumes or the instances.
    """
    if is_resource_id(word):
        return word
    if _DBI_RESOURCE_ID.fullmatch(word):
        return _database_with_id(context, word)
    watched = _STORAGE_KINDS.intersection(context.services.policy.resources.watched)
    storage = _search_storage(context, word, watched)
    named = _find_named(context, word, is_alone=not storage.resources)
    if not named and not storage.resources:
        storage = storage.joined(_search_storage(context, word, _STORAGE_KINDS - watched))
    volumes = [resource for resource in named if isinstance(resource, Volume)]
    instances = [resource for resource in named if isinstance(resource, Instance)]
    preferred = [volume for volume in volumes if prefers(volume)] or volumes
    candidates: list[Resource] = [*preferred, *instances, *storage.resources]
    return _the_only(context, word, candidates, storage).resource_id


def resolve_resources(context: CommandContext, names: Sequence[str]) -> list[str]:
    """The ID of the resource that each name belongs to, each once and in their order.

    Raises:
        ResourceNameError: a word names none or several.
        AwsError: AWS does not list the volumes or the instances.
    """
    return list(dict.fromkeys(resolve_resource(context, name) for name in names))


def resolve_instance(context: CommandContext, word: str) -> str:
    """The ID of the one instance that the word names; the ID of one is not looked up.

    Raises:
        ResourceNameError: it names none or several, or only volumes.
        AwsError: AWS does not list the volumes or the instances.
    """
    if INSTANCE_ID.fullmatch(word):
        return word
    is_volume_id = VOLUME_ID.fullmatch(word)
    named = _list(context, {"volume-id": [word]}) if is_volume_id else _find_named(context, word)
    instances = [resource for resource in named if isinstance(resource, Instance)]
    volumes = [resource for resource in named if isinstance(resource, Volume)]
    if volumes and not instances:
        raise _not_an_instance_error(word, volumes)
    return _the_only(context, word, instances).instance_id


def require_volume_or_instance(word: str) -> None:
    """Refuse the ID of a file system or a database.

    Raises:
        ResourceNameError: it is one.
    """
    if FILE_SYSTEM_ID.fullmatch(word) or DATABASE_ID.fullmatch(word):
        raise ResourceNameError(
            f"{word} is a {type_of_id(word).noun}, and a volume or an instance is needed here",
            fix=f"burstctl explain {word} shows its buckets, and what serves its load",
        )


def look_up_resources(
    context: CommandContext, resource_ids: Sequence[str]
) -> tuple[list[Resource], list[str], list[str]]:
    """The resources with these IDs as AWS describes them, the IDs of those that do not exist, and failures.

    What the types of instances and databases allow is not read.
    """
    services = context.services
    collector = services.build_collector(services.clock())
    existing: list[Resource] = []
    missing: list[str] = []
    failures: list[str] = []
    ids_by_kind: dict[ResourceType, list[str]] = {}
    for resource_id in resource_ids:
        ids_by_kind.setdefault(type_of_id(resource_id), []).append(resource_id)
    if volume_ids := ids_by_kind.pop(ResourceType.EBS, []):
        volumes, missing_volumes = collector.volumes_by_id(volume_ids)
        existing += volumes
        missing += missing_volumes
    if instance_ids := ids_by_kind.pop(ResourceType.INSTANCE, []):
        result = services.ec2.instances_by_id(instance_ids)
        existing += result.instances
        missing += result.missing
        failures += [str(failure) for failure in result.unread.values()]
    others, missing_others = find_resources(collector, [i for ids in ids_by_kind.values() for i in ids])
    return [*existing, *others], [*missing, *missing_others], [*collector.failures, *failures]


def ledger_keys_of(resource_id: str) -> list[str]:
    """The keys under which the ledger remembers the buckets of a resource."""
    resource_type = type_of_id(resource_id)
    kinds = bucket_kinds_of_type(resource_type)
    return [subject_of(resource_type, resource_id, kind.name) for kind in kinds] or [resource_id]


def present_id_of(context: CommandContext, resource_id: str) -> str | None:
    """The ID of the database that the ledger remembers under this one, if it has another name now.

    A pass of the watch moves what is remembered to the new name. Until then, RDS knows the database by its
    DbiResourceId; afterwards, the history of the old name has the new one.
    """
    if not DATABASE_ID.fullmatch(resource_id):
        return None
    ledger, collector = context.services.ledger, context.services.build_collector(context.services.clock())
    followed: list[str] = []
    present_id: str | None = resource_id
    with suppress(LedgerError):  # the ID is wrong in any case, and that is reported
        while present_id is not None and present_id not in followed:
            followed.append(present_id)
            keys = ledger_keys_of(present_id)
            lasting_ids = {state.lasting_id for state in ledger.states_of(set(keys)).values()}
            databases, _ = find_databases_by_lasting_id(collector, {i for i in lasting_ids if i is not None})
            if databases:
                return databases[0].resource_id
            present_id = new_name_in([entry for key in keys for entry in ledger.entries(key)])
    existing, _ = find_resources(collector, followed[1:][-1:])
    return existing[0].resource_id if existing else None


def _find_volumes(context: CommandContext, word: str, prefers: Callable[[Volume], bool]) -> list[Volume]:
    """The one volume with this name, else those of the instance with this name or ID; at least one."""
    instance_id = word
    if not INSTANCE_ID.fullmatch(word):
        if named := _volumes_named(context, word):
            return [_the_only(context, word, named)]
        instance_id = _the_only(context, word, context.services.ec2.instances_named(word)).instance_id
    volumes = _list(context, {"attachment.instance-id": [instance_id]})
    if not volumes:
        raise _absence_error(context, "volume", f"is attached to {instance_id!r}")
    return [volume for volume in volumes if prefers(volume)] or volumes


def _find_named(context: CommandContext, name: str, *, is_alone: bool = True) -> list[Volume | Instance]:
    """The volumes and the instances with this name.

    Without the permission to list instances, only the volumes; unless nothing else was found, also not by
    the caller (``is_alone``).
    """
    volumes = _volumes_named(context, name)
    try:
        return [*volumes, *context.services.ec2.instances_named(name)]
    except AwsError as error:
        if (is_alone and not volumes) or error.failure.kind is not FailureKind.REFUSED:
            raise
        return [*volumes]


def _the_only(
    context: CommandContext,
    word: str,
    resources: Sequence[_Resource],
    storage: "_StorageSearch | None" = None,
) -> _Resource:
    """The one resource that the word names.

    If it names none, the error says so, or which file system or database has the name. These are searched
    for that, unless ``storage`` is the result.

    Raises:
        ResourceNameError: it names none or several.
    """
    if len(resources) == 1:
        return resources[0]
    if resources:
        raise _ambiguity_error(context, word, resources)
    require_volume_or_instance(word)
    storage = storage or _search_storage(context, word, _STORAGE_KINDS)
    if storage.resources:
        raise _other_kind_error(word, storage.resources)
    kinds = [kind.noun for kind in ResourceType if kind not in storage.unread]
    description = f"has the name {sanitise(word, _MAX_SHOWN_CHARS)!r}"
    raise _absence_error(
        context,
        f"{', '.join(kinds[:-1])} or {kinds[-1]}",
        description,
        unread=storage.unread,
        present_id=present_id_of(context, f"{DATABASE_PREFIX}{word}"),
    )


def _absence_error(
    context: CommandContext,
    noun: str,
    description: str,
    *,
    unread: Mapping[ResourceType, str] = MappingProxyType({}),
    present_id: str | None = None,
) -> ResourceNameError:
    fix = "burstctl assess lists the names and IDs; in another Region, add --region NAME"
    not_searched = [f"{kind.noun}s were not searched: {cause}" for kind, cause in unread.items()]
    if present_id is not None:
        fix = f"the database that had it is named {present_id} now"
    return ResourceNameError(
        f"no {noun} in {context.services.location.region} {description}", fix="\n".join([fix, *not_searched])
    )


def _other_kind_error(word: str, resources: Sequence[AdvisedResource]) -> ResourceNameError:
    """What has the name where a volume or an instance is needed, and the command that is meant for it."""
    described = " and ".join(
        f"the {resource.resource_type.noun} {resource.resource_id}" for resource in resources
    )
    return ResourceNameError(
        f"{sanitise(word, _MAX_SHOWN_CHARS)!r} names {described}, and a volume or an instance is needed here",
        fix=f"burstctl explain {resources[0].resource_id} shows its buckets, and what to run for its load",
    )


def _ambiguity_error(context: CommandContext, word: str, resources: Sequence[Resource]) -> ResourceNameError:
    candidates = [_describe_candidate(resource) for resource in resources]
    more = len(candidates) - _MAX_CANDIDATES
    lines = ["give an ID:", *candidates[:_MAX_CANDIDATES], *([f"and {more:,} more"] if more > 0 else [])]
    return ResourceNameError(
        f"{sanitise(word, _MAX_SHOWN_CHARS)!r} stands for {count_resources(resources)} in"
        f" {context.services.location.region}, and one is needed here",
        fix="\n".join(lines),
    )


def _not_an_instance_error(word: str, volumes: Sequence[Volume]) -> ResourceNameError:
    """What is wrong with a word for volumes where only an instance is possible."""
    instance_ids = sorted({volume.instance_id for volume in volumes if volume.instance_id})
    its_instance = f"its instance: {', '.join(instance_ids)}" if instance_ids else "the ID of an instance"
    return ResourceNameError(
        f"{sanitise(word, _MAX_SHOWN_CHARS)!r} names {count_resources(volumes)}, and an instance is needed"
        " here",
        fix=f"give {its_instance}",
    )


def _describe_candidate(resource: Resource) -> str:
    if not isinstance(resource, Volume):
        return f"{format_id_and_name(resource)} {type_name_of(resource)}"
    volume = resource
    place = f", on {volume.instance_id}" if volume.instance_id else ""
    return f"{format_id_and_name(volume)} {volume.volume_type} {volume.size_gib:,} GiB{place}"


def _volumes_named(context: CommandContext, name: str) -> list[Volume]:
    """By the Name tag, else by a name that Kubernetes gave and tables show."""
    claim = _CLAIM.fullmatch(name)
    for key in NAME_TAGS:
        value = claim["name"] if claim and key != "Name" else name
        listed = _list(context, ec2_filters([TagTerm(key, value)]))
        if volumes := [volume for volume in listed if name in names_of(volume)]:
            return volumes
    return []


@dataclass(frozen=True, slots=True)
class _StorageSearch:
    """The file systems and databases that have a name, and why those of a kind could not be listed."""

    resources: Sequence[AdvisedResource]
    unread: Mapping[ResourceType, str]

    def joined(self, other: "_StorageSearch") -> "_StorageSearch":
        return _StorageSearch([*self.resources, *other.resources], {**self.unread, **other.unread})


def _search_storage(context: CommandContext, name: str, kinds: Collection[ResourceType]) -> _StorageSearch:
    """Those with this Name tag, and the database that has the name itself.

    Each kind needs a permission of its own.
    """
    collector = context.services.build_collector(context.services.clock())
    resources: list[AdvisedResource] = []
    unread: dict[ResourceType, str] = {}
    for kind in sorted(kinds):
        listed = list_resources(collector, kind)
        if listed is None:
            unread[kind] = Problem.of(collector.failures[-1]).cause
        resources += [resource for resource in listed or () if name in (resource.name, resource.metric_id)]
    return _StorageSearch(resources, unread)


def _database_with_id(context: CommandContext, dbi_resource_id: str) -> str:
    assert context.services.rds is not None
    result = context.services.rds.databases_by_resource_id([dbi_resource_id])
    for failure in result.unread.values():
        raise AwsError(failure)
    if not result.databases:
        raise _absence_error(context, "database", f"has the ID {dbi_resource_id!r}")
    return result.databases[0].resource_id


def _list(context: CommandContext, filters: Mapping[str, Sequence[str]]) -> list[Volume]:
    def report(subject: str, failure: AwsFailure) -> None:
        problem = failure.problem
        raise ResourceNameError(f"{subject}: {problem.cause}", fix=problem.fix)

    volumes = context.services.ec2.volumes(filters, report_failure=report)
    return sorted(volumes, key=lambda volume: volume.volume_id)
