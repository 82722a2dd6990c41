"""Captions of videos and their splits, read from one JSON object per line, or from CSV with one caption per row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from hoca.data.problems import OnProblem, Problems, Report
from hoca.errors import BadDataset, UserError
from hoca.files import replacing, require_file
from hoca.options import encodable
from hoca.tables import is_table, read_table

SPLITS = ("train", "validation", "test")
CATEGORIES_FILE = "categories.txt"
CAPTIONS_FILES = ("captions.jsonl", "captions.csv")  # a dataset folder has one of them
COLUMNS = (("id",), ("split",), ("caption", "text"))  # of a CSV file; `category` may be there too


@dataclass(frozen=True)
class Video:
    """One video: its captions and what is known about it."""

    id: str
    split: str
    captions: tuple[str, ...]
    category: str | None = None
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Corpus:
    """The captioned videos of one dataset, in the order of its file."""

    name: str
    videos: tuple[Video, ...]
    categories: tuple[str, ...] = ()  # names; the place of a name is its number

    def split(self, name: str) -> list[Video]:
        """The videos of `train`, `validation` or `test`."""
        if name not in SPLITS:
            raise UserError(f"split {name!r}: choose {', '.join(SPLITS)}")
        return [video for video in self.videos if video.split == name]

    def captions(self, split: str) -> Iterator[str]:
        """All captions of a split, video by video."""
        return (caption for video in self.split(split) for caption in video.captions)

    def references(self, split: str) -> dict[str, list[str]]:
        """Video id → all its captions: what candidates are scored against."""
        return {video.id: list(video.captions) for video in self.split(split)}

    def category_number(self, video: Video) -> int:
        """The place of the video's category in `categories`, -1 when it has none or another one."""
        return -1 if video.category is None else self._numbers.get(video.category, -1)

    def numbered(self, categories: Sequence[str]) -> Corpus:
        """The same videos, their categories numbered by their places in these names."""
        return replace(self, categories=tuple(categories))

    def __len__(self) -> int:
        return len(self.videos)

    def __getitem__(self, id: str) -> Video:
        return self._by_id[id]

    @cached_property
    def _by_id(self) -> dict[str, Video]:
        return {video.id: video for video in self.videos}

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.categories)}


def read_corpus(
    path: Path | str,
    *,
    name: str | None = None,
    on_problem: OnProblem = "stop",
    report: Report | None = None,
    problems: Problems | None = None,
) -> Corpus:
    """Read a captions file, JSON lines or .csv; names of numbered categories come from a `categories.txt` beside it, if
    there is one."""
    path = Path(path)
    problems = problems or Problems(on_problem, report)
    named = _read_categories(path.parent / CATEGORIES_FILE)
    videos: dict[str, Video] = {}
    first_line: dict[str, int] = {}
    for number, row in (_table if is_table(path) else _json_lines)(path, problems):
        video = _video(row, named, f"{path}, line {number}", problems)
        if video is None:
            continue
        if video.id in videos:
            problems.add(
                "duplicate id",
                f"{path}, line {number}: video {video.id} was on line {first_line[video.id]} already: "
                "put all its captions on one line",
            )
            continue
        videos[video.id] = video
        first_line[video.id] = number
    problems.close(str(path))
    if not videos:
        raise BadDataset(f"{path} holds no videos: {_form(path)}")
    return Corpus(name or path.parent.name, tuple(videos.values()), named or _categories_of(videos.values()))


def captions_file(folder: Path) -> Path:
    """The captions of a dataset folder: `captions.jsonl`, or `captions.csv`."""
    found = [folder / name for name in CAPTIONS_FILES if (folder / name).exists()]
    if len(found) > 1:
        raise BadDataset(f"{folder} holds {' and '.join(CAPTIONS_FILES)}: keep one of them")
    return found[0] if found else folder / CAPTIONS_FILES[0]


def write_corpus(corpus: Corpus, folder: Path | str) -> Path:
    """Write `captions.jsonl` (and `categories.txt` where there are categories) into a folder; returns its path."""
    path = Path(folder) / "captions.jsonl"
    if corpus.categories:
        with replacing(path.parent / CATEGORIES_FILE) as temporary:
            temporary.write_text("".join(f"{name}\n" for name in corpus.categories), encoding="utf-8")
    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        for video in corpus.videos:
            row: dict[str, Any] = {"id": video.id, "split": video.split, "captions": list(video.captions)}
            if video.category is not None:
                row["category"] = video.category
            if video.attributes:
                row["attributes"] = video.attributes
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return path


def _form(path: Path) -> str:
    """What a captions file should be like."""
    if is_table(path):
        return "write the header id,split,caption and then one caption per row"
    return 'write one line {"id", "split", "captions"} per video'


def _content(path: Path) -> bytes:
    try:
        require_file(path)
        content = path.read_bytes()
    except FileNotFoundError:
        raise BadDataset(
            f"no captions file {path}: a dataset folder holds captions.jsonl or captions.csv, and features/"
        ) from None
    except OSError as error:
        raise BadDataset(f"cannot read {path} ({error.strerror}): give the captions file, JSON lines or CSV") from None
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise BadDataset(f"{path} is UTF-16: save it as UTF-8")
    if not content.strip():
        raise BadDataset(f"{path} is empty: {_form(path)}")
    return content.removeprefix(b"\xef\xbb\xbf")


