"""Jobs that are podman's containers, with its whole store on the device; and the image for all of them.

Podman needs no daemon. The image is made here from busybox, nothing is pulled. What podman mounts for a
container with ``--rm`` ignores fsync, so a job writes to a folder of the device that is mounted into it.

A container should have no cgroup of its own; only crun supports that. In a cgroup it would escape the blkio
backend. With the other backend the loop driver serves the cgroups in turn, so processes outside it would wait
less than on EBS.
"""

import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Final

from burstlab.disk.block_device import DiskError, ThrottledDevice

WRITERS: Final = 32  # as in job_loop, so that both kinds of jobs are comparable
WRITES_PER_WRITER: Final = 2
"""Each is fourteen blocks past the cache, one by one: with start and end about 1,000 operations."""
IMAGE: Final = "localhost/burstlab-job"
_TOOLS: Final = ("sh", "dd", "rm")
_DIRECTORIES: Final = ("bin", "dev", "etc", "proc", "sys", "tmp", "work")
_RUNTIMES: Final = ("crun", "runc")
_COMMAND_TIMEOUT_S: Final = 30.0  # importing the image writes a few MiB; more means that podman hangs
SCRIPT: Final = """\
writer() {
  n=0
  while [ $n -lt $2 ]; do
    dd if=/dev/zero of=/work/$1 bs=4k count=14 conv=notrunc,fsync oflag=direct 2>/dev/null || exit 1
    n=$((n + 1))
  done
  rm /work/$1
}
w=0
while [ $w -lt $0 ]; do writer $w $1 & w=$((w + 1)); done
wait
"""


def prepare_podman_job(device: ThrottledDevice, *, in_own_cgroup: bool = False) -> tuple[str, ...]:
    """The command that runs one job as a container on this device, tried once.

    ``in_own_cgroup`` allows runtimes that cannot do without one.

    Raises:
        DiskError: there is no podman, or none that can run a container here; the message says what it said.
    """
    busybox = shutil.which("busybox")
    if shutil.which("podman") is None or busybox is None:
        raise DiskError(
            "real containers need podman and a static busybox: apt-get install podman busybox-static"
        )
    (device.mount / "work").mkdir(exist_ok=True)
    refusals: list[str] = []
    for runtime in filter(shutil.which, _RUNTIMES):
        if runtime == "crun":
            options = ("--cgroups", "disabled")
        elif in_own_cgroup and device.backend == "qsd":
            options = ("--cgroup-parent", f"/{device.directory.name}")
        else:
            continue
        podman = _podman_command(device, runtime)
        try:
            if not refusals:
                run_command([*podman, "import", str(make_image(device.directory, Path(busybox))), IMAGE])
            job = _job_command(podman, device, options)
            run_command(job)
        except DiskError as error:
            refusals.append(f"{runtime}: {error}")
        else:
            return job
    raise DiskError(f"podman runs no container here ({'; '.join(refusals) or 'it has no runtime for it'})")


def _podman_command(device: ThrottledDevice, runtime: str) -> tuple[str, ...]:
    """The podman command, with all its data on the device or in the device's folder."""
    return (
        "podman",
        *("--root", str(device.mount / "containers"), "--runroot", str(device.directory / "run")),
        *("--tmpdir", str(device.directory / "tmp"), "--cgroup-manager", "cgroupfs"),
        *("--storage-driver", "overlay", "--runtime", runtime),
    )


def _job_command(
    podman: tuple[str, ...], device: ThrottledDevice, options: tuple[str, ...]
) -> tuple[str, ...]:
    # a machine's own defaults for limits may be above what a container of it may ask for
    limits = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024")
    volume = ("--volume", f"{device.mount / 'work'}:/work")
    run = ("run", "--rm", "--network", "none", "--log-driver", "none", *options, *limits, *volume)
    return (*podman, *run, IMAGE, "sh", "-c", SCRIPT, str(WRITERS), str(WRITES_PER_WRITER))


def make_image(directory: Path, busybox: Path) -> Path:
    """A root file system of one program."""
    path = directory / "image.tar"
    with tarfile.open(path, "w") as archive:
        for name in _DIRECTORIES:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        archive.add(busybox.resolve(), "bin/busybox")
        for name in _TOOLS:
            entry = tarfile.TarInfo(f"bin/{name}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(entry)
    return path


def run_command(command: list[str] | tuple[str, ...]) -> str:
    """What a command printed.

    Raises:
        DiskError: it failed, or did not end.
    """
    try:
        completed = subprocess.run(  # noqa: S603 - the command is ours
            command, capture_output=True, text=True, check=False, timeout=_COMMAND_TIMEOUT_S
        )
    except subprocess.TimeoutExpired as error:
        raise DiskError(f"no answer within {_COMMAND_TIMEOUT_S:g} s") from error
    if completed.returncode:
        lines = completed.stderr.strip().splitlines()
        raise DiskError(lines[-1] if lines else f"exit code {completed.returncode}")
    return completed.stdout
