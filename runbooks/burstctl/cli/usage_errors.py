"""What is wrong with a command line, and what to type instead."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, Final

import click

from burstctl.cli.options import Command
from burstwatch.core.errors import Problem

_KINDS_OF_VALUES: Final = {"integer": "a whole number", "float": "a number"}


def describe_usage_error(error: click.ClickException) -> Problem:
    """The cause, and a fix that is as specific as the error allows; at least the command for help."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    see_help = f"see {context.command_path if context else 'burstctl'} --help"
    cause = error.format_message()
    match error:
        case click.NoSuchCommand(command_name=name):
            assert context is not None
            assert isinstance(context.command, click.Group)
            matches = get_close_matches(name, context.command.list_commands(context))
            return Problem(f"unknown command {name!r}", _suggest(matches, see_help))
        case click.NoSuchOption(option_name=name):
            return Problem(f"unknown option {name!r}", _suggest(error.possibilities or [], see_help))
        case click.MissingParameter(param=param) if param is not None and context is not None:
            return Problem(cause, _add_parameter(param, context))
        case click.BadParameter(message=Problem() as problem):
            outer = click.BadParameter("", context, error.param, error.param_hint).format_message()
            return Problem(f"{outer.rstrip(': ')}: {problem.cause}", problem.fix)
        case click.BadParameter(param=param) if param is not None:
            fix = _describe_values(param.type)
        case click.BadOptionUsage(option_name=name):  # has no context
            fix = f"write a value after {name}"
        case _:
            cause, fix = Problem.of(error.message).cause, Problem.of(error.message).fix
    return Problem(cause, fix or see_help)


def _suggest(matches: Sequence[str], see_help: str) -> str:
    return f"did you mean {' or '.join(matches)}? Else {see_help}" if matches else see_help


def _add_parameter(param: click.Parameter, context: click.Context) -> str:
    """``add --reason TEXT``; for an argument with an example of the command."""
    metavar = param.make_metavar(context).strip("[]{}.")
    if isinstance(param, click.Option):
        return f"add {param.opts[0]} {metavar}"
    command = context.command
    example = f", such as: {command.examples[0][0]}" if isinstance(command, Command) else ""
    return f"add {metavar}{example}"


def _describe_values(kind: click.ParamType[Any]) -> str:
    """What a type of click accepts; empty for one that says it itself."""
    match kind:
        case click.Choice(choices=choices):
            return f"give one of {', '.join(map(str, choices))}"
        case click.IntRange(min=minimum, max=maximum) | click.FloatRange(min=minimum, max=maximum):
            number = "a whole number" if isinstance(kind, click.IntRange) else "a number"
            if None not in (minimum, maximum):
                return f"give {number} from {minimum:,} to {maximum:,}"
            limit = f"of at least {minimum:,}" if minimum is not None else f"of at most {maximum:,}"
            return f"give {number} {limit}"
        case _:
            value = _KINDS_OF_VALUES.get(kind.name)
            return f"give {value}" if value else ""
