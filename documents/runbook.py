from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict


class RunbookPageDocument(TypedDict):
    name: Annotated[str, Field(description="The name of the alert, alarm or job.")]
    group: Annotated[str, Field(description="The heading of the list in which it is.")]
    when: str
    first_command: str


class RunbookDocument(RunbookPageDocument):
    """A runbook page.

    burstctl runbook NAME --json.
    """

    schema: Literal["burstwatch.runbook/v1"]
    markdown: str


class RunbooksDocument(TypedDict):
    """The list of the runbook pages.

    burstctl runbook --json.
    """

    schema: Literal["burstwatch.runbooks/v1"]
    pages: list[RunbookPageDocument]
