"""Resources as a table: in colour and as wide as the terminal, otherwise plain and complete.

A row is a resource of any kind, and what a column shows of it is in words already. This decides what fits.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from burstctl.cli.styled_text import StyledText, to_plain_text
from burstwatch.core.text import display_width

WIDE_TABLE_COLUMNS: Final = 116
"""From this width on there is a line to a resource, below it there are several."""

BAR_COLUMNS: Final = 80
"""On a terminal that is narrower, there is no room for a bar, nor for a column with the Region."""

_FULL_FORECAST_COLUMNS: Final = 140
"""From this width on, there is room for the bound next to the estimate."""

_FORECAST_COLUMNS: Final = 31
_MIN_FORECAST_COLUMNS: Final = 12
_MIN_NAME_COLUMNS: Final = 8
_BAR_CELLS: Final = 5
_COLUMN_GAP: Final = "  "
_FLIP_STYLE: Final = "cyan"
_CUT: Final = "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One resource, in the words of each column.

    ``name`` and ``forecast`` take a width, None for any, and return the form that fits. ``mode`` is empty
    where it does not matter. A row that ``is_calm`` takes one line on a narrow terminal, others take two or
    more; ``flow`` takes a width as well, and is shown there if no flip is.
    """

    region: str
    kind: str
    bucket: str
    resource_id: str
    name: Callable[[int | None], str]
    level: str
    style: str
    is_calm: bool
    is_alerting: bool
    balance_pct: float | None
    forecast: Callable[[int | None], str]
    flip: str
    mode: str
    drain: str
    baseline: str
    size: str
    place: str
    flow: Callable[[int], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Lines of cells under titles; ``notes`` are below and state what is not shown."""

    titles: Sequence[str]
    lines: Sequence[Sequence[StyledText]]
    right_aligned: frozenset[str]
    notes: Sequence[str] = ()

    def widths(self) -> list[int]:
        """How many columns of the terminal each column takes."""
        texts = [self.titles, *([cell.text for cell in line] for line in self.lines)]
        return [max(map(display_width, column)) for column in zip(*texts, strict=True)]

    def width(self) -> int:
        """How many columns of the terminal a line takes."""
        return sum(self.widths()) + display_width(_COLUMN_GAP) * (len(self.titles) - 1)

    def with_columns(self, titles: Sequence[str]) -> "Table":
        """The table with these of its columns."""
        indexes = [self.titles.index(title) for title in titles]
        return replace(self, titles=titles, lines=[[line[index] for index in indexes] for line in self.lines])

    def fit_columns(self, forms: Sequence[Sequence[str]], width: int) -> "Table":
        """The table with the first of these choices of columns that fits this width; else the last."""
        tables = [self.with_columns(titles) for titles in forms]
        return next((table for table in tables if table.width() <= width), tables[-1])

    def to_lines(self) -> list[list[StyledText]]:
        """Titles, lines and notes, every cell filled up to its column; without a line there are no titles."""
        header = [[StyledText(title, "bold") for title in self.titles]] if self.lines else []
        columns = [
            (width, title in self.right_aligned)
            for width, title in zip(self.widths(), self.titles, strict=True)
        ]
        return [
            *(_to_line(cells, columns) for cells in [*header, *self.lines]),
            *([StyledText(note, "dim")] for note in self.notes),
        ]


class _Column(NamedTuple):
    """A column of the wide table; one that is ``droppable`` gives way on a terminal that is too narrow."""

    title: str
    cell: Callable[[Row], StyledText]
    is_right_aligned: bool = False
    is_droppable: bool = False


def wide_table(rows: Sequence[Row], notes: Sequence[str], *, width: int | None, bar: str | None) -> Table:
    """A line for each row; on a terminal the least important columns give way, then names are cut.

    Args:
        rows: what to show.
        notes: what is not shown.
        width: of the terminal; None if the output leads elsewhere.
        bar: the characters of the balance bar from empty to full; None for no bar.
    """
    is_full = width is None or width >= _FULL_FORECAST_COLUMNS
    columns = _wide_columns(rows, None if is_full else _FORECAST_COLUMNS, bar)
    table = _table_of(columns, rows, notes)
    if width is None:
        return table
    while table.width() > width and any(column.is_droppable for column in columns):
        last = max(index for index, column in enumerate(columns) if column.is_droppable)
        columns = [*columns[:last], *columns[last + 1 :]]
        table = _table_of(columns, rows, notes)
    name_index = table.titles.index("NAME")
    name_columns = max(_MIN_NAME_COLUMNS, table.widths()[name_index] - max(0, table.width() - width))
    columns[name_index] = _Column("NAME", lambda row: StyledText(row.name(name_columns)))
    return _table_of(columns, rows, notes)


def narrow_table(rows: Sequence[Row], notes: Sequence[str], *, width: int = 80, bar: str | None) -> Table:
    """Two or more lines to a row, one if all is calm; fits 60 columns, and 80 with a bar."""
    has_regions = len({row.region for row in rows}) > 1
    has_region_column = has_regions and width >= BAR_COLUMNS
    shown_bar = bar if width >= BAR_COLUMNS and not has_regions else None
    titles = ["LEVEL", *(["REGION"] if has_region_column else []), _id_title(rows), "BALANCE", "EMPTY UTC"]
    fixed = [
        _narrow_lines(row, 0, shown_bar, has_region_column=has_region_column, has_regions=has_regions)
        for row in rows
    ]
    table = Table(
        titles=[*titles[:-1], ""],
        lines=[line for lines in fixed for line in lines],
        right_aligned=frozenset(),
    )
    forecast_columns = max(_MIN_FORECAST_COLUMNS, width - table.width())
    lines = [
        line
        for row in rows
        for line in _narrow_lines(
            row, forecast_columns, shown_bar, has_region_column=has_region_column, has_regions=has_regions
        )
    ]
    return Table(titles=titles, lines=lines, right_aligned=frozenset({"BALANCE"}), notes=notes)


def render_plain(table: Table) -> str:
    """Aligned text, no colour."""
    return to_plain_text(table.to_lines())


def truncate(text: str, width: int) -> str:
    """The text on at most this many columns; an ellipsis marks a cut."""
    if display_width(text) <= width:
        return text
    if width <= 0:
        return ""
    while display_width(text) >= width:
        text = text[:-1]
    return text.rstrip() + _CUT


def fit(forms: Sequence[str], width: int | None) -> str:
    """The first of the forms, from the longest to the shortest, that takes at most this many columns."""
    if width is None:
        return forms[0]
    return next((form for form in forms if display_width(form) <= width), truncate(forms[-1], width))


def draw_bar(balance_pct: float, cells: int, characters: str) -> str:
    """A bar that is filled to this share; the characters between the first and the last are finer steps."""
    empty_character, steps = characters[0], characters[1:]
    filled = round(balance_pct / 100 * cells * len(steps))
    full, partial_steps = divmod(filled, len(steps))
    bar = steps[-1] * full + (steps[partial_steps - 1] if partial_steps else "")
    return bar + empty_character * (cells - len(bar))


def format_percent(balance_pct: float) -> str:
    """``41.0 %``."""
    return f"{balance_pct:.1f} %"


def _wide_columns(rows: Sequence[Row], forecast_columns: int | None, bar: str | None) -> list[_Column]:
    """The columns that have something to say, the droppable ones in the order of their importance."""
    candidates = [
        (True, _Column("LEVEL", lambda row: StyledText(row.level, row.style))),
        (len({row.region for row in rows}) > 1, _Column("REGION", lambda row: StyledText(row.region))),
        (len({row.bucket for row in rows}) > 1, _Column("BUCKET", lambda row: StyledText(row.bucket))),
        (True, _Column(_id_title(rows), lambda row: StyledText(row.resource_id))),
        (True, _Column("NAME", lambda row: StyledText(row.name(None)))),
        (True, _Column("BALANCE", lambda row: _balance_cell(row, bar), is_right_aligned=True)),
        (True, _Column("EMPTY UTC", lambda row: _forecast_cell(row, forecast_columns))),
        (any(row.flip for row in rows), _Column("FLIP", lambda row: StyledText(row.flip, _FLIP_STYLE))),
        (any(row.mode for row in rows), _Column("MODE", lambda row: StyledText(row.mode), is_droppable=True)),
        (True, _Column("DRAIN/S", lambda row: StyledText(row.drain), True, True)),
        (True, _Column("BASELINE", lambda row: StyledText(row.baseline), True, True)),
        (True, _Column("SIZE", lambda row: StyledText(row.size), True, True)),
        (
            any(row.place for row in rows),
            _Column("INSTANCE", lambda row: StyledText(row.place, "dim"), False, True),
        ),
    ]
    return [column for has_content, column in candidates if has_content]


def _table_of(columns: Sequence[_Column], rows: Sequence[Row], notes: Sequence[str]) -> Table:
    return Table(
        titles=[column.title for column in columns],
        lines=[[column.cell(row) for column in columns] for row in rows],
        right_aligned=frozenset(column.title for column in columns if column.is_right_aligned),
        notes=notes,
    )


def _id_title(rows: Sequence[Row]) -> str:
    return "VOLUME" if {row.kind for row in rows} <= {"ebs"} else "RESOURCE"


def _narrow_lines(
    row: Row, forecast_columns: int, bar: str | None, *, has_region_column: bool, has_regions: bool
) -> list[list[StyledText]]:
    """The lines of a row; with ``forecast_columns`` of 0, their last cells are empty."""
    region = [StyledText(row.region)] if has_region_column else []
    blank = [StyledText("")] if has_region_column else []
    has_region_below = has_regions and not has_region_column
    id_columns = display_width(row.resource_id)
    forecast, name = row.forecast(forecast_columns), row.name(id_columns)
    is_single = row.is_calm and not has_region_below
    if is_single:
        forecast = _calm_words(row, forecast_columns)
    first_line = [
        StyledText(row.level, row.style),
        *region,
        StyledText(row.resource_id),
        _balance_cell(row, bar),
        StyledText(truncate(forecast, forecast_columns), "" if row.is_alerting else "dim"),
    ]
    if is_single:
        return [first_line]
    details = _detail_lines(row, row.region if has_region_below else "", forecast_columns)
    beside = [(name or truncate(row.place, id_columns), row.size), *[("", "")] * (len(details) - 1)]
    return [
        first_line,
        *(
            [StyledText(""), *blank, StyledText(label), StyledText(size, "dim"), detail]
            for (label, size), detail in zip(beside, details, strict=True)
        ),
    ]


def _detail_lines(row: Row, region: str, columns: int) -> list[StyledText]:
    """Region, mode and flip, on as many lines as they take; or the flow in place of a flip, if it fits."""
    lines = [""]
    for part in filter(None, [region, *row.mode.split(", "), row.flip]):
        line = f"{lines[-1]}, {part}" if lines[-1] else part
        if lines[-1] and display_width(line) > columns:
            lines.append(part)
        else:
            lines[-1] = line
    if not row.flip:
        room = columns - (display_width(lines[-1]) + len(", ") if lines[-1] else 0)
        lines[-1] = ", ".join(filter(None, [lines[-1], row.flow(room)]))
    return [StyledText(truncate(line, columns), _FLIP_STYLE if row.flip else "dim") for line in lines]


def _calm_words(row: Row, columns: int) -> str:
    """What one line says of a calm row: the name matters more than the forecast if only one of them fits."""
    label = _label(row, columns)
    room = columns - display_width(label) - len(" ()")
    if not label:
        return row.forecast(columns)
    if room > 0 and not (forecast := row.forecast(room)).endswith(_CUT):
        return f"{forecast} ({label})"
    forecast = row.forecast(columns)
    room = columns - display_width(forecast) - len(" ()")
    is_name_visible = room - display_width(row.mode) >= _MIN_NAME_COLUMNS
    return f"{forecast} ({_label(row, room)})" if is_name_visible else label


def _label(row: Row, columns: int) -> str:
    """Name and mode on at most this many columns; the name is cut, and the mode if it stands alone."""
    name_columns = columns - (display_width(row.mode) + len(", ") if row.mode else 0)
    name = row.name(name_columns) if name_columns > 0 else ""
    return truncate(", ".join(filter(None, [name, row.mode])), columns)


def _balance_cell(row: Row, bar: str | None) -> StyledText:
    style = "bold red" if "on red" in row.style else row.style
    if row.balance_pct is None:
        return StyledText("")
    bar_text = f"{draw_bar(row.balance_pct, _BAR_CELLS, bar)} " if bar else ""
    return StyledText(f"{bar_text}{format_percent(row.balance_pct):>7}", style)


def _forecast_cell(row: Row, forecast_columns: int | None) -> StyledText:
    return StyledText(row.forecast(forecast_columns), "" if row.is_alerting else "dim")


def _to_line(cells: Iterable[StyledText], columns: Sequence[tuple[int, bool]]) -> list[StyledText]:
    """The cells with blanks between them; a column has its width, and whether it is aligned to the right."""
    line: list[StyledText] = []
    for cell, (width, is_right_aligned) in zip(cells, columns, strict=True):
        blank = " " * (width - display_width(cell.text))
        text = f"{blank}{cell.text}" if is_right_aligned else f"{cell.text}{blank}"
        line += [StyledText(text, cell.style), StyledText(_COLUMN_GAP)]
    return line
