"""Every number and switch that the core states outside functions, next to `limits.txt`.

`make mutants` changes what functions do. A limit, a price or a default that changes is one line in the
difference after `pytest tests/unit --rewrite`.
"""

import ast
import importlib
import inspect
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path

from support.paths import ROOT

LIMITS = Path(__file__).with_name("limits.txt")
SOURCES = ROOT / "lambdas"


def test_limits_and_defaults_are_as_listed(request):
    limits = "".join(f"{line}\n" for line in limits_of_core())
    if request.config.getoption("--rewrite"):
        LIMITS.write_text(limits)
    assert limits == LIMITS.read_text(), "if this is meant, rewrite it with --rewrite and read the difference"


def limits_of_core():
    for path in sorted((SOURCES / "burstwatch" / "core").rglob("*.py")):
        module_name = ".".join(path.relative_to(SOURCES).with_suffix("").parts)
        module, name = importlib.import_module(module_name), module_name.removeprefix("burstwatch.core.")
        for node in ast.parse(path.read_text()).body:
            match node:
                case ast.AnnAssign(target=ast.Name(id=own)) | ast.Assign(targets=[ast.Name(id=own)]):
                    yield from limits_in(f"{name}.{own}", getattr(module, own))
                case ast.ClassDef(name=own) | ast.FunctionDef(name=own):
                    yield from defaults_in(f"{name}.{own}", getattr(module, own))


def limits_in(name, value):
    """The numbers in a value, a line each; words and what is made of functions have none."""
    if is_dataclass(value) and not isinstance(value, type):
        value = {f".{field.name}": getattr(value, field.name) for field in fields(value)}
    elif isinstance(value, Mapping):
        value = {f"[{key}]": item for key, item in value.items()}
    elif isinstance(value, partial):
        value = {f"({key})": item for key, item in value.keywords.items()}
    elif isinstance(value, tuple) and not all(isinstance(item, (int, float)) for item in value):
        value = {f"[{index}]": item for index, item in enumerate(value)}
    if isinstance(value, dict):
        for key, item in value.items():
            yield from limits_in(f"{name}{key}", item)
    elif value != () and isinstance(value, (bool, int, float, date, datetime, timedelta, tuple)):
        yield f"{name} = {value}"


def defaults_in(name, value):
    """What may be left out: a field of a dataclass, or a parameter of a function or method."""
    if inspect.isclass(value):
        if is_dataclass(value):
            for field in fields(value):
                if field.default is not MISSING:
                    yield from limits_in(f"{name}.{field.name}", field.default)
        for own, item in vars(value).items():
            if inspect.isfunction(item) and own != "__init__":
                yield from defaults_in(f"{name}.{own}", item)
    elif inspect.isfunction(value):
        for parameter in inspect.signature(value).parameters.values():
            yield from limits_in(f"{name}({parameter.name})", parameter.default)
