"""The page in a real browser: what a visitor does, and what a visitor must not be able to do."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hoca

from ..browser import Visit
from ..explain.trained import clips
from ..media import making
from .conftest import MEGABYTES, Server

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FILE = "#video input[type=file]"


@pytest.fixture
def visit(browser: Browser, server: Server) -> Visit:
    opened = Visit(browser, server.address)
    opened.page.wait_for_selector(FILE, state="attached")
    return opened


def test_a_dropped_clip_gets_its_sentence_and_its_report(visit: Visit, server: Server, data: Path, run: Path) -> None:
    clip = clips(data, silent=False)[0]
    visit.page.set_input_files(FILE, clip)
    report = visit.page.frame_locator("iframe.report")
    words = report.locator(".word")
    words.first.wait_for()
    expected = hoca.load(run).caption(clip)
    assert words.all_inner_texts() == list(expected.words)
    assert report.locator(".sure").inner_text() == "unsure (12 %)"
    brightness = "cells => cells.map(cell => cell.style.getPropertyValue('--w'))"
    seen = []
    for number in (1, len(expected.words) - 1):
        words.nth(number).hover()
        assert report.locator(".shares em").inner_text() == expected.words[number]
        seen.append((report.locator(".value").all_inner_texts(), report.locator(".cell").evaluate_all(brightness)))
    assert seen[0] != seen[1]
    report.get_by_text("binary", exact=True).click()
    assert report.locator(".group").count() == 6
    assert "θ" in report.locator(".group").first.inner_text()
    assert visit.complaints == []
    assert visit.went_elsewhere(server.address) == []
    # The frame is as tall as the report in it.
    assert visit.page.locator("iframe.report").bounding_box()["height"] > 500


def test_an_example_fills_the_player_and_is_captioned_as_often_as_one_likes(visit: Visit, server: Server) -> None:
    report = visit.page.frame_locator("iframe.report")
    for _ in range(2):
        visit.page.locator("#examples img").first.click()
        report.locator(".word").first.wait_for()
        visit.page.wait_for_function("document.querySelector('#video video')?.readyState > 0")
    visit.page.get_by_label("number input for Beam").fill("2")
    visit.page.get_by_label("number input for Beam").blur()
    visit.page.get_by_role("button", name="Caption", exact=True).click()
    report.locator(".beam li:nth-child(3)").wait_for(state="detached")
    assert report.locator(".beam li").count() == 2
    assert visit.complaints == []
    assert str(server.folder) not in visit.page.content()


def test_the_caption_is_copied_and_the_report_downloaded(
    browser: Browser, server: Server, data: Path, tmp_path: Path
) -> None:
    visit = Visit(browser, server.address, permissions=["clipboard-read", "clipboard-write"])
    visit.page.set_input_files(FILE, clips(data, silent=False)[0])
    words = visit.page.frame_locator("iframe.report").locator(".word")
    words.first.wait_for()
    visit.page.get_by_role("button", name="Copy caption").click()
    visit.page.get_by_role("button", name="Copied").wait_for()
    caption = " ".join(words.all_inner_texts())
    assert visit.page.evaluate("navigator.clipboard.readText()") == caption
    with visit.page.expect_download() as got:
        visit.page.get_by_role("button", name="Download report").click()
    assert got.value.suggested_filename == clips(data, silent=False)[0].stem + ".html"
    got.value.save_as(tmp_path / "report.html")
    alone = Visit(browser, (tmp_path / "report.html").as_uri())
    assert " ".join(alone.page.locator(".word").all_inner_texts()) == caption
    assert alone.complaints == []


def test_the_calls_for_programs_name_the_address_that_was_visited(browser: Browser, server: Server) -> None:
    address = server.address.replace("127.0.0.1", "localhost")
    page = Visit(browser, address).page
    page.get_by_text("Call it from a program").click()
    page.locator("code", has_text=f'Client("{address}")').wait_for()
    calls = " ".join(page.locator("code").all_inner_texts())
    assert calls.count(address) == 4
    assert "7860" not in calls


def alerts(visit: Visit) -> list[str]:
    """Every message that is on the page, ours or Gradio's."""
    visit.page.wait_for_timeout(500)
    return visit.page.locator("[role=alert], .toast-body, #video .error").all_inner_texts()


