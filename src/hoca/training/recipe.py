"""A recipe: everything that decides a run, as one flat table of keys that YAML files and `key=value` arguments fill."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import yaml

from hoca.errors import UserError
from hoca.files import replacing
from hoca.options import COMMAND_LINE, make, read_arguments


def _key(default: Any, about: str) -> Any:
    if isinstance(default, list | dict):
        return field(default_factory=lambda: type(default)(default), metadata={"about": about})
    return field(default=default, metadata={"about": about})


@dataclass(frozen=True)
class Recipe:
    run: str = _key("runs/run", "folder of the run: checkpoints, metrics, curves")
    seed: int = _key(0, "of the initial weights, the order of the data and dropout")

    start: str | None = _key(
        None, "a run, a checkpoint or `default` to begin from: its weights, words and model, but the dropout given here"
    )
    data: str = _key("data/binding", "folder with captions.jsonl and features/")
    videos: str | None = _key(
        None, "videos to take features from first, as `start` wants them; data is a captions file"
    )
    features: str | None = _key(None, "another folder of features than the data's own")
    modalities: list[str] = _key([], "which ones to use, in this order; empty = all that the features have")
    on_problem: Literal["stop", "skip"] = _key("stop", "what to do about broken lines and missing features")
    minimum_count: int = _key(1, "words seen less often in the training captions are <unk>")
    vocabulary: str | None = _key(None, "a vocabulary.json to use in place of the words of the training captions")
    max_words: int = _key(30, "longer captions are cut")
    vectors: str | None = _key(
        None, "word vectors: a word2vec, GloVe or npz file, or an asset; their width replaces `embedding`"
    )
    category_vectors: str | None = _key(None, "vectors that give the start state from the category's name")

    model: str = _key("l-hoca-ubt", "a name that `hoca models` lists")
    orders: list[int] = _key([], "orders of attention; empty = those of the model's name")
    groups: list[list[str]] = _key([], "explicit groups of modalities in place of orders")
    rank: int = _key(1, "K of Low-Rank HOCA")
    merge: Literal["weights", "logits", "mixture"] = _key("weights", "how orders are merged; weights = eq. 19")
    fusion: Literal["hierarchical", "sum"] = _key("hierarchical", "how modalities are fused: eq. 20-23 or eq. 6")
    share_projections: bool = _key(False, "one projection per modality instead of one per modality and group")
    hidden: int = _key(512, "of every LSTM")
    attention: int = _key(512, "size of the common space")
    embedding: int = _key(300, "width of the word vectors")
    dropout: float = _key(0.5, "on the decoder's input and output")
    encoder_dropout: float = _key(0.0, "on features and encodings; the paper has none")
    normalise: bool = _key(False, "layer norm on the features; the paper has none")
    modality_dropout: float = _key(0.0, "chance that a modality of a training video is left out; one always stays")
    step_dropout: float = _key(0.0, "chance that a time step of a training video is left out; one always stays")
    bottleneck: int = _key(0, "width of a layer that factorises the words' scores; 0 = none, as in the paper")
    tie_words: bool = _key(
        False, "words are scored by products with their vectors: a bottleneck as wide as `embedding`"
    )
    max_steps: int = _key(80, "longest input of a modality")
    detects: list[str] = _key(
        [], "modalities whose mean tells of the captions' words, learned first; empty = as `start`"
    )

    batch: int = _key(25, "videos in a global batch")
    captions: int = _key(1, "captions of each video in a batch; 0 = all of them")
    epochs: int = _key(100, "at most")
    learning_rate: float = _key(1e-4, "of Adam")
    schedule: Literal["constant", "cosine"] = _key("constant", "how the learning rate goes on after the warm-up")
    warmup: int = _key(0, "steps over which the learning rate rises from zero")
    weight_decay: float = _key(0.0, "decoupled, as in AdamW")
    objective: Literal["likelihood", "reward"] = _key(
        "likelihood", "eq. 24, or CIDEr-D of the model's own captions beside it"
    )
    samples: int = _key(5, "captions of the model's own for each video when training for reward")
    drawn: Literal["sampled", "beam"] = _key(
        "sampled", "how those are found: by chance, or as the search will find them"
    )
    likelihood: float = _key(0.1, "weight of eq. 24 when training for reward")
    label_smoothing: float = _key(0.0, "share of the target spread over all words")
    gradient_clip: float = _key(0.0, "largest norm of the gradient; 0 = no limit")
    average: float = _key(
        0.0, "decay of a running average of the weights, which is what is validated and kept; 0 = off"
    )
    precision: Literal["float32", "bf16"] = _key("float32", "bf16 = autocast")
    step: Literal["auto", "plain", "captured"] = _key(
        "auto", "captured = as CUDA graphs, one launch per step, which auto does on a GPU"
    )
    device: str = _key("auto", "auto = the GPU if there is one")
    workers: int = _key(0, "processes that prepare batches; 0 = features are kept on the training device")

    patience: int = _key(0, "stop after so many validations without a better CIDEr; 0 = never")
    validate_every: int = _key(1, "epochs between validations")
    checkpoint_every: int = _key(0, "steps between checkpoints within an epoch; 0 = at its end only")

    beam: int = _key(5, "width of the search in evaluation")
    length_penalty: float = _key(0.0, "power of the length that log-probabilities are divided by")
    max_length: int = _key(30, "words in a generated caption, at most")
    no_repeat: int = _key(0, "no sequence of so many words twice; 0 = off")
    evidence: float = _key(0.0, "weight of detected words in the choice among the beam's sentences; needs `detects`")

    def __post_init__(self) -> None:
        for key, least in _LEAST.items():
            if getattr(self, key) < least:
                raise UserError(f"{key}={getattr(self, key)} in the recipe: at least {least} is needed")
        for key in ("dropout", "encoder_dropout", "modality_dropout", "step_dropout", "label_smoothing", "average"):
            if not 0 <= getattr(self, key) < 1:
                raise UserError(f"{key}={getattr(self, key)} in the recipe: must be at least 0 and below 1")

    def model_options(self) -> dict[str, Any]:
        """The keys that `hoca.models.create` takes."""
        options = {key: getattr(self, key) for key in _MODEL_KEYS}
        return options | {key: getattr(self, key) for key in ("orders", "groups", "detects") if getattr(self, key)}

    def write(self, path: Path) -> None:
        """As YAML with a comment per key."""
        with replacing(path) as temporary:
            temporary.write_text("".join(_line(f.name, getattr(self, f.name)) for f in fields(self)), encoding="utf-8")


_LEAST = {
    **dict.fromkeys(("batch", "epochs", "validate_every", "beam", "max_length", "max_words", "minimum_count"), 1),
    **dict.fromkeys(("captions", "warmup", "weight_decay", "gradient_clip", "workers", "patience", "no_repeat"), 0),
    **dict.fromkeys(("learning_rate", "checkpoint_every", "length_penalty", "likelihood", "bottleneck", "evidence"), 0),
    "samples": 2,
}
_MODEL_KEYS = (
    *("rank", "merge", "fusion", "share_projections", "hidden", "attention"),
    *("embedding", "dropout", "encoder_dropout", "normalise", "bottleneck", "tie_words", "max_steps"),
)


def about() -> dict[str, str]:
    """What each key means."""
    return {f.name: f.metadata["about"] for f in fields(Recipe)}


def read_recipe(path: Path, overrides: Iterable[str] = ()) -> Recipe:
    """The recipe in a YAML file, with `key=value` arguments in place of its own values."""
    return make(Recipe, (str(path), _read_yaml(path)), (COMMAND_LINE, read_arguments(overrides)))


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        _require_single_keys(path, text)
        values = yaml.safe_load(text)
    except OSError as error:
        raise UserError(f"the recipe {path} cannot be read ({error.strerror}): give a YAML file") from error
    except UnicodeDecodeError as error:
        raise UserError(f"the recipe {path} is not UTF-8 text: save it as UTF-8") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" at line {mark.line + 1}" if mark else ""
        raise UserError(f"the recipe {path} is not YAML{line}: one `key: value` per line is expected") from error
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise UserError(f"the recipe {path} must be a table of keys: one `key: value` per line")
    return dict(values)


def _require_single_keys(path: Path, text: str) -> None:
    """YAML itself would let the second one win without a word."""
    table = yaml.compose(text, yaml.SafeLoader)
    seen = set()
    for key, _ in table.value if isinstance(table, yaml.MappingNode) else ():
        if key.value in seen:
            raise UserError(f"the recipe {path} has the key {key.value!r} twice: keep one of them")
        seen.add(key.value)


def _line(key: str, value: Any) -> str:
    braced = yaml.safe_dump({key: value}, default_flow_style=True, allow_unicode=True, width=10**6)
    return f"{braced.strip()[1:-1]}  # {about()[key]}\n"
