"""What a policy changes of another one, setting by setting, with every default spelled out."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from burstctl.cli.text_layout import COLUMNS, hang
from burstwatch.core.policy.policy import Policy
from burstwatch.core.text import printable

_LONGEST: Final = 600
_NOTHING: Final = "(nothing)"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingChange:
    """A setting by its path; None stands where it is in one of the two policies only."""

    setting: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        before, after = (_NOTHING if value is None else value for value in (self.before, self.after))
        return f"{self.setting}: {before} -> {after}"


def changes_between(before: Policy, after: Policy) -> list[SettingChange]:
    """The settings that differ, in the order of the document; those that are no more come last."""
    was, will_be = (dict(_flat(policy.to_mapping())) for policy in (before, after))
    return [
        SettingChange(setting=setting, before=was.get(setting), after=will_be.get(setting))
        for setting in {**will_be, **was}
        if was.get(setting) != will_be.get(setting)
    ]


def changes_in_words(changes: list[SettingChange]) -> list[str]:
    """A line for each, or a few where one is too short."""
    return [f"  {line}" for change in changes for line in hang(printable(str(change), _LONGEST), COLUMNS - 2)]


def _flat(mapping: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for key, value in mapping.items():
        if isinstance(value, Mapping) and (value or path):
            yield from _flat(value, f"{path}{key}.") if value else [(f"{path}{key}", "no settings")]
        elif not isinstance(value, Mapping):
            yield f"{path}{key}", str(value)
