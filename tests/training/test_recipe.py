"""Recipes: what is wrong in one names itself; what is right survives being written and read."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from hoca.checkpoint.migrate import FLAT_KEYS, GONE
from hoca.errors import UserError
from hoca.models import registry
from hoca.models.baselines.sa_lstm import SALSTM, SALSTMConfig
from hoca.models.hoca import HocaConfig
from hoca.options import about, option
from hoca.recipes import names, shipped
from hoca.training import Recipe, read_recipe, train
from hoca.training.recipe import SECTIONS, Stage, read_run

RECIPES = [shipped(name) for name in names()]


def write(folder: Path, text: str) -> Path:
    path = folder / "recipe.yaml"
    path.write_text(text, encoding="utf-8")
    return path


MISTAKES = [
    ("hiden: 8", "recipe.yaml: there is no key 'hiden': did you mean 'hidden'?"),
    ("learningrate: 8", "no key 'learningrate': did you mean 'learning_rate'?"),
    ("7: 8", "there is no key 7: known: run, seed"),
    ("model: {hiden: 8}", "recipe.yaml: l-hoca-ubt has no option model.hiden: did you mean 'hidden'?"),
    ("model: {hidden: many}", "recipe.yaml: model: hidden='many' must be a whole number"),
    ("model: {hidden: 8.5}", "hidden=8.5 must be a whole number"),
    ("model: {hidden: true}", "hidden=True must be a whole number"),
    ("model: {dropout: high}", "dropout='high' must be a number"),
    ("model: {dropout: 1.5}", "recipe.yaml: model: dropout=1.5 must be at least 0 and below 1"),
    ("model: {dropout: .nan}", "dropout=nan must be a number"),
    ("model: {share_projections: maybe}", "share_projections='maybe' must be true or false"),
    ("model: {merge: weigths}", "merge='weigths' must be one of weights, logits, mixture"),
    ("model: {orders: [1, two]}", "orders=[1, 'two'] must be a whole number"),
    ("model: {groups: [image]}", "groups=['image'] must be a list"),
    ("model: {name: 5}", "model.name must be text"),
    ("model: {name: hoca-x}", "recipe.yaml: there is no model 'hoca-x': did you mean"),
    ("train: {learning_rate: .inf}", "learning_rate=inf must be a number"),
    ("train: {learningrate: 8}", "there is no key train.learningrate: did you mean 'learning_rate'?"),
    ("train: {weight_decay: -1}", "recipe.yaml: train: weight_decay=-1.0 must be at least 0"),
    ("train: {batch_size: 0}", "batch_size=0 must be at least 1"),
    ("train: {objective: wxee}", "recipe.yaml: train.objective='wxee' is unknown: did you mean 'wxe'?"),
    ("data: {modalities: image}", "data: modalities='image' must be a list, like [image, motion]"),
    ("data: {word_vectors: [a]}", "word_vectors=['a'] must be text"),
    ("search: {beam: 0}", "recipe.yaml: search: beam=0 must be at least 1"),
    ("train: 5", "train is a section, a table of keys"),
    ("- hidden", "must be a table of keys"),
    ("hidden: [", "is not YAML at line"),
    ("run: a\nrun: b", "the key 'run' twice"),
    ("model:\n  hidden: 1\n  hidden: 2", "the key 'hidden' twice"),
    ("stages:\n  - train:\n      epochs: 1\n      epochs: 2", "the key 'epochs' twice"),
    ("stages: 5", "stages must be a list of tables"),
    ("stages: [5]", "stage 1 must be a table with a name"),
    ("stages: [{name: a/b}]", "the name of stage 1 may hold letters, digits, '_' and '-' only"),
    ("stages: [{name: a, run: b}]", "stage a has the key 'run': give init_from, model, data, train, search"),
    ("stages: [{name: a, train: 5}]", "train of stage a is a section"),
    ("stages: [{}, {name: a, train: {epoch: 5}}]", "stage a: there is no key train.epoch: did you mean 'epochs'?"),
    ("stages: [{name: a, train: {epochs: 0}}]", "stage a: train: epochs=0 must be at least 1"),
    ("stages: [{name: a, model: {feed: input}}]", "stage a: l-hoca-ubt has no option model.feed"),
]


@pytest.mark.parametrize(
    ("text", "message"),
    MISTAKES,
)
def test_a_mistake_names_its_key_and_the_fix(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)) as error:
        read_recipe(write(tmp_path, text))
    assert "\n" not in str(error.value)
    assert "recipe.yaml" in str(error.value)


class TestModelOptions:
    """They are those of the named model's own `Config`."""

    def test_each_model_has_its_own(self, tmp_path: Path) -> None:
        recipe = read_recipe(write(tmp_path, "model: {name: sa-lstm, feed: output, max_steps: 9}"))
        assert recipe.model.options == {"feed": "output", "max_steps": 9}
        for text, message in (
            ("model: {name: sa-lstm, feed: both}", "model: feed='both' must be one of input, output"),
            ("model: {name: sa-lstm, rank: 2}", "sa-lstm has no option model.rank: known: name, "),
            ("model: {name: hoca-u, feed: input}", "hoca-u has no option model.feed"),
            ("model: {name: recnet-local, reconstruction: -1}", "model: reconstruction=-1.0 must be at least 0"),
            ("model: {name: sa-lstm, max_steps: 0}", "max_steps.modality=0 must be at least 1"),
        ):
            with pytest.raises(UserError, match=re.escape(message)):
                read_recipe(write(tmp_path, text))

    def test_the_command_line_knows_those_of_the_model_that_it_names(self, tmp_path: Path) -> None:
        path = write(tmp_path, "model: {name: hoca-u}")
        assert read_recipe(path, ["model=sa-lstm", "feed=output"]).model.options == {"feed": "output"}
        with pytest.raises(UserError, match="the command line: there is no key 'feed'"):
            read_recipe(path, ["feed=output"])
        with pytest.raises(UserError, match=r"the command line: hoca-u has no option model.feed"):
            read_recipe(path, ["model.feed=output"])

    def test_those_of_the_model_to_begin_from_are_not_known_yet(self, tmp_path: Path) -> None:
        assert read_recipe(write(tmp_path, "init_from: a\nmodel: {feed: input}")).model.options == {"feed": "input"}


