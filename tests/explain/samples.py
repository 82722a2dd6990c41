"""Explanations made by hand, for what is drawn from them."""

from __future__ import annotations

import io
from dataclasses import replace

import torch

from hoca.explain import ExplainedMatrix, ExplainedVideo, GroupWeights, MatrixAxis, Modality, ModelCaption
from hoca.media import Clock, Preview
from hoca.media.preview import Thumbnail

SENTENCE = "a purple triangle is shaking while a loud whistle is heard somewhere in the background"
WORDS = tuple(SENTENCE.split())
STEPS = {"image": 20, "motion": 20, "audio": 16}


def rows(words: int, steps: int) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, torch.softmax(torch.randn(words, steps), 1).tolist()))


def said(words: tuple[str, ...] = WORDS, steps: dict[str, int] = STEPS, seconds: float = 4.0) -> ModelCaption:
    shares = torch.softmax(torch.randn(len(words), len(steps)), 1).T.tolist()
    modalities = []
    for (name, count), share in zip(steps.items(), shares, strict=True):
        members = [(name,), tuple(steps)]
        groups = tuple(GroupWeights(group, 1.0 + place, rows(len(words), count)) for place, group in enumerate(members))
        spans = tuple((i * seconds / count, (i + 1) * seconds / count) for i in range(count))
        modalities.append(Modality(name, tuple(share), rows(len(words), count), groups, spans))
    return ModelCaption("a-model", "attention", " ".join(words), words, -1.5, (("a dog", -2.5),), tuple(modalities), {})


def tagged(caption: ModelCaption | None = None) -> ModelCaption:
    """The same by a model that chooses how to fuse for each word, and finds tags in the video."""
    caption = caption or said()
    shares = torch.softmax(torch.randn(len(caption.words), 4), 1).T.tolist()
    options = dict(zip(["image", "motion", "audio", "all together"], map(tuple, shares), strict=True))
    found = {"tags": (("triangle", 0.9), ("whistle", 0.75), ("<b>dog</b>", 0.25))}
    return replace(caption, choices={"fusion": options}, found=found)


def mapped(caption: ModelCaption | None = None) -> ModelCaption:
    """The same with matrices of all kinds of axes, one of them with numbers below zero."""
    caption = caption or said()
    count, words = len(caption.words), MatrixAxis("words", caption.words)
    before = MatrixAxis("before", ("(start)", *caption.words[:-1]))
    time = MatrixAxis("time", (), caption.modalities[0].spans, caption.modalities[0].name)
    tags = MatrixAxis("names", ("triangle", "<b>dog</b>"))
    influence = tuple(map(tuple, torch.randn(count, 2).tolist()))
    return replace(
        caption,
        matrices={
            "words remembered": ExplainedMatrix(words, before, rows(count, count), "α", "rows"),
            "goals": ExplainedMatrix(words, words, rows(count, count), "cosine", None),
            "steps chosen": ExplainedMatrix(tags, time, rows(2, len(time.spans)), "gain", None),
            "what tags did": ExplainedMatrix(words, tags, influence, "influence", None),
        },
    )


def preview(pictures: int = 20, seconds: float = 4.0, *, sound: bool = True) -> Preview:
    from PIL import Image

    coded = []
    for number in range(pictures):
        buffer = io.BytesIO()
        Image.new("RGB", (64, 48), (12 * number % 256, 80, 160)).save(buffer, "JPEG")
        coded.append(Thumbnail((number + 0.5) * seconds / pictures, buffer.getvalue(), (64, 48)))
    heard = seconds if sound else 0.0
    clock = Clock(
        pictures, seconds, heard, tuple(range(pictures)), tuple(i * seconds / pictures for i in range(pictures))
    )
    return Preview(clock, tuple(coded), (0.5,) * 480 if sound else ())


def explanation(*captions: ModelCaption, video: str = "clip.mp4") -> ExplainedVideo:
    return ExplainedVideo(video, preview(), captions or (said(),))
