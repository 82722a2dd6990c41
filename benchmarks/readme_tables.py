"""The README's tables, written between their markers from results/: no number in them is typed.

python benchmarks/readme_tables.py            # rewrite README.md
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

from hoca.files import replacing

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
COLUMNS = ("BLEU-4", "ROUGE-L", "METEOR", "CIDEr", "colour", "kind", "motion", "sound")
BLOCK = re.compile(r"(<!-- from (results/\S+\.csv) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def table(rows: list[dict[str, str]]) -> str:
    """A Markdown table of `mean ± sd` over seeds, one line per model; its rank and merge studies are left out."""
    shown = [name for name in COLUMNS if name in rows[0]]
    lines = [["model", *shown], ["---"] * (1 + len(shown))]
    lines += [
        [f"`{row['variant']}`", *(_cell(row, name) for name in shown)] for row in rows if " " not in row["variant"]
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(row: dict[str, str], name: str) -> str:
    spread = row.get(f"{name} sd")
    return f"{float(row[name]):.1f}" + (f" ± {float(spread):.1f}" if spread else "")


def fill(text: str, root: Path) -> str:
    """The text with every marked block made anew from the file that its marker names."""

    def block(found: re.Match[str]) -> str:
        source = root / found[2]
        if not source.is_file():
            return f"{found[1]}Not measured yet.\n{found[4]}"
        with open(source, newline="", encoding="utf-8") as file:
            return found[1] + table(list(csv.DictReader(file))) + found[4]

    return BLOCK.sub(block, text)


def main() -> None:
    text = fill(README.read_text(encoding="utf-8"), ROOT)
    with replacing(README) as temporary:
        temporary.write_text(text, encoding="utf-8")
    print(README)


if __name__ == "__main__":
    main()
