"""Topics with sentences, as they fit on a terminal of 80 columns."""

from collections.abc import Iterable, Sequence
from typing import Final

from burstwatch.core.text import display_width, wrap

# the width of an ordinary terminal; wider paragraphs are harder to read
COLUMNS: Final = 80
_LABEL_COLUMNS: Final = 10

Topic = tuple[str, Sequence[str]]
"""A name and its sentences, fit to show."""


def lay_out_topics(headline: str, topics: Iterable[Topic]) -> str:
    """A paragraph for each topic: its name on the left, its sentences next to it."""
    lines = wrap(headline.split(), COLUMNS)
    for topic, sentences in topics:
        text_lines = [
            line for sentence in sentences for line in wrap_hanging(sentence, COLUMNS - _LABEL_COLUMNS)
        ]
        labels = [topic, *[""] * (len(text_lines) - 1)]
        lines += [
            f"{label:{_LABEL_COLUMNS}}{line}".rstrip() for label, line in zip(labels, text_lines, strict=True)
        ]
    return "\n".join(lines)


def wrap_hanging(sentence: str, width: int) -> list[str]:
    """Wrap a sentence to this many columns and indent all lines but the first."""
    if display_width(sentence) <= width:
        return [sentence]
    first, *rest = wrap(sentence.split(), width - 2)
    return [first, *(f"  {line}" for line in rest)]


MAX_SENTENCE_LENGTH: Final = 600  # no sentence of ours is longer; text from outside may be
