"""A search that always says all words, without looking whether it has finished, finds what one that stops finds."""

from __future__ import annotations

import pytest
import torch

from hoca.generation import SentenceLimits, beam_search, greedy, sample
from hoca.generation.beam import BeamSearch
from hoca.generation.captured import search_captured
from hoca.generation.rollout import Rollout, seeded
from hoca.generation.step import inference
from hoca.models.trees import map_tensors

from .tiny import captioner, encoded, videos

LIMITS = (SentenceLimits(max_length=11), SentenceLimits(min_length=2, max_length=9, no_repeat=2))


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("length_penalty", [0.0, 0.7])
def test_finished_sentences_wait_unchanged_to_the_last_word(limits: SentenceLimits, length_penalty: float) -> None:
    for seed in range(6):
        model = captioner(seed, ending=2.0)
        memory = encoded(model)
        for width in (1, 3, 40):
            search = BeamSearch(limits, width, length_penalty)
            with inference(model):
                beams = search.run(model, memory, look_every=100)
            found = beam_search(model, memory, limits, width=width, length_penalty=length_penalty)
            assert torch.equal(beams.words[:, :, : int(beams.said) + 1], found.words)
            assert torch.equal(beams.total, found.logprob)
            assert torch.equal(beams.score, found.score)


@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_drawn_sentences_wait_unchanged_to_the_last_word(limits: SentenceLimits) -> None:
    for seed in range(6):
        model = captioner(seed, ending=2.0)
        memory = encoded(model)
        found = sample(model, memory, limits, count=4, temperature=1.5, top_k=3, seed=seed)
        with inference(model):
            search = Rollout(limits, 4, 1.5, 3, generator=seeded(torch.device("cpu"), seed))
            said = search.run(model, memory, look_every=100)
        assert said.words[:, :, found.words.shape[2] :].eq(model.vocabulary.pad).all()
        assert torch.equal(said.total.sort(dim=1, descending=True).values, found.logprob)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_drawn_on_a_gpu_sentences_are_the_same_captured_or_not(limits: SentenceLimits) -> None:
    gpu = torch.device("cuda", 0)
    model = captioner(ending=1.0).to(gpu)
    memory = map_tensors(lambda part: part.to(gpu), encoded(captioner(ending=1.0)))
    with inference(model):
        for seed in (1, 1, 1, 2):  # without graphs, captured, once more from the graphs, with other draws
            plain, fast = (
                run(Rollout(limits, 4, temperature=1.0, generator=seeded(gpu, seed)), model, memory)
                for run in (Rollout.run, search_captured)
            )
            assert torch.equal(fast.words, plain.words)
            torch.testing.assert_close(fast.total, plain.total)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_captured_on_a_gpu_it_finds_what_the_cpu_finds(limits: SentenceLimits) -> None:
    for seed in range(4):
        model = captioner(seed, ending=1.0)
        memory = encoded(model)
        expected = {width: beam_search(model, memory, limits, width=width) for width in (1, 3)}
        assert expected[1].words.tolist() == greedy(model, memory, limits).words.tolist()
        model.cuda()
        for width, other in expected.items():
            for _ in range(3):  # without graphs, captured, once more from the graphs
                found = beam_search(model, map_tensors(torch.Tensor.cuda, memory), limits, width=width)
                assert found.words.tolist() == other.words.tolist()
                torch.testing.assert_close(found.logprob.cpu(), other.logprob)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_graph_in_bf16_sees_weights_that_have_changed_since() -> None:
    """Autocast keeps the weights that it has cast for a while: a graph must not hold on to them."""
    model = captioner().float().cuda()
    features = {m: x.float().cuda() for m, x in videos().items()}
    limits = SentenceLimits(max_length=4)
    for _ in range(4):
        with torch.autocast("cuda", torch.bfloat16), inference(model):
            memory = model.encode(features, {})
            found = beam_search(model, memory, limits, width=3)
            expected = BeamSearch(limits, 3, 0.0).run(model, memory)
        torch.testing.assert_close(found.logprob, expected.total)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter))
