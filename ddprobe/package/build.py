#!/usr/bin/env python3
"""Builds ddprobe's .deb and .rpm from this folder; the same sources give the same .deb, byte for byte.

ddprobe/package/build.py [FOLDER]      into FOLDER, ./build by default; needs dpkg-deb and rpmbuild
"""

import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAM = HERE.parent / "ddprobe.py"
MODIFIED = 1_767_225_600
"""Every file's time, 1 January 2026: a package depends on its sources only."""

PLACES = {
    PROGRAM: ("usr/bin/ddprobe", 0o755),
    HERE / "ddprobe.service": ("usr/lib/systemd/system/ddprobe.service", 0o644),
    HERE / "ddprobe-run.service": ("usr/lib/systemd/system/ddprobe-run.service", 0o644),
    HERE / "ddprobe.timer": ("usr/lib/systemd/system/ddprobe.timer", 0o644),
    HERE / "ddprobe.default": ("etc/default/ddprobe", 0o644),
    HERE / "ddprobe.cron": ("etc/cron.d/ddprobe", 0o644),
    HERE.parent / "ddprobe.md": ("usr/share/doc/ddprobe/ddprobe.md", 0o644),
    HERE.parent / "ddprobe_example.txt": ("usr/share/doc/ddprobe/ddprobe_example.txt", 0o644),
}
CONFIGURATION = ("etc/default/ddprobe", "etc/cron.d/ddprobe")


def main() -> int:
    """Build what the tools of this machine allow; 1 when one of the two is missing."""
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "build").resolve()
    out.mkdir(parents=True, exist_ok=True)
    version = version_of(PROGRAM.read_text(encoding="utf-8"))
    missing = 0
    with tempfile.TemporaryDirectory(prefix="ddprobe-package-") as scratch:
        root = Path(scratch, "root")
        lay_out(root)
        for tool, package, build in (("dpkg-deb", "dpkg", build_deb), ("rpmbuild", "rpm", build_rpm)):
            if shutil.which(tool):
                print(build(Path(scratch), root, out, version))
            else:
                print(f"no {tool} on this machine: install Debian's package {package}", file=sys.stderr)
                missing = 1
    return missing


def version_of(source: str) -> str:
    """Read the version from the program, where it stands once."""
    found = re.search(r'^VERSION: Final = "([0-9.]+)"$', source, re.MULTILINE)
    if found is None:
        raise SystemExit(f"{PROGRAM} names no VERSION")
    return found[1]


def lay_out(root: Path) -> None:
    """Put every file where it belongs on a host."""
    for source, (place, mode) in PLACES.items():
        target = root / place
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        target.chmod(mode)
    manual = root / "usr/share/man/man1/ddprobe.1.gz"
    manual.parent.mkdir(parents=True)
    manual.write_bytes(gzip.compress((HERE / "ddprobe.1").read_bytes(), mtime=0))
    for path in [root, *root.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)
        os.utime(path, (MODIFIED, MODIFIED))


def build_deb(scratch: Path, root: Path, out: Path, version: str) -> Path:
    """Pack the tree with its control files."""
    tree = scratch / "deb"
    shutil.copytree(root, tree)
    control = tree / "DEBIAN"
    control.mkdir(mode=0o755)
    size_kib = sum(path.stat().st_size for path in root.rglob("*") if path.is_file()) // 1024
    text = (
        (HERE / "control.in").read_text().replace("@VERSION@", version).replace("@SIZE_KIB@", str(size_kib))
    )
    (control / "control").write_text(text)
    (control / "conffiles").write_text("".join(f"/{place}\n" for place in CONFIGURATION))
    for name in ("postinst", "prerm", "postrm"):
        shutil.copyfile(HERE / name, control / name)
        (control / name).chmod(0o755)
    for path in [tree, *tree.rglob("*")]:
        os.utime(path, (MODIFIED, MODIFIED))
    package = out / f"ddprobe_{version}_all.deb"
    run("dpkg-deb", "--root-owner-group", "-Zxz", "--build", tree, package)
    return package


def build_rpm(scratch: Path, root: Path, out: Path, version: str) -> Path:
    """Pack the same tree by a spec file."""
    spec = scratch / "ddprobe.spec"
    text = (HERE / "ddprobe.spec.in").read_text()
    spec.write_text(text.replace("@VERSION@", version).replace("@ROOT@", str(root)))
    top = scratch / "rpm"
    wanted = {
        "_topdir": top,
        "_build_id_links": "none",
        "__os_install_post": "%{nil}",  # nothing to strip, and no bytecode of another Python
        "use_source_date_epoch_as_buildtime": 1,
    }
    defines = [word for name, value in wanted.items() for word in ("--define", f"{name} {value}")]
    run("rpmbuild", "-bb", "--quiet", *defines, spec)
    (package,) = (top / "RPMS").rglob("*.rpm")
    return Path(shutil.copy(package, out))


def run(*command: object) -> None:
    """Run a tool; its words are ours when it fails."""
    words = [str(word) for word in command]
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(MODIFIED), "LC_ALL": "C"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{words[0]} failed:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    sys.exit(main())
