"""One Chromium for all browser tests, driven as a reader would use it."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from ..waiting import until

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-sync",
    "--no-first-run",
)


@dataclass
class Browser:
    """A driver with the few words the tests need."""

    driver: Any
    downloads: Path

    def open(self, path: Path, *, width: int = 1280, dark: bool = False, media: str = "screen") -> None:
        self.emulate(dark=dark, media=media)
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.get("about:blank")
        self.driver.get(path.as_uri())
        self.wait("return document.readyState === 'complete'")

    def emulate(self, *, dark: bool, media: str = "screen") -> None:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": [scheme, still]})

    def wait(self, script: str) -> None:
        """Until the script says yes."""
        until(lambda: self.run(script))

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def find(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def find_all(self, selector: str) -> list[Any]:
        return self.driver.find_elements("css selector", selector)

    def errors(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def requests(self) -> list[str]:
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    missing = []
    if find_spec("selenium") is None:
        missing.append("selenium, which the extra test leaves out")
    if chromium is None or chromedriver is None:
        missing.append("Debian's chromium and chromium-driver (make chromium)")
    if missing:
        said = f"browser test: needs {' and '.join(missing)}"
        pytest.fail(said) if os.environ.get("CI") == "true" else pytest.skip(said)
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    downloads = tmp_path_factory.mktemp("downloads")
    driver = Chrome(options=options, service=Service(chromedriver))
    try:
        allow = {"behavior": "allow", "downloadPath": str(downloads)}
        driver.execute_cdp_cmd("Browser.setDownloadBehavior", allow)
        yield Browser(driver, downloads)
    finally:
        driver.quit()
