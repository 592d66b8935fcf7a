"""Jobs that are Docker's containers: a daemon of its own, with all that it keeps on the device.

The daemon of the machine keeps its layers on a disk of the machine, and would not feel this one's limit. Ours
lives in a space of mounts and processes of its own: what it mounts and starts ends with it, and it sees no
blkio controller, so its containers are limited with everybody else.
"""

import shutil
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

from burstlab.disk.block_device import Device, DiskError
from burstlab.disk.podman import IMAGE, SCRIPT, WRITERS, WRITES, make_image, said_by
from burstlab.disk.state_dir import rule_files

NEEDED: Final = {
    "dockerd": "docker.io",
    "docker": "docker.io",
    "containerd": "containerd",
    "runc": "runc",
    "busybox": "busybox-static",
    "unshare": "util-linux",
}
_START_S: Final = 30.0
_LOOK_S: Final = 0.1
_SPACE: Final = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
_ENTER: Final = """\
for hidden in $1; do umount -l "$hidden"; done
mount -t tmpfs tmpfs /run
if [ -d /opt ]; then mount -t tmpfs tmpfs /opt; fi
shift
exec "$@"
"""
"""The daemon leaves folders in /run and /opt: here they are memory, and go with it."""


def docker_job(device: Device) -> tuple[str, ...]:
    """The command that runs one job as a container of Docker on this device, tried once.

    Raises:
        DiskError: there is no Docker, or none that can run a container here; the message says what it said.
    """
    check_docker()
    client = ("docker", "--config", str(device.folder / "docker"), "--host", _address(device))
    _start(device, client)
    said_by([*client, "import", str(make_image(device.folder, Path(shutil.which("busybox") or ""))), IMAGE])
    run = ("run", "--rm", "--network", "none", "--log-driver", "none", "--workdir", "/work")
    job = (*client, *run, IMAGE, "sh", "-c", SCRIPT, str(WRITERS), str(WRITES))
    said_by(job)
    return job


def check_docker() -> None:
    """Refuse a machine without what our own Docker is made of.

    Raises:
        DiskError: with what is missing, and the packages that have it.
    """
    if missing := [tool for tool in NEEDED if shutil.which(tool) is None]:
        packages = " ".join(dict.fromkeys(NEEDED[tool] for tool in missing))
        raise DiskError(f"Docker's containers need {', '.join(missing)}: apt-get install {packages}")


def _address(device: Device) -> str:
    return f"unix://{device.folder / 'docker.sock'}"


def _start(device: Device, client: tuple[str, ...]) -> None:
    """Start the daemon; it ends with the disk."""
    hidden = " ".join({str(path.parent) for path in rule_files()})
    with TemporaryFile("w+") as words:
        daemon = subprocess.Popen(  # noqa: S603 - the command is ours
            [*_SPACE, "sh", "-ec", _ENTER, "sh", hidden, *_daemon(device)],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=words,
            start_new_session=True,
        )
        device.note(daemon.pid)
        ends_s = time.monotonic() + _START_S
        while not _answers(client):
            if daemon.poll() is not None or time.monotonic() > ends_s:
                words.seek(0)
                said = words.read().strip().splitlines()
                raise DiskError(f"dockerd did not start: {said[-1] if said else 'no word from it'}")
            time.sleep(_LOOK_S)
        daemon.returncode = 0  # whoever takes down the disk ends it


def _daemon(device: Device) -> list[str]:
    return [
        "dockerd",
        *("--data-root", str(device.mount / "docker"), "--exec-root", "/run/docker"),
        *("--pidfile", "/run/docker.pid", "--host", _address(device), "--storage-driver", "overlay2"),
        *("--bridge", "none", "--iptables=false", "--ip6tables=false", "--log-level", "error"),
        *("--cgroup-parent", f"/{device.folder.name}", "--exec-opt", "native.cgroupdriver=cgroupfs"),
    ]


def _answers(client: tuple[str, ...]) -> bool:
    try:
        said_by([*client, "version"])
    except DiskError:
        return False
    return True
