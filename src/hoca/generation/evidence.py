"""Choose among finished sentences by the words that were detected in the video, too."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from hoca.generation.hypotheses import Hypotheses


def weigh(found: Hypotheses, evidence: Tensor, weight: float, pad: int) -> Hypotheses:
    """The same sentences by score + weight · Σ evidence of their different words / length, <eos> counted; best first.

    evidence [B, V]: of each word in each video, 0 = none. A wide beam finds many sentences that are likely as English;
    these are what it cannot tell apart.
    """
    words = found.words  # [B, W, S]
    same = words[..., :, None] == words[..., None, :]  # [B, W, S, S]
    first = ~same.tril(-1).any(-1)  # [B, W, S]: no such word before
    of_words = evidence[:, None].expand(-1, words.shape[1], -1).gather(2, words)  # [B, W, S]
    length = (words != pad).sum(-1) - 1  # <bos> is not counted
    score = found.score + weight * (of_words * first).sum(-1) / length.clamp(min=1)
    order = score.argsort(dim=1, descending=True, stable=True)  # [B, W]
    return replace(
        found,
        words=words.gather(1, order[..., None].expand_as(words)),
        logprob=found.logprob.gather(1, order),
        score=score.gather(1, order),
    )
