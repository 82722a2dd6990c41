"""From a captions file and videos to a folder dataset, with the features that the model to begin from asks for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hoca.checkpoint import load_model
from hoca.data import Corpus, read_corpus, write_corpus
from hoca.distributed import started
from hoca.errors import UserError
from hoca.progress import say
from hoca.training.recipe import Recipe


def with_features(recipe: Recipe) -> Recipe:
    """The recipe for the dataset that its `data`, a captions file, and its `videos` make; kept in the run's folder.

    A video is known by its file name without the ending. What was extracted before is not extracted again.
    """
    from hoca.features.engines import ExtractionSettings, extract_all, find
    from hoca.features.store import FeatureStore

    if recipe.data.videos is None:
        return recipe
    if started() > 1:
        raise UserError(
            "videos is given to several processes, and features are made by one: run one first, with epochs=1 and "
            "another run=, and then give several that run's data/ as data=, without videos="
        )
    if recipe.init_from is None:
        raise UserError(
            "videos is given without init_from: name the model to begin from, whose features are to be made"
        )
    captions = Path(recipe.data.folder)
    if captions.is_dir():
        raise UserError(f"data={captions} is a folder: with videos=, give the captions file, JSON lines or CSV")
    corpus = read_corpus(captions, on_problem=recipe.data.on_problem, report=say)
    known = {video.id for video in corpus.videos}
    files = [video for video in find([recipe.data.videos]) if video.id in known]
    found = {video.id for video in files}
    for video in corpus.videos:
        if video.id not in found and recipe.data.on_problem == "stop":
            raise UserError(
                f"{captions} tells of {video.id}, {recipe.data.videos} has no such video (a file name without its "
                "ending): add it, or give on_problem=skip"
            )
    folder = Path(recipe.run) / "data"
    store = FeatureStore(folder / "features")
    summary = extract_all(
        [video.path for video in files],
        store,
        load_model(recipe.init_from).specification,
        ExtractionSettings(device=recipe.device),
    )
    if summary.failed and recipe.data.on_problem == "stop":
        raise UserError(f"{len(summary.failed)} videos could not be read: fix them, or give on_problem=skip")
    videos = tuple(video for video in corpus.videos if video.id in store)
    if not videos:
        raise UserError(f"no video of {captions} could be read in {recipe.data.videos}: look at the lines above")
    for stale in set(store.ids()) - {video.id for video in videos}:
        store.path(stale).unlink()
    (folder / "captions.jsonl").unlink(missing_ok=True)
    write_corpus(Corpus(corpus.name, videos, corpus.categories), folder)
    return replace(recipe, data=replace(recipe.data, folder=str(folder), videos=None))
