#!/usr/bin/env python3
"""Builds the container image of `burstctl watch`, without Docker and without root: an OCI image layout.

integrations/container/build.py [FOLDER] [--wheel FILE]      into FOLDER, build/container by default
integrations/container/build.py --download                   only the packages, in their newest versions

Its file system is made of packages of Debian 12, and of the wheel with its pinned dependencies. Needed are
Debian 12's apt-get and dpkg-deb, Python 3.11 as in the image, and a package index for pip. Packages are kept
in build/container-packages. The same packages give the same image, byte for byte. FOLDER gets:

  burstwatch-VERSION.oci/       the image layout: oci-layout, index.json, blobs/sha256/
  burstwatch-VERSION.cdx.json   what is in it (CycloneDX), with version, license and checksum
"""

import argparse
import gzip
import hashlib
import importlib.util
import io
import json
import marshal
import os
import shutil
import subprocess
import sys
import tarfile
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message
from email.parser import BytesParser
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from types import CodeType
from typing import Any
from urllib.parse import quote

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKAGES = ROOT / "build" / "container-packages"
MODIFIED = 1_767_225_600
"""The modification time of every file, 1 January 2026, so that the image depends only on its contents."""

PYTHON = (3, 11)
"""Of Debian 12. The compiled files in the image are for this version, so it also builds the image."""

_UNCHECKED_HASH = 1
"""The flags of a compiled file with a hash that is not checked; Source: PEP 552."""

DEBIAN_PACKAGES = (
    "base-files",
    "ca-certificates",
    "libbz2-1.0",
    "libc6",
    "libcrypt1",
    "libexpat1",
    "libffi8",
    "libgcc-s1",
    "liblzma5",
    "libpython3.11-minimal",
    "libpython3.11-stdlib",
    "libsqlite3-0",
    "libssl3",
    "libuuid1",
    "python3.11-minimal",
    "zlib1g",
)
"""What Python and burstctl load. There is no shell, and no package manager."""

ARCHITECTURES = {
    "amd64": ("manylinux2014_x86_64", "manylinux_2_28_x86_64"),
    "arm64": ("manylinux2014_aarch64", "manylinux_2_28_aarch64"),
}
"""Debian's names, which are OCI's as well, and whose wheels pip takes."""

STATE = "/state"
PORT = 9417
USER_ID = 65_532
USER = "burstwatch"
NO_SHELL = "/nonexistent"
SITE_PACKAGES = "usr/lib/python3/dist-packages"
CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"

_UNNEEDED = (
    "etc/cron*",
    "etc/update-motd.d/*",
    "usr/lib/*/gconv/*",
    "usr/share/bash-completion/*",
    "usr/share/bug/*",
    "usr/share/lintian/*",
    "usr/share/locale/*",
    "usr/share/man/*",
    "usr/share/pixmaps/*",
)
_MERGED = ("bin", "lib", "lib64", "sbin")
"""Links to the folders of the same name in usr, as Debian has them."""

COMMAND_FILE = b"""#!/usr/bin/python3.11 -I
import sys

from burstctl.__main__ import main

sys.exit(main())
"""
HEALTH_CHECK = (
    "import os, urllib.request as r; "
    f"r.urlopen('http://127.0.0.1:' + os.environ.get('METRICS_PORT', '{PORT}') + '/metrics', timeout=5)"
)


class BuildError(Exception):
    """The image cannot be built; the message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A file, a folder (``data`` is None) or a link in a layer."""

    mode: int
    data: bytes | None = None
    target: str | None = None
    owner: int = 0


Layer = dict[str, Entry]
"""Entries by path, which begins without a slash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A line of the bill of materials."""

    name: str
    version: str
    purl: str
    license: str
    sha256: str
    """Of the package."""


