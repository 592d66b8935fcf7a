"""What a volume's tags ask for; a bad value is reported and read as the safe choice."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.ebs.sizing import Wish
from burstwatch.core.policy.policy import Mode, ModePolicy
from burstwatch.core.policy.windows import named_by_tag
from burstwatch.core.tag_keys import CRITICAL, IGNORE, IOPS, KNOWN, MODE, PREFIX, TARGET, THROUGHPUT, WINDOW

_TARGETS = ("gp3", "io1", "io2")
_MOST_DIGITS = 6
_LONGEST_SHOWN = 40
_MOST_WINDOWS_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """How a volume wants to be treated, after the policy's limits; ``faults`` are sentences for people."""

    mode: Mode
    is_critical: bool = False
    is_ignored: bool = False
    target: Wish = Wish()
    faults: tuple[str, ...] = ()


def read_tags(
    tags: Mapping[str, str], policy: ModePolicy, *, known_windows: Collection[str] | None = None
) -> Wishes:
    """Read the tags of one volume; with ``known_windows`` one that is called but not known is a fault.

    ``auto`` needs the policy's opt-in tag, matched exactly, and ``mode.highest: auto``; a mode tag can always
    ask for less. A misspelt ``burstwatch:`` key is a fault too: it does nothing, and somebody thinks it does.
    """
    faults: list[str] = []
    opt_in_key, opt_in_value = policy.opt_in_tag
    opted_in = tags.get(opt_in_key) == opt_in_value
    asked = _asked_mode(tags, policy, opted_in=opted_in, faults=faults)
    critical = _flag(tags, CRITICAL, faults)
    ignored = _flag(tags, IGNORE, faults)
    target = _target(tags, faults)
    if known_windows is not None:
        faults += _unknown_windows(tags, known_windows)
    faults += [
        f"{_show(key)} is no tag of burstwatch's; known: {', '.join(sorted(KNOWN))}"
        for key in tags
        if key.lower().startswith(PREFIX) and key not in KNOWN and key != opt_in_key
    ]
    mode = min(asked, policy.highest, key=lambda m: m.rank)
    return Wishes(mode=mode, is_critical=critical, is_ignored=ignored, target=target, faults=tuple(faults))


def _asked_mode(tags: Mapping[str, str], policy: ModePolicy, *, opted_in: bool, faults: list[str]) -> Mode:
    unopted = policy.default if policy.default is not Mode.AUTO else Mode.PROPOSE
    text = tags.get(MODE)
    if text is None:
        return Mode.AUTO if opted_in else unopted
    try:
        asked = Mode(text)
    except ValueError:
        faults.append(f"{MODE}={_show(text)} is not observe, propose or auto; treated as {unopted}")
        return unopted
    if asked is Mode.AUTO and not opted_in:
        key, value = policy.opt_in_tag
        faults.append(f"{MODE}=auto needs the opt-in tag {key}={value} as well; treated as propose")
        return Mode.PROPOSE
    return asked


def _flag(tags: Mapping[str, str], key: str, faults: list[str]) -> bool:
    text = tags.get(key, "false")
    if text not in ("true", "false"):
        faults.append(f"{key}={_show(text)} is not true or false; treated as false")
    return text == "true"


def _target(tags: Mapping[str, str], faults: list[str]) -> Wish:
    kind = tags.get(TARGET)
    if kind not in (None, *_TARGETS):
        faults.append(f"{TARGET}={_show(kind)} is not gp3, io1 or io2; treated as not given")
    return Wish(
        volume_type=VolumeType(kind) if kind in _TARGETS else None,
        iops=_number(tags, IOPS, faults),
        throughput_mib_s=_number(tags, THROUGHPUT, faults),
    )


def _number(tags: Mapping[str, str], key: str, faults: list[str]) -> int | None:
    text = tags.get(key)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS and int(text) > 0):
        faults.append(f"{key}={_show(text)} is not a whole number above 0; treated as not given")
        return None
    return int(text)


def _unknown_windows(tags: Mapping[str, str], known: Collection[str]) -> list[str]:
    unknown = sorted(named_by_tag(tags).difference(known))
    if not unknown:
        return []
    named = sorted(known)[:_MOST_WINDOWS_NAMED]
    more = f" and {len(known) - len(named)} more" if len(known) > len(named) else ""
    some = f"known: {', '.join(named)}{more}" if named else "the policy has none"
    return [f"{WINDOW} calls {_show(', '.join(unknown))}, which nobody has defined; {some}"]


def _show(text: str) -> str:
    printable = "".join(c if c.isprintable() else "?" for c in text)
    return repr(printable if len(printable) <= _LONGEST_SHOWN else printable[: _LONGEST_SHOWN - 1] + "…")
