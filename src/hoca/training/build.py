"""What a recipe asks for: its dataset, its model, its optimizer."""

from __future__ import annotations

from pathlib import Path

import torch

from hoca.data import FolderDataset, Vocabulary
from hoca.data.vectors import category_vectors, load_vectors
from hoca.errors import UserError
from hoca.models import Captioner, create
from hoca.progress import say
from hoca.training.beginning import Beginning
from hoca.training.detector import fit
from hoca.training.distributed import Processes
from hoca.training.recipe import Recipe

DETECTOR_EPOCHS = 10  # more, and few videos are learned by heart


def build_dataset(recipe: Recipe, here: Processes) -> FolderDataset:
    """The dataset, with its features where batches are made: on the training device, or here for worker processes."""
    dataset = FolderDataset(
        recipe.data,
        modalities=recipe.modalities or None,
        features=recipe.features,
        on_problem=recipe.on_problem,
        report=say if here.first else None,
    ).preload(device="cpu" if recipe.workers else here.device)
    for modality, steps in dataset.steps.items():
        if steps > recipe.max_steps:
            raise UserError(
                f"{modality} has up to {steps} steps in {recipe.data}, more than max_steps={recipe.max_steps}: raise it"
            )
    if not dataset.videos("train"):
        raise UserError(f"{recipe.data} has no videos in the split 'train': there is nothing to learn from")
    if len(dataset.videos("validation")) == 1:
        raise UserError(f"{recipe.data} has one validation video and CIDEr compares several: add some, or leave it out")
    return dataset


def build_vocabulary(recipe: Recipe, dataset: FolderDataset, beginning: Beginning | None) -> Vocabulary:
    """The words of the recipe's file or of the training captions; before them, those of the model to begin from."""
    if recipe.vocabulary:
        words = Vocabulary.load(recipe.vocabulary)
    else:
        words = Vocabulary.build(dataset.corpus.captions("train"), recipe.minimum_count)
    return words if beginning is None else beginning.words(words)


def build_model(
    recipe: Recipe, dataset: FolderDataset, vocabulary: Vocabulary, beginning: Beginning | None = None
) -> Captioner:
    """The recipe's model for the dataset's features, with word and category vectors in place; or that of `start`."""
    if recipe.evidence and not (recipe.detects or (beginning and beginning.config.detects)):
        raise UserError(
            f"evidence={recipe.evidence} in the recipe: the model detects no words: add detects=, or leave it out"
        )
    for modality in recipe.detects:
        if modality not in dataset.modalities:
            raise UserError(
                f"detects names {modality!r}, of which {recipe.data} has no features: known: "
                f"{', '.join(dataset.modalities)}"
            )
    if beginning is not None:
        beginning.check(dataset)
        if recipe.vectors or recipe.category_vectors:
            raise UserError("start already has word vectors: leave vectors and category_vectors out of the recipe")
        return beginning.model(recipe, vocabulary)
    options = recipe.model_options()
    words = load_vectors(_vector_file(recipe.vectors), vocabulary.tokens) if recipe.vectors else None
    if words is not None:
        vectors, found = words
        # Some files have vectors so long that every gate of the LSTM is stuck from the start.
        words = vectors / max(1.0, float(vectors[found].std()) if bool(found.any()) else 1.0), found
        options["embedding"] = vectors.shape[1]
    names = dataset.categories
    if recipe.category_vectors and not names:
        raise UserError(f"category_vectors is given, but no video of {recipe.data} has a category: leave it out")
    categories = category_vectors(names, _vector_file(recipe.category_vectors)) if recipe.category_vectors else None
    if categories is not None:
        options |= {"categories": names, "category_width": categories.shape[1]}
    model = create(recipe.model, dataset.widths, vocabulary, **options)
    if words is not None:
        model.decoder.set_word_vectors(*words)
    if categories is not None:
        model.start.vectors.copy_(categories)
    return model


def fit_detector(recipe: Recipe, dataset: FolderDataset, model: Captioner) -> None:
    """Let the recipe's model detect words, if it is to."""
    if recipe.detects:
        model.detector = fit(model.config, model.vocabulary, [(dataset, DETECTOR_EPOCHS)], recipe.seed)


def _vector_file(name: str) -> Path:
    """The file of that name, or the asset, fetched on first need."""
    from hoca import assets

    return assets.path(name) if name in assets.TABLE and not Path(name).exists() else Path(name)


def build_optimizer(recipe: Recipe, model: Captioner) -> torch.optim.Optimizer:
    device = next(model.parameters()).device
    if device.type != "cuda":
        return torch.optim.AdamW(model.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
    rate = torch.tensor(recipe.learning_rate, device=device)  # a captured step reads it there
    return torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=recipe.weight_decay, fused=True, capturable=True)
