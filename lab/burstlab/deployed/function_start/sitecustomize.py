"""Lets a function of the local AWS start with the bytecode of an earlier start.

At each cold start, the local AWS has a function's code and layer in a new folder. Python would compile all
that it imports each time: most of what a start takes. Here bytecode belongs to what a file is called within
its archive and to what it says, in place of where and when it was unpacked.
"""

import importlib
from importlib.machinery import SourceFileLoader
from typing import Any, Final
from zlib import crc32

_UNPACKED: Final = "/ministack-lambda-"
_importlib: Final[Any] = importlib._bootstrap_external  # noqa: SLF001 - it has no public name
_cache_from_source: Final = _importlib.cache_from_source
_path_stats: Final = SourceFileLoader.path_stats


def _lasting_cache(path: str, *arguments: Any, **options: Any) -> str:
    """Where the bytecode of a file is, the same for each folder that it is unpacked to."""
    _, is_unpacked, rest = path.partition(_UNPACKED)
    lasting = f"/{rest.partition('/')[2]}" if is_unpacked else path
    return str(_cache_from_source(lasting, *arguments, **options))


def _stats_by_content(loader: SourceFileLoader, path: str) -> dict[str, Any]:
    """What bytecode has to agree with: unpacked files are all of now, so their content distinguishes them."""
    stats = dict(_path_stats(loader, path))
    return stats | {"mtime": crc32(loader.get_data(path))} if _UNPACKED in path else stats


_importlib.cache_from_source = _lasting_cache
SourceFileLoader.path_stats = _stats_by_content  # type: ignore[method-assign,assignment]
