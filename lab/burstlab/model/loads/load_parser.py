"""Parses loads from text: ``steady:3000``, ``docker-loop*2+600``, a recording by name or path."""

import re
from pathlib import Path
from typing import Final

from burstlab.model.loads.load import (
    DAY_S,
    MAX_OPERATION_KIB,
    NAMED_LOADS,
    OPERATION_KIB,
    Load,
    LoadError,
    NamedLoad,
    ScaledLoad,
    SizedLoad,
    parse_integer,
    parse_number,
)
from burstlab.model.loads.load_recording import read_recording

TRACES_DIRECTORY: Final = Path(__file__).parents[2] / "traces"


_MODIFIERS: Final = "".join(
    rf"(?:\{sign}(?P<{name}>[^*+@%]+))?"
    for sign, name in (("*", "scale"), ("+", "offset"), ("@", "kib"), ("%", "read_pct"))
)


_LOAD_PATTERN: Final = re.compile(r"(?P<name>[^:*+@%]+?)(?::(?P<argument>[^*+@%]+))?" + _MODIFIERS)


_FILE_PATTERN: Final = re.compile(r"(?P<name>.+\.csv\.gz)" + _MODIFIERS)


def parse_load(text: str) -> Load:
    """Read a load from its short text form.

    Raises:
        LoadError: with the text and what is accepted there.
    """
    match = _FILE_PATTERN.fullmatch(text) or _LOAD_PATTERN.fullmatch(text)
    if match is None:
        raise LoadError(
            f"load {text!r}: write NAME[:ARGUMENT][*SCALE][+OFFSET_S][@KIB][%READS], such as docker-loop"
            " or steady:900@64"
        )
    parts = match.groupdict()
    load = _find_load(parts["name"], parts.get("argument"), text)
    scale = parse_number(parts["scale"] or "1", f"scale of load {text!r}", maximum=1e6)
    offset_s = parse_integer(
        parts["offset"] or "0", f"offset of load {text!r} in seconds", maximum=366 * DAY_S
    )
    load = load if (scale, offset_s) == (1, 0) else ScaledLoad(load, scale, offset_s)
    return _apply_size(load, parts["kib"], parts["read_pct"], text)


def list_recordings() -> dict[str, Path]:
    """The packaged recordings by name."""
    return {path.name.removesuffix(".csv.gz"): path for path in sorted(TRACES_DIRECTORY.glob("*.csv.gz"))}


def _apply_size(load: Load, kib: str | None, read_pct: str | None, text: str) -> Load:
    if kib is None and read_pct is None:
        return load
    size_kib = (
        OPERATION_KIB
        if kib is None
        else parse_number(kib, f"KiB of load {text!r}", maximum=MAX_OPERATION_KIB)
    )
    if size_kib <= 0:
        raise LoadError(
            f"KiB of load {text!r} is {kib!r}: give a number above 0, at most {MAX_OPERATION_KIB}"
        )
    reads_pct = (
        None
        if read_pct is None
        else parse_number(read_pct, f"reads of load {text!r} in per cent", maximum=100)
    )
    return SizedLoad(load=load, operation_kib=size_kib, read_pct=reads_pct)


def _find_load(name: str, argument: str | None, text: str) -> Load:
    for named_load in NAMED_LOADS:
        if named_load.name == name:
            return named_load.build(_check_argument(named_load, argument, text))

    if argument is not None:
        raise LoadError(
            f"load {text!r}: a recording takes no argument; scale it with *N, shift it with +SECONDS"
        )
    if name.endswith(".csv.gz"):
        return read_recording(Path(name))
    if name in list_recordings():
        return read_recording(list_recordings()[name])
    known = ", ".join([*(named_load.name for named_load in NAMED_LOADS), *list_recordings()])
    raise LoadError(
        f"load {text!r}: {name!r} is not known; there are {known}, and any path that ends in .csv.gz"
    )


def _check_argument(named_load: NamedLoad, argument: str | None, text: str) -> str:
    if argument is not None and named_load.argument is None:
        raise LoadError(f"load {text!r}: {named_load.name} takes no argument")
    if argument is None and named_load.argument is not None and not named_load.default:
        raise LoadError(
            f"load {text!r}: {named_load.name} needs {named_load.argument}, such as {named_load.name}:900"
        )
    return argument if argument is not None else named_load.default
