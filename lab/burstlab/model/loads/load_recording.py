"""Reading a recorded disk: gzipped CSV on a regular grid, one row per step.

Columns ``seconds_since_start``, ``read_ops_per_s``, ``write_ops_per_s`` (means over the step); others are
ignored. A missing row, or one with empty numbers, is a gap and read as no operations.
"""

import csv
import gzip
import math
import zlib
from array import array
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import mode
from typing import Final, NamedTuple

from burstlab.model.loads.load import LoadError, Recording

COLUMNS: Final = ("seconds_since_start", "read_ops_per_s", "write_ops_per_s")
_MAX_STEPS: Final = 10_000_000  # 80 MB of floats for each column; a longer gap is a wrong time


class _Row(NamedTuple):
    line: int
    at_s: int
    read_iops: float
    write_iops: float


def read_recording(path: Path) -> Recording:
    """Read a recording; a file read before and not changed since is not read again.

    Raises:
        LoadError: naming the file, the line and the value that is wrong.
    """
    try:
        return _read_cached(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise LoadError(f"{path}: cannot be read: {error.strerror}") from error


@cache
def _read_cached(path: Path, _changed_ns: int) -> Recording:
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
            rows = list(_parse_rows(path, lines))
    except (gzip.BadGzipFile, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise LoadError(f"{path}: cannot be read as gzipped CSV: {error}") from error
    return _to_recording(path, rows)


def _parse_rows(path: Path, lines: Iterable[str]) -> Iterator[_Row]:
    reader = csv.DictReader(lines)
    missing = [column for column in COLUMNS if column not in (reader.fieldnames or ())]
    if missing:
        raise LoadError(
            f"{path}: no column {', '.join(missing)}; the first line must name {', '.join(COLUMNS)}"
        )
    for row in reader:
        at_s, reads, writes = (
            _parse_number(path, reader.line_num, column, row[column]) for column in COLUMNS
        )
        if at_s != int(at_s):
            raise LoadError(
                f"{path}, line {reader.line_num}: seconds_since_start is {at_s:g}; whole seconds only"
            )
        yield _Row(reader.line_num, int(at_s), reads, writes)


def _parse_number(path: Path, line: int, column: str, text: str | None) -> float:
    if text == "" and column != COLUMNS[0]:
        return 0.0
    try:
        number = float(text or "nothing")
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise LoadError(f"{path}, line {line}: {column} is {text!r}; it must be a number, 0 or more")
    return number


def _to_recording(path: Path, rows: list[_Row]) -> Recording:
    if len(rows) < 2:  # noqa: PLR2004 - two rows make a step
        raise LoadError(f"{path}: {len(rows)} rows; a recording needs at least two to have a step")
    step_s = mode(after.at_s - before.at_s for before, after in pairwise(rows))
    origin_s, expected_s = rows[0].at_s, rows[0].at_s
    reads, writes = array("d"), array("d")
    for row in rows:
        if step_s <= 0 or row.at_s < expected_s or (row.at_s - origin_s) % step_s:
            raise LoadError(
                f"{path}, line {row.line}: seconds_since_start is {row.at_s}; on a grid of {step_s} s it "
                f"must be {expected_s} or, after a gap, a later step"
            )
        gap = (row.at_s - expected_s) // step_s
        if len(reads) + gap > _MAX_STEPS:
            raise LoadError(
                f"{path}, line {row.line}: a gap of {gap} steps; at most {_MAX_STEPS} can be held"
            )
        reads.extend([0.0] * gap + [row.read_iops])
        writes.extend([0.0] * gap + [row.write_iops])
        expected_s = row.at_s + step_s
    return Recording(step_s, reads, writes)
