"""The two ways out: data on stdout, words on stderr."""

import io
import json
import os
import re
import sys
import traceback
from collections.abc import Iterable, Sequence
from shutil import get_terminal_size
from typing import Any, Final, NamedTuple

from burstctl.cli.styled_text import REPLACE, styled
from burstctl.cli.text_layout import MAX_SENTENCE_LENGTH, wrap_command
from burstwatch.core.errors import BurstwatchError, Problem
from burstwatch.core.policy.policy import PolicyError
from burstwatch.core.resource_type import type_of_id
from burstwatch.core.text import display_width, format_count, sanitise, wrap

DEBUG_ENV: Final = "BURSTWATCH_DEBUG"
MAX_LISTED: Final = 10  # what fits on a terminal; --json has all of it
_MAX_TEXT_LENGTH: Final = 400  # an unexpected error may quote a whole response
_SENTENCE_ENDS: Final = (".", "!", "?", ":")
_ENDPOINT: Final = re.compile(r"https?://[^\s,;]+")
_FAILED_ACTION: Final = re.compile(r"\b[a-z][a-z0-9-]*:[A-Z]\w+(?= failed \()")


class Unread(NamedTuple):
    """A resource that could not be read: its ID, what people call it, and why.

    ``part`` is what of it could not be read, such as ``class buckets``; empty if it is the resource.
    """

    resource_id: str
    label: str
    reason: str
    part: str = ""


class OutputError(BurstwatchError):
    """What was to be said could not be written."""


def prepare_streams() -> None:
    """Make both streams safe to write to: no character is too odd for them, and stderr may be closed.

    Raises:
        OutputError: stdout is closed, so there is no use in starting.
    """
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - lives as long as we do
    if sys.stdout is None:
        raise OutputError(
            "stdout is closed, nothing was done", fix="give the output a place, such as >/dev/null"
        )
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=REPLACE)


def print_output(text: str) -> None:
    """Write data, all of it and now.

    Raises:
        OutputError: the reader is gone, or the disk is full.
    """
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except OSError as error:
        raise abandon_stdout(error) from error


def abandon_stdout(error: OSError) -> OutputError:
    """Give up stdout, which failed like this; what to raise or print."""
    _discard_stdout()
    reason = error.strerror or str(error)
    return OutputError(
        f"the output could not be written ({reason})", fix="free space, or give it another place"
    )


def print_info(text: str, *, style: str = "", is_preformatted: bool = False) -> None:
    """Print a message for people to stderr. Nothing depends on it, so a closed stderr is not an error.

    On a terminal, lines are wrapped to its width unless they are already formatted.
    """
    wrapped = text if is_preformatted else wrap_to_terminal(text)
    _write_to_stderr(styled(wrapped, style, sys.stderr))


def describe_error(error: BurstwatchError) -> Problem:
    """What to print of an error; each fault of a policy on a line of its own."""
    if isinstance(error, PolicyError):
        faults = "\n".join(["the policy is rejected:", *map(str, error.faults)])
        return Problem(faults, "correct it, then check it with burstctl policy check FILE")
    return error.problem


def print_error(text: str, *, subject: str = "") -> None:
    """Say what is wrong, and on a line of its own what to do about it.

    ``subject`` is what it is about, such as a region.
    """
    _print_problem("error", "bold red", text, subject)


def print_warning(text: str, *, subject: str = "") -> None:
    """Say what is odd although the command goes on, in the same form."""
    _print_problem("warning", "bold yellow", text, subject)


def print_next(commands: Iterable[str]) -> None:
    """Say which command to run next, each from a new line on, so that it can be pasted."""
    label = "next: "
    for command in commands:
        text = sanitise(command, MAX_SENTENCE_LENGTH)
        is_terminal = sys.stderr.isatty()
        lines = wrap_command(text, get_terminal_size().columns - len(label)) if is_terminal else [text]
        _write_to_stderr(f"{styled(label, 'bold', sys.stderr)}{lines[0]}")
        label = " " * len(label)
        for line in lines[1:]:
            _write_to_stderr(f"{label}{line}")


def print_first_lines(label: str, lines: Iterable[str]) -> None:
    """Print messages under a label, the first ones of very many."""
    all_lines = list(lines)
    for line in all_lines[:MAX_LISTED]:
        print_info(f"{label}: {sanitise(line, MAX_SENTENCE_LENGTH)}")
    if len(all_lines) > MAX_LISTED:
        print_info(f"{label}: and {len(all_lines) - MAX_LISTED:,} more, which --json shows")


def print_failures(
    failures: Iterable[str],
    *,
    unread: Iterable[Unread] = (),
    missing: Iterable[str] = (),
    region: str = "",
) -> None:
    """Print each cause once, however much it affects, and which volumes do not exist in the region."""
    problems = {problem.cause: problem for problem in map(Problem.of, failures)}
    unread = list(unread)
    affected = group_by_cause(unread)
    for problem in merge_alike([problems[cause] for cause in problems if cause not in affected]):
        print_error(problem)
    for cause, (problem, labels) in affected.items():
        nouns = {type_of_id(resource_id).noun for resource_id in labels}
        count = format_count(len(labels), nouns.pop() if len(nouns) == 1 else "resource")
        parts = dict.fromkeys(item.part for item in unread if item.resource_id in labels)
        if all(parts):
            count = f"the {' and '.join(parts)} of {count}"
        names = list_first([*labels.values()], 3)
        print_error(Problem(f"{cause.rstrip('.')}; {count} could not be read: {names}", problem.fix))
    for resource_id in missing:
        noun = type_of_id(resource_id).noun
        print_error(
            Problem(
                f"no {noun} {resource_id} in {region}",
                f"check the ID, the Region and the account; burstctl assess lists the {noun}s",
            )
        )


