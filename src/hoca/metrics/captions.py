"""Caption files of the usual kinds: COCO annotations and results, MSR-VTT, JSON lines, CSV, plain text."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hoca.errors import UserError
from hoca.files import replacing
from hoca.metrics.evaluator import ALL, Evaluator, Scores
from hoca.tables import is_table, read_table

_ID_KEYS = ("image_id", "video_id", "id", "video", "cocoid")
_TEXT_KEYS = ("caption", "text")
_SPLITS = {"val": "validation", "validate": "validation", "dev": "validation"}  # as MSR-VTT and others call it


@dataclass(frozen=True)
class _Line:
    """One caption of a file."""

    video: str
    caption: str
    split: str | None = None


def read_captions(path: Path, split: str | None = None) -> dict[str, list[str]]:
    """Captions by video id (as text), in the file's order; of a file that states splits, those of one of them.

    JSON: `{"annotations": [{"image_id", "caption"}]}`, a list of such entries, MSR-VTT's `{"sentences": …}`,
    `{"predictions": …}`, or an object from id to caption or captions. JSON lines: an entry per line, `caption` or
    `captions`, such as a dataset's captions.jsonl and what `hoca caption --json` prints: there `video` is a file, and
    its name without the ending is the id. CSV: a header with `id` and `caption`, a caption a row. Text:
    `id<TAB>caption` per line, or `id caption` where no line has a tab.
    """
    return _of_split(path, _lines(path), split)


def write_captions(captions: Mapping[str, str], path: Path) -> None:
    """A caption for each video id, as the file's ending says: .csv, .json (COCO results) or else JSON lines."""
    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8", newline="") as file:
        if is_table(path):
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("id", "caption"))
            writer.writerows(captions.items())
        elif path.suffix.lower() == ".json":
            entries = [{"image_id": id, "caption": text} for id, text in captions.items()]
            file.write(json.dumps(entries, indent=1, ensure_ascii=False) + "\n")
        else:
            for id, text in captions.items():
                file.write(json.dumps({"id": id, "caption": text}, ensure_ascii=False) + "\n")


def score_files(
    references: Path, candidates: Path, metrics: Iterable[str] = ALL, *, split: str | None = None
) -> Scores:
    """Scores of a file of candidates against a file of references.

    split: of files that state splits, such as a dataset's captions.jsonl, the one to score. Ids such as `video7010`,
    `vid1301` and `7010` are the same where that is what makes the two files agree.
    """
    read, said = _lines(references), _lines(candidates)
    if split is not None and all(line.split is None for line in (*read, *said)):
        raise UserError(f"split {split!r}: neither {references} nor {candidates} states splits: leave it out")
    theirs, ours = _of_split(references, read, split), _of_split(candidates, said, split)
    for video, captions in ours.items():
        if len(captions) > 1:
            raise UserError(f"{candidates}: video {video} has {len(captions)} candidates, one is wanted")
    if not set(ours) & set(theirs):
        theirs, ours = _by_number(references, theirs), _by_number(candidates, ours)
    try:
        return Evaluator(theirs).evaluate({video: captions[0] for video, captions in ours.items()}, tuple(metrics))
    except UserError as error:
        several = split is None and len({line.split for line in read}) > 1
        hint = f" ({references} has several splits: choose one with --split)" if several else ""
        raise UserError(f"{candidates} against {references}: {error}{hint}") from error


def _lines(path: Path) -> list[_Line]:
    text = _text(path)
    if not text.strip():
        raise UserError(f"{path} has no captions in it: it is empty")
    if is_table(path):
        return _table(path, text)
    return _json(path, text) if text.lstrip()[0] in "[{" else _plain(path, text)


def _of_split(path: Path, lines: list[_Line], split: str | None) -> dict[str, list[str]]:
    """Video id → captions; of lines that state a split, those of `split`."""
    stated = {line.split for line in lines} - {None}
    if split is not None and stated:
        wanted = _SPLITS.get(split, split)
        if wanted not in stated:
            raise UserError(f"{path} has no split {split!r}: choose {', '.join(sorted(map(str, stated)))}")
        lines = [line for line in lines if line.split == wanted]
    captions: dict[str, list[str]] = {}
    for line in lines:
        captions.setdefault(line.video, []).append(line.caption)
    if not captions:
        raise UserError(f"{path} has no captions in it")
    return captions


