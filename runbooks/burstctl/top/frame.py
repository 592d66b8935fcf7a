"""A frame of the live view: as many lines as the terminal has, each no wider than it. Values only."""

from collections.abc import Sequence
from typing import Final

from burstctl.cli.styled_text import StyledText
from burstctl.render.table import format_percent, truncate
from burstctl.top.view import Item, View
from burstwatch.core.text import display_width, format_count, format_duration, format_usd, sanitise, wrap

Line = list[StyledText]

MIN_COLUMNS: Final = 40
MIN_LINES: Final = 5
_GAP: Final = "  "
_LEVEL_COLUMNS: Final = 9  # "exhausted"
_ID_COLUMNS: Final = 21  # of a volume
_WIDE_ID_COLUMNS: Final = 44  # with a name beside the ID
_WIDE_COLUMNS: Final = 110
_BALANCE_COLUMNS: Final = 7  # "100.0 %"
_SPARKLINE_COLUMNS: Final = 16
_FORECAST_COLUMNS: Final = 15  # "no steady drain"
_LEVEL_FROM_COLUMNS: Final = 51  # leaves 12 for the name and 15 for the forecast
_SPARKLINE_FROM_COLUMNS: Final = 78  # leaves 15 for the forecast
_ALL_FROM_LINES: Final = 10
"""A lower terminal has neither the counts, the titles and a note nor the details of the selected resource."""
_PROBLEMS_SHARE: Final = 5
"""Problems take at most one line of five, so that the list stays visible."""

_LINES_PER_PROBLEM: Final = 2
_ALARM: Final = "bold white on red"
_STALE_AFTER: Final = 2.5
"""Data that is older than this many intervals is out of date: two reads are missing."""

_FOOTERS: Final = (
    "j/k move  enter explain  p plan  h hold  / filter  tab kind  ? help  q quit",
    "enter explain  p plan  h hold  / filter  ? help  q quit",
    "? help  q quit",
)
_HELP: Final = (
    ("j, k, arrows", "select the next, the previous resource"),
    ("space, page up", "a page down, a page up"),
    ("g, G", "the most urgent, the calmest resource"),
    ("enter, e", "burstctl explain of the selected resource"),
    ("p", "the plan: burstctl flip --dry-run of the volume"),
    ("h", "burstctl hold: asks how long and why, and again"),
    ("tab", "the next kind of resource; after the last, all"),
    ("/", "filter by ID, name, instance or tag (tag:role=ci)"),
    ("escape", "show everything again"),
    ("r", "read now"),
    ("q, ctrl-c", "quit"),
)
_HELP_KEYS_COLUMNS: Final = 16


def page_rows(view: View, width: int, height: int) -> int:
    """How many resources a frame has room for."""
    return max(1, height - len(_head(view, 0.0, width, height)) - len(_foot(view, width, height)))


def render_frame(view: View, *, now_s: float, width: int, height: int) -> list[Line]:
    """The lines of a terminal of this size; only the resources on it are put into words."""
    if width < MIN_COLUMNS or height < MIN_LINES:
        return [[StyledText(truncate(f"needs {MIN_COLUMNS} x {MIN_LINES}; q quits", width))]]
    head, foot = _head(view, now_s, width, height), _foot(view, width, height)
    room = height - len(head) - len(foot)
    if view.is_help_shown:
        body = _help_lines(width)
    else:
        first = view.position // room * room
        body = [
            _row_line(item, width, is_selected=first + index == view.position)
            for index, item in enumerate(view.items[first : first + room])
        ] or [[StyledText(_empty_text(view), "dim")]]
    body = body[:room]
    return [_cut(line, width) for line in [*head, *body, *[[]] * (room - len(body)), *foot]]


def _help_lines(width: int) -> list[Line]:
    """What each key does, on more lines if the terminal is narrow."""
    return [
        [StyledText(f"{'' if index else keys:<{_HELP_KEYS_COLUMNS}}", "bold"), StyledText(text)]
        for keys, meaning in _HELP
        for index, text in enumerate(wrap(meaning.split(), width - _HELP_KEYS_COLUMNS))
    ]


