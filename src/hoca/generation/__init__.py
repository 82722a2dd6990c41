"""From an encoded video to words: greedy, beam search, sampling; every video and hypothesis of a batch at once."""

from hoca.generation.beam import beam_search
from hoca.generation.evidence import weigh
from hoca.generation.hypotheses import Hypotheses
from hoca.generation.limits import Limits
from hoca.generation.rollout import greedy, sample

__all__ = ["Hypotheses", "Limits", "beam_search", "greedy", "sample", "weigh"]