def test_a_file_that_the_browser_cannot_play_is_captioned_all_the_same(visit: Visit, tmp_path: Path) -> None:
    making.video(tmp_path / "old.avi", "mpeg4", making.moving_square(16))
    visit.page.set_input_files(FILE, tmp_path / "old.avi")
    visit.page.frame_locator("iframe.report").locator(".word").first.wait_for()
    visit.page.get_by_text("This browser cannot play the file").wait_for()
    assert alerts(visit) == []


def test_a_file_that_is_too_large_is_refused_in_words_and_not_sent(visit: Visit, data: Path, tmp_path: Path) -> None:
    (tmp_path / "large.mp4").write_bytes(bytes(MEGABYTES * 10**6 + 200_000))
    visit.page.set_input_files(FILE, tmp_path / "large.mp4")
    visit.page.get_by_role("alert").wait_for()
    assert alerts(visit) == ["large.mp4 is too large (1.20 MB). Up to 1 MB and 5 s."]
    assert not [url for url in visit.requests if "/upload" in url]
    visit.page.set_input_files(FILE, clips(data, silent=False)[0])
    visit.page.frame_locator("iframe.report").locator(".word").first.wait_for()
    assert alerts(visit) == []


def test_another_beam_is_tried_without_another_upload(visit: Visit, data: Path) -> None:
    visit.page.set_input_files(FILE, clips(data, silent=True)[0])
    report = visit.page.frame_locator("iframe.report")
    report.locator(".word").first.wait_for()
    assert report.locator(".beam li").count() == 4  # as wide as the model was made to search
    visit.page.get_by_label("number input for Beam").fill("2")
    visit.page.get_by_label("number input for Beam").blur()
    visit.page.get_by_role("button", name="Caption", exact=True).click()
    visit.page.wait_for_function("document.querySelector('iframe.report')?.srcdoc.split('\"alternatives\":[[').length")
    report.locator(".beam li:nth-child(3)").wait_for(state="detached")
    assert report.locator(".beam li").count() == 2


def test_a_text_file_named_mp4_is_refused_in_one_clear_line(visit: Visit, server: Server, tmp_path: Path) -> None:
    fake = tmp_path / "<b>clip.mp4"
    fake.write_text("this is no video\n")
    visit.page.set_input_files(FILE, fake)
    problem = visit.page.get_by_role("alert").filter(has_text="is not a video that can be read")
    problem.wait_for()
    said = problem.inner_text()
    assert alerts(visit) == [said]
    assert "\n" not in said
    assert "clip.mp4" in said
    assert str(server.folder) not in visit.page.content()


def test_a_clip_that_is_too_long_is_refused(visit: Visit, data: Path, tmp_path: Path) -> None:
    import numpy as np

    from hoca import media

    media.write(tmp_path / "long.mp4", np.zeros((50, 32, 32, 3), np.uint8), fps=8)
    visit.page.set_input_files(FILE, tmp_path / "long.mp4")
    visit.page.get_by_role("alert").filter(has_text="longer than the limit of 5 s").wait_for()


def test_no_video_no_sentence(visit: Visit) -> None:
    visit.page.get_by_role("button", name="Caption", exact=True).click()
    visit.page.get_by_role("alert").filter(has_text="Choose a video first").wait_for()


def test_nothing_sticks_out_on_a_phone(browser: Browser, server: Server, data: Path, tmp_path: Path) -> None:
    page = Visit(browser, server.address, viewport={"width": 390, "height": 800}).page
    clip = Path(shutil.copy(clips(data, silent=False)[0], tmp_path / "phone.mp4"))
    page.set_input_files(FILE, clip)
    page.frame_locator("iframe.report").locator(".word").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_result_comes_into_view_on_a_phone(browser: Browser, server: Server, data: Path, tmp_path: Path) -> None:
    page = Visit(browser, server.address, viewport={"width": 390, "height": 800}).page
    in_view = "(e => e && e.getBoundingClientRect().top >= 0 && e.getBoundingClientRect().top < 400)"
    (tmp_path / "broken.mp4").write_text("no video")
    page.set_input_files(FILE, tmp_path / "broken.mp4")
    page.wait_for_function(f"{in_view}(document.querySelector('#result .problem'))")
    page.evaluate("scrollTo(0, 0)")
    page.get_by_label("Clear").click()
    page.set_input_files(FILE, clips(data, silent=False)[0])
    page.wait_for_function(f"{in_view}(document.querySelector('#result iframe.report'))")
