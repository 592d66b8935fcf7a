"""What ddprobe reads: the kernel's files, NVMe pages, its own memory, answers over HTTP, its command line."""

import json
import math

import ddprobe
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from support.hostile_input import (
    HOSTILE_TEXTS,
    any_value,
    assert_message,
    fuzz,
    is_plain,
    mangled_bytes,
    mutated,
    texts,
    within,
)
from support.probe.sample_readings import a_reading

MOUNTS = """\
25 1 259:1 / / rw,relatime shared:1 - xfs /dev/nvme0n1p1 rw,attr2
40 25 259:2 / /data rw,noatime shared:20 - ext4 /dev/nvme1n1 rw
41 25 0:35 / /with\\040space rw - overlay overlay rw,lowerdir=/a,upperdir=/data/up,workdir=/w
"""
STAT = "  4 0 32 1 123456 7 987654 4567 3 1200 5000 0 0 0 0 77 90"
keywords = st.sampled_from(
    ["", "0", "-1", "1e9", "nan", "inf", "-inf", "9" * 400, "9" * 5_000, "²", "٣", "0x10", "\x1b[31m"]
)
lines = st.lists(keywords | texts, max_size=20).map(" ".join)


def mutations_of(content):
    """The content mangled, as the reader gets it."""
    return mangled_bytes(content.encode()).map(lambda raw: raw.decode("utf-8", "replace"))


@fuzz(35)
@given(mutations_of(MOUNTS) | st.lists(lines, max_size=5).map("\n".join), texts)
@example("1 2 3 4 5 6 - a b c\n" * 30_000, "/")
@example("1 2 3 4 " + "\\040" * 16_000 + " 6 - a b c", "/")
def test_mountinfo_gives_mounts_whatever_its_content(text, path):
    with within(3):
        mounts = ddprobe.parse_mounts(text)
        result = ddprobe.mount_of(path, mounts)
    assert result is None or result in mounts
    for mount in mounts[:50]:
        assert isinstance(ddprobe.upper_dir_of(mount), str)


@fuzz(35)
@given(mutations_of(STAT) | lines)
@example("9" * 5_000 + " 1" * 16)
def test_counters_of_a_disk_are_numbers_or_there_are_none(text):
    result = ddprobe.parse_counters(text, 1.0)
    assert result is None or isinstance(result.done, int)


@fuzz(30)
@given(
    st.dictionaries(
        st.sampled_from(
            ["size", "queue/max_sectors_kb", "queue/write_cache", "device/model", "device/serial", "dev"]
        ),
        keywords | texts | st.binary(max_size=20),
    )
)
@example({"size": "9" * 5_000})
@example({"size": "many", "queue/max_sectors_kb": "-1"})
@example({"device/model": "Amazon Elastic Block Store", "device/serial": "vol0123456789abcdef0"})
def test_a_disk_is_described_whatever_sysfs_reports(folder, files):
    disk = folder / "nvme1n1"
    for name, content in files.items():
        (disk / name).parent.mkdir(parents=True, exist_ok=True)
        (disk / name).write_bytes(
            content if isinstance(content, bytes) else content.encode("utf-8", "replace")
        )
    try:
        result = ddprobe.Disk(**ddprobe._describe(str(disk)))
    finally:
        for name in files:
            (disk / name).unlink()
    assert 0 <= result.size_gib < math.inf
    assert result.max_io_kib > 0
    assert is_plain(result.model)
    assert result.volume_id is None or result.volume_id.startswith("vol-")


@fuzz(35)
@given(
    mutations_of("Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n") | lines,
    texts | lines,
)
@example("ctxt_switches: ²\nctxt_switches: " + "9" * 5_000, "")
def test_what_the_kernel_reports_of_a_task_is_counted_or_not(status, cgroup):
    assert isinstance(ddprobe._switches(status), int)
    unit = ddprobe._unit_of(cgroup)
    assert is_plain(unit)
    assert len(unit) <= 80


