"""The page of `burstctl report` in a real Chromium, from disk: what people see, press and print."""

import base64
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from chromium import PATIENCE_S, a_chromium
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait
from some_pages import (
    a_fleet,
    a_reported,
    a_row,
    a_story,
    calm,
    critical,
    dry,
    page_of,
    silent,
    told,
    volume_id,
    warning,
)

from burstwatch.core.ledger.ledger import EntryKind, LedgerEntry
from conftest import balances

MOST_MS = 2_000
READABLE = 4.5
"""The least contrast of text, by WCAG 2.2 AA."""

CONTRASTS = Path(__file__).with_name("contrasts.js").read_text()

TO_THE_FRAME = """
const done = arguments[arguments.length - 1];
const began = performance.now();
%s
requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
"""


@pytest.fixture(scope="module")
def chromium():
    with a_chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")


@pytest.fixture
def browser(chromium):
    """As a person left it who closed everything."""
    for command, arguments in (
        ("Emulation.setEmulatedMedia", {"media": "", "features": []}),
        ("Emulation.clearDeviceMetricsOverride", {}),
        ("Emulation.setScriptExecutionDisabled", {"value": False}),
    ):
        chromium.execute_cdp_cmd(command, arguments)
    return chromium


FEW = (
    critical(2),
    warning(3),
    dry(1),
    silent(4),
    calm(5, "web-5", tags={"team": "shop"}),
    calm(6, "web-6", size_gib=300),
)


@pytest.fixture
def few(browser, folder):
    """Six volumes, four of them urgent."""
    return opened(browser, folder / "few.html", a_reported(FEW))


def opened(browser, path, reported, *, fragment=""):
    path.write_text(page_of(reported), encoding="utf-8")
    browser.get("about:blank")
    browser.get(path.as_uri() + fragment)
    return browser


def theme(browser, name, media=""):
    features = [{"name": "prefers-color-scheme", "value": name}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})


