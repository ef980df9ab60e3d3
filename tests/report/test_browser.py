"""The page in a real browser, without a head: what a reader does with it changes what is shown."""

import json
import os
import re
import shutil
import threading

import pytest

from flexdome.experiments import Store
from flexdome.report import ReportServer, write_report

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium on this machine")
DESK, PHONE = {"width": 1200, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser():
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []  # root has no sandbox
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=BROWSER, args=flags)
        yield browser
        browser.close()


class Tab:
    """The page in a tab, with what it said and what it asked for."""

    def __init__(self, browser, path, **options):
        self.said, self.asked = [], []
        self.context = browser.new_context(offline=True, **options)
        self.tab = self.context.new_page()
        self.tab.on("console", lambda message: self.said.append(message.text))
        self.tab.on("pageerror", lambda error: self.said.append(str(error)))
        self.tab.on("request", lambda request: self.asked.append(request.url))
        self.tab.goto(path.as_uri())
        self.tab.wait_for_selector("html[data-ready]", timeout=20_000)
        self.place = self.tab.locator("[data-experiment='1']")  # "plain", after "odd"

    def picture(self, which=0):
        """The pixels of a chart."""
        canvas = self.place.locator(".chart canvas").nth(which)
        return canvas.evaluate("canvas => canvas.toDataURL()")

    def label(self):
        return self.place.locator(".chart").first.get_attribute("aria-label")


@pytest.fixture
def opened(browser, page):
    tabs = []

    def make(path=page, **options):
        tabs.append(Tab(browser, path, **{"viewport": DESK, **options}))
        return tabs[-1]

    yield make
    for one in tabs:
        one.context.close()


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_loads_in_silence_and_asks_for_nothing(opened, page, size, scheme):
    one = opened(viewport=size, color_scheme=scheme)
    assert one.said == []
    assert one.asked == [page.as_uri()]
    assert one.tab.evaluate("document.documentElement.scrollWidth") <= size["width"]
    assert one.tab.evaluate("window.broken") is None
    assert one.tab.locator(".chart canvas").count() == 4


def test_hovering_and_arrow_keys_tell_episode_and_values(opened):
    one = opened()
    readout = one.place.locator(".readout").first
    assert "Point at the chart" in readout.inner_text()
    one.place.locator(".u-over").first.hover()
    told = readout.inner_text()
    assert "FlexDOME" in told
    assert "Vanilla PD" in told
    assert "in episode" in told
    one.place.locator(".chart").first.focus()
    one.tab.keyboard.press("Shift+ArrowRight")
    assert readout.inner_text() != told


def test_learners_are_switched_off_and_on(opened):
    one = opened()
    first, before = one.place.locator(".learners button").first, (one.picture(0), one.picture(1))
    first.focus()
    one.tab.keyboard.press("Enter")
    assert first.get_attribute("aria-pressed") == "false"
    assert "FlexDOME" not in one.label()
    assert all(now != then for now, then in zip((one.picture(0), one.picture(1)), before, strict=True))
    first.click()
    assert "FlexDOME" in one.label()


@pytest.mark.parametrize("how", ["drag", "key", "button"])
def test_zooming_shows_fewer_episodes_and_back(opened, how):
    one = opened()
    assert "episodes 1 to 600" in one.label()
    over = one.place.locator(".u-over").first
    over.scroll_into_view_if_needed()
    if how == "drag":
        box = over.bounding_box()
        one.tab.mouse.move(box["x"] + 0.25 * box["width"], box["y"] + 40)
        one.tab.mouse.down()
        one.tab.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 40, steps=4)
        one.tab.mouse.up()
        one.tab.wait_for_timeout(100)
    elif how == "key":
        one.place.locator(".chart").first.focus()
        one.tab.keyboard.press("+")
    else:
        one.place.get_by_role("button", name="Zoom in").click()
    assert "episodes 1 to 600" not in one.label()
    one.place.get_by_role("button", name="Show all").click()
    assert "episodes 1 to 600" in one.label()


@pytest.mark.parametrize(
    ("control", "value"),
    [("Vertical axis", "log"), ("Horizontal axis", "log"), ("Curve", "gap"), ("Curve", "weak_regret")],
)
def test_axes_and_metrics_change_the_picture(opened, control, value):
    one = opened()
    before = one.picture()
    one.place.get_by_label(control).select_option(value)
    assert one.picture() != before
    assert one.said == []


