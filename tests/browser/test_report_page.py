"""The page of `burstctl report` in a real Chromium, from disk: what people see, press and print."""

import base64
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry
from support.browser.chromium import TIMEOUT_S
from support.browser.report_in_browser import SMALL_FLEET, open_page, show_page
from support.builders.core_values import balances
from support.builders.pages import (
    a_calm_volume,
    a_critical_volume,
    a_decision_row,
    a_draining_instance,
    a_fleet_report,
    an_empty_volume,
    some_activities,
    volume_details,
    volume_id,
)

BUDGET_MS = 2_000
MIN_CONTRAST = 4.5
"""The least contrast of text, by WCAG 2.2 AA."""

CONTRASTS = Path(__file__).with_name("contrasts.js").read_text()

UNTIL_NEXT_FRAME = """
const done = arguments[arguments.length - 1];
const began = performance.now();
%s
requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
"""


def emulate_theme(browser, name, media=""):
    features = [{"name": "prefers-color-scheme", "value": name}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})


def set_width(browser, pixels):
    metrics = {"width": pixels, "height": 900, "deviceScaleFactor": 1, "mobile": pixels < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def volume_names(browser):
    return texts(browser, "#rows td.volume a")


def press_keys(browser, *keys):
    for key in keys:
        browser.switch_to.active_element.send_keys(key)
        wait_until_idle(browser)


def click(browser, selector):
    browser.find_element(By.CSS_SELECTOR, selector).click()
    wait_until_idle(browser)


def wait_until_idle(browser):
    """Until what an event led to is drawn: a closing dialog changes the address, and that the rows."""
    browser.execute_async_script(
        "const done = arguments[0]; setTimeout(() => requestAnimationFrame(() => setTimeout(done, 0)), 0)"
    )


def texts(browser, selector):
    """All in one go: rows may be redrawn between two queries."""
    result = "return [...document.querySelectorAll(arguments[0])].map(each => each.innerText.trim())"
    return browser.execute_script(result, selector)


def text_of(browser, selector):
    return browser.find_element(By.CSS_SELECTOR, selector).text


def focused(browser):
    return browser.switch_to.active_element.text


def open_dialog_title(browser):
    """The title of the volume whose page is open; None if no page is open."""
    return (
        text_of(browser, "#detail-title") if browser.find_elements(By.CSS_SELECTOR, "dialog[open]") else None
    )


def await_open(browser, title):
    """The address is changed first, the page of the volume follows in its own time."""
    WebDriverWait(browser, TIMEOUT_S, poll_frequency=0.02).until(
        lambda _: open_dialog_title(browser) == title
    )


def await_focus(browser, text):
    WebDriverWait(browser, TIMEOUT_S, poll_frequency=0.02).until(lambda _: focused(browser) == text)


def open_first(browser):
    click(browser, "#rows a")
    await_open(browser, volume_names(browser)[0])


def test_an_instance_has_a_row_a_card_and_a_page_in_the_unit_of_its_bucket(browser, pages):
    fleet = (a_draining_instance(7), a_calm_volume(5, "web-5"))
    page = open_page(browser, pages / "kinds.html", a_fleet_report(fleet))
    assert text_of(page, "#volumes-title") == "All resources"
    assert volume_names(page) == ["build-host", "web-5"]
    assert texts(page, "#rows td.instance")[0].split("\n") == ["m5.large", "EBS throughput credits"]
    assert "MiB" in texts(page, "#rows td.drain")[0]
    assert page.find_elements(By.CSS_SELECTOR, f"[data-card='i-{7:017x}'] svg.picture polyline.line")
    click(page, "#rows td.volume a")
    await_open(page, "build-host")
    assert "MiB/s: dashed the baseline" in text_of(page, "#detail-legend")
    assert "m5.large, baseline 77.5 MiB/s" in text_of(page, "#detail-facts")
    assert not [entry for entry in page.get_log("browser") if entry["level"] == "SEVERE"]


def test_urgent_volumes_come_first_and_the_heading_summarises_them(small_page):
    assert text_of(small_page, "h1") == "1 volume is empty, 2 more will be empty soon, 1 has no data"
    assert text_of(small_page, ".next").startswith("Next: ci-7, empty in ")
    cards = [element.text for element in small_page.find_elements(By.CSS_SELECTOR, ".card h3")]
    assert cards == ["etcd-1", "ci-7", "build-3", "mute"]
    assert volume_names(small_page) == ["etcd-1", "ci-7", "build-3", "mute", "web-5", "web-6"]
    assert text_of(small_page, "#count") == "6 volumes"


def test_the_page_makes_no_network_request_and_logs_no_error(small_page):
    open_first(small_page)
    messages = [json.loads(item["message"])["message"] for item in small_page.get_log("performance")]
    requested = {
        item["params"]["request"]["url"] for item in messages if item["method"] == "Network.requestWillBeSent"
    }
    assert requested
    assert {url.partition(":")[0] for url in requested} <= {"file", "about"}
    assert small_page.get_log("browser") == []


def test_resources_injected_into_the_page_are_blocked(small_page):
    small_page.execute_script(
        "document.body.append(Object.assign(new Image(), {src: 'http://127.0.0.1:9/x.png'}));"
        "const made = document.createElement('script');"
        "made.textContent = 'window.ran = 1'; document.body.append(made);"
    )
    text = " ".join(item["message"] for item in small_page.get_log("browser"))
    assert "img-src" in text or "default-src" in text
    assert small_page.execute_script("return window.ran") is None


@pytest.mark.parametrize(
    ("column", "first", "order"),
    [
        ("volume", "build-3", "ascending"),
        ("balance", "etcd-1", "ascending"),
        ("least", "etcd-1", "ascending"),
        ("empty", "etcd-1", "ascending"),
        ("drain", "ci-7", "descending"),
        ("gib", "web-6", "descending"),
        ("instance", "etcd-1", "ascending"),
    ],
)
def test_each_column_sorts_both_ways_with_unknown_values_last(small_page, column, first, order):
    click(small_page, f"th[data-sort={column}] button")
    assert volume_names(small_page)[0] == first
    head = small_page.find_element(By.CSS_SELECTOR, f"th[data-sort={column}]")
    assert head.get_attribute("aria-sort") == order
    click(small_page, f"th[data-sort={column}] button")
    assert head.get_attribute("aria-sort") != order
    assert small_page.find_elements(By.CSS_SELECTOR, "th[data-sort]:not([aria-sort=none])") == [head]
    if column in ("balance", "empty", "drain"):
        assert volume_names(small_page)[-1] == "mute" or column == "empty"


def test_the_filter_accepts_words_tags_levels_and_exclusions(small_page):
    field = small_page.find_element(By.ID, "filter")
    for typed, remaining in (
        ("web", ["web-5", "web-6"]),
        ("web team=shop", ["web-5"]),
        ("web -shop", ["web-6"]),
        ("CRITICAL", ["ci-7"]),
        (volume_id(3), ["build-3"]),
        ("no such thing", []),
    ):
        field.clear()
        field.send_keys(typed)
        assert volume_names(small_page) == remaining
    assert text_of(small_page, "#nothing").startswith("No volume fits")
    field.send_keys(Keys.ESCAPE)
    assert len(volume_names(small_page)) == 6


def test_level_chips_narrow_the_table_and_their_counts_add_up(small_page):
    click(small_page, "button[data-level=critical]")
    assert volume_names(small_page) == ["ci-7"]
    click(small_page, "button[data-level=warning]")
    assert volume_names(small_page) == ["ci-7", "build-3"]
    assert text_of(small_page, "#count") == "2 of 6 volumes"
    assert (
        small_page.find_element(By.CSS_SELECTOR, "button[data-level=critical]").get_attribute("aria-pressed")
        == "true"
    )
    click(small_page, "button[data-level=critical]")
    assert volume_names(small_page) == ["build-3"]


def test_the_page_is_usable_with_the_keyboard_alone(small_page):
    press_keys(small_page, "/", "b", "u", "i", Keys.ENTER)
    assert volume_names(small_page) == ["build-3"]
    assert focused(small_page) == "build-3"
    press_keys(small_page, "/", Keys.ESCAPE, Keys.ARROW_DOWN)
    assert focused(small_page) == "etcd-1"
    press_keys(small_page, "j", Keys.ARROW_DOWN, "k")
    assert focused(small_page) == "ci-7"
    press_keys(small_page, Keys.END)
    assert focused(small_page) == "web-6"
    press_keys(small_page, Keys.HOME, "j", Keys.ENTER)
    await_open(small_page, "ci-7")
    press_keys(small_page, "j")
    await_open(small_page, "build-3")
    press_keys(small_page, Keys.ESCAPE)
    await_open(small_page, None)
    await_focus(small_page, "build-3")


def test_tab_reaches_everything_that_can_be_pressed_and_each_has_a_name(small_page):
    nodes = small_page.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    pressed = [
        node
        for node in nodes
        if node.get("role", {}).get("value") in {"button", "link", "searchbox", "textbox"}
        and not node["ignored"]
    ]
    assert len(pressed) > 20
    assert [node for node in pressed if not node.get("name", {}).get("value", "").strip()] == []
    stops = []
    for _ in range(30):
        press_keys(small_page, Keys.TAB)
        stops.append(
            small_page.execute_script(
                "return document.activeElement.id || document.activeElement.textContent"
            )
        )
    assert {"filter", "ci-7"} <= set(stops)
    assert sum(stop.startswith(("web-", "mute")) for stop in stops) <= 1, "one stop for the table's rows"


def test_the_keyboard_focus_is_visible(small_page):
    press_keys(small_page, Keys.TAB, Keys.TAB)
    style = small_page.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
    assert style == "solid"


def test_a_volume_page_has_its_chart_numbers_history_and_commands(small_page):
    open_first(small_page)
    assert open_dialog_title(small_page) == "etcd-1"
    assert small_page.execute_script("return location.hash") == f"#{volume_id(1)}"
    facts = text_of(small_page, "#detail-facts")
    for item in ("0.0 %", "the balance is at or below 1 %", "100 GiB gp2, baseline 300 IOPS", "/dev/xvda"):
        assert item in facts
    history = text_of(small_page, "#detail-story")
    assert "is not moved to gp3: held" in history
    assert "level warning -> critical" in history
    assert f"burstctl explain {volume_id(1)} --region us-east-1" in text_of(small_page, "#detail-commands")
    small_page.back()
    await_open(small_page, None)


def pasted(browser):
    """What the clipboard holds, as a person finds out: pasted into the filter."""
    field = browser.find_element(By.ID, "filter")
    field.clear()
    field.send_keys(Keys.CONTROL, "v")
    return field.get_attribute("value")


def await_copied(browser, selector):
    WebDriverWait(browser, TIMEOUT_S, poll_frequency=0.02).until(
        lambda _: text_of(browser, selector) == "Copied"
    )


CARD_COMMAND = f"burstctl flip {volume_id(2)} --region us-east-1 --to gp3"


@pytest.mark.parametrize(
    "clipboard", ["undefined", "{writeText: () => Promise.reject(new Error('denied'))}", None]
)
def test_a_button_copies_the_command_of_a_card_with_or_without_the_clipboard_api(small_page, clipboard):
    if clipboard:
        small_page.execute_script(
            f"Object.defineProperty(navigator, 'clipboard', {{value: {clipboard}, configurable: true}})"
        )
    button = f"[data-card={volume_id(2)}] .copy"

    click(small_page, button)

    await_copied(small_page, button)
    assert pasted(small_page).startswith(CARD_COMMAND)
    assert "\n" not in pasted(small_page)
    assert small_page.get_log("browser") == []


def test_the_copy_buttons_of_a_volume_page_work_with_the_keyboard(small_page):
    open_first(small_page)
    second = "#detail-commands > :nth-last-child(1) .copy"
    button = small_page.find_element(By.CSS_SELECTOR, second)
    assert button.get_attribute("aria-label") == "Copy the command burstctl history"

    button.send_keys(Keys.ENTER)

    await_copied(small_page, second)
    assert focused(small_page) == "Copied"
    assert button.get_attribute("aria-label").startswith("Copied: burstctl history ")
    assert open_dialog_title(small_page) == "etcd-1"
    press_keys(small_page, Keys.ESCAPE)
    await_open(small_page, None)
    assert pasted(small_page) == f"burstctl history {volume_id(1)} --region us-east-1"


LINES_OF_FLAGS = """
return [...document.querySelectorAll(".act span")].filter((each) => each.offsetParent)
  .map((each) => [each.textContent, each.offsetHeight / parseFloat(getComputedStyle(each).lineHeight)])
  .map(([text, lines]) => [text, Math.round(lines)]);
"""


@pytest.mark.parametrize("pixels", [390, 700, 1360])
def test_a_command_is_never_broken_inside_a_flag_or_an_id(small_page, pixels):
    set_width(small_page, pixels)
    small_page.refresh()
    lines = small_page.execute_script(LINES_OF_FLAGS)
    open_first(small_page)
    lines += small_page.execute_script(LINES_OF_FLAGS)
    assert len([text for text, _ in lines if text.startswith(("--", "vol-"))]) > 8
    assert [text for text, count in lines if count != 1] == []


def test_a_link_to_a_volume_opens_it(browser, small_file):
    show_page(browser, small_file, fragment=f"#{volume_id(3)}")
    await_open(browser, "build-3")


def test_a_chart_never_bridges_a_gap_and_shows_the_forecast(browser, small_file):
    show_page(browser, small_file, fragment=f"#{volume_id(3)}")
    large = "#detail-picture .picture "
    lines = browser.find_elements(By.CSS_SELECTOR, f"{large} > g > polyline.line")
    assert len(lines) == 2
    ends = [line.get_attribute("points").split() for line in lines]
    assert float(ends[0][-1].split(",")[0]) < float(ends[1][0].split(",")[0]) - 20
    [gap] = browser.find_elements(By.CSS_SELECTOR, f"{large} .band.absent title")
    assert gap.get_attribute("textContent") == "no datapoint"
    assert len(browser.find_elements(By.CSS_SELECTOR, f"{large} .fan .about")) == 1
    assert len(browser.find_elements(By.CSS_SELECTOR, f"{large} .fan .bound")) == 1
    text = browser.find_element(By.CSS_SELECTOR, large).get_attribute("aria-label")
    assert text.startswith("Burst balance, 19 Nov 12:00 to 20 Nov 12:00 UTC: from 100 to 20.5 per cent")
    assert "empty: in " in text


def test_a_chart_shows_values_on_hover_and_with_the_arrow_keys(browser, small_file):
    show_page(browser, small_file, fragment=f"#{volume_id(3)}")
    picture = browser.find_element(By.CSS_SELECTOR, "#detail-picture .picture")
    browser.execute_script("arguments[0].focus()", picture)
    press_keys(browser, Keys.ARROW_LEFT)
    first = text_of(browser, ".readout")
    assert re.fullmatch(r"20 Nov \d\d:\d\d UTC: [\d.]+ %, 1,000 IOPS", first)
    press_keys(browser, Keys.ARROW_LEFT)
    assert text_of(browser, ".readout") != first
    wide = len(browser.find_elements(By.CSS_SELECTOR, "#detail-picture .axis text"))
    click(browser, "#near")
    assert browser.find_element(By.ID, "near").get_attribute("aria-pressed") == "true"
    assert len(browser.find_elements(By.CSS_SELECTOR, "#detail-picture .axis text")) != wide


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_has_enough_contrast_in_both_themes(small_page, scheme):
    emulate_theme(small_page, scheme)
    open_first(small_page)
    result = small_page.execute_script(CONTRASTS)
    small_page.execute_script("document.querySelector('dialog').close()")
    click(small_page, "button[data-level=critical]")
    result += small_page.execute_script(CONTRASTS)
    assert len(result) > 150
    assert [finding for finding in result if finding[0] < MIN_CONTRAST] == []


def test_the_two_themes_differ(small_page):
    colours = []
    for scheme in ("light", "dark"):
        emulate_theme(small_page, scheme)
        colours.append(small_page.execute_script("return getComputedStyle(document.body).backgroundColor"))
    assert colours[0] != colours[1]


def test_no_level_is_shown_by_colour_alone(small_page):
    cells = small_page.find_elements(By.CSS_SELECTOR, "#rows td.level")
    assert [cell.text for cell in cells] == ["exhausted", "critical", "warning", "fault", "ok", "ok"]
    shapes = [cell.find_element(By.TAG_NAME, "use").get_attribute("href") for cell in cells]
    assert len(set(shapes)) == 5
    drawn = small_page.execute_script(
        "return [...document.querySelectorAll('symbol')].map((each) => each.innerHTML.replaceAll(/\\s/g, ''))"
    )
    assert len(set(drawn)) == len(drawn) == 8


def test_nothing_overflows_on_a_narrow_screen(small_page):
    set_width(small_page, 390)
    small_page.refresh()
    assert small_page.execute_script("return document.documentElement.scrollWidth") <= 390
    assert small_page.execute_script("return document.getElementById('scroller').scrollWidth") <= 390
    open_first(small_page)
    assert small_page.execute_script("return document.querySelector('dialog').scrollWidth") <= 390


@pytest.mark.parametrize("pixels", [390, 700, 1000, 1360])
def test_a_long_table_is_as_wide_as_the_screen_and_its_rows_are_of_one_height(browser, pages, pixels):
    set_width(browser, pixels)
    open_page(
        browser,
        pages / "long.html",
        a_fleet_report([*SMALL_FLEET, *(a_calm_volume(100 + n, f"shelf-{n}") for n in range(90))]),
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


def test_closing_a_volume_restores_the_scroll_position(small_page):
    link = small_page.find_element(By.CSS_SELECTOR, ".card:nth-child(2) h3 a")
    link.send_keys(Keys.ENTER)
    await_open(small_page, "ci-7")
    press_keys(small_page, Keys.ESCAPE)
    await_open(small_page, None)
    assert small_page.switch_to.active_element == link
    link.send_keys(Keys.ENTER)
    await_open(small_page, "ci-7")
    press_keys(small_page, "j", Keys.ESCAPE)
    await_open(small_page, None)
    await_focus(small_page, "build-3")  # who went on is at the row of the one seen last
    assert small_page.execute_script(
        "return document.getElementById('rows').contains(document.activeElement)"
    )


def test_an_unread_volume_is_not_a_gap_and_is_listed_first(browser, pages):
    unread = {volume_id(3): "cloudwatch:GetMetricData: AccessDenied", volume_id(5): "the same"}
    reported = a_fleet_report(SMALL_FLEET, unread=unread, balances={})
    open_page(browser, pages / "unread.html", reported, fragment=f"#{volume_id(3)}")
    bands = "#detail-picture .band.absent title"
    text = [element.get_attribute("textContent") for element in browser.find_elements(By.CSS_SELECTOR, bands)]
    assert text == ["could not be read"]
    press_keys(browser, Keys.ESCAPE)
    [row] = [row for row in texts(browser, "#rows tr") if "web-5" in row]
    assert "not read" in row
    banner = browser.find_element(By.CSS_SELECTOR, "[role=alert]")
    assert banner.is_displayed()
    assert "This page is incomplete. Not read: the picture of" in banner.text


def test_of_crowded_events_the_newest_keep_their_letters(browser, pages):
    step = some_activities(SMALL_FLEET[0])[0].at_s
    changes = [
        LedgerEntry(
            volume_id=volume_id(3), revision=step + nth, kind=EntryKind.LEVEL_CHANGED, at_s=step + nth,
            body={"from": "ok", "to": level},
        )
        for nth, level in enumerate(["warning", "warning", "warning", "critical", "exhausted"])
    ]  # fmt: skip
    reported = a_fleet_report(SMALL_FLEET)
    details = reported.details[volume_id(3)]
    tales = {
        **reported.details,
        volume_id(3): replace(details, timeline=volume_details(SMALL_FLEET[1], entries=changes).timeline),
    }
    open_page(browser, pages / "crowded.html", replace(reported, details=tales), fragment=f"#{volume_id(3)}")
    letters = browser.find_elements(By.CSS_SELECTOR, "#detail-picture .marks text")
    assert [letter.text for letter in letters] == ["E", "C", "W"]


def test_without_javascript_the_page_still_shows_the_essentials(browser, small_file):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    show_page(browser, small_file)
    text = text_of(browser, "body")
    assert "need JavaScript" in text
    for part in (
        "1 volume is empty",
        "ci-7",
        "(12:0",
        "burstctl flip",
        "is not moved to gp3: held",
        "Cost of flips",
    ):
        assert part in text
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


def test_hostile_names_and_tags_stay_text(browser, pages):
    fleet = [
        a_decision_row(nth, balances(*[10.0] * 5), name, tags={"note": name, f"k{name}": "v"})
        for nth, name in enumerate(HOSTILE, start=1)
    ]
    reported = a_fleet_report(
        [*fleet, an_empty_volume(99, HOSTILE[0])], failures=(HOSTILE[1],), unread={volume_id(1): HOSTILE[2]}
    )
    open_page(browser, pages / "hostile.html", reported)
    visible_names = volume_names(browser)
    for name in HOSTILE[:7]:
        assert name in visible_names
    open_first(browser)
    assert HOSTILE[0] in text_of(browser, "#detail-title")
    press_keys(browser, "j")
    assert "Tag" in text_of(browser, "#detail-facts")
    created = browser.execute_script(
        "return [window.hacked, document.scripts.length, document.images.length,"
        " document.querySelectorAll('b img, td script').length]"
    )
    assert created == [None, 2, 0, 0]
    assert HOSTILE[1] in text_of(browser, "#notes")
    assert browser.get_log("browser") == []


def test_a_bidirectional_or_endless_name_is_made_harmless(browser, pages):
    long, turned = "x" * 10_000, "abc\u202etxt.exe\u202c"
    fleet = [
        a_decision_row(1, balances(10.0), long, tags={"huge": long, **{f"t{n}": "v" for n in range(80)}})
    ]
    open_page(
        browser, pages / "odd.html", a_fleet_report([*fleet, a_decision_row(2, balances(10.0), turned)])
    )
    assert sorted(volume_names(browser)) == ["abc?txt.exe?", "x" * 39 + "…"]
    assert "\u202e" not in browser.page_source
    open_first(browser)
    assert browser.execute_script("return document.querySelector('dialog').scrollWidth <= innerWidth")
    assert (pages / "odd.html").stat().st_size < 100_000


def test_print_has_every_row_and_the_details_of_urgent_volumes(browser, pages):
    fleet = [
        *SMALL_FLEET,
        *(a_calm_volume(100 + nth, f"shelf-{nth}") for nth in range(120)),
        *(a_critical_volume(300 + n, f"hot-{n}") for n in range(15)),
    ]
    open_page(browser, pages / "print.html", a_fleet_report(fleet))
    on_screen = len(volume_names(browser))
    assert on_screen < len(fleet)
    emulate_theme(browser, "dark", media="print")
    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert len(volume_names(browser)) == len(fleet)
    table = browser.execute_script("return getComputedStyle(document.querySelector('#table thead')).display")
    assert table == "table-header-group"
    assert browser.execute_script("return getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    cards = browser.find_elements(By.CSS_SELECTOR, ".card")
    assert len(cards) == 4 + 15
    assert all(card.find_element(By.CSS_SELECTOR, ".on-paper").is_displayed() for card in cards)
    assert len(browser.find_elements(By.CSS_SELECTOR, ".card .picture")) == len(cards)
    assert not browser.find_element(By.ID, "filter").is_displayed()
    emulate_theme(browser, "light")
    browser.execute_script("dispatchEvent(new Event('afterprint'))")
    browser.execute_async_script(UNTIL_NEXT_FRAME % "")
    assert len(volume_names(browser)) == on_screen


def test_it_prints_to_pages_of_paper(small_page):
    printed = small_page.execute_cdp_cmd("Page.printToPDF", {"paperWidth": 8.27, "paperHeight": 11.69})
    pdf = base64.b64decode(printed["data"])
    assert pdf.startswith(b"%PDF-")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 8
    assert len(volume_names(small_page)) == 6, "the screen is as it was"


SORTS = [
    f"document.querySelector('th[data-sort={column}] button').click();"
    for column in ("volume", "balance", "empty", "mark", "level")
]
FILTERS = (
    "const filter = document.getElementById('filter');"
    "filter.value = 'team-3 web'; filter.dispatchEvent(new Event('input'));"
)


def time_interactions(browser, page):
    """Milliseconds by the page's own clock: to open it, and for each act to the frame that shows it."""
    browser.get("about:blank")
    browser.get(page.as_uri())
    assert text_of(browser, "#count") == "10,000 volumes"
    opened_ms = browser.execute_script(
        "const [seen] = performance.getEntriesByType('navigation'); return seen.loadEventEnd - seen.startTime"
    )
    acts = {act: browser.execute_async_script(UNTIL_NEXT_FRAME % act) for act in [*SORTS, FILTERS]}
    return {"open": opened_ms, **acts}


def test_ten_thousand_volumes_open_sort_and_filter_in_under_two_seconds(browser, large_page):
    """Others may want the processor as well: of a few tries the fastest is the time that the page takes."""
    took = time_interactions(browser, large_page)
    for _ in range(4):
        if max(took.values()) >= BUDGET_MS:
            repeated = time_interactions(browser, large_page)
            took = {act: min(ms, repeated[act]) for act, ms in took.items()}
    assert {act: ms for act, ms in took.items() if ms >= BUDGET_MS} == {}
    assert re.fullmatch(r"[\d,]+ of 10,000 volumes", text_of(browser, "#count"))
    assert large_page.stat().st_size < 6e6


def test_of_ten_thousand_rows_only_visible_ones_are_rendered_and_end_jumps_to_the_last(browser, large_page):
    browser.get("about:blank")
    browser.get(large_page.as_uri())
    assert len(browser.find_elements(By.CSS_SELECTOR, "#rows tr")) < 60
    press_keys(browser, "j", Keys.END)
    last = browser.find_element(By.CSS_SELECTOR, "#rows tr:last-child")
    assert last.get_attribute("aria-rowindex") == "10001"
    assert browser.find_element(By.ID, "table").get_attribute("aria-rowcount") == "10001"
    assert focused(browser) == last.find_element(By.TAG_NAME, "a").text
    assert browser.execute_script(
        "return arguments[0].getBoundingClientRect().bottom <= innerHeight + 2", last
    )
