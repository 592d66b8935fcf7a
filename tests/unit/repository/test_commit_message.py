"""The hook that pre-commit runs on a commit's message; it lets a message pass if its pattern matches."""

import re

import pytest
import yaml

from support.paths import ROOT


@pytest.fixture(scope="module")
def pattern():
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    [hook] = [hook for hook in config["repos"][0]["hooks"] if hook["id"] == "commit-message"]
    assert (hook["language"], hook["args"]) == ("pygrep", ["--negate", "--multiline"])
    return re.compile(hook["entry"], re.MULTILINE | re.DOTALL)  # as pygrep compiles it with --multiline


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
