"""The whole model against the paper's equations, and against itself called in other ways."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch
from torch import Tensor, nn

from hoca.errors import UserError
from hoca.models import Captioner

from .. import literal
from ..tiny import HOLES, PAPER, RAGGED, SIZES, WIDTHS, Features, Lengths, alone, captioner, captions, videos

OPTIONS = [
    *({"name": name} for name in PAPER),
    *(
        {"name": name, "merge": merge, "fusion": fusion}
        for name in ("hoca-ubt", "l-hoca-ubt")
        for merge in ("weights", "logits", "mixture")
        for fusion in ("hierarchical", "sum")
    ),
    {"name": "l-hoca-ubt", "rank": 3},
    {"name": "l-hoca-ubt", "share_projections": True},
    {"name": "hoca-ubt", "share_projections": True},
    {"name": "l-hoca-ub", "groups": [("image",), ("motion",), ("audio",), ("image", "motion")]},
    {"name": "hoca-b", "groups": [("audio", "image")]},  # motion is in no group
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(map(str, options.values())))
@pytest.mark.parametrize("given", [RAGGED, HOLES], ids=["ragged", "holes"])
def test_forward_is_the_papers_equations_word_by_word(options: dict, given: Lengths) -> None:
    model, features, words = captioner(**options), videos(), captions(words=3)
    logits = model(features, given, words)
    for video in range(3):
        steps = {m: x[0] for m, x in alone(features, given, video)[0].items()}
        for row in range(2):
            expected = literal.logits(model, steps, words[video, row].tolist())
            torch.testing.assert_close(logits[video, row], expected)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("form", ["exact", "low-rank"])
def test_any_number_of_modalities(count: int, form: str) -> None:
    widths = {f"m{i}": 2 + i for i in range(count)}
    orders = tuple(order for order in (1, 2, 4) if order <= count)
    model = captioner("hoca-u", widths, orders=orders, form=form)
    features, words = videos(2, widths), captions(2, rows=1, words=2)
    logits = model(features, {}, words)
    for video in range(2):
        steps = {m: x[video] for m, x in features.items()}
        torch.testing.assert_close(logits[video, 0], literal.logits(model, steps, words[video, 0].tolist()))


@pytest.mark.parametrize("order", list(permutations(WIDTHS))[1:], ids="-".join)
@pytest.mark.parametrize("name", ["hoca-ubt", "l-hoca-ubt"])
def test_permuting_the_modalities_changes_nothing(name: str, order: tuple[str, ...]) -> None:
    model, features, words = captioner(name), videos(), captions()
    other = captioner(name, {m: WIDTHS[m] for m in order})
    _copy_by_name(model, other)
    torch.testing.assert_close(other(features, RAGGED, words), model(features, RAGGED, words))


@torch.no_grad()
def _copy_by_name(source: Captioner, target: Captioner) -> None:
    for part in ("encoder", "decoder", "fusion"):
        getattr(target, part).load_state_dict(getattr(source, part).state_dict())
    size, hidden = source.config.attention, source.config.hidden
    home = {frozenset(group): number for number, group in enumerate(source.config.groups)}
    for number, group in enumerate(target.config.groups):
        twin = source.config.groups[home[frozenset(group)]]
        scorers = target.attention.scorers[number], source.attention.scorers[home[frozenset(group)]]
        axes = [twin.index(m) for m in group]
        for kind in ("weights", "factors", "channels"):
            if hasattr(scorers[0], kind):
                for l, axis in enumerate(axes):
                    table = getattr(scorers[1], kind)[axis]
                    if kind == "weights":
                        rest = [a - (a > axis) for a in axes if a != axis]
                        table = table.permute(rest)
                    getattr(scorers[0], kind)[l].copy_(table)
        if len(group) == 1:
            scorers[0].load_state_dict(scorers[1].state_dict())
        for m in group:
            here, there = (model.config.groups_of(m).index(g) for model, g in ((target, group), (source, twin)))
            rows, twin_rows = (slice(size * slot, size * (slot + 1)) for slot in (here, there))
            target.attention.queries[m].weight[rows] = source.attention.queries[m].weight[twin_rows]
            target.attention.queries[m].bias[rows] = source.attention.queries[m].bias[twin_rows]
            target.attention.keys[m].weight[rows] = source.attention.keys[m].weight[twin_rows]
            target.merge.theta[m][here] = source.merge.theta[m][there]
    old, new = source.output.linear, target.output.linear
    parts = dict(zip(source.config.modalities, old.weight[:, hidden:].split(2 * hidden, dim=1), strict=True))
    new.weight.copy_(torch.cat([old.weight[:, :hidden], *(parts[m] for m in target.config.modalities)], dim=1))
    new.bias.copy_(old.bias)


def test_one_call_of_decoder_and_attention_serves_all_words_of_all_captions() -> None:
    model = captioner()
    calls = _counted(
        model, model.decoder.lstm, model.attention, *model.attention.keys.values(), *model.encoder.lstms.values()
    )
    model(videos(), RAGGED, captions(rows=5, words=6))
    assert set(calls.values()) == {1}


def _counted(model: Captioner, *modules: nn.Module) -> dict[nn.Module, int]:
    calls = dict.fromkeys(modules, 0)

    def count(module: nn.Module, *_: object) -> None:
        calls[module] += 1

    for module in modules:
        module.register_forward_hook(count)
    return calls


@pytest.mark.parametrize("name", PAPER)
def test_word_by_word_gives_the_same_numbers(name: str) -> None:
    model, words = captioner(name), captions(words=5)
    memory = model.encode(videos(), HOLES)
    together = model.decode(memory, words, model.begin(memory, 2))
    state, logits, hidden = model.begin(memory, 2), [], []
    for word in words.split(1, dim=2):
        one = model.decode(memory, word, state)
        state = one.state
        logits.append(one.logits)
        hidden.append(one.hidden)
    torch.testing.assert_close(torch.cat(logits, dim=2), together.logits)
    torch.testing.assert_close(torch.cat(hidden, dim=2), together.hidden)
    torch.testing.assert_close(state, together.state)


def test_words_do_not_see_later_words_nor_other_captions() -> None:
    model, features, words = captioner(), videos(), captions(words=5)
    changed = words.clone()
    changed[:, 0, 3:] = 1 + (changed[:, 0, 3:] % 5)
    changed[:, 1] = words[:, 1].flip(1)
    before, after = model(features, RAGGED, words), model(features, RAGGED, changed)
    torch.testing.assert_close(after[:, 0, :3], before[:, 0, :3])


def test_no_captions_are_captions_too() -> None:
    assert captioner()(videos(), RAGGED, captions(rows=0)).shape[:3] == (3, 0, 4)


def test_lengths_left_out_mean_that_every_step_is_real() -> None:
    model, features, words = captioner(), videos(), captions()
    full = {m: torch.full((3,), x.shape[1]) for m, x in features.items()}
    assert torch.equal(model(features, {}, words), model(features, full, words))
    torch.testing.assert_close(
        model(features, {"image": RAGGED["image"]}, words), model(features, full | {"image": RAGGED["image"]}, words)
    )


def test_padding_beyond_max_steps_is_no_input() -> None:
    model, words = captioner(), captions()
    features = videos()
    longer = {m: torch.cat([x, torch.full((3, 9, x.shape[2]), float("nan"))], dim=1) for m, x in features.items()}
    torch.testing.assert_close(model(longer, RAGGED, words), model(features, RAGGED, words))


@pytest.mark.parametrize(
    ("features", "given", "message"),
    [
        ({"image": torch.zeros(1, 2, 9)}, {}, "image features have width 9.*made for 5"),
        ({"audio": torch.zeros(1, 7, 3)}, {}, "audio features have 7 steps.*at most 6.*max_steps"),
        ({"imgae": torch.zeros(1, 2, 5)}, {}, "'imgae'.*did you mean 'image'"),
        ({"image": torch.zeros(1, 2, 5)}, {"imgae": torch.tensor([1])}, "'imgae'.*did you mean 'image'"),
        ({"image": torch.zeros(1, 2, 5)}, {"image": torch.tensor([3])}, "lengths\\['image'\\] says 3 steps.*have 2"),
        ({}, {}, "at least one is needed"),
        ({"image": torch.zeros(1, 2, 5)}, {"image": torch.tensor([0])}, "at least one is needed"),
    ],
)
def test_wrong_input_is_named(features: Features, given: Lengths, message: str) -> None:
    features = {m: x.double() for m, x in features.items()}
    with pytest.raises(UserError, match=message) as error:
        captioner()(features, given, captions(1))
    assert "\n" not in str(error.value)


def test_a_video_of_the_batch_that_lacks_everything_is_named() -> None:
    given = {m: torch.tensor([2, 0, 1]) for m in WIDTHS}
    with pytest.raises(UserError, match="video 1 of the batch has no modality"):
        captioner()(videos(), given, captions())


@pytest.mark.parametrize("name", ["hoca-ubt", "l-hoca-ubt"])
def test_backends_agree(name: str) -> None:
    model, features, words = captioner(name), videos(), captions()
    expected = model(features, HOLES, words)
    model.attention.backend = "reference"
    torch.testing.assert_close(model(features, HOLES, words), expected)


def test_dropout_is_on_the_decoders_input_and_output_and_what_is_left_is_the_query() -> None:
    model, words = captioner(dropout=0.5).train(), captions()
    dropped: list[Tensor] = []
    seen: dict[str, Tensor] = {}
    model.decoder.dropout.register_forward_hook(lambda _, __, out: dropped.append(out))
    model.attention.register_forward_pre_hook(lambda _, args: seen.update(query=args[0]))
    model.output.linear.register_forward_pre_hook(lambda _, args: seen.update(output=args[0]))
    model(videos(), RAGGED, words)
    embedded, hidden = dropped
    assert embedded.shape == (3, 2, 4, SIZES["embedding"])
    assert all(0.2 < (x == 0).double().mean() < 0.8 for x in dropped)
    query = hidden.reshape(3, 2 * 4, SIZES["hidden"])  # [B, R·L, H]
    assert torch.equal(seen["query"], query)
    assert torch.equal(seen["output"][..., : SIZES["hidden"]], query)


def test_nothing_else_is_random() -> None:
    model, features, words = captioner().train(), videos(), captions()
    assert torch.equal(model(features, RAGGED, words), model(features, RAGGED, words))
    model = captioner(dropout=0.5).train()
    assert torch.equal(model.encode(features, RAGGED).keys["image"], model.encode(features, RAGGED).keys["image"])
    assert not torch.equal(model(features, RAGGED, words), model(features, RAGGED, words))
    assert torch.equal(model.eval()(features, RAGGED, words), model(features, RAGGED, words))


@pytest.mark.parametrize("given", [RAGGED, HOLES, {}], ids=["ragged", "missing", "full"])
def test_chosen_places_without_a_look_at_the_host_are_those_of_the_whole(given: Lengths) -> None:
    model, features, words = captioner(), videos(), captions(rows=3, words=4)
    whole = model(features, given, words).flatten(1, 2)  # [B, R·L, V]
    places = torch.stack([torch.randperm(12)[:5] for _ in range(3)])
    lengths = {m: given.get(m, torch.full((3,), x.shape[1])) for m, x in features.items()}
    chosen = model.forward_at(features, lengths, frozenset(given), words, places)
    torch.testing.assert_close(chosen, whole.gather(1, places[..., None].expand(-1, -1, whole.shape[2])))
