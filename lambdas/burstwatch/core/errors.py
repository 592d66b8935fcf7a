"""Errors, and sentences for people that keep their cause and their fix apart."""

from collections.abc import Set as AbstractSet
from typing import Self


class Problem(str):
    """A sentence about what is wrong. Logs and JSON have it whole, ``burstctl`` prints its parts apart.

    ``cause`` says what is wrong and ``fix`` what to do about it; ``fix`` is empty if the sentence has none.
    """

    __slots__ = ("cause", "fix")

    cause: str
    fix: str

    def __new__(cls, cause: str, fix: str = "", *, sentence: str | None = None) -> Self:
        """Make ``cause; fix``, or a longer ``sentence`` with more detail for logs."""
        problem = super().__new__(cls, sentence or (f"{cause}; {fix}" if fix else cause))
        problem.cause, problem.fix = cause, fix
        return problem

    @classmethod
    def parse(cls, text: str) -> "Problem":
        """``cause; fix`` in its parts, as in the message of a ValueError about a setting."""
        cause, _, fix = text.partition("; ")
        return Problem(cause, fix)

    @classmethod
    def of(cls, text: str) -> "Problem":
        """The text itself if it has parts, else a problem with the text as its cause."""
        return text if isinstance(text, Problem) else Problem(text)


class BurstwatchError(Exception):
    """Something we did not expect; its message names the value, the limit and the next step.

    With a ``fix``, the message is the cause alone; ``str()`` joins the two.
    """

    def __init__(self, message: str = "", *, fix: str = "") -> None:
        self.problem = Problem(message, fix) if fix else Problem.of(message)
        super().__init__(self.problem)


class LedgerError(BurstwatchError):
    """The ledger cannot be used; what it held before the failed call, it still holds."""


class PartialCommitError(LedgerError):
    """Some changes of a commit were written, those of ``written_ids``, and others failed by themselves."""

    def __init__(self, message: str, *, fix: str, written_ids: AbstractSet[str]) -> None:
        super().__init__(message, fix=fix)
        self.written_ids = written_ids
