"""Figures are files that open, in the format that their name says."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from hoca.errors import UserError
from hoca.explain import attention_figure, curves_figure
from hoca.explain.curves import read_curves
from hoca.models import Attention

SENTENCE = "a purple triangle is shaking while a loud whistle is heard somewhere in the background"
WORDS = SENTENCE.split()
STARTS = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}


def attention(words: int, steps: dict[str, int]) -> Attention:
    shares = torch.softmax(torch.randn(words, len(steps)), 1)
    return Attention(
        groups={},
        merged={name: torch.softmax(torch.randn(words, count), 1) for name, count in steps.items()},
        modalities=dict(zip(steps, shares.unbind(1), strict=True)),
    )


@pytest.mark.parametrize("suffix", STARTS)
def test_attention_is_drawn_in_the_format_of_the_name(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"figure{suffix}"
    attention_figure(WORDS, attention(15, {"image": 20, "motion": 20, "audio": 16}), path)
    assert path.read_bytes().startswith(STARTS[suffix])


@pytest.mark.parametrize("modalities", [1, 2, 7])
def test_words_never_overlap_however_many_modalities(tmp_path: Path, modalities: int) -> None:
    from matplotlib.image import imread

    path = tmp_path / "figure.png"
    attention_figure(WORDS, attention(15, {f"m{n}": 3 + n for n in range(modalities)}), path)
    height, width, _ = imread(path).shape
    assert height >= 15 * 0.26 * 150
    assert width >= 150 * (3 + 2 * modalities)


def test_one_word_with_even_attention(tmp_path: Path) -> None:
    even = Attention({}, {"image": torch.full((1, 4), 0.25)}, {"image": torch.ones(1)})
    attention_figure(["dog"], even, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000


@pytest.mark.parametrize("name", ["figure.txt", "figure"])
def test_another_format_is_a_clear_mistake(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=r"must end in \.png, \.pdf or \.svg"):
        attention_figure(["dog"], attention(1, {"image": 2}), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_curves_of_several_runs(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("epoch,step,loss,CIDEr\n1,4,2.5,\n2,8,1.5,0.25\n")
    assert read_curves(tmp_path / "a.csv") == {"loss": [(1, 2.5), (2, 1.5)], "CIDEr": [(2, 0.25)]}
    curves_figure({name: tmp_path / f"{name}.csv" for name in ("a", "b")}, tmp_path / "new" / "curves.pdf")
    assert (tmp_path / "new" / "curves.pdf").read_bytes().startswith(b"%PDF")


def test_curves_of_what_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(UserError, match=r"no metrics\.csv of a run"):
        read_curves(tmp_path / "other.csv")
    with pytest.raises(UserError, match="cannot read"):
        read_curves(tmp_path / "nosuch.csv")
