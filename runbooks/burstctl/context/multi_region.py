"""Several Regions at once: each has its own context and ledger, and no failure hides another Region."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from burstctl.cli.exit_codes import ExitCode, exit_code_of_error, worst_exit_code
from burstctl.cli.options import ALL_REGIONS, Options
from burstctl.cli.output import (
    OutputError,
    describe_error,
    list_first,
    merge_alike,
    print_error,
    print_info,
    print_internal_error,
    print_output,
    print_warning,
    without_name,
)
from burstctl.cli.progress import ProgressBar
from burstctl.context.context import CommandContext, Notes, open_silently
from burstctl.context.regions import enabled_regions
from burstctl.context.stacks import open_aws_session
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.core.errors import BurstwatchError, Problem
from burstwatch.core.policy.policy import PolicyError
from burstwatch.core.text import format_count
from burstwatch.wiring.bootstrap import WORKERS, AwsSession, build_client
from burstwatch.wiring.settings import SettingsError

if TYPE_CHECKING:
    from documents.report import RegionDocument, ReportsDocument

SCHEMA: Final = "burstwatch.reports/v1"
_FALLBACK_REGION: Final = "us-east-1"
"""Used to list the regions when none is configured, because it is enabled in every account."""

_MAX_NAMED: Final = 3  # keeps a message about several Regions on one line

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionResults:
    """The results of all regions; ``failures`` has the reason for each region without a result."""

    exit_code: ExitCode
    failures: Sequence[str]


@dataclass(slots=True)
class RegionReads(Generic[Result]):
    """What was read in several Regions: ``results`` by their names, and the errors of the others."""

    session: AwsSession
    notes: Mapping[str, Notes]
    results: dict[str, Result] = field(default_factory=dict)
    errors: dict[str, Exception] = field(default_factory=dict)

    @property
    def failures(self) -> list[str]:
        """Why there is no result, by Region."""
        return [f"{region}: {_on_one_line(error)}" for region, error in self.errors.items()]

    def exit_code(self, of_result: Callable[[Result], ExitCode]) -> ExitCode:
        """The worst exit code of any Region."""
        return _combine(map(_exit_code_of, self.errors.values()), map(of_result, self.results.values()))

    def print_beginning(self) -> None:
        """Print what the contexts say of themselves, each line once, with its Regions."""
        for style, lines_of in (("dim", attrgetter("locations")), ("", attrgetter("remarks"))):
            regions_by_line: dict[str, list[str]] = {}
            for region, notes in self.notes.items():
                for line in lines_of(notes):
                    regions_by_line.setdefault(line, []).append(region)
            for line, regions in regions_by_line.items():
                print_info(f"{_describe_regions(regions)}: {line}", style=style)

    def print_problems(self, failures: Mapping[str, Sequence[str]]) -> None:
        """Print each cause once, with the Regions that it affects; ``failures`` are those of the results."""
        warnings = [(region, warning) for region, notes in self.notes.items() for warning in notes.warnings]
        for problem, regions in _by_cause(warnings):
            if not set(regions) <= self.errors.keys():
                print_warning(problem, subject=_describe_regions(regions))
        expected = {
            region: error for region, error in self.errors.items() if isinstance(error, BurstwatchError)
        }
        problems = [(region, describe_error(error)) for region, error in expected.items()]
        problems += [(region, Problem.of(text)) for region, texts in failures.items() for text in texts]
        by_regions: dict[tuple[str, ...], list[Problem]] = {}
        for problem, regions in _by_cause(problems):
            by_regions.setdefault(tuple(regions), []).append(problem)
        for affected, same_regions in by_regions.items():
            for problem in merge_alike(same_regions):
                print_error(problem, subject=_describe_regions(affected))
        for region in self.errors.keys() - expected.keys():
            print_internal_error(self.errors[region])


def read_in_regions(options: Options, read: Callable[[CommandContext], Result]) -> RegionReads[Result]:
    """Read in all Regions in parallel; a failure in one does not affect the others.

    Raises:
        AwsError: the credentials cannot be used, or all Regions were requested and AWS does not list them.
    """
    session = _open_session(options)
    session.require_credentials()
    progress = ProgressBar("Regions")
    progress.begin("connecting to AWS")
    try:
        regions = _region_names(options, session)
        reads: RegionReads[Result] = RegionReads(session, {region: Notes() for region in regions})
        with ThreadPoolExecutor(WORKERS, thread_name_prefix="region") as pool:
            work = partial(_read_region, options, session, read, reads.notes)
            for done, (region, result) in enumerate(pool.map(work, regions), start=1):
                progress.report(done, len(regions))
                if isinstance(result, Exception):
                    reads.errors[region] = result
                else:
                    reads.results[region] = result
    finally:
        progress.end()
    return reads


def run_in_regions(options: Options, run: Callable[[Options], ExitCode]) -> RegionResults:
    """Run a command in each region in turn; a failure in one is reported and does not affect the others.

    Raises:
    AwsError: all regions were requested, and AWS does not list them.
    OutputError: stdout is closed.
    """
    codes_of_errors: list[ExitCode] = []
    codes_of_results: list[ExitCode] = []
    failures: list[str] = []
    for region in _region_names(options, _open_session(options)):
        try:
            codes_of_results.append(run(replace(options, regions=(region,), region=region)))
        except OutputError:
            raise
        except BurstwatchError as error:
            failures.append(f"{region}: {_on_one_line(error)}")
            print_error(describe_error(error), subject=region)
            codes_of_errors.append(exit_code_of_error(error))
        except Exception as error:  # noqa: BLE001 - a mistake of ours in one region hides no other
            failures.append(f"{region}: {_on_one_line(error)}")
            print_internal_error(error)
            codes_of_errors.append(ExitCode.FAILED)
    return RegionResults(exit_code=_combine(codes_of_errors, codes_of_results), failures=failures)


def print_heading(region: str, *, is_first: bool) -> None:
    """The name of the region above what is shown of it."""
    print_output(f"{'' if is_first else chr(10)}{region}")


def to_document(reports: "Sequence[RegionDocument]", failures: Sequence[str]) -> "ReportsDocument":
    """The reports of several regions as one object."""
    return {"schema": SCHEMA, "reports": list(reports), "failures": list(failures)}


def describe_empty_regions(options: Options, empty: Sequence[str], description: str) -> str:
    """Which Regions have no volume, or nothing else, to show, beside others that have some, in one line."""
    if ALL_REGIONS in options.regions:
        count = format_count(len(empty), "other Region")
        return f"{count} {'has' if len(empty) == 1 else 'have'} {description}"
    return f"{description} in {list_first(empty)}"


def _read_region(
    options: Options,
    session: AwsSession,
    read: Callable[[CommandContext], Result],
    notes: Mapping[str, Notes],
    region: str,
) -> tuple[str, Result | Exception]:
    region_options = replace(options, regions=(region,), region=region)
    try:
        with open_silently(region_options, notes[region], session=session.in_region(region)) as context:
            return region, read(context)
    except Exception as error:  # noqa: BLE001 - it is reported with its Region, and hides no other
        return region, error


def _by_cause(problems: Sequence[tuple[str, Problem]]) -> list[tuple[Problem, list[str]]]:
    groups: dict[str, tuple[Problem, list[str]]] = {}
    for region, problem in problems:
        is_about_name = repr(region) in problem.cause  # a wrong name, which no other Region has
        cause = problem.cause if is_about_name else without_name(problem, region).cause
        groups.setdefault(cause, (problem, []))[1].append(region)
    return [(problem, list(dict.fromkeys(regions))) for problem, regions in groups.values()]


def _describe_regions(regions: Sequence[str]) -> str:
    return list_first(regions, _MAX_NAMED)


def _open_session(options: Options) -> AwsSession:
    """A session in any Region, for what is the same in all."""
    try:
        return open_aws_session(options)
    except SettingsError:
        return open_aws_session(replace(options, region=_FALLBACK_REGION))


def _region_names(options: Options, session: AwsSession) -> Sequence[str]:
    if ALL_REGIONS not in options.regions:
        return options.regions
    return enabled_regions(build_client(session, "ec2", CallCounter()))


def _combine(codes_of_errors: Iterable[ExitCode], codes_of_results: Iterable[ExitCode]) -> ExitCode:
    """The worst exit code; what is wrong in some Regions only is not a usage error but a partial failure."""
    by_results = list(codes_of_results)
    worst = worst_exit_code([*codes_of_errors, *by_results])
    return ExitCode.FAILED if worst is ExitCode.USAGE and by_results else worst


def _exit_code_of(error: Exception) -> ExitCode:
    return exit_code_of_error(error) if isinstance(error, BurstwatchError) else ExitCode.FAILED


def _on_one_line(error: Exception) -> str:
    if isinstance(error, PolicyError):
        return "; ".join(["the policy is rejected", *map(str, error.faults)])
    return " ".join(str(error).split()) if isinstance(error, BurstwatchError) else _describe_unexpected(error)


def _describe_unexpected(error: Exception) -> str:
    return f"unexpected {type(error).__name__}"