def _table(path: Path, problems: Problems) -> Iterator[tuple[int, Any]]:
    """The videos of a CSV file as rows of JSON lines would have them, each with the line of its first caption."""
    try:
        text = _content(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadDataset(f"{path} is not UTF-8 text (byte {error.start}): save it as CSV UTF-8") from None
    videos: dict[str, tuple[int, dict[str, Any]]] = {}
    for number, cells in read_table(path, text, *COLUMNS, on_wrong=partial(problems.add, "broken line")):
        id = cells.get("id", "")
        facts: dict[str, Any] = {key: cells[key] for key in ("split", "category") if cells.get(key)}
        if (category := facts.get("category", "")).isdecimal() and len(category) < 20:
            facts["category"] = int(category)
        first, row = videos.setdefault(id, (number, {"id": id, **facts, "captions": []}))
        if facts != {key: row[key] for key in ("split", "category") if key in row}:
            problems.add(
                "broken line",
                f"{path}, line {number}: video {id} has another split or category than on line {first}: choose one",
            )
        else:
            row["captions"].append(cells.get("caption", cells.get("text", "")))
    yield from videos.values()


def _json_lines(path: Path, problems: Problems) -> Iterator[tuple[int, Any]]:
    """Each line's value; one that is not JSON is a problem."""
    for number, line in enumerate(_content(path).split(b"\n"), start=1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            problems.add(
                "line that is not UTF-8",
                f"{path}, line {number}: byte {line[error.start]:#04x} at {error.start + 1} is not UTF-8: "
                "save the file as UTF-8",
            )
            continue
        if not text.strip():
            continue
        try:
            yield number, json.loads(text)
        except (ValueError, RecursionError) as error:
            problems.add("broken line", f"{path}, line {number}: not JSON ({error}): fix the line or delete it")


def _video(row: Any, named: tuple[str, ...], where: str, problems: Problems) -> Video | None:
    complaint = _complaint(row, named)
    if complaint:
        problems.add("broken line", f"{where}: {complaint}")
        return None
    captions = []
    for place, caption in enumerate(row["captions"], start=1):
        if not any(letter.isalnum() for letter in caption):
            problems.add("empty caption", f"{where}: caption {place} of video {row['id']} has no words: delete it")
        elif not encodable(caption):
            problems.add("broken line", f"{where}: caption {place} of video {row['id']} holds half a character: fix it")
        else:
            captions.append(caption)
    if not captions:
        problems.add(
            "video without captions", f"{where}: video {row['id']} has no captions: add one or delete the line"
        )
        return None
    return Video(row["id"], row["split"], tuple(captions), _category(row, named), row.get("attributes") or {})


def _complaint(row: Any, named: tuple[str, ...]) -> str | None:
    """What keeps a parsed line from being a video, or None."""
    if not isinstance(row, dict):
        return f'a {_kind(row)}, expected an object {{"id", "split", "captions"}}'
    for key in ("id", "split", "captions"):
        if key not in row:
            near = get_close_matches(key, row, n=1)
            return f'no "{key}"' + (f' (is "{near[0]}" meant?)' if near else "") + ": add it"
    if not isinstance(row["id"], str) or not row["id"].strip() or not encodable(row["id"]):
        return f'"id" is {row["id"]!r}, expected a text such as "clip-001"'
    if row["split"] not in SPLITS:
        return f'"split" of video {row["id"]} is {row["split"]!r}: choose {", ".join(SPLITS)}'
    captions = row["captions"]
    if not isinstance(captions, list) or not all(isinstance(caption, str) for caption in captions):
        return f'"captions" of video {row["id"]} must be a list of texts'
    category = row.get("category")
    if category is not None and (isinstance(category, bool) or not isinstance(category, str | int)):
        return f'"category" of video {row["id"]} is a {_kind(category)}, expected a name or a number'
    if (isinstance(category, str) and category != " ".join(category.split())) or category == "":
        return f'"category" of video {row["id"]} is {category!r}, expected a name on one line without outer spaces'
    if isinstance(category, int) and named and not 0 <= category < len(named):
        return f'"category" of video {row["id"]} is {category}, but {CATEGORIES_FILE} names {len(named)} (from 0)'
    if isinstance(category, str) and named and category not in named:
        near = get_close_matches(category, named, n=1)
        return f'"category" of video {row["id"]} is {category!r}, not in {CATEGORIES_FILE}' + (
            f": is {near[0]!r} meant?" if near else ": add it there"
        )
    if not isinstance(row.get("attributes", {}), dict | None):
        return f'"attributes" of video {row["id"]} must be an object'
    return None


def _kind(value: Any) -> str:
    names = {dict: "object", list: "list", str: "text", bool: "truth value", int: "number", float: "number"}
    return names.get(type(value), "null")


def _category(row: dict[str, Any], named: tuple[str, ...]) -> str | None:
    category = row.get("category")
    if category is None:
        return None
    return named[category] if named and isinstance(category, int) else str(category)


def _read_categories(path: Path) -> tuple[str, ...]:
    try:
        require_file(path)
        names = tuple(line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path} ({error}): one category name per line, UTF-8") from None
    if len(set(names)) != len(names):
        raise UserError(f"{path} names a category twice: keep one of them")
    return names


def _categories_of(videos: Iterable[Video]) -> tuple[str, ...]:
    """Numbers in their order first, then names in the order of the alphabet."""
    found = {video.category for video in videos if video.category is not None}
    return tuple(
        sorted(found, key=lambda name: (0, int(name), "") if name.isdecimal() and len(name) < 20 else (1, 0, name))
    )
