"""Topics with sentences, as they fit on a terminal of 80 columns."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from burstwatch.core.text import display_width, sanitise, wrap

# the width of an ordinary terminal; wider paragraphs are harder to read
COLUMNS: Final = 80
MAX_SENTENCE_LENGTH: Final = 600  # no sentence of ours is longer; text from outside may be
_LABEL_COLUMNS: Final = 10
_SPACE_RUNS: Final = re.compile(r"( {2,})")

Topic = tuple[str, Sequence[str]]
"""A name and its sentences; they may quote text from outside."""


def lay_out_topics(headline: str, topics: Iterable[Topic]) -> str:
    """A paragraph for each topic that has sentences: its name, and next to it the sentences, made safe."""
    lines = wrap(headline.split(), COLUMNS)
    for topic, sentences in topics:
        text_lines = [
            line
            for sentence in sentences
            for line in wrap_hanging(sanitise_aligned(sentence), COLUMNS - _LABEL_COLUMNS)
        ]
        lines += [
            f"{'' if index else topic:{_LABEL_COLUMNS}}{line}".rstrip()
            for index, line in enumerate(text_lines)
        ]
    return "\n".join(lines)


def lay_out(*sentences: str) -> str:
    """The sentences, made safe, each from a new line on."""
    return "\n".join(
        line
        for sentence in sentences
        for line in wrap_hanging(sanitise(sentence, MAX_SENTENCE_LENGTH), COLUMNS)
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