class TestCommandLine:
    def test_overrides_are_checked_as_well(self) -> None:
        path = next(path for path in RECIPES if path.stem == "binding")
        assert read_recipe(path, ["hidden=9", "orders=[1, 3]", "word_vectors=null"]).model.options["orders"] == [1, 3]
        for arguments, message in (
            (["hiden=9"], "the command line: there is no key 'hiden'"),
            (["hidden"], "'hidden' is not of the form key=value"),
            (["hidden="], "the command line: model: hidden=None must be a whole number"),
            (["orders=[1"], "no value that YAML can read"),
            (["batch_size=0"], "the command line: train: batch_size=0 must be at least 1"),
            (["trian.epochs=1"], "there is no section 'trian': did you mean 'train'?"),
            (["model.epochs=1"], "l-hoca-ubt has no option model.epochs"),
        ):
            with pytest.raises(UserError, match=re.escape(message)):
                read_recipe(path, arguments)

    def test_a_key_needs_no_section(self, tmp_path: Path) -> None:
        short = [
            "run=r",
            "model=sa-lstm",
            "data=d",
            "hidden=9",
            "min_count=2",
            "epochs=3",
            "beam=4",
            "init_from=default",
        ]
        long = [
            *("run=r", "model.name=sa-lstm", "data.folder=d", "model.hidden=9", "data.min_count=2"),
            *("train.epochs=3", "search.beam=4", "init_from=default"),
        ]
        path = write(tmp_path, "train: {epochs: 7, batch_size: 3}\nmodel: {dropout: 0.1}")
        recipe = read_recipe(path, short)
        assert recipe == read_recipe(path, long)
        assert (recipe.model.name, recipe.data.folder, recipe.train.epochs) == ("sa-lstm", "d", 3)
        assert recipe.model.options == {"dropout": 0.1, "hidden": 9}
        assert recipe.train.batch_size == 3

    def test_short_forms_are_told_where_a_file_has_them(self, tmp_path: Path) -> None:
        for text, message in (
            ("model: sa-lstm", "model is a section, a table of keys; `model.name` is meant?"),
            ("data: d", "data is a section, a table of keys; `data.folder` is meant?"),
        ):
            with pytest.raises(UserError, match=re.escape(message)):
                read_recipe(write(tmp_path, text))

    def test_a_key_of_two_sections_needs_one(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        @dataclass(frozen=True)
        class Config(SALSTMConfig):
            samples: int = option(3, "a key that the section `train` has, too")

        class Sampling(SALSTM):
            pass

        Sampling.Config = Config
        monkeypatch.setitem(registry._entries, "sampling", registry.Entry("sampling", Sampling, "", "", {}))
        path = write(tmp_path, "model: {name: sampling}")
        with pytest.raises(UserError, match=r"samples is a key of model and train: write model.samples="):
            read_recipe(path, ["samples=4"])
        recipe = read_recipe(path, ["model.samples=4", "train.samples=6"])
        assert (recipe.model.options, recipe.train.samples) == ({"samples": 4}, 6)

    def test_an_override_reaches_every_stage(self, tmp_path: Path) -> None:
        text = """
            model: {name: recnet-local, hidden: 8}
            train: {epochs: 5, batch_size: 4}
            stages:
              - {name: first, model: {reconstruction: 0.0}, train: {epochs: 2}}
              - {name: second, train: {learning_rate: 0.5}}
        """
        path = write(tmp_path, text)
        first, second = read_recipe(path).in_stages()
        assert (first.train.epochs, second.train.epochs, second.train.learning_rate) == (2, 5, 0.5)
        overrides = ["epochs=1", "model=recnet-global", "hidden=9", "reconstruction=0.3", "run=r", "learning_rate=0.1"]
        first, second = read_recipe(path, overrides).in_stages()
        for stage in (first, second):
            assert (stage.train.epochs, stage.train.batch_size, stage.train.learning_rate) == (1, 4, 0.1)
            assert stage.model.name == "recnet-global"
            assert stage.model.options == {"hidden": 9, "reconstruction": 0.3}
        assert (first.run, second.run) == ("r/1-first", "r/2-second")
        assert (first.init_from, second.init_from) == (None, "r/1-first")

    def test_numbers_may_be_written_as_people_write_them(self, tmp_path: Path) -> None:
        path = write(tmp_path, "train: {learning_rate: 1e-4}\nmodel: {dropout: 0}\n")
        recipe = read_recipe(path, ["weight_decay=3e-2"])
        assert (recipe.train.learning_rate, recipe.train.weight_decay) == (1e-4, 0.03)
        assert recipe.model.options["dropout"] == 0


MOVED = {old: new for old, new in FLAT_KEYS.items() if old != new}


class TestOldKeys:
    """Those of the flat recipes of before."""

    @pytest.mark.parametrize("old", [*MOVED, *GONE])
    def test_in_a_file_its_error_names_the_new_one(self, tmp_path: Path, old: str) -> None:
        with pytest.raises(UserError) as error:
            read_recipe(write(tmp_path, f"{old}: 1"))
        assert {**MOVED, **GONE}[old] in str(error.value)

    def test_every_key_of_then_leads_to_one_of_today(self) -> None:
        known = {*about(Recipe), "model.name"}
        known |= {f"{name}.{key}" for name, section in SECTIONS.items() for key in about(section)}
        known |= {f"model.{key}" for key in HocaConfig.options()}
        assert set(FLAT_KEYS.values()) <= known

    def test_on_the_command_line_its_error_names_the_new_one(self, tmp_path: Path) -> None:
        path = write(tmp_path, "")
        for old, new in {
            "start": "init_from",
            "batch": "train.batch_size",
            "captions": "train.captions_per_video",
            "likelihood": "train.xe_weight",
            "average": "train.ema_decay",
            "step": "train.cuda_graph",
            "detects": "model.word_detector",
            "evidence": "search.detector_weight",
            "vectors": "data.word_vectors",
            "minimum_count": "data.min_count",
        }.items():
            with pytest.raises(UserError, match=f"the command line: '{old}' is now '{new}'"):
                read_recipe(path, [f"{old}=1"])
        with pytest.raises(UserError, match=r"'drawn' is no key any more: use train.objective: scst-loo or beam-rew"):
            read_recipe(path, ["drawn=beam"])

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("train: {batch: 4}", "train.batch is now 'train.batch_size'"),
            ("search: {evidence: 0.1}", "search.evidence is now 'search.detector_weight'"),
            ("data: {vectors: a}", "data.vectors is now 'data.word_vectors'"),
            ("model: {detects: [image]}", "no option model.detects: did you mean 'word_detector'?"),
        ],
    )
    def test_in_its_section_its_error_names_the_new_one(self, tmp_path: Path, text: str, message: str) -> None:
        with pytest.raises(UserError, match=re.escape(message)):
            read_recipe(write(tmp_path, text))

    def test_a_run_folder_of_then_is_read(self, tmp_path: Path) -> None:
        write(
            tmp_path,
            "run: a\nstart: null\ndata: d\nmodel: hoca-ub\norders: []\ngroups: []\nhidden: 9\ndetects: []\nbatch: 7\n"
            "objective: reward\ndrawn: beam\nlikelihood: 0.5\nstep: plain\naverage: 0.9\nbeam: 3\nevidence: 0.0\n",
        )
        recipe = read_run(tmp_path)
        assert (recipe.model.name, recipe.model.options) == ("hoca-ub", {"hidden": 9})
        assert recipe.data.folder == "d"
        assert (recipe.train.objective, recipe.train.xe_weight, recipe.train.batch_size) == ("beam-reward", 0.5, 7)
        assert (recipe.train.cuda_graph, recipe.train.ema_decay) == ("off", 0.9)
        assert (recipe.search.beam, recipe.search.detector_weight) == (3, 0.0)


