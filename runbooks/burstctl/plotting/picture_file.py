"""The file that a picture is written to: whole, or not at all."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from burstctl.output import OutputError, say
from burstctl.plotting.reading import Plotted
from burstwatch.core.words import printable
from burstwatch.settings import SettingsError

KINDS: Final = ("png", "svg")
_LONGEST_NAME: Final = 200


class PictureFile:
    """A file by whose name it is known what to draw; what is wrong with it is said before AWS is asked."""

    def __init__(self, path: Path) -> None:
        shown = printable(str(path), _LONGEST_NAME)
        kind = path.suffix.lower().removeprefix(".")
        if kind not in KINDS:
            raise click.UsageError(
                f"--to {shown}: the name must end in .png or .svg, so that it says what to draw."
            )
        if path.is_dir():
            raise click.UsageError(f"--to {shown} is a directory: name a file in it.")
        if not path.parent.is_dir():
            raise click.UsageError(f"--to {shown}: there is no directory {path.parent}; make it first.")
        if not os.access(path.parent, os.W_OK):
            raise click.UsageError(f"--to {shown}: {path.parent} may not be written to; name another place.")
        self._path, self._shown, self._kind = path, shown, kind
        self._draw = _drawer()

    def write(self, plotted: Plotted) -> None:
        """Draw it, and say where it is.

        Raises:
            OutputError: it cannot be written; what was there before still is.
        """
        drawn = self._draw(plotted, self._kind)
        unfinished = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            unfinished.write_bytes(drawn)
            unfinished.replace(self._path)
        except OSError as error:
            reason = error.strerror or str(error)
            raise OutputError(
                f"{self._shown} could not be written ({reason}); name a place that can be, with --to"
            ) from error
        finally:
            unfinished.unlink(missing_ok=True)
        say(f"wrote {self._shown}, {len(drawn) / 1024:,.0f} KiB")


def _drawer() -> Callable[[Plotted, str], bytes]:
    try:
        from burstctl.plotting.drawing import draw  # noqa: PLC0415 - matplotlib is for those who want a picture
    except ImportError as error:
        raise SettingsError(
            f"--to needs matplotlib, which is not installed here ({error}): pip install 'burstwatch[desk]',"
            " or leave --to out to see the picture in the terminal"
        ) from error
    return draw
