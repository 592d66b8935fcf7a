import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstwatch.core.text import display_width, format_duration, format_usd, sanitise, wrap


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ci-7", "ci-7"),
        ("büro 日本 ✓", "büro 日本 ✓"),
        ("  two\n\tlines\u2028here ", "two lines here"),
        ("\x1b[31mred\x9b0m", "?[31mred?0m"),
        ("a\u202eb\u2066c\u200fd", "a?b?c?d"),
        ("a\u200bb\u00adc\ufeffd", "a?b?c?d"),
        ("a\u3164b\u2800c", "a?b?c"),
        ("\ud800", "?"),
        ("\U000e0041", "?"),
        ("e" + "\u0301" * 50, "e\u0301\u0301"),
        ("\u0301" * 3 + "e", "\u0301\u0301e"),
        ("", ""),
        (" \n ", ""),
    ],
)
def test_invisible_characters_are_not_shown(text, expected):
    assert sanitise(text, 100) == expected


@pytest.mark.parametrize(
    ("text", "limit", "expected"), [("abcde", 5, "abcde"), ("abcdef", 5, "abcd…"), ("abc def", 5, "abc…")]
)
def test_a_cut_shows(text, limit, expected):
    assert sanitise(text, limit) == expected


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_any_text_is_one_printable_line_within_its_limit(text, limit):
    expected = sanitise(text, limit)
    assert len(expected) <= limit
    assert expected.isprintable()
    assert sanitise(expected, limit) == expected


@pytest.mark.parametrize(("text", "width"), [("abc", 3), ("日本", 4), ("e\u0301", 1), ("", 0)])
def test_columns_are_counted_as_a_terminal_does(text, width):
    assert display_width(text) == width


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("one two three", ["one two", "three"]),
        ("a abcdefghij b", ["a", "abcdefg", "hij b"]),
        ("日本日本 x", ["日本日", "本 x"]),
        ("exactly", ["exactly"]),
        ("", [""]),
    ],
)
def test_lines_break_between_words(text, lines):
    assert wrap(text.split(), 7) == lines


@given(st.lists(st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1)), st.integers(2, 20))
def test_filled_lines_fit_and_lose_nothing(expected, width):
    lines = wrap(expected, width)
    assert all(display_width(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == "".join(expected)


def test_a_word_as_wide_as_a_line_is_one_line():
    assert wrap(["ab", "wxyz"], 4) == ["ab", "wxyz"]
    assert wrap(["ab", "wxyzw"], 4) == ["ab", "wxyz", "w"]


def test_a_word_that_is_too_long_may_stay_whole():
    parts = ["ab", "/home/me/ledger", "c"]
    assert wrap(parts, 4, breaks_words=False) == ["ab", "/home/me/ledger", "c"]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (119.9, "119 s"),
        (120, "2 min"),
        (7_199, "119 min"),
        (7_200, "2 h 00 min"),
        (172_799, "47 h 59 min"),
        (172_800, "2 d 0 h"),
        (76 * 3_600, "3 d 4 h"),
        (95 * 3_600, "3 d 23 h"),
    ],
)
def test_a_length_of_time_is_reported_in_two_units_at_most(seconds, expected):
    assert format_duration(seconds) == expected


@pytest.mark.parametrize(
    ("usd", "decimals", "expected"),
    [
        (0, None, "$0.00"),
        (1234.5, None, "$1,234.50"),
        (-3, None, "-$3.00"),
        (0.005, None, "$0.01"),
        (0.00499, None, "$0.0050"),
        (-0.0012, None, "-$0.0012"),
        (0.00008, 5, "$0.00008"),
    ],
)
def test_dollars_show_cents_or_what_there_is_of_less_than_half_a_cent(usd, decimals, expected):
    assert format_usd(usd, decimals=decimals) == expected
