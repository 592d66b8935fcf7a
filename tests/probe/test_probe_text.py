import json

import ddprobe
import pytest
from hypothesis import given
from hypothesis import strategies as st

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
)


@given(ANY_JSON)
def test_what_is_written_as_json_reads_back_the_same(value):
    assert json.loads(ddprobe.json_text(value)) == value


@given(st.text())
def test_json_is_one_line_of_printable_ascii_whatever_a_task_calls_itself(text):
    assert all(" " <= char <= "~" for char in ddprobe.json_text(text))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_no_number_is_written_that_json_does_not_know(value):
    assert ddprobe.json_text(value) == "null"


def test_names_that_others_chose_lose_control_characters_and_length():
    assert ddprobe.sanitise(b"\x1b[31mevil\n\xff" + b"x" * 100) == "?[31mevil?\ufffd" + "x" * 53


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.00071, "0.71 ms"), (0.4, "400 ms"), (22.37, "22.4 s"), (4000, "67 min")]
)
def test_durations_have_three_figures_and_a_unit(seconds, text):
    assert ddprobe.format_duration(seconds) == text


def test_values_do_not_change_and_must_be_complete():
    lines = ddprobe.Thresholds(warn_s=1.0, crit_s=5.0, ratio=10.0)
    with pytest.raises(AttributeError, match="does not change"):
        lines.warn_s = 2.0
    with pytest.raises(TypeError, match="ratio"):
        ddprobe.Thresholds(warn_s=1.0, crit_s=5.0)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("TIME", "500ms", 0.5),
        ("TIME", "2m", 120.0),
        ("TIME", "7", 7.0),
        ("TIME", "soon", None),
        ("TIME", "-1s", None),
        ("TIME", "nan", None),
        ("SPAN", "100ms", 0.1),
        ("SPAN", "99ms", None),
        ("SHARE", "1%", 0.01),
        ("SHARE", "0.5", 0.5),
        ("SHARE", "101%", None),
        ("SHARE", "0", None),
        ("COUNT", "0", None),
        ("COUNT", "12", 12),
        ("NUMBER", "inf", None),
        ("ID", "vol-0123456789abcdef0", "vol-0123456789abcdef0"),
        ("ID", "vol-xyz", None),
        ("HOST:PORT", "localhost:2003", "localhost:2003"),
        ("HOST:PORT", "localhost", None),
        ("HOST:PORT", "h:99999", None),
        ("PROM", "/run/x/ddprobe.prom", "/run/x/ddprobe.prom"),
        ("PROM", "/run/x/ddprobe.txt", None),
        ("lite classic", "lite", "lite"),
        ("lite classic", "heavy", None),
    ],
)
def test_values_of_options_are_read_with_their_units(kind, text, value):
    read = ddprobe.parse_value(kind, text)
    assert read == (None if value is None else pytest.approx(value) if kind in ("TIME", "SPAN") else value)


def test_every_fault_of_a_command_line_is_named_at_once():
    arguments = [
        "run",
        "--warn",
        "soon",
        "--crit=-3",
        "--levle",
        "--top",
        "0",
        "--passive-every",
        "3s",
        "/data",
    ]
    with pytest.raises(ddprobe.UsageError) as refused:
        ddprobe.parse_command(arguments)
    message = str(refused.value)
    for part in ("--warn", "'soon'", "--crit", "--levle", "--top", "--passive-every means nothing to run"):
        assert part in message


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["run", "--warn", "6s"], "--warn 6s is above --crit 5s"),
        (["run", "--deadline", "2s"], "no verdict could be reached"),
        (["run", "--file", "../x"], "--file is a name in PATH"),
        (["serve", "--collectd", "--json", "-"], "both want stdout"),
        (["run", "--level", "classic", "--interval", "60s"], "every 86 s is possible"),
        (["serve", "--interval", "5s"], "every 22 s is possible"),
        (["run", "--interval", "30s"], "every 42 s is possible"),
        (["run", "--interval", "0s"], "--interval takes a time of at least 100ms"),
        (["run", "--deadline", "0s"], "--deadline takes a time of at least 100ms"),
        (["serve", "--passive-every", "0s"], "--passive-every takes a time of at least 100ms"),
        (["run", "--engine", "dd", "--data", "random"], "--engine dd writes zeros"),
        (["run", ""], "PATH is empty: is a variable not set"),
        (["passive", "/", ""], "PATH is empty"),
        (["measure"], "measure is not one of run, serve, passive, explain"),
        (["run", "--json"], "--json needs a value"),
    ],
)
def test_options_that_cannot_be_together_are_refused_with_the_arithmetic(arguments, fault):
    with pytest.raises(ddprobe.UsageError, match=fault):
        ddprobe.parse_command(arguments)


def test_the_defaults_spend_less_than_a_hundredth_of_the_smallest_baseline():
    for mode in ("run", "serve"):
        options = ddprobe.parse_command([mode])
        series = ddprobe.cost_of("lite", ddprobe.DEFAULT_WRITES[mode], [], bulk=ddprobe.BULK_WRITES)
        assert series.credits / options.interval <= 0.0075 * 100
    in_place = ddprobe.cost_of("lite", 2 * 16 + ddprobe.LITE_AFTER_BULK, [], bulk=ddprobe.MAX_BULK_WRITES)
    appended = ddprobe.cost_of("lite", 2 * 16, [], appends=ddprobe.APPENDS)
    most = max(in_place.credits, appended.credits)
    assert most == 42 + 49
    climbing_per_s = (most + ddprobe.CLASSIC_CREDITS) / ddprobe.parse_command(["run"]).interval
    assert climbing_per_s <= 0.01 * 100


def test_the_help_fits_eighty_columns_and_names_every_option():
    text = ddprobe.help_text()
    assert max(len(line) for line in text.splitlines()) <= 80
    assert all(f"--{option[0]}" in text for option in ddprobe.OPTIONS)
    assert "EXAMPLES" in text
    assert "runbooks/HostStallReported.md" in text


@pytest.mark.parametrize("arguments", [["--writes", "²"], ["--graphite", "h:²"], ["--writes", "9" * 5_000]])
def test_a_figure_that_is_no_digit_is_a_fault_of_the_command_line(arguments):
    with pytest.raises(ddprobe.UsageError, match="takes"):
        ddprobe.parse_command(["run", *arguments, "/data"])


def test_what_was_typed_is_shown_safely():
    with pytest.raises(ddprobe.UsageError) as caught:
        ddprobe.parse_command(["run", "--\x1b[31m" + "x" * 5_000])
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 200
