"""A recipe: everything that decides a run, in sections that YAML files and `key=value` arguments fill."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from hoca import recipes
from hoca.checkpoint.migrate import FLAT_KEYS, GONE, sections, without_gone
from hoca.errors import UserError, nearest
from hoca.files import replacing
from hoca.generation import Search
from hoca.models import entry
from hoca.options import COMMAND_LINE, about, check_bounds, convert, option, read_arguments, shortened
from hoca.training.recipe_file import read_yaml

DEFAULT_MODEL = "l-hoca-ubt"
PYTHON = "the arguments of train"
SHORT = {"model": "model.name", "data": "data.folder"}  # on the command line


@dataclass(frozen=True)
class ModelSection:
    name: str | None = option(None, f"a name from `hoca models`; by default that of init_from, or {DEFAULT_MODEL}")
    options: dict[str, Any] = field(default_factory=dict)  # as given; each model has its own


@dataclass(frozen=True)
class DataSection:
    folder: str = option(
        "data/binding", "folder with captions.jsonl (or .csv) and features/; a captions file where videos is given"
    )
    videos: str | None = option(
        None, "videos to extract features from before training, as the model of init_from needs them"
    )
    features: str | None = option(None, "a feature store to use instead of the folder's own features/")
    modalities: tuple[str, ...] = option((), "which ones to use, in this order; empty = all that the features have")
    on_problem: Literal["stop", "skip"] = option("stop", "what to do about broken lines and missing features")
    min_count: int = option(
        1, "words with fewer occurrences in the training captions become <unk>", least=1, below=1 << 31
    )
    vocabulary: str | None = option(None, "a vocabulary.json to use in place of the words of the training captions")
    max_words: int = option(30, "longer captions are cut", least=1, below=1 << 12)
    word_vectors: str | None = option(
        None, "word vectors: a word2vec, GloVe or npz file, or an asset; their width replaces the model's `embedding`"
    )
    category_vectors: str | None = option(None, "vectors that give the start state from the category's name")

    def __post_init__(self) -> None:
        check_bounds(self)


@dataclass(frozen=True)
class TrainSection:
    objective: str = option(
        "xe",
        "what the words are trained for: xe (eq. 24), wxe, scst-loo, scst-greedy, scst-consensus or beam-reward; "
        "captioners with goals: hrl-worker, hrl-manager",
    )
    batch_size: int = option(25, "videos in a global batch", least=1, below=1 << 20)
    captions_per_video: int = option(1, "captions of each video in a batch; 0 = all of them", least=0, below=1 << 16)
    epochs: int = option(100, "at most", least=1, below=1 << 31)
    optimizer: Literal["adamw", "adam", "amsgrad", "adadelta"] = option(
        "adamw", "as torch has it; amsgrad = its Adam with that option"
    )
    learning_rate: float = option(1e-4, "of the optimizer; of AdaDelta, a factor of about 1", least=0, below=1e38)
    schedule: Literal["constant", "cosine"] = option("constant", "of the learning rate, after the warm-up")
    warmup: int = option(0, "steps over which the learning rate rises from zero", least=0, below=1 << 31)
    weight_decay: float = option(
        0.0, "decoupled with adamw, added to the gradient with the others", least=0, below=1 << 20
    )
    gradient_clip: float = option(0.0, "largest norm of the gradient; 0 = no limit", least=0, below=1 << 60)
    label_smoothing: float = option(0.0, "share of the target spread over all words", least=0, below=1)
    modality_dropout: float = option(
        0.0, "probability that a modality of a training video is dropped; one always stays", least=0, below=1
    )
    ema_decay: float = option(
        0.0, "decay of a running average of the weights, which is validated and kept; 0 = off", least=0, below=1
    )
    samples: int = option(5, "sampled captions per video, for objectives with rewards", least=2, below=1 << 10)
    xe_weight: float = option(0.1, "weight of eq. 24 beside a reward", least=0, below=1 << 20)
    rouge_weight: float = option(0.0, "weight of ROUGE-L beside CIDEr-D in a reward", least=0, below=1 << 20)
    meteor_weight: float = option(0.0, "weight of METEOR beside CIDEr-D in a reward", least=0, below=1 << 20)
    parts: tuple[str, ...] = option((), "train only parameters whose names start with one of these; empty = all")
    precision: Literal["float32", "bf16"] = option("float32", "bf16 = autocast")
    cuda_graph: Literal["auto", "on", "off"] = option(
        "auto", "run training steps as CUDA graphs; auto = if there is a GPU"
    )
    workers: int = option(
        0, "processes that prepare batches; 0 = features are kept on the training device", least=0, below=1 << 10
    )
    patience: int = option(
        0, "stop after so many validations without a better CIDEr; 0 = never", least=0, below=1 << 31
    )
    validate_every: int = option(1, "epochs between validations", least=1, below=1 << 31)
    checkpoint_every: int = option(
        0, "steps between checkpoints within an epoch; 0 = at its end only", least=0, below=1 << 31
    )

    def __post_init__(self) -> None:
        check_bounds(self)


@dataclass(frozen=True)
class Stage:
    """What one stage changes in its recipe. It begins from the one before it unless it says `init_from`."""

    name: str
    changes: dict[str, Any] = field(default_factory=dict)  # init_from and sections, as given


@dataclass(frozen=True)
class Recipe:
    run: str = option("runs/run", "folder of the run: checkpoints, metrics, curves")
    seed: int = option(0, "seed of the initial weights, the order of the data and dropout", least=0, below=1 << 63)
    device: str = option("auto", "auto = the GPU if there is one")
    init_from: str | None = option(
        None,
        "a run, a checkpoint or `default` to start from: weights, vocabulary and model; model options override it",
    )
    model: ModelSection = field(default_factory=ModelSection)
    data: DataSection = field(default_factory=DataSection)
    train: TrainSection = field(default_factory=TrainSection)
    search: Search = field(default_factory=Search)
    stages: tuple[Stage, ...] = ()  # to run one after the other, each with its own changes

    def __post_init__(self) -> None:
        check_bounds(self)
        from hoca.training.objectives import OBJECTIVES  # which know the sections of a recipe

        if self.train.objective not in OBJECTIVES:
            hint = nearest(self.train.objective, OBJECTIVES)
            raise UserError(f"train.objective={self.train.objective!r} is unknown: {hint}")

    @classmethod
    def of(cls, values: Mapping[str, Any], where: str = "the recipe") -> Recipe:
        """A checked recipe from nested values."""
        top = {key: value for key, value in values.items() if key not in SECTIONS and key != "stages"}
        for key in top:
            if key not in about(cls):
                raise UserError(f"{where}: {_unknown(key)}")
        made: dict[str, Any] = convert(cls, top, where)
        for name, section in SECTIONS.items():
            given = values.get(name, {})
            if not isinstance(given, Mapping):
                short = f"; `{SHORT[name]}` is meant?" if name in SHORT else ""
                raise UserError(f"{where}: {name} is a section, a table of keys{short}")
            if name == "model":
                made[name] = _model(given, where, values)
                continue
            checked = _checked(name, given, where)
            with _standing(f"{where}: {name}"):
                made[name] = section(**checked)
        stages = values.get("stages") or ()
        if not isinstance(stages, list | tuple):
            raise UserError(f"{where}: stages must be a list of tables, each with a name and what it changes")
        made["stages"] = tuple(_stage(number, each, where) for number, each in enumerate(stages, start=1))
        with _standing(where):
            recipe = cls(**made)
            recipe.in_stages()  # what is wrong in a stage is told before the first one is trained
        return recipe

    def to_json(self) -> dict[str, Any]:
        """Nested values, from which `of` makes the same recipe."""
        values = {key: getattr(self, key) for key in about(type(self))}
        values["model"] = {"name": self.model.name, **self.model.options}
        values |= {name: asdict(getattr(self, name)) for name in SECTIONS if name != "model"}
        if self.stages:
            values["stages"] = [{"name": stage.name, **stage.changes} for stage in self.stages]
        return _plain(values)

    def write(self, path: Path) -> None:
        """As YAML with a comment per key."""
        with replacing(path) as temporary:
            temporary.write_text(_yaml(self), encoding="utf-8")

    def in_stages(self) -> list[Recipe]:
        """The recipe of each stage, in a folder of its own within the run's; of one without stages, itself."""
        if not self.stages:
            return [self]
        base = self.to_json()
        found: list[Recipe] = []
        del base["stages"]
        for number, stage in enumerate(self.stages, start=1):
            values = merged(base, stage.changes)
            values["run"] = f"{self.run}/{number}-{stage.name}"
            if found:
                values["init_from"] = stage.changes.get("init_from", found[-1].run)
                # The stage before has them already.
                given = stage.changes.get("data", {})
                values["data"] |= {key: given.get(key) for key in ("word_vectors", "category_vectors")}
            found.append(Recipe.of(values, f"stage {stage.name}"))
        return found


