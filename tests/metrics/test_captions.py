from __future__ import annotations

import json
from pathlib import Path

import pytest

from hoca.errors import UserError
from hoca.metrics import read_captions, score_files

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
