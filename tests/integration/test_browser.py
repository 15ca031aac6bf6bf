"""What people see, in a real browser: the dashboard of a study that runs, and the report.

The screenshots are kept in the folder ``screenshots``.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from collections.abc import Iterator
from pathlib import Path
import re
import shutil
import socket
import sys
import time
from typing import Any

from helpers import ROOT
from helpers import start
import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from optuna_pcts._analysis.infos import INFOS
from optuna_pcts.cli import main


SCREENSHOTS = ROOT / "screenshots"
PATIENCE = 60.0  # seconds, for a machine that is busy with something else

WORKER = """
import sys, time, optuna
sys.path.insert(0, "tests")
from helpers import study_to_see
from optuna_pcts import fidelity
from optuna_pcts.dashboard import LiveFigures
study = study_to_see(15, storage=sys.argv[1], n_running=0)
live = LiveFigures(every=2)
live.update(study)
print("ready", flush=True)
def objective(trial):
    z = fidelity(trial)
    time.sleep(0.02 + 0.05 * z)
    x, y = trial.suggest_float("x", -5, 5), trial.suggest_float("y", 1e-3, 1, log=True)
    is_b = trial.suggest_categorical("kind", list("abc")) == "b"
    return (x - 2) ** 2 + y + 0.3 * (1 - z) - is_b
study.optimize(objective, timeout=300, n_jobs=3, callbacks=[live])
"""
DASHBOARD = """
import sys, optuna_dashboard
optuna_dashboard.run_server(sys.argv[1], host="127.0.0.1", port=int(sys.argv[2]))
"""

# Boxes of what is written around each figure, on the screen.
BOXES = """
return [...document.querySelectorAll(".js-plotly-plot")].map(plot => ({
  id: plot.id,
  boxes: [...plot.querySelectorAll(
    ".gtitle, .xtitle, .ytitle, .x2title, .y2title, .legend, .cartesianlayer .plot > *:first-child"
  )].map(e => [e.getAttribute("class"), e.getBoundingClientRect()])
    .filter(([_, b]) => b.width && b.height)
    .map(([name, b]) => [name, b.left, b.top, b.right, b.bottom]),
  frame: (b => [b.left, b.top, b.right, b.bottom])(plot.getBoundingClientRect()),
}))
"""
FITS = "const e = document.documentElement; return e.scrollWidth <= e.clientWidth"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("chromium and chromedriver (Debian's chromium-driver) are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--window-size=1500,1250",
        f"--user-data-dir={tmp_path_factory.mktemp('browser')}",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    SCREENSHOTS.mkdir(exist_ok=True)
    opened = webdriver.Chrome(options, Service(driver))
    yield opened
    opened.quit()


@pytest.fixture(scope="module")
def study_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A study to which another process adds trials."""
    url = f"sqlite:///{tmp_path_factory.mktemp('study')}/study.db"
    worker = start(ROOT, sys.executable, "-c", WORKER, url)
    try:
        assert worker.stdout is not None
        line = worker.stdout.readline()
        assert line == "ready\n", worker.communicate(timeout=10)[1]
        yield url
        assert worker.poll() is None, worker.communicate()[1]  # it ran all the time
    finally:
        worker.kill()
        worker.communicate()


@pytest.fixture
def dashboard(study_url: str) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = start(ROOT, sys.executable, "-c", DASHBOARD, study_url, port)
    try:

        def answers() -> bool:
            assert server.poll() is None, server.communicate()[1]
            with socket.socket() as attempt:
                return attempt.connect_ex(("127.0.0.1", port)) == 0

        wait_for(answers, "the dashboard to answer")
        yield f"http://127.0.0.1:{port}/dashboard/studies/1"
    finally:
        server.kill()
        server.communicate()


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + PATIENCE
    while not (result := condition()):
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.3)
    return result


def use_scheme(browser: webdriver.Chrome, scheme: str) -> None:
    """Tell pages that the user prefers light or dark."""
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def drawn(browser: webdriver.Chrome) -> dict[str, str]:
    """Return the title of each figure of ours on the page, once it is drawn."""
    found: dict[str, str] = browser.execute_script(
        """
        const titles = {};
        for (const plot of document.querySelectorAll(".js-plotly-plot")) {
          const name = plot.id.match(/pcts-(\\w+)$/);
          const title = plot.querySelector(".gtitle");
          if (name && title) titles[name[1]] = title.textContent;
        }
        return titles;
        """
    )
    return found


