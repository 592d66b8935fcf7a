"""Commands of pages that other tests run, where there is what they need: by their page and how they begin.

A test that runs one asks here for it, so that it runs what stands there; ``test_pages.py`` counts who asks.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from support.paths import ROOT
from support.runbooks.page_parser import Command, Page


def page_command(page: str, beginning: str) -> Command:
    """The command of a page that begins so, or is that but for its comment; it may stand there twice."""
    return _lines(page, beginning)[0]


def _lines(page: str, beginning: str) -> list[Command]:
    result = [item for item in Page.read(ROOT / page).commands if item.text.startswith(beginning)]
    result = [item for item in result if without_comment(item.text) == beginning] or result
    texts = {item.text for item in result}
    assert len(texts) == 1, f"{page} has {len(texts)} commands that begin with {beginning!r}, not one"
    return result


def without_comment(text: str) -> str:
    """The command alone."""
    return text.partition("  #")[0].strip()


def commands_run_elsewhere() -> Iterator[tuple[Path, int, str]]:
    """Page, line number and the test that asks for the command there."""
    tests = ROOT / "tests"
    for path in sorted([*tests.rglob("test_*.py"), *tests.rglob("conftest.py")]):
        text = path.read_text()
        if "page_command(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Call(
                    func=ast.Name("page_command"),
                    args=[ast.Constant(str(page)), ast.Constant(str(beginning))],
                ):
                    name = str(path.relative_to(ROOT))
                    yield from ((ROOT / page, line.line, name) for line in _lines(page, beginning))
