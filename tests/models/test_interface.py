"""A captioner written for the test: what the rest of hoca needs of one is the interface, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import hoca.models.registry as registry
from hoca.checkpoint import load_model
from hoca.errors import UserError
from hoca.models import CaptionModel, Decoded, Memory, ModelConfig, Weighted, create, register
from hoca.models.parts.features import FeatureBatch
from hoca.options import option
from hoca.text import Vocabulary
from hoca.training import train
from hoca.training.report import evaluate

from ..training.tiny import rows, write_dataset


@dataclass(frozen=True)
class BagConfig(ModelConfig):
    tags: int = option(3, "words that the mean of the features must tell", least=1)


@dataclass(frozen=True)
class BagMemory(Memory):
    mean: Tensor  # [B, H]


class Bag(CaptionModel):
    """The mean of the features and the last word decide the next one; it must also tell the most frequent words."""

    Config = BagConfig
    tags: Tensor

    def __init__(self, config: Any, vocabulary: Any) -> None:
        super().__init__(config, vocabulary)
        self.words = nn.Embedding(len(vocabulary), config.hidden)
        self.maps = nn.ModuleDict({m: nn.Linear(width, config.hidden) for m, width in config.modalities.items()})
        self.output = nn.Linear(config.hidden, len(vocabulary))
        self.tagger = nn.Linear(config.hidden, config.tags)
        self.register_buffer("tags", torch.zeros(config.tags, dtype=torch.long))

    @property
    def embedding(self) -> nn.Embedding:
        return self.words

    def prepare(self, references: Sequence[Sequence[str]]) -> None:
        counts = torch.bincount(
            torch.tensor([id for captions in references for text in captions for id in self.vocabulary.encode(text)]),
            minlength=len(self.vocabulary),
        )
        counts[: self.vocabulary.unk + 1] = 0
        self.tags.copy_(counts.topk(self.config.tags).indices)

    def targets(self, references: Sequence[str]) -> dict[str, Tensor]:
        said = {id for text in references for id in self.vocabulary.encode(text)}
        return {"tags": torch.tensor([float(tag in said) for tag in self.tags.tolist()])}

    def encode(
        self, features: Mapping[str, Tensor], lengths: Mapping[str, Tensor], category: Tensor | None = None
    ) -> BagMemory:
        batch = FeatureBatch.of(self.config, features, lengths)
        mean = torch.zeros(())
        for m, x in batch.features.items():
            real = batch.masks[m][..., None]
            mapped = self.maps[m](x.masked_fill(~real, 0.0)) * real
            mean = mean + mapped.sum(1) / real.sum(1).clamp(min=1)
        return BagMemory(mean=torch.tanh(mean), evidence=self.detect(batch))

    def begin(self, memory: BagMemory, rows: int) -> dict[str, Tensor]:
        return {"said": memory.mean.new_zeros(len(memory.mean), rows, 1)}

    def decode(self, memory: BagMemory, words: Tensor, state: dict[str, Tensor]) -> Decoded:
        said = state["said"] + torch.arange(1, words.shape[2] + 1)  # [B, R, L]
        hidden = torch.tanh(self.words(words) + memory.mean[:, None, None] + 0.3 * said[..., None])
        return Decoded(self.output(hidden), {"said": said[:, :, -1:]}, hidden)

    def losses(self, memory: BagMemory, batch: Any, decoded: Decoded) -> dict[str, Weighted]:
        loss = nn.functional.binary_cross_entropy_with_logits(
            self.tagger(memory.mean), batch.targets["tags"], reduction="none"
        )
        captions = (batch.words[:, :, 1] != self.vocabulary.pad).sum(1)  # [B]
        return {"tags": Weighted(0.5, (loss.sum(1) * captions).sum())}


@pytest.fixture
def bag(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    register("bag", source="this test", about="a bag of features")(Bag)
    return "bag"


@pytest.mark.parametrize("objective", ["xe", "wxe", "scst-loo", "beam-reward"])
def test_a_model_of_ones_own_trains_resumes_and_captions(bag: str, objective: str, tmp_path: Path) -> None:
    data = write_dataset(tmp_path / "data")
    keys: dict[str, Any] = {"model": bag, "hidden": 16, "learning_rate": 0.02, "max_length": 8, "objective": objective}
    recipe = tiny_for(data, tmp_path / "run", **keys, epochs=2, samples=2)
    train(recipe)
    train(tiny_for(data, tmp_path / "run", **keys, epochs=3, samples=2), resume=True)
    assert [row["epoch"] for row in rows(tmp_path / "run")] == ["1", "2", "3"]
    assert all(float(row["tags"]) > 0 and float(row["words"]) != 0 for row in rows(tmp_path / "run"))
    loaded = load_model(tmp_path / "run")
    assert isinstance(loaded.model, Bag)
    assert loaded.model.tags.min() > loaded.model.vocabulary.unk  # what was prepared is in the checkpoint
    assert set(evaluate(tmp_path / "run", metrics=("BLEU-4", "CIDEr")).corpus) >= {"CIDEr"}


def tiny_for(data: Path, run: Path, **keys: Any) -> Any:
    """As `tiny`, without the options that the model has not."""
    from hoca.training import Recipe
    from hoca.training.recipe import nested

    values = {"data": str(data), "run": str(run), "embedding": 8, "max_steps": 20, "device": "cpu", "beam": 2}
    values |= {"batch_size": 6, "captions_per_video": 0}
    return Recipe.of(nested(values | keys, Recipe()))


def test_a_model_without_a_bias_of_its_output_says_so() -> None:
    model = create("hoca-u", {"image": 4}, Vocabulary(["a", "dog"]), hidden=4, attention=4)
    model.output = nn.Linear(4, 6, bias=False)
    with pytest.raises(UserError, match="leave unigram_bias out"):
        model.set_word_frequencies(torch.full((6,), 1 / 6))
