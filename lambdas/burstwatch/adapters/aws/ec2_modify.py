"""ModifyVolume, sent once, and what its answer means for whoever must not send it again."""

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
_TYPE_ERROR_CODES: Final = frozenset(
    {"UnsupportedOperation", "Unsupported", "InvalidParameterValue", "InvalidParameterCombination"}
)
_UNSUPPORTED_PATTERN: Final = re.compile(
    r"(?i)\b(?:not|cannot|\w+n't)\b[^.]{0,60}\b(?:support|supported|available|offered|used)\b"
    r"|\bunsupported\b|\bunavailable\b"
)
_LOCATION_PATTERN: Final = re.compile(r"(?i)\b(?:zones?|outposts?|regions?|[a-z]{2}(?:-[a-z]+)+-\d[a-z]?)\b")
"""The word for a place, or a name such as us-east-1a."""

_OTHER_CAUSE_PATTERN: Final = re.compile(
    r"(?i)\b(?:parameter|iops|throughput|multi-?attach|instance|managed|kms|snapshot|restore|boot|root|size)\b"
)
"""Other things that a volume may be refused for; then it is not remembered of the place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """AWS has begun the modification."""

    modification: Modification


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRunAllowed:
    """A dry run: this identity may do it; whether the volume can be modified now, AWS does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """AWS surely did nothing; ``retry_at`` is when it will, where it says so."""

    failure: AwsFailure
    retry_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeUnknown:
    """It may or may not have been done; only DescribeVolumesModifications tells, never a second try."""

    failure: AwsFailure


ModifyResult: TypeAlias = Accepted | DryRunAllowed | Refused | OutcomeUnknown


class Ec2Modifier:
    """Modifies volumes of one region; the client must not retry: ``bootstrap.build_modifier`` makes it so."""

    def __init__(self, client: "EC2Client") -> None:
        self._client = client

    def modify(self, volume_id: str, configuration: Configuration, *, dry_run: bool = False) -> ModifyResult:
        """Ask, in one request, for a type and all the numbers that the type takes; never for a size."""
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
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            return OutcomeUnknown(failure=_unreadable_response(error, volume_id))


def guard_for_error(code: str, message: str = "") -> str | None:
    """The guard that would have said what AWS refuses with this code; None where no guard would.

    What AWS says of a type that a zone or an Outpost does not have is not documented: one of a few codes, and
    words that name the place and nothing else. It is remembered of the place for a week, so words about the
    type alone do not count: they may be about this volume's size, snapshot or attachment.
    """
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
    """Have the connection closed after each modification.

    They are hours apart, and a connection that a gateway has forgotten meanwhile breaks when it is used: the
    answer would be unclear although nothing was sent.
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
    """When AWS's quota allows the next modification; its older words name no time."""
    match = _WAIT_UNTIL_PATTERN.search(message)
    try:
        retry_at = datetime.fromisoformat(match[1]) if match else None
        return retry_at and (retry_at.astimezone(UTC) if retry_at.tzinfo else retry_at.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return None


def _unreadable_response(error: Exception, volume_id: str) -> AwsFailure:
    message = (
        f"AWS's answer has no {error}" if isinstance(error, KeyError) else f"AWS's answer is odd: {error}"
    )
    return AwsFailure(
        kind=FailureKind.BROKEN,
        code="UnreadableAnswer",
        message=message,
        next_step="what became of it is asked of AWS, see `aws ec2 describe-volumes-modifications`",
        action=_ACTION,
        resource=volume_id,
    )
