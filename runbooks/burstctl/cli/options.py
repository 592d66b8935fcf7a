"""What all commands have in common: their options, their help, and volume ids as arguments."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from functools import update_wrapper
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from burstwatch.core.durations import format_duration_literal, parse_duration
from burstwatch.core.text import sanitise

ALL_REGIONS: Final = "all"
"""In place of a region: every one that is enabled for the account."""

MAX_ORDER_DURATION: Final = timedelta(days=30)
"""A hold, or a flip with a return, that is longer than this is probably meant to be permanent."""

_MAX_REASON_LENGTH: Final = 200  # it is quoted in alerts, tables and the history, beside other text
_VOLUME_ID: Final = re.compile(r"vol-([0-9a-f]{8}|[0-9a-f]{17})")
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

    def arguments_in(self, region: str) -> list[str]:
        """The options with which another command uses the same account and ledger, in this region."""
        values = {"--region": region, "--profile": self.profile, "--ledger": self.ledger}
        return [part for name, value in values.items() if value for part in (name, value)]

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
        metavar="NAME",
        help="The AWS region. assess, advise, hold and release accept several, and all that are enabled:"
        " --region all.",
        shell_complete=_complete_region,
    ),
    click.option("--json", is_flag=True, help="Print JSON instead of a table."),
    click.option("--exit-zero", is_flag=True, help="Exit 0 instead of 3 (attention) and 4 (refused)."),
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
    unique_regions = tuple(dict.fromkeys(regions))
    combined = Options(regions=unique_regions, **other_options)
    return (
        combined
        if combined.has_several_regions or not unique_regions
        else replace(combined, region=unique_regions[0])
    )


class Command(click.Command):
    """A command whose help ends with examples and the page that explains when to use it.

    A command for whole regions that accepts several at once ``takes_regions``.
    """

    def __init__(
        self,
        *args: Any,
        examples: Sequence[tuple[str, str]],
        page: str,
        takes_regions: bool = False,
        **rest: Any,
    ) -> None:
        super().__init__(*args, **rest)
        self.examples = examples
        self.page = page
        self.takes_regions = takes_regions

    def require_multi_region_support(self) -> None:
        """Refuse several regions where only one makes sense.

        Raises:
            click.UsageError: this command works in one.
        """
        if not self.takes_regions:
            raise click.UsageError(
                f"{self.name} works in one region: give --region once, with its name. assess, advise, hold"
                " and release take several."
            )

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
    with formatter.section("Examples"):
        for line, meaning in examples:
            formatter.write(f"{'':{formatter.current_indent}}{line}\n")
            formatter.write(f"{'':{formatter.current_indent}}    {meaning}\n")
    formatter.write(f"\nRunbook: {describe_page(page)}\n")


def describe_page(page: str) -> str:
    """How to read a page: ``burstctl runbook FlipStuck`` for ``runbooks/FlipStuck.md``, else its path."""
    name = page.removeprefix("runbooks/").removesuffix(".md")
    if name == page.removesuffix(".md"):
        return page
    return "burstctl runbook" if name == "README" else f"burstctl runbook {name}"


class VolumeId(click.ParamType[str]):
    """AWS's id of a volume: eight hexadecimal digits on old ones, seventeen since 2016."""

    name = "volume"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        if not _VOLUME_ID.fullmatch(text):
            shape = "vol- and 17 (or 8) digits from 0-9a-f, such as vol-0123456789abcdef0"
            self.fail(f"{text!r} is not a valid volume ID: {shape}.", param, ctx)
        return text


class Duration(click.ParamType[timedelta]):
    """A length of time such as ``6h``, within limits."""

    name = "span"

    def __init__(self, minimum: timedelta, maximum: timedelta) -> None:
        self._minimum = minimum
        self._maximum = maximum

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        try:
            duration = parse_duration(str(value))
        except ValueError as error:
            self.fail(f"{error}.", param, ctx)
        if not self._minimum <= duration <= self._maximum:
            self.fail(
                f"{value} must be from {format_duration_literal(self._minimum)} to"
                f" {format_duration_literal(self._maximum)}.",
                param,
                ctx,
            )
        return duration


ORDER_DURATION: Final = Duration(timedelta(minutes=1), MAX_ORDER_DURATION)


class ReasonText(click.ParamType[str]):
    """The reason of a person, in their own words; it is shown in the ledger and in alerts."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        reason = sanitise(str(value), _MAX_REASON_LENGTH + 1)
        if not reason:
            self.fail("it is empty: give a reason that others will understand.", param, ctx)
        if len(reason) > _MAX_REASON_LENGTH:
            self.fail(f"it is longer than {_MAX_REASON_LENGTH} characters.", param, ctx)
        return reason
