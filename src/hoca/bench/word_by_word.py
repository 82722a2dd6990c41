"""The training step as the paper's own description reads: one word after the other, each with its own attention."""

from __future__ import annotations

import torch
from torch import Tensor

from hoca.data import Batch
from hoca.training.objective import caption_loss
from hoca.training.recipe import Recipe
from hoca.training.state import State
from hoca.training.step import set_rate


class WordByWordStep:
    """Exact attention forms the tensor C_n of every word (eq. 7-9); low-rank attention follows eq. 14-17."""

    def __init__(self, recipe: Recipe, state: State, pad: int) -> None:
        self.recipe, self.state, self.pad = recipe, state, pad
        exact = state.model.config.form == "exact"
        state.model.attention.backend = "reference" if exact else "contracted"
        state.model.output.alignment = 1  # or every word would keep a copy of the output layer

    def __call__(self, batch: Batch, rate: float) -> Tensor:
        model, optimizer = self.state.model, self.state.optimizer
        set_rate(optimizer, rate)
        batch = batch.to(self.state.here.device)
        memory = model.encode(batch.features, batch.lengths, batch.category)
        state, summed = None, torch.zeros((), device=self.state.here.device)
        for place in range(batch.words.shape[2] - 1):
            words = batch.words[:, :, place : place + 2]  # the word before, and the one to predict
            logits, state = model.decode(memory, words[:, :, :1], state)
            summed = summed + caption_loss(logits, words, self.pad, self.recipe.label_smoothing)
        optimizer.zero_grad(set_to_none=True)
        (summed / batch.global_caption_count).backward()
        optimizer.step()
        return summed.detach()