SECTIONS: dict[str, Any] = {"model": ModelSection, "data": DataSection, "train": TrainSection, "search": Search}


def read_recipe(recipe: Path | str, overrides: Iterable[str] | Mapping[str, Any] = ()) -> Recipe:
    """The recipe in a YAML file, or the shipped one of a name, with other values for some keys, in every stage.

    overrides: `key=value` arguments, or keys and their values.
    """
    return make_recipe(read_yaml(recipes.find(recipe)), str(recipe), overrides)


def make_recipe(values: Mapping[str, Any], where: str, overrides: Iterable[str] | Mapping[str, Any] = ()) -> Recipe:
    recipe = Recipe.of(values, where)
    source = PYTHON if isinstance(overrides, Mapping) else COMMAND_LINE
    changes = nested(overrides if isinstance(overrides, Mapping) else read_arguments(overrides), recipe, source)
    if not changes:
        return recipe
    whole = merged(values, changes)
    for stage in whole.get("stages", ()):
        for name in SECTIONS:
            changed = {key: value for key, value in changes.get(name, {}).items() if key in stage.get(name, {})}
            if changed:
                stage[name] = {**stage[name], **changed}
    return Recipe.of(whole, source)


def read_run(run: Path) -> Recipe:
    """The recipe that a run was made with; that of an older hoca as today's."""
    values = read_yaml(run / "recipe.yaml")
    flat = not any(name in values and isinstance(values[name], Mapping) for name in SECTIONS)
    return Recipe.of(sections(values) if flat else without_gone(values), str(run / "recipe.yaml"))


