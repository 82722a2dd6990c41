"""The report as people use it: with a mouse, with the keyboard, on a phone, in the dark."""

from __future__ import annotations

import html
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hoca
from hoca.captioning import SentenceScore, ViewCaption
from hoca.explain import FilmSegment, ModelCaption, explain, film_report, report, segment_content, write_report
from hoca.explain.report import write_page

from ..browser import Visit
from .samples import STEPS, WORDS, explanation, mapped, said, tagged
from .test_report import HOSTILE
from .trained import clips, silent_captioner

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(explanation(), path)
    return path.as_uri()


def lights(page: Page) -> list[list[str]]:
    """How bright every picture, window and stretch of sound is."""
    weight = "cells => cells.map(cell => cell.style.getPropertyValue('--w'))"
    opacity = "stops => stops.map(stop => stop.getAttribute('stop-opacity'))"
    return [
        page.eval_on_selector_all(".cell", weight),
        page.eval_on_selector_all(".windows i", weight),
        page.eval_on_selector_all(".sound stop", opacity),
    ]


def test_hovering_a_word_shows_its_bars_and_lights_its_moments(browser: Browser, address: str) -> None:
    visit = Visit(browser, address)
    words = visit.page.locator(".word")
    assert words.all_inner_texts() == list(WORDS)
    seen = []
    for word in (1, 2):
        words.nth(word).hover()
        assert visit.page.locator(".word[aria-pressed=true]").inner_text() == WORDS[word]
        assert visit.page.locator(".shares em").inner_text() == WORDS[word]
        seen.append((visit.page.locator(".shares .value").all_inner_texts(), lights(visit.page)))
    (bars, lit), (other_bars, otherwise_lit) = seen
    assert bars != other_bars
    assert [len(lane) for lane in lit] == [
        20,
        20,
        33,
    ]  # a stretch of sound from its beginning to its end, and the dark after the last
    assert all(one != two for one, two in zip(lit, otherwise_lit, strict=True))
    assert (visit.complaints, visit.went_elsewhere("file:")) == ([], [])


def test_choices_follow_the_word_and_what_was_found_is_listed(browser: Browser, tmp_path: Path) -> None:
    write_report(explanation(tagged()), tmp_path / "tagged.html")
    visit = Visit(browser, (tmp_path / "tagged.html").as_uri())
    page = visit.page
    assert page.locator(".shares h2").all_inner_texts()[1].startswith("Fusion chosen for ")
    seen = []
    for word in (1, 2):
        page.locator(".word").nth(word).hover()
        seen.append(page.locator(".shares").nth(1).locator(".value").all_inner_texts())
    assert seen[0] != seen[1]
    assert [len(values) for values in seen] == [4, 4]
    assert page.locator(".found h2").inner_text() == "Found in the video: tags"
    listed = [text.split() for text in page.locator(".found li").all_inner_texts()]
    assert listed == [["90", "%", "triangle"], ["75", "%", "whistle"], ["25", "%", "<b>dog</b>"]]
    assert (visit.complaints, visit.went_elsewhere("file:")) == ([], [])


@pytest.mark.parametrize("width", [320, 1120])
def test_matrices_are_grids_in_which_the_word_stands_out(browser: Browser, tmp_path: Path, width: int) -> None:
    write_report(explanation(mapped()), tmp_path / "mapped.html")
    visit = Visit(browser, (tmp_path / "mapped.html").as_uri(), viewport={"width": width, "height": 800})
    page = visit.page
    assert page.locator(".matrix h2").all_inner_texts() == [
        *("Words remembered", "Goals", "Steps chosen", "What tags did"),
    ]
    assert [each.locator("i").count() for each in page.locator(".matrix").all()] == [15 * 15, 15 * 15, 2 * 20, 15 * 2]
    page.locator(".word").nth(2).hover()
    for place in (0, 1, 3):
        assert page.locator(".matrix").nth(place).locator(".cells.current > span").all_inner_texts() == [WORDS[2]]
    goals = page.locator(".matrix").nth(1)
    assert goals.locator(".name.current").all_inner_texts() == [WORDS[2]]
    assert "triangle, 0.2 s to 0.4 s: " in page.locator(".matrix").nth(2).locator("i").nth(1).get_attribute("title")
    assert page.locator(".matrix").nth(3).locator("i.below").count() > 0
    assert "words remembered, most " in page.get_by_role("status").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert (visit.complaints, visit.went_elsewhere("file:")) == ([], [])


