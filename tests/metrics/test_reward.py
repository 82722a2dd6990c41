from __future__ import annotations

import time

import numpy as np
import pytest

from hoca.errors import UserError
from hoca.metrics import CiderReward, evaluate

WORDS = ["<pad>", "<bos>", "<eos>", "a", "dog", "cat", "runs", "sits", "on", "the", "mat", "fast"]
REFERENCES = {"v1": ["a dog runs fast", "the dog runs"], "v2": ["a cat sits on the mat"], "v3": ["the mat", "a cat"]}
SAMPLES = [("v1", "a dog runs"), ("v2", "a cat sits on the mat"), ("v1", "the cat"), ("v3", "a cat on the mat")]


def _ids(caption: str) -> list[int]:
    return [WORDS.index(word) for word in caption.split()]


def _reward(rouge_weight: float = 0.0) -> CiderReward:
    references = {video: [_ids(caption) for caption in captions] for video, captions in REFERENCES.items()}
    return CiderReward(references, ends=[2], ignored=[0, 1], rouge_weight=rouge_weight)


@pytest.mark.parametrize("rouge_weight", [0.0, 0.5])
def test_rewards_equal_the_scores_of_the_same_captions(rouge_weight: float) -> None:
    rows = np.zeros((len(SAMPLES), 9), np.int64)
    for row, (_, caption) in zip(rows, SAMPLES, strict=True):
        ids = [1, *_ids(caption), 2, 5, 5]
        row[: min(len(ids), 9)] = ids[:9]
    rewards = _reward(rouge_weight)([video for video, _ in SAMPLES], rows)
    for (video, caption), reward in zip(SAMPLES, rewards, strict=True):
        candidates = dict.fromkeys(REFERENCES, "") | {video: caption}
        scores = evaluate(REFERENCES, candidates, ("CIDEr", "ROUGE-L")).per_video[video]
        assert reward == pytest.approx(scores["CIDEr"] + rouge_weight * scores["ROUGE-L"])


def test_references_of_other_videos_may_be_longer() -> None:
    """References are kept by length: of some lengths a batch may meet none."""
    references = {"short": [[3, 4]], "long": [list(range(3, 12))]}
    reward = CiderReward(references, rouge_weight=1.0)
    assert reward(["short"], np.array([[3, 4]])) == pytest.approx(
        CiderReward(references)(["short"], np.array([[3, 4]])) + 1
    )


def test_a_caption_that_ends_at_once_earns_nothing() -> None:
    assert _reward()(["v1"], np.array([[1, 2, 4, 4]])).tolist() == [0]


def test_unknown_videos_and_a_lone_video_are_refused() -> None:
    with pytest.raises(UserError, match="'v9'"):
        _reward()(["v9"], np.array([[3]]))
    with pytest.raises(UserError, match="two videos"):
        CiderReward({"v": [[3]]})


def test_twenty_thousand_captions_a_second() -> None:
    generator = np.random.default_rng(0)
    references = {video: [generator.integers(3, 3000, 9).tolist() for _ in range(20)] for video in range(500)}
    reward = CiderReward(references, ends=[2], ignored=[0, 1])
    videos = generator.integers(0, 500, 5000).tolist()
    captions = generator.integers(3, 3000, (5000, 12))
    captions[:, :6] = [references[video][0][:6] for video in videos]
    reward(videos[:10], captions[:10])
    rates = []
    for _ in range(3):
        start = time.process_time()
        reward(videos, captions)
        rates.append(len(videos) / (time.process_time() - start))
    assert max(rates) > 20_000
