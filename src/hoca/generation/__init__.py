"""From an encoded video to words: greedy, beam search, sampling; every video and hypothesis of a batch at once."""

from hoca.generation.beam import beam_search
from hoca.generation.confidence import Confidence
from hoca.generation.evidence import evidence_of, weigh
from hoca.generation.hypotheses import Hypotheses
from hoca.generation.limits import SentenceLimits
from hoca.generation.rollout import greedy, sample
from hoca.generation.search import Search
from hoca.generation.step import inference

__all__ = [
    "Confidence",
    "Hypotheses",
    "Search",
    "SentenceLimits",
    "beam_search",
    "evidence_of",
    "greedy",
    "inference",
    "sample",
    "weigh",
]
