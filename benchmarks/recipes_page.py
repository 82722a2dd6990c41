"""Write docs/recipes.md, every key of a recipe, from the dataclasses that check them: part of `make docs`."""

from __future__ import annotations

from pathlib import Path

from hoca.training.keys import Key, keys, model_keys

PAGE = Path(__file__).resolve().parent.parent / "docs" / "recipes.md"
HEAD = """# Recipes

A recipe is a YAML file in sections. This page is made from the code (`make docs`); `hoca train --help` prints the
same.

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

On the command line `model=NAME` is short for `model.name=NAME` and `data=FOLDER` for `data.folder=FOLDER`. Any other
key may be given without its section where only one section has it; `section.key=value` always works.

**Stages.** `stages` names several stages that are trained one after the other. Each has a name and sections that say
what it changes; it begins from the best checkpoint of the stage before it, or from its own `init_from`. One command
runs them all, and `--resume` continues in the middle of any ([recipes/recnet.yaml](../recipes/recnet.yaml)):

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
    rows = [f"| `{key.name}` | `{key.default}` | {key.about.replace('|', '·')} |" for key in listed]
    return "\n".join([f"## {title}", "", "| key | default | meaning |", "|---|---|---|", *rows, ""])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)