def check_layout(browser: webdriver.Chrome) -> None:
    """Nothing that is written lies over something else, or out of its figure."""
    checked = 0
    for figure in browser.execute_script(BOXES):
        if "pcts-" not in figure["id"]:
            continue
        checked += 1
        left, top, right, bottom = figure["frame"]
        boxes = figure["boxes"]
        for i, (name, x0, y0, x1, y1) in enumerate(boxes):
            where = f"{name} of {figure['id']}"
            assert left - 2 <= x0, where
            assert x1 <= right + 2, where
            assert top - 2 <= y0, where
            assert y1 <= bottom + 2, where
            for other, a0, b0, a1, b1 in boxes[i + 1 :]:
                apart = x1 <= a0 + 1 or a1 <= x0 + 1 or y1 <= b0 + 1 or b1 <= y0 + 1
                assert apart, f"{where} lies over {other}"
    assert checked == len(INFOS)


def new_errors(browser: webdriver.Chrome) -> list[str]:
    """Return what the page has complained about since the last call."""
    entries = browser.get_log("browser")  # type: ignore[no-untyped-call]
    return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]


def n_told(title: str) -> int:
    match = re.search(r"([\d,]+) of [\d,]+ trials told back", title)
    assert match is not None, title
    return int(match[1].replace(",", ""))


def test_the_dashboard_shows_the_figures_and_they_change(
    browser: webdriver.Chrome, dashboard: str
) -> None:
    use_scheme(browser, "light")
    browser.get(dashboard)
    wait_for(lambda: set(drawn(browser)) == set(INFOS), "all figures")
    before = drawn(browser)
    check_layout(browser)
    shoot(browser, "dashboard-light")
    # The page is left alone: it asks for news itself.
    wait_for(lambda: n_told(drawn(browser)["tree"]) > n_told(before["tree"]), "more trials")
    wait_for(lambda: drawn(browser)["delays"] != before["delays"], "other delays")
    assert set(drawn(browser)) == set(INFOS)

    use_scheme(browser, "dark")
    browser.get(dashboard)
    wait_for(lambda: set(drawn(browser)) == set(INFOS), "all figures in the dark")
    check_layout(browser)
    shoot(browser, "dashboard-dark")

    browser.get(dashboard + "/note")
    body = "return document.body.innerText"
    wait_for(lambda: "is recommended, with a value" in browser.execute_script(body), "the note")
    shoot(browser, "dashboard-note")

    browser.get(dashboard + "/trials?numbers=25")
    wait_for(lambda: "pcts:delay" in browser.execute_script(body), "the attributes of a trial")
    assert "pcts:depth" in browser.execute_script(body)
    assert "pcts:fidelity" in browser.execute_script(body)


def test_the_report_is_a_page_in_light_and_dark(
    browser: webdriver.Chrome, study_url: str, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    assert main(["report", study_url, "--html", str(page)]) == 0
    browser.get("about:blank")  # the dashboard's page would go on asking for news
    new_errors(browser)
    colors = {}
    for scheme in ("light", "dark"):
        use_scheme(browser, scheme)
        browser.get(page.as_uri())
        wait_for(lambda: set(drawn(browser)) == set(INFOS), "all figures of the page")
        check_layout(browser)
        colors[scheme] = browser.execute_script(
            "return [getComputedStyle(document.body).backgroundColor,"
            " getComputedStyle(document.querySelector('.gtitle')).fill]"
        )
        shoot(browser, f"report-{scheme}")
        # It fits a telephone too.
        browser.set_window_size(500, 900)
        wait_for(lambda: browser.execute_script(FITS), "a narrow page")
        browser.set_window_size(1500, 1250)
    assert colors["light"][0] != colors["dark"][0]
    assert colors["light"][1] != colors["dark"][1]
    loaded = browser.execute_script("return performance.getEntriesByType('resource').length")
    assert loaded == 0  # everything is in the page
    assert new_errors(browser) == []


def shoot(browser: webdriver.Chrome, name: str) -> None:
    """Keep a picture of the whole page."""
    height = browser.execute_script(
        "return Math.max(document.documentElement.scrollHeight, document.body.scrollHeight)"
    )
    whole = {"x": 0, "y": 0, "width": 1500, "height": min(height, 4000), "scale": 1}
    time.sleep(0.5)  # for what moves
    shot = browser.execute_cdp_cmd(
        "Page.captureScreenshot",
        {"format": "png", "captureBeyondViewport": True, "clip": whole},
    )
    (SCREENSHOTS / f"{name}.png").write_bytes(b64decode(shot["data"]))
