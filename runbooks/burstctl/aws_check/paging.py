"""Whether a filter of DescribeVolumes is applied before a page is cut or after it."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from burstctl.aws_check.bench import Bench
from burstctl.aws_check.result import Measured, NotMeasured

PAGE: Final = 5
"""The least that DescribeVolumes takes as MaxResults."""

EACH: Final = 6
"""Volumes that match and volumes that do not: more than a page of both."""

_MOST_PAGES: Final = 60

ACTIONS: Final = (
    "ec2:DescribeAvailabilityZones",
    "ec2:CreateVolume",
    "ec2:CreateTags",
    "ec2:DescribeVolumes",
    "ec2:DeleteVolume",
)


class Page(NamedTuple):
    """How many volumes a page showed, and whether it said that there is another page."""

    shown: int
    has_token: bool


def judge(pages: Sequence[Page]) -> Measured:
    """A page that comes short with a token was cut before it was filtered.

    Raises:
        NotMeasured: too many volumes match to walk to the end, and each page was full so far.
    """
    if any(page.shown < PAGE for page in pages if page.has_token):
        answer = "after"
    elif sum(page.shown for page in pages) < EACH:
        raise NotMeasured("the listing does not show all volumes of this run yet: run it again")
    elif not pages[-1].has_token:
        answer = "before"
    else:
        raise NotMeasured(f"the first {len(pages)} pages were full: take a Region with fewer volumes")
    return Measured(answer=answer, evidence={"pages": [list(page) for page in pages], "page_size": PAGE})


def walk(bench: Bench, asked: Mapping[str, Any]) -> list[Page]:
    """The pages of a listing with one filter, up to the first that decides; it only reads."""
    pages: list[Page] = []
    token: dict[str, str] = {}
    while len(pages) < _MOST_PAGES:
        response = bench.ec2.describe_volumes(Filters=[asked], MaxResults=PAGE, **token)
        pages.append(Page(len(response["Volumes"]), bool(response.get("NextToken"))))
        if not pages[-1].has_token or pages[-1].shown < PAGE:
            break
        token = {"NextToken": response["NextToken"]}
    return pages
