"""``burstctl init``: asks what to deploy, and writes the two files that a deployment needs."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from burstctl.cli.atomic_file import check_writable, display_path, write_atomically
from burstctl.cli.confirm import confirm, is_interactive, request_answer
from burstctl.cli.exit_codes import ExitCode
from burstctl.cli.options import ALL_REGIONS, Command, Options, common_options
from burstctl.cli.output import print_info, print_output, print_warning, to_json
from burstctl.context.regions import known_regions, misspelled_region_problem
from burstctl.context.stacks import open_aws_session
from burstctl.init.answers import (
    Answers,
    check_change_hours,
    check_spend_cap,
    parse_email,
    parse_flips,
    parse_kinds,
    parse_recipients,
    parse_regions,
    parse_secret,
)
from burstctl.init.files import POLICY_FILE, STAGE_FILE, render_policy_file, render_stage_file
from burstctl.init.preview import describe_deployment, init_document, next_commands
from burstctl.init.stack_summary import read_summary
from burstwatch.core.errors import Problem
from burstwatch.core.policy.change_hours import ALWAYS
from burstwatch.core.policy.policy import FlipPolicy
from burstwatch.core.resource_type import ResourceType
from burstwatch.wiring.settings import SettingsError

_DEFAULT_SPEND_CAP: Final = f"{FlipPolicy().spend_cap_usd:g}"
_RECIPIENTS: Final = "1. Who is alerted? E-mail addresses, or slack:SECRET (a name in Secrets Manager)"
_REGIONS: Final = "2. Which Regions? None: where your credentials point"
_KINDS: Final = "3. What is watched? Some of ebs, instance, efs, rds"
_MODE: Final = "4. Only alert, or also flip volumes that opted in by tag? alert or flip"
_SPEND_CAP: Final = "5. At most how many dollars a month may all flips add?"
_CHANGE_HOURS: Final = "6. When may it flip? Such as mon-fri 08:00-18:00 Europe/Berlin"


class _Parsed(click.ParamType[Any]):
    """A value that a function checks; its ValueError is the message."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._parse(str(value))
        except ValueError as error:
            self.fail(Problem.parse(str(error)), param, ctx)


@click.command(
    cls=Command,
    examples=(
        ("burstctl init", "asks six questions, then writes stage.yaml and policy.yaml"),
        (
            "burstctl init --email oncall@example.com --region eu-central-1 --yes",
            "without questions: a stack that only alerts",
        ),
        (
            "burstctl init --email oncall@example.com --watch ebs,instance --yes",
            "one that watches the EBS credits of EC2 instances, too",
        ),
        (
            "burstctl init --slack-secret my/webhook --mode flip --spend-cap 200 --yes",
            "one that flips opted-in volumes, for $200 a month at most",
        ),
    ),
    page="runbooks/README.md",
    takes_regions=True,
    without=("exit_zero", "policy", "ledger", "verbose"),
    option_help={"regions": "An AWS Region to watch; repeat it for several."},
)
@click.option(
    "--email",
    "emails",
    multiple=True,
    type=_Parsed("address", parse_email),
    metavar="ADDRESS",
    help="Send alerts to this address; repeat for several.",
)
@click.option(
    "--slack-secret",
    type=_Parsed("name", parse_secret),
    metavar="NAME",
    help="Send alerts to Slack: the secret in Secrets Manager with a webhook's address.",
)
@click.option(
    "--watch",
    "kinds",
    type=_Parsed("kinds", parse_kinds),
    metavar="KIND[,KIND]",
    help="Watch these kinds: ebs, instance, efs, rds. Default: ebs.",
)
@click.option(
    "--mode",
    "flips",
    type=_Parsed("mode", parse_flips),
    metavar="alert|flip",
    help="Only alert (default), or also flip volumes that opted in by tag.",
)
@click.option(
    "--spend-cap",
    type=_Parsed("dollars", check_spend_cap),
    metavar="USD",
    help=f"The most that all flips may add in a month. Default: {_DEFAULT_SPEND_CAP}.",
)
@click.option(
    "--change-hours",
    type=_Parsed("hours", check_change_hours),
    metavar="HOURS",
    help='When it may flip, such as "mon-fri 08:00-18:00 Europe/Berlin". Default: always.',
)
@click.option(
    "--directory",
    type=click.Path(path_type=Path),
    metavar="DIR",
    default=Path(),
    help="Where to write the files. Default: here.",
)
@click.option("--force", is_flag=True, help="Overwrite files that exist without asking.")
@click.option("--yes", "assumes_yes", is_flag=True, help="Ask nothing; what no option says has its default.")
@common_options
def init(
    options: Options,
    *,
    directory: Path,
    force: bool,
    assumes_yes: bool,
    emails: Sequence[str],
    **other_answers: Any,
) -> ExitCode:
    """Ask what to deploy, and write stage.yaml and policy.yaml with comments.

    Then show what a deployment would create, which permissions it would have, and what it would cost. Nothing
    is deployed. AWS is called only to show a person which kinds of resources there are. A question that an
    option answers is not asked.

    Exits 2 if a file exists and --force is missing, 130 if you decline.
    """
    paths = (directory / POLICY_FILE, directory / STAGE_FILE)
    for path in paths:
        check_writable(path, "--directory")
    existing = [path for path in paths if path.exists()]
    to_confirm = "" if force else " and ".join(map(display_path, existing))
    interactive = is_interactive(assumes_yes=assumes_yes)
    if not interactive:
        has_recipients = bool(emails or other_answers["slack_secret"])
        _check_complete(to_confirm, assumes_yes=assumes_yes, has_recipients=has_recipients)
    answers = _collect_answers(
        options, tuple(dict.fromkeys(emails)), interactive=interactive, **other_answers
    )
    summary = read_summary(flips=answers.flips, kinds=answers.kinds)
    if not options.json:
        print_output(describe_deployment(answers, summary))
    if to_confirm and not confirm(f"Overwrite {to_confirm}?", assumes_yes=False):
        return ExitCode.INTERRUPTED
    for path, text in zip(paths, (render_policy_file(answers), render_stage_file(answers)), strict=True):
        write_atomically(path, text.encode())
    if options.json:
        print_output(to_json(init_document(answers, summary, directory, frozenset(existing))))
    else:
        print_output(_describe_result(answers, directory))
    return ExitCode.OK


