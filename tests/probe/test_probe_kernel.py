import ast
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import ddprobe
import pytest

from support.probe.probe_process import start

# /sys/block/nvme1n1/stat of a 6.x kernel: reads, merged, sectors, ms; writes, merged, sectors, ms; in flight,
# busy ms, queue ms; discards x 4; flushes, ms
STAT = "100 0 800 50 300 7 4800 900 4 700 950 0 0 0 0 20 10"


def test_the_counters_of_new_and_old_kernels_are_read():
    new = ddprobe.parse_counters(STAT, 1.0)
    assert (new.done, new.writes, new.waited_ms, new.in_flight, new.flushes) == (400, 300, 950, 4, 20)
    assert new.written_kib == 2400
    old = ddprobe.parse_counters(" ".join(STAT.split()[:11]), 1.0)
    assert (old.done, old.flushes) == (400, 0)
    assert ddprobe.parse_counters("", 1.0) is None


def a_disk(stat_path) -> ddprobe.Disk:
    return ddprobe.Disk(
        name="nvme1n1", dev="259:1", stat_path=str(stat_path), model="", volume_id=None, size_gib=100.0,
        max_io_kib=256, write_cache="write back",
    )  # fmt: skip


def stat(*, writes: int, waited_ms: int = 0, in_flight: int = 0) -> str:
    return f"0 0 0 0 {writes} 0 {8 * writes} {waited_ms} {in_flight} 0 {waited_ms} 0 0 0 0 0 0"


def test_a_disk_that_completes_something_is_not_still(tmp_path):
    counters = tmp_path / "stat"
    counters.write_text(stat(writes=100, in_flight=40))
    watch = ddprobe.DiskWatch(a_disk(counters))
    time.sleep(0.05)
    counters.write_text(stat(writes=200, waited_ms=45_500, in_flight=40))
    watch.look()
    delta = watch.delta()
    assert (delta.done, delta.await_ms, delta.quiet_s) == (100, 455.0, 0.0)


def test_a_disk_with_requests_and_no_completion_is_stalled_also_in_the_next_span(tmp_path):
    counters = tmp_path / "stat"
    counters.write_text(stat(writes=100, in_flight=4))
    watch = ddprobe.DiskWatch(a_disk(counters))
    time.sleep(0.05)
    watch.look()
    watch.restart()
    time.sleep(0.05)
    watch.look()
    assert watch.delta().quiet_s >= 0.1
    counters.write_text(stat(writes=100, in_flight=0))
    watch.look()
    assert watch.delta().quiet_s == 0.0


def test_of_several_disks_the_stalled_one_is_reported(tmp_path):
    for name, in_flight in (("quick", 0), ("stuck", 3)):
        (tmp_path / name).write_text(stat(writes=5, in_flight=in_flight))
    disks = [a_disk(tmp_path / name) for name in ("quick", "stuck")]
    disks[1] = ddprobe.Disk(**(vars(disks[1]) | {"name": "nvme2n1"}))
    watches = ddprobe.Watches(disks)
    time.sleep(0.05)
    watches.look(even_if_just_done=True)
    assert watches.slowest().disk == "nvme2n1"


# -- NVMe log page 0xD0


def a_page(**counters: int) -> bytes:
    """A page laid out as documented, with the values of AWS's own example."""
    page = bytearray(ddprobe.EBS_PAGE_BYTES)
    page[0:4] = ddprobe.EBS_MAGIC.to_bytes(4, "little")
    for name, value in counters.items():
        at = ddprobe.NVME_FIELDS[name]
        page[at : at + 8] = value.to_bytes(8, "little")
    return bytes(page)


EXAMPLE = {
    "total_read_ops": 11_607,
    "total_write_ops": 23_508,
    "total_read_bytes": 300_112_896,
    "total_write_bytes": 1_226_743_808,
    "total_read_time": 6_231_000,
    "total_write_time": 37_224_000,
    "ebs_volume_performance_exceeded_iops": 1_500_000,
    "ebs_volume_performance_exceeded_tp": 0,
    "ec2_instance_ebs_performance_exceeded_iops": 0,
    "ec2_instance_ebs_performance_exceeded_tp": 0,
    "volume_queue_length": 46,
}


def test_the_log_page_of_an_ebs_volume_is_read_from_its_bytes():
    assert ddprobe.parse_ebs_page(a_page(**EXAMPLE)) == EXAMPLE