def test_an_empty_recipe_is_the_paper(tmp_path: Path) -> None:
    recipe = read_recipe(write(tmp_path, "# nothing\n"))
    assert recipe == Recipe()
    assert recipe.model.name is None  # the default is the paper's best
    config = HocaConfig.of({"image": 4, "motion": 4, "audio": 4}, orders=(1, 2, 3))
    sizes = (config.hidden, config.attention, config.embedding, config.dropout, config.rank)
    assert sizes == (512, 512, 300, 0.5, 1)
    train = recipe.train
    settings = (train.learning_rate, train.batch_size, train.captions_per_video, train.epochs, recipe.search.beam)
    assert settings == (1e-4, 25, 1, 100, 5)
    assert train.objective == "xe"


def test_a_recipe_that_is_no_text_or_not_there(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes("run: caf\xe9".encode("latin-1"))
    with pytest.raises(UserError, match="is not UTF-8 text"):
        read_recipe(tmp_path / "latin.yaml")
    for path in (tmp_path / "nosuch.yaml", tmp_path):
        with pytest.raises(UserError, match="cannot be read"):
            read_recipe(path)


CHANGED: dict[str, Any] = {
    "run": "a # b: c",
    "model": {"name": "l-hoca-ub", "orders": [1, 4], "groups": [["a", "b"], ["c"]], "share_projections": True},
    "data": {"modalities": ["image", "no"], "word_vectors": "ü.npz"},
    "train": {"learning_rate": 1e-12, "ema_decay": 0.999, "parts": ["decoder"]},
    "search": {"beam": 3},
    "stages": [
        {"name": "first", "train": {"epochs": 3, "objective": "wxe"}},
        {"name": "second", "init_from": "b: c", "data": {"modalities": ["no"]}, "model": {"dropout": 0.25}},
    ],
}
OTHERS = [{}, CHANGED, {"model": {"name": "sa-lstm", "feed": "output"}}, {"init_from": "a", "model": {"unheard": "#"}}]


@pytest.mark.parametrize("values", OTHERS, ids=["default", "changed", "another model", "begun from a model"])
def test_what_is_written_reads_back_the_same(tmp_path: Path, values: dict[str, Any]) -> None:
    recipe = Recipe.of(values)
    recipe.write(tmp_path / "recipe.yaml")
    assert read_recipe(tmp_path / "recipe.yaml").to_json() == recipe.to_json()
    assert read_recipe(tmp_path / "recipe.yaml") == Recipe.of(recipe.to_json()) == read_run(tmp_path)


def test_stages_are_recipes_that_follow_one_another() -> None:
    recipe = Recipe.of(CHANGED)
    assert [type(stage) for stage in recipe.stages] == [Stage, Stage]
    first, second = recipe.in_stages()
    assert (first.train.epochs, first.train.objective) == (3, "wxe")
    assert (second.train.epochs, second.train.objective) == (100, "xe")
    assert first.data.modalities == ("image", "no")
    assert second.data.modalities == ("no",)
    assert second.model.options["dropout"] == 0.25
    assert (first.init_from, second.init_from) == (None, "b: c")
    assert Recipe().in_stages() == [Recipe()]


def test_every_key_of_a_written_recipe_says_what_it_means(tmp_path: Path) -> None:
    Recipe.of({"model": {"name": "hoca-u", "hidden": 8}}).write(tmp_path / "recipe.yaml")
    meanings = {**about(Recipe), "model": None, "name": about(SECTIONS["model"])["name"]}
    meanings["hidden"] = HocaConfig.options()["hidden"]
    for name in ("data", "train", "search"):
        meanings |= {name: None, **about(SECTIONS[name])}
    lines = [line for line in (tmp_path / "recipe.yaml").read_text().splitlines() if line]
    assert [line.strip().partition(":")[0] for line in lines] == list(meanings)
    for line, meaning in zip(lines, meanings.values(), strict=True):
        assert line.endswith(":" if meaning is None else f"  # {meaning}")


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_key_in_recipes_is_known_and_has_a_comment(path: Path) -> None:
    """A section, and a line of a stage, may go without."""
    text = path.read_text(encoding="utf-8")
    values = yaml.safe_load(text)
    alone, _, _ = text.partition("\nstages:")
    lines = [line for line in alone.splitlines() if re.match(r" *\w+:", line) and line.strip(" :") not in SECTIONS]
    keys = [key for key in values if key not in (*SECTIONS, "stages")]
    keys += [key for name in values if name in SECTIONS for key in values[name]]
    assert [line.strip().partition(":")[0] for line in lines] == keys
    assert all(re.search(r"\S +# \S", line) for line in lines)
    read_recipe(path)


def test_each_stage_begins_from_the_one_before_it_and_has_its_vectors() -> None:
    stages = [{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d", "init_from": "default"}]
    recipe = Recipe.of({"run": "r", "data": {"word_vectors": "v.npz"}, "stages": stages})
    assert [stage.init_from for stage in recipe.in_stages()] == [None, "r/1-a", "r/2-b", "default"]
    assert [stage.data.word_vectors for stage in recipe.in_stages()] == ["v.npz", None, None, None]


def bomb(key: str) -> str:
    lines = ["x0: &x0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 9)}]" for n in range(1, 20)]
    return "\n".join([*lines, f"{key}: *x19", ""])


HOSTILE = {
    "a bomb of aliases": bomb("run"),
    "a bomb in the model": "init_from: default\n" + bomb("model"),
    "a bomb in one value": "run: " + "[" + bomb("a").replace("\n", ", ").replace(": &", " : &") + "]",
    "an alias within itself": "run: &a [*a]",
    "keys that are lists": "? [a, b]\n: 1\n",
    "keys that are tables": "{{a: 1}: 2}",
    "deep lists": "run: " + "[" * 5000 + "]" * 5000,
    "a seed without end": "seed: 0x" + "f" * 5000,
    "a large seed": "seed: 18446744073709551616",
    "a negative seed": "seed: -1",
    "many workers": "train: {workers: 100000}",
    "an endless batch": "train: {batch_size: 1000000000000}",
    "countless samples": "train: {samples: 1000000000}",
    "a wide model": "model: {hidden: 65535}",
    "a wide model of another kind": "model: {name: haca, hidden: 65535, embedding: 65535}",
    "a large rate": "train: {learning_rate: 1e300}",
    "a NUL": 'run: "a\\0b"',
    "half a character": 'run: "a\\ud800b"',
    "a long key": "k" * 500_000 + ": 1",
    "a long key of a section": "train: {" + "k" * 500_000 + ": 1}",
    "a long value": "device: " + "k" * 500_000,
    "more than a recipe": "# " + "x" * (1 << 20),
    "a python object": "run: !!python/object/apply:os.system [true]",
    "binary": "run: !!binary aGVsbG8=",
    "a set": "train: !!set {a, b}",
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_recipe_ends_in_one_short_line(
    tmp_path: Path, tiny_data: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.chdir(tmp_path)  # where a run that begins after all would go
    path = tmp_path / "recipe.yaml"
    path.write_text(HOSTILE[case])
    begun = time.monotonic()
    with pytest.raises(UserError) as stopped:
        train(read_recipe(path, [f"data={tiny_data}", "epochs=1"]))
    assert "\n" not in str(stopped.value)
    assert len(str(stopped.value)) < 2000
    assert time.monotonic() - begun < 10


def test_a_pipe_is_no_recipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="cannot be read"):
        read_recipe(tmp_path / "pipe")


def test_an_anchor_is_a_value_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text("seed: &n 3\ntrain: {epochs: *n}\n")
    assert read_recipe(path).train.epochs == 3
