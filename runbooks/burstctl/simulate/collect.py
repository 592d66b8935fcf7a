"""Collects what a study needs: the instance, its volumes, its load, and the types to play it on."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any, Final, TypeVar

from burstctl.context.context import CommandContext
from burstctl.simulate.ceilings import NO_CEILING, PlannedVolume, attached_ceiling, planned_ceiling
from burstctl.simulate.instance_reads import (
    METRIC_LAG_S,
    PERIOD_S,
    InstanceType,
    MeasuredIo,
    SimulatedInstance,
    read_instance,
    read_instance_types,
    read_metrics,
)
from burstctl.simulate.simulation import InstanceBucket
from burstctl.simulate.study import Study, StudyInput, make_study
from burstwatch.adapters.aws.errors import AwsError, AwsFailure
from burstwatch.core.durations import format_duration_literal
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.errors import BurstwatchError, Problem
from burstwatch.wiring.bootstrap import build_client
from burstwatch.wiring.settings import SettingsError

_Value = TypeVar("_Value")
_LIST_TYPES: Final = "aws ec2 describe-instance-types --query 'InstanceTypes[].InstanceType'"


class NothingToSimulateError(BurstwatchError):
    """There is no load to simulate; the message says why, and what to do instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationRequest:
    """What an operator wants to know; ``target`` is None for the type that the instance has."""

    instance_id: str
    target: str | None
    planned: Sequence[PlannedVolume]
    patterns: Sequence[str]
    lookback: timedelta
    daily_reset_s: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationReport:
    """A study, with what was read for it and what could not be read."""

    request: SimulationRequest
    study: Study
    region: str
    now_s: float
    volumes: Sequence[Volume] | None
    left_out: Sequence[str]
    failures: Sequence[str]
    metrics_requested: int
    api_calls: Mapping[str, int]


def collect(context: CommandContext, request: SimulationRequest) -> SimulationReport:
    """Read and simulate.

    Raises:
        SettingsError: a type or a planned volume cannot be.
        NothingToSimulateError: the instance does not exist, or has no metrics.
        AwsError: its metrics or the types could not be read.
    """
    context.progress.begin(f"reading {format_duration_literal(request.lookback)} and simulating")
    try:
        return _collect(context, request)
    finally:
        context.progress.end()


def _collect(context: CommandContext, request: SimulationRequest) -> SimulationReport:
    services, failures = context.services, _Failures()
    ec2 = build_client(context.session, "ec2", services.calls)
    instance = failures.catch(lambda: read_instance(ec2, request.instance_id))
    region = services.location.region
    if instance is None and not failures.texts:
        raise NothingToSimulateError(
            f"no instance {request.instance_id} in {region}",
            fix="check the ID, the Region and the account",
        )
    now_s = services.clock()
    volumes = failures.catch(lambda: _read_volumes(context, request.instance_id, failures))
    metrics = _read_metrics(context, request, instance, volumes or (), now_s)
    failures.texts += metrics.messages
    types = _read_types(ec2, request, instance, region)
    try:
        after_plan = NO_CEILING if volumes is None else planned_ceiling(volumes, request.planned)
    except ValueError as error:
        problem = Problem.parse(str(error))
        raise SettingsError(f"--with-volume {problem.cause}", fix=problem.fix) from error
    study = make_study(
        StudyInput(
            load=metrics.load,
            instance=instance,
            measured_on=types.present,
            target=types.target,
            candidates=types.candidates,
            balances={kind: metrics.balance(kind) for kind in InstanceBucket},
            ceiling=attached_ceiling(volumes) if volumes else NO_CEILING,
            planned=request.planned,
            planned_ceiling=after_plan,
            daily_reset_s=request.daily_reset_s,
            wanted_s=request.lookback.total_seconds(),
            volume_balances=metrics.volume_balances,
        )
    )
    return SimulationReport(
        request=request,
        study=study,
        region=region,
        now_s=now_s,
        volumes=volumes,
        left_out=types.left_out,
        failures=failures.texts,
        metrics_requested=services.calls.metrics_requested,
        api_calls=dict(services.calls.calls),
    )


class _Failures:
    """What could not be read, and does not stop the simulation."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def catch(self, read: Callable[[], _Value]) -> _Value | None:
        try:
            return read()
        except AwsError as error:
            self.texts.append(str(error))
            return None

    def report(self, _volume_id: str, failure: AwsFailure) -> None:
        self.texts.append(str(failure))


def _read_volumes(context: CommandContext, instance_id: str, failures: _Failures) -> list[Volume]:
    filters = {"attachment.instance-id": [instance_id]}
    return list(context.services.ec2.volumes(filters, report_failure=failures.report))


def _read_metrics(
    context: CommandContext,
    request: SimulationRequest,
    instance: SimulatedInstance | None,
    volumes: Iterable[Volume],
    now_s: float,
) -> MeasuredIo:
    end_s = int(now_s - METRIC_LAG_S) // PERIOD_S * PERIOD_S
    start_s = end_s - int(request.lookback.total_seconds()) // PERIOD_S * PERIOD_S
    client = build_client(context.session, "cloudwatch", context.services.calls)
    metrics = read_metrics(client, request.instance_id, volumes, start_s, end_s)
    if metrics.load:
        return metrics
    lookback_text = format_duration_literal(request.lookback)
    text = f"CloudWatch has no EBSReadOps of {request.instance_id} in the last {lookback_text}"
    if instance is not None and instance.state != "running":
        raise NothingToSimulateError(
            f"{text}: it is {instance.state}",
            fix="give a longer --last, up to 62d, to see when it was in use",
        )
    raise NothingToSimulateError(
        f"{text}: EC2 publishes it for instances on Nitro only", fix="check the type, or give a longer --last"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Types:
    """The types of a study, and what is left out of the candidates."""

    target: InstanceType
    present: InstanceType | None
    candidates: Sequence[InstanceType]
    left_out: Sequence[str]


def _read_types(
    client: Any, request: SimulationRequest, instance: SimulatedInstance | None, region: str
) -> _Types:
    target_name = request.target or (instance.instance_type if instance else None)
    if target_name is None:
        raise SettingsError(f"the type of {request.instance_id} could not be read", fix="give --to TYPE")
    present_name = instance.instance_type if instance else target_name
    family_pattern = f"{target_name.partition('.')[0]}.*"
    patterns = [target_name, present_name, family_pattern, *request.patterns]
    by_name = {entry.name: entry for entry in read_instance_types(client, patterns)}
    if target_name not in by_name:
        raise SettingsError(
            f"no instance type {target_name} in {region}",
            fix=f"check the spelling, or list them with `{_LIST_TYPES}`",
        )
    target = by_name[target_name]
    if target.limits is None:
        raise SettingsError(
            f"EC2 shows no EBS limits of {target_name}, so its buckets cannot be simulated",
            fix="give --to with another type",
        )
    matching = [entry for entry in by_name.values() if entry == target or _matches(entry.name, patterns[2:])]
    candidates, left_out = _choose_candidates(matching, target)
    return _Types(
        target=target,
        present=by_name.get(present_name) if instance else None,
        candidates=candidates,
        left_out=left_out,
    )


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _choose_candidates(
    types: Sequence[InstanceType], target: InstanceType
) -> tuple[list[InstanceType], list[str]]:
    """The types that could replace the target, its own family first, and the names of the others."""
    fitting = [
        candidate
        for candidate in types
        if candidate.limits is not None
        and (candidate.architectures & target.architectures or candidate == target)
    ]
    left_out = [candidate.name for candidate in types if candidate not in fitting]
    return sorted(fitting, key=lambda candidate: candidate.family != target.family), left_out
