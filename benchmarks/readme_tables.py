"""The tables of the pages of results, written between their markers from results/: no number is typed.

python benchmarks/readme_tables.py            # rewrite all of them
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

from hoca.files import replacing

ROOT = Path(__file__).resolve().parent.parent
PAGES = tuple(ROOT / page for page in ("docs/results.md", "docs/mixed.md", "docs/reliability.md"))
COLUMNS = ("BLEU-4", "ROUGE-L", "METEOR", "CIDEr", "nats", "colour", "kind", "motion", "sound", "all")
BLOCK = re.compile(r"(<!-- (from|all of|rows of|facts of) (results/\S+\.csv) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
FIGURE = re.compile(r"(<!-- figure docs/(\S+): (.+?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
MISSING = "Not measured yet.\n"


def table(rows: list[dict[str, str]]) -> str:
    """A Markdown table, one line per variant: means ± half their 95 % interval where there is one, else ± sd."""
    shown = [name for name in COLUMNS if name in rows[0]]
    lines = [["model", *shown], ["---"] * (1 + len(shown))]
    lines += [[f"`{row['variant']}`", *(cell(row, name) for name in shown)] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def as_it_is(rows: list[dict[str, str]]) -> str:
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def turned(rows: list[dict[str, str]]) -> str:
    """A file of one row, a line for each of its columns."""
    (row,) = rows
    return as_it_is([{"what": name, "measured": value} for name, value in row.items()])


def cell(row: dict[str, str], name: str) -> str:
    """A value with its spread; empty where it was not measured."""
    spread = row.get(f"{name} ci") or row.get(f"{name} sd")
    if not row[name]:
        return ""
    digits = 3 if name.endswith("nats") else 1
    return f"{float(row[name]):.{digits}f}" + (f" ± {float(spread):.{digits}f}" if spread else "")


def fill(text: str, root: Path) -> str:
    """The text with every marked block made anew from the file that its marker names.

    `from` shows the models by name, `all of` also the variants of a model (its ranks and ways of merging), `rows of`
    the file as it is, `facts of` a file of one row with a line for each column. A figure is shown once it is drawn.
    """

    def block(found: re.Match[str]) -> str:
        source = root / found[3]
        if not source.is_file():
            return found[1] + MISSING + found[5]
        with open(source, newline="", encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if found[2] != "from" or " " not in row["variant"]]
        show = {"rows of": as_it_is, "facts of": turned}.get(found[2], table)
        return found[1] + show(rows) + found[5]

    def figure(found: re.Match[str]) -> str:
        drawn = (root / "docs" / found[2]).is_file()
        return found[1] + (f"![{found[3]}]({found[2]})\n" if drawn else MISSING) + found[5]

    return FIGURE.sub(figure, BLOCK.sub(block, text))


def main() -> None:
    for page in filter(Path.is_file, PAGES):
        text = fill(page.read_text(encoding="utf-8"), ROOT)
        with replacing(page) as temporary:
            temporary.write_text(text, encoding="utf-8")
        print(page)


if __name__ == "__main__":
    main()
