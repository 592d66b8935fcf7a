"""Pictures in characters, next to their data; `pytest tests/unit --rewrite` draws them again."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from burstctl.cli.styled_text import StyledText, to_plain_text
from burstctl.plot.canvas import ASCII_GLYPHS, UNICODE_GLYPHS, Canvas
from burstctl.plot.labels import (
    describe_forecast_cone,
    describe_state,
    fit_text,
    format_bin_width,
    newest_events,
)
from burstctl.plot.lanes import SegmentStyle, build_lanes
from burstctl.plot.scales import Panel, TimeScale, place_events, rate_scale, values_in
from burstctl.plot.terminal_plot import _FILL_CHARACTERS, _SEGMENT_STYLES, MIN_WIDTH, draw_text
from burstctl.timeline.intervals import EVENT_LETTERS, TimelineEvent
from burstctl.timeline.window_intervals import WindowInterval
from burstwatch.core.buckets.series import Series
from burstwatch.core.ledger.flip_state import FlipStatus
from burstwatch.core.text import display_width
from support.builders.core_values import (
    GP3,
    a_flip,
    a_state,
    a_volume,
    a_volume_as,
    at,
)
from support.builders.history import (
    a_history,
    a_hold,
    a_level,
    falling,
)
from support.builders.plots import (
    VOLUME_FIELDS,
    a_bad_day,
    a_draining_instance,
    a_flipped_and_returned_volume,
    a_slow_disk,
    exhausted,
    plotted_of,
)

PICTURES = Path(__file__).parent / "pictures"

CASES = {
    "a_bad_day": (a_bad_day, 80, 24, UNICODE_GLYPHS),
    "a_bad_day_in_ascii": (a_bad_day, 80, 24, ASCII_GLYPHS),
    "a_bad_day_on_a_wide_terminal": (a_bad_day, 140, 44, UNICODE_GLYPHS),
    "there_and_back_again": (a_flipped_and_returned_volume, 80, 24, UNICODE_GLYPHS),
    "exhausted": (exhausted, 80, 24, UNICODE_GLYPHS),
    "a_draining_instance": (a_draining_instance, 80, 24, UNICODE_GLYPHS),
    "a_slow_disk": (a_slow_disk, 80, 24, UNICODE_GLYPHS),
}


def rendered_lines(plotted, width=80, height=24, glyphs=UNICODE_GLYPHS) -> str:
    return to_plain_text(draw_text(plotted, width=width, height=height - 1, glyphs=glyphs)) + "\n"


@pytest.mark.parametrize("name", CASES)
def test_the_picture_is_as_drawn(name, request):
    make_history, width, height, glyphs = CASES[name]
    drawn, path = rendered_lines(make_history(), width, height, glyphs), PICTURES / f"{name}.txt"
    if request.config.getoption("--rewrite"):
        path.write_text(drawn)
    assert drawn == path.read_text(), "if this is meant, draw it with --rewrite and look at the difference"


@pytest.mark.parametrize("width", [40, 60, 80, 133, 200])
@pytest.mark.parametrize("height", [10, 24, 60])
def test_no_line_is_wider_than_the_terminal_and_the_picture_fits_unless_that_is_very_low(width, height):
    lines = rendered_lines(a_bad_day(), width, height).splitlines()
    assert max(map(display_width, lines)) <= max(MIN_WIDTH, width)
    if height >= 30:
        assert len(lines) < height


def test_in_ascii_there_is_nothing_else():
    assert rendered_lines(a_bad_day(), glyphs=ASCII_GLYPHS).isascii()


def test_a_name_cannot_act_nor_shift_the_picture():
    hostile = a_volume(**VOLUME_FIELDS | {"tags": {"Name": "\x1b[2J\u202e名前\n" + "x" * 300}})
    drawn = rendered_lines(
        plotted_of(
            a_history(falling("09:00", 90, 1, 60)),
            start="09:00",
            now="10:00",
            volume=hostile,
            windows=[WindowInterval(window="\x1b[31m窓", start_s=at("09:00"), end_s=at("10:00"))],
            entries=[a_hold("09:30", "12:00", by="\x07anna\u200b")],
        )
    )
    assert all(character.isprintable() for character in drawn.replace("\n", ""))
    assert "\u202e" not in drawn
    assert max(map(display_width, drawn.splitlines())) <= 80


def test_an_empty_bucket_is_seen_and_a_gap_is_not_taken_for_one():
    lines = rendered_lines(exhausted()).splitlines()
    bottom = next(line for line in lines if line.startswith("   0 %"))
    assert bottom.rstrip("│ ").endswith("▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁")
    gap = rendered_lines(plotted_of(a_history(falling("09:00", 90, 1, 20)), start="09:00", now="12:00"))
    assert "no datapoint" in gap
    assert "? ? ? ?" in gap


def test_each_look_has_a_fill_and_a_style():
    assert _FILL_CHARACTERS.keys() == _SEGMENT_STYLES.keys() == set(SegmentStyle)


def test_lanes_are_there_only_when_something_is_on_them():
    calm = plotted_of(a_history(falling("09:00", 100, 0, 60)), start="09:00", now="10:00")
    assert build_lanes(calm.timeline) == []
    assert [lane.label for lane in build_lanes(a_bad_day().timeline)] == ["LEVEL", "WINDOW", "HOLD", "HOST"]


def test_flip_interval_and_return_follow_each_other():
    [flip] = build_lanes(a_flipped_and_returned_volume().timeline)
    assert [(s.start_s, s.end_s, s.style, s.text) for s in flip.segments] == [
        (at("10:00"), at("10:30"), SegmentStyle.LEAVING, "to gp3 3,000 IOPS"),
        (at("10:30"), at("14:00"), SegmentStyle.AWAY, "gp3 3,000 IOPS"),
        (at("14:00"), at("14:30"), SegmentStyle.RETURNING, "back"),
    ]


def test_an_interval_without_known_ends_fills_the_chart():
    state = a_state(flip=a_flip(requested_at_s=5, started_at_s=5, reached_at_s=6, is_permanent=True))
    plotted = plotted_of(
        a_history(falling("09:00", 100, 0, 1)),
        start="09:00",
        now="10:00",
        volume=a_volume_as(GP3),
        state=state,
    )
    [flip] = build_lanes(plotted.timeline)
    assert [(s.start_s < at("09:00"), s.end_s, s.text) for s in flip.segments][-1] == (
        True, at("10:00"), "gp3 3,000 IOPS, stays",
    )  # fmt: skip
    assert describe_state(plotted).endswith(" UTC, requested by watchdog")


def test_surplus_events_are_counted_and_the_newest_shown():
    marks = a_bad_day().timeline.events
    newest, earlier = newest_events(marks, 3)
    assert (list(newest), earlier) == (list(marks[-2:]), len(marks) - 2)
    assert newest_events(marks, len(marks)) == (marks, 0)


@pytest.mark.parametrize(
    ("room", "expected"),
    [(30, "by anna: snapshot running"), (20, "by anna: snapshot"), (9, "by anna"), (7, "by"), (1, "…")],
)
def test_what_does_not_fit_loses_its_last_words_first(room, expected):
    assert fit_text("by anna: snapshot running", room) == expected


def test_a_forecast_of_days_carries_its_day():
    # 0.05 % a minute: 97.05 % last 1,941 minutes
    slow = falling("09:00", 100, 0.05, 60)
    plotted = plotted_of(a_history(slow), start="09:00", now="10:00")
    assert describe_forecast_cone(plotted.timeline)[:2] == ["empty in 32 h", "(18:21 Sat)"]
    assert describe_state(plotted).endswith(", empty in 32 h (18:21 Sat) UTC")


def test_a_bound_that_is_more_than_a_day_away_carries_its_day():
    # 990 GiB earn 2,970: at 3,000/s the 97.05 % left last 5,240,700 / 30 = 174,690 s, 48 h 31 min
    slow = falling("09:00", 100, 0.05, 60)
    plotted = plotted_of(a_history(slow), start="09:00", now="10:00", volume=a_volume(990, **VOLUME_FIELDS))
    assert describe_forecast_cone(plotted.timeline)[2:] == ["not before", "10:31 Sun"]


@pytest.mark.parametrize(
    ("flip", "text"),
    [
        (
            a_flip(status=FlipStatus.REQUESTED),
            "modification requested to gp3 with 3,000 IOPS and 128 MiB/s since 10:00 UTC",
        ),
        (
            a_flip(status=FlipStatus.IN_PROGRESS),
            "is being modified to gp3 with 3,000 IOPS and 128 MiB/s since 10:00 UTC",
        ),
        (a_flip(), "is on gp3 with 3,000 IOPS and 128 MiB/s since 10:30 UTC, requested by watchdog"),
        (
            a_flip(is_permanent=True, reached_at_s=int(at("10:30")) - 2 * 86_400),
            "stays gp3 with 3,000 IOPS and 128 MiB/s since 10:30 Wed UTC",
        ),
    ],
)
def test_a_flipped_volume_shows_its_target_start_and_requester(flip, text):
    plotted = plotted_of(a_history(falling("09:00", 100, 0, 1)), start="09:00", now="11:00")
    decision = replace(plotted.decision, flip=flip)
    assert text in describe_state(replace(plotted, decision=decision))


def letter_columns(letters_at, *, end=20):
    """What stands in which column, of letters that would stand in the columns given."""
    kinds = {letter: kind for kind, letter in EVENT_LETTERS.items()}
    marks = [TimelineEvent(at_s=column, kind=kinds[letter], text="") for column, letter in letters_at]
    row = [" "] * end
    for column, mark in place_events(marks, [column for column, _ in letters_at], 0, end):
        row[column] = mark.letter
    return "".join(row).rstrip()


@pytest.mark.parametrize(
    ("letters_at", "row"),
    [
        ([(3, "W"), (8, "C")], "   W    C"),
        ([(3, "W"), (3, "C"), (5, "X")], "   WCX"),
        ([(3, "F"), (4, "T")], "   FT"),
        ([(3, "W"), (3, "C"), (4, "F")], "  WCF"),
        ([(17, "W"), (19, "C"), (19, "E")], " " * 17 + "WCE"),
        ([(19, "W"), (19, "C"), (19, "E")], " " * 17 + "WCE"),
        ([(19, "H"), (19, "W"), (19, "C"), (19, "E")], " " * 17 + "WCE"),
        ([(25, "E")], " " * 19 + "E"),
        ([(n, letter) for n in range(3) for letter in "RCHE"], "ERCHE"),
    ],
)
def test_a_letter_is_at_its_time_or_close_by_and_never_after_now(letters_at, row):
    """Of letters for which there is no room those that matter least are left to the list."""
    assert letter_columns(letters_at) == row


def test_a_month_of_events_is_placed_where_it_happened():
    many = [
        a_level(f"{hour:02}:{n:02}", "warning", "critical") for hour in (7, 8, 9) for n in range(0, 59, 5)
    ]
    plotted = plotted_of(a_history(falling("06:00", 90, 0, 240)), start="06:00", now="10:00", entries=many)
    [row] = [line for line in rendered_lines(plotted).splitlines() if line.startswith("EVENT")]
    # 73 columns for 260 minutes: seven o'clock is in the 17th, ten in the 68th
    assert row[7:23].strip() == ""
    assert (row[7 + 16], len(row) <= 7 + 68) == ("C", True)


@pytest.mark.parametrize(
    ("step_s", "period_s", "expected"),
    [(20, 60, "a minute"), (61, 60, "a minute"), (360, 60, "6 min"), (600, 3600, "60 min"),
     (18_000, 60, "5 h")],
)  # fmt: skip
def test_over_how_long_a_column_chooses(step_s, period_s, expected):
    assert format_bin_width(step_s, period_s) == expected


def test_operations_are_drawn_up_to_the_burst_where_they_came_near_and_else_so_that_they_are_seen():
    near = a_chronology_at(2_000)
    assert rate_scale(near) == 3_000
    assert rate_scale(a_chronology_at(460)) == 600
    assert rate_scale(a_chronology_at(0)) == 600, "twice the baseline"
    assert rate_scale(a_chronology_at(3_400)) == 3_400, "more than there should be is not cut"
    moved = replace(near, limits=a_flipped_and_returned_volume().timeline.limits)
    assert rate_scale(moved) == 3_000


def a_chronology_at(iops):
    history = a_history(falling("09:00", 90, 0, 60), reads=0, writes=iops)
    return plotted_of(history, start="09:00", now="10:00").timeline


def test_a_column_shows_the_samples_that_begin_in_it_or_the_one_that_lasts():
    series = Series((0, 300, 900), (1.0, 2.0, 3.0))
    assert list(values_in(series, 0, 600, 300)) == [1.0, 2.0]
    assert list(values_in(series, 400, 500, 300)) == [2.0]
    assert list(values_in(series, 600, 900, 300)) == []


def test_ticks_are_full_hours_and_days_at_least_so_far_apart():
    day = TimeScale(start_s=at("09:10"), end_s=at("09:10") + 86_400, first_column=0, column_count=96)
    assert [label for _, label in day.ticks(12)] == ["12:00", "15:00", "18:00", "21:00", "21 Nov", "03:00",
                                                     "06:00", "09:00"]  # fmt: skip
    year = TimeScale(start_s=0, end_s=400 * 86_400, first_column=0, column_count=80)
    ticks = [column for column, _ in year.ticks(10)]
    assert min(b - a for a, b in pairwise(ticks)) >= 10


@pytest.mark.parametrize(("value", "row"), [(0, 4), (1, 4), (20, 4), (21, 3), (100, 0), (140, 0)])
def test_a_value_lies_in_the_row_that_it_reaches(value, row):
    assert Panel(0, 5, 100.0).row(value) == row


def test_a_wide_character_takes_two_columns_and_is_cut_whole():
    canvas = Canvas(6, 1)
    canvas.write(0, 0, "a窓窓b", "bold")
    assert canvas.lines() == [[StyledText("a窓窓b", "bold")]]
    canvas = Canvas(4, 1)
    canvas.write(0, 0, "a窓窓b")
    assert canvas.lines() == [[StyledText("a窓")]]


def test_what_lies_outside_is_not_drawn():
    canvas = Canvas(2, 1)
    for column, row in ((-1, 0), (2, 0), (0, 1), (0, -1)):
        canvas.put(column, row, "x")
    assert canvas.lines() == [[]]