def _table(path: Path, text: str) -> list[_Line]:
    found = []
    for number, row in read_table(path, text, ("id", *_ID_KEYS), _TEXT_KEYS):
        found.extend(_entry(path, row, f"line {number}"))
    return found


def _text(path: Path) -> str:
    try:
        return Path(path).read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text (byte {error.start}): save it as UTF-8") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error


def _json(path: Path, text: str) -> list[_Line]:
    try:
        return _entries(path, json.loads(text), "")
    except json.JSONDecodeError as whole:
        lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        found = []
        for number, line in lines:
            try:
                entry = json.loads(line)
            except json.JSONDecodeError:
                if number == lines[0][0]:
                    raise UserError(f"{path} is not valid JSON (line {whole.lineno}: {whole.msg})") from whole
                raise UserError(f"{path}, line {number} is not valid JSON") from whole
            found.extend(_entry(path, entry, f"line {number}"))
        return found


def _entries(path: Path, data: Any, where: str) -> list[_Line]:
    if isinstance(data, dict):
        for key in ("annotations", "sentences", "predictions"):
            if isinstance(data.get(key), list):
                return _entries(path, _with_splits(data[key], data.get("videos")), key)
        if any(key in data for key in _ID_KEYS) and any(key in data for key in (*_TEXT_KEYS, "captions")):
            return _entry(path, data, where)
        return [
            _Line(str(video), _string(path, caption, f"key {video!r}"))
            for video, captions in data.items()
            for caption in (captions if isinstance(captions, list) else [captions])
        ]
    if not isinstance(data, list):
        raise UserError(f"{path} is JSON, but neither a list of captions nor an object that holds one")
    return [
        line for number, entry in enumerate(data) for line in _entry(path, entry, f"{where} entry {number}".strip())
    ]


def _with_splits(entries: list[Any], videos: Any) -> list[Any]:
    """MSR-VTT states the splits in a list of its own."""
    listed = [video for video in videos if isinstance(video, dict)] if isinstance(videos, list) else []
    splits = {str(video.get("video_id")): video["split"] for video in listed if isinstance(video.get("split"), str)}
    return [
        {**entry, "split": splits[str(entry["video_id"])]}
        if isinstance(entry, dict) and str(entry.get("video_id")) in splits
        else entry
        for entry in entries
    ]


def _entry(path: Path, entry: Any, where: str) -> list[_Line]:
    if not isinstance(entry, dict):
        raise UserError(f"{path}, {where}: an object with an id and a caption is wanted, not {type(entry).__name__}")
    key = next((key for key in _ID_KEYS if key in entry), None)
    if key is None:
        raise UserError(f"{path}, {where}: no id (one of {', '.join(_ID_KEYS)})")
    video = Path(str(entry[key])).stem if key == "video" else str(entry[key])
    captions = entry["captions"] if "captions" in entry else [next((entry[k] for k in _TEXT_KEYS if k in entry), None)]
    if not isinstance(captions, list):
        raise UserError(f"{path}, {where}: captions must be a list")
    split = entry.get("split")
    split = _SPLITS.get(split, split) if isinstance(split, str) and split else None
    return [_Line(video, _string(path, caption, where), split) for caption in captions]


def _string(path: Path, caption: Any, where: str) -> str:
    if isinstance(caption, dict) and isinstance(caption.get("caption"), str):
        return str(caption["caption"])
    if not isinstance(caption, str):
        raise UserError(f"{path}, {where}: the caption is {type(caption).__name__}, not text")
    return caption


def _plain(path: Path, text: str) -> list[_Line]:
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    separator = "\t" if any("\t" in line for _, line in lines) else None
    found = []
    for number, line in lines:
        video, *caption = line.split(separator, 1)
        if not caption and separator == "\t":
            raise UserError(f"{path}, line {number}: an id, a tab and a caption are wanted")
        found.append(_Line(video.strip(), caption[0].strip() if caption else ""))
    return found


def _by_number(path: Path, captions: dict[str, list[str]]) -> dict[str, list[str]]:
    """The same with `video7010` or `vid7010` cut down to `7010`."""
    shorter: dict[str, list[str]] = {}
    for video, texts in captions.items():
        number = video.removeprefix("video").removeprefix("vid")
        key = number if number.isdigit() else video
        if key in shorter:
            raise UserError(f"{path}: ids {key} and {video} would be the same video")
        shorter[key] = texts
    return shorter
