"""Several regions at once: each has its own context and ledger, and no failure hides another region."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from burstctl.cli.exit_codes import ExitCode, worst_exit_code
from burstctl.cli.options import ALL_REGIONS, Options
from burstctl.cli.output import OutputError, print_error, print_info, print_internal_error, print_output
from burstctl.context.regions import enabled_regions
from burstctl.context.stacks import open_aws_session
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.policy.policy import PolicyError
from burstwatch.wiring.bootstrap import build_client
from burstwatch.wiring.settings import SettingsError

if TYPE_CHECKING:
    from documents.report import RegionDocument, ReportsDocument

SCHEMA: Final = "burstwatch.reports/v1"
_FALLBACK_REGION: Final = "us-east-1"
"""Used to list the regions when none is configured, because it is enabled in every account."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionResults:
    """The results of all regions; ``failures`` has the reason for each region without a result."""

    exit_code: ExitCode
    failures: Sequence[str]


def run_in_regions(options: Options, run: Callable[[Options], ExitCode]) -> RegionResults:
    """Run a command in each region in turn; a failure in one is reported and does not affect the others.

    Raises:
    AwsError: all regions were requested, and AWS does not list them.
    OutputError: stdout is closed.
    """
    exit_codes: list[ExitCode] = []
    failures: list[str] = []
    for region in _region_names(options):
        print_info(f"region: {region}")
        try:
            exit_codes.append(run(replace(options, regions=(region,), region=region)))
        except OutputError:
            raise
        except BurstwatchError as error:
            failures.append(f"{region}: {_on_one_line(error)}")
            print_error(failures[-1] if isinstance(error, PolicyError) else f"{region}: {error}")
            exit_codes.append(
                ExitCode.USAGE if isinstance(error, SettingsError | PolicyError) else ExitCode.FAILED
            )
        except Exception as error:  # noqa: BLE001 - a mistake of ours in one region hides no other
            failures.append(f"{region}: unexpected {type(error).__name__}")
            print_internal_error(error)
            exit_codes.append(ExitCode.FAILED)
    return RegionResults(exit_code=worst_exit_code(exit_codes), failures=failures)


def print_heading(region: str, *, is_first: bool) -> None:
    """The name of the region above what is shown of it."""
    print_output(f"{'' if is_first else chr(10)}{region}")


def to_document(reports: "Sequence[RegionDocument]", results: RegionResults) -> "ReportsDocument":
    """The reports of several regions as one object."""
    return {"schema": SCHEMA, "reports": list(reports), "failures": list(results.failures)}


def _region_names(options: Options) -> Sequence[str]:
    if ALL_REGIONS not in options.regions:
        return options.regions
    try:
        session = open_aws_session(options)
    except SettingsError:
        session = open_aws_session(replace(options, region=_FALLBACK_REGION))
    return enabled_regions(build_client(session, "ec2", CallCounter()))


def _on_one_line(error: BurstwatchError) -> str:
    if isinstance(error, PolicyError):
        return "; ".join(["the policy is rejected", *map(str, error.faults)])
    return " ".join(str(error).split())
