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
    logprob = torch.log_softmax(3 * torch.randn(2, 3, words, generator=generator), -1)
    blocked = torch.zeros(1, 1, words, dtype=torch.bool)
    blocked[..., [0, words - 1]] = True
    return logprob.to(DEVICE), blocked.to(DEVICE), torch.rand(2, 3, dtype=torch.float64, generator=generator).to(DEVICE)


@pytest.mark.parametrize("temperature", [1.0, 0.01, 3.0])
@pytest.mark.parametrize("words", [5, BLOCK - 1, 2 * BLOCK + 3])
def test_the_same_words(words: int, temperature: float) -> None:
    logprob, blocked, chance = given(words)
    assert torch.equal(drawn(logprob, blocked, chance, temperature), plain_draw(logprob, blocked, chance, temperature))


def test_words_blocked_for_each_sentence() -> None:
    logprob, _, chance = given(9)
    blocked = torch.rand(2, 3, 9, generator=torch.Generator().manual_seed(1)).to(DEVICE) < 0.5
    blocked[..., 4] = False
    found = drawn(logprob, blocked, chance, 1.0)
    assert torch.equal(found, plain_draw(logprob, blocked, chance))
    assert not blocked.gather(2, found[..., None]).any()


@pytest.mark.parametrize("draw", [drawn, plain_draw])
def test_the_parts_are_the_probabilities(draw: object) -> None:
    """Chances at equal distances: each word comes as often as its share says, and none that is blocked."""
    p = torch.tensor([0.1, 0.2, 0.3, 0.15, 0.25], dtype=torch.float64)
    chance = (torch.arange(200, dtype=torch.float64, device=DEVICE) + 0.5).view(1, 200) / 200
    logprob = p.log().float().to(DEVICE).expand(1, 200, 5)
    blocked = torch.tensor([False, True, False, False, False], device=DEVICE)[None, None]
    found = draw(logprob, blocked, chance, 1.0)  # type: ignore[operator]
    share = torch.bincount(found.flatten().cpu(), minlength=5) / 200
    torch.testing.assert_close(share.double(), p * (torch.arange(5) != 1) / 0.8, atol=0.006, rtol=0)


def test_a_chance_next_to_1_draws_the_last_word_that_is_allowed() -> None:
    logprob, blocked, chance = given(2 * BLOCK + 3)
    found = drawn(logprob, blocked, torch.full_like(chance, 1 - 2**-53), 1.0)
    assert (found == 2 * BLOCK + 1).all()