def test_a_switch_shows_each_order_and_theta(browser: Browser, address: str) -> None:
    page = Visit(browser, address).page
    assert page.locator(".orders span").all_inner_texts() == ["merged", "unary", "ternary"]
    merged = lights(page)[0]
    page.get_by_text("ternary", exact=True).click()
    assert lights(page)[0] != merged
    assert page.locator(".group").all_inner_texts()[0].split() == ["with", "motion", "and", "audio", "θ", "2.000"]
    page.get_by_text("merged", exact=True).click()
    assert page.locator(".group").count() == 0
    assert lights(page)[0] == merged


def test_the_keyboard_is_enough_and_is_answered_in_words(browser: Browser, address: str) -> None:
    page = Visit(browser, address).page
    for _ in range(3):
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "theme"
    page.keyboard.press("Tab")
    chosen = page.locator(".word[aria-pressed=true]")
    assert chosen.inner_text() == WORDS[0]
    page.keyboard.press("ArrowRight")
    assert chosen.inner_text() == WORDS[1]
    page.keyboard.press("End")
    assert chosen.inner_text() == WORDS[-1]
    said = page.get_by_role("status").inner_text()
    assert said.startswith(f"{WORDS[-1]}: image ")
    assert "motion" in said
    page.keyboard.press("Tab")
    assert page.locator(":focus").inner_text() == "Copy caption"
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert page.locator(".orders input:checked").get_attribute("value") == "1"
    assert page.get_by_role("group", name="attention").count() == 1
    assert page.get_by_role("region", name="What a-model said").count() == 1


@pytest.mark.parametrize("width", [320, 390, 768])
def test_nothing_sticks_out_of_a_narrow_screen(browser: Browser, address: str, width: int) -> None:
    page = Visit(browser, address, viewport={"width": width, "height": 800}).page
    page.get_by_text("ternary", exact=True).click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_dark_and_light(browser: Browser, address: str) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    colours = {}
    for scheme in ("light", "dark"):
        page = Visit(browser, address, color_scheme=scheme).page
        before = page.evaluate(ground)
        page.get_by_label("Switch between dark and light").click()
        colours[scheme] = (before, page.evaluate(ground))
    assert colours["light"] == colours["dark"][::-1]
    assert colours["light"][0] != colours["light"][1]


def test_two_models_stand_side_by_side(browser: Browser, tmp_path: Path) -> None:
    write_report(explanation(said(), replace(said(), model="other")), tmp_path / "two.html")
    page = Visit(browser, (tmp_path / "two.html").as_uri(), viewport={"width": 1500, "height": 900}).page
    first, second = (page.locator(".caption").nth(i).bounding_box() for i in (0, 1))
    assert first is not None
    assert second is not None
    assert first["y"] == second["y"]
    page.locator(".caption").nth(1).locator(".word").nth(3).hover()
    assert page.locator(".caption").nth(1).locator(".shares em").inner_text() == WORDS[3]


