"""A captioner that first predicts a code of the video, then lets the code make the weights of its LSTM."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from hoca.models import interface
from hoca.models.config import SIZE, ModelConfig
from hoca.models.interface import CaptionModel, Decoded, TrainingBatch
from hoca.models.parts.factor_lstm import Coded, FactorLSTM
from hoca.models.parts.features import FeatureBatch
from hoca.models.parts.output import TiedScores, WordScores
from hoca.models.parts.pooling import Pooled, SummedVideo
from hoca.models.parts.start import HiddenState, Start, for_rows
from hoca.models.trees import map_tensors
from hoca.options import option
from hoca.text import Vocabulary


@dataclass(frozen=True)
class CodedConfig(ModelConfig):
    encoder: Literal["bilstm", "linear", "none"] = option(
        "bilstm", "encoder of each modality: a BiLSTM before the mean, a linear layer after it, or none"
    )
    factors: int = option(512, "width of the factors of the LSTM's weights", least=1, below=SIZE)
    video: Literal["first", "every"] = option(
        "every", "where the video features enter: at the first step, or at every step"
    )
    tie_words: bool = option(True, "use the word vectors as the output layer")


@dataclass(frozen=True)
class CodedMemory(interface.Memory):
    logits: Tensor  # of the code, [B, K]
    first: Tensor  # the video in place of <bos>, [B, E]
    coded: Coded
    pooled: dict[str, Tensor]  # the video as the cell is given it, [B, D_m]
    present: dict[str, Tensor]  # [B] bool
    start: HiddenState  # each [B, H]


class CodeHead(nn.Module):
    """Pooled modalities → logits of the code: two layers."""

    def __init__(self, config: CodedConfig, widths: Mapping[str, int], code: int) -> None:
        super().__init__()
        self.inner = SummedVideo(widths, config.hidden)
        self.dropout = nn.Dropout(config.dropout)
        self.outer = nn.Linear(config.hidden, code)

    def forward(self, pooled: Mapping[str, Tensor], present: Mapping[str, Tensor]) -> Tensor:
        """pooled[m] [B, D_m], present[m] [B] → [B, K]."""
        return self.outer(self.dropout(torch.tanh(self.inner(pooled, present))))


class CodedCaptioner(CaptionModel):
    """The first input of the LSTM is the video in place of <bos>."""

    Config = CodedConfig
    config: CodedConfig

    def __init__(self, config: CodedConfig, vocabulary: Vocabulary, *, code: int, active: float) -> None:
        super().__init__(config, vocabulary)
        self.pooled = Pooled(config, config.encoder)
        widths = self.pooled.widths
        self.head = CodeHead(config, widths, code)
        self.first = SummedVideo(widths, config.embedding)
        self.start = Start(config)
        self.words = nn.Embedding(len(vocabulary), config.embedding)
        self.cell = FactorLSTM(
            inputs=config.embedding,
            hidden=config.hidden,
            factors=config.factors,
            code=code,
            active=active,
            videos=widths if config.video == "every" else {},
        )
        self.dropout = nn.Dropout(config.dropout)
        if config.tie_words:
            self.output: TiedScores | WordScores = TiedScores(config.hidden, config.embedding, len(vocabulary))
        else:
            self.output = WordScores(config.hidden, len(vocabulary))

    @property
    def embedding(self) -> nn.Embedding:
        return self.words

    @abstractmethod
    def code(self, logits: Tensor) -> Tensor:
        """logits [B, K] → the code that makes the weights."""

    def predicted(self, batch: FeatureBatch, logits: Tensor) -> Tensor:
        """Of which the code is made, [B, K]: the logits, but for a head that makes others in use than in training."""
        return logits

    def encode(
        self, features: Mapping[str, Tensor], lengths: Mapping[str, Tensor], category: Tensor | None = None
    ) -> CodedMemory:
        batch = FeatureBatch.of(self.config, features, lengths)
        pooled = self.pooled(batch)
        logits = self.head(pooled, batch.present)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return CodedMemory(
            logits=logits,
            first=self.first(pooled, batch.present),
            coded=self.cell.coded(self.code(self.predicted(batch, logits)), pooled, batch.present),
            pooled=pooled,
            present=batch.present,
            start=self.start(category, next(iter(batch.features.values()))),
            evidence=self.detect(batch),
        )

    def begin(self, memory: CodedMemory, rows: int) -> HiddenState:
        return for_rows(memory.start, rows)

    def decode(self, memory: CodedMemory, words: Tensor, state: HiddenState) -> Decoded:
        embedded = self.words(words)  # [B, R, L, E]
        begins = (words == self.vocabulary.bos)[..., None]
        inputs = torch.where(begins, memory.first[:, None, None].to(embedded.dtype), embedded)
        hidden, state = self.cell(self.dropout(inputs), memory.coded, state)
        hidden = self.dropout(hidden)
        if isinstance(self.output, TiedScores):
            return Decoded(self.output(hidden, self.words.weight), state, hidden)
        return Decoded(self.output(hidden), state, hidden)

    def influence(self, memory: CodedMemory, words: Tensor) -> Tensor:
        """What each entry of the code did for the word after each of `words` [B, R, L]: [B, R, L, K].

        s_k · ∂ log p / ∂ s_k: by how much, to first order, the word would be less likely without it. The word after
        the last one is the likeliest. After a caption's end there is nothing.
        """
        rows, length = words.shape[1:]
        with torch.inference_mode(False), torch.enable_grad():
            # Of what was made in inference mode, autograd takes copies alone.
            if any(parameter.is_inference() for parameter in self.parameters()):
                return deepcopy(self).influence(memory, words)
            words = words.clone()
            one: CodedMemory = map_tensors(lambda x: x.repeat_interleave(rows, dim=0), memory)  # of each caption
            code = self.code(one.logits).detach().requires_grad_()  # [B·R, K]
            one = replace(one, coded=self.cell.coded(code, one.pooled, one.present))
            logits, _, hidden = self.decode(one, words.flatten(0, 1)[:, None], self.begin(one, 1))  # [B·R, 1, L, ...]
            following = torch.cat([words.flatten(0, 1)[:, 1:], logits[:, 0, -1:].argmax(-1)], dim=1)  # [B·R, L]
            logp = torch.log_softmax(logits, dim=-1).gather(3, following[:, None, :, None])
            (of_hidden,) = torch.autograd.grad(logp.sum(), hidden, retain_graph=True)  # each word's, from its own state
            each = [
                torch.autograd.grad(hidden[:, :, place], code, of_hidden[:, :, place], retain_graph=True)[0]
                for place in range(length)
            ]  # [B·R, K]
            found = (torch.stack(each, dim=1) * code[:, None]).detach().unflatten(0, words.shape[:2])
        said = (words != self.vocabulary.pad) & (words != self.vocabulary.eos)
        return found.masked_fill(~said[..., None], 0.0)

    def per_caption(self, losses: Tensor, batch: TrainingBatch) -> Tensor:
        """The losses of the videos [B], summed over the captions that each has in the batch."""
        captions = (batch.words[:, :, 1:] != self.vocabulary.pad).any(2).sum(1)  # [B]
        return (losses * captions).sum()
