"""Which limit applies, as text: the answer, a table of every limit, the evidence, and the next command."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from burstctl.cli.options import Options
from burstctl.cli.output import print_info
from burstctl.cli.styled_text import StyledText, render_styled
from burstctl.cli.text_layout import MAX_SENTENCE_LENGTH, lay_out, text_columns, wrap_hanging
from burstctl.render.table import Table
from burstctl.render.volume import display_name_of
from burstctl.which.collect import WhichReport
from burstctl.which.limit import Limit, LimitKind, LimitState
from burstwatch.core.buckets.units import format_limit
from burstwatch.core.ebs.volume import can_burst
from burstwatch.core.text import format_count, format_relative_time, format_time, format_usd, sanitise
from burstwatch.core.watch.api_cost import USD_PER_METRIC

MAX_VOLUMES: Final = 10
"""Volumes of an instance with rows of their own; --json has all."""

_MAX_NAME_CHARS: Final = 30
_CALM: Final = (LimitState.NO, LimitState.NEVER)
_STYLES: Final = {
    LimitState.NOW: "bold red",
    LimitState.NEXT: "yellow",
    LimitState.UNKNOWN: "magenta",
    LimitState.NO: "green",
    LimitState.NEVER: "dim",
}
_NAMES: Final = {
    LimitKind.INSTANCE_IO_CREDITS: "instance I/O credits",
    LimitKind.INSTANCE_THROUGHPUT_CREDITS: "instance throughput credits",
    LimitKind.VOLUME_CREDITS: "volume credits",
    LimitKind.INSTANCE_IOPS: "instance IOPS",
    LimitKind.INSTANCE_THROUGHPUT: "instance throughput",
    LimitKind.VOLUME_IOPS: "volume IOPS",
    LimitKind.VOLUME_THROUGHPUT: "volume throughput",
    LimitKind.CLASS_IO_CREDITS: "class I/O credits",
    LimitKind.CLASS_THROUGHPUT_CREDITS: "class throughput credits",
    LimitKind.STORAGE_CREDITS: "storage credits",
    LimitKind.CLASS_IOPS: "class IOPS",
    LimitKind.CLASS_THROUGHPUT: "class throughput",
    LimitKind.STORAGE_IOPS: "storage IOPS",
    LimitKind.STORAGE_THROUGHPUT: "storage throughput",
    LimitKind.FILE_SYSTEM_CREDITS: "burst credits",
    LimitKind.FILE_SYSTEM_THROUGHPUT: "throughput (metered)",
    LimitKind.FILE_SYSTEM_IO: "general purpose I/O",
    LimitKind.HOST: "host (ddprobe)",
}


def render_report(report: WhichReport) -> str:
    """The whole answer; fits 80 columns, and narrower terminals without the last columns."""
    selected, notes = select_limits(report)
    parts = [lay_out(*describe_answer(report))]
    if selected:
        table = _fit(_table(report, selected, notes))
        parts.append(render_styled(table.to_lines()))
        parts.append(_lay_out_evidence(report, selected))
    return "\n\n".join(parts)


def print_notes(report: WhichReport) -> None:
    """What a person should know in addition to the answer, and what it cost."""
    for note in report.notes:
        print_info(sanitise(f"note: {note}", 400))
    usd = format_usd(report.metrics_requested * USD_PER_METRIC, decimals=5)
    calls = format_count(sum(report.api_calls.values()), "call")
    print_info(f"read {format_count(report.metrics_requested, 'metric')} for {usd}, in {calls} to AWS")


def describe_answer(report: WhichReport) -> list[str]:
    """What applies now, and what will be next: one sentence each."""
    subject = describe_subject(report)
    if report.is_missing:
        return []
    if report.unused is not None:
        effect = ";" if report.is_database else ", so no process uses it and"
        return [f"{subject}: {report.unused}{effect} no limit applies."]
    if not report.answer.limits:
        return [f"Nothing is known about {subject}: it could not be read."]
    sentences = [_describe_now(report, subject), *([report.cpu_credits] if report.cpu_credits else [])]
    upcoming = report.answer.next_limit
    if upcoming is not None:
        sentences.append(_describe_next(report, upcoming))
    return sentences


def describe_subject(report: WhichReport) -> str:
    """The resource, with its name if it has one."""
    name = None
    if not report.is_instance and report.volumes:
        name = display_name_of(report.volumes[0], _MAX_NAME_CHARS)
    elif report.instance is not None and report.is_instance:
        name = sanitise(report.instance.name or "", _MAX_NAME_CHARS)
    elif (resource := report.database or report.file_system) is not None:
        name = sanitise(resource.name or "", _MAX_NAME_CHARS)
    return f"{report.resource_id} ({name})" if name else report.resource_id


def _describe_now(report: WhichReport, subject: str) -> str:
    answer = report.answer
    if answer.now:
        first, *others = answer.now
        if first.kind is LimitKind.HOST:
            return (
                f"No known limit of AWS applies to {subject} now, but its host reports: {first.evidence[0]}."
            )
        more = ""
        if others:
            names = [_describe_limit(report, limit) for limit in others[:2]]
            rest = len(others) - len(names)
            more = f"; also {', '.join(names)}" + (f" and {rest} more" if rest else "")
        doubt = f" But {unknown}." if (unknown := _describe_unknown(report)) else ""
        return f"{subject} is limited now by {_describe_limit(report, first)}: {_effect(first)}{more}.{doubt}"
    if unknown := _describe_unknown(report):
        return f"No known limit applies to {subject} now, but {unknown}."
    return f"No limit applies to {subject} now."


def _describe_unknown(report: WhichReport) -> str:
    """``2 limits of i-0123456789abcdef0 are unknown``; empty if every limit is known."""
    limits = report.answer.unknown
    if not limits:
        return ""
    owner_ids = {limit.resource_id for limit in limits}
    owner = f" of {owner_ids.pop()}" if len(owner_ids) == 1 and report.resource_id not in owner_ids else ""
    return f"{format_count(len(limits), 'limit')}{owner} {'is' if len(limits) == 1 else 'are'} unknown"


def _describe_next(report: WhichReport, limit: Limit) -> str:
    name = _describe_limit(report, limit)
    among = " of the known limits" if report.answer.unknown else ""
    if limit.is_empty:
        return f"Next{among}: {name} are used up, so a load above {_limit_text(limit)} is held to it at once."
    if limit.time_to_empty_s is not None:
        empty_at = format_relative_time(report.now_s + limit.time_to_empty_s, report.now_s, "UTC")
        bound = ""
        if limit.soonest_empty_s is not None:
            bound = f", not before {format_time(report.now_s + limit.soonest_empty_s, report.now_s)} UTC"
        return f"Next{among}: {name} are used up {empty_at}{bound}; then {_limit_text(limit)} applies."
    share = limit.use_share or 0.0
    reached = f"the first{among} that it reaches is" if among else "it first reaches"
    return f"If its load grows, {reached} {name} of {_limit_text(limit)}; it uses {_share(share)} of it."


def _describe_limit(report: WhichReport, limit: Limit) -> str:
    """``the volume's credits``, ``the IOPS limit of vol-0123456789abcdef0``."""
    whose = limit.resource_id if limit.resource_id != report.resource_id else ""
    owner = f"of {whose}" if whose else f"of the {limit.kind.owner}"
    if limit.kind is LimitKind.HOST:
        return "what its host reports"
    if limit.kind is LimitKind.FILE_SYSTEM_IO:
        return "the I/O limit of its performance mode"
    if limit.kind.is_credits and report.is_database:
        return f"the {limit.credits}"
    if limit.kind.is_credits:
        return f"the {limit.credits} {owner}"
    return f"the {'throughput' if limit.unit == 'MiB/s' else 'IOPS'} limit {owner}"


