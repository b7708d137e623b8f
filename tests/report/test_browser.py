"""The report in real Chromium: drawn, pointed at, typed at, sorted, saved, on a phone, in the dark and on paper."""

import csv
import re
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import pytest

from isorep.comparison import Verdict
from isorep.comparison.worst_case import WorstRow

from ..waiting import until
from .examples import small_result, wide_result

HOSTILE = "<script>window.pwned=1</script>\"'><img src=x onerror=window.pwned=1>"
FORMULA = '=HYPERLINK("http://x","y")'


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Reports on disk: with every block, with a thousand dimensions, with few blocks, and with hostile names."""
    folder = tmp_path_factory.mktemp("pages")
    small = small_result()
    unexplained = Verdict(None, "a and b are not explained by any rung: chance gives 0.3.")
    bare = replace(
        small,
        forward=replace(small.forward, verdict=unexplained),
        worst_case=None,
        caveats=(),
        figures=replace(small.figures, dimensions=None),
    )
    scatter = replace(small.figures.scatter, rows=(HOSTILE,) * len(small.figures.scatter.rows))
    worst = replace(small.worst_case["rigid"], worst_rows=tuple(WorstRow(3, name, 0.1) for name in (FORMULA, HOSTILE)))
    hostile = replace(
        small,
        source=replace(small.source, name=HOSTILE),
        target=replace(small.target, name=HOSTILE),
        caveats=(HOSTILE,),
        figures=replace(small.figures, scatter=scatter),
        worst_case=small.worst_case | {"rigid": worst},
    )
    results = {"small": small, "wide": wide_result(), "bare": bare, "hostile": hostile}
    for name, result in results.items():
        result.to_html(folder / f"{name}.html")
    return {name: folder / f"{name}.html" for name in results}


@pytest.mark.parametrize("name", ["small", "wide", "bare", "hostile"])
def test_a_page_opens_without_console_errors_and_asks_the_network_for_nothing(browser, pages, name):
    browser.errors(), browser.requests()
    browser.open(pages[name])
    assert browser.errors() == []
    asked = browser.requests()
    assert pages[name].as_uri() in asked
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:", "about:"))] == []
    assert [url for url in asked if url.startswith("file:")] == [pages[name].as_uri()]


@pytest.mark.parametrize("name", ["small", "wide"])
@pytest.mark.parametrize("width", [1280, 360])
def test_every_figure_is_drawn_with_marks_axes_and_labels(browser, pages, name, width):
    browser.open(pages[name], width=width)
    drawn = browser.run("""
        const visible = (element) => element.getBoundingClientRect().width > 0;
        return [...document.querySelectorAll("figure")].map((figure) => {
            const svg = [...figure.querySelectorAll(".plot svg")].filter(visible);
            const marks = [...svg[0].querySelectorAll(".dot, .dots, .line, .cell, .whisker")];
            return {
                name: figure.id,
                drawings: svg.length,
                width: svg[0].getBoundingClientRect().width,
                height: svg[0].getBoundingClientRect().height,
                marks: marks.filter((mark) => mark.getBBox().width + mark.getBBox().height > 0).length,
                ticks: svg[0].querySelectorAll(".tick").length,
                titles: [...svg[0].querySelectorAll(".axis-title")].filter((title) => title.textContent).length,
            };
        });
    """)
    assert [figure["name"] for figure in drawn] == [
        "ladder-figure",
        "alignment-figure",
        "residuals-figure",
        "dimensions-figure",
        "matching-figure",
        "certificate-figure",
        "spectrum-figure",
    ]
    for figure in drawn:
        assert figure["drawings"] == 1, figure
        assert figure["width"] > 300, figure
        assert figure["height"] > 100, figure
        assert figure["marks"] > 0, figure
        assert figure["ticks"] >= 3, figure
        assert figure["titles"] >= 1, figure


def test_pointing_at_a_mark_shows_its_numbers_and_leaving_hides_them(browser, pages):
    from selenium.webdriver import ActionChains

    browser.open(pages["small"])
    figure = browser.find("#ladder-figure")
    tip = figure.find_element("css selector", ".tip")
    assert not tip.is_displayed()
    dot = figure.find_element("css selector", "svg.wide .accent .dot")
    browser.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", dot)
    ActionChains(browser.driver, duration=20).move_to_element(dot).perform()
    assert tip.is_displayed()
    held_out = small_result().rungs["rigid"].held_out.mean
    assert tip.text.startswith(f"rigid\nheld out {held_out:.4f} [")
    heading = browser.find("#ladder-figure-title")
    ActionChains(browser.driver, duration=20).move_to_element(heading).perform()
    assert not tip.is_displayed()


def test_the_pointer_finds_the_same_cell_on_a_phone(browser, pages):
    from selenium.webdriver import ActionChains

    browser.open(pages["small"], width=360)
    drawing = browser.find("#matching-figure svg.narrow")
    browser.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", drawing)
    ground = drawing.find_element("css selector", ".ground")
    ActionChains(browser.driver, duration=20).move_to_element_with_offset(
        ground, -ground.size["width"] // 2 + 4, -ground.size["height"] // 2 + 4
    ).perform()
    matching = small_result().figures.matching
    said = f"source dimension {matching.source_dims[0]}: {matching.correlations[0, 0]:.2f}".replace("-", "−")
    assert browser.find("#matching-figure .tip").text == f"target dimension {matching.target_dims[0]}\n{said}"


@pytest.mark.parametrize("figure", ["ladder-figure", "alignment-figure", "matching-figure", "dimensions-figure"])
def test_arrow_keys_move_between_marks_and_are_read_out(browser, pages, figure):
    from selenium.webdriver import ActionChains, Keys

    browser.open(pages["small"])
    plot = browser.find(f"#{figure} .plot")
    assert plot.get_attribute("tabindex") == "0"
    browser.run("arguments[0].focus()", plot)

    def press(key):
        ActionChains(browser.driver).send_keys(key).perform()
        return browser.run(f"return document.querySelector('#{figure} [aria-live=polite]').textContent")

    first = press(Keys.HOME)
    second = press(Keys.ARROW_RIGHT)
    below = press(Keys.ARROW_DOWN)
    assert len({first, second, below}) == 3
    assert press(Keys.ARROW_UP) == second
    assert press(Keys.ARROW_LEFT) == first
    assert press(Keys.ARROW_LEFT) == first
    tip = browser.find(f"#{figure} .tip")
    assert tip.text.replace("\n", ", ") == first
    assert browser.find(f"#{figure} .cursor.on").size["width"] > 0
    press(Keys.ESCAPE)
    assert not tip.is_displayed()


def test_a_figure_is_reached_by_tab_and_tells_its_name_and_its_content(browser, pages):
    from selenium.webdriver import ActionChains, Keys

    browser.open(pages["small"])
    seen = []
    for _ in range(40):
        ActionChains(browser.driver).send_keys(Keys.TAB).perform()
        seen.append(browser.run("return document.activeElement.closest('.plot')?.closest('figure').id"))
        if seen[-1] == "ladder-figure":
            break
    assert seen[-1] == "ladder-figure"
    plot = browser.driver.switch_to.active_element
    assert plot.accessible_name == "The ladder: held-out error of each rung"
    described = plot.get_attribute("aria-describedby").split()[0]
    assert "rigid: held out" in browser.run("return document.getElementById(arguments[0]).textContent", described)
    assert browser.find("#ladder-figure .tip").is_displayed()


def test_columns_sort_by_click_and_by_key(browser, pages):
    from selenium.webdriver import ActionChains, Keys

    browser.open(pages["small"])

    def column(place):
        rows = "[...document.querySelectorAll('[data-name=ladder] tbody tr')]"
        return browser.run(f"return {rows}.map((row) => row.cells[{place}].textContent)")

    names = column(0)
    heading = browser.find("[data-name=ladder] th:nth-child(2)")
    assert heading.get_attribute("aria-sort") is None
    button = heading.find_element("css selector", "button")
    button.click()
    assert heading.get_attribute("aria-sort") == "ascending"
    values = [float(text) for text in column(1)]
    assert values == sorted(values)
    ActionChains(browser.driver).send_keys(Keys.ENTER).perform()
    assert heading.get_attribute("aria-sort") == "descending"
    assert [float(text) for text in column(1)] == sorted(values, reverse=True)
    browser.find("[data-name=ladder] th:first-child button").click()
    assert heading.get_attribute("aria-sort") is None
    assert column(0) == sorted(names, key=str.lower)


def test_numbers_sort_by_value_and_missing_ones_stay_last(browser, pages, tmp_path):
    small = small_result()
    shares = zip(small.rungs.items(), (-0.2, 0.10001, 0.2, 0.1, None), strict=True)
    rungs = {name: replace(rung, explained=share) for (name, rung), share in shares}
    path = tmp_path / "missing.html"
    replace(small, forward=replace(small.forward, rungs=rungs)).to_html(path)
    browser.open(path)
    button = browser.find("[data-name=ladder] th:nth-child(6) button")
    orders = []
    for _ in range(2):
        button.click()
        rows = browser.find_all("[data-name=ladder] tbody tr th")
        orders.append([row.text for row in rows])
    rising = ["identity", "linear", "signed permutation", "rigid"]
    assert orders == [[*rising, "ICA"], [*rising[::-1], "ICA"]]


def saved(browser, name):
    path = Path(browser.downloads) / name
    until(lambda: path.exists() and path.stat().st_size)
    return path


def downloaded(browser, name):
    return list(csv.reader(saved(browser, name).read_text(encoding="utf-8").splitlines()))


def test_a_table_is_saved_as_csv_with_its_numbers(browser, pages):
    browser.open(pages["small"])
    browser.find("[data-name=ladder] .download").click()
    head, *rows = downloaded(browser, "ladder.csv")
    assert head == ["rung", "held-out error", "95% interval", "chance", "p", "R²", "in-sample", "diameters"]
    rungs = small_result().rungs
    assert [row[0] for row in rows] == ["identity", "signed permutation", "rigid", "linear", "ICA"]
    for row, rung in zip(rows, rungs.values(), strict=True):
        assert float(row[1]) == pytest.approx(rung.held_out.mean, rel=1e-5)
        assert row[2] == f"[{rung.interval.low:.3f}, {rung.interval.high:.3f}]"
        assert float(row[7]) == pytest.approx(rung.in_diameters.held_out.mean, rel=1e-5)
    assert browser.errors() == []


def test_a_saved_name_is_no_formula_and_a_hostile_one_no_script(browser, pages):
    browser.open(pages["hostile"])
    browser.find("[data-name=worst-rows-rigid] .download").click()
    rows = downloaded(browser, "worst-rows-rigid.csv")
    assert [row[0] for row in rows[1:]] == [f"'{FORMULA}", HOSTILE]
    assert browser.run("return window.pwned") is None
    assert browser.find(".notes li").text == HOSTILE
    assert browser.find_all("img") == []


def test_a_script_that_is_not_ours_cannot_run_and_nothing_can_be_fetched(browser, pages):
    browser.open(pages["small"])
    browser.run(
        "const s = document.createElement('script'); s.textContent = 'window.pwned = 1'; document.body.append(s)"
    )
    assert browser.run("return window.pwned") is None
    asked = "fetch('http://127.0.0.1:9/').then(() => 'reached', () => 'refused').then(arguments[0])"
    assert browser.driver.execute_async_script(asked) == "refused"
    assert any("Content Security Policy" in message for message in browser.errors())


@pytest.mark.parametrize("name", ["small", "wide", "bare", "hostile"])
def test_a_phone_shows_everything_without_sideways_scrolling(browser, pages, name):
    browser.open(pages[name], width=360)
    for details in browser.find_all("details"):
        browser.run("arguments[0].open = true", details)
    assert browser.run("return [innerWidth, document.documentElement.scrollWidth]") == [360, 360]
    smallest = browser.run("""
        return Math.min(...[...document.querySelectorAll(".plot svg text")].filter((t) => t.getClientRects().length)
            .map((t) => parseFloat(getComputedStyle(t).fontSize) * t.ownerSVGElement.getScreenCTM().a), 99)
    """)
    assert smallest >= 10
    outside = browser.run("""
        return [...document.querySelectorAll("main *")]
            .filter((e) => !e.closest(".scroll, pre, svg, .unseen") && e.getBoundingClientRect().right > 361)
            .map((e) => e.outerHTML.slice(0, 80))
    """)
    assert outside == []
    cut = browser.run("""
        return [...document.querySelectorAll(".plot svg text")].map((t) => [t.textContent, t.getBoundingClientRect()])
            .filter(([text, box]) => box.width && (box.left < 0 || box.right > 360)).map(([text]) => text)
    """)
    assert cut == []


def luminance(colour):
    channels = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, two):
    light, dark = sorted((luminance(one), luminance(two)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def colour(browser, selector, property_):
    return browser.run(f"return getComputedStyle(document.querySelector({selector!r})).{property_}")


def test_dark_mode_follows_the_system_and_the_button_overrides_it(browser, pages):
    browser.open(pages["small"])
    paper = colour(browser, "body", "backgroundColor")
    assert paper == "rgb(255, 255, 255)"
    browser.emulate(dark=True)
    assert luminance(colour(browser, "body", "backgroundColor")) < 0.02
    button = browser.find("#theme")
    browser.wait("return document.getElementById('theme').textContent === 'Light theme'")
    button.click()
    assert colour(browser, "body", "backgroundColor") == paper
    button.click()
    browser.emulate(dark=False)
    assert luminance(colour(browser, "body", "backgroundColor")) < 0.02


@pytest.mark.parametrize("dark", [False, True])
def test_words_and_marks_stand_out_in_both_schemes(browser, pages, dark):
    browser.open(pages["small"], dark=dark)
    paper = colour(browser, "body", "backgroundColor")
    for selector in ("h1", ".detail", ".caption", ".eyebrow", "summary", "figcaption p", "td"):
        assert contrast(colour(browser, selector, "color"), paper) >= 4.5, selector
    assert contrast(colour(browser, "svg .tick", "fill"), paper) >= 4.5
    for series in ("s0", "accent"):
        assert contrast(colour(browser, f"#ladder-figure .{series} .dot", "fill"), paper) >= 3, series


def test_paper_is_white_without_buttons_and_figures_are_not_cut(browser, pages):
    browser.open(pages["small"], dark=True)
    browser.emulate(dark=True, media="print")
    assert colour(browser, "body", "backgroundColor") == "rgb(255, 255, 255)"
    assert colour(browser, "body", "color") == "rgb(0, 0, 0)"
    assert [button.is_displayed() for button in browser.find_all("button.quiet")].count(True) == 0
    assert not browser.find("nav.side").is_displayed()
    assert colour(browser, "figure", "breakInside") == "avoid"
    assert colour(browser, "thead", "display") == "table-header-group"
    assert colour(browser, ".scroll", "overflow") == "visible"


def test_choosing_a_rung_moves_the_figures_below_by_pointer_button_and_key(browser, pages):
    from selenium.webdriver import ActionChains, Keys

    browser.open(pages["small"])
    errors = {name: rung.tolist() for name, rung in small_result().figures.scatter.errors.items()}

    def state():
        return browser.run("""
            const on = [...document.querySelectorAll("#residuals-figure .plot svg g.on")];
            return [document.querySelector("#ladder-figure svg.wide .hit.on").dataset.k, on.map((g) => g.dataset.k)[0],
                    document.querySelector(".rungs [aria-pressed=true]").dataset.k,
                    Number(document.querySelector("[data-name=worst-drawn] td").textContent),
                    document.querySelector("#alignment-figure .cloud-1 .dots").getAttribute("d")]
        """)

    rung, residuals, button, worst, places = state()
    assert (rung, residuals, button) == ("rigid",) * 3
    assert worst == pytest.approx(max(errors["rigid"]), abs=6e-4)
    hit = browser.find("#ladder-figure svg.wide .hit[data-k=identity]")
    browser.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", hit)
    ActionChains(browser.driver, duration=20).move_to_element(hit).click().perform()
    moved = state()
    assert moved[:3] == ["identity"] * 3
    assert moved[3] == pytest.approx(max(errors["identity"]), abs=6e-4)
    assert moved[4] != places
    browser.run("document.querySelector('.rungs [data-k=linear]').click()")
    assert state()[:3] == ["linear"] * 3
    browser.run("document.querySelector('#ladder-figure .plot').focus()")
    ActionChains(browser.driver).send_keys(Keys.HOME, Keys.ENTER).perform()
    chosen = state()[0]
    ActionChains(browser.driver).send_keys(Keys.ARROW_DOWN, Keys.ENTER).perform()
    assert state()[0] != chosen
    assert browser.errors() == []


def test_the_slider_moves_the_source_from_before_to_after(browser, pages):
    from selenium.webdriver import Keys

    browser.open(pages["small"])
    drawn = "return document.querySelector('#alignment-figure .cloud-1 .dots').getAttribute('d')"
    target = "return document.querySelector('#alignment-figure .cloud-0 .dots').getAttribute('d')"
    after, still = browser.run(drawn), browser.run(target)
    slider = browser.find("#alignment-figure input[type=range]")
    slider.send_keys(Keys.HOME)
    before = browser.run(drawn)
    slider.send_keys(Keys.ARROW_RIGHT)
    assert len({after, before, browser.run(drawn)}) == 3
    slider.send_keys(Keys.END)
    assert browser.run(drawn) == after
    assert browser.run(target) == still
    plane = small_result().figures.scatter

    def distances(text):
        points = [tuple(map(float, each.split())) for each in text.replace("h0", "").split("M")[1:]]
        there = [tuple(map(float, each.split())) for each in still.replace("h0", "").split("M")[1:]]
        return sum(((a - c) ** 2 + (b - d) ** 2) ** 0.5 for (a, b), (c, d) in zip(points, there, strict=True))

    assert distances(after) < distances(before)
    assert len(plane.rows) == 300


def test_selected_rows_have_an_outline_and_a_table_of_their_own(browser, pages):
    from selenium.webdriver import ActionChains, Keys

    browser.open(pages["small"])
    rows = "return [...document.querySelectorAll('[data-name=worst-drawn] tbody th')].map((cell) => cell.textContent)"
    outline = "return document.querySelector('#residuals-figure .brushed').getAttribute('d')"
    told = "return document.querySelector('#alignment-figure output').textContent"
    every = browser.run(rows)
    assert not browser.run(outline)
    drawing = browser.find("#alignment-figure .plot svg")
    browser.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", drawing)
    width, height = drawing.size["width"], drawing.size["height"]
    drag = ActionChains(browser.driver, duration=20)
    drag.move_to_element_with_offset(drawing, -width // 3, -height // 3).click_and_hold()
    drag.move_to_element_with_offset(drawing, width // 12, height // 12).release().perform()
    assert browser.run(outline)
    picked = int(browser.run(told).split("; ")[1].split()[0])
    assert 0 < picked < 300
    assert browser.run(rows) != every
    browser.find("#alignment-figure .clear").click()
    assert browser.run(rows) == every
    browser.run("document.querySelector('#alignment-figure .plot').focus()")
    ActionChains(browser.driver).send_keys(Keys.END, Keys.ENTER).perform()
    assert "25 of 300 rows selected" in browser.run(told)
    ActionChains(browser.driver).send_keys(Keys.ESCAPE).perform()
    assert browser.run(rows) == every
    assert browser.errors() == []


def test_every_figure_is_saved_as_svg_and_as_png_in_the_light_theme(browser, pages):
    from selenium.webdriver import ActionChains, Keys

    browser.open(pages["small"], dark=True)
    assert browser.run("""
        return [...document.querySelectorAll("figure")].every((figure) =>
            ["svg", "png"].every((kind) => figure.querySelector(`.export [data-as=${kind}]`).tabIndex === 0))
    """)
    button = browser.find("#ladder-figure [data-as=svg]")
    browser.run("arguments[0].focus()", button)
    ActionChains(browser.driver).send_keys(Keys.ENTER).perform()
    drawn = saved(browser, "ladder.svg").read_text(encoding="utf-8")
    root = ElementTree.fromstring(drawn)
    texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"The ladder: held-out error of each rung", "rigid", "95% interval"} <= set(texts)
    assert "class=" not in drawn
    assert "var(" not in drawn
    assert "rgb(21, 24, 30)" in drawn  # the ink of the light theme
    browser.run("document.querySelector('#matching-figure [data-as=png]').click()")
    picture = saved(browser, "matching.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert int.from_bytes(picture[16:20], "big") > 900
    assert browser.errors() == []


def test_a_phone_has_a_menu_to_jump_with(browser, pages):
    browser.open(pages["small"], width=390)
    assert not browser.find("nav.side").is_displayed()
    browser.find(".jump summary").click()
    browser.find(".jump a[href='#rank']").click()
    assert not browser.run("return document.querySelector('.jump').open")
    browser.wait("return Math.abs(document.getElementById('rank').getBoundingClientRect().top) < 200")


def test_examples_are_shown_where_the_pointer_is(browser, tmp_path):
    small = small_result()
    pixel = "data:image/jpeg;base64,/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAP=="
    texts = (HOSTILE, pixel) * 150
    scatter = replace(small.figures.scatter, examples=texts, classes=("a", "b", "b") * 100)
    path = tmp_path / "examples.html"
    replace(small, figures=replace(small.figures, scatter=scatter)).to_html(path)
    browser.open(path)
    browser.run("document.querySelector('#alignment-figure .plot').focus()")
    from selenium.webdriver import ActionChains, Keys

    ActionChains(browser.driver).send_keys(Keys.HOME).perform()
    assert browser.find("#alignment-figure .tip q").text == HOSTILE
    ActionChains(browser.driver).send_keys(Keys.ARROW_RIGHT).perform()
    assert browser.find("#alignment-figure .tip img").get_attribute("src") == pixel
    assert browser.run("return window.pwned") is None


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize(("name", "width"), [("small", 1280), ("small", 360), ("bare", 1280)])
def test_axe_finds_nothing_serious(browser, pages, name, width, dark):
    source = Path(find_spec("selenium_axe_python").origin).parent / "axe-core" / "axe.min.js"
    browser.open(pages[name], width=width, dark=dark)
    browser.find("details.folded:not(:has(tbody tr:nth-child(50)))").click()
    browser.run(source.read_text(encoding="utf-8"))
    found = browser.driver.execute_async_script("axe.run().then((r) => arguments[0](r.violations))")
    serious = [
        (rule["id"], rule["impact"], rule["help"], [node["html"][:120] for node in rule["nodes"][:3]])
        for rule in found
        if rule["impact"] in ("serious", "critical", "moderate")
    ]
    assert serious == []


def test_paper_shows_rows_before_and_after_alignment_and_the_screen_one_of_them(browser, pages):
    shown = """
        return [...document.querySelectorAll("#alignment-figure svg:not(.key)")]
            .filter((svg) => svg.getBoundingClientRect().width > 100)
            .map((svg) => svg.closest(".stills div")?.querySelector("p").textContent ?? "moves")
    """
    browser.open(pages["small"])
    assert browser.run(shown) == ["moves"]
    browser.open(pages["small"], width=794, media="print")
    assert browser.run(shown) == ["before", "after: rigid"]


@pytest.mark.parametrize("width", [1280, 390])
def test_the_title_of_the_ladders_axis_is_whole_at_every_width(browser, pages, width):
    browser.open(pages["small"], width=width)
    lines = browser.run("""
        return [...document.querySelectorAll("#ladder-figure .plot svg .axis-title")]
            .filter((text) => text.getBoundingClientRect().width > 0).map((text) => text.textContent)
    """)
    assert " ".join(lines) == "held-out error, mean distances of target.npy to its mean"
