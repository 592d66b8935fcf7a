import re
import shutil

import pytest
import yaml

from support.install.example_repository import CHANGELOG, commit, git, write
from support.paths import ROOT


@pytest.fixture(scope="module")
def pattern():
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    [hook] = [hook for hook in config["repos"][0]["hooks"] if hook["id"] == "commit-message"]
    assert (hook["language"], hook["args"]) == ("pygrep", ["--negate", "--multiline"])
    return re.compile(hook["entry"], re.MULTILINE | re.DOTALL)  # as pygrep compiles it with --multiline


@pytest.fixture
def repository(tmp_path):
    """A committed tree that only lacks what `make check` checks."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "release", tmp_path / ".ci")
    write(tmp_path, "pyproject.toml", '[project]\nversion = "1.2.0"\n')
    write(tmp_path, "CHANGELOG.md", CHANGELOG)
    write(tmp_path, "Makefile", "check:\n\t@echo no check passes; exit 1\n")
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path
