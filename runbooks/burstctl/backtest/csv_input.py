"""Recordings from CSV, for history that is kept elsewhere: one volume in each file.

The columns may have any order, and other columns are ignored. ``time`` is the start of the period: ISO 8601,
in UTC without a zone, or seconds since 1970. ``burst_balance_pct`` is the minimum of the period, ``read_ops``
and ``write_ops`` are its counts. ``size_gib`` is needed if no option gives it. A period is one or five
minutes. An empty cell, or a row left out, is a gap.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Final, TextIO

from burstctl.backtest.recorded_aws import UNKNOWN_INSTANCE_ID
from burstctl.backtest.recording import Recording, make_recording
from burstctl.context.metric_resolution import COARSE_PERIOD_S
from burstwatch.core.buckets.series import PERIOD_S, Series
from burstwatch.core.ebs.metric_history import MetricHistory
from burstwatch.core.ebs.volume import BURST_IOPS, Volume, baseline_iops
from burstwatch.core.text import sanitise
from burstwatch.wiring.settings import SettingsError

COLUMNS: Final = ("time", "burst_balance_pct", "read_ops", "write_ops")
SIZE_COLUMN: Final = "size_gib"
MAX_ROWS: Final = 63 * 24 * 60
"""The minutes of 63 days, as long as CloudWatch keeps means of five."""

MAX_GIB: Final = 16_384  # the largest gp2; Source: EBS user guide, General Purpose SSD
# keeps a message about a faulty row, and a row of the table, to one line
_MAX_SHOWN_LENGTH: Final = 40
_MAX_NAME_LENGTH: Final = 60
_MAX_PCT: Final = 100.5
"""What is so little above 100 is rounding."""

_MAX_OPS: Final = 1e9  # more than the fastest volume serves in an hour: such a number is in another unit
_MAX_EPOCH_DIGITS: Final = 11  # longer integers cannot be seconds; they are not even parsed
_EARLIEST_S: Final = 1_388_534_400
_LATEST_S: Final = 4_102_444_800
"""2014, when gp2 was new, and 2100: what is later are milliseconds."""


class CsvError(SettingsError):
    """A file is not a valid recording; the message has the file, the line, and what is expected there."""


@dataclass(slots=True)
class _ParsedRows:
    """What the rows so far say."""

    starts_s: list[int] = field(default_factory=list)
    values: dict[str, list[tuple[int, float]]] = field(
        default_factory=lambda: {name: [] for name in COLUMNS[1:]}
    )
    size_gib: int | None = None


def read_recordings(paths: Sequence[Path], size_gib: int | None) -> list[Recording]:
    """The recording in each file; ``size_gib`` is for files without that column.

    Raises:
        CsvError: a file cannot be read, or is not as it should be.
    """
    ids = _volume_ids(paths)
    return [_read_recording(path, ids[path], size_gib) for path in paths]


def _read_recording(path: Path, volume_id: str, size_gib: int | None) -> Recording:
    parsed = _parse_file(path)
    size = parsed.size_gib or size_gib
    if size is None:
        raise CsvError(
            f"{path} does not say how large the volume is", fix=f"add a column {SIZE_COLUMN}, or --size GIB"
        )
    if baseline_iops(size) >= BURST_IOPS:
        raise CsvError(
            f"{path}: a gp2 of {size:,} GiB cannot run out of credits, so there is nothing to replay",
            fix="leave it out; only a gp2 of less than 1,000 GiB can run out",
        )
    period_s = _detect_period_s(path, parsed.starts_s)
    first_s, end_s = parsed.starts_s[0] // period_s * period_s, parsed.starts_s[-1] + period_s
    series = {name: Series.from_pairs(pairs) for name, pairs in parsed.values.items()}
    history = MetricHistory(
        period_s=period_s,
        balance=series["burst_balance_pct"],
        read_ops=series["read_ops"],
        write_ops=series["write_ops"],
    )
    volume = Volume(
        volume_id=volume_id,
        volume_type="gp2",
        size_gib=size,
        created_at=datetime.fromtimestamp(first_s, UTC),
        attached=True,
        instance_id=UNKNOWN_INSTANCE_ID,
    )
    return make_recording(volume, history, first_s, end_s)


def _parse_file(path: Path) -> _ParsedRows:
    parsed = _ParsedRows()
    with _open_lines(path) as lines:
        rows = csv.reader(lines, strict=True)
        try:
            positions = _column_positions(path, next(rows, []))
            for row in rows:
                if row:
                    _add_row(_Row(path, rows.line_num, row, positions), parsed)
        except csv.Error as error:
            raise CsvError(
                f"{path}, line {rows.line_num}: it is not valid CSV ({error})", fix="correct that line"
            ) from error
        except UnicodeDecodeError as error:
            raise CsvError(
                f"{path}, after line {rows.line_num}: it is not UTF-8 text", fix="save it as CSV in UTF-8"
            ) from error
    if not parsed.starts_s:
        raise CsvError(f"{path} has no rows", fix="give one for each minute, or each five")
    if not parsed.values["burst_balance_pct"]:
        raise CsvError(
            f"{path}: every burst_balance_pct is empty, so there is nothing to replay",
            fix="export BurstBalance too",
        )
    return parsed


@contextmanager
def _open_lines(path: Path) -> Iterator[TextIO]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            yield lines
    except OSError as error:
        raise CsvError(
            f"{path} cannot be read: {error.strerror or error}", fix="check the name and the permissions"
        ) from error


def _column_positions(path: Path, titles: Sequence[str]) -> Mapping[str, int]:
    """The position of each column."""
    names = [title.strip().lower() for title in titles]
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        shown_titles = ", ".join(map(_quote, titles[:8])) or "nothing"
        raise CsvError(
            f"{path}, line 1: no column {', '.join(missing)}; found {shown_titles}",
            fix=f"name the columns in the first line, with commas between them: {','.join(COLUMNS)}",
        )
    duplicates = [name for name in (*COLUMNS, SIZE_COLUMN) if names.count(name) > 1]
    if duplicates:
        raise CsvError(f"{path}, line 1: column {duplicates[0]} is there twice", fix="leave one of them out")
    return {name: names.index(name) for name in (*COLUMNS, SIZE_COLUMN) if name in names}


@dataclass(frozen=True, slots=True)
class _Row:
    path: Path
    line: int
    cells: Sequence[str]
    positions: Mapping[str, int]

    def cell(self, name: str) -> str:
        """The cell of a column; a short row has empty ones at its end."""
        position = self.positions.get(name)
        return "" if position is None or position >= len(self.cells) else self.cells[position].strip()

    def number(self, name: str, maximum: float) -> float | None:
        """A number that is not negative; None if the cell is empty."""
        text = self.cell(name)
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            raise self.fault(name, f"a number from 0 to {maximum:g}, or empty if nothing is known") from None
        if not (isfinite(value) and 0 <= value <= maximum):
            raise self.fault(name, f"a number from 0 to {maximum:g}, or empty if nothing is known")
        return value

    def instant(self) -> int:
        text = self.cell("time")
        expected = "an instant such as 2026-11-20T18:00:00Z, or seconds since 1970"
        try:
            if text.isdecimal() and text.isascii():
                at_s = int(text) if len(text) <= _MAX_EPOCH_DIGITS else _LATEST_S
            else:
                at = datetime.fromisoformat(text)
                at_s = int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp())
        except (ValueError, OverflowError):
            raise self.fault("time", expected) from None
        if not _EARLIEST_S <= at_s < _LATEST_S:
            raise self.fault("time", f"{expected}, from 2014 to 2099")
        return at_s // PERIOD_S * PERIOD_S

    def fault(self, name: str, expected: str) -> CsvError:
        return CsvError(
            f"{self.path}, line {self.line}: {name} is {_quote(self.cell(name))}", fix=f"write {expected}"
        )


def _add_row(row: _Row, parsed: _ParsedRows) -> None:
    if len(parsed.starts_s) >= MAX_ROWS:
        raise CsvError(
            f"{row.path}, line {row.line}: more than {MAX_ROWS:,} rows, the minutes of 63 days",
            fix="give the newest of them",
        )
    start_s = row.instant()
    if parsed.starts_s and start_s <= parsed.starts_s[-1]:
        relation = "the same minute as" if start_s == parsed.starts_s[-1] else "earlier than"
        raise CsvError(
            f"{row.path}, line {row.line}: time is {_quote(row.cell('time'))}, {relation} the row before",
            fix="sort the rows by time, one for each period",
        )
    parsed.starts_s.append(start_s)
    for name, values in parsed.values.items():
        is_balance = name == "burst_balance_pct"
        if (value := row.number(name, _MAX_PCT if is_balance else _MAX_OPS)) is not None:
            values.append((start_s, min(100.0, value) if is_balance else value))
    if (size := row.number(SIZE_COLUMN, MAX_GIB)) is not None:
        _add_size(row, size, parsed)


def _add_size(row: _Row, size: float, parsed: _ParsedRows) -> None:
    if size < 1 or size != int(size):
        raise row.fault(SIZE_COLUMN, f"a whole number from 1 to {MAX_GIB}")
    if parsed.size_gib not in (None, int(size)):
        raise CsvError(
            f"{row.path}, line {row.line}: {SIZE_COLUMN} is {size:g} and was {parsed.size_gib}",
            fix="make two files of a volume that was resized, one for each size",
        )
    parsed.size_gib = int(size)


def _detect_period_s(path: Path, starts_s: Sequence[int]) -> int:
    """One minute or five, according to the smallest distance between two rows."""
    min_gap_s = min((later - earlier for earlier, later in pairwise(starts_s)), default=PERIOD_S)
    if min_gap_s == PERIOD_S:
        return PERIOD_S
    if min_gap_s == COARSE_PERIOD_S and not any(start_s % COARSE_PERIOD_S for start_s in starts_s):
        return COARSE_PERIOD_S
    raise CsvError(
        f"{path}: its rows are {min_gap_s // PERIOD_S} minutes apart or more",
        fix="give one for each minute, or for each five minutes of the clock",
    )


def _volume_ids(paths: Sequence[Path]) -> dict[Path, str]:
    """A name for the volume of each file: the file's name, made unique if two are the same."""
    ids: dict[Path, str] = {}
    for path in paths:
        if path in ids:
            raise CsvError(f"{path} is named twice", fix="name it once; each file is one volume")
        name = sanitise(path.stem, _MAX_NAME_LENGTH) or "volume"
        used_names = set(ids.values())
        ids[path] = next(
            candidate
            for number in range(len(paths) + 1)
            if (candidate := f"{name}-{number}" if number else name) not in used_names
        )
    return ids


def _quote(text: str) -> str:
    return repr(sanitise(text, _MAX_SHOWN_LENGTH))
