"""Which values of a setting are accepted, found by trying them with every other setting at its default."""

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

from burstctl.policy.settings import Setting
from burstwatch.core.durations import parse_duration
from burstwatch.core.policy.policy import VERSION, Policy, PolicyError

_DURATIONS = [
    *(f"{n}s" for n in range(60)),
    *(f"{n}m" for n in range(1, 60)),
    *(f"{n}h" for n in range(1, 24)),
    *(f"{n}d" for n in range(1, 367)),
]
"""Durations as people write them, in rising order. A limit between two of them is rounded inwards."""
_PCT_STEPS = 10_000
"""Steps of one per cent: a percentage may have four decimals."""
_TENTH = _PCT_STEPS // 10
_MAX_NUMBER = 999_999_999


def describe_allowed(setting: Setting) -> str:
    """The accepted values in words, in Markdown."""
    if setting.path == "cadence.sweep_tick":
        minutes = [f"{n}m" for n in range(1, 61) if _is_accepted(setting, f"{n}m")]
        return f"whole minutes that divide a day: {', '.join(f'`{text}`' for text in minutes)}"
    match setting.unit:
        case "duration":
            return _describe_durations(setting)
        case "%":
            default = round(float(setting.default) * _PCT_STEPS)
            steps = range(100 * _PCT_STEPS + 1)
            low, high = _limits(setting, steps, default, lambda step: f"{step / _PCT_STEPS:.4f}")
            return f"{_describe_pct(low, 1)} to {_describe_pct(high, -1)}"
        case "$ a month" | "volumes" | "alerts" | "IOPS":
            low, high = _limits(setting, range(_MAX_NUMBER + 1), int(setting.default), str)
            return f"`{low}` to `{high}`"
        case unit:
            return unit


def _describe_durations(setting: Setting) -> str:
    ordered = sorted({*_DURATIONS, setting.default}, key=parse_duration)
    default = ordered.index(setting.default)
    low, high = _limits(setting, range(len(ordered)), default, ordered.__getitem__)
    lowest, highest = ordered[low], ordered[high]
    return f"`{lowest}` or more" if high == len(ordered) - 1 else f"`{lowest}` to `{highest}`"


def _describe_pct(step: int, inwards: int) -> str:
    """A limit: as it is, by the round number that is just not accepted, or rounded inwards to a tenth."""
    if step % _TENTH == 0:
        return f"`{step / _PCT_STEPS:g}`"
    if (step - inwards) % _TENTH == 0:
        return f"{'above' if inwards > 0 else 'below'} `{(step - inwards) / _PCT_STEPS:g}`"
    return f"`{(step // _TENTH + (inwards > 0)) * _TENTH / _PCT_STEPS:g}`"


def _limits(setting: Setting, steps: range, default: int, to_text: Callable[[int], str]) -> tuple[int, int]:
    """The lowest and the highest step that is accepted, as are all between them; the default is one."""
    below, above = steps[:default], steps[default:]
    low = bisect_left(below, True, key=lambda step: _is_accepted(setting, to_text(step)))
    high = bisect_left(above, True, key=lambda step: not _is_accepted(setting, to_text(step)))
    return low, default + high - 1


def _is_accepted(setting: Setting, text: str) -> bool:
    document: dict[str, Any] = {setting.key: text}
    for name in reversed(setting.section.split(".")):
        document = {name: document}
    try:
        Policy.from_mapping({"version": VERSION, **document})
    except PolicyError:
        return False
    return True
