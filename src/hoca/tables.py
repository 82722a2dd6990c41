"""CSV tables as spreadsheets write them: a header, then a row a line, found by the names of its columns."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import NoReturn

from hoca.errors import UserError

SEPARATORS = ",;\t"  # a spreadsheet takes the second where the comma is for decimals
LONGEST = 1 << 17  # characters of a cell, as the csv module has it


def is_table(path: Path) -> bool:
    """Whether a file's name says that it is CSV."""
    return Path(path).suffix.lower() == ".csv"


def _stop(line: str) -> NoReturn:
    raise UserError(line)


def read_table(
    path: Path, text: str, *needed: Collection[str], on_wrong: Callable[[str], None] = _stop
) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a table with their line numbers: column → cell, without outer spaces; rows of empty cells left out.

    needed: for each column that there must be, the names it may have; the first one is told where it is missing.
    on_wrong: is told of a row that does not fit the header; if it returns, the row is left out.
    """
    header, separator = _header(path, text, needed)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        filled = (cells for cells in rows if any(cell.strip() for cell in cells))
        next(filled)  # the header
        for cells in filled:
            if len(cells) > len(header):
                on_wrong(
                    f"{path}, line {rows.line_num}: {len(cells)} cells, the header names {len(header)} columns: put a "
                    "caption that has a comma into double quotes"
                )
                continue
            yield rows.line_num, dict(zip(header, (cell.strip() for cell in cells), strict=False))
    except csv.Error as error:
        raise UserError(f"{path}, line {rows.line_num} is not CSV ({error}): fix its quotes") from None


def _header(path: Path, text: str, needed: Collection[Collection[str]]) -> tuple[list[str], str]:
    """The names of the columns, and what separates them."""
    first = text.lstrip("\r\n").partition("\n")[0][:LONGEST]
    for separator in SEPARATORS:
        names = [name.strip().strip('"').lower() for name in first.strip().split(separator)]
        if all(any(name in names for name in known) for known in needed):
            return names, separator
    wanted = ",".join(next(iter(known)) for known in needed)
    raise UserError(f"{path}, line 1: no header with the columns {wanted}: write it as the first line")
