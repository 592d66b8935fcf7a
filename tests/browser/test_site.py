"""The documentation site in a real Chromium, from disk and over HTTP: search, themes, keys, phone, speed."""

import json
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.flips.refusal import Guard, guard_page
from support.browser.chromium import TIMEOUT_S
from support.browser.site_in_browser import build_site, show_theme
from support.paths import ROOT
from support.serving import serving

MIN_CONTRAST = 4.5
"""The least contrast of text, by WCAG 2.2 AA."""

CONTRASTS = Path(__file__).with_name("contrasts.js").read_text()
PAPER = {"width": 718, "height": 1047, "deviceScaleFactor": 1, "mobile": False}
"""A4 with the margins of a browser."""

PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
START_PAGE = "docs/README.html"
DIAGRAM_PAGE = "docs/flips.html"
CODE_PAGE = "runbooks/BurstBalanceDraining.html"
TABLE_PAGE = "docs/reference/policy.html"

FIRST_RESULTS = """
return arguments[0].map((name) => {
  const [document, title] = Search._performSearch(...Search._parseQuery(name)).at(-1);
  return [document, title];
});
"""
"""The best result for each name: the last, because Search shows them from the end."""

CLIPPED_TABLES = """
const isClipped = (box) => getComputedStyle(box).overflowX !== "visible" && box.scrollWidth > box.clientWidth;
return [...document.querySelectorAll(".table-wrapper")].filter(isClipped).map((box) => box.textContent);
"""
"""The tables that do not fit into a box that cannot be scrolled on paper."""

SHOWN_TEXTS = """
const terminal = document.querySelector("rect").getBoundingClientRect();
const isShown = (text) => {
  const {top, bottom} = text.getBoundingClientRect();
  return terminal.top < bottom && top < terminal.bottom;
};
return [...document.querySelectorAll("text")].filter(isShown).map((text) => text.textContent.trim());
"""
"""What of an animated picture is in sight."""


def show_as_on_a_phone(site_browser):
    site_browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)


def press(site_browser, key):
    """Press a key where the focus is; the name or the text of what has the focus then."""
    site_browser.switch_to.active_element.send_keys(key)
    focused = site_browser.switch_to.active_element
    return (
        focused.get_attribute("name")
        or focused.get_attribute("aria-label")
        or focused.get_attribute("textContent").strip()
    )


def press_until(site_browser, key, name):
    """Press a key until this has the focus."""
    stops = []
    while name not in stops:
        stops.append(press(site_browser, key))
        assert len(stops) < 100, stops


def is_in_sight(site_browser, selector):
    element = site_browser.find_element(By.CSS_SELECTOR, selector)
    box = site_browser.execute_script("return arguments[0].getBoundingClientRect().toJSON()", element)
    return element.is_displayed() and box["left"] >= 0 and box["right"] <= PHONE["width"]


def await_element(site_browser, selector):
    return WebDriverWait(site_browser, TIMEOUT_S, poll_frequency=0.02).until(
        lambda _: site_browser.find_elements(By.CSS_SELECTOR, selector)
    )[0]


def requested_urls(site_browser):
    messages = [json.loads(item["message"])["message"] for item in site_browser.get_log("performance")]
    return {
        item["params"]["request"]["url"] for item in messages if item["method"] == "Network.requestWillBeSent"
    }


def search_for(site_browser, name):
    """Type a name into the field beside the page, and press Enter."""
    site_browser.find_element(By.NAME, "q").send_keys(name, Keys.ENTER)
    await_results(site_browser)
    return site_browser.find_element(By.CSS_SELECTOR, "#search-results li a")


def await_results(site_browser):
    """Until all are shown: the summary comes last, and it moves the results down, away from a click."""
    WebDriverWait(site_browser, TIMEOUT_S, poll_frequency=0.02).until(
        lambda _: "Search finished" in await_element(site_browser, "#search-results .search-summary").text,
    )


