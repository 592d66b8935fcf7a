"""Between botocore and the adapters: answers read cheaply and page by page."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import PaginationError
from botocore.utils import parse_timestamp

if TYPE_CHECKING:
    from botocore.client import BaseClient
    from botocore.session import Session

_FIRST_ERROR_STATUS: Final = 300


def quicken(session: "Session") -> None:
    """Make the clients of this session read instants quickly, as aware UTC datetimes.

    botocore's own parser takes 20 microseconds for each, which is most of the time that it spends on an
    answer: a page of 500 volumes takes 120 ms with it and 35 ms without.
    """
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=_instant)


def _instant(value: Any) -> datetime:
    try:
        if isinstance(value, int | float):
            return datetime.fromtimestamp(value, UTC)
        instant = datetime.fromisoformat(value)
    except (ValueError, OverflowError):
        instant = parse_timestamp(value)
    return instant.astimezone(UTC) if instant.tzinfo else instant.replace(tzinfo=UTC)


def attach(client: "BaseClient") -> None:
    """Make this client read metrics quickly, and its errors say when their request was signed.

    The first saves botocore's walk over each datapoint, half of the time that an answer takes; where the wire
    is not JSON, botocore reads the answer as ever. By the second a wrong clock shows without a clock.
    """
    events = client.meta.events
    service = client.meta.service_model.service_id.hyphenize()
    if service == "cloudwatch":
        parsed = f"before-parse.{service}.GetMetricData"
        events.register(parsed, _read_metrics, unique_id="burstwatch-read-metrics")
    events.register(f"response-received.{service}", _note_signing, unique_id="burstwatch-note-signing")


def _read_metrics(
    response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: object
) -> None:
    """Take the body as it is, instants as seconds since the epoch, and leave botocore an empty one."""
    is_json = response_dict["headers"].get("Content-Type", "").startswith("application/x-amz-json")
    if response_dict["status_code"] >= _FIRST_ERROR_STATUS or not is_json:
        return
    try:
        answer = json.loads(response_dict["body"])
    except ValueError:
        return  # botocore meets the same bytes next and has its own way with them
    customized_response_dict.update(answer)
    response_dict["body"] = b"{}"


def _note_signing(parsed_response: dict[str, Any] | None, context: dict[str, Any], **_: object) -> None:
    if parsed_response is None or "timestamp" not in context:
        return
    metadata = parsed_response.setdefault("ResponseMetadata", {})
    if metadata.get("HTTPStatusCode", 0) >= _FIRST_ERROR_STATUS:
        metadata["SignedAt"] = context["timestamp"]


def pages(call: Callable[..., Any], **request: Any) -> Iterator[dict[str, Any]]:
    """Every page of an operation with NextToken.

    Raises:
        PaginationError: the same token came twice, so the listing would never end.
    """
    token = None
    while True:
        answer = call(**request, **({"NextToken": token} if token else {}))
        yield answer
        previous, token = token, answer.get("NextToken")
        if not token:
            return
        if token == previous:
            raise PaginationError(message=f"the token {token!r} came twice")
