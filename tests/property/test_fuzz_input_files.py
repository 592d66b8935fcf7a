"""Files that people write: the policy, a stage, a fleet of the lab, a recording for it, a history as CSV."""

import gzip
from datetime import UTC, datetime

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from burstctl.backtest.csv_input import CsvError, read_recordings
from burstctl.policy.settings import render_policy
from burstlab.model.fleet_file import FleetFileError, read_fleet
from burstlab.model.loads.load import LoadError, Recording
from burstlab.model.loads.load_parser import parse_load
from burstlab.model.loads.load_recording import read_recording
from burstwatch.adapters.policy.yaml_file import MAX_BYTES, parse_policy
from burstwatch.core.policy.policy import Policy, PolicyError
from burstwatch.core.watch.window_status import WindowSchedule
from infra.config import StageConfig, StageError, read_stage
from support.hostile_input import (
    HOSTILE_TEXTS,
    any_value,
    assert_message,
    fuzz,
    mangled_bytes,
    mutated,
    texts,
    within,
)

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
LONGEST_REFUSAL = 20_000
"""A file's faults are all named at once."""


def billion_laughs(levels, width, *, as_keys=True):
    """A document that is small on disk and without end where its aliases are followed."""
    lines = ["version: 1", "a0: &a0 {x: 1}"]
    for level in range(1, levels):
        inner = ", ".join(f"{'k' if as_keys else ''}{n}: *a{level - 1}" for n in range(width))
        lines.append(f"a{level}: &a{level} {{{inner}}}")
    return "\n".join(lines)


TRICKS = (
    "",
    "---\n",
    "--- {}\n--- {}\n",
    "version: 1\n" * 3,
    "version: 1\nmode: &m {highest: propose, deeper: *m}\n",
    "version: 1\nmode: {<<: {highest: propose}}\n",
    billion_laughs(8, 40),
    billion_laughs(30, 9),
    "[" * 1_500,
    "{a: " * 800,
    "- " * 800,
    "? " * 800,
    "!!python/object/apply:os.system ['true']",
    "version: !!python/name:os.system 1",
    "version: !!binary aGVsbG8=",
    "version: 1\nflip: {fleet_cap: " + "9" * 5_000 + "}",
    "version: 1\nflip: {spend_cap_usd_per_month: .nan, headroom_pct: .inf}",
    "version: 1\nlevels: {critical_within: 2026-11-20}",
    "version: 1\nlevels: {critical_within: 1e999m, warning_within: 999999d}",
    'version: 1\n"\\e[2J\\a\\u202e": {"\\x9b": 1}',
    'version: 1\nmode: {default: "\\e[31m", opt_in_tag: "\\e=\\u202e"}',
    "version: 1\nwindows: {w: {from: 0001-01-01T00:00+14:00, to: 0001-01-02T00:00+14:00}}",
    "version: 1\nwindows: {w: {from: 9999-12-31T23:59-14:00, to: 9999-12-31T23:59-14:00}}",
    "version: 1\nwindows: {w: {zone: Europe/Berlin, from: 9999-12-31T23:00, to: 9999-12-31T23:59}}",
    "version: 1\nwindows: {w: {zone: UTC, from: 0001-01-01T00:00, to: 0001-01-01T23:59}}",
    "version: 1\nwindows: {w: {cron: 0 0 30 2 *, zone: UTC, duration: 1h}}",
    "version: 1\nwindows: {w: {cron: 0 0 29 2 *, zone: ../../etc/passwd, duration: 1h}}",
    "version: 1\nwindows: {w: {cron: '*/0 * * * *', zone: UTC, duration: 1h}}",
    "version: 1\nflip: {change_hours: mon-sun 00:00-00:00 Etc/GMT+12}",
    "version: 1\n" + "".join(f"k{n}: 1\n" for n in range(900)),
    "version: 1\nmode:\n" + "".join(f"  {'k' * 60}{n}: 1\n" for n in range(110)),
    f"version: 1\n{'x' * 8_000}: 1",
    f"version: 1\nmode: {{default: {'x' * 8_000}}}",
    "version: 1" + "\n. : 1" * 500,
    "version: 1\n" + "." * 4_000 + ": 1",
    "\ufeffversion: 1",
    "version: 1\x00",
    "version: 1 # \u202e",
    "version:\t1",
    "%YAML 9.9\n---\nversion: 1",
    "*a",
    "&a *a",
    "&a [*a]",
    "&a {*a : *a}",
    "<<: *a",
)

