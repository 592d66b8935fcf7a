import pytest

from support.browser.chromium import start_chromium
from support.browser.report_in_browser import SMALL_FLEET, show_page
from support.browser.site_in_browser import build_site, show_theme
from support.builders.pages import a_fleet, a_fleet_report, render_report_page
from support.paths import ROOT


@pytest.fixture(scope="module")
def chromium():
    with start_chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
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


@pytest.fixture(scope="module")
def small_file(pages):
    """Six volumes, four of them urgent."""
    path = pages / "few.html"
    path.write_text(render_report_page(a_fleet_report(SMALL_FLEET)), encoding="utf-8")
    return path


@pytest.fixture
def small_page(browser, small_file):
    return show_page(browser, small_file)


@pytest.fixture(scope="module")
def large_page(pages):
    fleet = a_fleet(10_000)
    path = pages / "ten-thousand.html"
    path.write_text(render_report_page(a_fleet_report(fleet, detailed=fleet[:300])), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "site"
    built = build_site(ROOT, folder)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture
def site_browser(chromium):
    """On a screen of usual size, with nothing logged yet."""
    show_theme(chromium, "light")
    chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    chromium.get("about:blank")
    chromium.get_log("browser")
    chromium.get_log("performance")
    return chromium