@fuzz(15)
@given(mutations_of("some avg10=0.00 avg60=0.00 avg300=0.00 total=12\nfull avg10=0.00 total=3\n") | lines)
@example("some total=" + "9" * 5_000)
def test_pressure_is_counted_or_not(text):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ddprobe, "read_text", lambda _path: text)
        result = ddprobe.io_pressure_us()
    assert all(isinstance(value, int) for value in result.values())


PAGE = ddprobe.EBS_MAGIC.to_bytes(4, "little") + bytes(range(256)) * 15 + bytes(252)


@fuzz(35)
@given(mangled_bytes(PAGE) | st.binary(max_size=64) | st.binary(min_size=4096, max_size=4096))
def test_a_page_of_nvme_is_counters_of_ebs_or_is_refused_in_words(raw):
    try:
        result = ddprobe.parse_ebs_page(raw)
    except ddprobe.ProbeError as error:
        assert_message(str(error))
        return
    assert result.keys() == ddprobe.NVME_FIELDS.keys()
    assert all(0 <= value < 2**64 for value in result.values())


def as_text(value):
    try:
        return json.dumps(value)
    except ValueError:
        return repr(value)


NVME = dict.fromkeys(ddprobe.NVME_FIELDS, 5)


@fuzz(35)
@given(mutated(NVME).map(as_text) | any_value.map(as_text) | texts, mutated(NVME).map(as_text))
@example("[" * 100_000, "{}")
@example("9" * 5_000, "{}")
def test_counters_in_json_are_taken_or_refused_in_words(before, after):
    results = []
    for text in (before, after):
        try:
            results.append(ddprobe.parse_nvme_json(text))
        except ddprobe.ProbeError as error:
            assert_message(str(error))
            results.append(None)
    rises = ddprobe.nvme_delta(*results)
    ddprobe.json_text(rises)


class Rooms:
    """A place for the probe's memory in this process."""

    def __init__(self, folder):
        self.folder = folder

    def path(self, name):
        return str(self.folder / name)

    def ensure(self):
        pass

    def write(self, name, text):
        (self.folder / name).write_text(text, encoding="utf-8")


REMEMBERED = "lite 0.000700 0.000800 0.000900\nclassic 0.100000\ncredits 123.000 99.000 1000.000 5.000\n"
stored_lines = mutations_of(REMEMBERED) | st.lists(
    st.builds(
        lambda word, numbers: f"{word} {' '.join(numbers)}",
        st.sampled_from(["lite", "classic", "credits", "x", ""]),
        st.lists(keywords | st.floats().map(str), min_size=3, max_size=5),
    ),
    max_size=4,
).map("\n".join)


@fuzz(30)
@given(stored_lines)
@example("\n\n")
@example("credits nan nan nan nan")
@example("credits inf -inf inf -inf")
@example("credits 1e300 -1e300 1e300 1e300")
@example("lite nan nan nan nan nan nan nan nan\nclassic -1 -1 -1 -1 -1 -1 -1")
@example("lite " + "inf " * 30)
def test_invalid_stored_state_allows_no_writes(folder, text):
    rooms = Rooms(folder)
    rooms.write("key.memory", text.encode("utf-8", "replace").decode())
    history = ddprobe.RunHistory(rooms, "key", 2.0)
    assert 0 <= history.allowance() <= history.max_allowance or history.allowance() < 0
    for level in ("lite", "classic"):
        median = history.median_s(level)
        assert median is None or 0 <= median < math.inf
    history.spend(86.0, climbed=True)
    history.add_healthy({"lite": 0.001})
    repeated = ddprobe.RunHistory(rooms, "key", 2.0)
    assert repeated.allowance() <= repeated.max_allowance
    assert 0 <= repeated.credits_total < math.inf
    assert math.isfinite(repeated.classic_at_s)


ANSWER = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"


