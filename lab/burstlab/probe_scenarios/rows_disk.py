"""A disk at its limit, one that stands still, and one that fails."""

import time
from typing import Final

from burstlab.disk.block_device import Device
from burstlab.probe_scenarios.rows import HELD, dd_s, is_alarm, is_crit, is_ok, is_unknown, row
from burstlab.probe_scenarios.stage import Stage, stall_device
from burstlab.probe_scenarios.table import WELL

_ALL: Final = ("ext4", "xfs", "btrfs")
_UNBOUND: Final = ("--max-credit-share", "100%")
_QUICK: Final = (*_UNBOUND, "--interval", "5s")
_MIB: Final = 1 << 20


@row("healthy", "OK, exit 0", fs=_ALL)
def healthy(stage: Stage) -> bool:
    """Healthy, 3,000 IOPS."""
    return is_ok(stage.probe(truth=WELL))


@row("throttled", "CRIT throttled, names the writers", fs=_ALL)
def throttled(stage: Stage) -> bool:
    """100 IOPS and 48 writers."""
    stage.throttle()
    seen = stage.probe()
    names = [each["comm"] for each in (seen.reading.get("dstate") or {}).get("top", [])]
    return is_crit(seen, "throttled") and any("python" in name for name in names)


@row("limit-raised", "OK")
def limit_raised(stage: Stage) -> bool:
    """The limit is raised to 3,000 IOPS while 24 writers go on."""
    stage.throttle(writers=24)
    stage.device.limit(3_000)
    time.sleep(2)
    return is_ok(stage.probe(truth=WELL))


@row(
    "idle-100-iops",
    "WARN: dd takes 0.5 s",
    fs=("ext4", "xfs"),
)
def idle_iops(stage: Stage) -> bool:
    """100 IOPS, nobody else, after four healthy runs."""
    for _ in range(4):
        stage.probe("--look", "100ms", *_UNBOUND, truth=None)
    stage.seen.clear()
    stage.throttle(writers=0)
    alarms = sum(is_alarm(stage.probe(*_UNBOUND, truth=None)) for _ in range(3))
    stage.real_dd()
    return alarms > 1


@row("idle-1-mib", "CRIT: dd takes 10 s", fs=("ext4", "xfs"))
def idle_bytes(stage: Stage) -> bool:
    """1 MiB/s, nobody else."""
    stage.device.limit_bytes(_MIB)
    seen = stage.probe()
    stage.real_dd()
    return is_crit(seen)


@row("idle-5-mb", "WARN: dd takes 1.9 s")
def idle_more_bytes(stage: Stage) -> bool:
    """5.4 MB/s, nobody else."""
    stage.device.limit_bytes(5_400_000)
    seen = stage.probe()
    stage.real_dd()
    return is_alarm(seen)


@row("idle-1-mib-serve", "WARN or CRIT")
def idle_bytes_of_serve(stage: Stage) -> bool:
    """1 MiB/s, nobody else, `serve` for 60 s."""
    with stage.serve() as serving:
        serving.wait_for(lambda _: True, 15)
        stage.device.limit_bytes(_MIB)
        found = serving.wait_for(lambda each: each["verdict"] in ("warn", "crit"), 60)
        readings = serving.all_readings()
    stage.note_serve(found or (readings[-1] if readings else None))
    return found is not None


@row("busy-1-mib", "CRIT throttled")
def busy_bytes(stage: Stage) -> bool:
    """1 MiB/s and 4 writers of 256 KiB."""
    stage.load(4, kib=256)
    stage.device.limit_bytes(_MIB)
    time.sleep(1)
    return is_crit(stage.probe(), "throttled")


@row(
    "stall",
    "CRIT stalled, CRIT in less time, OK",
    fs=_ALL,
)
def stall(stage: Stage) -> bool:
    """Total stall: nothing comes back; again; then it answers."""
    stage.probe("--look", "100ms", truth=None)
    stage.seen.clear()
    stage.stall()
    first, second = stage.probe(), stage.probe()
    stage.count_left()
    stage.resume()
    time.sleep(1)
    healed = stage.probe(truth=WELL)
    in_time = first.took_s < 15 and second.took_s < first.took_s  # noqa: PLR2004 - half the deadline
    return (
        is_crit(first, "stalled")
        and is_crit(second, "stalled")
        and in_time
        and is_ok(healed)
        and stage.left <= 1
    )


@row("stall-classic", "CRIT stalled within the deadline of 30 s")
def stall_of_classic(stage: Stage) -> bool:
    """`run --level classic` in a stall."""
    stage.stall()
    seen = stage.probe("--level", "classic")
    stage.count_left()
    return is_crit(seen, "stalled") and seen.took_s < 33  # noqa: PLR2004 - and what a start takes


@row("stall-three-disks", "CRIT within 45 s")
def stall_of_three(stage: Stage) -> bool:
    """Three paths on three stalled disks, `run --level classic`."""
    with Device(size_mib=64) as second, Device(size_mib=64) as third:
        stage.stall()
        for each in (second, third):
            stall_device(each.folder)
        paths = [stage.path, second.mount, third.mount]
        try:
            seen = stage.probe("--level", "classic", *_UNBOUND, paths=paths, truth=None)
        finally:
            for each in (second, third):
                stall_device(each.folder, is_over=True)
            stage.end_all()
    return seen.code == 2 and seen.took_s < 45  # noqa: PLR2004 - CRITICAL, as expected


@row("held", "CRIT, `passive` WARN; not throttled")
def held(stage: Stage) -> bool:
    """Requests held above the device (blkio, 1 byte/s)."""
    stage.probe("--look", "100ms", truth=None)
    stage.seen.clear()
    stage.load(8)
    stage.hold()
    time.sleep(1)
    seen, passive = stage.probe(), stage.probe(mode="passive")
    return is_crit(seen, *HELD) and is_alarm(passive) and passive.cause in HELD


