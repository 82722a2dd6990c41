"""A report is one file that shows everything and lets nothing in."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from hoca.captioning import Caption
from hoca.explain import explain, report, write_report
from hoca.models.baselines.dense_cap import DenseCap

from ..conftest import Command
from ..media.making import sound, tone
from .samples import explanation, mapped, said, tagged
from .trained import clips, untrained

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"


class Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attributes)))


def content(page: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def policy(page: str) -> str:
    return next(a["content"] or "" for _, a in Tags(page).found if a.get("http-equiv") == "Content-Security-Policy")


def test_a_report_of_a_real_clip_is_small_and_complete(data: Path, run: Path, unary: Path, tmp_path: Path) -> None:
    path = tmp_path / "new" / "report.html"
    write_report(explain(clips(data, silent=False)[0], run, compare=[unary]), path)
    page = path.read_text(encoding="utf-8")
    assert len(page.encode()) < 3_000_000
    shown = content(page)
    assert [r["model"] for r in shown["captions"]] == ["bound", "alone"]
    assert len(shown["thumbnails"]) == 8
    assert {g["theta"] is None for r in shown["captions"][:1] for m in r["modalities"] for g in m["groups"]} == {False}


def test_a_report_tells_what_was_chosen_and_found() -> None:
    shown = content(report(explanation(tagged())))["captions"][0]
    assert shown["found"] == {"tags": [["triangle", 0.9], ["whistle", 0.75], ["<b>dog</b>", 0.25]]}
    assert list(shown["choices"]["fusion"]) == ["image", "motion", "audio", "all together"]
    assert all(len(shares) == len(shown["words"]) for shares in shown["choices"]["fusion"].values())


def test_a_report_has_every_matrix_with_its_axes() -> None:
    told = mapped()
    shown = content(report(explanation(told)))["captions"][0]["matrices"]
    assert list(shown) == ["words remembered", "goals", "steps chosen", "what tags did"]
    assert shown["words remembered"]["columns"]["labels"] == ["(start)", *told.words[:-1]]
    assert shown["steps chosen"]["columns"]["modality"] == "image"
    for name, matrix in shown.items():
        rows, columns = (len(matrix[axis]["labels"] or matrix[axis]["spans"]) for axis in ("rows", "columns"))
        assert (len(matrix["values"]), {len(row) for row in matrix["values"]}) == (rows, {columns}), name
    assert min(min(row) for row in shown["what tags did"]["values"]) < 0


# What each system shows besides its attention, of a clip with pictures, motion and sound.
MATRICES = {
    "recnet-local": [
        *("words that tell image again", "error of image told again", "words that tell motion again"),
        *("error of motion told again", "words that tell audio again", "error of audio told again"),
    ],
    "cst": ["share in the pooled video"],
    "scn": ["what tags did"],
    "haca": [
        *("words remembered in short", "words remembered in detail"),
        *("chunks of image in short", "chunks of motion in short", "chunks of audio in short"),
    ],
    "dense-cap": [
        *("words seen in image", "steps of image chosen", "words seen in motion", "steps of motion chosen"),
        *("words seen in audio", "steps of audio chosen"),
    ],
    "hrl": ["how alike goals are", "manager: image", "manager: motion", "manager: audio"],
}


@pytest.mark.parametrize("name", MATRICES)
def test_what_a_system_can_tell_of_a_clip_is_in_its_report(data: Path, run: Path, name: str) -> None:
    captioner = untrained(run, name)
    shown = content(report(explain(clips(data, silent=False)[0], captioner)))["captions"][0]
    assert list(shown["matrices"]) == MATRICES[name]
    for matrix in shown["matrices"].values():
        rows, columns = (len(matrix[axis]["labels"] or matrix[axis]["spans"]) for axis in ("rows", "columns"))
        assert (len(matrix["values"]), {len(row) for row in matrix["values"]}) == (rows, {columns})
        if matrix["rows"]["kind"] == "words":
            assert matrix["rows"]["labels"] == shown["words"]
        if matrix["sums"]:
            assert [sum(row) for row in matrix["values"]] == pytest.approx([1.0] * len(matrix["values"]), abs=1e-3)
    silent = content(report(explain(clips(data, silent=True)[0], captioner)))["captions"][0]
    assert list(silent["matrices"]) == [each for each in MATRICES[name] if "audio" not in each]


def test_nothing_is_loaded_from_anywhere() -> None:
    page = report(explanation())
    for tag, attributes in Tags(page).found:
        assert not {"src", "href", "action"} & attributes.keys(), (tag, attributes)
    assert policy(page).startswith("default-src 'none'; img-src data:;")
    assert "unsafe" not in policy(page)


def test_its_own_script_and_style_may_run() -> None:
    page = report(explanation())
    for element in ("script", "style"):
        text = re.search(rf"<{element}>(.*?)</{element}>", page, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{element}-src 'sha256-{digest}';" in policy(page)


def test_names_and_words_are_text_whatever_they_contain() -> None:
    words = ("a", HOSTILE, "dog&amp;")
    hostile = replace(said(words), model=HOSTILE, alternatives=((HOSTILE, -2.0),), absent={"audio": HOSTILE})
    page = report(explanation(hostile, video=f"{HOSTILE}.mp4"))
    scripts = [attributes for tag, attributes in Tags(page).found if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "data"}, {}]
    assert not [tag for tag, _ in Tags(page).found if tag == "img"]
    assert content(page)["captions"][0]["words"] == list(words)


def test_sentences_can_be_read_without_scripts() -> None:
    page = report(explanation(said(("a", "dog", "&", "a", "cat"))))
    assert "<h1>a dog &amp; a cat</h1>" in page


def test_a_report_says_how_sure_the_model_is_where_it_can_tell() -> None:
    sure, unsure = replace(said(), confidence=0.618), replace(said(), confidence=0.14, unsure=True)
    page = report(explanation(sure, unsure, said()))
    assert [caption["confidence"] for caption in content(page)["captions"]] == [0.618, 0.14, None]
    assert [caption["sure"] for caption in content(page)["captions"]] == ["confidence 62 %", "unsure (14 %)", None]
    without_scripts = page[page.index("<main") : page.index("</main>")]
    assert re.findall(r"<p>(.*?)</p>", without_scripts) == ["confidence 62 %", "unsure (14 %)"]


def test_a_file_with_sound_alone_has_a_report(run: Path, tmp_path: Path) -> None:
    page = report(explain(sound(tmp_path / "sound.m4a", "aac", tone(4)[None]), run))
    shown = content(page)
    assert re.search(r"<span>\d\.\d s, sound alone</span>", page)
    assert shown["thumbnails"] == []
    assert [each["name"] for each in shown["captions"][0]["modalities"]] == ["audio"]


class TestCommands:
    def test_a_model_with_several_views_of_a_clip_has_a_caption_of_each(
        self, hoca: Command, data: Path, run: Path, tmp_path: Path
    ) -> None:
        clip, model = clips(data, silent=False)[0], tmp_path / "model.safetensors"
        untrained(run, "dense-cap", steps=3, sequences=2).save(model)
        done = hoca("explain", clip, "--model", model, "--out", tmp_path / "r.html", "--figure", tmp_path / "f.svg")
        assert done.code == 0
        shown = content((tmp_path / "r.html").read_text())["captions"][0]
        assert [view for view, _, _ in sorted(shown["views"])] == [1, 2]
        assert shown["text"] == min(shown["views"])[1]
        scores = [score for *_, score in shown["views"]]
        assert scores == sorted(scores, reverse=True)
        assert "<!-- steps of motion chosen -->" in (tmp_path / "f.svg").read_text()
        told = json.loads(hoca("caption", clip, "--model", model, "--json").out)
        assert [(each["view"], each["text"]) for each in told["views"]] == [(n, text) for n, text, _ in shown["views"]]
        first = next(each for each in told["views"] if each["view"] == 1)
        assert first["logprob_per_word"] == pytest.approx(told["logprob"] / (len(told["text"].split()) + 1), abs=1e-3)
        assert [view.to_json() for view in Caption.from_json(told).views] == told["views"]
        plain = json.loads(hoca("caption", clip, "--model", run, "--json").out)
        assert "views" not in plain

    @pytest.mark.parametrize(
        "options", [(), ("--format", "csv"), ("--start", "0.2"), ("--every", "10", "--format", "srt"), ("--features",)]
    )
    def test_nothing_is_explained_where_sentences_alone_are_shown(
        self,
        hoca: Command,
        data: Path,
        run: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        options: tuple[str, ...],
    ) -> None:
        model = tmp_path / "model.safetensors"
        untrained(run, "dense-cap").save(model)
        clip = clips(data, silent=False)[0]
        what = ("--features", data / "features", clip.stem) if "--features" in options else (clip, *options)
        monkeypatch.setattr(DenseCap, "look", None)  # called, it would fail
        monkeypatch.setattr(DenseCap, "views", None)
        assert hoca("caption", *what, "--model", model).code == 0

    def test_explain_writes_the_report_and_the_figure(
        self, hoca: Command, data: Path, run: Path, unary: Path, tmp_path: Path
    ) -> None:
        clip = clips(data, silent=False)[0]
        paths = {"--out": tmp_path / "r.html", "--figure": tmp_path / "f.svg", "--compare": unary, "--model": run}
        done = hoca("explain", clip, *(each for pair in paths.items() for each in pair))
        assert done.code == 0
        assert [line.partition(":")[0] for line in done.out.splitlines()] == ["bound", "alone"]
        assert (tmp_path / "r.html").stat().st_size > 10_000
        assert (tmp_path / "f.svg").stat().st_size > 10_000

    def test_explain_without_a_place_to_write_to(self, hoca: Command, data: Path, run: Path) -> None:
        done = hoca("explain", clips(data, silent=False)[0], "--model", run)
        assert done.code == 2
        assert "--out" in done.complaint

    def test_the_device_is_the_users_choice(self, hoca: Command, data: Path, run: Path, tmp_path: Path) -> None:
        clip = clips(data, silent=False)[0]
        done = hoca("explain", clip, "--model", run, "--out", tmp_path / "r.html", "--device", "toaster")
        assert done.code == 2
        assert "toaster" in done.complaint

    def test_captions_do_not_depend_on_the_size_of_a_batch(self, hoca: Command, data: Path, run: Path) -> None:
        files = [*clips(data, silent=False)[:3], *clips(data, silent=True)[:1]]
        alone, together = (hoca("caption", *files, "--model", run, "--batch-size", size) for size in (1, 4))
        assert alone.code == together.code == 0
        assert alone.out == together.out
        assert hoca("caption", *files, "--model", run, "--batch-size", 0).code == 2

    def test_caption_with_a_report(self, hoca: Command, data: Path, run: Path, tmp_path: Path) -> None:
        clip = clips(data, silent=False)[0]
        done = hoca("caption", clip, "--model", run, "--report", tmp_path / "r.html")
        assert done.code == 0
        shown = content((tmp_path / "r.html").read_text())
        assert shown["captions"][0]["text"] == done.out.strip()
        done = hoca("caption", clip, clip, "--model", run, "--report", tmp_path / "r.html")
        assert done.code == 2
        assert "--report is for one video" in done.complaint

    @pytest.mark.parametrize("what", ["curves", "rank", "cost"])
    def test_plot(self, hoca: Command, run: Path, tmp_path: Path, what: str) -> None:
        (tmp_path / "rank.csv").write_text("variant,CIDEr\nl-hoca-t,1\nl-hoca-t rank 2,2\n")
        (tmp_path / "cost.csv").write_text("rank,ms\n1,2\n2,3\n")
        source = run if what == "curves" else tmp_path / f"{what}.csv"
        done = hoca("plot", what, source, "--out", tmp_path / "figure.png")
        assert (done.code, (tmp_path / "figure.png").is_file()) == (0, True)
