"""What a model said about clips of the binding dataset, beside what they show.

python benchmarks/beside.py CAPTIONS CLIPS
# CAPTIONS: what `hoca caption … --json` printed; CLIPS: the captions.jsonl of the dataset that the clips are from
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from hoca.data import binding


def read_lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def beside(said: list[dict], clips: list[dict]) -> str:
    """Two lines per clip, and how many clips have the right word for each attribute."""
    truth = {clip["id"]: clip for clip in clips}
    candidates = {Path(line["video"]).stem: line["text"] for line in said}
    lines = []
    for id, text in candidates.items():
        lines += [f"{id}  said:  {text}", f"{'':{len(id)}}  shown: {truth[id]['captions'][0]}"]
    attributes = {id: truth[id]["attributes"] for id in candidates}
    right = []
    for name, share in binding.attribute_accuracy(candidates, attributes).items():
        having = sum(name in of_clip for of_clip in attributes.values())
        right.append(f"{name} {round(share * having)} of {having}")
    return "\n".join([*lines, "right words: " + ", ".join(right)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captions", type=Path)
    parser.add_argument("clips", type=Path)
    options = parser.parse_args()
    print(beside(read_lines(options.captions), read_lines(options.clips)))


if __name__ == "__main__":
    main()
