"""Whether a filter of DescribeVolumes is applied before a page is cut or after it."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from burstctl.aws_check.fact_context import FactContext
from burstctl.aws_check.result import Measurement, NotMeasuredError

PAGE_SIZE: Final = 5
"""The least that DescribeVolumes takes as MaxResults."""

VOLUMES_PER_GROUP: Final = 6
"""Volumes that match and volumes that do not: more than a page of both."""

_MAX_PAGES: Final = 60  # 300 volumes: an account with more is not walked through to the end


class Page(NamedTuple):
    """The number of volumes on a page, and whether there was a token for another page."""

    volume_count: int
    has_token: bool


def judge(pages: Sequence[Page]) -> Measurement:
    """A page that comes short with a token was cut before it was filtered.

    Raises:
        NotMeasuredError: too many volumes match to walk to the end, and each page was full so far.
    """
    if any(page.volume_count < PAGE_SIZE for page in pages if page.has_token):
        answer = "after"
    elif sum(page.volume_count for page in pages) < VOLUMES_PER_GROUP:
        raise NotMeasuredError("the listing does not show all volumes of this run yet: run it again")
    elif not pages[-1].has_token:
        answer = "before"
    else:
        raise NotMeasuredError(f"the first {len(pages)} pages were full: take a Region with fewer volumes")
    return Measurement(
        answer=answer, evidence={"pages": [list(page) for page in pages], "page_size": PAGE_SIZE}
    )


def read_pages(context: FactContext, volume_filter: Mapping[str, Any]) -> list[Page]:
    """The pages of a listing with one filter, up to the first that decides; it only reads."""
    pages: list[Page] = []
    token: dict[str, str] = {}
    while len(pages) < _MAX_PAGES:
        response = context.ec2.describe_volumes(Filters=[volume_filter], MaxResults=PAGE_SIZE, **token)
        pages.append(Page(len(response["Volumes"]), bool(response.get("NextToken"))))
        if not pages[-1].has_token or pages[-1].volume_count < PAGE_SIZE:
            break
        token = {"NextToken": response["NextToken"]}
    return pages
