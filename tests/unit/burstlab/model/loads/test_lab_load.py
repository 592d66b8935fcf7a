import gzip

import pytest

from burstlab.model.loads.load import NAMED_LOADS, LoadError, get_operation_kib
from burstlab.model.loads.load_parser import list_recordings, parse_load

MIDNIGHT_S = 1_795_132_800  # 2026-11-20T00:00:00Z


def demand_by_second(text, *, from_s, seconds, since_s=None):
    """Total demand of each second, following segment after segment."""
    load, since_s = parse_load(text), from_s if since_s is None else since_s
    result, at_s = [], from_s
    while at_s < from_s + seconds:
        reads, writes, until_s = load.segment(at_s, since_s)
        assert until_s > at_s
        result.extend([reads + writes] * (min(until_s, from_s + seconds) - at_s))
        at_s = until_s
    return result


def write_recording(path, text):
    with gzip.open(path, "wt") as file:
        file.write(text)
    return path


HEADER = "seconds_since_start,read_ops_per_s,write_ops_per_s,read_bytes_per_s,write_bytes_per_s\n"


@pytest.mark.parametrize("named", NAMED_LOADS, ids=lambda named: named.name)
def test_every_named_load_has_a_reason_and_goes_on_for_ever(named):
    assert len(named.reason) > 20
    text = f"{named.name}:500" if named.argument == "IOPS" else named.name
    result = demand_by_second(text, from_s=MIDNIGHT_S + 12_345, seconds=90_000)
    assert len(result) == 90_000
    assert min(result) >= 0


def test_docker_loop_empties_a_small_bucket_after_five_thousand_containers():
    # 1,380 operations in 3 s are 460/s; 460 - 100 = 360/s; 5,400,000 / 360 = 15,000 s = 5,000 containers
    container = demand_by_second("docker-loop", from_s=MIDNIGHT_S, seconds=3)
    assert sum(container) == 1_380
    assert 5_400_000 / (sum(container) / 3 - 100) == 5_000 * 3


def test_nightly_batch_bursts_for_two_hours_at_its_hour_and_is_quiet_else():
    hours = demand_by_second("nightly-batch:3", from_s=MIDNIGHT_S, seconds=86_400)[1_800::3_600]
    assert [hour for hour, demand in enumerate(hours) if demand > 1_000] == [3, 4]


def test_nightly_batch_that_begins_before_midnight_ends_after_it():
    hours = demand_by_second("nightly-batch:23", from_s=MIDNIGHT_S, seconds=86_400)[1_800::3_600]
    assert [hour for hour, demand in enumerate(hours) if demand > 1_000] == [0, 23]


@pytest.mark.parametrize(
    ("text", "reads", "writes", "kib"),
    [
        ("steady:1000", 250, 750, 16),
        ("steady:1000@64", 250, 750, 64),
        ("steady:1000%100", 1_000, 0, 16),
        ("steady:1000*2@0.5%0", 0, 2_000, 0.5),
        ("steady:1000+60@256%40", 400, 600, 256),
    ],
)
def test_a_load_states_how_large_its_operations_are_and_which_are_reads(text, reads, writes, kib):
    load = parse_load(text)
    assert load.segment(MIDNIGHT_S, MIDNIGHT_S)[:2] == pytest.approx((reads, writes))
    assert get_operation_kib(load) == kib


def test_a_recording_can_be_given_a_size_and_a_share_too():
    whole, shaped = parse_load("nab_c0d644*32"), parse_load("nab_c0d644*32@8%25")
    for at_s in range(MIDNIGHT_S, MIDNIGHT_S + 86_400, 3_600):
        original, reshaped = whole.segment(at_s, MIDNIGHT_S), shaped.segment(at_s, MIDNIGHT_S)
        assert reshaped.read_iops + reshaped.write_iops == pytest.approx(
            original.read_iops + original.write_iops
        )
        assert reshaped.read_iops == pytest.approx(original.write_iops / 4)  # it holds writes only
    assert (get_operation_kib(whole), get_operation_kib(shaped)) == (16, 8)


def test_the_adversary_waits_for_an_evaluation_to_pass_and_then_takes_all():
    # put on at 00:05, looks every 15 min: the second look to come is at 00:30, it strikes 61 s later
    result = demand_by_second("adversary:15", from_s=MIDNIGHT_S + 300, seconds=3_600)
    assert result.index(3_000) == 25 * 60 + 61
    assert set(result[25 * 60 + 61 :]) == {3_000}


def test_a_recording_is_scaled_shifted_and_repeated(tmp_path):
    path = write_recording(tmp_path / "disk.csv.gz", HEADER + "0,1,2,,\n60,3,4,,\n120,5,6,,\n")
    result = demand_by_second(f"{path}*10+60", from_s=MIDNIGHT_S, seconds=300)
    assert result[::60] == [70, 110, 30, 70, 110]


