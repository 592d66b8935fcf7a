"""The script that uploads a release, and what it needs."""

from support.paths import ROOT

SCRIPT = ROOT / "infra" / "upload.sh"


TOOLS = ("bash", "cat", "cut", "dirname", "echo", "env", "grep", "sed", "sort", "xargs", "sha256sum")
