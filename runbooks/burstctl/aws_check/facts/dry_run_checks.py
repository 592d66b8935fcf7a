"""What a ModifyVolume with DryRun checks besides the permission."""

from typing import Final

from burstctl.aws_check.bench import Bench, Refusal
from burstctl.aws_check.fact import Cost, Fact
from burstctl.aws_check.result import Measured, NotMeasured, Steps

ALLOWED: Final = "DryRunOperation"


def judge(parameters: Refusal, state: Refusal | None) -> Measured:
    """By a dry run that asks for an impossible size, and one while a modification is in progress.

    Raises:
        NotMeasured: no modification was in progress at the second one.
    """
    if state is None:
        raise NotMeasured("the modification was over before the dry run: run it again")
    checks_parameters, checks_state = parameters.code != ALLOWED, state.code != ALLOWED
    answer = {
        (False, False): "permission",
        (True, False): "parameters",
        (False, True): "state",
        (True, True): "request",
    }[checks_parameters, checks_state]
    return Measured(
        answer=answer,
        evidence={"impossible_size": parameters.to_document(), "in_progress": state.to_document()},
    )


def measure(bench: Bench) -> Steps:
    """Ask for a smaller size, and for a change while another one is in progress."""
    volume_id = yield from bench.volume(2)
    parameters = _dry_run(bench, volume_id, Size=1)
    if (refusal := bench.modify(volume_id, VolumeType="gp3", Iops=3000, Throughput=125)) is not None:
        raise NotMeasured(f"ModifyVolume was refused ({refusal.code}): {refusal.message}")
    state = _dry_run(bench, volume_id, VolumeType="gp2")
    record = bench.modification(volume_id)
    in_progress = record is not None and record["ModificationState"] in ("modifying", "optimizing")
    return judge(parameters, state if in_progress else None)


def _dry_run(bench: Bench, volume_id: str, **asked: object) -> Refusal:
    """A dry run is always answered with an error; success would mean that it was carried out."""
    refusal = bench.modify(volume_id, DryRun=True, **asked)
    if refusal is None:
        raise NotMeasured("AWS carried out a dry run")
    return refusal


FACT: Final = Fact(
    name="dry-run-checks",
    question="Does ModifyVolume with DryRun check the parameters, or the state of the volume?",
    why="The documents promise a check of the permission only. burstctl doctor uses it for that.",
    minutes=20,
    actions=(
        "ec2:DescribeAvailabilityZones",
        "ec2:CreateVolume",
        "ec2:CreateTags",
        "ec2:DescribeVolumes",
        "ec2:ModifyVolume",
        "ec2:DescribeVolumesModifications",
        "ec2:DeleteVolume",
    ),
    measure=measure,
    cost=Cost(gp3_gib=2),
)
