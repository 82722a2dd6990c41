"""What pyproject.toml cannot say: a part in C, and the README as an index page needs it.

METEOR's inner loop is built where there is a C compiler; without one the Python fallback gives the same numbers.

In the repository the README's links are relative, so that they hold in every clone. A page of a package index has no
files beside it: there they lead to the repository, whose address is `HOCA_REPOSITORY`, or that of the clone's `origin`.
"""

from __future__ import annotations

import os
import re
import subprocess
from email.parser import HeaderParser
from pathlib import Path

from setuptools import Extension, setup

HERE = Path(__file__).parent
LINK = re.compile(r"(!?)\[([^]]*)\]\((?!\w+:|#)([^)]+)\)")  # a picture or a link to a file of the repository


def repository() -> str | None:
    """Where the repository is published; a source archive remembers what the clone that it was made of knew."""
    asked = os.environ.get("HOCA_REPOSITORY") or _remembered() or _origin()
    return asked.removesuffix(".git").rstrip("/") if asked and asked.startswith("https://") else None


def _remembered() -> str | None:
    facts = HERE / "PKG-INFO"
    if not facts.is_file():
        return None
    urls = HeaderParser().parsestr(facts.read_text(encoding="utf-8")).get_all("Project-URL", [])
    return dict(url.split(", ", 1) for url in urls).get("Repository")


def _origin() -> str | None:
    try:
        command = ["git", "remote", "get-url", "origin"]
        return subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def readme(home: str | None) -> str:
    """The README; every relative link in it absolute, if it is known where to."""
    text = (HERE / "README.md").read_text(encoding="utf-8")
    if home is None:
        return text
    return LINK.sub(lambda m: f"{m[1]}[{m[2]}]({home}/{'raw' if m[1] else 'blob'}/HEAD/{m[3]})", text)


home = repository()
urls = {"Paper": "https://arxiv.org/abs/1911.00212"}
if home is not None:
    pages = {"Repository": "", "Documentation": "/tree/HEAD/docs", "Issues": "/issues"}
    urls |= {name: f"{home}{path}" for name, path in pages.items()}

setup(
    long_description=readme(home),
    long_description_content_type="text/markdown",
    project_urls=urls,
    ext_modules=[Extension("hoca.metrics._meteor", ["src/hoca/metrics/_meteor.c"], optional=True)],
)
