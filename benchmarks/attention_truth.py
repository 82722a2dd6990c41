"""Does attention look where it should? The binding dataset knows when its thing is seen and heard.

    python benchmarks/ablation.py table                                        -> results/attention-truth.csv
    python benchmarks/attention_truth.py figure CHECKPOINT --data data/binding -> docs/attention-truth.png

`measure_attention` is what the study in ablation.py measures of every run, on the test clips that have sound: of each
word that tells an attribute, as the captions have it, the share of α on the moments of the thing told of, on those of
the other things, and the share on the former that even attention has; and β, how much the modality counts.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from experiment import ROOT, Key, Measured, Row, beside, key_of, read, write
from significance import t_interval

from hoca.data import binding

if TYPE_CHECKING:
    from hoca.data import FolderDataset
    from hoca.models import CaptionModel

CARRIES = {"colour": "image", "kind": "audio", "motion": "motion", "sound": "audio"}  # kind is heard as well as seen
SHARES = ("told", "others", "even", "beta")
CLIPS = 100  # in a batch


def measure_attention(model: CaptionModel, dataset: FolderDataset) -> list[Row]:
    """A row for each kind of word, modality and group."""
    import torch

    from hoca.explain.moments import coverage, spans
    from hoca.explain.truth import looks
    from hoca.generation import inference

    options, device = binding.read_options(dataset.folder), next(model.parameters()).device
    videos = [video for video in dataset.videos("test") if "sound" in video.attributes]
    vocabulary, totals = model.vocabulary, {}
    for first in range(0, len(videos), CLIPS):
        some = videos[first : first + CLIPS]
        features, lengths = dataset.padded([video.id for video in some])
        features, lengths = ({m: x.to(device) for m, x in each.items()} for each in (features, lengths))
        scenes = [binding.scene_of(options, video.id) for video in some]
        for scene, video in zip(scenes, some, strict=True):
            if scene.attributes != video.attributes:
                raise SystemExit(f"{video.id} is not the clip that its seed gives: make {dataset.folder} again")
        told, others = {}, {}
        for modality, x in features.items():
            steps = spans(dataset.specification[modality], x.shape[1], binding.clock(scenes[0], options))
            for covered, which in ((told, "told"), (others, "others")):
                rows = [coverage(steps, getattr(binding.moments(scene), which)[modality]) for scene in scenes]
                covered[modality] = torch.tensor(rows, device=device)  # [B, T]
        captions = [[vocabulary.encode(text) for text in video.captions] for video in some]
        longest = max(len(words) for of_video in captions for words in of_video)
        words = torch.tensor(
            [[words + [vocabulary.pad] * (longest - len(words)) for words in of_video] for of_video in captions],
            device=device,
        )  # [B, R, L + 1]
        with inference(model):
            explanation = model.look(model.encode(features, lengths), words[:, :, :-1])
        for attribute, lexicon in binding.LEXICON.items():
            numbers = torch.tensor([vocabulary[word] for word in lexicon if word in vocabulary], device=device)
            chosen = torch.isin(words[:, :, 1:], numbers)
            for look in looks(explanation, told, others, chosen) if explanation and chosen.any() else ():
                sums = totals.setdefault((attribute, look.modality, look.group), dict.fromkeys(("words", *SHARES), 0.0))
                sums["words"] += look.words
                for name in SHARES:
                    sums[name] += look.words * getattr(look, name)
    return [
        {"word": attribute, "modality": modality, "group": "+".join(group) or "merged", "words": int(sums["words"])}
        | {name: round(sums[name] / sums["words"], 4) for name in SHARES}
        for (attribute, modality, group), sums in totals.items()
    ]


def measure(folder: Path, model: CaptionModel, dataset: FolderDataset, said: dict[str, str]) -> Measured:
    """Of a run on the binding dataset: right words, and where attention looked."""
    attributes = {video.id: video.attributes for video in dataset.videos("test")}
    right = binding.right_words(said, attributes)
    accuracy = binding.attribute_accuracy(said, attributes)
    every = sum(all(of_clip.values()) for of_clip in right.values()) / len(right)
    columns = {name: round(value, 5) for name, value in (accuracy | {"all": every}).items()}
    return Measured(columns, {"attention": measure_attention(model, dataset)})


def table(runs: Path, out: Path, wanted: Collection[Key]) -> None:
    """Mean of each variant over the wanted runs, and half the 95 % interval of the share on what is told."""
    places: dict[tuple[str, ...], list[Row]] = {}
    for row in read(beside(runs, "attention")):
        if row["study"] == "table" and key_of(row) in wanted:
            places.setdefault(tuple(row[name] for name in ("variant", "word", "modality", "group")), []).append(row)
    found = []
    for (variant, word, modality, group), rows in places.items():
        told = [100 * float(row["told"]) for row in rows]
        means = {name: sum(100 * float(row[name]) for row in rows) / len(rows) for name in SHARES}
        found.append(
            {"variant": variant, "word": word, "modality": modality, "group": group, "seeds": len(rows)}
            | {name: f"{value:.1f}" for name, value in means.items()}
            | {"told ci": f"{t_interval(told):.1f}" if len(told) > 1 else ""}
            | {"times even": f"{means['told'] / means['even']:.2f}" if means["even"] else ""}
            | {"carries the word": "yes" if CARRIES[word] == modality else ""}
        )
    write(out, found)
    short = [
        {"model": f"`{row['variant']}`", "word": row["word"], "looks at": row["modality"]}
        | {"α on the thing, %": row["told"], "on the other": row["others"], "even attention": row["even"]}
        | {"times even": row["times even"], "β of the modality, %": row["beta"]}
        for row in found
        if row["group"] == "merged" and row["carries the word"]
    ]
    write(out.with_name(f"{out.stem}-short.csv"), short)
    print(out)


def figure(checkpoint: Path, data: Path, clip: str | None, out: Path) -> None:
    """The paper's Figure 7 with the truth drawn in: black frames what is told, grey the other things."""
    from hoca.captioning import load
    from hoca.explain import attention_figure, model_caption
    from hoca.features import Extracted, FeatureStore

    captioner, options, store = load(checkpoint), binding.read_options(data), FeatureStore(data / "features")
    for number in range(options.test):
        id = clip or f"test-{number:05d}"
        scene = binding.scene_of(options, id)
        caption = captioner.describe(Extracted(store[id], store.header(id).absent, options.seconds))
        right = binding.right_words({id: caption.text}, {id: scene.attributes})[id]
        # A clip of which nothing can be guessed: the thing comes second, and all words are right.
        if clip or (scene.sound and scene.told and all(right.values())):
            break
    truth = binding.moments(scene)
    shown = model_caption(captioner.model.name, captioner, caption, binding.clock(scene, options))
    attention_figure(shown, out, f"{shown.model}: {caption.text}", [(truth.others, "#999999"), (truth.told, "black")])
    print(f"{out}: {id}, {caption.text}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("figure",))
    parser.add_argument("path", type=Path, help="a checkpoint")
    parser.add_argument("--data", type=Path, default=ROOT / "data" / "binding")
    parser.add_argument("--clip", help="such as test-00007; one that the model tells rightly by default")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    figure(options.path, options.data, options.clip, options.out or ROOT / "docs" / "attention-truth.png")


if __name__ == "__main__":
    main()
