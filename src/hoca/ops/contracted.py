"""The same scores without the order-n tensor: each sum is taken as soon as it can be (plain torch).

Σ W∘C over all steps but r_l is Σ_d X_l[r_l, d] · G_l[d], and G_l needs one modality at a time:
for a low-rank W it is a product of K pooled vectors (eq. 14-16), for a full W a chain of contractions.
The largest tensor is X [B, L, T, D]; words are worked through in chunks when that would pass the workspace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import ceil, prod

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

MAPPED = 3  # copies of X [B, L, T, D] alive at once: itself, its gradient, that of its argument
_workspace_bytes: int | None = None  # None: 2 GiB, or an eighth of a GPU's memory


@contextmanager
def workspace(limit: int) -> Iterator[None]:
    """Within the block, work through the words in chunks whose intermediate tensors take at most `limit` bytes.

    Forward and backward are meant, without the scores and the gradients themselves; one word is the smallest chunk.
    """
    global _workspace_bytes
    before, _workspace_bytes = _workspace_bytes, limit
    try:
        yield
    finally:
        _workspace_bytes = before


def unary_scores(query: Tensor, key: Tensor, channel: Tensor, mask: Tensor | None) -> Tensor:
    def scores(queries: Sequence[Tensor]) -> list[Tensor]:
        return [_features(queries[0], key, mask) @ channel]  # eq. 3

    return _pad(_in_chunks(scores, [query], elements_per_word=MAPPED * key.numel()), [mask])[0]


def exact_scores(
    queries: Sequence[Tensor], keys: Sequence[Tensor], weights: Sequence[Tensor], masks: Sequence[Tensor | None]
) -> list[Tensor]:
    def scores(queries: Sequence[Tensor]) -> list[Tensor]:
        mapped = [_features(q, k, mask) for q, k, mask in zip(queries, keys, masks, strict=True)]
        summed = [_real(x, mask) for x, mask in zip(mapped, masks, strict=True)]
        return [
            _inner(x, _contract(weights[l], [y for i, y in enumerate(summed) if i != l])) for l, x in enumerate(mapped)
        ]

    batch, _, size = keys[0].shape
    steps = [key.shape[1] for key in keys]
    rows = MAPPED * sum(steps)
    for l in range(len(steps)):
        *rest, last = sorted([1, *steps[:l], *steps[l + 1 :]])
        rows += last + 2 * prod(rest)  # X turned for the product with W; the first partial sum and its product
    return _pad(_in_chunks(scores, queries, elements_per_word=batch * size * rows), masks)


def low_rank_scores(
    queries: Sequence[Tensor],
    keys: Sequence[Tensor],
    factors: Sequence[Tensor],
    channels: Sequence[Tensor],
    masks: Sequence[Tensor | None],
) -> list[Tensor]:
    real = [
        f[None] if mask is None else f * mask[:, None].to(f.dtype)  # [B or 1, K, T_i]: no padded step is pooled
        for f, mask in zip(factors, masks, strict=True)
    ]

    def scores(queries: Sequence[Tensor]) -> list[Tensor]:
        mapped = [_features(q, k, mask) for q, k, mask in zip(queries, keys, masks, strict=True)]
        pooled = [f[:, None] @ x for f, x in zip(real, mapped, strict=True)]  # eq. 14: I'_i [B, L, K, D]
        return [
            _inner(x, channel * others.sum(2))  # eq. 16 (B_l), 17
            for x, channel, others in zip(mapped, channels, _leave_one_out(pooled), strict=True)
        ]

    rank = factors[0].shape[0]
    elements = MAPPED * sum(key.numel() for key in keys)
    # Rank times over, per modality: the factors spread over the words, and what _leave_one_out multiplies.
    elements += sum(rank * key.shape[0] * (key.shape[1] + 6 * key.shape[2]) for key in keys)
    return _pad(_in_chunks(scores, queries, elements), masks)


def _features(query: Tensor, key: Tensor, mask: Tensor | None) -> Tensor:
    """tanh(query + key) [B, L, T, D]; what a caller left in the padding (NaN even) is not looked at."""
    if mask is not None:
        key = key.masked_fill(~mask[:, :, None], 0.0)
    return (query[:, :, None] + key[:, None]).tanh_()


def _real(mapped: Tensor, mask: Tensor | None) -> Tensor:
    return mapped if mask is None else mapped * mask[:, None, :, None].to(mapped.dtype)


def _contract(weight: Tensor, others: Sequence[Tensor]) -> Tensor:
    """Σ over all steps of W[r_1, ..., r_m] · Π X_i[r_i, d], [B, L, D] (a scalar W of no modality is itself)."""
    if not others:
        return weight
    order = sorted(range(len(others)), key=lambda i: others[i].shape[2])  # the longest goes first, from the end
    *rest, last = (others[i] for i in order)
    weight = weight.permute(order).reshape(prod(x.shape[2] for x in rest), last.shape[2])  # [Π T_rest, T_last]
    summed = weight @ last  # [B, L, Π T_rest, D]
    while rest:
        last = rest.pop()
        sizes = prod(x.shape[2] for x in rest), last.shape[2]
        summed = summed.unflatten(2, sizes)  # [B, L, Π T_rest, T_last, D]
        summed = (summed * last[:, :, None]).sum(3)
    return summed.squeeze(2)


def _leave_one_out(factors: Sequence[Tensor]) -> list[Tensor]:
    """The product of all tensors but the l-th, for each l, without division."""
    ones = torch.ones_like(factors[0])
    before, after = [ones], [ones]
    for left, right in zip(factors[:-1], reversed(factors[1:]), strict=True):
        before.append(before[-1] * left)
        after.append(after[-1] * right)
    return [b * a for b, a in zip(before, reversed(after), strict=True)]


def _inner(mapped: Tensor, vector: Tensor) -> Tensor:
    """Σ_d X[r, d] · v[d]: [B, L, T, D], [B, L, D] or a scalar → [B, L, T]."""
    if vector.dim() == 0:
        return vector * mapped.sum(3)
    return (mapped @ vector[..., None]).squeeze(3)


def _in_chunks(
    scores: Callable[[Sequence[Tensor]], list[Tensor]], queries: Sequence[Tensor], elements_per_word: int
) -> list[Tensor]:
    """Apply `scores` to as many words at a time as the workspace holds.

    Several chunks are recomputed one by one in the backward pass: kept, they would together need the memory that
    chunking is there to avoid.
    """
    words = queries[0].shape[1]
    at_most = max(1, int(_limit(queries[0]) // max(1, elements_per_word * queries[0].element_size())))
    if at_most >= words:
        return scores(queries)
    chunk = ceil(words / ceil(words / at_most))  # as many chunks, of even size
    parts = [
        checkpoint(scores, part, use_reentrant=False, preserve_rng_state=False)
        if torch.is_grad_enabled()
        else scores(part)
        for part in zip(*(q.split(chunk, dim=1) for q in queries), strict=True)
    ]
    return [torch.cat(part, dim=1) for part in zip(*parts, strict=True)]


def _limit(query: Tensor) -> int:
    if _workspace_bytes is None and query.is_cuda:
        return torch.cuda.get_device_properties(query.device).total_memory // 8
    return 2 << 30 if _workspace_bytes is None else _workspace_bytes


def _pad(scores: Sequence[Tensor], masks: Sequence[Tensor | None]) -> list[Tensor]:
    return [
        s if mask is None else s.masked_fill(~mask[:, None], float("-inf"))
        for s, mask in zip(scores, masks, strict=True)
    ]
