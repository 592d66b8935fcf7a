"""In a picture of any shape no label lies over another, and none is outside: by the boxes around them."""

import re
from functools import cache
from itertools import combinations, product

import matplotlib as mpl
import pytest
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from burstctl.plot.matplotlib_plot import RC_PARAMS, _draw_figure, draw
from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.buckets.series import Series
from burstwatch.core.ledger.ledger_entry import EntryKind
from support.builders.core_values import a_volume, at
from support.builders.history import (
    a_flip_entry,
    a_history,
    a_hold,
    a_level,
    an_alert_entry,
    falling,
    minutes,
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

MAX_OVERLAP_DOTS = 1.0
"""The boxes around letters have some room; this much of it may be shared, at 150 dots per inch."""


def full(volume=None):
    return plotted_of(
        a_history(falling("06:00", 100, 0, 419), reads=20, writes=40),
        start="07:00",
        now="13:00",
        volume=volume,
    )


def draining(from_pct, pct_per_minute, *, start="12:00", minutes_=60, size_gib=100, now="13:00"):
    """It drains during the last minutes of a picture that begins at ``start``."""
    calm = falling("06:00", from_pct, 0, round((at(now) - at("06:00")) / 60) - minutes_)
    drain = falling(format_clock(at(now) - 60 * minutes_), from_pct, pct_per_minute, minutes_ - 1)
    pairs = [(sample.start_at_s, sample.value) for sample in (*calm, *drain)]
    volume = a_volume(size_gib, **VOLUME_FIELDS)
    return plotted_of(
        a_history(Series.from_pairs(pairs), reads=400, writes=2_400), start=start, now=now, volume=volume
    )


def format_clock(at_s):
    minute = round((at_s - at("00:00")) / 60)
    return f"{minute // 60:02}:{minute % 60:02}"


def with_a_gap(at_pct):
    return plotted_of(
        a_history(minutes("07:00", *[float(at_pct)] * 360, skip=range(60, 350))), start="07:00", now="13:00"
    )


def with_many_events():
    """A dozen events within minutes, with long texts."""
    entries = [a_level("11:00", "ok", "watch"), a_hold("11:02", "15:00")]
    for minute in range(3, 50, 2):
        entries += [
            an_alert_entry(f"11:{minute:02}", AlertKind.DRAINING, "warning"),
            a_flip_entry(
                EntryKind.REFUSED, f"11:{minute + 1:02}", "is not moved to gp3: " + "held by WWW " * 12
            ),
        ]
    return plotted_of(a_history(falling("07:00", 100, 0.2, 359)), start="07:00", now="13:00", entries=entries)


def with_a_long_name(character):
    volume = a_volume(**(VOLUME_FIELDS | {"tags": {"Name": character * 256}}))
    return full(volume)


SHAPES = {
    "a bad day": a_bad_day,
    "there and back": a_flipped_and_returned_volume,
    "exhausted": exhausted,
    "an instance": a_draining_instance,
    "a slow disk": a_slow_disk,
    "full": full,
    "many events": with_many_events,
    "a wide name": lambda: with_a_long_name("W"),
    "a wide foreign name": lambda: with_a_long_name("名"),
    **{f"a gap at {pct} %": (lambda pct=pct: with_a_gap(pct)) for pct in (0, 30, 52, 75, 96, 100)},
    **{
        f"from {pct} % by {rate} % a minute since {minutes_} min, {start}, {size_gib} GiB": (
            lambda pct=pct, rate=rate, minutes_=minutes_, start=start, size_gib=size_gib: draining(
                pct, rate, minutes_=minutes_, start=start, size_gib=size_gib
            )
        )
        for (pct, rate, minutes_), start, size_gib in product(
            [
                (100, 0.02, 60),
                (100, 1, 30),
                (100, 1.5, 60),
                (99, 3, 20),
                (60, 0.5, 50),
                (30, 1, 28),
                (8, 0.1, 60),
            ],
            ["12:00", "07:00", "06:00"],
            [8, 100, 900],
        )
    },
}


@cache
def drawn_labels(name):
    """The size of a picture in dots, and each drawn label with the box around it. Draws no pixels."""
    with mpl.rc_context(RC_PARAMS):
        figure = _draw_figure(SHAPES[name]())
        figure.set_dpi(150)
        figure.draw_without_rendering()
        renderer = FigureCanvasAgg(figure).get_renderer()
        unused = {
            label
            for axis in figure.findobj(Axis)
            for tick in {*axis.get_major_ticks(), *axis.get_minor_ticks()}
            - (set(axis._update_ticks()) if axis.axes.axison else set())
            for label in (tick.label1, tick.label2)
        }
        return figure.bbox.size, [
            (label.get_text(), label.get_window_extent(renderer))
            for label in figure.findobj(Text)
            if label.get_text().strip() and label.get_visible() and label not in unused
        ]


@pytest.mark.parametrize("name", SHAPES)
def test_no_label_lies_over_another(name):
    _, labels = drawn_labels(name)
    collisions = [
        (first, second)
        for (first, a), (second, b) in combinations(labels, 2)
        if min(a.x1, b.x1) - max(a.x0, b.x0) > MAX_OVERLAP_DOTS
        and min(a.y1, b.y1) - max(a.y0, b.y0) > MAX_OVERLAP_DOTS
    ]
    assert collisions == []


@pytest.mark.parametrize("name", SHAPES)
def test_no_label_is_outside_the_picture(name):
    (width, height), labels = drawn_labels(name)
    assert [
        text for text, box in labels if box.x0 < 0 or box.y0 < 0 or box.x1 > width or box.y1 > height
    ] == []


def test_an_svg_has_the_same_layout_as_a_png():
    svg = draw(full(), "svg").decode()
    width, height = map(float, re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg).groups())
    size, _ = drawn_labels("full")
    assert (width / 72, height / 72) == pytest.approx(size / 150, abs=0.01)