def main() -> int:
    """Build the image; 2 if something that is needed is missing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "container")
    parser.add_argument(
        "--wheel", type=Path, help="the wheel of burstwatch; default: built from the checkout"
    )
    parser.add_argument("--download", action="store_true", help="only download the packages")
    options = parser.parse_args()
    try:
        if options.download:
            shutil.rmtree(PACKAGES, ignore_errors=True)
            download_packages()
            return 0
        image, bill = build_image(options.folder.resolve(), options.wheel)
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    size = sum(path.stat().st_size for path in image.rglob("*") if path.is_file())
    print(f"{os.path.relpath(image)}: {size / 1e6:.1f} MB")
    print(os.path.relpath(bill))
    return 0


def build_image(folder: Path, wheel: Path | None) -> tuple[Path, Path]:
    """Write the image layout and its bill of materials into the folder, and return both.

    Raises:
        BuildError: a tool or a package is missing.
    """
    architecture, debian_files, wheels = download_packages()
    with TemporaryDirectory(prefix="burstwatch-image-") as directory:
        scratch = Path(directory)
        own_wheel = wheel or build_wheel(scratch)
        system, application = system_layer(debian_files), application_layer([*wheels, own_wheel])
        compile_sources(system)
        compile_sources(application)
        components = [
            *(debian_component(path, architecture) for path in debian_files),
            *(wheel_component(path) for path in [*wheels, own_wheel]),
        ]
    version = components[-1].version
    image = folder / f"burstwatch-{version}.oci"
    write_layout(image, [system, application], architecture, version)
    bill = folder / f"burstwatch-{version}.cdx.json"
    bill.write_text(json.dumps(bill_of_materials(components, version), indent=1) + "\n", encoding="utf-8")
    return image, bill


def check_tools() -> None:
    """Whether this machine can build the image.

    Raises:
        BuildError: naming what is missing.
    """
    if sys.version_info[:2] != PYTHON:
        raise BuildError(
            f"this is Python {sys.version_info[0]}.{sys.version_info[1]}, the image has"
            f" {PYTHON[0]}.{PYTHON[1]}: build it with that"
        )
    missing = [tool for tool in ("apt-get", "dpkg", "dpkg-deb") if shutil.which(tool) is None]
    if missing:
        raise BuildError(f"{', '.join(missing)} missing: build on Debian 12")
    if "VERSION_CODENAME=bookworm" not in Path("/etc/os-release").read_text().splitlines():
        raise BuildError("the image is made of packages of Debian 12 (bookworm): build it there")


def run(command: Sequence[str | Path], cwd: Path | None = None) -> bytes:
    """What the command prints.

    Raises:
        BuildError: it fails; with its last line.
    """
    completed = subprocess.run(command, cwd=cwd, capture_output=True, check=False)
    if completed.returncode:
        last_line = (completed.stderr.decode().strip().splitlines() or ["no message"])[-1]
        raise BuildError(f"{' '.join(map(str, command[:3]))} failed: {last_line}")
    return completed.stdout


# ---------------------------------------------------------------------------------------------- what is in it


def download_packages() -> tuple[str, list[Path], list[Path]]:
    """The architecture, Debian's packages and the wheels; those that are there are not downloaded again.

    Raises:
        BuildError: they cannot be had.
    """
    check_tools()
    architecture = run(["dpkg", "--print-architecture"]).decode().strip()
    if architecture not in ARCHITECTURES:
        raise BuildError(f"no image for {architecture}: build on one of {', '.join(ARCHITECTURES)}")
    PACKAGES.mkdir(parents=True, exist_ok=True)
    try:
        if not all(list(PACKAGES.glob(f"{name}_*.deb")) for name in DEBIAN_PACKAGES):
            download_debian()
        download_wheels(architecture)
    except BuildError:
        shutil.rmtree(PACKAGES)  # so that half of the packages are never taken for all
        raise
    return architecture, sorted(PACKAGES.glob("*.deb")), sorted(PACKAGES.glob("*.whl"))


def download_debian() -> None:
    """Debian's packages, in the newest version that apt knows; apt checks their signature."""
    command = ["apt-get", "-o", "APT::Sandbox::User=", "--quiet", "download", *DEBIAN_PACKAGES]
    try:
        run(command, cwd=PACKAGES)
    except BuildError as error:
        raise BuildError(f"{error}; run `apt-get update` and try again") from error