def width(browser, pixels):
    metrics = {"width": pixels, "height": 900, "deviceScaleFactor": 1, "mobile": pixels < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def names(browser):
    return texts(browser, "#rows td.volume a")


def press(browser, *keys):
    for key in keys:
        browser.switch_to.active_element.send_keys(key)
        settle(browser)


def click(browser, selector):
    browser.find_element(By.CSS_SELECTOR, selector).click()
    settle(browser)


def settle(browser):
    """Until what an event led to is drawn: a closing dialog changes the address, and that the rows."""
    browser.execute_async_script(
        "const done = arguments[0]; setTimeout(() => requestAnimationFrame(() => setTimeout(done, 0)), 0)"
    )


def texts(browser, selector):
    """All in one go: rows may be drawn anew between two questions."""
    found = "return [...document.querySelectorAll(arguments[0])].map(each => each.innerText.trim())"
    return browser.execute_script(found, selector)


def text_of(browser, selector):
    return browser.find_element(By.CSS_SELECTOR, selector).text


def focused(browser):
    return browser.switch_to.active_element.text


def the_open(browser):
    """The title of the volume whose page is open; None where there is none."""
    return (
        text_of(browser, "#detail-title") if browser.find_elements(By.CSS_SELECTOR, "dialog[open]") else None
    )


def await_open(browser, title):
    """The address is changed first, the page of the volume follows in its own time."""
    WebDriverWait(browser, PATIENCE_S, poll_frequency=0.02).until(lambda _: the_open(browser) == title)


def await_focus(browser, text):
    WebDriverWait(browser, PATIENCE_S, poll_frequency=0.02).until(lambda _: focused(browser) == text)


def open_first(browser):
    click(browser, "#rows a")
    await_open(browser, names(browser)[0])


def test_the_urgent_come_first_and_the_head_says_how_bad_it_is(few):
    assert text_of(few, "h1") == "1 volume is dry, 2 more run dry soon, 1 tells nothing"
    assert text_of(few, ".next").startswith("Next: ci-7, dry in ")
    cards = [each.text for each in few.find_elements(By.CSS_SELECTOR, ".card h3")]
    assert cards == ["etcd-1", "ci-7", "build-3", "mute"]
    assert names(few) == ["etcd-1", "ci-7", "build-3", "mute", "web-5", "web-6"]
    assert text_of(few, "#count") == "6 volumes"


def test_it_asks_nothing_of_the_network_and_has_nothing_to_complain_of(few):
    open_first(few)
    messages = [json.loads(each["message"])["message"] for each in few.get_log("performance")]
    asked = {
        each["params"]["request"]["url"] for each in messages if each["method"] == "Network.requestWillBeSent"
    }
    assert asked
    assert {url.partition(":")[0] for url in asked} <= {"file", "about"}
    assert few.get_log("browser") == []


def test_what_a_page_might_be_made_to_load_is_refused(few):
    few.execute_script(
        "document.body.append(Object.assign(new Image(), {src: 'http://127.0.0.1:9/x.png'}));"
        "const made = document.createElement('script');"
        "made.textContent = 'window.ran = 1'; document.body.append(made);"
    )
    said = " ".join(each["message"] for each in few.get_log("browser"))
    assert "img-src" in said or "default-src" in said
    assert few.execute_script("return window.ran") is None


@pytest.mark.parametrize(
    ("column", "first", "order"),
    [
        ("volume", "build-3", "ascending"),
        ("balance", "etcd-1", "ascending"),
        ("least", "etcd-1", "ascending"),
        ("dry", "etcd-1", "ascending"),
        ("drain", "ci-7", "descending"),
        ("gib", "web-6", "descending"),
        ("instance", "etcd-1", "ascending"),
    ],
)
def test_each_column_sorts_and_turns_round_and_what_is_not_known_stays_last(few, column, first, order):
    click(few, f"th[data-sort={column}] button")
    assert names(few)[0] == first
    head = few.find_element(By.CSS_SELECTOR, f"th[data-sort={column}]")
    assert head.get_attribute("aria-sort") == order
    click(few, f"th[data-sort={column}] button")
    assert head.get_attribute("aria-sort") != order
    assert few.find_elements(By.CSS_SELECTOR, "th[data-sort]:not([aria-sort=none])") == [head]
    if column in ("balance", "dry", "drain"):
        assert names(few)[-1] == "mute" or column == "dry"


def test_the_filter_takes_words_tags_levels_and_leaves_out(few):
    field = few.find_element(By.ID, "filter")
    for typed, left in (
        ("web", ["web-5", "web-6"]),
        ("web team=shop", ["web-5"]),
        ("web -shop", ["web-6"]),
        ("CRITICAL", ["ci-7"]),
        (volume_id(3), ["build-3"]),
        ("no such thing", []),
    ):
        field.clear()
        field.send_keys(typed)
        assert names(few) == left
    assert text_of(few, "#nothing").startswith("No volume fits")
    field.send_keys(Keys.ESCAPE)
    assert len(names(few)) == 6


def test_levels_are_chips_that_narrow_the_table_and_add_up(few):
    click(few, "button[data-level=critical]")
    assert names(few) == ["ci-7"]
    click(few, "button[data-level=warning]")
    assert names(few) == ["ci-7", "build-3"]
    assert text_of(few, "#count") == "2 of 6 volumes"
    assert (
        few.find_element(By.CSS_SELECTOR, "button[data-level=critical]").get_attribute("aria-pressed")
        == "true"
    )
    click(few, "button[data-level=critical]")
    assert names(few) == ["build-3"]


def test_all_of_it_can_be_done_with_keys(few):
    press(few, "/", "b", "u", "i", Keys.ENTER)
    assert names(few) == ["build-3"]
    assert focused(few) == "build-3"
    press(few, "/", Keys.ESCAPE, Keys.ARROW_DOWN)
    assert focused(few) == "etcd-1"
    press(few, "j", Keys.ARROW_DOWN, "k")
    assert focused(few) == "ci-7"
    press(few, Keys.END)
    assert focused(few) == "web-6"
    press(few, Keys.HOME, "j", Keys.ENTER)
    await_open(few, "ci-7")
    press(few, "j")
    await_open(few, "build-3")
    press(few, Keys.ESCAPE)
    await_open(few, None)
    await_focus(few, "build-3")


def test_tab_reaches_everything_that_can_be_pressed_and_each_has_a_name(few):
    nodes = few.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    pressed = [
        node
        for node in nodes
        if node.get("role", {}).get("value") in {"button", "link", "searchbox", "textbox"}
        and not node["ignored"]
    ]
    assert len(pressed) > 20
    assert [node for node in pressed if not node.get("name", {}).get("value", "").strip()] == []
    stops = []
    for _ in range(60):
        press(few, Keys.TAB)
        stops.append(
            few.execute_script("return document.activeElement.id || document.activeElement.textContent")
        )
    assert {"filter", "ci-7"} <= set(stops)
    assert sum(stop.startswith(("web-", "mute")) for stop in stops[:30]) <= 1, "one stop for the table's rows"


def test_a_focus_is_seen(few):
    press(few, Keys.TAB, Keys.TAB)
    style = few.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
    assert style == "solid"


def test_a_volumes_page_has_its_picture_its_numbers_its_story_and_commands(few):
    open_first(few)
    assert the_open(few) == "etcd-1"
    assert few.execute_script("return location.hash") == f"#{volume_id(1)}"
    facts = text_of(few, "#detail-facts")
    for said in ("0.0 %", "the balance is at or below 1 %", "100 GiB gp2, baseline 300 IOPS", "/dev/xvda"):
        assert said in facts
    story = text_of(few, "#detail-story")
    assert "is not moved to gp3: held" in story
    assert "level warning -> critical" in story
    assert f"burstctl explain {volume_id(1)} --region us-east-1" in text_of(few, "#detail-commands")
    few.back()
    await_open(few, None)


def test_a_link_to_a_volume_opens_it(browser, folder):
    opened(browser, folder / "few.html", a_reported(FEW), fragment=f"#{volume_id(3)}")
    await_open(browser, "build-3")


def test_a_picture_never_bridges_a_gap_and_shows_what_is_to_come(browser, folder):
    opened(browser, folder / "few.html", a_reported(FEW), fragment=f"#{volume_id(3)}")
    large = "#detail-picture .picture "
    lines = browser.find_elements(By.CSS_SELECTOR, f"{large} > g > polyline.line")
    assert len(lines) == 2
    ends = [line.get_attribute("points").split() for line in lines]
    assert float(ends[0][-1].split(",")[0]) < float(ends[1][0].split(",")[0]) - 20
    [gap] = browser.find_elements(By.CSS_SELECTOR, f"{large} .band.absent title")
    assert gap.get_attribute("textContent") == "no datapoint"
    assert len(browser.find_elements(By.CSS_SELECTOR, f"{large} .fan .about")) == 1
    assert len(browser.find_elements(By.CSS_SELECTOR, f"{large} .fan .bound")) == 1
    said = browser.find_element(By.CSS_SELECTOR, large).get_attribute("aria-label")
    assert said.startswith("Burst balance, 19 Nov 12:00 to 20 Nov 12:00 UTC: from 100 to 20.5 per cent")
    assert "dry: in " in said


def test_a_picture_is_read_by_pointing_or_with_the_arrows(browser, folder):
    opened(browser, folder / "few.html", a_reported(FEW), fragment=f"#{volume_id(3)}")
    picture = browser.find_element(By.CSS_SELECTOR, "#detail-picture .picture")
    browser.execute_script("arguments[0].focus()", picture)
    press(browser, Keys.ARROW_LEFT)
    first = text_of(browser, ".readout")
    assert re.fullmatch(r"20 Nov \d\d:\d\d UTC: [\d.]+ %, 1,000 IOPS", first)
    press(browser, Keys.ARROW_LEFT)
    assert text_of(browser, ".readout") != first
    wide = len(browser.find_elements(By.CSS_SELECTOR, "#detail-picture .axis text"))
    click(browser, "#near")
    assert browser.find_element(By.ID, "near").get_attribute("aria-pressed") == "true"
    assert len(browser.find_elements(By.CSS_SELECTOR, "#detail-picture .axis text")) != wide


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read_in_both_themes(few, scheme):
    theme(few, scheme)
    open_first(few)
    found = few.execute_script(CONTRASTS)
    few.execute_script("document.querySelector('dialog').close()")
    click(few, "button[data-level=critical]")
    found += few.execute_script(CONTRASTS)
    assert len(found) > 150
    assert [each for each in found if each[0] < READABLE] == []


def test_the_two_themes_differ(few):
    seen = []
    for scheme in ("light", "dark"):
        theme(few, scheme)
        seen.append(few.execute_script("return getComputedStyle(document.body).backgroundColor"))
    assert seen[0] != seen[1]


def test_no_level_is_told_by_its_colour_alone(few):
    cells = few.find_elements(By.CSS_SELECTOR, "#rows td.level")
    assert [each.text for each in cells] == ["exhausted", "critical", "warning", "fault", "ok", "ok"]
    shapes = [each.find_element(By.TAG_NAME, "use").get_attribute("href") for each in cells]
    assert len(set(shapes)) == 5
    drawn = few.execute_script(
        "return [...document.querySelectorAll('symbol')].map((each) => each.innerHTML.replaceAll(/\\s/g, ''))"
    )
    assert len(set(drawn)) == len(drawn) == 8


def test_on_a_narrow_screen_nothing_hangs_over(few):
    width(few, 390)
    few.refresh()
    assert few.execute_script("return document.documentElement.scrollWidth") <= 390
    assert few.execute_script("return document.getElementById('scroller').scrollWidth") <= 390
    open_first(few)
    assert few.execute_script("return document.querySelector('dialog').scrollWidth") <= 390


@pytest.mark.parametrize("pixels", [390, 700, 1000, 1360])
def test_a_long_table_is_as_wide_as_the_screen_and_its_rows_are_of_one_height(browser, folder, pixels):
    width(browser, pixels)
    opened(
        browser, folder / "long.html", a_reported([*FEW, *(calm(100 + n, f"shelf-{n}") for n in range(90))])
    )
    assert browser.find_elements(By.CSS_SELECTOR, "#rows .spacer")
    wide, heights, inner, outer = browser.execute_script(
        "const all = (css) => [...document.querySelectorAll(css)];"
        "const rows = all('#rows tr:not(.spacer)');"
        "const heights = new Set(rows.map((row) => row.offsetHeight));"
        "return [rows[0].querySelector('.volume').offsetWidth, [...heights],"
        " rows[0].lastElementChild.offsetParent ? rows[0].getBoundingClientRect().width : "
        " all('#rows tr:first-child td').reduce((sum, cell) => sum + cell.offsetWidth, 0),"
        " document.getElementById('scroller').clientWidth]"
    )
    assert wide >= 120
    assert heights == [52]
    assert inner == pytest.approx(outer, abs=2)


def test_who_closes_a_volume_is_back_where_it_was_opened(few):
    link = few.find_element(By.CSS_SELECTOR, ".card:nth-child(2) h3 a")
    link.send_keys(Keys.ENTER)
    await_open(few, "ci-7")
    press(few, Keys.ESCAPE)
    await_open(few, None)
    assert few.switch_to.active_element == link
    link.send_keys(Keys.ENTER)
    await_open(few, "ci-7")
    press(few, "j", Keys.ESCAPE)
    await_open(few, None)
    await_focus(few, "build-3")  # who went on is at the row of the one seen last
    assert few.execute_script("return document.getElementById('rows').contains(document.activeElement)")


def test_what_was_not_read_is_no_gap_and_stands_at_the_top(browser, folder):
    unread = {volume_id(3): "cloudwatch:GetMetricData: AccessDenied", volume_id(5): "the same"}
    reported = a_reported(FEW, unread=unread, balances={})
    opened(browser, folder / "unread.html", reported, fragment=f"#{volume_id(3)}")
    bands = "#detail-picture .band.absent title"
    said = [each.get_attribute("textContent") for each in browser.find_elements(By.CSS_SELECTOR, bands)]
    assert said == ["could not be read"]
    press(browser, Keys.ESCAPE)
    [row] = [row for row in texts(browser, "#rows tr") if "web-5" in row]
    assert "not read" in row
    banner = browser.find_element(By.CSS_SELECTOR, "[role=alert]")
    assert banner.is_displayed()
    assert "This page is not whole. Not read: the picture of" in banner.text


def test_of_crowded_marks_the_newest_have_their_letters(browser, folder):
    step = a_story(FEW[0])[0].at_s
    changes = [
        LedgerEntry(
            volume_id=volume_id(3), revision=step + nth, kind=EntryKind.LEVEL_CHANGED, at_s=step + nth,
            body={"from": "ok", "to": level},
        )
        for nth, level in enumerate(["warning", "warning", "warning", "critical", "exhausted"])
    ]  # fmt: skip
    reported = a_reported(FEW)
    tale = reported.told[volume_id(3)]
    tales = {
        **reported.told,
        volume_id(3): replace(tale, chronology=told(FEW[1], entries=changes).chronology),
    }
    opened(browser, folder / "crowded.html", replace(reported, told=tales), fragment=f"#{volume_id(3)}")
    letters = browser.find_elements(By.CSS_SELECTOR, "#detail-picture .marks text")
    assert [each.text for each in letters] == ["E", "C", "W"]


def test_without_script_it_still_tells_what_matters(browser, folder):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    opened(browser, folder / "few.html", a_reported(FEW))
    said = text_of(browser, "body")
    assert "need JavaScript" in said
    for part in (
        "1 volume is dry",
        "ci-7",
        "(12:0",
        "burstctl flip",
        "is not moved to gp3: held",
        "Flips cost",
    ):
        assert part in said
    assert not browser.find_element(By.ID, "table").is_displayed()


HOSTILE = (
    "<script>window.hacked=1</script>",
    '"><img src=x onerror=window.hacked=1>',
    "</script><script>window.hacked=1//",
    "<!--<script>",
    "{{ 7*7 }}{% raw %}",
    "' onmouseover='window.hacked=1",
    "&lt;b&gt;&amp;",
    "]]>\u2028\u2029",
)


def test_hostile_names_and_tags_stay_text(browser, folder):
    fleet = [
        a_row(nth, balances(*[10.0] * 5), name, tags={"note": name, f"k{name}": "v"})
        for nth, name in enumerate(HOSTILE, start=1)
    ]
    reported = a_reported(
        [*fleet, dry(99, HOSTILE[0])], failures=(HOSTILE[1],), unread={volume_id(1): HOSTILE[2]}
    )
    opened(browser, folder / "hostile.html", reported)
    shown = names(browser)
    for name in HOSTILE[:7]:
        assert name in shown
    open_first(browser)
    assert HOSTILE[0] in text_of(browser, "#detail-title")
    press(browser, "j")
    assert "Tag" in text_of(browser, "#detail-facts")
    made = browser.execute_script(
        "return [window.hacked, document.scripts.length, document.images.length,"
        " document.querySelectorAll('b img, td script').length]"
    )
    assert made == [None, 2, 0, 0]
    assert HOSTILE[1] in text_of(browser, "#notes")
    assert browser.get_log("browser") == []


def test_a_name_that_turns_the_line_round_or_never_ends_is_made_harmless(browser, folder):
    long, turned = "x" * 10_000, "abc\u202etxt.exe\u202c"
    fleet = [a_row(1, balances(10.0), long, tags={"huge": long, **{f"t{n}": "v" for n in range(80)}})]
    opened(browser, folder / "odd.html", a_reported([*fleet, a_row(2, balances(10.0), turned)]))
    assert sorted(names(browser)) == ["abc?txt.exe?", "x" * 39 + "…"]
    assert "\u202e" not in browser.page_source
    open_first(browser)
    assert browser.execute_script("return document.querySelector('dialog').scrollWidth <= innerWidth")
    assert (folder / "odd.html").stat().st_size < 100_000


def test_on_paper_there_is_every_row_and_all_about_the_urgent_ones(browser, folder):
    fleet = [
        *FEW,
        *(calm(100 + nth, f"shelf-{nth}") for nth in range(120)),
        *(critical(300 + n, f"hot-{n}") for n in range(15)),
    ]
    opened(browser, folder / "print.html", a_reported(fleet))
    on_screen = len(names(browser))
    assert on_screen < len(fleet)
    theme(browser, "dark", media="print")
    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert len(names(browser)) == len(fleet)
    table = browser.execute_script("return getComputedStyle(document.querySelector('#table thead')).display")
    assert table == "table-header-group"
    assert browser.execute_script("return getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    cards = browser.find_elements(By.CSS_SELECTOR, ".card")
    assert len(cards) == 4 + 15
    assert all(each.find_element(By.CSS_SELECTOR, ".on-paper").is_displayed() for each in cards)
    assert len(browser.find_elements(By.CSS_SELECTOR, ".card .picture")) == len(cards)
    assert not browser.find_element(By.ID, "filter").is_displayed()
    theme(browser, "light")
    browser.execute_script("dispatchEvent(new Event('afterprint'))")
    browser.execute_async_script(TO_THE_FRAME % "")
    assert len(names(browser)) == on_screen


def test_it_prints_to_pages_of_paper(few):
    printed = few.execute_cdp_cmd("Page.printToPDF", {"paperWidth": 8.27, "paperHeight": 11.69})
    pdf = base64.b64decode(printed["data"])
    assert pdf.startswith(b"%PDF-")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 8
    assert len(names(few)) == 6, "the screen is as it was"


@pytest.fixture(scope="module")
def ten_thousand(folder):
    fleet = a_fleet(10_000)
    path = folder / "ten-thousand.html"
    path.write_text(page_of(a_reported(fleet, stories=fleet[:300])), encoding="utf-8")
    return path


SORTS = [
    f"document.querySelector('th[data-sort={column}] button').click();"
    for column in ("volume", "balance", "dry", "mark", "level")
]
FILTERING = (
    "const filter = document.getElementById('filter');"
    "filter.value = 'team-3 web'; filter.dispatchEvent(new Event('input'));"
)


def timed(browser, page):
    """Milliseconds by the page's own clock: to open it, and for each act to the frame that shows it."""
    browser.get("about:blank")
    browser.get(page.as_uri())
    assert text_of(browser, "#count") == "10,000 volumes"
    opened_ms = browser.execute_script(
        "const [seen] = performance.getEntriesByType('navigation'); return seen.loadEventEnd - seen.startTime"
    )
    acts = {act: browser.execute_async_script(TO_THE_FRAME % act) for act in [*SORTS, FILTERING]}
    return {"open": opened_ms, **acts}


def test_ten_thousand_volumes_open_sort_and_filter_in_under_two_seconds(browser, ten_thousand):
    """Others may want the processor as well: of a few tries the quickest tells what the page takes."""
    took = timed(browser, ten_thousand)
    for _ in range(4):
        if max(took.values()) >= MOST_MS:
            again = timed(browser, ten_thousand)
            took = {act: min(ms, again[act]) for act, ms in took.items()}
    assert {act: ms for act, ms in took.items() if ms >= MOST_MS} == {}
    assert re.fullmatch(r"[\d,]+ of 10,000 volumes", text_of(browser, "#count"))
    assert ten_thousand.stat().st_size < 6e6


def test_of_ten_thousand_rows_those_in_view_are_drawn_and_the_last_is_a_key_away(browser, ten_thousand):
    browser.get("about:blank")
    browser.get(ten_thousand.as_uri())
    assert len(browser.find_elements(By.CSS_SELECTOR, "#rows tr")) < 60
    press(browser, "j", Keys.END)
    last = browser.find_element(By.CSS_SELECTOR, "#rows tr:last-child")
    assert last.get_attribute("aria-rowindex") == "10001"
    assert browser.find_element(By.ID, "table").get_attribute("aria-rowcount") == "10001"
    assert focused(browser) == last.find_element(By.TAG_NAME, "a").text
    assert browser.execute_script(
        "return arguments[0].getBoundingClientRect().bottom <= innerHeight + 2", last
    )
