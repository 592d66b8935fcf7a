"""Scenarios: a disk at its limit, one that is stalled, and one that fails."""

import time
from typing import Final

from burstlab.disk.block_device import ThrottledDevice
from burstlab.probe_scenarios.registry import (
    HELD_CAUSES,
    get_dd_s,
    is_alarm,
    is_crit,
    is_ok,
    is_unknown,
    scenario,
)
from burstlab.probe_scenarios.table import HEALTHY
from burstlab.probe_scenarios.testbed import Testbed, stall_device

_ALL_FILE_SYSTEMS: Final = ("ext4", "xfs", "btrfs")
_NO_CREDIT_LIMIT: Final = ("--max-credit-share", "100%")
_FAST_SERVE: Final = (*_NO_CREDIT_LIMIT, "--interval", "5s")
_MIB: Final = 1 << 20


@scenario("healthy", "OK, exit 0", file_systems=_ALL_FILE_SYSTEMS)
def healthy(testbed: Testbed) -> bool:
    """Healthy, 3,000 IOPS."""
    return is_ok(testbed.probe(truth=HEALTHY))


@scenario("throttled", "CRIT throttled, names the writers", file_systems=_ALL_FILE_SYSTEMS)
def throttled(testbed: Testbed) -> bool:
    """100 IOPS and 48 writers."""
    testbed.throttle()
    probe_run = testbed.probe()
    names = [task["comm"] for task in (probe_run.reading.get("dstate") or {}).get("top", [])]
    return is_crit(probe_run, "throttled") and any("python" in name for name in names)


@scenario("limit-raised", "OK")
def limit_raised(testbed: Testbed) -> bool:
    """The limit is raised to 3,000 IOPS while 24 writers go on."""
    testbed.throttle(writers=24)
    testbed.device.set_iops_limit(3_000)
    time.sleep(2)
    return is_ok(testbed.probe(truth=HEALTHY))


@scenario(
    "idle-100-iops",
    "WARN: dd takes 0.5 s",
    file_systems=("ext4", "xfs"),
)
def idle_iops(testbed: Testbed) -> bool:
    """100 IOPS, no other load, after four healthy runs."""
    for _ in range(4):
        testbed.probe("--look", "100ms", *_NO_CREDIT_LIMIT, truth=None)
    testbed.probe_runs.clear()
    testbed.throttle(writers=0)
    alarms = sum(is_alarm(testbed.probe(*_NO_CREDIT_LIMIT, truth=None)) for _ in range(3))
    testbed.measure_dd()
    return alarms > 1


@scenario("idle-1-mib", "CRIT: dd takes 10 s", file_systems=("ext4", "xfs"))
def idle_bytes(testbed: Testbed) -> bool:
    """1 MiB/s, no other load."""
    testbed.device.set_bytes_limit(_MIB)
    probe_run = testbed.probe()
    testbed.measure_dd()
    return is_crit(probe_run)


@scenario("idle-5-mb", "WARN: dd takes 1.9 s")
def idle_more_bytes(testbed: Testbed) -> bool:
    """5.4 MB/s, no other load."""
    testbed.device.set_bytes_limit(5_400_000)
    probe_run = testbed.probe()
    testbed.measure_dd()
    return is_alarm(probe_run)


@scenario("idle-1-mib-serve", "WARN or CRIT")
def idle_bytes_of_serve(testbed: Testbed) -> bool:
    """1 MiB/s, no other load, `serve` for 60 s."""
    with testbed.serve() as serving:
        serving.wait_for(lambda _: True, 15)
        testbed.device.set_bytes_limit(_MIB)
        alarm = serving.wait_for(lambda reading: reading["verdict"] in ("warn", "crit"), 60)
        readings = serving.all_readings()
    testbed.record_serve(alarm or (readings[-1] if readings else None))
    return alarm is not None


@scenario("busy-1-mib", "CRIT throttled")
def busy_bytes(testbed: Testbed) -> bool:
    """1 MiB/s and 4 writers of 256 KiB."""
    testbed.start_load(4, kib=256)
    testbed.device.set_bytes_limit(_MIB)
    time.sleep(1)
    return is_crit(testbed.probe(), "throttled")