VALUES = (
    *(
        "1",
        "0",
        "-1",
        "15m",
        "0s",
        "999999d",
        "1d",
        "100",
        "100.0001",
        "auto",
        "propose",
        "gp3",
        "io2",
        "always",
    ),
    *("mon-fri 08:00-18:00 Europe/Berlin", "sat 23:59-00:00 America/Sao_Paulo", "a=b", "burstwatch:mode=x"),
    *("0 18 * * fri", "*/5 * * * *", "2026-11-20T18:00", "9999-12-31T23:59Z", "tag:a=b", "1-2", "100-1"),
    *("https://a.example/x", "../x", "Europe/Berlin", "Factory", "posixrules", "six_hours", "never"),
)
SECTIONS = {
    name: [*settings]
    for name, settings in Policy().to_mapping().items()
    if isinstance(settings, dict) and settings
}
WINDOW_KEYS = ("cron", "zone", "duration", "from", "to", "where", "size_gib")

values = st.sampled_from(VALUES) | texts | any_value
sections = st.fixed_dictionaries(
    {},
    optional={
        name: st.dictionaries(st.sampled_from(keys) | texts, values, max_size=4) | values
        for name, keys in SECTIONS.items()
    },
)
windows = st.dictionaries(
    st.sampled_from(["release", "migration"]) | texts,
    st.dictionaries(st.sampled_from(WINDOW_KEYS) | texts, values, max_size=5) | values,
    max_size=3,
)
documents = st.builds(lambda settings, named: {"version": 1, **settings, "windows": named}, sections, windows)


def dump_yaml(document) -> bytes:
    """As YAML: what it cannot say is said as text."""
    try:
        return yaml.safe_dump(document, allow_unicode=True).encode()
    except (yaml.YAMLError, ValueError):
        return repr(document).encode("utf-8", "replace")


yaml_bytes = st.one_of(
    st.sampled_from(TRICKS).map(lambda text: text.encode("utf-8", "replace")),
    documents.map(dump_yaml),
    documents.flatmap(mutated).map(dump_yaml),
    documents.flatmap(lambda document: mangled_bytes(dump_yaml(document))),
    st.binary(max_size=60),
    st.text(st.sampled_from("{}[]:,-?&*!|>'\"%@`# \n\tabc01.\\e"), max_size=60).map(str.encode),
)


def each_trick(test):
    for text in TRICKS:
        test = example(text.encode("utf-8", "replace"))(test)
    return test


@fuzz(35)
@given(yaml_bytes)
@each_trick
def test_a_policy_is_accepted_whole_or_refused_with_every_fault_in_words(document):
    with within(10):
        try:
            policy = parse_policy(document, source="policy.yaml")
        except PolicyError as error:
            assert error.faults  # noqa: PT017 - it may be accepted as well
            for fault in error.faults:
                assert_message(str(fault))
            assert_message("\n".join(map(str, error.faults)), most=LONGEST_REFUSAL)
            return
        assert len(document) <= MAX_BYTES
        assert policy.faults() == ()
        for has_comments in (True, False):
            yaml_text = render_policy(policy, has_comments=has_comments).encode()
            assert len(yaml_text) > MAX_BYTES or parse_policy(yaml_text, source="again") == policy
        WindowSchedule.at(NOON.timestamp(), policy, ())


