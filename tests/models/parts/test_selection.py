"""Steps are chosen greedily: lazily and plainly the same, near the best, never one that is not real."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import combinations

import pytest
import torch
from torch import Tensor

from hoca.models.parts.selection import Gains, celf, gains_of, greedy, select

WEIGHTS = {"coverage": 0.7, "novelty": 0.4}


def video(steps: int, seed: int, told: bool = True) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    torch.manual_seed(seed)
    p = torch.rand(1, steps, 5).double() ** 3
    return p, torch.randn(1, steps, 4).double(), torch.ones(1, steps, dtype=torch.bool), p[:, 0] if told else None


def gains(steps: int, seed: int, told: bool = True) -> Gains:
    p, values, real, before = video(steps, seed, told)
    return gains_of(p, values, real, **WEIGHTS, told=before)


def value(of: Gains, chosen: Iterable[int]) -> float:
    """f, as it is written down."""
    chosen = list(chosen)
    if not chosen:
        return 0.0
    return float(of.shared[0, chosen].amax(0).sum() + of.single[0, chosen].sum())


def plainly(of: Gains, real: list[int], count: int) -> list[int]:
    """The step that adds most, again and again."""
    chosen: list[int] = []
    while len(chosen) < min(count, len(real)):
        chosen.append(max((i for i in real if i not in chosen), key=lambda i: (value(of, [*chosen, i]), -i)))
    return chosen


@pytest.mark.parametrize("told", [False, True], ids=["first", "later"])
@pytest.mark.parametrize("count", [1, 3, 7, 20])
def test_lazily_for_one_video_and_at_once_for_many_are_the_plain_greedy_choice(count: int, told: bool) -> None:
    for seed in range(8):
        of = gains(12, seed, told)
        real = torch.ones(1, 12, dtype=torch.bool)
        real[0, 9:] = seed % 2 == 0
        steps = real[0].nonzero().flatten().tolist()
        expected = plainly(of, steps, count)
        lazily = celf(of.shared[0].numpy(), of.single[0].numpy(), real[0].numpy(), count)
        at_once = greedy(of, real, count)
        assert list(lazily) == expected
        assert at_once.chosen[0].nonzero().flatten().tolist() == sorted(expected)
        for place, step in enumerate(expected):
            gain = value(of, expected[: place + 1]) - value(of, expected[:place])
            assert lazily[step] == pytest.approx(gain)
            assert float(at_once.gained[0, step]) == pytest.approx(gain)
        assert not at_once.gained[~at_once.chosen].any()


def test_of_equal_steps_both_take_the_first() -> None:
    p, values, real, _ = (x if x is None else x.repeat(1, 3, *[1] * (x.dim() - 2)) for x in video(4, 0, told=False))
    of = gains_of(p, values, real, **WEIGHTS)
    lazily = celf(of.shared[0].numpy(), of.single[0].numpy(), real[0].numpy(), 4)
    assert set(lazily) == {0, 1, 2, 3}
    assert greedy(of, real, 4).chosen[0].nonzero().flatten().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_it_reaches_the_bound_of_submodular_functions(count: int) -> None:
    for seed in range(5):
        of = gains(9, seed)
        best = max(value(of, chosen) for chosen in combinations(range(9), count))
        found = value(
            of, celf(of.shared[0].numpy(), of.single[0].numpy(), torch.ones(9, dtype=torch.bool).numpy(), count)
        )
        assert found >= (1 - 1 / math.e) * best


def test_returns_diminish_and_nothing_is_lost() -> None:
    of, generator = gains(10, 0), torch.Generator().manual_seed(3)
    for _ in range(50):
        order = torch.randperm(10, generator=generator).tolist()
        few, many, one = order[:2], order[:6], order[6]
        small, large = (value(of, [*chosen, one]) - value(of, chosen) for chosen in (few, many))
        assert small >= large - 1e-12
        assert large >= -1e-12


def test_it_is_informativeness_coverage_and_novelty() -> None:
    p, values, real, told = video(6, 1)
    of, chosen = gains_of(p, values, real, **WEIGHTS, told=told), [1, 4]
    informative = p[0, chosen].amax(0).sum()
    alike = torch.nn.functional.cosine_similarity(values[0, :, None], values[0, None], dim=-1).clamp(min=0)
    covered = alike[chosen].amax(0).sum()
    assert told is not None
    q = told[0] / told[0].sum()
    new = sum(float((x * (x / q).log()).sum()) for x in (p[0, i] / p[0, i].sum() for i in chosen))
    assert value(of, chosen) == pytest.approx(float(informative + 0.7 * covered) + 0.4 * new, abs=1e-3)


def test_all_real_steps_are_taken_where_there_are_not_more_and_never_another() -> None:
    p, values = torch.rand(3, 6, 5), torch.randn(3, 6, 4)
    real = torch.arange(6) < torch.tensor([6, 2, 0])[:, None]
    p[1, 2:] = values[1, 2:] = float("nan")
    for count in (2, 4, 6, 9):
        chosen, gained = select(p, values, real, count, **WEIGHTS)
        assert chosen.sum(1).tolist() == [min(count, 6), 2, 0]
        assert not (chosen & ~real).any()
        at_once = greedy(gains_of(p, values, real, **WEIGHTS), real, count)
        assert torch.equal(at_once.chosen, chosen)
        torch.testing.assert_close(at_once.gained, gained)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_chooses_what_the_cpu_chooses() -> None:
    p, values = torch.rand(6, 30, 40).double(), torch.randn(6, 30, 8).double()
    real = torch.arange(30) < torch.tensor([30, 12, 1, 7, 29, 0])[:, None]
    expected = select(p, values, real, 8, **WEIGHTS)
    found = select(p.cuda(), values.cuda(), real.cuda(), 8, **WEIGHTS)
    assert torch.equal(found.chosen.cpu(), expected.chosen)
    torch.testing.assert_close(found.gained.cpu(), expected.gained)
