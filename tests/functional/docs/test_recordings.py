"""The recordings in docs are what burstctl shows now, and safe in any page; `make recordings` writes them."""

import re
from xml.etree import ElementTree as ET

import pytest

from documents.recordings.animation import THEME, Frame, animate
from documents.recordings.scenes import FOLDER
from documents.recordings.terminal import COLUMNS, LINES, read_screen, start_burstctl
from support.paths import ROOT

PICTURES = ("assess.svg", "top.svg")
MAX_BYTES = 150_000
MIN_CONTRAST = 4.5
"""The least contrast of text, by WCAG 2.2 AA."""

SVG = "{http://www.w3.org/2000/svg}"


def picture_lines(picture):
    """The text of every line of all frames, one below the other."""
    rows = {}
    for text in ET.fromstring(picture).iter(f"{SVG}text"):
        rows.setdefault(float(text.get("y")), []).append(
            (float(text.get("x")), text.text.replace("\xa0", " "))
        )
    return [" ".join(part for _, part in sorted(row)) for _, row in sorted(rows.items())]


def luminance(colour):
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_the_committed_pictures_are_what_the_command_makes(new_pictures):
    assert set(new_pictures) == set(PICTURES)
    outdated = [name for name, picture in new_pictures.items() if (FOLDER / name).read_text() != picture]
    assert outdated == [], "make recordings"
    assert "-m documents.recordings\n" in (ROOT / "Makefile").read_text()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "assess.svg",
            [
                r"\$ burstctl assess$",
                r"critical +vol-\w+ .*33\.0 % +in 10 min \(18:10\)",
                r"\$ burstctl explain vol-\w+$",
                r"Bound +1,782,000 / \(3,000 - 300\) = 660 s",
                r"\$ burstctl flip vol-\w+ --dry-run$",
                r"a dry run: nothing was modified, nothing was recorded",
            ],
        ),
        (
            "top.svg",
            [
                r"> +critical +build-3",
                r"> +warning +queue",
                r"\$ burstctl explain vol-\w+$",
                r"filter: ci-_",
                r"\$ burstctl flip vol-\w+ --dry-run$",
                r"> +critical +build-3",
            ],
        ),
    ],
)
def test_a_picture_shows_what_happens_in_order(name, expected):
    lines = iter(picture_lines((FOLDER / name).read_text()))
    for pattern in expected:
        assert any(re.search(pattern, line) for line in lines), pattern


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_small_and_requests_nothing_else(name):
    picture = (FOLDER / name).read_text()
    assert len(picture.encode()) < MAX_BYTES
    assert re.findall(r"https?://[^\"]*", picture) == ["http://www.w3.org/2000/svg"]
    tags = {element.tag.removeprefix(SVG) for element in ET.fromstring(picture).iter()}
    assert tags == {"svg", "title", "style", "rect", "g", "text"}
    assert "@import" not in picture
    assert "url(" not in picture


@pytest.mark.parametrize("name", PICTURES)
def test_every_text_of_a_picture_can_be_read(name):
    background = THEME.background_color.hex
    colours = set(re.findall(r"fill: (#\w{6})", (FOLDER / name).read_text())) - {background}
    assert len(colours) > 3
    low = {
        colour: ratio
        for colour in colours
        if (ratio := (luminance(colour) + 0.05) / (luminance(background) + 0.05)) < MIN_CONTRAST
    }
    assert low == {}


def test_each_frame_is_in_sight_for_its_time_and_the_last_one_without_animations():
    picture = animate([Frame("first\n\x1b[31mred\x1b[0m", 1), Frame("second", 3)], "two frames")
    height = LINES * 24.4
    assert picture_lines(picture) == ["first", "red", "second"]
    assert "animation: frames 4s step-end infinite" in picture
    assert (
        f"0.00% {{ transform: translateY(0px); }}\n25.00% {{ transform: translateY({-height:g}px); }}"
        in picture
    )
    still, _, animated = picture.partition("@media (prefers-reduced-motion: no-preference)")
    assert f"#frames {{ transform: translateY({-height:g}px); }}" in still
    assert "animation:" not in still
    assert "animation:" in animated


@pytest.mark.parametrize(
    ("sent", "screen"),
    [
        ("\x1b[1mone\x1b[0m\r\ntwo\r\n", "\x1b[1mone\x1b[0m\ntwo"),
        # the bar of a slow pass: drawn, drawn again, and removed
        (
            "first\r\n\x1b[?25llooking --\r\x1b[2K1 of 1 ==\r\n\x1b[?25h\r\x1b[1A\x1b[2KLEVEL\r\nok\r\n",
            "first\nLEVEL\nok",
        ),
        ("\x1b[?1049h\x1b[Hframe 1\x1b[Hframe 2", "frame 2"),
        ("\x1b[?1049h\x1b[Hframe\x1b[?1049l\x1b[?25h$ next\r\n", "$ next"),
        ("\n".join(map(str, range(LINES + 2))), "\n".join(map(str, range(2, LINES + 2)))),
    ],
)
def test_a_screen_is_what_was_sent_last_and_not_erased(sent, screen):
    assert read_screen(sent) == screen


def test_text_that_never_comes_is_an_error_that_shows_the_screen(tmp_path):
    with (
        start_burstctl("--help", environment={}, home=tmp_path) as terminal,
        pytest.raises(RuntimeError, match=r"'no such text' was not shown, but:\n(?s:.*)Exit codes"),
    ):
        terminal.wait_for("no such text")
    assert max(map(len, terminal.screen.splitlines())) <= COLUMNS
