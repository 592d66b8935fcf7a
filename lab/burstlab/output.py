"""How the lab's commands print: tables of 80 columns unless on a terminal, and progress on stderr."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import click
from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

_COLUMNS: Final = 80  # where the output is not a terminal


def output_console() -> Console:
    """A console for results, 80 columns wide unless it is a terminal."""
    return Console(width=None if sys.stdout.isatty() else _COLUMNS, highlight=False)


def make_table(
    title: str,
    columns: Mapping[str, Any],
    *,
    overflow: Any = None,
    padding: Any = (0, 1, 0, 0),
    **options: Any,
) -> Table:
    """An empty table with the justification of each of its columns, wrapped only with an ``overflow``."""
    options |= {"title": title, "title_justify": "left", "padding": padding, "pad_edge": False}
    table = Table(box=box.SIMPLE_HEAD, **options)
    for name, justify in columns.items():
        table.add_column(name, justify=justify, no_wrap=overflow is None, overflow=overflow or "ellipsis")
    return table


@contextmanager
def show_progress(description: str, total: int) -> Iterator[Callable[[], None]]:
    """Shows progress on a terminal; call the result for each step that is done."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(description, total=total)
        yield lambda: progress.advance(task)


def print_json(document: Mapping[str, Any]) -> None:
    """Print a document for programs."""
    click.echo(json.dumps(document, indent=1))
