"""Zip archives that depend only on what is in them."""

import os
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_MODIFIED: Final = (2026, 1, 1, 0, 0, 0)
"""The modification time of every file, which would otherwise make each archive another one."""


def write_zip(path: Path, files: Mapping[str, Path]) -> None:
    """Write the files, by their paths in the archive; of a mode, only the right to execute is kept."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _MODIFIED)
            mode = 0o755 if os.access(files[name], os.X_OK) else 0o644
            entry.external_attr = (stat.S_IFREG | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, files[name].read_bytes())
