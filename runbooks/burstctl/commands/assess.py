"""``burstctl assess``: which volumes run dry, and when."""

from dataclasses import replace

import click

from burstctl.command import Command, Options, VolumeId, common_options
from burstctl.desk import reading_desk
from burstctl.exits import Exit, exit_of
from burstctl.showing import show_report
from burstctl.telling import tell
from burstwatch.watchdog import assess_volumes


@click.command(
    cls=Command,
    examples=(
        ("burstctl assess", "every gp2 volume of the region, most urgent first"),
        ("burstctl assess vol-0123456789abcdef0 --region eu-west-1", "one volume, elsewhere"),
        ("burstctl assess --json | jq '.volumes[0]'", "the most urgent one, for programs"),
    ),
    page="runbooks/BurstBalanceDraining.md",
)
@click.argument("volumes", metavar="[VOLUME]...", nargs=-1, type=VolumeId())
@click.option("--all", "everything", is_flag=True, help="Show calm volumes too, however many there are.")
@common_options
def assess(volumes: tuple[str, ...], options: Options, *, everything: bool) -> Exit:
    """Show which volumes run dry, and when.

    Looks at the VOLUMEs given, or at every gp2 volume of the region; changes nothing.

    Exits 3 when a volume is at warning or worse, or its data is missing.
    """
    with reading_desk(options) as desk:
        desk.progress.begin()
        try:
            report = assess_volumes(desk.shell, tuple(dict.fromkeys(volumes)), now_s=desk.shell.clock())
        finally:
            desk.progress.end()
        report = replace(report, ledger=desk.ledger)
        show_report(report, as_json=options.json, everything=everything or bool(volumes))
        tell(report)
        return exit_of(report, exit_zero=options.exit_zero)