STAGE = {
    "name": "burstwatch",
    "account": "123456789012",
    "regions": ["eu-central-1", "us-east-1"],
    "schedule": "true",
    "flips": "true",
    "policy": "policy.yaml",
    "recipients": {"emails": ["oncall@example.com"], "slack_secret": "burstwatch/slack", "chat": "true"},
    "alarms": {"lowest_burst_balance_pct": "20"},
    "log_retention_days": "30",
    "tags": {"owner": "sre"},
}


@fuzz(30)
@given(
    st.one_of(
        mutated(STAGE).map(dump_yaml),
        mangled_bytes(dump_yaml(STAGE)),
        yaml_bytes,
        st.builds(lambda key, value: dump_yaml(STAGE | {key: value}), st.sampled_from([*STAGE]), values),
    )
)
@each_trick
def test_a_stage_is_read_or_every_fault_of_it_is_named(folder, document):
    path = folder / "stage.yaml"
    path.write_bytes(document)
    with within(10):
        stage, faults = read_stage(path)
    assert isinstance(stage, StageConfig)
    if faults:
        for fault in faults:
            assert_message(str(fault))
        assert_message(str(StageError(tuple(faults))), most=LONGEST_REFUSAL)
    hash((stage.name, stage.regions, stage.recipients))


FLEET = {
    "volumes": [
        {"size_gib": 100, "load": "docker-loop", "tags": {"Name": "ci"}, "count": 2},
        {"size_gib": 8, "balance_pct": 50.5, "volume_id": "vol-0123456789abcdef0", "attached": False},
        {"size_gib": 500, "volume_type": "gp3", "iops": 3000, "throughput_mib_s": 125, "device": "/dev/sdf"},
    ]
}
fleets = st.one_of(
    mutated(FLEET).map(dump_yaml),
    mangled_bytes(dump_yaml(FLEET)),
    yaml_bytes,
    st.builds(
        lambda key, value: dump_yaml({"volumes": [{"size_gib": 1, key: value}]}),
        st.sampled_from(["size_gib", "count", "load", "balance_pct", "tags", "iops", "volume_id"]),
        values | st.integers(),
    ),
)


@fuzz(30)
@given(fleets)
@example(b"volumes: [{size_gib: 1, count: 1000000000000}]")
@example(b"volumes: [{size_gib: 2026-13-45}]")
@example(b"volumes: [{size_gib: 2026-02-30}]")
@example(b"volumes: [{size_gib: !!int _}]")
@example(b"volumes: [{size_gib: !!float .}]")
@example(b"volumes: [{size_gib: 1, load: /dev/zero.csv.gz}]")
@example(b"volumes: [{size_gib: 1, load: 'adversary:0'}, {size_gib: 1, load: 'nightly-batch:99'}]")
@example(b"volumes: &v [{size_gib: 1, tags: *v}]")
@example((billion_laughs(30, 9) + "\nvolumes: [{size_gib: *a29}]").encode())
@each_trick
def test_a_fleet_file_gives_volumes_that_can_be_or_is_refused_in_words(folder, document):
    path = folder / "fleet.yaml"
    path.write_bytes(document)
    with within(10):
        try:
            volumes = read_fleet(path, NOON).volumes
        except (FleetFileError, LoadError) as error:
            assert_message(str(error), most=2_000)
            return
    assert volumes
    assert all(volume.size_gib >= 1 and 0 <= volume.balance_pct <= 100 for volume in volumes)


load_words = st.sampled_from(
    ["idle", "steady", "docker-loop", "nightly-batch", "adversary", "ci-day", ":", "*", "+", "@", "%", "900"]
)


@fuzz(25)
@given(
    texts
    | st.lists(load_words | st.sampled_from(["1e5", "-1", "0", "nan", "9" * 30]), max_size=6).map("".join)
)
def test_a_load_is_valid_or_refused_with_a_reason(text):
    try:
        load = parse_load(text)
    except LoadError as error:
        assert_message(str(error), most=2_000)
        return
    with within(10):
        segment = load.at(NOON.timestamp()) if hasattr(load, "at") else None
    assert segment is None or segment


