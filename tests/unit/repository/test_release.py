"""What a release refuses before it checks or builds anything."""

import os
import re
import subprocess

import pytest
from integrations import dist

from support.install.example_repository import CHANGELOG, commit, git, write
from support.paths import ROOT


def release(folder, *options):
    # as from a shell, although `make` may run this test
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = [folder / ".ci" / "release", *options]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    return ended.returncode, ended.stdout, ended.stderr


def assert_refused(folder, message):
    code, out, error = release(folder)
    assert (code, out) == (2, "")
    assert message in error


def test_all_that_is_lacking_is_named_at_once(repository):
    write(repository, "CHANGELOG.md", CHANGELOG.replace("## Unreleased\n", "## Unreleased\n\n- One more.\n"))
    assert_refused(repository, "uncommitted changes")
    assert_refused(repository, "entries below 'Unreleased'")
    assert_refused(repository, "'make release DRY_RUN=1' prints what would be published")


def test_a_dry_run_explains_the_publication_and_what_is_lacking_and_builds_nothing(repository):
    code, out, error = release(repository, "--dry-run")
    assert (code, error) == (0, "")
    assert "Nothing is lacking: run make release." in out
    write(repository, "new.py", "")
    code, out, error = release(repository, "--dry-run")
    assert (code, error) == (0, "")
    assert "Lacking: there are uncommitted changes; commit or remove them.\n" in out
    assert "git push origin main v1.2.0" in out
    assert not (repository / "build").exists()


def test_the_explanation_names_every_file_of_make_dist(repository):
    source = (ROOT / "integrations" / "dist.py").read_text()
    names = [
        name.replace("{version}", "1.2.0") for name in re.findall(r'"(burstwatch-{version}.+?)"', source)
    ]
    assert len(names) == 6
    _, out, _ = release(repository, "--dry-run")
    for name in (*names, "-py3-none-any.whl", ".tar.gz", ".deb", ".rpm", dist.PROVENANCE, dist.CHECKSUMS):
        assert name in out


def test_what_was_built_is_explained_and_has_its_notes(repository):
    write(repository, "Makefile", "check dist:\n\t@mkdir -p build dist\n")
    write(repository, ".gitignore", "build\ndist\n")
    commit(repository)
    code, out, error = release(repository)
    assert (code, error) == (0, "")
    assert "Version 1.2.0 is ready in dist/.\nTo publish version 1.2.0:\n" in out
    assert (repository / "build" / "release-notes.md").read_text() == "\n- A change.\n\n"


def test_nothing_is_built_if_the_check_fails(repository):
    code, out, _ = release(repository)
    assert code == 2
    assert out.startswith("no check passes")
    assert not (repository / "build").exists()


def test_uncommitted_changes_are_refused(repository):
    write(repository, "new.py", "")
    assert_refused(repository, "uncommitted changes")


@pytest.mark.parametrize(
    ("old", "new", "newest"),
    [
        ("## 1.2.0 - 2026-01-02", "## 1.3.0 - 2026-01-02", "1.3.0 - 2026-01-02"),
        ("## 1.2.0 - 2026-01-02\n", "", "1.1.0 - 2025-01-02"),
        ("## 1.2.0 - 2026-01-02", "## 1.2.0", "1.2.0"),
        ("## 1.2.0 - 2026-01-02", "## 1x2.0 - 2026-01-02", "1x2.0 - 2026-01-02"),
    ],
)
def test_a_version_without_its_own_dated_section_is_refused(repository, old, new, newest):
    write(repository, "CHANGELOG.md", CHANGELOG.replace(old, new))
    commit(repository)
    assert_refused(repository, f"newest section of CHANGELOG.md is '{newest}'")


def test_entries_that_belong_to_no_version_are_refused(repository):
    write(
        repository,
        "CHANGELOG.md",
        CHANGELOG.replace("## Unreleased\n", "## Unreleased\n\n- Another change.\n"),
    )
    commit(repository)
    assert_refused(repository, "entries below 'Unreleased'")


def test_a_tag_of_another_commit_is_refused_and_one_of_this_commit_is_not(repository):
    git(repository, "tag", "v1.2.0")
    assert release(repository)[1].startswith("no check passes")
    write(repository, "new.py", "")
    commit(repository)
    assert_refused(repository, "the tag v1.2.0 exists and names another commit")
