"""Where to compute."""

from __future__ import annotations

import torch

from hoca.errors import UserError


def choose_device(name: str) -> torch.device:
    """`auto` is the GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UserError(f"device={name!r} is unknown: use auto, cpu or cuda") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"device={name!r} asks for a GPU and none is to be seen: use device=auto")
    return device
