"""Video captioning with high-order cross-modal attention.

    import hoca

    with hoca.load() as captioner:  # the model that hoca ships, a run folder or a checkpoint
        caption = captioner.caption("clip.mp4")
        print(caption.text, caption.confidence)

    run = hoca.train("finetune", data="captions.csv", videos="clips", epochs=2)
    captioner = hoca.load(run)

Parts, imported when they are asked for:

    models      captioners by name: models.create, models.names
    features    backbones, extraction, the feature store
    data        datasets, batches, vocabulary
    training    recipes, objectives, the training loop
    recipes     the recipes that come with hoca
    generation  beam search and sampling for any captioner
    metrics     BLEU, ROUGE-L, METEOR, CIDEr
    evaluation  sentences for a split, and their scores
    explain     what each word looked at: reports and figures
    media       decoding of untrusted files
    assets      weights and word lists that are fetched once
    checkpoint  the files of a model
    ops         attention scores and LSTMs, fast and as references
    networks    the backbones' networks
    text        tokenizer and vocabulary
    errors      the exceptions for mistakes a user can make
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hoca.captioning import Caption, Segment, VideoCaptioner, load
    from hoca.training import train

__version__ = "0.1.0"
__all__ = ["Caption", "Segment", "VideoCaptioner", "__version__", "load", "train"]

# OpenMP reads this when torch loads it: a thread that waits for others shall sleep, not take a core to wait in a loop.
# Whoever has decided how threads wait is left in peace, and so is a program that has imported torch already.
if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"} & os.environ.keys():
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"

_PARTS = (
    *("assets", "checkpoint", "data", "errors", "evaluation", "explain", "features", "generation", "media"),
    *("metrics", "models", "networks", "ops", "recipes", "text", "training"),
)


def __getattr__(name: str) -> Any:
    """Parts are imported when asked for, so that `import hoca` is quick and `hoca.metrics` needs no torch."""
    if name in _PARTS:
        return importlib.import_module(f"hoca.{name}")
    if name == "train":
        return importlib.import_module("hoca.training").train
    if name in __all__:
        captioning = importlib.import_module("hoca.captioning")
        captioning.Caption.as_html = _as_html
        return getattr(captioning, name)
    raise AttributeError(f"module 'hoca' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_PARTS, *(name for name in globals() if name.startswith("__"))})


def _as_html(caption: Caption) -> str | None:
    """How a notebook shows a caption: `captioning` itself knows no reports, which are made of captions."""
    return importlib.import_module("hoca.explain").in_notebook(caption)
