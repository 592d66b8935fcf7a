"""What every command takes that builds disks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def disk_options(
    *, speeds: click.FloatRange, speed: float | None, least_balance_pct: float, folder_help: str
) -> Callable[[Command], Command]:
    """Options of a command about disks; ``folder_help`` says what its folder is for."""
    default_help = "" if speed else "; default: 60, or as --credits requires"
    options = [
        click.option(
            "--balance",
            "balance_pct",
            type=click.FloatRange(least_balance_pct, 100),
            default=100.0,
            show_default=True,
            help="Balance of the bucket at the start, in percent.",
        ),
        click.option(
            "--speed",
            type=speeds,
            default=speed,
            show_default=speed is not None,
            help=f"Seconds of the volume's time per second{default_help}.",
        ),
        click.option(
            "--backend",
            type=click.Choice(["auto", "qsd", "blkio"]),
            default="auto",
            show_default=True,
            help="What throttles: qemu-storage-daemon, or the blkio cgroup.",
        ),
        click.option(
            "--folder",
            type=click.Path(path_type=Path, file_okay=False, exists=True),
            help=f"{folder_help}; default in memory, or the temporary folder.",
        ),
    ]

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add