def _empty_text(view: View) -> str:
    if view.reading is None:
        return "no data yet"
    if view.reading.items:
        return "nothing matches; escape shows everything"
    selection = sanitise(view.reading.selection, 200)
    return (
        f"nothing with burst credits matches {selection}" if selection else "nothing has burst credits here"
    )


def _head(view: View, now_s: float, width: int, height: int) -> list[Line]:
    reading = view.reading
    problems = _problem_lines(view, width, height // _PROBLEMS_SHARE)
    if height < _ALL_FROM_LINES:
        return [_status_line(view, now_s, width), *problems]
    counts = [f"{count:,} {level}" for level, count in reading.level_counts.items()] if reading else []
    return [
        _status_line(view, now_s, width),
        [StyledText(_join_fitting(counts, width))],
        *problems,
        *([StyledText(sanitise(note, width), "dim")] for note in (reading.notes[:1] if reading else ())),
        _title_line(width),
    ]


def _status_line(view: View, now_s: float, width: int) -> Line:
    """How old all this is, the most important part first; the region and the price if there is room."""
    reading = view.reading
    age_s = None if view.read_at_s is None else now_s - view.read_at_s
    if view.is_paused(now_s):
        freshness, style = "PAUSED: no key for an hour. Press one", _ALARM
    elif age_s is not None and age_s > _STALE_AFTER * view.every_s:
        freshness, style = f"OUT OF DATE: read {format_duration(age_s)} ago", _ALARM
    elif age_s is not None:
        freshness, style = f"read {format_duration(age_s)} ago", "bold"
    elif view.reading_since_s is not None:
        freshness, style = f"reading for {format_duration(now_s - view.reading_since_s)}", "bold"
    else:
        freshness, style = "nothing was read yet", _ALARM
    parts = []
    if reading is not None and age_s is not None:
        data_age = (
            "no data"
            if reading.data_age_s is None
            else f"data {format_duration(reading.data_age_s + age_s)} old"
        )
        total = format_count(len(reading.items), "resource")
        parts = [
            data_age,
            f"{len(view.items):,} of {total}" if len(view.items) < len(reading.items) else total,
            reading.region,
            f"{format_usd(reading.usd * 3600 / view.every_s)} an hour",
        ]
    room = width - display_width(freshness) - len(_GAP)
    return [StyledText(freshness, style), StyledText(_GAP + _join_fitting(parts, room))]


def _problem_lines(view: View, width: int, limit: int) -> list[Line]:
    """What failed, in the most striking style there is: at most two lines of each, and ``limit`` in all."""
    problems = [*(view.reading.failures if view.reading else ())]
    if view.error is not None:
        age = " (the list is older)" if view.reading else ""
        problems.insert(0, f"the last read failed{age}: {view.error}")
    lines = [
        line
        for problem in problems
        for line in wrap(["!", *sanitise(problem, 400).split()], width)[:_LINES_PER_PROBLEM]
    ]
    if len(lines) > limit:
        more = ["! and more: q, then burstctl assess"] if limit > 1 else []
        lines = [*lines[: limit - len(more)], *more]
    return [[StyledText(line, _ALARM)] for line in lines]


def _foot(view: View, width: int, height: int) -> list[Line]:
    """The selected resource in detail, and the keys, the filter or a message."""
    if view.is_typing:
        last = StyledText(_typed_text(view.filter_text, width), "bold")
    elif view.message:
        last = StyledText(view.message, "bold yellow")
    else:
        filters = [view.kind or "", f"/{view.filter_text}" if view.filter_text else ""]
        filter_label = _GAP.join(filter(None, filters))
        label = f"[{sanitise(filter_label, 40)}]{_GAP}" if filter_label else ""
        keys = (keys for keys in _FOOTERS if display_width(label + keys) <= width)
        last = StyledText(label + next(keys, _FOOTERS[-1]), "dim")
    details = [[StyledText(_details(view.selected, width), "bold")]] if height >= _ALL_FROM_LINES else []
    return [*details, [last]]


def _typed_text(filter_text: str, width: int) -> str:
    """The filter with its end, where people type, whether or not all of it fits."""
    label, text = "filter: ", f"{sanitise(filter_text, 200) if filter_text else ''}_"
    while display_width(label + text) > width:
        text = f"…{text[2:]}" if text.startswith("…") else f"…{text[1:]}"
    return label + text


def _details(item: Item | None, width: int) -> str:
    if item is None:
        return ""
    row = item.row
    level = "" if _has_level(width) else row.level
    parts = [level, row.resource_id, row.name(None), row.size, row.flip, row.mode]
    return _join_fitting([*parts, row.flow(width), row.place, row.bucket], width)


def _title_line(width: int) -> Line:
    titles = [
        *([_fill("LEVEL", _LEVEL_COLUMNS)] if _has_level(width) else []),
        _fill("RESOURCE", _id_columns(width)),
        "BALANCE",
        *([_fill("HISTORY", _SPARKLINE_COLUMNS)] if _has_sparkline(width) else []),
        "EMPTY UTC",
    ]
    return [StyledText(_GAP + _GAP.join(titles), "bold")]


def _row_line(item: Item, width: int, *, is_selected: bool) -> Line:
    """On a narrow terminal a name in place of the ID: the lines below have the ID of the selected one.

    Without a balance, its columns are for the reason, which is longer than a time.
    """
    row = item.row
    id_columns = _id_columns(width)
    name = row.name(min(id_columns, _ID_COLUMNS))
    label = f"{row.resource_id}{_GAP}{name}" if width >= _WIDE_COLUMNS else name or row.resource_id
    cells = [
        *([StyledText(_fill(row.level, _LEVEL_COLUMNS), row.style)] if _has_level(width) else []),
        StyledText(_fill(label, id_columns)),
    ]
    has_sparkline = _has_sparkline(width)
    if row.balance_pct is not None or (has_sparkline and item.sparkline) or width >= _WIDE_COLUMNS:
        balance = "" if row.balance_pct is None else format_percent(row.balance_pct)
        cells.append(StyledText(f"{balance:>{_BALANCE_COLUMNS}}", row.style))
        cells += [StyledText(_fill(item.sparkline, _SPARKLINE_COLUMNS))] if has_sparkline else []
    room = width - sum(len(_GAP) + display_width(cell.text) for cell in cells) - len(_GAP)
    cells.append(StyledText(row.forecast(room), "" if row.is_alerting else "dim"))
    line = [StyledText("> " if is_selected else "  ")]
    for cell in cells:
        line += [cell, StyledText(_GAP)]
    line.pop()
    return [StyledText(part.text, f"{part.style} reverse".strip()) for part in line] if is_selected else line


def _id_columns(width: int) -> int:
    """As many as leave the balance and the shortest forecast whole."""
    if width >= _WIDE_COLUMNS:
        return _WIDE_ID_COLUMNS
    others = [_BALANCE_COLUMNS, _FORECAST_COLUMNS, *([_LEVEL_COLUMNS] if _has_level(width) else [])]
    room = width - sum(others) - (len(others) + 1) * len(_GAP)
    return min(_ID_COLUMNS, room)


def _has_level(width: int) -> bool:
    """Whether there is room for it; below that, the styles and the selected resource's details show it."""
    return width >= _LEVEL_FROM_COLUMNS


def _has_sparkline(width: int) -> bool:
    """Whether there is room for it beside the forecast."""
    return width >= _SPARKLINE_FROM_COLUMNS


def _fill(text: str, columns: int) -> str:
    text = truncate(text, columns)
    return text + " " * (columns - display_width(text))


def _join_fitting(parts: Sequence[str], width: int) -> str:
    """As many of the parts, from the first on, as fit."""
    text = ""
    for part in filter(None, parts):
        longer = f"{text}{_GAP}{part}" if text else part
        if display_width(longer) > width:
            break
        text = longer
    return text


def _cut(line: Line, width: int) -> Line:
    """The line without what does not fit."""
    cut: Line = []
    room = width
    for part in line:
        if room <= 0:
            break
        text = truncate(part.text, room)
        cut.append(StyledText(text, part.style))
        room -= display_width(text)
    return cut
