"""The presets of every compared system: `-paper` has the published sizes and optimizer, and both kinds learn."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from hoca import recipes
from hoca.data import Batches
from hoca.distributed import Distributed
from hoca.generation import inference
from hoca.models import create, entry, names
from hoca.text import Vocabulary
from hoca.training import Recipe, read_recipe
from hoca.training.loop import Trainer
from hoca.training.objectives import TeacherForcing, summed
from hoca.training.optimizer import build_optimizer

from .test_recipes import SMALLER_MODEL

SYSTEMS = [name for name in names() if "hoca" not in name and name != "ensemble"]
PAPER = {name: f"{name}-paper" for name in SYSTEMS}
HOUSE = {name: name for name in SYSTEMS}
WORDS = 10_000
Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Published:
    """What a preset has of its publication, or of the code that was read for it."""

    features: dict[str, int]  # widths
    sizes: dict[str, Any]  # options of the model
    shapes: Shapes  # weights that these sizes come to
    train: dict[str, Any]
    beam: int = 5
    longest: int = 30  # words of a caption, where nothing is known
    per_word: bool = False  # sentences are ranked by log-probability per word
    rates: tuple[float, ...] = field(default=())  # of the stages, where they differ


AMSGRAD = {"optimizer": "amsgrad", "batch_size": 200, "weight_decay": 1e-5, "gradient_clip": 5.0}
SA_LSTM: Shapes = {
    "words.weight": (WORDS, 468),
    "attention.image.key.weight": (256, 1536),
    "cell.weight_ih": (4 * 512, 468 + 1536),
    "output.weight": (WORDS, 512),
}
ATTENTION = {"embedding": 468, "hidden": 512, "attention": 256, "encoder": "none"}
PUBLISHED = {
    "sa-lstm": Published({"image": 1536}, ATTENTION | {"feed": "input"}, SA_LSTM, AMSGRAD | {"learning_rate": 5e-5}),
    "recnet-global": Published(
        {"image": 1536},
        ATTENTION | {"reconstruct": "global"},
        SA_LSTM | {"reconstructors.image.lstm.weight_hh_l0": (4 * 1536, 1536)},
        AMSGRAD,
        rates=(5e-5, 2e-5),
    ),
    "recnet-local": Published(
        {"image": 1536},
        ATTENTION | {"reconstruct": "local", "reconstructor_attention": 256},
        SA_LSTM | {"reconstructors.image.cell.weight_hh": (4 * 1536, 1536)},
        AMSGRAD,
        rates=(5e-5, 2e-5),
    ),
    "scn": Published(
        {"image": 2048, "change": 512},
        {"embedding": 300, "hidden": 512, "factors": 512, "tags": 300, "encoder": "none"},
        {"cell.history.a.weight": (4 * 512, 512), "cell.words.b.weight": (4 * 512, 300), "cell.words.c": (4, 512, 512)},
        {"optimizer": "adam", "learning_rate": 2e-4},
        longest=20,
    ),
    "cst": Published(
        {"image": 2048, "motion": 512, "audio": 128},
        {"embedding": 512, "hidden": 512, "encoder": "linear"},
        {"pooled.layers.image.weight": (512, 2048), "history_gates.weight": (4 * 512, 512)},
        {"optimizer": "adam", "batch_size": 64, "captions_per_video": 20, "gradient_clip": 0.25},
        per_word=True,
        rates=(1e-4, 1e-4),
    ),
    "haca": Published(
        {"image": 2048, "audio": 128},
        {
            **{"embedding": 512, "hidden": 512, "high_hidden": 256, "chunk": {"image": 10, "audio": 4}},
            **{"global_hidden": 256, "local_hidden": 1024, "global_context": 512, "local_context": 256},
        },
        {
            "outer.maps.image.weight": (512, 256),
            "inner.maps.image.weight": (256, 1024),
            "inner.cell.recurrent.weight": (4 * 1024, 1024),
        },
        {"optimizer": "adadelta", "learning_rate": 1.0, "batch_size": 64, "gradient_clip": 10.0},
        longest=16,
    ),
    "hrl": Published(
        {"image": 2048},
        {
            **{"embedding": 512, "worker_hidden": 1024, "manager_hidden": 256, "attention": 512},
            **{"goal": 64, "critic_hidden": 128, "discount": 0.95},
        },
        {
            "worker.cell.recurrent.weight": (4 * 1024, 1024),
            "manager.cell.weight_hh": (4 * 256, 256),
            "manager.goal.2.weight": (64, 256),
            "critic.cell.weight_hh": (3 * 128, 128),
        },
        {"optimizer": "adadelta", "batch_size": 64, "gradient_clip": 10.0},
        longest=16,
        rates=(1.0, 1.0, 0.1, 0.1, 0.1, 0.1),
    ),
    "dense-cap": Published(
        {"image": 2048, "motion": 1024, "audio": 128},
        {"embedding": 1024, "hidden": 512, "steps": 16, "lexicon": 6690},
        {"words.weight": (WORDS, 1024), "cell.weight_hh": (4 * 512, 512)},
        {"optimizer": "adam", "learning_rate": 2e-4, "batch_size": 16, "captions_per_video": 10},
        per_word=True,
    ),
    "mm-tgm": Published(
        {"image": 2048, "motion": 1024, "audio": 128},
        {"embedding": 512, "hidden": 512, "topics": 20},
        {"cell.history.a.weight": (4 * 512, 512), "cell.words.b.weight": (4 * 512, 20)},
        {"optimizer": "adam", "learning_rate": 1e-4, "batch_size": 64},
    ),
    "tddf": Published(
        {"image": 4096, "change": 4096},
        {"embedding": 512, "hidden": 512, "attention": 256},
        {"words.weight": (WORDS, 512), "attention.image.query.weight": (256, 512)},
        {"optimizer": "adam", "learning_rate": 1e-4, "batch_size": 64},
    ),
    "lstm-tsa": Published(
        {"image": 4096, "change": 4096},
        {"embedding": 1024, "decoder_hidden": 1024, "attributes": 1000, "encoder": "none"},
        {"cell.weight_hh": (4 * 1024, 1024), "detectors.heads.image.weight": (1000, 4096)},
        {"optimizer": "adam", "learning_rate": 1e-4, "batch_size": 64},
        beam=4,
    ),
}
KINDS = {
    "adam": (torch.optim.Adam, {"amsgrad": False}),
    "amsgrad": (torch.optim.Adam, {"amsgrad": True}),
    "adadelta": (torch.optim.Adadelta, {"rho": 0.9}),
}
every_system = pytest.mark.parametrize("name", SYSTEMS)


def test_every_system_has_both_presets() -> None:
    assert PUBLISHED.keys() == set(SYSTEMS)
    assert {*PAPER.values(), *HOUSE.values()} <= set(recipes.names())
    assert {name for name in recipes.names() if name.endswith("-paper")} == set(PAPER.values())


@every_system
def test_the_paper_preset_builds_at_its_published_sizes(name: str) -> None:
    published, recipe = PUBLISHED[name], read_recipe(PAPER[name])
    assert recipe.model.name == name
    stages = recipe.in_stages()
    for stage in stages:
        with torch.device("meta"):
            model = create(name, published.features, vocabulary(), **stage.model.options)
            optimizer = build_optimizer(stage.train, model)
        assert {key: getattr(model.config, key) for key in published.sizes} == published.sizes
        shapes = {key: tuple(parameter.shape) for key, parameter in model.named_parameters()}
        assert {key: shapes[key] for key in published.shapes} == published.shapes
        assert {key: getattr(stage.train, key) for key in published.train} == published.train
        kind, options = KINDS[stage.train.optimizer]
        assert type(optimizer) is kind
        assert options.items() <= optimizer.defaults.items()
        assert optimizer.defaults["lr"] == stage.train.learning_rate
        assert optimizer.defaults["weight_decay"] == stage.train.weight_decay
        found = (stage.search.beam, stage.search.max_length, stage.search.length_penalty)
        assert found == (published.beam, published.longest, float(published.per_word))
    if published.rates:
        assert tuple(stage.train.learning_rate for stage in stages) == published.rates


def test_what_is_particular_to_one_of_them() -> None:
    """CST's LSTM has no biases; RecNet's weights of the reconstruction; rewards alone in CST and HRL."""
    with torch.device("meta"):
        cst = create("cst", {"image": 8}, vocabulary())
    assert not [key for key, _ in cst.named_parameters() if key.endswith("gates.bias")]
    for name, weight in (("recnet-global", 0.2), ("recnet-local", 0.1)):
        for preset in (PAPER[name], HOUSE[name]):
            stages = read_recipe(preset).in_stages()
            assert [stage.model.options["reconstruction"] for stage in stages] == [0.0, weight]
    for name in ("cst", "hrl"):
        assert read_recipe(PAPER[name]).in_stages()[-1].train.xe_weight == 0.0
    # SCN's tagger sees a video 100 times at most; MSVD has some 40 captions of each, and an epoch is all of them.
    tagger, decoder = (stage.train for stage in read_recipe(PAPER["scn"]).in_stages())
    assert tagger.epochs * 40 / tagger.captions_per_video <= 100
    assert (tagger.batch_size, decoder.batch_size) == (128, 64)


@every_system
def test_the_house_preset_has_what_all_share(name: str) -> None:
    recipe = read_recipe(HOUSE[name])
    assert recipe.model.name == name
    config = entry(name).model.Config.of({"image": 512, "change": 512}, **recipe.model.options)
    assert (config.hidden, config.embedding, config.dropout, recipe.search.beam) == (512, 300, 0.5, 5)
    assert getattr(config, "encoder", "bilstm") == "bilstm"
    assert {stage.train.optimizer for stage in recipe.in_stages()} == {"adamw"}


@pytest.mark.parametrize("preset", [*PAPER.items(), *HOUSE.items()], ids=lambda preset: f"{preset[0]} of {preset[1]}")
def test_a_small_one_learns_in_every_stage(tiny_data: Path, tmp_path: Path, preset: tuple[str, str]) -> None:
    """Several updates: what is trained changes and nothing else does, and what was learned from is likelier then."""
    recipe = small(preset, tiny_data, tmp_path / "run")
    for stage in recipe.in_stages():
        trainer = Trainer(stage, Distributed(0, 1, torch.device("cpu")), resume=False)
        before = {key: p.detach().clone() for key, p in trainer.state.model.named_parameters()}
        words = stage.train.objective in ("xe", "wxe")  # a reward is earned by chance
        expected = loss(trainer) if words else None
        trainer.fit()
        assert trainer.state.progress.step >= 4
        changed = set()
        for key, parameter in trainer.state.model.named_parameters():
            assert parameter.isfinite().all(), (stage.run, key)
            if not torch.equal(parameter, before[key]):
                assert parameter.requires_grad, (stage.run, key)
                changed.add(key)
        assert changed, stage.run
        if expected is not None:
            assert loss(trainer) < expected, stage.run


def small(preset: tuple[str, str], data: Path, run: Path) -> Recipe:
    """The preset with its own optimizer, rates and stages, of a small model, on another dataset."""
    name, recipe = preset
    known = entry(name).model.Config.options()
    sizes = {f"model.{key}": value for key, value in SMALLER_MODEL.items() if key in known}
    changes = {"batch_size": 8, "captions_per_video": 1, "epochs": 1, "min_count": 1, "device": "cpu"}
    also = {"model": name, "data": str(data), "modalities": ["image", "audio"], "run": str(run), "max_steps": 20}
    if "chunk" in known:
        sizes["model.chunk"] = {"image": 2, "audio": 2}
    return read_recipe(recipe, sizes | changes | also | {"validate_every": 1000, "word_vectors": None})


def loss(trainer: Trainer) -> float:
    """Of all training captions, per caption and without dropout."""
    objective, model = trainer.step.objective, trainer.state.model
    options = {"weights": objective.caption_weights(), "targets": model.targets}
    (batch,) = Batches(trainer.dataset, "train", trainer.vocabulary, batch_size=1000, **options)
    with inference(model):
        return float(summed(TeacherForcing(model, objective)(batch)) / batch.global_caption_count)


def vocabulary() -> Vocabulary:
    special = len(Vocabulary([]))
    return Vocabulary([f"w{number}" for number in range(WORDS - special)])
