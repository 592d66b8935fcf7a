"""Amounts and rates in the unit of a bucket, as people read them: bytes become MiB/s, GiB and TiB."""

from typing import Final

BYTES: Final = "bytes"
BYTES_PER_S: Final = "bytes/s"

MIB: Final = 2**20
GIB: Final = 2**30
TIB: Final = 2**40


def format_number(rate: float) -> str:
    """A rate without its unit, with the digits that matter: ``3,000``, ``81.2``, ``4.9``, ``0.05``."""
    digits = 0 if rate >= 100 else 1 if rate >= 1 else 2  # noqa: PLR2004 - digits that matter
    return f"{round(rate, digits):,.10g}"


def format_rate(bytes_per_s: float) -> str:
    """``2.8 MiB/s``, ``37 MiB/s``, ``0.05 MiB/s``."""
    return f"{format_number(bytes_per_s / MIB)} MiB/s"


def format_size(size_bytes: float) -> str:
    """``1.05 TiB``, ``310 GiB``, ``0.5 GiB``."""
    if size_bytes >= TIB:
        return f"{size_bytes / TIB:,.2f} TiB"
    gib = size_bytes / GIB
    return f"{gib:,.{0 if gib >= 10 or gib == round(gib) else 1}f} GiB"  # noqa: PLR2004 - digits that matter


def format_drain(per_s: float, unit: str) -> str:
    """The rate at which credits leave or enter a bucket: ``2,100 credits/s``, ``57 MiB/s``."""
    if unit == BYTES:
        return format_rate(per_s)
    return f"{per_s:,.0f} {unit}/s" if per_s >= 10 else f"{per_s:.1f} {unit}/s"  # noqa: PLR2004 - one digit says too little


def format_limit(per_s: float, rate_unit: str) -> str:
    """A limit in its unit: ``300 IOPS``, ``77.5 MiB/s``; bytes per second as MiB/s."""
    return format_rate(per_s) if rate_unit == BYTES_PER_S else f"{format_number(per_s)} {rate_unit}"
