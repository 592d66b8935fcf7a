"""Removing what a run created: what its file knows, and what carries its tag."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from botocore.exceptions import ClientError

from burstctl.aws_check.resources import KINDS, Client, Kind, is_gone, run_of
from burstctl.aws_check.run_file import Resource, RunFile
from burstctl.experiment.waiting import Patience
from burstwatch.adapters.aws.errors import AWS_ERRORS, explain

_LOOK_EVERY_S: Final = 10
_SHOWN_WITHIN_S: Final = 120
"""So long after its creation something may not be shown yet, or be shown without its tags."""

_SURE_AFTER: Final = 2
"""Passes that find nothing: what was created a moment ago may not be listed yet."""


@dataclass(slots=True)
class Cleaned:
    """What became of the resources of a run; ``left`` says of each that is still there why."""

    removed: list[tuple[str, str]] = field(default_factory=list)
    left: dict[tuple[str, str], str] = field(default_factory=dict)


def clean_up(
    run: RunFile, client: Client, clock: Callable[[], float], patience: Patience, most_s: float
) -> Cleaned:
    """Delete everything that carries the run's tag, until AWS shows none of it.

    Raises:
        Stopped: a person wants it to end; the run's file knows what is left.
    """
    cleaned, empty, end_s = Cleaned(), 0, clock() + most_s
    while run.left and empty < _SURE_AFTER:
        cleaned.left = remove(run, client, cleaned.removed, clock())
        empty = 0 if cleaned.left else empty + 1
        if clock() >= end_s:
            break
        if empty < _SURE_AFTER:
            patience.until(clock() + _LOOK_EVERY_S)
    if not cleaned.left:
        for resource in run.left:
            resource.is_gone = True
        run.save_if_possible()
    return cleaned


def remove(
    run: RunFile, client: Client, removed: list[tuple[str, str]], now_s: float, owner: str | None = None
) -> dict[tuple[str, str], str]:
    """Delete once what there is, of one owner or of all; answers what may still be there, and why."""
    left: dict[tuple[str, str], str] = {}
    for kind in KINDS.values():
        known = [each for each in run.left if each.kind == kind.name and owner in (None, each.owner)]
        try:
            _learn_ids(run, kind, known, client, everything=owner is None)
        except AWS_ERRORS as error:
            left[kind.name, "unknown"] = f"could not be listed: {_why(error, kind)}"
        for resource in run.left:
            if resource.kind == kind.name and resource.id and owner in (None, resource.owner):
                reason = _remove_one(run, kind, resource, client, removed, now_s)
                if reason is not None:
                    left[kind.name, resource.id] = reason
    run.save_if_possible()
    return left


def found_by_tag(client: Client) -> Iterator[tuple[str, str, str] | tuple[str, str, None]]:
    """Every resource with our tag, as (kind, id, run); of a kind that cannot be listed (kind, why, None)."""
    for kind in KINDS.values():
        try:
            for resource_id in kind.find(client):
                if run_id := run_of(kind, client, resource_id):
                    yield kind.name, resource_id, run_id
        except AWS_ERRORS as error:
            yield kind.name, _why(error, kind), None


def _why(error: Exception, kind: Kind) -> str:
    """What went wrong in a call of the kind's service, with the action as IAM names it."""
    operation = error.operation_name if isinstance(error, ClientError) else ""
    return str(explain(error, f"{kind.service}:{operation}" if operation else ""))


def _learn_ids(run: RunFile, kind: Kind, known: list[Resource], client: Client, *, everything: bool) -> None:
    """Find by tag what was intended and whose id is not known: the process ended between the two."""
    is_unsure = any(each.id is None for each in known)
    is_of_instance = kind.name == "volume" and any(each.kind == "instance" for each in run.resources)
    may_be_more = is_of_instance or (kind.may_be_doubled and known)
    if not is_unsure and not (everything and may_be_more):
        return
    ids = {each.id for each in run.resources if each.kind == kind.name}
    for resource_id in kind.find(client):
        if resource_id not in ids and run_of(kind, client, resource_id) == run.run_id:
            run.resources.append(
                Resource(kind=kind.name, owner="found by tag", intended_s=run.begun_s, id=resource_id)
            )


def _remove_one(
    run: RunFile,
    kind: Kind,
    resource: Resource,
    client: Client,
    removed: list[tuple[str, str]],
    now_s: float,
) -> str | None:
    """Delete one if AWS says that it is this run's; answers why it may still be there."""
    assert resource.id is not None
    try:
        owner = run_of(kind, client, resource.id)
        is_new = not resource.is_deleted and now_s < resource.intended_s + _SHOWN_WITHIN_S
        if not owner and is_new:
            return "AWS does not show it with its tag yet"
        if owner is None:
            resource.is_gone = True
            if (kind.name, resource.id) not in removed:
                removed.append((kind.name, resource.id))
            return None
        if owner != run.run_id:
            whose = f"the tag of run {owner}" if owner else "no tag of this run"
            return f"it carries {whose} and is not touched"
        kind.delete(client, resource.id)
        resource.is_deleted = True
    except ClientError as error:
        return None if is_gone(error) else _why(error, kind)
    except AWS_ERRORS as error:
        return _why(error, kind)
    return "its deletion is under way"
