"""``burstctl history``: the history of a volume or an instance, from the ledger alone."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import click

from burstctl.cli.exit_codes import ExitCode
from burstctl.cli.options import (
    RESOURCE_NAMES,
    Command,
    Duration,
    Options,
    ResourceName,
    common_options,
    last_option,
)
from burstctl.cli.output import print_failures, print_info, print_next, print_output, to_json
from burstctl.cli.text_layout import Topic, lay_out_topics
from burstctl.context.context import CommandContext, open_readonly
from burstctl.context.resources import ledger_keys_of, look_up_resources, resolve_resource
from burstctl.history.render import layout_history, read_history, render_entries
from burstctl.render.flip_text import describe_flip, describe_quota, flip_document, quota_document
from burstctl.render.pass_summary import describe_hold, print_holds
from burstctl.render.plan_json import hold_document
from burstctl.render.resource_rows import CHANGING_LABEL
from burstctl.render.volume import UNREADABLE_STATE, describe_level, format_id_and_name
from burstwatch.core.assessment.resource import Resource
from burstwatch.core.assessment.severity import Level
from burstwatch.core.durations import format_duration_literal
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.core.ledger.ledger_entry import LedgerEntry
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.resource_type import ResourceType, type_of_id
from burstwatch.core.text import format_instant, format_relative_time, instant_or_none

if TYPE_CHECKING:
    from documents.history import HistoryDocument

SCHEMA: Final = "burstwatch.history/v1"
_MAX_LOOKBACK: Final = timedelta(days=9999)


@dataclass(frozen=True, slots=True, kw_only=True)
class _History:
    """What the ledger has on a volume or an instance; ``states`` are those of its buckets, by their keys.

    ``unread_keys`` are those of states that cannot be read.
    """

    resource_id: str
    now_s: float
    entries: Sequence[LedgerEntry]
    states: Mapping[str, ResourceState]
    holds: Sequence[Hold]
    unread_keys: Collection[str]

    @property
    def keys(self) -> list[str]:
        return ledger_keys_of(self.resource_id)

    @property
    def state(self) -> ResourceState | None:
        """The state of the most urgent bucket."""
        return max(self.states.values(), key=lambda state: state.level.rank, default=None)

    @property
    def is_unread(self) -> bool:
        return bool(self.unread_keys)


@click.command(
    cls=Command,
    examples=(
        ("burstctl history ci-7", "every event, who caused it and why"),
        ("burstctl history vol-0123456789abcdef0 --last 2d", "the last two days"),
        ("burstctl history i-0123456789abcdef0", "the levels and alerts of the buckets of an instance"),
        ("burstctl history vol-0123456789abcdef0 --json", "the ledger's own lines, for programs"),
    ),
    page="runbooks/VolumeFlipped.md",
    without=("exit_zero", "policy"),
)
@click.argument("name", metavar="RESOURCE", type=ResourceName(RESOURCE_NAMES))
@last_option(
    Duration(timedelta(minutes=1), _MAX_LOOKBACK),
    older="--since",
    text="Only the events of this period, such as 6h or 7d.",
)
@common_options
def history(name: str, options: Options, *, last: timedelta | None) -> ExitCode:
    """Show the audit trail of RESOURCE and its current state; changes nothing.

    It reads the ledger, so it works for deleted resources too. AWS is called only if RESOURCE is not an ID,
    or if the ledger does not know it.

    Exits 1 if there is no resource with this ID, or if the ledger's state of it cannot be read, 2 if no
    resource has this name.
    """
    with open_readonly(options, needs_policy=False) as context:
        volume = resolve_resource(context, name)
        recorded = _read_history(context, volume, last)
        is_known = bool(recorded.entries or recorded.state or recorded.is_unread)
        if options.json:
            print_output(to_json(_document(recorded, context.ledger_location)))
        elif is_known:
            entries_text = layout_history(render_entries(recorded.entries))
            print_output(
                "\n\n".join(filter(None, [entries_text, lay_out_topics(f"{volume} now", _topics(recorded))]))
            )
        print_holds(recorded.holds, recorded.now_s, {volume})
        if not is_known:
            return _explain_absence(context, volume, last)
        _print_next(context, "explain", volume)
        return ExitCode.FAILED if recorded.is_unread else ExitCode.OK


def _explain_absence(context: CommandContext, resource_id: str, last: timedelta | None) -> ExitCode:
    """Say why there is nothing to show: nothing happened, or the resource does not exist."""
    if last is not None and read_history(context.services.ledger, resource_id):
        print_info(f"{resource_id}: no event in the last {format_duration_literal(last)}, only earlier ones")
        _print_next(context, "history", resource_id)
        return ExitCode.OK
    resource, missing, failures = _look_up(context, resource_id)
    if resource is not None:
        print_info(f"{format_id_and_name(resource)}: the ledger has no event, flip or alert for it")
        _print_next(context, "explain", resource_id)
        return ExitCode.OK
    if not missing:
        noun = type_of_id(resource_id).noun
        print_info(f"the ledger does not know {resource_id}; whether the {noun} exists is not known")
    print_failures(failures, missing=missing, region=context.services.location.region)
    return ExitCode.FAILED


def _print_next(context: CommandContext, command: str, resource_id: str) -> None:
    if not context.options.json:
        print_next([context.options.command(command, resource_id)])


def _look_up(
    context: CommandContext, resource_id: str
) -> tuple[Resource | None, Sequence[str], Sequence[str]]:
    """The resource as AWS describes it; else whether it is missing, or why that is not known."""
    existing, missing, failures = look_up_resources(context, [resource_id])
    return next(iter(existing), None), missing, failures


def _read_history(context: CommandContext, resource_id: str, since: timedelta | None) -> _History:
    ledger, now_s = context.services.ledger, context.services.clock()
    since_s = 0 if since is None else int(now_s - since.total_seconds())
    states = ledger.states_of(set(ledger_keys_of(resource_id)))
    holds = [hold for hold in ledger.holds(now_s) if hold.applies_to(resource_id, now_s)]
    if type_of_id(resource_id) is not ResourceType.EBS:  # a hold on everything concerns only what is modified
        holds = [hold for hold in holds if hold.volume_id is not None]
    return _History(
        resource_id=resource_id,
        now_s=now_s,
        entries=read_history(ledger, resource_id, since_s=since_s),
        states=states,
        holds=holds,
        unread_keys=states.unreadable.keys(),
    )


def _topics(recorded: _History) -> list[Topic]:
    state = recorded.state
    hold: Topic = ("Hold", [describe_hold(hold, recorded.now_s) for hold in recorded.holds])
    if type_of_id(recorded.resource_id) is not ResourceType.EBS:
        return [("Level", [_describe_bucket(recorded, key) for key in recorded.keys]), hold]
    topics: list[Topic] = [("Level", [UNREADABLE_STATE if recorded.is_unread else _describe_level(state)])]
    if state is not None:
        if state.flip is not None:
            topics.append(("Flip", describe_flip(state.flip, recorded.now_s)))
        if state.modifications.contested_at_s is not None:
            since = format_instant(state.modifications.contested_at_s)
            command = f"until burstctl release {recorded.resource_id}"
            topics.append(
                ("Contested", [f"changed by someone else, seen {since}; requires manual action {command}"])
            )
        if (retry_at_s := state.next_attempt_at_s(recorded.now_s)) is not None:
            attempts = (
                "1 attempt"
                if state.modifications.failure_count == 1
                else f"{state.modifications.failure_count} attempts in a row"
            )
            next_attempt = (
                f"the watchdog makes the next {format_relative_time(retry_at_s, recorded.now_s, 'UTC')}"
            )
            topics.append(("Failed", [f"{attempts}; {next_attempt}"]))
        modifications = state.modifications.within_day(recorded.now_s)
        topics.append(("Quota", describe_quota(modifications, recorded.now_s)))
    return [*topics, hold]


def _describe_bucket(recorded: _History, key: str) -> str:
    bucket_name = key.partition("#")[2]
    if key in recorded.unread_keys:
        return f"{bucket_name}: {UNREADABLE_STATE}"
    state = recorded.states.get(key)
    return f"{bucket_name}: {'no alert' if state is None else _describe_level(state)}"


def _describe_level(state: ResourceState | None) -> str:
    if state is None:
        return "no flip, hold or alert"
    if state.reading.unknown_reason is not None:
        level = state.judged_level
        judged = "never judged" if level is Level.UNKNOWN else f"last judged {level}"
        return f"unknown: {state.reading.unknown_reason.description}; {judged}"
    if state.flip is not None and state.flip.is_under_way and state.level.is_alerting:
        return f"{CHANGING_LABEL}; by its balance {describe_level(state)}"
    return describe_level(state)


def _document(recorded: _History, ledger: str) -> "HistoryDocument":
    state = recorded.state
    modifications = state.modifications.within_day(recorded.now_s) if state else ()
    return {
        "schema": SCHEMA,
        "generated_at": format_instant(recorded.now_s),
        "ledger": ledger,
        "volume_id": recorded.resource_id,
        "resource_id": recorded.resource_id,
        "entries": [
            {
                "at": format_instant(entry.at_s),
                "subject": entry.volume_id,
                "kind": entry.kind,
                "revision": entry.revision,
                "body": dict(entry.body),
            }
            for entry in recorded.entries
        ],
        "now": {
            "level": state.judged_level if state else None,
            "unknown_reason": state.reading.unknown_reason if state else None,
            "flip": flip_document(state.flip) if state and state.flip else None,
            "contested_since": instant_or_none(state.modifications.contested_at_s) if state else None,
            "retry_at": instant_or_none(state.modifications.retry_at_s) if state else None,
            "quota": quota_document(modifications),
            "holds": [hold_document(hold) for hold in recorded.holds],
            "buckets": [
                {
                    "bucket": key.partition("#")[2],
                    "level": state.judged_level if (state := recorded.states.get(key)) else None,
                    "unknown_reason": state.reading.unknown_reason if state else None,
                }
                for key in recorded.keys
                if "#" in key
            ],
        },
    }
