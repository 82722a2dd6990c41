"""Published checkpoint layouts, filled with random values: the converted network computes what the original would."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hoca.networks import i3d, inception_resnet, vggish
from hoca.networks.folding import Arrays, fold

RNG = np.random.default_rng(0)


def random(*shape: int, scale: float = 1.0) -> np.ndarray:
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def norm(channels: int) -> dict[str, np.ndarray]:
    return {
        "running_mean": random(channels, scale=0.1),
        "running_var": RNG.uniform(0.5, 2, channels).astype(np.float32),
        "weight": RNG.uniform(0.5, 1.5, channels).astype(np.float32),
        "bias": random(channels, scale=0.1),
    }


def loaded(network: nn.Module, state: Arrays) -> nn.Module:
    network.load_state_dict({name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in state.items()})
    return network.eval().requires_grad_(False)


def test_folding_is_convolution_then_norm() -> None:
    facts = norm(5)
    convolution, after = nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5, eps=1e-3).eval()
    after.load_state_dict({name: torch.from_numpy(value) for name, value in facts.items()}, strict=False)
    weight, bias = fold(
        convolution.weight.detach().numpy(), bias=convolution.bias.detach().numpy(), mean=facts["running_mean"],  # type: ignore[union-attr]
        variance=facts["running_var"], scale=facts["weight"], shift=facts["bias"], epsilon=1e-3,
    )  # fmt: skip
    x = torch.randn(2, 3, 6, 6)
    with torch.no_grad():
        expected = after(convolution(x))
    torch.testing.assert_close(
        F.conv2d(x, torch.from_numpy(weight), torch.from_numpy(bias)), expected, atol=1e-4, rtol=1e-4
    )


def inception_units() -> Iterator[tuple[str, nn.Conv2d]]:
    with torch.device("meta"):
        network = inception_resnet.InceptionResNetV2()
    for name, part in network.named_modules():
        if isinstance(part, nn.Conv2d):
            yield name, part


def as_cadene() -> Arrays:
    """The names of Cadene's and timm's ports, a batch norm with every convolution but the residual mixes."""
    arrays: Arrays = {"last_linear.weight": random(4, 4), "last_linear.bias": random(4)}
    for name, part in inception_units():
        shape = tuple(part.weight.shape)
        weight = random(*shape, scale=(2 / np.prod(shape[1:])) ** 0.5)
        if isinstance(part, inception_resnet.Unit):
            arrays[f"{name}.conv.weight"] = weight
            arrays |= {f"{name}.bn.{key}": value for key, value in norm(shape[0]).items() if key != "weight"}
            arrays[f"{name}.bn.weight"] = np.ones(shape[0], np.float32)  # Keras has none: all layouts tell the same
        else:
            arrays |= {f"{name}.weight": weight, f"{name}.bias": random(shape[0], scale=0.1)}
    return arrays


def as_keras(cadene: Arrays) -> Arrays:
    """The same values by Keras' names: layers numbered in the order of their making, kernels [h, w, in, out]."""
    arrays: Arrays = {}
    numbered, mixes = 0, iter([f"block{s}_{n + 1}_conv" for s, c in ((35, 10), (17, 20), (8, 10)) for n in range(c)])
    for name, part in inception_units():
        if not isinstance(part, inception_resnet.Unit):
            layer = next(mixes)
            arrays[f"{layer}/{layer}/kernel:0"] = cadene[f"{name}.weight"].transpose(2, 3, 1, 0)
            arrays[f"{layer}/{layer}/bias:0"] = cadene[f"{name}.bias"]
            continue
        numbered += 1
        last = name == "conv2d_7b"
        layer, after = ("conv_7b", "conv_7b_bn") if last else (f"conv2d_{numbered}", f"batch_normalization_{numbered}")
        arrays[f"{layer}/{layer}/kernel:0"] = cadene[f"{name}.conv.weight"].transpose(2, 3, 1, 0)
        for theirs, ours in (("moving_mean", "running_mean"), ("moving_variance", "running_var"), ("beta", "bias")):
            arrays[f"{after}/{after}/{theirs}:0"] = cadene[f"{name}.bn.{ours}"]
    return arrays


