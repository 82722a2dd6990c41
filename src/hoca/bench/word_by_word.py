"""The training step as papers describe it: one word after the other, each with its own attention."""

from __future__ import annotations

import torch

from hoca.bench.workload import set_backend
from hoca.data import Batch
from hoca.models import Decoded, Weighted
from hoca.training.objectives import WORDS, Objective, reported, summed
from hoca.training.optimizer import set_rate
from hoca.training.recipe import TrainSection
from hoca.training.state import State
from hoca.training.step import Losses


class WordByWordStep:
    """Exact attention forms the tensor C_n of every word (eq. 7-9); low-rank attention follows eq. 14-17."""

    def __init__(self, settings: TrainSection, state: State, objective: Objective) -> None:
        self.settings, self.state, self.objective = settings, state, objective
        exact = getattr(state.model.config, "form", "") == "exact"
        set_backend(state.model, "reference" if exact else "contracted")
        for module in state.model.modules():
            if hasattr(module, "alignment"):
                module.alignment = 1  # type: ignore[assignment]  # or every word would keep a copy of the output layer

    def __call__(self, batch: Batch, rate: float) -> Losses:
        model, optimizer = self.state.model, self.state.optimizer
        set_rate(optimizer, rate)
        batch = batch.to(self.state.dist.device)
        memory = model.encode(batch.features, batch.lengths, batch.category)
        state, words_loss = model.begin(memory, batch.words.shape[1]), torch.zeros((), device=self.state.dist.device)
        logits, hidden = [], []
        for place in range(batch.words.shape[2] - 1):
            words = batch.words[:, :, place : place + 2]  # the word before, and the one to predict
            found, state, of_word = model.decode(memory, words[:, :, :1], state)
            words_loss = words_loss + self.objective.loss(found, words[:, :, 1:])
            logits.append(found)
            hidden.append(of_word)
        decoded = Decoded(torch.cat(logits, dim=2), state, torch.cat(hidden, dim=2))
        losses = {WORDS: Weighted(1.0, words_loss), **model.losses(memory, batch, decoded)}
        optimizer.zero_grad(set_to_none=True)
        (summed(losses) / batch.global_caption_count).backward()
        optimizer.step()
        return reported(losses)