def test_bytes_around_the_counters_are_where_the_layout_has_them():
    page = bytearray(a_page())
    page[56:64] = b"\x01\x00\x00\x00\x00\x00\x00\x00"
    page[88:96] = b"\x00\x01\x00\x00\x00\x00\x00\x00"
    read = ddprobe.parse_ebs_page(bytes(page))
    assert (read["ebs_volume_performance_exceeded_iops"], read["volume_queue_length"]) == (1, 256)
    assert sum(read.values()) == 257


@pytest.mark.parametrize(
    ("page", "message"),
    [
        (ddprobe.INSTANCE_STORE_MAGIC.to_bytes(4, "little") + bytes(4092), "instance store"),
        (bytes(4096), "begins with 0x00000000"),
        (a_page()[:512], "512 bytes"),
    ],
)
def test_what_is_no_page_of_an_ebs_volume_is_refused(page, message):
    with pytest.raises(ddprobe.ProbeError, match=message):
        ddprobe.parse_ebs_page(page)


@pytest.mark.parametrize(
    "prefix", ["ec2_instance_ebs_performance_exceeded", "ec2_instance_performance_exceeded"]
)
def test_what_other_tools_print_is_read_under_both_spellings(prefix):
    printed = {name: value for name, value in EXAMPLE.items() if not name.startswith("ec2_")}
    printed |= {f"{prefix}_iops": 7, f"{prefix}_tp": 9, "read_io_latency_histogram": {"bins": []}}
    read = ddprobe.parse_nvme_json(json.dumps(printed))
    assert read["ec2_instance_ebs_performance_exceeded_iops"] == 7
    assert read["ec2_instance_ebs_performance_exceeded_tp"] == 9
    assert read["volume_queue_length"] == 46
    assert "read_io_latency_histogram" not in read


def test_an_increase_is_reported_and_the_current_queue():
    after = EXAMPLE | {"ebs_volume_performance_exceeded_iops": 1_500_700, "volume_queue_length": 3}
    rise = ddprobe.nvme_delta(EXAMPLE, after)
    assert rise["ebs_volume_performance_exceeded_iops"] == 700
    assert rise["volume_queue_length"] == 3
    assert ddprobe.nvme_delta(None, after) is None


def test_where_there_is_no_such_device_there_are_no_such_counters(tmp_path):
    assert ddprobe.nvme_counters(a_site(), None) is None
    assert ddprobe.nvme_counters(a_site(), str(tmp_path / "missing")) is None
    ebs = ddprobe.Disk(
        **(vars(a_disk(tmp_path)) | {"volume_id": "vol-0123456789abcdef0", "name": "nvme99n1"})
    )
    assert ddprobe.nvme_counters(a_site(disks=(ebs,)), None) is None


# -- tasks


def a_site(**changes) -> ddprobe.Site:
    mounts = ddprobe.parse_mounts(
        "22 1 259:1 / / rw - ext4 /dev/root rw\n25 22 259:3 / /data rw - ext4 /dev/x rw"
    )
    facts = {"path": "/data", "answered": True, "mount": mounts[1], "mounts": mounts}
    facts |= {"partition": "nvme1n1p1", "disks": ()}
    return ddprobe.Site(**(facts | changes))


@pytest.mark.parametrize(
    ("cgroup", "unit"),
    [
        ("0::/system.slice/docker.service", "docker.service"),
        ("0::/system.slice/docker-" + "a" * 64 + ".scope", "docker-" + "a" * 57),
        ("9:name=systemd:/\n0::/kubepods/pod1/" + "b" * 64, "b" * 12),
        ("0::/", ""),
        ("", ""),
    ],
)
def test_a_task_is_named_by_its_unit_or_container(cgroup, unit):
    assert ddprobe._unit_of(cgroup) == unit


def test_kernel_threads_of_this_disk_are_known_by_name():
    observer = ddprobe.Observer(a_site(), -1, 10)
    assert observer._uses_this_disk(2, "jbd2/nvme1n1p1-8")
    assert observer._uses_this_disk(2, "kworker/u8:2+flush-259:3")
    assert not observer._uses_this_disk(2, "jbd2/nvme2n1p1-8")


