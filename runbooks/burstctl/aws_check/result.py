"""The result of measuring a fact: an answer, or the reason why it is missing."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from burstwatch.core.errors import BurstwatchError


class NotMeasuredError(BurstwatchError):
    """The fact has no answer this time; the message says why and what would help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """An answer.

    ``answer`` is short and the same in each run that finds the same. ``values`` are the numbers and texts
    that ``burstlab serve --as`` needs to behave in this way; ``evidence`` is what it was judged by.
    """

    answer: str
    values: Mapping[str, Any] = field(default_factory=dict)
    evidence: Mapping[str, Any] = field(default_factory=dict)


Steps = Generator[float, None, Measurement]
"""A measurement. It yields the seconds to wait before it goes on, and returns the answer."""


class FactOutcome(StrEnum):
    """How measuring a fact ended."""

    MEASURED = "measured"
    NOT_MEASURED = "not_measured"
    NOT_PERMITTED = "not_permitted"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of one fact; ``reason`` is why there is no answer, ``grant`` the missing permission."""

    outcome: FactOutcome
    at_s: float
    measurement: Measurement | None = None
    reason: str | None = None
    grant: str | None = None

    def to_document(self) -> dict[str, Any]:
        """As JSON, for the run's file."""
        measurement = self.measurement
        return {
            "outcome": str(self.outcome),
            "at_s": self.at_s,
            "answer": measurement and measurement.answer,
            "values": dict(measurement.values) if measurement else {},
            "evidence": dict(measurement.evidence) if measurement else {},
            "reason": self.reason,
            "grant": self.grant,
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "Result":
        """The inverse of ``to_document``."""
        outcome = FactOutcome(document["outcome"])
        measurement = None
        if outcome is FactOutcome.MEASURED:
            measurement = Measurement(
                answer=document["answer"], values=document["values"], evidence=document["evidence"]
            )
        return cls(
            outcome=outcome,
            at_s=document["at_s"],
            measurement=measurement,
            reason=document["reason"],
            grant=document["grant"],
        )