def test_how_sure_the_model_is_stands_beside_the_sentence(browser: Browser, tmp_path: Path) -> None:
    sure, unsure = replace(said(), confidence=0.618), replace(said(), confidence=0.14, unsure=True)
    write_report(explanation(sure, unsure, said()), tmp_path / "sure.html")
    page = Visit(browser, (tmp_path / "sure.html").as_uri(), viewport={"width": 390, "height": 800}).page
    shown = [caption.locator(".sentence .sure") for caption in page.locator(".caption").all()]
    assert [each.count() for each in shown] == [1, 1, 0]
    assert [each.inner_text() for each in shown[:2]] == ["confidence 62 %", "unsure (14 %)"]
    assert "how likely this sentence is" in (shown[0].get_attribute("title") or "")
    colours = [each.evaluate("element => getComputedStyle(element).color") for each in shown[:2]]
    assert colours[0] != colours[1]
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.fixture
def changing(tmp_path: Path) -> str:
    """The address of a report on pictures and the change between them, of which a step covers two."""
    caption = said(steps={"image": 20, "change": 19})
    image, change = caption.modalities
    spans = tuple((first[0], second[1]) for first, second in pairwise(image.spans))
    write_report(explanation(replace(caption, modalities=(image, replace(change, spans=spans)))), tmp_path / "c.html")
    return (tmp_path / "c.html").as_uri()


def test_change_is_named_in_words_and_drawn_without_overlap(browser: Browser, changing: str) -> None:
    page = Visit(browser, changing).page
    plain = "change between pictures"
    assert page.locator(".shares .name").all_inner_texts() == ["image", plain]
    assert page.locator(".lane .name").all_inner_texts() == ["image", plain]
    page.locator(".word").first.hover()
    assert plain in page.get_by_role("status").inner_text()
    windows = [window.bounding_box() for window in page.locator(".windows i").all()]
    assert len(windows) == 19
    for one, two in pairwise(windows):
        assert one is not None
        assert two is not None
        assert one["x"] + one["width"] == pytest.approx(two["x"], abs=1)
    assert page.locator(".windows i").nth(1).get_attribute("title").startswith("0.2 s to 0.6 s")
    page.get_by_text("binary", exact=True).click()
    assert page.locator(".group").first.inner_text().startswith(f"with {plain}")


@pytest.mark.parametrize("width", [320, 390, 768, 1120])
def test_long_names_leave_room_for_their_bars(browser: Browser, changing: str, width: int) -> None:
    page = Visit(browser, changing, viewport={"width": width, "height": 800}).page
    assert all(bar.bounding_box()["width"] >= 40 for bar in page.locator(".shares .bar").all())
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def weighed() -> ModelCaption:
    """A beam whose second sentence is likelier than the first, which the detected words chose."""
    scores = (SentenceScore(-0.61, 0.31), SentenceScore(-0.55, 0.02), SentenceScore(-1.2, 0.0))
    return replace(said(), alternatives=(("a dog", -2.5), ("a cat", -4.0)), scores=scores)


def test_the_beam_shows_the_score_that_decided_and_its_parts(browser: Browser, tmp_path: Path) -> None:
    write_report(explanation(weighed()), tmp_path / "weighed.html")
    page = Visit(browser, (tmp_path / "weighed.html").as_uri()).page
    shown = [row.locator(".value").all_inner_texts() for row in page.locator(".scored li").all()]
    assert shown == [["−0.30", "−0.61", "+0.31"], ["−0.53", "−0.55", "+0.02"], ["−1.20", "−1.20", "+0.00"]]
    assert page.locator(".scored .head .value").all_inner_texts() == ["score", "= log p", "+ detected"]
    bars = [bar.bounding_box()["width"] for bar in page.locator(".scored .bar i").all()]
    assert bars == sorted(bars, reverse=True)
    assert len(set(bars)) == 3
    columns = zip(
        *([value.bounding_box() for value in row.locator(".value").all()] for row in page.locator(".scored li").all()),
        strict=True,
    )
    for column in columns:  # numbers end below each other
        assert len({round(box["x"] + box["width"]) for box in column}) == 1


