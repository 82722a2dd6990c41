"""A model from a file that may come from anywhere: a model or one line, and no more memory than the file has."""

from __future__ import annotations

import json
import math
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from hoca.checkpoint import Checkpoint, load_model, model_facts, read_checkpoint, write_checkpoint
from hoca.errors import UserError
from hoca.generation import Confidence, Search
from hoca.models import create
from hoca.text import Vocabulary

WORDS = Vocabulary(["a", "man", "runs"])
Change = Callable[[dict[str, torch.Tensor], dict[str, Any]], Any]


@pytest.fixture(scope="module", autouse=True)
def _little_memory() -> Iterator[None]:
    """What allocates before it compares fails here and not on the machine of whoever runs the tests."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (2 << 30), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def write(path: Path, name: str = "l-hoca-ubt", change: Change = lambda tensors, facts: None) -> Path:
    sizes = {"hidden": 8, "embedding": 8} | ({"attention": 8} if "hoca" in name else {})
    model = create(name, {"image": 6, "motion": 5, "audio": 4}, WORDS, **sizes)
    facts = model_facts(model, {"image": {"backbone": "test", "steps": 5}}, Search())
    facts["confidence"] = Confidence().to_json()
    tensors = {f"model.{key}": value.clone() for key, value in model.state_dict().items()}
    change(tensors, facts)
    write_checkpoint(path, Checkpoint(tensors, facts))
    return path


def config(**values: Any) -> Change:
    return lambda tensors, facts: facts["config"].update(values)


def fact(section: str, value: Any) -> Change:
    def change(tensors: dict[str, torch.Tensor], facts: dict[str, Any]) -> None:
        facts[section] = facts[section] | value if isinstance(value, dict) else value

    return change


def weights(**values: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    """The first matrix as something else."""

    def change(tensors: dict[str, torch.Tensor], facts: dict[str, Any]) -> None:
        key = next(key for key, value in tensors.items() if value.dim() == 2)
        for ending, make in values.items():
            tensors[key + {"same": ""}.get(ending, f":{ending}")] = make(tensors[key])

    return change


def quantized(scales: torch.Tensor, matrix: torch.Tensor) -> Change:
    def change(tensors: dict[str, torch.Tensor], facts: dict[str, Any]) -> None:
        tensors |= {"model.x": matrix, "model.x:rows": scales}

    return change


HOSTILE: dict[str, tuple[Change, str]] = {
    "wide layers": (config(hidden=65_000, embedding=65_000), "weights do not fit"),
    "no size": (config(hidden=10**5), "hidden=100000 must be"),
    "a text for a size": (config(hidden="8"), "hidden='8' must be a whole number"),
    "a size as a fraction": (config(hidden=8.5), "must be a whole number"),
    "long inputs": (config(max_steps={"image": 16_000}), "weights do not fit"),
    "many modalities": (config(modalities={f"m{n}": 1 for n in range(5000)}), "at most 16"),
    "modalities of every order": (
        config(modalities={f"m{n}": 1 for n in range(16)}, groups=[], orders=list(range(1, 17)), max_steps={}),
        "make 65535 groups",
    ),
    "many groups": (config(groups=[["image"]] * 10**5), "at most 1024"),
    "a factor without bounds": (config(initial_scale=1e300), "initial_scale"),
    "not a number": (config(dropout=math.nan), "dropout=nan must be a number"),
    "categories without weights": (config(categories=[str(n) for n in range(10**5)], category_width=60_000), "fit"),
    "a word list of words": (fact("vocabulary", [f"w{n}" for n in range(10**6)]), "weights do not fit"),
    "too many words": (fact("vocabulary", ["a"] * (1 << 20)), "1048576 words"),
    "a word that is a list": (fact("vocabulary", [["a"] * 10**5]), "is a list, expected one word"),
    "words as a table": (fact("vocabulary", "a man"), "expected a list of words"),
    "a wide beam": (fact("search", {"beam": 10**6}), "beam=1000000 must be"),
    "a long wide search": (fact("search", {"beam": 1000, "max_length": 1000}), "beam · max_length"),
    "a large penalty": (fact("search", {"length_penalty": 1e300}), "length_penalty"),
    "a large weight": (fact("search", {"detector_weight": 1e300}), "detector_weight"),
    "a search of text": (fact("search", "beam"), "search"),
    "a confidence that is no number": (fact("confidence", {"bias": math.nan}), "bias=nan must be a number"),
    "an infinite confidence": (fact("confidence", {"agreement": math.inf}), "agreement=inf must be a number"),
    "a confidence too large": (fact("confidence", {"logprob": 1e300}), "logprob"),
    "a specification that is a list": (fact("specification", []), "specification"),
    "a modality made of a number": (fact("specification", {"image": 5}), "specification"),
    "a backbone that is a list": (fact("specification", {"image": {"backbone": []}}), "no text"),
    "countless steps": (fact("specification", {"image": {"backbone": "x", "steps": 10**12}}), "steps of 'image'"),
    "an unknown model": (fact("model", "gpt"), "there is no model 'gpt'"),
    "a model that is a list": (fact("model", ["l-hoca-ubt"]), "there is no model"),
    "NaN": (weights(same=lambda x: x * math.nan), "not finite"),
    "infinite half precision": (weights(same=lambda x: torch.full_like(x, math.inf).half()), "not finite"),
    "a transposed matrix": (weights(same=lambda x: x.new_zeros(x.shape[1] + 1, x.shape[0])), "weights do not fit"),
    "a vector for a matrix": (weights(same=lambda x: x.flatten()), "weights do not fit"),
    "integers for weights": (weights(same=lambda x: x.long()), "weights do not fit"),
    "complex weights": (weights(same=lambda x: x.to(torch.complex64)), "of type C64"),
    "a weight too many": (weights(more=lambda x: x.clone()), "superfluous"),
    "scales that spread": (quantized(torch.ones(1, 60_000), torch.ones(60_000, 1, dtype=torch.int8)), "scale per row"),
    "scales of nothing": (weights(rows=lambda x: torch.ones(len(x), 1)), "scale per row"),
    "scales for floats": (quantized(torch.ones(2, 1), torch.ones(2, 3)), "scale per row"),
    "scales that overflow": (
        quantized(torch.full((2, 1), 3e38), torch.full((2, 3), 127, dtype=torch.int8)),
        "not finite",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_checkpoint_ends_in_one_line_that_names_it(tmp_path: Path, case: str) -> None:
    change, complaint = HOSTILE[case]
    path = write(tmp_path / "model.safetensors", change=change)
    with pytest.raises(UserError) as raised:
        load_model(path)
    assert str(path) in str(raised.value)
    assert complaint in str(raised.value)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 500 + len(str(path))


def test_words_that_a_list_of_words_has_not_are_refused(tmp_path: Path) -> None:
    def change(tensors: dict[str, torch.Tensor], facts: dict[str, Any]) -> None:
        tensors["model.tags"][0] = 10**6

    assert load_model(write(tmp_path / "good.safetensors", "scn")).model.name == "scn"
    with pytest.raises(UserError, match="names words that the vocabulary has not"):
        load_model(write(tmp_path / "bad.safetensors", "scn", change))


@pytest.mark.parametrize("facts", ["", "{", "[1]", "[" * 10**5, '"text"'])
def test_a_header_that_is_no_table_is_refused(tmp_path: Path, facts: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json, "dumps", lambda *arguments, **options: facts)
    write_checkpoint(tmp_path / "a.safetensors", Checkpoint({"x": torch.ones(2)}))
    monkeypatch.undo()
    with pytest.raises(UserError, match="damaged: its header is no"):
        read_checkpoint(tmp_path / "a.safetensors")


def test_a_file_without_facts_is_refused(tmp_path: Path) -> None:
    save_file({"x": torch.ones(2)}, tmp_path / "a.safetensors", metadata={"format": "hoca-checkpoint-3"})
    with pytest.raises(UserError, match="does not match its checksum"):
        read_checkpoint(tmp_path / "a.safetensors")


def test_a_pipe_is_no_checkpoint_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="is not a file"):
        load_model(tmp_path / "pipe")
