"""How strong the auxiliary losses are beside the words': neither drowns the other, or is drowned, unseen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from hoca.data import Batch
from hoca.models import Weighted
from hoca.training.objectives import WORDS, CrossEntropy, TeacherForcing
from hoca.training.recipe import Recipe
from hoca.training.state import State
from hoca.training.step import autocast


def gradient_ratios(recipe: Recipe, state: State, batch: Batch) -> dict[str, float]:
    """`ratios` for the given captions of a batch with eq. 24, whatever the objective. The state stays as it is."""
    device, model = state.dist.device, state.model
    objective = CrossEntropy(recipe.train, recipe.search, model.vocabulary, {})
    with torch.random.fork_rng([device] if device.type == "cuda" else []):  # dropout's numbers
        with autocast(recipe.train, state.dist):
            losses = TeacherForcing(model, objective)(batch.to(device))
        found = ratios(losses, [weight for weight in model.parameters() if weight.requires_grad])
    return {f"{name}_gradient_ratio": ratio for name, ratio in found.items()}


def ratios(losses: Mapping[str, Weighted], weights: Sequence[nn.Parameter]) -> dict[str, float]:
    """|∇ auxiliary| / |∇ words| of those weights that both reach; an auxiliary loss that shares none is left out."""
    gradients = {
        name: torch.autograd.grad(each.weight * each.loss, weights, retain_graph=True, allow_unused=True)
        for name, each in losses.items()
        if each.loss.requires_grad
    }
    of_words = gradients.pop(WORDS, [None] * len(weights))
    found = {}
    for name, own in gradients.items():
        shared = [(x, y) for x, y in zip(own, of_words, strict=True) if x is not None and y is not None]
        if shared and (beside := _norm([y for _, y in shared])):
            found[name] = _norm([x for x, _ in shared]) / beside
    return found


def _norm(gradients: Sequence[Tensor]) -> float:
    return float(torch.stack([each.norm() for each in gradients]).norm())
