"""Models of transformers that a user provides."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from hoca import features
from hoca.errors import UserError
from hoca.features.backbones.hugging_face import from_folder
from hoca.features.network import Network
from hoca.media import DecodedVideo

from .tiny_transformers import LOOK, PICTURE, SMALL, image, save, spectrogram, transformers, video, waveform


def clip(side: int = 32, frames: int = 40, pictures: int = 20) -> DecodedVideo:
    rng = np.random.default_rng(0)
    shown = rng.integers(0, 256, (pictures, side, side, 3), dtype=np.uint8)
    sound = rng.standard_normal(40_000).astype(np.float32) * 0.1
    return DecodedVideo({"image": shown, "motion": shown}, {}, frames, 2.5, sound, 16000)


def made(name: str, modality: str, decoded: DecodedVideo) -> np.ndarray:
    specification = {
        modality: features.specify(**{"image": None, "motion": None, "audio": None, modality: name})[modality]
    }
    extractor = features.Extractor(specification)
    values = extractor.features([decoded])[0].features[modality]
    assert values.shape[1] == specification[modality]["width"] == extractor.backbones[modality].width
    assert np.isfinite(values).all()
    return values


def test_a_vision_transformer_sees_normalised_pictures(tmp_path: Path) -> None:
    model = transformers.Dinov2Model(transformers.Dinov2Config(**SMALL, **PICTURE)).eval()
    decoded = clip()
    values = made(save(tmp_path, model, LOOK), "image", decoded)
    x = (torch.from_numpy(decoded.pictures["image"]).float() / 255 - torch.tensor([0.5, 0.4, 0.3])) / 0.2
    with torch.no_grad():
        expected = model(pixel_values=x.permute(0, 3, 1, 2)).pooler_output
    np.testing.assert_allclose(values, expected.numpy(), atol=1e-4)


def test_of_clip_the_seeing_half_is_used(tmp_path: Path) -> None:
    vision = transformers.CLIPVisionConfig(**(SMALL | {"hidden_size": 24}), **PICTURE)
    text = transformers.CLIPTextConfig(**SMALL, vocab_size=20, max_position_embeddings=8)
    config = transformers.CLIPConfig(vision_config=vision.to_dict(), text_config=text.to_dict(), projection_dim=8)
    assert made(save(tmp_path, transformers.CLIPModel(config), LOOK), "image", clip()).shape == (20, 24)


def test_a_convolutional_model_gives_its_pooled_vector(tmp_path: Path) -> None:
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 12], depths=[1, 1], layer_type="basic")
    assert made(save(tmp_path, transformers.ResNetModel(config), LOOK), "image", clip(side=64)).shape == (20, 12)


def test_a_video_model_gets_as_many_frames_as_it_takes(tmp_path: Path) -> None:
    name = video(tmp_path)
    backbone = from_folder(name)
    wanted = backbone.pictures({"steps": 20})
    assert wanted is not None
    assert wanted.transform is not None
    assert wanted.transform(np.zeros((50, 70, 3), np.uint8)).shape == (32, 32, 3)
    numbers = list(wanted.pick(100))  # type: ignore[operator]
    assert len(numbers) == 80
    assert min(numbers) >= 0
    assert max(numbers) < 100
    assert numbers[:4] == [8, 24, 40, 56]
    assert made(name, "motion", clip(pictures=80)).shape == (20, 16)


@pytest.mark.parametrize("model", [spectrogram, waveform])
def test_a_sound_model_gives_one_step_a_second(tmp_path: Path, model: Callable[[Path], str]) -> None:
    assert made(model(tmp_path), "audio", clip()).shape == (2, 16)


def test_what_is_wrong_with_a_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"config\.json cannot be read"):
        from_folder(f"hf:{tmp_path}")
    (tmp_path / "config.json").write_text('{"hidden_size": 4, "model_type": "vit"}')
    with pytest.raises(UserError, match="processor"):
        from_folder(f"hf:{tmp_path}")
    (tmp_path / "preprocessor_config.json").write_text("{}")
    with pytest.raises(UserError, match="safetensors"):
        from_folder(f"hf:{tmp_path}")
    (tmp_path / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(UserError, match="cannot be loaded"):
        Network.load(from_folder(f"hf:{tmp_path}"), None, torch.device("cpu"), "float32")


WITH_CODE = {  # which file asks for the folder's Python, and for what
    "model": ("config.json", {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}),
    "part of a model": ("config.json", {"AutoModel": "evil.Model"}),
    "image processor": ("preprocessor_config.json", {"AutoImageProcessor": "evil.Processor"}),
    "processor": ("processor_config.json", {"AutoProcessor": "evil.Processor"}),
    "feature extractor": ("preprocessor_config.json", {"AutoFeatureExtractor": "evil.Extractor"}),
    "feature extractor of a processor": ("processor_config.json", {"AutoFeatureExtractor": "evil.Extractor"}),
}


def with_code(folder: Path, kind: str) -> str:
    """A folder of a model whose Python leaves a mark; returns which network of hoca would load it."""
    sound = "feature extractor" in kind
    if sound:
        config = transformers.ASTConfig(**SMALL, patch_size=8, max_length=64, num_mel_bins=32)
        save(folder, transformers.ASTModel(config), transformers.ASTFeatureExtractor(num_mel_bins=32, max_length=64))
    else:
        save(folder, transformers.Dinov2Model(transformers.Dinov2Config(**SMALL, **PICTURE)), LOOK)
    (folder / "evil.py").write_text(f"open({str(folder / 'ran')!r}, 'w').close()\n")
    name, auto_map = WITH_CODE[kind]
    file = folder / name
    content = json.loads(file.read_text()) if file.exists() else {}
    content.pop("feature_extractor_type", None)
    if kind == "model":
        content["model_type"] = "evil"
    if kind == "part of a model":  # its type is known, but not as a model by itself: only the folder's code could be it
        part = {"model_type": "blip_vision_model", **SMALL, "auto_map": auto_map, "_name_or_path": str(folder)}
        content = {"model_type": "llava", "vision_config": part, "text_config": {"model_type": "llama", **SMALL}}
    elif kind == "feature extractor of a processor":
        content["feature_extractor"] = {"auto_map": auto_map}
    else:
        content["auto_map"] = auto_map
    file.write_text(json.dumps(content))
    return "Hearing" if sound else "Seeing"


def test_python_in_the_folder_never_runs_even_with_a_yes_on_standard_input(tmp_path: Path) -> None:
    networks = {kind: with_code(tmp_path / kind, kind) for kind in WITH_CODE}
    script = f"""
