"""An explanation as one HTML file that needs nothing else: no network, no second file."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from hoca.explain.explanation import LABELS, ExplainedMatrix, ExplainedVideo, Modality, ModelCaption
from hoca.files import replacing
from hoca.media.subtitles import clock_time

DIGITS = 5  # of a weight


def write_report(explanation: ExplainedVideo, path: Path) -> None:
    """The report of an explanation as a file."""
    write_page(report(explanation), path)


def write_page(text: str, path: Path) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def report(explanation: ExplainedVideo) -> str:
    """The report as HTML."""
    sentences = "\n".join(
        f"<h1>{html.escape(caption.text)}</h1>" + (f"\n<p>{told}</p>" if (told := sure(caption)) else "")
        for caption in explanation.captions
    )
    return page(
        title=f"{explanation.captions[0].text} · {explanation.video}",
        video=explanation.video,
        facts=_facts(explanation),
        sentences=sentences,
        content=safe_json(content(explanation) | {"labels": LABELS}),
    )


def page(*, title: str, video: str, facts: str, sentences: str, content: str) -> str:
    """The page around a content. Names and words enter it escaped, and nothing but its own script and style may run.

    sentences: HTML, for those who run no script. content: JSON that cannot end the element it stands in.
    """
    style, script = _template("report.css"), _template("report.js")
    return Template(_template("report.html")).substitute(
        policy=f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'",
        title=html.escape(title),
        video=html.escape(video),
        facts=html.escape(facts),
        style=style,
        sentences=sentences,
        data=content,
        script=script,
    )


def _template(name: str) -> str:
    return (files("hoca.explain") / "template" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def safe_json(value: Any) -> str:
    """JSON that cannot end the element it stands in."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _facts(explanation: ExplainedVideo) -> str:
    shown = explanation.preview
    seconds = shown.clock.duration
    length = f"{seconds:.1f} s" if seconds < 60 else clock_time(seconds)
    if not shown.thumbnails:
        return f"{length}, sound alone"
    sound = "with sound" if shown.envelope else "without sound"
    return f"{length}, {shown.clock.frames} frames, {sound}"


def content(explanation: ExplainedVideo) -> dict[str, Any]:
    """What the page's script shows of a clip."""
    clock = explanation.preview.clock
    stays = clock.seen / max(clock.frames, 1)  # seconds that a frame is on screen
    pictures = [
        {
            **{"time": each.time, "middle": round(each.time + stays / 2, 4)},
            "source": "data:image/jpeg;base64," + base64.b64encode(each.jpeg).decode(),
        }
        for each in explanation.preview.thumbnails
    ]
    return {
        "duration": clock.duration,
        "name": Path(explanation.video).stem,
        "thumbnails": pictures,
        "ratio": _ratio(explanation),
        "envelope": explanation.preview.envelope,
        "captions": [_caption(caption) for caption in explanation.captions],
    }


def _ratio(explanation: ExplainedVideo) -> float:
    """Width of a picture by its height."""
    width, height = explanation.preview.thumbnails[0].size if explanation.preview.thumbnails else (16, 9)
    return round(width / height, 4)


def _caption(caption: ModelCaption) -> dict[str, Any]:
    return {
        **{"model": caption.model, "kind": caption.kind, "text": caption.text, "words": caption.words},
        **{"logprob": caption.logprob, "alternatives": caption.alternatives, "absent": caption.absent},
        "scores": [
            [round(part, DIGITS) for part in (each.total, each.likelihood, each.detected)] for each in caption.scores
        ],
        "views": [(each.view, each.text, round(each.logprob_per_word, DIGITS)) for each in caption.views],
        **{"confidence": caption.confidence, "sure": sure(caption), "unsure": caption.unsure},
        "modalities": [_modality(modality) for modality in caption.modalities],
        "choices": {
            what: {option: _short(shares) for option, shares in options.items()}
            for what, options in caption.choices.items()
        },
        "found": {what: [(name, round(p, DIGITS)) for name, p in items] for what, items in caption.found.items()},
        "matrices": {name: _matrix(matrix) for name, matrix in caption.matrices.items()},
    }


def sure(caption: ModelCaption) -> str | None:
    """How sure the model is, in words."""
    if caption.confidence is None:
        return None
    share = f"{100 * caption.confidence:.0f} %"
    return f"unsure ({share})" if caption.unsure else f"confidence {share}"


def _modality(modality: Modality) -> dict[str, Any]:
    return {
        **{"name": modality.name, "spans": modality.spans},
        "share": _short(modality.share),
        "weights": _rounded(modality.weights),
        "groups": [
            {"members": group.members, "theta": group.theta, "weights": _rounded(group.weights)}
            for group in modality.groups
        ],
    }


def _matrix(matrix: ExplainedMatrix) -> dict[str, Any]:
    return {
        **{"rows": vars(matrix.rows), "columns": vars(matrix.columns), "values": _rounded(matrix.values)},
        **{"about": matrix.about, "sums": matrix.sums},
    }


def _rounded(rows: tuple[tuple[float, ...], ...]) -> list[list[float]]:
    return [_short(row) for row in rows]


def _short(row: tuple[float, ...]) -> list[float]:
    return [round(weight, DIGITS) for weight in row]
