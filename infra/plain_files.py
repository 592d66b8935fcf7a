"""Writes what CloudFormation needs to deploy the stack without the CDK.

python -m infra.plain_files FOLDER [--stage FILE]

FOLDER, which is created, gets the template, the two archives that its functions are made of, and
``upload.sh``, which copies the three into a bucket of yours. What a stage file sets is a parameter of the
template; ``--stage`` changes the defaults. The same input gives the same bytes.
"""

import argparse
import json
import os
import shutil
import sys
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

# read when the CDK is imported: node is beside Python, and another one on the PATH may be too old
os.environ["JSII_NODE"] = (
    os.environ.get("JSII_NODE") or shutil.which("node", path=Path(sys.executable).parent) or "node"
)
os.environ["CDK_VALIDATION"] = "false"  # it would examine the stack once for each option

from infra.archive import write_zip
from infra.conditional_template import MergeError
from infra.config import StageConfig, StageError
from infra.dependencies import PLATFORMS, LayerError, ensure_layer
from infra.functions import LAMBDAS
from infra.plain_parameters import check_stage
from infra.plain_template import make_template
from infra.policy import DeployedPolicy, read_configuration

TEMPLATE_NAME: Final = "burstwatch.template.json"
UPLOAD_SCRIPT: Final = Path(__file__).with_name("upload.sh")


def write_archive(files: Mapping[str, Path], folder: Path, name: str) -> str:
    """Write a zip archive of these files into the folder; its name, with the hash of its contents in it.

    A new content is a new name, by which CloudFormation sees that the functions changed.
    """
    path = folder / f"{name}.zip"
    write_zip(path, files)
    named = path.with_name(f"{name}-{sha256(path.read_bytes()).hexdigest()[:16]}.zip")
    return path.rename(named).name


def function_files() -> dict[str, Path]:
    """Our own code, by its path in the archive."""
    return _files_below(LAMBDAS)


def layer_files() -> dict[str, Path]:
    """What the functions import, for every architecture.

    The compiled modules of each have its name in theirs, so Python takes those of its own.

    Raises:
        LayerError: a layer cannot be built, or another file differs between the architectures.
    """
    merged: dict[str, Path] = {}
    for architecture in PLATFORMS:
        for inner, path in _files_below(ensure_layer(architecture)).items():
            if merged.setdefault(inner, path).read_bytes() != path.read_bytes():
                raise LayerError(f"{inner} differs between the architectures; build an archive for each")
    return merged


def _files_below(folder: Path) -> dict[str, Path]:
    """What was written by people and packages; not what Python or pip left there."""
    paths = {path.relative_to(folder): path for path in folder.rglob("*") if path.is_file()}
    return {
        inner.as_posix(): path
        for inner, path in paths.items()
        if not any(part == "__pycache__" or part.endswith((".pyc", ".egg-info")) for part in inner.parts)
    }


def write_files(folder: Path, stage: StageConfig, policy: DeployedPolicy) -> None:
    """Write the template, its archives and the script that uploads them into a new folder.

    Raises:
        LayerError: what the functions import cannot be had.
        OSError: the folder cannot be made.
    """
    layer = layer_files()
    folder.mkdir(parents=True)
    archives = {
        "functions": write_archive(function_files(), folder, "burstwatch-functions"),
        "layer": write_archive(layer, folder, "burstwatch-layer"),
    }
    template = make_template(stage, policy, archives)
    (folder / TEMPLATE_NAME).write_text(json.dumps(template, indent=1) + "\n")
    shutil.copy(UPLOAD_SCRIPT, folder)


def main() -> int:
    """Write the files; what is wrong with the configuration is said all at once."""
    parser = argparse.ArgumentParser(prog="python -m infra.plain_files", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--stage", type=Path, help="whose values become the defaults of the parameters")
    arguments = parser.parse_args()
    try:
        stage, policy = read_configuration(arguments.stage)
        check_stage(stage)
        write_files(arguments.folder, stage, policy)
    except FileExistsError:
        print(f"error: {arguments.folder} exists; give a folder that does not", file=sys.stderr)
    except OSError as error:
        print(f"error: {arguments.folder} cannot be written: {error.strerror}", file=sys.stderr)
    except (StageError, LayerError, MergeError) as error:
        print(f"error: {error}", file=sys.stderr)
    else:
        _print_sizes(arguments.folder)
        return 0
    return 1


def _print_sizes(folder: Path) -> None:
    for path in sorted(folder.iterdir()):
        print(f"{path.stat().st_size / 1e6:8.2f} MB  {path}")


if __name__ == "__main__":
    sys.exit(main())
