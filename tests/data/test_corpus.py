"""Captions are read exactly, and what is wrong with them is said in one line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoca.data import Corpus, Video, read_corpus, write_corpus
from hoca.data.corpus import captions_file
from hoca.errors import UserError

GOOD = {"id": "a", "split": "train", "captions": ["a dog runs", "a dog"]}


def written(folder: Path, *lines: object) -> Path:
    path = folder / "captions.jsonl"
    path.write_bytes(b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines))
    return path


def test_reads_videos_in_the_order_of_the_file(tmp_path: Path) -> None:
    other = {"id": "b", "split": "test", "captions": ["x"], "category": "sport", "attributes": {"colour": "red"}}
    corpus = read_corpus(written(tmp_path, GOOD, other, b""))
    assert corpus.name == tmp_path.name
    assert corpus.videos == (
        Video("a", "train", ("a dog runs", "a dog")),
        Video("b", "test", ("x",), "sport", {"colour": "red"}),
    )
    assert corpus.split("train") == [corpus["a"]]
    assert corpus.split("validation") == []
    assert corpus.references("test") == {"b": ["x"]}
    assert list(corpus.captions("train")) == ["a dog runs", "a dog"]


def test_an_unknown_split_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'val': choose train, validation, test"):
        read_corpus(written(tmp_path, GOOD)).split("val")


def test_a_byte_order_mark_is_not_part_of_the_data(tmp_path: Path) -> None:
    corpus = read_corpus(written(tmp_path, b"\xef\xbb\xbf" + json.dumps(GOOD).encode() + b"\r"))
    assert [video.id for video in corpus.videos] == ["a"]


def test_numbered_categories_keep_their_order(tmp_path: Path) -> None:
    rows = [GOOD | {"id": str(number), "category": number} for number in (10, 9, 2)]
    corpus = read_corpus(written(tmp_path, *rows, GOOD))
    assert corpus.categories == ("2", "9", "10")
    assert [corpus.category_number(video) for video in corpus.videos] == [2, 1, 0, -1]


def test_categories_txt_names_the_numbers(tmp_path: Path) -> None:
    (tmp_path / "categories.txt").write_text("music\nnews\n")
    corpus = read_corpus(written(tmp_path, GOOD | {"category": 1}, GOOD | {"id": "b", "category": "music"}))
    assert corpus.categories == ("music", "news")
    assert [video.category for video in corpus.videos] == ["news", "music"]


BROKEN = [
    (b"{not json", "broken line", "line 2: not JSON"),
    (b"[1, 2]", "broken line", "a list, expected an object"),
    (b"[" * 100_000, "broken line", "line 2: not JSON"),
    ({"id": "b", "split": "train", "caption": ["x"]}, "broken line", 'no "captions" (is "caption" meant?)'),
    ({"id": 7, "split": "train", "captions": ["x"]}, "broken line", '"id" is 7, expected a text'),
    ({"id": "b", "split": "val", "captions": ["x"]}, "broken line", "'val': choose train, validation, test"),
    ({"id": "b", "split": ["train"], "captions": ["x"]}, "broken line", "choose train, validation, test"),
    ({"id": "b", "split": "train", "captions": "x"}, "broken line", "must be a list of texts"),
    ({"id": "b", "split": "train", "captions": [3]}, "broken line", "must be a list of texts"),
    ({"id": "b", "split": "train", "captions": ["x"], "category": 1.5}, "broken line", "expected a name or a number"),
    ({"id": "b", "split": "train", "captions": ["x"], "category": " "}, "broken line", "expected a name on one line"),
    ({"id": "b", "split": "train", "captions": ["x"], "attributes": 1}, "broken line", "must be an object"),
    ({"id": "b", "split": "train", "captions": ["x", "\ud800x"]}, "broken line", "holds half a character"),
    ({"id": "b", "split": "train", "captions": ["x", " . "]}, "empty caption", "caption 2 of video b has no words"),
    ({"id": "b", "split": "train", "captions": []}, "video without captions", "video b has no captions"),
    (GOOD, "duplicate id", "video a was on line 1 already"),
    ('{"id": "é"}'.encode("latin-1"), "line that is not UTF-8", "byte 0xe9 at 9 is not UTF-8"),
]


@pytest.mark.parametrize(("line", "kind", "message"), BROKEN, ids=[message for _, _, message in BROKEN])
def test_a_broken_line_stops_or_is_counted(tmp_path: Path, line: object, kind: str, message: str) -> None:
    path = written(tmp_path, GOOD, line, GOOD | {"id": "last"})
    with pytest.raises(UserError) as stopped:
        read_corpus(path)
    text = str(stopped.value)
    assert message in text
    assert f"{path}, line 2" in text
    assert "\n" not in text

    said: list[str] = []
    corpus = read_corpus(path, on_problem="skip", report=said.append)
    assert {video.id for video in corpus.videos} >= {"a", "last"}
    assert said[0] == f"skipped: {text}"
    assert said[-1] == f"{path}: skipped 1 × {kind}"


def test_a_flood_of_problems_is_a_few_lines_and_a_count(tmp_path: Path) -> None:
    said: list[str] = []
    read_corpus(written(tmp_path, *[b"x"] * 1000, GOOD), on_problem="skip", report=said.append)
    assert len(said) == 6
    assert said[-1].endswith("skipped 1000 × broken line")


NO_CAPTIONS = [
    (b"", "is empty"),
    (b" \n\n", "is empty"),
    ("\ufeffx".encode("utf-16-le"), "is UTF-16: save it as UTF-8"),
    (b"nothing\nuseful", "holds no videos"),
]


@pytest.mark.parametrize(
    ("content", "message"),
    NO_CAPTIONS,
)
def test_a_file_without_videos_is_an_error_even_when_skipping(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "captions.jsonl"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_corpus(path, on_problem="skip", report=lambda line: None)


def test_a_missing_file_or_a_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no captions file"):
        read_corpus(tmp_path / "captions.jsonl")
    with pytest.raises(UserError, match="cannot read"):
        read_corpus(tmp_path)


def test_categories_that_the_list_does_not_have(tmp_path: Path) -> None:
    (tmp_path / "categories.txt").write_text("music\nnews\n")
    with pytest.raises(UserError, match=r"is 2, but categories\.txt names 2"):
        read_corpus(written(tmp_path, GOOD | {"category": 2}))
    with pytest.raises(UserError, match=r"is 'new', not in categories\.txt: is 'news' meant"):
        read_corpus(written(tmp_path, GOOD | {"category": "new"}))


def test_a_wrong_choice_of_what_to_do_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'ignore': choose stop or skip"):
        read_corpus(written(tmp_path, GOOD), on_problem="ignore")  # type: ignore[arg-type]


texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
videos = st.builds(
    Video,
    id=texts.filter(str.strip),
    split=st.sampled_from(["train", "validation", "test"]),
    captions=st.lists(texts.filter(lambda text: any(map(str.isalnum, text))), min_size=1, max_size=3).map(tuple),
    category=st.none() | texts.map(lambda text: " ".join(text.split())).filter(bool),
    attributes=st.dictionaries(texts, texts, max_size=2),
)


@settings(max_examples=50, deadline=None)
@given(videos=st.lists(videos, min_size=1, max_size=5, unique_by=lambda video: video.id))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, videos: list[Video]) -> None:
    folder = tmp_path_factory.mktemp("corpus")
    categories = tuple(dict.fromkeys(video.category for video in videos if video.category is not None))
    corpus = Corpus(folder.name, tuple(videos), categories)
    assert read_corpus(write_corpus(corpus, folder)) == corpus


def test_categories_can_be_numbered_as_a_model_does() -> None:
    videos = tuple(Video(str(n), "train", ("a dog",), category) for n, category in enumerate(("sport", "news", None)))
    corpus = Corpus("mine", videos, ("news", "sport"))
    assert [corpus.category_number(video) for video in videos] == [1, 0, -1]
    other = corpus.numbered(("sport", "music"))
    assert [other.category_number(video) for video in videos] == [0, -1, -1]


def test_a_category_of_many_digits_is_a_name(tmp_path: Path) -> None:
    row = {"id": "v", "split": "train", "captions": ["a dog"], "category": "9" * 5000}
    (tmp_path / "captions.jsonl").write_text(json.dumps(row))
    assert read_corpus(tmp_path / "captions.jsonl").categories == ("9" * 5000,)


@pytest.mark.parametrize("name", ["captions.jsonl", "categories.txt"])
def test_a_pipe_is_not_waited_for(tmp_path: Path, name: str) -> None:
    (tmp_path / "captions.jsonl").write_text('{"id": "v", "split": "train", "captions": ["a dog"]}')
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    with pytest.raises(UserError, match="not a file"):
        read_corpus(tmp_path / "captions.jsonl")


def table(folder: Path, text: str) -> Path:
    path = folder / "captions.csv"
    path.write_bytes(text.encode("utf-8"))
    return path


def test_csv_has_a_caption_a_row(tmp_path: Path) -> None:
    path = table(
        tmp_path,
        'id,split,caption,category\r\na,train,"a dog, running",sport\r\nb,test,x,\r\na,train,a dog,sport\r\n',
    )
    corpus = read_corpus(path)
    assert corpus.videos == (Video("a", "train", ("a dog, running", "a dog"), "sport"), Video("b", "test", ("x",)))
    assert captions_file(tmp_path) == path
    (tmp_path / "captions.jsonl").write_text("")
    with pytest.raises(UserError, match="keep one of them"):
        captions_file(tmp_path)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("b,train,a dog, running", "line 3: 4 cells, the header names 3 columns"),
        ("a,test,a dog", "line 3: video a has another split or category than on line 2"),
        ("b,val,x", "line 3: \"split\" of video b is 'val'"),
        ("b,,x", 'line 3: no "split"'),
        (",train,x", "line 3: \"id\" is ''"),
        ("b,train,", "caption 1 of video b has no words"),
        ('b,train,"x', "line 4 is not CSV"),
    ],
)
def test_a_broken_row_is_told_with_its_line_or_counted(tmp_path: Path, row: str, message: str) -> None:
    path = table(tmp_path, f"id,split,caption\na,train,a dog runs\n{row}\nlast,train,x\n")
    with pytest.raises(UserError) as stopped:
        read_corpus(path)
    assert message in str(stopped.value)
    assert "\n" not in str(stopped.value)
    if "not CSV" not in message:  # of a table whose quotes do not match, no row is certain
        said: list[str] = []
        assert {video.id for video in read_corpus(path, on_problem="skip", report=said.append).videos} == {"a", "last"}
        assert message in said[0]


def test_a_table_saved_otherwise_is_explained(tmp_path: Path) -> None:
    (tmp_path / "captions.csv").write_bytes("id,split,caption\na,train,café\n".encode("latin-1"))
    with pytest.raises(UserError, match="save it as CSV UTF-8"):
        read_corpus(tmp_path / "captions.csv")
    with pytest.raises(UserError, match="no header with the columns id,split,caption"):
        read_corpus(table(tmp_path, "a,train,a dog\n"))
