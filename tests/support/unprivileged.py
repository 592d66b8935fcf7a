"""A user without rights, for tests as root."""

import os

import pytest

UNPRIVILEGED_ID = 65534


def needs_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to be another user")