def _check_complete(to_confirm: str, *, assumes_yes: bool, has_recipients: bool) -> None:
    """Check that there is nothing left to ask a person.

    Raises:
        SettingsError: there is.
    """
    if to_confirm:
        raise SettingsError(
            f"{to_confirm} would be overwritten", fix="add --force, or name another --directory"
        )
    if has_recipients and assumes_yes:
        return
    reason = "no one would be alerted" if assumes_yes else "there is no terminal to ask"
    parts = [] if has_recipients else ["--email ADDRESS or --slack-secret NAME"]
    parts += [] if assumes_yes else ["--yes"]
    raise SettingsError(reason, fix=f"add {', and '.join(parts)}")


def _collect_answers(
    options: Options,
    emails: tuple[str, ...],
    *,
    interactive: bool,
    slack_secret: str | None,
    kinds: tuple[ResourceType, ...] | None,
    flips: bool | None,
    spend_cap: str | None,
    change_hours: str | None,
) -> Answers:
    """The answers of the options, then those of a person, then the defaults."""
    if not emails and slack_secret is None:
        emails, slack_secret = request_answer(_RECIPIENTS, parse_recipients)
    regions = _find_regions(options)
    if not options.regions and interactive:
        regions = request_answer(_REGIONS, _parse_regions, default=", ".join(regions))
    _warn_of_unknown(regions)
    if kinds is None:
        kinds = _request_kinds(options, regions) if interactive else (ResourceType.EBS,)
    if flips and ResourceType.EBS not in kinds:
        raise click.UsageError(Problem("only volumes are flipped, and --watch lacks ebs", "add ebs to it"))
    if flips is None and ResourceType.EBS not in kinds:
        flips = False
    if flips is None:
        flips = request_answer(_MODE, parse_flips, default="alert") if interactive else False
    if not flips and (spend_cap, change_hours) != (None, None):
        raise click.UsageError(Problem("--spend-cap and --change-hours limit flips", "add --mode flip"))
    if flips and interactive:
        spend_cap = spend_cap or request_answer(_SPEND_CAP, check_spend_cap, default=_DEFAULT_SPEND_CAP)
        change_hours = change_hours or request_answer(_CHANGE_HOURS, check_change_hours, default=ALWAYS)
    return Answers(
        emails=emails,
        slack_secret=slack_secret,
        regions=regions,
        kinds=kinds,
        flips=flips,
        spend_cap=spend_cap or _DEFAULT_SPEND_CAP,
        change_hours=change_hours or ALWAYS,
    )


def _request_kinds(options: Options, regions: Sequence[str]) -> tuple[ResourceType, ...]:
    """The kinds that a person wants, who is shown what there is; what cannot be read stops nothing."""
    if regions:
        from burstctl.init.found_kinds import find_kinds  # noqa: PLC0415 - brings botocore in, and few need it

        account = find_kinds(open_aws_session(replace(options, region=regions[0])), regions)
        if account.problems:
            print_info(f"not all could be looked at: {'; '.join(account.problems)}")
        if described := account.describe():
            print_info(f"to watch in {', '.join(regions)}: {described}")
    return request_answer(_KINDS, parse_kinds, default=str(ResourceType.EBS))


def _find_regions(options: Options) -> tuple[str, ...]:
    """The Regions of the options, else the one that AWS tools use here, if any."""
    if ALL_REGIONS in options.regions:
        raise click.UsageError(
            Problem(
                "a stage file names each Region, so all is not possible", "give --region NAME, and repeat it"
            )
        )
    if options.regions:
        try:
            return _parse_regions(" ".join(options.regions))
        except ValueError as error:
            raise click.UsageError(Problem.parse(str(error))) from error
    try:
        region = open_aws_session(options).region_name
    except SettingsError:
        if options.profile:
            raise
        return ()
    if (problem := misspelled_region_problem(region)) is not None:
        raise SettingsError(problem)
    return (region,)


def _parse_regions(text: str) -> tuple[str, ...]:
    """Names of Regions; none that is misspelled."""
    regions = parse_regions(text)
    for problem in filter(None, map(misspelled_region_problem, regions)):
        raise ValueError(problem)
    return regions


def _warn_of_unknown(regions: Sequence[str]) -> None:
    """Say which Regions may not exist: they may also be newer than botocore."""
    if regions and (unknown := sorted({*regions} - {*known_regions()})):
        cause = f"not known here, so they may not exist: {', '.join(unknown)}"
        print_warning(Problem(cause, "compare them with the list of AWS's Regions"), subject="Regions")


def _describe_result(answers: Answers, directory: Path) -> str:
    files = ", ".join(display_path(directory / name) for name in (STAGE_FILE, POLICY_FILE))
    commands = [f"  {command}" for command in next_commands(answers, directory)]
    return "\n".join([f"wrote {files}", "next, in a checkout that is set up (make setup):", *commands])
