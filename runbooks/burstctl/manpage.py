"""The manual page, made of what the commands say of themselves: ``python -m burstctl.manpage FILE``."""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

import click

from burstctl.cli.exit_codes import Exit
from burstctl.cli.options import Command
from burstctl.cli.output import DEBUG
from burstctl.context.active_policy import POLICY
from burstctl.main import COMMANDS, EXAMPLES, HELP, burstctl
from burstwatch.wiring.settings import CLOCK, LEDGER, SLACK_WEBHOOK, TOPIC_ARN

_EXITS: Final = {
    Exit.FINE: "fine, or done",
    Exit.FAILED: "failed, wholly or partly: a call to AWS that failed, a volume unread",
    Exit.MISUSED: "misused: arguments, policy, configuration",
    Exit.ATTENTION: "attention: a volume at warning or worse was not flipped in this run, or lacks its data",
    Exit.REFUSED: "refused: a guard stopped something that was wanted",
    Exit.INTERRUPTED: "interrupted, or answered with no",
}
_ENVIRONMENT: Final = {
    LEDGER: "The ledger, in place of --ledger.",
    POLICY: "The policy, in place of --policy.",
    TOPIC_ARN: "The SNS topic for alerts, in place of --topic-arn.",
    SLACK_WEBHOOK: "The address of the Slack webhook for alerts; a secret.",
    CLOCK: "wall, or endpoint for a lab with a time of its own.",
    DEBUG: "With any value, what nobody foresaw is told with its traceback.",
    "NO_COLOR": "With any value no colours, and no progress bar; without a terminal there are none anyway.",
    "AWS_PROFILE, AWS_REGION, AWS_ENDPOINT_URL, ...": "As every AWS tool takes them.",
}
_FILES: Final = {
    "./policy.yaml": "The policy, where there is no other.",
    "~/.local/state/burstwatch/ledger-REGION.sqlite": "The ledger, where there is no other.",
    "~/.aws/config, ~/.aws/credentials": "Profiles, regions and credentials.",
}


def make_manpage() -> str:
    """The page, in the macros of man(7)."""
    lines = [
        f'.TH BURSTCTL 1 "" "burstwatch {version("burstwatch")}" "User Commands"',
        *(".SH NAME", "burstctl \\- watches gp2 volumes, and moves them before their burst credits run out"),
        *(".SH SYNOPSIS", ".B burstctl", r"[\fIOPTIONS\fR] \fICOMMAND\fR [\fIARGUMENTS\fR]"),
        *(".SH DESCRIPTION", *_paragraphs(burstctl.help or "")),
        *(".SH COMMANDS", *_commands()),
        *(".SH COMMON OPTIONS", "They may stand before the command as well.", *_options(_root(), ())),
        *(".SH EXIT STATUS", "Of 2, 1, 4, 3 and 0 the first that applies."),
        *_terms((str(int(code)), meaning) for code, meaning in _EXITS.items()),
        *(".SH ENVIRONMENT", *_terms(_ENVIRONMENT.items())),
        *(".SH FILES", *_terms(_FILES.items())),
        *(".SH EXAMPLES", *_examples(EXAMPLES)),
        *(".SH SEE ALSO", "ddprobe, the probe on the host; the pages in runbooks/, one for each alert."),
    ]
    return "\n".join(lines) + "\n"


def _root() -> click.Context:
    """The context of the command line: click keeps the help option as the first one to ask wants it."""
    return click.Context(burstctl, info_name="burstctl", help_option_names=HELP["help_option_names"])


def _commands() -> Iterator[str]:
    context = _root()
    for name in COMMANDS:
        command = burstctl.get_command(context, name)
        assert command is not None
        yield from _command(command, click.Context(command, info_name=name, parent=context))


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    """A command, and those within it."""
    pieces = command.collect_usage_pieces(context)
    yield f".SS {_text(context.command_path)} {_text(' '.join(pieces))}"
    yield from _paragraphs(command.help or "")
    yield from _options(context, _shared_names())
    if isinstance(command, Command):
        yield from _examples(command.examples)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _command(inner, click.Context(inner, info_name=name, parent=context))


def _shared_names() -> Sequence[str]:
    """The options that every command has, told once."""
    return ["help", *(parameter.name or "" for parameter in burstctl.params)]


def _options(context: click.Context, told: Sequence[str]) -> Iterator[str]:
    for parameter in context.command.get_params(context):
        if isinstance(parameter, click.Option) and parameter.name not in told:
            record = parameter.get_help_record(context)
            if record is not None:
                yield from (".TP", rf"\fB{_text(record[0])}\fR", _text(record[1]))


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        yield from (".PP", _text(" ".join(paragraph.split())))


def _terms(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    for term, meaning in pairs:
        yield from (".TP", rf"\fB{_text(term)}\fR", _text(meaning))


def _examples(examples: Iterable[tuple[str, str]]) -> Iterator[str]:
    for line, meaning in examples:
        yield from (".PP", ".RS 4", ".nf", rf"\fB{_text(line)}\fR", f"    {_text(meaning)}", ".fi", ".RE")


def _text(text: str) -> str:
    """The text with nothing in it that troff would act on."""
    shown = text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq").replace("`", r"\(ga")
    shown = shown.replace("^", r"\(ha").replace("~", r"\(ti")
    return rf"\&{shown}" if shown.startswith(".") else shown


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(make_manpage(), encoding="utf-8")
