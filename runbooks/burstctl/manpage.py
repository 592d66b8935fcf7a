"""Builds the manual page from the help of the commands: ``python -m burstctl.manpage FILE``."""

import re
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Final

import click

from burstctl.cli.exit_codes import EXIT_CODE_MEANINGS
from burstctl.cli.options import Command
from burstctl.cli.output import DEBUG_ENV
from burstctl.context.active_policy import POLICY_ENV
from burstctl.main import COMMANDS, CONTEXT_SETTINGS, EXAMPLES, burstctl
from burstwatch.wiring.settings import CLOCK, LEDGER, SLACK_WEBHOOK, TOPIC_ARN

ENVIRONMENT: Final = {
    LEDGER: "The ledger, instead of --ledger.",
    POLICY_ENV: "The policy, instead of --policy.",
    TOPIC_ARN: "The SNS topic for alerts, instead of --topic-arn.",
    SLACK_WEBHOOK: "The address of the Slack webhook for alerts; a secret.",
    CLOCK: "wall, or endpoint for a lab with its own clock.",
    DEBUG_ENV: "With any value, unexpected errors include a traceback.",
    "NO_COLOR": "With any value, no colours and no progress bar; both need a terminal anyway.",
    "AWS_PROFILE, AWS_REGION, AWS_ENDPOINT_URL, ...": "As for every AWS tool.",
}
FILES: Final = {
    "./policy.yaml": "The policy, if no other is given.",
    "~/.local/state/burstwatch/ledger-REGION.sqlite": (
        "The ledger, if no other is given; with a profile, ledger-PROFILE-REGION.sqlite."
    ),
    "~/.aws/config, ~/.aws/credentials": "Profiles, regions and credentials.",
}


def make_manpage() -> str:
    """The page, in the macros of man(7)."""
    lines = [
        f'.TH BURSTCTL 1 "" "burstwatch {version("burstwatch")}" "User Commands"',
        *(".SH NAME", "burstctl \\- watches gp2 volumes, and moves them before their burst credits run out"),
        *(".SH SYNOPSIS", ".B burstctl", r"[\fIOPTIONS\fR] \fICOMMAND\fR [\fIARGUMENTS\fR]"),
        *(".SH DESCRIPTION", *_paragraphs(burstctl.help or "")),
        *(".SH COMMANDS", *_command_sections()),
        *(
            ".SH COMMON OPTIONS",
            "They may also precede the command.",
            *_definition_list(_options(_root_context())),
        ),
        *(".SH EXIT STATUS", "The first that applies of 2, 1, 4, 3 and 0."),
        *_definition_list((str(int(code)), meaning) for code, meaning in EXIT_CODE_MEANINGS.items()),
        *(".SH ENVIRONMENT", *_definition_list(ENVIRONMENT.items())),
        *(".SH FILES", *_definition_list(FILES.items())),
        *(".SH EXAMPLES", *_examples(EXAMPLES)),
        *(".SH SEE ALSO", "ddprobe, the probe on the host; burstctl runbook, a page for each alert."),
    ]
    return "\n".join(lines) + "\n"


def _root_context() -> click.Context:
    """The root context."""
    return click.Context(
        burstctl, info_name="burstctl", help_option_names=CONTEXT_SETTINGS["help_option_names"]
    )


def _command_sections() -> Iterator[str]:
    context = _root_context()
    for name in COMMANDS:
        command = burstctl.get_command(context, name)
        assert command is not None
        yield from _command_section(command, click.Context(command, info_name=name, parent=context))


def _command_section(command: click.Command, context: click.Context) -> Iterator[str]:
    """A command, and those within it."""
    pieces = command.collect_usage_pieces(context)
    yield f".SS {_escape(context.command_path)} {_escape(' '.join(pieces))}"
    yield from _paragraphs(command.help or "")
    common = set(_options(_root_context()))
    yield from _definition_list(option for option in _options(context) if option not in common)
    if isinstance(command, Command):
        yield from _examples(command.examples)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            subcommand = command.get_command(context, name)
            assert subcommand is not None
            yield from _command_section(subcommand, click.Context(subcommand, info_name=name, parent=context))


def _options(context: click.Context) -> Iterator[tuple[str, str]]:
    """The options of a command, as its help names them, with their texts; ``--help`` of the root only.

    Click caches the help option of a command with the names that its first context had.
    """
    for parameter in context.command.get_params(context):
        if context.parent is not None and parameter is context.command.get_help_option(context):
            continue
        record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
        if record is not None:
            yield record


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        yield from (".PP", _escape(" ".join(paragraph.split())))


def _definition_list(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    for term, meaning in pairs:
        yield from (".TP", rf"\fB{_escape(term)}\fR", _escape(meaning))


def _examples(examples: Iterable[tuple[str, str]]) -> Iterator[str]:
    for line, meaning in examples:
        yield from (".PP", ".RS 4", ".nf", rf"\fB{_escape(line)}\fR", f"    {_escape(meaning)}", ".fi", ".RE")


def _escape(text: str) -> str:
    """The text with nothing in it that troff would act on."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq").replace("`", r"\(ga")
    escaped = escaped.replace("^", r"\(ha").replace("~", r"\(ti")
    return rf"\&{escaped}" if escaped.startswith(".") else escaped


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(make_manpage(), encoding="utf-8")
