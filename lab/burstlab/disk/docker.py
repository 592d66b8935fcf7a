"""Jobs as Docker containers, with a separate daemon that keeps all its data on the device.

The machine's own daemon keeps its layers on another disk, to which the limit does not apply. Ours runs in its
own mount and process namespaces: what it mounts and starts ends with it. It sees no blkio controller, so its
containers have the same limit as all others.
"""

import shutil
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

from burstlab.disk.block_device import DiskError, ThrottledDevice
from burstlab.disk.podman import IMAGE, SCRIPT, WRITERS, WRITES_PER_WRITER, make_image, run_command
from burstlab.disk.state_dir import limit_files

PACKAGES: Final = {
    "dockerd": "docker.io",
    "docker": "docker.io",
    "containerd": "containerd",
    "runc": "runc",
    "busybox": "busybox-static",
    "unshare": "util-linux",
}
_START_TIMEOUT_S: Final = 30.0  # dockerd creates its whole state on the device, which is not throttled yet
_POLL_INTERVAL_S: Final = 0.1  # dockerd needs about a second
_UNSHARE: Final = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
_ENTER_SCRIPT: Final = """\
for hidden in $1; do umount -l "$hidden"; done
mount -t tmpfs tmpfs /run
if [ -d /opt ]; then mount -t tmpfs tmpfs /opt; fi
shift
exec "$@"
"""
"""The daemon leaves folders in /run and /opt: here they are memory, and go with it."""


def prepare_docker_job(device: ThrottledDevice) -> tuple[str, ...]:
    """The command that runs one job as a container of Docker on this device, tried once.

    Raises:
        DiskError: there is no Docker, or none that can run a container here; the message says what it said.
    """
    check_docker_tools()
    client = ("docker", "--config", str(device.directory / "docker"), "--host", _address(device))
    _start_daemon(device, client)
    run_command(
        [*client, "import", str(make_image(device.directory, Path(shutil.which("busybox") or ""))), IMAGE]
    )
    run = ("run", "--rm", "--network", "none", "--log-driver", "none", "--workdir", "/work")
    job = (*client, *run, IMAGE, "sh", "-c", SCRIPT, str(WRITERS), str(WRITES_PER_WRITER))
    run_command(job)
    return job


def check_docker_tools() -> None:
    """Refuse a machine without the programs that a separate Docker daemon needs.

    Raises:
        DiskError: with what is missing, and the packages that have it.
    """
    if missing := [tool for tool in PACKAGES if shutil.which(tool) is None]:
        packages = " ".join(dict.fromkeys(PACKAGES[tool] for tool in missing))
        raise DiskError(f"Docker's containers need {', '.join(missing)}: apt-get install {packages}")


def _address(device: ThrottledDevice) -> str:
    return f"unix://{device.directory / 'docker.sock'}"


def _start_daemon(device: ThrottledDevice, client: tuple[str, ...]) -> None:
    """Start the daemon; it ends with the disk."""
    hidden = " ".join({str(path.parent) for path in limit_files()})
    with TemporaryFile("w+") as stderr:
        daemon = subprocess.Popen(  # noqa: S603 - the command is ours
            [*_UNSHARE, "sh", "-ec", _ENTER_SCRIPT, "sh", hidden, *_daemon_command(device)],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=stderr,
            stderr=stderr,
            start_new_session=True,
        )
        device.register_process(daemon.pid)
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not _is_ready(client):
            if daemon.poll() is not None or time.monotonic() > deadline:
                stderr.seek(0)
                lines = stderr.read().strip().splitlines()
                raise DiskError(f"dockerd did not start: {lines[-1] if lines else 'no word from it'}")
            time.sleep(_POLL_INTERVAL_S)
        daemon.returncode = 0  # the removal of the disk ends it


def _daemon_command(device: ThrottledDevice) -> list[str]:
    return [
        "dockerd",
        *("--data-root", str(device.mount / "docker"), "--exec-root", "/run/docker"),
        *("--pidfile", "/run/docker.pid", "--host", _address(device), "--storage-driver", "overlay2"),
        *("--bridge", "none", "--iptables=false", "--ip6tables=false", "--log-level", "error"),
        *("--cgroup-parent", f"/{device.directory.name}", "--exec-opt", "native.cgroupdriver=cgroupfs"),
    ]


def _is_ready(client: tuple[str, ...]) -> bool:
    try:
        run_command([*client, "version"])
    except DiskError:
        return False
    return True
