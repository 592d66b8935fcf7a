"""The settings under which the lab behaves as ``burstctl aws-check`` measured AWS, from its report."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from burstlab.model.modification import STATES
from burstwatch.core.errors import BurstwatchError

_SCHEMA: Final = "burstwatch.aws-check/v1"
_MINUTE_S: Final = 60
_RULES: Final = {4: "four_per_day", 1: "six_hours"}


class ReportError(BurstwatchError):
    """The report cannot be used; the message says why."""


class _Unplayable(Exception):  # noqa: N818 - shown to the user, nothing fails
    """The lab has no setting for this answer."""


def read_report(path: Path) -> dict[str, Any]:
    """Read a report.

    Raises:
        ReportError: it is not one.
    """
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ReportError(f"{path} cannot be read ({error}): give the .json of burstctl aws-check") from error
    if not isinstance(report, dict) or report.get("schema") != _SCHEMA:
        raise ReportError(f"{path} is not a {_SCHEMA}: give the .json of burstctl aws-check")
    return report


def as_measured(report: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The settings that differ by what was measured, and what was not measured or cannot be played.

    Raises:
        ReportError: a fact lacks a value that its answer has.
    """
    changes: dict[str, Any] = {}
    unknown = []
    try:
        facts = {fact["name"]: fact for fact in report["facts"] if {"answer", "values"} <= fact.keys()}
    except (KeyError, TypeError, AttributeError) as error:
        raise ReportError("its facts are not as burstctl aws-check writes them: measure again") from error
    for name, play in _PLAYED.items():
        fact = facts.get(name)
        if fact is None or fact["answer"] is None:
            unknown.append(f"{name}: no answer in the report")
            continue
        try:
            changes |= play(fact["answer"], fact["values"])
        except _Unplayable:
            unknown.append(f"{name}: the lab cannot play {fact['answer']!r}")
        except KeyError as error:
            raise ReportError(f"{name} lacks the value {error} in the report: measure it again") from error
        except TypeError as error:
            raise ReportError(f"{name} has a value of another kind: measure it again") from error
    return changes | _filters(facts), unknown


_Play = Callable[[str, Mapping[str, Any]], dict[str, Any]]


def _delay(_: str, values: Mapping[str, Any]) -> dict[str, Any]:
    least_s, most_s = values["least_s"], values["most_s"]
    is_open = least_s < 0
    shift_s = _MINUTE_S if is_open else 0
    return {
        "lag_s": float(least_s + shift_s),
        "lag_most_s": float(most_s + shift_s) if most_s > least_s else None,
        "open_minute": is_open,
    }


def _idle(answer: str, _: Mapping[str, Any]) -> dict[str, Any]:
    return {"idle_publishes": _one_of(answer, {"publishes": True, "silent": False})}


def _attach(answer: str, values: Mapping[str, Any]) -> dict[str, Any]:
    if answer == "allowed":
        return {"attach_refused": False}
    return {"attach_refused": True, "attach_code": values["code"], "attach_message": values["message"]}


def _quota(_: str, values: Mapping[str, Any]) -> dict[str, Any]:
    if "code" not in values:
        raise _Unplayable
    return {
        "modify_rule": _one_of(values["accepted"], _RULES),
        "rate_code": values["code"],
        "rate_message": values["message"],
    }


def _no_op(answer: str, values: Mapping[str, Any]) -> dict[str, Any]:
    if "code" in values:
        return {"no_op_code": values["code"]}
    return {"no_op_counts": _one_of(answer, {"counts": True, "does not count": False}), "no_op_code": None}


def _record(_: str, values: Mapping[str, Any]) -> dict[str, Any]:
    minutes = values["minutes"]
    return {"record_days": None if minutes is None else minutes / (24 * 60)}


def _ratio(_: str, values: Mapping[str, Any]) -> dict[str, Any]:
    if "code" not in values:
        raise _Unplayable
    return {"ratio_code": values["code"]}


def _states(results: Any) -> tuple[str, ...]:
    if not set(results) <= set(STATES):
        raise _Unplayable
    return tuple(results)


def _named(setting: str, *answers: str) -> _Play:
    """A fact whose answers are the setting's own."""
    return lambda answer, _: {setting: _one_of(answer, {each: each for each in answers})}


def _one_of(answer: Any, known: Mapping[Any, Any]) -> Any:
    if answer not in known:
        raise _Unplayable
    return known[answer]


_PLAYED: Final[Mapping[str, _Play]] = {
    "balance-spacing": lambda _, values: {"balance_every_s": values["spacing_s"]},
    "balance-delay": _delay,
    "idle-publishes": _idle,
    "large-publishes": lambda answer, _: {"large_publish": _one_of(answer, {"100 %": True, "absent": False})},
    "gp3-defaults": _named("gp3_defaults", "matched", "least"),
    "balance-after-return": _named("balance_after", "kept", "refilled", "reset", "emptied"),
    "balance-after-resize": _named("balance_after_resize", "kept", "reset", "emptied"),
    "attach-while-modifying": _attach,
    "modification-quota": _quota,
    "no-op-counts": _no_op,
    "dry-run-checks": _named("dry_run_checks", "permission", "parameters", "state", "request"),
    "shown-while-modifying": _named("target_shown_from", "accepted", "optimizing", "completed"),
    "record-lifetime": _record,
    "ratio-refusal": _ratio,
    "tag-condition": _named("tag_condition", "enforced", "ignored", "always refused"),
    "type-condition": _named("type_condition", "current", "requested", "ignored", "absent"),
    "encrypted-alarm": lambda answer, _: {
        "alarms_deliver": _one_of(answer, {"delivered": True, "not delivered": False})
    },
    "event-results": lambda _, values: {"modify_event_results": _states(values["results"])},
    "zone-filter": lambda _, __: {},
    "tag-filter": lambda _, __: {},
}
"""What each fact's answer and values mean in settings; the two filters share one, see ``_filters``."""

_FILTERS: Final = {"zone-filter": "availability-zone", "tag-filter": "tag:*"}


def _filters(facts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Filters are applied after the cut if one is, but for those that were seen to be applied before it."""
    answers = {name: facts[name]["answer"] for name in _FILTERS if name in facts}
    if not any(answers.values()):
        return {}
    before = tuple(_FILTERS[name] for name, answer in answers.items() if answer == "before")
    is_after = "after" in answers.values()
    return {"filter_after_page": is_after, "filters_before_page": before if is_after else ()}