def download_wheels(architecture: str) -> None:
    """The pinned dependencies, checked against their hashes."""
    requirements = HERE / "requirements.txt"
    if len(list(PACKAGES.glob("*.whl"))) == requirements.read_text().count("=="):
        return
    for outdated in PACKAGES.glob("*.whl"):
        outdated.unlink()
    platforms = [word for name in ARCHITECTURES[architecture] for word in ("--platform", name)]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    options = ["--require-hashes", "--no-deps", "--only-binary=:all:", *platforms]
    python = ["--implementation", "cp", "--python-version", ".".join(map(str, PYTHON))]
    run([*command, *options, *python, "--requirement", requirements, "--dest", PACKAGES])


def build_wheel(folder: Path) -> Path:
    """Our own wheel, from the checkout."""
    hatchling = Path(sys.executable).parent / "hatchling"
    if not hatchling.exists():
        raise BuildError("hatchling is missing: run `make setup` and use its Python, or give --wheel FILE")
    run([hatchling, "build", "--target", "wheel", "--directory", folder], cwd=ROOT)
    return next(folder.glob("*.whl"))


def system_layer(debian_files: Sequence[Path]) -> Layer:
    """Debian's files, the user, and the folders that it may write to."""
    layer: Layer = {name: Entry(mode=0o777, target=f"usr/{name}") for name in _MERGED}
    for path in debian_files:
        for name, entry in debian_entries(path):
            layer[name] = entry
    bundle = b"".join(
        entry.data or b""
        for name, entry in sorted(layer.items())
        if name.startswith("usr/share/ca-certificates/") and name.endswith(".crt")
    )
    users = [f"root:x:0:0::/:{NO_SHELL}", f"{USER}:x:{USER_ID}:{USER_ID}::{STATE}:{NO_SHELL}"]
    files = {
        CERTIFICATES: bundle,
        "etc/passwd": "".join(f"{line}\n" for line in users).encode(),
        "etc/group": f"root:x:0:\n{USER}:x:{USER_ID}:\n".encode(),
        "etc/nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files dns\n",
    }
    layer |= {name: Entry(mode=0o644, data=data) for name, data in files.items()}
    layer |= {name: Entry(mode=0o755) for name in ("dev", "proc", "sys")}
    layer["tmp"] = Entry(mode=0o1777)
    layer[STATE.strip("/")] = Entry(mode=0o700, owner=USER_ID)
    return layer


def debian_entries(path: Path) -> Iterator[tuple[str, Entry]]:
    """The files and links of a package that are needed; its licenses are."""
    archive_data = run(["dpkg-deb", "--fsys-tarfile", path])
    with tarfile.open(fileobj=io.BytesIO(archive_data)) as archive:
        for member in archive:
            name = member.name.removeprefix("./").strip("/")
            if name.split("/")[0] in _MERGED:
                name = f"usr/{name}"
            if not name or member.isdir() or is_unneeded(name):
                continue
            if member.issym():
                yield name, Entry(mode=0o777, target=member.linkname)
            elif file := archive.extractfile(member):  # a hard link has the data of its file
                yield name, Entry(mode=member.mode & 0o755, data=file.read())


def is_unneeded(name: str) -> bool:
    """Whether nothing in the image reads this path."""
    path = PurePosixPath(name)
    if name.startswith("usr/share/doc/"):
        return path.name != "copyright"
    return any(
        parent.match(pattern) for pattern in _UNNEEDED for parent in (path, *path.parents)
    ) or name.endswith((".pyc", ".a"))


def application_layer(wheels: Sequence[Path]) -> Layer:
    """The wheels as pip would install them, and the command."""
    layer: Layer = {}
    for path in wheels:
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                name = installed_name(info.filename)
                if name and not info.is_dir():
                    layer[name] = Entry(mode=0o644, data=archive.read(info))
    layer["usr/bin/burstctl"] = Entry(mode=0o755, data=COMMAND_FILE)
    return layer


