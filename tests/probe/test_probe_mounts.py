from pathlib import Path

import ddprobe
import pytest

MOUNTS = ddprobe.parse_mounts("""\
22 1 259:1 / / rw,relatime shared:1 - ext4 /dev/root rw
23 22 0:21 / /proc rw,nosuid - proc proc rw
24 22 0:25 / /run rw,nosuid master:1 - tmpfs tmpfs rw
25 22 259:3 / /data rw,noatime - xfs /dev/nvme1n1p1 rw,attr2
26 25 0:44 / /data/merged rw - overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w
27 22 253:0 / /with\\040space rw - ext4 /dev/mapper/vg-lv rw
28 22 0:50 / /nfs rw - nfs4 server:/export rw
broken line
""")


def site(mount_point: str, **changes) -> ddprobe.Site:
    mount = next(mount for mount in MOUNTS if mount.point == mount_point)
    facts = {"path": mount_point, "answered": True, "mount": mount, "mounts": MOUNTS}
    return ddprobe.Site(**(facts | {"partition": "nvme1n1p1", "disks": ()} | changes))


@pytest.mark.parametrize(
    ("path", "point"),
    [
        ("/", "/"),
        ("/data", "/data"),
        ("/data/x/y", "/data"),
        ("/database", "/"),
        ("/data/merged/x", "/data/merged"),
        ("/with space/x", "/with space"),
    ],
)
def test_a_path_is_on_the_mount_with_the_longest_name(path, point):
    assert ddprobe.mount_of(path, MOUNTS).point == point


def test_a_later_mount_on_the_same_place_hides_the_earlier():
    twice = MOUNTS + ddprobe.parse_mounts("30 22 8:1 / /data rw - ext4 /dev/sda1 rw")
    assert ddprobe.mount_of("/data/x", twice).dev == "8:1"


@pytest.mark.parametrize(
    ("model", "serial", "volume_id"),
    [
        ("Amazon Elastic Block Store              ", "vol0123456789abcdef0", "vol-0123456789abcdef0"),
        ("Amazon Elastic Block Store", "vol-0123456789abcdef0", "vol-0123456789abcdef0"),
        ("Amazon Elastic Block Store", "vol1234abcd", "vol-1234abcd"),
        ("Amazon EC2 NVMe Instance Storage", "AWS0123456789ABCDEF0", None),
        ("Amazon EC2 NVMe Instance Storage", "vol0123456789abcdef0", None),
        ("Amazon Elastic Block Store", "vol0123; rm -rf /", None),
        ("Samsung SSD", "S4EW", None),
        ("", "", None),
    ],
)
def test_only_an_ebs_device_has_a_volume_id(model, serial, volume_id):
    assert ddprobe.volume_id_of(model, serial) == volume_id


def a_device(folder: Path, *, parts: tuple[Path, ...] = (), partition: bool = False) -> Path:
    folder.mkdir(parents=True)
    if partition:
        (folder / "partition").write_text("1\n")
    if parts:
        (folder / "slaves").mkdir()
    for part in parts:
        (folder / "slaves" / part.name).symlink_to(part)
    return folder


def test_a_partition_is_on_its_disk_and_a_stripe_on_all_of_its_volumes(tmp_path):
    disk = a_device(tmp_path / "nvme1n1")
    other_disk = a_device(tmp_path / "nvme2n1")
    partition = a_device(disk / "nvme1n1p1", partition=True)
    stripe = a_device(tmp_path / "md0", parts=(partition, other_disk))
    logical_volume = a_device(tmp_path / "dm-0", parts=(stripe,))
    assert ddprobe.whole_disks(str(partition)) == {str(disk)}
    assert ddprobe.whole_disks(str(logical_volume)) == {str(disk), str(other_disk)}


@pytest.mark.parametrize(
    ("point", "message"),
    [("/run", "it is memory"), ("/data/merged", "upperdir"), ("/nfs", "nothing about a disk")],
)
def test_a_write_that_would_measure_something_else_is_refused_with_the_next_step(point, message):
    with pytest.raises(ddprobe.UsageError, match=message):
        ddprobe.refuse_foreign(site(point), [])
    ddprobe.refuse_foreign(site(point), [site(point).mount.fs])


def test_a_local_disk_is_not_refused():
    ddprobe.refuse_foreign(site("/data"), [])


@pytest.mark.parametrize(
    ("own", "superblock", "options", "is_refused"),
    [
        ("rw,noatime", "rw,attr2", "rw,noatime,attr2", False),
        ("ro,nosuid", "rw", "ro,nosuid", True),
        ("ro,relatime", "ro", "ro,relatime", True),
        ("rw,relatime", "ro,errors=remount-ro", "ro,relatime,errors=remount-ro", False),
    ],
)
def test_a_read_only_mount_is_refused_and_a_file_system_made_read_only_below_it_is_not(
    own, superblock, options, is_refused
):
    (mount,) = ddprobe.parse_mounts(f"25 22 259:3 / /data {own} - xfs /dev/nvme1n1p1 {superblock}")
    assert mount.options == options
    if is_refused:
        with pytest.raises(ddprobe.UsageError, match="mounted read-only"):
            ddprobe.refuse_foreign(site("/data", mount=mount), [])
    else:
        ddprobe.refuse_foreign(site("/data", mount=mount), [])


def test_a_btrfs_on_several_devices_is_on_all_of_them(tmp_path):
    for name in ("nvme1n1", "nvme2n1"):
        device = a_device(tmp_path / name)
        for number in ("one", "two"):
            (tmp_path / number / "devices").mkdir(parents=True, exist_ok=True)
        (tmp_path / "two" / "devices" / name).symlink_to(device)
    mount = ddprobe.parse_mounts("40 22 0:39 / /pool rw - btrfs /dev/nvme1n1 rw")[0]
    parts = ddprobe._btrfs_parts(mount, "nvme1n1", str(tmp_path))
    assert {Path(part).name for part in parts} == {"nvme1n1", "nvme2n1"}
    assert ddprobe._btrfs_parts(mount, "nvme9n1", str(tmp_path)) == []


def test_a_path_that_is_not_there_is_a_clear_error(tmp_path):
    with pytest.raises(ddprobe.UsageError, match="No such file or directory; name a directory"):
        ddprobe.find_site(str(tmp_path / "missing"), 5)
    (tmp_path / "file").touch()
    with pytest.raises(ddprobe.UsageError, match="is not a directory"):
        ddprobe.find_site(str(tmp_path / "file"), 5)


def test_a_link_is_followed_to_the_disk_it_leads_to(tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "here")
    assert ddprobe.find_site(str(tmp_path / "link"), 5).path == str(tmp_path / "here")
