"""What make dist builds: its scripts, which are in folders that are not on the import path, and its bills."""

import importlib.util
import re
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


def assert_bill_is_complete(components):
    """Check that each has a name, a version, a license, a checksum and a package URL."""
    assert components
    for component in components:
        assert component["name"]
        assert component["version"]
        assert component["licenses"][0]["license"]["name"], component["name"]
        [checksum] = component["hashes"]
        assert checksum["alg"] == "SHA-256"
        assert re.fullmatch("[0-9a-f]{64}", checksum["content"])
        purl = r"pkg:(pypi/[a-z0-9.-]+|deb/debian/[a-z0-9.+-]+)@[A-Za-z0-9.:~%-]+(\?[A-Za-z0-9._=&%-]+)?"
        assert re.fullmatch(purl, component["purl"]), component["purl"]
