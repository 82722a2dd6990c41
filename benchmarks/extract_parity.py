"""Compare extracted features with those that an independent implementation made of the same files.

    hoca extract ../shared/data/msrvtt/clips --out store && python benchmarks/extract_parity.py store

reads a feature store of the MSR-VTT clips, or several whose modalities are put together (a later one wins; image
features by different backbones are compared apart); without one (`--clips 10`) it extracts that many clips itself. The
pictures in images/samples are extracted in any case, in float32 and in bfloat16. Needs the research data (HOCA_DATA, or
../shared/data). Writes results/extract-parity.csv: cosine per step, least and median, and the worst clips by name with
what is known about them. What was not compared keeps its rows.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hoca import features
from hoca.files import replacing
from hoca.progress import track

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("HOCA_DATA", ROOT.parent / "shared" / "data"))
FIELDS = ("what", "items", "steps", "least", "median", "note")
WORST = 3
Features = dict[str, np.ndarray]
IMAGES = ("dinov2-small", "efficientnet-lite2")  # the backbones whose features are stored
NAMES = (*IMAGES, "motion", "audio")
PRECISIONS = {"float32": "", "bf16": "bfloat16, "}  # in which pictures are compared → what their row says of it


def cosines(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """[T, width] twice → [T]."""
    lengths = np.linalg.norm(one, axis=-1) * np.linalg.norm(other, axis=-1)
    return (one * other).sum(-1) / np.maximum(lengths, 1e-12)


def restored(quantised: np.ndarray, scale: np.ndarray) -> np.ndarray:
    return scale * np.square(quantised.astype(np.float32) / 255)


def expected_clips() -> dict[str, Features]:
    """The stored features of the clips, those of images by their backbone; a clip without sound has no audio."""
    arrays = np.load(DATA / "msrvtt" / "clip-features.npz", allow_pickle=False)
    lengths = {"image": 20, "motion": 20}
    whole = {name: arrays[name] for name in ("image", "motion", "audio")}
    found: dict[str, Features] = {}
    for row, id in enumerate(map(str, arrays["ids"])):
        steps = lengths | {"audio": int(arrays["audio_length"][row])}
        found[id] = {
            "efficientnet-lite2" if name == "image" else name: restored(
                values[row, : steps[name]], arrays[f"{name}_scale"]
            )
            for name, values in whole.items()
            if steps[name]
        }
    arrays = np.load(DATA / "dinov2" / "clips.npz", allow_pickle=False)
    for id, values in zip(map(str, arrays["ids"]), arrays["q"], strict=True):
        found[id]["dinov2-small"] = arrays["zero"] + arrays["scale"] * values
    return found


def expected_pictures(backbone: str) -> dict[str, np.ndarray]:
    if backbone == "dinov2-small":
        arrays = np.load(DATA / "dinov2" / "samples.npz", allow_pickle=False)
        return {str(id): values[None] for id, values in zip(arrays["ids"], arrays["x"], strict=True)}
    arrays = np.load(DATA / "images" / "flickr8k.npz", allow_pickle=False)
    with gzip.open(DATA / "images" / "flickr8k.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = {line["id"]: line["rows"] for line in map(json.loads, lines)}
    files = sorted((DATA / "images" / "samples").glob("*.jpg"))
    return {file.stem: restored(arrays["q"][slice(*rows[file.stem])], arrays["scale"]) for file in files}


def stored(folders: list[Path]) -> dict[str, Features]:
    """What the stores hold; a modality that was asked for and is absent has no steps."""
    made: dict[str, Features] = {}
    for store in map(features.FeatureStore, folders):
        for id in store:
            header = store.header(id)
            found = {name: np.zeros((0, 1)) for name in header.absent} | store[id]
            made[id] = made.get(id, {}) | _by_backbone(found, header.specification)
    return made


def _by_backbone(found: Features, specification: dict[str, Any]) -> Features:
    """Image features under the name of their backbone."""
    return {specification[name]["backbone"] if name == "image" else name: values for name, values in found.items()}


def extracted(count: int, device: str, precision: str) -> Iterator[tuple[str, Features]]:
    files = sorted((DATA / "msrvtt" / "clips").glob("*.mp4"))
    chosen = files[:: max(1, len(files) // max(1, count))][:count]
    with features.Extractor(features.specify(), device=device, precision=precision) as extractor:
        for file in track(chosen, total=len(chosen), what="clips"):
            found = extractor.extract(file)
            values = {name: np.zeros((0, 1)) for name in found.absent} | found.features
            yield file.stem, _by_backbone(values, dict(extractor.specification))


def pictures(backbone: str, device: str, precision: str) -> Iterator[tuple[str, np.ndarray]]:
    specification = features.specify(backbone, motion=None, audio=None)
    specification["image"]["steps"] = 1
    files = sorted((DATA / "images" / "samples").glob("*.jpg"))
    with features.Extractor(specification, device=device, precision=precision) as extractor:
        for file in track(files, total=len(files), what="pictures"):
            yield file.stem, extractor.extract(file).features["image"]


def row(what: str, each: dict[str, np.ndarray], note: str = "") -> dict[str, object]:
    values = np.concatenate(list(each.values()))
    least, median = f"{values.min():.4f}", f"{np.median(values):.4f}"
    return {"what": what, "items": len(each), "steps": len(values), "least": least, "median": median, "note": note}


def compare(made: dict[str, Features], facts: dict[str, dict[str, str]]) -> Iterator[dict[str, object]]:
    """A row for each kind of features, and one for each of its worst clips."""
    expected = expected_clips()
    for name in NAMES:
        asked = {id: values[name] for id, values in made.items() if name in values}
        both = {id: (one, expected[id][name]) for id, one in asked.items() if len(one) and name in expected[id]}
        alone = sorted(id for id, one in asked.items() if bool(len(one)) != (name in expected[id]))
        longer = sorted(id for id, (one, other) in both.items() if len(one) != len(other))
        if not both:
            continue
        each = {}
        for id, (one, other) in both.items():
            steps = min(len(one), len(other))
            each[id] = cosines(one[:steps], other[:steps])
        note = f"present in one only: {' '.join(alone) or 'none'}; of other length: {' '.join(longer) or 'none'}"
        yield row(name, each, note)
        for id in sorted(each, key=lambda id: float(np.median(each[id])))[:WORST]:
            yield row(f"{name}, {id}", {id: each[id]}, explained(made[id][name], expected[id][name], facts.get(id, {})))


def explained(one: np.ndarray, other: np.ndarray, facts: dict[str, str]) -> str:
    """What is special about a clip: its rate, how still it is, how faint its features are."""
    steps = min(len(one), len(other))
    scale = np.linalg.norm(other[:steps], axis=1)
    told = [f"{key} {facts[key]}" for key in ("fps", "duration_s") if key in facts]
    shift = max(range(-2, 3), key=lambda by: _shifted(one[:steps], other[:steps], by))
    return ", ".join(
        [*told, f"feature norm {scale.min():.2f} to {scale.max():.2f}", f"best at a shift of {shift} steps"]
    )


def _shifted(one: np.ndarray, other: np.ndarray, by: int) -> float:
    first, second = (one[by:], other[: len(other) - by]) if by >= 0 else (one[:by], other[-by:])
    return float(np.median(cosines(first, second))) if len(first) else -1.0


def kept_rows(table: Path, rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """The rows with those of an earlier table about what was not compared now, in the order of `NAMES`."""
    if table.is_file():
        with open(table, encoding="utf-8", newline="") as file:
            done = {_kind(row) for row in rows}
            rows = [*rows, *(old for old in csv.DictReader(file) if _kind(old) not in done)]
    return sorted(rows, key=lambda row: (NAMES.index(_kind(row)[0]), _kind(row)[1]))


def _kind(row: dict[str, Any]) -> tuple[str, str]:
    """What a row compares, and on which pictures, if any."""
    name, _, rest = str(row["what"]).partition(", ")
    return name, rest if rest.endswith("pictures") else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stores", nargs="*", type=Path)
    parser.add_argument("--clips", type=int, default=10, help="how many to extract where no store is given; 0 for none")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="auto", help="of clips")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "extract-parity.csv")
    chosen = parser.parse_args()
    with open(DATA / "msrvtt" / "clips.csv", encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    key = next(iter(table[0]))
    made = stored(chosen.stores) or dict(extracted(chosen.clips, chosen.device, chosen.precision))
    rows = list(compare(made, {line[key]: line for line in table}))
    for backbone in IMAGES:
        wanted = expected_pictures(backbone)
        for precision, told in PRECISIONS.items():
            each = {id: cosines(values, wanted[id]) for id, values in pictures(backbone, chosen.device, precision)}
            rows.append(row(f"{backbone}, {told}60 pictures", each))
    rows = kept_rows(chosen.out, rows)
    with replacing(chosen.out) as temporary, open(temporary, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    for line in rows:
        print(*line.values(), sep="  ")


if __name__ == "__main__":
    main()