@fuzz(50)
@given(mangled_bytes(ANSWER) | st.binary(max_size=80))
@example(b"HTTP/1.1 " + b"9" * 5_000 + b" OK\r\n\r\n")
@example(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-5\r\n" + b"x" * 50)
@example(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n")
@example(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 100_000)
def test_an_http_response_is_valid_or_a_protocol_error(raw):
    with within(3):
        try:
            status, body = ddprobe.parse_answer(raw)
        except OSError as error:
            assert_message(str(error))
            return
    assert status >= 0
    assert len(body) <= len(raw)


@fuzz(30)
@given(
    texts | st.sampled_from(["http://h:²/", "https://[::1]:99999/x", "http://:80", "http://h:" + "9" * 5_000])
)
def test_an_address_is_taken_apart_or_refused_in_words(url):
    try:
        scheme, host, port, path = ddprobe.split_url(url)
    except ddprobe.UsageError as error:
        assert_message(str(error))
        return
    assert scheme in ("http", "https")
    assert host
    assert path.startswith("/")
    assert 0 < port < 65_536


MODES = sorted(ddprobe.MODES)
OPTION_NAMES = [f"--{name}" for name, *_ in ddprobe.OPTIONS]
values = (
    keywords
    | texts
    | st.sampled_from(["5s", "1%", "101%", "1000", "/x.prom", "h:80", "h:²", "h:99999", "vol-0", "-"])
)
commands = st.lists(
    st.sampled_from([*MODES, *OPTION_NAMES, "--", "-", "/data"])
    | values
    | st.builds(lambda name, value: f"{name}={value}", st.sampled_from(OPTION_NAMES), values),
    max_size=6,
)


@fuzz(60)
@given(st.sampled_from(MODES), commands)
@example("run", ["--writes", "²"])
@example("run", ["--writes", "9" * 5_000])
@example("run", ["--graphite", "h:²"])
@example("run", ["\x1b[31m" * 2_000])
@example("\x1b[31m" * 2_000, [])
@example("run", ["--\x1b[31m\u202e" + "x" * 5_000])
@example("run", ["--level", "\u202e" + "x" * 5_000])
@example("run", ["--no-such"] * 5_000)
def test_a_command_line_is_understood_or_every_fault_of_it_is_reported(mode, rest):
    with within(3):
        try:
            options = ddprobe.parse_command([mode, *rest])
        except ddprobe.UsageError as error:
            assert_message(str(error), most=4_000)
            return
    assert options.mode == mode
    assert all(
        0 <= value < math.inf for value in (options.warn, options.crit, options.deadline, options.interval)
    )


named = st.sampled_from(HOSTILE_TEXTS) | texts


@fuzz(35)
@given(named, named, named, named, st.none() | named)
def test_host_names_are_inert_in_every_output(mount, device, comm, wchan, reason):
    top = [
        {
            "comm": ddprobe.sanitise(comm),
            "wchan": ddprobe.sanitise(wchan),
            "unit": "",
            "here": True,
            "count": 3,
        }
    ]
    reading = a_reading(
        mount=mount,
        path=mount,
        device=device,
        disks=[device],
        reason=reason or "",
        dstate={"most": 3, "most_here": 3, "top": top},
    )
    text = ddprobe.json_text(reading)
    assert text.isascii()
    assert text.isprintable()
    assert json.loads(text)["mount"] == _as_json_has_it(mount)
    families = list(text_string_to_metric_families(ddprobe.prom_text([reading])))
    assert families
    for line in (
        ddprobe.graphite_text(reading, "p") + ddprobe.collectd_text(reading, "h", 30.0)
    ).splitlines():
        assert line.isprintable()
    assert len(ddprobe.event_detail(reading, "i-0123456789abcdef0").encode()) <= ddprobe.MAX_EVENT_BYTES
    headline = ddprobe.headline(reading)
    assert is_plain(headline)
    assert len(headline) <= 400


def _as_json_has_it(text):
    return json.loads(json.dumps(text))
