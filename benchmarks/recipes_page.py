"""Write docs/recipes.md, every key of a recipe, from the dataclasses that check them: part of `make docs`."""

from __future__ import annotations

from pathlib import Path

from hoca.training.keys import Key, keys, model_keys

PAGE = Path(__file__).resolve().parent.parent / "docs" / "recipes.md"
HEAD = """# Recipes

A recipe is a YAML file with the sections below. This page is generated from the code (`make docs`); `hoca train --help`
prints the same keys.

```yaml
run: runs/mine
model:
  name: l-hoca-ubt
  hidden: 512
data:
  folder: data/msvd
train:
  epochs: 20
search:
  beam: 5
```

```sh
hoca train recipe.yaml model=hoca-u data=data/other epochs=5
hoca train recipe.yaml --resume
```

A name in place of a file means a recipe that comes with hoca: `hoca train finetune …`. `hoca recipes list` names them
all, `hoca recipes show NAME` prints one, `hoca recipes copy NAME` gives you a file to change.

Each compared system has two: `NAME`, with the encoder and the optimizer that all of them share here, and `NAME-paper`,
with the published sizes and optimizer; its heading says what still differs. What the systems are is in
[comparison.md](comparison.md).

On the command line `model=NAME` is short for `model.name=NAME` and `data=FOLDER` for `data.folder=FOLDER`. Any other
key may be given without its section if only one section has it; `section.key=value` always works.

**Stages.** `stages` lists stages that are trained one after the other. Each has a name and the sections that it
changes. It starts from the best checkpoint of the stage before it, or from its own `init_from`. One command runs all
stages, and `--resume` continues in the middle of any of them, as in
[recipes/recnet-local.yaml](../src/hoca/recipes/recnet-local.yaml):

```yaml
stages:
  - name: captions
    train: {epochs: 8}
  - name: reward
    train: {objective: scst-loo, epochs: 2, learning_rate: 0.00005}
```
"""
TITLES = {"": "At the top", "model": "model: of every captioner", "data": "data", "train": "train", "search": "search"}


def page() -> str:
    parts = [HEAD]
    for section, listed in keys().items():
        parts.append(_table(TITLES[section], listed))
        if section == "model":
            parts += [
                _table(f"model: of {', '.join(f'`{n}`' for n in named)}", own) for named, own in model_keys().items()
            ]
    return "\n".join(parts)


def _table(title: str, listed: list[Key]) -> str:
    plain = str.maketrans({"|": "·", "<": "&lt;"})  # no column, no tag
    rows = [f"| `{key.name}` | `{key.default}` | {key.about.translate(plain)} |" for key in listed]
    return "\n".join([f"## {title}", "", "| key | default | meaning |", "|---|---|---|", *rows, ""])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)
