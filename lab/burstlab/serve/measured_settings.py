"""The settings under which the lab behaves as ``burstctl aws-check`` measured AWS, from its report."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from burstlab.model.modification import STATES
from burstwatch.core.durations import MINUTE_S
from burstwatch.core.errors import BurstwatchError

_SCHEMA: Final = "burstwatch.aws-check/v1"
_RULES_BY_COUNT: Final = {4: "four_per_day", 1: "six_hours"}


class ReportError(BurstwatchError):
    """The report cannot be used; the message says why."""


class _UnsupportedAnswerError(Exception):
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


def settings_from_report(report: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
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
    for name, convert in _CONVERTERS.items():
        fact = facts.get(name)
        if fact is None or fact["answer"] is None:
            unknown.append(f"{name}: no answer in the report")
            continue
        try:
            changes |= convert(fact["answer"], fact["values"])
        except _UnsupportedAnswerError:
            unknown.append(f"{name}: the lab cannot play {fact['answer']!r}")
        except KeyError as error:
            raise ReportError(f"{name} lacks the value {error} in the report: measure it again") from error
        except TypeError as error:
            raise ReportError(f"{name} has a value of another kind: measure it again") from error
    return changes | _convert_filters(facts), unknown


_Converter = Callable[[str, Mapping[str, Any]], dict[str, Any]]


def _convert_delay(_: str, values: Mapping[str, Any]) -> dict[str, Any]:
    min_s, max_s = values["least_s"], values["most_s"]
    is_open = min_s < 0
    shift_s = MINUTE_S if is_open else 0
    return {
        "lag_s": float(min_s + shift_s),
        "lag_most_s": float(max_s + shift_s) if max_s > min_s else None,
        "open_minute": is_open,
    }


def _convert_idle(answer: str, _: Mapping[str, Any]) -> dict[str, Any]:
    return {"idle_publishes": _look_up(answer, {"publishes": True, "silent": False})}


def _convert_attach(answer: str, values: Mapping[str, Any]) -> dict[str, Any]:
    if answer == "allowed":
        return {"attach_refused": False}
    return {"attach_refused": True, "attach_code": values["code"], "attach_message": values["message"]}


def _convert_quota(_: str, values: Mapping[str, Any]) -> dict[str, Any]:
    if "code" not in values:
        raise _UnsupportedAnswerError
    return {
        "modify_rule": _look_up(values["accepted"], _RULES_BY_COUNT),
        "rate_code": values["code"],
        "rate_message": values["message"],
    }


def _convert_no_op(answer: str, values: Mapping[str, Any]) -> dict[str, Any]:
    if "code" in values:
        return {"no_op_code": values["code"]}
    return {"no_op_counts": _look_up(answer, {"counts": True, "does not count": False}), "no_op_code": None}


def _convert_record_lifetime(_: str, values: Mapping[str, Any]) -> dict[str, Any]:
    minutes = values["minutes"]
    return {"record_days": None if minutes is None else minutes / (24 * 60)}


def _convert_ratio(_: str, values: Mapping[str, Any]) -> dict[str, Any]:
    if "code" not in values:
        raise _UnsupportedAnswerError
    return {"ratio_code": values["code"]}


def _check_states(results: Any) -> tuple[str, ...]:
    if not set(results) <= set(STATES):
        raise _UnsupportedAnswerError
    return tuple(results)


def _choice_converter(setting: str, *answers: str) -> _Converter:
    """A converter for a fact whose answers are the setting's own values."""
    return lambda answer, _: {setting: _look_up(answer, {choice: choice for choice in answers})}


def _look_up(answer: Any, choices: Mapping[Any, Any]) -> Any:
    if answer not in choices:
        raise _UnsupportedAnswerError
    return choices[answer]


_CONVERTERS: Final[Mapping[str, _Converter]] = {
    "balance-spacing": lambda _, values: {"balance_every_s": values["spacing_s"]},
    "balance-delay": _convert_delay,
    "idle-publishes": _convert_idle,
    "large-publishes": lambda answer, _: {
        "large_publish": _look_up(answer, {"100 %": True, "absent": False})
    },
    "gp3-defaults": _choice_converter("gp3_defaults", "matched", "least"),
    "balance-after-return": _choice_converter("balance_after", "kept", "refilled", "reset", "emptied"),
    "balance-after-resize": _choice_converter("balance_after_resize", "kept", "reset", "emptied"),
    "attach-while-modifying": _convert_attach,
    "modification-quota": _convert_quota,
    "no-op-counts": _convert_no_op,
    "dry-run-checks": _choice_converter("dry_run_checks", "permission", "parameters", "state", "request"),
    "shown-while-modifying": _choice_converter("target_shown_from", "accepted", "optimizing", "completed"),
    "record-lifetime": _convert_record_lifetime,
    "ratio-refusal": _convert_ratio,
    "tag-condition": _choice_converter("tag_condition", "enforced", "ignored", "always refused"),
    "type-condition": _choice_converter("type_condition", "current", "requested", "ignored", "absent"),
    "encrypted-alarm": lambda answer, _: {
        "alarms_deliver": _look_up(answer, {"delivered": True, "not delivered": False})
    },
    "event-results": lambda _, values: {"modify_event_results": _check_states(values["results"])},
    "zone-filter": lambda _, __: {},
    "tag-filter": lambda _, __: {},
}
"""What each fact's answer and values mean in settings.

The two filters share one, see ``_convert_filters``.
"""

_FILTERS: Final = {"zone-filter": "availability-zone", "tag-filter": "tag:*"}


def _convert_filters(facts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Filters are applied after the cut if one is, but for those that were seen to be applied before it."""
    answers = {name: facts[name]["answer"] for name in _FILTERS if name in facts}
    if not any(answers.values()):
        return {}
    filters_before_page = tuple(_FILTERS[name] for name, answer in answers.items() if answer == "before")
    is_filtered_after_page = "after" in answers.values()
    return {
        "filter_after_page": is_filtered_after_page,
        "filters_before_page": filters_before_page if is_filtered_after_page else (),
    }
