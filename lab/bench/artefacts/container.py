"""The container image: its size, how long it takes to build, and from its start to its first look.

    .venv/bin/python lab/bench/artefacts/container.py

It needs what ``integrations/container/build.py`` needs, and root: the image is run by ``unshare`` and
``chroot``, because no container runtime is part of the lab. What a runtime adds is not measured. AWS is a
lab with twelve volumes in this process.
"""

import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

from burstlab.fake_aws.server import Endpoint
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.volume import LabVolume

BUILD: Final = Path(__file__).parents[3] / "integrations" / "container" / "build.py"
RUNS: Final = 5
_ENTER: Final = """
mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && mount --bind "$1" "$0/state" || exit 99
root=$0; shift; exec /usr/sbin/chroot --userspec=65532:65532 "$root" "$@"
"""
"""In a mount namespace of its own: the root is read-only, and one folder is writable."""


def read_blob(image: Path, digest: str) -> Path:
    """The file of a blob."""
    return image / "blobs" / "sha256" / digest.removeprefix("sha256:")


def read_configuration(image: Path) -> dict[str, Any]:
    """What the image says about running it."""
    return json.loads(read_blob(image, read_manifest(image)["config"]["digest"]).read_bytes())["config"]


def read_manifest(image: Path) -> dict[str, Any]:
    """The one manifest of the layout."""
    [descriptor] = json.loads((image / "index.json").read_bytes())["manifests"]
    return json.loads(read_blob(image, descriptor["digest"]).read_bytes())


def unpack(image: Path, folder: Path) -> None:
    """Write the file system of the image into an empty folder."""
    folder.chmod(0o755)  # its root is for all users
    for layer in read_manifest(image)["layers"]:
        with tarfile.open(read_blob(image, layer["digest"])) as archive:
            # whatever is in it: it is our own. Python 3.11.2 has no filter to name.
            archive.extraction_filter = lambda member, _: member
            archive.extractall(folder)  # noqa: S202


def enter(root: Path, state: Path, environment: Sequence[str], *command: str) -> list[str]:
    """The command that runs a command in the image, as its user and with its root read-only."""
    variables = dict(entry.split("=", 1) for entry in environment)
    pairs = [f"{name}={value}" for name, value in variables.items()]
    return [
        "unshare",
        "--mount",
        "env",
        "-i",
        *pairs,
        "/bin/sh",
        "-c",
        _ENTER,
        str(root),
        str(state),
        *command,
    ]


def watch_command(image: Path, root: Path, state: Path, variables: Sequence[str]) -> list[str]:
    """The image's own command, on a free port of loopback only."""
    configuration = read_configuration(image)
    command = [*configuration["Entrypoint"], *configuration["Cmd"]]
    command[command.index("--metrics-port") + 1] = "0"
    command[command.index("--metrics-address") + 1] = "127.0.0.1"
    return enter(root, state, [*configuration["Env"], *variables], *command)


def measure_start(image: Path, root: Path) -> float:
    """Seconds from the start of the process until AWS receives DescribeVolumes."""
    fleet = LabFleet(LabClock(), LabSettings(lag_s=60))
    for _ in range(12):
        fleet.add(LabVolume(size_gib=100, load="steady:20"))
    with TemporaryDirectory() as directory, Endpoint(fleet) as aws:
        state = Path(directory)
        state.chmod(0o777)
        variables = [f"{name}={value}" for name, value in aws.environment.items()]
        started_s = time.perf_counter()
        with subprocess.Popen(
            watch_command(image, root, state, variables), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process:
            try:
                while "DescribeVolumes" not in aws.faults.call_counts():
                    if process.poll() is not None:
                        raise SystemExit(process.stdout and process.stdout.read().decode())
                    time.sleep(0.005)
                return time.perf_counter() - started_s
            finally:
                process.terminate()


def main() -> None:
    """Build, unpack, run, and print."""
    if os.geteuid() != 0:
        raise SystemExit("unshare and chroot need root")
    with TemporaryDirectory() as directory:
        folder, root = Path(directory) / "image", Path(directory) / "root"
        root.mkdir()
        Path(directory).chmod(0o755)
        started_s = time.perf_counter()
        subprocess.run([sys.executable, BUILD, folder], check=True, stdout=subprocess.DEVNULL)
        build_s = time.perf_counter() - started_s
        [image] = folder.glob("*.oci")
        layers = [layer["size"] / 1e6 for layer in read_manifest(image)["layers"]]
        unpack(image, root)
        unpacked_mb = sum(path.lstat().st_size for path in root.rglob("*") if path.is_file()) / 1e6
        starts_s = [measure_start(image, root) for _ in range(RUNS)]
    print(f"image: {sum(layers):.1f} MB, of which Debian {layers[0]:.1f} MB; {unpacked_mb:.0f} MB unpacked")
    print(f"built in {build_s:.0f} s, its packages there")
    print(
        f"start to the first call of DescribeVolumes: {median(starts_s):.2f} s, at most {max(starts_s):.2f} s"
    )


if __name__ == "__main__":
    main()
