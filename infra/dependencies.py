"""What the functions import beside our code, as a Lambda layer in ``build/layer``: no Docker, no surprises.

python -m infra.dependencies      builds it, unless it is there and made of the pinned versions
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

ROOT: Final = Path(__file__).parents[1]
REQUIREMENTS_FILE: Final = ROOT / "infra" / "layer.txt"
LAYER_FOLDER: Final = ROOT / "build" / "layer"
DEFAULT_ARCHITECTURE: Final = "arm64"

PYTHON_VERSION: Final = "3.14"
"""Of the functions; the newest that Lambda runs."""

SERVICES: Final = frozenset(
    {"cloudwatch", "dynamodb", "ec2", "efs", "rds", "secretsmanager", "sns", "sqs", "ssm", "sts", "xray"}
)
"""Whose models the layer keeps of botocore's 440: these are what the functions call, and X-Ray's SDK."""

PLATFORMS: Final = {DEFAULT_ARCHITECTURE: "manylinux2014_aarch64", "x86_64": "manylinux2014_x86_64"}
"""Whose wheels a layer is made of, by the architecture of the functions."""
_EXCLUDED: Final = ("__pycache__", "bin", "*-stubs", "*.pyi", "py.typed", "boto3/examples")
_EXCLUDED_METADATA: Final = ("RECORD", "INSTALLER", "REQUESTED", "WHEEL", "top_level.txt", "zip-safe")


class LayerError(Exception):
    """The layer cannot be built; says why, and what to do."""


class Wheel(NamedTuple):
    """What pip installed into a layer; the checksum is one of those pinned."""

    name: str
    version: str
    file_name: str
    sha256: str


def layer_folder(architecture: str) -> Path:
    """The folder of the layer for functions of this architecture."""
    return (
        LAYER_FOLDER
        if architecture == DEFAULT_ARCHITECTURE
        else LAYER_FOLDER.with_name(f"layer-{architecture}")
    )


def ensure_layer(architecture: str = DEFAULT_ARCHITECTURE) -> Path:
    """The folder of the layer, built if it is not there or not of the versions pinned now.

    Raises:
        LayerError: it cannot be built.
    """
    layer, fingerprint = layer_folder(architecture), _fingerprint()
    fingerprint_file = layer.with_name(f"{layer.name}.sha256")
    if not (layer.is_dir() and fingerprint_file.is_file() and fingerprint_file.read_text() == fingerprint):
        layer.parent.mkdir(exist_ok=True)
        with TemporaryDirectory(dir=layer.parent, prefix="building-") as scratch:
            wheels = build_layer(Path(scratch) / "layer", architecture)
            _replace(layer, Path(scratch))
        _wheels_file(layer).write_text(json.dumps(wheels))
        fingerprint_file.write_text(fingerprint)
    return layer


def layer_wheels(architecture: str = DEFAULT_ARCHITECTURE) -> list[Wheel]:
    """What the layer is made of.

    Raises:
        LayerError: it cannot be built.
    """
    return [Wheel(*fields) for fields in json.loads(_wheels_file(ensure_layer(architecture)).read_text())]


def _wheels_file(layer: Path) -> Path:
    return layer.with_name(f"{layer.name}.wheels.json")  # beside the layer, which is deployed as it is


def build_layer(folder: Path, architecture: str = DEFAULT_ARCHITECTURE) -> list[Wheel]:
    """Install the pinned versions, for the functions' platform, and take away what they never read.

    The same pins give the same bytes, so that a deploy of the same thing changes nothing.

    Raises:
        LayerError: pip fails, and says why.
    """
    packages, report = folder / "python", folder.with_name("pip-report.json")
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-compile",
    ]
    options = [
        "--require-hashes",
        "--no-deps",
        "--only-binary=:all:",
        *(
            "--platform",
            PLATFORMS[architecture],
            "--implementation",
            "cp",
            "--python-version",
            PYTHON_VERSION,
        ),
        "--requirement",
        str(REQUIREMENTS_FILE),
    ]
    result = subprocess.run(  # noqa: S603 - our own words
        [*command, *options, "--target", str(packages), "--report", str(report)],
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise LayerError(
            f"the layer of {REQUIREMENTS_FILE.name} cannot be built: {_last_line(result.stderr)};"
            " see that pip reaches its package index, then run `make layer`"
        )
    for path in _unneeded_paths(packages):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return _installed_wheels(report)


def _installed_wheels(report: Path) -> list[Wheel]:
    """What pip says that it installed; Source: pip's "Installation Report", version 1."""
    return [
        Wheel(
            installed["metadata"]["name"],
            installed["metadata"]["version"],
            PurePosixPath(unquote(urlsplit(installed["download_info"]["url"]).path)).name,
            installed["download_info"]["archive_info"]["hashes"]["sha256"],
        )
        for installed in json.loads(report.read_text(encoding="utf-8"))["install"]
    ]


def _replace(layer: Path, scratch: Path) -> None:
    """Put what was built in place of what was there; another process may be doing the same."""
    if layer.exists():
        layer.rename(scratch / "old")
    (scratch / "layer").rename(layer)


def _fingerprint() -> str:
    return sha256(REQUIREMENTS_FILE.read_bytes() + Path(__file__).read_bytes()).hexdigest()


def _unneeded_paths(packages: Path) -> Iterator[Path]:
    """What no function reads, each once and nothing below it."""
    for pattern in _EXCLUDED:
        yield from packages.glob(pattern) if "/" in pattern else _outermost(packages, pattern)
    for metadata in packages.glob("*.dist-info"):
        yield from (metadata / name for name in _EXCLUDED_METADATA if (metadata / name).exists())
    for models in (packages / "botocore" / "data", packages / "boto3" / "data"):
        yield from (path for path in models.iterdir() if path.is_dir() and path.name not in SERVICES)


def _outermost(folder: Path, pattern: str) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.match(pattern):
            yield path
        elif path.is_dir():
            yield from _outermost(path, pattern)


def _last_line(text: str) -> str:
    return next((line for line in reversed(text.strip().splitlines()) if line), "pip did not say why")


def main() -> int:
    """Build the layer if need be, and say how large it is."""
    try:
        folder = ensure_layer()
    except LayerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"layer: {size / 2**20:.1f} MiB in {os.path.relpath(folder)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
