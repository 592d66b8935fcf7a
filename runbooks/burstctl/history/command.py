"""``burstctl history``: the history of a volume, from the ledger alone."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import click

from burstctl.cli.exit_codes import ExitCode
from burstctl.cli.options import Command, Duration, Options, ResourceName, common_options, last_option
from burstctl.cli.output import print_failures, print_info, print_next, print_output, to_json
from burstctl.cli.text_layout import Topic, lay_out_topics
from burstctl.context.context import CommandContext, open_readonly
from burstctl.context.resources import resolve_volume
from burstctl.history.render import layout_history, read_history, render_entries
from burstctl.render.flip_text import describe_flip, describe_quota, flip_document, quota_document
from burstctl.render.pass_summary import describe_hold, print_holds
from burstctl.render.plan_json import hold_document
from burstctl.render.resource_rows import CHANGING_LABEL
from burstctl.render.volume import UNREADABLE_STATE, describe_level, format_id_and_name
from burstwatch.core.durations import format_duration_literal
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.core.ledger.ledger_entry import LedgerEntry
from burstwatch.core.ledger.volume_state import VolumeState
from burstwatch.core.text import format_instant, format_relative_time, instant_or_none

if TYPE_CHECKING:
    from documents.history import HistoryDocument

SCHEMA: Final = "burstwatch.history/v1"
_MAX_LOOKBACK: Final = timedelta(days=9999)


@dataclass(frozen=True, slots=True, kw_only=True)
class _VolumeHistory:
    """What the ledger has on a volume."""

    volume_id: str
    now_s: float
    entries: Sequence[LedgerEntry]
    state: VolumeState | None
    holds: Sequence[Hold]
    is_unread: bool


@click.command(
    cls=Command,
    examples=(
        ("burstctl history ci-7", "every event, who caused it and why"),
        ("burstctl history vol-0123456789abcdef0 --last 2d", "the last two days"),
        ("burstctl history vol-0123456789abcdef0 --json", "the ledger's own lines, for programs"),
    ),
    page="runbooks/VolumeFlipped.md",
    without=("exit_zero", "policy"),
)
@click.argument("name", metavar="VOLUME", type=ResourceName())
@last_option(
    Duration(timedelta(minutes=1), _MAX_LOOKBACK),
    older="--since",
    text="Only the events of this period, such as 6h or 7d.",
)
@common_options
def history(name: str, options: Options, *, last: timedelta | None) -> ExitCode:
    """Show the audit trail of VOLUME and its current state; changes nothing.

    It reads the ledger, so it works for deleted volumes too. AWS is called only if VOLUME is not an ID, or
    if the ledger does not know it.

    Exits 1 if the volume does not exist, or if the ledger's state of it cannot be read.
    """
    with open_readonly(options, needs_policy=False) as context:
        volume = resolve_volume(context, name)
        volume_history = _read_volume_history(context, volume, last)
        is_known = bool(volume_history.entries or volume_history.state or volume_history.is_unread)
        if options.json:
            print_output(to_json(_document(volume_history, context.ledger_location)))
        elif is_known:
            entries_text = layout_history(render_entries(volume_history.entries))
            print_output(
                "\n\n".join(
                    filter(None, [entries_text, lay_out_topics(f"{volume} now", _topics(volume_history))])
                )
            )
        print_holds(volume_history.holds, volume_history.now_s, {volume})
        if not is_known:
            return _explain_absence(context, volume, last)
        if not options.json:
            print_next([shlex.join(["burstctl", "explain", volume, *options.repeated])])
        return ExitCode.FAILED if volume_history.is_unread else ExitCode.OK


def _explain_absence(context: CommandContext, volume_id: str, last: timedelta | None) -> ExitCode:
    """Say why there is nothing to show: nothing happened, or it does not exist."""
    if last is not None and read_history(context.services.ledger, volume_id):
        print_info(f"{volume_id}: no event in the last {format_duration_literal(last)}, only earlier ones")
        return ExitCode.OK
    collector = context.services.build_collector(context.services.clock())
    volumes, missing = collector.volumes_by_id([volume_id])
    if volumes:
        print_info(f"{format_id_and_name(volumes[0])}: the ledger has no event, flip or alert of it")
        return ExitCode.OK
    if not missing:
        print_info(f"the ledger does not know {volume_id}; whether there is such a volume is not known")
    print_failures(collector.failures, missing=missing, region=context.services.location.region)
    return ExitCode.FAILED


def _read_volume_history(context: CommandContext, volume_id: str, since: timedelta | None) -> _VolumeHistory:
    ledger, now_s = context.services.ledger, context.services.clock()
    since_s = 0 if since is None else int(now_s - since.total_seconds())
    states = ledger.states_of({volume_id})
    return _VolumeHistory(
        volume_id=volume_id,
        now_s=now_s,
        entries=read_history(ledger, volume_id, since_s=since_s),
        state=states.get(volume_id),
        holds=[hold for hold in ledger.holds(now_s) if hold.applies_to(volume_id, now_s)],
        is_unread=volume_id in states.unreadable,
    )


def _topics(volume_history: _VolumeHistory) -> list[Topic]:
    state = volume_history.state
    topics: list[Topic] = [
        ("Level", [UNREADABLE_STATE if volume_history.is_unread else _describe_level(state)])
    ]
    if state is not None:
        if state.flip is not None:
            topics.append(("Flip", describe_flip(state.flip, volume_history.now_s)))
        if state.modifications.contested_at_s is not None:
            since = format_instant(state.modifications.contested_at_s)
            command = f"until: burstctl release {volume_history.volume_id}"
            topics.append(
                ("Contested", [f"changed by someone else, seen {since}; requires manual action {command}"])
            )
        if (
            state.modifications.retry_at_s is not None
            and state.modifications.retry_at_s > volume_history.now_s
        ):
            attempts = (
                "1 attempt"
                if state.modifications.failure_count == 1
                else f"{state.modifications.failure_count} attempts in a row"
            )
            next_attempt = (
                "the watchdog makes the next"
                f" {format_relative_time(state.modifications.retry_at_s, volume_history.now_s, 'UTC')}"
            )
            topics.append(("Failed", [f"{attempts}; {next_attempt}"]))
        modifications = state.modifications.within_day(volume_history.now_s)
        topics.append(("Quota", describe_quota(modifications, volume_history.now_s)))
    topics.append(("Hold", [describe_hold(hold, volume_history.now_s) for hold in volume_history.holds]))
    return topics


def _describe_level(state: VolumeState | None) -> str:
    if state is None:
        return "no flip, hold or alert"
    if state.reading.unknown_reason is not None:
        return f"unknown: {str(state.reading.unknown_reason).replace('_', ' ')}; last judged {state.level}"
    if state.flip is not None and state.flip.is_under_way and state.level.is_alerting:
        return f"{CHANGING_LABEL}; by its balance {describe_level(state)}"
    return describe_level(state)


def _document(volume_history: _VolumeHistory, ledger: str) -> "HistoryDocument":
    state = volume_history.state
    modifications = state.modifications.within_day(volume_history.now_s) if state else ()
    return {
        "schema": SCHEMA,
        "generated_at": format_instant(volume_history.now_s),
        "ledger": ledger,
        "volume_id": volume_history.volume_id,
        "entries": [
            {
                "at": format_instant(entry.at_s),
                "subject": entry.volume_id,
                "kind": entry.kind,
                "revision": entry.revision,
                "body": dict(entry.body),
            }
            for entry in volume_history.entries
        ],
        "now": {
            "level": state.level if state else None,
            "unknown_reason": state.reading.unknown_reason if state else None,
            "flip": flip_document(state.flip) if state and state.flip else None,
            "contested_since": instant_or_none(state.modifications.contested_at_s) if state else None,
            "retry_at": instant_or_none(state.modifications.retry_at_s) if state else None,
            "quota": quota_document(modifications),
            "holds": [hold_document(hold) for hold in volume_history.holds],
        },
    }