def test_single_seeds_can_be_seen(opened):
    one = opened()
    before = one.picture()
    one.place.get_by_label("Single seeds").check()
    assert one.picture() != before


def test_the_theme_changes_page_and_charts(opened):
    one = opened(color_scheme="light")
    background = "getComputedStyle(document.body).backgroundColor"
    before, colour = one.picture(), one.tab.evaluate(background)
    button = one.tab.locator("#theme")
    button.click()
    assert one.tab.evaluate(background) == colour
    button.click()
    assert button.inner_text() == "Theme: dark"
    assert one.tab.evaluate(background) != colour
    assert one.picture() != before


def test_the_reader_chooses_the_baseline(opened):
    one = opened()
    table = one.place.locator("table").last
    assert table.locator("tbody th").all_inner_texts() == ["Vanilla PD"]
    difference = table.locator("tbody td").first.inner_text()
    one.place.get_by_label("Baseline").select_option("Vanilla PD")
    assert table.locator("tbody th").all_inner_texts() == ["FlexDOME"]
    turned = table.locator("tbody td").first.inner_text()
    assert table.locator("tbody td").last.inner_text() == "too few runs"
    assert one.place.get_by_text("covers a median in 75 % of cases").count() == 1
    assert {difference.lstrip("\N{MINUS SIGN}")} == {turned.lstrip("\N{MINUS SIGN}")}
    assert difference != turned


def test_a_chart_has_its_numbers_behind_it(opened):
    one = opened()
    one.place.get_by_text("The numbers behind this chart").click()
    table = one.place.locator("details table").first
    assert table.locator("tbody tr").count() == 2
    assert table.locator("thead th").first.inner_text() == "Learner"


def test_every_constraint_of_several_can_be_looked_at_by_itself(opened):
    one = opened()
    odd = one.tab.locator("[data-experiment='0']")
    odd.get_by_label("Environment").select_option("band-v1")
    odd.get_by_label("Curve").select_option("sum_1")
    assert "constraint 1 on band-v1" in odd.locator(".chart").first.get_attribute("aria-label")
    assert one.said == []


def test_at_the_width_of_a_phone_every_point_has_its_name(opened):
    for size in (DESK, PHONE):
        one = opened(viewport=size)
        assert one.place.locator(".chart").nth(1).get_attribute("data-labels") == "2"


def test_a_table_that_goes_on_to_the_right_says_so(opened):
    for size, said in ((DESK, False), (PHONE, True)):
        one = opened(viewport=size)
        box = one.tab.locator("#experiment-1 .scroll[aria-label^='Mean over runs']")
        wide = box.evaluate("box => box.scrollWidth > box.clientWidth + 1")
        content = box.evaluate("box => getComputedStyle(box.previousElementSibling, '::after').content")
        assert wide is said
        assert ("scroll sideways" in content) is said


def test_the_legend_draws_the_dashes_of_the_curves(opened, page):
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text())[1])
    (told,) = (row for row in data["experiments"] if row["name"] == "plain")
    lines = opened().place.locator(".learners .swatch line")
    drawn = [lines.nth(k).get_attribute("stroke-dasharray") for k in range(lines.count())]
    assert drawn == [" ".join(f"{2 * d:g}" for d in learner["dashes"]) for learner in told["learners"]]


def test_it_prints(opened):
    assert opened(color_scheme="dark").tab.pdf().startswith(b"%PDF")


def test_a_store_with_its_page_inside_opens_the_same(opened, store, page, tmp_path):
    path = write_report(store, tmp_path / "again.html")
    assert path.read_bytes() == page.read_bytes()


@pytest.mark.slow
def test_a_live_page_loads_itself_again_when_a_run_has_finished(browser, store, tmp_path):
    (spec,) = (spec for spec in store.experiments() if spec.name == "plain")
    first, second, *_ = spec.runs()
    part = Store(tmp_path / "part")

    def finish(run):
        frame = store.read(run)
        part.finish(run, {name: frame[name].to_numpy() for name in frame.columns}, {})

    with part.writing(), ReportServer(part, rest=0.0) as server:
        part.remember(spec)
        finish(first)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        tab = browser.new_page()
        tab.goto(server.address)
        assert tab.get_by_text("5 of 6 runs are not there yet").count() == 1
        finish(second)
        tab.get_by_text("4 of 6 runs are not there yet").wait_for(timeout=20_000)
        tab.close()
        server.shutdown()
        thread.join(10.0)
