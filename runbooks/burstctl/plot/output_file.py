"""The file that a picture is written to: whole, or not at all."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from burstctl.cli.atomic_file import check_writable, display_path, write_atomically
from burstctl.cli.output import print_info
from burstctl.cli.pictures_extra import install_pictures
from burstctl.plot.load import VolumePlot
from burstwatch.wiring.settings import SettingsError

KINDS: Final = ("png", "svg")


class PictureFile:
    """A file whose name determines the format; a wrong name is reported before any call to AWS."""

    def __init__(self, path: Path) -> None:
        kind = path.suffix.lower().removeprefix(".")
        if kind not in KINDS:
            raise click.UsageError(
                f"--to {display_path(path)}: the name must end in .png or .svg, so that it says what to draw."
            )
        check_writable(path, "--to")
        self._path, self._kind = path, kind
        self._draw = _load_draw()

    def write(self, volume_plot: VolumePlot) -> None:
        """Draw the picture, and report where it is.

        Raises:
            WriteError: it cannot be written; what was there before still is.
        """
        content = self._draw(volume_plot, self._kind)
        write_atomically(self._path, content)
        print_info(f"wrote {display_path(self._path)}, {len(content) / 1024:,.0f} KiB")


def _load_draw() -> Callable[[VolumePlot, str], bytes]:
    try:
        from burstctl.plot.matplotlib_plot import draw  # noqa: PLC0415 - matplotlib is for those who want a picture
    except ImportError as error:
        raise SettingsError(
            f"--to needs matplotlib, which is not installed here ({error}); leave --to out to see the picture"
            f" in the terminal, or {install_pictures()}"
        ) from error
    return draw