def test_inception_resnet_reads_all_three_layouts(tmp_path: Path) -> None:
    cadene = as_cadene()
    state = inception_resnet.convert(cadene)
    timm = {name.replace("last_linear", "classif"): value for name, value in cadene.items()}
    h5py = pytest.importorskip("h5py", reason="needs the extra [h5]")
    from hoca.assets import weight_files

    with h5py.File(tmp_path / "keras.h5", "w") as file:
        for name, value in as_keras(cadene).items():
            file[name] = value
    for other in (timm, weight_files.read(tmp_path / "keras.h5")):
        converted = inception_resnet.convert(other)
        assert converted.keys() == state.keys()
        assert all(np.array_equal(converted[name], state[name]) for name in state)
    network = loaded(inception_resnet.InceptionResNetV2(), state)
    pictures = torch.randint(0, 256, (1, 299, 299, 3), dtype=torch.uint8)
    features = network(pictures)
    assert features.shape == (1, inception_resnet.WIDTH)
    assert features.std() > 0
    first = F.conv2d(
        (pictures.permute(0, 3, 1, 2) / 127.5 - 1).float(), torch.from_numpy(cadene["conv2d_1a.conv.weight"]), stride=2
    )
    facts = {
        key: torch.from_numpy(cadene[f"conv2d_1a.bn.{key}"])
        for key in ("running_mean", "running_var", "weight", "bias")
    }
    normed = F.batch_norm(first, facts["running_mean"], facts["running_var"], facts["weight"], facts["bias"], eps=1e-3)
    ours = network.get_submodule("conv2d_1a")(pictures.permute(0, 3, 1, 2) / 127.5 - 1)
    torch.testing.assert_close(ours, normed.relu(), atol=1e-4, rtol=1e-4)


def i3d_arrays(name: Callable[[str, str], str]) -> Arrays:
    """Random values of every unit; `name(unit, part)` gives the checkpoint's name of the part."""
    arrays: Arrays = {}
    rng = np.random.default_rng(1)
    with torch.device("meta"):
        network = i3d.I3D()
    for theirs, ours, _ in i3d._units():
        shape = tuple(network.get_submodule(ours).conv.weight.shape)  # type: ignore[union-attr]
        weight = (rng.standard_normal(shape) * (2 / np.prod(shape[1:])) ** 0.5).astype(np.float32)
        arrays[name(theirs, "kernel")] = weight.transpose(2, 3, 4, 1, 0)
        for part in ("mean", "shift"):
            arrays[name(theirs, part)] = (rng.standard_normal(shape[0]) * 0.1).astype(np.float32)
        arrays[name(theirs, "variance")] = rng.uniform(0.5, 2, shape[0]).astype(np.float32)
    logits = "Logits/Conv3d_0c_1x1"
    arrays[name(logits, "kernel")] = rng.standard_normal((1, 1, 1, 1024, 400)).astype(np.float32)
    arrays[name(logits, "bias")] = rng.standard_normal(400).astype(np.float32)
    return arrays


def deepmind(unit: str, part: str) -> str:
    """As in the published TensorFlow checkpoint, its one misnamed unit among them."""
    unit = unit.replace("Mixed_5b/Branch_2/Conv3d_0b_3x3", "Mixed_5b/Branch_2/Conv3d_0a_3x3")
    ends = {"kernel": "conv_3d/w", "bias": "conv_3d/b", "mean": "batch_norm/moving_mean",
            "variance": "batch_norm/moving_variance", "shift": "batch_norm/beta"}  # fmt: skip
    return f"RGB/inception_i3d/{unit}/{ends[part]}"


def flax(unit: str, part: str) -> str:
    ends = {
        "kernel": "params/{}/Conv_0/kernel",
        "bias": "params/{}/Conv_0/bias",
        "mean": "batch_stats/{}/BatchNorm_0/mean",
        "variance": "batch_stats/{}/BatchNorm_0/var",
        "shift": "params/{}/BatchNorm_0/bias",
    }
    return ends[part].format(unit)


