from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from documents.shared import HeaderDocument, HoldDocument, Instant, ResourceId


class ReachDocument(HeaderDocument):
    account: Annotated[str | None, Field(description="Null if AWS did not say.")]
    stack: Annotated[
        str | None, Field(description="The deployed stack that reads this ledger; null if none does.")
    ]


class HoldsDocument(ReachDocument):
    """Holds placed.

    burstctl hold --json.
    """

    schema: Literal["burstwatch.hold/v1"]
    placed: list[HoldDocument]
    replaced: list[HoldDocument]
    missing: list[str]
    failures: list[str]


class ReleasedDocument(TypedDict):
    volume_id: ResourceId | None
    """What was released, also if it is an instance; null for the hold on everything."""
    hold: HoldDocument | None
    contested_since: Instant | None
    gave_up: str | None
    """What the ledger remembered of the volume, if that could not be read and was given up."""


class ReleaseDocument(ReachDocument):
    """What was released.

    burstctl release --json.
    """

    schema: Literal["burstwatch.release/v1"]
    released: list[ReleasedDocument]
    holds: list[HoldDocument]
    """Those still in force; empty also if they could not be read, which is one of the failures then."""
    failures: list[str]
