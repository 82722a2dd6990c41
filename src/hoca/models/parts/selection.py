"""The steps of a video that tell most: greedy maximisation of a monotone submodular function.

    f(A) = Σ_w max_{i ∈ A} p_iw + coverage · Σ_j max_{i ∈ A} max(0, cos(V_i, V_j)) + novelty · Σ_{i ∈ A} KL(p_i ‖ q)

Chosen steps show many words, stand for all the others, and differ from what was told before (q). Greedy choice reaches
at least 1 - 1/e of the best value. `greedy` looks at every step in every round, for all videos at once and without the
host; `celf` computes a gain again only where it may still be the largest (Leskovec et al., 2007). They choose the same.
"""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

SMALL = 1e-8  # added to probabilities before their logarithm


class Gains(NamedTuple):
    """f as one sum of maxima and one of single steps."""

    shared: Tensor  # [B, T, F]: Σ_k max_{i ∈ A} of it
    single: Tensor  # [B, T]: Σ_{i ∈ A} of it


class Selection(NamedTuple):
    chosen: Tensor  # [B, T] bool
    gained: Tensor  # [B, T], what each step added to f when it was chosen, 0 where it was not


@torch.no_grad()
def select(
    p: Tensor, values: Tensor, real: Tensor, count: int, *, coverage: float, novelty: float, told: Tensor | None = None
) -> Selection:
    """Which `count` steps of each video to take, all real ones where there are no more.

    p [B, T, W]: of the words in each step; values [B, T, D]; real [B, T]; told [B, W]: words told before, if any were.
    """
    gains = gains_of(p, values, real, coverage=coverage, novelty=novelty, told=told)
    if p.is_cuda:
        return greedy(gains, real, count)
    shared, single, here = (x.numpy() for x in (*gains, real))
    chosen, gained = np.zeros_like(here), np.zeros_like(single)
    for row in range(len(here)):
        found = celf(shared[row], single[row], here[row], count)
        chosen[row, list(found)], gained[row, list(found)] = True, list(found.values())
    return Selection(torch.from_numpy(chosen), torch.from_numpy(gained))


def gains_of(
    p: Tensor, values: Tensor, real: Tensor, *, coverage: float, novelty: float, told: Tensor | None = None
) -> Gains:
    padded = ~real[..., None]
    with torch.autocast(p.device.type, enabled=False):
        dtype = torch.promote_types(p.dtype, torch.float32)
        p, values = (x.to(dtype).masked_fill(padded, 0.0) for x in (p, values))
        unit = F.normalize(values, dim=-1)
        alike = (unit @ unit.transpose(1, 2)).clamp(min=0)  # [B, T, T]
        single = p.new_zeros(p.shape[:2])
        if told is not None:
            q = distribution(told.to(dtype))[:, None]
            single = (distribution(p) * (distribution(p) / q).log()).sum(-1).clamp(min=0)
    return Gains(torch.cat([p, coverage * alike], dim=-1), novelty * single)


def distribution(p: Tensor) -> Tensor:
    """[..., W] → the same with a sum of one."""
    return (p + SMALL) / (p + SMALL).sum(-1, keepdim=True)


def greedy(gains: Gains, real: Tensor, count: int) -> Selection:
    """real [B, T]. Of equal steps the first is taken."""
    free, chosen, all_gained = real, torch.zeros_like(real), torch.zeros_like(gains.single)
    told = gains.shared.new_zeros(gains.shared.shape[0], 1, gains.shared.shape[2])  # [B, 1, F]
    places = torch.arange(real.shape[1], device=real.device)
    for _ in range(min(count, real.shape[1])):
        gained = F.relu(gains.shared - told).sum(-1) + gains.single  # [B, T]
        best = gained.masked_fill(~free, float("-inf")).argmax(1, keepdim=True)  # [B, 1]
        taken = (places == best) & free  # nothing, where no step is free
        told = torch.maximum(told, gains.shared.masked_fill(~taken[..., None], 0.0).amax(1, keepdim=True))
        free, chosen = free & ~taken, chosen | taken
        all_gained = torch.where(taken, gained, all_gained)
    return Selection(chosen, all_gained)


def celf(shared: NDArray[Any], single: NDArray[Any], real: NDArray[np.bool_], count: int) -> dict[int, float]:
    """One video: shared [T, F], single [T], real [T] → the steps as they are chosen, each with what it adds."""
    told = np.zeros_like(shared[0])
    firsts = np.maximum(shared, 0.0).sum(-1) + single
    heap = [(-float(firsts[step]), int(step), 0) for step in np.flatnonzero(real)]
    heapq.heapify(heap)
    chosen: dict[int, float] = {}
    while heap and len(chosen) < count:
        less, step, known = heapq.heappop(heap)
        if known < len(chosen):  # gains only fall: this one's bound may no longer be reached
            gain = float(np.maximum(shared[step] - told, 0.0).sum() + single[step])
            heapq.heappush(heap, (-gain, step, len(chosen)))
            continue
        chosen[step] = -less
        np.maximum(told, shared[step], out=told)
    return chosen
