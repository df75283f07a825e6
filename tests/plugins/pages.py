"""What tests ask of a page in a browser, again and again until it is there."""

from __future__ import annotations

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
