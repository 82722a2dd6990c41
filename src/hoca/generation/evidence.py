"""Choose among finished sentences by the words that were detected in the video, too."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from hoca.generation.hypotheses import Hypotheses


def evidence_of(found: Hypotheses, evidence: Tensor, pad: int) -> Tensor:
    """Σ evidence of each sentence's different words / its length, <eos> counted: [B, W].

    evidence [B, V]: of each word in each video, 0 = none.
    """
    words = found.words  # [B, W, S]
    same = words[..., :, None] == words[..., None, :]  # [B, W, S, S]
    first = ~same.tril(-1).any(-1)  # [B, W, S]: no such word before
    of_words = evidence[:, None].expand(-1, words.shape[1], -1).gather(2, words)  # [B, W, S]
    length = (words != pad).sum(-1) - 1  # <bos> is not counted
    return (of_words * first).sum(-1) / length.clamp(min=1)


def weigh(found: Hypotheses, evidence: Tensor, weight: float, pad: int) -> Hypotheses:
    """The same sentences by score + weight · their evidence, best first.

    A wide beam finds many sentences that are likely as English; these are what it cannot tell apart.
    """
    detected = weight * evidence_of(found, evidence, pad)
    score = found.score + detected
    order = score.argsort(dim=1, descending=True, stable=True)  # [B, W]
    return replace(
        found,
        words=found.words.gather(1, order[..., None].expand_as(found.words)),
        logprob=found.logprob.gather(1, order),
        score=score.gather(1, order),
        detected=detected.gather(1, order),
    )
