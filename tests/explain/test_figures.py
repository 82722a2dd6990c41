"""Figures are files that open, in the format that their name says."""

from __future__ import annotations

import base64
import io
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hoca.errors import UserError
from hoca.explain import (
    ExplainedMatrix,
    MatrixAxis,
    Modality,
    ModelCaption,
    attention_figure,
    cost_figure,
    curves_figure,
    rank_figure,
)
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
    attention_figure(looking((0.25,) * 4), tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000


def looking(weights: tuple[float, ...], name: str = "image") -> ModelCaption:
    """What one word looked at."""
    modality = Modality(name, (1.0,), (weights,), (), ((0.0, 1.0),) * len(weights))
    return replace(said(("dog",)), modalities=(modality,))


def heat_maps(path: Path) -> list[np.ndarray]:
    """The colours of each, from left to right: [pixels, 3], from 0 to 1."""
    from matplotlib.image import imread

    found = re.findall(r'"data:image/png;base64,\s*([^"]+)"', path.read_text())
    return [imread(io.BytesIO(base64.b64decode(each)))[0, :, :3] for each in found]


def shade(share: float, colour: str = "#c0392b") -> list[float]:
    """White as far as nothing was looked at, the colour as far as all was."""
    return [1 - share * (1 - int(colour[place : place + 2], 16) / 255) for place in (1, 3, 5)]


@pytest.mark.parametrize("uneven", [0.0, 0.01])
def test_attention_that_is_spread_evenly_looks_even(tmp_path: Path, uneven: float) -> None:
    attention_figure(looking((0.25 - uneven, 0.25 + uneven, 0.25, 0.25)), tmp_path / "figure.svg")
    (pixels,) = heat_maps(tmp_path / "figure.svg")
    np.testing.assert_allclose(pixels, [shade(1 / 3)] * len(pixels), atol=0.01 + uneven)


def test_the_greatest_attention_has_the_colour_of_its_modality_and_none_is_white(tmp_path: Path) -> None:
    attention_figure(looking((0.0, 0.1, 0.9, 0.0), "audio"), tmp_path / "figure.svg")
    (pixels,) = heat_maps(tmp_path / "figure.svg")
    np.testing.assert_allclose(pixels[0], shade(0), atol=0.01)
    np.testing.assert_allclose(pixels[len(pixels) * 5 // 8], shade(1, "#2980b9"), atol=0.01)
    assert "time step (α 0.000 to 0.900)" in (tmp_path / "figure.svg").read_text()


def test_two_models_are_drawn_on_one_scale(tmp_path: Path) -> None:
    captions = looking((0.9, 0.1)), replace(looking((0.05,) * 20), model="another")
    attention_figure(captions, tmp_path / "figure.svg")
    sharp, even = heat_maps(tmp_path / "figure.svg")
    np.testing.assert_allclose(sharp[0], shade(0.9 / 1.5), atol=0.01)  # three times the even share of two steps
    np.testing.assert_allclose(even[0], shade(0.05 / 1.5), atol=0.01)


@pytest.mark.parametrize("names", [("audio", "image"), ("change", "motion"), ("audio",), ("depth", "change")])
def test_a_modality_has_its_colour_whatever_the_clip_lacks(tmp_path: Path, names: tuple[str, ...]) -> None:
    colours = {"image": "#c0392b", "motion": "#27ae60", "audio": "#2980b9", "change": "#8e44ad", "depth": "#d35400"}
    titles = {"change": "change between pictures"}
    attention_figure(said(steps=dict.fromkeys(names, 5)), tmp_path / "figure.svg")
    text = (tmp_path / "figure.svg").read_text()
    for name in names:
        assert re.search(f'<!-- {titles.get(name, name)} -->\\s*<g style="fill: {colours[name]}"', text), name


def test_names_and_words_are_no_formulas(tmp_path: Path) -> None:
    dollars = ("$^$", "$x_$", "a$b$c")
    matrix = ExplainedMatrix(MatrixAxis("names", dollars), MatrixAxis("names", dollars), ((1.0,) * 3,) * 3, "x", None)
    caption = replace(
        said(dollars, dict.fromkeys(dollars, 4)),
        model="$m_$",
        choices={"$c_$": {"$o_$": (1.0,) * 3}},
        found={"$f_$": (("$i_$", 0.5),)},
        matrices={"$t_$": matrix},
    )
    attention_figure([caption, caption], tmp_path / "figure.svg")
    text = (tmp_path / "figure.svg").read_text()
    drawn = (*dollars, "$m_$: $^$ $x_$ a$b$c", "choice of $c_$", "$o_$", "$f_$ found in the video", "$i_$", "$t_$")
    for each in drawn:
        assert f"<!-- {each} -->" in text, each


@pytest.mark.parametrize("caption", [said(()), tagged(said(())), mapped(said(()))])
@pytest.mark.filterwarnings("error")
def test_a_caption_without_words_is_drawn(tmp_path: Path, caption: ModelCaption) -> None:
    attention_figure(caption, tmp_path / "figure.svg")
    text = (tmp_path / "figure.svg").read_text()
    for drawn in ("image", "motion", "audio", *caption.matrices):
        assert f"<!-- {drawn} -->" in text, drawn


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


def test_models_that_explain_nothing_are_left_out_while_another_explains(tmp_path: Path) -> None:
    silent = replace(said(("a", "dog")), model="silent", modalities=())
    attention_figure((silent, said(("a", "cat"))), tmp_path / "figure.svg")
    text = (tmp_path / "figure.svg").read_text()
    assert "<!-- a-model: a cat -->" in text
    assert "silent" not in text
    with pytest.raises(UserError, match="the model silent and the model other cannot tell"):
        attention_figure((silent, replace(silent, model="other")), tmp_path / "none.svg")
    assert [path.name for path in tmp_path.iterdir()] == ["figure.svg"]


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
