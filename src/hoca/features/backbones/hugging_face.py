"""Any vision, video or audio model of Hugging Face's transformers from a local folder: CLIP, DINO, VideoMAE, AST, …"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from hoca.errors import UserError
from hoca.features.backbones.kinds import Backbone, FeatureSettings, ImageBackbone, Kind, Later, SoundBackbone
from hoca.features.resize import Bicubic
from hoca.features.sampling import CHUNK, Chunks
from hoca.files import sha256_of
from hoca.media.clock import Clock, Spans
from hoca.media.request import DecodedVideo, Pictures, Spread

if TYPE_CHECKING:
    from torch import nn

    from hoca.features.network import Network

VIDEO_MODELS = ("videomae", "vivit", "timesformer")
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
SHARDS = "model*.safetensors"
SAVE_AGAIN = "save the model as safetensors, no other file is opened"
CONFIGURATIONS = ("config.json", "preprocessor_config.json", "processor_config.json")


@dataclass(frozen=True)
class Snippets:
    """For each step some frames evenly from the 64 around its middle."""

    steps: int
    frames: int

    def __call__(self, n: int) -> Sequence[int]:
        inside = Spread(self.frames)(CHUNK)
        return [min(start + each, n - 1) for start in Chunks(self.steps).starts(n) for each in inside]


@dataclass(frozen=True, kw_only=True)
class Videos(Backbone):
    """A model that takes a fixed number of frames and gives one vector for them."""

    frames: int
    kind: ClassVar[Kind] = "motion"
    steps: ClassVar[dict[str, int]] = {"default": 20, "paper": 80}

    def pictures(self, how: FeatureSettings) -> Pictures | None:
        return Pictures(Snippets(how["steps"], self.frames), filter="common", transform=Bicubic(self.side))

    def lacking(self, clip: DecodedVideo) -> str | None:
        return clip.absent.get("picture")

    def spans(self, how: FeatureSettings, steps: int, clock: Clock) -> Spans:
        return Chunks(steps).spans(clock)

    def begin(
        self, network: Network | None, clips: Sequence[DecodedVideo], modality: str, how: FeatureSettings
    ) -> Later:
        assert network is not None
        snippets = [clip.pictures[modality] for clip in clips]
        snippets = [frames.reshape(how["steps"], self.frames, *frames.shape[1:]) for frames in snippets]
        runs = [network.batched([each]) for each in snippets]
        return lambda: [values for run in runs for values in run()]


def from_folder(name: str) -> Backbone:
    """The backbone `hf:FOLDER`, of the kind that its configuration tells."""
    folder = Path(name.removeprefix("hf:"))
    config = _read(folder / "config.json", f"{name}: provide a folder with a model of transformers")
    preparation = _read(folder / "preprocessor_config.json", f"{name}: save the model's processor beside it")
    _refuse_code(folder)
    _refuse_pickles(folder, config)
    part = config.get("vision_config") or config.get("audio_config") or config
    facts: dict[str, Any] = {"name": name, "width": _width(part, folder), "weights": _digest(folder)}
    kind = str(config.get("model_type"))
    if "sampling_rate" in preparation:
        rate = int(preparation["sampling_rate"])
        build = _builder("Hearing", folder, preparation)
        return SoundBackbone(**facts, rate=rate, build=build, step_seconds=1.0, needs=0.5)
    side = part.get("image_size", 224)
    facts |= {"side": side[0] if isinstance(side, list) else side, "build": _builder("Seeing", folder, preparation)}
    if kind in VIDEO_MODELS:
        return Videos(**facts, frames=part.get("num_frames", 16))
    return ImageBackbone(**facts)


def _builder(network: str, folder: Path, preparation: dict[str, Any]) -> Any:
    def build() -> nn.Module:
        try:
            from hoca.features.backbones import hugging_face_networks
        except ImportError:
            raise UserError(f"hf:{folder} needs transformers: pip install 'hoca[hf]'") from None
        return getattr(hugging_face_networks, network)(folder, preparation)

    return build


def _read(file: Path, advice: str) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{file} cannot be read ({type(error).__name__}); {advice}") from None
    if not isinstance(content, dict):
        raise UserError(f"{file} is not a configuration; {advice}")
    return content


def _refuse_code(folder: Path) -> None:
    """Python of the folder never runs: what asks for it is refused before transformers sees it.

    The parts of a model may ask for it too, and transformers builds those without our `trust_remote_code=False`.
    """
    for file in (folder / name for name in CONFIGURATIONS):
        if file.is_file() and _has_key(_read(file, "save it again"), "auto_map"):
            raise UserError(
                f"{file} asks for Python of its own (auto_map), which is never run: "
                "take that key out if transformers itself has this model, else choose another"
            )


def _has_key(content: Any, key: str) -> bool:
    if isinstance(content, dict):
        return key in content or any(_has_key(each, key) for each in content.values())
    return isinstance(content, list) and any(_has_key(each, key) for each in content)


def _refuse_pickles(folder: Path, config: dict[str, Any]) -> None:
    """Weights are in safetensors whose hash is taken: neither the configuration nor the index may name other files."""
    named = [config["transformers_weights"]] if "transformers_weights" in config else []
    if (folder / INDEX).is_file():
        shards = _read(folder / INDEX, SAVE_AGAIN).get("weight_map")
        named += shards.values() if isinstance(shards, dict) else [None]
    elif not (folder / WEIGHTS).is_file():
        raise UserError(f"hf:{folder}: no {WEIGHTS} in {folder}: {SAVE_AGAIN}")
    known = [file.name for file in folder.glob(SHARDS)]
    for name in named:
        if name not in known:
            raise UserError(f"hf:{folder}: its weights are in {name!r}, which is no {SHARDS} there: {SAVE_AGAIN}")


def _width(config: dict[str, Any], folder: Path) -> int:
    for key in ("hidden_size", "d_model", "hidden_sizes"):
        if key in config:
            return int(config[key][-1] if isinstance(config[key], list) else config[key])
    raise UserError(
        f"hf:{folder}: config.json does not tell the model's hidden_size: it is of a kind hoca does not know"
    )


def _digest(folder: Path) -> str:
    """One hash of all that decides the features."""
    names = ["config.json", "preprocessor_config.json", *(file.name for file in folder.glob(SHARDS))]
    facts = [(folder / name, (folder / name).stat()) for name in sorted(names)]
    hashes = [_hash(file, about.st_size, about.st_mtime_ns) for file, about in facts]
    return hashlib.sha256("".join(hashes).encode()).hexdigest()


@lru_cache(maxsize=64)
def _hash(file: Path, size: int, modified: int) -> str:
    """Weights of gigabytes are read once, however often their backbone is asked for."""
    return sha256_of(file)
