"""Builds everything that people install into one folder; `make dist` runs it.

python -m integrations.dist [FOLDER] [--stage FILE]

FOLDER, `dist` by default, is emptied first. It gets the wheel and its source archive, the container image,
the plain CloudFormation template, the Terraform module, the Helm chart and the packages of ddprobe. It also
gets bills of materials (CycloneDX), what all of it was built from (SLSA provenance, unsigned), and checksums.

The same checkout and the same packages of Debian give the same bytes. apt offers the newest, so those
of another day may differ: the provenance lists them with their checksums. `--stage` changes the defaults of
the template. Needed is what `make image` needs, and rpmbuild.
"""

import argparse
import gzip
import json
import platform
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from tempfile import TemporaryDirectory

from integrations.container import build as container

from infra.archive import write_zip
from infra.config import read_stage
from infra.dependencies import PLATFORMS, layer_folder, layer_wheels

ROOT = Path(__file__).resolve().parents[1]
TERRAFORM = ROOT / "integrations" / "terraform"
CHART = ROOT / "integrations" / "kubernetes" / "chart"
LOCK_FILES = (
    "requirements.txt",
    "infra/layer.txt",
    "infra/cli/package-lock.json",
    "integrations/container/requirements.txt",
)
"""What the artefacts are made of beside the checkout, and by which."""

TOOLS = ("git", "dpkg-deb", "rpmbuild")
"""What the artefacts need beside what the container image needs."""

BUILD_TYPE = "urn:burstwatch:make-dist:1"
PROVENANCE, CHECKSUMS = "provenance.intoto.json", "SHA256SUMS"


class DistError(Exception):
    """An artefact cannot be built; says which, and why."""


def main() -> int:
    """Build them, and list them with their sizes; 2 if one cannot be built."""
    parser = argparse.ArgumentParser(
        prog="python -m integrations.dist",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "dist")
    parser.add_argument("--stage", type=Path, help="whose values become the defaults of the template")
    options = parser.parse_args()
    try:
        build_all(options.folder.resolve(), options.stage and options.stage.resolve())
    except (DistError, container.BuildError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for path in sorted(options.folder.iterdir()):
        print(f"{path.stat().st_size / 1e6:8.2f} MB  {path.name}")
    return 0


def build_all(folder: Path, stage: Path | None) -> None:
    """Build every artefact, then describe them all.

    Raises:
        DistError: one cannot be built; nothing is in the folder then.
        BuildError: the same, of the container image.
    """
    if folder.exists() and any(folder.iterdir()) and not (folder / CHECKSUMS).exists():
        raise DistError(f"{folder} has other files in it, which would be deleted; give another folder")
    check_tools()
    checkout = read_checkout()  # before the scratch folder is in it
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent, prefix="building-") as directory:
        scratch, out = Path(directory), Path(directory, "out")
        out.mkdir()
        _step("wheel and source archive", lambda: build_wheel(out))
        version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
        _step("packages of ddprobe", lambda: build_packages(out))
        _step("CloudFormation template", lambda: build_template(scratch / "cloudformation", stage))
        _step("archives", lambda: build_archives(out, scratch / "cloudformation", version))
        _step("container image", lambda: build_image(out, scratch, version))
        describe(out, version, checkout, stage)
        shutil.rmtree(folder, ignore_errors=True)
        out.rename(folder)


def check_tools() -> None:
    """Whether this machine can build every artefact.

    Raises:
        DistError: naming what is missing.
        BuildError: the same, of the container image.
    """
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        raise DistError(
            f"{', '.join(missing)} missing: install it, or build the CloudFormation template alone with"
            " `make cloudformation`"
        )
    container.check_tools()


def _step(name: str, build: Callable[[], None]) -> None:
    began_at = time.monotonic()
    build()
    print(f"{time.monotonic() - began_at:6.1f} s  {name}", file=sys.stderr)


def run(*command: str | Path) -> str:
    """What a command prints.

    Raises:
        DistError: it fails; with all that it says.
    """
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        # errors last, where people look
        report = "\n".join(filter(None, (done.stdout.strip(), done.stderr.strip()))) or "no message"
        raise DistError(f"{' '.join(map(str, command[:3]))} failed:\n{report}")
    return done.stdout


# -- the artefacts


def build_wheel(out: Path) -> None:
    """burstctl, for pip."""
    run(Path(sys.executable).parent / "hatchling", "build", "--directory", out)


def build_packages(out: Path) -> None:
    """ddprobe, as .deb and .rpm."""
    run(sys.executable, ROOT / "ddprobe" / "package" / "build.py", out)


def build_template(folder: Path, stage: Path | None) -> None:
    """The plain CloudFormation template, with its archives and the script that uploads them."""
    options = ["--stage", stage] if stage else []
    run(sys.executable, "-m", "infra.plain_files", folder, *options)