def test_i3d_reads_deepminds_names_and_the_common_port() -> None:
    state = i3d.convert(i3d_arrays(flax))
    tensorflow = i3d_arrays(deepmind)
    tensorflow = {k: v.reshape(1, 1, 1, 1, -1) if "batch_norm" in k else v for k, v in tensorflow.items()}
    port: Arrays = {}
    values = i3d_arrays(lambda unit, part: f"{unit}|{part}")
    for theirs, _, name in i3d._units():
        port[f"{name}.conv3d.weight"] = values[f"{theirs}|kernel"].transpose(4, 3, 0, 1, 2)
        for part, key in (("mean", "running_mean"), ("variance", "running_var"), ("shift", "bias")):
            port[f"{name}.bn.{key}"] = values[f"{theirs}|{part}"]
        port[f"{name}.bn.weight"] = np.ones_like(values[f"{theirs}|mean"])
    port["logits.conv3d.weight"] = values["Logits/Conv3d_0c_1x1|kernel"].transpose(4, 3, 0, 1, 2)
    port["logits.conv3d.bias"] = values["Logits/Conv3d_0c_1x1|bias"]
    for other in (tensorflow, port):
        converted = i3d.convert(other)
        assert converted.keys() == state.keys()
        assert all(np.allclose(converted[name], state[name], atol=1e-6) for name in state)
    loaded(i3d.I3D(), state)


def literal_vggish(pictures: Tensor, arrays: Arrays) -> Tensor:
    """The common port's own forward pass, written out."""
    tensors = {name: torch.from_numpy(value) for name, value in arrays.items()}
    x = pictures[:, None]
    for layer, pool in ((0, True), (3, True), (6, False), (8, True), (11, False), (13, True)):
        x = F.conv2d(x, tensors[f"features.{layer}.weight"], tensors[f"features.{layer}.bias"], padding=1).relu()
        x = F.max_pool2d(x, 2) if pool else x
    x = x.transpose(1, 3).transpose(1, 2).reshape(len(x), -1)
    for layer in (0, 2, 4):
        x = F.linear(x, tensors[f"embeddings.{layer}.weight"], tensors[f"embeddings.{layer}.bias"]).relu()
    x = (tensors["pca_eigen_vectors"] @ (x.T - tensors["pca_means"])).T.clamp(-2, 2)
    return torch.round((x + 2) * (255 / 4)) / 255 * 4 - 2


def test_vggish_reads_both_layouts_and_post_processes() -> None:
    channels, hidden = (4, 4, 6, 6, 8, 8), 16
    port: Arrays = {"pca_eigen_vectors": random(128, 128, scale=0.5), "pca_means": random(128, 1)}
    for layer, (inputs, outputs) in zip(vggish.TORCH, zip((1, *channels[:-1]), channels, strict=True), strict=True):
        port |= {f"features.{layer}.weight": random(outputs, inputs, 3, 3), f"features.{layer}.bias": random(outputs)}
    for layer, (inputs, outputs) in zip((0, 2, 4), ((6 * 4 * 8, hidden), (hidden, hidden), (hidden, 128)), strict=True):
        port |= {
            f"embeddings.{layer}.weight": random(outputs, inputs, scale=0.02),
            f"embeddings.{layer}.bias": random(outputs),
        }
    tensorflow: Arrays = {name: port[name] for name in ("pca_eigen_vectors", "pca_means")}
    for layer, name in zip(vggish.TORCH, vggish.TENSORFLOW, strict=True):
        tensorflow[f"vggish/{name}/weights"] = port[f"features.{layer}.weight"].transpose(2, 3, 1, 0)
        tensorflow[f"vggish/{name}/biases"] = port[f"features.{layer}.bias"]
    for layer, name in zip((0, 2, 4), vggish.TENSORFLOW_DENSE, strict=True):
        tensorflow[f"vggish/{name}/weights"] = port[f"embeddings.{layer}.weight"].T
        tensorflow[f"vggish/{name}/biases"] = port[f"embeddings.{layer}.bias"]
    pictures = torch.randn(3, 96, 64)
    for arrays in (port, tensorflow):
        network = loaded(vggish.VGGish(channels, hidden), vggish.convert(arrays))
        assert isinstance(network, vggish.VGGish)
        found = network.processed(network.embed(pictures))
        levels = (found + 2) * 255 / 4
        torch.testing.assert_close(levels, levels.round(), atol=1e-3, rtol=0)
        # A value on the edge of a level may fall to either side.
        assert (found - literal_vggish(pictures, port)).abs().max() <= 4 / 255 + 1e-4
        assert network(torch.randn(2, 40_000)).shape == (2, 2, 128)
