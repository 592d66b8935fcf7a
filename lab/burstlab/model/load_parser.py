"""Loads as people write them: ``steady:3000``, ``docker-loop*2+600``, a recording by name or path."""

import re
from pathlib import Path
from typing import Final

from burstlab.model.load import (
    DAY_S,
    LARGEST_KIB,
    NAMED,
    OPERATION_KIB,
    Changed,
    Load,
    LoadError,
    NamedLoad,
    Shaped,
    number_in,
    whole_number_in,
)
from burstlab.model.load_recording import read_recording

TRACES: Final = Path(__file__).parents[1] / "traces"


_CHANGES: Final = "".join(
    rf"(?:\{sign}(?P<{name}>[^*+@%]+))?"
    for sign, name in (("*", "scale"), ("+", "offset"), ("@", "kib"), ("%", "read_pct"))
)


_TEXT: Final = re.compile(r"(?P<name>[^:*+@%]+?)(?::(?P<argument>[^*+@%]+))?" + _CHANGES)


_FILE: Final = re.compile(r"(?P<name>.+\.csv\.gz)" + _CHANGES)


def parse_load(text: str) -> Load:
    """Read a load from its short text form.

    Raises:
        LoadError: naming the text and what may stand there.
    """
    found = _FILE.fullmatch(text) or _TEXT.fullmatch(text)
    if found is None:
        raise LoadError(
            f"load {text!r}: write NAME[:ARGUMENT][*SCALE][+OFFSET_S][@KIB][%READS], such as docker-loop"
            " or steady:900@64"
        )
    parts = found.groupdict()
    load = _named(parts["name"], parts.get("argument"), text)
    scale = number_in(parts["scale"] or "1", f"scale of load {text!r}", most=1e6)
    offset_s = whole_number_in(
        parts["offset"] or "0", f"offset of load {text!r} in seconds", most=366 * DAY_S
    )
    load = load if (scale, offset_s) == (1, 0) else Changed(load, scale, offset_s)
    return _shaped(load, parts["kib"], parts["read_pct"], text)


def recordings() -> dict[str, Path]:
    """The packaged recordings by name."""
    return {path.name.removesuffix(".csv.gz"): path for path in sorted(TRACES.glob("*.csv.gz"))}


def _shaped(load: Load, kib: str | None, read_pct: str | None, text: str) -> Load:
    if kib is None and read_pct is None:
        return load
    size = OPERATION_KIB if kib is None else number_in(kib, f"KiB of load {text!r}", most=LARGEST_KIB)
    if size <= 0:
        raise LoadError(f"KiB of load {text!r} is {kib!r}: give a number above 0, at most {LARGEST_KIB}")
    share = None if read_pct is None else number_in(read_pct, f"reads of load {text!r} in per cent", most=100)
    return Shaped(load=load, operation_kib=size, read_pct=share)


def _named(name: str, argument: str | None, text: str) -> Load:
    for named in NAMED:
        if named.name == name:
            return named.build(_checked_argument(named, argument, text))

    if argument is not None:
        raise LoadError(
            f"load {text!r}: a recording takes no argument; scale it with *N, shift it with +SECONDS"
        )
    if name.endswith(".csv.gz"):
        return read_recording(Path(name))
    if name in recordings():
        return read_recording(recordings()[name])
    known = ", ".join([*(named.name for named in NAMED), *recordings()])
    raise LoadError(
        f"load {text!r}: {name!r} is not known; there are {known}, and any path that ends in .csv.gz"
    )


def _checked_argument(named: NamedLoad, argument: str | None, text: str) -> str:
    if argument is not None and named.argument is None:
        raise LoadError(f"load {text!r}: {named.name} takes no argument")
    if argument is None and named.argument is not None and not named.default:
        raise LoadError(f"load {text!r}: {named.name} needs {named.argument}, such as {named.name}:900")
    return argument if argument is not None else named.default