def test_a_gap_in_a_recording_is_read_as_no_operations(tmp_path):
    path = write_recording(tmp_path / "disk.csv.gz", HEADER + "0,1,1,,\n60,1,1,,\n180,,,,\n240,1,1,,\n")
    assert demand_by_second(str(path), from_s=MIDNIGHT_S, seconds=300)[::60] == [2, 2, 0, 0, 2]


def test_packaged_recordings_can_be_named():
    assert list(list_recordings()) == ["nab_1ef3de", "nab_c0d644"]
    # index of the source: the greatest five-minute mean of nab_c0d644 is 175.8 operations per second
    week = demand_by_second("nab_c0d644*2", from_s=MIDNIGHT_S, seconds=14 * 86_400)
    assert max(week) == pytest.approx(2 * 175.8, abs=0.2)


BAD_FILES = [
    ("seconds_since_start,read_ops_per_s\n0,1\n", "no column write_ops_per_s"),
    (HEADER + "0,1,2,,\n60,oops,2,,\n", "line 3: read_ops_per_s is 'oops'"),
    (HEADER + "0,1,2,,\n60,1,-2,,\n", "line 3: write_ops_per_s is '-2'"),
    (HEADER + "0,1,2,,\n60,1,nan,,\n", "line 3: write_ops_per_s is 'nan'"),
    (HEADER + "0,1,2,,\n60,1\n", "line 3: write_ops_per_s is None"),
    (
        HEADER + "0,1,1,,\n60,1,1,,\n120,1,1,,\n150,1,1,,\n",
        "line 5: seconds_since_start is 150; on a grid of 60 s",
    ),
    (HEADER + "0,1,1,,\n60,1,1,,\n60,1,1,,\n120,1,1,,\n", "line 4: seconds_since_start is 60"),
    (HEADER + "0,1,1,,\n60.5,1,1,,\n", "line 3: seconds_since_start is 60.5; whole seconds only"),
    (HEADER + "0,1,1,,\n60,1,1,,\n120,1,1,,\n1200000000060,1,1,,\n", "line 5: a gap of"),
    (HEADER, "0 rows; a recording needs at least two"),
    ("", "no column seconds_since_start, read_ops_per_s, write_ops_per_s"),
]


@pytest.mark.parametrize(("text", "complaint"), BAD_FILES)
def test_a_bad_recording_is_refused_with_file_line_and_value(tmp_path, text, complaint):
    path = write_recording(tmp_path / "disk.csv.gz", text)
    with pytest.raises(LoadError) as refused:
        parse_load(str(path))
    assert str(refused.value).startswith(str(path))
    assert complaint in str(refused.value)


def test_a_file_that_is_not_gzip_or_not_there_is_refused_by_name(tmp_path):
    plain = tmp_path / "plain.csv.gz"
    plain.write_text(HEADER + "0,1,1,,\n60,1,1,,\n")
    with pytest.raises(LoadError, match=r"plain.csv.gz: cannot be read as gzipped CSV"):
        parse_load(str(plain))
    cut = tmp_path / "cut.csv.gz"
    cut.write_bytes(gzip.compress(plain.read_bytes() * 100)[:60])
    with pytest.raises(LoadError, match=r"cut.csv.gz: cannot be read as gzipped CSV"):
        parse_load(str(cut))
    with pytest.raises(LoadError, match=r"nowhere.csv.gz: cannot be read: No such file"):
        parse_load(str(tmp_path / "nowhere.csv.gz"))


BAD_TEXTS = [
    ("", "write NAME"),
    ("steady:900@0", "KiB of load 'steady:900@0' is '0': give a number above 0, at most 1024"),
    ("steady:900@2048", "give a number from 0 to 1024"),
    ("steady:900%101", "reads of load 'steady:900%101' in per cent is '101': give a number from 0 to 100"),
    ("steady", "needs IOPS, such as steady:900"),
    ("steady:fast", "IOPS of steady is 'fast'"),
    ("docker-loop:3", "docker-loop takes no argument"),
    ("dockerloop", "there are idle, steady, docker-loop"),
    ("nab_c0d644:3", "a recording takes no argument"),
    ("idle*x", "scale of load 'idle*x' is 'x'"),
    ("etcd+1.5", "give a whole number"),
    ("nightly-batch:24", "give a number from 0 to 23"),
    ("adversary:0", "give at least 1"),
]


@pytest.mark.parametrize(("text", "complaint"), BAD_TEXTS)
def test_an_invalid_load_is_refused_with_a_valid_example(text, complaint):
    with pytest.raises(LoadError) as refused:
        parse_load(text)
    assert complaint in str(refused.value)


def test_a_recording_with_an_endless_cell_is_not_a_csv(tmp_path):
    path = tmp_path / "disk.csv.gz"
    header = "seconds_since_start,read_ops_per_s,write_ops_per_s"
    path.write_bytes(gzip.compress(f"{header}\n0,{'1' * 200_000},1\n".encode()))
    with pytest.raises(LoadError, match="cannot be read as gzipped CSV"):
        parse_load(str(path))