@scenario(
    "stall",
    "CRIT stalled, CRIT in less time, OK",
    file_systems=_ALL_FILE_SYSTEMS,
)
def stall(testbed: Testbed) -> bool:
    """Total stall: nothing comes back; again; then it answers."""
    testbed.probe("--look", "100ms", truth=None)
    testbed.probe_runs.clear()
    testbed.stall()
    first, second = testbed.probe(), testbed.probe()
    testbed.count_processes_left()
    testbed.resume()
    time.sleep(1)
    healed = testbed.probe(truth=HEALTHY)
    in_time = first.duration_s < 15 and second.duration_s < first.duration_s  # noqa: PLR2004 - half the deadline
    return (
        is_crit(first, "stalled")
        and is_crit(second, "stalled")
        and in_time
        and is_ok(healed)
        and testbed.processes_left <= 1
    )


@scenario("stall-classic", "CRIT stalled within the deadline of 30 s")
def stall_of_classic(testbed: Testbed) -> bool:
    """`run --level classic` in a stall."""
    testbed.stall()
    probe_run = testbed.probe("--level", "classic")
    testbed.count_processes_left()
    return is_crit(probe_run, "stalled") and probe_run.duration_s < 33  # noqa: PLR2004 - and what a start takes


@scenario("stall-three-disks", "CRIT within 45 s")
def stall_of_three(testbed: Testbed) -> bool:
    """Three paths on three stalled disks, `run --level classic`."""
    with ThrottledDevice(size_mib=64) as second, ThrottledDevice(size_mib=64) as third:
        testbed.stall()
        for device in (second, third):
            stall_device(device.directory)
        paths = [testbed.path, second.mount, third.mount]
        try:
            probe_run = testbed.probe("--level", "classic", *_NO_CREDIT_LIMIT, paths=paths, truth=None)
        finally:
            for device in (second, third):
                stall_device(device.directory, is_over=True)
            testbed.clean_up()
    return probe_run.code == 2 and probe_run.duration_s < 45  # noqa: PLR2004 - CRITICAL, as expected


@scenario("held", "CRIT, `passive` WARN; not throttled")
def held(testbed: Testbed) -> bool:
    """Requests held above the device (blkio, 1 byte/s)."""
    testbed.probe("--look", "100ms", truth=None)
    testbed.probe_runs.clear()
    testbed.start_load(8)
    testbed.hold_requests()
    time.sleep(1)
    probe_run, passive = testbed.probe(), testbed.probe(mode="passive")
    return is_crit(probe_run, *HELD_CAUSES) and is_alarm(passive) and passive.cause in HELD_CAUSES


@scenario("freeze", "CRIT frozen_or_lock, twice", file_systems=("ext4", "xfs"))
def freeze(testbed: Testbed) -> bool:
    """Fsfreeze; again."""
    testbed.probe("--look", "100ms", truth=None)
    testbed.probe_runs.clear()
    testbed.freeze()
    first, second = testbed.probe(), testbed.probe()
    testbed.count_processes_left()
    return (
        is_crit(first, "frozen_or_lock") and is_crit(second, "frozen_or_lock") and testbed.processes_left <= 1
    )


@scenario("eio", "CRIT io_error")
def eio(testbed: Testbed) -> bool:
    """EIO: the disk is gone."""
    testbed.probe("--look", "100ms", truth=None)
    testbed.probe_runs.clear()
    testbed.kill_server()
    return is_crit(testbed.probe(), "io_error")


@scenario("remount-ro", "CRIT io_error, then OK")
def remount_ro(testbed: Testbed) -> bool:
    """The file system turns read-only under `serve`, as after an error, then writable."""
    with testbed.serve(*_FAST_SERVE) as serving:
        serving.wait_for(lambda _: True, 15)
        testbed.run_tool("mount", "-o", "remount,ro", testbed.device.mount)
        # the kernel leaves the mount itself writable
        testbed.run_tool("mount", "-o", "remount,bind,rw", testbed.device.mount)
        failed = serving.wait_for(lambda reading: reading["cause"] == "io_error", 20)
        readings = serving.all_readings()
        testbed.record_serve(failed or (readings[-1] if readings else None))
        testbed.run_tool("mount", "-o", "remount,rw", testbed.device.mount)
        healed = serving.wait_for(lambda reading: reading["verdict"] == "ok", 20)
        testbed.record_serve(healed, HEALTHY)
    return failed is not None and failed["verdict"] == "crit" and healed is not None


