from __future__ import annotations

import json
from pathlib import Path

import pytest

from hoca.errors import UserError
from hoca.metrics import read_captions, score_files, write_captions

from ..conftest import Command

ENTRIES = [
    {"image_id": 1, "caption": "a dog"},
    {"image_id": 2, "caption": "a cat"},
    {"image_id": 1, "caption": "the dog"},
]
EXPECTED = {"1": ["a dog", "the dog"], "2": ["a cat"]}


@pytest.mark.parametrize(
    "content",
    [
        json.dumps({"images": [], "annotations": ENTRIES}),
        json.dumps({"videos": [], "sentences": [{"video_id": str(e["image_id"]), **e} for e in ENTRIES]}),
        json.dumps(ENTRIES),
        json.dumps({"1": ["a dog", "the dog"], "2": "a cat"}),
        '{"id": 1, "captions": ["a dog", "the dog"]}\n\n{"id": 2, "caption": "a cat"}\n',
        "1\ta dog\n1\tthe dog\n2\ta cat\n",
        "1 a dog\n1 the dog\n2 a cat\n",
    ],
    ids=["coco", "msrvtt", "results", "mapping", "lines", "tabs", "spaces"],
)  # fmt: skip
def test_the_usual_formats(content: str, tmp_path: Path) -> None:
    file = tmp_path / "captions"
    file.write_text(content)
    assert read_captions(file) == EXPECTED


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"[]", "no captions"),
        (b'{"a": 1}', "not text"),
        (b'[{"caption": "x"}]', "no id"),
        (b'[{"id": 1, "caption": "x"}', "not valid JSON"),
        (b'{"id": 1, "caption": "x"}\n{"id": 2, ', "line 2"),
        (b"1\ta\n2 b\n", "line 2"),
        (b"1\tcaf\xe9\n", "UTF-8"),
    ],
)
def test_broken_files_end_in_one_line_that_names_the_file(content: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "captions.x"
    file.write_bytes(content)
    with pytest.raises(UserError, match=message) as error:
        read_captions(file)
    assert "captions.x" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere"):
        read_captions(tmp_path / "nowhere.json")


def test_files_are_scored_and_numbers_match_names(tmp_path: Path) -> None:
    references, candidates = tmp_path / "r.json", tmp_path / "c.json"
    references.write_text(json.dumps({"video1": ["a dog runs fast"], "video2": ["two cats sit still"]}))
    candidates.write_text(json.dumps([{"image_id": 1, "caption": "a dog runs fast"}, {"image_id": 2, "caption": "x"}]))
    scores = score_files(references, candidates, ("ROUGE-L", "CIDEr"))
    assert scores.per_video["1"]["ROUGE-L"] == pytest.approx(1)
    assert scores.per_video["2"]["CIDEr"] == 0


def test_two_candidates_for_one_video_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "c.txt"
    file.write_text("1 a dog\n1 the dog\n2 a cat\n")
    with pytest.raises(UserError, match="2 candidates"):
        score_files(file, file, ("CIDEr",))


DATASET = [
    {"id": "a", "split": "train", "captions": ["a dog runs fast"]},
    {"id": "b", "split": "test", "captions": ["two cats sit still", "cats are sitting"]},
    {"id": "c", "split": "test", "captions": ["it rains on the street"]},
]


def lines(path: Path, entries: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


def test_what_caption_prints_is_scored_against_a_datasets_own_captions(hoca: Command, tmp_path: Path) -> None:
    references = lines(tmp_path / "captions.jsonl", DATASET)
    said = {"clips/b.mp4": "two cats sit still", "clips/c.webm": "it rains"}
    facts: list[dict[str, object]] = [{"video": video, "text": text, "logprob": -1.0} for video, text in said.items()]
    candidates = lines(tmp_path / "said.jsonl", facts)
    result = hoca("score", "--references", references, "--candidates", candidates, "--split", "test", "--per-video")
    assert result.code == 0
    first, *rows = result.out.splitlines()
    assert first.split()[:2] == ["video", "BLEU-1"]
    assert rows[0].split()[:2] == ["b", "100.00"]
    assert [row.split()[0] for row in rows[:2]] == ["b", "c"]
    assert "CIDEr" in result.out.rsplit("\n\n", 1)[1]
    unsplit = hoca("score", "--references", references, "--candidates", candidates)
    assert unsplit.code == 2
    assert "choose one with --split" in unsplit.complaint
    wrong = hoca("score", "--references", references, "--candidates", candidates, "--split", "dev")
    assert "has no split 'dev': choose test, train" in wrong.complaint


def test_splits_of_msrvtt_and_files_without_any(tmp_path: Path) -> None:
    file = tmp_path / "msrvtt.json"
    videos = [{"video_id": "video1", "split": "validate"}, {"video_id": "video2", "split": "train"}]
    sentences = [{"video_id": f"video{number}", "caption": f"caption {number}"} for number in (1, 2)]
    file.write_text(json.dumps({"videos": videos, "sentences": sentences}))
    assert read_captions(file, "validation") == read_captions(file, "val") == {"video1": ["caption 1"]}
    plain = tmp_path / "plain.txt"
    plain.write_text("1 a dog\n")
    with pytest.raises(UserError, match="states splits: leave it out"):
        score_files(plain, plain, ("CIDEr",), split="test")


@pytest.mark.parametrize(
    "content",
    [
        "id,split,caption\nb,test,two cats\nb,test,cats\n",
        "\ufeffID;Caption;Split\r\nb;two cats;test\r\n\r\nb;cats;test\r\n",
        'video,text\nclips/b.mp4,"two cats"\nclips/b.mp4,cats\n',
    ],
    ids=["commas", "spreadsheet", "files"],
)
def test_csv(content: str, tmp_path: Path) -> None:
    file = tmp_path / "captions.csv"
    file.write_text(content, encoding="utf-8", newline="")
    assert read_captions(file) == {"b": ["two cats", "cats"]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("b,two cats\n", "no header with the columns id,caption"),
        ("id,caption\nb,two cats, sitting\n", "line 2: 3 cells, the header names 2"),
        ('id,caption\nb,"two cats\n', "line 2 is not CSV"),
        ("id,caption\n", "no captions"),
    ],
)
def test_broken_csv_is_told_in_one_line(content: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "captions.csv"
    file.write_text(content)
    with pytest.raises(UserError, match=message):
        read_captions(file)


@pytest.mark.parametrize("ending", ["csv", "json", "jsonl"])
def test_captions_that_are_written_are_read(ending: str, tmp_path: Path) -> None:
    captions = {"a": 'a man says "yes, no"', "b": "ein Hund läuft"}
    write_captions(captions, tmp_path / f"captions.{ending}")
    assert read_captions(tmp_path / f"captions.{ending}") == {id: [text] for id, text in captions.items()}
