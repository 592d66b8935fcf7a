#!/usr/bin/env python3
"""Builds ddprobe's .deb and .rpm from this folder; the same sources give the same packages, byte for byte.

ddprobe/package/build.py [FOLDER]      into FOLDER, ./build by default; needs dpkg-deb and rpmbuild

If you build packages for others, name yourself as their maintainer in DEBFULLNAME and DEBEMAIL.
"""

import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROGRAM = HERE.parent / "ddprobe.py"
MODIFIED = 1_767_225_600
"""The modification time of every file, 1 January 2026, so that a package depends only on its sources."""
MAINTAINER = {"DEBFULLNAME": "burstwatch maintainers", "DEBEMAIL": "maintainers@burstwatch.example"}
"""A domain that is reserved for documentation (RFC 2606), because this project has none."""

PLACES = {
    PROGRAM: ("usr/bin/ddprobe", 0o755),
    HERE / "ddprobe.service": ("usr/lib/systemd/system/ddprobe.service", 0o644),
    HERE / "ddprobe-run.service": ("usr/lib/systemd/system/ddprobe-run.service", 0o644),
    HERE / "ddprobe.timer": ("usr/lib/systemd/system/ddprobe.timer", 0o644),
    HERE / "ddprobe.default": ("etc/default/ddprobe", 0o644),
    HERE / "ddprobe.cron": ("etc/cron.d/ddprobe", 0o644),
    HERE.parent / "ddprobe.md": ("usr/share/doc/ddprobe/ddprobe.md", 0o644),
    HERE.parent / "ddprobe_example.txt": ("usr/share/doc/ddprobe/ddprobe_example.txt", 0o644),
    ROOT / "runbooks/HostStallReported.md": ("usr/share/doc/ddprobe/runbooks/HostStallReported.md", 0o644),
}
DEB_PLACES = {
    "copyright": "usr/share/doc/ddprobe/copyright",
    "changelog": "usr/share/doc/ddprobe/changelog.gz",
    "lintian-overrides": "usr/share/lintian/overrides/ddprobe",
}
RPM_LICENSE = "usr/share/licenses/ddprobe/LICENSE"
"""Debian has the text of the license once for all packages; with RPM, each package contains it."""
CONFIGURATION = ("etc/default/ddprobe", "etc/cron.d/ddprobe")


def main() -> int:
    """Build the packages for which this machine has the tools; 1 if one of the two is missing."""
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
    """Read the version from the program, which contains it once."""
    version = re.search(r'^VERSION: Final = "([0-9.]+)"$', source, re.MULTILINE)
    if version is None:
        raise SystemExit(f"{PROGRAM} names no VERSION")
    return version[1]


def lay_out(root: Path) -> None:
    """Put every file where it belongs on a host."""
    for source, (place, mode) in PLACES.items():
        put(root / place, source.read_bytes(), mode)
    put(root / "usr/share/man/man1/ddprobe.1.gz", (HERE / "ddprobe.1").read_bytes())
    settle(root)


def put(target: Path, content: bytes, mode: int = 0o644) -> None:
    """Write one file of a package, compressed where its name says so."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(gzip.compress(content, mtime=0) if target.suffix == ".gz" else content)
    target.chmod(mode)


def settle(root: Path) -> None:
    """Set the mode of every directory and the time of every file, whatever the umask and the clock are."""
    for path in [root, *root.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)
        os.utime(path, (MODIFIED, MODIFIED))


def filled_in(name: str, **values: object) -> str:
    """A file of this folder with its @NAMES@ replaced."""
    maintainer = "{DEBFULLNAME} <{DEBEMAIL}>".format_map(MAINTAINER | os.environ)
    text = (HERE / name).read_text(encoding="utf-8")
    for key, value in {"MAINTAINER": maintainer, **values}.items():
        text = text.replace(f"@{key}@", str(value))
    return text


def build_deb(scratch: Path, root: Path, out: Path, version: str) -> Path:
    """Pack the tree with its control files."""
    tree = scratch / "deb"
    shutil.copytree(root, tree)
    for name, place in DEB_PLACES.items():
        put(tree / place, filled_in(name).encode())
    files = sorted(path for path in tree.rglob("*") if path.is_file())
    control = tree / "DEBIAN"
    control.mkdir(mode=0o755)
    size_kib = sum(path.stat().st_size for path in files) // 1024
    (control / "control").write_text(filled_in("control.in", VERSION=version, SIZE_KIB=size_kib))
    (control / "conffiles").write_text("".join(f"/{place}\n" for place in CONFIGURATION))
    sums = [
        f"{hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()}  {path.relative_to(tree)}\n"
        for path in files
    ]
    (control / "md5sums").write_text("".join(sums))
    for name in ("postinst", "prerm", "postrm"):
        put(control / name, (HERE / name).read_bytes(), 0o755)
    settle(tree)
    package = out / f"ddprobe_{version}_all.deb"
    run("dpkg-deb", "--root-owner-group", "-Zxz", "--build", tree, package)
    return package


def build_rpm(scratch: Path, root: Path, out: Path, version: str) -> Path:
    """Pack the same tree according to a spec file."""
    put(root / RPM_LICENSE, (ROOT / "LICENSE").read_bytes())
    settle(root)
    spec = scratch / "ddprobe.spec"
    spec.write_text(filled_in("ddprobe.spec.in", VERSION=version, ROOT=root))
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
    """Run a tool; raise its error with a message of ours."""
    arguments = [str(word) for word in command]
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(MODIFIED), "LC_ALL": "C"}
    done = subprocess.run(arguments, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{arguments[0]} failed:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    sys.exit(main())
