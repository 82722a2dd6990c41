"""Pictures of the report and of the page, as Chromium shows them.

python benchmarks/screenshots.py [CLIP] [--model MODEL] [--compare MODEL] [--word WORD] [--out docs]

Writes docs/report.png (the report of the clip) and docs/serve.png (the page after the clip was dropped on it). Needs
Chromium and the extras `web` and `dev`.
"""

from __future__ import annotations

import argparse
import io
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from hoca.explain import explain, write_report
from hoca.files import replacing
from hoca.web.serve import ServeSettings, running

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parent.parent
LARGEST = 400_000  # bytes of a picture
SETTLED = 600  # milliseconds after which the page no longer moves


def report_picture(browser: Browser, report: Path, word: str | None, out: Path) -> None:
    page = browser.new_page(viewport={"width": 1120, "height": 700}, device_scale_factor=1.5, color_scheme="light")
    page.goto(report.resolve().as_uri())
    if word:
        page.get_by_role("button", name=word, exact=True).first.hover()
    page.wait_for_timeout(SETTLED)
    save(page, out)


def page_picture(browser: Browser, address: str, clip: Path, out: Path) -> None:
    page = browser.new_page(viewport={"width": 1360, "height": 900}, color_scheme="dark")
    page.goto(address)
    page.wait_for_selector("#video input[type=file]", state="attached")
    page.set_input_files("#video input[type=file]", clip)
    page.frame_locator("iframe.report").locator(".word").first.wait_for(timeout=180_000)
    page.wait_for_timeout(SETTLED)
    height = page.evaluate("document.documentElement.scrollHeight")
    page.set_viewport_size({"width": 1360, "height": height})  # a frame below the fold is left blank otherwise
    page.wait_for_timeout(2 * SETTLED)
    save(page, out)


def save(page: Page, out: Path) -> None:
    """The whole page as a PNG, with fewer colours if it would be too large a file."""
    from PIL import Image

    taken = page.screenshot(full_page=True)
    if len(taken) > LARGEST:
        buffer = io.BytesIO()
        picture = Image.open(io.BytesIO(taken)).convert("RGB")
        picture.quantize(256, dither=Image.Dither.FLOYDSTEINBERG).save(buffer, "PNG", optimize=True)
        taken = buffer.getvalue()
    with replacing(out) as temporary:
        temporary.write_bytes(taken)
    print(f"{out}: {len(taken) // 1000} kB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clip", type=Path, nargs="?", help="the demo's clip by default")
    parser.add_argument("--model", default="default")
    parser.add_argument("--compare", action="append", default=[])
    parser.add_argument("--word", help="the word that is pointed at")
    parser.add_argument("--out", type=Path, default=ROOT / "docs")
    options = parser.parse_args()
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        sys.exit("screenshots need Chromium: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    from hoca import assets

    clip, out = (options.clip or assets.path("demo-bunny")).resolve(), options.out.resolve()
    with tempfile.TemporaryDirectory() as folder:
        named = Path(shutil.copy(clip, Path(folder) / (clip.name if options.clip else "bunny.mp4")))
        write_report(explain(named, options.model, compare=options.compare), Path(folder) / "report.html")
        with running(ServeSettings(models=(options.model,), port=0)) as address, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
            report_picture(browser, Path(folder) / "report.html", options.word, out / "report.png")
            page_picture(browser, address, named, out / "serve.png")
            browser.close()


if __name__ == "__main__":
    main()
