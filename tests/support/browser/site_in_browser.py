"""The documentation site in a browser."""

import subprocess
import sys

from support.paths import ROOT


def build_site(source, target):
    """Sphinx on a folder, as ``make docs`` runs it."""
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going"]
    folders = ["--doctree-dir", f"{target}-cache", "--conf-dir", str(ROOT / "documents" / "site")]
    return subprocess.run(
        [*command, *folders, str(source), str(target)], capture_output=True, text=True, check=False
    )


def show_theme(browser, name):
    features = [{"name": "prefers-color-scheme", "value": name}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})
