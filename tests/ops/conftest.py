"""Random groups of modalities, and the three kinds of scores over them as one call."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace

import pytest
import torch
from torch import Tensor

from hoca import ops

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when the kernels are imported, which `hoca.ops` does on demand

USES = {
    "unary": ("queries", "keys", "channels"),
    "exact": ("queries", "keys", "weights"),
    "low_rank": ("queries", "keys", "factors", "channels"),
}


@dataclass
class Group:
    queries: list[Tensor]
    keys: list[Tensor]
    weights: list[Tensor]
    factors: list[Tensor]
    channels: list[Tensor]
    masks: list[Tensor] | None

    def scores(self, kind: str, backend: str = "auto") -> list[Tensor]:
        if kind == "exact":
            return ops.exact_scores(self.queries, self.keys, self.weights, self.masks, backend=backend)
        if kind == "low_rank":
            return ops.low_rank_scores(
                self.queries, self.keys, self.factors, self.channels, self.masks, backend=backend
            )
        modalities = zip(self.queries, self.keys, self.channels, self.masks or [None] * len(self.keys), strict=True)
        return [ops.unary_scores(*modality, backend=backend) for modality in modalities]

    def inputs(self, kind: str) -> dict[str, Tensor]:
        """Each tensor that this kind of scores has a gradient for, by name."""
        return {f"{name}[{i}]": tensor for name in USES[kind] for i, tensor in enumerate(getattr(self, name))}

    def gradients(self, kind: str, backend: str = "auto") -> dict[str, Tensor]:
        """The gradient of a fixed, uneven weighting of all real scores, by name of the input."""
        return self.both(kind, backend)[1]

    def both(self, kind: str, backend: str = "auto") -> tuple[list[Tensor], dict[str, Tensor]]:
        """Scores, and the gradients of the same pass."""
        inputs, scores = self.inputs(kind), self.scores(kind, backend)
        # Of one modality, the factors are not used: their gradient is zero.
        gradients = torch.autograd.grad(weigh(scores), list(inputs.values()), materialize_grads=True)
        return scores, dict(zip(inputs, gradients, strict=True))

    def to(self, dtype: torch.dtype) -> Group:
        return self.map(lambda tensor: tensor.detach().to(dtype).requires_grad_())

    def map(self, change: Callable[[Tensor], Tensor]) -> Group:
        """A copy with each floating-point tensor changed."""
        names = [field.name for field in fields(self) if field.name != "masks"]
        return replace(self, **{name: [change(tensor) for tensor in getattr(self, name)] for name in names})

    def permuted(self, order: Sequence[int]) -> Group:
        """The same modalities in another order: the weights' axes move with them."""
        weights = []
        for l in order:
            axes = [j - (j > l) for j in order if j != l]
            weights.append(self.weights[l].permute(axes))
        moved = {
            name: [getattr(self, name)[i] for i in order]
            for name in ("queries", "keys", "factors", "channels", "masks")
        }
        return Group(weights=weights, **moved)


def weigh(scores: Sequence[Tensor]) -> Tensor:
    """A scalar in which every score counts differently; padded steps (-inf) don't count, a NaN would show."""
    total = torch.zeros((), dtype=torch.float64, device=scores[0].device)
    for s in scores:
        uneven = torch.linspace(-1.0, 2.0, s.numel(), dtype=torch.float64, device=s.device).reshape(s.shape).cos()
        total = total + (s.masked_fill(s == float("-inf"), 0.0) * uneven).sum()
    return total


def random_group(
    steps: Sequence[int],
    *,
    batch: int = 2,
    words: int = 3,
    size: int = 5,
    rank: int = 2,
    lengths: Sequence[Sequence[int]] | None = None,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
) -> Group:
    """lengths[i][b]: real steps of modality i in video b (all of them where lengths is None, without a mask)."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=dtype).requires_grad_()

    masks = None
    if lengths is not None:
        masks = [torch.arange(t) < torch.tensor(length)[:, None] for t, length in zip(steps, lengths, strict=True)]
    return Group(
        queries=[normal(batch, words, size) for _ in steps],
        keys=[normal(batch, t, size) for t in steps],
        weights=[normal(*steps[:l], *steps[l + 1 :]) for l in range(len(steps))],
        factors=[normal(rank, t) for t in steps],
        channels=[normal(size) for _ in steps],
        masks=masks,
    )


@pytest.fixture(scope="session")
def make_group() -> Callable[..., Group]:
    return random_group


@pytest.fixture(scope="session")
def weighing() -> Callable[[Sequence[Tensor]], Tensor]:
    return weigh


@pytest.fixture(autouse=True)
def _unwritten_memory_is_nan() -> Iterator[None]:
    """torch.empty comes filled with NaN: an element that a backend forgets to write shows."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)
