"""Compare hoca.metrics with pycocoevalcap on the same real captions, in value and in time: `make verify-metrics`.

Needs Java, the extra `verify`, and the research data (HOCA_DATA, or ../shared/data). Writes results/metrics-parity.csv.
Each program is timed in processes of its own, start-up included.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import random
import resource
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("HOCA_DATA", ROOT.parent / "shared" / "data"))
HARD = ROOT / "tests" / "text" / "hard_captions.json"
Captions = dict[str, list[str]]


def msrvtt(split: str) -> Captions:
    """References of one split of MSR-VTT."""
    name = "test_videodatainfo" if split == "test" else "train_val_videodatainfo"
    archive = "test_videodatainfo.json.zip" if split == "test" else "train_val_annotation.zip"
    with zipfile.ZipFile(DATA / "msrvtt" / archive) as file:
        content = json.loads(file.read(f"{name}.json"))
    wanted = {video["video_id"] for video in content["videos"] if video["split"] == split}
    captions: Captions = {}
    for entry in content["sentences"]:
        if entry["video_id"] in wanted:
            captions.setdefault(entry["video_id"].removeprefix("video"), []).append(entry["caption"])
    return captions


def msvd(split: str) -> Captions:
    """References of one split of MSVD."""
    captions: Captions = {}
    with zipfile.ZipFile(DATA / "msvd" / "sents_lc_nopunc.zip") as file:
        for line in file.read(f"sents_{split}_lc_nopunc.txt").decode().splitlines():
            video, caption = line.split("\t")
            captions.setdefault(video.removeprefix("vid"), []).append(caption)
    return captions


def held_out(references: Captions, times: int, others: int, seed: int) -> tuple[Captions, dict[str, str]]:
    """Candidates that people wrote: captions of each video taken out and scored against some of its other captions."""
    generator = random.Random(seed)
    sets: Captions = {}
    candidates: dict[str, str] = {}
    for video, captions in references.items():
        for turn, out in enumerate(generator.sample(range(len(captions)), min(times, len(captions)))):
            rest = captions[:out] + captions[out + 1 :]
            sets[f"{video}.{turn}"] = generator.sample(rest, min(others, len(rest)))
            candidates[f"{video}.{turn}"] = captions[out]
    return sets, candidates


def original(references: Captions, candidates: dict[str, str]) -> dict[str, Any]:
    """Scores and seconds of pycocoevalcap."""
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.meteor.meteor import Meteor
    from pycocoevalcap.rouge.rouge import Rouge
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    start = time.perf_counter()
    tokenizer = PTBTokenizer()
    gts = tokenizer.tokenize({v: [{"caption": c} for c in captions] for v, captions in references.items()})
    res = tokenizer.tokenize({video: [{"caption": candidates[video]}] for video in references})
    tokenized = time.perf_counter()
    corpus, each = {}, {}
    totals, lists = Bleu(4).compute_score(gts, res, verbose=0)
    for order in range(4):
        corpus[f"BLEU-{order + 1}"], each[f"BLEU-{order + 1}"] = totals[order], list(lists[order])
    for name, scorer in (("ROUGE-L", Rouge()), ("CIDEr", Cider())):
        corpus[name], values = scorer.compute_score(gts, res)
        each[name] = [float(value) for value in values]
    counted = time.perf_counter()
    corpus["METEOR"], each["METEOR"] = Meteor().compute_score(gts, res)
    seconds = {"tokenizer": tokenized - start, "counting": counted - tokenized, "meteor": time.perf_counter() - counted}
    return {"corpus": {k: float(v) for k, v in corpus.items()}, "each": each, "seconds": seconds}


def ours(references: Captions, candidates: dict[str, str]) -> dict[str, Any]:
    """Scores and seconds of hoca.metrics, and the seconds of a repeated evaluation."""
    from hoca.metrics import Evaluator

    start = time.perf_counter()
    evaluator = Evaluator(references)
    scores = evaluator.evaluate(candidates)
    first = time.perf_counter() - start
    repeats = []
    for _ in range(3):
        start = time.perf_counter()
        evaluator.evaluate(candidates)
        repeats.append(time.perf_counter() - start)
    each = {name: [scores.per_video[video][name] for video in references] for name in scores.corpus}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"corpus": scores.corpus, "each": each, "seconds": {"first": first, "repeated": min(repeats)}, "mib": peak}


def in_process(side: str, references: Captions, candidates: dict[str, str], folder: Path) -> dict[str, Any]:
    """Run one side in a process of its own; `wall` counts its start-up and the reading of the captions."""
    (folder / "input.json").write_text(json.dumps([references, candidates]))
    command = [sys.executable, __file__, "--side", side, "--folder", str(folder)]
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall = time.perf_counter() - start
    return {**json.loads((folder / f"{side}.json").read_text()), "wall": wall}


def compare(name: str, references: Captions, candidates: dict[str, str], folder: Path) -> list[dict[str, Any]]:
    """Rows of the table: differences per metric, then times."""
    theirs = in_process("original", references, candidates, folder)
    mine = in_process("ours", references, candidates, folder)
    pairs = sum(map(len, references.values()))
    repeated = mine["seconds"]["repeated"]
    first_wall = mine["wall"] - 3 * repeated
    print(f"{name}: {len(references)} candidates, {pairs} pairs; original {theirs['wall']:.2f} s, ", end="")
    print(f"ours {first_wall:.2f} s ({theirs['wall'] / first_wall:.1f}x), again {repeated:.3f} s ", end="")
    print(f"({theirs['wall'] / repeated:.0f}x), peak {mine['mib']:.0f} MiB")
    rows = []
    for metric in mine["corpus"]:
        gaps = [abs(a - b) for a, b in zip(mine["each"][metric], theirs["each"][metric], strict=True)]
        corpus = abs(mine["corpus"][metric] - theirs["corpus"][metric])
        equal = sum(gap < 1e-9 for gap in gaps) / len(gaps)
        print(f"   {metric:8} corpus {corpus:.1e}  largest per video {max(gaps):.1e}  equal {100 * equal:.3f} %")
        rows.append({
            "set": name, "metric": metric, "candidates": len(references), "pairs": pairs,
            "original": f"{theirs['corpus'][metric]:.6f}", "ours": f"{mine['corpus'][metric]:.6f}",
            "corpus_difference": f"{corpus:.1e}", "largest_difference_per_video": f"{max(gaps):.1e}",
            "equal_per_video": f"{equal:.6f}", "original_s": f"{theirs['wall']:.2f}", "ours_s": f"{first_wall:.2f}",
            "ours_repeated_s": f"{repeated:.3f}", "ours_peak_mib": f"{mine['mib']:.0f}",
        })  # fmt: skip
    return rows


def compare_tokenizers(folder: Path) -> dict[str, Any]:
    """Every real caption, and the hard list, through both tokenizers."""
    import gzip

    from hoca.metrics import tokenize

    captions = [row[0] for row in json.loads(HARD.read_text("utf-8"))]
    for sets in (msrvtt("train"), msrvtt("validate"), msrvtt("test"), msvd("train"), msvd("val"), msvd("test")):
        captions.extend(caption for texts in sets.values() for caption in texts)
    for file in sorted((DATA / "images").glob("*.jsonl.gz")):
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            captions.extend(caption for line in lines for caption in json.loads(line)["captions"])
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    expected = PTBTokenizer().tokenize({"all": [{"caption": caption} for caption in captions]})["all"]
    different = sum(" ".join(tokenize(c)) != e for c, e in zip(captions, expected, strict=True))
    print(f"tokenizer: {len(captions)} captions, {different} different")
    return {"set": "tokenizer", "metric": "tokens", "candidates": len(captions), "ours": different, "original": 0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", choices=["original", "ours"])
    parser.add_argument("--folder", type=Path, default=Path("/tmp/hoca-verify-metrics"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.side:
        references, candidates = json.loads((options.folder / "input.json").read_text())
        result = {"original": original, "ours": ours}[options.side](references, candidates)
        (options.folder / f"{options.side}.json").write_text(json.dumps(result))
        return
    predictions = json.loads((DATA / "predictions" / "transformer_1__msrvtt.json").read_text())["predictions"]
    published = {str(entry["image_id"]): entry["caption"] for entry in predictions}
    rows = [compare_tokenizers(options.folder)]
    rows += compare("msrvtt-test, published captions", msrvtt("test"), published, options.folder)
    rows += compare("msrvtt-train, held-out captions", *held_out(msrvtt("train"), 8, 3, 0), options.folder)
    rows += compare("msvd-test, held-out captions", *held_out(msvd("test"), 6, 10, 1), options.folder)
    java = subprocess.run(["java", "-version"], capture_output=True, text=True).stderr.splitlines()[0]
    conditions = f"{os.cpu_count()} cores, Python {platform.python_version()}, {java}, pycocoevalcap 1.2"
    fields = list(rows[1])
    with open(ROOT / "results" / "metrics-parity.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, [*fields, "conditions"])
        writer.writeheader()
        writer.writerows({**row, "conditions": conditions} for row in rows)


if __name__ == "__main__":
    main()