@scenario("ro-bind", "UNKNOWN, exit 3")
def ro_bind(testbed: Testbed) -> bool:
    """A read-only bind mount of a healthy disk (as ProtectHome=read-only)."""
    script = f'mount --bind "{testbed.path}" /mnt; mount -o remount,ro,bind /mnt'
    return is_unknown(testbed.probe(paths=["/mnt"], truth=HEALTHY, prefix=testbed.in_namespace(script)))


@scenario("ro-image", "UNKNOWN, exit 3")
def ro_image(testbed: Testbed) -> bool:
    """A file system mounted read-only."""
    testbed.run_tool("mount", "-o", "remount,ro", testbed.device.mount)
    script = f'mount --bind "{testbed.path}" /mnt; mount -o remount,ro,bind /mnt'
    return is_unknown(testbed.probe(paths=["/mnt"], truth=HEALTHY, prefix=testbed.in_namespace(script)))


@scenario(
    "sandbox",
    "CRIT throttled, on this disk",
)
def sandbox(testbed: Testbed) -> bool:
    """100 IOPS and 48 writers, seen from mounts of its own (as a systemd unit)."""
    testbed.throttle()
    probe_run = testbed.probe(
        prefix=testbed.in_namespace("mount -o remount,ro,bind /usr 2>/dev/null || true")
    )
    tasks_on_disk = [task for task in (probe_run.reading.get("dstate") or {}).get("top", []) if task["here"]]
    return is_crit(probe_run, "throttled") and bool(tasks_on_disk)


@scenario("full-own-file", "OK")
def full_with_own_file(testbed: Testbed) -> bool:
    """100 % full, its own file is there."""
    testbed.probe("--look", "100ms", truth=None)
    testbed.probe_runs.clear()
    testbed.fill_disk()
    return is_ok(testbed.probe(truth=HEALTHY))


@scenario("full-throttled", "CRIT")
def full_and_throttled(testbed: Testbed) -> bool:
    """100 % full, without its own file, 100 IOPS and 48 writers."""
    testbed.start_load(48)
    testbed.fill_disk()
    testbed.throttle(writers=0)
    time.sleep(1)
    return is_crit(testbed.probe())


@scenario(
    "full-own-file-throttled",
    "CRIT with seconds of dd",
)
def full_with_own_file_and_throttled(testbed: Testbed) -> bool:
    """100 % full, its own file is there, 100 IOPS and 48 writers."""
    testbed.probe("--look", "100ms", truth=None)
    testbed.probe_runs.clear()
    testbed.start_load(48)
    testbed.fill_disk()
    testbed.throttle(writers=0)
    time.sleep(1)
    probe_run = testbed.probe()
    return is_crit(probe_run) and get_dd_s(probe_run) is not None


@scenario("no-inodes", "CRIT", mkfs_options=("-N", "64"))
def no_inodes(testbed: Testbed) -> bool:
    """No inodes left, 100 IOPS and 48 writers."""
    testbed.start_load(48)
    try:
        for number in range(100):
            (testbed.device.mount / f"file-{number}").touch()
    except OSError:
        pass
    testbed.throttle(writers=0)
    time.sleep(1)
    return is_crit(testbed.probe())


@scenario("no-permission", "CRIT")
def no_permission(testbed: Testbed) -> bool:
    """No right to write there, 100 IOPS and 48 writers."""
    testbed.throttle()
    return is_crit(testbed.probe_unprivileged(directory=testbed.path))


@scenario(
    "quota",
    "UNKNOWN, and no space kept",
    file_systems=("btrfs",),
)
def quota(testbed: Testbed) -> bool:
    """A quota of 1 MiB (btrfs qgroup), `run --level classic`."""
    limited = testbed.device.mount / "limited"
    testbed.run_tool("btrfs", "quota", "enable", testbed.device.mount)
    testbed.run_tool("btrfs", "subvolume", "create", limited)
    testbed.run_tool("btrfs", "qgroup", "limit", "1M", limited)
    probe_run = testbed.probe("--level", "classic", "--data", "random", paths=[limited], truth=HEALTHY)
    own_file = limited / ".ddprobe"
    kept_kib = own_file.stat().st_size // 1024 if own_file.exists() else 0
    testbed.notes.append(f"{kept_kib} KiB kept")
    return is_unknown(probe_run) and kept_kib <= 4  # noqa: PLR2004 - one lite write
