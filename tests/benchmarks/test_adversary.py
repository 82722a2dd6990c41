"""A part of `make adversary`: each ending of a hostile file is judged, and none breaks the rule."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from .scripts import FOLDER, start


def test_hostile_files_end_in_a_result_or_in_one_line(tmp_path: Path) -> None:
    assert "PROBLEM" not in start("adversary", "--every", 31, "--out", tmp_path / "table.csv")
    with open(tmp_path / "table.csv", newline="") as file:
        rows = {row["kind"]: row for row in csv.DictReader(file)}
    assert int(rows["all"]["cases"]) > 10
    assert {"media", "checkpoint", "data", "hdf5", "recipe"} <= set(rows)
    assert all(row["problems"] == "0" for row in rows.values())


def test_what_breaks_the_rule_is_named() -> None:
    sys.path.insert(0, str(FOLDER))
    try:
        from adversary import RESIDENT, judge
    finally:
        sys.path.remove(str(FOLDER))
    line = "hoca: a.mp4 is empty\n"
    assert judge(2, line, 1, 0) == judge(0, "", 1, 0) == ""
    assert "2 lines" in judge(2, "a warning\n" + line, 1, 0)
    assert "status 1" in judge(1, "Traceback (most recent call last)\nValueError: x\n", 1, 0)
    assert "status -11" in judge(-11, "", 1, 0)
    assert "MiB" in judge(2, line, 1, RESIDENT + 1)
    assert "longer than" in judge(-9, "", 120, 0)
    assert "characters" in judge(2, "hoca: \x1b[31m\n", 1, 0)
