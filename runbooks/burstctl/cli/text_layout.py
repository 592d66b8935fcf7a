"""Topics with sentences, as they fit on a terminal, and on 80 columns at most."""

import re
import sys
from collections.abc import Collection, Iterable, Sequence
from shutil import get_terminal_size
from typing import Final

from burstctl.cli.styled_text import styled
from burstwatch.core.text import display_width, sanitise, wrap

_MAX_COLUMNS: Final = 80  # the width of an ordinary terminal; wider paragraphs are harder to read
_MIN_COLUMNS: Final = 40  # a narrower terminal breaks the lines itself
MAX_SENTENCE_LENGTH: Final = 600  # no sentence of ours is longer; text from outside may be
_LABEL_COLUMNS: Final = 10
_SPACE_RUNS: Final = re.compile(r"( {2,})")
_COMMAND_WORD: Final = re.compile(r"(?:'[^']*'|\"[^\"]*\"|[^ '\"])+")
"""A word of a command: blanks inside quotes belong to it."""
_BEFORE_OPTION: Final = re.compile(r" (?=--\w)")
_COMMAND_INDENT: Final = "    "
_CONTINUED: Final = " \\"

Topic = tuple[str, Sequence[str]]
"""A name and its sentences; they may quote text from outside."""


def text_columns() -> int:
    """How wide a paragraph on stdout may be: as wide as the terminal, and 80 columns at most."""
    columns = get_terminal_size().columns if sys.stdout.isatty() else _MAX_COLUMNS
    return min(_MAX_COLUMNS, max(_MIN_COLUMNS, columns))


def lay_out_topics(headline: str, topics: Iterable[Topic], *, urgent: Collection[str] = ()) -> str:
    """A paragraph for each topic that has sentences: its name, and next to it the sentences, made safe.

    The names of topics are bold, and those of ``urgent`` topics red.
    """
    columns = text_columns()
    lines = [styled(line, "bold") for line in wrap(headline.split(), columns)]
    for topic, sentences in topics:
        text_lines = [
            line
            for sentence in sentences
            for line in wrap_hanging(sanitise_aligned(sentence), columns - _LABEL_COLUMNS)
        ]
        label = styled(topic, "bold red" if topic in urgent else "bold") + " " * (_LABEL_COLUMNS - len(topic))
        lines += [
            f"{' ' * _LABEL_COLUMNS if index else label}{line}".rstrip()
            for index, line in enumerate(text_lines)
        ]
    return "\n".join(lines)


def lay_out(*sentences: str) -> str:
    """The sentences, made safe, each from a new line on."""
    return "\n".join(
        line
        for sentence in sentences
        for line in wrap_hanging(sanitise(sentence, MAX_SENTENCE_LENGTH), text_columns())
    )


def wrap_hanging(sentence: str, width: int) -> list[str]:
    """Wrap a sentence to this many columns and indent all lines but the first."""
    if display_width(sentence) <= width:
        return [sentence]
    first, *rest = wrap(sentence.split(), width - 2)
    return [first, *(f"  {line}" for line in rest)]


def sanitise_aligned(line: str) -> str:
    """The line with nothing in it that acts instead of showing; blanks that align it stay."""
    parts = _SPACE_RUNS.split(line)
    return "".join(
        part if _SPACE_RUNS.fullmatch(part) else sanitise(part, MAX_SENTENCE_LENGTH) for part in parts
    )


def wrap_command(command: str, width: int) -> list[str]:
    """A command on as many lines as it takes, each but the last continued.

    It is broken before an option, between words only if an option is too long, and never inside a word.
    """
    if display_width(command) <= width:
        return [command]
    room = width - len(_CONTINUED)
    parts = [
        part
        for option in _BEFORE_OPTION.split(command)
        for part in (
            [option] if display_width(_COMMAND_INDENT + option) <= room else _COMMAND_WORD.findall(option)
        )
    ]
    lines = parts[:1]
    for part in parts[1:]:
        if display_width(f"{lines[-1]} {part}") <= room:
            lines[-1] += f" {part}"
        else:
            lines.append(f"{_COMMAND_INDENT}{part}")
    return [*(f"{line}{_CONTINUED}" for line in lines[:-1]), lines[-1]]
