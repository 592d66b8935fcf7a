"""The pieces of a page in Markdown."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from textwrap import fill
from typing import Any

_COLUMNS = 118


def paragraph(text: str) -> str:
    """A paragraph, wrapped."""
    return _wrap(escape(text))


def bullet(text: str) -> str:
    """An entry of a list, wrapped; code spans are marked already."""
    return _wrap(text, first="- ", rest="  ")


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells."""
    lines = [headings, ["---"] * len(headings), *rows]
    rows_of_cells = ([cell.replace("|", r"\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows_of_cells)


def escape(text: str) -> str:
    """Text in which no character begins an HTML tag."""
    return text.replace("<", "&lt;")


def page(*blocks: str) -> str:
    """A page of blocks with an empty line between two, and a comment that says what writes the page."""
    title, *rest = blocks
    return "\n\n".join([title, "<!-- written by `make reference` -->", *rest]) + "\n"


def require_same_keys(described: Mapping[Any, Any], names: Collection[Any], noun: str) -> None:
    """Check that a table describes exactly these names.

    Raises:
        ValueError: a name has no description, or a description is of a name that the code does not have.
    """
    if missing := sorted({*map(str, names)} - {*map(str, described)}):
        raise ValueError(f"{noun} without a description: {', '.join(missing)}")
    if outdated := sorted({*map(str, described)} - {*map(str, names)}):
        raise ValueError(f"{noun} that the code does not have: {', '.join(outdated)}")


def _wrap(text: str, first: str = "", rest: str = "") -> str:
    return fill(
        " ".join(text.split()),
        _COLUMNS,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