def installed_name(name: str) -> str | None:
    """Where a file of a wheel goes; None for one that is not installed.

    >>> installed_name("rich/table.py")
    'usr/lib/python3/dist-packages/rich/table.py'
    >>> installed_name("burstwatch-0.1.data/data/share/man/man1/burstctl.1") is None
    True
    """
    top, _, rest = name.partition("/")
    if not top.endswith(".data"):
        return f"{SITE_PACKAGES}/{name}"
    scheme, _, relative = rest.partition("/")
    return f"{SITE_PACKAGES}/{relative}" if scheme in ("purelib", "platlib") else None


def compile_sources(layer: Layer) -> None:
    """Add the compiled file of each Python source: where the root is read-only, Python could not write it."""
    tag = f"cpython-{PYTHON[0]}{PYTHON[1]}"
    for name, entry in sorted(layer.items()):
        if not name.endswith(".py") or entry.data is None:
            continue
        path = PurePosixPath(name)
        try:
            with warnings.catch_warnings(action="ignore"):
                code = compile(entry.data, f"/{name}", "exec", dont_inherit=True)
        except (SyntaxError, ValueError):  # a template, or a sample for another version
            continue
        layer[str(path.parent / "__pycache__" / f"{path.stem}.{tag}.pyc")] = Entry(
            mode=0o644, data=_compiled_file(code, entry.data)
        )


def _compiled_file(code: CodeType, source: bytes) -> bytes:
    """The compiled file, which Python does not compare with the source (PEP 552).

    From version 3 of marshal on, the bytes depend on what else the process that compiles has in memory.
    """
    header = importlib.util.MAGIC_NUMBER + _UNCHECKED_HASH.to_bytes(4, "little")
    return header + importlib.util.source_hash(source) + marshal.dumps(code, 2)


# ------------------------------------------------------------------------------------------ bill of materials


def debian_component(path: Path, architecture: str) -> Component:
    """What a package says of itself; its licenses are in the image, in its copyright file."""
    fields = run(["dpkg-deb", "--show", "--showformat=${Package} ${Version}", path])
    name, version = fields.decode().split()
    return Component(
        name=name,
        version=version,
        purl=f"pkg:deb/debian/{name}@{quote(version, safe=':')}?arch={architecture}&distro=bookworm",
        license=f"see /usr/share/doc/{name}/copyright",
        sha256=sha256(path.read_bytes()),
    )


def wheel_component(path: Path) -> Component:
    """What a wheel says of itself."""
    with zipfile.ZipFile(path) as archive:
        [metadata_file] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata: Message = BytesParser().parsebytes(archive.read(metadata_file))
    return Component(
        name=metadata["Name"],
        version=metadata["Version"],
        purl=python_purl(metadata["Name"], metadata["Version"]),
        license=license_of(metadata),
        sha256=sha256(path.read_bytes()),
    )


def python_purl(name: str, version: str) -> str:
    """The package URL of a Python package.

    >>> python_purl("markdown_it_py", "4.3.0")
    'pkg:pypi/markdown-it-py@4.3.0'
    """
    return f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"


def license_of(metadata: Message) -> str:
    """The expression, or what older metadata has instead."""
    classifiers = [
        value.rpartition("::")[2].strip()
        for value in metadata.get_all("Classifier", [])
        if value.startswith("License ::")
    ]
    declared = metadata["License-Expression"] or metadata["License"]
    return declared.strip() if declared and "\n" not in declared.strip() else ", ".join(classifiers)


