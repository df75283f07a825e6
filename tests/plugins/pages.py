"""What tests ask of a page in a browser, again and again until it is there."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

WAIT = 200.0


def wait_for(browser: Any, script: str, *arguments: Any, seconds: float = WAIT) -> Any:
    """The first true value of a script, asked again and again."""
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, seconds, poll_frequency=0.2).until(
        lambda driver: driver.execute_script(f"return {script}", *arguments), f"never true: {script}"
    )


def texts(browser: Any, selector: str) -> list[str]:
    found = browser.execute_script(
        "return [...document.querySelectorAll(arguments[0])].map((each) => each.textContent.trim())", selector
    )
    return [str(text) for text in found]


def keep_picture(browser: Any, path: Path, width: int, height: int | None = None, top: float = 0) -> None:
    """The whole page, or a part of it."""
    whole = browser.execute_script("return document.documentElement.scrollHeight")
    clip = {"x": 0, "y": top, "width": width, "height": min(whole, height or whole), "scale": 1}
    told = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    path.write_bytes(base64.b64decode(told["data"]))


def set_screen(browser: Any, width: int, theme: str) -> None:
    """The width of the window, and whether the system is light or dark."""
    metrics = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})
    scheme = {"name": "prefers-color-scheme", "value": theme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