def merged(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The nested values with those of `changes` in their place."""
    made = {key: dict(value) if isinstance(value, Mapping) else value for key, value in values.items()}
    if "stages" in made:
        made["stages"] = [{k: dict(v) if isinstance(v, Mapping) else v for k, v in s.items()} for s in made["stages"]]
    for key, value in changes.items():
        made[key] = {**made.get(key, {}), **value} if isinstance(value, Mapping) and key in SECTIONS else value
    return made


def nested(arguments: Mapping[str, Any], recipe: Recipe, source: str = COMMAND_LINE) -> dict[str, Any]:
    """`section.key=value` arguments in their sections; a key that one section alone has needs no section."""
    made: dict[str, Any] = {}
    for given, value in arguments.items():
        section, dot, key = SHORT.get(given, given).rpartition(".")
        if not dot:
            if key in about(Recipe):
                made[key] = value
                continue
            section = _section_of(key, arguments, recipe, source)
        if section not in SECTIONS:
            raise UserError(f"{source}: there is no section {section!r}: {nearest(section, SECTIONS)}")
        made.setdefault(section, {})[key] = value
    return made


def _section_of(key: str, arguments: Mapping[str, Any], recipe: Recipe, source: str) -> str:
    named = arguments.get("model", arguments.get("model.name", recipe.model.name))
    found = [name for name in SECTIONS if key in _keys(name, named)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UserError(f"{source}: {key} is a key of {' and '.join(found)}: write {found[0]}.{key}=")
    if FLAT_KEYS.get(key) == f"model.{key}":
        return "model"  # an option of other models, which this one refuses by name
    raise UserError(f"{source}: {_unknown(key, named)}")


def _keys(section: str, model: str | None) -> dict[str, str]:
    """The keys of a section and what they mean."""
    if section != "model":
        return about(SECTIONS[section])
    return about(ModelSection) | entry(model or DEFAULT_MODEL).model.Config.options()


def _unknown(key: str, model: str | None = None) -> str:
    """What to say of a key that there is not: its new name, or the nearest."""
    if key in GONE:
        return f"{key!r} is no key any more: use {GONE[key]}"
    if key in FLAT_KEYS:
        return f"{key!r} is now {FLAT_KEYS[key]!r}"
    known = [*about(Recipe), *(name for section in SECTIONS for name in _keys(section, model))]
    return f"there is no key {shortened(key)}: {nearest(str(key), known)}"


def _checked(section: str, given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The values of a section as its types."""
    known = about(SECTIONS[section])
    for key in given:
        if key not in known:
            renamed = FLAT_KEYS.get(str(key), "")
            if renamed.startswith(f"{section}."):
                raise UserError(f"{where}: {section}.{key} is now {renamed!r}")
            raise UserError(f"{where}: there is no key {section}.{str(key)[:60]}: {nearest(str(key), known)}")
    return convert(SECTIONS[section], given, f"{where}: {section}")


def _model(given: Mapping[str, Any], where: str, values: Mapping[str, Any]) -> ModelSection:
    """The model's name and options, which its own `Config` knows; without a name, `init_from`'s will check them."""
    name = given.get("name")
    if name is not None and not isinstance(name, str):
        raise UserError(f"{where}: model.name must be text")
    options = {key: value for key, value in given.items() if key != "name"}
    if name is None and values.get("init_from") is not None:
        return ModelSection(name, options)
    with _standing(where):
        known = _keys("model", name)
    for key in options:
        if key not in known:
            raise UserError(
                f"{where}: {name or DEFAULT_MODEL} has no option model.{str(key)[:60]}: {nearest(str(key), known)}"
            )
    entry(name or DEFAULT_MODEL).model.Config.check_options(options, f"{where}: model")
    return ModelSection(name, options)


@contextmanager
def _standing(where: str) -> Iterator[None]:
    """What is wrong with values says where they stand."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def _stage(number: int, given: Any, where: str) -> Stage:
    if not isinstance(given, Mapping):
        raise UserError(f"{where}: stage {number} must be a table with a name, and sections of what it changes")
    name = given.get("name", str(number))
    if not isinstance(name, str) or not name.replace("-", "").replace("_", "").isalnum():
        raise UserError(f"{where}: the name of stage {number} may hold letters, digits, '_' and '-' only")
    changes = {key: value for key, value in given.items() if key != "name"}
    for key, value in changes.items():
        if key not in SECTIONS and key != "init_from":
            raise UserError(
                f"{where}: stage {name} has the key {shortened(key)}: give init_from, {', '.join(SECTIONS)}"
            )
        if key in SECTIONS and not isinstance(value, Mapping):
            raise UserError(f"{where}: {key} of stage {name} is a section, a table of keys")
    return Stage(name, changes)


def _yaml(recipe: Recipe) -> str:
    values = recipe.to_json()
    lines = [_line(key, values[key], meaning) for key, meaning in about(Recipe).items()]
    for section in SECTIONS:
        meanings = _keys(section, recipe.model.name) if section != "model" or recipe.model.name else {}
        lines += [f"\n{section}:\n"]
        lines += [f"  {_line(key, value, meanings.get(key, ''))}" for key, value in values[section].items()]
    if recipe.stages:
        lines += ["\n", yaml.safe_dump({"stages": values["stages"]}, sort_keys=False, allow_unicode=True)]
    return "".join(lines)


def _line(key: str, value: Any, meaning: str) -> str:
    braced = yaml.safe_dump({key: value}, default_flow_style=True, allow_unicode=True, width=10**6)
    return f"{braced.strip()[1:-1]}" + (f"  # {meaning}\n" if meaning else "\n")


def _plain(value: Any) -> Any:
    """As JSON and YAML have it: tuples as lists."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
