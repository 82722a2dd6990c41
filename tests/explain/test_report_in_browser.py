"""The report as people use it: with a mouse, with the keyboard, on a phone, in the dark."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hoca.explain import explain, write_report

from ..browser import Visit
from .samples import WORDS, explanation, said, tagged
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
    assert [each.inner_text() for each in shown[:2]] == ["sure 62 %", "unsure (14 %)"]
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


def test_alternatives_come_with_their_probabilities(browser: Browser, address: str) -> None:
    page = Visit(browser, address).page
    assert page.locator(".beam li").all_inner_texts()[1].split("\n")[-2:] == ["8.2 %", "a dog"]


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
