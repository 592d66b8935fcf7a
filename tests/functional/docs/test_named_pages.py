"""What is printed names only pages that an installed wheel has."""

import ast
import re

import pytest

from burstctl.runbook.pages import list_pages, read_page
from support.paths import ROOT

SOURCES = [
    path
    for folder in ("runbooks/burstctl", "lambdas/burstwatch")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
FOR_A_CHECKOUT = "runbooks/burstctl/init/files.py"
"""What it writes is deployed from a checkout, which has the page."""
DOCS_PAGE = re.compile(r"docs/[\w./-]+")


def printed_strings(tree):
    """The strings of a module, without those that are statements: docstrings."""
    silent = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent:
            yield node.value


def test_no_output_names_a_page_that_a_wheel_lacks():
    sources = {path: text for path in SOURCES if "docs" in (text := path.read_text())}
    named = {
        str(path.relative_to(ROOT)): page[0]
        for path, source in sources.items()
        for text in printed_strings(ast.parse(source))
        if (page := DOCS_PAGE.search(text))
    }

    assert named.keys() == {FOR_A_CHECKOUT}
    assert (ROOT / named[FOR_A_CHECKOUT]).is_file()


@pytest.mark.parametrize("name", [page.name for page in list_pages()])
def test_a_link_out_of_the_pages_names_the_repository(name):
    text = read_page(name)

    assert [
        page for page in re.findall(r"\(docs/[^)]*\)", text) if not page.endswith(" in the repository)")
    ] == []