def merge_alike(problems: Iterable[str]) -> list[Problem]:
    """The problems, with one for all endpoints or actions of AWS that fail alike.

    Without a network, that is every service.
    """
    merged = [*map(Problem.of, problems)]
    for pattern in (_ENDPOINT, _FAILED_ACTION):
        groups: dict[tuple[str, str], list[Problem]] = {}
        for problem in merged:
            groups.setdefault((pattern.sub("", problem.cause, count=1), problem.fix), []).append(problem)
        merged = [_merge_group(pattern, *group) for group in groups.values()]
    return merged


def _merge_group(pattern: re.Pattern[str], problem: Problem, *others: Problem) -> Problem:
    """One problem for several that differ only in what matches the pattern."""
    matches = (pattern.search(item.cause) for item in (problem, *others))
    first, *more = dict.fromkeys(match[0] if match else "" for match in matches)
    if not more:
        return problem
    names = f"{', '.join([first, *more[:-1]])} and {more[-1]}"
    return Problem(problem.cause.replace(first, names, 1), problem.fix)


def group_by_cause(unread: Iterable[Unread]) -> dict[str, tuple[Problem, dict[str, str]]]:
    """By cause: the problem, and the labels of what has it, by ID.

    Texts that differ in the ID alone are one, with "it" for the ID.
    """
    groups: dict[str, tuple[Problem, dict[str, str]]] = {}
    for resource_id, label, reason, _part in sorted(unread, key=lambda item: (item.label, item.resource_id)):
        problem = Problem.of(reason)
        anonymous = without_name(problem, resource_id)
        _, labels = groups.setdefault(anonymous.cause, (problem, {}))
        labels[resource_id] = label
        if len(labels) > 1:
            groups[anonymous.cause] = (anonymous, labels)
    return {problem.cause: (problem, labels) for problem, labels in groups.values()}


def without_name(problem: Problem, name: str) -> Problem:
    """The problem with "it" for a name that is a word of its own, and with "ID" in a command."""
    word = re.compile(rf"(burstctl \w+ )?(?<![\w-]){re.escape(name)}(?![\w-])")

    def replace(match: re.Match[str]) -> str:
        return f"{match[1]}ID" if match[1] else "it"

    return Problem(word.sub(replace, problem.cause), word.sub(replace, problem.fix))


def list_first(names: Sequence[str], limit: int = MAX_LISTED) -> str:
    """``vol-1, vol-2 and 3 more``."""
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more:,} more" if more > 0 else "")


def print_internal_error(error: Exception) -> None:
    """Report an unexpected error; the traceback is only printed with ``BURSTWATCH_DEBUG``."""
    if os.environ.get(DEBUG_ENV):
        traceback.print_exception(error)
    message = sanitise(str(error), _MAX_TEXT_LENGTH) or "no message"
    fix = f"set {DEBUG_ENV}=1 to see the details, and report them"
    print_error(Problem(f"unexpected {type(error).__name__}: {message}", fix))


def print_interruption(text: str) -> None:
    """Say what an interrupt ended, in place of the ``^C`` that the terminal shows."""
    print_info(f"\r{text}" if sys.stderr.isatty() else text)


def to_json(document: Any, *, is_compact: bool = False) -> str:
    """JSON in ASCII: nothing in a tag can act on a terminal."""
    return json.dumps(document, separators=(",", ":")) if is_compact else json.dumps(document, indent=2)


def _print_problem(label: str, style: str, text: str, subject: str) -> None:
    problem = Problem.of(text)
    first, *rest = (sanitise(line, MAX_SENTENCE_LENGTH) for line in problem.cause.split("\n"))
    if problem.fix and not rest and not first.endswith(_SENTENCE_ENDS):
        first += "."
    lines = wrap_to_terminal(f"{label}: {subject}{subject and ': '}{first}")
    _write_to_stderr(styled(f"{label}:", style, sys.stderr) + lines.removeprefix(f"{label}:"))
    for line in rest:
        print_info(f"  {line}")
    if problem.fix:
        fix, *more = (sanitise(line, MAX_SENTENCE_LENGTH).rstrip(".") for line in problem.fix.split("\n"))
        wrapped = wrap_to_terminal(f"  fix: {fix}")
        _write_to_stderr(f"  {styled('fix:', 'bold', sys.stderr)}{wrapped.removeprefix('  fix:')}")
        for line in more:
            print_info(f"    {line}")


def _write_to_stderr(text: str) -> None:
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except OSError:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - lives as long as we do


def wrap_to_terminal(text: str) -> str:
    """Broken between words for the terminal, each line's continuation indented; what fits stays as it is."""
    if not sys.stderr.isatty():
        return text
    width = get_terminal_size().columns - 2
    return "\n".join(_wrap_line(line, width) for line in text.split("\n"))


def _wrap_line(line: str, width: int) -> str:
    if display_width(line) <= width:
        return line
    indent = line[: len(line) - len(line.lstrip())]
    return indent + f"\n{indent}  ".join(wrap(line.split(), width - len(indent), breaks_words=False))


def _discard_stdout() -> None:
    """Discard buffered output that cannot be written; otherwise the interpreter tries again when it exits."""
    if sys.__stdout__ is not None and sys.stdout is sys.__stdout__:
        with open(os.devnull, "w", encoding="utf-8") as devnull:  # noqa: PTH123 - a device, not a path
            os.dup2(devnull.fileno(), sys.__stdout__.fileno())
