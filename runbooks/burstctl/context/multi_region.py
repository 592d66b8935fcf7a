"""Several regions at once: a desk and a ledger for each, and none of them hides another."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from burstctl.cli.exit_codes import Exit, exit_of_all
from burstctl.cli.options import ALL_REGIONS, Options
from burstctl.cli.output import OutputError, complain, complain_of_bug, say, show
from burstctl.context.stacks import session_of
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.aws.regions import enabled_regions
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.policy.policy import PolicyError
from burstwatch.wiring.bootstrap import build_client
from burstwatch.wiring.settings import SettingsError

SCHEMA: Final = "burstwatch.reports/v1"
_ANYWHERE: Final = "us-east-1"
"""Where the regions are asked for when no region is configured; every account has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visited:
    """What became of all regions; ``failures`` says of each that nothing is known of, why."""

    exit: Exit
    failures: Sequence[str]


def visit(options: Options, look: Callable[[Options], Exit]) -> Visited:
    """Look at each region in turn, or give an order; what goes wrong in one is said and hides no other.

    Raises:
        AwsError: all regions were asked for, and AWS does not say which there are.
        OutputError: nobody takes the output any more.
    """
    exits: list[Exit] = []
    failures: list[str] = []
    for region in _names(options):
        say(f"region: {region}")
        try:
            exits.append(look(replace(options, regions=(region,), region=region)))
        except OutputError:
            raise
        except BurstwatchError as error:
            failures.append(f"{region}: {_in_a_line(error)}")
            complain(failures[-1] if isinstance(error, PolicyError) else f"{region}: {error}")
            exits.append(Exit.MISUSED if isinstance(error, SettingsError | PolicyError) else Exit.FAILED)
        except Exception as error:  # noqa: BLE001 - a mistake of ours in one region hides no other
            failures.append(f"{region}: unexpected {type(error).__name__}")
            complain_of_bug(error)
            exits.append(Exit.FAILED)
    return Visited(exit=exit_of_all(exits), failures=failures)


def show_heading(region: str, *, is_first: bool) -> None:
    """The name of the region above what is shown of it."""
    show(f"{'' if is_first else chr(10)}{region}")


def to_document(reports: Sequence[dict[str, Any]], visited: Visited) -> dict[str, Any]:
    """The reports of several regions as one object."""
    return {"schema": SCHEMA, "reports": list(reports), "failures": list(visited.failures)}


def _names(options: Options) -> Sequence[str]:
    if ALL_REGIONS not in options.regions:
        return options.regions
    try:
        session = session_of(options)
    except SettingsError:
        session = session_of(replace(options, region=_ANYWHERE))
    return enabled_regions(build_client(session, "ec2", CallCounter()))


def _in_a_line(error: BurstwatchError) -> str:
    if isinstance(error, PolicyError):
        return "; ".join(["the policy is rejected", *map(str, error.faults)])
    return " ".join(str(error).split())
