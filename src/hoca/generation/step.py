"""What every search does at each word."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from hoca.models import CaptionModel, Memory, State


def next_word(model: CaptionModel, memory: Memory, last: Tensor, state: State) -> tuple[Tensor, State]:
    """The last word of each hypothesis [B, W] → log-probabilities of the next [B, W, V], and the state after it."""
    logits, state, _ = model.decode(memory, last[..., None], state)  # [B, W, 1, V]
    dtype = torch.promote_types(logits.dtype, torch.float32)
    return torch.log_softmax(logits.squeeze(2), dim=-1, dtype=dtype), state


@contextmanager
def inference(model: nn.Module) -> Iterator[None]:
    """No gradients and no dropout within the block; the mode of each part of the model is put back after it."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in modes.items():
            module.training = training
