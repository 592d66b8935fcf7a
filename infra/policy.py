"""The policy as the stack needs it: parsed at synth, so that a bad one is never deployed.

This is the only module of ``infra`` that imports our own code. The opt-in tag of the policy *is* the IAM
condition, and a second parser could read it differently one day.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from burstwatch.adapters.policy.yaml_file import read_policy
from burstwatch.core.policy.policy import PolicyError, page_template
from infra.config import StageConfig, StageError, StageFault, read_stage


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedPolicy:
    """The policy document as it is deployed, and the values that the stack uses."""

    document: str
    opt_in_tag: tuple[str, str]
    runbook_template: str
    """The address of a runbook page, with ``{page}`` for its name."""
    sweep_minutes: int
    watched: tuple[str, ...]
    """The kinds of resources that it watches."""
    metric_lag_s: int
    gap_after_s: int


def read_configuration(stage_file: Path | None) -> tuple[StageConfig, DeployedPolicy]:
    """The stage, and the policy to which it refers.

    Raises:
        StageError: with every fault of both, each with its line.
    """
    stage, faults = read_stage(stage_file)
    try:
        policy = read_deployed_policy(Path(os.path.relpath(stage.policy)))
    except StageError as error:
        raise StageError((*faults, *error.faults)) from error
    faults += [
        StageFault(
            location=str(stage_file or stage.policy),
            path="resources",
            message=(
                f"the policy watches {kind}, for which the stack would have no permission; write resources:"
                f" [{', '.join((*stage.resources, kind))}] into the stage file"
            ),
        )
        for kind in policy.watched
        if kind not in stage.resources
    ]
    if faults:
        raise StageError(tuple(faults))
    return stage, policy


def read_deployed_policy(path: Path) -> DeployedPolicy:
    """Read the policy to which a stage refers.

    Raises:
        StageError: with every fault of the policy, each with its line.
    """
    try:
        policy = read_policy(path)
        document = path.read_text(encoding="utf-8")
    except PolicyError as error:
        faults = [StageFault(location="", path="", message=str(fault)) for fault in error.faults]
        raise StageError(tuple(faults)) from error
    if "{{" in document:
        line = document[: document.index("{{")].count("\n") + 1
        message = "'{{' means a reference to Parameter Store and CloudFormation; write it without"
        raise StageError((StageFault(location=f"{path}:{line}", path="", message=message),))
    return DeployedPolicy(
        document=document,
        opt_in_tag=policy.mode.opt_in_tag,
        runbook_template=page_template(policy.alerts.runbooks_url),
        sweep_minutes=round(policy.cadence.sweep_tick.total_seconds() / 60),
        watched=tuple(map(str, policy.resources.watched)),
        metric_lag_s=round(policy.cadence.metric_lag.total_seconds()),
        gap_after_s=round(policy.telemetry.gap_after.total_seconds()),
    )
