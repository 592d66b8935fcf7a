"""The ``aws`` command, as far as the pages use it: every name in it checked against AWS's own models.

It reads a command line as version 2 of the AWS CLI does, makes the call, and prints as it prints.
``test_aws_by_model.py`` compares the two where the real one is installed.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jmespath
from botocore import xform_name
from botocore.exceptions import ClientError, ParamValidationError

USAGE_EXIT_CODE, SERVICE_ERROR_EXIT_CODE = 252, 254
_SERVICES = {"s3api": "s3"}
"""What the command calls otherwise than boto3."""
_GLOBAL = {"region", "profile", "output", "query", "cli-binary-format"}
_SPANS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class UsageError(Exception):
    """The command line is not one that the aws command would take."""


@dataclass
class FakeAwsCli:
    """Runs command lines with the clients it is given; ``now`` is the time for ``logs tail``."""

    client: Callable[[str], Any]
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))

    def run(self, arguments: Sequence[str]) -> tuple[int, str, str]:
        """Exit code, stdout and stderr."""
        try:
            return 0, self._run(list(arguments)), ""
        except (UsageError, ParamValidationError) as error:
            return USAGE_EXIT_CODE, "", f"\naws: [ERROR]: {error}\n"
        except ClientError as error:
            text = re.sub(r" \(reached max retries: \d+\)", "", str(error))
            return SERVICE_ERROR_EXIT_CODE, "", f"\n{text}\n"

    def _run(self, arguments: list[str]) -> str:
        if len(arguments) < 2:
            raise UsageError("the following arguments are required: a service and an operation")
        service, name, *rest = arguments
        positional, options = _options(rest)
        global_options = {key: options.pop(key, [None])[-1] for key in _GLOBAL}
        client = self.client(_SERVICES.get(service, service))
        if (service, name) == ("logs", "tail"):
            return self._tail(client, positional, options)
        operations = {
            xform_name(operation_name, "-"): operation_name
            for operation_name in client.meta.service_model.operation_names
        }
        if name not in operations:
            raise UsageError(f"argument operation: Found invalid choice {name!r}")
        model = client.meta.service_model.operation_model(operations[name])
        outfile = positional.pop() if operations[name] == "Invoke" and positional else None
        if positional:
            raise UsageError(f"Unknown options: {', '.join(positional)}")
        answer = _call(client, model, _arguments(model, options))
        before = ""
        if outfile is not None:
            before = _put(answer.pop("Payload").read(), outfile)
        answer.pop("ResponseMetadata", None)
        answer = _plain(answer)
        if global_options["query"]:
            answer = jmespath.search(global_options["query"], answer)
        if global_options["output"] not in _FORMATS:
            raise UsageError(
                f"--output {global_options['output']}: this test knows {', '.join(filter(None, _FORMATS))}"
            )
        return before + _FORMATS[global_options["output"]](answer)

    def _tail(self, client: Any, positional: Sequence[str], options: dict[str, list[str]]) -> str:
        """``logs tail`` is not an operation of AWS but a loop of the command around one."""
        known = {"since", "follow", "format", "filter-pattern", "log-stream-names", "log-stream-name-prefix"}
        if wrong := set(options) - known:
            raise UsageError(f"Unknown options: {', '.join(sorted(wrong))}")
        if len(positional) != 1:
            raise UsageError("the following arguments are required: group_name")
        begins_at = self.now() - _span(options.get("since", ["10m"])[0])
        parameters = {"logGroupName": positional[0], "startTime": int(begins_at.timestamp() * 1000)}
        if "filter-pattern" in options:
            parameters["filterPattern"] = options["filter-pattern"][0]
        pages = client.get_paginator("filter_log_events").paginate(**parameters)
        is_matching = _pattern(parameters.get("filterPattern", ""))
        events = [event for page in pages for event in page["events"] if is_matching(event["message"])]
        is_short = options.get("format", ["detailed"])[0] == "short"
        return "".join(_log_line(event, is_short=is_short) for event in events)


def _put(payload: bytes, outfile: str) -> str:
    """Write what a function answered to the requested file; what is then seen of it."""
    if outfile == "/dev/stdout":
        return payload.decode()
    Path(outfile).write_bytes(payload)
    return ""


def _pattern(text: str) -> Callable[[str], bool]:
    """What CloudWatch Logs would let through; moto takes every pattern and lets everything through."""
    if not text:
        return lambda _: True
    if re.fullmatch(r"(\?\w+ ?)+", text):
        return lambda message: any(word in message for word in text.replace("?", "").split())
    alternatives = re.findall(r'\$\.(\w+) = "(\w+)"', text)
    if text != "{ " + " || ".join(f'$.{key} = "{value}"' for key, value in alternatives) + " }":
        raise UsageError(
            f'--filter-pattern {text}: this test knows ?Word ?Word and {{ $.key = "value" || … }}'
        )

    def is_matching(message: str) -> bool:
        record = json.loads(message) if message.startswith("{") else {}
        return any(record.get(key) == value for key, value in alternatives)

    return is_matching


def _log_line(event: Mapping[str, Any], *, is_short: bool) -> str:
    at = datetime.fromtimestamp(event["timestamp"] / 1000, tz=UTC)
    if is_short:
        return f"{at:%Y-%m-%dT%H:%M:%S} {event['message'].strip()}\n"
    return f"{at.isoformat(timespec='microseconds')} {event['logStreamName']} {event['message'].strip()}\n"


def _span(text: str) -> timedelta:
    result = re.fullmatch(r"(\d+)([smhdw])", text)
    if not result:
        raise UsageError(f"--since {text}: this test knows 30m, 3h, 2d")
    return timedelta(**{_SPANS[result[2]]: int(result[1])})


def _options(arguments: Sequence[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Positional words, and the values of each option; a value may begin with a hyphen only as a number."""
    positional: list[str] = []
    options: dict[str, list[str]] = {}
    current: list[str] | None = None
    for word in arguments:
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            if name in options:
                raise UsageError(f"--{name} is given twice")
            current = options[name] = [value] if value else []
        elif current is None or (len(current) == 1 and _takes_one(options, current)):
            positional.append(word)
        else:
            current.append(word)
    return positional, options