RECORDING = "seconds_since_start,read_ops_per_s,write_ops_per_s\n" + "".join(
    f"{300 * n},{n},{n / 2}\n" for n in range(6)
)
cells = (
    st.sampled_from(["", "0", "300", "600", "1e308", "nan", "inf", "-1", "0.5", "9" * 400, '"', "\x00"])
    | texts
)


def table(header, rows):
    return "\n".join([header, *(",".join(row) for row in rows)])


recordings = st.one_of(
    mangled_bytes(RECORDING.encode()),
    st.lists(st.lists(cells, max_size=4), max_size=6).map(
        lambda rows: table(RECORDING.splitlines()[0], rows).encode("utf-8", "replace")
    ),
    st.binary(max_size=50),
)


@fuzz(30)
@given(recordings, st.booleans())
@example(b"seconds_since_start,read_ops_per_s,write_ops_per_s\n0,1,1\n1,1,1\n2000000000,1,1", True)
@example(b"seconds_since_start,read_ops_per_s,write_ops_per_s\n0,1,1\n1e300,1,1", True)
@example(b"seconds_since_start,read_ops_per_s,write_ops_per_s\n0," + b"1" * 200_000, True)
@example(b"\x1f\x8b\x08\x00garbage", False)
@example(b"", False)
def test_a_recording_is_on_its_grid_or_is_refused_with_its_line(folder, content, is_packed):
    path = folder / f"disk-{abs(hash(content))}-{is_packed}.csv.gz"
    path.write_bytes(gzip.compress(content, mtime=0) if is_packed else content)
    with within(10):
        try:
            result = read_recording(path)
        except LoadError as error:
            assert_message(str(error))
            return
        finally:
            path.unlink()
    assert isinstance(result, Recording)
    assert result.step_s > 0
    assert len(result.read_iops) == len(result.write_iops) >= 2


HISTORY = "time,burst_balance_pct,read_ops,write_ops,size_gib\n" + "".join(
    f"2026-11-20T12:{n:02d}:00Z,{99 - n},6000,3000,100\n" for n in range(6)
)
csv_cells = cells | st.sampled_from(
    ["2026-11-20T12:00:00Z", "1795176000", "0001-01-01T00:00:00+14:00", "100", "\uff11"]
)
histories = st.one_of(
    mangled_bytes(HISTORY.encode()),
    st.lists(st.lists(csv_cells, max_size=6), max_size=6).map(
        lambda rows: table(HISTORY.splitlines()[0], rows).encode("utf-8", "replace")
    ),
    st.binary(max_size=50),
    st.sampled_from(HOSTILE_TEXTS).map(lambda text: text.encode("utf-8", "replace")),
)


@fuzz(35)
@given(histories, st.sampled_from([None, 1, 100]))
@example(b'time,burst_balance_pct,read_ops,write_ops\n"' + b"x" * 200_000, 100)
def test_a_history_as_csv_is_replayable_or_is_refused_with_its_line(folder, content, size_gib):
    path = folder / "volume.csv"
    path.write_bytes(content)
    with within(10):
        try:
            (result,) = read_recordings([path], size_gib)
        except CsvError as error:
            assert_message(str(error))
            return
    assert 1 <= result.volume.size_gib < 1_000


@fuzz(15)
@given(st.lists(texts, min_size=1, max_size=3, unique=True))
def test_whatever_a_file_is_called_its_volume_has_a_name_to_show(folder, names):
    paths = []
    for name in names:
        path = folder / (
            name.replace("/", "_").replace("\0", "_")[:40].encode("utf-8", "replace").decode() or "x"
        )
        if path.parent == folder and path.name not in ("", "..", folder.name) and path not in paths:
            path.write_text(HISTORY, encoding="utf-8")
            paths.append(path)
    result = read_recordings(paths, None)
    ids = [finding.volume.volume_id for finding in result]
    assert len(set(ids)) == len(paths)
    for volume_id in ids:
        assert_message(volume_id)
