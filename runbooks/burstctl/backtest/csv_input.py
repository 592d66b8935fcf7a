"""Recordings from CSV, for those who keep their history elsewhere: one volume a file.

Columns, in any order, others are left out of account: ``time`` (when the period began: ISO 8601, UTC where no
zone is given, or seconds since 1970), ``burst_balance_pct`` (the least of the period), ``read_ops`` and
``write_ops`` (how many in the period); ``size_gib``, where no option says it. A period is one minute or five.
An empty cell, or a row left out, is a gap.
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

from burstctl.backtest.recorded_aws import NO_INSTANCE
from burstctl.backtest.recording import Recording, record
from burstctl.context.metric_resolution import COARSE_S
from burstwatch.core.buckets.series import PERIOD_S, Series
from burstwatch.core.ebs.usage import History
from burstwatch.core.ebs.volume import BURST_IOPS, Volume, baseline_iops
from burstwatch.core.text import printable
from burstwatch.wiring.settings import SettingsError

COLUMNS: Final = ("time", "burst_balance_pct", "read_ops", "write_ops")
SIZE: Final = "size_gib"
MOST_ROWS: Final = 63 * 24 * 60
"""The minutes of 63 days, as long as CloudWatch keeps means of five."""

MOST_GIB: Final = 16_384
_LONGEST_SHOWN: Final = 40
_LONGEST_NAME: Final = 60
_MOST_PCT: Final = 100.5
"""What is so little above 100 is rounding."""

_MOST_OPS: Final = 1e9
_EPOCH_DIGITS: Final = 11
_FIRST_S: Final = 1_388_534_400
_FARTHEST_S: Final = 4_102_444_800
"""2014, when gp2 was new, and 2100: what is later are milliseconds."""


class CsvError(SettingsError):
    """A file that is no recording; the message names it, the line, and what should be there."""


@dataclass(slots=True)
class _Read:
    """What the rows so far say."""

    starts_s: list[int] = field(default_factory=list)
    values: dict[str, list[tuple[int, float]]] = field(
        default_factory=lambda: {name: [] for name in COLUMNS[1:]}
    )
    size_gib: int | None = None


def read_recordings(paths: Sequence[Path], size_gib: int | None) -> list[Recording]:
    """The recording in each file; ``size_gib`` is for those that do not say it.

    Raises:
        CsvError: a file cannot be read, or is not as it should be.
    """
    ids = _ids(paths)
    return [_recording(path, ids[path], size_gib) for path in paths]


def _recording(path: Path, volume_id: str, size_gib: int | None) -> Recording:
    read = _read(path)
    size = read.size_gib or size_gib
    if size is None:
        raise CsvError(f"{path} does not say how large the volume is: add a column {SIZE}, or --size GIB")
    if baseline_iops(size) >= BURST_IOPS:
        raise CsvError(f"{path}: a gp2 of {size:,} GiB cannot run dry, so there is nothing to replay")
    period_s = _period_s(path, read.starts_s)
    first_s, end_s = read.starts_s[0] // period_s * period_s, read.starts_s[-1] + period_s
    series = {name: Series.of(pairs) for name, pairs in read.values.items()}
    history = History(
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
        instance_id=NO_INSTANCE,
    )
    return record(volume, history, first_s, end_s)


def _read(path: Path) -> _Read:
    read = _Read()
    with _opened(path) as lines:
        rows = csv.reader(lines, strict=True)
        try:
            places = _places(path, next(rows, []))
            for row in rows:
                if row:
                    _take(_Row(path, rows.line_num, row, places), read)
        except csv.Error as error:
            raise CsvError(f"{path}, line {rows.line_num}: it is no CSV ({error})") from error
        except UnicodeDecodeError as error:
            raise CsvError(
                f"{path}, after line {rows.line_num}: it is no text in UTF-8; save it as CSV in UTF-8"
            ) from error
    if not read.starts_s:
        raise CsvError(f"{path} has no rows: there must be one for each minute, or each five")
    if not read.values["burst_balance_pct"]:
        raise CsvError(f"{path}: every burst_balance_pct is empty, so there is nothing to replay")
    return read


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            yield lines
    except OSError as error:
        raise CsvError(f"{path} cannot be read: {error.strerror or error}") from error


def _places(path: Path, titles: Sequence[str]) -> Mapping[str, int]:
    """Where each column stands."""
    names = [title.strip().lower() for title in titles]
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        found = ", ".join(map(_shown, titles[:8])) or "nothing"
        raise CsvError(
            f"{path}, line 1: no column {', '.join(missing)}; the first line names the columns,"
            f" {','.join(COLUMNS)}, with commas between them; found {found}"
        )
    twice = [name for name in (*COLUMNS, SIZE) if names.count(name) > 1]
    if twice:
        raise CsvError(f"{path}, line 1: column {twice[0]} is there twice; leave one of them out")
    return {name: names.index(name) for name in (*COLUMNS, SIZE) if name in names}


@dataclass(frozen=True, slots=True)
class _Row:
    path: Path
    line: int
    cells: Sequence[str]
    places: Mapping[str, int]

    def cell(self, name: str) -> str:
        """The cell of a column; a short row has empty ones at its end."""
        place = self.places.get(name)
        return "" if place is None or place >= len(self.cells) else self.cells[place].strip()

    def number(self, name: str, most: float) -> float | None:
        """A number from 0 on; None where the cell is empty."""
        text = self.cell(name)
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            raise self.fault(name, f"a number from 0 to {most:g}, or empty where nothing is known") from None
        if not (isfinite(value) and 0 <= value <= most):
            raise self.fault(name, f"a number from 0 to {most:g}, or empty where nothing is known")
        return value

    def instant(self) -> int:
        text = self.cell("time")
        what = "an instant such as 2026-11-20T18:00:00Z, or seconds since 1970"
        try:
            if text.isdecimal() and text.isascii():
                at_s = int(text) if len(text) <= _EPOCH_DIGITS else _FARTHEST_S
            else:
                at = datetime.fromisoformat(text)
                at_s = int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp())
        except (ValueError, OverflowError):
            raise self.fault("time", what) from None
        if not _FIRST_S <= at_s < _FARTHEST_S:
            raise self.fault("time", f"{what}, from 2014 to 2099")
        return at_s // PERIOD_S * PERIOD_S

    def fault(self, name: str, expected: str) -> CsvError:
        return CsvError(f"{self.path}, line {self.line}: {name} is {_shown(self.cell(name))}, not {expected}")


def _take(row: _Row, read: _Read) -> None:
    if len(read.starts_s) >= MOST_ROWS:
        raise CsvError(
            f"{row.path}, line {row.line}: more than {MOST_ROWS:,} rows, the minutes of 63 days; give the"
            " newest of them"
        )
    start_s = row.instant()
    if read.starts_s and start_s <= read.starts_s[-1]:
        how = "the same minute as" if start_s == read.starts_s[-1] else "earlier than"
        raise CsvError(
            f"{row.path}, line {row.line}: time is {_shown(row.cell('time'))}, {how} the row before; sort the"
            " rows by time, one for each period"
        )
    read.starts_s.append(start_s)
    for name, values in read.values.items():
        is_balance = name == "burst_balance_pct"
        if (value := row.number(name, _MOST_PCT if is_balance else _MOST_OPS)) is not None:
            values.append((start_s, min(100.0, value) if is_balance else value))
    if (size := row.number(SIZE, MOST_GIB)) is not None:
        _take_size(row, size, read)


def _take_size(row: _Row, size: float, read: _Read) -> None:
    if size < 1 or size != int(size):
        raise row.fault(SIZE, f"a whole number from 1 to {MOST_GIB}")
    if read.size_gib not in (None, int(size)):
        raise CsvError(
            f"{row.path}, line {row.line}: {SIZE} is {size:g} and was {read.size_gib}: one that was"
            " resized is two recordings, one file for each size"
        )
    read.size_gib = int(size)


def _period_s(path: Path, starts_s: Sequence[int]) -> int:
    """One minute, or five; the least distance between two rows tells."""
    least_s = min((later - earlier for earlier, later in pairwise(starts_s)), default=PERIOD_S)
    if least_s == PERIOD_S:
        return PERIOD_S
    if least_s == COARSE_S and not any(start_s % COARSE_S for start_s in starts_s):
        return COARSE_S
    raise CsvError(
        f"{path}: its rows are {least_s // PERIOD_S} minutes apart or more; there must be one for each"
        " minute, or for each five minutes of the clock"
    )


def _ids(paths: Sequence[Path]) -> dict[Path, str]:
    """A name for the volume of each file: the file's own, told apart where two have the same."""
    found: dict[Path, str] = {}
    for path in paths:
        if path in found:
            raise CsvError(f"{path} is named twice: each file is one volume")
        name = printable(path.stem, _LONGEST_NAME) or "volume"
        taken = set(found.values())
        found[path] = next(
            each for nth in range(len(paths) + 1) if (each := f"{name}-{nth}" if nth else name) not in taken
        )
    return found


def _shown(text: str) -> str:
    return repr(printable(text, _LONGEST_SHOWN))
