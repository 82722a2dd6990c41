"""Caption files of the usual kinds: COCO annotations and results, MSR-VTT, JSON lines, plain text."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hoca.errors import UserError
from hoca.metrics.evaluator import ALL, Evaluator, Scores

_ID_KEYS = ("image_id", "video_id", "id", "video", "cocoid")


def read_captions(path: Path) -> dict[str, list[str]]:
    """Captions by video id (as text), in the file's order.

    JSON: `{"annotations": [{"image_id", "caption"}]}`, a list of such entries, MSR-VTT's `{"sentences": …}`,
    `{"predictions": …}`, or an object from id to caption or captions. JSON lines: an entry per line, `caption` or
    `captions`. Text: `id<TAB>caption` per line, or `id caption` where no line has a tab.
    """
    text = _text(path)
    if not text.strip():
        raise UserError(f"{path} has no captions in it: it is empty")
    first = text.lstrip()[0]
    if first not in "[{":
        pairs = _plain(path, text)
    else:
        pairs = _json(path, text)
    captions: dict[str, list[str]] = {}
    for video, caption in pairs:
        captions.setdefault(video, []).append(caption)
    if not captions:
        raise UserError(f"{path} has no captions in it")
    return captions


def score_files(references: Path, candidates: Path, metrics: Iterable[str] = ALL) -> Scores:
    """Scores of a file of candidates against a file of references.

    A reference file may hold more videos than the candidates only if it is an annotation file of several splits:
    pass the split's own file otherwise. Ids such as `video7010`, `vid1301` and `7010` are the same where that is
    what makes the two files agree.
    """
    theirs = read_captions(references)
    ours = read_captions(candidates)
    for video, captions in ours.items():
        if len(captions) > 1:
            raise UserError(f"{candidates}: video {video} has {len(captions)} candidates, one is wanted")
    if not set(ours) & set(theirs):
        theirs, ours = _by_number(references, theirs), _by_number(candidates, ours)
    try:
        return Evaluator(theirs).evaluate({video: captions[0] for video, captions in ours.items()}, tuple(metrics))
    except UserError as error:
        raise UserError(f"{candidates} against {references}: {error}") from error


def _text(path: Path) -> str:
    try:
        return Path(path).read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text (byte {error.start}): save it as UTF-8") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error


def _json(path: Path, text: str) -> list[tuple[str, str]]:
    try:
        return _entries(path, json.loads(text), "")
    except json.JSONDecodeError as whole:
        lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        pairs = []
        for number, line in lines:
            try:
                entry = json.loads(line)
            except json.JSONDecodeError:
                if number == lines[0][0]:
                    raise UserError(f"{path} is not valid JSON (line {whole.lineno}: {whole.msg})") from whole
                raise UserError(f"{path}, line {number} is not valid JSON") from whole
            pairs.extend(_entry(path, entry, f"line {number}"))
        return pairs


def _entries(path: Path, data: Any, where: str) -> list[tuple[str, str]]:
    if isinstance(data, dict):
        for key in ("annotations", "sentences", "predictions"):
            if isinstance(data.get(key), list):
                return _entries(path, data[key], key)
        if any(key in data for key in _ID_KEYS) and ("caption" in data or "captions" in data):
            return _entry(path, data, where)
        return [
            (str(video), _string(path, caption, f"key {video!r}"))
            for video, captions in data.items()
            for caption in (captions if isinstance(captions, list) else [captions])
        ]
    if not isinstance(data, list):
        raise UserError(f"{path} is JSON, but neither a list of captions nor an object that holds one")
    return [
        pair for number, entry in enumerate(data) for pair in _entry(path, entry, f"{where} entry {number}".strip())
    ]


def _entry(path: Path, entry: Any, where: str) -> list[tuple[str, str]]:
    if not isinstance(entry, dict):
        raise UserError(f"{path}, {where}: an object with an id and a caption is wanted, not {type(entry).__name__}")
    video = next((entry[key] for key in _ID_KEYS if key in entry), None)
    if video is None:
        raise UserError(f"{path}, {where}: no id (one of {', '.join(_ID_KEYS)})")
    captions = entry["captions"] if "captions" in entry else [entry.get("caption")]
    if not isinstance(captions, list):
        raise UserError(f"{path}, {where}: captions must be a list")
    return [(str(video), _string(path, caption, where)) for caption in captions]


def _string(path: Path, caption: Any, where: str) -> str:
    if isinstance(caption, dict) and isinstance(caption.get("caption"), str):
        return str(caption["caption"])
    if not isinstance(caption, str):
        raise UserError(f"{path}, {where}: the caption is {type(caption).__name__}, not text")
    return caption


def _plain(path: Path, text: str) -> list[tuple[str, str]]:
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    separator = "\t" if any("\t" in line for _, line in lines) else None
    pairs = []
    for number, line in lines:
        video, *caption = line.split(separator, 1)
        if not caption and separator == "\t":
            raise UserError(f"{path}, line {number}: an id, a tab and a caption are wanted")
        pairs.append((video.strip(), caption[0].strip() if caption else ""))
    return pairs


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
