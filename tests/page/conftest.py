"""A real Chromium for the tests of the page: one a module, a context a test. Where there is none, these tests are skipped, and say so."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
WIDE, NARROW = {"width": 1360, "height": 820}, {"width": 400, "height": 860}
SECS = 15.0


def _missing() -> str:
    if CHROMIUM is None:
        return "Chromium is not here (Debian: apt-get install chromium; or set CHROMIUM to one)"
    try:
        import playwright  # noqa: F401
    except ImportError:
        return "playwright is not here: make setup"
    return ""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, for all tests of a module. The driver holds the thread's event loop: no asynchronous test may run beside it."""
    if why := _missing():
        pytest.skip(why)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            yield opened
        finally:
            opened.close()


Opens = Callable[..., Any]


@pytest.fixture
def open_page(browser: Any) -> Iterator[Opens]:
    """Opens addresses in a context of their own. What the page says on its console as an error, and what it throws, fails the test."""
    wrong: list[str] = []
    contexts: list[Any] = []

    def opens(
        url: str = "about:blank", *, narrow: bool = False, expect_errors: bool = False, **how: Any
    ) -> Any:
        context = browser.new_context(**{"viewport": NARROW if narrow else WIDE, "locale": "en-GB", **how})
        contexts.append(context)
        context.set_default_timeout(SECS * 1000)
        page = context.new_page()
        if not expect_errors:
            page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        if url != "about:blank":
            page.goto(url)
        return page

    yield opens
    for context in contexts:
        context.close()
    assert wrong == []


@pytest.fixture(scope="module")
def _modules_page(browser: Any) -> Iterator[tuple[Any, list[str]]]:
    from replan.page.assets import ROOT, assets

    found = assets()
    context = browser.new_context(viewport=WIDE, locale="en-GB")
    context.set_default_timeout(SECS * 1000)
    page, wrong = context.new_page(), []
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))

    def answered(route: Any) -> None:
        path = route.request.url.partition("://")[2].partition("/")[2]
        asset = found.served.get(path.removeprefix(f"{ROOT[1:]}/{found.digest}/"))
        if asset is not None:
            route.fulfill(body=asset.body, content_type=asset.media_type)
        else:
            text = found.html.decode().replace("js/main.js", "js/store.js")
            route.fulfill(body=text, content_type="text/html")

    page.route("http://modules.test/**", answered)
    page.goto("http://modules.test/")
    yield page, wrong
    context.close()


@pytest.fixture
def modules(_modules_page: tuple[Any, list[str]]) -> Iterator[Any]:
    """A page that has the modules of the page by their names, and shows nothing of itself. One for all tests of a file."""
    page, wrong = _modules_page
    wrong.clear()
    yield page
    assert wrong == []
