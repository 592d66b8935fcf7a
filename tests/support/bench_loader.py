"""Benches and checks as modules: they are scripts in folders that are not on the import path."""

from importlib import import_module

import pytest

from support.paths import ROOT

BENCHES = ROOT / "lab" / "bench"
CHECKS = ROOT / "lab" / "checks"


def load_bench(name):
    """The bench of this name, such as ``cost/stack_cost``, with what it imports from its folder."""
    path = BENCHES / name
    return _load(path.parent, path.name)


def load_check(name):
    """The check of this name, with the modules that it imports from its folder."""
    return _load(CHECKS, name)


def _load(folder, name):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        return import_module(name)


VOLUMES = 120


prose = load_check("prose")
