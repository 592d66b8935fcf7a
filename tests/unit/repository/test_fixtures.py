"""Fixtures are in conftest.py, where a reader of any test of the folder looks for them."""

import ast

from support.paths import ROOT


def fixtures_of(path):
    """The functions of a file that are fixtures."""
    text = path.read_text()
    if "@pytest.fixture" not in text and "@fixture" not in text:
        return []  # to parse every test takes seconds
    functions = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))
    return [
        function.name
        for function in functions
        if any(
            ast.unparse(mark).startswith(("pytest.fixture", "fixture")) for mark in function.decorator_list
        )
    ]


def test_only_a_conftest_defines_fixtures():
    assert "cli" in fixtures_of(ROOT / "tests" / "functional" / "conftest.py")
    others = (path for path in (ROOT / "tests").rglob("*.py") if path.name != "conftest.py")
    definitions = {
        path.relative_to(ROOT).as_posix(): names for path in others if (names := fixtures_of(path))
    }
    assert definitions == {}
