"""The scripts in integrations/ as modules: they are in folders that are not on the import path."""

import importlib.util
import sys

from support.paths import ROOT


def load_artefact_script(name):
    """The script of this name, such as ``container/build``."""
    module_name = name.replace("/", "_")
    spec = importlib.util.spec_from_file_location(module_name, ROOT / "integrations" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
