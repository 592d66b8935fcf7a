"""The core takes time and everything else as arguments: no clock, no files, no terminal, no world outside."""

import ast
from pathlib import Path

import pytest

import burstwatch.core

CORE = sorted(Path(burstwatch.core.__path__[0]).glob("**/*.py"))

# Modules of the standard library that compute and nothing else; zoneinfo looks up a table, not a clock.
PURE_SNIPPETS = {
    "abc", "bisect", "calendar", "collections", "collections.abc", "dataclasses", "datetime", "difflib",
    "enum", "functools", "hashlib", "heapq", "itertools", "json", "math", "operator", "re", "statistics",
    "typing", "unicodedata", "zoneinfo",
}  # fmt: skip
CLOCKS = {"now", "utcnow", "today"}
IMPURE_SNIPPETS = {"open", "print", "input", "breakpoint", "exec", "eval", "compile", "__import__"}


def find_impurities(source: str) -> list[str]:
    """What in this source reaches outside, each with its line; type checkers may read the documents."""
    results = []
    tree = ast.parse(source)
    for_types = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    types = [node for block in for_types for node in block.body]
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=module) if node in types and f"{module}.".startswith("documents."):
                pass
            case ast.Import(names=names):
                results += [
                    f"{node.lineno}: import {alias.name}"
                    for alias in names
                    if alias.name not in PURE_SNIPPETS
                ]
            case ast.ImportFrom(module=module, level=level):
                is_core = level == 0 and f"{module}.".startswith("burstwatch.core.")
                if not is_core and module not in PURE_SNIPPETS:
                    results.append(f"{node.lineno}: from {module}")
            case ast.Attribute(value=ast.Name(id=of) | ast.Attribute(attr=of), attr=name):
                results += (
                    [f"{node.lineno}: {of}.{name}"] if of in {"date", "datetime"} and name in CLOCKS else []
                )
            case ast.Name(id=name) if name in IMPURE_SNIPPETS:
                results.append(f"{node.lineno}: {name}")
    return results


@pytest.mark.parametrize("path", CORE, ids=lambda path: path.stem)
def test_the_core_reaches_for_nothing_outside(path):
    assert find_impurities(path.read_text()) == []


def test_there_is_a_core():
    assert {"assess", "decide", "forecast", "policy", "severity"} <= {path.stem for path in CORE}


@pytest.mark.parametrize(
    ("source", "impurity"),
    [
        ("import boto3", "1: import boto3"),
        ("import os.path", "1: import os.path"),
        ("import time", "1: import time"),
        ("import logging as quiet", "1: import logging"),
        ("from random import choice", "1: from random"),
        ("from . import alerts", "1: from None"),
        ("from burstwatch.adapters import ec2", "1: from burstwatch.adapters"),
        ("def late():\n    from pathlib import Path", "2: from pathlib"),
        ("x = datetime.now()", "1: datetime.now"),
        ("x = dt.datetime.utcnow()", "1: datetime.utcnow"),
        ("clock = date.today", "1: date.today"),
        ("print('here')", "1: print"),
        ("with open('f') as f: pass", "1: open"),
        ("answer = input()", "1: input"),
        ("read = open", "1: open"),
        ("from documents.report import ReportDocument", "1: from documents.report"),
        ("if TYPE_CHECKING:\n    import boto3", "2: import boto3"),
    ],
)
def test_the_ways_outside_are_seen(source, impurity):
    assert find_impurities(source) == [impurity]


@pytest.mark.parametrize(
    "source",
    [
        "from burstwatch.core.assessment.severity import Level",
        "from datetime import UTC, datetime\nx = datetime.fromtimestamp(0, tz=UTC)",
        "price = prices.now + 1",
        "from collections.abc import Mapping",
        "if TYPE_CHECKING:\n    from documents.report import ReportDocument",
    ],
)
def test_what_only_computes_is_left_alone(source):
    assert find_impurities(source) == []