def build_archives(out: Path, template: Path, version: str) -> None:
    """The template, the Terraform module with it, and the Helm chart."""
    template_files = files_below(template, "cloudformation")
    write_zip(out / f"burstwatch-{version}-cloudformation.zip", template_files)
    write_zip(
        out / f"burstwatch-{version}-terraform.zip",
        files_below(TERRAFORM, "terraform")
        | {f"terraform/{name}": path for name, path in template_files.items()},
    )
    chart = {
        name: container.Entry(mode=0o644, data=path.read_bytes())
        for name, path in files_below(CHART, "burstwatch").items()
    }
    data = gzip.compress(container.layer_archive(chart), mtime=0)
    (out / f"burstwatch-{version}-chart.tgz").write_bytes(data)


def build_image(out: Path, scratch: Path, version: str) -> None:
    """The image layout as one file, which `podman load` and `skopeo copy oci-archive:` read."""
    [wheel] = out.glob("*.whl")
    image, bill = container.build_image(scratch, wheel)
    files = {
        name: container.Entry(mode=0o644, data=path.read_bytes()) for name, path in files_below(image).items()
    }
    (out / f"burstwatch-{version}.oci.tar").write_bytes(container.layer_archive(files))
    bill.rename(out / f"burstwatch-{version}-image.cdx.json")


def files_below(folder: Path, name: str = "") -> dict[str, Path]:
    """The files of a folder, by their path in an archive, below ``name``."""
    return {
        str(Path(name, path.relative_to(folder))): path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


# -- what describes them


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """What git says of the sources."""

    commit: str
    has_uncommitted_changes: bool


def read_checkout() -> Checkout:
    """The commit, and whether the files are those of the commit.

    Raises:
        DistError: git is missing, or this is not a checkout.
    """
    return Checkout(
        commit=run("git", "rev-parse", "HEAD").strip(),
        has_uncommitted_changes=bool(run("git", "status", "--porcelain").strip()),
    )


def describe(out: Path, version: str, checkout: Checkout, stage: Path | None) -> None:
    """Write the bill of the functions, the provenance and the checksums."""
    bill = container.bill_of_materials(list(layer_components()), version, kind="application")
    write_json(out / f"burstwatch-{version}-functions.cdx.json", bill)
    checksums = {path.name: container.sha256(path.read_bytes()) for path in sorted(out.iterdir())}
    write_json(out / PROVENANCE, provenance(checksums, checkout, stage))
    checksums[PROVENANCE] = container.sha256((out / PROVENANCE).read_bytes())
    lines = [f"{checksum}  {name}\n" for name, checksum in sorted(checksums.items())]
    (out / CHECKSUMS).write_text("".join(lines))


def layer_components() -> Iterator[container.Component]:
    """What the deployed functions import, from the layer of the template: each wheel of each architecture."""
    wheels = {wheel for architecture in PLATFORMS for wheel in layer_wheels(architecture)}
    installed = distributions(path=[str(layer_folder(architecture) / "python") for architecture in PLATFORMS])
    licenses = {distribution.name: container.license_of(distribution.metadata) for distribution in installed}
    for wheel in sorted(wheels, key=lambda wheel: (wheel.name.lower(), wheel.file_name)):
        yield container.Component(
            name=wheel.name,
            version=wheel.version,
            purl=f"{container.python_purl(wheel.name, wheel.version)}?file_name={wheel.file_name}",
            license=licenses[wheel.name],
            sha256=wheel.sha256,
        )


def provenance(checksums: dict[str, str], checkout: Checkout, stage: Path | None) -> dict[str, object]:
    """From which commit, packages and stage they were built, as in-toto and SLSA have it, without a time.

    Files from outside have only their names, so that the same files in another folder give the same.
    """
    files = [
        *((name, ROOT / name) for name in LOCK_FILES),
        *((path.name, path) for path in sorted(container.PACKAGES.glob("*.deb"))),
    ]
    if stage is not None:
        configuration, _ = read_stage(stage)
        files += [(path.name, path) for path in (stage, configuration.policy)]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": checksum}} for name, checksum in checksums.items()],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {
                    "command": "make dist",
                    **({"stage": stage.name} if stage is not None else {}),
                },
                "internalParameters": {
                    "python": platform.python_version(),
                    "uncommittedChanges": checkout.has_uncommitted_changes,
                },
                "resolvedDependencies": [
                    {"name": "checkout", "digest": {"gitCommit": checkout.commit}},
                    *(
                        {"name": name, "digest": {"sha256": container.sha256(path.read_bytes())}}
                        for name, path in files
                    ),
                ],
            },
            "runDetails": {"builder": {"id": "urn:burstwatch:unsigned"}},
        },
    }


def write_json(path: Path, document: dict[str, object]) -> None:
    """Write it so that people can read it as well."""
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
