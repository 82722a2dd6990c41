"""Features of many files at once: the same numbers, and torch as it was afterwards."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from hoca import media
from hoca.errors import UserError
from hoca.features import Extracted, Extractor
from hoca.features.ahead import extract_ahead
from hoca.features.network import Network
from hoca.threads import thread_per_core

SOUND = {"audio": {"backbone": "log-mel", "weights": None, "sampling": "default", "steps": 16}}  # needs no weights


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("sounds")
    frames = np.zeros((8, 32, 32, 3), np.uint8)
    for number in range(5):
        tone = np.sin(np.arange((number + 2) * 8000) * (0.05 + 0.02 * number)).astype(np.float32)
        media.write(folder / f"{number}.mp4", frames, 8, tone, rate=16000)
    (folder / "2.mp4").write_bytes(b"")
    return [folder / f"{number}.mp4" for number in range(5)]


def test_features_made_ahead_are_those_made_one_by_one(files: list[Path]) -> None:
    before = torch.get_num_threads()
    with Extractor(SOUND) as extractor:
        groups = list(extract_ahead(extractor, files, batch_size=2))
        assert [len(group) for group in groups] == [1, 2, 2]
        made = [each for group in groups for each in group]
        assert [each.path for each in made] == files
        for each in made:
            if each.path == files[2]:
                assert isinstance(each.result, UserError)
                continue
            assert isinstance(each.result, Extracted)
            expected = extractor.extract(each.path).features["audio"]
            np.testing.assert_allclose(each.result.features["audio"], expected, rtol=1e-4, atol=1e-4)
    assert torch.get_num_threads() == before


class Brightness(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, pictures: Tensor) -> Tensor:
        assert torch.get_num_threads() == 1
        return pictures.float().flatten(1).mean(1, keepdim=True) * self.scale


@pytest.mark.parametrize("count", [1, 3, 23])
def test_pictures_divided_among_the_cores_come_back_in_order(count: int) -> None:
    pictures = np.arange(count, dtype=np.uint8)[:, None, None, None] * np.ones((1, 4, 4, 3), np.uint8)
    with thread_per_core() as pool:
        network = Network(Brightness(), torch.device("cpu"), pool)
        np.testing.assert_array_equal(network.batched([pictures])()[0][:, 0], np.arange(count))


def test_a_decoding_process_that_was_started_early_is_the_one_that_decodes(files: list[Path]) -> None:
    with Extractor(SOUND) as extractor, media.Decoders(workers=1).start() as decoders:
        (early,) = decoders._running
        assert isinstance(next(extract_ahead(extractor, files[:1], decoders=decoders))[0].result, Extracted)
        assert decoders._running == {early}
