"""The tables of README.md and docs/results.md, written between their markers from results/: no number is typed.

python benchmarks/readme_tables.py            # rewrite both
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

from hoca.files import replacing

ROOT = Path(__file__).resolve().parent.parent
PAGES = (ROOT / "README.md", ROOT / "docs" / "results.md")
COLUMNS = ("BLEU-4", "ROUGE-L", "METEOR", "CIDEr", "colour", "kind", "motion", "sound")
BLOCK = re.compile(r"(<!-- (from|all of) (results/\S+\.csv) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def table(rows: list[dict[str, str]]) -> str:
    """A Markdown table of `mean ± sd` over seeds, one line per variant."""
    shown = [name for name in COLUMNS if name in rows[0]]
    lines = [["model", *shown], ["---"] * (1 + len(shown))]
    lines += [[f"`{row['variant']}`", *(_cell(row, name) for name in shown)] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(row: dict[str, str], name: str) -> str:
    spread = row.get(f"{name} sd")
    return f"{float(row[name]):.1f}" + (f" ± {float(spread):.1f}" if spread else "")


def fill(text: str, root: Path) -> str:
    """The text with every marked block made anew from the file that its marker names.

    `from` shows the models by name, `all of` also the variants of a model (its ranks and ways of merging).
    """

    def block(found: re.Match[str]) -> str:
        source = root / found[3]
        if not source.is_file():
            return f"{found[1]}Not measured yet.\n{found[5]}"
        with open(source, newline="", encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if found[2] == "all of" or " " not in row["variant"]]
        return found[1] + table(rows) + found[5]

    return BLOCK.sub(block, text)


def main() -> None:
    for page in PAGES:
        text = fill(page.read_text(encoding="utf-8"), ROOT)
        with replacing(page) as temporary:
            temporary.write_text(text, encoding="utf-8")
        print(page)


if __name__ == "__main__":
    main()