@row("freeze", "CRIT frozen_or_lock, twice", fs=("ext4", "xfs"))
def freeze(stage: Stage) -> bool:
    """Fsfreeze; again."""
    stage.probe("--look", "100ms", truth=None)
    stage.seen.clear()
    stage.freeze()
    first, second = stage.probe(), stage.probe()
    stage.count_left()
    return is_crit(first, "frozen_or_lock") and is_crit(second, "frozen_or_lock") and stage.left <= 1


@row("eio", "CRIT io_error")
def eio(stage: Stage) -> bool:
    """EIO: the disk is gone."""
    stage.probe("--look", "100ms", truth=None)
    stage.seen.clear()
    stage.break_down()
    return is_crit(stage.probe(), "io_error")


@row("remount-ro", "CRIT io_error, then OK")
def remount_ro(stage: Stage) -> bool:
    """The file system turns read-only under `serve`, as after an error, then writable."""
    with stage.serve(*_QUICK) as serving:
        serving.wait_for(lambda _: True, 15)
        stage.do("mount", "-o", "remount,ro", stage.device.mount)
        stage.do("mount", "-o", "remount,bind,rw", stage.device.mount)  # the kernel leaves the mount writable
        failed = serving.wait_for(lambda each: each["cause"] == "io_error", 20)
        readings = serving.all_readings()
        stage.note_serve(failed or (readings[-1] if readings else None))
        stage.do("mount", "-o", "remount,rw", stage.device.mount)
        healed = serving.wait_for(lambda each: each["verdict"] == "ok", 20)
        stage.note_serve(healed, WELL)
    return failed is not None and failed["verdict"] == "crit" and healed is not None


@row("ro-bind", "UNKNOWN, exit 3")
def ro_bind(stage: Stage) -> bool:
    """A read-only bind mount of a healthy disk (as ProtectHome=read-only)."""
    script = f'mount --bind "{stage.path}" /mnt; mount -o remount,ro,bind /mnt'
    return is_unknown(stage.probe(paths=["/mnt"], truth=WELL, prefix=stage.in_namespace(script)))


@row("ro-image", "UNKNOWN, exit 3")
def ro_image(stage: Stage) -> bool:
    """A file system mounted read-only."""
    stage.do("mount", "-o", "remount,ro", stage.device.mount)
    script = f'mount --bind "{stage.path}" /mnt; mount -o remount,ro,bind /mnt'
    return is_unknown(stage.probe(paths=["/mnt"], truth=WELL, prefix=stage.in_namespace(script)))


@row(
    "sandbox",
    "CRIT throttled, on this disk",
)
def sandbox(stage: Stage) -> bool:
    """100 IOPS and 48 writers, seen from mounts of its own (as a systemd unit)."""
    stage.throttle()
    seen = stage.probe(prefix=stage.in_namespace("mount -o remount,ro,bind /usr 2>/dev/null || true"))
    here = [each for each in (seen.reading.get("dstate") or {}).get("top", []) if each["here"]]
    return is_crit(seen, "throttled") and bool(here)


@row("full-own-file", "OK")
def full_with_own_file(stage: Stage) -> bool:
    """100 % full, its own file is there."""
    stage.probe("--look", "100ms", truth=None)
    stage.seen.clear()
    stage.fill()
    return is_ok(stage.probe(truth=WELL))


@row("full-throttled", "CRIT")
def full_and_throttled(stage: Stage) -> bool:
    """100 % full, without its own file, 100 IOPS and 48 writers."""
    stage.load(48)
    stage.fill()
    stage.throttle(writers=0)
    time.sleep(1)
    return is_crit(stage.probe())


@row(
    "full-own-file-throttled",
    "CRIT with seconds of dd",
)
def full_with_own_file_and_throttled(stage: Stage) -> bool:
    """100 % full, its own file is there, 100 IOPS and 48 writers."""
    stage.probe("--look", "100ms", truth=None)
    stage.seen.clear()
    stage.load(48)
    stage.fill()
    stage.throttle(writers=0)
    time.sleep(1)
    seen = stage.probe()
    return is_crit(seen) and dd_s(seen) is not None


@row("no-inodes", "CRIT", mkfs_options=("-N", "64"))
def no_inodes(stage: Stage) -> bool:
    """No inodes left, 100 IOPS and 48 writers."""
    stage.load(48)
    try:
        for number in range(100):
            (stage.device.mount / f"file-{number}").touch()
    except OSError:
        pass
    stage.throttle(writers=0)
    time.sleep(1)
    return is_crit(stage.probe())


@row("no-permission", "CRIT")
def no_permission(stage: Stage) -> bool:
    """No right to write there, 100 IOPS and 48 writers."""
    stage.throttle()
    return is_crit(stage.probe_as_nobody(where=stage.path))


@row(
    "quota",
    "UNKNOWN, and no space kept",
    fs=("btrfs",),
)
def quota(stage: Stage) -> bool:
    """A quota of 1 MiB (btrfs qgroup), `run --level classic`."""
    limited = stage.device.mount / "limited"
    stage.do("btrfs", "quota", "enable", stage.device.mount)
    stage.do("btrfs", "subvolume", "create", limited)
    stage.do("btrfs", "qgroup", "limit", "1M", limited)
    seen = stage.probe("--level", "classic", "--data", "random", paths=[limited], truth=WELL)
    own = limited / ".ddprobe"
    kept_kib = own.stat().st_size // 1024 if own.exists() else 0
    stage.notes.append(f"{kept_kib} KiB kept")
    return is_unknown(seen) and kept_kib <= 4  # noqa: PLR2004 - one lite write
