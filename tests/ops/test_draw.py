"""Words drawn by a kernel are those that are drawn operation by operation, and as often as they are likely."""

from __future__ import annotations

import os

import pytest
import torch
from torch import Tensor

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when triton is first imported
triton = pytest.importorskip("triton")

from hoca.ops.draw import plain_draw  # noqa: E402
from hoca.ops.draw_kernel import BLOCK, drawn  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def _kernels_run() -> None:
    if not (torch.cuda.is_available() or triton.knobs.runtime.interpret):
        pytest.skip("triton was imported without its interpreter")


def given(words: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(words)
    scores = 3 * torch.randn(2, 3, words, generator=generator)
    blocked = torch.zeros(1, 1, words, dtype=torch.bool)
    blocked[..., [0, words - 1]] = True
    return scores.to(DEVICE), blocked.to(DEVICE), torch.rand(2, 3, dtype=torch.float64, generator=generator).to(DEVICE)


@pytest.mark.parametrize("temperature", [1.0, 0.01, 3.0])
@pytest.mark.parametrize("words", [5, BLOCK - 1, 2 * BLOCK + 3])
def test_the_same_words_with_the_same_probabilities(words: int, temperature: float) -> None:
    scores, blocked, chance = given(words)
    word, logprob = drawn(scores, blocked, chance, temperature)
    expected, expected_logprob = plain_draw(scores, blocked, chance, temperature)
    assert torch.equal(word, expected)
    torch.testing.assert_close(logprob, expected_logprob)


def test_scores_of_16_bits_within_wider_rows() -> None:
    """As an output layer with rows for alignment gives them."""
    scores, blocked, chance = given(9)
    wide = torch.full((2, 3, 16), float("nan"), dtype=torch.bfloat16, device=DEVICE)
    wide[..., :9] = scores
    word, logprob = drawn(wide[..., :9], blocked, chance, 1.0)
    expected, expected_logprob = plain_draw(wide[..., :9], blocked, chance)
    assert torch.equal(word, expected)
    torch.testing.assert_close(logprob, expected_logprob)


def test_words_blocked_for_each_sentence() -> None:
    scores, _, chance = given(9)
    blocked = torch.rand(2, 3, 9, generator=torch.Generator().manual_seed(1)).to(DEVICE) < 0.5
    blocked[..., 4] = False
    found, _ = drawn(scores, blocked, chance, 1.0)
    assert torch.equal(found, plain_draw(scores, blocked, chance)[0])
    assert not blocked.gather(2, found[..., None]).any()


@pytest.mark.parametrize("draw", [drawn, plain_draw])
def test_the_parts_are_the_probabilities(draw: object) -> None:
    """Chances at equal distances: each word comes as often as its share says, and none that is blocked."""
    p = torch.tensor([0.1, 0.2, 0.3, 0.15, 0.25], dtype=torch.float64)
    chance = (torch.arange(200, dtype=torch.float64, device=DEVICE) + 0.5).view(1, 200) / 200
    logprob = p.log().float().to(DEVICE).expand(1, 200, 5)
    blocked = torch.tensor([False, True, False, False, False], device=DEVICE)[None, None]
    found, of_all = draw(logprob, blocked, chance, 1.0)  # type: ignore[operator]
    torch.testing.assert_close(of_all, logprob.gather(2, found[..., None]).squeeze(2))  # not of those allowed alone
    share = torch.bincount(found.flatten().cpu(), minlength=5) / 200
    torch.testing.assert_close(share.double(), p * (torch.arange(5) != 1) / 0.8, atol=0.006, rtol=0)


def test_a_chance_next_to_1_draws_the_last_word_that_is_allowed() -> None:
    scores, blocked, chance = given(2 * BLOCK + 3)
    found, _ = drawn(scores, blocked, torch.full_like(chance, 1 - 2**-53), 1.0)
    assert (found == 2 * BLOCK + 1).all()


def test_rounding_draws_no_word_that_is_blocked() -> None:
    """3,000 words leave lines of a block empty; sums of lines are rounded in another order than the whole."""
    words, seeds = 3000, 100
    scores = 3 * torch.randn(seeds, 3, words, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    blocked = torch.zeros(1, 1, words, dtype=torch.bool, device=DEVICE)
    blocked[..., [0, words - 1]] = True
    chance = 1 - torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, device=DEVICE).expand(seeds, 3) * 2**-53
    found, _ = drawn(scores, blocked, chance, 1.0)
    assert (found == words - 2).float().mean() > 0.9
    assert not ((found == 0) | (found == words - 1)).any()
