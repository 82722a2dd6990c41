"""A part of `make kills`: extraction and the fetching of assets are killed a few times, and nothing is lost."""

from __future__ import annotations

import csv
from pathlib import Path

from .scripts import start


def test_what_is_killed_goes_on(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("trial,kills,ends,problems,seconds\nray,3,1,0,9\n")
    trials = ("--trial", "extraction", "--trial", "assets")
    options = ("--share", 0.05, "--places", 2, "--out", tmp_path / "table.csv")
    assert "PROBLEM" not in start("kills", *trials, *options)
    with open(tmp_path / "table.csv", newline="") as file:
        rows = {row["trial"]: row for row in csv.DictReader(file)}
    assert {name: row["kills"] for name, row in rows.items()} == {"extraction": "2", "assets": "1", "ray": "3"}
    assert all(row["problems"] == "0" and int(row["ends"]) >= 1 for row in rows.values())
