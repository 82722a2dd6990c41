"""The benchmark of allocations runs, says what it found and replaces its own rows only."""

from __future__ import annotations

import csv
import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "attention_memory.py"


def test_rows_are_replaced_by_condition_and_hold_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "memory.csv"

    def bench(words: int) -> list[dict[str, str]]:
        sizes = f"--batch 2 --words {words} --steps 6 --size 16 --workspace 20000".split()
        monkeypatch.setattr("sys.argv", [str(SCRIPT), *sizes, "--out", str(out)])
        runpy.run_path(str(SCRIPT), run_name="__main__")
        assert "exact contracted (chunks: one): largest tensor" in capsys.readouterr().out
        with out.open(newline="") as file:
            return list(csv.DictReader(file))

    first = bench(words=5)
    assert bench(words=5) == first
    rows = bench(words=7)
    assert rows[: len(first)] == first
    assert len(rows) == 2 * len(first)
    for row in rows:
        within = int(row["largest_elements"]) <= int(row["bound_elements"])
        assert within == (row["backend"] == "contracted")
        assert row["seconds"] == ""  # of a CPU, none are kept
