"""What a recipe asks for: its dataset, its vocabulary, its model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from hoca.data import FolderDataset, read_vocabulary
from hoca.data.vectors import category_vectors, load_vectors
from hoca.devices import choose_device, memory_of
from hoca.distributed import Distributed
from hoca.errors import UserError
from hoca.files import in_units
from hoca.models import CaptionModel, create
from hoca.progress import say
from hoca.text import Vocabulary
from hoca.training.detector import fit
from hoca.training.optimizer import build_optimizer, kept_of_a_weight
from hoca.training.pretrained import Pretrained
from hoca.training.recipe import DEFAULT_MODEL, Recipe

WEIGHT_BYTES = 4  # float32
DETECTOR_EPOCHS = 10  # more, and few videos are learned by heart


def build_dataset(recipe: Recipe, dist: Distributed) -> FolderDataset:
    """The dataset, with its features where batches are made: on the training device, or here for worker processes."""
    data = recipe.data
    dataset = FolderDataset(
        data.folder,
        modalities=list(data.modalities) or None,
        features=data.features,
        on_problem=data.on_problem,
        report=say if dist.is_main else None,
    ).preload(device="cpu" if recipe.train.workers else dist.device)
    if not dataset.videos("train"):
        raise UserError(f"{data.folder} has no videos in the split 'train': there is nothing to learn from")
    if len(dataset.videos("validation")) == 1:
        raise UserError(f"{data.folder} has one validation video and CIDEr compares several: add some, or leave it out")
    return dataset


def build_vocabulary(recipe: Recipe, dataset: FolderDataset, pretrained: Pretrained | None) -> Vocabulary:
    """The words of the recipe's file or of the training captions; before them, those of the model to begin from."""
    if recipe.data.vocabulary:
        words = read_vocabulary(recipe.data.vocabulary)
    else:
        words = Vocabulary.build(dataset.corpus.captions("train"), recipe.data.min_count)
    return words if pretrained is None else pretrained.words(words)


def build_model(
    recipe: Recipe, dataset: FolderDataset, vocabulary: Vocabulary, pretrained: Pretrained | None = None
) -> CaptionModel:
    """The recipe's model for the dataset's features, with word and category vectors in place, or `init_from`'s."""
    data = recipe.data
    for modality in recipe.model.options.get("word_detector") or ():
        if modality not in dataset.modalities:
            raise UserError(
                f"word_detector names {modality!r}, of which {data.folder} has no features: known: "
                f"{', '.join(dataset.modalities)}"
            )
    if pretrained is None:
        model = _new_model(recipe, dataset, vocabulary)
    else:
        if data.word_vectors or data.category_vectors:
            raise UserError(
                "init_from already has word vectors: leave word_vectors and category_vectors out of the recipe"
            )
        pretrained.check(dataset)
        model = pretrained.model(recipe.model, vocabulary)
    if recipe.search.detector_weight and model.detector is None:
        raise UserError(
            f"detector_weight={recipe.search.detector_weight} in the recipe: the model detects no words: add "
            f"word_detector=, or leave it out"
        )
    dataset.number_categories(model.config.categories)
    for modality, steps in dataset.steps.items():
        longest = model.config.max_steps[modality]
        if steps > longest:
            raise UserError(
                f"{modality} has up to {steps} steps in {data.folder}, more than max_steps={longest}: raise it"
            )
    return model


def _new_model(recipe: Recipe, dataset: FolderDataset, vocabulary: Vocabulary) -> CaptionModel:
    data, options = recipe.data, dict(recipe.model.options)
    words = load_vectors(_vector_file(data.word_vectors), vocabulary.tokens) if data.word_vectors else None
    if words is not None:
        vectors, found = words
        # Some files have vectors so long that every gate of the LSTM is stuck from the start.
        words = vectors / max(1.0, float(vectors[found].std()) if bool(found.any()) else 1.0), found
        options["embedding"] = vectors.shape[1]
    names = dataset.categories
    if data.category_vectors and not names:
        raise UserError(f"category_vectors is given, but no video of {data.folder} has a category: leave it out")
    categories = category_vectors(names, _vector_file(data.category_vectors)) if data.category_vectors else None
    if categories is not None:
        options |= {"categories": names, "category_width": categories.shape[1]}
    build = partial(create, recipe.model.name or DEFAULT_MODEL, dataset.widths, vocabulary, **options)
    _check_size(build, recipe)
    model = build()
    if words is not None:
        model.set_word_vectors(*words)
    if categories is not None:
        model.set_category_vectors(categories)
    if model.config.unigram_bias:
        model.set_word_frequencies(unigrams(dataset.corpus.captions("train"), vocabulary))
    return model


def unigrams(captions: Iterable[str], vocabulary: Vocabulary) -> Tensor:
    """How often each word is to be said, [V], as a share of all; once more than in the captions, so that none is 0."""
    said = torch.tensor([word for caption in captions for word in vocabulary.encode(caption)[1:]])
    counts = 1 + torch.bincount(said, minlength=len(vocabulary))
    return counts / counts.sum()


def _check_size(build: Callable[[], CaptionModel], recipe: Recipe) -> None:
    """Refuse a model that cannot be trained on this machine, before it takes the memory."""
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        model = build()
        kept = kept_of_a_weight(build_optimizer(recipe.train, model))
    weights = sum(parameter.numel() for parameter in model.parameters())
    device = choose_device(recipe.device)
    # Each weight, its gradient, and what the optimizer keeps of it.
    wanted, there = WEIGHT_BYTES * (2 + len(kept)) * weights, memory_of(device)
    if wanted > there:
        raise UserError(
            f"the model has {weights:,} weights, and to train it takes {in_units(wanted)} of the {in_units(there)} of "
            f"{device.type}: choose a smaller hidden, embedding or attention"
        )


def prepare_model(recipe: Recipe, dataset: FolderDataset, model: CaptionModel) -> None:
    """Fit what is fitted before training: what the model takes from the videos, and a word detector if asked for."""
    videos = dataset.videos("train")
    steps = [dataset.lengths(video.id) for video in videos]
    model.set_lengths({m: torch.tensor([each.get(m, 0) for each in steps]) for m in dataset.modalities})
    model.prepare([video.captions for video in videos])
    if recipe.model.options.get("word_detector"):
        model.detector = fit(model.config, model.vocabulary, [(dataset, DETECTOR_EPOCHS)], recipe.seed)


def freeze(model: CaptionModel, parts: tuple[str, ...]) -> None:
    """Train only the parameters whose names begin with one of `parts`; all where none are named.

    A part may have no parameters, as the start state of a model without categories.
    """
    if not parts:
        return
    names = [name for name, _ in model.named_parameters()]
    modules = dict(model.named_modules())
    for part in parts:
        if (not part or part not in modules) and not any(_within(name, part) for name in names):
            known = sorted({name.split(".")[0] for name in names})
            raise UserError(f"parts names {part!r}, which {model.name} has not: known: {', '.join(known)}")
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(any(_within(name, part) for part in parts))
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise UserError(f"parts names nothing of {model.name} that has weights, so nothing would learn: add a part")


def _within(name: str, part: str) -> bool:
    return name == part or name.startswith(f"{part}.")


def _vector_file(name: str) -> Path:
    """The file of that name, or the asset, fetched on first need."""
    from hoca import assets

    return assets.path(name) if name in assets.TABLE and not Path(name).exists() else Path(name)