def _effect(limit: Limit) -> str:
    """What a limit does now."""
    if limit.kind.is_credits:
        return f"they are used up, so the baseline of {_limit_text(limit)} applies"
    if limit.kind is LimitKind.FILE_SYSTEM_IO:
        return f"PercentIOLimit is {limit.use or 0:.0f} %"
    return f"it serves {_limit_text(limit)} at most"


def _limit_text(limit: Limit) -> str:
    return "an unknown rate" if limit.limit is None else format_limit(limit.limit, limit.unit)


def _share(share: float) -> str:
    return "less than 1 %" if share < 0.01 else f"{100 * share:.0f} %"  # noqa: PLR2004 - one per cent


def select_limits(report: WhichReport) -> tuple[list[Limit], list[str]]:
    """The limits to show: of a calm volume among others only the nearest; and what is left out."""
    limits = list(report.answer.limits)
    if not report.is_instance:
        return limits, []
    volume_ids = list(dict.fromkeys(limit.resource_id for limit in limits if limit.kind.is_of_volume))
    shown_ids = volume_ids[:MAX_VOLUMES]
    nearest: set[str] = set()
    selected = []
    for limit in limits:
        if not limit.kind.is_of_volume:
            selected.append(limit)
        elif limit.resource_id in shown_ids:
            if limit.state not in _CALM or limit.resource_id not in nearest:
                selected.append(limit)
            nearest.add(limit.resource_id)
    hidden = len(volume_ids) - len(shown_ids)
    notes = []
    if len(selected) < len(limits):
        notes.append("of a calm volume, only the nearest limit is shown; --json has all")
    if hidden:
        notes.append(f"{format_count(hidden, 'volume')} more, which --json shows")
    return selected, notes


