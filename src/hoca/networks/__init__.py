"""The networks of the backbones as plain modules, and the layouts in which their weights are published.

They know no file and no clip. Each is in a file of its own, imported when it is built: this one needs no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torch import nn

NETWORKS: dict[str, Callable[[], nn.Module]] = {}
MODULES: dict[str, str] = {}


def _network(name: str, module: str, kind: str, *arguments: object) -> None:
    def build() -> nn.Module:
        return getattr(import_module(f"{__name__}.{module}"), kind)(*arguments)

    NETWORKS[name] = build
    MODULES[name] = module


_network("dinov2-small", "dinov2", "DINOv2")
for _lite in (0, 1, 2):
    _network(f"efficientnet-lite{_lite}", "efficientnet", "EfficientNetLite", _lite)
_network("inception-resnet-v2", "inception_resnet", "InceptionResNetV2")
_network("i3d-kinetics-400", "i3d", "I3D")
_network("i3d-imagenet", "i3d", "I3D")
_network("soundnet-8", "soundnet", "SoundNet")
_network("vggish", "vggish", "VGGish")
_network("log-mel", "logmel", "LogMel")


def converted(name: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The state of a network from its published weights, whichever of their layouts this is."""
    return import_module(f"{__name__}.{MODULES[name]}").convert(arrays)


def shapes(name: str) -> dict[str, tuple[int, ...]]:
    """The names and shapes of a network's weights."""
    import torch

    with torch.device("meta"):
        return {key: tuple(value.shape) for key, value in NETWORKS[name]().state_dict().items()}
