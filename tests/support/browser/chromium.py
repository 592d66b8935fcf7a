"""Debian's Chromium without a screen, driven by its own driver: nothing is downloaded, all of it is ended."""

import os
import tempfile
from contextlib import contextmanager
from shutil import which

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

FLAGS = (
    "--headless=new",
    "--no-sandbox",  # as root it does not work
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--window-size=1360,1000",
)
TIMEOUT_S = 60


@contextmanager
def start_chromium():
    """A browser; without one the tests are skipped with a message."""
    browser, driver = which("chromium"), which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("there is no chromium with chromedriver here: apt-get install chromium chromium-driver")
    options = Options()
    options.binary_location = browser
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as own:
        service = Service(executable_path=driver, env={**os.environ, "TMPDIR": own})
        created = webdriver.Chrome(options=options, service=service)
        try:
            created.set_script_timeout(TIMEOUT_S)
            created.set_page_load_timeout(TIMEOUT_S)
            yield created
        finally:
            created.quit()
