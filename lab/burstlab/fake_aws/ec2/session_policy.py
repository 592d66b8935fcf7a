"""IAM policies of assumed roles, as far as they are about ModifyVolume: Allow, Resource and StringEquals."""

from collections.abc import Mapping, Sequence
from typing import Any

from burstlab.fake_aws.ec2.query import find_volumes
from burstlab.model.aws_error import AwsError
from burstlab.model.fleet import LabFleet
from burstlab.model.settings import LabSettings
from burstlab.model.simulated_volume import SimulatedVolume

Policy = Mapping[str, Any]
_TAG_CONDITION_PREFIX = "ec2:ResourceTag/"
_TYPE_CONDITION = "ec2:VolumeType"


def check_modify_allowed(fleet: LabFleet, policies: Sequence[Policy], parameters: Mapping[str, str]) -> None:
    """Refuse ModifyVolume unless each of the policies allows it.

    Raises:
    AwsError: one does not allow it, or has a condition that the lab does not support.
    """
    (volume,) = find_volumes(fleet, [parameters.get("VolumeId", "")])
    requested_type = parameters.get("VolumeType", volume.volume_type)
    for policy in policies:
        if not any(
            _allows(statement, volume, requested_type, fleet.settings) for statement in policy["Statement"]
        ):
            raise AwsError("UnauthorizedOperation", "You are not authorized to perform this operation.", 403)


def _allows(statement: Policy, volume: SimulatedVolume, requested_type: str, settings: LabSettings) -> bool:
    actions, resources = _as_list(statement["Action"]), _as_list(statement["Resource"])
    if statement["Effect"] != "Allow" or not {"*", "ec2:*", "ec2:ModifyVolume"} & set(actions):
        return False
    if "*" not in resources and not any(arn.endswith(f"/{volume.volume_id}") for arn in resources):
        return False
    conditions = statement.get("Condition", {})
    if unknown := conditions.keys() - {"StringEquals"}:
        raise AwsError("MalformedPolicyDocument", f"the lab does not know the conditions {sorted(unknown)}")
    equals = conditions.get("StringEquals", {})
    return all(
        _condition_holds(key, value, volume, requested_type, settings) for key, value in equals.items()
    )


def _condition_holds(
    key: str, value: str, volume: SimulatedVolume, requested_type: str, settings: LabSettings
) -> bool:
    if key.startswith(_TAG_CONDITION_PREFIX):
        is_equal = volume.tags.get(key.removeprefix(_TAG_CONDITION_PREFIX)) == value
        return {"enforced": is_equal, "ignored": True, "always refused": False}[settings.tag_condition]
    if key == _TYPE_CONDITION:
        return {
            "current": volume.volume_type == value,
            "requested": requested_type == value,
            "ignored": True,
            "absent": False,
        }[settings.type_condition]
    raise AwsError("MalformedPolicyDocument", f"the lab does not know the condition key {key}")


def _as_list(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
