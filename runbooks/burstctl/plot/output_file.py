"""The file that a picture is written to: whole, or not at all."""

from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

import click

from burstctl.cli.atomic_file import check_writable, display_path, write_atomically
from burstctl.cli.output import print_info
from burstctl.cli.pictures_extra import install_pictures
from burstwatch.wiring.settings import SettingsError

KINDS: Final = ("png", "svg")
_Picture = TypeVar("_Picture")


class PictureFile(Generic[_Picture]):
    """A file whose name determines the format; a wrong name is reported before any call to AWS.

    ``option`` is what it was named with. ``load_draw`` imports the function that draws, and matplotlib.
    """

    def __init__(
        self, path: Path, option: str, load_draw: Callable[[], Callable[[_Picture, str], bytes]]
    ) -> None:
        kind = path.suffix.lower().removeprefix(".")
        if kind not in KINDS:
            raise click.UsageError(
                f"{option} {display_path(path)}: the name must end in .png or .svg, so that it says what to"
                " draw."
            )
        check_writable(path, option)
        self._path, self._kind = path, kind
        try:
            self._draw = load_draw()
        except ImportError as error:
            raise SettingsError(
                f"{option} needs matplotlib, which is not installed here ({error}); leave {option} out to see"
                f" the picture in the terminal, or {install_pictures()}"
            ) from error

    def write(self, picture: _Picture) -> None:
        """Draw the picture, and report where it is.

        Raises:
            WriteError: it cannot be written; what was there before still is.
        """
        content = self._draw(picture, self._kind)
        write_atomically(self._path, content)
        print_info(f"wrote {display_path(self._path)}, {len(content) / 1024:,.0f} KiB")
