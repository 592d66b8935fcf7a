"""Starts ministack, the local AWS; a separate script, because ministack has an environment of its own.

It starts with the names of the services that it lacks and doctor asks for. To find out whether there is a
service of that name, ministack would read the models of all services of AWS. That takes three seconds of
processor time, in which it answers nothing else.

ministack also unpacks a function's code and layer again for each cold start, which takes half of its
processor time. Here each archive is unpacked once, and every start gets links to what is in it.
"""

import threading
from pathlib import Path
from tempfile import mkdtemp
from typing import Final
from zipfile import ZipFile

from ministack.core import router  # type: ignore[import-not-found]

_unpack: Final = ZipFile.extractall
_lock: Final = threading.Lock()
_folders: Final = dict[tuple[tuple[str, int], ...], Path]()


def _link_unpacked(archive: ZipFile, folder: str) -> None:
    """Link to what is in an archive, which is unpacked if none with the same content was."""
    content = tuple((item.filename, item.CRC) for item in archive.infolist())
    with _lock:
        if content not in _folders:
            unpacked = Path(mkdtemp(prefix="unpacked-"))
            _unpack(archive, unpacked)
            _folders[content] = unpacked
    for path in _folders[content].iterdir():
        (Path(folder) / path.name).symlink_to(path)


def main() -> None:
    """Serve until this process is terminated."""
    assert hasattr(router, "_KNOWN_AWS_SERVICE_NAMES")
    router._KNOWN_AWS_SERVICE_NAMES = frozenset({"pricing", "servicequotas"})  # noqa: SLF001 - no public name
    ZipFile.extractall = _link_unpacked  # type: ignore[method-assign,assignment]
    from ministack.app import main as serve  # type: ignore[import-not-found]  # noqa: PLC0415 - it uses what is replaced above

    serve()


if __name__ == "__main__":
    main()
