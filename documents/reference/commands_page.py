"""commands.md: every command with its options and examples, from click's own objects."""

import re
from collections.abc import Iterable, Iterator

import click

from burstctl.cli.exit_codes import EXIT_CODE_MEANINGS
from burstctl.cli.options import Command, CommandGroup
from burstctl.main import CONTEXT_SETTINGS, burstctl
from burstctl.manpage import ENVIRONMENT, FILES
from documents.reference.markdown import bullet, page, paragraph, table

_INTRODUCTION = (
    "`burstctl COMMAND --help` prints the same. Which command to run when, and what its output looks like,"
    " is in the [runbooks](../../runbooks/README.md#the-operators-command). `burstctl completion` and `make"
    " man` offer it in the shell."
)


def commands_page() -> str:
    """The page."""
    root = click.Context(
        burstctl, info_name="burstctl", help_option_names=CONTEXT_SETTINGS["help_option_names"]
    )
    common = dict(_options(root))
    return page(
        "# Commands",
        paragraph(_INTRODUCTION),
        "## Common options",
        paragraph(
            "They may precede the command or follow it. Each command below lists those that it accepts."
        ),
        _option_list(common.items()),
        "## Exit codes",
        paragraph(
            "The first that applies of 2, 1, 4, 3 and 0. ddprobe has [its own](../../ddprobe/ddprobe.md)."
        ),
        table(("Code", "Meaning"), [(f"`{code:d}`", text) for code, text in EXIT_CODE_MEANINGS.items()]),
        "## Environment variables",
        table(("Variable", "Meaning"), [(f"`{name}`", text) for name, text in ENVIRONMENT.items()]),
        "## Files",
        table(("File", "Contents"), [(f"`{name}`", text) for name, text in FILES.items()]),
        *_command_blocks(root, common),
    )


def _command_blocks(context: click.Context, common: dict[str, str]) -> Iterator[str]:
    """The section of each command below a group, and of those below it."""
    group = context.command
    assert isinstance(group, click.Group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=context)
        level = "##" if context.parent is None else "###"
        yield f"{level} {inner.command_path}"
        yield f"```text\n{inner.command_path} {' '.join(command.collect_usage_pieces(inner))}\n```"
        yield from map(paragraph, re.split(r"\n\s*\n", (command.help or "").strip()))
        options = dict(_options(inner))
        own_options = [(names, text) for names, text in options.items() if common.get(names) != text]
        if own_options:
            yield _option_list(own_options)
        common_options = [names for names, text in options.items() if common.get(names) == text]
        if common_options:
            yield paragraph(f"Common options: {', '.join(map(_first_name, common_options))}.")
        if isinstance(command, Command | CommandGroup):
            yield from _examples(command)
        if isinstance(command, click.Group):
            yield from _command_blocks(inner, common)


def _options(context: click.Context) -> Iterator[tuple[str, str]]:
    """The options of a command, as ``--help`` names them, with their texts."""
    for parameter in context.command.get_params(context):
        record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
        if record is not None:
            yield record


def _first_name(names: str) -> str:
    """``--region`` of ``--region NAME``; of ``-h, --help`` the long name."""
    return next(f"`{part}`" for part in names.replace(",", "").split() if part.startswith("--"))


def _option_list(options: Iterable[tuple[str, str]]) -> str:
    return "\n".join(bullet(f"`{names}`: {text}") for names, text in options)


def _examples(command: Command | CommandGroup) -> Iterator[str]:
    lines = [line for example, meaning in command.examples for line in (f"# {meaning}", example)]
    yield "\n".join(["```sh", *lines, "```"])
    name = command.page.rpartition("/")[2].removesuffix(".md")
    yield f"Page: [{name}](../../{command.page})"
