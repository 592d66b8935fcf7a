"""What all commands have in common: their options, their help, and resources as arguments."""

import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from functools import update_wrapper
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from burstctl.cli.text_layout import wrap_command
from burstwatch.core.durations import format_duration_literal, parse_duration
from burstwatch.core.errors import Problem
from burstwatch.core.resource_type import DATABASE_ID, FILE_SYSTEM_ID, INSTANCE_ID, VOLUME_ID
from burstwatch.core.text import sanitise, wrap

ALL_REGIONS: Final = "all"
"""In place of a region: every one that is enabled for the account."""

MAX_ORDER_DURATION: Final = timedelta(days=30)
"""A hold, or a flip with a return, that is longer than this is probably meant to be permanent."""

VOLUME_NAMES: Final = (
    "VOLUME is the ID or the unique Name tag of a volume, or of an instance, which means all its volumes."
)
RESOURCE_NAMES: Final = (
    "RESOURCE is the ID of a volume, an instance or a file system, db: and the name of a database, or a Name"
    " tag that is unique among all."
)
INSTANCE_NAMES: Final = "INSTANCE is the ID or the unique Name tag of an instance."
_DAY: Final = timedelta(days=1)
_MAX_REASON_LENGTH: Final = 200  # it is quoted in alerts, tables and the history, beside other text
_ALMOST_FILE_SYSTEM_ID: Final = re.compile(r"fs-[0-9a-f]*")
_ALMOST_INSTANCE_ID: Final = re.compile(r"i-[0-9a-f]*")
_MAX_TAG_LENGTH: Final = 256  # of the value of a tag. Source: EC2 user guide, "Tag restrictions"
_MIN_HELP_COLUMNS: Final = 40  # a narrower terminal breaks the lines itself
_CommandFunction = TypeVar("_CommandFunction", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of every command, given before or after its name.

    ``regions`` are the given regions; ``region`` is the single one to work in, None without
    a region or with several.
    """

    policy: Path | None = None
    ledger: str | None = None
    profile: str | None = None
    regions: tuple[str, ...] = ()
    region: str | None = None
    json: bool = False
    exit_zero: bool = False
    verbose: bool = False

    @property
    def repeated(self) -> list[str]:
        """The options that were given and matter to a command that is run next."""
        values = {
            "--region": self.region,
            "--profile": self.profile,
            "--policy": None if self.policy is None else str(self.policy),
            "--ledger": self.ledger,
        }
        return [part for name, value in values.items() if value for part in (name, value)]

    def command(self, *arguments: str) -> str:
        """The line that runs burstctl with these arguments and the options that were given, for a shell."""
        return shlex.join(["burstctl", *arguments, *self.repeated])

    def arguments_in(self, region: str) -> list[str]:
        """The options with which another command uses the same account and ledger, in this region."""
        values = {"--region": region, "--profile": self.profile, "--ledger": self.ledger}
        return [part for name, value in values.items() if value for part in (name, value)]

    def complete(self, command: str) -> str:
        """A command of burstctl that names its Region, with the other given options; any other text as is."""
        if not command.startswith("burstctl "):
            return command
        return " ".join([command, *map(shlex.quote, replace(self, region=None).repeated)])

    @property
    def has_several_regions(self) -> bool:
        """Whether it is about more than one region, or may be."""
        return len(self.regions) > 1 or ALL_REGIONS in self.regions


def _complete_region(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """The regions that botocore lists, and ``all`` if several are allowed; this makes no call to AWS."""
    from botocore.session import Session  # noqa: PLC0415 - only while somebody types a region

    takes_all = not isinstance(context.command, Command) or context.command.takes_regions
    names = [*([ALL_REGIONS] if takes_all else []), *Session().get_available_regions("ec2")]
    return [name for name in names if name.startswith(incomplete)]


def _complete_profile(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    from botocore.session import Session  # noqa: PLC0415 - only while somebody types a profile

    return [name for name in Session().available_profiles if name.startswith(incomplete)]


class RegionName(click.ParamType[str]):
    """The name of a Region, or several with commas between them, in lower case as AWS writes it."""

    name = "region"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not str(value).strip(" ,"):
            self.fail(_empty_problem(param, ctx), param, ctx)
        return str(value).strip().lower()


def reject_empty_values(command: click.Command, ctx: click.Context, arguments: Sequence[str]) -> None:
    """Refuse an empty name or path: otherwise it means none, or the present folder.

    Raises:
        click.BadParameter: with the option or argument.
    """
    if ctx.resilient_parsing:
        return
    values, _, _ = command.make_parser(ctx).parse_args(list(arguments))
    for param in command.params:
        value = values.get(param.name or "")
        is_free_text = isinstance(param.type, click.Path) or param.type is click.STRING
        if is_free_text and any(not text.strip() for text in _texts_of(value)):
            raise click.BadParameter(_empty_problem(param, ctx), ctx, param)


def _texts_of(value: Any) -> list[str]:
    """The texts given for a parameter that is repeatable or not."""
    values = value if isinstance(value, list | tuple) else [value]
    return [text for text in values if isinstance(text, str)]


def _empty_problem(param: click.Parameter | None, ctx: click.Context | None) -> Problem:
    if param is None or ctx is None:
        return Problem("it is empty")
    metavar = param.make_metavar(ctx).strip("[]{}.")
    suffix = f" after {param.opts[0]}" if isinstance(param, click.Option) else ""
    leave_out = "" if param.required else ", or leave it out"
    return Problem("it is empty", f"write {metavar}{suffix}{leave_out}")


_COMMON_OPTIONS: Final = (
    click.option(
        "--policy",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="The policy. Default: BURSTWATCH_POLICY, else the deployed stack's, else ./policy.yaml,"
        " else the built-in default.",
    ),
    click.option(
        "--ledger",
        metavar="KIND:NAME",
        help="The ledger, sqlite:PATH or dynamodb:TABLE. Default: BURSTWATCH_LEDGER, else the deployed"
        " stack's, else a file in the user's state directory.",
    ),
    click.option(
        "--profile",
        metavar="NAME",
        help="A profile from the AWS configuration.",
        shell_complete=_complete_profile,
    ),
    click.option(
        "--region",
        "regions",
        multiple=True,
        type=RegionName(),
        metavar="NAME",
        help="The AWS Region.",
        shell_complete=_complete_region,
    ),
    click.option("--json", is_flag=True, help="Print JSON, for programs."),
    click.option("--exit-zero", is_flag=True, help="Exit 0 instead of 3 (attention) and 4 (refused)."),
    click.option("--verbose", "-v", is_flag=True, help="Also show which policy and which ledger are used."),
)
_SEVERAL_REGIONS: Final = (
    "An AWS Region, several with commas between them, or all: every one that is enabled."
)
_OPTION_NAMES: Final = tuple(field.name for field in fields(Options) if field.name != "region")


def common_options(function: _CommandFunction) -> _CommandFunction:
    """Give a command, or the group of all, the common options; it gets them as ``options``."""

    def with_options(*args: Any, **values: Any) -> Any:
        context = click.get_current_context()
        own_values = {name: values.pop(name) for name in _OPTION_NAMES}
        outer_options = context.find_object(Options) or Options()
        options = _make_options(
            **{name: value or getattr(outer_options, name) for name, value in own_values.items()}
        )
        if options.has_several_regions and isinstance(context.command, Command):
            context.command.require_multi_region_support()
        context.obj = options
        return function(*args, options=options, **values)

    update_wrapper(with_options, function)
    for option in reversed(_COMMON_OPTIONS):
        with_options = option(with_options)
    return with_options  # type: ignore[return-value]


def _make_options(*, regions: Sequence[str], **other_options: Any) -> Options:
    names = (name.strip() for value in regions for name in value.split(","))
    unique_regions = tuple(dict.fromkeys(filter(None, names)))
    combined = Options(regions=unique_regions, **other_options)
    return (
        combined
        if combined.has_several_regions or not unique_regions
        else replace(combined, region=unique_regions[0])
    )


class Command(click.Command):
    """A command whose help ends with examples and the page that explains when to use it.

    A command for whole regions that accepts several at once ``takes_regions``. Every command takes every
    common option. Its help leaves out those ``without`` effect on it, and ``option_help`` replaces texts.
    """

    def __init__(
        self,
        *args: Any,
        examples: Sequence[tuple[str, str]],
        page: str,
        takes_regions: bool = False,
        without: Collection[str] = ("exit_zero",),
        option_help: Mapping[str, str] | None = None,
        **rest: Any,
    ) -> None:
        super().__init__(*args, **rest)
        self.examples = examples
        self.page = page
        self.takes_regions = takes_regions
        texts = {**({"regions": _SEVERAL_REGIONS} if takes_regions else {}), **(option_help or {})}
        for option in self.params:
            if isinstance(option, click.Option):
                option.hidden = option.hidden or option.name in without
                option.help = texts.get(option.name or "", option.help)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        reject_empty_values(self, ctx, args)
        return super().parse_args(ctx, args)

    def require_multi_region_support(self) -> None:
        """Refuse several regions where only one makes sense.

        Raises:
            click.UsageError: this command works in one.
        """
        if not self.takes_regions:
            raise click.UsageError(
                Problem(
                    f"{self.name} works in one region",
                    "give --region once, with its name. assess, advise, hold, release and init take several",
                )
            )

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        types = [parameter.type for parameter in self.params]
        for name_type in (name_type for name_type in types if isinstance(name_type, ResourceName)):
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(name_type.accepts)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        write_examples(formatter, self.examples, self.page)


class CommandGroup(click.Group):
    """A group of commands with the same end of its help."""

    def __init__(self, *args: Any, examples: Sequence[tuple[str, str]], page: str, **rest: Any) -> None:
        super().__init__(*args, **{**rest, "invoke_without_command": True})
        self.examples = examples
        self.page = page

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        write_examples(formatter, self.examples, self.page)


def write_examples(formatter: click.HelpFormatter, examples: Sequence[tuple[str, str]], page: str) -> None:
    """The end of a help text."""
    indent = "  "
    columns = max(_MIN_HELP_COLUMNS, formatter.width) - len(indent)
    with formatter.section("Examples"):
        for line, meaning in examples:
            for part in wrap_command(line, columns):
                formatter.write(f"{indent}{part}\n")
            for part in wrap(meaning.split(), columns - 4):
                formatter.write(f"{indent}    {part}\n")
    formatter.write(f"\nRunbook: {describe_page(page)}\n")


def describe_page(page: str) -> str:
    """How to read a page: ``burstctl runbook FlipStuck`` for ``runbooks/FlipStuck.md``, else its path."""
    name = page.removeprefix("runbooks/").removesuffix(".md")
    if name == page.removesuffix(".md"):
        return page
    return "burstctl runbook" if name == "README" else f"burstctl runbook {name}"


class ResourceName(click.ParamType[str]):
    """What an operator calls a resource: an ID, a Name tag, or the instance that volumes are attached to.

    ``accepts`` says which of these, as the help text does. An ID of AWS has eight hexadecimal digits on old
    resources, and seventeen since 2016.
    """

    name = "resource"

    def __init__(self, accepts: str = VOLUME_NAMES) -> None:
        self.accepts = accepts

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value).strip()
        if text.startswith("vol-") and not VOLUME_ID.fullmatch(text):
            fix = "write vol- and 17 (or 8) digits from 0-9a-f, such as vol-0123456789abcdef0"
            self.fail(Problem(f"{text!r} is not a valid volume ID", fix), param, ctx)
        if _ALMOST_INSTANCE_ID.fullmatch(text) and not INSTANCE_ID.fullmatch(text):
            fix = "write i- and 17 (or 8) digits from 0-9a-f, such as i-0123456789abcdef0"
            self.fail(Problem(f"{text!r} is not a valid instance ID", fix), param, ctx)
        if _ALMOST_FILE_SYSTEM_ID.fullmatch(text) and not FILE_SYSTEM_ID.fullmatch(text):
            fix = "write fs- and 17 (or 8) digits from 0-9a-f, such as fs-0123456789abcdef0"
            self.fail(Problem(f"{sanitise(text, 40)!r} is not a valid file system ID", fix), param, ctx)
        if text.startswith("db:") and not DATABASE_ID.fullmatch(text):
            fix = "write db: and letters, digits and hyphens, such as db:orders"
            self.fail(Problem(f"{sanitise(text, 80)!r} is not the name of a database", fix), param, ctx)
        if not text or len(text) > _MAX_TAG_LENGTH:
            self.fail(Problem(f"{sanitise(text, 40)!r} is not a name", self.accepts), param, ctx)
        return text


class Duration(click.ParamType[timedelta]):
    """A length of time such as ``6h``, within limits; ``in_days``: whole days only, and ``7`` is ``7d``."""

    name = "span"

    def __init__(self, minimum: timedelta, maximum: timedelta, *, in_days: bool = False) -> None:
        self._minimum = minimum
        self._maximum = maximum
        self._in_days = in_days

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        text = f"{value}d" if self._in_days and str(value).isdecimal() else str(value)
        try:
            duration = parse_duration(text)
        except ValueError as error:
            self.fail(Problem.parse(str(error)), param, ctx)
        is_broken_day = self._in_days and duration % _DAY
        if is_broken_day or not self._minimum <= duration <= self._maximum:
            limits = f"{format_duration_literal(self._minimum)} to {format_duration_literal(self._maximum)}"
            unit = "whole days " if self._in_days else ""
            relation = f"not in {unit.strip()}" if is_broken_day else "out of range"
            self.fail(Problem(f"{value} is {relation}", f"give {unit}from {limits}"), param, ctx)
        return duration


ORDER_DURATION: Final = Duration(timedelta(minutes=1), MAX_ORDER_DURATION)


def last_option(
    duration: Duration, *, older: str, text: str, default: str | None = None
) -> Callable[[_CommandFunction], _CommandFunction]:
    """The option ``--last SPAN``, with the ``older`` name that it had, which the help does not show."""

    def decorate(function: _CommandFunction) -> _CommandFunction:
        def with_last(*args: Any, **values: Any) -> Any:
            older_value = values.pop("older_last")
            return function(*args, **{**values, **({} if older_value is None else {"last": older_value})})

        update_wrapper(with_last, function)
        older_option = click.option(
            older, "older_last", type=duration, hidden=True, help="The older name of --last."
        )
        option = click.option(
            "--last", type=duration, default=default, show_default=True, metavar="SPAN", help=text
        )
        return option(older_option(with_last))  # type: ignore[return-value]

    return decorate


class ReasonText(click.ParamType[str]):
    """The reason of a person, in their own words; it is shown in the ledger and in alerts."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        reason = sanitise(str(value), _MAX_REASON_LENGTH + 1)
        if not reason:
            self.fail(
                Problem("it is empty", "give a reason that others will understand"),
                param,
                ctx,
            )
        if len(reason) > _MAX_REASON_LENGTH:
            cause = f"it is longer than {_MAX_REASON_LENGTH} characters"
            self.fail(Problem(cause, "shorten it; a ticket can have the details"), param, ctx)
        return reason