import contextlib, json
from pathlib import Path
from hoca.errors import UserError
from hoca.features.backbones import hugging_face, hugging_face_networks
for kind, network in {networks}.items():
    folder = Path({str(tmp_path)!r}) / kind
    try:
        hugging_face.from_folder(f"hf:{{folder}}").build()
    except UserError as error:
        print(error)
    if kind != "part of a model":  # what transformers is told must suffice by itself
        preparation = json.loads((folder / "preprocessor_config.json").read_text())
        with contextlib.suppress(UserError):
            getattr(hugging_face_networks, network)(folder, preparation)
"""
    environment = os.environ | {"HF_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-c", script], input="y\n" * 99, capture_output=True, text=True, env=environment, check=True
    )
    assert not list(tmp_path.glob("*/ran"))
    assert done.stdout.splitlines() == [
        f"{tmp_path / kind / name} asks for Python of its own (auto_map), which is never run: take that key out if "
        "transformers itself has this model, else choose another"
        for kind, (name, _) in WITH_CODE.items()
    ]


@pytest.mark.parametrize("named_by", ["index", "configuration"])
def test_pickled_weights_are_refused_whoever_names_them(tmp_path: Path, named_by: str) -> None:
    model = transformers.Dinov2Model(transformers.Dinov2Config(**SMALL, **PICTURE))
    name = save(tmp_path, model, LOOK)
    pickled = "adapter_model.bin"  # the one pickle that transformers takes from a configuration
    torch.save(model.state_dict(), tmp_path / pickled)
    if named_by == "index":
        (tmp_path / "model.safetensors").unlink()
        index = {"metadata": {}, "weight_map": dict.fromkeys(model.state_dict(), pickled)}
        (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    else:
        config = json.loads((tmp_path / "config.json").read_text())
        (tmp_path / "config.json").write_text(json.dumps(config | {"transformers_weights": pickled}))
    with pytest.raises(UserError, match=r"its weights are in 'adapter_model\.bin'.*save the model as safetensors"):
        Network.load(from_folder(name), None, torch.device("cpu"), "float32")


def test_weights_in_several_files_are_taken(tmp_path: Path) -> None:
    model = transformers.Dinov2Model(transformers.Dinov2Config(**SMALL, **PICTURE))
    model.save_pretrained(tmp_path, max_shard_size="5KB")
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(LOOK))
    assert not (tmp_path / "model.safetensors").exists()
    assert made(f"hf:{tmp_path}", "image", clip()).shape == (20, 16)


def test_other_weights_than_the_features_were_made_with_are_noticed(tmp_path: Path) -> None:
    specification = features.specify(image=image(tmp_path), motion=None, audio=None)
    image(tmp_path)
    with pytest.raises(UserError, match="changed since"):
        features.Extractor(specification)
