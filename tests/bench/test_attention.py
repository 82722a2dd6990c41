"""The attention benchmark checks before it compares; that of complexity counts what the paper's formulas count."""

from __future__ import annotations

import csv
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from hoca.bench import CONDITIONS, complexity


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU needs no interpreter")
def test_every_path_is_near_float64_and_compared(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    out = tmp_path / "attention.csv"
    sizes = ["videos=1", "words=2", "steps=3", "size=4", "modalities=2", "precisions=[float32]", "calls=2"]
    subprocess.run(
        [sys.executable, "-m", "hoca", "bench", "attention", *sizes, "--device", "cpu", "--out", str(out)],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        check=True,
    )
    rows = rows_of(out)
    assert {(row["attention"], row["path"]) for row in rows} == {
        (kind, path)
        for kind in ("unary", "low_rank", "exact")
        for path in ("word by word", "contracted", "fused")
    }  # fmt: skip
    assert all(float(row["error"]) <= 1e-5 for row in rows)
    assert all(row["times_word_by_word"] for row in rows)
    assert not any(row["share_of_limit"] for row in rows)  # a CPU has no special-function limit to share


def test_complexity_grows_as_the_formulas_say(tmp_path: Path) -> None:
    out, plot = tmp_path / "complexity.csv", tmp_path / "complexity.png"
    options = complexity.Options(
        modalities=[2, 3, 4], steps=[4, 8], ranks=[1, 8], base_steps=8, videos=2, words=3, size=16, plot=str(plot)
    )
    complexity.run(options, device=torch.device("cpu"), out=out)
    assert plot.stat().st_size > 0
    rows = rows_of(out)

    def counted(axis: str, attention: str, path: str, column: str) -> list[int]:
        return [int(r[column]) for r in rows if (r["axis"], r["attention"], r["path"]) == (axis, attention, path)]

    assert counted("modalities", "exact", "literal", "formula") == [
        8**n + n * 8 ** (n - 1) + n * 8 for n in (2, 3, 4)
    ]  # fmt: skip
    # The order-n tensor has T^n entries per word and video; without it nothing grows faster than the modalities do.
    assert all(
        largest >= 2 * 3 * 8**n
        for n, largest in zip((2, 3, 4), counted("modalities", "exact", "literal", "largest"), strict=True)
    )
    low_rank = counted("modalities", "low_rank", "contracted", "peak_bytes")
    assert low_rank[2] - low_rank[1] == pytest.approx(low_rank[1] - low_rank[0], rel=0.2)
    assert counted("rank", "low_rank", "contracted", "peak_bytes") == sorted(
        counted("rank", "low_rank", "contracted", "peak_bytes")
    )
    slopes = {(r["axis"], r["attention"], r["path"]): r for r in rows_of(tmp_path / "complexity-exponents.csv")}
    assert float(slopes["steps", "exact", "literal"]["formula"]) == pytest.approx(
        math.log2((8**3 + 3 * 8**2 + 3 * 8) / (4**3 + 3 * 4**2 + 3 * 4)), abs=0.01
    )
    assert slopes["rank", "low_rank", "contracted"]["ms"] == ""  # which needs a GPU


def test_an_exponent_is_that_of_the_upper_half() -> None:
    about = dict.fromkeys(CONDITIONS, "") | {"axis": "steps", "attention": "exact", "path": "literal"}
    sizes = (1, 2, 4, 8)
    rows = [about | {"steps": t, "formula": t**2, "peak_bytes": 5 * max(16, t**3), "ms": ""} for t in sizes]
    (found,) = complexity.exponents(rows[:2] + [row | {"ms": 0.1 * row["steps"]} for row in rows[2:]])
    assert [found[name] for name in ("to", "formula", "bytes", "ms_to", "ms")] == [8, "2.00", "3.00", 8, "1.00"]
