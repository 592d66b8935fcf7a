"""What a ModifyVolume with DryRun checks in addition to the permission."""

from typing import Final

from burstctl.aws_check.fact import Cost, Fact
from burstctl.aws_check.fact_context import GP3, MODIFICATION_ACTIONS, FactContext, FactRefused
from burstctl.aws_check.result import Measurement, NotMeasuredError, Steps

ALLOWED_CODE: Final = "DryRunOperation"


def judge(parameters: FactRefused, state: FactRefused | None) -> Measurement:
    """Judge by a dry run with an impossible size, and by one while a modification is in progress.

    Raises:
        NotMeasuredError: no modification was in progress at the second one.
    """
    if state is None:
        raise NotMeasuredError("the modification was over before the dry run: run it again")
    checks_parameters, checks_state = parameters.code != ALLOWED_CODE, state.code != ALLOWED_CODE
    answer = {
        (False, False): "permission",
        (True, False): "parameters",
        (False, True): "state",
        (True, True): "request",
    }[checks_parameters, checks_state]
    return Measurement(
        answer=answer,
        evidence={"impossible_size": parameters.to_document(), "in_progress": state.to_document()},
    )


def measure(context: FactContext) -> Steps:
    """Ask for a smaller size, and for a change while another one is in progress."""
    volume_id = yield from context.create_volume(2)
    parameters = _dry_run(context, volume_id, Size=1)
    context.modify_volume_or_fail(volume_id, **GP3)
    state = _dry_run(context, volume_id, VolumeType="gp2")
    record = context.read_modification(volume_id)
    is_in_progress = record is not None and record["ModificationState"] in ("modifying", "optimizing")
    return judge(parameters, state if is_in_progress else None)


def _dry_run(context: FactContext, volume_id: str, **parameters: object) -> FactRefused:
    """A dry run always ends with an error; success would mean that the volume was modified."""
    refusal = context.modify_volume(volume_id, DryRun=True, **parameters)
    if refusal is None:
        raise NotMeasuredError("AWS carried out a dry run")
    return refusal


FACT: Final = Fact(
    name="dry-run-checks",
    question="Does ModifyVolume with DryRun check the parameters, or the state of the volume?",
    why="The documents promise a check of the permission only. burstctl doctor uses it for that.",
    minutes=20,
    actions=MODIFICATION_ACTIONS,
    measure=measure,
    cost=Cost(gp3_gib=2),
)
