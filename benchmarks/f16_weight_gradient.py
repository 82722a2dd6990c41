"""The gradient of exact attention's weights in halves of f16, bf16 and TF32: is it right, and the same every time?

python benchmarks/f16_weight_gradient.py            # a GPU, seconds

With f16 and eight warps it was wrong on an H200, differently in every run. What the rows tell apart:

- numbers that f16 cannot hold: the same wrong result in every run, with four warps too, and right once gradients are 1;
- two groups of four warps that do not wait for each other, around the tensor cores' reads of shared memory: wrong with
  eight warps alone;
- loads that are prefetched: right with one stage.
"""

from __future__ import annotations

import torch
from torch import Tensor
from triton import cdiv, next_power_of_2

from hoca.bench import relative_error
from hoca.ops.fused.powers import make_powers
from hoca.ops.fused.ternary import CHANNELS, _rows
from hoca.ops.fused.ternary_kernels import weight_gradient_kernel

RUNS = 20
SIZES = 25, 30, 80, 512  # videos, words, steps, channels


def gradients(kind: str, warps: int, stages: int, queries: Tensor, keys: Tensor, given: Tensor) -> Tensor:
    """queries [3, B, L, D], keys [3, B, T, D], given [3, B, L, D] → [3, T, T]."""
    _, videos, words, size = queries.shape
    steps = keys.shape[2]
    big, small = _rows((steps,) * 3)
    powers = make_powers(queries.unbind(), keys.unbind(), (), big + small)
    blocks = cdiv(size, CHANNELS)
    parts = given.new_full((blocks * videos, 3, steps, steps), float("nan"))
    weight_gradient_kernel[(blocks, videos, 3)](
        *powers, keys.unbind(), given, parts, (0, 0, 0), (steps,) * 3, words, size, powers[0].shape[3], big + small,
        False, queries.is_cuda, kind, 2 if small else 1, big, small, CHANNELS, steps, next_power_of_2(big + small),
        num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return parts.sum(0)


def expected(queries: Tensor, keys: Tensor, given: Tensor) -> Tensor:
    """∂/∂W_l = Σ (g ∘ X_i) X_j' in float64, a video at a time."""
    total = 0
    for video in range(queries.shape[1]):
        q, k, g = (tensor[:, video].double() for tensor in (queries, keys, given))
        x = torch.tanh(q[:, :, None] + k[:, None])  # [3, L, T, D]
        beside = ((1, 2), (0, 2), (0, 1))
        total += torch.stack([torch.einsum("wd,wsd,wud->su", g[l], x[i], x[j]) for l, (i, j) in enumerate(beside)])
    return total


def main(device: str, sizes: tuple[int, int, int, int] = SIZES, runs: int = RUNS) -> None:
    videos, words, steps, size = sizes
    torch.manual_seed(0)
    queries, drawn = (torch.randn(3, videos, words, size, device=device) for _ in range(2))
    keys = torch.randn(3, videos, steps, size, device=device)
    print("kind  warps  stages  gradients  error     different results")
    for name, given in (("drawn", drawn), ("1", torch.ones_like(drawn)), ("1e-3", 1e-3 * drawn)):
        right = expected(queries, keys, given)
        for kind, warps, stages in (
            *(("f16", 8, 3), ("f16", 8, 1), ("f16", 4, 3), ("bf16", 8, 3), ("bf16", 4, 3)),
            *(("tf32", 8, 3), ("tf32", 4, 3)),
        ):
            found = [gradients(kind, warps, stages, queries, keys, given) for _ in range(runs)]
            error = max(relative_error(each, right) for each in found)
            different = sum(not torch.equal(each, found[0]) for each in found)
            print(f"{kind:5} {warps:5} {stages:7}  {name:9}  {error:<8.2g}  {different} of {runs}")


if __name__ == "__main__":
    if torch.cuda.is_available():
        main("cuda")
    else:
        main("cpu", (2, 3, 20, 70), 2)