def test_what_each_view_says_is_listed(browser: Browser, tmp_path: Path) -> None:
    views = (ViewCaption(2, "a cat", -0.4), ViewCaption(1, "a dog", -0.9))
    write_report(explanation(replace(said(), views=views)), tmp_path / "views.html")
    page = Visit(browser, (tmp_path / "views.html").as_uri()).page
    listed = [text.split("\n")[-2:] for text in page.locator(".views li").all_inner_texts()]
    assert listed == [["−0.40", "view 2: a cat"], ["−0.90", "view 1: a dog"]]
    assert page.locator(".scored:not(.views) li").count() == 2


def test_without_detected_words_the_score_stands_alone(browser: Browser, address: str) -> None:
    page = Visit(browser, address).page
    assert page.locator(".scored li").all_inner_texts()[1].split("\n")[-2:] == ["−2.50", "a dog"]
    assert page.locator(".scored .head .value").all_inner_texts() == ["score"]


def test_attention_that_is_nearly_even_looks_even_and_is_called_so(browser: Browser, tmp_path: Path) -> None:
    caption = said()
    image, motion, audio = caption.modalities
    even = tuple(0.046 + 0.019 * (step == 7) for step in range(20))
    focused = (0.81, *[0.01] * 19)
    rest = (even,) * (len(WORDS) - 2)
    write_report(explanation(replace(caption, modalities=(
        replace(image, weights=(even, even, *rest)), replace(motion, weights=(even, focused, *rest)), audio
    ))), tmp_path / "even.html")  # fmt: skip
    page = Visit(browser, (tmp_path / "even.html").as_uri()).page
    page.locator(".word").first.hover()
    ranges = page.locator(".lane .range").all_inner_texts()
    assert ranges[0] == ranges[1] == "α 0.046 to 0.065, even 0.050 nearly even"
    heights = [float(cell) for cell in lights(page)[0]]
    assert max(heights) - min(heights) < 0.15  # of the lane's height: an absolute scale
    assert page.locator(".cell.top").count() == 0
    assert "nearly evenly" in page.locator("figcaption").inner_text()
    assert "nearly even, most at" in page.get_by_role("status").inner_text()
    page.locator(".word").nth(1).hover()
    assert page.locator(".lane .range").all_inner_texts()[1] == "α 0.010 to 0.810, even 0.050"
    bars = [float(bar) for bar in lights(page)[1]]
    assert bars[0] == 1
    assert max(bars[1:]) < 0.05
    line = page.locator(".windows").first.evaluate("e => getComputedStyle(e, '::after').bottom")
    height = page.locator(".windows").first.bounding_box()["height"]
    assert float(line.removesuffix("px")) == pytest.approx(height * 0.05 / 0.81, abs=1)  # where an even share ends


def test_sound_alone_has_no_empty_frame_and_its_own_colour(browser: Browser, tmp_path: Path) -> None:
    colours = []
    for name, steps, pictures in (("both", STEPS, True), ("alone", {"audio": 16}, False)):
        shown = explanation(said(steps=steps), video="song.mp3")
        if not pictures:
            shown = replace(shown, preview=replace(shown.preview, thumbnails=()))
        write_report(shown, tmp_path / f"{name}.html")
        visit = Visit(browser, (tmp_path / f"{name}.html").as_uri())
        names = visit.page.locator(".lane .name", has_text="audio")
        colours.append(names.evaluate("element => getComputedStyle(element).color"))
        assert visit.page.locator("figure, .film").count() == 2 * pictures
        assert visit.complaints == []
    assert colours[0] == colours[1]
    assert visit.page.locator(".clip").inner_text() == "song.mp3 4.0 s, sound alone"


