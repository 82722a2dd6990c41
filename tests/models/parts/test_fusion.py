from __future__ import annotations

import pytest
import torch

from hoca.models.parts.fusion import fusion

SIZES = {"hidden": 8, "context": 16, "attention": 6}
PRESENT = torch.tensor([[True, True, True], [False, True, True], [False, False, True]])


@pytest.mark.parametrize("kind", ["hierarchical", "sum"])
def test_shares_of_what_is_present(kind: str) -> None:
    module = fusion(kind, **SIZES)
    beta = module(torch.randn(3, 4, 8), torch.randn(3, 4, 3, 16), PRESENT)
    assert beta.shape == (3, 4, 3)
    assert (beta[~PRESENT[:, None].expand_as(beta)] == 0).all()
    total = torch.ones(3) if kind == "hierarchical" else PRESENT.sum(1)
    torch.testing.assert_close(beta.sum(-1), total[:, None].float().expand(3, 4))


def test_hierarchical_shares_follow_their_modalities() -> None:
    """W_e, U_e, w_e and b_e are shared: exchanging two contexts exchanges their shares."""
    module = fusion("hierarchical", **SIZES)
    hidden, contexts = torch.randn(2, 4, 8), torch.randn(2, 4, 3, 16)
    all_present = torch.ones(2, 3, dtype=torch.bool)
    beta = module(hidden, contexts, all_present)
    torch.testing.assert_close(module(hidden, contexts[:, :, [2, 0, 1]], all_present), beta[..., [2, 0, 1]])


def test_sum_has_nothing_to_learn() -> None:
    assert not list(fusion("sum", **SIZES).parameters())
