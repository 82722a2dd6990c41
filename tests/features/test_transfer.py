"""What is sent to a device arrives whole, whoever else sends; the GPU gives the features of the CPU."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from hoca import features
from hoca.features.transfer import Upload, fetched
from hoca.media import DecodedVideo

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=needs_gpu)]


@pytest.mark.parametrize("device", DEVICES)
def test_arrays_arrive_whole_through_few_small_buffers(device: str) -> None:
    upload = Upload(torch.device(device), buffers=2, size=1000)
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 256, (length, 7, 3), dtype=np.uint8) for length in (1, 100, 0, 257, 48)]
    arrays += [rng.standard_normal(999).astype(np.float32), arrays[1][::2]]
    with ThreadPoolExecutor(4) as threads:
        sent = list(threads.map(upload, arrays * 5))
    for array, there in zip(arrays * 5, sent, strict=True):
        assert there.device.type == device
        np.testing.assert_array_equal(upload.arrived(there).cpu().numpy(), array)


@pytest.mark.parametrize("device", DEVICES)
def test_results_come_back_one_by_one_in_float32(device: str) -> None:
    outputs = [torch.full((length, 2), float(length), dtype=torch.bfloat16, device=device) for length in (3, 1, 4)]
    for output, values in zip(outputs, fetched(outputs)(), strict=True):
        assert values.dtype == np.float32
        np.testing.assert_array_equal(values, output.float().cpu().numpy())


def clip(frames: int, seconds: float) -> DecodedVideo:
    rng = np.random.default_rng(frames)
    pictures = {
        "image": rng.integers(0, 256, (20, 224, 224, 3), dtype=np.uint8),
        "motion": rng.integers(0, 256, (frames, 224, 224, 3), dtype=np.uint8),
    }
    times = {name: np.arange(len(values)) / 25 for name, values in pictures.items()}
    sound = rng.standard_normal(int(22050 * seconds)).astype(np.float32) * 0.1
    return DecodedVideo(pictures, times, frames, seconds, sound, 22050)


@needs_gpu
def test_a_gpu_gives_the_features_of_a_cpu_from_clips_that_were_sent() -> None:
    specification = features.specify()
    clips = [clip(17, 2.0), clip(40, 5.0), clip(17, 1.0), clip(26, 7.5)]
    made = {}
    for device in ("cpu", "cuda"):
        torch.manual_seed(0)
        extractor = features.Extractor(specification, device=device, precision="float32", random_weights=True)
        made[device] = extractor.begin([extractor.send(each) for each in clips])()
    sent = extractor.send(clips[0])
    assert sent.waveform is not clips[0].waveform  # which may lie in memory shared with a decoding process
    for right, found in zip(made["cpu"], made["cuda"], strict=True):
        assert found.absent == right.absent
        assert found.features.keys() == right.features.keys()
        for name, values in right.features.items():
            norms = np.linalg.norm(values, axis=1) * np.linalg.norm(found.features[name], axis=1)
            assert ((values * found.features[name]).sum(1) / norms).min() > 0.999


def test_without_a_gpu_a_clip_stays_as_it_is() -> None:
    one = clip(16, 1.0)
    assert features.Extractor(features.specify(), device="cpu", random_weights=True).send(one) is one
