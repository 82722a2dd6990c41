"""The documentation site builds strictly, holds every page, and needs nothing from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from hoca.cli import app

from ..browser import Visit, chromium
from ..conftest import ROOT

DOCS = ROOT / "docs"


def build(site: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site), *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as `make site` does: a broken link, a page outside the navigation or an unknown name in the API fails."""
    pytest.importorskip("mkdocs", reason="needs the extra [docs]")
    folder = tmp_path_factory.mktemp("site")
    done = build(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def text_of(page: Path) -> str:
    return unescape(re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")))


def test_a_broken_link_fails(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# Start\n\n[gone](../gone.py)\n")
    small = {"docs_dir": "docs", "nav": ["index.md"], "plugins": [], "watch": []}
    whole = {"INHERIT": str(ROOT / "mkdocs.yml"), "hooks": [str(DOCS / "site" / "hooks.py")], **small}
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump(whole))
    done = build(tmp_path / "site", "--config-file", str(tmp_path / "mkdocs.yml"))
    assert done.returncode != 0
    assert "index.md links to ../gone.py, which does not exist" in done.stdout + done.stderr


def test_every_page_and_notebook_is_there(site: Path) -> None:
    sources = [*DOCS.glob("*.md"), *DOCS.glob("tutorials/*.ipynb")]
    wanted = {source.relative_to(DOCS).with_suffix(".html") for source in sources}
    assert wanted | {Path("changelog.html"), Path("contributing.html")} <= {
        page.relative_to(site) for page in site.rglob("*.html")
    }
    assert all((site / notebook.relative_to(DOCS)).is_file() for notebook in DOCS.glob("tutorials/*.ipynb"))


def test_the_start_page_shows_pictures(site: Path) -> None:
    pictures = re.findall(r'<img alt="[^"]+" src="([^"]+)"', (site / "index.html").read_text(encoding="utf-8"))
    assert len(pictures) >= 3
    assert all((site / picture).is_file() for picture in pictures)


def test_the_command_page_has_every_command(site: Path) -> None:
    page = text_of(site / "cli.html")
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        for nested in getattr(command, "commands", {"": command}):
            assert f"Usage: hoca {name} {nested}".strip() in page


def test_the_api_page_explains_functions_and_fields(site: Path) -> None:
    page = text_of(site / "api.html")
    assert "The sentence that the model finds for a video file." in page
    assert "the other sentences of the beam with their log-probabilities" in page  # a comment beside a field
    assert "queries[i] [B, L, D]" in page  # a shape, not a link
    assert "log p(sentence, <eos> included)" in page  # a word, not a tag


def test_tables_are_tables(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert not re.findall(r"^ *\| .*\|$", text_of(page), re.MULTILINE), f"{page.name} shows the source of a table"


def test_links_to_the_source_are_names_where_there_is_no_repository(site: Path) -> None:
    for page in site.rglob("*.html"):
        for target in re.findall(r'href="(?!/|https?:|mailto:)([^"#]+)', page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_a_browser_asks_nobody_else_and_finds_pages_without_a_server(site: Path) -> None:
    with chromium() as browser:
        visit = Visit(browser, (site / "tutorials" / "fine-tune.html").as_uri())
        visit.page.click(".md-search__input")
        visit.page.keyboard.type("length penalty")
        visit.page.wait_for_selector(".md-search-result__item")
        assert visit.went_elsewhere("file:") == []
        assert visit.complaints == []
        phone = Visit(browser, (site / "results.html").as_uri(), viewport={"width": 390, "height": 844})
        assert phone.page.evaluate("document.documentElement.scrollWidth") <= 390


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(r'<(?:script|img|link|iframe)[^>]+(?:src|href)="([^"]+)"', page.read_text(encoding="utf-8"))
        assert not [address for address in loaded if address.startswith(("http:", "https:", "//"))]
