"""What the site needs besides MkDocs: pages from notebooks, the help of every command, links that leave docs/.

The pages in docs/ are written for the repository, where a link may lead to any file. The site holds docs/ alone, so
a link to another file becomes its name, or a link to the repository if mkdocs.yml has a `repo_url`.
"""

from __future__ import annotations

import json
import logging
import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
ROOT_PAGES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s#]+)(#[^)\s]*)?\)")
GRAPH = re.compile(r"```mermaid\n(.*?)```", re.DOTALL)
MARK_IN_TABLE = re.compile(r"(?<=\|)\n<!-- .* -->\n(?=\|)")  # of a generated block; it would end the table
COMMANDS = "<!-- commands -->"
WIDTH = 80  # characters of the help that fit beside the navigation
log = logging.getLogger("mkdocs.hooks.hoca")  # --strict counts what a logger of `mkdocs` warns of


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not Markdown files in docs/."""
    for name, uri in ROOT_PAGES.items():
        files.append(File.generated(config, uri, content=(ROOT / name).read_text(encoding="utf-8")))
    for notebook in [file for file in files if file.src_uri.endswith(".ipynb")]:
        page = notebook.src_uri.removesuffix(".ipynb") + ".md"
        files.append(File.generated(config, page, content=notebook_page(Path(notebook.abs_src_path or ""))))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    if COMMANDS in markdown:
        markdown = markdown.replace(COMMANDS, commands())
    markdown = MARK_IN_TABLE.sub("\n", markdown)
    markdown = GRAPH.sub(lambda found: import_table(found[1]), markdown)
    return LINK.sub(lambda found: _link(found, page, config), markdown)


def notebook_page(path: Path) -> str:
    """A notebook as Markdown: its text as it is, its code in fences."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
    download = f"[Download this page as a notebook]({path.name}){{ download }}"
    return "\n\n".join([*parts[:1], download, *parts[1:]])


def import_table(graph: str) -> str:
    """The arrows of a Mermaid graph as a table: the site loads no script to draw them with."""
    allowed: dict[str, list[str]] = {}
    for package, imported in re.findall(r"(\w+) --> (\w+)", graph):
        allowed.setdefault(package, []).append(f"`{imported}`")
    rows = [f"| `{package}` | {', '.join(imported)} |" for package, imported in allowed.items()]
    return "\n".join(["| package | may import |", "|---|---|", *rows])


def commands() -> str:
    """The help of every command, as `hoca COMMAND --help` prints it."""
    from typer.main import get_command

    from hoca.cli import app

    return "\n\n".join(_help(get_command(app), "hoca"))


def _help(command, path: str) -> list[str]:  # type: ignore[no-untyped-def]  # typer keeps its click to itself
    nested = getattr(command, "commands", {})
    if nested:
        return [section for name, each in nested.items() for section in _help(each, f"{path} {name}")]
    with command.make_context(
        path, [], resilient_parsing=True, terminal_width=WIDTH, max_content_width=WIDTH
    ) as context:
        return [f"## {path}\n\n```text\n{command.get_help(context).strip()}\n```"]


def _link(found: re.Match[str], page: Page, config: MkDocsConfig) -> str:
    text, target, anchor = found[1], found[2], found[3] or ""
    if ":" in target or "{ download }" in found.string[found.end() : found.end() + 12]:
        return found[0]
    here = ROOT if page.file.src_uri in ROOT_PAGES.values() else (DOCS / page.file.src_uri).parent
    path = Path(os.path.normpath(here / target))
    if not path.exists():
        log.warning("%s links to %s, which does not exist", page.file.src_uri, target)
        return text
    if path.parent == ROOT and path.name in ROOT_PAGES:
        inside = ROOT_PAGES[path.name]
    elif path.is_relative_to(DOCS):
        inside = str(path.relative_to(DOCS)).replace(".ipynb", ".md")
    elif config.repo_url:
        return f"[{text}]({config.repo_url.rstrip('/')}/blob/main/{path.relative_to(ROOT)}{anchor})"
    else:
        return text if "`" in text else f"`{text}`" if re.fullmatch(r"[\w./-]+", text) else text
    return f"[{text}]({os.path.relpath(inside, Path(page.file.src_uri).parent)}{anchor})"