@contextmanager
def serve_folder(folder):
    class QuietHandler(SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    class QuietServer(ThreadingHTTPServer):
        def handle_error(self, *args):
            """A browser closes connections when it has what it wants."""

    server = QuietServer(("127.0.0.1", 0), partial(QuietHandler, directory=folder))
    with serving(server):
        yield f"http://127.0.0.1:{server.server_port}"


def test_the_site_opened_from_disk_requests_files_only_and_logs_nothing(site_browser, site):
    site_browser.get((site / "index.html").as_uri())
    await_element(site_browser, "article")
    search_for(site_browser, "flip")
    site_browser.get((site / DIAGRAM_PAGE).as_uri())
    await_element(site_browser, "div.mermaid svg")
    assert site_browser.get_log("browser") == []
    requested = requested_urls(site_browser)
    assert (site / START_PAGE).as_uri() in requested
    assert {url.partition(":")[0] for url in requested} <= {"file", "about", "data"}


def test_over_http_only_the_site_is_requested_and_a_result_shows_a_piece_of_its_page(site_browser, site):
    with serve_folder(site) as address:
        site_browser.get(f"{address}/{CODE_PAGE}")
        search_for(site_browser, "WindowMissed")
        assert "WindowMissed" in await_element(site_browser, "#search-results li p.context").text
        requested = requested_urls(site_browser)
        assert f"{address}/{CODE_PAGE}" in requested
        assert {url for url in requested if not url.startswith((address, "about:", "data:"))} == set()
        assert site_browser.get_log("browser") == []


@pytest.mark.parametrize("kind", [AlertKind.DRAINING, AlertKind.FLIP_REFUSED, "WatchdogSilent"])
def test_a_search_from_the_start_page_leads_to_the_page_of_an_alert(site_browser, site, kind):
    site_browser.get((site / START_PAGE).as_uri())
    search_for(site_browser, str(kind)).click()
    assert await_element(site_browser, "article h1").text.startswith(str(kind))


def test_the_page_of_each_alert_and_alarm_is_the_first_result_for_its_name(site_browser, site):
    names = sorted(path.stem for path in (ROOT / "runbooks").glob("[A-Z]*.md") if path.stem != "README")
    assert {*map(str, AlertKind)} < set(names)
    site_browser.get((site / "search.html").as_uri() + "?q=alert")
    await_element(site_browser, "#search-results li a")
    first_results = site_browser.execute_script(FIRST_RESULTS, names)
    assert first_results == [[f"runbooks/{name}", name] for name in names]


@pytest.mark.parametrize("guard", [Guard.HELD, Guard.COOLDOWN])
def test_a_refusal_leads_to_its_row_if_the_policy_has_the_address_of_the_site(site_browser, site, guard):
    site_browser.get(
        guard_page(guard, "https://docs.example.com/runbooks/{page}.html").replace(
            "https://docs.example.com", site.as_uri()
        )
    )
    assert site_browser.find_element(By.CSS_SELECTOR, "tr:has(:target)").text.startswith(str(guard))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_can_be_read_in_both_themes(site_browser, site, theme):
    show_theme(site_browser, theme)
    low = {}
    for page in (START_PAGE, CODE_PAGE, TABLE_PAGE, "search.html?q=flip"):
        site_browser.get(site.as_uri() + f"/{page}")
        await_element(site_browser, "article a")
        contrasts = site_browser.execute_script(CONTRASTS)
        assert len(contrasts) > 30
        low |= {(page, text): round(ratio, 2) for ratio, text, _ in contrasts if ratio < MIN_CONTRAST}
    assert low == {}


def test_the_first_tab_skips_to_the_text_and_the_next_ones_reach_search_and_navigation(site_browser, site):
    site_browser.get((site / START_PAGE).as_uri())
    assert press(site_browser, Keys.TAB) == "Skip to content"
    stops = [press(site_browser, Keys.TAB) for _ in range(8)]
    assert stops.index("q") < stops.index("Runbooks")
    site_browser.refresh()
    press(site_browser, Keys.TAB)
    press(site_browser, Keys.ENTER)
    assert press(site_browser, Keys.TAB) == "overview", "the first link of the text"


@pytest.mark.parametrize("page", [START_PAGE, CODE_PAGE, TABLE_PAGE, DIAGRAM_PAGE, "README.html"])
def test_a_phone_shows_a_page_without_scrolling_sideways(site_browser, site, page):
    show_as_on_a_phone(site_browser)
    site_browser.get((site / page).as_uri())
    await_element(site_browser, "div.mermaid svg" if page == DIAGRAM_PAGE else "article h1")
    assert site_browser.execute_script("return document.documentElement.scrollWidth") <= PHONE["width"]


@pytest.mark.parametrize("page", [TABLE_PAGE, "runbooks/FlipRefused.html", "docs/permissions.html"])
def test_paper_shows_every_column_of_a_table(site_browser, site, page):
    site_browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    site_browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PAPER)
    site_browser.get((site / page).as_uri())
    await_element(site_browser, "article table")
    assert site_browser.execute_script(CLIPPED_TABLES) == []
    assert site_browser.execute_script("return document.documentElement.scrollWidth") <= PAPER["width"]


@pytest.mark.parametrize("key", [Keys.ENTER, Keys.SPACE])
@pytest.mark.parametrize(
    ("menu", "button", "first_link"),
    [
        (".sidebar-drawer", "Toggle site navigation sidebar", "burstwatch"),
        (".toc-drawer", "Toggle table of contents sidebar", "Meaning"),
    ],
)
def test_keys_open_and_close_a_menu_of_a_phone(site_browser, site, menu, button, first_link, key):
    show_as_on_a_phone(site_browser)
    site_browser.get((site / CODE_PAGE).as_uri())
    assert press(site_browser, Keys.TAB) == "Skip to content"
    press_until(site_browser, Keys.TAB, button)
    opener = site_browser.switch_to.active_element
    assert not is_in_sight(site_browser, menu)
    assert opener.get_attribute("aria-expanded") == "false"

    assert press(site_browser, key) == first_link
    WebDriverWait(site_browser, TIMEOUT_S).until(lambda _: is_in_sight(site_browser, menu))
    assert opener.get_attribute("aria-expanded") == "true"
    assert site_browser.find_element(By.CSS_SELECTOR, f"{menu} a:focus").text == first_link
    assert press(site_browser, Keys.ESCAPE) == button
    assert not is_in_sight(site_browser, menu)
    assert site_browser.switch_to.active_element == opener


