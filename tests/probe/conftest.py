import fcntl
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ddprobe
import pytest

from support.probe import throttled_disk
from support.probe.fake_imds import Cloud
from support.probe.packages import build, run
from support.probe.probe_process import Probe, kind_of_disk_test
from support.unprivileged import UNPRIVILEGED_ID, needs_root

# The tests of one disk follow each other. They mostly wait, so there are more disks than processors.
DISKS_OF_A_KIND = 4
DISK = pytest.StashKey[str]()
MEASUREMENTS = 3
"""How often a test may measure: what else a machine does can spoil one measurement; a fault spoils all."""


@pytest.hookimpl(tryfirst=True)  # before that of the folder above, which gives the others a worker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let ddprobe fork in a worker of pytest, which has threads, and give the tests of a disk one worker."""
    folder = f"{Path(__file__).parent}/"
    tests_by_kind: Counter[str] = Counter()
    for item in items:
        if str(item.path).startswith(folder):
            item.add_marker(pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning"))
        if "loop_disk" in getattr(item, "fixturenames", ()):
            kind = kind_of_disk_test(item.fixturenames)
            item.stash[DISK] = f"{kind} {tests_by_kind[kind] % DISKS_OF_A_KIND}"
            tests_by_kind[kind] += 1
            item.add_marker(pytest.mark.xdist_group(f"ddprobe: {item.stash[DISK]}"))
            item.add_marker(pytest.mark.measures_a_disk)
    items.sort(key=_is_exclusive)  # they wait for all others, and so must no other wait for them


def _is_exclusive(item: pytest.Item) -> bool:
    """Whether it runs when no other test does."""
    return item.get_closest_marker("keeps_processors_busy") is not None


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Repeat a test that measures how fast a disk is, on a healthy disk; --junitxml has what was repeated."""
    if "limit" not in pyfuncitem.fixturenames:
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    for _ in range(MEASUREMENTS - 1):
        try:
            pyfuncitem.obj(**arguments)
        except AssertionError as error:
            pyfuncitem.user_properties.append(("measured again after", str(error)))
            heal(pyfuncitem.funcargs["loop_disk"])
            pyfuncitem.funcargs["probe"].forget()
        else:
            return True
    pyfuncitem.obj(**arguments)
    return True


@pytest.fixture
def probe(shm_dir: Path) -> Probe:
    return Probe(shm_dir)


@pytest.fixture(scope="session")
def shared_loop_disk() -> Iterator[throttled_disk.ThrottledDisk]:
    reason = throttled_disk.why_not()
    if reason:
        pytest.skip(f"a real disk to slow down {reason}")
    with throttled_disk.ThrottledDisk() as disk:
        yield disk


@pytest.fixture
def disk_lock(request: pytest.FixtureRequest) -> Iterator[None]:
    """Hold off the tests of this disk in other runs, and what else keeps the processors busy."""
    with (
        _locked("processors", fcntl.LOCK_EX if _is_exclusive(request.node) else fcntl.LOCK_SH),
        _locked(request.node.stash[DISK], fcntl.LOCK_EX),
    ):
        yield


@contextmanager
def _locked(name: str, how: int) -> Iterator[None]:
    with Path(tempfile.gettempdir(), f"ddprobe-{name}.lock").open("w") as lock:
        fcntl.flock(lock, how)
        yield


@pytest.fixture
def loop_disk(
    disk_lock: None, shared_loop_disk: throttled_disk.ThrottledDisk
) -> Iterator[throttled_disk.ThrottledDisk]:
    """The same disk for the tests of a worker, healthy and idle at the start of each."""
    yield shared_loop_disk
    heal(shared_loop_disk)


def heal(loop_disk: throttled_disk.ThrottledDisk) -> None:
    """Let it do whatever it can, with nothing to do."""
    loop_disk.thaw()
    loop_disk.idle()
    if throttled_disk.why_no_limit() is None:
        loop_disk.unlimit()


@pytest.fixture
def limit(loop_disk: throttled_disk.ThrottledDisk) -> None:
    """Require a disk whose operations can be limited."""
    reason = throttled_disk.why_no_limit()
    if reason:
        pytest.skip(f"a disk with a limit {reason}")


@pytest.fixture
def cloud(monkeypatch) -> Iterator[Cloud]:
    cloud = Cloud()
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", cloud.url)
    monkeypatch.setenv("AWS_ENDPOINT_URL", cloud.url)
    yield cloud
    cloud.close()


@pytest.fixture
def http() -> ddprobe.HttpClient:
    return ddprobe.HttpClient(secure=False)


@pytest.fixture
def disk_of_others(tmp_path) -> list[object]:
    """A directory to write in; if tests do not run on a local disk, an option makes ddprobe write anyway."""
    mount = ddprobe.mount_of(str(tmp_path), ddprobe.parse_mounts(Path("/proc/self/mountinfo").read_text()))
    (tmp_path / "data").mkdir()
    return ["--allow-fs", mount.fs, "--look", "100ms", tmp_path / "data"]


@pytest.fixture
def child_end(shm_dir) -> Path:
    """A directory of another user's, where that user can get at it."""
    needs_root()
    shm_dir.chmod(0o711)
    folder = shm_dir / "theirs"
    folder.mkdir()
    os.chown(folder, UNPRIVILEGED_ID, UNPRIVILEGED_ID)
    return folder


@pytest.fixture(scope="module")
def packages(tmp_path_factory) -> dict[str, Path]:
    return build(tmp_path_factory.mktemp("packages"))


CLEAN_ROOT = r"""
set -e
mount --make-rprivate /
mount -t tmpfs -o mode=0755 scratch "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" overlay "$1/root"
mount -t proc proc "$1/root/proc"
mount --rbind /sys "$1/root/sys"
mount -t devtmpfs dev "$1/root/dev" 2>/dev/null || mount --rbind /dev "$1/root/dev"
mkdir -p "$1/root/run"
mount -t tmpfs run "$1/root/run"
mkdir -p "$1/root/disk" && mount --bind "$3" "$1/root/disk"
cp "$2" "$1/root/disk/"
rm -f "$1/root/var/lib/man-db/auto-update"  # or dpkg makes an index of all manual pages, for seconds
exec chroot "$1/root" /bin/sh -ec "$4" sh "/disk/$(basename "$2")"
"""


@pytest.fixture
def in_clean_root(tmp_path) -> Iterator[object]:
    """Give a function that installs in a root where there is nothing of ours."""
    if os.geteuid() != 0:
        pytest.skip("a clean root needs root, for mounts")
    if "overlay" not in Path("/proc/filesystems").read_text() or not shutil.which("unshare"):
        pytest.skip("a clean root needs overlayfs and unshare")
    disk = tmp_path / "disk"
    disk.mkdir()
    with tempfile.TemporaryDirectory(prefix="ddprobe-root-") as folder:

        def enter(file: Path, script: str) -> str:
            arguments = [
                "unshare",
                "--mount",
                "--pid",
                "--fork",
                "--kill-child",
                "/bin/sh",
                "-c",
                CLEAN_ROOT,
                "sh",
            ]
            return run(*arguments, folder, file, disk, script)

        yield enter


@pytest.fixture
def disk(tmp_path) -> list[object]:
    """A directory to write in; if tests do not run on a local disk, an option makes ddprobe write anyway."""
    mount = ddprobe.mount_of(str(tmp_path), ddprobe.parse_mounts(Path("/proc/self/mountinfo").read_text()))
    return ["--allow-fs", mount.fs, "--look", "100ms", tmp_path]


@pytest.fixture
def state_dirs(shm_dir) -> ddprobe.StateDirs:
    return ddprobe.StateDirs(str(shm_dir))
