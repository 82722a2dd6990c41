"""The fuzz run goes to its end on a few files, without the research data, and counts each of them."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "fuzz.py"


def test_every_damaged_file_is_counted(tmp_path: Path) -> None:
    places = f"--data {tmp_path} --keep {tmp_path / 'keep'} --out {tmp_path / 'fuzz.csv'} --progress {tmp_path / 'at'}"

    def run(**settings: int) -> str:
        options = [word for name, value in settings.items() for word in (f"--{name}", str(value))]
        command = [sys.executable, str(SCRIPT), "--workers", "1", *options, *places.split()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout
        return done.stdout

    assert "45 files were not tried" in run(files=45, seconds=0)
    (tmp_path / "at").unlink(missing_ok=True)
    assert "0 problems" in run(files=45, seconds=600)
    assert not (tmp_path / "at").exists()
    with (tmp_path / "fuzz.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    outcomes = ("decoded", "with damage", "refused", "crashed", "out of time", "out of memory")
    for row in rows:
        assert int(row["files"]) == sum(int(row[name]) for name in outcomes)
    assert [int(row["files"]) for row in rows] == [5] * 9 + [45]
    assert not (tmp_path / "keep").exists()
