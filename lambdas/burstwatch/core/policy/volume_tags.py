"""What a volume's tags ask for; an invalid value is reported and read as the safe choice."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.ebs.sizing import TargetOverride
from burstwatch.core.parsing import DocumentReader
from burstwatch.core.policy.policy import Mode, ModePolicy
from burstwatch.core.policy.windows import window_names_in_tags
from burstwatch.core.tag_keys import CRITICAL, IGNORE, IOPS, KNOWN, MODE, PREFIX, TARGET, THROUGHPUT, WINDOW

_TARGETS = ("gp3", "io1", "io2")
_MAX_DIGITS = 6
_MAX_SHOWN_CHARS = 40
_MAX_WINDOWS_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeSettings:
    """What the tags of a volume ask for, within the policy's limits; ``faults`` are sentences for people."""

    mode: Mode
    is_critical: bool = False
    is_ignored: bool = False
    target_override: TargetOverride = TargetOverride()
    faults: tuple[str, ...] = ()


def read_tags(
    tags: Mapping[str, str], policy: ModePolicy, *, known_windows: Collection[str] | None = None
) -> VolumeSettings:
    """Read the tags of one volume; with ``known_windows``, the name of an unknown window is a fault.

    ``auto`` needs the policy's opt-in tag, matched exactly, and ``mode.highest: auto``. A mode tag can always
    ask for less. A misspelt ``burstwatch:`` key is a fault too: it has no effect, although somebody expects
    one.
    """
    opt_in_key, opt_in_value = policy.opt_in_tag
    reader = DocumentReader(tags)
    requested = _requested_mode(reader, policy, is_opted_in=tags.get(opt_in_key) == opt_in_value)
    is_critical = reader.parse_optional(CRITICAL, _parse_flag, default=False)
    is_ignored = reader.parse_optional(IGNORE, _parse_flag, default=False)
    target_override = TargetOverride(
        volume_type=reader.parse_optional(TARGET, _parse_target),
        iops=reader.parse_optional(IOPS, _parse_number),
        throughput_mib_s=reader.parse_optional(THROUGHPUT, _parse_number),
    )
    faults = [f"{fault.path}={fault.message}" for fault in reader.faults]
    if known_windows is not None:
        faults += _unknown_window_faults(tags, known_windows)
    faults += [
        f"{_format_value(key)} is not a burstwatch tag; known: {', '.join(sorted(KNOWN))}"
        for key in tags
        if key.lower().startswith(PREFIX) and key not in KNOWN and key != opt_in_key
    ]
    return VolumeSettings(
        # The policy's limit is applied last, so that no tag and no default can exceed it.
        mode=min(requested, policy.highest, key=lambda mode: mode.rank),
        is_critical=is_critical,
        is_ignored=is_ignored,
        target_override=target_override,
        faults=tuple(faults),
    )


def _requested_mode(reader: DocumentReader, policy: ModePolicy, *, is_opted_in: bool) -> Mode:
    default_mode = policy.default if policy.default is not Mode.AUTO else Mode.PROPOSE

    def parse(text: str) -> Mode:
        try:
            return Mode(text)
        except ValueError:
            mode_text = _format_value(text)
            raise ValueError(
                f"{mode_text} is not observe, propose or auto; treated as {default_mode}"
            ) from None

    requested: Mode = reader.parse_optional(MODE, parse, Mode.AUTO if is_opted_in else default_mode)
    if reader.faults:
        return default_mode
    if requested is Mode.AUTO and not is_opted_in:
        key, value = policy.opt_in_tag
        reader.reject(MODE, f"auto needs the opt-in tag {key}={value} as well; treated as propose")
        return Mode.PROPOSE
    return requested


def _parse_flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(f"{_format_value(text)} is not true or false; treated as false")
    return text == "true"


def _parse_target(text: str) -> VolumeType:
    if text not in _TARGETS:
        raise ValueError(f"{_format_value(text)} is not gp3, io1 or io2; treated as not given")
    return VolumeType(text)


def _parse_number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS and int(text) > 0):
        raise ValueError(f"{_format_value(text)} is not a whole number above 0; treated as not given")
    return int(text)


def _unknown_window_faults(tags: Mapping[str, str], known_windows: Collection[str]) -> list[str]:
    unknown_names = sorted(window_names_in_tags(tags).difference(known_windows))
    if not unknown_names:
        return []
    listed = sorted(known_windows)[:_MAX_WINDOWS_NAMED]
    suffix = f" and {len(known_windows) - len(listed)} more" if len(known_windows) > len(listed) else ""
    known_text = f"known: {', '.join(listed)}{suffix}" if listed else "the policy has none"
    names_text = _format_value(", ".join(unknown_names))
    return [f"{WINDOW} names {names_text}, which the policy does not define; {known_text}"]


def _format_value(text: str) -> str:
    safe_text = "".join(character if character.isprintable() else "?" for character in text)
    return repr(safe_text if len(safe_text) <= _MAX_SHOWN_CHARS else safe_text[: _MAX_SHOWN_CHARS - 1] + "…")
