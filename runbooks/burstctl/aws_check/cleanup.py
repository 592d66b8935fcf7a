"""Removes what a run created: the resources in its file, and those that carry its tag."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from botocore.exceptions import ClientError

from burstctl.aws_check.resources import KINDS, Client, ResourceKind, is_not_found, run_of
from burstctl.aws_check.run_file import Resource, RunFile
from burstctl.experiment.waiting import Waiter
from burstwatch.adapters.aws.errors import AWS_ERRORS, to_aws_failure

_POLL_INTERVAL_S: Final = 10  # deleting takes seconds to minutes, and Describe calls share a quota
_VISIBLE_WITHIN_S: Final = 120
"""For this long after its creation, AWS may not list a resource yet, or may list it without its tags."""

_EMPTY_PASSES_NEEDED: Final = 2
"""Passes that find nothing: what was created a moment ago may not be listed yet."""


@dataclass(slots=True)
class CleanupResult:
    """The result of a clean-up; ``remaining`` has the reason for each resource that still exists."""

    removed: list[tuple[str, str]] = field(default_factory=list)
    remaining: dict[tuple[str, str], str] = field(default_factory=dict)


def clean_up(
    run: RunFile, client: Client, clock: Callable[[], float], waiter: Waiter, timeout_s: float
) -> CleanupResult:
    """Delete everything that carries the run's tag, until AWS shows none of it.

    Raises:
        Stopped: a person wants it to end; the run's file knows what is left.
    """
    result, empty_passes, deadline_s = CleanupResult(), 0, clock() + timeout_s
    while run.remaining and empty_passes < _EMPTY_PASSES_NEEDED:
        result.remaining = remove(run, client, result.removed, clock())
        empty_passes = 0 if result.remaining else empty_passes + 1
        if clock() >= deadline_s:
            break
        if empty_passes < _EMPTY_PASSES_NEEDED:
            waiter.wait_until(clock() + _POLL_INTERVAL_S)
    if not result.remaining:
        for resource in run.remaining:
            resource.is_gone = True
        run.save_if_possible()
    return result


def remove(
    run: RunFile, client: Client, removed: list[tuple[str, str]], now_s: float, owner: str | None = None
) -> dict[tuple[str, str], str]:
    """Delete the resources of one owner, or of all, once; return why some may still exist."""
    remaining: dict[tuple[str, str], str] = {}
    for kind in KINDS.values():
        known_resources = [
            resource_known
            for resource_known in run.remaining
            if resource_known.kind == kind.name and owner in (None, resource_known.owner)
        ]
        try:
            _find_unknown_ids(run, kind, known_resources, client, is_full_pass=owner is None)
        except AWS_ERRORS as error:
            remaining[kind.name, "unknown"] = f"could not be listed: {_describe_error(error, kind)}"
        for resource in run.remaining:
            if resource.kind == kind.name and resource.id and owner in (None, resource.owner):
                reason = _remove_one(run, kind, resource, client, removed, now_s)
                if reason is not None:
                    remaining[kind.name, resource.id] = reason
    run.save_if_possible()
    return remaining


def find_by_tag(client: Client) -> Iterator[tuple[str, str, str] | tuple[str, str, None]]:
    """Every resource with our tag, as (kind, id, run); of a kind that cannot be listed (kind, why, None)."""
    for kind in KINDS.values():
        try:
            for resource_id in kind.find(client):
                if run_id := run_of(kind, client, resource_id):
                    yield kind.name, resource_id, run_id
        except AWS_ERRORS as error:
            yield kind.name, _describe_error(error, kind), None


def _describe_error(error: Exception, kind: ResourceKind) -> str:
    """The failure of a call, with the action as IAM names it."""
    operation = error.operation_name if isinstance(error, ClientError) else ""
    return str(to_aws_failure(error, f"{kind.service}:{operation}" if operation else ""))


def _find_unknown_ids(
    run: RunFile, kind: ResourceKind, known_resources: list[Resource], client: Client, *, is_full_pass: bool
) -> None:
    """Find by tag the resources whose ID is not in the file: the process ended before writing it."""
    has_unknown_id = any(resource.id is None for resource in known_resources)
    is_instance_volume = kind.name == "volume" and any(
        resource.kind == "instance" for resource in run.resources
    )
    may_have_unrecorded = is_instance_volume or (kind.may_be_duplicated and known_resources)
    if not has_unknown_id and not (is_full_pass and may_have_unrecorded):
        return
    ids = {resource.id for resource in run.resources if resource.kind == kind.name}
    for resource_id in kind.find(client):
        if resource_id not in ids and run_of(kind, client, resource_id) == run.run_id:
            run.resources.append(
                Resource(kind=kind.name, owner="found by tag", intended_s=run.begun_s, id=resource_id)
            )


def _remove_one(
    run: RunFile,
    kind: ResourceKind,
    resource: Resource,
    client: Client,
    removed: list[tuple[str, str]],
    now_s: float,
) -> str | None:
    """Delete a resource if AWS shows that it belongs to this run; return why it may still exist."""
    assert resource.id is not None
    try:
        owning_run = run_of(kind, client, resource.id)
        may_be_invisible = not resource.is_deleted and now_s < resource.intended_s + _VISIBLE_WITHIN_S
        if not owning_run and may_be_invisible:
            return "AWS does not show it with its tag yet"
        if owning_run is None:
            resource.is_gone = True
            if (kind.name, resource.id) not in removed:
                removed.append((kind.name, resource.id))
            return None
        if owning_run != run.run_id:
            tag_description = f"the tag of run {owning_run}" if owning_run else "no tag of this run"
            return f"it carries {tag_description} and is not touched"
        kind.delete(client, resource.id)
        resource.is_deleted = True
    except ClientError as error:
        return None if is_not_found(error) else _describe_error(error, kind)
    except AWS_ERRORS as error:
        return _describe_error(error, kind)
    return "its deletion is under way"
