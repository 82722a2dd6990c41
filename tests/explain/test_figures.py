"""Figures are files that open, in the format that their name says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hoca.errors import UserError
from hoca.explain import Modality, attention_figure, cost_figure, curves_figure, rank_figure
from hoca.explain.curves import read_curves

from .samples import WORDS, mapped, said, tagged

STARTS = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}


@pytest.mark.parametrize("suffix", STARTS)
def test_attention_is_drawn_in_the_format_of_the_name(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"figure{suffix}"
    attention_figure(said(), path)
    assert path.read_bytes().startswith(STARTS[suffix])


@pytest.mark.parametrize("modalities", [1, 2, 7])
def test_words_never_overlap_however_many_modalities(tmp_path: Path, modalities: int) -> None:
    from matplotlib.image import imread

    path = tmp_path / "figure.png"
    attention_figure(said(steps={f"m{n}": 3 + n for n in range(modalities)}), path)
    height, width, _ = imread(path).shape
    assert height >= 15 * 0.26 * 150
    assert width >= 150 * (3 + 2 * modalities)


def test_one_word_with_even_attention(tmp_path: Path) -> None:
    even = Modality("image", (1.0,), ((0.25,) * 4,), (), ((0.0, 1.0),) * 4)
    attention_figure(replace(said(("dog",)), modalities=(even,)), tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000


@pytest.mark.parametrize("told", [("image", "motion", "audio"), ("motion",), ()])
def test_a_model_that_does_not_weigh_its_modalities_is_drawn_without_their_shares(
    tmp_path: Path, told: tuple[str, ...]
) -> None:
    whole = said()
    some = tuple(m if m.name in told else replace(m, share=(), groups=()) for m in whole.modalities)
    attention_figure(replace(whole, modalities=some), tmp_path / "figure.svg")
    text = (tmp_path / "figure.svg").read_text()
    assert ("<!-- share β -->" in text) == bool(told)
    for drawn in ("image", "motion", "audio", *WORDS):
        assert f"<!-- {drawn} -->" in text


@pytest.mark.parametrize("attends", [True, False])
def test_choices_and_what_was_found_are_drawn(tmp_path: Path, attends: bool) -> None:
    caption = tagged() if attends else replace(tagged(), modalities=())
    attention_figure(caption, tmp_path / "figure.svg")
    text = (tmp_path / "figure.svg").read_text()
    for drawn in ("choice of fusion", "all together", "tags found in the video", "triangle", *WORDS):
        assert f"<!-- {drawn} -->" in text, drawn
    assert ("<!-- share β -->" in text) == attends


def test_a_model_that_has_tags_alone_is_drawn(tmp_path: Path) -> None:
    attention_figure(replace(tagged(), modalities=(), choices={}), tmp_path / "figure.svg")
    assert "<!-- whistle -->" in (tmp_path / "figure.svg").read_text()


@pytest.mark.parametrize("attends", [True, False])
def test_matrices_are_drawn(tmp_path: Path, attends: bool) -> None:
    caption = mapped() if attends else replace(mapped(), modalities=())
    attention_figure(caption, tmp_path / "figure.svg")
    text = (tmp_path / "figure.svg").read_text()
    for drawn in (*caption.matrices, "(start)", "triangle", *WORDS):
        assert f"<!-- {drawn} -->" in text, drawn


def test_captions_of_several_models_are_drawn_one_below_the_other(tmp_path: Path) -> None:
    from matplotlib.image import imread

    captions = (said(), replace(tagged(said(("a", "dog"))), model="another"))
    attention_figure(captions, tmp_path / "figure.svg")
    text = (tmp_path / "figure.svg").read_text()
    for drawn in ("a-model: ", "another: a dog", "choice of fusion"):
        assert f"<!-- {drawn}" in text, drawn
    for name, drawn in (("both", captions), ("first", captions[0])):
        attention_figure(drawn, tmp_path / f"{name}.png")
    heights = {name: imread(tmp_path / f"{name}.png").shape[0] for name in ("both", "first")}
    assert heights["both"] - heights["first"] == pytest.approx(150 * (1.3 + 4 * 0.26), abs=2)


def test_a_model_that_explains_nothing_has_no_figure(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the model a-model cannot tell what its words looked at"):
        attention_figure(replace(said(), modalities=()), tmp_path / "figure.png")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["figure.txt", "figure"])
def test_another_format_is_a_clear_mistake(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=r"must end in \.png, \.pdf or \.svg"):
        attention_figure(said(("dog",), {"image": 2}), tmp_path / name)
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
    with pytest.raises(UserError, match="no results: there is no"):
        read_curves(tmp_path / "nosuch.csv")


RANKS = "variant,CIDEr,CIDEr sd\nhoca-ubt,30,1\nl-hoca-ubt,31,2\nl-hoca-ubt rank 4,33,\n"


def test_a_rank_study_is_drawn(tmp_path: Path) -> None:
    (tmp_path / "study.csv").write_text(RANKS)
    rank_figure(tmp_path / "study.csv", tmp_path / "rank.svg")
    assert "l-hoca-ubt" in (tmp_path / "rank.svg").read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("variant,CIDEr\nhoca-u,30\n", "has no rows `NAME` and `NAME rank K`"),
        ("variant,BLEU-4\nhoca-u,30\n", "no column 'CIDEr'"),
        (RANKS.replace("33", "many"), "CIDEr='many' is no number"),
        ("", "no column 'variant'"),
    ],
)
def test_what_is_no_rank_study_is_told(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "study.csv").write_text(text)
    with pytest.raises(UserError, match=message):
        rank_figure(tmp_path / "study.csv", tmp_path / "rank.png")


def test_costs_are_drawn_for_what_was_measured(tmp_path: Path) -> None:
    (tmp_path / "cost.csv").write_text("backend,rank,ms,peak_bytes\nreference,1,20,1073741824\nfused,2,0.5,\n")
    cost_figure(tmp_path / "cost.csv", tmp_path / "cost.svg")
    assert (tmp_path / "cost.svg").stat().st_size > 5000
    (tmp_path / "cost.csv").write_text("backend,rank\nreference,1\n")
    with pytest.raises(UserError, match="none of the columns"):
        cost_figure(tmp_path / "cost.csv", tmp_path / "cost.svg")