def test_the_caption_is_copied_and_report_and_data_are_saved(browser: Browser, address: str, tmp_path: Path) -> None:
    visit = Visit(browser, address)
    page = visit.page
    page.get_by_text("Copy caption").click()
    page.get_by_text("Copied").wait_for()
    page.evaluate("document.body.append(Object.assign(document.createElement('textarea'), {id: 'pasted'}))")
    page.locator("#pasted").focus()
    page.keyboard.press("Control+V")
    assert page.locator("#pasted").input_value() == " ".join(WORDS)
    saved = {}
    for name in ("Download report", "Download data"):
        with page.expect_download() as waiting:
            page.get_by_text(name).click()
        saved[waiting.value.suggested_filename] = tmp_path / waiting.value.suggested_filename
        waiting.value.save_as(saved[waiting.value.suggested_filename])
    assert list(saved) == ["clip-report.html", "clip-report.json"]
    assert json.loads(saved["clip-report.json"].read_text())["captions"][0]["text"] == " ".join(WORDS)
    again = Visit(browser, saved["clip-report.html"].as_uri())
    assert again.page.locator(".word").all_inner_texts() == list(WORDS)
    assert (visit.complaints, again.complaints) == ([], [])


def test_a_report_in_a_frame_without_rights_offers_no_buttons_that_fail(browser: Browser, tmp_path: Path) -> None:
    frame = f'<iframe sandbox="allow-scripts" srcdoc="{html.escape(report(explanation()))}"></iframe>'
    (tmp_path / "page.html").write_text(frame, encoding="utf-8")
    inner = Visit(browser, (tmp_path / "page.html").as_uri()).page.frame_locator("iframe")
    inner.locator(".word").first.wait_for()
    assert inner.locator(".action").count() == 0


def test_hostile_words_are_shown_as_they_are(browser: Browser, tmp_path: Path) -> None:
    hostile = replace(said(("a", HOSTILE)), model=HOSTILE, absent={"depth": HOSTILE})
    write_report(explanation(hostile, video=HOSTILE), tmp_path / "hostile.html")
    visit = Visit(browser, (tmp_path / "hostile.html").as_uri())
    assert visit.page.locator(".word").nth(1).inner_text() == HOSTILE
    assert visit.page.locator("img[src=x]").count() == 0
    assert (visit.complaints, visit.went_elsewhere("file:")) == ([], [])


def test_a_model_without_groups_has_bars_and_moments_and_no_switch(
    browser: Browser, data: Path, soft: Path, tmp_path: Path
) -> None:
    explained = explain(clips(data, silent=False)[0], soft)
    write_report(explained, tmp_path / "soft.html")
    visit = Visit(browser, (tmp_path / "soft.html").as_uri())
    said_words = explained.captions[0].words
    words = visit.page.locator(".word")
    assert words.all_inner_texts() == list(said_words)
    seen = []
    for number in (0, len(said_words) - 1):
        words.nth(number).hover()
        assert visit.page.locator(".shares em").inner_text() == said_words[number]
        seen.append(lights(visit.page))
    assert [len(lane) for lane in seen[0]] == [8, 20, 33]  # of eight frames
    assert seen[0] != seen[1]
    assert visit.page.locator(".orders").count() == 0
    assert (visit.complaints, visit.went_elsewhere("file:")) == ([], [])


def test_a_model_that_explains_nothing_stands_beside_one_that_does(
    browser: Browser, data: Path, run: Path, tmp_path: Path
) -> None:
    silent = silent_captioner(run)
    explained = explain(clips(data, silent=False)[0], silent, compare=[run])
    write_report(explained, tmp_path / "silent.html")
    visit = Visit(browser, (tmp_path / "silent.html").as_uri())
    mute, other = visit.page.locator(".caption").all()
    assert mute.locator(".word").all_inner_texts() == list(explained.captions[0].words)
    mute.locator(".word").nth(2).hover()
    assert mute.locator(".word").nth(2).get_attribute("aria-pressed") == "true"
    assert visit.page.get_by_role("status").inner_text() == explained.captions[0].words[2]
    assert [mute.locator(part).count() for part in (".cell", ".shares", ".orders", ".beam li")] == [8, 0, 0, 2]
    assert [other.locator(part).count() for part in (".cell", ".shares", ".orders")] == [8, 1, 1]
    assert (visit.complaints, visit.went_elsewhere("file:")) == ([], [])


