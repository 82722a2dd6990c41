"""Clips of different lengths in batches of one shape give what each gives alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from hoca.networks import i3d
from hoca.networks.i3d import I3D
from hoca.networks.soundnet import ROUNDED, SHORTEST, SoundNet
from hoca.networks.tape import packed


def lively(network: nn.Module) -> nn.Module:
    """With biases that a gap or padding would show, and outputs that no layer has made vanish."""
    torch.manual_seed(0)
    for part in network.modules():
        if isinstance(part, nn.Conv1d | nn.Conv3d):
            nn.init.kaiming_normal_(part.weight)
            assert part.bias is not None
            nn.init.normal_(part.bias, std=0.5)
    return network.eval().requires_grad_(False)


def assert_same(together: list[Tensor], alone: list[Tensor]) -> None:
    for found, expected in zip(together, alone, strict=True):
        assert found.shape == expected.shape
        assert expected.std() > 0
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max()))


@pytest.mark.parametrize("lengths", [[16], [17, 23, 18, 30, 19], [21, 16, 20, 22, 29, 24], [25, 3, 1]])
def test_motion_on_a_tape_is_that_of_each_clip_alone(lengths: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(i3d, "TAPE", 160)  # several clips on a tape, more than one tape
    network = lively(I3D())
    clips = [torch.randint(0, 256, (length, 32, 32, 3), dtype=torch.uint8) for length in lengths]
    assert_same(network.together(clips), [network(clip[None])[0] for clip in clips])  # type: ignore[operator]


def test_sounds_made_longer_are_heard_as_alone() -> None:
    network = lively(SoundNet())
    lengths = [SHORTEST, 60_000, 60_001, 100_003, ROUNDED, ROUNDED + 1, 2 * ROUNDED - 5]
    sounds = [torch.randn(length) * 0.1 for length in lengths]
    assert_same(network.together(sounds), [network(sound[None])[0] for sound in sounds])  # type: ignore[operator]


def test_tapes_hold_every_clip_once_and_no_more_than_fits() -> None:
    lengths = [300, 800, 16, 2500, 450, 1000]
    tapes = packed(lengths, 2048)
    assert sorted(number for tape in tapes for number in tape) == list(range(6))
    assert all(len(tape) == 1 or sum(lengths[number] for number in tape) <= 2048 for tape in tapes)
    assert len(tapes) == 3
