"""ModifyVolume, sent once, and what its response means for a caller that must not send it again.

ModifyVolume takes no client token, so a repeated request is a second modification.
Source: the EC2 API reference, ModifyVolume.
"""

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from burstwatch.adapters.aws.ec2 import parse_modification
from burstwatch.adapters.aws.errors import AWS_ERRORS, AwsFailure, FailureKind, had_no_effect, to_aws_failure
from burstwatch.core.ebs.modification import Modification
from burstwatch.core.ebs.pricing import Configuration

if TYPE_CHECKING:
    from botocore.client import BaseClient
    from types_boto3_ec2 import EC2Client

_ACTION: Final = "ec2:ModifyVolume"
_WAIT_UNTIL_PATTERN: Final = re.compile(r"(?i)\bwait until (\d{4}-\d\d-\d\dT[\d:.]*\d(?:Z|[+-]\d\d:?\d\d)?)")

_GUARD_BY_CODE: Final = {
    "VolumeModificationRateExceeded": "aws_quota",
    "IncorrectModificationState": "modification_in_progress",
    "MaxIOPSLimitExceeded": "account_limit",
    "VolumeModificationSizeLimitExceeded": "account_limit",
    "VolumeIOPSLimit": "account_limit",
    "VolumeLimitExceeded": "account_limit",
    "VolumeTypeNotAvailableInZone": "type_not_available",
}
"""The guard that each of AWS's refusals corresponds to.

VolumeModificationRateExceeded is in no published list, but EC2 returns it. Source: reports of its users; for
the other codes, the EC2 API reference, "Error codes".
"""

_TYPE_ERROR_CODES: Final = frozenset(
    {"UnsupportedOperation", "Unsupported", "InvalidParameterValue", "InvalidParameterCombination"}
)
_UNSUPPORTED_PATTERN: Final = re.compile(
    r"(?i)\b(?:not|cannot|\w+n't)\b[^.]{0,60}\b(?:support|supported|available|offered|used)\b"
    r"|\bunsupported\b|\bunavailable\b"
)
_LOCATION_PATTERN: Final = re.compile(r"(?i)\b(?:zones?|outposts?|regions?|[a-z]{2}(?:-[a-z]+)+-\d[a-z]?)\b")
"""The word for a location, or a name such as us-east-1a."""

_OTHER_CAUSE_PATTERN: Final = re.compile(
    r"(?i)\b(?:parameter|iops|throughput|multi-?attach|instance|managed|kms|snapshot|restore|boot|root|size)\b"
)
"""Other causes of a refusal; a refusal for one of them is not remembered for the zone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """AWS has begun the modification."""

    modification: Modification


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRunAllowed:
    """A dry run was allowed: this identity has the permission; AWS does not check anything else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """AWS certainly did nothing; ``retry_at`` is the time from which it will, if AWS states one."""

    failure: AwsFailure
    retry_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeUnknown:
    """It may or may not have been done: DescribeVolumesModifications shows which; a retry never does."""

    failure: AwsFailure


ModifyResult: TypeAlias = Accepted | DryRunAllowed | Refused | OutcomeUnknown


class Ec2Modifier:
    """Modifies volumes of one region; the client must not retry (see ``bootstrap.build_modifier``)."""

    def __init__(self, client: "EC2Client") -> None:
        self._client = client

    def modify(self, volume_id: str, configuration: Configuration, *, dry_run: bool = False) -> ModifyResult:
        """Request a type and all numbers that the type takes, in one call; never a size.

        Both numbers are always sent. If they are left out, the user guide and the API reference disagree
        about what AWS chooses. It is the performance of the source volume, or 125 MiB/s for gp3 and
        3,000 IOPS.
        """
        request: dict[str, Any] = {"VolumeId": volume_id, "VolumeType": configuration.volume_type.value}
        if configuration.iops is not None:
            request["Iops"] = configuration.iops
        if configuration.throughput_mib_s is not None:
            request["Throughput"] = configuration.throughput_mib_s
        if dry_run:
            request["DryRun"] = True
        try:
            response = self._client.modify_volume(**request)
            return Accepted(modification=parse_modification(response["VolumeModification"]))
        except AWS_ERRORS as error:
            return _to_result(error, volume_id, dry_run=dry_run)
        # A successful response that cannot be parsed: AWS may have begun the modification.
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            return OutcomeUnknown(failure=_unreadable_response(error, volume_id))


def guard_for_error(code: str, message: str = "") -> str | None:
    """The guard that corresponds to a refusal by AWS; None if no guard does.

    AWS does not document how it refuses a type that a zone or an Outpost does not have. It is recognised by
    one of a few codes together with words that name the location and no other cause. The refusal is
    remembered for the location for a week. So words about the type alone are not enough: they may be about
    the size, the snapshot or the attachment of this volume.

    ``VolumeModificationRateExceeded`` is not in AWS's list of error codes either, but is what EC2 returns.
    """
    # CloudTrail writes the codes with this prefix.
    code = code.removeprefix("Client.")
    if (guard := _GUARD_BY_CODE.get(code)) is not None or code not in _TYPE_ERROR_CODES:
        return guard
    if (
        _LOCATION_PATTERN.search(message)
        and _UNSUPPORTED_PATTERN.search(message)
        and not _OTHER_CAUSE_PATTERN.search(message)
    ):
        return "type_not_available"
    return None


def close_connection_after_modify(client: "BaseClient") -> None:
    """Close the connection after each modification.

    Modifications are hours apart. A gateway may drop an idle connection, which then breaks on the next use:
    the outcome would be unknown although nothing was sent.
    """
    client.meta.events.register("before-send.ec2.ModifyVolume", _set_connection_close)


def _set_connection_close(request: Any, **_: object) -> None:
    request.headers["Connection"] = "close"


def _to_result(error: Exception, volume_id: str, *, dry_run: bool) -> ModifyResult:
    failure = to_aws_failure(error, _ACTION)
    if dry_run and failure.code == "DryRunOperation":
        return DryRunAllowed()
    failure = replace(failure, resource=failure.resource or volume_id)
    if had_no_effect(error):
        is_quota = guard_for_error(failure.code) == "aws_quota"
        return Refused(failure=failure, retry_at=_retry_at(str(error)) if is_quota else None)
    return OutcomeUnknown(failure=failure)


def _retry_at(message: str) -> datetime | None:
    """When AWS's quota allows the next modification; None if the message names no time, as the older one."""
    match = _WAIT_UNTIL_PATTERN.search(message)
    try:
        retry_at = datetime.fromisoformat(match[1]) if match else None
        return retry_at and (retry_at.astimezone(UTC) if retry_at.tzinfo else retry_at.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return None


def _unreadable_response(error: Exception, volume_id: str) -> AwsFailure:
    message = (
        f"AWS's answer has no {error}"
        if isinstance(error, KeyError)
        else f"AWS's answer is not usable: {error}"
    )
    return AwsFailure(
        kind=FailureKind.BROKEN,
        code="UnreadableAnswer",
        message=message,
        next_step="the outcome is read from AWS, see `aws ec2 describe-volumes-modifications`",
        action=_ACTION,
        resource=volume_id,
    )
