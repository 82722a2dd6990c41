from __future__ import annotations

import pytest
import torch
from torch import Tensor

from hoca.models.parts.attention import AdditiveAttention

MASK = torch.arange(5) < torch.tensor([5, 2, 0, 1])[:, None]  # [B, T]; the third video has nothing


def attention() -> AdditiveAttention:
    return AdditiveAttention(query=6, value=7, attention=8).double()


def inputs(batch: int = 4, queries: int = 3, steps: int = 5) -> tuple[Tensor, Tensor]:
    return torch.randn(batch, queries, 6).double(), torch.randn(batch, steps, 7).double()


def test_it_is_the_formula_over_the_real_steps() -> None:
    module, (queries, values) = attention(), inputs()
    contexts, weights = module(queries, module.project(values), values, MASK)
    assert contexts.shape == (4, 3, 7)
    assert weights.shape == (4, 3, 5)
    w, b, u = module.query.weight, module.query.bias, module.key.weight
    for video, real in ((0, 5), (1, 2), (3, 1)):
        for place in range(3):
            scores = [
                module.channel @ torch.tanh(w @ queries[video, place] + b + u @ step) for step in values[video, :real]
            ]
            alpha = torch.softmax(torch.stack(scores), 0)
            torch.testing.assert_close(weights[video, place, :real], alpha)
            torch.testing.assert_close(contexts[video, place], alpha @ values[video, :real])
    assert (weights.masked_select(~MASK[:, None].expand_as(weights)) == 0).all()


def test_a_video_without_a_real_step_has_weights_and_a_context_of_zero() -> None:
    module, (queries, values) = attention(), inputs()
    contexts, weights = module(queries, module.project(values), values, MASK)
    assert (contexts[2] == 0).all()
    assert (weights[2] == 0).all()
    torch.testing.assert_close(weights.sum(-1), MASK.any(1)[:, None].double().expand(4, 3))


@pytest.mark.parametrize("mask", [MASK, torch.zeros_like(MASK)], ids=["some", "all"])
def test_gradients_are_finite_and_none_reaches_what_is_masked(mask: Tensor) -> None:
    module, (queries, values) = attention(), inputs()
    queries.requires_grad_()
    values.requires_grad_()
    contexts, weights = module(queries, module.project(values), values, mask)
    (contexts.square().sum() + weights.square().sum()).backward()
    for key, parameter in module.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.isfinite().all(), key
    assert queries.grad is not None
    assert values.grad is not None
    assert queries.grad.isfinite().all()
    assert (values.grad[~mask] == 0).all()
    assert (queries.grad[~mask.any(1)] == 0).all()
    assert (values.grad[mask] != 0).any(-1).all()


def test_backends_agree_in_value_and_gradient() -> None:
    module, (queries, values) = attention(), inputs()
    found = []
    for backend in ("reference", "contracted"):
        module.backend = backend
        contexts, weights = module(queries, module.project(values), values, MASK)
        found.append([contexts, weights, *torch.autograd.grad(contexts.cos().sum(), list(module.parameters()))])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def test_in_bf16_it_stays_close_to_float32() -> None:
    module, (queries, values) = attention().float(), inputs()
    queries, values = queries.float(), values.float()
    expected, _ = module(queries, module.project(values), values, MASK)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, _ = module(queries, module.project(values), values, MASK)
    torch.testing.assert_close(found.float(), expected, atol=0.05, rtol=0.05)
