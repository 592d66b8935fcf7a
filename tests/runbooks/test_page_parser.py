"""How pages are read, compared and rewritten."""

import pytest

from support.runbooks.example_page import TEXT
from support.runbooks.page_parser import Page, matches_page, updated_output


def test_a_command_is_what_a_shell_takes_for_one_and_the_rest_is_its_output(page):
    tail, stack, loop, true = page.commands
    assert tail.text.splitlines()[1].endswith("""'{ $.level = "ERROR" }'""")
    assert (tail.expected_output, tail.directives) == (["nothing, it isn't"], ["5 min later"])
    assert stack.text.endswith("; }")
    assert (stack.expected_output, stack.directives) == ([], [])
    assert loop.text.splitlines()[-1] == "  done"
    assert loop.expected_output == ["a", "", "b"]
    assert (true.text, true.line) == ("true", 25)


def test_new_output_takes_the_place_of_the_old_with_its_indentation(page):
    assert page.rewrite({0: ["something", "else"], 2: ["a", "", "b"]})
    assert page.path.read_text() == TEXT.replace("   nothing, it isn't\n", "   something\n   else\n")
    assert not Page.read(page.path).rewrite({0: ["something", "else"]})


@pytest.mark.parametrize(
    ("documented", "output"),
    [
        (["a", "b"], ["a", "b"]),
        (["a", "…"], ["a", "b", "c"]),
        (["a", "…"], ["a"]),
        (["…", "c"], ["a", "b", "c"]),
        (["a", "…", "c"], ["a", "c"]),
        (["took … s"], ["took 1.25 s"]),
        (["a"], ["policy: x", "ledger:", "  sqlite:/y", "a"]),
        (["policy: x", "a"], ["policy: x", "a"]),
    ],
)
def test_an_ellipsis_replaces_what_is_left_out(documented, output):
    assert matches_page(documented, output)


@pytest.mark.parametrize(
    ("documented", "output"),
    [
        (["a"], ["a", "b"]),
        (["a", "…"], ["b", "a"]),
        (["a", "…", "c"], ["a", "b"]),
        (["took … s"], ["took  ms"]),
        (["a"], ["a", "policy: x"]),
        (["?"], ["anything"]),
    ],
)
def test_whatever_else_differs_is_a_difference(documented, output):
    assert not matches_page(documented, output)


def test_what_was_left_out_is_left_out_again():
    documented = ["first 1", "…", "level   ok", "balance 5 %", "…"]
    text = ["first 2", "more", "level   warning", "balance 6 %", "end"]
    assert updated_output(documented, text) == ["first 2", "…", "level   warning", "balance 6 %", "…"]


def test_a_line_keeps_its_ellipsis_while_it_fits_and_a_question_mark_requests_everything():
    assert updated_output(["by …: x", "old"], ["by anna: x", "new"]) == ["by …: x", "new"]
    assert updated_output(["?"], ["policy: p", "a", "b"]) == ["a", "b"]


def test_what_differs_from_run_to_run_is_left_out():
    text = ["at http://127.0.0.1:4711/x, 10 MB copied, 0.1 s, 623 MB/s"]
    assert updated_output(["?"], text) == ["at …/x, 10 MB copied, … s, …"]