def test_a_notebook_shows_the_report_of_a_caption(browser: Browser, data: Path, run: Path, tmp_path: Path) -> None:
    with hoca.load(run) as captioner:
        caption = captioner.caption(clips(data, silent=False)[0])
    cell = tmp_path / "cell.html"
    cell.write_text(f"<!doctype html><meta charset=utf-8><p>Out[1]:</p>{caption._repr_html_()}", encoding="utf-8")
    visit = Visit(browser, cell.as_uri())
    frame = visit.page.frame_locator("iframe")
    assert frame.locator(".word").all_inner_texts() == list(caption.words)
    frame.locator(".word").first.hover()
    assert frame.locator(".shares em").inner_text() == caption.words[0]
    assert frame.locator(".cell img").first.is_visible()
    assert (visit.complaints, visit.went_elsewhere("file:")) == ([], [])


class TestFilm:
    """The report of a film: segments to choose from, each shown as a clip is."""

    @pytest.fixture(scope="class")
    def address(self, tmp_path_factory: pytest.TempPathFactory) -> str:
        path = tmp_path_factory.mktemp("film") / "report.html"
        sentences = [("a", "dog"), ("two", "<b>men</b>", "talking"), ("a", "car")]
        spans = [(2040.0, 2050.0), (2050.0, 2060.0), (2060.0, 3725.0)]
        segments = [
            FilmSegment(*span, (span[0], span[0] + 10), " ".join(words), segment_content(explanation(said(words))))
            for words, span in zip(sentences, spans, strict=True)
        ]
        write_page(film_report("film.mp4", segments), path)
        return path.as_uri()

    def test_a_click_on_the_timeline_or_the_list_shows_a_segment(self, browser: Browser, address: str) -> None:
        page = (visit := Visit(browser, address)).page
        entries = page.locator(".transcript button")
        assert entries.locator("time").all_inner_texts() == ["34:00–34:10", "34:10–34:20", "34:20–1:02:05"]
        assert page.locator(".word").all_inner_texts() == ["a", "dog"]
        entries.nth(1).click()
        assert page.locator(".word").all_inner_texts() == ["two", "<b>men</b>", "talking"]
        assert page.locator(".transcript [aria-current] time").inner_text() == "34:10–34:20"
        assert "at 34:1" in page.locator("figcaption").inner_text()  # a time of the film
        page.locator(".strip i").nth(2).click()
        assert page.locator(".word").all_inner_texts() == ["a", "car"]
        assert page.locator(".strip .chosen").count() == 1
        page.locator(".word").nth(1).hover()
        assert page.locator(".shares em").inner_text() == "car"
        assert (visit.complaints, visit.went_elsewhere("file:")) == ([], [])

    def test_the_keyboard_walks_through_the_segments(self, browser: Browser, address: str) -> None:
        page = Visit(browser, address).page
        page.locator(".transcript button").first.focus()
        for key, words in (
            ("ArrowDown", ["two", "<b>men</b>", "talking"]),
            ("End", ["a", "car"]),
            ("Home", ["a", "dog"]),
        ):
            page.keyboard.press(key)
            assert page.locator(".word").all_inner_texts() == words

    def test_a_phone_shows_it_without_scrolling_sideways(self, browser: Browser, address: str) -> None:
        page = Visit(browser, address, viewport={"width": 360, "height": 700}).page
        assert page.evaluate("document.documentElement.scrollWidth") <= 360

    def test_without_scripts_the_sentences_can_be_read(self, browser: Browser, address: str) -> None:
        page = Visit(browser, address, java_script_enabled=False).page
        assert page.locator("main li").all_inner_texts()[1] == "34:10–34:20 two <b>men</b> talking"