def test_a_menu_closes_when_the_focus_leaves_it_and_is_passed_when_closed(site_browser, site):
    show_as_on_a_phone(site_browser)
    site_browser.get((site / CODE_PAGE).as_uri())
    stops = [press(site_browser, Keys.TAB) for _ in range(6)]
    assert "q" not in stops, "the search is in the closed menu"
    site_browser.refresh()
    press_until(site_browser, Keys.TAB, "Toggle site navigation sidebar")
    assert press(site_browser, Keys.ENTER) == "burstwatch"
    press(site_browser, Keys.SHIFT + Keys.TAB)
    assert not is_in_sight(site_browser, ".sidebar-drawer")


def test_keys_open_a_branch_of_the_navigation(site_browser, site):
    site_browser.get((site / START_PAGE).as_uri())
    press_until(site_browser, Keys.TAB, "Toggle navigation of Reference")
    page = site_browser.find_element(By.CSS_SELECTOR, ".sidebar-drawer a[href$='reference/alerts.html']")
    assert not page.is_displayed()
    press(site_browser, Keys.SPACE)
    assert page.is_displayed()


@pytest.mark.parametrize(("preference", "animations"), [("no-preference", 1), ("reduce", 0)])
def test_a_recording_opens_by_itself_and_moves_only_for_those_who_want_it(
    site_browser, site, preference, animations
):
    site_browser.get((site / "docs/burstctl.html").as_uri())
    picture = site_browser.find_element(By.CSS_SELECTOR, "a > img[alt^='burstctl top']")
    assert site_browser.execute_script("return arguments[0].naturalWidth", picture) > 900
    features = [{"name": "prefers-reduced-motion", "value": preference}]
    site_browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})
    site_browser.get(picture.find_element(By.XPATH, "..").get_attribute("href"))
    assert site_browser.execute_script("return document.getAnimations().length") == animations
    texts = site_browser.execute_script(SHOWN_TEXTS)
    assert sum(text.startswith("build-3") for text in texts) == 1, "one frame is in sight"


def test_a_diagram_opens_by_itself_to_be_enlarged(site_browser, site):
    site_browser.get((site / DIAGRAM_PAGE).as_uri())
    await_element(site_browser, "div.mermaid a").send_keys(Keys.ENTER)
    page, *others = site_browser.window_handles
    site_browser.switch_to.window(others[0])
    try:
        assert "AWS accepts" in await_element(site_browser, "svg").text
    finally:
        site_browser.close()
        site_browser.switch_to.window(page)


def test_the_largest_page_opens_about_as_quickly_as_the_smallest(site_browser, site):
    pages = sorted(site.glob("*/**/*.html"), key=lambda path: path.stat().st_size)
    assert pages[-1].stat().st_size > 2 * pages[0].stat().st_size

    def opening_ms(page):
        site_browser.get(page.as_uri())
        return site_browser.execute_script(
            "return performance.getEntriesByType('navigation')[0].loadEventEnd"
        )

    smallest, largest = (median(opening_ms(page) for _ in range(5)) for page in (pages[0], pages[-1]))
    assert largest < 8 * smallest


def test_a_link_that_leads_nowhere_or_a_page_in_no_list_fails_the_build(tmp_path):
    pages = tmp_path / "docs"
    pages.mkdir()
    (pages / "README.md").write_text(
        "# Start\n\n## How-to\n\n- [Good](good.md#row): a page\n- [Bad](bad.md)\n"
    )
    (pages / "good.md").write_text('# Good\n\n<a id="row"></a>It leads [there](README.md#how-to)\n')
    (pages / "unlisted.md").write_text("# Unlisted\n")
    (pages / "bad.md").write_text(
        "# Bad\n\n[page](gone.md) [anchor](good.md#gone) [file](gone.yaml) ![picture](gone.png)\n"
    )
    built = build_site(tmp_path, tmp_path / "site")
    assert built.returncode != 0
    warnings = [line.partition("docs/")[2] for line in built.stderr.splitlines() if "WARNING" in line]
    assert {line.split(":")[0] for line in warnings} == {"bad.md", "unlisted.md"}
    for missing in ("gone.md", "'docs/good': 'gone'", "gone.yaml", "gone.png"):
        assert [line for line in warnings if missing in line], missing
