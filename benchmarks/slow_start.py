"""Does a captioner look at the video from the start? Why `haca` and `tddf` did not, and how strong RecNet's term is.

    python benchmarks/slow_start.py --source DATA        (CPU, a quarter of an hour) -> results/slow-start.csv, the page

Each system learns from the first fold of the clips as in compare.py, three captions a video, without a schedule. At
some steps: `flat`, the least and the largest share of values above 0.9 in size after a tanh of the system's own file;
by how many nats per word the loss rises when every clip gets the features of another one, on a training batch and a
validation batch; and the gradient of a loss of its own beside that of the words.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch
from compare import RECIPE, own_options, prepare
from default_model import fill, markdown, write
from torch import Tensor
from torch.overrides import TorchFunctionMode

from hoca.distributed import Distributed
from hoca.generation import inference
from hoca.training.gradients import gradient_ratios
from hoca.training.loop import Trainer
from hoca.training.objectives import word_losses
from hoca.training.recipe import read_recipe

if TYPE_CHECKING:
    from hoca.data import Batch

ROOT = Path(__file__).resolve().parent.parent
KIND, FOLD = "msrvtt-clips", "fold=0 folds=5"
HIDDEN, ATTENTION, VIDEOS, CAPTIONS = 512, 256, 25, 3
RANDOM, FREQUENCIES = "random", "log frequencies"
STUDIES = {  # system, output bias at the start → steps after which it is looked at
    ("tddf", RANDOM): (25, 150),
    ("tddf", FREQUENCIES): (30, 60),
    ("haca", RANDOM): (30, 60),
    ("haca", FREQUENCIES): (30, 60),
    ("recnet-global", RANDOM): (0,),
    ("recnet-local", RANDOM): (0,),
}


class Tanhs(TorchFunctionMode):
    """The share of values above 0.9 in size after each tanh that a line of a file calls."""

    def __init__(self, file: str) -> None:
        super().__init__()
        self.file, self.shares = file, defaultdict[int, list[float]](list)

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = function(*args, **(kwargs or {}))
        caller = sys._getframe(1)
        if function is torch.tanh and Path(caller.f_code.co_filename).name == self.file:
            self.shares[caller.f_lineno].append(float((found.abs() > 0.9).double().mean()))
        return found


def study(system: str, bias: str, steps: tuple[int, ...], data: Path) -> Iterator[dict[str, Any]]:
    changes = [f"model={system}", *own_options(system, HIDDEN, ATTENTION), f"unigram_bias={bias == FREQUENCIES}"]
    changes += [f"data={data}", f"batch_size={VIDEOS}", f"captions_per_video={CAPTIONS}", "precision=float32"]
    with TemporaryDirectory() as run:
        recipe = read_recipe(RECIPE, [*changes, f"run={run}/run", "device=cpu", "learning_rate=0.001", "dropout=0.5"])
        of = Trainer(recipe, Distributed(0, 1, torch.device("cpu")), resume=False)
        features, lengths = of.dataset.padded([video.id for video in of.dataset.videos("validation")[:VIDEOS]])
        unseen = replace(of.batches[0], features=features, lengths=lengths, words=validation_words(of))
        for number in range(max(steps) + 1):
            if number in steps:
                yield looked_at(of, system, bias, number, unseen)
            epoch, place = divmod(number, len(of.batches))
            if not place:
                of.batches.set_epoch(epoch)
            of.state.model.train()
            of.step(of.batches[place], recipe.train.learning_rate)


def validation_words(of: Trainer) -> Tensor:
    vocabulary = of.vocabulary
    captions = [video.captions[:CAPTIONS] for video in of.dataset.videos("validation")[:VIDEOS]]
    rows = [[vocabulary.encode(text) for text in of_video] for of_video in captions]
    longest = max(len(row) for each in rows for row in each)
    return torch.tensor([[row + [vocabulary.pad] * (longest - len(row)) for row in each] for each in rows])


def looked_at(of: Trainer, system: str, bias: str, step: int, unseen: Batch) -> dict[str, Any]:
    of.state.model.train()
    ratios = gradient_ratios(of.recipe, of.state, of.batches[0])
    with flat(of, system) as shares:
        rises = [rise(of, batch) for batch in (of.batches[0], unseen)]
    row: dict[str, Any] = {"system": system, "output bias": bias, "step": step}
    row["flat"] = f"{100 * min(shares):.0f} to {100 * max(shares):.0f} %" if shares else ""
    row |= {"rise, training": f"{rises[0]:.3f}", "rise, validation": f"{rises[1]:.3f}"}
    row["gradient beside the words'"] = "".join(f"{ratio:.3f}" for ratio in ratios.values())
    print(row, flush=True)
    return row


@contextmanager
def flat(of: Trainer, system: str) -> Iterator[list[float]]:
    found: list[float] = []
    mode = Tanhs(f"{system.split('-')[0]}.py")
    with mode:
        yield found
    found += [fmean(shares) for shares in mode.shares.values()]


def rise(of: Trainer, batch: Batch) -> float:
    """Of the loss per word, when each video gets the features of the next one, or of the seventh."""
    return fmean(loss(of, moved(batch, by)) for by in (1, 7)) - loss(of, batch)


def moved(batch: Batch, by: int) -> Batch:
    features, lengths = ({m: x.roll(by, 0) for m, x in each.items()} for each in (batch.features, batch.lengths))
    return replace(batch, features=features, lengths=lengths)


def loss(of: Trainer, batch: Batch) -> float:
    model, targets = of.state.model, batch.words[:, :, 1:]
    with inference(model):
        losses = word_losses(model(batch.features, batch.lengths, batch.words[:, :, :-1]), targets, of.vocabulary.pad)
    return float(losses.sum() / (targets != of.vocabulary.pad).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, default=ROOT / ".." / "shared" / "data", help="the research data")
    parser.add_argument("--folder", type=Path, default=ROOT / "data" / "compare" / f"{KIND}-0", help="of the clips")
    parser.add_argument("--systems", nargs="+", default=[], help="names of captioners; all of the study by default")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "slow-start.csv")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "comparison.md", help="the page to fill in")
    options = parser.parse_args()
    prepare(f"{KIND} {FOLD}", options.folder, options.source)
    rows = [
        row
        for (system, bias), steps in STUDIES.items()
        if not options.systems or system in options.systems
        for row in study(system, bias, steps, options.folder)
    ]
    write(options.out, rows)
    fill(options.page, {"slow start": markdown(rows)})


if __name__ == "__main__":
    main()
