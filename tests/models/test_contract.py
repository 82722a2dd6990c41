"""What every captioner must fulfil, whatever is inside it: run over the registry, at sizes that take milliseconds."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from hoca.data import Batch
from hoca.generation import Search, SentenceLimits, beam_search, greedy, inference
from hoca.generation.beam import BeamSearch
from hoca.models import CaptionModel, create, entry, names
from hoca.models.explanation import Axis, Names, Steps
from hoca.models.trees import map_tensors, tensors
from hoca.text import Vocabulary
from hoca.training.objectives import CrossEntropy, TeacherForcing, summed
from hoca.training.recipe import TrainSection

from .tiny import HOLES, RAGGED, VOCABULARY, WIDTHS, Features, Lengths, alone, captions, videos

SIZES: dict[str, Any] = {
    **{"hidden": 8, "attention": 6, "embedding": 7, "max_steps": 6, "dropout": 0.0, "reconstructor_attention": 5},
    **{"factors": 6, "tags": 5, "topics": 3},
    **{"high_hidden": 5, "global_hidden": 6, "local_hidden": 7, "global_context": 5, "local_context": 4},
    **{"attributes": 5, "decoder_hidden": 7, "lexicon": 5, "lexical_hidden": 4, "steps": 3},
    **{"worker_hidden": 7, "manager_hidden": 5, "goal": 4, "critic_hidden": 9},
    "chunk": {"image": 2, "motion": 2, "audio": 3},
}
REFERENCES = [["a man sings", "a red man"], ["a dog runs"], ["a red dog", "the dog runs loudly"]]  # of three videos
every_model = pytest.mark.parametrize("name", names())
every_length = pytest.mark.parametrize("given", [RAGGED, HOLES], ids=["ragged", "holes"])


def sizes(name: str, **changed: Any) -> dict[str, Any]:
    """Of those in SIZES and of the given ones, what the named model has."""
    known = entry(name).model.Config.options()
    return {key: value for key, value in (SIZES | changed).items() if key in known}


def captioner(
    name: str, modalities: Mapping[str, int] = WIDTHS, vocabulary: Vocabulary = VOCABULARY, **changed: Any
) -> CaptionModel:
    """In float64, prepared, every parameter away from where it starts, so that no term is hidden by another."""
    torch.manual_seed(0)
    model = create(name, modalities, vocabulary, **sizes(name) | changed).double().eval()
    model.prepare(REFERENCES)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    return model


def objective(model: CaptionModel) -> CrossEntropy:
    return CrossEntropy(TrainSection(), Search(), model.vocabulary, {})


def batch_of(features: Features, lengths: Lengths, words: Tensor, model: CaptionModel | None = None) -> Batch:
    """With what the model wants to know of all captions of each video."""
    count = words.shape[0] * words.shape[1]
    known = [model.targets(REFERENCES[i % 3]) for i in range(len(words))] if model else [{}]
    targets = {key: torch.stack([each[key] for each in known]) for key in known[0]}
    return Batch([str(i) for i in range(len(words))], features, lengths, words, count, count, targets=targets)


def all_losses(model: CaptionModel, features: Features, lengths: Lengths, words: Tensor) -> Tensor:
    """The words' loss and the model's own, of captions that end with <eos> and have padding."""
    return summed(TeacherForcing(model, objective(model))(batch_of(features, lengths, words, model)))


def whole_captions() -> Tensor:
    words = torch.randint(VOCABULARY.unk + 1, len(VOCABULARY), (3, 2, 6))
    words[:, :, 0], words[:, :, 4], words[:, :, 5] = VOCABULARY.bos, VOCABULARY.eos, VOCABULARY.pad
    words[0, 1, 2:] = torch.tensor([VOCABULARY.eos, *[VOCABULARY.pad] * 3])
    words[2, 1] = VOCABULARY.pad  # a caption that the video lacks
    return words


@every_model
def test_it_is_made_with_its_defaults_and_scores_every_word(name: str) -> None:
    model = create(name, WIDTHS, VOCABULARY)
    assert model.name == name
    assert model.describe()
    model = captioner(name)
    logits = model(videos(), RAGGED, captions())
    assert logits.shape == (3, 2, 4, len(VOCABULARY))
    assert logits.isfinite().all()


@every_length
@every_model
def test_word_by_word_is_teacher_forcing(name: str, given: Lengths) -> None:
    model, words = captioner(name), captions()
    memory = model.encode(videos(), given)
    whole = model.decode(memory, words, model.begin(memory, 2))
    state, logits, hidden = model.begin(memory, 2), [], []
    for place in range(words.shape[2]):
        one = model.decode(memory, words[:, :, place : place + 1], state)
        state = one.state
        logits.append(one.logits)
        hidden.append(one.hidden)
    torch.testing.assert_close(torch.cat(logits, dim=2), whole.logits)
    torch.testing.assert_close(torch.cat(hidden, dim=2), whole.hidden)
    for found, expected in zip(tensors(state), tensors(whole.state), strict=True):
        torch.testing.assert_close(found, expected)
        assert found.shape[:2] == words.shape[:2]


@every_model
def test_a_batch_is_its_videos_one_by_one(name: str) -> None:
    model, features, words = captioner(name), videos(), captions()
    logits = model(features, RAGGED, words)
    for video in range(3):
        given, full = alone(features, RAGGED, video)
        torch.testing.assert_close(logits[video : video + 1], model(given, full, words[video : video + 1]))


@every_model
def test_a_beam_of_one_is_greedy(name: str) -> None:
    model = captioner(name)
    memory = model.encode(videos(), HOLES)
    limits = SentenceLimits(max_length=5)
    found, expected = beam_search(model, memory, limits, width=1), greedy(model, memory, limits)
    assert found.texts(VOCABULARY) == expected.texts(VOCABULARY)
    torch.testing.assert_close(found.logprob, expected.logprob)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@every_model
def test_a_captured_search_on_a_gpu_finds_what_a_plain_one_finds(name: str) -> None:
    model, limits = captioner(name).float().cuda(), SentenceLimits(max_length=5)
    features = {m: x.float().cuda() for m, x in videos().items()}
    with inference(model):
        memory = model.encode(features, {m: length.cuda() for m, length in HOLES.items()})
        expected = BeamSearch(limits, 3, 0.0).run(model, memory)
    for _ in range(3):  # without graphs, captured, once more from the graphs
        found = beam_search(model, memory, limits, width=3)
        torch.testing.assert_close(found.logprob, expected.total)


@every_model
def test_a_wide_beam_finds_the_best_of_all_sentences(name: str) -> None:
    few = Vocabulary(["a", "b"])
    model, limits = captioner(name, vocabulary=few), SentenceLimits(max_length=3)
    memory = model.encode(videos(2), {m: length[:2] for m, length in RAGGED.items()})
    ids = range(few.unk + 1, len(few))
    rows = [
        [few.bos, *words, few.eos, *[few.pad] * (3 - length)]
        for length in range(1, 4)
        for words in product(ids, repeat=length)
    ]
    every = torch.tensor(rows).expand(2, -1, -1)  # [B, sentences, 5]
    with torch.no_grad():
        logits = model.decode(memory, every[:, :, :-1], model.begin(memory, len(rows))).logits
    gained = logits.log_softmax(-1).gather(3, every[:, :, 1:, None]).squeeze(3)
    total = gained.masked_fill(every[:, :, 1:] == few.pad, 0.0).sum(-1)
    found = beam_search(model, memory, limits, width=len(rows))
    torch.testing.assert_close(found.logprob[:, 0], total.max(1).values)
    best = [few.decode(rows[place]) for place in total.argmax(1).tolist()]
    assert [texts[0] for texts in found.texts(few)] == best


@every_model
def test_reordering_the_state_commutes_with_a_step(name: str) -> None:
    model, words, order = captioner(name), captions(rows=4), torch.tensor([2, 0, 3, 1])
    memory = model.encode(videos(), RAGGED)
    state = model.decode(memory, words[:, :, :2], model.begin(memory, 4)).state
    before = model.decode(memory, words[:, order, 2:3], map_tensors(lambda x: x[:, order], state))
    after = model.decode(memory, words[:, :, 2:3], state)
    torch.testing.assert_close(before.logits, after.logits[:, order])
    for found, expected in zip(tensors(before.state), tensors(after.state), strict=True):
        torch.testing.assert_close(found, expected[:, order])


@every_model
def test_two_videos_decoded_in_turns_do_not_disturb_each_other(name: str) -> None:
    model, words = captioner(name), captions()
    memories = [model.encode(videos(), given) for given in (RAGGED, HOLES)]
    expected = [model.decode(memory, words, model.begin(memory, 2)).logits for memory in memories]
    states = [model.begin(memory, 2) for memory in memories]
    found: list[list[Tensor]] = [[], []]
    for place in range(words.shape[2]):
        for which, memory in enumerate(memories):
            logits, states[which], _ = model.decode(memory, words[:, :, place : place + 1], states[which])
            found[which].append(logits)
    for each, whole in zip(found, expected, strict=True):
        torch.testing.assert_close(torch.cat(each, dim=2), whole)


@every_model
def test_a_missing_modality_is_one_that_is_not_passed(name: str) -> None:
    model, features, words = captioner(name), videos(), captions()
    for missing in WIDTHS:
        lengths = {m: torch.zeros_like(length) if m == missing else length for m, length in RAGGED.items()}
        left = {m: x for m, x in features.items() if m != missing}
        expected = model(left, {m: length for m, length in RAGGED.items() if m != missing}, words)
        torch.testing.assert_close(model(features, lengths, words), expected)


@every_length
@every_model
def test_nan_under_a_mask_reaches_neither_value_nor_gradient(name: str, given: Lengths) -> None:
    model, features, words = captioner(name), videos(), whole_captions()
    dirty = {m: x.clone() for m, x in features.items()}
    for m, length in given.items():
        for video, real in enumerate(length.tolist()):
            dirty[m][video, real:] = float("nan")
    results = []
    for x in (features, dirty):
        model.zero_grad()
        loss = all_losses(model, x, given, words)
        loss.backward()
        gradients = {key: p.grad.clone() for key, p in model.named_parameters() if p.grad is not None}
        results.append((loss.detach(), gradients))
    assert all(gradient.isfinite().all() for gradient in results[0][1].values())
    torch.testing.assert_close(results[0], results[1])


@every_model
def test_captions_that_are_padding_change_no_loss(name: str) -> None:
    model, features, words = captioner(name), videos(), whole_captions()
    more = torch.full((3, 1, 9), VOCABULARY.pad)
    longer = torch.cat([torch.nn.functional.pad(words, (0, 3), value=VOCABULARY.pad), more], dim=1)
    found, expected = (all_losses(model, features, RAGGED, each) for each in (longer, words))
    torch.testing.assert_close(found, expected)


@every_model
def test_every_parameter_learns(name: str) -> None:
    model = captioner(name)
    long = {m: torch.randn(3, 6, width).double() for m, width in WIDTHS.items()}  # several chunks of steps
    for features, given in ((long, {}), (videos(), HOLES)):  # some stand in for a missing modality
        all_losses(model, features, given, whole_captions()).backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.abs().max() > 0, key


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@every_model
@pytest.mark.filterwarnings("ignore:orders")
def test_it_takes_one_to_four_modalities(name: str, count: int) -> None:
    modalities = dict(list({**WIDTHS, "depth": 2}.items())[:count])
    options = {"orders": (1,)} if "hoca" in name and count == 1 else {}
    if "hoca" in name and count == 2:
        options = {"orders": tuple({min(order, 2) for order in create(name, WIDTHS, VOCABULARY).config.orders})}
    model = create(name, modalities, VOCABULARY, hidden=4, embedding=3, max_steps=6, dropout=0.0, **options)
    features = {m: torch.randn(2, 4, width) for m, width in modalities.items()}
    words = captions(2)
    assert model.eval()(features, {}, words).isfinite().all()
    memory = model.encode(features, {})
    assert len(beam_search(model, memory, SentenceLimits(max_length=3), width=2).texts(VOCABULARY)) == 2


@every_model
def test_eval_is_deterministic(name: str) -> None:
    options = sizes(name, dropout=0.5, encoder_dropout=0.5, hidden=4)
    model, features, words = create(name, WIDTHS, VOCABULARY, **options), videos(), captions()
    features = {m: x.float() for m, x in features.items()}
    assert torch.equal(model.eval()(features, RAGGED, words), model(features, RAGGED, words))
    assert not torch.equal(model.train()(features, RAGGED, words), model(features, RAGGED, words))


def is_there(axis: Axis, words: Tensor) -> Tensor:
    """Which places of an axis each video has, [B, size]."""
    if isinstance(axis, Steps):
        firsts = torch.arange(0, axis.count, axis.chunk)
        return firsts < HOLES[axis.modality][:, None]
    if isinstance(axis, Names):
        known = [HOLES.get(name, torch.ones(len(words))) > 0 for name in axis.names]
        return torch.stack(known, dim=1)
    return torch.ones(words.shape[0], words.shape[2], dtype=torch.bool)


@every_model
def test_what_it_says_it_looked_at_are_weights(name: str) -> None:
    model, words = captioner(name), captions()
    found = model.look(model.encode(videos(), HOLES), words)
    if found is None:
        return  # a model that cannot tell says so, and nothing else
    one = torch.ones(words.shape).double()
    for modality, merged in found.attention.items():
        here = HOLES[modality] > 0
        padded = torch.arange(merged.shape[3]) >= HOLES[modality][:, None]
        for weights in (merged, *found.groups.get(modality, {}).values()):
            assert weights.shape[:3] == words.shape
            assert weights.min() >= 0
            assert weights.masked_select(padded[:, None, None].expand_as(weights)).abs().max() == 0
            total = weights.sum(-1)
            whole = here[:, None, None].expand(words.shape) if weights is merged else total > 0.5
            torch.testing.assert_close(total, whole.double())
    for options in found.choices.values():
        chosen = torch.stack(list(options.values()))
        assert chosen.min() >= 0
        torch.testing.assert_close(chosen.sum(0), one)
        for modality in WIDTHS.keys() & options.keys():
            assert options[modality][HOLES[modality] == 0].abs().max() == 0
    for modality, shares in found.shares.items():
        assert shares.shape == words.shape
        assert 0 <= shares.min() <= shares.max() <= 1
        assert shares[HOLES[modality] == 0].abs().max() == 0
    beside = [c for c in found.choices.values() if all(c.get(m) is share for m, share in found.shares.items())]
    if found.shares and not beside:  # otherwise they are part of one of the choices above
        counted = torch.stack(list(found.shares.values()))
        full = torch.stack([HOLES[m] > 0 for m in found.shares])[:, :, None, None].expand(counted.shape).double()
        if not torch.equal(counted, full):  # contexts are weighed, not summed
            torch.testing.assert_close(counted.sum(0), one)
    for items in found.found.values():
        assert items
        for probability in items.values():
            assert probability.shape == (3,)
            assert 0 <= probability.min() <= probability.max() <= 1
    for matrix in found.matrices.values():
        rows, columns = (is_there(axis, words) for axis in (matrix.rows, matrix.columns))
        here = (rows[:, None, :, None] & columns[:, None, None]).expand(-1, words.shape[1], -1, -1)
        assert matrix.values.shape == here.shape
        assert matrix.values.isfinite().all()
        assert not matrix.values[~here].any()
        if matrix.sums:
            assert matrix.values.min() >= 0
            torch.testing.assert_close(matrix.values.sum(3), here.any(3).double())
    for video in range(3):  # a report leaves out what was looked at for the end of the sentence
        for name, matrix in found.of_caption(video, words.shape[2] - 1).matrices.items():
            if matrix.sums:
                rows = is_there(matrix.rows, words)[video, : len(matrix.values)]
                columns = is_there(matrix.columns, words)[video, : matrix.values.shape[1]]
                torch.testing.assert_close(matrix.values.sum(1), (rows & columns.any()).double(), msg=name)


@every_length
@every_model
def test_what_it_says_of_a_batch_is_what_it_says_of_its_videos(name: str, given: Lengths) -> None:
    model, features, words = captioner(name), videos(), captions()
    dirty = {m: x.clone() for m, x in features.items()}
    for m, length in given.items():
        for video, real in enumerate(length.tolist()):
            dirty[m][video, real:] = float("nan")
    whole = model.look(model.encode(dirty, given), words)
    if whole is None:
        return
    for video in range(3):
        found = model.look(model.encode(*alone(features, given, video)), words[video : video + 1])
        assert found is not None
        for what in ("attention", "shares", "choices", "found"):
            for key, tensor in _by_name(getattr(found, what)).items():
                expected = _by_name(getattr(whole, what))[key][video : video + 1]
                torch.testing.assert_close(tensor, expected[..., : tensor.shape[-1]])
        assert found.matrices.keys() <= whole.matrices.keys()
        for key, matrix in found.matrices.items():
            rows, columns = matrix.values.shape[2:]
            shown = whole.matrices[key]
            if isinstance(matrix.columns, Names):  # modalities that a video lacks have no column
                columns = [shown.columns.names.index(each) for each in matrix.columns.names]
                expected = shown.values[video : video + 1, :, :rows][..., columns]
            else:
                expected = shown.values[video : video + 1, :, :rows, :columns]
            torch.testing.assert_close(matrix.values, expected)


@every_model
def test_all_of_it_can_be_done_in_inference_mode(name: str) -> None:
    def found(model: CaptionModel) -> list[Tensor]:
        torch.manual_seed(1)
        memory = model.encode(videos(), HOLES)
        said = beam_search(model, memory, SentenceLimits(max_length=4), width=2)
        return [said.words, said.logprob, *tensors(model.look(memory, said.words[:, :, :-1]))]

    model = captioner(name)
    expected = found(model)
    with torch.inference_mode():
        torch.testing.assert_close(found(model), expected)
        torch.testing.assert_close(found(captioner(name)), expected)  # of a model that was made in it


def _by_name(tensors: Mapping[str, Any]) -> dict[str, Tensor]:
    """Of a table of tensors, or of one of such tables."""
    found = {}
    for name, each in tensors.items():
        found |= {name: each} if isinstance(each, Tensor) else {f"{name}: {key}": x for key, x in each.items()}
    return found


@every_model
def test_four_clips_are_learned_by_heart(name: str) -> None:
    torch.manual_seed(0)
    wider = {key: 12 for key, size in SIZES.items() if isinstance(size, int) and key != "max_steps"}
    model = create(name, WIDTHS, VOCABULARY, **sizes(name, **wider | {"hidden": 24})).train()
    features = {m: torch.randn(4, 4, width) for m, width in WIDTHS.items()}
    said = ["a man sings", "a dog runs loudly", "a red dog", "loudly sings a red man"]
    words = torch.full((4, 1, 7), VOCABULARY.pad)
    for row, caption in zip(words, said, strict=True):
        ids = VOCABULARY.encode(caption)
        row[0, : len(ids)] = torch.tensor(ids)
    teacher, batch = TeacherForcing(model, objective(model)), batch_of(features, {}, words, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    found: list[str] = []
    for step in range(1, 151):
        optimizer.zero_grad()
        summed(teacher(batch)).div(4).backward()
        optimizer.step()
        if step % 10 == 0:
            sentences = greedy(model, model.encode(features, {}), SentenceLimits(max_length=6))
            found = [texts[0] for texts in sentences.texts(VOCABULARY)]
            if found == said:
                break
    assert found == said
