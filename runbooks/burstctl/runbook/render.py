"""A runbook page on a terminal: rich's Markdown, whose commands stay as they are written."""

from collections.abc import Iterable, Iterator
from typing import ClassVar, Final, cast

from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, ListItem, Markdown, MarkdownElement, TableElement
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

_BULLET: Final = " • "
_STYLES: Final = {
    "markdown.h1": Style(bold=True, underline=True),
    "markdown.h2": Style(bold=True),
    "markdown.h3": Style(bold=True),
    "markdown.code": Style(color="cyan"),
    "markdown.table.border": Style(dim=True),
    "markdown.table.header": Style(bold=True),
}
_MAX_COLUMNS: Final = 3
"""A table with more columns has a block of lines for each row: its columns would be too narrow to read."""


class _LeftHeading(Heading):
    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = {}


class _CommandBlock(CodeBlock):
    """Commands and their output: a line that is too long is continued by the terminal, not broken here."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        is_command = False
        for line in str(self.text).rstrip().splitlines():
            is_command = line.startswith("$ ") or (is_command and line.startswith("    "))
            yield Text(line, style="bold" if is_command else "dim", no_wrap=True, overflow="ignore")


class _UncroppedListItem(ListItem):
    """An item whose long commands are not cut at the edge of the terminal."""

    def render_bullet(self, console: Console, options: ConsoleOptions) -> RenderResult:
        return self._render_hanging(console, options, _BULLET)

    def render_number(
        self, console: Console, options: ConsoleOptions, number: int, last_number: int
    ) -> RenderResult:
        return self._render_hanging(console, options, f"{number:>{len(str(last_number)) + 1}} ")

    def _render_hanging(self, console: Console, options: ConsoleOptions, mark: str) -> Iterator[Segment]:
        narrower = options.update(width=options.max_width - len(mark))
        elements = list(cast("Iterable[RenderableType]", self.elements))  # rich types its iterator wrongly
        for place, element in enumerate(elements):
            if place:
                yield Segment.line()
            for index, line in enumerate(Segment.split_lines(console.render(element, narrower))):
                yield Segment(" " * len(mark) if place or index else mark)
                yield from line
                yield Segment.line()
        if len(elements) > 1:
            yield Segment.line()


class _ReadableTable(TableElement):
    """A table in which no word is cut; a wide one as a block of lines for each of its rows."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        headings = [cell.content for cell in self.header.row.cells] if self.header and self.header.row else []
        rows = [[cell.content for cell in row.cells] for row in self.body.rows] if self.body else []
        for cell in (cell for row in rows for cell in row):
            cell.overflow = "fold"
        if len(headings) <= _MAX_COLUMNS:
            yield from super().__rich_console__(console, options)
            return
        for first, *others in rows:
            yield Text("")
            yield Text.assemble(first, style="bold")
            block = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
            block.add_column(no_wrap=True, style="dim")
            block.add_column(overflow="fold")
            for heading, cell in zip(headings[1:], others, strict=True):
                block.add_row(Text.assemble("  ", heading), cell)
            yield block


class _PageMarkdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _LeftHeading,
        "fence": _CommandBlock,
        "list_item_open": _UncroppedListItem,
        "table_open": _ReadableTable,
    }


def render_page(text: str, *, width: int, has_colour: bool) -> str:
    """The page, at most ``width`` columns wide except for commands and their output."""
    console = Console(
        width=width,
        force_terminal=has_colour,
        no_color=not has_colour,
        color_system="standard" if has_colour else None,
        highlight=False,
        theme=Theme(_STYLES),
    )
    with console.capture() as captured:
        console.print(_PageMarkdown(text, hyperlinks=False), crop=False)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())
