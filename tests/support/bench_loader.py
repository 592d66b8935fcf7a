"""Benches as modules: they are scripts in a folder that is on nobody's path."""

from importlib import import_module

import pytest

from support.paths import ROOT

BENCHES = ROOT / "lab" / "bench"


def load_bench(name):
    """The module of this name, with those it imports by its side."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHES)
        return import_module(name)
