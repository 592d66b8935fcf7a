"""The page of the report in a browser."""

from support.builders.pages import (
    a_calm_volume,
    a_critical_volume,
    a_volume_without_data,
    a_warning_volume,
    an_empty_volume,
    render_report_page,
)

SMALL_FLEET = (
    a_critical_volume(2),
    a_warning_volume(3),
    an_empty_volume(1),
    a_volume_without_data(4),
    a_calm_volume(5, "web-5", tags={"team": "shop"}),
    a_calm_volume(6, "web-6", size_gib=300),
)


def open_page(browser, path, reported, *, fragment=""):
    path.write_text(render_report_page(reported), encoding="utf-8")
    return show_page(browser, path, fragment=fragment)


def show_page(browser, path, *, fragment=""):
    """Open the page, also if it is shown already."""
    browser.get("about:blank")
    browser.get(path.as_uri() + fragment)
    return browser
