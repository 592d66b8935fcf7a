"""The queue of flip requests: SQS FIFO, with a message group for each volume."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from burstwatch.adapters.aws.errors import AWS_ERRORS, to_aws_failure
from burstwatch.adapters.aws.flip_request import MAX_BODY_BYTES, FlipRequest
from burstwatch.core.text import sanitise

if TYPE_CHECKING:
    from types_boto3_sqs import SQSClient
    from types_boto3_sqs.type_defs import SendMessageBatchRequestEntryTypeDef

_MAX_BATCH_SIZE: Final = 10
"""The most entries of SendMessageBatch (SQS API reference)."""
# shorter than elsewhere: each of the ten entries of a batch may fail with its own message
_MAX_MESSAGE_CHARS: Final = 200
_MAX_CODE_CHARS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueueResult:
    """The volumes whose requests the queue took, and for each of the others the reason why it did not."""

    sent: frozenset[str] = frozenset()
    failed: Mapping[str, str] = field(default_factory=dict)


class _SendFailure(NamedTuple):
    message: str
    is_transient: bool


class FlipQueue:
    """Sends flip requests; the result names every request that the queue did not take."""

    def __init__(self, client: "SQSClient", queue_url: str) -> None:
        self._client = client
        self._queue_url = queue_url

    def send(self, requests: Sequence[FlipRequest]) -> EnqueueResult:
        """Send requests in batches; after a failure of AWS once more, because the queue drops repeats."""
        failed: dict[str, str] = {}
        for offset in range(0, len(requests), _MAX_BATCH_SIZE):
            batch = requests[offset : offset + _MAX_BATCH_SIZE]
            failures = self._send_batch(batch)
            if retries := [request for request in batch if _is_transient(failures, request)]:
                failures = {i: failure for i, failure in failures.items() if not failure.is_transient}
                failures |= self._send_batch(retries)
            failed |= {volume_id: failure.message for volume_id, failure in failures.items()}
        requested_ids = frozenset(request.volume_id for request in requests)
        return EnqueueResult(sent=requested_ids - failed.keys(), failed=failed)

    def put_back(self, receipt_handle: str, after_s: int) -> str | None:
        """Let a message in flight be received again after ``after_s`` seconds; the error if that failed."""
        try:
            self._client.change_message_visibility(
                QueueUrl=self._queue_url, ReceiptHandle=receipt_handle, VisibilityTimeout=after_s
            )
        except AWS_ERRORS as error:
            return str(to_aws_failure(error, "sqs:ChangeMessageVisibility"))
        return None

    def _send_batch(self, batch: Sequence[FlipRequest]) -> dict[str, _SendFailure]:
        """Send at most ten requests; return those that were refused, by volume.

        SQS answers 200 even if some entries of a batch failed, so each entry is checked.
        """
        bodies = {str(number): request.to_body() for number, request in enumerate(batch)}
        volume_ids = {str(number): request.volume_id for number, request in enumerate(batch)}
        failures = {
            volume_ids[n]: _oversize_failure(body) for n, body in bodies.items() if len(body) > MAX_BODY_BYTES
        }
        entries: list[SendMessageBatchRequestEntryTypeDef] = [
            {
                "Id": str(number),
                "MessageBody": bodies[str(number)],
                "MessageGroupId": request.volume_id,
                "MessageDeduplicationId": request.deduplication_id,
            }
            for number, request in enumerate(batch)
            if request.volume_id not in failures
        ]
        if not entries:
            return failures
        try:
            response = self._client.send_message_batch(QueueUrl=self._queue_url, Entries=entries)
        except AWS_ERRORS as error:
            message = str(to_aws_failure(error, "sqs:SendMessage"))
            return failures | {
                volume_ids[entry["Id"]]: _SendFailure(message, is_transient=False) for entry in entries
            }
        accepted_by_id, failed_by_id = (
            _entries_by_id(response, "Successful"),
            _entries_by_id(response, "Failed"),
        )
        missing_numbers = (entry["Id"] for entry in entries if entry["Id"] not in accepted_by_id)
        return failures | {
            volume_ids[number]: _to_failure(failed_by_id.get(number)) for number in missing_numbers
        }


def _entries_by_id(response: Mapping[str, Any], list_key: str) -> dict[str, Mapping[str, Any]]:
    """The result of each entry of a batch; an entry that the response does not name is left out."""
    raw = response.get(list_key)
    entries = raw if isinstance(raw, list) else []
    return {str(entry.get("Id")): entry for entry in entries if isinstance(entry, Mapping)}


def _is_transient(failures: Mapping[str, _SendFailure], request: FlipRequest) -> bool:
    failure = failures.get(request.volume_id)
    return failure is not None and failure.is_transient


def _oversize_failure(body: str) -> _SendFailure:
    message = f"the flip request has {len(body):,} bytes, at most {MAX_BODY_BYTES:,}; please report this"
    return _SendFailure(message, is_transient=False)


def _to_failure(entry: Mapping[str, Any] | None) -> _SendFailure:
    """Why one entry of a batch was not taken; one that the response does not name may have been."""
    if entry is None:
        message = "sqs:SendMessage failed: AWS did not report the outcome; a later tick sends it again."
        return _SendFailure(message, is_transient=True)
    aws_message = sanitise(str(entry.get("Message") or "AWS gave no reason"), _MAX_MESSAGE_CHARS)
    is_transient = not entry.get("SenderFault", False)
    next_step = (
        "a later tick sends it again"
        if is_transient
        else "this is not expected, please report it with this line"
    )
    return _SendFailure(
        f"sqs:SendMessage failed ({sanitise(str(entry.get('Code')), _MAX_CODE_CHARS)}): {aws_message};"
        f" {next_step}.",
        is_transient=is_transient,
    )