def bill_of_materials(
    components: Sequence[Component], version: str, kind: str = "container"
) -> dict[str, object]:
    """A CycloneDX document; it has no serial number and no time, so the same image has the same bill."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": kind, "name": "burstwatch", "version": version}},
        "components": [
            {
                "type": "library",
                "name": component.name,
                "version": component.version,
                "purl": component.purl,
                "licenses": [{"license": {"name": component.license}}],
                "hashes": [{"alg": "SHA-256", "content": component.sha256}],
            }
            for component in components
        ],
    }


# ----------------------------------------------------------------------------------------------------- layout


def write_layout(image: Path, layers: Sequence[Layer], architecture: str, version: str) -> None:
    """Write the blobs and the two files that name them, in place of what is there."""
    if image.exists():
        shutil.rmtree(image)
    blobs = image / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    archives = [layer_archive(layer) for layer in layers]
    descriptors = [
        write_blob(blobs, gzip.compress(archive, 6, mtime=0), "layer.v1.tar+gzip") for archive in archives
    ]
    created = datetime.fromtimestamp(MODIFIED, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    labels = {
        "org.opencontainers.image.title": "burstwatch",
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.base.name": "none: packages of Debian 12",
    }
    configuration = image_configuration(archives, labels, architecture, created)
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": write_blob(blobs, to_json(configuration), "config.v1+json"),
        "layers": descriptors,
        "annotations": labels,
    }
    manifest_descriptor = write_blob(blobs, to_json(manifest), "manifest.v1+json") | {
        "platform": {"architecture": architecture, "os": "linux"},
        "annotations": {"org.opencontainers.image.ref.name": version},
    }
    index = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [manifest_descriptor],
    }
    (image / "index.json").write_bytes(to_json(index))
    (image / "oci-layout").write_bytes(to_json({"imageLayoutVersion": "1.0.0"}))


def image_configuration(
    archives: Sequence[bytes], labels: Mapping[str, str], architecture: str, created: str
) -> dict[str, Any]:
    """What a container of the image runs, as whom, and with which environment."""
    return {
        "architecture": architecture,
        "os": "linux",
        "created": created,
        "config": {
            "User": f"{USER_ID}:{USER_ID}",
            "WorkingDir": STATE,
            "Entrypoint": ["/usr/bin/burstctl"],
            "Cmd": ["watch", "--metrics-port", str(PORT), "--metrics-address", "0.0.0.0"],  # noqa: S104 - its network is its own
            "Env": [
                "PATH=/usr/bin",
                "LANG=C.UTF-8",
                f"HOME={STATE}",
                f"TMPDIR={STATE}",
                "PYTHONUNBUFFERED=1",
                f"SSL_CERT_FILE=/{CERTIFICATES}",
                f"BURSTWATCH_LEDGER=sqlite:{STATE}/ledger.sqlite",
            ],
            "ExposedPorts": {f"{PORT}/tcp": {}},
            "Volumes": {STATE: {}},
            "StopSignal": "SIGTERM",
            "Labels": labels,
            # not in OCI's specification; Docker and Podman read it, and others ignore it
            "Healthcheck": {
                "Test": ["CMD", "/usr/bin/python3.11", "-c", HEALTH_CHECK],
                "Interval": 60_000_000_000,
                "Timeout": 10_000_000_000,
                "StartPeriod": 30_000_000_000,
                "Retries": 3,
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{sha256(archive)}" for archive in archives]},
        "history": [
            {"created": created, "created_by": f"integrations/container/build.py: {part}"}
            for part in ("packages of Debian 12", "burstctl and its dependencies")
        ],
    }


def layer_archive(layer: Layer) -> bytes:
    """The entries as a tar archive, with the folders above them."""
    parents = {str(parent) for name in layer for parent in PurePosixPath(name).parents} - {"."}
    entries = {**{parent: Entry(mode=0o755) for parent in parents}, **layer}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, entry in sorted(entries.items()):
            member = tarfile.TarInfo(name)
            member.mode, member.mtime = entry.mode, MODIFIED
            member.uid = member.gid = entry.owner
            if entry.target is not None:
                member.type, member.linkname = tarfile.SYMTYPE, entry.target
            elif entry.data is None:
                member.type = tarfile.DIRTYPE
            else:
                member.size = len(entry.data)
            archive.addfile(member, io.BytesIO(entry.data) if entry.data is not None else None)
    return buffer.getvalue()


def write_blob(blobs: Path, data: bytes, kind: str) -> dict[str, object]:
    """Store the data by its hash; the descriptor of it."""
    digest = sha256(data)
    (blobs / digest).write_bytes(data)
    return {
        "mediaType": f"application/vnd.oci.image.{kind}",
        "digest": f"sha256:{digest}",
        "size": len(data),
    }


def to_json(value: object) -> bytes:
    """The value as a file that people can read as well."""
    return json.dumps(value, indent=1).encode() + b"\n"


def sha256(data: bytes) -> str:
    """The checksum in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
