"""Every error that burstctl can print keeps its cause and its next step apart."""

import ast
from pathlib import Path

import pytest

import burstctl
import burstwatch

FOLDERS = (
    Path(burstctl.__file__).parent,
    Path(burstwatch.__file__).parent / "adapters/ledger",
    Path(burstwatch.__file__).parent / "wiring",
)
WITH_FIX = {  # errors for people; the second part is an argument, not a part of the sentence
    *("BurstwatchError", "LedgerError", "SettingsError", "CsvError", "JournalError", "WriteError"),
    *("OutputError", "NothingToPlotError", "NothingToSimulateError", "PolicyConflictError"),
    *("RunDirectoryError", "RunbookNotFoundError", "ResourceNameError", "UnreachableWatchdogError"),
}
WITH_PROBLEM = {"UsageError", "fail", "print_error", "print_warning"}


def complaints_without_fix(source: str) -> list[tuple[int, str]]:
    """Lines with an error whose only part is a literal sentence."""
    complaints = []
    for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if not call.args or not isinstance(call.args[0], ast.Constant | ast.JoinedStr):
            continue
        has_fix = any(keyword.arg == "fix" for keyword in call.keywords)
        if name in WITH_PROBLEM or (name in WITH_FIX and not has_fix):
            complaints.append((call.lineno, ast.unparse(call)))
    return complaints


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_each_error_has_a_cause_and_a_fix(folder):
    complaints = {
        f"{path.relative_to(folder)}:{line}": text
        for path in sorted(folder.rglob("*.py"))
        for line, text in complaints_without_fix(path.read_text())
    }

    assert complaints == {}


def test_the_search_finds_a_sentence_that_holds_both():
    assert complaints_without_fix('raise click.UsageError("give one of them")')
    assert complaints_without_fix('raise SettingsError(f"{path} is taken: name another")')
    assert not complaints_without_fix('raise SettingsError("it is taken", fix="name another")')
    assert not complaints_without_fix('self.fail(Problem("it is empty", "give one"), param, ctx)')
