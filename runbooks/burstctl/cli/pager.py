"""Shows text on a terminal, in the pager if it is longer than the screen."""

import os
from typing import Final

import click

from burstctl.cli.styled_text import supports_colour

_LESS_OPTIONS: Final = "FRX"
"""Keep colours, leave the text on the screen, and do not stop at a text that fits."""


def show_in_pager(text: str) -> None:
    """Show the text with PAGER, else less; without both, it is printed."""
    os.environ.setdefault("LESS", _LESS_OPTIONS)
    click.echo_via_pager(text, color=supports_colour())