def _table(report: WhichReport, limits: Sequence[Limit], notes: Sequence[str]) -> Table:
    return Table(
        titles=("STATE", "LIMIT", "USED", "OF", "CREDITS", "EMPTY UTC"),
        lines=[_line(report, limit) for limit in limits],
        right_aligned=frozenset({"USED", "OF", "CREDITS"}),
        notes=[line for note in notes for line in wrap_hanging(note, text_columns())],
    )


def _line(report: WhichReport, limit: Limit) -> list[StyledText]:
    empty_at = ""
    if limit.time_to_empty_s is not None and limit.state in (LimitState.NOW, LimitState.NEXT, LimitState.NO):
        empty_at = format_time(report.now_s + limit.time_to_empty_s, report.now_s)
        empty_at = "now" if limit.is_empty else empty_at
    used = format_limit(limit.use, limit.unit).partition(" ")[0] if limit.use is not None else ""
    return [
        StyledText(limit.state, _STYLES[limit.state]),
        StyledText(_name(report, limit)),
        StyledText(used),
        StyledText("" if limit.limit is None else format_limit(limit.limit, limit.unit)),
        StyledText("" if limit.balance_pct is None else f"{limit.balance_pct:.0f} %"),
        StyledText(empty_at),
    ]


def _name(report: WhichReport, limit: Limit) -> str:
    """``volume credits``; about an instance, ``vol-0123456789abcdef0 credits``."""
    name = _NAMES[limit.kind]
    if report.is_instance and limit.kind.is_of_volume:
        return f"{limit.resource_id} {name.removeprefix('volume ')}"
    return name


def _fit(table: Table) -> Table:
    """The table without its last columns, as far as the terminal is too narrow for them."""
    width = text_columns()
    while table.width() > width and len(table.titles) > 2:  # noqa: PLR2004 - the state and the limit
        table = replace(table, titles=table.titles[:-1], lines=[line[:-1] for line in table.lines])
    return table


def _lay_out_evidence(report: WhichReport, limits: Iterable[Limit]) -> str:
    """How each is known: what applies, is next or unknown; of calm limits only those of a single volume."""
    lines = ["How it is known"]
    for limit in limits:
        if report.is_instance and limit.kind.is_of_volume and limit.state in _CALM:
            continue
        lines.append(f"  {_name(report, limit)} ({limit.state})")
        lines += [
            f"    {line}"
            for sentence in limit.evidence
            for line in wrap_hanging(sanitise(f"{sentence}.", MAX_SENTENCE_LENGTH), text_columns() - 4)
        ]
    return "\n".join(lines)


def next_command(report: WhichReport, options: Options) -> str | None:
    """What to run next about the most important limit; None if there is nothing to do."""
    if report.is_missing or report.unused is not None or not report.answer.limits:
        return None
    answer = report.answer
    upcoming = answer.next_limit
    is_calm = not answer.now and (upcoming is None or upcoming.time_to_empty_s is None)
    limit = answer.now[0] if answer.now else upcoming
    command = _command_words(report, None if is_calm else limit)
    if command is None:
        return None
    is_page = command[1] == "runbook"
    return shlex.join(command if is_page else [*command, *options.arguments_in(report.region)])


def _command_words(report: WhichReport, limit: Limit | None) -> list[str] | None:
    if report.is_database or report.file_system is not None:
        return ["burstctl", "explain", report.resource_id]
    if limit is None:
        return None if report.is_instance else ["burstctl", "plot", report.resource_id]
    if limit.kind is LimitKind.HOST:
        return ["burstctl", "runbook", "HostStallReported"]
    if not limit.kind.is_of_volume:
        has_known_limits = report.instance is not None and report.instance.limits is not None
        return ["burstctl", "simulate" if has_known_limits else "explain", limit.resource_id]
    volume = next(volume for volume in report.volumes if volume.volume_id == limit.resource_id)
    if limit.kind is LimitKind.VOLUME_CREDITS:
        explains = ["burstctl", "explain", volume.volume_id]
        return ["burstctl", "flip", volume.volume_id, "--dry-run"] if can_burst(volume) else explains
    return ["burstctl", "advise", volume.volume_id]
