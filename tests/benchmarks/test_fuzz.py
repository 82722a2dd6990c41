"""The fuzz run goes to its end on a few files, without the research data, and counts each of them."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "fuzz.py"


def test_every_damaged_file_is_counted(tmp_path: Path) -> None:
    command = f"--files 45 --workers 1 --data {tmp_path} --keep {tmp_path / 'keep'} --out {tmp_path / 'fuzz.csv'}"
    done = subprocess.run([sys.executable, str(SCRIPT), *command.split()], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
    assert "0 problems" in done.stdout
    with (tmp_path / "fuzz.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    outcomes = ("decoded", "with damage", "refused", "crashed", "out of time", "out of memory")
    for row in rows:
        assert int(row["files"]) == sum(int(row[name]) for name in outcomes)
    assert [int(row["files"]) for row in rows] == [5] * 9 + [45]
    assert not (tmp_path / "keep").exists()
