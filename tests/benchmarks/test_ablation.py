"""The study of the built-in dataset, at its smallest: from nothing to tables and figures."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from hoca.models import names

from .scripts import start

TINY = ["epochs=1", "patience=1", "hidden=8", "attention=8", "embedding=8", "beam=1"]
VARIANTS = ("hoca-u", "hoca-b", "l-hoca-ubt")  # of nine: the list has them all, and each is trained and told alike
FIGURES = ("ablation-binding.png", "curves-binding.png")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ablation")
    for name in ("results", "docs"):
        (folder / name).mkdir()
    sizes = ["--sizes", "train=40", "validation=4", "test=12", "seconds=2"]
    places = ["--data", folder / "data", "--runs", folder / "runs", "--table", folder / "runs.csv"]
    out = ["--results", folder / "results", "--docs", folder / "docs"]
    some = ["--study", "table", "--variants", *VARIANTS, "--seeds", 2, "--jobs", 1, "--keep", "l-hoca-ubt"]
    start("ablation", "all", *sizes, *places, *out, *some, "--overrides", *TINY)
    return folder


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_variant_has_means_intervals_and_tests(study: Path) -> None:
    summary = rows(study / "results" / "ablation-binding.csv")
    assert [row["variant"] for row in summary] == list(VARIANTS)
    for row in summary:
        assert row["seeds"] == "2"
        assert 0 <= float(row["colour"]) <= 100
        assert float(row["CIDEr ci"]) >= 0
    tests = rows(study / "results" / "ablation-binding-tests.csv")
    assert {row["against"] for row in tests} >= {"hoca-u"}
    assert all(" to " in row["all, interval over clips"] for row in tests)
    assert all((study / "docs" / name).read_bytes().startswith(b"\x89PNG") for name in FIGURES)


def test_attention_is_compared_with_the_truth(study: Path) -> None:
    found = rows(study / "results" / "attention-truth.csv")
    assert {row["group"] for row in found if row["variant"] == "hoca-u"} == {"merged", "image", "motion", "audio"}
    for row in found:
        assert 0 <= float(row["told"]) <= 100
        # A model that has hardly been trained looks everywhere alike.
        assert float(row["told"]) == pytest.approx(float(row["even"]), abs=8)
    best = next(study.glob("l-hoca-ubt-0-*.safetensors"))
    out = study / "docs" / "truth.png"
    start("attention_truth", "figure", best, "--data", study / "data", "--clip", "test-00000", "--out", out)
    assert out.read_bytes().startswith(b"\x89PNG")


def test_the_list_names_what_is_left(study: Path) -> None:
    listed = start("ablation", "train", "--list", "--seeds", 1, "--table", study / "none.csv").splitlines()
    kinds = {line.split(" | ")[0].split()[0] for line in listed}
    assert {"table", "ranks", "pairs", "merges", "difficulty", "probe"} <= kinds
    assert [line.split(" | ")[1] for line in listed if line.startswith("table")] == names("*hoca*")
