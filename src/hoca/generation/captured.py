"""A search word by word as captured CUDA graphs: several words a launch, and one look at the device between launches.

Graphs belong to a model and are kept as long as it is: for each shape of the videos' memory and each search, the
tensors that the graphs read and write, and one graph for every few words. All share one pool of memory. What comes for
the first time is searched without graphs: capturing pays only for what comes again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import torch

from hoca.devices import capturing
from hoca.generation.step import WordByWord
from hoca.models import CaptionModel, Memory
from hoca.models.trees import map_tensors, shape_of, tensors
from hoca.ops.copies import keeping_copies

WORDS = 6  # said between two looks at whether all sentences are finished
SEARCHES = 8  # of different shapes that are kept per model

_searches: WeakKeyDictionary[CaptionModel, OrderedDict[Hashable, CapturedSearch | None]] = WeakKeyDictionary()


@dataclass
class CapturedSearch:
    search: WordByWord
    memory: Memory  # fixed places that a batch's memory is copied to
    found: Any  # fixed places that every graph reads and writes
    pool: Any  # torch's handle
    graphs: dict[int, torch.cuda.CUDAGraph] = field(default_factory=dict)  # by the words said before

    def run(self, model: CaptionModel, memory: Memory, begun: Any) -> Any:
        for fixed, given in zip(tensors(self.memory), tensors(memory), strict=True):
            fixed.copy_(given)
        self._keep(begun)
        last = self.search.limits.max_length + 1
        for said in range(0, last, WORDS):
            if said not in self.graphs:
                self.graphs[said] = self._capture(model, range(said, min(said + WORDS, last)))
            self.graphs[said].replay()
            if bool(self.found.finished()):
                break
        return map_tensors(torch.clone, self.found)

    def _capture(self, model: CaptionModel, words: range) -> torch.cuda.CUDAGraph:
        self.search.advance(model, self.memory, self.found, words[0])  # prepares the libraries; not kept
        graph = torch.cuda.CUDAGraph()
        # Weights that autocast has cast before are of this moment, and gone with its context: the graph casts its own.
        torch.clear_autocast_cache()
        with capturing(graph, pool=self.pool), keeping_copies():
            found = self.found
            for said in words:
                found = self.search.advance(model, self.memory, found, said)
            self._keep(found)
        torch.clear_autocast_cache()
        return graph

    def _keep(self, found: Any) -> None:
        for fixed, new in zip(tensors(self.found), tensors(found), strict=True):
            fixed.copy_(new)


def search_captured(search: WordByWord, model: CaptionModel, memory: Memory) -> Any:
    """All words that the search allows; `model` in evaluation, without gradients."""
    kept = _searches.setdefault(model, OrderedDict())
    key = _key(search, model, memory)
    if key not in kept:
        if len(kept) == SEARCHES:
            kept.popitem(last=False)
        kept[key] = None
        return search.run(model, memory, look_every=WORDS)
    kept.move_to_end(key)
    captured, begun = kept[key], search.begin(model, memory)
    if captured is None:
        pool = next((other.pool for other in kept.values() if other is not None), None)
        fixed = map_tensors(torch.clone, memory), map_tensors(torch.clone, begun)
        captured = CapturedSearch(search, *fixed, pool or torch.cuda.graph_pool_handle())
        kept[key] = captured
    return captured.run(model, memory, begun)


def _key(search: WordByWord, model: CaptionModel, memory: Memory) -> Hashable:
    """All that a graph has fixed: shapes and types, which masks are looked at, where the weights lie."""
    precision = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else None
    weights = tuple(parameter.data_ptr() for parameter in model.parameters())
    return search, shape_of(memory), precision, weights
