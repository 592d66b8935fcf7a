"""Topics with sentences, as they fit on a terminal of 80 columns."""

from collections.abc import Iterable, Sequence
from typing import Final

from burstwatch.core.text import columns, fill

COLUMNS: Final = 80
_LABEL_COLUMNS: Final = 10

Topic = tuple[str, Sequence[str]]
"""A name and its sentences, fit to show."""


def lay_out(headline: str, topics: Iterable[Topic]) -> str:
    """A topic to a paragraph: its name on the left, its sentences beside it."""
    lines = fill(headline.split(), COLUMNS)
    for topic, sentences in topics:
        beside = [line for sentence in sentences for line in hang(sentence, COLUMNS - _LABEL_COLUMNS)]
        labels = [topic, *[""] * (len(beside) - 1)]
        lines += [
            f"{label:{_LABEL_COLUMNS}}{line}".rstrip() for label, line in zip(labels, beside, strict=True)
        ]
    return "\n".join(lines)


def hang(sentence: str, width: int) -> list[str]:
    """The sentence on lines of at most so many columns, all but the first indented; what fits stays whole."""
    if columns(sentence) <= width:
        return [sentence]
    first, *rest = fill(sentence.split(), width - 2)
    return [first, *(f"  {line}" for line in rest)]


LONGEST_SENTENCE: Final = 600
