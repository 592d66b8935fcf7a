"""The hook that pre-commit runs on a commit's message; it lets a message pass if its pattern matches."""

import pytest


@pytest.mark.parametrize(
    "message",
    [
        "core: say why a volume has no trend",
        "docs: correct a link\n\nThe page has moved.\n",
        "lab/bench: measure one look\n# Please enter the commit message\n",
        "a: " + "x" * 69,
        "Merge branch 'main' into habits",
        'Revert "core: say why"',
        "fixup! core: say why",
    ],
)
def test_a_subject_with_an_area_passes(pattern, message):
    assert pattern.search(message)


@pytest.mark.parametrize(
    "message",
    [
        "",
        "say why a volume has no trend",
        "Core: say why",
        "core, docs: say why",
        "core:say why",
        "core: say why.",
        "core: ",
        "a: " + "x" * 70,
        "\ncore: say why",
        "say why\n\ncore: this is not the subject",
    ],
)
def test_any_other_subject_is_refused(pattern, message):
    assert not pattern.search(message)