def test_a_pass_sees_every_thread_of_every_process_and_keeps_only_those_in_state_d():
    observer = ddprobe.Observer(a_site(), -1, 10)
    observer.one_pass()
    summary = ddprobe.Tasks(**observer.summary())
    assert summary.passes == 1
    assert summary.main_only <= summary.most


def test_files_of_a_process_are_found_by_name(tmp_path):
    with (tmp_path / "held").open("w") as held, start(["sleep", "60"], stdout=held) as sleeper:
        assert str(tmp_path / "held") in list(ddprobe._open_files(sleeper.pid))
        sleeper.kill()


SPACES = {
    "a folder of the disk, under another name": ('mount --bind "$0" /opt; exec 3>/opt/held', True),
    "a layer whose upper folder is on the disk": (
        'mount -t overlay -o lowerdir=/etc,upperdir="$0/up",workdir="$0/work" x /opt; exec 3>/opt/held',
        True,
    ),
    "memory of its own, under the name of the disk": ('mount -t tmpfs x "$0"; exec 3>"$0/held"', False),
}


@pytest.mark.parametrize("case", SPACES)
def test_a_file_of_a_container_is_on_the_disk_that_its_own_mounts_name(shm_dir, case):
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("a mount space of its own needs root and unshare")
    script, is_here = SPACES[case]
    for name in ("up", "work"):
        (shm_dir / name).mkdir()
    container_command = [
        "unshare",
        "-m",
        "sh",
        "-ec",
        f"{script}; echo ready; exec sleep 60 >/dev/null",
        shm_dir,
    ]
    container = start(container_command, stdout=subprocess.PIPE)
    try:
        assert container.stdout.readline() == b"ready\n"
        observer = ddprobe.Observer(ddprobe.find_site(str(shm_dir), 5), -1, 10)
        assert observer._uses_this_disk(container.pid, "sh") == is_here
    finally:
        container.kill()
        container.communicate(timeout=60)


def test_the_probe_reads_nothing_of_others_that_takes_their_memory_lock():
    source = Path(ddprobe.__file__).read_text(encoding="utf-8")
    read = set(re.findall(r'f"/proc/[^"]*"|f"\{folder\}/[^"{]*"', source))
    below_a_process = {
        name.rpartition("/")[2].rstrip('"') for name in read if "{pid}" in name or "folder" in name
    }
    assert {"stat", "status", "wchan", "cgroup", "fd", "task", "mnt", "mountinfo"} <= below_a_process
    harmful = {
        "cmdline",
        "environ",
        "maps",
        "smaps",
        "numa_maps",
        "pagemap",
        "mem",
        "map_files",
        "stack",
        "io",
    }
    assert not below_a_process & harmful
    for tool in ('"ps"', "pgrep", "lsof", "fuser", "import subprocess", "psutil"):
        assert tool not in source


def test_a_run_imports_next_to_nothing():
    """Each module is a read from a disk that may be stalled."""
    code = "import ddprobe, sys; ddprobe.main(['explain', '/']); print(*sorted(sys.modules))"
    folder = str(Path(ddprobe.__file__).parent)
    command = [sys.executable, "-IS", "-c", f"import sys; sys.path.insert(0, {folder!r}); {code}"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1]
    heavy = {
        "json",
        "re",
        "argparse",
        "subprocess",
        "dataclasses",
        "typing",
        "enum",
        "socket",
        "ssl",
        "logging",
    }
    assert not heavy & set(printed.split())


def test_it_imports_nothing_but_the_standard_library():
    tree = ast.parse(Path(ddprobe.__file__).read_text(encoding="utf-8"))
    plain = [name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names]
    of = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert {name.partition(".")[0] for name in plain + of} <= sys.stdlib_module_names


def test_counters_that_are_no_numbers_are_no_counters():
    assert ddprobe.parse_counters("1 2 3 4 5 6 7 8 9 10 many", 0.0) is None
    assert ddprobe.parse_counters("9" * 5_000 + " 1" * 16, 0.0) is None
    assert ddprobe.parse_counters("1 2 3 4 5 6 7 8 -1 10 11", 0.0).in_flight == -1


def test_a_disk_is_described_even_if_sysfs_has_invalid_values(tmp_path):
    (tmp_path / "size").write_text("many")
    description = ddprobe._describe(str(tmp_path))
    assert (description["size_gib"], description["max_io_kib"]) == (0, 256)
