"""Records: named values that do not change; and the errors."""

from __future__ import annotations

from typing import Any, Self, dataclass_transform


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Record:
    """Named values that do not change; the standard library's own would import a dozen modules."""

    def __init__(self, **fields: Any) -> None:
        wanted = type(self).__annotations__
        if fields.keys() != wanted.keys():
            differing = ", ".join(sorted(fields.keys() ^ wanted.keys()))
            raise TypeError(f"{type(self).__name__}: missing or unknown: {differing}")
        self.__dict__.update(fields)

    def replaced(self, **changes: Any) -> Self:
        """Give a copy with other values in some fields."""
        return type(self)(**(self.__dict__ | changes))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} does not change")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.__dict__.items())})"


class ProbeError(Exception):
    """What keeps us from measuring: the message names the value, the limit and the next step."""


class UsageError(ProbeError):
    """The command line, or what it names, is not what we take."""
