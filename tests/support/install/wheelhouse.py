"""A folder of wheels made of what is installed here, so that installers work without a network."""

import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.tags import sys_tags
from packaging.utils import canonicalize_name

_OF_THE_INSTALLER = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}


def make_wheelhouse(folder: Path, requirements: Iterable[str]) -> Path:
    """The folder, with the requirements and all that these require in turn, and nothing else."""
    folder.mkdir()
    for package in _closure(requirements):
        _pack(package, folder)
    return folder


def _closure(requirements: Iterable[str]) -> Iterator[Distribution]:
    waiting, names = [Requirement(text) for text in requirements], set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if name in names or not applies:
            continue
        names.add(name)
        package = distribution(name)
        assert package.version in requirement.specifier, f"{requirement}: {package.version} is installed"
        waiting += map(Requirement, package.requires or [])
        yield package


def _pack(package: Distribution, folder: Path) -> None:
    """A wheel of the installed files; scripts are left out, because installers make them of entry points."""
    files = [
        path
        for path in package.files or []
        if ".." not in path.parts and "__pycache__" not in path.parts and path.name not in _OF_THE_INSTALLER
    ]
    metadata = next(path.parent for path in files if path.name == "METADATA")
    tags = {str(tag) for tag in sys_tags()}
    lines = (package.read_text("WHEEL") or "").splitlines()
    tag = next(line[5:] for line in lines if line.startswith("Tag: ") and line[5:] in tags)
    with zipfile.ZipFile(folder / f"{metadata.stem}-{tag}.whl", "w") as wheel:
        for path in files:
            wheel.write(path.locate(), path.as_posix())
        record = metadata / "RECORD"
        wheel.writestr(record.as_posix(), "".join(f"{path.as_posix()},,\n" for path in [*files, record]))
