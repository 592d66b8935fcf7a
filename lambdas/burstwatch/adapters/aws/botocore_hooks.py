"""Hooks into botocore: responses are parsed quickly, strictly and page by page."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import PaginationError
from botocore.parsers import ResponseParserError
from botocore.utils import parse_timestamp

if TYPE_CHECKING:
    from botocore.client import BaseClient
    from botocore.session import Session

MAX_PAGES: Final = 1_000
"""Pages of one listing: 500,000 volumes. A listing with more pages is assumed to be an endless loop."""

_FIRST_ERROR_STATUS: Final = 300  # as in botocore's client, which raises for 300 and above


def use_fast_timestamps(session: "Session") -> None:
    """Make the clients of this session parse instants quickly, as aware UTC datetimes.

    botocore's own parser takes 20 microseconds for each instant, which is most of the time that it spends on
    a response. A page of 500 volumes takes 120 ms with it and 35 ms without.
    """
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=_parse_timestamp)


def use_strict_parser(session: "Session") -> None:
    """Make the clients of this session raise ResponseParserError for bytes that are not a response of AWS.

    botocore does so for broken XML. For other bytes, its parsers raise arbitrary exceptions, which callers
    would not recognise as a failed call.
    """
    factory = session.get_component("response_parser_factory")
    factory.create_parser = partial(_create_strict_parser, factory.create_parser)


def _create_strict_parser(create: Callable[[str], Any], protocol: str) -> Any:
    parser = create(protocol)
    parser.parse = partial(_parse_or_raise, parser.parse)
    return parser


def _parse_or_raise(parse: Callable[..., Any], response: Any, shape: Any) -> dict[str, Any]:
    try:
        parsed = parse(response, shape)
        if isinstance(parsed, dict):
            return parsed
        reason = f"it is a {type(parsed).__name__}"
    except ResponseParserError:
        raise
    except Exception as error:  # noqa: BLE001 - which one depends on the bytes and on botocore's version
        reason = f"{type(error).__name__}: {error}"
    raise ResponseParserError(f"this is not a response from AWS ({reason})")


def _parse_timestamp(value: Any) -> datetime:
    try:
        if isinstance(value, int | float):
            return datetime.fromtimestamp(value, UTC)
        timestamp = datetime.fromisoformat(value)
    except (ValueError, OverflowError):
        timestamp = parse_timestamp(value)
    return timestamp.astimezone(UTC) if timestamp.tzinfo else timestamp.replace(tzinfo=UTC)


def install_hooks(client: "BaseClient") -> None:
    """Make this client parse metrics quickly, and add the Region and the time of signing to its errors.

    The first avoids botocore's walk over each datapoint, which is half of the time that a response takes. If
    the response has an unexpected form, botocore parses it as usual. The second shows a wrong clock of this
    machine, or a wrong Region.
    """
    events = client.meta.events
    service = client.meta.service_model.service_id.hyphenize()
    if service == "cloudwatch":
        event_name = f"before-parse.{service}.GetMetricData"
        events.register(event_name, _read_metrics, unique_id="burstwatch-read-metrics")
    events.register(f"response-received.{service}", _record_request, unique_id="burstwatch-note-request")


def _read_metrics(
    response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: object
) -> None:
    """Take the body as it is, with instants in seconds since the epoch; botocore parses an empty one."""
    is_json = response_dict["headers"].get("Content-Type", "").startswith("application/x-amz-json")
    if response_dict["status_code"] >= _FIRST_ERROR_STATUS or not is_json:
        return
    try:
        document = json.loads(response_dict["body"])
    except (ValueError, RecursionError):
        return  # botocore meets the same bytes next and has its own way with them
    if isinstance(document, dict):
        customized_response_dict.update(document)
        response_dict["body"] = b"{}"


def _record_request(parsed_response: dict[str, Any] | None, context: dict[str, Any], **_: object) -> None:
    if parsed_response is None:
        return
    metadata = parsed_response.setdefault("ResponseMetadata", {})
    if metadata.get("HTTPStatusCode", 0) >= _FIRST_ERROR_STATUS:
        metadata |= {"SignedAt": context.get("timestamp"), "Region": context.get("client_region")}


def paginate(
    call: Callable[..., Any],
    max_pages: int = MAX_PAGES,
    token_keys: tuple[str, str] = ("NextToken", "NextToken"),
    /,
    *,
    list_key: str,
    **request: Any,
) -> Iterator[dict[str, Any]]:
    """Every page of an operation; each contains the list ``list_key``.

    ``token_keys`` are the names of the token in a response, and in the next request.

    Raises:
        PaginationError: a token came twice, or there are more than ``max_pages`` pages.
        ResponseParserError: the response is not a page. Read as an empty page, it would mean that every
            volume was deleted.
    """
    response_key, request_key = token_keys
    seen_tokens: set[str] = set()
    token = ""
    for _ in range(max_pages):
        page = call(**request, **({request_key: token} if token else {}))
        if not isinstance(page, dict) or not isinstance(page.get(list_key), list | tuple):
            raise ResponseParserError(f"the answer has no list of {list_key}")
        yield page
        token = str(page.get(response_key) or "")
        if not token:
            return
        if token in seen_tokens:
            raise PaginationError(message=f"the token {token!r} came twice")
        seen_tokens.add(token)
    raise PaginationError(message=f"the list of {list_key} did not end after {max_pages:,} pages")
