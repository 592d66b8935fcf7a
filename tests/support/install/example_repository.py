"""A repository to release."""

import subprocess

CHANGELOG = "# Changelog\n\n## Unreleased\n\n## 1.2.0 - 2026-01-02\n\n- A change.\n\n## 1.1.0 - 2025-01-02\n"


def write(folder, name, text):
    (folder / name).write_text(text)


def git(folder, *arguments):
    identity = ["-c", "user.name=Anna", "-c", "user.email=anna@example.com"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True)


def commit(folder):
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "all: change")
