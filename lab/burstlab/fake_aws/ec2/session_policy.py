"""IAM policies of assumed roles, as far as they are about ModifyVolume: Allow, Resource and StringEquals."""

from collections.abc import Mapping, Sequence
from typing import Any

from burstlab.fake_aws.ec2.query import volumes_named
from burstlab.model.aws_error import AwsError
from burstlab.model.fleet import LabFleet
from burstlab.model.settings import LabSettings
from burstlab.model.simulated_volume import SimulatedVolume

Policy = Mapping[str, Any]
_TAG = "ec2:ResourceTag/"
_TYPE = "ec2:VolumeType"


def check_session(fleet: LabFleet, policies: Sequence[Policy], parameters: Mapping[str, str]) -> None:
    """Refuse ModifyVolume unless each of the policies allows it.

    Raises:
        AwsError: one does not, or knows a condition that the lab does not.
    """
    (volume,) = volumes_named(fleet, [parameters.get("VolumeId", "")])
    wanted = parameters.get("VolumeType", volume.volume_type)
    for policy in policies:
        if not any(_allows(each, volume, wanted, fleet.settings) for each in policy["Statement"]):
            raise AwsError("UnauthorizedOperation", "You are not authorized to perform this operation.", 403)


def _allows(statement: Policy, volume: SimulatedVolume, wanted: str, settings: LabSettings) -> bool:
    actions, resources = _listed(statement["Action"]), _listed(statement["Resource"])
    if statement["Effect"] != "Allow" or not {"*", "ec2:*", "ec2:ModifyVolume"} & set(actions):
        return False
    if "*" not in resources and not any(arn.endswith(f"/{volume.volume_id}") for arn in resources):
        return False
    conditions = statement.get("Condition", {})
    if unknown := conditions.keys() - {"StringEquals"}:
        raise AwsError("MalformedPolicyDocument", f"the lab does not know the conditions {sorted(unknown)}")
    equals = conditions.get("StringEquals", {})
    return all(_holds(key, value, volume, wanted, settings) for key, value in equals.items())


def _holds(key: str, value: str, volume: SimulatedVolume, wanted: str, settings: LabSettings) -> bool:
    if key.startswith(_TAG):
        is_equal = volume.tags.get(key.removeprefix(_TAG)) == value
        return {"enforced": is_equal, "ignored": True, "always refused": False}[settings.tag_condition]
    if key == _TYPE:
        return {
            "current": volume.volume_type == value,
            "requested": wanted == value,
            "ignored": True,
            "absent": False,
        }[settings.type_condition]
    raise AwsError("MalformedPolicyDocument", f"the lab does not know the condition key {key}")


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
