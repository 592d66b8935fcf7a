"""What a policy changes of another one, setting by setting, with every default spelled out."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from burstctl.cli.text_layout import text_columns, wrap_hanging
from burstwatch.core.policy.policy import Policy
from burstwatch.core.text import sanitise

_MAX_CHARS: Final = 600  # keeps one change to a few lines
_ABSENT: Final = "(nothing)"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingChange:
    """A setting by its path; None if it is only in one of the two policies."""

    setting: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        before, after = (_ABSENT if value is None else value for value in (self.before, self.after))
        return f"{self.setting}: {before} -> {after}"


def changes_between(before: Policy, after: Policy) -> list[SettingChange]:
    """The settings that differ, in the order of the document; those that were removed come last."""
    before_settings, after_settings = (dict(_flatten(policy.to_mapping())) for policy in (before, after))
    return [
        SettingChange(setting=setting, before=before_settings.get(setting), after=after_settings.get(setting))
        for setting in {**after_settings, **before_settings}
        if before_settings.get(setting) != after_settings.get(setting)
    ]


def format_changes(changes: list[SettingChange]) -> list[str]:
    """A line for each change, or several if one is too short."""
    return [
        f"  {line}"
        for change in changes
        for line in wrap_hanging(sanitise(str(change), _MAX_CHARS), text_columns() - 2)
    ]


def _flatten(mapping: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for key, value in mapping.items():
        if isinstance(value, Mapping) and (value or path):
            yield from _flatten(value, f"{path}{key}.") if value else [(f"{path}{key}", "no settings")]
        elif not isinstance(value, Mapping):
            yield f"{path}{key}", str(value)