def _takes_one(options: Mapping[str, list[str]], values: list[str]) -> bool:
    name = next(name for name, held in options.items() if held is values)
    return name in {*_GLOBAL, "since", "filter-pattern", "format", "function-name", "payload"}


def _call(client: Any, model: Any, arguments: Mapping[str, Any]) -> Any:
    """The whole answer, as the command gives it: of all its pages."""
    method = xform_name(model.name)
    if client.can_paginate(method):
        return client.get_paginator(method).paginate(**arguments).build_full_result()
    return getattr(client, method)(**arguments)


def _arguments(model: Any, options: Mapping[str, list[str]]) -> dict[str, Any]:
    members = model.input_shape.members if model.input_shape else {}
    names = {xform_name(name, "-"): name for name in members}
    arguments: dict[str, Any] = {}
    for option, values in options.items():
        is_negated = option.startswith("no-") and option[3:] in names
        name = names.get(option[3:] if is_negated else option)
        if name is None:
            raise UsageError(f"Unknown options: --{option}")
        shape = members[name]
        if shape.type_name == "boolean":
            if values:
                raise UsageError(f"--{option} takes no value")
            arguments[name] = not is_negated
        elif not values:
            raise UsageError(f"argument --{option}: expected one argument")
        elif getattr(shape, "serialization", {}).get("streaming"):  # the command takes the name of a file
            [path] = values
            arguments[name] = Path(path).read_bytes()
        else:
            arguments[name] = _value(shape, [_unpacked(value) for value in values], option)
    return arguments


def _unpacked(value: str) -> str:
    return Path(value.removeprefix("file://")).read_text() if value.startswith("file://") else value


def _value(shape: Any, values: list[str], option: str) -> Any:
    if shape.type_name in ("list", "structure", "map") and values[0].lstrip()[:1] in ("[", "{"):
        document = json.loads(values[0])
        return [document] if shape.type_name == "list" and isinstance(document, dict) else document
    if shape.type_name == "list":
        return [_member(shape.member, value, option) for value in values]
    if len(values) != 1:
        raise UsageError(f"Unknown options: {', '.join(values[1:])}")
    return _member(shape, values[0], option)


def _member(shape: Any, value: str, option: str) -> Any:
    """One value: a scalar, or ``Key=Value,Key=Value,Value`` for a structure of them."""
    match shape.type_name:
        case "structure":
            return _structure(shape, value, option)
        case "integer" | "long":
            if not re.fullmatch(r"-?\d+", value):
                raise UsageError(f"--{option}: invalid literal for int: {value!r}")
            return int(value)
        case "float" | "double":
            return float(value)
        case "boolean":
            return value.lower() == "true"
        case "blob":
            return value.encode()
        case _:
            if (known := getattr(shape, "enum", None)) and value not in known:
                raise UsageError(f"--{option}: {value!r} is none of {', '.join(known)}")
            return value


def _structure(shape: Any, value: str, option: str) -> dict[str, Any]:
    held: dict[str, list[str]] = {}
    current: list[str] = []
    for part in value.split(","):
        key, is_key, rest = part.partition("=")
        if is_key:
            current = held[key] = [rest]
        else:
            current.append(part)
    for key in held:
        if key not in shape.members:
            raise UsageError(
                f"Unknown parameter in input: {key!r}, must be one of {', '.join(shape.members)}"
            )
    return {key: _value(shape.members[key], values, option) for key, values in held.items()}


def _as_json(answer: Any) -> str:
    if answer == {}:
        return ""
    return json.dumps(answer, indent=4, ensure_ascii=False) + "\n"


def _plain(value: Any) -> Any:
    """With times as the command has them before it queries: text."""
    match value:
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case list():
            return [_plain(item) for item in value]
        case datetime():
            return value.astimezone(UTC).isoformat()
        case _:
            return value


def _as_text(answer: Any) -> str:
    if answer in ({}, []):
        return ""
    if isinstance(answer, list) and any(isinstance(item, list | dict) for item in answer):
        if any(isinstance(cell, list | dict) for row in answer for cell in row):
            raise UsageError("this test cannot show that as text: query less, or show it as json")
        return "".join("\t".join(str(cell) for cell in row) + "\n" for row in answer)
    if isinstance(answer, dict):
        raise UsageError("this test cannot show that as text: query less, or show it as json")
    return "\t".join(map(str, answer if isinstance(answer, list) else [answer])) + "\n"


_FORMATS: dict[str | None, Callable[[Any], str]] = {None: _as_json, "json": _as_json, "text": _as_text}
